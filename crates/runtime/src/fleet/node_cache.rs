//! A cache of all nodes, read again only when they changed.
//!
//! Every node checks with each renewal. Without the cache a fleet of a thousand nodes would read
//! half a million rows a second.

use std::sync::Arc;

use relight_core::node::{ChangeToken, Node};
use relight_core::time::Span;
use relight_store::StoreError;

use crate::holders::Holders;

/// The cached nodes.
#[derive(Debug, Clone)]
pub(crate) struct NodeCache {
    mark: ChangeToken,
    nodes: Arc<[Node]>,
}

/// The current nodes.
#[derive(Debug)]
pub(crate) struct NodeSnapshot {
    /// The nodes and which of them live; the time left of each lease is from the last read.
    pub(crate) nodes: Arc<[Node]>,
    /// Time until the first valid lease expires.
    pub(crate) first_end: Option<Span>,
}

impl NodeCache {
    /// Reads all nodes.
    pub(crate) async fn first(holders: &Holders) -> Result<(Self, NodeSnapshot), StoreError> {
        let mut cache = Self {
            mark: [i64::MIN; 5],
            nodes: Arc::from([]),
        };
        let seen = cache.look(holders).await?;
        Ok((cache, seen))
    }

    /// Reads the nodes again if their change token differs. The token is read first, so that a
    /// change in between is seen next time.
    pub(crate) async fn look(&mut self, holders: &Holders) -> Result<NodeSnapshot, StoreError> {
        let (store, ticket) = (holders.store(), holders.begin_read());
        let glance = store.nodes_summary().await?;
        if glance.mark != self.mark {
            self.nodes = store.nodes().await?.into();
            self.mark = glance.mark;
        }
        // Also when nothing changed: it is confirmed as of now.
        holders.end_read(&ticket, &self.nodes);
        Ok(NodeSnapshot {
            nodes: Arc::clone(&self.nodes),
            first_end: glance.first_end,
        })
    }
}
