//! Recovery of tasks whose holder died or that failed: the input of a strategy, its decision, and
//! the limits that always apply.
//!
//! Pure. `strategies` are the built-in ones. `decide::recover` turns a decision into changes.

pub mod limits;
pub mod strategies;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::agent::Cause;
use crate::ids::AgentName;
use crate::task::{STRATEGY_DEFAULT, Task};
use crate::time::{Span, Time};

pub use limits::{Exhausted, TaskPolicy};
use strategies::Builtin;

/// The decision of a strategy about a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum Decision {
    /// The same agent resumes after the last finished step.
    Resume,
    /// It counts as failed, and any suitable agent may take it while retries are left.
    Reassign {
        /// Keep finished steps.
        keep_progress: bool,
    },
    /// It waits for a person.
    Suspend,
    /// It resumes automatically later.
    Defer {
        /// When.
        until: Time,
    },
    /// It stays failed.
    GiveUp,
}

impl Decision {
    /// Its name in JSON, SQL and output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Resume => "resume",
            Self::Reassign { .. } => "reassign",
            Self::Suspend => "suspend",
            Self::Defer { .. } => "defer",
            Self::GiveUp => "give_up",
        }
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The death of a task's holder, or a failure that it reported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HolderDeath {
    /// The cause; `failed` also when a live holder gave the task up, `lost` when the holder is just
    /// gone.
    pub cause: Cause,
    /// The original error.
    pub reason: String,
    /// The holder, for display.
    pub holder: Option<String>,
    /// The agent that worked on it, if known.
    pub agent: Option<AgentName>,
    /// When it was noticed.
    pub at: Time,
    /// How long it was held.
    #[serde(rename = "held_ms")]
    pub held: Option<Span>,
    /// The agent will not come back by itself: it is terminated or unknown.
    pub agent_gone: bool,
    /// The failure was reported; nobody died.
    pub is_told: bool,
}

impl HolderDeath {
    /// A failure reported by the holder.
    pub fn failed(task: &Task, reason: String, at: Time) -> Self {
        Self {
            is_told: true,
            ..Self::of(task, Cause::Failed, reason, at)
        }
    }

    /// A holder that is gone for an unknown reason.
    pub fn vanished(task: &Task, at: Time) -> Self {
        let reason = match &task.lease.held {
            Some(held) => format!("its holder is gone: {}", held.holder),
            None => "nobody holds it, and whoever worked on it is gone".to_owned(),
        };
        Self::of(task, Cause::Lost, reason, at)
    }

    /// A holder that died of this cause.
    pub fn of(task: &Task, cause: Cause, reason: String, at: Time) -> Self {
        let held = task.lease.held.as_ref();
        Self {
            cause,
            reason,
            holder: held.map(|held| held.holder.to_string()),
            agent: task.agent.clone(),
            at,
            held: held.map(|held| at.since(held.since)),
            agent_gone: false,
            is_told: false,
        }
    }
}

/// What a strategy is told besides the task: counts, cost and times, but no contents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RecoveryContext {
    /// Finished steps.
    pub steps_done: u64,
    /// Steps begun and not ended.
    pub steps_in_doubt: u64,
    /// Reported model turns.
    pub turns: u64,
    /// Its cost so far, in millionths.
    pub cost_micros: u64,
    /// How often it was started.
    pub attempts: u32,
    /// Recoveries since a step was last finished.
    pub recoveries: u32,
    /// Retries used.
    pub retries: u32,
    /// Retries allowed.
    pub max_retries: u32,
    /// When it was added.
    pub created_at: Time,
    /// When a step was last finished.
    pub progress_at: Option<Time>,
    /// How long it was held this time.
    pub held_ms: Option<u64>,
    /// Its step records cannot be read.
    pub damaged: bool,
    /// Recoveries without progress that are allowed.
    pub max_attempts: u32,
    /// Other machines use the store too. A command is not told this; what opens the store is kept from it.
    #[serde(skip)]
    pub is_store_shared: bool,
}

impl RecoveryContext {
    /// The context of a task.
    pub fn of(task: &Task, death: &HolderDeath, policy: &TaskPolicy, damaged: bool) -> Self {
        Self {
            steps_done: task.steps_done,
            steps_in_doubt: task.steps_open,
            turns: task.tally.turns,
            cost_micros: task.tally.cost_micros,
            attempts: task.starts,
            recoveries: task.tally.recoveries,
            retries: task.retries,
            max_retries: task.max_retries(),
            created_at: task.created_at,
            progress_at: task.tally.progress_at,
            held_ms: death.held.map(Span::as_ms),
            damaged,
            max_attempts: policy.max_attempts,
            is_store_shared: false,
        }
    }
}

/// A strategy's decision with everything needed to apply it.
#[derive(Debug, Clone, PartialEq)]
pub struct RecoveryPlan {
    /// What happened.
    pub death: HolderDeath,
    /// The strategy that was asked.
    pub strategy: String,
    /// Its decision.
    pub decision: Decision,
    /// Its reason.
    pub reason: Option<String>,
    /// Why its answer could not be used, so that the default decided.
    pub trouble: Option<String>,
    /// What the strategy was told.
    pub context: RecoveryContext,
    /// The limits.
    pub policy: TaskPolicy,
    /// Random number from 0 to 1, to spread restarts.
    pub jitter: f64,
}

impl RecoveryPlan {
    /// Whether a task that belongs to its agent is offered to others on reassignment: only if a
    /// strategy was chosen that does so. The default and `resume` keep it for its agent.
    pub fn gives_away(&self, task: &Task) -> bool {
        let is_chosen = task.spec.strategy.is_some() || self.strategy != STRATEGY_DEFAULT;
        is_chosen && self.strategy != Builtin::Resume.as_str()
    }
}
