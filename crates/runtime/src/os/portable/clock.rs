//! The monotonic clock in place of the boot-time clock.

use std::time::Duration;

use rustix::time::ClockId;

use crate::os::clock::ms;

/// Milliseconds of `CLOCK_MONOTONIC`. Whether it runs while the host sleeps depends on the system:
/// it does on macOS. Comparable within one boot only.
pub fn boot_ms() -> u64 {
    ms(ClockId::Monotonic)
}

/// Waits until [`boot_ms`] reaches this value. Needs a Tokio runtime.
pub async fn until_boot_ms(at_ms: u64) {
    loop {
        let wait_ms = at_ms.saturating_sub(boot_ms());
        if wait_ms == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(wait_ms)).await;
    }
}
