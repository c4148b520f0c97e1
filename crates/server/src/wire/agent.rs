//! An agent.

use relight::supervise::control::Changed;
use relight_core::time::Time;
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
    pub(crate) number: u32,
    pub(crate) cause: String,
    #[cfg_attr(test, schema(value_type = String))]
    pub(crate) at: Time,
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
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
    /// The task that was taken from it.
    pub(crate) task_cancelled: Option<String>,
}

impl From<Changed> for AgentChanged {
    fn from(changed: Changed) -> Self {
        Self {
            agent: changed.agent.to_string(),
            previous_state: changed.previous_state.to_string(),
            state: changed.state.to_string(),
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
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Heartbeat {
    /// It will be silent until then: a time, or a duration from now.
    pub(crate) waiting_until: Option<String>,
    /// What it is doing.
    pub(crate) status: Option<String>,
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
