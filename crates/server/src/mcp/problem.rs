//! Why a tool did not do what was asked: the same code, message and hint as in every front.

use relight::dialect::{DialectError, ResumeError};
use relight::engine::ActError;
use relight_core::error_code::ErrorCode;
use relight_core::ids::IdError;
use relight_core::time::TimeError;
use relight_store::StoreError;
use serde_json::json;

use super::reply::Reply;
use crate::error::ApiError;
use crate::wire;
use crate::wire::problem::ProblemBody;

/// Why not. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    code: ErrorCode,
    message: String,
    hint: Option<String>,
    /// What only whoever keeps the log is told.
    pub(super) inside: Option<String>,
}

impl Problem {
    pub(super) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: None, inside: None }
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::INVALID, message)
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// As an agent reads it.
    pub(super) fn into_reply(self) -> Reply {
        let Self { code, message, hint, .. } = self;
        let mut text = format!("{}: {message}", code.name);
        if let Some(hint) = &hint {
            text += &format!("\n{hint}");
        }
        let body = ProblemBody { error: wire::problem::Problem::new(code, message, hint) };
        Reply { text, data: Some(json!(body)), is_error: true }
    }
}

impl From<ApiError> for Problem {
    fn from(error: ApiError) -> Self {
        let ApiError { code, message, hint, inside } = error;
        Self { code, message, hint, inside }
    }
}

impl From<IdError> for Problem {
    fn from(error: IdError) -> Self {
        Self::invalid(error.to_string())
    }
}

impl From<TimeError> for Problem {
    fn from(error: TimeError) -> Self {
        Self::invalid(error.to_string())
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        ApiError::from(error).into()
    }
}

impl From<ActError> for Problem {
    fn from(error: ActError) -> Self {
        ApiError::from(error).into()
    }
}

impl From<DialectError> for Problem {
    fn from(error: DialectError) -> Self {
        match error {
            DialectError::Act(error) => error.into(),
            error => Self { hint: error.hint(), ..Self::new(error.code(), error.to_string()) },
        }
    }
}

impl From<ResumeError> for Problem {
    fn from(error: ResumeError) -> Self {
        match error {
            ResumeError::Dialect(error) => error.into(),
            error => Self { hint: error.hint(), ..Self::new(error.code(), error.to_string()) },
        }
    }
}
