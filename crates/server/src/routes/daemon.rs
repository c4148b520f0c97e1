//! The daemon itself: what it knows beyond the store, and its end.

use axum::extract::State;
use relight_runtime::supervise::control::{
    ControlReply, Request, ShutdownSummary, SupervisorStatus,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::VERSION;
use crate::answer::Answer;
use crate::app::App;
use crate::error::ApiError;
use crate::extract::Given;

/// How the daemon ends.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Down {
    /// Leave the agents to be adopted.
    #[serde(default)]
    pub(crate) keep_agents: bool,
}

/// How it recovers.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Recover {
    /// Only say what would be done.
    #[serde(default)]
    pub(crate) dry_run: bool,
}

/// What the daemon knows beyond the store: its pid, and the signs of life of its agents.
#[cfg_attr(test, utoipa::path(get, path = "/api/status", tag = "daemon",
    responses((status = 200, body = Object), (status = 503))))]
pub(super) async fn status(State(app): State<App>) -> Result<Answer<SupervisorStatus>, ApiError> {
    let status: SupervisorStatus = app.answer(Request::Status).await?;
    Ok(Answer(SupervisorStatus {
        url: app.url(),
        version: Some(VERSION.to_owned()),
        ..status
    }))
}

/// Ends the daemon and, unless `keep_agents` is set, its agents.
#[cfg_attr(test, utoipa::path(post, path = "/api/down", tag = "daemon", request_body = Down,
    responses((status = 200, body = Object), (status = 422),
        (status = 503))))]
pub(super) async fn down(
    State(app): State<App>,
    Given(given): Given<Down>,
) -> Result<Answer<ShutdownSummary>, ApiError> {
    app.answer(Request::Down {
        keep_agents: given.keep_agents,
    })
    .await
    .map(Answer)
}

/// Reloads the configuration.
#[cfg_attr(test, utoipa::path(post, path = "/api/reload", tag = "daemon",
    responses((status = 200, body = Object), (status = 503))))]
pub(super) async fn reload(State(app): State<App>) -> Result<Answer<serde_json::Value>, ApiError> {
    app.answer(Request::Reload).await.map(Answer)
}

/// Recovers work whose holder is gone.
#[cfg_attr(test, utoipa::path(post, path = "/api/recover", tag = "daemon", request_body = Recover,
    responses((status = 200, body = Object), (status = 422),
        (status = 503))))]
pub(super) async fn recover(
    State(app): State<App>,
    Given(given): Given<Recover>,
) -> Result<Answer<serde_json::Value>, ApiError> {
    app.answer(Request::Recover {
        dry_run: given.dry_run,
    })
    .await
    .map(Answer)
}

impl App {
    async fn answer<A: DeserializeOwned>(&self, request: Request) -> Result<A, ApiError> {
        match self.call(request).await? {
            ControlReply::Ok(value) => {
                serde_json::from_value(value).map_err(|error| ApiError::internal(error.to_string()))
            }
            ControlReply::Error(refused) => Err(refused.into()),
        }
    }
}
