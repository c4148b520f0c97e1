//! Alert messages and their formats.

use relight_core::alert::{Alert, AlertKind, Subject};
use relight_core::time::Time;
use serde_json::{Value, json};

/// Maximum number of items listed in a group.
const ITEMS_MAX: usize = 20;
/// Maximum length of a text.
const TEXT_CHARS_MAX: usize = 1_000;
/// Maximum size of an alert's facts.
const MORE_BYTES_MAX: usize = 4 << 10;

/// One alert, or many of one kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// Stable across retries.
    pub id: String,
    /// The store that it comes from.
    pub store_id: String,
    /// What happened.
    pub kind: AlertKind,
    /// When the newest of it happened.
    pub at: Time,
    /// In one sentence.
    pub text: String,
    /// What to type next.
    pub hint: Option<String>,
    /// Number of alerts in it.
    pub count: usize,
    /// The first of them, oldest first.
    pub items: Vec<Item>,
}

/// One alert of a message.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// The event's id in the journal; 0 if it is not in the journal.
    pub event: u64,
    /// When it happened.
    pub at: Time,
    /// What it says.
    pub alert: Alert,
}

impl Message {
    /// Builds a message from at least one alert of one kind, oldest first.
    pub(super) fn of(store_id: &str, items: Vec<Item>) -> Self {
        let events = items.iter().map(|item| item.event.to_le_bytes());
        let id = id_of(store_id, events.flatten().collect::<Vec<u8>>().as_slice());
        let (first, last) = (&items[0], &items[items.len() - 1]);
        let (kind, at, count) = (first.alert.kind, last.at, items.len());
        let (text, hint) = match count {
            1 => (
                shortened(&first.alert.text),
                first.alert.hint.as_deref().map(shortened),
            ),
            _ => (summary(kind, &items), hint_for_many(kind)),
        };
        let items = items.into_iter().take(ITEMS_MAX).collect();
        Self {
            id,
            store_id: store_id.to_owned(),
            kind,
            at,
            text,
            hint,
            count,
            items,
        }
    }

    /// A test message, which is not in the journal.
    pub(super) fn of_test(store_id: &str, alert: &Alert, at: Time, chance: [u8; 16]) -> Self {
        let item = Item {
            event: 0,
            at,
            alert: alert.clone(),
        };
        Self {
            id: id_of(store_id, &chance),
            ..Self::of(store_id, vec![item])
        }
    }

    /// Its subject; none for several.
    pub fn subject(&self) -> Option<&Subject> {
        (self.count == 1).then(|| &self.items[0].alert.subject)
    }

    /// The sentence and what to type next, on one line.
    pub fn line(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{}; {hint}", self.text),
            None => self.text.clone(),
        }
    }

    /// What a command gets on its standard input.
    pub fn for_command(&self) -> Value {
        let (agent, task) = match self.subject() {
            Some(Subject::Agent(name)) => (Some(name.as_str()), None),
            Some(Subject::Task(id)) => (None, Some(id.as_str())),
            Some(Subject::Session(_) | Subject::Store) | None => (None, None),
        };
        json!({
            "kind": "alert",
            "at": self.at,
            "agent": agent,
            "task": task,
            "text": self.line(),
            "alert": self.kind.as_str(),
            "subject": self.subject().map(ToString::to_string),
            "id": self.id,
            "hint": self.hint,
            "count": self.count,
            "items": self.items_json(),
        })
    }

    /// A CloudEvents 1.0 event in its JSON form.
    pub fn cloud_event(&self) -> Value {
        let mut event = json!({
            "specversion": "1.0",
            "id": self.id,
            "source": format!("/relight/{}", self.store_id),
            "type": format!("relight.alert.{}", self.kind),
            "time": self.at,
            "datacontenttype": "application/json",
            "data": {
                "alert": self.kind.as_str(),
                "text": self.text,
                "hint": self.hint,
                "count": self.count,
                "items": self.items_json(),
            },
        });
        // The specification requires absent attributes to be left out.
        if let Some(subject) = self.subject() {
            event["subject"] = json!(subject.to_string());
        }
        event
    }

    fn items_json(&self) -> Vec<Value> {
        let one = |item: &Item| {
            json!({
                "event": item.event,
                "at": item.at,
                "subject": item.alert.subject.to_string(),
                "text": shortened(&item.alert.text),
                "hint": item.alert.hint.as_deref().map(shortened),
                "more": bounded(&item.alert.more),
            })
        };
        self.items.iter().map(one).collect()
    }
}

fn id_of(store_id: &str, what: &[u8]) -> String {
    let mut hash = blake3::Hasher::new();
    hash.update(store_id.as_bytes()).update(&[0]).update(what);
    format!("msg_{}", &hash.finalize().to_hex()[..26])
}

