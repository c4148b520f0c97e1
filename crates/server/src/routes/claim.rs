//! Asking for work, and waiting for it.

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use relight::os::clock;
use relight::queue::Claimed;
use relight_core::ids::AgentName;
use relight_core::lease::Holder;
use relight_core::time::Span;
use tokio::time::{Instant, timeout_at};

use super::span;
use super::tasks::{holder, lease};
use crate::answer::json_bytes;
use crate::app::App;
use crate::error::ApiError;
use crate::extract::Given;
use crate::wire::task::{Claim, Started};

/// No request waits longer.
const WAIT_MAX: Span = Span::from_secs(300);
/// A task may also become due by time alone; nobody tells of that.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Takes the next task of the queue for an agent, waiting for one when told so; a report of one that
/// reports by itself.
#[cfg_attr(test, utoipa::path(post, path = "/api/tasks/claim", tag = "tasks", request_body = Claim,
    responses((status = 200, body = Started), (status = 204, description = "there is no work"),
        (status = 409), (status = 422),
        (status = 503))))]
pub(super) async fn claim(
    State(app): State<App>,
    Given(given): Given<Claim>,
) -> Result<Response, ApiError> {
    let agent = AgentName::new(given.agent)?;
    let wait = given.wait.as_deref().map(span).transpose()?.unwrap_or_default().min(WAIT_MAX);
    let lease = lease(given.lease.as_deref())?;
    let holder = holder(&format!("agent {agent}"));
    app.reported(&agent).await?;
    let until = Instant::now() + wait.as_duration();
    let mut declared = None;
    loop {
        let newest = app.backend.engine.store().newest_event().await?;
        if let Some(started) = take(&app, &agent, &given.skills, &holder, lease).await? {
            return Ok(json_bytes(StatusCode::OK, &started));
        }
        if Instant::now() >= until {
            return Ok(StatusCode::NO_CONTENT.into_response());
        }
        // Whoever waits for work lives.
        app.backend.reporters.worked(&agent);
        declared.get_or_insert_with(|| app.backend.beats.wait(&agent, clock::now().plus(wait)));
        let look_at = until.min(Instant::now() + LOOK_EVERY);
        tokio::select! {
            _ = timeout_at(look_at, app.backend.engine.store().changed(newest)) => {}
            () = app.journal.ended() => return Ok(StatusCode::NO_CONTENT.into_response()),
        }
    }
}

async fn take(
    app: &App,
    agent: &AgentName,
    skills: &[String],
    holder: &Holder,
    lease: Span,
) -> Result<Option<Started>, ApiError> {
    match app.backend.queue.claim(agent, skills, holder, Some(lease)).await? {
        Claimed::Task(started) => {
            app.refresh(&started.view.task.id).await;
            Ok(Some((*started).into()))
        }
        Claimed::Nothing => Ok(None),
        Claimed::Draining => Err(ApiError::draining("nothing is begun while draining")),
        Claimed::Full { held } => Err(ApiError::conflict(format!(
            "agent {agent} works on {held} tasks, as many as it may"
        ))),
    }
}
