//! A refusal.

use relight_core::error_code::ErrorCode;
use relight_runtime::redact_input::without_secrets;
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
        let (message, hint) = (without_secrets(message), hint.map(without_secrets));
        Self {
            code: name.to_owned(),
            exit,
            status,
            message,
            hint,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_that_was_given_as_a_name_is_not_sent_back() {
        let token = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
        let problem = Problem::new(
            ErrorCode::NOT_FOUND,
            format!("there is no task {token}"),
            Some(token.clone()),
        );
        assert!(
            problem.message.starts_with("there is no task "),
            "{problem:?}"
        );
        assert!(!format!("{problem:?}").contains(&token), "{problem:?}");
    }
}
