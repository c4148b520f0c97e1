//! An agent.

use std::collections::BTreeMap;

use relight_core::agent::{AgentPlan, RestartRule};
use relight_core::task::Cost;
use relight_core::time::{Span, Time};
use relight_runtime::operations::fields;
use relight_runtime::supervise::control::Changed;
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
    #[serde(default, deserialize_with = "fields::optional_text")]
    #[cfg_attr(test, schema(value_type = Option<String>))]
    pub(crate) silence_max: Option<Span>,
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
    /// The task that its attempt was working on; it continues with the next attempt.
    pub(crate) task_interrupted: Option<String>,
    /// The same, if the next attempt has already begun: the previous attempt's work on it was cut off; its
    /// finished steps stay.
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

/// How an agent is run and recovered, with the words of `relight.toml`. A limit of `0s` is none.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema), schema(as = AgentConfig))]
pub(crate) struct AgentConfigView {
    pub(crate) command: Vec<String>,
    pub(crate) folder: String,
    pub(crate) preset: String,
    /// The task that it is configured with.
    pub(crate) task: Option<String>,
    #[cfg_attr(test, schema(value_type = String))]
    pub(crate) restart: RestartRule,
    pub(crate) max_attempts: u32,
    pub(crate) cooldown: String,
    /// A run of this length counts as progress.
    pub(crate) stable_after: String,
    /// Maximum restarts within `restarts_window`.
    pub(crate) restarts_max: u32,
    pub(crate) restarts_window: String,
    /// What it may cost without progress; `0` for no limit.
    pub(crate) spend_max: String,
    /// The same in tokens.
    pub(crate) tokens_max: u64,
    pub(crate) silence_max: String,
    /// How long a running step or an open tool call explains silence.
    pub(crate) step_silence_max: String,
    pub(crate) timeout: String,
    pub(crate) grace: String,
    pub(crate) defer: String,
    pub(crate) skills: Vec<String>,
    pub(crate) pool: Option<String>,
    /// How many tasks it may hold at a time; null for any number.
    pub(crate) concurrency: Option<u32>,
    pub(crate) labels: BTreeMap<String, String>,
}

impl AgentConfigView {
    pub(crate) fn of(plan: AgentPlan) -> Self {
        let limit = |span: Option<Span>| span.unwrap_or(Span::ZERO).to_string();
        let policy = plan.policy;
        Self {
            command: plan.command,
            folder: plan.folder,
            preset: plan.preset,
            task: plan.task.map(String::from),
            restart: plan.restart,
            max_attempts: policy.max_attempts,
            cooldown: policy.cooldown.to_string(),
            stable_after: policy.stable_after.to_string(),
            restarts_max: policy.total_max,
            restarts_window: policy.total_window.to_string(),
            spend_max: Cost(plan.spend.cost_micros.unwrap_or(0)).to_string(),
            tokens_max: plan.spend.tokens.unwrap_or(0),
            silence_max: limit(plan.silence_max),
            step_silence_max: limit(plan.step_silence_max),
            timeout: limit(plan.timeout),
            grace: plan.grace.to_string(),
            defer: plan.defer.to_string(),
            skills: plan.skills,
            pool: plan.pool.map(String::from),
            concurrency: plan.concurrency,
            labels: plan.labels,
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
    /// The task that it works on; the answer is `cancel` if it no longer holds that task.
    pub(crate) task: Option<String>,
}

/// The last output of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct Logs {
    pub(crate) agent: String,
    /// Redacted, and without terminal control sequences.
    pub(crate) lines: Vec<String>,
    /// Latest possible time of each line, to about a second; null if unknown.
    #[cfg_attr(test, schema(value_type = Vec<Option<String>>))]
    pub(crate) times: Vec<Option<Time>>,
    /// There are earlier lines.
    pub(crate) truncated: bool,
    /// The node of a fleet that wrote them; null if there is only one machine.
    pub(crate) node: Option<String>,
    /// Why these are only the lines from the store; null if they come from the log.
    pub(crate) note: Option<String>,
}
