//! What the journal tells of some kinds of events, from a moment on: whoever waits for those alone does
//! not look at every change of the store.

use std::sync::Arc;
use std::time::Duration;

use relight_core::event::{Event, EventKind};
use relight_store::{EventQuery, Store};
use tokio::time::sleep;

use super::store_changes::StoreChanges;

/// Most events that are read at once.
const PAGE: usize = 256;
/// How long a store that cannot be read is left alone.
const TROUBLE_PAUSE: Duration = Duration::from_millis(500);

/// Hears events of some kinds.
#[derive(Debug)]
pub(super) struct EventSubscription {
    store: Arc<dyn Store>,
    changes: StoreChanges,
    kinds: Vec<EventKind>,
    seen: u64,
}

impl EventSubscription {
    /// Of all that is told after this has returned, and perhaps of some that was before.
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
        Self { store, changes, kinds, seen }
    }

    /// The next ones, oldest first. Nothing is lost when it is dropped.
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
            // A page that is full says nothing of what comes after it.
            self.seen = if events.len() < PAGE { newest.max(last) } else { last };
            if !events.is_empty() {
                return events;
            }
        }
    }
}
