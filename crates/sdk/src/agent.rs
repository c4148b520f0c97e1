//! Agents that live inside of the program and report by themselves.

use relight_core::agent::AgentPlan;
use relight_core::agent::plain::plain_line;
use relight_core::error_code::{ErrorCode, Refused};
use relight_core::ids::{AgentName, TaskId};
use relight_core::restart_budget::RestartPolicy;
use relight_core::time::{Moment, Span};
use relight_runtime::EngineAccess as _;
use relight_runtime::engine::ActError;
use relight_runtime::operations::fields;
use relight_runtime::os::clock;
use relight_runtime::recovery::Recoverer;
use relight_runtime::supervise::heartbeats::{Beat, Beats};
use relight_runtime::supervise::notices::Notices;
use relight_runtime::supervise::reporters::{Belief, ReportError, Reporters};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::client::Client;
use crate::fork_guard::OfProcess;
use crate::open::invalid;

/// An agent of the program.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentRequest {
    /// Its name.
    pub agent: String,
    /// What it can do.
    #[serde(default)]
    pub skills: Vec<String>,
    /// How long it may be silent; `0s` for no limit.
    #[serde(default, deserialize_with = "fields::optional_text")]
    pub silence_max: Option<Span>,
    /// How often in a row it is let work again without progress.
    pub max_attempts: Option<u32>,
    /// How long it waits before the second recovery in a row; longer each time.
    #[serde(default, deserialize_with = "fields::optional_text")]
    pub cooldown: Option<Span>,
}

/// A sign of life.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BeatRequest {
    /// What it is doing.
    pub status: Option<String>,
    /// It will be silent until then: a time, or a duration from now.
    #[serde(default, deserialize_with = "fields::optional_text")]
    pub waiting_until: Option<Moment>,
    /// The attempt that it is in: then it learns of every restart.
    pub attempt: Option<u32>,
    /// The task that it works on; the answer is `cancel` if it no longer holds that task.
    pub task: Option<String>,
}

impl AgentRequest {
    /// Reads it from JSON. What is null was not given.
    pub fn read(given: Map<String, Value>) -> Result<Self, Refused> {
        Ok(relight_runtime::operations::read(given)?)
    }
}

impl BeatRequest {
    /// Reads it from JSON. What is null was not given.
    pub fn read(given: Map<String, Value>) -> Result<Self, Refused> {
        Ok(relight_runtime::operations::read(given)?)
    }
}

impl Client {
    /// Makes an agent of the program known, which reports by itself.
    pub async fn agent(&self, request: AgentRequest) -> Result<AgentHandle, Refused> {
        AgentHandle::register(self.clone(), request).await
    }
}

/// An agent of the program. Its silence is judged for as long as this handle lives.
#[derive(Debug)]
pub struct AgentHandle {
    name: AgentName,
    reporters: OfProcess<Reporters>,
    client: Client,
}

impl AgentHandle {
    pub(crate) async fn register(client: Client, request: AgentRequest) -> Result<Self, Refused> {
        let recoverer: Recoverer = client.shared()?.relight.recoverer().clone();
        let name = AgentName::new(&request.agent).map_err(invalid)?;
        let usual = RestartPolicy::default();
        let policy = RestartPolicy {
            max_attempts: request.max_attempts.unwrap_or(usual.max_attempts),
            cooldown: request.cooldown.unwrap_or(usual.cooldown),
            ..usual
        };
        let defaults = AgentPlan {
            policy,
            ..AgentPlan::default()
        };
        // Whoever wants to know reads the events.
        let (notices, _) = Notices::channel();
        let reporters = Reporters::new(recoverer, Beats::default(), notices, defaults);
        let registered = reporters.register(&name, request.skills, request.silence_max);
        registered.await.map_err(refused)?;
        Ok(Self {
            name,
            reporters: OfProcess::new(reporters),
            client,
        })
    }

    /// The client that it came from.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// It lives. Its first report begins an attempt, unless it has to wait; the answer says what it has to
    /// do: `continue`, `wait`, `cancel`, `restart` or `stop`.
    pub async fn beat(&self, given: BeatRequest) -> Result<Value, Refused> {
        let reporters = self.reporters.get()?;
        let waiting_until = given.waiting_until.map(|it| it.after(clock::now()));
        let waiting_until = waiting_until.transpose().map_err(invalid)?;
        let engine = self.client.shared()?.relight.engine();
        let status = given.status.map(|text| {
            let plain = plain_line(&text);
            engine.redactor().text(&plain).into_owned()
        });
        let beat = Beat {
            waiting_until,
            status,
        };
        reporters.report(&self.name, beat).await.map_err(refused)?;
        let task = given.task.map(TaskId::new).transpose().map_err(invalid)?;
        let belief = Belief {
            attempt: given.attempt,
            task,
        };
        let answer = reporters.answer(&self.name, belief).await;
        Ok(json!(answer.map_err(refused)?))
    }

    /// Its attempt failed: what it holds goes by its strategy. It may work again when its cooldown is over,
    /// unless its attempts are used up.
    pub async fn failed(&self, why: &str) -> Result<(), Refused> {
        self.reporters
            .get()?
            .failed(&self.name, why)
            .await
            .map_err(refused)
    }

    /// It ends on purpose: what it held is given back, and its silence counts no more.
    pub async fn leave(&self) -> Result<(), Refused> {
        let left = self.reporters.get()?.let_go(&self.name).await;
        left.map(drop).map_err(refused)
    }
}

fn refused(error: ReportError) -> Refused {
    match error {
        ReportError::Unknown(name) => ActError::NoSuchAgent(name).into(),
        ReportError::Store(error) => error.into(),
        ReportError::Contended(_) => {
            Refused::new(ErrorCode::CONTENDED, error.to_string(), "try again")
        }
        ReportError::Full => Refused::without_hint(ErrorCode::FULL, error.to_string()),
        ReportError::NotReporting(_) | ReportError::Exists(_) => {
            Refused::without_hint(ErrorCode::CONFLICT, error.to_string())
        }
    }
}
