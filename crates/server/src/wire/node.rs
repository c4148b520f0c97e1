//! What is asked of a node.

use serde::{Deserialize, Serialize};

/// Whether a node should take nothing new.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
#[cfg_attr(test, schema(as = Drain))]
pub(crate) struct DrainRequest {
    /// Let it take work again.
    #[serde(default)]
    pub(crate) cancel: bool,
}
