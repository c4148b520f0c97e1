//! Asking for work, and waiting for it.

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use relight_core::ids::AgentName;
use relight_core::time::Span;
use relight_runtime::operations::view::StartedView;
use relight_runtime::operations::work::{Taker, TaskClaim};
use relight_runtime::operations::{Written, read};
use relight_runtime::os::clock;
use serde_json::{Map, Value, json};

use crate::answer::json_bytes;
use crate::app::App;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::Given;

/// No request waits longer.
const WAIT_MAX: Span = Span::from_secs(300);

/// Takes the next task of the queue for an agent and, if `wait` is given, waits for one. For an agent that
/// reports itself it counts as a report.
#[cfg_attr(test, utoipa::path(post, path = "/api/tasks/claim", tag = "tasks", request_body = TaskClaim,
    responses((status = 200, body = Written<StartedView>), (status = 204, description = "there is no work"),
        (status = 409), (status = 422),
        (status = 503))))]
pub(super) async fn claim(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Given(given): Given<Map<String, Value>>,
) -> Result<Response, ApiError> {
    let (claimed, _) = take(&app, &caller, given).await?;
    Ok(match claimed {
        Some(claimed) => json_bytes(StatusCode::OK, &claimed),
        None => StatusCode::NO_CONTENT.into_response(),
    })
}

/// The task that was claimed, and for which agent.
pub(super) async fn take(
    app: &App,
    caller: &Caller,
    mut given: Map<String, Value>,
) -> Result<(Option<Written<StartedView>>, AgentName), ApiError> {
    if let (Some(agent), None) = (caller.acting_agent(), given.get("agent")) {
        given.insert("agent".to_owned(), json!(agent));
    }
    let mut request: TaskClaim = read(given)?;
    request.wait = request.wait.map(|wait| wait.min(WAIT_MAX));
    let agent = request.agent()?.clone();
    app.reported(&agent).await?;
    // Whoever waits for work lives.
    let wait = request.wait.filter(|wait| *wait > Span::ZERO);
    let _waits = wait.map(|wait| app.backend.beats.wait(&agent, clock::now().plus(wait)));
    let context = app.context_of(caller).await?;
    let attempt = caller.attempt.as_ref();
    let taker = Taker::over_http(&context, Some(&agent), attempt, &caller.id).await?;
    let claimed = tokio::select! {
        claimed = request.run(&context, &app.backend.queue, &taker) => claimed?,
        () = app.journal.ended() => None,
    };
    let claimed = claimed.map(|started| {
        app.worked(&started.task);
        Written::<StartedView>::from(started)
    });
    Ok((claimed, agent))
}
