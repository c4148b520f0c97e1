//! What becomes of a task whose holder died, or that failed: the question that a strategy is asked,
//! its answer, and the limits that no answer overrules.
//!
//! Pure. `strategies` are the rules that every Relight knows. Leaves to others: noticing deaths, asking
//! strategies that are not pure, committing (`decide::recover` turns an answer into changes).

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

/// What a strategy wants to become of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum Decision {
    /// The same agent goes on from the last finished step.
    Resume,
    /// It counts as failed, and anybody who can do it may take it while retries are left.
    Reassign {
        /// Finished steps stay finished.
        keep_progress: bool,
    },
    /// It waits for a person.
    Suspend,
    /// It goes on by itself later.
    Defer {
        /// When.
        until: Time,
    },
    /// It stays failed.
    GiveUp,
}

impl Decision {
    /// The word used everywhere.
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

/// The end of a task's holder, or the failure that it told of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HolderDeath {
    /// Why; `failed` also when the holder lives and gave the task up, `lost` when it is just gone.
    pub cause: Cause,
    /// The first error, in words.
    pub reason: String,
    /// Who held it, for people to read.
    pub holder: Option<String>,
    /// The agent that worked on it, where one is known.
    pub agent: Option<AgentName>,
    /// When it was noticed.
    pub at: Time,
    /// How long it was held.
    #[serde(rename = "held_ms")]
    pub held: Option<Span>,
    /// The agent will not come back by itself: it is terminated, or nobody knows it any more.
    pub agent_gone: bool,
    /// Somebody said that the task failed; nobody died.
    pub is_told: bool,
}

impl HolderDeath {
    /// A holder that told of its failure itself.
    pub fn failed(task: &Task, reason: String, at: Time) -> Self {
        Self { is_told: true, ..Self::of(task, Cause::Failed, reason, at) }
    }

    /// A holder that is gone, and nothing tells how.
    pub fn vanished(task: &Task, at: Time) -> Self {
        let reason = match &task.lease.held {
            Some(held) => format!("its holder is gone: {}", held.holder),
            None => "its holder is gone".to_owned(),
        };
        Self::of(task, Cause::Lost, reason, at)
    }

    /// A holder that died of this.
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

/// What a strategy may know of a task beside the task itself: counts, cost and times, and never what
/// was said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RecoveryContext {
    /// Finished steps.
    pub steps_done: u64,
    /// Steps begun and not ended.
    pub steps_in_doubt: u64,
    /// Turns of a model, as far as they were reported.
    pub turns: u64,
    /// What it has cost so far, in millionths.
    pub cost_micros: u64,
    /// How often it was started.
    pub attempts: u32,
    /// Recoveries since a step was last finished.
    pub recoveries: u32,
    /// How often it was given to somebody else after a failure.
    pub retries: u32,
    /// How often it may be.
    pub max_retries: u32,
    /// When it was added.
    pub created_at: Time,
    /// When a step was last finished.
    pub progress_at: Option<Time>,
    /// How long it was held this time.
    pub held_ms: Option<u64>,
    /// What is recorded of its steps cannot be read.
    pub damaged: bool,
    /// Recoveries without progress that are allowed.
    pub max_attempts: u32,
}

impl RecoveryContext {
    /// What is known of a task.
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
        }
    }
}

/// A strategy's answer, with all that carrying it out needs.
#[derive(Debug, Clone, PartialEq)]
pub struct RecoveryPlan {
    /// What happened.
    pub death: HolderDeath,
    /// Which strategy was asked.
    pub strategy: String,
    /// What it wants.
    pub decision: Decision,
    /// Why, in its own words.
    pub reason: Option<String>,
    /// Why its answer was not to be had, and the default's stands instead.
    pub trouble: Option<String>,
    /// What it was told.
    pub context: RecoveryContext,
    /// The limits.
    pub policy: TaskPolicy,
    /// A chance from 0 to 1, to spread what comes back.
    pub jitter: f64,
}

impl RecoveryPlan {
    /// Whether a task that belongs to its agent is given to others when this reassigns it: only where
    /// somebody chose a strategy that says so. The default and `resume` keep it for its agent.
    pub fn gives_away(&self, task: &Task) -> bool {
        let is_chosen = task.spec.strategy.is_some() || self.strategy != STRATEGY_DEFAULT;
        is_chosen && self.strategy != Builtin::Resume.as_str()
    }
}
