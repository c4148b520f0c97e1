//! What the writer can be asked to do, and what it answers.

use relight_core::change::Change;
use relight_core::ids::{AgentName, NodeName, SessionKey, TaskId};
use relight_core::lease::Fence;
use relight_core::node::{Epoch, NewNode};
use relight_core::session::SessionChange;
use relight_core::time::Time;
use serde_json::Value;

use crate::contract::{AgentCommit, Commit, Committed, Joined, Told};
use crate::refusal::Refusal;

/// What shares a transaction with others.
#[derive(Debug, Clone)]
pub(super) enum Operation {
    Commit(Commit),
    Renew(TaskId, Fence),
    CommitAgent(AgentCommit),
    CommitSessions(Vec<SessionChange>, Time),
    Keep { name: String, before: Option<Value>, now: Value, told: Vec<Told> },
    JoinNode(Box<NewNode>, Option<Epoch>, Time),
    LeaveNode(NodeName, Epoch, Time),
    DrainNode(NodeName, bool, Time),
    ForgetNode(NodeName, Time),
}

impl Operation {
    /// Whether it records steps under a fence, and nothing else.
    pub(super) fn is_step(&self) -> bool {
        matches!(self, Self::Commit(commit) if Self::is_of_steps(commit))
    }

    pub(super) fn is_of_steps(commit: &Commit) -> bool {
        let is_step =
            |change: &Change| matches!(change, Change::StepBegun(_) | Change::StepEnded { .. });
        commit.guard.fence.is_some()
            && !commit.changes.is_empty()
            && commit.changes.iter().all(is_step)
    }

    /// Roughly how many bytes it writes.
    pub(super) fn weight(&self) -> usize {
        let of_change = |change: &Change| match change {
            Change::StepEnded { output: Some(output), .. } => output.body.len(),
            Change::ContextSet(pairs) => pairs.values().map(String::len).sum(),
            _ => 0,
        };
        match self {
            Self::Commit(commit) => commit.changes.iter().map(of_change).sum(),
            Self::CommitSessions(changes, _) => changes.len() * 256,
            _ => 0,
        }
    }
}

/// What removes, each in transactions of its own.
#[derive(Debug, Clone)]
pub(super) enum Removal {
    Tasks(Vec<(TaskId, u64)>, Time),
    Events(Time),
    Attempts(Time),
    Sessions(Vec<(SessionKey, u64)>),
    Agent(AgentName, u64, Time),
}

/// What is answered, by operation.
#[derive(Debug, Clone)]
pub(super) enum Answer {
    Committed(Committed),
    Renewed,
    /// Whether each of them was made.
    SessionsCommitted(Vec<bool>),
    Kept(bool),
    NodeJoined(Joined),
    /// Whether it was the node that was meant.
    NodeChanged(bool),
    TasksForgotten(Vec<TaskId>),
    /// How many.
    Forgotten(u64),
    AgentForgotten(bool),
}

/// To one operation.
pub(super) type Reply = Result<Answer, Refusal>;
