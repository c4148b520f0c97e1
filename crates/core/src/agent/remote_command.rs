//! Commands for agents on other nodes: requested in the store, executed by the holder of the
//! agent's lease, answered in the store.
//!
//! A command is for one lease and ends with it. The next holder ignores it, so a machine that comes
//! back late does not execute old commands.

use serde::{Deserialize, Serialize};

use super::AgentStateKind;
use crate::ids::TaskId;

/// The command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RemoteVerb {
    /// Start it.
    Start,
    /// Stop it.
    Stop,
    /// Start a new attempt.
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

/// A command for an agent, and its outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteCommand {
    /// Its unique id.
    pub id: String,
    /// The command.
    pub verb: RemoteVerb,
    /// Who sent it, for display.
    pub by: String,
    /// Its progress.
    #[serde(flatten)]
    pub progress: RemoteCommandProgress,
}

/// Progress of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "progress", rename_all = "snake_case")]
pub enum RemoteCommandProgress {
    /// Not taken yet; it can be withdrawn.
    Asked,
    /// It is being executed.
    Taken,
    /// It was executed or failed.
    Answered(RemoteCommandOutcome),
    /// The sender withdrew it; nothing was done.
    Withdrawn,
}

/// Outcome of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteCommandOutcome {
    /// The state before.
    #[serde(rename = "previous_state")]
    pub previous: AgentStateKind,
    /// The state now.
    #[serde(rename = "state")]
    pub now: AgentStateKind,
    /// The task that was cancelled by this.
    pub task_cancelled: Option<TaskId>,
    /// Why the wanted state was not reached.
    pub problem: Option<String>,
}

impl RemoteCommand {
    /// The same command with this progress.
    pub fn at(self, progress: RemoteCommandProgress) -> Self {
        Self { progress, ..self }
    }

    /// Whether the sender still waits for its outcome.
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
