//! A running stop sequence: the next signal and its time. Only computes; the shim acts.

use std::collections::VecDeque;

use relight_core::time::Span;

use crate::presets::Rung;

const SIGTERM: i32 = 15;

/// How long SIGKILL is repeated before the rest counts as unstoppable.
const KILLING_MAX: Span = Span::from_secs(5);

/// First pause between two rounds of SIGKILL; most processes are gone after one.
const PAUSE_MIN_MS: u64 = 1;
const PAUSE_MAX_MS: u64 = 50;

/// A running stop sequence. Times are milliseconds since boot.
#[derive(Debug)]
pub(super) struct Ladder {
    rungs: VecDeque<Rung>,
    due_ms: u64,
    last_signal: Option<i32>,
    killing: Option<Killing>,
}

#[derive(Debug)]
struct Killing {
    since_ms: u64,
    pause_ms: u64,
}

/// The next action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    /// Send this signal to all processes once.
    Signal(i32),
    /// Send SIGKILL to all processes.
    Kill,
    /// Give up: the rest cannot be stopped.
    GiveUp,
}

impl Ladder {
    /// Starts with the first signal at once.
    pub(super) fn new(rungs: Vec<Rung>, now: Span) -> Self {
        Self {
            rungs: rungs.into(),
            due_ms: now.as_ms(),
            last_signal: None,
            killing: None,
        }
    }

    /// The same, with SIGKILL at this time at the latest.
    pub(super) fn until(rungs: Vec<Rung>, now: Span, kill_at_ms: u64) -> Self {
        let mut left_ms = kill_at_ms.saturating_sub(now.as_ms());
        let cut = |rung: Rung| {
            let wait_ms = rung.wait.as_ms().min(left_ms);
            left_ms -= wait_ms;
            (wait_ms > 0).then_some(Rung {
                wait: Span::from_ms(wait_ms),
                ..rung
            })
        };
        Self::new(rungs.into_iter().map_while(cut).collect(), now)
    }

    /// For processes that outlived the main process: SIGTERM and the grace period, or what is left
    /// of a running stop. Processes that just got SIGTERM do not get it again, because some treat a
    /// second one as a request to abort.
    pub(super) fn of_leftovers(stop: Option<Self>, grace: Span, now: Span) -> Self {
        let Some(stop) = stop else {
            return Self::new(
                vec![Rung {
                    signal: SIGTERM,
                    wait: grace,
                }],
                now,
            );
        };
        if stop.killing.is_some() {
            return stop;
        }
        let wait = grace.min(stop.left(now));
        if stop.last_signal == Some(SIGTERM) {
            let due_ms = now.as_ms().saturating_add(wait.as_ms());
            return Self {
                rungs: VecDeque::new(),
                due_ms,
                ..stop
            };
        }
        Self::new(
            vec![Rung {
                signal: SIGTERM,
                wait,
            }],
            now,
        )
    }

    /// The one that kills earlier.
    pub(super) fn hurried(self, other: Self, now: Span) -> Self {
        if other.left(now) < self.left(now) {
            other
        } else {
            self
        }
    }

    /// Time of the next action.
    pub(super) fn due(&self) -> Span {
        Span::from_ms(self.due_ms)
    }

    /// The next action, if due.
    pub(super) fn next(&mut self, now: Span) -> Option<Act> {
        let now_ms = now.as_ms();
        if now_ms < self.due_ms {
            return None;
        }
        if let Some(rung) = self.rungs.pop_front() {
            self.due_ms = now_ms.saturating_add(rung.wait.as_ms());
            self.last_signal = Some(rung.signal);
            return Some(Act::Signal(rung.signal));
        }
        let killing = self.killing.get_or_insert(Killing {
            since_ms: now_ms,
            pause_ms: PAUSE_MIN_MS,
        });
        if now_ms - killing.since_ms >= KILLING_MAX.as_ms() {
            return Some(Act::GiveUp);
        }
        self.due_ms = now_ms + killing.pause_ms;
        killing.pause_ms = (killing.pause_ms * 2).min(PAUSE_MAX_MS);
        Some(Act::Kill)
    }

