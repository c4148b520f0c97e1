//! Events of the journal.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ids::{AgentName, TaskId};
use crate::lease::Fence;
use crate::step::StepKey;
use crate::time::Time;

/// Kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventKind {
    /// A step was begun.
    StepBegun,
    /// A step was finished.
    StepDone,
    /// A try of a step failed.
    StepFailed,
    /// A person resolved a step in doubt.
    StepResolved,
    /// All steps were cleared to start over.
    StepsCleared,
    /// A task was added.
    TaskCreated,
    /// A task's status changed.
    TaskStatus,
    /// A task was assigned to an agent.
    TaskAssigned,
    /// A lease was taken.
    LeaseTaken,
    /// A lease ended.
    LeaseEnded,
    /// A person fenced off the holder.
    FenceRaised,
    /// Context was set.
    TaskContext,
    /// A task's specification changed.
    TaskChanged,
    /// A damaged file was quarantined.
    CheckpointDamaged,
    /// A file of another store was imported.
    CheckpointImported,
    /// A finished or expired task was removed with all its records.
    TaskForgotten,
    /// An agent was seen for the first time.
    AgentCreated,
    /// An agent's plan changed.
    AgentChanged,
    /// An agent's state changed.
    AgentState,
    /// Usage of an agent's budgets changed.
    AgentBudget,
    /// An attempt was begun.
    AttemptBegun,
    /// An attempt's process was started.
    AttemptStarted,
    /// An attempt ended.
    AttemptDied,
    /// An agent's own session got an id.
    AgentSession,
    /// A round of a loop is over.
    AgentIteration,
    /// A supervisor acquired an agent.
    AgentTaken,
    /// A supervisor released an agent.
    AgentLeft,
    /// An alert.
    Alert,
    /// A step was parked because it died with its supervisor repeatedly.
    StepParked,
    /// Orphaned work was recovered.
    Recovered,
    /// A boot loop was detected.
    BootLoop,
    /// A strategy decided about a task.
    TaskRecovery,
    /// Usage of a task's budgets changed.
    TaskBudget,
    /// A turn of a session was begun.
    SessionBegun,
    /// A turn of a session ended.
    SessionEnded,
    /// A session's state changed in another way.
    SessionState,
    /// A drain began or ended.
    Drain,
    /// The daemon refused access.
    Audit,
    /// A node joined a fleet, left it or was drained.
    Node,
    /// A command from another node, or its outcome.
    AgentWish,
    /// A step was skipped.
    StepSkipped,
    /// An event that this version cannot read, because a newer one wrote it or it is damaged. Never
    /// written or queried; it keeps its position, so that readers can continue after it.
    Unknown,
}

impl EventKind {
    /// All kinds; their order defines the numbers and never changes.
    pub const ALL: [Self; 41] = [
        Self::StepBegun,
        Self::StepDone,
        Self::StepFailed,
        Self::StepResolved,
        Self::StepsCleared,
        Self::TaskCreated,
        Self::TaskStatus,
        Self::TaskAssigned,
        Self::LeaseTaken,
        Self::LeaseEnded,
        Self::FenceRaised,
        Self::TaskContext,
        Self::TaskChanged,
        Self::CheckpointDamaged,
        Self::CheckpointImported,
        Self::TaskForgotten,
        Self::AgentCreated,
        Self::AgentChanged,
        Self::AgentState,
        Self::AgentBudget,
        Self::AttemptBegun,
        Self::AttemptStarted,
        Self::AttemptDied,
        Self::AgentSession,
        Self::AgentIteration,
        Self::AgentTaken,
        Self::AgentLeft,
        Self::Alert,
        Self::StepParked,
        Self::Recovered,
        Self::BootLoop,
        Self::TaskRecovery,
        Self::TaskBudget,
        Self::SessionBegun,
        Self::SessionEnded,
        Self::SessionState,
        Self::Drain,
        Self::Audit,
        Self::Node,
        Self::AgentWish,
        Self::StepSkipped,
    ];

