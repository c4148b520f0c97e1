//! Agents: shown, registered, started and stopped.

use std::path::PathBuf;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use relight_core::agent::{Agent, AgentStateKind, RestartRule};
use relight_core::error_code::ErrorCode;
use relight_core::ids::{AgentName, NodeName};
use relight_core::limits;
use relight_core::time::Span;
use relight_runtime::operations::agent as view;
use relight_runtime::operations::fields;
use relight_runtime::operations::live_signs::LiveSigns;
use relight_runtime::os::clock;
use relight_runtime::supervise::control::{
    self, Changed, ControlReply, Refused, Registered, Request, run_socket,
};
use relight_runtime::supervise::folder::AgentFolder;
use relight_runtime::supervise::remote_command_sender::{self, RemoteCommandError};
use relight_store::AgentQuery;
use serde::Deserialize;

use crate::answer::{Answer, json_bytes};
use crate::app::App;
use crate::error::ApiError;
use crate::extract::{Asked, Given, Named};
use crate::wire;
use crate::wire::agent::{AgentChanged, AgentConfigView, NewAgent, StartAgent};
use crate::wire::list::List;

/// What another supervisor may take beyond the agent's own grace.
const PATIENCE: Span = Span::from_secs(30);
/// What another node may take beyond that; less, for whoever asked here waits too.
const NODE_PATIENCE: Span = Span::from_secs(20);

/// Which agents.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::IntoParams))]
#[cfg_attr(test, into_params(parameter_in = Query))]
pub(super) struct WhichAgents {
    /// Only in these states, separated by commas.
    #[serde(default, deserialize_with = "fields::words")]
    #[cfg_attr(test, param(value_type = Option<String>))]
    state: Vec<AgentStateKind>,
    /// Maximum number of items, 1 to 1000.
    #[cfg_attr(test, param(minimum = 1, maximum = 1000, default = 100))]
    limit: Option<usize>,
    /// The `next` of the previous page.
    after: Option<String>,
}

/// All agents, in the order of their names.
#[cfg_attr(test, utoipa::path(get, path = "/api/agents", tag = "agents", params(WhichAgents),
    responses((status = 200, body = List<view::AgentView>), (status = 422))))]
pub(super) async fn list(
    State(app): State<App>,
    Asked(which): Asked<WhichAgents>,
) -> Result<Answer<List<view::AgentView>>, ApiError> {
    let limit = wire::list::Page {
        limit: which.limit,
        after: None,
    }
    .limit()?;
    let after = which.after.map(AgentName::new).transpose()?;
    let query = AgentQuery {
        states: which.state,
        after,
        limit: Some(limit),
    };
    let mut list = app
        .context()
        .list_agents(query, &mut app.live_signs(), None)
        .await?;
    list.items
        .iter_mut()
        .for_each(|agent| app.add_own_sign(agent));
    Ok(Answer(list))
}

/// One agent.
#[cfg_attr(test, utoipa::path(get, path = "/api/agents/{name}", tag = "agents", params(("name" = String, Path)),
    responses((status = 200, body = view::AgentView), (status = 404),
        (status = 422))))]
pub(super) async fn show(
    State(app): State<App>,
    Named(name): Named<String>,
) -> Result<Answer<view::AgentView>, ApiError> {
    app.shown(&AgentName::new(name)?).await.map(Answer)
}

/// The configuration in effect for an agent, redacted. Environment variables are not part of it.
#[cfg_attr(test, utoipa::path(get, path = "/api/agents/{name}/config", tag = "agents", params(("name" = String, Path)),
    responses((status = 200, body = AgentConfigView), (status = 404), (status = 422))))]
pub(super) async fn config(
    State(app): State<App>,
    Named(name): Named<String>,
) -> Result<Answer<AgentConfigView>, ApiError> {
    let agent = app.agent(&AgentName::new(name)?).await?;
    Ok(Answer(AgentConfigView::of(agent.plan)))
}

impl App {
    /// The agent's row.
    pub(super) async fn agent(&self, name: &AgentName) -> Result<Agent, ApiError> {
        Ok(self.context().agent(name).await?)
    }

