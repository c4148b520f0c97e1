//! This machine as a node of a fleet: it joins, renews its lease, sees what becomes of the others, and
//! starts over when it lost its own.
//!
//! Leaves to others: which agents it takes up (`supervise::standby`), and ending what runs when the
//! lease is about to run out, which each shim does by itself (`supervise::shim`).

pub mod asking;
pub mod far_log;
mod keeping;
pub mod key;
mod member;
mod sight;
mod term;

use std::collections::BTreeMap;
use std::sync::Arc;

use relight_core::ids::NodeName;
use relight_core::node::Node;
use relight_store::{AgentQuery, Store, StoreError};

pub use self::keeping::{Due, Keeping};
pub use self::member::{Fleet, JoinError, Standing, join};
pub(crate) use self::sight::Sight;
pub use self::term::{LEASE_MIN, RENEWALS_MIN, Term, Timing};
use crate::doors::fleet;

/// Looks at all nodes, and remembers what is seen of their leases.
pub async fn look(store: &dyn Store) -> Result<Arc<[Node]>, StoreError> {
    let look = fleet::Look::begin();
    let nodes = store.nodes().await?;
    look.learn(&nodes);
    Ok(nodes.into())
}

/// How many agents each node has.
pub async fn agents_by_node(store: &dyn Store) -> Result<BTreeMap<NodeName, u64>, StoreError> {
    let mut counts = BTreeMap::new();
    for agent in store.agents(AgentQuery::default()).await? {
        let node = agent.lease.held.as_ref().and_then(|held| held.holder.node());
        if let Some(node) = node {
            *counts.entry(node.clone()).or_default() += 1;
        }
    }
    Ok(counts)
}
