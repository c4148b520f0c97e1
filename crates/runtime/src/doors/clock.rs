//! The wall clock, and the one that counts from boot.

use relight_core::time::{Span, Time};
use rustix::time::{ClockId, clock_gettime};

/// Now, by the wall clock.
#[expect(clippy::disallowed_methods, reason = "this is the door")]
pub fn now() -> Time {
    Time::from_ms(jiff::Timestamp::now().as_millisecond())
}

/// How long the machine is up, asleep or not; no clock that a person sets can move it.
pub fn since_boot() -> Span {
    let time = clock_gettime(ClockId::Boottime);
    Span::from_ms(time.tv_sec.unsigned_abs() * 1_000 + time.tv_nsec.unsigned_abs() / 1_000_000)
}
