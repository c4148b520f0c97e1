//! One alert per episode: an alert is repeated only after its subject has left that state.
//!
//! Read from the journal, so that it survives restarts: before a repeat there is the first alert, and
//! nothing between them that ends the episode. For a task that is a status in which it is worked on or
//! over, for an agent its next attempt, for a stale task anything at all. Alerts of sessions and of the
//! store are written at the change itself and are never repeats.

use relight_core::alert::{Alert, AlertKind, Subject};
use relight_core::event::{Event, EventKind};
use relight_core::status::TaskStatus;
use relight_store::{EventQuery, Store, StoreError};

/// Number of events examined per subject.
const EVENTS_MAX: usize = 64;

/// Whether an earlier alert after `since` belongs to the same episode.
pub(super) async fn is_repeat(
    store: &dyn Store,
    event: u64,
    alert: &Alert,
    since: u64,
) -> Result<bool, StoreError> {
    let Some(query) = history_of(alert, since) else {
        return Ok(false);
    };
    let history = store.events(query).await?;
    Ok(repeats(&history, event, alert))
}

/// Whether the journal already has an alert for the current episode.
pub(super) async fn is_told(store: &dyn Store, alert: &Alert) -> Result<bool, StoreError> {
    is_repeat(store, u64::MAX, alert, 0).await
}

fn history_of(alert: &Alert, since: u64) -> Option<EventQuery> {
    let mut query = EventQuery {
        after: since,
        before: None,
        task: None,
        agent: None,
        kinds: vec![EventKind::Alert],
        limit: EVENTS_MAX,
        newest: true,
    };
    match &alert.subject {
        Subject::Task(_) if alert.kind == AlertKind::Stale => query.kinds = Vec::new(),
        Subject::Task(_) => query.kinds.push(EventKind::TaskStatus),
        Subject::Agent(_) => query.kinds.push(EventKind::AttemptBegun),
        Subject::Session(_) | Subject::Store => return None,
    }
    match &alert.subject {
        Subject::Task(id) => query.task = Some(id.clone()),
        Subject::Agent(name) => query.agent = Some(name.clone()),
        Subject::Session(_) | Subject::Store => {}
    }
    Some(query)
}

/// `history` contains the subject's events, oldest first.
fn repeats(history: &[Event], before: u64, alert: &Alert) -> bool {
    for event in history.iter().rev().filter(|event| event.id < before) {
        if event.kind == EventKind::Alert {
            let is_same = Alert::from_detail(&event.detail)
                .is_some_and(|told| told.kind == alert.kind && told.subject == alert.subject);
            if is_same {
                return true;
            }
        } else if ends_episode(event, alert.kind) {
            return false;
        }
    }
    false
}

fn ends_episode(event: &Event, kind: AlertKind) -> bool {
    if kind == AlertKind::Stale || event.kind == EventKind::AttemptBegun {
        return true;
    }
    let to = event.detail["to"]
        .as_str()
        .and_then(|word| word.parse().ok());
    event.kind == EventKind::TaskStatus && to.is_some_and(is_worked_on_or_over)
}

fn is_worked_on_or_over(status: TaskStatus) -> bool {
    match status {
        TaskStatus::Created
        | TaskStatus::Assigned
        | TaskStatus::InProgress
        | TaskStatus::InReview
        | TaskStatus::Completed
        | TaskStatus::Cancelled => true,
        TaskStatus::Blocked
        | TaskStatus::Deferred
        | TaskStatus::Interrupted
        | TaskStatus::Suspended
        | TaskStatus::Failed => false,
    }
}

#[cfg(test)]
mod tests {
    use relight_core::ids::TaskId;
    use relight_core::time::Time;
    use serde_json::{Value, json};

    use super::*;

    fn event(id: u64, kind: EventKind, detail: Value) -> Event {
        let at = Time::from_ms(0);
        Event {
            id,
            at,
            kind,
            agent: None,
            task: None,
            step: None,
            fence: None,
            detail,
        }
    }

    /// A word an event: a status, or the kind of an alert. Whether the last one is a repeat.
    fn last_repeats(story: &str) -> bool {
        let task = Subject::Task(TaskId::new("t").unwrap());
        let mut last = None;
        let history: Vec<Event> = (1..)
            .zip(story.split(' '))
            .map(
                |(id, word)| match AlertKind::from_word(word.trim_start_matches('!')) {
                    Some(kind) if word.starts_with('!') => {
                        let alert = Alert::new(kind, task.clone(), "x");
                        last = Some((id, alert.clone()));
                        event(id, EventKind::Alert, alert.detail())
                    }
                    _ => event(id, EventKind::TaskStatus, json!({"to": word})),
                },
            )
            .collect();
        let (id, alert) = last.expect("the story ends with an alert");
        repeats(&history, id, &alert)
    }

    #[test]
    fn an_alert_is_repeated_only_after_its_subject_has_left_the_state() {
        for (story, repeats) in [
            ("!blocked", false),
            ("blocked !blocked !blocked", true),
            ("!blocked blocked !blocked", true),
            ("blocked !blocked assigned blocked !blocked", false),
            ("blocked !blocked !parked", false),
            ("blocked !blocked !parked !blocked", true),
            ("failed !given_up interrupted !given_up", true),
            (
                "failed !given_up assigned in_progress failed !given_up",
                false,
            ),
            ("!stale !stale", true),
            ("!stale blocked !stale", false),
        ] {
            assert_eq!(last_repeats(story), repeats, "{story}");
        }
    }
}
