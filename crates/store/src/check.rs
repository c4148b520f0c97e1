//! What every backend compares before a commit changes anything: pure, whatever the rows are kept in.

use std::collections::HashMap;

use relight_core::agent::Agent;
use relight_core::agent::change::AgentChange;
use relight_core::change::Change;
use relight_core::decide::Guard;
use relight_core::ids::{IdempotencyKey, TaskId};
use relight_core::lease::Fence;
use relight_core::node::{Epoch, NewNode, Node};
use relight_core::step::{StepKey, StepState};
use relight_core::task::Task;

use crate::contract::{AgentCommitError, Commit, CommitError, Joined, Operation};

/// A deliberately broken build lets every fence pass; see `./prove red`.
pub(crate) fn fence_checked() -> bool {
    !cfg!(feature = "broken-no-fence")
}

/// The number under which a node joins that was known so, if at all; who may not is answered.
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
        // Larger than its last one also where the node was removed meanwhile: by these numbers it sees
        // that it lost its lease.
        Some(_) | None => {
            let known = before.map_or(Epoch::default(), |node| node.epoch);
            Ok(Epoch(known.max(last.unwrap_or_default()).0 + 1))
        }
    }
}

/// A bug of the caller's.
pub(crate) fn assert_shape(commit: &Commit) {
    let misshape = commit.misshape();
    assert!(misshape.is_none(), "{}", misshape.unwrap_or_default());
}

/// The same for whatever is asked.
pub(crate) fn assert_operation(operation: &Operation) {
    let creates = |change: &AgentChange| matches!(change, AgentChange::Created(_));
    match operation {
        Operation::Commit(commit) | Operation::TryCommit(commit) => assert_shape(commit),
        Operation::CommitAgent(commit) => {
            assert!(!commit.changes.iter().skip(1).any(creates), "an agent is created first");
        }
        _ => {}
    }
}

/// Whether the writer's lease is the newest and the task still the one that was read.
pub(crate) fn guard(task: &Task, guard: Guard) -> Result<(), CommitError> {
    if let Some(ours) = guard.fence.filter(|ours| fence_checked() && !task.lease.admits(*ours)) {
        return Err(fenced(&task.id, ours, task.lease.fence));
    }
    match guard.seq {
        Some(seq) if seq != task.seq => Err(CommitError::Moved(task.id.clone())),
        _ => Ok(()),
    }
}

/// The refusal of a late writer.
pub(crate) fn fenced(task: &TaskId, ours: Fence, newest: Fence) -> CommitError {
    CommitError::Fenced { task: task.clone(), ours, newest }
}

/// The same for an agent.
pub(crate) fn agent_guard(agent: &Agent, guard: Guard) -> Result<(), AgentCommitError> {
    if let Some(ours) = guard.fence.filter(|ours| fence_checked() && !agent.lease.admits(*ours)) {
        let (agent, newest) = (agent.name.clone(), agent.lease.fence);
        return Err(AgentCommitError::Fenced { agent, ours, newest });
    }
    match guard.seq {
        Some(seq) if seq != agent.seq => Err(AgentCommitError::Moved(agent.name.clone())),
        _ => Ok(()),
    }
}

/// Every change of a step must follow its newest record, those of this commit included; `newest`
/// tells what the store has. Answers where each step stands then, and whether all were put aside.
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
        let Some(record) = change.step_record(commit.at, None) else { continue };
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

/// Where the steps of a commit stand once it is made.
#[derive(Debug, Default)]
pub(crate) struct StepsAfter {
    /// Those it speaks of.
    pub(crate) states: HashMap<StepKey, StepState>,
    /// All others are gone.
    pub(crate) cleared: bool,
}

/// The idempotency key that the commit gives to its task, if it names one.
pub(crate) fn key_given(commit: &Commit) -> Option<&IdempotencyKey> {
    let newest = commit.changes.iter().rev().find_map(|change| match change {
        Change::Created(new) | Change::Replaced(new) => Some(new),
        _ => None,
    });
    newest.and_then(|new| new.spec.key.as_ref())
}
