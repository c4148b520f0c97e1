//! One wait for changes of the store, for all who have to look then.
//!
//! Many commits in a row are one change: whoever looks after the last of them has seen them all.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use crate::engine::Engine;
use crate::fleet::Fleet;

/// The shortest time between two changes, so that many commits cost a few looks.
const PAUSE: Duration = Duration::from_millis(20);
/// The same for each node of a fleet: however many there are, all of them together look a thousand times
/// a second at most.
const PAUSE_PER_NODE: Duration = Duration::from_millis(1);
/// And at most.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// How long a store that cannot be read is left alone.
const TROUBLE_PAUSE: Duration = Duration::from_secs(5);

/// Tells that the store has changed.
#[derive(Debug, Clone)]
pub(super) struct StoreChanges(watch::Receiver<u64>);

impl StoreChanges {
    /// With what brings them, to be polled.
    pub(super) fn of(engine: Engine, fleet: Option<Fleet>) -> (Self, impl Future<Output = ()>) {
        let (tell, told) = watch::channel(0);
        (Self(told), bring(engine, fleet, tell))
    }

    /// The newest event that was told of.
    pub(super) fn newest(&self) -> u64 {
        *self.0.borrow()
    }

    /// Returns after the next change since it last did.
    pub(super) async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

async fn bring(engine: Engine, fleet: Option<Fleet>, tell: watch::Sender<u64>) {
    let store = engine.store();
    let nodes = fleet.map(|fleet| fleet.nodes());
    loop {
        let Ok(newest) = store.newest_event().await else {
            sleep(TROUBLE_PAUSE).await;
            continue;
        };
        tell.send_replace(newest);
        let nodes_count = nodes.as_ref().map_or(0, |nodes| nodes.borrow().len());
        sleep(pause(nodes_count)).await;
        if store.changed(newest).await.is_err() {
            sleep(TROUBLE_PAUSE).await;
        }
    }
}

fn pause(nodes: usize) -> Duration {
    let of_all = PAUSE_PER_NODE.saturating_mul(u32::try_from(nodes).unwrap_or(u32::MAX));
    of_all.clamp(PAUSE, PAUSE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_fleet_looks_no_more_often_than_a_small_one() {
        let pauses = [0, 3, 100, 1_000, 10_000].map(|nodes| pause(nodes).as_millis());
        assert_eq!(pauses, [20, 20, 100, 1_000, 1_000]);
    }
}
