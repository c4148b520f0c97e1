//! Moments and durations as the product writes them: RFC 3339 UTC, and `90s`, `10m`, `7d`.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A moment of the wall clock, to the millisecond. For people and for deadlines that people set;
/// leases are measured by the store's own clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Time(i64);

/// Why a text is not a moment or a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TimeError {
    /// Not RFC 3339.
    #[error("{0:?} is not a time; write RFC 3339, such as 2026-05-01T12:00:00Z")]
    NotATime(String),
    /// Not a number with a unit.
    #[error("{0:?} is not a duration; write a number and a unit, such as 90s, 10m, 2h or 7d")]
    NotADuration(String),
    /// Longer than milliseconds of 64 bits.
    #[error("{0:?} is too long; the longest duration is {max}d", max = u64::MAX / 86_400_000)]
    TooLong(String),
    /// Neither of the two.
    #[error("{0:?} is neither a time nor a duration; write 2026-05-01T12:00:00Z, or 30m")]
    NotAMoment(String),
    /// Over already.
    #[error("{0} is in the past")]
    Past(Time),
}

/// A time, or a duration from now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// A time.
    At(Time),
    /// A duration from now.
    In(Span),
}

impl Moment {
    /// The time that is meant; one in the past is refused.
    pub fn after(self, now: Time) -> Result<Time, TimeError> {
        match self {
            Self::At(time) if time < now => Err(TimeError::Past(time)),
            Self::At(time) => Ok(time),
            Self::In(span) => Ok(now.plus(span)),
        }
    }
}

impl FromStr for Moment {
    type Err = TimeError;
    fn from_str(text: &str) -> Result<Self, TimeError> {
        match text.parse() {
            Ok(span) => Ok(Self::In(span)),
            Err(error @ TimeError::TooLong(_)) => Err(error),
            Err(_) => match text.parse() {
                Ok(time) => Ok(Self::At(time)),
                Err(_) => Err(TimeError::NotAMoment(text.to_owned())),
            },
        }
    }
}

impl Time {
    /// From milliseconds since 1970 UTC; far-off values are brought to the nearest that can be written.
    pub fn from_ms(ms: i64) -> Self {
        // Whole seconds: not every millisecond of the first and the last one is a moment.
        let (min, max) = (
            Timestamp::MIN.as_second() * 1_000,
            Timestamp::MAX.as_second() * 1_000,
        );
        Self(ms.clamp(min, max))
    }

    /// Milliseconds since 1970 UTC.
    pub fn as_ms(self) -> i64 {
        self.0
    }

    /// For other libraries.
    pub fn as_timestamp(self) -> Timestamp {
        Timestamp::from_millisecond(self.0).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    /// This moment and a span later.
    pub fn plus(self, span: Span) -> Self {
        Self::from_ms(self.0.saturating_add_unsigned(span.0))
    }

    /// So long before.
    pub fn minus(self, span: Span) -> Self {
        Self::from_ms(self.0.saturating_sub_unsigned(span.0))
    }

    /// How long after `earlier` this is; nothing when the clock went backwards.
    pub fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0).max(0).unsigned_abs())
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole_second = self.0 % 1_000 == 0;
        write!(
            f,
            "{:.*}",
            if whole_second { 0 } else { 3 },
            self.as_timestamp()
        )
    }
}

impl From<Timestamp> for Time {
    fn from(moment: Timestamp) -> Self {
        Self::from_ms(moment.as_millisecond())
    }
}

impl FromStr for Time {
    type Err = TimeError;
    fn from_str(text: &str) -> Result<Self, TimeError> {
        let moment: Timestamp = text
            .parse()
            .map_err(|_| TimeError::NotATime(text.to_owned()))?;
        Ok(moment.into())
    }
}

impl TryFrom<String> for Time {
    type Error = TimeError;
    fn try_from(text: String) -> Result<Self, TimeError> {
        text.parse()
    }
}

