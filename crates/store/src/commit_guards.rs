//! Checks that every backend makes before a commit. Pure.

use std::collections::HashMap;

use relight_core::agent::Agent;
use relight_core::agent::change::AgentChange;
use relight_core::change::Change;
use relight_core::decide::Guard;
use relight_core::ids::IdempotencyKey;
use relight_core::node::{Epoch, NewNode, Node};
use relight_core::step::{StepKey, StepState};
use relight_core::task::Task;

use crate::contract::{AgentCommitError, Commit, CommitError, Joined, Operation};

/// False in a deliberately broken build; see `./prove red`.
pub(crate) fn fence_checked() -> bool {
    !cfg!(feature = "broken-no-fence")
}

/// The epoch under which a node joins, or why it may not.
pub(crate) fn joins(
    before: Option<&Node>,
    new: &NewNode,
    last: Option<Epoch>,
) -> Result<Epoch, Joined> {
    match before {
        Some(other) if other.keeps_out(new) => Err(Joined::Taken(Box::new(other.clone()))),
        Some(other) if last.is_some() && other.overtook(new) => {
            Err(Joined::Overtaken(Box::new(other.clone())))
        }
        // Larger than its last epoch even if the node was removed meanwhile, so that it notices its
        // lost lease.
        Some(_) | None => {
            let known = before.map_or(Epoch::default(), |node| node.epoch);
            Ok(Epoch(known.max(last.unwrap_or_default()).0 + 1))
        }
    }
}

/// Asserts that the commit is well-formed.
pub(crate) fn assert_shape(commit: &Commit) {
    let misshape = commit.misshape();
    assert!(misshape.is_none(), "{}", misshape.unwrap_or_default());
}

/// Asserts that the operation is well-formed.
pub(crate) fn assert_operation(operation: &Operation) {
    let creates = |change: &AgentChange| matches!(change, AgentChange::Created(_));
    match operation {
        Operation::Commit(commit) | Operation::TryCommit(commit) => assert_shape(commit),
        Operation::CommitAgent(commit) => {
            assert!(
                !commit.changes.iter().skip(1).any(creates),
                "an agent is created first"
            );
        }
        _ => {}
    }
}

/// Checks the fence and the sequence number.
pub(crate) fn guard(task: &Task, guard: Guard) -> Result<(), CommitError> {
    if let Some(ours) = guard
        .fence
        .filter(|ours| fence_checked() && !task.lease.admits(*ours))
    {
        return Err(CommitError::Fenced {
            task: task.id.clone(),
            ours,
            newest: task.lease.fence,
        });
    }
    match guard.seq {
        Some(seq) if seq != task.seq => Err(CommitError::Moved(task.id.clone())),
        _ => Ok(()),
    }
}

/// The same for an agent.
pub(crate) fn agent_guard(agent: &Agent, guard: Guard) -> Result<(), AgentCommitError> {
    if let Some(ours) = guard
        .fence
        .filter(|ours| fence_checked() && !agent.lease.admits(*ours))
    {
        let (agent, newest) = (agent.name.clone(), agent.lease.fence);
        return Err(AgentCommitError::Fenced {
            agent,
            ours,
            newest,
        });
    }
    match guard.seq {
        Some(seq) if seq != agent.seq => Err(AgentCommitError::Moved(agent.name.clone())),
        _ => Ok(()),
    }
}

/// Checks that every step change follows the step's newest record, including those of this commit;
/// `newest` returns the stored state. Returns the state of each step afterwards, and whether all
/// steps were cleared.
pub(crate) fn steps(
    commit: &Commit,
    mut newest: impl FnMut(&StepKey) -> Option<StepState>,
) -> Result<StepsAfter, CommitError> {
    let mut after = StepsAfter::default();
    for change in &commit.changes {
        if matches!(change, Change::StepsCleared) {
            after.states.clear();
            after.cleared = true;
        }
        let Some(record) = change.step_record(commit.at, None) else {
            continue;
        };
        let known = match after.states.get(&record.key) {
            Some(state) => Some(*state),
            None if after.cleared => None,
            None => newest(&record.key),
        };
        if !change.follows(known) {
            return Err(CommitError::Moved(commit.task.clone()));
        }
        after.states.insert(record.key, record.state);
    }
    Ok(after)
}

/// States of steps after a commit.
#[derive(Debug, Default)]
pub(crate) struct StepsAfter {
    /// Steps that the commit changes.
    pub(crate) states: HashMap<StepKey, StepState>,
    /// All other steps were cleared.
    pub(crate) cleared: bool,
}

/// The idempotency key that the commit assigns, if any.
pub(crate) fn key_given(commit: &Commit) -> Option<&IdempotencyKey> {
    let newest = commit.changes.iter().rev().find_map(|change| match change {
        Change::Created(new) | Change::Replaced(new) => Some(new),
        _ => None,
    });
    newest.and_then(|new| new.spec.key.as_ref())
}
