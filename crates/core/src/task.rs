//! Tasks.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ids::{AgentName, IdempotencyKey, StepName, TaskId};
use crate::lease::Lease;
use crate::shell::{shell_word, show_then_retry};
use crate::status::TaskStatus;
use crate::time::Time;
use crate::usage::UsageMeter;

pub use crate::usage::{BadCost, Cost, Usage};

/// Default number of reassignments after a failure.
pub const MAX_RETRIES_DEFAULT: u32 = 1;
/// The default strategy.
pub const STRATEGY_DEFAULT: &str = "fail-and-reassign";
/// The built-in strategies.
pub const STRATEGIES: [&str; 4] = [STRATEGY_DEFAULT, "resume", "suspend", "exec"];
/// Maximum number of completed idempotency keys kept for one id.
pub const SPENT_KEYS_MAX: usize = 1_000;

/// The specification of a task, fixed when it is added.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TaskSpec {
    /// One line for people.
    pub title: Option<String>,
    /// The steps that are known ahead, in order.
    pub steps: Vec<StepName>,
    /// Input for the agent.
    pub payload: Option<Value>,
    /// What happens when its holder dies; the configured default when none.
    pub strategy: Option<String>,
    /// How often it may be assigned again after a failure; the default when none.
    pub max_retries: Option<u32>,
    /// The idempotency key.
    pub key: Option<IdempotencyKey>,
    /// Higher values are assigned first.
    pub priority: i32,
    /// Skills that an agent needs to take it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
    /// How long it is worth resuming, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
    /// It stands for the conversation of an agent that hooks observe; only that conversation goes on
    /// with it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub observed: bool,
    /// Idempotency keys under which this id was already completed, newest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spent_keys: Vec<IdempotencyKey>,
    /// Tokens that were used for it, and the counters that were read; cost and turns are in its tally.
    #[serde(default, skip_serializing_if = "UsageMeter::is_unused")]
    pub meter: UsageMeter,
}

/// Settings that only the checkpoint dialect uses.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CheckpointSettings {
    /// The folder of its file copy, absolute.
    pub folder: String,
    /// Who should take over.
    pub handoff_to: Option<String>,
    /// Free text for the successor.
    pub notes: Option<String>,
    /// It was blocked by the dialect, which may also unblock it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub blocked: bool,
}

/// Usage of a task's budgets.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TaskTally {
    /// Recoveries since a step was last finished.
    pub recoveries: u32,
    /// When a step was last finished.
    pub progress_at: Option<Time>,
    /// Its cost in millionths; never reset.
    pub cost_micros: u64,
    /// Reported model turns; never reset.
    pub turns: u64,
    /// Its strategy has given it up.
    pub given_up: bool,
}

/// One unit of recoverable work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Its id.
    pub id: TaskId,
    /// Its status.
    pub status: TaskStatus,
    /// The reason of its status, if given.
    pub reason: Option<String>,
    /// Its agent; any agent when none.
    pub agent: Option<AgentName>,
    /// It belongs to its agent: the agent took it by name, or it is a workflow of the checkpoint
    /// dialect. The queue offers it to no one else.
    #[serde(default)]
    pub pinned: bool,
    /// Its lease.
    pub lease: Lease,
    /// Number of its commits; compared by unfenced writers.
    pub seq: u64,
    /// How many steps are finished or skipped, declared ahead or not.
    pub steps_done: u64,
    /// How many steps are begun and not ended.
    pub steps_open: u64,
    /// How often a lease was taken on it.
    pub starts: u32,
    /// How often it was assigned again after a failure.
    pub retries: u32,
    /// Usage of its budgets.
    pub tally: TaskTally,
    /// When it was added.
    pub created_at: Time,
    /// When it last changed.
    pub updated_at: Time,
    /// Not to be started before.
    pub not_before: Option<Time>,
    /// Not worth resuming after.
    pub expires_at: Option<Time>,
    /// Its specification.
    pub spec: TaskSpec,
    /// Context for a successor: `issue`, `branch`, `workspace`, `stage` and others.
    pub context: BTreeMap<String, String>,
    /// Set when the task is also a workflow of the checkpoint dialect.
    pub checkpoint: Option<CheckpointSettings>,
}

