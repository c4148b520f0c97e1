//! A subscription to some kinds of events of the journal, so that consumers need not handle every
//! change of the store.

use std::sync::Arc;
use std::time::Duration;

use relight_core::event::{Event, EventKind};
use relight_store::{EventQuery, Store};
use tokio::time::sleep;

use super::store_changes::StoreChanges;

/// Maximum number of events per read.
const PAGE: usize = 256;
/// Pause after the store could not be read.
const TROUBLE_PAUSE: Duration = Duration::from_millis(500);

/// A subscription to events of some kinds.
#[derive(Debug)]
pub(super) struct EventSubscription {
    store: Arc<dyn Store>,
    changes: StoreChanges,
    kinds: Vec<EventKind>,
    seen: u64,
}

impl EventSubscription {
    /// Subscribes. Delivers all events written after this returned, and possibly some from before.
    pub(super) async fn begin(
        store: Arc<dyn Store>,
        changes: StoreChanges,
        kinds: Vec<EventKind>,
    ) -> Self {
        let seen = loop {
            match store.newest_event().await {
                Ok(newest) => break newest,
                Err(_) => sleep(TROUBLE_PAUSE).await,
            }
        };
        Self {
            store,
            changes,
            kinds,
            seen,
        }
    }

    /// The next events, oldest first. Cancel-safe.
    pub(super) async fn next(&mut self) -> Vec<Event> {
        loop {
            let newest = self.changes.newest();
            if newest <= self.seen {
                self.changes.next().await;
                continue;
            }
            let query = EventQuery {
                after: self.seen,
                before: None,
                task: None,
                agent: None,
                kinds: self.kinds.clone(),
                limit: PAGE,
                newest: false,
            };
            let Ok(events) = self.store.events(query).await else {
                sleep(TROUBLE_PAUSE).await;
                continue;
            };
            let last = events.last().map_or(0, |event| event.id);
            // After a full page there may be more.
            self.seen = if events.len() < PAGE {
                newest.max(last)
            } else {
                last
            };
            if !events.is_empty() {
                return events;
            }
        }
    }
}
