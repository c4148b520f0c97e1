//! Wakes callers that wait for a commit of this process or another one.
//!
//! A committing process notifies the others outside of its transactions, at most once in a few
//! milliseconds, because NOTIFY inside of transactions serializes all commits. One connection listens,
//! starting with the first waiter. As a safety net, all waiters look twice a minute.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;

use super::connection::{PostgresServer, values};
use super::pool::Pool;

/// Minimum time between notifications.
const TELL_EVERY: Duration = Duration::from_millis(5);
/// Waiters look after this time even without a notification.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// Pause between attempts to listen.
const PAUSE: Duration = Duration::from_millis(500);

/// Notifications need no durability, so they do not wait for a disk sync.
const NOTIFY: &str = "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, '')";

/// Notifications of one store.
#[derive(Debug)]
pub(super) struct PostgresWatch {
    server: Arc<PostgresServer>,
    bell: Arc<Notify>,
    is_telling: AtomicBool,
    listens: OnceLock<()>,
}

impl PostgresWatch {
    pub(super) fn new(server: Arc<PostgresServer>) -> Arc<Self> {
        let (bell, is_telling) = (Arc::new(Notify::new()), AtomicBool::new(false));
        Arc::new(Self {
            server,
            bell,
            is_telling,
            listens: OnceLock::new(),
        })
    }

    /// Call after a commit: notifies this process at once, the others soon.
    pub(super) fn tell(self: &Arc<Self>, pool: &Arc<Pool>) {
        self.bell.notify_waiters();
        if self.is_telling.swap(true, Ordering::AcqRel) {
            return;
        }
        let (watch, pool) = (Arc::clone(self), Arc::clone(pool));
        tokio::spawn(async move {
            tokio::time::sleep(TELL_EVERY).await;
            // Commits from here on are covered by the next notification.
            watch.is_telling.store(false, Ordering::Release);
            let channel = watch.channel();
            // If it is lost, waiters look after `LOOK_EVERY`.
            let _ = pool
                .read(async |db| db.query(NOTIFY, &values![channel.clone()]).await)
                .await;
        });
    }

    /// Completes at the next commit after it was first polled or enabled.
    pub(super) fn next(self: &Arc<Self>, handle: &Handle) -> tokio::sync::futures::Notified<'_> {
        self.listens.get_or_init(|| {
            handle.spawn(Arc::clone(self).listen());
        });
        self.bell.notified()
    }

    fn channel(&self) -> String {
        format!("relight_{}", self.server.url.schema)
    }

    /// Runs until the store's thread ends.
    async fn listen(self: Arc<Self>) {
        loop {
            if let Ok(db) = self.server.connect(Some(Arc::clone(&self.bell))).await
                && db
                    .brief(&format!("LISTEN \"{}\"", self.channel()))
                    .await
                    .is_ok()
            {
                // Commits while nothing listened.
                self.bell.notify_waiters();
                while tokio::time::timeout(LOOK_EVERY, db.lost()).await.is_err() {
                    self.bell.notify_waiters();
                }
            }
            tokio::time::sleep(PAUSE).await;
            self.bell.notify_waiters();
        }
    }
}