    /// The other live node that has an agent.
    pub(super) async fn far_node(&self, agent: &Agent) -> Result<Option<NodeName>, ApiError> {
        let Some((own, _)) = &self.backend.node else {
            return Ok(None);
        };
        let Some(held) = &agent.lease.held else {
            return Ok(None);
        };
        let Some(node) = held.holder.node().filter(|node| *node != own) else {
            return Ok(None);
        };
        let holders = self.backend.engine.holders();
        holders.look_for([held]).await?;
        Ok(holders.is_alive(held).then(|| node.clone()))
    }

    async fn shown(&self, name: &AgentName) -> Result<view::AgentView, ApiError> {
        let mut agent = self
            .context()
            .show_agent(name, &mut self.live_signs(), None)
            .await?;
        self.add_own_sign(&mut agent);
        Ok(agent)
    }

    fn live_signs(&self) -> LiveSigns {
        LiveSigns::of_daemon(self.backend.beats.clone())
    }

    /// What it said here, when nobody supervises it.
    fn add_own_sign(&self, agent: &mut view::AgentView) {
        let name = AgentName::new(agent.name.clone())
            .ok()
            .filter(|_| agent.phase.is_none());
        let Some(sign) = name.and_then(|name| self.signs.of(&name)) else {
            return;
        };
        agent.phase = Some(sign.phase(clock::now()).to_owned());
        agent.last_sign_at = Some(sign.at);
        (agent.waiting_until, agent.status_text) = (sign.waiting_until, sign.status);
    }

    /// Has the supervisor do something.
    pub(super) async fn call(&self, request: Request) -> Result<ControlReply, ApiError> {
        let (reply, answer) = tokio::sync::oneshot::channel();
        let call = relight_runtime::supervise::control_server::ControlCall { request, reply };
        let ending = || {
            let text = "the daemon is ending";
            ApiError::new(ErrorCode::ENDING, text)
        };
        self.backend.calls.send(call).await.map_err(|_| ending())?;
        answer.await.map_err(|_| ending())
    }
}

/// Registers an agent that reports by itself; with a command, where the configuration allows that, one
/// that is supervised from now on and after every start of the daemon.
#[cfg_attr(test, utoipa::path(post, path = "/api/agents", tag = "agents", request_body = NewAgent,
    responses((status = 201, body = view::AgentView), (status = 200, body = view::AgentView),
        (status = 403), (status = 409),
        (status = 422), (status = 503))))]
pub(super) async fn register(
    State(app): State<App>,
    Given(given): Given<NewAgent>,
) -> Result<Response, ApiError> {
    if given.command.is_some() && !app.backend.allows_commands {
        return Err(
            ApiError::forbidden("commands are not taken over the network")
                .hint("write it into relight.toml, or set [daemon] commands = true"),
        );
    }
    let command_len = given.command.iter().flatten().map(String::len).sum();
    limits::COMMAND
        .check(command_len)
        .and_then(|()| limits::FOLDER.check(given.folder.as_ref().map_or(0, String::len)))
        .map_err(|error| ApiError::invalid(error.to_string()))?;
    let name = AgentName::new(given.name.clone())?;
    app.backend.engine.check_agent(&name, None, &given.skills)?;
    let status = match given.command {
        Some(_) => app.supervise(&name, given).await?,
        None => app.listen_to(&name, given).await?,
    };
    Ok(json_bytes(status, &app.shown(&name).await?))
}

impl App {
    /// An agent that reports by itself. The same one again changes nothing.
    async fn listen_to(&self, name: &AgentName, given: NewAgent) -> Result<StatusCode, ApiError> {
        let of_commands = [
            given.folder.is_some(),
            given.preset.is_some(),
            given.restart.is_some(),
        ];
        if of_commands.contains(&true) {
            let text = "folder, preset and restart are of agents with a command";
            return Err(ApiError::invalid(text));
        }
        let reporters = &self.backend.reporters;
        let is_new = reporters
            .register(name, given.skills, given.silence_max)
            .await?;
        Ok(if is_new {
            StatusCode::CREATED
        } else {
            StatusCode::OK
        })
    }

