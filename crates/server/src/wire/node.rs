//! A machine of a fleet over the wire.

use relight_core::time::Time;
use serde::{Deserialize, Serialize};

/// A node of a fleet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[cfg_attr(test, schema(as = Node))]
pub(crate) struct NodeView {
    pub(crate) name: String,
    /// `live`, `draining` or `gone`.
    pub(crate) state: String,
    /// This is the node that answers.
    pub(crate) is_this: bool,
    /// The rest of its lease, and the length of a renewal.
    pub(crate) lease_left_ms: u64,
    pub(crate) lease_ms: u64,
    /// Agents that it has.
    pub(crate) agents: u64,
    pub(crate) labels: Vec<String>,
    /// The address of its API.
    pub(crate) address: Option<String>,
    pub(crate) version: String,
    /// How often it has joined.
    pub(crate) epoch: u64,
    #[cfg_attr(test, schema(value_type = String))]
    pub(crate) joined_at: Time,
}

impl NodeView {
    pub(crate) fn of(node: relight_core::node::Node, agents: u64, is_this: bool) -> Self {
        Self {
            state: node.state().as_str().to_owned(),
            is_this,
            lease_left_ms: node.left.as_ms(),
            lease_ms: node.new.ttl.as_ms(),
            agents,
            epoch: node.epoch.0,
            joined_at: node.joined_at,
            name: node.new.name.into(),
            labels: node.new.labels,
            address: node.new.address,
            version: node.new.version,
        }
    }
}

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
