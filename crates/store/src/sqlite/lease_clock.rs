//! The lease clock of a local store: boot time, which is not affected by clock changes and runs
//! while the machine sleeps, together with the boot it belongs to.

use std::sync::atomic::{AtomicI64, Ordering};

use rustix::time::{ClockId, clock_gettime};

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

/// The boot-time clock, with an offset that tests move.
#[derive(Debug)]
pub(super) struct SqliteLeaseClock {
    boot: i64,
    ahead_ms: AtomicI64,
}

impl SqliteLeaseClock {
    pub(super) fn start() -> Self {
        Self {
            boot: boot_number(),
            ahead_ms: AtomicI64::new(0),
        }
    }

    pub(super) fn now(&self) -> LeaseNow {
        let time = clock_gettime(ClockId::Boottime);
        let ms = time.tv_sec * 1_000 + time.tv_nsec / 1_000_000;
        LeaseNow {
            boot: self.boot,
            ms: ms + self.ahead_ms.load(Ordering::Relaxed),
        }
    }

    pub(super) fn advance(&self, ms: i64) {
        self.ahead_ms.fetch_add(ms, Ordering::Relaxed);
    }
}

/// The first 64 bits of the boot id. Without a boot id all boots count as one, and leases only
/// expire by time.
fn boot_number() -> i64 {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: String = text
        .chars()
        .filter(char::is_ascii_hexdigit)
        .take(16)
        .collect();
    u64::from_str_radix(&digits, 16).unwrap_or(0).cast_signed()
}
