//! An agent.

use relight_core::time::Time;
use relight_runtime::supervise::control::Changed;
use relight_runtime::supervise::reporters::{self, Action};
use serde::{Deserialize, Serialize};

/// An agent and what it is doing.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct Agent {
    pub(crate) name: String,
    /// `created`, `running`, `crashed`, `suspended`, `stopped` or `terminated`.
    pub(crate) state: String,
    /// The state in words.
    pub(crate) why: Option<String>,
    #[cfg_attr(test, schema(value_type = String))]
    pub(crate) since: Time,
    /// When it continues automatically.
    #[cfg_attr(test, schema(value_type = Option<String>))]
    pub(crate) again_at: Option<Time>,
    /// Number of the newest attempt; 0 before the first.
    pub(crate) attempt: u32,
    #[cfg_attr(test, schema(value_type = Option<String>))]
    pub(crate) attempt_begun_at: Option<Time>,
    pub(crate) pid: Option<u32>,
    /// `starting`, `working` or `waiting`, while an attempt is alive.
    pub(crate) phase: Option<String>,
    #[cfg_attr(test, schema(value_type = Option<String>))]
    pub(crate) last_sign_at: Option<Time>,
    #[cfg_attr(test, schema(value_type = Option<String>))]
    pub(crate) waiting_until: Option<Time>,
    /// The agent's own description of its work.
    pub(crate) status_text: Option<String>,
    pub(crate) task: Option<String>,
    pub(crate) step: Option<String>,
    /// The agent's own session, if a preset knows it.
    pub(crate) session: Option<String>,
    pub(crate) recoveries_in_a_row: u32,
    pub(crate) max_attempts: u32,
    /// Restarts that still count towards the limit.
    pub(crate) restarts_total: u32,
    pub(crate) command: Vec<String>,
    pub(crate) folder: String,
    pub(crate) preset: String,
    /// `claim` or `start`.
    pub(crate) takes: String,
    pub(crate) skills: Vec<String>,
    pub(crate) pool: Option<String>,
    /// A live supervisor holds it.
    pub(crate) supervised: bool,
    /// It reports itself.
    pub(crate) self_reporting: bool,
    pub(crate) node: Option<String>,
    pub(crate) last_death: Option<LastDeath>,
    #[cfg_attr(test, schema(value_type = String))]
    pub(crate) updated_at: Time,
}

/// How the newest ended attempt died.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct LastDeath {
    /// The attempt's number.
    pub(crate) attempt: u32,
    pub(crate) cause: String,
    /// The same in words.
    pub(crate) how: String,
    #[cfg_attr(test, schema(value_type = String))]
    pub(crate) at: Time,
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) note: Option<String>,
}

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
