//! Whether a task came from another agent, as its new holder is told: from whom, by whose word, why,
//! and what it has to look at first.

use relight_core::agent::{Attempt, AttemptTag};
use relight_core::decide::STARTED_WITHOUT_AGENT;
use relight_core::event::{Event, EventKind};
use relight_core::ids::{AgentName, TaskId};
use relight_core::lease::Holder;
use relight_core::recovery::Decision;
use relight_core::status::TaskStatus;
use relight_core::step::{Step, StepState};
use relight_core::task::Task;
use relight_store::{EventQuery, Store, StoreError};
use serde::Serialize;
use serde_json::Value;

/// Most events of a task that are looked at.
const EVENTS_MAX: usize = 200;
/// Most holds of a task that are looked through for an attempt.
const HOLDS_MAX: usize = 20;

/// A task that another agent worked on before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct HandedOver {
    /// The agent that had it, else the holder in words.
    pub from: String,
    /// What handed it over: `strategy NAME`, `a claim by AGENT` or `a person`.
    pub by: String,
    /// The reason that was given when the earlier hold ended.
    pub reason: Option<String>,
    /// Steps that were begun and may or may not have happened.
    pub in_doubt: Vec<String>,
    /// Steps that failed.
    pub failed: Vec<String>,
}

impl HandedOver {
    /// In one line.
    pub fn text(&self) -> String {
        let mut text = format!("handed over from {} by {}", self.from, self.by);
        for (what, words) in [("in doubt", &self.in_doubt), ("failed", &self.failed)] {
            if !words.is_empty() {
                text += &format!("; {what}: {}", words.join(", "));
            }
        }
        if let Some(reason) = &self.reason {
            text += &format!("; {reason}");
        }
        text
    }
}

/// One hold of a task.
struct Hold {
    holder: Option<Holder>,
    /// The agent that it was taken for.
    agent: Option<String>,
}

impl Hold {
    fn agent(&self) -> Option<&str> {
        self.agent.as_deref()
    }

    fn text(&self) -> String {
        match (&self.agent, &self.holder) {
            (Some(agent), _) => agent.clone(),
            (None, Some(holder)) => holder.to_string(),
            (None, None) => "somebody".to_owned(),
        }
    }
}

/// What the holder of the newest lease has to know of the one before; none when both are the same agent,
/// or there was none. `reason` is why the task stood where it did before it was taken.
pub(crate) async fn of(
    store: &dyn Store,
    task: &Task,
    steps: &[Step],
    reason: Option<String>,
) -> Result<Option<HandedOver>, StoreError> {
    let events = store.events(query(&task.id)).await?;
    let agent = task.agent.as_ref().map(ToString::to_string);
    let Some((before, by)) = find(&events, agent, task.pinned) else {
        return Ok(None);
    };
    let named = |state: StepState| {
        let steps = steps.iter().filter(move |step| step.state == state);
        steps.map(|step| step.key.to_string()).collect()
    };
    // A person who has it tried again clears the reason.
    let reason = match reason {
        None => reason_of_end(store, &task.id).await?,
        reason => reason,
    };
    Ok(Some(HandedOver {
        from: before.text(),
        by,
        reason,
        in_doubt: named(StepState::Begun),
        failed: named(StepState::Failed),
    }))
}

/// The reason that was given when the last hold ended.
async fn reason_of_end(store: &dyn Store, task: &TaskId) -> Result<Option<String>, StoreError> {
    let query = EventQuery {
        kinds: vec![EventKind::TaskStatus],
        limit: HOLDS_MAX,
        ..query(task)
    };
    let events = store.events(query).await?;
    let was_held = |event: &&Event| event.detail["from"] == TaskStatus::InProgress.as_str();
    let reason = events.iter().rfind(was_held);
    let reason = reason.and_then(|event| event.detail["reason"].as_str());
    Ok(reason.map(str::to_owned))
}

