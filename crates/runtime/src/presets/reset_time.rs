//! Reads when an agent may go on, as providers write it: epoch seconds, RFC 3339, a
//! duration, or a time of day.

use std::iter::Peekable;

use jiff::civil;
use jiff::tz::TimeZone;
use relight_core::time::{Span, Time};
use serde_json::Value;

/// No limit lasts longer; a time beyond it is not one.
const AHEAD_MAX: Span = Span::from_secs(31 * 24 * 3_600);
/// Smaller numbers are seconds from now, larger ones since 1970.
const EPOCH_SECONDS_MIN: f64 = 1e9;
const EPOCH_MILLISECONDS_MIN: f64 = 1e11;
/// A time of day has no seconds: it is over when its minute is.
const MINUTE: Span = Span::from_secs(60);
const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];

/// The time that a member of an event says.
pub(super) fn in_value(value: &Value, now: Time) -> Option<Time> {
    match value {
        Value::Number(number) => in_number(number.as_f64()?, now),
        Value::String(text) => in_text(text, now),
        _ => None,
    }
}

/// The time at the beginning of a text; a time of day is of this machine's zone, as the program's is.
pub(super) fn in_text(text: &str, now: Time) -> Option<Time> {
    in_text_of(text, now, TimeZone::system)
}

fn in_text_of(text: &str, now: Time, zone: impl Fn() -> TimeZone) -> Option<Time> {
    let text = text.trim_start();
    let word = text
        .split(|c: char| c.is_whitespace() || "|,;\"'".contains(c))
        .next()?;
    let word = word.trim_end_matches(['.', ')']);
    if let Ok(time) = word.parse::<Time>() {
        return to_come(time, now);
    }
    match word.parse::<f64>() {
        // `5 minutes` is no 5 by itself.
        Ok(number) if number >= EPOCH_SECONDS_MIN || text.len() == word.len() => {
            in_number(number, now)
        }
        _ => match duration(text) {
            Some(span) => to_come(now.plus(span), now),
            None => time_of_day(text, now, &zone()),
        },
    }
}

/// `5:22 AM`, `5pm` or `17:22` of today or tomorrow, and `Nov 20th, 2026 5:22 AM`, also without the year.
/// `(UTC)` behind it counts; another zone is this machine's, as programs write the time of their user.
fn time_of_day(text: &str, now: Time, zone: &TimeZone) -> Option<Time> {
    let text = text.to_ascii_lowercase();
    let zone = if text.contains("(utc)") {
        &TimeZone::UTC
    } else {
        zone
    };
    let mut words = text
        .split([' ', ','])
        .map(|word| word.trim_end_matches(['.', ')']))
        .filter(|word| !word.is_empty() && *word != "at")
        .peekable();
    let today = zone.to_datetime(now.as_timestamp()).date();
    let month = MONTHS.iter().position(|month| words.peek() == Some(month));
    let days = match month {
        Some(month) => vec![date(month, today, &mut words)?],
        None => vec![today, today.tomorrow().ok()?],
    };
    let clock = words.next()?;
    let attached = ["am", "pm"].into_iter().find(|half| clock.ends_with(half));
    let half = attached.or_else(|| words.next()).unwrap_or_default();
    let clock = clock.strip_suffix(half).unwrap_or(clock);
    let is_half = ["am", "pm"].contains(&half);
    let (hour, minute) = match clock.split_once(':') {
        Some(parts) => parts,
        None if is_half => (clock, "0"),
        None => return None,
    };
    let hour: i8 = hour.parse().ok()?;
    let hour = match (half, hour) {
        ("am", 1..=12) => hour % 12,
        ("pm", 1..=12) => hour % 12 + 12,
        _ => hour,
    };
    let time = civil::Time::new(hour, minute.parse().ok()?, 0, 0).ok()?;
    let moments = days.into_iter().filter_map(|day| {
        let moment = zone
            .to_ambiguous_timestamp(day.to_datetime(time))
            .compatible()
            .ok()?;
        let at = Time::from_ms(moment.as_millisecond());
        Some(if at > now { at } else { at.plus(MINUTE) })
    });
    moments.filter_map(|at| to_come(at, now)).next()
}

/// `Nov 20th, 2026`; without a year the next one.
fn date<'w>(
    month: usize,
    today: civil::Date,
    words: &mut Peekable<impl Iterator<Item = &'w str>>,
) -> Option<civil::Date> {
    let day = words
        .nth(1)?
        .trim_end_matches(char::is_alphabetic)
        .parse()
        .ok()?;
    let month = i8::try_from(month + 1).ok()?;
    let is_year = |word: &&str| word.len() == 4 && word.parse::<i16>().is_ok();
    if let Some(year) = words.next_if(is_year) {
        return civil::Date::new(year.parse().ok()?, month, day).ok();
    }
    let this_year = civil::Date::new(today.year(), month, day).ok()?;
    if this_year >= today {
        return Some(this_year);
    }
    civil::Date::new(today.year() + 1, month, day).ok()
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
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let count: f64 = text[..digits].parse().ok()?;
    let text = text[digits..].trim_start_matches(' ');
    let letters = text
        .find(|c: char| !c.is_ascii_alphabetic())
        .unwrap_or(text.len());
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
        let zone = || TimeZone::fixed(jiff::tz::offset(2));
        in_text_of(text, now, zone).map_or_else(|| "none".to_owned(), |time| time.to_string())
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
            // In the zone of the test it is 14:00.
            ("5:22 PM.", "2026-05-01T15:22:00Z"),
            ("5:22 AM.", "2026-05-02T03:22:00Z"),
            ("12:05 am or later", "2026-05-01T22:05:00Z"),
            ("17:22", "2026-05-01T15:22:00Z"),
            ("2:00 PM", "2026-05-01T12:01:00Z"),
            ("May 3rd, 2026 5:22 AM.", "2026-05-03T03:22:00Z"),
            ("3:30pm (Europe/London)", "2026-05-01T13:30:00Z"),
            ("3am (UTC)", "2026-05-02T03:00:00Z"),
            ("3 pm", "2026-05-01T13:00:00Z"),
            ("May 21 at 9am (UTC)", "2026-05-21T09:00:00Z"),
            ("May 21, 9am", "2026-05-21T07:00:00Z"),
        ] {
            assert_eq!(read(text), time, "{text}");
        }
    }

    #[test]
    fn what_is_no_time_to_come_is_none() {
        for text in [
            "",
            "soon",
            "25:00",
            "5:61 AM",
            "Nov 45th, 2026 5:22 AM",
            "May 3rd, 2025 5:22 AM",
            "Nov",
            "Apr 21, 9am",
            "exam",
            "maybe at 5:22 AM",
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
