//! Tasks: shown, added, started.

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use relight_core::decide::StartLimits;
use relight_core::ids::TaskId;
use relight_runtime::operations::view::{self, Started, WholeTask};
use relight_runtime::operations::work::{Taker, TaskAdd, TaskList, TaskStart};
use relight_runtime::operations::{Written, read};
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
    responses((status = 200, body = List<view::Task>), (status = 422))))]
pub(super) async fn list(
    State(app): State<App>,
    Asked(which): Asked<TaskList>,
) -> Result<Answer<List<view::Task>>, ApiError> {
    let limit = Page {
        limit: which.limit,
        after: None,
    }
    .limit()?;
    let page = which.run(&app.context(), limit).await?;
    let next = page.next.as_ref().map(ToString::to_string);
    Ok(Answer(List {
        next,
        items: page.items(app.backend.engine.holders()),
    }))
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

/// Adds a task; the same one again, or one whose key another has, changes nothing.
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

/// Takes the lease of a task, adding it first where it is absent; the same agent continues by its fence.
#[cfg_attr(test, utoipa::path(post, path = "/api/tasks/{id}/start", tag = "tasks", params(("id" = String, Path)),
    request_body = TaskStart,
    responses((status = 200, body = Written<Started>), (status = 409),
        (status = 422), (status = 503))))]
pub(super) async fn start(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Named(id): Named<String>,
    Given(given): Given<Map<String, Value>>,
) -> Result<Answer<Written<Started>>, ApiError> {
    let request: TaskStart = read(with_path([("task", id)], given)?)?;
    let agent = request.definition.agent.clone();
    if let Some(agent) = &agent {
        app.reported(agent).await?;
    }
    let recoverer = &app.backend.recoverer;
    let taker = Taker::over_http(&app.context(), agent.as_ref(), &caller.id).await?;
    let (limits, strategies) = (
        StartLimits::Policy(recoverer.policy()),
        recoverer.strategies(),
    );
    let started = request
        .run(&app.context(), &strategies, limits, taker)
        .await?;
    app.worked(&started.task);
    Ok(Answer(started.into()))
}