/// The attempt that worked on the task last, besides the live one of the agent that asks.
pub(crate) async fn last_attempt_at(
    store: &dyn Store,
    task: &TaskId,
    reader: Option<&AgentName>,
) -> Result<Option<Attempt>, StoreError> {
    let query = EventQuery {
        kinds: vec![EventKind::LeaseTaken],
        limit: HOLDS_MAX,
        ..query(task)
    };
    for event in store.events(query).await?.iter().rev() {
        let Some(tag) = holder_of(event).as_ref().and_then(AttemptTag::of_holder) else {
            continue;
        };
        let found = store.attempt(&tag).await?;
        let is_reader =
            |attempt: &Attempt| attempt.ended.is_none() && Some(&attempt.agent) == reader;
        if let Some(attempt) = found.filter(|attempt| !is_reader(attempt)) {
            return Ok(Some(attempt));
        }
    }
    Ok(None)
}

fn holder_of(event: &Event) -> Option<Holder> {
    serde_json::from_value(event.detail["holder"].clone()).ok()
}

fn query(task: &TaskId) -> EventQuery {
    EventQuery {
        after: 0,
        before: None,
        task: Some(task.clone()),
        agent: None,
        kinds: vec![
            EventKind::TaskCreated,
            EventKind::TaskAssigned,
            EventKind::TaskRecovery,
            EventKind::LeaseTaken,
            EventKind::FenceRaised,
        ],
        limit: EVENTS_MAX,
        newest: true,
    }
}

/// The hold before the newest one, and by whose word the task changed hands. `agent` is whose the task is
/// now; it is pinned to it unless that agent claimed it.
fn find(events: &[Event], agent: Option<String>, is_pinned: bool) -> Option<(Hold, String)> {
    let newest = events
        .iter()
        .rposition(|event| event.kind == EventKind::LeaseTaken)?;
    let earlier = &events[..newest];
    let before = earlier
        .iter()
        .rposition(|event| event.kind == EventKind::LeaseTaken)?;
    let own = hold(events, newest, agent);
    let last = hold(events, before, None);
    if own.agent() == last.agent() {
        return None;
    }
    let between = &earlier[before..];
    let decided = between
        .iter()
        .rfind(|event| event.kind == EventKind::TaskRecovery);
    let decided = decided.filter(|event| event.detail["outcome"] == reassign());
    let by = match (own.agent(), decided) {
        _ if is_assigned_by_hand(between) => "a person".to_owned(),
        (_, Some(event)) => format!(
            "strategy {}",
            event.detail["strategy"].as_str().unwrap_or("?")
        ),
        (Some(agent), None) if !is_pinned => format!("a claim by {agent}"),
        (_, None) => "a person".to_owned(),
    };
    Some((last, by))
}

/// Whether the agent that was named last was named by `task retry` or `recover`, which raise the fence in
/// the same commit.
fn is_assigned_by_hand(events: &[Event]) -> bool {
    let named = events
        .iter()
        .rfind(|event| event.kind == EventKind::TaskAssigned && event.detail["agent"].is_string());
    named.is_some_and(|named| {
        let mut raised = events
            .iter()
            .filter(|event| event.kind == EventKind::FenceRaised);
        raised.any(|event| event.at == named.at)
    })
}

fn reassign() -> &'static str {
    Decision::Reassign {
        keep_progress: true,
    }
    .as_str()
}