impl Task {
    /// How often it may be assigned again after a failure.
    pub fn max_retries(&self) -> u32 {
        self.spec.max_retries.unwrap_or(MAX_RETRIES_DEFAULT)
    }

    /// How many of its retries are used.
    pub fn retries_in_words(&self) -> String {
        format!("{} of {} used", self.retries, self.max_retries())
    }

    /// Whether it failed and retries are left.
    pub fn has_retry_left(&self) -> bool {
        self.retries < self.max_retries() && !self.tally.given_up
    }

    /// Whether a person added or assigned it, which allows one start beyond its limits. An assigned
    /// task has a reason if its holder released it.
    pub fn is_assigned_by_hand(&self) -> bool {
        match self.status {
            TaskStatus::Created => true,
            TaskStatus::Assigned => self.reason.is_none(),
            _ => false,
        }
    }

    /// The command that resumes it when it waits for a person. A step in doubt is resolved first.
    pub fn command_to_resume(&self) -> String {
        let id = shell_word(self.id.as_str());
        match self.status {
            TaskStatus::Blocked if self.steps_open > 0 => format!(
                "relight step list --task {id}, then relight step resolve STEP --task {id} \
                 --happened (or --did-not)"
            ),
            TaskStatus::InReview => format!("relight task show {id}, then relight task done {id}"),
            TaskStatus::Failed if !self.has_retry_left() => {
                format!("{} --force", show_then_retry(&self.id))
            }
            _ => show_then_retry(&self.id),
        }
    }

    /// Whether it has expired.
    pub fn is_expired(&self, now: Time) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }

    /// Whether work on it was begun before.
    pub fn was_started(&self) -> bool {
        self.starts > 0 || self.steps_done > 0 || self.steps_open > 0
    }
}

/// A task to be added.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewTask {
    /// Its id.
    pub id: TaskId,
    /// Its agent; any agent when none.
    pub agent: Option<AgentName>,
    /// Its specification.
    pub spec: TaskSpec,
    /// Initial context.
    pub context: BTreeMap<String, String>,
    /// Not worth resuming after.
    pub expires_at: Option<Time>,
    /// Set when it comes from the checkpoint dialect.
    pub checkpoint: Option<CheckpointSettings>,
}

impl NewTask {
    /// A task with only an id.
    pub fn bare(id: TaskId) -> Self {
        Self {
            id,
            agent: None,
            spec: TaskSpec::default(),
            context: BTreeMap::new(),
            expires_at: None,
            checkpoint: None,
        }
    }

    /// The status it begins with.
    pub fn first_status(&self) -> TaskStatus {
        match self.agent {
            Some(_) => TaskStatus::Assigned,
            None => TaskStatus::Created,
        }
    }

    /// Names of the fields in which the existing task differs.
    pub fn differences(&self, task: &Task) -> Vec<&'static str> {
        let mut found = Vec::new();
        let mut compare = |name, differs: bool| {
            if differs {
                found.push(name);
            }
        };
        let (ours, theirs) = (&self.spec, &task.spec);
        compare("agent", self.agent.is_some() && self.agent != task.agent);
        compare("title", ours.title.is_some() && ours.title != theirs.title);
        compare("step", !ours.steps.is_empty() && ours.steps != theirs.steps);
        compare(
            "payload",
            ours.payload.is_some() && ours.payload != theirs.payload,
        );
        compare(
            "strategy",
            ours.strategy.is_some() && ours.strategy != theirs.strategy,
        );
        compare(
            "max-retries",
            ours.max_retries.is_some() && ours.max_retries != theirs.max_retries,
        );
        compare("key", ours.key.is_some() && ours.key != theirs.key);
        compare(
            "priority",
            ours.priority != 0 && ours.priority != theirs.priority,
        );
        compare(
            "skill",
            !ours.needs.is_empty() && ours.needs != theirs.needs,
        );
        compare("ttl", ours.ttl_ms.is_some() && ours.ttl_ms != theirs.ttl_ms);
        compare(
            "set",
            self.context
                .iter()
                .any(|(k, v)| task.context.get(k) != Some(v)),
        );
        found
    }
}
