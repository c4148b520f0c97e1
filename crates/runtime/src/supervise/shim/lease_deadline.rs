//! The deadline of an attempt: in a fleet it must not outlive the node's lease, or it would run
//! beside its successor on another node.
//!
//! Only computes and holds the timer; the shim acts.

use std::os::fd::OwnedFd;

use relight_core::time::Span;

use super::system::ContinueTimer;
use crate::fleet::Deadline;
use crate::os::clock;

/// The newest deadline and its timer. Without a deadline the attempt may run for ever.
#[derive(Debug, Default)]
pub(super) struct DeadlineGuard {
    deadline: Option<Deadline>,
    /// The stop was triggered; later deadlines do not trigger it again.
    is_due: bool,
    /// Also counts while the host sleeps, unlike the timeout of `poll`.
    timer: Option<OwnedFd>,
    /// Continues the shim at that time, if an agent has stopped it.
    wake: Option<ContinueTimer>,
}

impl DeadlineGuard {
    /// Sets the deadline; the newest one counts, even if earlier.
    pub(super) fn set(&mut self, deadline: Deadline) {
        // Without a timer only the timeout of `poll` is left.
        self.timer = clock::boot_timer(deadline.stop_at_ms).ok();
        self.wake = self.wake.take().or_else(|| ContinueTimer::new().ok());
        if let Some(wake) = &self.wake {
            wake.set(deadline.stop_at_ms);
        }
        self.deadline = Some(deadline);
        self.is_due = false;
    }

    /// Readable when the deadline has passed.
    pub(super) fn timer(&self) -> Option<&OwnedFd> {
        self.timer.as_ref()
    }

    /// Time of the next action.
    pub(super) fn due_ms(&self) -> Option<u64> {
        let deadline = self.deadline.as_ref().filter(|_| !self.is_due)?;
        Some(deadline.stop_at_ms)
    }

    /// Whether it is too late to start anything.
    pub(super) fn is_due(&self, now: Span) -> bool {
        self.deadline
            .as_ref()
            .is_some_and(|deadline| now.as_ms() >= deadline.stop_at_ms)
    }

    /// The deadline, once, when it has passed.
    pub(super) fn take_due(&mut self, now: Span) -> Option<Deadline> {
        if self.is_due || !self.is_due(now) {
            return None;
        }
        self.is_due = true;
        self.timer = None;
        self.deadline.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deadline(stop_at_ms: u64) -> Deadline {
        Deadline {
            stop_at_ms,
            kill_at_ms: stop_at_ms + 100,
            ladder: Vec::new(),
        }
    }

    #[test]
    fn a_deadline_comes_once_and_a_newer_one_puts_it_off() {
        let mut guard = DeadlineGuard::default();
        assert_eq!(
            (guard.due_ms(), guard.is_due(Span::from_ms(u64::MAX))),
            (None, false)
        );
        guard.set(deadline(1_000));
        assert_eq!(guard.take_due(Span::from_ms(999)), None);
        guard.set(deadline(2_000));
        assert_eq!(guard.take_due(Span::from_ms(1_000)), None);
        assert_eq!(guard.take_due(Span::from_ms(2_000)), Some(deadline(2_000)));
        assert_eq!(guard.take_due(Span::from_ms(2_001)), None);
        assert_eq!(guard.due_ms(), None);
        assert!(
            guard.is_due(Span::from_ms(2_001)),
            "nothing is started any more"
        );
    }
}
