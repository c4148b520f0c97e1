//! Reads when an agent may go on, as providers write it: epoch seconds, RFC 3339, or a duration.

use relight_core::time::{Span, Time};
use serde_json::Value;

/// No limit lasts longer; a time beyond it is not one.
const AHEAD_MAX: Span = Span::from_secs(31 * 24 * 3_600);
/// Smaller numbers are seconds from now, larger ones since 1970.
const EPOCH_SECONDS_MIN: f64 = 1e9;
const EPOCH_MILLISECONDS_MIN: f64 = 1e11;

/// The time that a member of an event says.
pub(super) fn in_value(value: &Value, now: Time) -> Option<Time> {
    match value {
        Value::Number(number) => in_number(number.as_f64()?, now),
        Value::String(text) => in_text(text, now),
        _ => None,
    }
}

/// The time at the beginning of a text.
pub(super) fn in_text(text: &str, now: Time) -> Option<Time> {
    let text = text.trim_start();
    let word = text.split(|c: char| c.is_whitespace() || "|,;\"'".contains(c)).next()?;
    let word = word.trim_end_matches(['.', ')']);
    if let Ok(time) = word.parse::<Time>() {
        return to_come(time, now);
    }
    match word.parse::<f64>() {
        // `5 minutes` is no 5 by itself.
        Ok(number) if number >= EPOCH_SECONDS_MIN || text.len() == word.len() => {
            in_number(number, now)
        }
        _ => to_come(now.plus(duration(text)?), now),
    }
}

fn in_number(number: f64, now: Time) -> Option<Time> {
    if !number.is_finite() || number < 0.0 {
        return None;
    }
    // A float that is too large becomes the largest integer.
    let time = match number {
        n if n >= EPOCH_MILLISECONDS_MIN => Time::from_ms(n as i64),
        n if n >= EPOCH_SECONDS_MIN => Time::from_ms((n * 1_000.0) as i64),
        n => now.plus(Span::from_ms((n * 1_000.0) as u64)),
    };
    to_come(time, now)
}

pub(super) fn to_come(time: Time, now: Time) -> Option<Time> {
    (time > now && time.since(now) <= AHEAD_MAX).then_some(time)
}

/// `18h31m10s`, `13.5s`, `2 days 17 hours 14 minutes`; what follows is not looked at.
fn duration(text: &str) -> Option<Span> {
    let mut ms = 0.0;
    let mut rest = text;
    let mut parts = 0;
    while let Some((count, unit, after)) = part(rest) {
        ms += count * unit;
        rest = after.trim_start_matches([' ', ',']);
        rest = rest.strip_prefix("and ").unwrap_or(rest);
        parts += 1;
    }
    (parts > 0).then_some(Span::from_ms(ms as u64))
}

/// A number and its unit in milliseconds.
fn part(text: &str) -> Option<(f64, f64, &str)> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let count: f64 = text[..digits].parse().ok()?;
    let text = text[digits..].trim_start_matches(' ');
    let letters = text.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(text.len());
    let unit = match &*text[..letters].to_ascii_lowercase() {
        "ms" | "milliseconds" => 1.0,
        "s" | "sec" | "secs" | "second" | "seconds" => 1e3,
        "m" | "min" | "mins" | "minute" | "minutes" => 60e3,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3_600e3,
        "d" | "day" | "days" => 86_400e3,
        _ => return None,
    };
    Some((count, unit, &text[letters..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> String {
        let now: Time = "2026-05-01T12:00:00Z".parse().unwrap();
        in_text(text, now).map_or_else(|| "none".to_owned(), |time| time.to_string())
    }

    #[test]
    fn times_are_read_as_providers_write_them() {
        for (text, time) in [
            ("1777640400", "2026-05-01T13:00:00Z"),
            ("1777640400000", "2026-05-01T13:00:00Z"),
            ("1777640400|more", "2026-05-01T13:00:00Z"),
            ("2026-05-01T15:00:00+02:00.", "2026-05-01T13:00:00Z"),
            ("3600", "2026-05-01T13:00:00Z"),
            ("1h", "2026-05-01T13:00:00Z"),
            ("1h30m10s.", "2026-05-01T13:30:10Z"),
            ("13.5s.", "2026-05-01T12:00:13.500Z"),
            ("2 days 17 hours 14 minutes.", "2026-05-04T05:14:00Z"),
            ("1 hour and 5 minutes", "2026-05-01T13:05:00Z"),
        ] {
            assert_eq!(read(text), time, "{text}");
        }
    }

    #[test]
    fn what_is_no_time_to_come_is_none() {
        for text in [
            "",
            "soon",
            "2:57 PM",
            "-5",
            "1e400",
            "NaN",
            "inf",
            "0s",
            "1577836800",
            "2020-01-01T00:00:00Z",
            "99999 days",
            "99999999999999999999999",
            "....",
            "5 parsecs",
        ] {
            assert_eq!(read(text), "none", "{text}");
        }
    }
}
