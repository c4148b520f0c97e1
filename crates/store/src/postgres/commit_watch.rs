//! Wakes whoever waits for a commit, from this process or another.
//!
//! A committing process notifies the others outside of its transactions, at most once in a few
//! milliseconds: inside, the database would put all commits in a row. One connection listens, from the
//! first waiter on. Twice a minute everybody looks anyway, as a net.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;

use super::connection::{PostgresServer, values};
use super::pool::Pool;

/// At most one notification in this time.
const TELL_EVERY: Duration = Duration::from_millis(5);
/// Everybody looks by themselves.
const NET: Duration = Duration::from_secs(30);
/// Between two attempts to listen.
const PAUSE: Duration = Duration::from_millis(500);

/// A bell has nothing to lose: it does not wait for the disk, where commits would wait for it.
const NOTIFY: &str = "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, '')";

/// The bell of one store.
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
        Arc::new(Self { server, bell, is_telling, listens: OnceLock::new() })
    }

    /// Something was committed here: tells this process at once, the others soon.
    pub(super) fn tell(self: &Arc<Self>, pool: &Arc<Pool>) {
        self.bell.notify_waiters();
        if self.is_telling.swap(true, Ordering::AcqRel) {
            return;
        }
        let (watch, pool) = (Arc::clone(self), Arc::clone(pool));
        tokio::spawn(async move {
            tokio::time::sleep(TELL_EVERY).await;
            // What is committed from here on is told by the next one.
            watch.is_telling.store(false, Ordering::Release);
            let channel = watch.channel();
            // When it is lost, the net is left.
            let _ = pool.read(async |db| db.query(NOTIFY, &values![channel.clone()]).await).await;
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

    /// As long as the store's thread runs.
    async fn listen(self: Arc<Self>) {
        loop {
            if let Ok(db) = self.server.connect(Some(Arc::clone(&self.bell))).await
                && db.brief(&format!("LISTEN \"{}\"", self.channel())).await.is_ok()
            {
                // What came while nobody listened.
                self.bell.notify_waiters();
                while tokio::time::timeout(NET, db.lost()).await.is_err() {
                    self.bell.notify_waiters();
                }
            }
            tokio::time::sleep(PAUSE).await;
            self.bell.notify_waiters();
        }
    }
}
