//! Real time: a kill at a random moment is a matter of time and nothing else.

use std::time::{Duration, Instant};

/// Now.
#[expect(clippy::disallowed_methods, reason = "moments of kills and bounds on trials")]
pub fn now() -> Instant {
    Instant::now()
}

/// Lets time pass.
#[expect(clippy::disallowed_methods, reason = "nobody signals the moment drawn for a kill")]
pub fn pause(span: Duration) {
    std::thread::sleep(span);
}
