//! Asks the daemon over its socket what a supervisor can be asked.

use std::io;
use std::path::Path;

use relight_core::ids::in_path;
use relight_core::time::Span;
use relight_runtime::supervise::control::{AskError, ControlReply, Refused, Request};
use serde_json::json;

pub use crate::wire::login::LoginCode;
pub use relight_runtime::supervise::daemon_client::{DaemonResponse, parse, send};

/// Asks the daemon that listens there what a supervisor can be asked.
pub fn ask(socket: &Path, request: &Request, patience: Span) -> Result<ControlReply, AskError> {
    let agent = |agent: &relight_core::ids::AgentName, verb: &str| {
        format!("/api/agents/{}/{verb}", in_path(agent.as_str()))
    };
    let (method, path, body) = match request {
        Request::Status => ("GET", "/api/status".to_owned(), None),
        Request::Start { agent: name } => (
            "POST",
            agent(name, "start"),
            Some(json!({"keep_running": true})),
        ),
        Request::Stop { agent: name } => ("POST", agent(name, "stop"), None),
        Request::Restart { agent: name } => ("POST", agent(name, "restart"), None),
        Request::Down { keep_agents } => (
            "POST",
            "/api/down".to_owned(),
            Some(json!({"keep_agents": keep_agents})),
        ),
        Request::Register(new) => {
            let body = serde_json::to_value(new).expect("requests have string keys");
            ("POST", "/api/agents".to_owned(), Some(body))
        }
        Request::Unregister { agent: name } => (
            "DELETE",
            format!("/api/agents/{}", in_path(name.as_str())),
            None,
        ),
        Request::Reload => ("POST", "/api/reload".to_owned(), None),
        Request::Recover { dry_run } => (
            "POST",
            "/api/recover".to_owned(),
            Some(json!({"dry_run": dry_run})),
        ),
    };
    let answered = send(socket, method, &path, body.as_ref(), patience)?;
    Ok(match answered.refusal() {
        Some(refused) => ControlReply::Error(refused),
        None => ControlReply::Ok(answered.body),
    })
}

/// A link that logs a browser in.
pub fn login_code(socket: &Path, patience: Span) -> Result<Result<LoginCode, Refused>, AskError> {
    let answered = send(socket, "POST", "/api/login-codes", None, patience)?;
    if let Some(refused) = answered.refusal() {
        return Ok(Err(refused));
    }
    let code = serde_json::from_value(answered.body).map_err(io::Error::from)?;
    Ok(Ok(code))
}
