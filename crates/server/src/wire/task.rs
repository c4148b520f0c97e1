//! A task.

use std::collections::BTreeMap;

use relight::engine::{self, TaskView};
use relight::handover;
use relight_core::progress::left_open;
use relight_core::task;
use relight_core::time::Time;
use serde::de::Error as _;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, from_value};

use super::holder::HeldBy;
use super::number;
use super::step::Step;

/// One unit of recoverable work.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct Task {
    pub(crate) id: String,
    pub(crate) title: Option<String>,
    pub(crate) status: String,
    pub(crate) reason: Option<String>,
    pub(crate) agent: Option<String>,
    /// It belongs to its agent: the queue does not offer it to others.
    pub(crate) pinned: bool,
    pub(crate) holder: Option<HeldBy>,
    /// Number of the newest lease.
    pub(crate) fence: u64,
    /// Number of its commits.
    pub(crate) seq: u64,
    /// Finished or skipped steps, declared or not.
    pub(crate) steps_done: u64,
    pub(crate) steps_in_doubt: u64,
    /// The declared steps, in order.
    pub(crate) steps_declared: Vec<String>,
    /// How many of the declared steps are finished or skipped; in lists and for one task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) steps_declared_done: Option<usize>,
    pub(crate) starts: u32,
    pub(crate) retries: u32,
    pub(crate) max_retries: u32,
    /// Recoveries since a step was last finished.
    pub(crate) recoveries: u32,
    pub(crate) given_up: bool,
    /// Its cost, such as `0.25`.
    pub(crate) cost: String,
    pub(crate) turns: u64,
    /// When a step was last finished.
    #[cfg_attr(test, schema(value_type = Option<String>))]
    pub(crate) progress_at: Option<Time>,
    /// Its own strategy; null for the configured one.
    pub(crate) strategy: Option<String>,
    /// The idempotency key: two requests with the same key are one.
    pub(crate) key: Option<String>,
    pub(crate) priority: i32,
    pub(crate) needs: Vec<String>,
    #[cfg_attr(test, schema(value_type = Option<String>))]
    pub(crate) not_before: Option<Time>,
    #[cfg_attr(test, schema(value_type = Option<String>))]
    pub(crate) expires_at: Option<Time>,
    #[cfg_attr(test, schema(value_type = String))]
    pub(crate) created_at: Time,
    #[cfg_attr(test, schema(value_type = String))]
    pub(crate) updated_at: Time,
}

/// A task with everything that a successor needs.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct WholeTask {
    #[serde(flatten)]
    pub(crate) task: Task,
    /// The strategy that applies when its holder dies; null if the configuration cannot be read.
    pub(crate) strategy_in_effect: Option<String>,
    pub(crate) steps: Vec<Step>,
    pub(crate) done_steps: Vec<String>,
    pub(crate) skipped_steps: Vec<String>,
    pub(crate) in_doubt: Vec<String>,
    pub(crate) next_step: Option<String>,
    pub(crate) remaining_steps: Vec<String>,
    pub(crate) context: BTreeMap<String, String>,
    #[cfg_attr(test, schema(value_type = Value))]
    pub(crate) payload: Option<Value>,
}

/// A task whose lease was just taken.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct Started {
    pub(crate) task: String,
    pub(crate) status: String,
    pub(crate) title: Option<String>,
    pub(crate) agent: Option<String>,
    /// The fence of the lease.
    pub(crate) fence: u64,
    /// It was worked on before.
    pub(crate) resumed: bool,
    /// Set if another agent worked on it before.
    pub(crate) handed_over: Option<HandedOver>,
    pub(crate) done_steps: Vec<String>,
    pub(crate) in_doubt: Vec<String>,
    pub(crate) next_step: Option<String>,
    pub(crate) context: BTreeMap<String, String>,
    #[cfg_attr(test, schema(value_type = Value))]
    pub(crate) payload: Option<Value>,
}

