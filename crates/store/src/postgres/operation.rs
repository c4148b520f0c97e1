//! What the writer goes by when it makes batches.

use relight_core::change::Change;

use crate::apply::is_of_steps;
use crate::contract::Operation;

/// Whether it records steps under a fence, and nothing else.
pub(super) fn is_step(operation: &Operation) -> bool {
    matches!(operation, Operation::Commit(commit) if is_of_steps(commit))
}

/// Roughly how many bytes it writes.
pub(super) fn weight(operation: &Operation) -> usize {
    let of_change = |change: &Change| match change {
        Change::StepEnded {
            output: Some(output),
            ..
        } => output.body.len(),
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
