//! Which scope each request needs.

use axum::http::Method;
use relight_runtime::operations::table::only_reads;

use crate::error::ApiError;
use crate::extract::is_write;
use crate::tokens::Scope;

/// What a request needs. The one table.
pub(super) fn needed(method: &Method, path: &str) -> Scope {
    // What a tool of MCP needs is looked at where the tool is known.
    if !is_write(method) || path == "/api/logout" || path == "/mcp" {
        return Scope::Read;
    }
    if let Some(name) = path.strip_prefix("/api/operations/")
        && only_reads(name)
    {
        return Scope::Read;
    }
    let mut parts = path.trim_start_matches('/').split('/');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some("api"), Some("login-codes" | "down" | "reload"), ..) => Scope::Admin,
        // Registering and removing; what follows the name of one is work.
        (Some("api"), Some("agents"), _, None) => Scope::Admin,
        (Some("api"), Some("nodes"), ..) => Scope::Admin,
        _ => Scope::Operate,
    }
}

/// Refuses what the caller may not do.
pub(super) fn check(method: &Method, path: &str, has: Scope) -> Result<(), ApiError> {
    let needed = needed(method, path);
    if has >= needed {
        return Ok(());
    }
    Err(ApiError::forbidden(format!(
        "this needs the scope {needed}, and this token has {has}"
    ))
    .hint("relight token new --operate, or relight token show, gives one that may"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_write_needs_more_than_to_read() {
        for (method, path, scope) in [
            (Method::GET, "/api/agents", Scope::Read),
            (Method::HEAD, "/api/tasks", Scope::Read),
            (Method::GET, "/metrics", Scope::Read),
            (Method::POST, "/api/logout", Scope::Read),
            (Method::POST, "/api/agents/writer/restart", Scope::Operate),
            (Method::POST, "/api/agents/writer/heartbeat", Scope::Operate),
            (Method::POST, "/api/tasks", Scope::Operate),
            (
                Method::POST,
                "/api/tasks/a%2Fb/steps/x/begin",
                Scope::Operate,
            ),
            (Method::POST, "/api/sessions/k/begin", Scope::Operate),
            (Method::POST, "/mcp", Scope::Read),
            (Method::POST, "/api/operations/record.get", Scope::Read),
            (Method::POST, "/api/operations/record.put", Scope::Operate),
            (Method::POST, "/api/operations/hook.observe", Scope::Operate),
            (Method::POST, "/api/operations/recover", Scope::Operate),
            (Method::POST, "/api/operations/nosuch", Scope::Operate),
            (Method::POST, "/api/operations/task%2Eshow", Scope::Operate),
            (Method::POST, "/api/operations/../tasks", Scope::Operate),
            (Method::POST, "/api/agents", Scope::Admin),
            (Method::DELETE, "/api/agents/writer", Scope::Admin),
            (Method::POST, "/api/login-codes", Scope::Admin),
            (Method::POST, "/api/down", Scope::Admin),
            (Method::POST, "/api/reload", Scope::Admin),
            (Method::POST, "/api/nodes/a/drain", Scope::Admin),
        ] {
            assert_eq!(needed(&method, path), scope, "{method} {path}");
            let weaker = [Scope::Read, Scope::Operate, Scope::Admin].into_iter();
            for has in weaker {
                assert_eq!(
                    check(&method, path, has).is_ok(),
                    has >= scope,
                    "{has} {path}"
                );
            }
        }
    }
}
