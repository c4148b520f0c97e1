//! A refusal.

use relight_core::error_code::ErrorCode;
use serde::{Deserialize, Serialize};

/// Why a request was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct ProblemBody {
    pub(crate) error: Problem,
}

/// A code for programs, a message and a hint for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct Problem {
    #[cfg_attr(test, schema(example = "not_found"))]
    pub(crate) code: String,
    /// The corresponding exit code of the command line.
    #[cfg_attr(test, schema(example = 1))]
    #[serde(default)]
    pub(crate) exit: u8,
    /// The corresponding HTTP status.
    #[cfg_attr(test, schema(example = 404))]
    #[serde(default)]
    pub(crate) status: u16,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl Problem {
    pub(crate) fn new(code: ErrorCode, message: String, hint: Option<String>) -> Self {
        let ErrorCode { name, exit, status } = code;
        Self { code: name.to_owned(), exit, status, message, hint }
    }
}
