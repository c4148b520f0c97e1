//! What an agent writes, made safe for a terminal as it streams: colours stay, everything else that a
//! terminal would obey goes.
//!
//! Sequences and characters may be cut anywhere by the pieces in which they come.

use relight_core::ids::is_obeyed;

/// A colour that is longer is none.
const COLOUR_CHARS_MAX: usize = 64;
/// A text for the terminal itself that is longer is taken for one that was never ended.
const STRING_CHARS_MAX: usize = 64 * 1024;

/// Filters a stream.
#[derive(Debug, Default)]
pub(crate) struct TerminalFilter {
    place: Place,
    keeps_colours: bool,
    /// The beginning of a character.
    cut: Vec<u8>,
    /// A colour is on.
    is_coloured: bool,
}

/// Where in a sequence the stream is.
#[derive(Debug, Default)]
enum Place {
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
    pub(crate) fn new(keeps_colours: bool) -> Self {
        Self { keeps_colours, ..Self::default() }
    }

    /// What may be shown of the next piece.
    pub(crate) fn pass(&mut self, piece: &[u8]) -> String {
        let mut bytes = std::mem::take(&mut self.cut);
        bytes.extend_from_slice(piece);
        let mut shown = String::with_capacity(bytes.len());
        let chunks = bytes.utf8_chunks();
        let mut taken = 0;
        for chunk in chunks {
            chunk.valid().chars().for_each(|c| self.take(c, &mut shown));
            taken += chunk.valid().len() + chunk.invalid().len();
            let is_last = taken == bytes.len();
            if is_last && is_beginning(chunk.invalid()) {
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
            (Place::String(count), '\u{1b}') => Place::StringEscape(count),
            (_, '\u{1b}') => Place::Escape,
            (Place::Text, c) => return text(c, shown),
            (_, '\n') => return shown.push('\n'),
            (Place::Escape, '[') => Place::Control(String::new()),
            (Place::Escape, ']' | 'P' | 'X' | '^' | '_') => Place::String(0),
            (Place::Escape | Place::Intermediate, ' '..='/') => Place::Intermediate,
            (Place::Escape | Place::Intermediate, _) => Place::Text,
            (Place::Control(mut inner), ' '..='?') if inner.len() < COLOUR_CHARS_MAX => {
                inner.push(c);
                Place::Control(inner)
            }
            (Place::Control(inner), ' '..='?') => Place::Control(inner),
            (Place::Control(inner), 'm') => self.colour(&inner, shown),
            (Place::Control(_), _) => Place::Text,
            (Place::String(_), '\u{7}' | '\u{9c}') | (Place::StringEscape(_), '\\') => Place::Text,
            (Place::String(count) | Place::StringEscape(count), _) if count < STRING_CHARS_MAX => {
                Place::String(count + 1)
            }
            (Place::String(_) | Place::StringEscape(_), _) => Place::Text,
        };
    }

    fn colour(&mut self, inner: &str, shown: &mut String) -> Place {
        let is_colour = inner.chars().all(|c| c.is_ascii_digit() || matches!(c, ';' | ':'));
        if is_colour && self.keeps_colours && inner.len() < COLOUR_CHARS_MAX {
            shown.push_str("\u{1b}[");
            shown.push_str(inner);
            shown.push('m');
            self.is_coloured = !matches!(inner, "" | "0");
        }
        Place::Text
    }
}

fn text(c: char, shown: &mut String) {
    // A carriage return moves within the agent's own line: progress bars live by it.
    if !is_obeyed(c) || matches!(c, '\n' | '\t' | '\r') {
        shown.push(c);
    }
}

/// Whether more bytes could make a character of these.
fn is_beginning(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
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
            let shown: String = NASTY.as_bytes().chunks(size).map(|c| filter.pass(c)).collect();
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
}