/// The hold that the lease at this place began. Its agent is the attempt's, else the one that the task
/// was given to last before; none where somebody without a name took it.
fn hold(events: &[Event], lease: usize, agent: Option<String>) -> Hold {
    let holder = holder_of(&events[lease]);
    let tag = holder.as_ref().and_then(AttemptTag::of_holder);
    let of_attempt = tag.and_then(|tag| tag.agent().map(str::to_owned));
    let is_unnamed = lease
        .checked_sub(1)
        .is_some_and(|before| events[before].detail[STARTED_WITHOUT_AGENT] == Value::Bool(true));
    if is_unnamed {
        return Hold {
            agent: None,
            holder,
        };
    }
    let given = || {
        let given = events[..lease]
            .iter()
            .rev()
            .find_map(|event| match event.kind {
                EventKind::TaskCreated | EventKind::TaskAssigned => event.detail.get("agent"),
                _ => None,
            });
        given.and_then(Value::as_str).map(str::to_owned)
    };
    Hold {
        agent: of_attempt.or(agent).or_else(given),
        holder,
    }
}

#[cfg(test)]
mod tests {
    use relight_core::time::Time;
    use serde_json::json;

    use super::*;

    fn event(kind: EventKind, detail: Value) -> Event {
        let at = Time::from_ms(0);
        Event {
            id: 1,
            at,
            kind,
            agent: None,
            task: None,
            step: None,
            fence: None,
            detail,
        }
    }

    fn assigned(agent: &str) -> Event {
        event(EventKind::TaskAssigned, json!({"agent": agent}))
    }

    fn taken_for_a_time() -> Event {
        event(
            EventKind::LeaseTaken,
            json!({"holder": {"kind": "time", "by": "ann"}}),
        )
    }

    fn taken_by(attempt: &str) -> Event {
        let shim = json!({"pid": 1, "start": 1, "boot": "b"});
        let holder = json!({"kind": "attempt", "attempt": attempt, "shim": shim});
        event(EventKind::LeaseTaken, json!({"holder": holder}))
    }

    fn told(events: &[Event], agent: Option<&str>) -> Option<String> {
        told_of(events, agent, true)
    }

    fn told_of(events: &[Event], agent: Option<&str>, is_pinned: bool) -> Option<String> {
        let (before, by) = find(events, agent.map(str::to_owned), is_pinned)?;
        Some(format!("{} by {by}", before.text()))
    }

    #[test]
    fn another_agent_is_told_from_whom_and_by_whom() {
        let recovery = event(
            EventKind::TaskRecovery,
            json!({"strategy": "resume", "outcome": "reassign"}),
        );
        let claimed = [
            assigned("a"),
            taken_for_a_time(),
            recovery.clone(),
            assigned("b"),
            taken_for_a_time(),
        ];
        assert_eq!(told(&claimed, Some("b")).unwrap(), "a by strategy resume");
        let by_hand = [taken_by("a.1.x"), assigned("b"), taken_by("b.4.y")];
        assert_eq!(told(&by_hand, Some("b")).unwrap(), "a by a person");
        let from_nobody = [
            taken_for_a_time(),
            recovery,
            assigned("b"),
            taken_by("b.4.y"),
        ];
        assert_eq!(
            told(&from_nobody, Some("b")).unwrap(),
            "ann by strategy resume"
        );
    }

    #[test]
    fn a_claim_and_a_person_are_told_apart() {
        let claimed = [taken_for_a_time(), assigned("b"), taken_for_a_time()];
        let told = |events: &[Event]| told_of(events, Some("b"), false).unwrap();
        assert_eq!(told(&claimed), "ann by a claim by b");
        let reassigned = event(
            EventKind::TaskRecovery,
            json!({"strategy": "resume", "outcome": "reassign"}),
        );
        let raised = event(EventKind::FenceRaised, Value::Null);
        let given = [
            taken_for_a_time(),
            reassigned,
            raised,
            assigned("b"),
            taken_for_a_time(),
        ];
        assert_eq!(told(&given), "ann by a person");
    }

    #[test]
    fn who_goes_on_with_its_own_task_is_told_nothing() {
        assert_eq!(
            told(&[taken_by("a.1.x"), taken_by("a.2.y")], Some("a")),
            None
        );
        assert_eq!(told(&[taken_for_a_time()], None), None);
        assert_eq!(told(&[taken_for_a_time(), taken_for_a_time()], None), None);
    }
}
