//! A refusal.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Why a request was not done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct ProblemBody {
    pub(crate) error: Problem,
}

/// For programs a code, for people a message and what to do next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Problem {
    #[schema(example = "not_found")]
    pub(crate) code: String,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}
