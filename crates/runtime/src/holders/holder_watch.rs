//! Wakes whoever waits for the holders of leases to go.
//!
//! The death of a process of this machine is told by the system. Leases by time and the leases of
//! nodes end by a timer. The end of an attempt is a change of the store.

use std::collections::HashSet;
use std::future::pending;
use std::sync::OnceLock;

use relight_core::lease::ProcessIdentity;
use tokio::time::{Instant, sleep_until};

use crate::os::process;
use crate::os::system::ProcessWatch;

/// Processes watched at a time, each by a descriptor. The sweep finds the others.
const PROCESSES_MAX: usize = 256;

/// What ends the leases of the holders that were found alive.
#[derive(Debug, Default)]
pub(crate) struct HolderWatch {
    processes: HashSet<ProcessIdentity>,
    earliest: Option<Instant>,
    watch: OnceLock<ProcessWatch>,
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
            let watch = self
                .watch
                .get_or_init(|| ProcessWatch::open(&self.processes));
            watch.ended().await;
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
}