    /// Its name in JSON and output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::StepBegun => "step.begun",
            Self::StepDone => "step.done",
            Self::StepFailed => "step.failed",
            Self::StepResolved => "step.resolved",
            Self::StepsCleared => "step.cleared",
            Self::TaskCreated => "task.created",
            Self::TaskStatus => "task.status",
            Self::TaskAssigned => "task.assigned",
            Self::LeaseTaken => "lease.taken",
            Self::LeaseEnded => "lease.ended",
            Self::FenceRaised => "fence.raised",
            Self::TaskContext => "task.context",
            Self::TaskChanged => "task.changed",
            Self::CheckpointDamaged => "checkpoint.damaged",
            Self::CheckpointImported => "checkpoint.imported",
            Self::TaskForgotten => "task.forgotten",
            Self::AgentCreated => "agent.created",
            Self::AgentChanged => "agent.changed",
            Self::AgentState => "agent.state",
            Self::AgentBudget => "agent.budget",
            Self::AttemptBegun => "attempt.begun",
            Self::AttemptStarted => "attempt.started",
            Self::AttemptDied => "attempt.died",
            Self::AgentSession => "agent.session",
            Self::AgentIteration => "agent.iteration",
            Self::AgentTaken => "agent.taken",
            Self::AgentLeft => "agent.left",
            Self::Alert => "alert",
            Self::StepParked => "step.parked",
            Self::Recovered => "recovered",
            Self::BootLoop => "boot.loop",
            Self::TaskRecovery => "task.recovery",
            Self::TaskBudget => "task.budget",
            Self::SessionBegun => "session.begun",
            Self::SessionEnded => "session.ended",
            Self::SessionState => "session.state",
            Self::Drain => "drain",
            Self::Audit => "audit",
            Self::Node => "node",
            Self::AgentWish => "agent.wish",
            Self::StepSkipped => "step.skipped",
            Self::Unknown => "unknown",
        }
    }

    /// A small number for stores; never reused.
    pub fn code(self) -> u8 {
        Self::ALL
            .iter()
            .position(|kind| *kind == self)
            .map_or(0, |at| at as u8 + 1)
    }

    /// The kind with this number.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code).checked_sub(1)?).copied()
    }

    /// Whether it belongs to the records of steps, which stay as long as their task.
    pub fn is_of_steps(self) -> bool {
        matches!(
            self,
            Self::StepBegun
                | Self::StepDone
                | Self::StepFailed
                | Self::StepResolved
                | Self::StepSkipped
                | Self::StepsCleared
        )
    }
}

impl Serialize for EventKind {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for EventKind {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let word = String::deserialize(from)?;
        word.parse().map_err(serde::de::Error::custom)
    }
}

/// Not a kind of event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no kind of event; known are {words}", words = EventKind::ALL.map(EventKind::as_str).join(", "))]
pub struct UnknownKind(String);

impl FromStr for EventKind {
    type Err = UnknownKind;
    fn from_str(text: &str) -> Result<Self, UnknownKind> {
        let found = Self::ALL.into_iter().find(|kind| kind.as_str() == text);
        found.ok_or_else(|| UnknownKind(text.to_owned()))
    }
}

/// An event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Its id; grows and is never reused.
    pub id: u64,
    /// Time, by the wall clock.
    pub at: Time,
    /// Its kind.
    #[serde(deserialize_with = "any_kind")]
    pub kind: EventKind,
    /// Its agent.
    pub agent: Option<AgentName>,
    /// Its task.
    pub task: Option<TaskId>,
    /// Its step.
    pub step: Option<StepKey>,
    /// The fence of the writer; none for an unfenced write.
    pub fence: Option<Fence>,
    /// Details, depending on the kind.
    pub detail: Value,
}

impl Event {
    /// A placeholder for an unreadable event.
    pub fn unreadable(id: u64, at: Time, why: &impl std::fmt::Display) -> Self {
        let detail = serde_json::json!({"unreadable": why.to_string()});
        let (agent, task, step, fence) = (None, None, None, None);
        Self {
            id,
            at,
            kind: EventKind::Unknown,
            agent,
            task,
            step,
            fence,
            detail,
        }
    }

    /// A time of its detail, such as `died_at`; the time of the event if missing.
    pub fn moment(&self, name: &str) -> Time {
        let told = self.detail[name]
            .as_str()
            .and_then(|at| at.parse::<Time>().ok());
        told.map_or(self.at, |at| at.min(self.at))
    }
}

/// Accepts kinds of newer versions as `Unknown`.
fn any_kind<'de, D: serde::Deserializer<'de>>(from: D) -> Result<EventKind, D::Error> {
    let word = String::deserialize(from)?;
    Ok(word.parse().unwrap_or(EventKind::Unknown))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_of_a_kind_that_is_not_known_can_be_read_and_not_be_asked_for() {
        let event = Event::unreadable(1, Time::from_ms(0), &"a test");
        let mut told = serde_json::to_value(event).unwrap();
        told["kind"] = "new.kind".into();
        let event: Event = serde_json::from_value(told).unwrap();
        assert_eq!((event.id, event.kind), (1, EventKind::Unknown));
        assert!(serde_json::from_value::<EventKind>("unknown".into()).is_err());
        assert_eq!(EventKind::from_code(EventKind::Unknown.code()), None);
    }

    #[test]
    fn kinds_words_and_numbers_go_both_ways_and_never_move() {
        for kind in EventKind::ALL {
            assert_eq!(EventKind::from_code(kind.code()), Some(kind));
            let word = serde_json::to_value(kind).unwrap();
            assert_eq!(serde_json::from_value::<EventKind>(word).unwrap(), kind);
        }
        assert_eq!(EventKind::StepBegun.code(), 1);
        assert_eq!(EventKind::TaskForgotten.code(), 16);
        assert_eq!(EventKind::BootLoop.code(), 31);
        assert_eq!(EventKind::TaskBudget.code(), 33);
        assert_eq!(EventKind::Drain.code(), 37);
        assert_eq!(EventKind::Audit.code(), 38);
        assert_eq!(EventKind::Node.code(), 39);
        assert_eq!(EventKind::StepSkipped.code(), 41);
    }
}
