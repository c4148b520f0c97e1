//! Restart budgets: how soon and how often something that died is restarted.
//!
//! Pure: time and random numbers are arguments, and the new tally is returned. The caller decides
//! what counts as progress and sends alerts.
//!
//! Two limits. The *row* counts recoveries without progress and is reset by progress; it stops
//! crash loops. The *total* counts restarts within a time window and is reset only by time; it
//! stops expensive loops that make a little progress each time.
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

/// Random variation of a wait, so that a thousand restarts do not happen at once.
const JITTER: f64 = 0.2;
const HOUR_MS: u64 = 3_600_000;

/// Limits of restarts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RestartPolicy {
    /// Maximum recoveries in a row without progress.
    pub max_attempts: u32,
    /// Wait before the second recovery in a row.
    #[serde(rename = "cooldown_ms")]
    pub cooldown: Span,
    /// Growth factor of further waits.
    pub growth: f64,
    /// Maximum wait.
    #[serde(rename = "cooldown_max_ms")]
    pub cooldown_max: Span,
    /// Running this long counts as progress.
    #[serde(rename = "stable_after_ms")]
    pub stable_after: Span,
    /// Maximum restarts within the window, regardless of progress.
    pub total_max: u32,
    /// Length of the window.
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
    /// Whether running this long, by a monotonic clock, counts as progress.
    pub fn is_stable(&self, lived: Span) -> bool {
        lived >= self.stable_after
    }

    /// The wait before the recovery after `in_a_row` others, with jitter.
    fn wait(&self, in_a_row: u32, jitter: f64) -> Span {
        wait(
            self.cooldown,
            self.growth,
            self.cooldown_max,
            in_a_row,
            jitter,
        )
    }
}

/// The wait before the recovery after `in_a_row` others, with jitter; none before the first.
pub(crate) fn wait(
    cooldown: Span,
    growth: f64,
    cooldown_max: Span,
    in_a_row: u32,
    jitter: f64,
) -> Span {
    let Some(times_grown) = in_a_row.checked_sub(1) else {
        return Span::ZERO;
    };
    let grown = cooldown.as_ms() as f64 * growth.max(1.0).powf(f64::from(times_grown));
    let moved = grown * (1.0 - JITTER + 2.0 * JITTER * jitter);
    // The cast saturates.
    Span::from_ms((moved as u64).min(cooldown_max.as_ms()))
}

/// Usage of the budget, stored durably. Has at most one entry per hour of the window and per
/// allowed restart.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tally {
    /// Recoveries since the last progress.
    pub in_a_row: u32,
    /// Deferrals since the last progress or death.
    #[serde(default)]
    pub deferrals: u32,
    /// Restarts by hour since 1970, oldest first.
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
    /// Restarts within the window.
    pub fn total(&self) -> u32 {
        self.hours
            .iter()
            .fold(0, |sum, hour| sum.saturating_add(hour.restarts))
    }

    /// The tally as of this hour: later hours are moved here, those entirely before the window are
    /// dropped. A partial hour counts.
    fn seen_from(self, hour: i64, window: Span) -> Self {
        let window_hours = window.as_ms().div_ceil(HOUR_MS).cast_signed();
        let oldest = hour.saturating_sub(window_hours);
        let mut seen = Self {
            in_a_row: self.in_a_row,
            deferrals: 0,
            hours: Vec::new(),
        };
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

/// What happens after a death.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartVerdict {
    /// Restart now.
    AtOnce,
    /// Restart at this time.
    At(Time),
    /// Do not restart; a person decides.
    Terminate {
        /// The limit that was reached.
        why: UsedUp,
    },
}

/// The limit that was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UsedUp {
    /// Too many recoveries without progress.
    #[error("{}", in_a_row(*.recoveries))]
    Row {
        /// How often.
        recoveries: u32,
    },
    /// Too many restarts in the window.
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

/// Decides what happens after a death. The returned tally is charged with a granted restart; a
/// termination charges nothing. `jitter` is a random number from 0 to 1.
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

/// Decides after a loss that is not its own fault: it is restarted at once, and only the total is
/// charged.
pub fn moved(policy: &RestartPolicy, tally: Tally, now: Time) -> (Tally, RestartVerdict) {
    let hour = now.as_ms().div_euclid(HOUR_MS.cast_signed());
    let mut tally = tally.seen_from(hour, policy.total_window);
    if let Some(why) = total_used_up(policy, &tally) {
        return (tally, RestartVerdict::Terminate { why });
    }
    tally.count(hour, 1);
    (tally, RestartVerdict::AtOnce)
}

/// Whether a wait until `at` is over. A time further ahead than any wait was set before the clock
/// was set back.
pub fn is_due(policy: &RestartPolicy, at: Time, now: Time) -> bool {
    at <= now || at.since(now) > policy.cooldown_max
}

/// Records progress: a finished step or a stable period. The total is kept.
pub fn progress(tally: Tally) -> Tally {
    Tally {
        in_a_row: 0,
        deferrals: 0,
        ..tally
    }
}

fn used_up(policy: &RestartPolicy, tally: &Tally) -> Option<UsedUp> {
    if tally.in_a_row >= policy.max_attempts {
        return Some(UsedUp::Row {
            recoveries: tally.in_a_row,
        });
    }
    total_used_up(policy, tally)
}

fn total_used_up(policy: &RestartPolicy, tally: &Tally) -> Option<UsedUp> {
    let restarts = tally.total();
    let window = policy.total_window;
    (restarts >= policy.total_max).then_some(UsedUp::Total { restarts, window })
}
