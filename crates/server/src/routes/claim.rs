//! Asking for work, and waiting for it.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use relight_core::ids::AgentName;
use relight_core::time::Span;
use relight_runtime::operations::view::Started;
use relight_runtime::os::clock;
use relight_runtime::queue::Claimed;

use super::span;
use super::tasks::lease;
use crate::answer::json_bytes;
use crate::app::App;
use crate::error::ApiError;
use crate::extract::Given;
use crate::wire::task::Claim;

/// No request waits longer. The daemon looks for dead holders itself, and tells of what it finds.
const WAIT_MAX: Span = Span::from_secs(300);

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
    let holder = app.holder(Some(&agent), "").await?;
    app.reported(&agent).await?;
    // Whoever waits for work lives.
    let _waits =
        (wait > Span::ZERO).then(|| app.backend.beats.wait(&agent, clock::now().plus(wait)));
    let queue = &app.backend.queue;
    let claiming = queue.claim_within(wait, WAIT_MAX, &agent, &given.skills, &holder, Some(lease));
    let claimed = tokio::select! {
        claimed = claiming => claimed?,
        () = app.journal.ended() => Claimed::Nothing,
    };
    let Some(started) = claimed.started(&agent)? else {
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    app.worked(&app.context().refresh(&started.view.task.id).await?.task);
    Ok(json_bytes(StatusCode::OK, &Started::from(*started)))
}
