//! What an agent writes, made safe for a terminal as it streams: colours stay, everything else that a
//! terminal would obey goes.
//!
//! Sequences and characters may be cut anywhere by the pieces in which they come.

use std::fmt::Write as _;

use relight_core::ids::is_obeyed;

/// A colour that is longer is none.
const COLOUR_CHARS_MAX: usize = 64;
/// A text for the terminal itself that is longer is taken for one that was never ended.
const STRING_CHARS_MAX: usize = 64 * 1024;

/// Filters a stream.
#[derive(Debug, Default)]
pub struct TerminalFilter {
    place: ParserState,
    keeps_colours: bool,
    /// The beginning of a character.
    cut: Vec<u8>,
    /// A colour is on.
    is_coloured: bool,
}

/// Where in a sequence the stream is.
#[derive(Debug, Default)]
enum ParserState {
    #[default]
    Text,
    /// After ESC.
    Escape,
    /// After ESC and what stands between it and the last character of such a sequence.
    Intermediate,
    /// After `ESC [`, with what came since.
    Control(String),
    /// In a text for the terminal itself, such as a title; so many characters of it.
    String(usize),
    /// After ESC in such a text.
    StringEscape(usize),
}

impl TerminalFilter {
    /// At the start of a stream.
    pub fn new(keeps_colours: bool) -> Self {
        Self {
            keeps_colours,
            ..Self::default()
        }
    }

    /// What may be shown of the next piece.
    pub fn pass(&mut self, piece: &[u8]) -> String {
        let mut bytes = std::mem::take(&mut self.cut);
        bytes.extend_from_slice(piece);
        let mut shown = String::with_capacity(bytes.len());
        let chunks = bytes.utf8_chunks();
        let mut taken = 0;
        for chunk in chunks {
            chunk.valid().chars().for_each(|c| self.take(c, &mut shown));
            taken += chunk.valid().len() + chunk.invalid().len();
            let is_last = taken == bytes.len();
            // More bytes could make a character of these.
            let is_cut = std::str::from_utf8(chunk.invalid())
                .is_err_and(|error| error.error_len().is_none());
            if is_last && is_cut {
                self.cut = chunk.invalid().to_vec();
            } else if !chunk.invalid().is_empty() {
                self.take(char::REPLACEMENT_CHARACTER, &mut shown);
            }
        }
        shown
    }

    /// What is to be written when the stream is over: nobody else wants its colour.
    pub(crate) fn finish(&mut self) -> &'static str {
        let was_coloured = std::mem::take(&mut self.is_coloured);
        if was_coloured { "\u{1b}[0m" } else { "" }
    }

    fn take(&mut self, c: char, shown: &mut String) {
        self.place = match (std::mem::take(&mut self.place), c) {
            // Whatever it is in, an escape begins anew, and a line's end ends it.
            (ParserState::String(count), '\u{1b}') => ParserState::StringEscape(count),
            (_, '\u{1b}') => ParserState::Escape,
            (ParserState::Text, c) => return text(c, shown),
            (_, '\n') => return shown.push('\n'),
            (ParserState::Escape, '[') => ParserState::Control(String::new()),
            (ParserState::Escape, ']' | 'P' | 'X' | '^' | '_') => ParserState::String(0),
            (ParserState::Escape | ParserState::Intermediate, ' '..='/') => {
                ParserState::Intermediate
            }
            (ParserState::Escape | ParserState::Intermediate, _) => ParserState::Text,
            (ParserState::Control(mut inner), ' '..='?') if inner.len() < COLOUR_CHARS_MAX => {
                inner.push(c);
                ParserState::Control(inner)
            }
            (ParserState::Control(inner), ' '..='?') => ParserState::Control(inner),
            (ParserState::Control(inner), 'm') => self.colour(&inner, shown),
            (ParserState::Control(_), _) => ParserState::Text,
            (ParserState::String(_), '\u{7}' | '\u{9c}') | (ParserState::StringEscape(_), '\\') => {
                ParserState::Text
            }
            (ParserState::String(count) | ParserState::StringEscape(count), _)
                if count < STRING_CHARS_MAX =>
            {
                ParserState::String(count + 1)
            }
            (ParserState::String(_) | ParserState::StringEscape(_), _) => ParserState::Text,
        };
    }

    fn colour(&mut self, inner: &str, shown: &mut String) -> ParserState {
        let is_colour = inner
            .chars()
            .all(|c| c.is_ascii_digit() || matches!(c, ';' | ':'));
        if is_colour && self.keeps_colours && inner.len() < COLOUR_CHARS_MAX {
            shown.push_str("\u{1b}[");
            shown.push_str(inner);
            shown.push('m');
            self.is_coloured = !matches!(inner, "" | "0");
        }
        ParserState::Text
    }
}

