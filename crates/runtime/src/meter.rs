//! What this process counts of itself for `/metrics`: how long durable writes of steps take, and what
//! became of messages to whoever is told. In memory; a count is one atomic addition.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the buckets, in microseconds.
pub const STEP_BOUNDS_US: [u64; 12] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 500_000, 2_500_000,
];

/// What one process counts.
#[derive(Debug, Default)]
pub struct Meter {
    step_commits: Histogram,
    alerts_sent: AtomicU64,
    alerts_refused: AtomicU64,
}

/// How long something took, each time.
#[derive(Debug, Default)]
struct Histogram {
    /// Those within each bound and above the one before it, then all that took longer.
    buckets: [AtomicU64; STEP_BOUNDS_US.len() + 1],
    sum_us: AtomicU64,
}

/// A histogram as it was at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Times {
    /// Those no longer than each of the bounds.
    pub within: [u64; STEP_BOUNDS_US.len()],
    /// All of them.
    pub count: u64,
    /// What they took together, in microseconds.
    pub sum_us: u64,
}

impl Meter {
    pub(crate) fn step_committed(&self, took: Duration) {
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let place = STEP_BOUNDS_US.iter().position(|bound| took_us <= *bound);
        let place = place.unwrap_or(STEP_BOUNDS_US.len());
        self.step_commits.buckets[place].fetch_add(1, Ordering::Relaxed);
        self.step_commits
            .sum_us
            .fetch_add(took_us, Ordering::Relaxed);
    }

    pub(crate) fn alert_sent(&self) {
        self.alerts_sent.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn alert_refused(&self) {
        self.alerts_refused.fetch_add(1, Ordering::Relaxed);
    }

    /// How long durable writes of steps took.
    pub fn step_commits(&self) -> Times {
        let mut times = Times::default();
        let counts = self
            .step_commits
            .buckets
            .iter()
            .map(|count| count.load(Ordering::Relaxed));
        for (place, count) in counts.enumerate() {
            times.count += count;
            if let Some(within) = times.within.get_mut(place) {
                *within = times.count;
            }
        }
        times.sum_us = self.step_commits.sum_us.load(Ordering::Relaxed);
        times
    }

    /// Messages that a sink took.
    pub fn alerts_sent(&self) -> u64 {
        self.alerts_sent.load(Ordering::Relaxed)
    }

    /// Tries that failed.
    pub fn alerts_refused(&self) -> u64 {
        self.alerts_refused.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_is_counted_in_every_bucket_that_holds_it() {
        let meter = Meter::default();
        for us in [100, 101, 700, 9_000_000] {
            meter.step_committed(Duration::from_micros(us));
        }
        let times = meter.step_commits();
        assert_eq!(times.within, [1, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3]);
        assert_eq!((times.count, times.sum_us), (4, 9_000_901));
    }
}
