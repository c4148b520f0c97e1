//! What somebody wants of an agent that another node has: asked in the store, done by whoever holds the
//! agent's lease, answered in the store.
//!
//! A wish is for one lease and ends with it: whoever takes the agent up next owes it nothing, so none is
//! done by a machine that comes back long after.

use serde::{Deserialize, Serialize};

use super::AgentStateKind;
use crate::ids::TaskId;

/// What is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RemoteVerb {
    /// That it runs.
    Start,
    /// That it ends, and stays so.
    Stop,
    /// A new attempt.
    Restart,
}

impl RemoteVerb {
    /// The word used everywhere.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Stop => "stop",
            Self::Restart => "restart",
        }
    }
}

/// What somebody wants of an agent, and what came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteCommand {
    /// Apart from all others.
    pub id: String,
    /// What is wanted.
    pub verb: RemoteVerb,
    /// Who asked, for people to read.
    pub by: String,
    /// How far it is.
    #[serde(flatten)]
    pub progress: RemoteCommandProgress,
}

/// How far a wish is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "progress", rename_all = "snake_case")]
pub enum RemoteCommandProgress {
    /// Nobody has begun it; it can be withdrawn.
    Asked,
    /// It is being done, once.
    Taken,
    /// It was done, or could not be.
    Answered(RemoteCommandOutcome),
    /// Whoever asked does not want it any more; nothing was done.
    Withdrawn,
}

/// What came of a wish.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteCommandOutcome {
    /// The state before.
    #[serde(rename = "previous_state")]
    pub previous: AgentStateKind,
    /// The state now.
    #[serde(rename = "state")]
    pub now: AgentStateKind,
    /// A task that was taken from the agent by this.
    pub task_cancelled: Option<TaskId>,
    /// What stands in the way, when it did not come to what was wanted.
    pub problem: Option<String>,
}

impl RemoteCommand {
    /// The same, further on.
    pub fn at(self, progress: RemoteCommandProgress) -> Self {
        Self { progress, ..self }
    }

    /// Whether somebody still waits for what comes of it.
    pub fn is_open(&self) -> bool {
        match self.progress {
            RemoteCommandProgress::Asked | RemoteCommandProgress::Taken => true,
            RemoteCommandProgress::Answered(_) | RemoteCommandProgress::Withdrawn => false,
        }
    }
}

impl RemoteCommandProgress {
    /// The word used everywhere.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Asked => "asked",
            Self::Taken => "taken",
            Self::Answered(_) => "answered",
            Self::Withdrawn => "withdrawn",
        }
    }
}
