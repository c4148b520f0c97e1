//! One subscription to changes of the store, shared by all consumers.
//!
//! Many commits in a row count as one change.

use std::time::Duration;

use relight_store::StoreError;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::engine::Engine;
use crate::fleet::Fleet;

/// Minimum time between two changes, so that many commits cost few reads.
const PAUSE: Duration = Duration::from_millis(20);
/// Additional pause per node of a fleet, so that all nodes together read at most a thousand times a
/// second.
const PAUSE_PER_NODE: Duration = Duration::from_millis(1);
/// Maximum pause.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Pause after the store could not be read.
const TROUBLE_PAUSE: Duration = Duration::from_secs(2);

/// Reports changes of the store.
#[derive(Debug, Clone)]
pub(super) struct StoreChanges {
    newest: watch::Receiver<u64>,
    /// Set while the store's files are away.
    files_gone: watch::Receiver<Option<String>>,
}

impl StoreChanges {
    /// Returns the subscription and the future that drives it.
    pub(super) fn of(engine: Engine, fleet: Option<Fleet>) -> (Self, impl Future<Output = ()>) {
        let (tell, newest) = watch::channel(0);
        let (tell_gone, files_gone) = watch::channel(None);
        (
            Self { newest, files_gone },
            bring(engine, fleet, tell, tell_gone),
        )
    }

    /// The newest event that was reported.
    pub(super) fn newest(&self) -> u64 {
        *self.newest.borrow()
    }

    /// Waits for the next change.
    pub(super) async fn next(&mut self) {
        if self.newest.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// The error while the store's files are removed or replaced; none once they are back.
    pub(super) fn files_gone(&self) -> watch::Receiver<Option<String>> {
        self.files_gone.clone()
    }
}

async fn bring(
    engine: Engine,
    fleet: Option<Fleet>,
    tell: watch::Sender<u64>,
    files_gone: watch::Sender<Option<String>>,
) {
    let store = engine.store();
    let nodes = fleet.map(|fleet| fleet.nodes());
    loop {
        let newest = match store.newest_event().await {
            Ok(newest) => newest,
            Err(error) => {
                if matches!(error, StoreError::Replaced { .. }) {
                    files_gone.send_if_modified(|known| known.replace(error.to_string()).is_none());
                }
                sleep(TROUBLE_PAUSE).await;
                continue;
            }
        };
        files_gone.send_if_modified(|known| known.take().is_some());
        tell.send_replace(newest);
        let nodes_count = nodes.as_ref().map_or(0, |nodes| nodes.borrow().len());
        sleep(pause(nodes_count)).await;
        // An error is found again above.
        let _ = store.changed(newest).await;
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
