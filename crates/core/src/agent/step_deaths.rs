//! Steps that take their supervisor down with them: parked after the second time.
//!
//! The resumed step can be the killer. How often it was is told by the events of its task, so it
//! survives what it killed.

use serde_json::json;

use crate::alert::Alert;
use crate::decide::TaskEvent;
use crate::event::{Event, EventKind};
use crate::ids::TaskId;
use crate::step::StepKey;

/// So many deaths in a row park a step.
pub const STEP_DEATHS_MAX: u32 = 2;

/// What becomes of a step that died together with its supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepFate {
    /// It follows its repeat rule.
    GoesOn,
    /// It waits for a person.
    Parked,
}

/// Decides by how often it did so, this time counted, since it was last ended or resolved.
pub fn died_with_supervisor(times: u32) -> StepFate {
    if times >= STEP_DEATHS_MAX { StepFate::Parked } else { StepFate::GoesOn }
}

/// The kinds of events that are needed to count.
pub const EVENT_KINDS: [EventKind; 6] = [
    EventKind::Recovered,
    EventKind::StepParked,
    EventKind::StepDone,
    EventKind::StepFailed,
    EventKind::StepResolved,
    EventKind::StepsCleared,
];

/// A step in doubt died once more with its supervisor. `events` are the task's, of these kinds,
/// oldest first. What it comes to belongs into the commit that takes the task from its dead holder.
pub fn decide(task: &TaskId, events: &[Event], step: &StepKey) -> Vec<TaskEvent> {
    let times = count(events, step) + 1;
    let told = json!({"step": step, "died_with_supervisor": times});
    match died_with_supervisor(times) {
        StepFate::GoesOn => vec![TaskEvent::Note(EventKind::Recovered, told)],
        StepFate::Parked => {
            let reason =
                format!("step {step} died together with its supervisor {times} times in a row");
            let alert = Alert::step_parked(task, step, &reason);
            vec![
                TaskEvent::Note(EventKind::StepParked, told),
                TaskEvent::Note(EventKind::Alert, alert.detail()),
                TaskEvent::Block { reason, is_told: true },
            ]
        }
    }
}

/// How often it did so since it was last ended or resolved.
pub fn count(events: &[Event], step: &StepKey) -> u32 {
    let mut times = 0;
    for event in events {
        match event.kind {
            EventKind::StepsCleared => times = 0,
            EventKind::StepDone | EventKind::StepFailed | EventKind::StepResolved => {
                let is_this = event.step.as_ref() == Some(step);
                times = if is_this { 0 } else { times };
            }
            _ => times += u32::from(tells_of(event, step)),
        }
    }
    times
}

/// Whether the event was noted by `decide` about this step.
fn tells_of(event: &Event, step: &StepKey) -> bool {
    let noted = event.detail.get("died_with_supervisor").and_then(|_| event.detail.get("step"));
    noted.is_some_and(|noted| *noted == json!(step))
}
