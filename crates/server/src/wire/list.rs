//! Lists: a page of things, and where the next one begins.

use relight_runtime::operations::page_limit;
pub(crate) use relight_runtime::operations::view::List;
use serde::Deserialize;

use crate::error::ApiError;

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
        Ok(page_limit(self.limit)?)
    }
}
