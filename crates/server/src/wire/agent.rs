//! An agent.

use relight_core::time::Time;
use relight_runtime::supervise::control::Changed;
use relight_runtime::supervise::reporters::{self, Action};
use serde::{Deserialize, Serialize};

/// An agent that reports itself, or, with a command, an agent that the daemon supervises.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct NewAgent {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) skills: Vec<String>,
    /// How long it may be silent, such as `180s`; `0s` for no limit. Default: as configured.
    pub(crate) silence_max: Option<String>,
    /// Program and arguments. Refused unless `[daemon] commands = true`.
    pub(crate) command: Option<Vec<String>>,
    /// The folder of a command, absolute. Default: the folder of the configuration.
    pub(crate) folder: Option<String>,
    /// The preset of a command. Default: `generic`.
    pub(crate) preset: Option<String>,
    /// When to restart a command: `on-failure`, `always` or `never`.
    pub(crate) restart: Option<String>,
}

/// The result of an agent command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct AgentChanged {
    pub(crate) agent: String,
    pub(crate) previous_state: String,
    pub(crate) state: String,
    /// The task that its attempt was at; it continues with the next attempt.
    pub(crate) task_interrupted: Option<String>,
    /// The same where the next attempt has begun already: what the last one did for it was cancelled.
    pub(crate) task_cancelled: Option<String>,
}

impl From<Changed> for AgentChanged {
    fn from(changed: Changed) -> Self {
        Self {
            agent: changed.agent.to_string(),
            previous_state: changed.previous_state.to_string(),
            state: changed.state.to_string(),
            task_interrupted: changed.task_interrupted.map(String::from),
            task_cancelled: changed.task_cancelled.map(String::from),
        }
    }
}

/// Options for starting an agent.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct StartAgent {
    /// Do not restart it if it is already running.
    #[serde(default)]
    pub(crate) keep_running: bool,
}

/// A sign of life.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Heartbeat {
    /// It will be silent until then: a time, or a duration from now.
    pub(crate) waiting_until: Option<String>,
    /// What it is doing.
    pub(crate) status: Option<String>,
    /// The attempt that it is in, as an earlier answer said: then it learns of every restart.
    pub(crate) attempt: Option<u32>,
    /// The task that it works on: then it learns that it does not hold it any more.
    pub(crate) task: Option<String>,
}

/// What an agent that has beaten must know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct HeartbeatAnswer {
    pub(crate) agent: String,
    /// `created`, `running`, `crashed`, `suspended`, `stopped` or `terminated`.
    pub(crate) state: String,
    /// Number of its newest attempt.
    pub(crate) attempt: u32,
    /// `continue`; `wait` (take no work before `again_at`); `cancel` (give up the task it named);
    /// `restart` (begin anew, what it held was taken from it); `stop` (end).
    #[cfg_attr(test, schema(value_type = String))]
    pub(crate) action: Action,
    /// Why, unless it continues.
    pub(crate) why: Option<String>,
    #[cfg_attr(test, schema(value_type = Option<String>))]
    pub(crate) again_at: Option<Time>,
    /// No new work is given out.
    pub(crate) draining: bool,
    /// What it holds under leases by time, which the beat has renewed.
    pub(crate) tasks: Vec<HeldTask>,
}

/// A task that an agent holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct HeldTask {
    pub(crate) task: String,
    /// The right to write.
    pub(crate) fence: u64,
    /// When the lease ends, unless something renews it.
    #[cfg_attr(test, schema(value_type = Option<String>))]
    pub(crate) lease_ends_at: Option<Time>,
}

impl From<reporters::HeartbeatAnswer> for HeartbeatAnswer {
    fn from(answer: reporters::HeartbeatAnswer) -> Self {
        let tasks = answer.tasks.into_iter().map(|held| HeldTask {
            task: held.task.to_string(),
            fence: held.fence.0,
            lease_ends_at: held.lease_ends_at,
        });
        Self {
            agent: answer.agent.to_string(),
            state: answer.state.to_string(),
            attempt: answer.attempt,
            action: answer.action,
            why: answer.why,
            again_at: answer.again_at,
            draining: answer.draining,
            tasks: tasks.collect(),
        }
    }
}

/// The last output of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct Logs {
    pub(crate) agent: String,
    /// Redacted, and without terminal control sequences.
    pub(crate) lines: Vec<String>,
    /// There are earlier lines.
    pub(crate) truncated: bool,
    /// The node of a fleet that wrote them; null if there is only one machine.
    pub(crate) node: Option<String>,
    /// Why these are only the lines from the store; null if they come from the log.
    pub(crate) note: Option<String>,
}
