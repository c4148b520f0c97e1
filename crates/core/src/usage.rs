//! What agents use: cost, model turns and tokens.
//!
//! Programs report totals that only grow: of one run, or of a conversation. Such a total is a *reading* of a
//! counter. Only the difference from the last reading is added, so it does not matter how often a total is
//! read, or that a resumed program repeats it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::time::Time;

/// Most counters whose last reading is kept; of more, the one that was read first is forgotten.
const READINGS_MAX: usize = 16;

/// Most that is counted of anything: what the columns of every store can hold.
const AMOUNT_MAX: u64 = i64::MAX.cast_unsigned();

/// What a piece of work has used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Cost in millionths.
    pub cost_micros: u64,
    /// Model turns.
    pub turns: u64,
    /// Tokens sent to the model, cached ones included.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub input_tokens: u64,
    /// Tokens that the model wrote.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub output_tokens: u64,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Usage {
    /// Both together.
    #[must_use]
    pub fn plus(self, more: Self) -> Self {
        self.with(more, u64::saturating_add)
    }

    /// What was used since; nothing of what has shrunk.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        self.with(before, u64::saturating_sub)
    }

    /// The larger of each.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        self.with(other, u64::max)
    }

    /// Tokens of both directions.
    pub fn tokens(self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// Whether nothing was used.
    pub fn is_nothing(self) -> bool {
        self == Self::default()
    }

    fn with(self, other: Self, join: impl Fn(u64, u64) -> u64) -> Self {
        let join = |mine, others| join(mine, others).min(AMOUNT_MAX);
        Self {
            cost_micros: join(self.cost_micros, other.cost_micros),
            turns: join(self.turns, other.turns),
            input_tokens: join(self.input_tokens, other.input_tokens),
            output_tokens: join(self.output_tokens, other.output_tokens),
        }
    }
}

/// The total of one counter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// Which counter: an attempt, or a conversation.
    pub source: String,
    /// Its total.
    #[serde(flatten)]
    pub total: Usage,
}

/// A sum, with the last reading of each counter that it comes from.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct UsageMeter {
    /// The sum.
    pub used: Usage,
    /// Last readings, newest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub readings: Vec<Reading>,
}

impl UsageMeter {
    /// What a reading adds. A counter that was never read stood at `base`.
    pub fn news(&self, reading: &Reading, base: Usage) -> Usage {
        let before = self
            .last(&reading.source)
            .map_or(base, |last| last.total.max(base));
        reading.total.since(before)
    }

    /// Takes a reading that adds `news`.
    pub fn read(&mut self, reading: &Reading, news: Usage) {
        let before = self.last(&reading.source).map(|last| last.total);
        let total = reading.total.max(before.unwrap_or_default());
        self.used = self.used.plus(news);
        self.readings.retain(|last| last.source != reading.source);
        if self.readings.len() >= READINGS_MAX {
            self.readings.remove(0);
        }
        self.readings.push(Reading {
            source: reading.source.clone(),
            total,
        });
    }

    /// The last reading of a counter.
    pub fn last(&self, source: &str) -> Option<&Reading> {
        self.readings.iter().find(|last| last.source == source)
    }

    /// Whether it was never used.
    pub fn is_unused(&self) -> bool {
        *self == Self::default()
    }
}

/// What an agent has used in all its attempts, and how much of it before its last progress.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AgentUsage {
    /// All of it.
    #[serde(flatten)]
    pub meter: UsageMeter,
    /// What was used when it last made progress, or when a person started it.
    #[serde(default)]
    pub at_progress: Usage,
    /// When that was.
    #[serde(default)]
    pub progress_at: Option<Time>,
    /// When a person last started it while the budget of the store was spent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_at: Option<Time>,
}

impl AgentUsage {
    /// What was used since the last progress.
    pub fn since_progress(&self) -> Usage {
        self.meter.used.since(self.at_progress)
    }

    /// The same with progress made now.
    #[must_use]
    pub fn with_progress(&self, at: Time) -> Self {
        Self {
            at_progress: self.meter.used,
            progress_at: Some(at),
            ..self.clone()
        }
    }

    /// Whether nothing was ever used.
    pub fn is_unused(&self) -> bool {
        *self == Self::default()
    }
}

/// What an agent may use without progress: without a finished step, task or round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SpendLimit {
    /// Cost in millionths; unlimited when none or 0.
    #[serde(rename = "spend_micros_max", default)]
    pub cost_micros: Option<u64>,
    /// Tokens; unlimited when none or 0.
    #[serde(rename = "tokens_max", default)]
    pub tokens: Option<u64>,
}

