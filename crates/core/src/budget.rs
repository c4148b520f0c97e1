//! Restart budgets: how soon, and how often at all, a thing that died is brought back.
//!
//! Pure: takes the time and the chance as arguments and gives back the tally to keep on disk.
//! Leaves to others: telling progress from mere life, and telling somebody when it is over.
//!
//! Two limits. The *row* counts recoveries without progress between them, and progress resets it;
//! it ends endless crashing. The *total* counts restarts in a window, and nothing but time resets
//! it; it ends endless paid loops that make a little progress each time.
//!
//! The wall clock may jump, and no jump may kill many things or make them wait for ever:
//! - The row counts deaths, not hours; no jump touches it.
//! - Set back: hours that have not come yet count as the present one. Nothing is forgiven, and
//!   everything passes out of the window in its time from now on.
//! - Set forward: hours pass out of the window as if they had been lived. The total is forgiven
//!   once; the row is not.
//! - A wait that lies further ahead than the longest cooldown was answered by another clock, and is
//!   over ([`is_due`]).

use serde::{Deserialize, Serialize};

use crate::time::{Span, Time};

/// How far a wait is moved by chance, either way, so that a thousand deaths do not come back at once.
const JITTER: f64 = 0.2;
const HOUR_MS: u64 = 3_600_000;

/// The limits of bringing one thing back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RestartPolicy {
    /// Recoveries in a row without progress; the death after them is the last.
    pub max_attempts: u32,
    /// What the second recovery in a row waits for.
    #[serde(rename = "cooldown_ms")]
    pub cooldown: Span,
    /// By how much each further wait is longer.
    pub growth: f64,
    /// No wait is longer.
    #[serde(rename = "cooldown_max_ms")]
    pub cooldown_max: Span,
    /// A life of this length counts as progress.
    #[serde(rename = "stable_after_ms")]
    pub stable_after: Span,
    /// Restarts within the window, whatever progress was made.
    pub total_max: u32,
    /// How far back they are counted.
    #[serde(rename = "total_window_ms")]
    pub total_window: Span,
}

impl Default for RestartPolicy {
    fn default() -> Self {
        Self {
            max_attempts: 3,
            cooldown: Span::from_secs(60),
            growth: 2.0,
            cooldown_max: Span::from_secs(3_600),
            stable_after: Span::from_secs(600),
            total_max: 200,
            total_window: Span::from_secs(24 * 3_600),
        }
    }
}

impl RestartPolicy {
    /// Whether a life of this length, measured on a clock that does not jump, counts as progress.
    pub fn is_stable(&self, lived: Span) -> bool {
        lived >= self.stable_after
    }

    /// How long the recovery after `in_a_row` others waits, moved by chance.
    fn wait(&self, in_a_row: u32, jitter: f64) -> Span {
        wait(self.cooldown, self.growth, self.cooldown_max, in_a_row, jitter)
    }
}

/// How long the recovery after `in_a_row` others waits, moved by chance: the first not at all.
pub(crate) fn wait(
    cooldown: Span,
    growth: f64,
    cooldown_max: Span,
    in_a_row: u32,
    jitter: f64,
) -> Span {
    let Some(times_grown) = in_a_row.checked_sub(1) else { return Span::ZERO };
    let grown = cooldown.as_ms() as f64 * growth.max(1.0).powf(f64::from(times_grown));
    let moved = grown * (1.0 - JITTER + 2.0 * JITTER * jitter);
    // A float that is too large becomes the largest integer.
    Span::from_ms((moved as u64).min(cooldown_max.as_ms()))
}

/// What was used up so far; kept on disk. Never more entries than the window has hours, nor than
/// restarts are allowed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tally {
    /// Recoveries since the last progress.
    pub in_a_row: u32,
    /// Restarts by the hour since 1970 in which they were, oldest first.
    pub hours: Vec<HourCount>,
}

/// The restarts of one hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HourCount {
    /// Hours since 1970.
    pub hour: i64,
    /// How many.
    pub restarts: u32,
}

impl Tally {
    /// All restarts that still count.
    pub fn total(&self) -> u32 {
        self.hours.iter().fold(0, |sum, hour| sum.saturating_add(hour.restarts))
    }

