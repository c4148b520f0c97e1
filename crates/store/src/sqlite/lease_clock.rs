//! The lease clock of a local store, together with the boot it belongs to. On Linux it is boot time,
//! which is not affected by clock changes and runs while the machine sleeps.

use std::sync::atomic::{AtomicI64, Ordering};

use super::system;
use crate::record::Cell;

/// A time within one boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LeaseNow {
    pub(super) boot: i64,
    pub(super) ms: i64,
}

impl LeaseNow {
    /// As the first two values of a statement that reads leases.
    pub(super) fn values(self) -> Vec<Cell> {
        vec![self.ms.into(), self.boot.into()]
    }
}

/// The clock, with an offset that tests move.
#[derive(Debug)]
pub(super) struct SqliteLeaseClock {
    boot: i64,
    ahead_ms: AtomicI64,
}

impl SqliteLeaseClock {
    pub(super) fn start() -> Self {
        Self {
            boot: system::boot_number(),
            ahead_ms: AtomicI64::new(0),
        }
    }

    pub(super) fn now(&self) -> LeaseNow {
        LeaseNow {
            boot: self.boot,
            ms: system::lease_ms() + self.ahead_ms.load(Ordering::Relaxed),
        }
    }

    pub(super) fn advance(&self, ms: i64) {
        self.ahead_ms.fetch_add(ms, Ordering::Relaxed);
    }
}
