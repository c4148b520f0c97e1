//! Lists: a page of things, and where the next one begins.

pub(crate) use relight_runtime::operations::view::List;
use serde::Deserialize;

use crate::error::ApiError;

const LIMIT_DEFAULT: usize = 100;
const LIMIT_MAX: usize = 1_000;

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
        Err(ApiError::invalid(format!(
            "limit is {limit}; write 1 to {LIMIT_MAX}"
        )))
    }
}
