//! Write operations of a store and their results.

use relight_core::ids::{AgentName, NodeName, SessionKey, TaskId};
use relight_core::lease::Fence;
use relight_core::node::{Epoch, NewNode};
use relight_core::session::SessionChange;
use relight_core::time::Time;
use serde_json::Value;

use super::query::KeptRange;
use super::refusal::OperationRefusal;
use super::{AgentCommit, Commit, Committed, Joined, StoreEvent};

/// One atomic change of the store.
#[derive(Debug, Clone)]
pub enum Operation {
    /// See [`Store::commit`](super::Store::commit).
    Commit(Commit),
    /// See [`Store::try_commit`](super::Store::try_commit).
    TryCommit(Commit),
    /// See [`Store::renew`](super::Store::renew).
    Renew(TaskId, Fence),
    /// See [`Store::commit_agent`](super::Store::commit_agent).
    CommitAgent(AgentCommit),
    /// See [`Store::commit_sessions`](super::Store::commit_sessions).
    CommitSessions(Vec<SessionChange>, Time),
    /// See [`Store::keep_and_tell`](super::Store::keep_and_tell).
    Keep {
        /// Name of the record.
        name: String,
        /// The expected current value.
        before: Option<Value>,
        /// The new value.
        now: Value,
        /// Events to write with it.
        told: Vec<StoreEvent>,
    },
    /// See [`Store::join_node`](super::Store::join_node).
    JoinNode(Box<NewNode>, Option<Epoch>, Time),
    /// See [`Store::renew_node`](super::Store::renew_node).
    RenewNode(NodeName, Epoch),
    /// See [`Store::leave_node`](super::Store::leave_node).
    LeaveNode(NodeName, Epoch, Time),
    /// See [`Store::drain_node`](super::Store::drain_node).
    DrainNode(NodeName, bool, Time),
    /// See [`Store::forget_node`](super::Store::forget_node).
    ForgetNode(NodeName, Time),
    /// Removes records.
    Remove(Removal),
}

/// What to remove.
#[derive(Debug, Clone)]
pub enum Removal {
    /// See [`Store::forget`](super::Store::forget).
    Tasks(Vec<(TaskId, u64)>, Time),
    /// See [`Store::forget_events`](super::Store::forget_events).
    Events(Time),
    /// See [`Store::forget_attempts`](super::Store::forget_attempts).
    Attempts(Time),
    /// See [`Store::forget_sessions`](super::Store::forget_sessions).
    Sessions(Vec<(SessionKey, u64)>),
    /// See [`Store::forget_agent`](super::Store::forget_agent).
    Agent(AgentName, u64, Time),
    /// See [`Store::forget_kept`](super::Store::forget_kept).
    Kept(KeptRange),
}

/// Result of a successful operation.
#[derive(Debug, Clone)]
pub enum OperationResult {
    /// A commit.
    Committed(Committed),
    /// A renewal.
    Renewed,
    /// For each session, whether its change was made.
    Sessions(Vec<bool>),
    /// Whether the condition held and the change was made.
    Changed(bool),
    /// A node's request to join.
    Joined(Joined),
    /// The tasks that were removed.
    Removed(Vec<TaskId>),
    /// Number of removed records.
    Count(u64),
}

/// Result of one operation.
pub type OperationReply = Result<OperationResult, OperationRefusal>;

/// Accessors for the result that belongs to an operation; any other is a bug of the backend.
macro_rules! answers {
    ($($name:ident: $variant:ident($answer:ty);)*) => {
        impl OperationResult {
            $(pub(super) fn $name(self) -> $answer {
                match self {
                    Self::$variant(answer) => answer,
                    other => unreachable!("an operation was answered with {other:?}"),
                }
            })*
        }
    };
}

answers! {
    committed: Committed(Committed);
    sessions: Sessions(Vec<bool>);
    changed: Changed(bool);
    joined: Joined(Joined);
    removed: Removed(Vec<TaskId>);
    count: Count(u64);
}
