//! Text that came from an agent, made harmless to read: no terminal sequences, no control characters,
//! no line that overwrites another.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::ids::is_obeyed;

/// The lines as a terminal would have shown them in the end, without anything that it obeys.
pub fn plain_lines(text: &str) -> impl Iterator<Item = String> {
    text.split('\n').map(|line| {
        // Progress bars overwrite their own line: the last text is what was seen.
        plain_line(
            line.trim_end_matches('\r')
                .rsplit('\r')
                .next()
                .unwrap_or_default(),
        )
    })
}

/// One line of anything: terminal sequences are taken out, other control characters become spaces.
pub fn plain_line(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            '\u{1b}' => skip_escape(&mut rest),
            '\u{9b}' => skip_control_sequence(&mut rest),
            c if is_obeyed(c) => plain.push(' '),
            c => plain.push(c),
        }
    }
    plain.truncate(plain.trim_end().len());
    plain
}

/// At most so many bytes, with a sign that more was there; never cuts a character.
pub fn clipped(text: &str, bytes_max: usize) -> String {
    const SIGN: &str = "…";
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let mut end = bytes_max.saturating_sub(SIGN.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{SIGN}", text[..end].trim_end())
}

fn skip_escape(rest: &mut std::str::Chars<'_>) {
    match rest.next() {
        Some('[') => skip_control_sequence(rest),
        // Titles, links and other strings, up to their terminator.
        Some(']' | 'P' | 'X' | '^' | '_') => {
            while let Some(c) = rest.next() {
                if c == '\u{7}' || c == '\u{9c}' || (c == '\u{1b}' && rest.next().is_some()) {
                    break;
                }
            }
        }
        // A character set is named by one more character.
        Some('(' | ')' | '*' | '+' | '#' | '%') => {
            rest.next();
        }
        _ => {}
    }
}

fn skip_control_sequence(rest: &mut std::str::Chars<'_>) {
    rest.find(|c| ('\u{40}'..='\u{7e}').contains(c));
}

/// A JSON document that says the same without a character that a terminal would obey. Such characters
/// are only in its texts, where they can be written as escapes; JSON itself asks for that only below U+20.
pub fn harmless_json(document: &str) -> Cow<'_, str> {
    let is_harmful = |c: char| is_obeyed(c) && c != '\n';
    if !document.contains(is_harmful) {
        return document.into();
    }
    let mut safe = String::with_capacity(document.len() + 16);
    for c in document.chars() {
        match is_harmful(c) {
            // None of them is beyond U+FFFF, which would take two escapes.
            true => _ = write!(safe, "\\u{:04x}", u32::from(c)),
            false => safe.push(c),
        }
    }
    safe.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_sequences_go_and_words_stay() {
        for (text, plain) in [
            ("\u{1b}[1;31mred\u{1b}[0m text", "red text"),
            ("\u{1b}]8;;https://x\u{7}link\u{1b}]8;;\u{1b}\\", "link"),
            ("\u{1b}(Bplain\u{9b}2K", "plain"),
            ("a\tb\u{202e}c\u{0}", "a b c"),
            ("cut \u{1b}[", "cut"),
            ("cut \u{1b}]0;title", "cut"),
            ("日本語 ✓", "日本語 ✓"),
        ] {
            assert_eq!(plain_line(text), plain);
        }
    }

    #[test]
    fn a_progress_bar_is_its_last_state() {
        let lines: Vec<String> = plain_lines("10%\r50%\r100%\r\ndone").collect();
        assert_eq!(lines, ["100%", "done"]);
    }

    #[test]
    fn a_clipped_text_ends_between_characters() {
        assert_eq!(clipped("abc", 3), "abc");
        assert_eq!(clipped("äöü", 5), "ä…");
        for bytes_max in 3..12 {
            assert!(clipped("日本語テキスト", bytes_max).len() <= bytes_max);
        }
    }
}
