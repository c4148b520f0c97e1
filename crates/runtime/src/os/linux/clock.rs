//! The boot-time clock and its timers.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use crate::os::clock::ms;
use crate::os::descriptor;

/// Milliseconds of `CLOCK_BOOTTIME`, which also runs while the host sleeps. For real durations;
/// comparable within one boot only.
pub fn boot_ms() -> u64 {
    ms(ClockId::Boottime)
}

/// Waits until [`boot_ms`] reaches this value. Unlike the timers of the runtime it counts time in
/// which the host sleeps. Needs a Tokio runtime.
pub async fn until_boot_ms(at_ms: u64) {
    let waited = match boot_timer(at_ms).and_then(descriptor::readable) {
        Ok(timer) => timer.readable().await.map(drop),
        Err(error) => Err(error),
    };
    if waited.is_err() {
        // Without a free descriptor the wait may be too long.
        let wait_ms = at_ms.saturating_sub(boot_ms());
        tokio::time::sleep(Duration::from_millis(wait_ms)).await;
    }
}

/// A descriptor that becomes readable when [`boot_ms`] reaches this value.
pub fn boot_timer(at_ms: u64) -> io::Result<OwnedFd> {
    let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
    let timer = timerfd_create(TimerfdClockId::Boottime, flags)?;
    let never = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // Zero would disarm the timer.
    let at = Timespec::try_from(Duration::from_millis(at_ms.max(1)))
        .map_err(|_| io::ErrorKind::InvalidInput)?;
    let spec = Itimerspec {
        it_interval: never,
        it_value: at,
    };
    timerfd_settime(&timer, TimerfdTimerFlags::ABSTIME, &spec)?;
    Ok(timer)
}
