//! Printing: people's text cleaned of control sequences, or one JSON document.

use std::fmt::Write as _;
use std::io::Write as _;

use serde::Serialize;

use crate::environment::Environment;
use crate::exit::Failure;

/// Prints a line, or ends quietly when nobody reads any more.
pub(crate) fn line(text: &str) {
    write_out(format!("{text}\n").as_bytes());
}

/// Prints bytes as they are.
pub(crate) fn write_out(bytes: &[u8]) {
    let mut out = std::io::stdout().lock();
    if out.write_all(bytes).and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}

/// Prints one JSON document.
pub(crate) fn json(value: &impl Serialize) {
    let text = serde_json::to_string_pretty(value).expect("answers have string keys");
    line(&text);
}

/// Prints one JSON document on one line.
pub(crate) fn json_line(value: &impl Serialize) {
    let text = serde_json::to_string(value).expect("answers have string keys");
    line(&text);
}

/// Prints text for people, or the JSON document when that is wanted.
pub(crate) fn answer(environment: &Environment, value: &impl Serialize, text: &str) {
    if environment.json {
        json(value);
    } else if !environment.quiet && !text.is_empty() {
        line(&clean(text));
    }
}

/// Says something beside the answer.
pub(crate) fn note(environment: &Environment, text: &str) {
    if !environment.quiet {
        eprintln!("relight: {}", clean(text));
    }
}

/// Says why not, and what to type next.
pub(crate) fn failure(json: bool, failure: &Failure) {
    let (message, hint) = (clean(&failure.message), failure.hint.as_deref().map(clean));
    if json {
        let body = serde_json::json!({"error": {
            "code": failure.exit as u8, "message": message, "hint": hint,
        }});
        eprintln!("{body}");
        return;
    }
    eprintln!("relight: {message}");
    if let Some(hint) = hint {
        eprintln!("  try: {hint}");
    }
}

/// Text that came from an agent, made safe for a terminal: control characters and those that turn
/// the direction of writing are shown, not obeyed.
pub(crate) fn clean(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        let obeyed = c.is_control() && !matches!(c, '\n' | '\t');
        if turns || obeyed {
            let _ = write!(safe, "\\u{{{:x}}}", u32::from(c));
        } else {
            safe.push(c);
        }
    }
    safe
}

/// Columns under each other, as wide as their widest cell.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |at: usize| {
        rows.iter()
            .filter_map(|row| row.get(at))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(line, "{cell:<width$}  ");
        }
        text += line.trim_end();
        text.push('\n');
    }
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_sequences_of_agents_do_not_reach_the_terminal() {
        let nasty = "a\u{1b}[31mred\u{7}\u{202e}b\rc\u{9b}d";
        insta::assert_snapshot!(clean(nasty), @r"a\u{1b}[31mred\u{7}\u{202e}b\u{d}c\u{9b}d");
        assert_eq!(clean("plain\n\ttext ü"), "plain\n\ttext ü");
    }
}