/// A task that another agent worked on before.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct HandedOver {
    /// The agent that had it, else the holder for people.
    pub(crate) from: String,
    /// Who handed it over: the strategy, or `a person`.
    pub(crate) by: String,
    /// Why the earlier hold ended.
    pub(crate) reason: Option<String>,
    /// Steps that began and may or may not have happened.
    pub(crate) in_doubt: Vec<String>,
    /// Steps that failed.
    pub(crate) failed: Vec<String>,
}

impl From<handover::HandedOver> for HandedOver {
    fn from(found: handover::HandedOver) -> Self {
        let handover::HandedOver { from, by, reason, in_doubt, failed } = found;
        Self { from, by, reason, in_doubt, failed }
    }
}

impl From<task::Task> for Task {
    fn from(task: task::Task) -> Self {
        Self {
            max_retries: task.max_retries(),
            id: task.id.to_string(),
            title: task.spec.title,
            status: task.status.to_string(),
            reason: task.reason,
            agent: task.agent.map(String::from),
            pinned: task.pinned,
            holder: task.lease.held.as_ref().map(HeldBy::from),
            fence: task.lease.fence.0,
            seq: task.seq,
            steps_done: task.steps_done,
            steps_in_doubt: task.steps_open,
            steps_declared: task.spec.steps.iter().map(ToString::to_string).collect(),
            steps_declared_done: None,
            starts: task.starts,
            retries: task.retries,
            recoveries: task.tally.recoveries,
            given_up: task.tally.given_up,
            cost: cost(task.tally.cost_micros),
            turns: task.tally.turns,
            progress_at: task.tally.progress_at,
            strategy: task.spec.strategy,
            key: task.spec.key.map(String::from),
            priority: task.spec.priority,
            needs: task.spec.needs,
            not_before: task.not_before,
            expires_at: task.expires_at,
            created_at: task.created_at,
            updated_at: task.updated_at,
        }
    }
}

impl Task {
    /// As lists show it.
    pub(crate) fn listed(task: task::Task, declared_done: Option<usize>) -> Self {
        Self { steps_declared_done: declared_done.or(Some(0)), ..task.into() }
    }
}

impl WholeTask {
    /// With the strategy of tasks that have none of their own, where it is known.
    pub(crate) fn new(view: TaskView, strategy: Option<&str>) -> Self {
        let TaskView { task, steps, progress } = view;
        let declared = &task.spec.steps;
        let declared_done = declared.len() - left_open(declared, &steps).len();
        Self {
            strategy_in_effect: task.spec.strategy.as_deref().or(strategy).map(str::to_owned),
            steps: steps.iter().map(|step| Step::new(&task.id, step)).collect(),
            done_steps: progress.done_steps,
            skipped_steps: progress.skipped_steps,
            in_doubt: progress.in_doubt,
            next_step: progress.next_step,
            remaining_steps: progress.remaining_steps,
            context: task.context.clone(),
            payload: task.spec.payload.clone(),
            task: Task { steps_declared_done: Some(declared_done), ..task.into() },
        }
    }
}

impl From<engine::Started> for Started {
    fn from(started: engine::Started) -> Self {
        let TaskView { task, progress, .. } = started.view;
        Self {
            fence: started.fence.0,
            resumed: started.resumed,
            handed_over: started.handed_over.map(HandedOver::from),
            done_steps: progress.done_steps,
            in_doubt: progress.in_doubt,
            next_step: progress.next_step,
            task: task.id.to_string(),
            status: task.status.to_string(),
            title: task.spec.title,
            agent: task.agent.map(String::from),
            context: task.context,
            payload: task.spec.payload,
        }
    }
}

/// Millionths as a decimal: 250000 is `0.25`.
fn cost(micros: u64) -> String {
    let text = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A task to add.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(try_from = "Map<String, Value>")]