impl SpendLimit {
    /// The limit that is reached, as text.
    pub fn reached(self, used: Usage) -> Option<String> {
        let (used, limit) = self.exceeded(used)?;
        Some(format!("it has {used} without progress ({limit})"))
    }

    /// What was used and the limit that it reaches, as text.
    pub(crate) fn exceeded(self, used: Usage) -> Option<(String, String)> {
        let is_over = |max: Option<u64>, used| max.filter(|max| *max > 0 && used >= *max);
        if let Some(max) = is_over(self.cost_micros, used.cost_micros) {
            let (used, max) = (Cost(used.cost_micros), Cost(max));
            return Some((format!("spent {used}"), format!("spend_max is {max}")));
        }
        is_over(self.tokens, used.tokens()).map(|max| {
            let used = used.tokens();
            (
                format!("used {used} tokens"),
                format!("tokens_max is {max}"),
            )
        })
    }
}

/// A price in millionths, written as a decimal number: `0.25`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Cost(pub u64);

/// Not a price.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadCost {
    /// Not a number with at most six places.
    #[error("{0:?} is not a cost; write a number with at most six places, such as 0.25")]
    NotACost(String),
    /// More than a store can hold.
    #[error("{0:?} is too large; the largest cost is {max}", max = Cost(i64::MAX.unsigned_abs()))]
    TooLarge(String),
}

impl FromStr for Cost {
    type Err = BadCost;
    fn from_str(text: &str) -> Result<Self, BadCost> {
        let shown = || text.chars().take(60).collect();
        let (whole, places) = text.split_once('.').unwrap_or((text, "0"));
        let is_number =
            |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number(whole) || !is_number(places) || places.len() > 6 {
            return Err(BadCost::NotACost(shown()));
        }
        // A store's number is at most an `i64`.
        let micros = format!("{whole}{places:0<6}").parse::<i64>();
        let micros = micros.map_err(|_| BadCost::TooLarge(shown()))?;
        Ok(Self(micros.unsigned_abs()))
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000);
        f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(cost_micros: u64, input_tokens: u64) -> Usage {
        Usage {
            cost_micros,
            input_tokens,
            ..Usage::default()
        }
    }

    fn reading(source: &str, total: Usage) -> Reading {
        Reading {
            source: source.to_owned(),
            total,
        }
    }

    fn read(meter: &mut UsageMeter, source: &str, total: Usage) {
        let reading = reading(source, total);
        let news = meter.news(&reading, Usage::default());
        meter.read(&reading, news);
    }

    #[test]
    fn only_what_is_new_of_a_counter_is_added() {
        let mut meter = UsageMeter::default();
        for (source, total) in [("a", 100), ("b", 50), ("a", 100), ("a", 120), ("a", 90)] {
            read(&mut meter, source, usage(0, total));
        }
        assert_eq!(meter.used, usage(0, 170));
        read(&mut meter, "a", usage(0, 125));
        assert_eq!(meter.used, usage(0, 175), "90 was no new beginning");
    }

    #[test]
    fn a_counter_that_was_never_read_begins_at_its_base() {
        let meter = UsageMeter::default();
        let news = meter.news(&reading("a", usage(7, 100)), usage(5, 40));
        assert_eq!(news, usage(2, 60));
    }

    #[test]
    fn readings_are_bounded_and_the_sum_is_kept() {
        let mut meter = UsageMeter::default();
        for number in 0..100 {
            read(&mut meter, &format!("attempt {number}"), usage(1, 0));
        }
        assert_eq!(meter.readings.len(), READINGS_MAX);
        assert_eq!(meter.used, usage(100, 0));
    }

    #[test]
    fn a_limit_counts_from_the_last_progress() {
        let limit = SpendLimit {
            cost_micros: Some(5_000_000),
            tokens: Some(1_000),
        };
        let mut used = AgentUsage::default();
        read(&mut used.meter, "a", usage(4_900_000, 999));
        assert_eq!(limit.reached(used.since_progress()), None);
        let moved = used.with_progress(Time::from_ms(1));
        read(&mut used.meter, "a", usage(5_000_000, 999));
        assert_eq!(
            limit.reached(used.since_progress()).as_deref(),
            Some("it has spent 5 without progress (spend_max is 5)")
        );
        let mut used = moved;
        read(&mut used.meter, "a", usage(5_000_000, 1_998));
        assert_eq!(limit.reached(used.since_progress()), None);
        read(&mut used.meter, "a", usage(5_000_000, 1_999));
        assert_eq!(
            limit.reached(used.since_progress()).as_deref(),
            Some("it has used 1000 tokens without progress (tokens_max is 1000)")
        );
        assert_eq!(
            SpendLimit::default().reached(usage(u64::MAX, u64::MAX)),
            None
        );
    }
}
