//! Which events are asked for.

use relight_core::event::EventKind;
use relight_runtime::operations::fields;
use serde::Deserialize;

/// Which events.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::IntoParams))]
#[cfg_attr(test, into_params(parameter_in = Query))]
pub(crate) struct WhichEvents {
    /// Maximum number of items, 1 to 1000.
    #[cfg_attr(test, param(minimum = 1, maximum = 1000, default = 100))]
    pub(crate) limit: Option<usize>,
    /// Only events after this id.
    #[serde(default, deserialize_with = "fields::optional_number")]
    pub(crate) after: Option<u64>,
    /// The newest events before this id; `next` is then the `before` of the previous page.
    #[serde(default, deserialize_with = "fields::optional_number")]
    pub(crate) before: Option<u64>,
    /// Only these kinds, separated by commas.
    #[serde(default, deserialize_with = "fields::words")]
    #[cfg_attr(test, param(value_type = Option<String>))]
    pub(crate) kind: Vec<EventKind>,
    /// Only this agent.
    pub(crate) agent: Option<String>,
    /// Only this task.
    pub(crate) task: Option<String>,
    /// The newest instead of the oldest events; still ordered oldest first, and `next` is the next `before`.
    pub(crate) newest: Option<bool>,
}
