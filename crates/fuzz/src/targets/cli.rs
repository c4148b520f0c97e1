//! The command line: its configuration, flags and what it prints to terminals.

use std::ffi::OsString;
use std::path::Path;

use clap::Parser as _;
use relight_cli::parsers::{self, Cli, Config, TerminalFilter};
use relight_core::event::EventKind;
use relight_core::ids::is_obeyed;
use relight_core::task::Cost;
use relight_core::time::{Moment, Time};

/// `relight.toml`: a mistake is told with a place that is in the file.
pub(crate) fn config(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let presets = ["generic".to_owned(), "codex".to_owned()];
    let Err(error) = Config::parse(text, Path::new("relight.toml"), &presets) else {
        return;
    };
    assert!(!error.problems.is_empty(), "a refusal says why");
    for problem in &error.problems {
        let line = text
            .split('\n')
            .nth(problem.line - 1)
            .expect("the line is there");
        assert!(
            problem.column <= line.chars().count() + 1,
            "the column is in its line"
        );
    }
    assert!(!error.to_string().is_empty());
}

/// Agents' output on its way to a terminal: only colours steer it, however it is cut into pieces.
pub(crate) fn terminal(data: &[u8]) {
    let whole = TerminalFilter::new(true).pass(data);
    let mut filter = TerminalFilter::new(true);
    let size = usize::from(data.first().copied().unwrap_or(0) % 7) + 1;
    let pieces: String = data.chunks(size).map(|piece| filter.pass(piece)).collect();
    assert_eq!(whole, pieces, "where it is cut does not matter");
    let mut rest = whole.as_str();
    while let Some(at) = rest.find(|c| is_obeyed(c) && !matches!(c, '\n' | '\t' | '\r')) {
        let colour = rest[at..]
            .strip_prefix("\u{1b}[")
            .expect("nothing but a colour is obeyed");
        let end = colour.find('m').expect("a colour ends");
        assert!(
            colour[..end]
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b';' | b':'))
        );
        rest = &colour[end..];
    }
    let plain = TerminalFilter::new(false).pass(data);
    assert!(!plain.contains('\u{1b}'), "no colour where none is wanted");
    let cleaned = parsers::one_line(&String::from_utf8_lossy(data));
    assert!(
        !cleaned.contains(|c| is_obeyed(c) && c != '\t'),
        "one line, nothing obeyed"
    );
}

/// Single values of flags.
pub(crate) fn values(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(words) = parsers::words(text) {
        assert!(!words.0.is_empty());
    }
    let now = Time::from_ms(0);
    let moment = text.parse::<Moment>();
    if let Ok(time) = moment.and_then(|moment| moment.after(now)) {
        assert!(time.to_string().parse::<Time>().is_ok());
    }
    let _ = (
        parsers::lease(text),
        parsers::count(text),
        parsers::pair(text),
        parsers::rate(text),
    );
    let _ = (
        text.parse::<Cost>(),
        parsers::json(text),
        text.parse::<EventKind>(),
    );
}

/// Command lines, with a zero between words: the short way in understands what the long way does.
pub(crate) fn arguments(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let words: Vec<OsString> = std::iter::once("relight")
        .chain(text.split('\0'))
        .map(OsString::from)
        .collect();
    let Some(short) = parsers::parse_usual(&words) else {
        return;
    };
    let long =
        Cli::try_parse_from(&words).expect("the long way understands what the short one does");
    assert_eq!(format!("{short:?}"), format!("{long:?}"));
}
