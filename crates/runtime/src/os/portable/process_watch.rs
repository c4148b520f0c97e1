//! Wakes whoever waits for one of several processes to end, by looking at them.

use std::collections::HashSet;
use std::future::pending;
use std::time::Duration;

use relight_core::lease::ProcessIdentity;

use crate::os::{process, threads};

/// Between two looks.
const POLL: Duration = Duration::from_secs(1);
/// Every so many looks they are also compared with their start times, which takes a `ps` for each.
const COMPARE_EVERY: u32 = 10;

/// Processes of this machine.
#[derive(Debug)]
pub(crate) struct PolledProcesses(HashSet<ProcessIdentity>);

impl PolledProcesses {
    pub(crate) fn open(processes: &HashSet<ProcessIdentity>) -> Self {
        Self(processes.clone())
    }

    /// Resolves when one has ended, also every further time.
    pub(crate) async fn ended(&self) {
        if self.0.is_empty() {
            return pending().await;
        }
        for look in 0_u32.. {
            let is_gone = if look % COMPARE_EVERY == 0 {
                let all = self.0.clone();
                let is_gone = move || !all.iter().all(process::is_alive);
                threads::run(is_gone).await == Some(true)
            } else {
                !self.0.iter().all(|process| process::is_any(process.pid))
            };
            if is_gone {
                return;
            }
            tokio::time::sleep(POLL).await;
        }
    }
}
