//! What a caller may do: read, operate, or everything.

use std::fmt;
use std::str::FromStr;

use axum::http::Method;
use serde::{Deserialize, Serialize};

use crate::error::ApiError;
use crate::extract::is_write;

/// What a caller may do; each includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Look at everything.
    Read,
    /// Work: tasks, steps, sessions, beats, start and stop agents.
    Operate,
    /// Also who may come in, which agents there are, and the daemon's end.
    Admin,
}

impl Scope {
    /// The word used everywhere.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Operate => "operate",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A word that is no scope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a scope; known are read, operate, admin")]
pub struct UnknownScope(String);

impl FromStr for Scope {
    type Err = UnknownScope;
    fn from_str(text: &str) -> Result<Self, UnknownScope> {
        let all = [Self::Read, Self::Operate, Self::Admin];
        let found = all.into_iter().find(|scope| scope.as_str() == text);
        found.ok_or_else(|| UnknownScope(text.to_owned()))
    }
}

/// What a request needs. The one table.
pub(super) fn needed(method: &Method, path: &str) -> Scope {
    // What a tool of MCP needs is looked at where the tool is known.
    if !is_write(method) || path == "/api/logout" || path == "/mcp" {
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
    Err(ApiError::forbidden(format!("this needs the scope {needed}, and this token has {has}"))
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
            (Method::POST, "/api/tasks/a%2Fb/steps/x/begin", Scope::Operate),
            (Method::POST, "/api/sessions/k/begin", Scope::Operate),
            (Method::POST, "/mcp", Scope::Read),
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
                assert_eq!(check(&method, path, has).is_ok(), has >= scope, "{has} {path}");
            }
        }
    }
}
