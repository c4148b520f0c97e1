//! Slows down whoever guesses. A token of 256 bits is not guessed; the noise of trying is kept small.

use std::sync::{Mutex, PoisonError};

use relight_runtime::os::clock;

/// So many failures may come at once.
const BURST: u64 = 100;
/// One more is forgiven after so long.
const FORGIVE_EVERY_MS: u64 = 100;

/// Failures that are not forgiven yet.
#[derive(Debug, Default)]
pub(crate) struct FailedLogins(Mutex<Bucket>);

#[derive(Debug, Default)]
struct Bucket {
    count: u64,
    forgiven_until_ms: u64,
}

impl FailedLogins {
    /// Counts one; whether it is beyond what is answered.
    pub(crate) fn is_one_too_many(&self) -> bool {
        let mut bucket = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        bucket.count(clock::monotonic_ms())
    }
}

impl Bucket {
    fn count(&mut self, now_ms: u64) -> bool {
        let forgiven = now_ms.saturating_sub(self.forgiven_until_ms) / FORGIVE_EVERY_MS;
        self.forgiven_until_ms += forgiven * FORGIVE_EVERY_MS;
        self.count = self.count.saturating_sub(forgiven);
        if self.count >= BURST {
            return true;
        }
        self.count += 1;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_answered_then_limited_then_forgiven() {
        let mut bucket = Bucket::default();
        assert!((0..BURST).all(|_| !bucket.count(1_000_000)));
        assert!(bucket.count(1_000_000));
        assert!(!bucket.count(1_000_000 + FORGIVE_EVERY_MS));
        assert!(bucket.count(1_000_000 + FORGIVE_EVERY_MS));
    }
}
