//! Wakes whoever waits for one of several processes to end, by their pidfds.

use std::collections::HashSet;
use std::future::pending;
use std::io;
use std::os::fd::OwnedFd;

use relight_core::lease::ProcessIdentity;
use tokio::io::unix::AsyncFd;

use super::pidfd;
use crate::os::descriptor;

#[derive(Debug)]
pub(crate) enum WatchedProcesses {
    /// Readable when one of the processes has ended.
    Watching(
        AsyncFd<OwnedFd>,
        #[expect(dead_code, reason = "open while watched")] Vec<OwnedFd>,
    ),
    /// One has ended already.
    Ended,
    /// The kernel refused; the sweep finds them.
    Failed,
}

impl WatchedProcesses {
    /// Called inside a runtime.
    pub(crate) fn open(processes: &HashSet<ProcessIdentity>) -> Self {
        let mut pidfds = Vec::with_capacity(processes.len());
        for process in processes {
            match pidfd::open_identified(process) {
                Ok(Some(handle)) => pidfds.push(handle),
                Ok(None) => return Self::Ended,
                Err(_) => {}
            }
        }
        let watching = || -> io::Result<_> { descriptor::readable(pidfd::any_ended(&pidfds)?) };
        match watching() {
            _ if pidfds.is_empty() => Self::Failed,
            Ok(any) => Self::Watching(any, pidfds),
            Err(_) => Self::Failed,
        }
    }

    /// Resolves when one has ended, also every further time.
    pub(crate) async fn ended(&self) {
        match self {
            Self::Ended => return,
            // It stays readable, so the guard is dropped without clearing anything.
            Self::Watching(any, _) if any.readable().await.is_ok() => return,
            Self::Watching(..) | Self::Failed => {}
        }
        pending::<()>().await;
    }
}
