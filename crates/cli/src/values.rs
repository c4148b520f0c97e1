//! Reads single values of the command line.

use std::path::{Path, PathBuf};

use clap::builder::{PathBufValueParser, TypedValueParser};
use relight::os::clock;
use relight_core::agent::AgentStateKind;
use relight_core::event::EventKind;
use relight_core::ids::check_skill;
use relight_core::task::STRATEGIES;
use relight_core::time::{Span, Time};

/// A time, or a duration from now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// A time.
    At(Time),
    /// A duration from now.
    In(Span),
}

impl Moment {
    /// The time that is meant.
    pub(crate) fn from(self, now: Time) -> Time {
        match self {
            Self::At(time) => time,
            Self::In(span) => now.plus(span),
        }
    }
}

/// `2026-05-01T12:00:00Z` or `30m`.
pub(crate) fn moment(text: &str) -> Result<Moment, String> {
    if let Ok(span) = text.parse() {
        return Ok(Moment::In(span));
    }
    let time = text.parse().map(Moment::At);
    time.map_err(|_| "write a time such as 2026-05-01T12:00:00Z or a duration such as 30m".into())
}

/// The same, but not in the past.
pub(crate) fn later(text: &str) -> Result<Moment, String> {
    match moment(text)? {
        Moment::At(time) if time < clock::now() => Err("that time is in the past".to_owned()),
        moment => Ok(moment),
    }
}

/// How long a lease lasts.
pub(crate) fn lease(text: &str) -> Result<Span, String> {
    let span: Span =
        text.parse().map_err(|error: relight_core::time::TimeError| error.to_string())?;
    relight_core::lease::of_length(span).map_err(|error| error.to_string())
}

/// A file or folder that may be new, in a folder that is there: a new folder for a mistyped path would
/// be found by nobody.
pub(crate) fn new_path() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| match missing_folder(&path) {
        Some(folder) => Err(format!("there is no folder {}", folder.display())),
        None => Ok(path),
    })
}

/// The folder that a path names and that is not there.
pub(crate) fn missing_folder(path: &Path) -> Option<&Path> {
    path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.is_dir())
}

/// A number from 1.
pub(crate) fn count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count @ 1..) => Ok(count),
        _ => Err("write a number from 1".to_owned()),
    }
}

/// `KEY=VALUE`.
pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write KEY=VALUE".to_owned()),
    }
}

/// Any JSON, read strictly.
pub(crate) fn json(text: &str) -> Result<serde_json::Value, String> {
    let limits = relight_core::checkpoint::Limits::default();
    relight_core::checkpoint::parse_strict(text.as_bytes(), limits).map_err(|e| e.to_string())
}

/// A strategy that every Relight knows.
pub(crate) fn strategy(text: &str) -> Result<String, String> {
    if STRATEGIES.contains(&text) {
        return Ok(text.to_owned());
    }
    Err(format!("known are {}", STRATEGIES.join(", ")))
}

/// A word that tasks ask for and agents declare.
pub(crate) fn skill(text: &str) -> Result<String, String> {
    check_skill(text).map_err(|error| error.to_string())?;
    Ok(text.to_owned())
}

/// A decimal number, in millionths.
pub(crate) fn cost(text: &str) -> Result<u64, String> {
    let bad = || "write a number that is not negative, with at most six places: 0.25".to_owned();
    let (whole, places) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let is_whole = !whole.is_empty() && is_number(whole);
    if !is_whole || !is_number(places) || places.len() > 6 || text.ends_with('.') {
        return Err(bad());
    }
    let whole: u64 = whole.parse().map_err(|_| bad())?;
    let places: u64 = format!("{places:0<6}").parse().map_err(|_| bad())?;
    whole.checked_mul(1_000_000).and_then(|micros| micros.checked_add(places)).ok_or_else(bad)
}

/// `5` or `5/s`.
pub(crate) fn rate(text: &str) -> Result<u32, String> {
    let count = text.strip_suffix("/s").unwrap_or(text);
    count.parse().map_err(|_| "write how many in a second: 5/s".to_owned())
}

/// `step.done` and the like.
pub(crate) fn event_kind(text: &str) -> Result<EventKind, String> {
    let found = EventKind::ALL.into_iter().find(|kind| kind.as_str() == text);
    found.ok_or_else(|| format!("known are {}", EventKind::ALL.map(EventKind::as_str).join(", ")))
}

/// `running` and the like.
pub(crate) fn agent_state(text: &str) -> Result<AgentStateKind, String> {
    let found = AgentStateKind::ALL.into_iter().find(|state| state.as_str() == text);
    let known = || AgentStateKind::ALL.map(AgentStateKind::as_str).join(", ");
    found.ok_or_else(|| format!("known are {}", known()))
}

/// A program and its arguments, or some arguments, that were written as one text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Words(pub(crate) Vec<String>);

/// Words separated by spaces; quotes keep a word together, a backslash the next character (within
/// `"…"` only before `"` and `\`). No shell: nothing is expanded.
pub(crate) fn words(text: &str) -> Result<Words, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (Some('"'), '\\') if matches!(rest.peek(), Some('"' | '\\')) => {
                word.get_or_insert_default().extend(rest.next());
            }
            (Some(_), _) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '\\') => {
                let kept = rest.next().ok_or("nothing follows the last backslash")?;
                word.get_or_insert_default().push(kept);
            }
            (None, ' ' | '\t' | '\n') => words.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(c),
        }
    }
    if let Some(open) = quote {
        return Err(format!("the quote {open} is not closed"));
    }
    words.extend(word);
    if words.is_empty() { Err("there is no word in it".to_owned()) } else { Ok(Words(words)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_at_spaces_and_kept_by_quotes_without_a_shell() {
        let split = |text| words(text).map(|words| words.0);
        assert_eq!(split(" ./done.sh  --quiet ").unwrap(), ["./done.sh", "--quiet"]);
        let kept = split(r#"test 'a  $b' "c \"d\" \n" e\ f '' x"y"z"#).unwrap();
        assert_eq!(kept, ["test", "a  $b", r#"c "d" \n"#, "e f", "", "xyz"]);
        for bad in ["", "   ", "a 'b", "a \"b", "a \\"] {
            assert!(split(bad).is_err(), "{bad:?} was taken");
        }
    }
}
