//! An event.

use relight_core::event;
use relight_core::time::Time;
use relight_runtime::operations::fields;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// One entry of the journal.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[cfg_attr(test, schema(as = Event))]
pub(crate) struct EventView {
    /// Grows; never reused.
    pub(crate) id: u64,
    #[cfg_attr(test, schema(value_type = String))]
    pub(crate) at: Time,
    #[cfg_attr(test, schema(example = "attempt.died"))]
    pub(crate) kind: String,
    pub(crate) agent: Option<String>,
    pub(crate) task: Option<String>,
    pub(crate) step: Option<String>,
    /// The fence of the lease under which it was written.
    pub(crate) fence: Option<u64>,
    /// Data that depends on the kind.
    #[cfg_attr(test, schema(value_type = Object))]
    pub(crate) detail: Value,
}

impl From<event::Event> for EventView {
    fn from(event: event::Event) -> Self {
        Self {
            id: event.id,
            at: event.at,
            kind: event.kind.as_str().to_owned(),
            agent: event.agent.map(String::from),
            task: event.task.map(String::from),
            step: event.step.map(|step| step.to_string()),
            fence: event.fence.map(|fence| fence.0),
            detail: Some(event.detail)
                .filter(|detail| !detail.is_null())
                .unwrap_or_else(|| json!({})),
        }
    }
}

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
    pub(crate) kind: Option<String>,
    /// Only this agent.
    pub(crate) agent: Option<String>,
    /// Only this task.
    pub(crate) task: Option<String>,
    /// The newest instead of the oldest events; still ordered oldest first, and `next` is the next `before`.
    pub(crate) newest: Option<bool>,
}