    /// An agent with a command. The store is its configuration, so nothing in it may be a secret.
    async fn supervise(&self, name: &AgentName, given: NewAgent) -> Result<StatusCode, ApiError> {
        let command = given.command.unwrap_or_default();
        if command.first().is_none_or(String::is_empty) {
            return Err(
                ApiError::invalid("the command is empty").hint(r#"write ["PROGRAM", "ARG", …]"#)
            );
        }
        let redactor = self.backend.engine.redactor();
        if redactor.command(&command) != command {
            return Err(
                ApiError::invalid("there is a secret in the command, which would be kept")
                    .hint("let the agent read it from a file or a variable of its own"),
            );
        }
        let new = control::AgentRegistration {
            name: name.clone(),
            command,
            folder: given.folder.map(folder).transpose()?,
            preset: given.preset,
            restart: given
                .restart
                .as_deref()
                .map(restart_rule)
                .transpose()?
                .unwrap_or_default(),
            silence_max: given.silence_max,
            skills: given.skills,
        };
        let registered: Registered = match self.call(Request::Register(Box::new(new))).await? {
            ControlReply::Ok(value) => serde_json::from_value(value)
                .map_err(|error| ApiError::internal(error.to_string()))?,
            ControlReply::Error(refused) => return Err(refused.into()),
        };
        Ok(if registered.created {
            StatusCode::CREATED
        } else {
            StatusCode::OK
        })
    }
}

fn folder(text: String) -> Result<PathBuf, ApiError> {
    let path = PathBuf::from(text);
    if path.is_absolute() && path.is_dir() {
        return Ok(path);
    }
    Err(ApiError::invalid(format!(
        "{} is not a folder, or not absolute",
        path.display()
    )))
}

fn restart_rule(word: &str) -> Result<RestartRule, ApiError> {
    serde_json::from_value(word.into()).map_err(|_| {
        ApiError::invalid(format!(
            "{word:?} is not a rule; known are on-failure, always, never"
        ))
    })
}

/// Removes an agent: one that reports by itself, one that was registered with its command, which is
/// stopped first, or one that nobody supervises and that does not run. Its attempts, its own events and
/// its log go with it; the events of its tasks stay.
#[cfg_attr(test, utoipa::path(delete, path = "/api/agents/{name}", tag = "agents", params(("name" = String, Path)),
    responses((status = 204), (status = 404), (status = 409),
        (status = 422), (status = 503))))]
pub(super) async fn forget(
    State(app): State<App>,
    Named(name): Named<String>,
) -> Result<Response, ApiError> {
    let name = AgentName::new(name)?;
    let agent = app.agent(&name).await?;
    if agent.plan.reports_itself() {
        app.backend.reporters.let_go(&name).await?;
    }
    if agent.plan.is_registered() {
        // One that is not supervised here is as it is.
        let _ = app
            .call(Request::Unregister {
                agent: name.clone(),
            })
            .await?;
    }
    app.context().forget_agent(&name).await?;
    app.signs.forget(&name);
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Stops the running attempt of an agent, if any, and starts it; `keep_running` leaves a running attempt alone.
#[cfg_attr(test, utoipa::path(post, path = "/api/agents/{name}/start", tag = "agents",
    params(("name" = String, Path)), request_body = StartAgent,
    responses((status = 200, body = AgentChanged), (status = 404),
        (status = 409), (status = 422),
        (status = 503))))]
pub(super) async fn start(
    State(app): State<App>,
    Named(name): Named<String>,
    Given(given): Given<StartAgent>,
) -> Result<Answer<AgentChanged>, ApiError> {
    let agent = AgentName::new(name)?;
    let request = match given.keep_running {
        true => Request::Start {
            agent: agent.clone(),
        },
        false => Request::Restart {
            agent: agent.clone(),
        },
    };
    app.change(agent, request).await
}

