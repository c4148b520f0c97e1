//! `POST /mcp`: streamable HTTP without sessions, so that a restart of the daemon takes nothing from a
//! client. Every answer is one JSON document.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use http_body_util::BodyExt as _;
use relight_core::agent::plain::harmless_json;
use relight_core::error_code::ErrorCode;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};

use super::call_context::CallContext;
use super::handler::Handler;
use crate::app::App;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::BODY_BYTES_MAX;

/// The same verbs as tools, for agents that speak MCP (streamable HTTP, without sessions): JSON-RPC in
/// and out.
#[cfg_attr(test, utoipa::path(post, path = "/mcp", tag = "mcp", request_body = serde_json::Value,
    params(
        ("Accept" = String, Header, description = "`application/json, text/event-stream`"),
        ("Relight-Agent" = Option<String>, Header, description = "the agent that is served")),
    responses((status = 200, body = serde_json::Value), (status = 202),
        (status = 400), (status = 404, body = serde_json::Value),
        (status = 406), (status = 422))))]
pub(crate) async fn serve(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, ApiError> {
    let handler = Handler {
        context: CallContext::over_http(app, caller).await?,
    };
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_max_request_body_bytes(BODY_BYTES_MAX)
        // The guard has looked at both already, by stricter lists.
        .disable_allowed_hosts()
        .disable_allowed_origins();
    let sessions = Arc::new(NeverSessionManager::default());
    let service = StreamableHttpService::new(move || Ok(handler.clone()), sessions, config);
    Ok(in_our_shape(service.handle(request).await.map(Body::new)).await)
}

/// A refusal of the transport is plain text; here all refusals have one shape.
async fn in_our_shape(response: Response) -> Response {
    let status = response.status();
    let is_json =
        |value: &axum::http::HeaderValue| value.as_bytes().starts_with(b"application/json");
    let is_ours = response
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(is_json);
    if is_ours {
        return harmless(response).await;
    }
    if !(status.is_client_error() || status.is_server_error()) {
        return response;
    }
    let body = response
        .into_body()
        .collect()
        .await
        .map(|body| body.to_bytes())
        .unwrap_or_default();
    let text = String::from_utf8_lossy(&body).into_owned();
    refusal(status, text).into_response()
}

/// The same document without a character that a terminal would obey.
async fn harmless(response: Response) -> Response {
    let (mut parts, body) = response.into_parts();
    let body = body
        .collect()
        .await
        .map(|body| body.to_bytes())
        .unwrap_or_default();
    parts.headers.remove(header::CONTENT_LENGTH);
    let text = String::from_utf8_lossy(&body);
    Response::from_parts(parts, Body::from(harmless_json(&text).into_owned()))
}

fn refusal(status: StatusCode, text: String) -> ApiError {
    match status {
        // The guard has seen to the content's type: the content itself is not what it should be.
        StatusCode::UNSUPPORTED_MEDIA_TYPE => {
            ApiError::bad_request("the body is no JSON-RPC message of MCP")
        }
        StatusCode::NOT_ACCEPTABLE => ApiError::new(ErrorCode::NOT_ACCEPTABLE, text)
            .hint("send Accept: application/json, text/event-stream"),
        status if status.is_server_error() => ApiError::internal(text),
        _ => ApiError::bad_request(text),
    }
}
