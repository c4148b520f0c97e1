//! Rate limit for resuming work after a crash, so that a thousand agents do not start at the same
//! time.
//!
//! Pure: the time of a monotonic clock is an argument.

use crate::time::Span;

/// Cost of one unit; the bucket holds one, so units are evenly spaced.
const TURN: u64 = 1_000_000;

/// A token bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateLimiter {
    per_second: u32,
    /// Millionths of a unit.
    filled: u64,
    at_ms: u64,
}

impl RateLimiter {
    /// The first unit is available at once; unlimited when zero.
    pub fn new(per_second: u32, now_ms: u64) -> Self {
        Self {
            per_second,
            filled: TURN,
            at_ms: now_ms,
        }
    }

    /// Takes a unit, or returns the wait until one is available.
    pub fn take(&mut self, now_ms: u64) -> Result<(), Span> {
        if self.per_second == 0 {
            return Ok(());
        }
        let per_ms = u64::from(self.per_second) * (TURN / 1_000);
        let passed_ms = now_ms.saturating_sub(self.at_ms);
        self.filled = self
            .filled
            .saturating_add(passed_ms.saturating_mul(per_ms))
            .min(TURN);
        self.at_ms = now_ms.max(self.at_ms);
        if self.filled < TURN {
            return Err(Span::from_ms((TURN - self.filled).div_ceil(per_ms)));
        }
        self.filled = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When each of the first turns is given, to one who waits for each.
    fn turns(per_second: u32, count: usize) -> Vec<u64> {
        let mut pace = RateLimiter::new(per_second, 500);
        let mut now_ms = 500;
        let mut given = Vec::new();
        while given.len() < count {
            match pace.take(now_ms) {
                Ok(()) => given.push(now_ms - 500),
                Err(wait) => now_ms += wait.as_ms(),
            }
        }
        given
    }

    #[test]
    fn the_first_turn_is_at_once_and_the_others_are_evenly_apart() {
        assert_eq!(turns(4, 5), [0, 250, 500, 750, 1_000]);
        assert_eq!(turns(1, 3), [0, 1_000, 2_000]);
    }

    #[test]
    fn a_wait_is_never_too_short() {
        for per_second in [3, 7, 999, 1_001, u32::MAX] {
            let last = *turns(per_second, 50).last().expect("fifty turns");
            let soonest_ms = 49_000 / u64::from(per_second);
            assert!(last >= soonest_ms, "{per_second}: {last}");
        }
    }

    #[test]
    fn what_was_not_used_is_not_saved_up() {
        let mut pace = RateLimiter::new(2, 0);
        assert_eq!(pace.take(3_600_000), Ok(()));
        assert_eq!(pace.take(3_600_000), Err(Span::from_ms(500)));
    }

    #[test]
    fn zero_is_no_limit() {
        let mut pace = RateLimiter::new(0, 0);
        assert!((0..1_000).all(|_| pace.take(0) == Ok(())));
    }

    #[test]
    fn a_clock_that_goes_back_gives_nothing_away() {
        let mut pace = RateLimiter::new(1, 10_000);
        assert_eq!(pace.take(10_000), Ok(()));
        assert_eq!(pace.take(0), Err(Span::from_secs(1)));
        assert_eq!(pace.take(10_999), Err(Span::from_ms(1)));
    }
}
