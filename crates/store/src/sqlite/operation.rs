//! What the writer can be asked to do, and what it answers.

use relight_core::ids::{AgentName, NodeName, SessionKey, TaskId};
use relight_core::lease::Fence;
use relight_core::node::{Epoch, NewNode};
use relight_core::session::SessionChange;
use relight_core::time::Time;
use rusqlite::Connection;
use serde_json::Value;

use super::lease_clock::LeaseNow;
use super::refusal::Applied;
use super::{apply, apply_agent, attempts, kept, nodes, sessions};
use crate::contract::{AgentCommit, Commit, Committed, Joined, Told};

/// What the writer can do.
#[derive(Debug)]
pub(super) enum Operation {
    Commit(Commit),
    Renew(TaskId, Fence),
    Forget(Vec<(TaskId, u64)>, Time),
    ForgetEvents(Time),
    CommitAgent(AgentCommit),
    ForgetAttempts(Time),
    ForgetAgent(AgentName, u64, Time),
    CommitSessions(Vec<SessionChange>, Time),
    ForgetSessions(Vec<(SessionKey, u64)>),
    Keep { name: String, before: Option<Value>, now: Value, told: Vec<Told> },
    JoinNode(Box<NewNode>, Option<Epoch>, Time),
    RenewNode(NodeName, Epoch),
    LeaveNode(NodeName, Epoch, Time),
    DrainNode(NodeName, bool, Time),
    ForgetNode(NodeName, Time),
}

impl Operation {
    /// The many small ones do without a savepoint.
    pub(super) fn is_refused_before_it_writes(&self) -> bool {
        match self {
            Self::Commit(commit) => apply::is_refused_before_it_writes(commit),
            // Compared by the statement that writes it.
            Self::CommitSessions(changes, _) => changes.len() <= 1,
            _ => false,
        }
    }

    /// Does it, inside the writer's transaction.
    pub(super) fn perform(&self, db: &Connection, now: LeaseNow) -> Applied<Answer> {
        Ok(match self {
            Self::Commit(commit) => Answer::Committed(apply::apply(db, commit, now)?),
            Self::Renew(task, fence) => {
                apply::renew(db, task, *fence, now)?;
                Answer::Renewed
            }
            Self::Forget(tasks, at) => Answer::Forgotten(apply::forget(db, tasks, *at)?),
            Self::ForgetEvents(before) => {
                Answer::EventsForgotten(apply::forget_events(db, *before)?)
            }
            Self::CommitAgent(commit) => Answer::Committed(apply_agent::apply(db, commit, now)?),
            Self::ForgetAttempts(before) => {
                Answer::AttemptsForgotten(attempts::forget(db, *before)?)
            }
            Self::ForgetAgent(name, seq, at) => {
                Answer::AgentForgotten(apply_agent::forget(db, name, *seq, *at)?)
            }
            Self::CommitSessions(changes, at) => {
                Answer::SessionsCommitted(sessions::apply(db, changes, *at, now)?)
            }
            Self::ForgetSessions(sessions) => {
                Answer::SessionsForgotten(sessions::forget(db, sessions)?)
            }
            Self::Keep { name, before, now, told } => {
                Answer::Kept(kept::swap(db, name, before.as_ref(), now, told)?)
            }
            Self::JoinNode(node, last, at) => {
                Answer::NodeJoined(nodes::join(db, node, *last, *at, now)?)
            }
            Self::RenewNode(name, epoch) => {
                Answer::NodeChanged(nodes::renew(db, name, *epoch, now)?)
            }
            Self::LeaveNode(name, epoch, at) => {
                Answer::NodeChanged(nodes::leave(db, name, *epoch, *at, now)?)
            }
            Self::DrainNode(name, draining, at) => {
                Answer::NodeChanged(nodes::drain(db, name, *draining, *at)?)
            }
            Self::ForgetNode(name, at) => Answer::NodeChanged(nodes::forget(db, name, *at, now)?),
        })
    }
}

/// What it answers, by operation.
#[derive(Debug)]
pub(super) enum Answer {
    Committed(Committed),
    Renewed,
    Forgotten(Vec<TaskId>),
    EventsForgotten(u64),
    AttemptsForgotten(u64),
    AgentForgotten(bool),
    /// Whether each of them was made.
    SessionsCommitted(Vec<bool>),
    SessionsForgotten(u64),
    Kept(bool),
    NodeJoined(Joined),
    /// Whether it was the node that was meant.
    NodeChanged(bool),
}
