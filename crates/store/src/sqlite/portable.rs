//! The same as `linux.rs` for any Unix, with less: leases follow the wall clock, commits of other
//! processes are noticed up to [`POLL_MS`] later, and network file systems are not recognised.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use super::commit_watch::Awaited;
use super::open::with_suffix;

/// How often the files are looked at while somebody waits.
const POLL_MS: u32 = 50;

/// The wall clock: without a boot id, time since boot would make leases of an earlier boot last.
#[expect(clippy::disallowed_methods, reason = "this is the door")]
pub(super) fn lease_ms() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |now| i64::try_from(now.as_millis()).unwrap_or(i64::MAX))
}

/// All boots are one: the wall clock continues over them.
pub(super) fn boot_number() -> i64 {
    0
}

/// Ends a thread that listens.
pub(super) type Ender = Arc<(Mutex<bool>, Condvar)>;

pub(super) fn ender() -> std::io::Result<Ender> {
    Ok(Ender::default())
}

pub(super) fn end(ender: &Ender) {
    *ender.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
    ender.1.notify_all();
}

/// Writes to a store's files: their paths, and as they were last seen.
pub(super) type Writes = ([PathBuf; 2], [Option<FileState>; 2]);

/// Inode, length, and time of the last write in seconds and nanoseconds.
type FileState = (u64, u64, i64, i64);

pub(super) fn writes_of(store: &Path) -> Option<Writes> {
    let files = [store.to_owned(), with_suffix(store, "-wal")];
    let seen = files.each_ref().map(|file| state(file));
    Some((files, seen))
}

fn state(file: &Path) -> Option<FileState> {
    let found = std::fs::metadata(file).ok()?;
    Some((found.ino(), found.len(), found.mtime(), found.mtime_nsec()))
}

/// Waits for a write, at most so long.
pub(super) fn wait((files, seen): &mut Writes, ender: &Ender, ms: u32) -> Awaited {
    let mut left_ms = ms;
    loop {
        let pause_ms = left_ms.min(POLL_MS);
        let pause = Duration::from_millis(pause_ms.into());
        let over = ender.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = ender.1.wait_timeout_while(over, pause, |over| !*over);
        if *waited.unwrap_or_else(PoisonError::into_inner).0 {
            return Awaited::End;
        }
        let now = files.each_ref().map(|file| state(file));
        if now != *seen {
            *seen = now;
            return Awaited::Write;
        }
        left_ms -= pause_ms;
        if left_ms == 0 {
            return Awaited::Nothing;
        }
    }
}

/// Not known here.
pub(super) fn is_surely_local(_folder: &Path) -> bool {
    false
}

/// Not known here: a network file system is not recognised.
pub(super) fn kind_of(_folder: &Path) -> Option<String> {
    None
}
