//! The clocks: the wall clock and two monotonic ones.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use relight_core::time::{Span, Time};
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};

use super::descriptor;

/// The wall clock. It can jump; use it for display and for deadlines set by people.
#[expect(clippy::disallowed_methods, reason = "this is the door")]
pub fn now() -> Time {
    Time::from_ms(jiff::Timestamp::now().as_millisecond())
}

/// Milliseconds of `CLOCK_MONOTONIC`, which stops while the host sleeps. For measuring silence;
/// comparable within one boot only.
pub fn monotonic_ms() -> u64 {
    ms(ClockId::Monotonic)
}

/// The same in microseconds, for short durations.
pub fn monotonic_us() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000 + now.tv_nsec.unsigned_abs() / 1_000
}

/// Milliseconds of `CLOCK_BOOTTIME`, which also runs while the host sleeps. For real durations;
/// comparable within one boot only.
pub fn boot_ms() -> u64 {
    ms(ClockId::Boottime)
}

/// The same as a span.
pub fn since_boot() -> Span {
    Span::from_ms(boot_ms())
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

fn ms(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    // Neither clock is negative.
    time.tv_sec.unsigned_abs() * 1_000 + time.tv_nsec.unsigned_abs() / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boot_time_has_all_of_monotonic_time_and_neither_goes_back() {
        let (awake, whole) = (monotonic_ms(), boot_ms());
        assert!(awake > 0 && awake <= whole, "{awake} {whole}");
        assert!(monotonic_ms() >= awake && boot_ms() >= whole);
    }

    #[tokio::test]
    async fn a_wait_by_boot_time_ends_when_it_is_time_and_not_before() {
        let at_ms = boot_ms() + 20;
        until_boot_ms(at_ms).await;
        assert!(boot_ms() >= at_ms);
        until_boot_ms(0).await;
    }
}