impl From<Time> for String {
    fn from(time: Time) -> String {
        time.to_string()
    }
}

/// A length of time, to the millisecond.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Span(u64);

const UNITS: [(&str, u64); 5] = [
    ("ms", 1),
    ("s", 1_000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
];

impl Span {
    /// As a limit: `0s` is none.
    pub fn as_limit(self) -> Option<Self> {
        (self > Self::ZERO).then_some(self)
    }

    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// From milliseconds.
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms)
    }

    /// From seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000))
    }

    /// In milliseconds.
    pub const fn as_ms(self) -> u64 {
        self.0
    }

    /// For the standard library's calls.
    pub const fn as_duration(self) -> std::time::Duration {
        std::time::Duration::from_millis(self.0)
    }
}

impl Span {
    /// The largest unit only, for tables: `3h`, `12s`, `0s`.
    pub fn rough(self) -> String {
        let whole = Self(self.0 / 1_000 * 1_000).to_string();
        match whole.split_once(' ') {
            Some((largest, _)) => largest.to_owned(),
            None => whole,
        }
    }
}

impl fmt::Display for Span {
    /// The two largest units, as a person would say it: `3h 5m`, `12s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        let mut written = 0;
        for (unit, ms) in UNITS.iter().rev() {
            let count = rest / ms;
            rest %= ms;
            let sub_second_noise = *unit == "ms" && self.0 >= 1_000;
            if count == 0 || sub_second_noise {
                continue;
            }
            write!(f, "{}{count}{unit}", if written > 0 { " " } else { "" })?;
            written += 1;
            if written == 2 {
                break;
            }
        }
        if written == 0 {
            f.write_str("0s")
        } else {
            Ok(())
        }
    }
}

impl FromStr for Span {
    type Err = TimeError;
    fn from_str(text: &str) -> Result<Self, TimeError> {
        let bad = || TimeError::NotADuration(text.to_owned());
        let digits_end = text
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(text.len());
        let (count, unit) = text.split_at(digits_end);
        let (_, ms) = UNITS
            .iter()
            .find(|(name, _)| *name == unit)
            .ok_or_else(bad)?;
        if count.is_empty() {
            return Err(bad());
        }
        let length = count
            .parse()
            .ok()
            .and_then(|count: u64| count.checked_mul(*ms));
        length
            .map(Self)
            .ok_or_else(|| TimeError::TooLong(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_they_are_written() {
        for (text, ms) in [
            ("90s", 90_000),
            ("10m", 600_000),
            ("7d", 604_800_000),
            ("0s", 0),
            ("250ms", 250),
        ] {
            assert_eq!(text.parse::<Span>().unwrap().as_ms(), ms);
        }
        for bad in [
            "",
            "10",
            "s",
            "-1s",
            "1.5h",
            "1 m",
            "10w",
            "99999999999999999999s",
        ] {
            assert!(bad.parse::<Span>().is_err(), "{bad:?} was taken");
        }
        assert_eq!(Span::from_ms(11_112_345).to_string(), "3h 5m");
        assert_eq!(Span::ZERO.to_string(), "0s");
    }

    #[test]
    fn times_are_utc_and_survive_the_round_trip() {
        let time: Time = "2026-05-01T14:00:00.250+02:00".parse().unwrap();
        assert_eq!(time.to_string(), "2026-05-01T12:00:00.250Z");
        assert_eq!(time.to_string().parse::<Time>().unwrap(), time);
        assert!("yesterday".parse::<Time>().is_err());
        for end in [Time::from_ms(i64::MIN), Time::from_ms(i64::MAX)] {
            assert_eq!(end.to_string().parse::<Time>().unwrap(), end);
        }
    }

    #[test]
    fn a_clock_set_back_gives_no_negative_age() {
        assert_eq!(Time::from_ms(5).since(Time::from_ms(9)), Span::ZERO);
    }
}
