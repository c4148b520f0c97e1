//! An agent.

use relight::supervise::control::Changed;
use relight_core::time::Time;
use serde::{Deserialize, Serialize};

/// An agent: what it is doing, and what is known of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct Agent {
    pub(crate) name: String,
    /// `created`, `running`, `crashed`, `suspended`, `stopped` or `terminated`.
    pub(crate) state: String,
    /// Why it is so, in words.
    pub(crate) why: Option<String>,
    #[cfg_attr(test, schema(value_type = String))]
    pub(crate) since: Time,
    /// When it goes on by itself.
    #[cfg_attr(test, schema(value_type = Option<String>))]
    pub(crate) again_at: Option<Time>,
    /// Number of the newest attempt; 0 before the first.
    pub(crate) attempt: u32,
    #[cfg_attr(test, schema(value_type = Option<String>))]
    pub(crate) attempt_begun_at: Option<Time>,
    pub(crate) pid: Option<u32>,
    /// `starting`, `working` or `waiting`, while an attempt lives.
    pub(crate) phase: Option<String>,
    #[cfg_attr(test, schema(value_type = Option<String>))]
    pub(crate) last_sign_at: Option<Time>,
    #[cfg_attr(test, schema(value_type = Option<String>))]
    pub(crate) waiting_until: Option<Time>,
    /// What it said it does.
    pub(crate) status_text: Option<String>,
    pub(crate) task: Option<String>,
    pub(crate) step: Option<String>,
    /// The agent's own session, where a preset knows it.
    pub(crate) session: Option<String>,
    pub(crate) recoveries_in_a_row: u32,
    pub(crate) max_attempts: u32,
    /// Restarts that still count.
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
    /// It reports by itself.
    pub(crate) self_reporting: bool,
    pub(crate) node: Option<String>,
    pub(crate) last_death: Option<LastDeath>,
    #[cfg_attr(test, schema(value_type = String))]
    pub(crate) updated_at: Time,
}

/// How the newest attempt that ended did so.
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

/// An agent that reports by itself, or, with a command, one that the daemon supervises.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct NewAgent {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) skills: Vec<String>,
    /// How long it may be silent, such as `180s`; `0s` for any time. What the configuration says when
    /// none.
    pub(crate) silence_max: Option<String>,
    /// Program and arguments. Refused unless `[daemon] commands = true`.
    pub(crate) command: Option<Vec<String>>,
    /// Where a command runs, absolute; the folder of the configuration when none.
    pub(crate) folder: Option<String>,
    /// The preset of a command; `generic` when none.
    pub(crate) preset: Option<String>,
    /// When a command is started again: `on-failure`, `always` or `never`.
    pub(crate) restart: Option<String>,
}

/// What became of an agent.
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

/// How an agent is started.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct StartAgent {
    /// Leave it as it is when it runs already, instead of restarting it.
    #[serde(default)]
    pub(crate) keep_running: bool,
}

/// A sign of life.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Heartbeat {
    /// Nothing will come until then: a time, or a duration from now.
    pub(crate) waiting_until: Option<String>,
    /// What it is doing.
    pub(crate) status: Option<String>,
}

/// What an agent wrote last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct Logs {
    pub(crate) agent: String,
    /// Redacted, and without what a terminal obeys.
    pub(crate) lines: Vec<String>,
    /// There is more before.
    pub(crate) truncated: bool,
    /// The node of a fleet that wrote them; null where there is only one machine.
    pub(crate) node: Option<String>,
    /// Why these are only the lines that the store has; null when they are the log's.
    pub(crate) note: Option<String>,
}