    /// Time until SIGKILL.
    fn left(&self, now: Span) -> Span {
        if self.killing.is_some() {
            return Span::ZERO;
        }
        let this_rung = self.due_ms.saturating_sub(now.as_ms());
        let waits = self.rungs.iter().map(|rung| rung.wait.as_ms());
        Span::from_ms(waits.fold(this_rung, u64::saturating_add))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIGINT: i32 = 2;

    fn at(ms: u64) -> Span {
        Span::from_ms(ms)
    }

    fn rung(signal: i32, wait_ms: u64) -> Rung {
        Rung {
            signal,
            wait: at(wait_ms),
        }
    }

    #[test]
    fn each_rung_has_its_wait_and_sigkill_comes_last() {
        let mut ladder = Ladder::new(vec![rung(SIGINT, 100), rung(SIGTERM, 50)], at(1_000));
        let acts: Vec<_> = [1_000, 1_099, 1_100, 1_149, 1_150]
            .into_iter()
            .map(|now| ladder.next(at(now)))
            .collect();
        let told = |signal| Some(Act::Signal(signal));
        assert_eq!(
            acts,
            [told(SIGINT), None, told(SIGTERM), None, Some(Act::Kill)]
        );
    }

    #[test]
    fn a_deadline_cuts_the_ladder_short() {
        let rungs = || vec![rung(SIGINT, 100), rung(SIGTERM, 500)];
        let acts = |ladder: &mut Ladder, moments: [u64; 3]| moments.map(|now| ladder.next(at(now)));
        let told = |signal| Some(Act::Signal(signal));
        let mut cut = Ladder::until(rungs(), at(1_000), 1_300);
        assert_eq!(
            acts(&mut cut, [1_000, 1_100, 1_299]),
            [told(SIGINT), told(SIGTERM), None]
        );
        assert_eq!(cut.next(at(1_300)), Some(Act::Kill));
        let mut too_late = Ladder::until(rungs(), at(2_000), 1_300);
        assert_eq!(too_late.next(at(2_000)), Some(Act::Kill));
    }

    #[test]
    fn killing_is_bounded() {
        let mut ladder = Ladder::new(Vec::new(), at(0));
        let mut rounds = 0;
        while ladder.next(ladder.due()) == Some(Act::Kill) {
            rounds += 1;
        }
        assert!(ladder.due() >= KILLING_MAX);
        assert!((50..200).contains(&rounds), "{rounds} rounds");
    }

    #[test]
    fn a_shorter_ladder_hurries_and_a_longer_one_does_not() {
        let slow = || {
            let mut slow = Ladder::new(vec![rung(SIGTERM, 10_000)], at(0));
            slow.next(at(0));
            slow
        };
        let now = at(1_000);
        let hurried = slow().hurried(Ladder::new(vec![rung(SIGTERM, 100)], now), now);
        assert_eq!(hurried.left(now), at(100));
        let as_before = slow().hurried(Ladder::new(vec![rung(SIGTERM, 60_000)], now), now);
        assert_eq!(as_before.left(now), at(9_000));
    }

    #[test]
    fn leftovers_that_were_told_to_end_are_not_told_twice() {
        let mut stop = Ladder::new(vec![rung(SIGTERM, 10_000)], at(0));
        stop.next(at(0));
        let mut leftovers = Ladder::of_leftovers(Some(stop), at(2_000), at(500));
        assert_eq!(leftovers.next(at(2_499)), None);
        assert_eq!(leftovers.next(at(2_500)), Some(Act::Kill));
    }

    #[test]
    fn leftovers_have_no_more_time_than_the_stop_had() {
        let mut stop = Ladder::new(vec![rung(SIGINT, 300)], at(0));
        stop.next(at(0));
        let mut leftovers = Ladder::of_leftovers(Some(stop), at(2_000), at(100));
        assert_eq!(leftovers.next(at(100)), Some(Act::Signal(SIGTERM)));
        assert_eq!(leftovers.next(at(300)), Some(Act::Kill));
    }
}
