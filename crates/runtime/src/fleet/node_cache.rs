//! The nodes as one looker sees them: read again only when there is something to see.
//!
//! Every node looks with each renewal. If each look read all nodes, a fleet of a thousand would read half
//! a million rows a second to learn nothing.

use std::sync::Arc;

use relight_core::node::{ChangeToken, Node};
use relight_core::time::Span;
use relight_store::{Store, StoreError};

use crate::os::fleet;

/// What one looker knows of all nodes.
#[derive(Debug, Clone)]
pub(crate) struct NodeCache {
    mark: ChangeToken,
    nodes: Arc<[Node]>,
}

/// What a look came to.
#[derive(Debug)]
pub(crate) struct NodeSnapshot {
    /// Who they are, and which of them live; what is left of each lease is as of the last reading.
    pub(crate) nodes: Arc<[Node]>,
    /// How long until the first lease runs out that lasts now.
    pub(crate) first_end: Option<Span>,
}

impl NodeCache {
    /// Reads all of them once.
    pub(crate) async fn first(store: &dyn Store) -> Result<(Self, NodeSnapshot), StoreError> {
        let mut cache = Self { mark: [i64::MIN; 5], nodes: Arc::from([]) };
        let seen = cache.look(store).await?;
        Ok((cache, seen))
    }

    /// Reads them again when their mark is another one. It is asked for first: what changes between the
    /// two is read with the next look.
    pub(crate) async fn look(&mut self, store: &dyn Store) -> Result<NodeSnapshot, StoreError> {
        let ticket = fleet::ReadTicket::begin();
        let glance = store.nodes_summary().await?;
        if glance.mark != self.mark {
            self.nodes = store.nodes().await?.into();
            self.mark = glance.mark;
        }
        // Also when nothing is new: it is so as of now.
        ticket.learn(&self.nodes);
        Ok(NodeSnapshot { nodes: Arc::clone(&self.nodes), first_end: glance.first_end })
    }
}
