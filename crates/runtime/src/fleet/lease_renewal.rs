//! Decides what a fleet member does next and what an answer means for its lease. Pure: the clock is
//! an argument, so that a thousand members can be simulated.

use relight_core::time::Span;

use super::lease_term::{Term, Timing};

/// Delay after the expiry of another lease before it is checked, because the store's clock must
/// have passed it too.
const LOOK_AFTER_MS: u64 = 10;

/// The state of one lease. Times are milliseconds since boot.
#[derive(Debug, Clone, Copy)]
pub struct Keeping {
    timing: Timing,
    term: Term,
    /// When the last successful renewal was sent.
    sent_ms: u64,
    /// When the first of all leases expires unless renewed.
    look_ms: Option<u64>,
}

/// The next action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// The lease is lost.
    Lose,
    /// Renew the lease.
    Renew,
    /// Check the other nodes.
    Look,
}

impl Keeping {
    /// A lease that was requested at this time and granted.
    pub fn begun(sent_ms: u64, timing: Timing) -> Self {
        Self {
            timing,
            term: Term::sent_at(sent_ms, timing),
            sent_ms,
            look_ms: None,
        }
    }

    /// How long the node may act.
    pub fn term(&self) -> Term {
        self.term
    }

    /// Time of the next action.
    pub fn due_ms(&self) -> u64 {
        let look_ms = self.look_ms.unwrap_or(u64::MAX);
        self.renew_ms().min(look_ms).min(self.term.stop_at_ms())
    }

    /// The action that is due. The clock is compared first, because the machine may have slept.
    pub fn due(&self, now_ms: u64) -> Due {
        if now_ms >= self.term.stop_at_ms() {
            Due::Lose
        } else if now_ms >= self.renew_ms() {
            Due::Renew
        } else {
            Due::Look
        }
    }

    /// Records a successful renewal. False when the answer came after the lease had expired: the
    /// store may have committed it after others saw the expiry.
    #[must_use]
    pub fn renewed(&mut self, sent_ms: u64, now_ms: u64) -> bool {
        if now_ms >= self.term.stop_at_ms() {
            return false;
        }
        self.sent_ms = sent_ms;
        self.term = Term::sent_at(sent_ms, self.timing);
        true
    }

    /// Records a check of the other nodes; `first_end` is the time until the first lease expires.
    pub fn looked(&mut self, now_ms: u64, first_end: Option<Span>) {
        let end_ms = first_end.map(|left| now_ms.saturating_add(left.as_ms()));
        self.look_ms = end_ms.map(|end_ms| end_ms.saturating_add(LOOK_AFTER_MS));
    }

    fn renew_ms(&self) -> u64 {
        self.sent_ms.saturating_add(self.timing.renew.as_ms())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMING: Timing = Timing {
        lease: Span::from_secs(8),
        renew: Span::from_secs(2),
    };

    #[test]
    fn what_is_due_first_is_done_and_nothing_after_the_lease() {
        let mut keeping = Keeping::begun(1_000, TIMING);
        assert_eq!((keeping.due_ms(), keeping.due(3_000)), (3_000, Due::Renew));
        keeping.looked(1_100, Some(Span::from_ms(500)));
        assert_eq!((keeping.due_ms(), keeping.due(1_610)), (1_610, Due::Look));
        assert_eq!(keeping.due(keeping.term().stop_at_ms()), Due::Lose);
    }

    #[test]
    fn an_answer_that_comes_too_late_loses_the_lease() {
        let mut keeping = Keeping::begun(0, TIMING);
        assert!(keeping.renewed(2_000, 2_005));
        let stop_at_ms = keeping.term().stop_at_ms();
        assert!(!keeping.renewed(4_000, stop_at_ms));
        assert_eq!(
            keeping.term().stop_at_ms(),
            stop_at_ms,
            "it gives nothing back"
        );
    }
}
