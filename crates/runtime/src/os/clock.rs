//! The clocks: the wall clock and two monotonic ones.

use relight_core::time::{Span, Time};
use rustix::time::{ClockId, clock_gettime};

pub use super::system::clock::*;

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

/// The same as a span.
pub fn since_boot() -> Span {
    Span::from_ms(boot_ms())
}

pub(super) fn ms(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    // No such clock is negative.
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