fn text(c: char, shown: &mut String) {
    // A carriage return moves within the agent's own line: progress bars live by it.
    if !is_obeyed(c) || matches!(c, '\n' | '\t' | '\r') {
        shown.push(c);
    }
}

/// Text that came from an agent, made safe for a terminal: control characters and those that turn
/// the direction of writing are shown, not obeyed.
pub(crate) fn clean(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if is_obeyed(c) && !matches!(c, '\n' | '\t') {
            let _ = write!(safe, "\\u{{{:x}}}", u32::from(c));
        } else {
            safe.push(c);
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filtered(text: &[u8]) -> String {
        TerminalFilter::new(true).pass(text)
    }

    const NASTY: &str = "a\u{1b}[1;31mred\u{1b}[0m ü\u{1b}[2J\u{1b}]0;title\u{7}b\u{1b}]52;c;eA==\u{1b}\\c\
        \u{1b}[>4;2md\u{1b}[?1049he\u{1b}Pq\u{1b}\\f\u{1b}cg\u{1b}(0h\u{7}\u{8}\u{202e}\u{9b}i\r\n\tj";
    const SAFE: &str = "a\u{1b}[1;31mred\u{1b}[0m übcdefghi\r\n\tj";

    #[test]
    fn colours_stay_and_all_else_that_a_terminal_obeys_goes() {
        assert_eq!(filtered(NASTY.as_bytes()), SAFE);
    }

    #[test]
    fn sequences_and_characters_may_be_cut_anywhere() {
        for size in 1..8 {
            let mut filter = TerminalFilter::new(true);
            let shown: String = NASTY
                .as_bytes()
                .chunks(size)
                .map(|c| filter.pass(c))
                .collect();
            assert_eq!(shown, SAFE, "in pieces of {size}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_shown_as_such() {
        assert_eq!(filtered(b"a\xffb\x9b2Jc\xe2\x82"), "a\u{fffd}b\u{fffd}2Jc");
    }

    #[test]
    fn what_is_never_ended_does_not_swallow_what_follows() {
        assert_eq!(filtered(b"\x1b]0;title\nnext"), "\nnext");
        assert_eq!(filtered(b"\x1b[12\nnext"), "\nnext");
        let endless = format!("\u{1b}]{}x", "a".repeat(STRING_CHARS_MAX + 1));
        assert_eq!(filtered(endless.as_bytes()), "x");
    }

    #[test]
    fn colours_go_where_they_are_not_wanted_and_end_with_the_stream() {
        assert_eq!(TerminalFilter::new(false).pass(b"\x1b[31mred"), "red");
        let mut filter = TerminalFilter::new(true);
        filter.pass(b"\x1b[31mred");
        assert_eq!((filter.finish(), filter.finish()), ("\u{1b}[0m", ""));
    }

    #[test]
    fn control_sequences_of_agents_do_not_reach_the_terminal() {
        let nasty = "a\u{1b}[31mred\u{7}\u{202e}b\rc\u{9b}d";
        insta::assert_snapshot!(clean(nasty), @r"a\u{1b}[31mred\u{7}\u{202e}b\u{d}c\u{9b}d");
        assert_eq!(clean("plain\n\ttext ü"), "plain\n\ttext ü");
    }
}
