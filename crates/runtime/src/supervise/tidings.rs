//! One wait for changes of the store, for all who have to look then.
//!
//! Many commits in a row are one change: whoever looks after the last of them has seen them all.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use crate::engine::Engine;

/// The shortest time between two tidings, so that many commits cost a few looks.
const PAUSE: Duration = Duration::from_millis(20);
/// How long a store that cannot be read is left alone.
const TROUBLE_PAUSE: Duration = Duration::from_secs(5);

/// Tells that the store has changed.
#[derive(Debug, Clone)]
pub(super) struct Tidings(watch::Receiver<u64>);

impl Tidings {
    /// With what brings them, to be polled.
    pub(super) fn of(engine: Engine) -> (Self, impl Future<Output = ()>) {
        let (tell, told) = watch::channel(0);
        (Self(told), bring(engine, tell))
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

async fn bring(engine: Engine, tell: watch::Sender<u64>) {
    let store = engine.store();
    loop {
        let Ok(newest) = store.newest_event().await else {
            sleep(TROUBLE_PAUSE).await;
            continue;
        };
        tell.send_replace(newest);
        sleep(PAUSE).await;
        if store.changed(newest).await.is_err() {
            sleep(TROUBLE_PAUSE).await;
        }
    }
}
