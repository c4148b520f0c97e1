//! The nodes as one looker sees them: read again only when there is something to see.
//!
//! Every node looks with each renewal. If each look read all nodes, a fleet of a thousand would read half
//! a million rows a second to learn nothing.

use std::sync::Arc;

use relight_core::node::{Mark, Node};
use relight_core::time::Span;
use relight_store::{Store, StoreError};

use crate::doors::fleet;

/// What one looker knows of all nodes.
#[derive(Debug, Clone)]
pub(crate) struct Sight {
    mark: Mark,
    nodes: Arc<[Node]>,
}

/// What a look came to.
#[derive(Debug)]
pub(crate) struct Seen {
    /// Who they are, and which of them live; what is left of each lease is as of the last reading.
    pub(crate) nodes: Arc<[Node]>,
    /// How long until the first lease runs out that lasts now.
    pub(crate) first_end: Option<Span>,
}

impl Sight {
    /// Reads all of them once.
    pub(crate) async fn first(store: &dyn Store) -> Result<(Self, Seen), StoreError> {
        let mut sight = Self { mark: [i64::MIN; 5], nodes: Arc::from([]) };
        let seen = sight.look(store).await?;
        Ok((sight, seen))
    }

    /// Reads them again when their mark is another one. It is asked for first: what changes between the
    /// two is read with the next look.
    pub(crate) async fn look(&mut self, store: &dyn Store) -> Result<Seen, StoreError> {
        let look = fleet::Look::begin();
        let glance = store.nodes_at_a_glance().await?;
        if glance.mark != self.mark {
            self.nodes = store.nodes().await?.into();
            self.mark = glance.mark;
        }
        // Also when nothing is new: it is so as of now.
        look.learn(&self.nodes);
        Ok(Seen { nodes: Arc::clone(&self.nodes), first_end: glance.first_end })
    }
}
