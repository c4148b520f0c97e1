//! Tasks: shown, added, started.

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use relight_core::decide::StartLimits;
use relight_core::error_code::ErrorCode;
use relight_core::ids::{AgentName, IdempotencyKey, StepName, TaskId};
use relight_core::lease::{Fence, Holder, LEASE_DEFAULT, of_length};
use relight_core::status::TaskStatus;
use relight_core::task::{NewTask, TaskSpec};
use relight_core::time::Span;
use relight_runtime::drain;
use relight_runtime::engine::Added;
use relight_runtime::holders;
use relight_runtime::operations::right;
use relight_runtime::operations::view::{self, Started, WholeTask};
use relight_runtime::os::clock;
use relight_runtime::running_step::check_start;
use relight_store::TaskQuery;
use serde::Deserialize;

use super::span;
use crate::answer::{Answer, json_bytes};
use crate::app::App;
use crate::error::ApiError;
use crate::extract::{Asked, Given, Named};
use crate::guard::Caller;
use crate::wire;
use crate::wire::list::{List, Page};
use crate::wire::task::StartTask;

/// Which tasks.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::IntoParams))]
#[cfg_attr(test, into_params(parameter_in = Query))]
pub(super) struct WhichTasks {
    /// Only of these statuses, with commas between.
    status: Option<String>,
    /// Only of this agent.
    agent: Option<String>,
    /// Only those with a step in doubt.
    in_doubt: Option<bool>,
    /// At most so many, 1 to 1000.
    #[cfg_attr(test, param(minimum = 1, maximum = 1000, default = 100))]
    limit: Option<usize>,
    /// The `next` of the page before.
    after: Option<String>,
}

/// Tasks in the order they were added.
#[cfg_attr(test, utoipa::path(get, path = "/api/tasks", tag = "tasks", params(WhichTasks),
    responses((status = 200, body = List<view::Task>), (status = 422))))]
pub(super) async fn list(
    State(app): State<App>,
    Asked(which): Asked<WhichTasks>,
) -> Result<Answer<List<view::Task>>, ApiError> {
    let limit = Page { limit: which.limit, after: None }.limit()?;
    let words = which.status.as_deref().unwrap_or_default();
    let statuses: Result<Vec<TaskStatus>, _> =
        words.split(',').filter(|word| !word.is_empty()).map(str::parse).collect();
    let query = TaskQuery {
        statuses: statuses.map_err(|error| ApiError::invalid(error.to_string()))?,
        agent: which.agent.as_deref().map(AgentName::of_workflow).transpose()?,
        in_doubt: which.in_doubt.unwrap_or(false),
        after: which.after.map(TaskId::new).transpose()?,
        limit: Some(limit + 1),
        ..TaskQuery::default()
    };
    let engine = &app.backend.engine;
    let found = engine.store().tasks(query).await?;
    let leases = found.iter().filter_map(|task| task.lease.held.as_ref());
    holders::look_for(engine.store().as_ref(), leases).await?;
    let mut told = Vec::with_capacity(found.len());
    for task in found {
        let declared_done = engine.declared_done(&task).await?;
        told.push(view::Task::listed(task, declared_done));
    }
    Ok(Answer(List::cut(told, limit, |task| task.id.clone(), |task| task)))
}

/// One task with its steps, its context and its payload.
#[cfg_attr(test, utoipa::path(get, path = "/api/tasks/{id}", tag = "tasks", params(("id" = String, Path)),
    responses((status = 200, body = WholeTask), (status = 404),
        (status = 422))))]
pub(super) async fn show(
    State(app): State<App>,
    Named(id): Named<String>,
) -> Result<Answer<WholeTask>, ApiError> {
    let engine = &app.backend.engine;
    let view = engine.view(&TaskId::new(id)?).await?;
    holders::look_for(engine.store().as_ref(), &view.task.lease.held).await?;
    let strategy = app.backend.recoverer.strategies().name_for(&view.task).to_owned();
    Ok(Answer(WholeTask::new(view, Some(&strategy))))
}

/// Adds a task; the same one again, or one whose key another has, changes nothing.
#[cfg_attr(test, utoipa::path(post, path = "/api/tasks", tag = "tasks", request_body = wire::task::NewTask,
    responses((status = 201, body = view::Task), (status = 200, body = view::Task),
        (status = 409), (status = 422))))]
