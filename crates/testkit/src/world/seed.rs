//! Chance that can be replayed: everything drawn in a trial comes from its seed.

use std::time::Duration;

/// A stream of numbers that its first number fixes (splitmix64).
#[derive(Debug, Clone)]
pub struct Seed(u64);

impl Seed {
    /// The stream that begins here.
    pub fn new(first: u64) -> Self {
        Self(first)
    }

    /// A seed nobody chose, for when none is given.
    pub fn fresh() -> u64 {
        u64::from_le_bytes(relight_runtime::os::random::bytes()) >> 32
    }

    /// The stream of one trial of a run, independent of how many others there are.
    pub fn of_trial(run: u64, trial: u64) -> Self {
        let mut seed = Self(run.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ trial);
        Self(seed.draw())
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 up to, not including, `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.draw() % end.max(1)
    }

    /// Another order, each as likely as any other.
    pub fn shuffle<T>(&mut self, all: &mut [T]) {
        for end in (1..all.len()).rev() {
            all.swap(end, self.below(end as u64 + 1) as usize);
        }
    }

    /// A moment between two.
    pub fn between(&mut self, least: Duration, most: Duration) -> Duration {
        least + self.moment(most.saturating_sub(least))
    }

    /// A moment in a span.
    pub fn moment(&mut self, span: Duration) -> Duration {
        let us = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(self.below(us))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_draws_the_same_whatever_ran_beside_it() {
        let draws = |trial| {
            let mut seed = Seed::of_trial(7, trial);
            (seed.draw(), seed.below(100))
        };
        assert_eq!(draws(3), draws(3));
        assert_ne!(draws(3), draws(4));
    }
}
