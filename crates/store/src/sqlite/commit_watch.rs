//! Wakes waiters after a commit of this or another process.
//!
//! SQLite sends no notifications, but every commit of every process appends to the `-wal` file,
//! which `system` notices. The watching thread starts with the first waiter and ends with the store.
//! As a safety net it also wakes waiters half a minute after the last write.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, Weak};

use tokio::sync::Notify;

use super::system::{self, Ender};

/// What happened while a thread waited for writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Awaited {
    Write,
    Nothing,
    /// The store is closed.
    End,
}

/// Notifies waiters of one store.
#[derive(Debug)]
pub(super) struct SqliteWatch {
    file: PathBuf,
    bell: Notify,
    /// Ends the thread when written to.
    thread: OnceLock<Option<Ender>>,
}

impl SqliteWatch {
    pub(super) fn new(file: &Path) -> Arc<Self> {
        Arc::new(Self {
            file: file.to_owned(),
            bell: Notify::new(),
            thread: OnceLock::new(),
        })
    }

    /// Reports a commit of this process.
    pub(super) fn tell(&self) {
        self.bell.notify_waiters();
    }

    /// Resolves at the next commit after it was first polled or enabled.
    pub(super) fn next(self: &Arc<Self>) -> tokio::sync::futures::Notified<'_> {
        // Without the thread, waiters still see this process's own commits.
        self.thread.get_or_init(|| self.begin().ok());
        self.bell.notified()
    }

    fn begin(self: &Arc<Self>) -> std::io::Result<Ender> {
        let end = system::ender()?;
        let (watch, ended) = (Arc::downgrade(self), Arc::clone(&end));
        let file = self.file.clone();
        let named = std::thread::Builder::new().name("relight-watch".to_owned());
        named.spawn(move || listen(&watch, &file, &ended))?;
        Ok(end)
    }
}

impl Drop for SqliteWatch {
    fn drop(&mut self) {
        if let Some(Some(end)) = self.thread.get() {
            system::end(end);
        }
    }
}

/// Delays of the notifications after a write, in milliseconds. The log is written before the commit
/// becomes visible, on a slow disk long before, so a single notification could be too early. The
/// last one is the safety net.
const RINGS_MS: [u32; 9] = [1, 3, 10, 30, 100, 300, 1_000, 4_000, 30_000];

fn listen(watch: &Weak<SqliteWatch>, file: &Path, end: &Ender) {
    let Some(mut writes) = system::writes_of(file) else {
        return;
    };
    let mut ring = 0;
    while let Some(watch) = watch.upgrade() {
        watch.tell();
        drop(watch);
        ring = match system::wait(&mut writes, end, RINGS_MS[ring]) {
            Awaited::Write => 0,
            Awaited::Nothing => (ring + 1).min(RINGS_MS.len() - 1),
            Awaited::End => return,
        };
    }
}
