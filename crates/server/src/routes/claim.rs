//! Asking for work, and waiting for it.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use relight_core::time::Span;
use relight_runtime::operations::view::Started;
use relight_runtime::operations::work::{Taker, TaskClaim};
use relight_runtime::operations::{Written, read};
use relight_runtime::os::clock;
use serde_json::{Map, Value};

use crate::answer::json_bytes;
use crate::app::App;
use crate::error::ApiError;
use crate::extract::Given;

/// No request waits longer. The daemon looks for dead holders itself, and tells of what it finds.
const WAIT_MAX: Span = Span::from_secs(300);

/// Takes the next task of the queue for an agent, waiting for one when told so; a report of one that
/// reports by itself.
#[cfg_attr(test, utoipa::path(post, path = "/api/tasks/claim", tag = "tasks", request_body = TaskClaim,
    responses((status = 200, body = Written<Started>), (status = 204, description = "there is no work"),
        (status = 409), (status = 422),
        (status = 503))))]
pub(super) async fn claim(
    State(app): State<App>,
    Given(given): Given<Map<String, Value>>,
) -> Result<Response, ApiError> {
    let mut request: TaskClaim = read(given)?;
    request.wait = request.wait.map(|wait| wait.min(WAIT_MAX));
    let agent = &request.agent;
    app.reported(agent).await?;
    // Whoever waits for work lives.
    let wait = request.wait.filter(|wait| *wait > Span::ZERO);
    let _waits = wait.map(|wait| app.backend.beats.wait(agent, clock::now().plus(wait)));
    let context = app.context();
    let taker = Taker::over_http(&context, Some(agent), "").await?;
    let claimed = tokio::select! {
        claimed = request.run(&context, &app.backend.queue, WAIT_MAX, &taker) => claimed?,
        () = app.journal.ended() => None,
    };
    let Some(started) = claimed else {
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    app.worked(&started.task);
    Ok(json_bytes(
        StatusCode::OK,
        &Written::<Started>::from(started),
    ))
}
