//! This machine as a node of a fleet: joins, renews its lease, watches the other nodes, and joins
//! again after it lost its lease.
//!
//! Which agents it takes over is decided in `supervise::takeover`. When the lease is about to
//! expire, each shim stops its attempt by itself (`supervise::shim`).

pub mod far_log;
pub mod key;
mod lease_renewal;
mod lease_term;
mod member;
mod node_cache;
pub mod node_file;

use std::collections::BTreeMap;

use relight_core::ids::NodeName;
use relight_store::{AgentQuery, Store, StoreError};

pub use self::lease_renewal::{Due, Keeping};
pub use self::lease_term::{Deadline, LEASE_MIN, RENEWALS_MIN, Term, Timing};
pub use self::member::{Fleet, JoinError, Standing, join};
pub(crate) use self::node_cache::NodeCache;

/// Number of agents per node.
pub async fn agents_by_node(store: &dyn Store) -> Result<BTreeMap<NodeName, u64>, StoreError> {
    let mut counts = BTreeMap::new();
    for agent in store.agents(AgentQuery::default()).await? {
        let node = agent
            .lease
            .held
            .as_ref()
            .and_then(|held| held.holder.node());
        if let Some(node) = node {
            *counts.entry(node.clone()).or_default() += 1;
        }
    }
    Ok(counts)
}
