//! The clocks: one of the wall for people, two that no one can set.

use relight_core::time::{Span, Time};
use rustix::time::{ClockId, clock_gettime};

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

/// Milliseconds of `CLOCK_BOOTTIME`: never set, and it goes on while the host sleeps. For how long
/// something really took; comparable within one boot only.
pub fn boot_ms() -> u64 {
    ms(ClockId::Boottime)
}

/// The same as a span.
pub fn since_boot() -> Span {
    Span::from_ms(boot_ms())
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
}
