//! The clocks: one of the wall for people, two that no one can set.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use relight_core::time::{Span, Time};
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};

use super::descriptor;

/// Now, by the wall clock. It jumps: for people and for deadlines that people set.
#[expect(clippy::disallowed_methods, reason = "this is the door")]
pub fn now() -> Time {
    Time::from_ms(jiff::Timestamp::now().as_millisecond())
}

/// Milliseconds of `CLOCK_MONOTONIC`: never set, and it stands still while the host sleeps. For how
/// long something was awake and silent; comparable within one boot only.
pub fn monotonic_ms() -> u64 {
    ms(ClockId::Monotonic)
}

/// The same in microseconds: for how long something short took.
pub fn monotonic_us() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000 + now.tv_nsec.unsigned_abs() / 1_000
}

/// Milliseconds of `CLOCK_BOOTTIME`: never set, and it goes on while the host sleeps. For how long
/// something really took; comparable within one boot only.
pub fn boot_ms() -> u64 {
    ms(ClockId::Boottime)
}

/// The same as a span.
pub fn since_boot() -> Span {
    Span::from_ms(boot_ms())
}

/// Waits until [`boot_ms`] says so: time that the host sleeps counts, as it does not for the timers of
/// the runtime. Needs a runtime around it.
pub async fn until_boot_ms(at_ms: u64) {
    let waited = match boot_timer(at_ms).and_then(descriptor::readable) {
        Ok(timer) => timer.readable().await.map(drop),
        Err(error) => Err(error),
    };
    if waited.is_err() {
        // Without a descriptor to spare, a wait that may be too long.
        let wait_ms = at_ms.saturating_sub(boot_ms());
        tokio::time::sleep(Duration::from_millis(wait_ms)).await;
    }
}

/// Readable from the moment on when [`boot_ms`] says so.
pub fn boot_timer(at_ms: u64) -> io::Result<OwnedFd> {
    let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
    let timer = timerfd_create(TimerfdClockId::Boottime, flags)?;
    let never = Timespec { tv_sec: 0, tv_nsec: 0 };
    // Nothing at all would mean never.
    let at = Timespec::try_from(Duration::from_millis(at_ms.max(1)))
        .map_err(|_| io::ErrorKind::InvalidInput)?;
    let spec = Itimerspec { it_interval: never, it_value: at };
    timerfd_settime(&timer, TimerfdTimerFlags::ABSTIME, &spec)?;
    Ok(timer)
}

fn ms(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    // Neither clock is ever before its boot.
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
