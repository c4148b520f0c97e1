//! What a tool answers: one or two lines, and the same as data. Clients show a model one or the other,
//! so each says all that matters.

use relight_runtime::dialect::FileCopyError;
use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Value, json};

use crate::error::ApiError;
use crate::error::{Problem, ProblemBody};

/// Names of a list that are told; an agent pays for each.
pub(super) const NAMES_MAX: usize = 20;

/// So much of an output or a payload is told in the text; all of it is in the store.
pub(super) const OUTPUT_BYTES_MAX: usize = 4 << 10;

/// What a tool answers.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reply {
    pub(super) text: String,
    /// None where the text is all there is.
    pub(super) data: Option<Value>,
    pub(super) is_error: bool,
}

impl Reply {
    pub(super) fn new(text: impl Into<String>, data: Value) -> Self {
        Self {
            text: text.into(),
            data: Some(data),
            is_error: false,
        }
    }

    /// The store is the truth; that a file beside it could not be written is worth a word.
    pub(super) fn with_file_error(mut self, error: Option<FileCopyError>) -> Self {
        if let (Some(error), Some(data)) = (error, &mut self.data) {
            self.text += "\nsaved in the store, but its file could not be written: ";
            self.text += &error.reason;
            data["file_error"] = json!(error);
        }
        self
    }

    pub(super) fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            data: None,
            is_error: false,
        }
    }
}

impl From<ApiError> for Reply {
    /// As a model reads it.
    fn from(error: ApiError) -> Self {
        let ApiError {
            code,
            message,
            model_hint: hint,
            ..
        } = error;
        let mut text = format!("{}: {message}", code.name);
        if let Some(hint) = &hint {
            text += &format!("\n{hint}");
        }
        let body = ProblemBody {
            error: Problem::new(code, message, hint),
        };
        Self {
            text,
            data: Some(json!(body)),
            is_error: true,
        }
    }
}

impl From<Reply> for CallToolResult {
    fn from(reply: Reply) -> Self {
        let content = vec![ContentBlock::text(reply.text)];
        let mut result = Self::success(content);
        result.structured_content = reply.data;
        result.is_error = Some(reply.is_error);
        result
    }
}

/// The last of these names, and how many there are before them.
pub(super) fn last(names: &[String]) -> &[String] {
    &names[names.len().saturating_sub(NAMES_MAX)..]
}

/// The first of these.
pub(super) fn first<T>(all: &[T]) -> &[T] {
    &all[..all.len().min(NAMES_MAX)]
}
