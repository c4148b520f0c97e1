//! Real time: a kill at a random moment is a matter of time and nothing else.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

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

/// The monotonic clock as every process on this machine reads it.
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let (seconds, ns) = (now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs());
    seconds * 1_000_000_000 + ns
}

/// The wall clock of the kernel, the same in every namespace.
pub fn wall_ns() -> u64 {
    let now = clock_gettime(ClockId::Realtime);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// Looks again and again until something is so; whether it was so in time.
pub fn becomes(
    limit: Duration,
    mut is_so: impl FnMut() -> anyhow::Result<bool>,
) -> anyhow::Result<bool> {
    let end = now() + limit;
    loop {
        if is_so()? {
            return Ok(true);
        }
        if now() > end {
            return Ok(false);
        }
        pause(Duration::from_millis(2));
    }
}
