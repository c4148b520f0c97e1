//! The shortcut for what is written most: a holder's begins and ends of steps.
//!
//! A backend may write them without loading their task: compare the fence and each step's newest record,
//! then add these counts to the row. Where anything is not as it should be, the commit goes the way of all
//! others, which knows each reason to refuse. The differential suite compares both.

use relight_core::change::Change;
use relight_core::step::StepOutcome;
use relight_core::time::Time;

use crate::contract::Commit;

/// Whether it records begins and ends of steps under a fence, and nothing else.
pub(crate) fn is_of_steps(commit: &Commit) -> bool {
    let is_step =
        |change: &Change| matches!(change, Change::StepBegun(_) | Change::StepEnded { .. });
    commit.guard.fence.is_some() && !commit.changes.is_empty() && commit.changes.iter().all(is_step)
}

/// What steps change in their task's row.
#[derive(Debug, Default)]
pub(crate) struct StepCounts {
    pub(crate) opened: i64,
    pub(crate) done: i64,
    /// When one was last done: then recoveries are counted anew.
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
                    self.progress_at = Some(at.as_ms());
                }
            }
            _ => {}
        }
    }
}
