//! What a member of a fleet has to do next, and what an answer means for its lease. Pure: the clock is an
//! argument, so that a thousand of them can be simulated.

use relight_core::time::Span;

use super::term::{Term, Timing};

/// How long after the end of another node's lease it is looked at: the store's clock has to have passed
/// it too.
const LOOK_AFTER_MS: u64 = 10;

/// One lease, and what keeps it. Moments are milliseconds since boot.
#[derive(Debug, Clone, Copy)]
pub struct Keeping {
    timing: Timing,
    term: Term,
    /// When the last renewal that came through was sent.
    sent_ms: u64,
    /// When the first of all leases ends unless it is renewed.
    look_ms: Option<u64>,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// Nothing more under this lease.
    Lose,
    /// Renew it.
    Renew,
    /// See what became of the others.
    Look,
}

impl Keeping {
    /// A lease that was asked for at that moment, and given.
    pub fn begun(sent_ms: u64, timing: Timing) -> Self {
        Self { timing, term: Term::sent_at(sent_ms, timing), sent_ms, look_ms: None }
    }

    /// For how long its node may act.
    pub fn term(&self) -> Term {
        self.term
    }

    /// When something is to be done.
    pub fn due_ms(&self) -> u64 {
        let look_ms = self.look_ms.unwrap_or(u64::MAX);
        self.renew_ms().min(look_ms).min(self.term.stop_at_ms())
    }

    /// What, then. The clock is compared before anything else is done: the machine may have slept.
    pub fn due(&self, now_ms: u64) -> Due {
        if now_ms >= self.term.stop_at_ms() {
            Due::Lose
        } else if now_ms >= self.renew_ms() {
            Due::Renew
        } else {
            Due::Look
        }
    }

    /// A renewal came through. False when its answer came after the end of the lease that it renews: the
    /// store may have committed it late, when others had seen that end already.
    #[must_use]
    pub fn renewed(&mut self, sent_ms: u64, now_ms: u64) -> bool {
        if now_ms >= self.term.stop_at_ms() {
            return false;
        }
        self.sent_ms = sent_ms;
        self.term = Term::sent_at(sent_ms, self.timing);
        true
    }

    /// The others were seen; the first of all leases has so long to go.
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

    const TIMING: Timing = Timing { lease: Span::from_secs(8), renew: Span::from_secs(2) };

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
        assert_eq!(keeping.term().stop_at_ms(), stop_at_ms, "it gives nothing back");
    }
}
