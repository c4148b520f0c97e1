//! Tasks: shown, added, started.

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use relight_core::agent::AgentState;
use relight_core::decide::StartLimits;
use relight_core::ids::{AgentName, TaskId};
use relight_runtime::operations::view::{self, StartedView, WholeTask};
use relight_runtime::operations::work::{Taker, TaskAdd, TaskList, TaskStart};
use relight_runtime::operations::{Written, read};
use relight_runtime::supervise::folder::AgentFolder;
use relight_runtime::supervise::successor::{BriefSubject, current_brief};
use relight_store::TaskQuery;
use serde_json::{Map, Value};

use super::verbs::with_path;
use crate::answer::{Answer, json_bytes};
use crate::app::App;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::{Asked, Given, Named};
use crate::wire::list::{List, Page};

/// Tasks in the order they were added.
#[cfg_attr(test, utoipa::path(get, path = "/api/tasks", tag = "tasks", params(TaskList),
    responses((status = 200, body = List<view::TaskView>), (status = 422))))]
pub(super) async fn list(
    State(app): State<App>,
    Asked(which): Asked<TaskList>,
) -> Result<Answer<List<view::TaskView>>, ApiError> {
    let limit = Page {
        limit: which.limit,
        after: None,
    }
    .limit()?;
    let page = which.run(&app.context(), limit).await?;
    Ok(Answer(page.list(app.backend.engine.holders())))
}

/// One task with its steps, its context and its payload.
#[cfg_attr(test, utoipa::path(get, path = "/api/tasks/{id}", tag = "tasks", params(("id" = String, Path)),
    responses((status = 200, body = WholeTask), (status = 404),
        (status = 422))))]
pub(super) async fn show(
    State(app): State<App>,
    Named(id): Named<String>,
) -> Result<Answer<WholeTask>, ApiError> {
    let view = app.context().show(&TaskId::new(id)?).await?;
    let strategy = app
        .backend
        .recoverer
        .strategies()
        .name_for(&view.task)
        .to_owned();
    Ok(Answer(WholeTask::new(
        view,
        Some(&strategy),
        app.backend.engine.holders(),
    )))
}

/// What a successor learns about a task: what its agent's live attempt was given, else what the next
/// attempt would be given.
#[cfg_attr(test, utoipa::path(get, path = "/api/tasks/{id}/brief", tag = "tasks", params(("id" = String, Path)),
    responses((status = 200, body = view::BriefView), (status = 404), (status = 422))))]
pub(super) async fn brief(
    State(app): State<App>,
    Named(id): Named<String>,
) -> Result<Answer<view::BriefView>, ApiError> {
    let (engine, id) = (&app.backend.engine, TaskId::new(id)?);
    let task = engine.task(&id).await?;
    let given = match &task.agent {
        Some(name) => app.given_brief(name, &id).await?,
        None => None,
    };
    let (text, given_to) = match given {
        Some((text, attempt)) => (Some(text), Some(attempt)),
        None => {
            let about = BriefSubject {
                agent: task.agent.as_ref(),
                task: Some(&id),
                workspace: None,
            };
            (current_brief(engine, about).await?, None)
        }
    };
    Ok(Answer(view::BriefView {
        task: id.to_string(),
        text,
        given_to,
    }))
}

impl App {
    /// The brief of the agent's newest attempt on this machine, if that attempt holds the task.
    async fn given_brief(
        &self,
        name: &AgentName,
        id: &TaskId,
    ) -> Result<Option<(String, u32)>, ApiError> {
        let Ok(agent) = self.context().agent(name).await else {
            return Ok(None);
        };
        let held_by = match &agent.state {
            AgentState::Running { attempt, .. } => Some(attempt.clone()),
            _ => return Ok(None),
        };
        let query = TaskQuery {
            held_by,
            ..TaskQuery::default()
        };
        let held = self.backend.engine.store().tasks(query).await?;
        if !held.iter().any(|task| task.id == *id) {
            return Ok(None);
        }
        let file = AgentFolder::of(&self.backend.home, name).brief();
        let read = tokio::task::spawn_blocking(move || std::fs::read_to_string(file));
        let text = read.await.ok().and_then(Result::ok);
        let redactor = self.backend.engine.redactor();
        Ok(text.map(|text| (redactor.text(&text).into_owned(), agent.attempt_number)))
    }
}

/// Adds a task. If the same task or one with the same key exists, nothing changes.
#[cfg_attr(test, utoipa::path(post, path = "/api/tasks", tag = "tasks", request_body = TaskAdd,
    responses((status = 201, body = relight_runtime::operations::work::TaskAdded), (status = 200, body = relight_runtime::operations::work::TaskAdded),
        (status = 409), (status = 422))))]
pub(super) async fn add(
    State(app): State<App>,
    Given(given): Given<Map<String, Value>>,
) -> Result<Response, ApiError> {
    let request: TaskAdd = read(given)?;
    let added = request
        .run(&app.context(), &app.backend.recoverer.strategies())
        .await?;
    let status = if added.outcome == "created" {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    Ok(json_bytes(status, &added))
}

/// Takes the lease of a task and adds the task if it does not exist; the same agent continues with its
/// fence.
#[cfg_attr(test, utoipa::path(post, path = "/api/tasks/{id}/start", tag = "tasks", params(("id" = String, Path)),
    request_body = TaskStart,
    responses((status = 200, body = Written<StartedView>), (status = 409),
        (status = 422), (status = 503))))]
pub(super) async fn start(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Named(id): Named<String>,
    Given(given): Given<Map<String, Value>>,
) -> Result<Answer<Written<StartedView>>, ApiError> {
    let mut request: TaskStart = read(with_path([("task", id)], given)?)?;
    let named = request.definition.agent.take();
    request.definition.agent = named.or_else(|| caller.agent.clone());
    let agent = request.definition.agent.clone();
    if let Some(agent) = &agent {
        app.reported(agent).await?;
    }
    let recoverer = &app.backend.recoverer;
    let context = app.context_of(&caller).await?;
    let (named, attempt) = (agent.as_ref(), caller.attempt.as_ref());
    let taker = Taker::over_http(&context, named, attempt, &caller.id).await?;
    let (limits, strategies) = (
        StartLimits::Policy(recoverer.policy()),
        recoverer.strategies(),
    );
    let started = request.run(&context, &strategies, limits, taker).await?;
    app.worked(&started.task);
    Ok(Answer(started.into()))
}
