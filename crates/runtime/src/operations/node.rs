//! The machines of a fleet.

#![expect(missing_docs, reason = "the fields are those of the documented JSON")]

use relight_core::ids::NodeName;
use relight_core::node::Node;
use relight_core::time::Time;
use relight_store::{Store, StoreError};
use serde::Serialize;

use crate::boxed::boxed;
use crate::fleet::agents_by_node;
use crate::os::clock;

/// A node of a fleet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = Node))]
pub struct NodeView {
    pub name: String,
    /// `live`, `draining` or `gone`.
    pub state: String,
    /// This is the node that answers.
    pub is_this: bool,
    /// The remaining time of its lease; `lease_ms` is the full length.
    pub lease_left_ms: u64,
    pub lease_ms: u64,
    /// Agents that it has.
    pub agents: u64,
    pub labels: Vec<String>,
    /// The address of its API.
    pub address: Option<String>,
    pub version: String,
    /// How often it has joined.
    pub epoch: u64,
    /// It takes nothing new, even when it joins again.
    pub draining: bool,
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub joined_at: Time,
}

impl NodeView {
    fn of(node: Node, agents: u64, here: Option<&NodeName>) -> Self {
        Self {
            state: node.state().as_str().to_owned(),
            is_this: here == Some(&node.new.name),
            lease_left_ms: node.left.as_ms(),
            lease_ms: node.new.ttl.as_ms(),
            agents,
            epoch: node.epoch.0,
            draining: node.draining,
            joined_at: node.joined_at,
            name: node.new.name.into(),
            labels: node.new.labels,
            address: node.new.address,
            version: node.new.version,
        }
    }
}

/// All machines of the fleet; none where there is no fleet. `here` is the one that answers.
#[boxed]
pub async fn list(store: &dyn Store, here: Option<&NodeName>) -> Result<Vec<NodeView>, StoreError> {
    let nodes = store.nodes().await?;
    if nodes.is_empty() {
        return Ok(Vec::new());
    }
    let agents = agents_by_node(store).await?;
    let shown = nodes.into_iter().map(|node| {
        let held = agents.get(&node.new.name).copied().unwrap_or(0);
        NodeView::of(node, held, here)
    });
    Ok(shown.collect())
}

/// Has a node take nothing new and hand over what comes to rest, or take work again; none where there
/// is no such node.
#[boxed]
pub async fn drain(
    store: &dyn Store,
    name: &NodeName,
    draining: bool,
    here: Option<&NodeName>,
) -> Result<Option<NodeView>, StoreError> {
    if !store.drain_node(name, draining, clock::now()).await? {
        return Ok(None);
    }
    let mut nodes = list(store, here).await?.into_iter();
    Ok(nodes.find(|node| node.name == name.as_str()))
}
