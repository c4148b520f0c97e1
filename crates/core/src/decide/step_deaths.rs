//! Parks steps that kill their supervisor, after the second time.
//!
//! A resumed step may be what crashed the machine. The count is kept in the task's events, so it
//! survives the crash.

use serde_json::json;

use crate::alert::Alert;
use crate::decide::TaskEvent;
use crate::event::{Event, EventKind};
use crate::ids::TaskId;
use crate::step::StepKey;

/// Number of deaths in a row that park a step.
pub const STEP_DEATHS_MAX: u32 = 2;

/// What happens to a step that died together with its supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepFate {
    /// It follows its repeat rule.
    GoesOn,
    /// It waits for a person.
    Parked,
}

/// Decides by the number of such deaths, including this one, since it was last ended or resolved.
pub fn died_with_supervisor(times: u32) -> StepFate {
    if times >= STEP_DEATHS_MAX {
        StepFate::Parked
    } else {
        StepFate::GoesOn
    }
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

/// Records that a step in doubt died with its supervisor again. `events` are the task's events of
/// these kinds, oldest first. The result belongs in the commit that takes the task from its dead
/// holder.
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
                TaskEvent::Block {
                    reason,
                    is_told: true,
                },
            ]
        }
    }
}

/// Number of such deaths since it was last ended or resolved.
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
    let noted = event
        .detail
        .get("died_with_supervisor")
        .and_then(|_| event.detail.get("step"));
    noted.is_some_and(|noted| *noted == json!(step))
}
