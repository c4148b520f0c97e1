//! `[queue]` and `[budget]`: the limits of tasks, and the pace at which work is taken up again.

use relight_core::recovery::TaskPolicy;
use relight_core::store_budget::StoreBudget;
use relight_core::time::Span;

use super::recovery::Recovery;
use super::section::Section;

/// The journal is not searched further back.
const PERIOD_MAX: Span = Span::from_secs(31 * 24 * 3_600);

/// What tasks may use up, and how fast they come back.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct QueueConfig {
    /// Starts of one task in all.
    pub(crate) attempts_max: u32,
    /// How long a task may be tried again without a finished step.
    pub(crate) no_progress_max: Option<Span>,
    /// What one task may cost, in millionths.
    pub(crate) cost_micros_max: Option<u64>,
    /// How often it is looked for tasks whose holder is gone, where nothing tells of it.
    pub(crate) sweep: Span,
    /// Recovered tasks and agents that are started in a second; no limit when zero.
    pub(crate) resume_rate: u32,
    /// Recovered tasks that are worked on at a time; no limit when zero.
    pub(crate) resume_at_once: u32,
    /// What all agents of the store may use together.
    pub(crate) budget: StoreBudget,
}

impl QueueConfig {
    pub(super) fn read(section: &Section<'_>, budget: &Section<'_>) -> Self {
        Self {
            attempts_max: section.count("attempts_max", 1..=u32::MAX),
            no_progress_max: section.span("no_progress_max").as_limit(),
            cost_micros_max: Some(section.cost("cost_max")).filter(|max| *max > 0),
            sweep: section.span("sweep"),
            resume_rate: section.count("resume_rate", 0..=u32::MAX),
            resume_at_once: section.count("resume_at_once", 0..=u32::MAX),
            budget: StoreBudget {
                limit: budget.spend_limit(),
                period: period(budget),
            },
        }
    }

    /// The limits of tasks; `[recovery]` says how often and how soon they are tried again.
    pub(crate) fn policy(&self, recovery: &Recovery) -> TaskPolicy {
        TaskPolicy {
            max_attempts: recovery.policy.max_attempts,
            cooldown: recovery.policy.cooldown,
            cooldown_max: recovery.policy.cooldown_max,
            attempts_total_max: self.attempts_max,
            no_progress_max: self.no_progress_max,
            cost_micros_max: self.cost_micros_max,
        }
    }
}

/// The period of `[budget]`.
fn period(budget: &Section<'_>) -> Span {
    let period = budget.span("period");
    if period == Span::ZERO || period > PERIOD_MAX {
        budget.problem("period", "write a period of at most \"31d\"", None);
    }
    period
}
