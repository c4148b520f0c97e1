//! Lists: a page of things, and where the next one begins.

use serde::{Deserialize, Serialize};

use crate::error::ApiError;

const LIMIT_DEFAULT: usize = 100;
const LIMIT_MAX: usize = 1_000;

/// A page of items.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct List<T> {
    pub(crate) items: Vec<T>,
    /// Pass it as `after` to get the next page; null on the last page.
    pub(crate) next: Option<String>,
}

/// Which page.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::IntoParams))]
#[cfg_attr(test, into_params(parameter_in = Query))]
pub(crate) struct Page {
    /// Maximum number of items, 1 to 1000.
    #[cfg_attr(test, param(minimum = 1, maximum = 1000, default = 100))]
    pub(crate) limit: Option<usize>,
    /// The `next` of the previous page.
    pub(crate) after: Option<String>,
}

impl Page {
    pub(crate) fn limit(&self) -> Result<usize, ApiError> {
        let limit = self.limit.unwrap_or(LIMIT_DEFAULT);
        if (1..=LIMIT_MAX).contains(&limit) {
            return Ok(limit);
        }
        Err(ApiError::invalid(format!("limit is {limit}; write 1 to {LIMIT_MAX}")))
    }
}

impl<T> List<T> {
    /// Of one more than fits, where there are more.
    pub(crate) fn cut<S>(
        mut found: Vec<S>,
        limit: usize,
        cursor: impl Fn(&S) -> String,
        shown: impl Fn(S) -> T,
    ) -> Self {
        let has_more = found.len() > limit;
        found.truncate(limit);
        let next = found.last().filter(|_| has_more).map(cursor);
        Self { items: found.into_iter().map(shown).collect(), next }
    }
}
