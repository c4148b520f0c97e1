//! Logging in.

use relight_core::time::Time;
use serde::{Deserialize, Serialize};

use crate::tokens::Scope;

/// The caller, as the daemon identifies it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct Me {
    /// `socket`, `token` or `cookie`.
    pub(crate) via: String,
    pub(crate) scope: Scope,
}

/// A one-time code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct LoginCode {
    /// Works once.
    pub code: String,
    /// The link that logs a browser in.
    pub url: String,
    /// When it expires.
    #[cfg_attr(test, schema(value_type = String))]
    pub expires_at: Time,
}

/// A login request of a browser.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Login {
    pub(crate) code: String,
}

/// A browser that is logged in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct LoggedIn {
    pub(crate) scope: Scope,
    /// The value of `X-Relight-Csrf` for every write. It is sent only once.
    pub(crate) csrf: String,
}

/// Whether the daemon is alive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct Health {
    #[cfg_attr(test, schema(example = "ok"))]
    pub(crate) status: String,
    pub(crate) version: String,
    /// Opens the dashboard from any folder of the daemon's machine. Told only by a daemon that serves this
    /// machine alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) login_command: Option<String>,
    /// Why the status is not `ok`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
}
