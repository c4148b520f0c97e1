//! Wakes whoever waits for the holders of leases to go.
//!
//! The death of a process of this machine is an event of its pidfd. Leases by time and the leases of
//! nodes end by a timer. The end of an attempt is a change of the store.

use std::collections::HashSet;
use std::future::pending;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;

use relight_core::lease::ProcessIdentity;
use tokio::io::unix::AsyncFd;
use tokio::time::{Instant, sleep_until};

use crate::os::{descriptor, pidfd, process};

/// Processes watched at a time, each by a descriptor. The sweep finds the others.
const PROCESSES_MAX: usize = 256;

/// What ends the leases of the holders that were found alive.
#[derive(Debug, Default)]
pub(crate) struct HolderWatch {
    processes: HashSet<ProcessIdentity>,
    earliest: Option<Instant>,
    opened: OnceLock<WatchedProcesses>,
}

#[derive(Debug)]
enum WatchedProcesses {
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

impl HolderWatch {
    /// A lease ends at this time unless it is renewed.
    pub(crate) fn add_end(&mut self, at: Instant) {
        self.earliest = Some(self.earliest.map_or(at, |earliest| earliest.min(at)));
    }

    /// A lease ends with this process of this machine.
    pub(super) fn add_process(&mut self, process: &ProcessIdentity) {
        let is_room = self.processes.len() < PROCESSES_MAX;
        if is_room && process != process::me() && !self.processes.contains(process) {
            self.processes.insert(process.clone());
        }
    }

    /// Resolves when a lease may have ended, also every further time; never when there is none. Needs a
    /// Tokio runtime.
    pub(crate) async fn ended(&self) {
        let died = async {
            match self.opened.get_or_init(|| self.open()) {
                WatchedProcesses::Ended => return,
                // It stays readable, so the guard is dropped without clearing anything.
                WatchedProcesses::Watching(any, _) if any.readable().await.is_ok() => return,
                WatchedProcesses::Watching(..) | WatchedProcesses::Failed => {}
            }
            pending::<()>().await;
        };
        let expired = async {
            match self.earliest {
                Some(at) => sleep_until(at).await,
                None => pending().await,
            }
        };
        tokio::select! {
            () = died => {}
            () = expired => {}
        }
    }

    fn open(&self) -> WatchedProcesses {
        let mut pidfds = Vec::with_capacity(self.processes.len());
        for process in &self.processes {
            match pidfd::open_identified(process) {
                Ok(Some(handle)) => pidfds.push(handle),
                Ok(None) => return WatchedProcesses::Ended,
                Err(_) => {}
            }
        }
        let watching = || -> io::Result<_> { descriptor::readable(pidfd::any_ended(&pidfds)?) };
        match watching() {
            _ if pidfds.is_empty() => WatchedProcesses::Failed,
            Ok(any) => WatchedProcesses::Watching(any, pidfds),
            Err(_) => WatchedProcesses::Failed,
        }
    }
}
