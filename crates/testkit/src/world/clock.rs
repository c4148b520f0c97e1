//! Real time: a kill at a random moment is a matter of time and nothing else.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Work enough to tell how busy the machine is.
const SAMPLE: Duration = Duration::from_millis(100);

/// Now.
#[expect(
    clippy::disallowed_methods,
    reason = "moments of kills and bounds on trials"
)]
pub fn now() -> Instant {
    Instant::now()
}

/// Lets time pass.
#[expect(
    clippy::disallowed_methods,
    reason = "nobody signals the moment drawn for a kill"
)]
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

/// How many times longer work takes here and now than on an idle machine: others may be at work too.
pub fn slowdown() -> f64 {
    let used = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default();
    let (began, used_before) = (now(), used());
    while used() - used_before < SAMPLE {}
    began.elapsed().as_secs_f64() / SAMPLE.as_secs_f64()
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
