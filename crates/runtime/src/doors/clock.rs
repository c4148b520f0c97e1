//! The wall clock.

use relight_core::time::Time;

/// Now, by the wall clock.
#[expect(clippy::disallowed_methods, reason = "this is the door")]
pub fn now() -> Time {
    Time::from_ms(jiff::Timestamp::now().as_millisecond())
}
