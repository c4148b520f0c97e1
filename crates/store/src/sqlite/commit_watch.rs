//! Wakes waiters after a commit of this or another process.
//!
//! SQLite sends no notifications, but every commit of every process appends to the `-wal` file,
//! which inotify reports. The watching thread starts with the first waiter and ends with the store.
//! As a safety net it also wakes waiters half a minute after the last write.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, Weak};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fs::inotify;
use rustix::time::Timespec;
use tokio::sync::Notify;

/// Notifies waiters of one store.
#[derive(Debug)]
pub(super) struct SqliteWatch {
    file: PathBuf,
    bell: Notify,
    /// Ends the thread when written to.
    thread: OnceLock<Option<Arc<OwnedFd>>>,
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

    fn begin(self: &Arc<Self>) -> std::io::Result<Arc<OwnedFd>> {
        let end = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let (watch, ended) = (Arc::downgrade(self), Arc::clone(&end));
        let folder = self.file.parent().unwrap_or(Path::new(".")).to_owned();
        let named = std::thread::Builder::new().name("relight-watch".to_owned());
        named.spawn(move || listen(&watch, &folder, &ended))?;
        Ok(end)
    }
}

impl Drop for SqliteWatch {
    fn drop(&mut self) {
        if let Some(Some(end)) = self.thread.get() {
            // Otherwise it ends at its next wake-up.
            let _ = rustix::io::write(end, &1u64.to_ne_bytes());
        }
    }
}

/// Delays of the notifications after a write, in milliseconds. The log is written before the commit
/// becomes visible, on a slow disk long before, so a single notification could be too early. The
/// last one is the safety net.
const RINGS_MS: [u32; 9] = [1, 3, 10, 30, 100, 300, 1_000, 4_000, 30_000];

fn listen(watch: &Weak<SqliteWatch>, folder: &Path, end: &OwnedFd) {
    let Ok(source) = inotify::init(inotify::CreateFlags::CLOEXEC) else {
        return;
    };
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    // Files that are moved away or back are news too: the next read finds out.
    let wanted = inotify::WatchFlags::MODIFY
        | inotify::WatchFlags::CREATE
        | inotify::WatchFlags::MOVE
        | inotify::WatchFlags::DELETE;
    if inotify::add_watch(&source, folder, wanted).is_err() {
        return;
    }
    let mut space = [MaybeUninit::uninit(); 4096];
    let mut ring = 0;
    while let Some(watch) = watch.upgrade() {
        watch.tell();
        drop(watch);
        let ms = RINGS_MS[ring];
        let pause = Timespec {
            tv_sec: i64::from(ms / 1_000),
            tv_nsec: i64::from(ms % 1_000) * 1_000_000,
        };
        let mut ready = [
            PollFd::new(&source, PollFlags::IN),
            PollFd::new(end, PollFlags::IN),
        ];
        let is_ready = poll(&mut ready, Some(&pause)).is_ok_and(|count| count > 0);
        if !ready[1].revents().is_empty() {
            return;
        }
        if is_ready {
            // One read drains a whole buffer; the content does not matter.
            let _ = inotify::Reader::new(&source, &mut space).next();
            ring = 0;
        } else {
            ring = (ring + 1).min(RINGS_MS.len() - 1);
        }
    }
}