fn summary(kind: AlertKind, items: &[Item]) -> String {
    let count = items.len();
    let what = match items[0].alert.subject {
        Subject::Agent(_) => "agents are",
        Subject::Task(_) => "tasks are",
        Subject::Session(_) => "sessions are",
        Subject::Store => "alerts:",
    };
    let is_mixed = items.iter().any(|item| what_of(item) != what_of(&items[0]));
    let what = if is_mixed { "alerts:" } else { what };
    let how = match kind {
        AlertKind::GivenUp => "given up",
        AlertKind::Blocked => "blocked by a step in doubt",
        AlertKind::BootLoop => "a boot loop",
        AlertKind::Terminated
        | AlertKind::Parked
        | AlertKind::Suspended
        | AlertKind::Silent
        | AlertKind::Stale
        | AlertKind::Undelivered
        | AlertKind::Test => kind.as_str(),
    };
    let name = |item: &Item| match &item.alert.subject {
        Subject::Agent(name) => name.to_string(),
        Subject::Task(id) => id.to_string(),
        Subject::Session(key) => key.clone(),
        Subject::Store => "store".to_owned(),
    };
    let first: Vec<String> = items.iter().take(5).map(name).collect();
    let and_more = if count > first.len() { ", …" } else { "" };
    shortened(&format!(
        "{count} {what} {how}: {}{and_more}",
        first.join(", ")
    ))
}

fn what_of(item: &Item) -> std::mem::Discriminant<Subject> {
    std::mem::discriminant(&item.alert.subject)
}

fn hint_for_many(kind: AlertKind) -> Option<String> {
    let hint = match kind {
        AlertKind::Terminated | AlertKind::Silent => "relight ps shows them",
        AlertKind::GivenUp => "relight task list --status failed shows them",
        AlertKind::Parked | AlertKind::Blocked => "relight task list --status blocked shows them",
        AlertKind::Suspended => "relight recover --dry-run shows what waits",
        AlertKind::Stale => "relight check shows them",
        AlertKind::BootLoop | AlertKind::Undelivered | AlertKind::Test => return None,
    };
    Some(hint.to_owned())
}

/// Facts that are too large are left out; they are in the journal.
fn bounded(more: &Value) -> &Value {
    if more.to_string().len() <= MORE_BYTES_MAX {
        more
    } else {
        &Value::Null
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(TEXT_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use relight_core::ids::AgentName;

    use super::*;

    fn item(event: u64) -> Item {
        let name = AgentName::new(format!("a{event}")).unwrap();
        let alert =
            Alert::agent_terminated(&name, &format!("relight start {name}"), "recovered 3 times");
        Item {
            event,
            at: Time::from_ms(0),
            alert,
        }
    }

    #[test]
    fn the_same_events_make_the_same_id_and_others_another() {
        let message = |store, events: &[u64]| {
            Message::of(store, events.iter().map(|n| item(*n)).collect()).id
        };
        assert_eq!(message("s", &[1, 2]), message("s", &[1, 2]));
        assert_ne!(message("s", &[1, 2]), message("s", &[1, 3]));
        assert_ne!(message("s", &[1]), message("other", &[1]));
    }

    #[test]
    fn one_alert_as_a_cloud_event() {
        let message = Message::of("5f0c", vec![item(7)]);
        insta::assert_snapshot!(serde_json::to_string_pretty(&message.cloud_event()).unwrap(), @r#"
        {
          "specversion": "1.0",
          "id": "msg_5a0fb340cc666229352f45456d",
          "source": "/relight/5f0c",
          "type": "relight.alert.terminated",
          "time": "1970-01-01T00:00:00Z",
          "datacontenttype": "application/json",
          "data": {
            "alert": "terminated",
            "text": "agent a7 is terminated: recovered 3 times",
            "hint": "relight deaths a7 says how it died, then relight start a7",
            "count": 1,
            "items": [
              {
                "event": 7,
                "at": "1970-01-01T00:00:00Z",
                "subject": "agent/a7",
                "text": "agent a7 is terminated: recovered 3 times",
                "hint": "relight deaths a7 says how it died, then relight start a7",
                "more": {
                  "why": "recovered 3 times"
                }
              }
            ]
          },
          "subject": "agent/a7"
        }
        "#);
    }

    #[test]
    fn one_alert_for_a_command() {
        let message = Message::of("5f0c", vec![item(7)]);
        insta::assert_snapshot!(message.for_command(), @r#"{"kind":"alert","at":"1970-01-01T00:00:00Z","agent":"a7","task":null,"text":"agent a7 is terminated: recovered 3 times; relight deaths a7 says how it died, then relight start a7","alert":"terminated","subject":"agent/a7","id":"msg_5a0fb340cc666229352f45456d","hint":"relight deaths a7 says how it died, then relight start a7","count":1,"items":[{"event":7,"at":"1970-01-01T00:00:00Z","subject":"agent/a7","text":"agent a7 is terminated: recovered 3 times","hint":"relight deaths a7 says how it died, then relight start a7","more":{"why":"recovered 3 times"}}]}"#);
    }

    #[test]
    fn many_are_one_message_with_a_count_and_the_first_of_them() {
        let message = Message::of("s", (1..=100).map(item).collect());
        insta::assert_snapshot!(message.line(), @"100 agents are terminated: a1, a2, a3, a4, a5, …; relight ps shows them");
        let event = message.cloud_event();
        assert_eq!(
            (&event["data"]["count"], event.get("subject")),
            (&json!(100), None)
        );
        assert_eq!(event["data"]["items"].as_array().unwrap().len(), ITEMS_MAX);
    }
}
