//! Logging in.

use relight_core::time::Time;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::guard::scope::Scope;

/// Who asks, as the daemon sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Me {
    /// `socket`, `token` or `cookie`.
    pub(crate) via: String,
    pub(crate) scope: Scope,
}

/// A one-time code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LoginCode {
    /// Good once.
    pub code: String,
    /// The link that logs a browser in.
    pub url: String,
    /// Good until then.
    #[schema(value_type = String)]
    pub expires_at: Time,
}

/// What logs a browser in.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Login {
    pub(crate) code: String,
}

/// A browser that is logged in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct LoggedIn {
    pub(crate) scope: Scope,
    /// What a page sends as `X-Relight-Csrf` with every write. It is told this once.
    pub(crate) csrf: String,
}

/// Whether the daemon lives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Health {
    #[schema(example = "ok")]
    pub(crate) status: String,
    pub(crate) version: String,
}
