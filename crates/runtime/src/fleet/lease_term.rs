//! How long a node may act. Counted from *before* a renewal was sent, so that it ends here before
//! it ends in the store.

use relight_core::time::Span;
use serde::{Deserialize, Serialize};

use crate::presets::Rung;

/// Minimum lease; a shorter one leaves no time to stop attempts.
pub const LEASE_MIN: Span = Span::from_secs(3);
/// Minimum number of renewals within a lease.
pub const RENEWALS_MIN: u64 = 3;

/// Timing of a node's lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Its length.
    pub lease: Span,
    /// How often it is renewed.
    pub renew: Span,
}

impl Timing {
    /// Reserve at the end of the lease for the kernel to end killed processes, and for our own
    /// delays.
    fn reserve_ms(self) -> u64 {
        (self.lease.as_ms() / 12).clamp(200, 1_000)
    }

    /// Maximum grace period of agents at the end of the lease.
    fn grace_ms(self) -> u64 {
        self.lease.as_ms() / 4
    }
}

/// How long an attempt may live unless its shim is told a later deadline, whether or not its supervisor
/// lives. Times are milliseconds of the boot-time clock, which also counts while the host sleeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deadline {
    /// From then on it is stopped, and nothing is started.
    pub stop_at_ms: u64,
    /// From then on it is killed.
    pub kill_at_ms: u64,
    /// How it is stopped; cut short when less time is left.
    pub ladder: Vec<Rung>,
}

/// When the lease ends by our own clock. Times are milliseconds since boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Term {
    until_ms: u64,
    timing: Timing,
}

impl Term {
    /// The term of a renewal sent at this time.
    pub fn sent_at(sent_ms: u64, timing: Timing) -> Self {
        Self {
            until_ms: sent_ms.saturating_add(timing.lease.as_ms()),
            timing,
        }
    }

    /// From this time on nothing is started and attempts are stopped.
    pub fn stop_at_ms(self) -> u64 {
        self.kill_at_ms().saturating_sub(self.timing.grace_ms())
    }

    fn kill_at_ms(self) -> u64 {
        self.until_ms.saturating_sub(self.timing.reserve_ms())
    }

    /// The deadline for a shim that stops its attempt with this ladder.
    pub fn deadline(self, ladder: Vec<Rung>) -> Deadline {
        let waits = ladder.iter().map(|rung| rung.wait.as_ms());
        let grace_ms = waits
            .fold(0, u64::saturating_add)
            .min(self.timing.grace_ms());
        let kill_at_ms = self.kill_at_ms();
        Deadline {
            stop_at_ms: kill_at_ms.saturating_sub(grace_ms),
            kill_at_ms,
            ladder,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ladder(wait_ms: u64) -> Vec<Rung> {
        vec![Rung {
            signal: 15,
            wait: Span::from_ms(wait_ms),
        }]
    }

    #[test]
    fn everything_is_killed_before_the_lease_ends_and_has_what_grace_is_left() {
        let timing = Timing {
            lease: Span::from_secs(8),
            renew: Span::from_secs(2),
        };
        let term = Term::sent_at(1_000, timing);
        let patient = term.deadline(ladder(10_000));
        assert_eq!((patient.stop_at_ms, patient.kill_at_ms), (6_334, 8_334));
        let quick = term.deadline(ladder(100));
        assert_eq!((quick.stop_at_ms, quick.kill_at_ms), (8_234, 8_334));
        assert_eq!(term.stop_at_ms(), patient.stop_at_ms);
    }

    #[test]
    fn the_shortest_lease_leaves_time_for_a_late_renewal() {
        let renew = Span::from_ms(LEASE_MIN.as_ms() / RENEWALS_MIN);
        let term = Term::sent_at(
            0,
            Timing {
                lease: LEASE_MIN,
                renew,
            },
        );
        assert!(
            term.stop_at_ms() >= renew.as_ms() * 2,
            "{}",
            term.stop_at_ms()
        );
    }
}
