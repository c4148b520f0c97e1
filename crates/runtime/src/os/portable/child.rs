//! The end of a child, by asking for it.

use std::process::Child;
use std::time::Duration;

/// Between two looks at a child.
const POLL: Duration = Duration::from_millis(10);

/// Who started what cannot be asked everywhere: only the group of the child is known.
pub(crate) fn kill_below(_child: &Child) {}

/// Whether a child ends in time.
#[expect(
    clippy::disallowed_methods,
    reason = "nothing that every system has tells the end of one child"
)]
pub(crate) fn ends_within(child: &mut Child, at_most: Duration) -> bool {
    let mut left = at_most;
    loop {
        match child.try_wait() {
            Ok(Some(_)) => return true,
            Ok(None) if !left.is_zero() => {}
            Ok(None) | Err(_) => return false,
        }
        let pause = left.min(POLL);
        std::thread::sleep(pause);
        left -= pause;
    }
}
