//! Limits for the recovery of tasks. Beyond them a person is asked.

use serde::{Deserialize, Serialize};

use crate::restart_budget;
use crate::task::{Cost, Task};
use crate::time::{Span, Time};

/// Limits for the recovery of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskPolicy {
    /// Recoveries by the same agent without a finished step between them.
    pub max_attempts: u32,
    /// Wait before the second recovery in a row; the first is immediate, further ones wait longer.
    #[serde(rename = "cooldown_ms")]
    pub cooldown: Span,
    /// Maximum wait.
    #[serde(rename = "cooldown_max_ms")]
    pub cooldown_max: Span,
    /// Maximum number of starts, regardless of progress.
    pub attempts_total_max: u32,
    /// Maximum time without a finished step while it is retried; unlimited when none or 0.
    #[serde(rename = "no_progress_max_ms")]
    pub no_progress_max: Option<Span>,
    /// Maximum total cost in millionths; unlimited when none or 0.
    pub cost_micros_max: Option<u64>,
}

impl Default for TaskPolicy {
    fn default() -> Self {
        Self {
            max_attempts: 3,
            cooldown: Span::from_secs(60),
            cooldown_max: Span::from_secs(3_600),
            attempts_total_max: 20,
            no_progress_max: None,
            cost_micros_max: None,
        }
    }
}

impl TaskPolicy {
    /// The limit that is reached, if any; the task is then not resumed automatically.
    pub fn exhausted(&self, task: &Task, now: Time) -> Option<Exhausted> {
        if task.starts >= self.attempts_total_max {
            return Some(Exhausted::Attempts {
                attempts: task.starts,
            });
        }
        let cost = task.tally.cost_micros;
        if self
            .cost_micros_max
            .is_some_and(|max| max > 0 && cost >= max)
        {
            return Some(Exhausted::Cost { cost_micros: cost });
        }
        let since = task.tally.progress_at.unwrap_or(task.created_at);
        // A task that was not retried yet is only slow.
        let stuck = self.no_progress_max.and_then(Span::as_limit);
        let stuck = stuck.filter(|_| task.tally.recoveries > 0);
        stuck
            .filter(|max| now.since(since) >= *max)
            .map(|max| Exhausted::NoProgress { max })
    }

    /// Earliest time of the next recovery after `recoveries` without progress; none for
    /// immediately.
    pub fn again_at(&self, recoveries: u32, now: Time, jitter: f64) -> Option<Time> {
        let wait =
            restart_budget::wait(self.cooldown, GROWTH, self.cooldown_max, recoveries, jitter);
        (wait > Span::ZERO).then(|| now.plus(wait))
    }
}

/// Growth factor of the wait.
const GROWTH: f64 = 2.0;

/// The limit that was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Exhausted {
    /// Started too often.
    #[error("started {attempts} times in all")]
    Attempts {
        /// How often.
        attempts: u32,
    },
    /// Too expensive.
    #[error("it has cost {}", Cost(*.cost_micros))]
    Cost {
        /// How much, in millionths.
        cost_micros: u64,
    },
    /// Retried without a finished step.
    #[error("no step was finished within {max}")]
    NoProgress {
        /// Within what.
        max: Span,
    },
}
