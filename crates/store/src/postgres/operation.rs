//! What the writer goes by when it makes batches.

use relight_core::change::Change;

use crate::contract::{Commit, Operation};

/// Whether it records steps under a fence, and nothing else.
pub(super) fn is_step(operation: &Operation) -> bool {
    matches!(operation, Operation::Commit(commit) if is_of_steps(commit))
}

pub(super) fn is_of_steps(commit: &Commit) -> bool {
    let is_step =
        |change: &Change| matches!(change, Change::StepBegun(_) | Change::StepEnded { .. });
    commit.guard.fence.is_some() && !commit.changes.is_empty() && commit.changes.iter().all(is_step)
}

/// Roughly how many bytes it writes.
pub(super) fn weight(operation: &Operation) -> usize {
    let of_change = |change: &Change| match change {
        Change::StepEnded { output: Some(output), .. } => output.body.len(),
        Change::ContextSet(pairs) => pairs.values().map(String::len).sum(),
        _ => 0,
    };
    match operation {
        Operation::Commit(commit) | Operation::TryCommit(commit) => {
            commit.changes.iter().map(of_change).sum()
        }
        Operation::CommitSessions(changes, _) => changes.len() * 256,
        _ => 0,
    }
}