pub(super) async fn add(
    State(app): State<App>,
    Given(given): Given<wire::task::NewTask>,
) -> Result<Response, ApiError> {
    let new = new_task(TaskId::new(given.id)?, given.spec)?;
    app.check_strategy(&new)?;
    let (status, task) = match app.backend.engine.add(new).await? {
        Added::Created(task) => (StatusCode::CREATED, task),
        Added::Same(task) | Added::KeyTaken(task) => (StatusCode::OK, task),
        Added::Ended(task) => {
            let text = format!("task {} is {}; nothing was added", task.id, task.status);
            return Err(
                ApiError::new(ErrorCode::ENDED, text).hint("it has ended; new work needs a new id")
            );
        }
    };
    Ok(json_bytes(status, &view::Task::from(task)))
}

/// Takes the lease of a task, adding it first where it is absent; the same agent continues by its fence.
#[cfg_attr(test, utoipa::path(post, path = "/api/tasks/{id}/start", tag = "tasks", params(("id" = String, Path)),
    request_body = StartTask,
    responses((status = 200, body = Started), (status = 409),
        (status = 422), (status = 503))))]
pub(super) async fn start(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Named(id): Named<String>,
    Given(given): Given<StartTask>,
) -> Result<Answer<Started>, ApiError> {
    let id = TaskId::new(id)?;
    let lease = lease(given.lease.as_deref())?;
    let new = new_task(id.clone(), given.spec)?;
    app.check_strategy(&new)?;
    let engine = &app.backend.engine;
    check_start(engine, &id, given.fence.map(Fence)).await?;
    if let Some(agent) = &new.agent {
        app.reported(agent).await?;
    }
    let holder = app.holder(new.agent.as_ref(), &caller.id).await?;
    let limits = match given.force {
        true => StartLimits::Forced,
        false => StartLimits::Policy(app.backend.recoverer.policy()),
    };
    let right = right(given.fence.map(Fence));
    let started = drain::start(engine, new, right, holder, Some(lease), limits).await?;
    app.worked(&app.context().refresh(&started.view.task.id).await?.task);
    Ok(Answer(started.into()))
}

impl App {
    /// Who holds what is taken over HTTP: the live attempt of an agent that is supervised. Nobody else's
    /// life can be seen: their lease lasts for a time, and each write renews it.
    pub(crate) async fn holder(
        &self,
        agent: Option<&AgentName>,
        caller: &str,
    ) -> Result<Holder, ApiError> {
        let Some(agent) = agent else { return Ok(over_http(caller)) };
        let attempt = holders::live_attempt(self.backend.engine.store().as_ref(), agent).await?;
        Ok(attempt.unwrap_or_else(|| over_http(&format!("agent {agent}"))))
    }

    fn check_strategy(&self, new: &NewTask) -> Result<(), ApiError> {
        let Some(name) = &new.spec.strategy else { return Ok(()) };
        let known = self.backend.recoverer.strategies().check(name);
        known.map_err(|error| ApiError::invalid(error.to_string()))
    }
}

/// A holder whose life cannot be seen.
pub(crate) fn over_http(who: &str) -> Holder {
    Holder::Time { by: format!("{who} over HTTP") }
}

/// The length of a lease.
pub(crate) fn lease(given: Option<&str>) -> Result<Span, ApiError> {
    let lease = given.map(span).transpose()?.unwrap_or(LEASE_DEFAULT);
    of_length(lease).map_err(|error| ApiError::invalid(error.to_string()))
}

fn new_task(id: TaskId, given: wire::task::TaskSpec) -> Result<NewTask, ApiError> {
    let steps: Result<Vec<StepName>, _> = given.steps.into_iter().map(StepName::new).collect();
    let ttl = given.ttl.as_deref().map(span).transpose()?.and_then(Span::as_limit);
    Ok(NewTask {
        id,
        agent: given.agent.map(AgentName::new).transpose()?,
        spec: TaskSpec {
            title: given.title,
            steps: steps?,
            payload: given.payload,
            strategy: given.strategy,
            max_retries: given.max_retries,
            key: given.key.map(IdempotencyKey::new).transpose()?,
            priority: given.priority,
            needs: given.needs,
            ttl_ms: ttl.map(Span::as_ms),
            spent_keys: Vec::new(),
        },
        context: given.set,
        expires_at: ttl.map(|ttl| clock::now().plus(ttl)),
        checkpoint: None,
    })
}