    /// As it looks from this hour: later ones are moved here, those wholly before the window are
    /// left out. An hour that is partly in it counts.
    fn seen_from(self, hour: i64, window: Span) -> Self {
        let window_hours = window.as_ms().div_ceil(HOUR_MS).cast_signed();
        let oldest = hour.saturating_sub(window_hours);
        let mut seen = Self { in_a_row: self.in_a_row, hours: Vec::new() };
        for count in self.hours {
            if count.hour >= oldest {
                seen.count(count.hour.min(hour), count.restarts);
            }
        }
        seen
    }

    /// Adds to the newest hour.
    fn count(&mut self, hour: i64, restarts: u32) {
        match self.hours.last_mut() {
            Some(newest) if newest.hour >= hour => {
                newest.restarts = newest.restarts.saturating_add(restarts);
            }
            _ => self.hours.push(HourCount { hour, restarts }),
        }
    }
}

/// What becomes of a thing that died.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartVerdict {
    /// It is brought back now.
    AtOnce,
    /// It is brought back then.
    At(Time),
    /// It is not brought back; a person decides.
    Terminate {
        /// Which limit was reached.
        why: UsedUp,
    },
}

/// The limit that ended it, as a person reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UsedUp {
    /// Too often without progress.
    #[error("{}", in_a_row(*.recoveries))]
    Row {
        /// How often.
        recoveries: u32,
    },
    /// Too often at all.
    #[error("{}", in_all(*.restarts, *.window))]
    Total {
        /// How often.
        restarts: u32,
        /// Within what.
        window: Span,
    },
}

fn in_a_row(recoveries: u32) -> String {
    match recoveries {
        0 => "no recovery is allowed".to_owned(),
        1 => "recovered once without progress".to_owned(),
        _ => format!("recovered {recoveries} times in a row without progress"),
    }
}

fn in_all(restarts: u32, window: Span) -> String {
    match restarts {
        0 => "no restart is allowed".to_owned(),
        1 => format!("restarted once within {window}"),
        _ => format!("restarted {restarts} times within {window}"),
    }
}

/// Decides upon a death. The tally to keep is charged with the recovery that the verdict grants;
/// a termination charges nothing. `jitter` is a chance from 0 to 1.
pub fn next(
    policy: &RestartPolicy,
    tally: Tally,
    now: Time,
    jitter: f64,
) -> (Tally, RestartVerdict) {
    assert!((0.0..=1.0).contains(&jitter), "a chance is from 0 to 1");
    let hour = now.as_ms().div_euclid(HOUR_MS.cast_signed());
    let mut tally = tally.seen_from(hour, policy.total_window);
    if let Some(why) = used_up(policy, &tally) {
        return (tally, RestartVerdict::Terminate { why });
    }
    let wait = policy.wait(tally.in_a_row, jitter);
    tally.in_a_row += 1;
    tally.count(hour, 1);
    let verdict = if wait == Span::ZERO {
        RestartVerdict::AtOnce
    } else {
        RestartVerdict::At(now.plus(wait))
    };
    (tally, verdict)
}

/// Decides upon a loss that is not its own doing: it is brought back at once, and only the total counts.
pub fn moved(policy: &RestartPolicy, tally: Tally, now: Time) -> (Tally, RestartVerdict) {
    let hour = now.as_ms().div_euclid(HOUR_MS.cast_signed());
    let mut tally = tally.seen_from(hour, policy.total_window);
    if let Some(why) = total_used_up(policy, &tally) {
        return (tally, RestartVerdict::Terminate { why });
    }
    tally.count(hour, 1);
    (tally, RestartVerdict::AtOnce)
}

/// Whether a wait that was answered as `at` is over. One that lies further ahead than any wait can
/// was answered before the clock was set back.
pub fn is_due(policy: &RestartPolicy, at: Time, now: Time) -> bool {
    at <= now || at.since(now) > policy.cooldown_max
}

/// Real progress: a finished step, or a stable period. The total stays as it is.
pub fn progress(tally: Tally) -> Tally {
    Tally { in_a_row: 0, ..tally }
}

fn used_up(policy: &RestartPolicy, tally: &Tally) -> Option<UsedUp> {
    if tally.in_a_row >= policy.max_attempts {
        return Some(UsedUp::Row { recoveries: tally.in_a_row });
    }
    total_used_up(policy, tally)
}

fn total_used_up(policy: &RestartPolicy, tally: &Tally) -> Option<UsedUp> {
    let restarts = tally.total();
    let window = policy.total_window;
    (restarts >= policy.total_max).then_some(UsedUp::Total { restarts, window })
}