pub(crate) struct NewTask {
    pub(crate) id: String,
    #[serde(flatten)]
    pub(crate) spec: TaskSpec,
}

impl TryFrom<Map<String, Value>> for NewTask {
    type Error = serde_json::Error;

    fn try_from(mut given: Map<String, Value>) -> Result<Self, Self::Error> {
        let id = given.remove("id").ok_or_else(|| Self::Error::missing_field("id"))?;
        Ok(Self { id: from_value(id)?, spec: from_value(Value::Object(given))? })
    }
}

/// The definition of a task.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct TaskSpec {
    pub(crate) title: Option<String>,
    /// Its agent. Default: any.
    pub(crate) agent: Option<String>,
    /// The declared steps, in order.
    #[serde(default)]
    pub(crate) steps: Vec<String>,
    #[cfg_attr(test, schema(value_type = Value, required = false))]
    pub(crate) payload: Option<Value>,
    pub(crate) strategy: Option<String>,
    #[cfg_attr(test, schema(value_type = Option<i64>, minimum = 0, maximum = 4294967295_i64))]
    pub(crate) max_retries: Option<u32>,
    /// The idempotency key: two requests with the same key are one.
    pub(crate) key: Option<String>,
    /// Larger goes first.
    #[serde(default)]
    pub(crate) priority: i32,
    /// Skills that an agent needs.
    #[serde(default)]
    pub(crate) needs: Vec<String>,
    /// How long it is worth resuming. Default, and `0s`: always.
    pub(crate) ttl: Option<String>,
    /// Initial context.
    #[serde(default)]
    pub(crate) set: BTreeMap<String, String>,
}

/// A task to start; added if it does not exist.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(try_from = "Map<String, Value>")]
pub(crate) struct StartTask {
    #[serde(flatten)]
    pub(crate) spec: TaskSpec,
    /// How long each write renews the lease for. Default: `10m`.
    pub(crate) lease: Option<String>,
    /// The fence of the lease to continue.
    pub(crate) fence: Option<u64>,
    /// Start it even if it waits for a person, or has used up its budget.
    #[serde(default)]
    pub(crate) force: bool,
}

impl TryFrom<Map<String, Value>> for StartTask {
    type Error = serde_json::Error;

    fn try_from(mut given: Map<String, Value>) -> Result<Self, Self::Error> {
        let lease = from_value(given.remove("lease").unwrap_or_default())?;
        let fence = number::optional(given.remove("fence").unwrap_or_default())?;
        let force = given.remove("force").map(from_value).transpose()?.unwrap_or(false);
        // The id stands in the path; said again it must not hurt.
        given.remove("id");
        Ok(Self { spec: from_value(Value::Object(given))?, lease, fence, force })
    }
}

/// A request for work.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Claim {
    pub(crate) agent: String,
    /// Its skills, in addition to those in the store.
    #[serde(default)]
    pub(crate) skills: Vec<String>,
    /// How long to wait for a task. Default: no wait.
    pub(crate) wait: Option<String>,
    /// How long each write renews the lease for. Default: `10m`.
    pub(crate) lease: Option<String>,
}

/// A change to a task by its holder or a person.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct TaskVerb {
    /// The fence of the lease.
    #[serde(default, deserialize_with = "number::optional")]
    pub(crate) fence: Option<u64>,
    /// The reason; required for `fail` and `block`.
    pub(crate) reason: Option<String>,
    /// A time, or a duration from now; required for `defer`.
    pub(crate) until: Option<String>,
    /// The new agent; for `retry`.
    pub(crate) agent: Option<String>,
    /// Ignore the retry limit, a live holder or open steps; for `retry`, `release` and `done`.
    #[serde(default)]
    pub(crate) force: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_written_as_people_do() {
        for (micros, text) in
            [(0, "0"), (250_000, "0.25"), (1_000_000, "1"), (1_000_001, "1.000001")]
        {
            assert_eq!(cost(micros), text);
        }
    }
}
