//! The shortcut for the most frequent writes: begins and ends of steps under a fence.
//!
//! A database may write them without a working set: it compares the fence and the newest record of each step,
//! and adds these counts to the task's row. If a comparison fails, the commit goes through the working set,
//! which finds the reason. The differential suite compares the shortcut with the applier.

use relight_core::change::Change;
use relight_core::step::StepOutcome;
use relight_core::time::Time;

use crate::contract::Commit;

/// Whether a commit has a fence, and only begins and ends of steps.
pub(crate) fn is_of_steps(commit: &Commit) -> bool {
    let is_step =
        |change: &Change| matches!(change, Change::StepBegun(_) | Change::StepEnded { .. });
    commit.guard.fence.is_some() && !commit.changes.is_empty() && commit.changes.iter().all(is_step)
}

/// What the steps change in the task's row.
#[derive(Debug, Default)]
pub(crate) struct StepCounts {
    pub(crate) opened: i64,
    pub(crate) done: i64,
    /// When the last step was done, if any; resets the recoveries.
    pub(crate) progress_at: Option<i64>,
}

impl StepCounts {
    /// As `Change::apply` does.
    pub(crate) fn add(&mut self, change: &Change, at: Time) {
        match change {
            Change::StepBegun(mark) => self.opened += i64::from(!mark.was_open),
            Change::StepEnded { mark, outcome, .. } => {
                self.opened -= i64::from(mark.was_open);
                if *outcome == StepOutcome::Done {
                    self.done += 1;
                    if mark.call.is_none() {
                        self.progress_at = Some(at.as_ms());
                    }
                }
            }
            _ => {}
        }
    }
}
