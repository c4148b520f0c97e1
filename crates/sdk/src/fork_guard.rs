//! What belongs to one process: a fork has a copy of it that must not be used, closed or dropped.
//!
//! SQLite's handles, its locks and the threads of the runtime do not survive a fork. SQLite also remembers
//! in the process which files it has open, so a child may not open again what its parent had open.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use relight_core::error_code::{ErrorCode, Refused};

/// A value of the process that made it. Dropped in another process it is leaked.
#[derive(Debug)]
pub(crate) struct OfProcess<T> {
    pid: u32,
    value: Option<T>,
}

impl<T> OfProcess<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            pid: std::process::id(),
            value: Some(value),
        }
    }

    /// The value, in the process that made it.
    pub(crate) fn get(&self) -> Result<&T, Refused> {
        if self.pid != std::process::id() {
            return Err(forked());
        }
        self.value.as_ref().ok_or_else(used)
    }

    /// Takes it out, in the process that made it; once.
    pub(crate) fn take(&mut self) -> Result<T, Refused> {
        if self.pid != std::process::id() {
            return Err(forked());
        }
        self.value.take().ok_or_else(used)
    }
}

impl<T> Drop for OfProcess<T> {
    fn drop(&mut self) {
        if self.pid != std::process::id() {
            std::mem::forget(self.value.take());
        }
    }
}

pub(crate) fn forked() -> Refused {
    Refused::new(
        ErrorCode::FORKED,
        "this process was forked after the store was opened",
        "open the store after the fork, in the child; or start children with spawn or forkserver",
    )
}

fn used() -> Refused {
    Refused::new(
        ErrorCode::CONFLICT,
        "this handle has ended",
        "a step, a task or a turn ends once; begin a new one",
    )
}

/// A SQLite file that a process has open, by what SQLite itself knows it by.
type OpenFile = (u32, u64, u64);

/// Notes for as long as it lives that this process has the file open.
#[derive(Debug)]
pub(crate) struct OpenedHere(Option<OpenFile>);

impl OpenedHere {
    /// Refused where a parent of this process had it open when it forked.
    pub(crate) fn check(file: &Path) -> Result<(), Refused> {
        use std::os::unix::fs::MetadataExt as _;
        let Ok(found) = std::fs::metadata(file) else {
            return Ok(());
        };
        let pid = std::process::id();
        let is_inherited =
            |open: &OpenFile| open.0 != pid && (open.1, open.2) == (found.dev(), found.ino());
        match opened().iter().any(is_inherited) {
            true => Err(forked()),
            false => Ok(()),
        }
    }

    pub(crate) fn note(file: Option<&Path>) -> Self {
        use std::os::unix::fs::MetadataExt as _;
        let found = file.and_then(|file| std::fs::metadata(file).ok());
        let open = found.map(|found| (std::process::id(), found.dev(), found.ino()));
        opened().extend(open);
        Self(open)
    }
}

impl Drop for OpenedHere {
    fn drop(&mut self) {
        let mut opened = opened();
        let own = self.0.take();
        if let Some(at) = opened.iter().position(|open| Some(*open) == own) {
            opened.swap_remove(at);
        }
    }
}

fn opened() -> MutexGuard<'static, Vec<OpenFile>> {
    // Of the process by nature: SQLite's own list is.
    static OPENED: Mutex<Vec<OpenFile>> = Mutex::new(Vec::new());
    OPENED.lock().unwrap_or_else(PoisonError::into_inner)
}