/// Stops an agent; only a person can start it again.
#[cfg_attr(test, utoipa::path(post, path = "/api/agents/{name}/stop", tag = "agents",
    params(("name" = String, Path)),
    responses((status = 200, body = AgentChanged), (status = 404),
        (status = 409), (status = 422),
        (status = 503))))]
pub(super) async fn stop(
    State(app): State<App>,
    Named(name): Named<String>,
) -> Result<Answer<AgentChanged>, ApiError> {
    let agent = AgentName::new(name)?;
    app.change(agent.clone(), Request::Stop { agent }).await
}

/// Stops the running attempt of an agent and starts a new one; other agents are not affected.
#[cfg_attr(test, utoipa::path(post, path = "/api/agents/{name}/restart", tag = "agents",
    params(("name" = String, Path)),
    responses((status = 200, body = AgentChanged), (status = 404),
        (status = 409), (status = 422),
        (status = 503))))]
pub(super) async fn restart(
    State(app): State<App>,
    Named(name): Named<String>,
) -> Result<Answer<AgentChanged>, ApiError> {
    let agent = AgentName::new(name)?;
    app.change(agent.clone(), Request::Restart { agent }).await
}

impl App {
    async fn change(
        &self,
        name: AgentName,
        request: Request,
    ) -> Result<Answer<AgentChanged>, ApiError> {
        let agent = self.agent(&name).await?;
        if agent.plan.reports_itself() {
            return self.change_reporter(&name, &request).await;
        }
        let reply = match self.call(request.clone()).await? {
            ControlReply::Error(Refused {
                code: ErrorCode::NOT_SUPERVISED,
                ..
            }) => match self.ask_elsewhere(&agent, request.clone()).await {
                Some(reply) => reply,
                None => self.ask_node(&agent, request).await?,
            },
            reply => reply,
        };
        match reply {
            ControlReply::Ok(value) => {
                let changed: Changed = serde_json::from_value(value)
                    .map_err(|error| ApiError::internal(error.to_string()))?;
                Ok(Answer(changed.into()))
            }
            ControlReply::Error(refused) => Err(refused.into()),
        }
    }

    /// Nobody's process is touched: what is known of it changes, and what it holds is taken from it.
    async fn change_reporter(
        &self,
        name: &AgentName,
        request: &Request,
    ) -> Result<Answer<AgentChanged>, ApiError> {
        let reporters = &self.backend.reporters;
        let changed = match request {
            Request::Start { .. } => reporters.start(name).await?,
            Request::Stop { .. } => reporters.stop(name).await?,
            _ => reporters.restart(name).await?,
        };
        Ok(Answer(changed.into()))
    }

    /// Another node of the fleet may have it. When none has, it may have come here meanwhile.
    async fn ask_node(
        &self,
        agent: &Agent,
        mut request: Request,
    ) -> Result<ControlReply, ApiError> {
        if let (Some(_), Some((name, verb))) = (&self.backend.node, request.wish()) {
            let grace_ms = agent.plan.grace.as_ms();
            let patience = Span::from_ms(NODE_PATIENCE.as_ms().saturating_add(grace_ms));
            let holders = self.backend.engine.holders();
            match remote_command_sender::ask(holders, name, verb, patience).await {
                Ok(remote_command_sender::RemoteDelivery::Done(changed)) => {
                    return Ok(ControlReply::ok(&changed));
                }
                Ok(remote_command_sender::RemoteDelivery::Left(verb)) => {
                    request = Request::of(agent.name.clone(), verb);
                }
                Err(RemoteCommandError::Store(error)) => return Err(error.into()),
                Err(error) => return Ok(ControlReply::Error(error.into())),
            }
        }
        self.call(request).await
    }

    /// A `relight run` may have it.
    async fn ask_elsewhere(&self, agent: &Agent, request: Request) -> Option<ControlReply> {
        let socket = run_socket(&AgentFolder::of(&self.backend.home, &agent.name));
        let patience = Span::from_ms(PATIENCE.as_ms().saturating_add(agent.plan.grace.as_ms()));
        let asked = move || control::ask(&socket, &request, patience);
        tokio::task::spawn_blocking(asked).await.ok()?.ok()
    }
}
