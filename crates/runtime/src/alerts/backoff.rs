//! Timing of alerts: grouping, retries and giving up.

use relight_core::time::{Span, Time};

use crate::os::random;

/// Maximum wait between two tries.
pub(super) const RETRY_MAX: Span = Span::from_secs(3_600);
/// How long a refused message is retried before the next one is sent.
const REFUSED_MAX: Span = Span::from_secs(3_600);

/// Timing of alerts: grouping, retries and giving up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AlertTiming {
    /// Alerts within this time are sent together.
    pub group: Span,
    /// Wait before the first retry; doubled for each further one, up to an hour.
    pub retry: Span,
    /// How long a message is retried.
    pub give_up: Span,
}

impl Default for AlertTiming {
    fn default() -> Self {
        Self {
            group: Span::from_secs(2),
            retry: Span::from_secs(5),
            give_up: Span::from_secs(24 * 3_600),
        }
    }
}

impl AlertTiming {
    /// Time of the next try; `asked` is the wait that the receiver requested.
    pub(super) fn next_try(&self, tries: u32, asked: Option<Span>, now: Time) -> Time {
        now.plus(match asked {
            Some(asked) => asked.min(self.give_up).max(self.retry),
            None => spread(doubled(self.retry, tries), random::fraction()),
        })
    }

    /// Whether to give up a message first tried at this time.
    pub(super) fn is_over(&self, first_at: Time, refused: bool, now: Time) -> bool {
        let at_most = if refused {
            self.give_up.min(REFUSED_MAX)
        } else {
            self.give_up
        };
        now.since(first_at) >= at_most
    }
}

fn doubled(first: Span, tries: u32) -> Span {
    let times = 1_u64 << tries.saturating_sub(1).min(20);
    Span::from_ms(first.as_ms().saturating_mul(times)).min(RETRY_MAX.max(first))
}

/// Adds up to a fifth, so that many senders do not retry at the same time.
fn spread(wait: Span, chance: f64) -> Span {
    let more = wait.as_ms() as f64 / 5.0 * chance;
    Span::from_ms(wait.as_ms() + more as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(pace: &AlertTiming, tries: u32, asked: Option<Span>) -> u64 {
        let now = Time::from_ms(1_000_000);
        pace.next_try(tries, asked, now).since(now).as_ms() / 1_000
    }

    #[test]
    fn waits_grow_up_to_an_hour_and_never_come_in_step() {
        let pace = AlertTiming::default();
        for (tries, at_least, at_most) in [
            (1, 5, 6),
            (2, 10, 12),
            (5, 80, 96),
            (12, 3_600, 4_320),
            (u32::MAX, 3_600, 4_320),
        ] {
            let wait = wait(&pace, tries, None);
            assert!(
                (at_least..=at_most).contains(&wait),
                "try {tries} waits {wait} s"
            );
        }
    }

    #[test]
    fn what_the_other_side_asks_for_is_kept_within_the_limit() {
        let pace = AlertTiming::default();
        assert_eq!(wait(&pace, 1, Some(Span::from_secs(120))), 120);
        assert_eq!(wait(&pace, 1, Some(Span::ZERO)), 5);
        assert_eq!(
            wait(&pace, 1, Some(Span::from_secs(u64::from(u32::MAX)))),
            24 * 3_600
        );
    }

    #[test]
    fn a_message_that_is_refused_does_not_hold_up_the_others_for_a_day() {
        let pace = AlertTiming::default();
        let (first, hours) = (Time::from_ms(0), |n: u64| {
            Time::from_ms(0).plus(Span::from_secs(n * 3_600))
        });
        assert!(!pace.is_over(first, false, hours(23)));
        assert!(pace.is_over(first, false, hours(24)));
        assert!(pace.is_over(first, true, hours(1)));
    }
}
