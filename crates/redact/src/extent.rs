//! Where a value begins and ends: quoted, escaped and quoted, bare, in markup.

use super::value;

/// How a value is tied to its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tie {
    /// `name=value`.
    Equals,
    /// `name = value`, `name := value`, `name => value`.
    SpacedEquals,
    /// `name == value`: of interest only with a literal.
    Compare,
    /// `name: value`.
    Colon,
    /// `--name value`.
    Flag,
    /// `"--name", "value"`.
    List,
    /// `("name", "value")`.
    Argument,
    /// `name("value")`.
    Call,
    /// `name - "value"`.
    Dash,
    /// `<name>value</name>`.
    Markup,
}

/// A value's place, without its quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) quoted: bool,
}

/// A quoted value over several lines ends within this, or else at its first line.
const LINES_LEN_MAX: usize = 4096;
const BLANKS_MAX: usize = 64;
/// How far behind a name a list of bytes may open.
const BYTES_HEAD_LEN: usize = 48;
const CELL_LEN_MAX: usize = 256;
const BACKSLASHES_MAX: usize = 7;
const PAIR_NAME_LEN_MAX: usize = 40;

/// The value that starts at `from` or behind blanks there.
pub(super) fn value_at(text: &[u8], from: usize, tie: Tie, name_quoted: bool) -> Extent {
    if tie == Tie::Markup {
        return element_at(text, from);
    }
    let start = skip_blanks(text, from);
    let start = skip_tag(text, start);
    let start = start
        + if text[start..].starts_with(b"%22") {
            3
        } else {
            0
        };
    if let Some(extent) = quoted_at(text, start, tie) {
        return extent;
    }
    let end = if name_quoted {
        literal_end(text, start)
    } else {
        bare_end(text, start)
    };
    Extent {
        start,
        end,
        quoted: false,
    }
}

/// Behind `!!str ` of YAML.
fn skip_tag(text: &[u8], start: usize) -> usize {
    let Some(tag) = text[start..].strip_prefix(b"!!") else {
        return start;
    };
    let len = tag
        .iter()
        .take(16)
        .take_while(|b| b.is_ascii_lowercase())
        .count();
    if tag.get(len) == Some(&b' ') && len > 0 {
        skip_blanks(text, start + 2 + len)
    } else {
        start
    }
}

/// The text of an element of markup, perhaps on a line of its own.
fn element_at(text: &[u8], from: usize) -> Extent {
    let in_gap = |b: &&u8| b.is_ascii_whitespace();
    let gap = text[from..]
        .iter()
        .take(BLANKS_MAX)
        .take_while(in_gap)
        .count();
    let start = from + gap;
    let len = text[start..]
        .iter()
        .take_while(|b| **b != b'<' && **b != b'\n')
        .count();
    let len = text[start..start + len].trim_ascii_end().len();
    let behind = start
        + len
        + text[start + len..]
            .iter()
            .take(BLANKS_MAX)
            .take_while(in_gap)
            .count();
    // `<password> and so on` is a placeholder in a sentence.
    let is_apart = text[from..start].contains(&b' ') && !text[from..start].contains(&b'\n');
    let is_closed = match text[behind..] {
        [] => !is_apart,
        [b'<', b'/', ..] => !is_apart || !text[start..start + len].contains(&b' '),
        _ => false,
    };
    Extent {
        start,
        end: start + if is_closed { len } else { 0 },
        quoted: false,
    }
}

/// The quoted value that starts at `from` or behind blanks there.
pub(super) fn quoted_at(text: &[u8], from: usize, tie: Tie) -> Option<Extent> {
    let (start, escapes, quote) = opening_quote(text, skip_blanks(text, from))?;
    let end = quoted_end(text, start, escapes, quote, tie == Tie::Equals);
    // Of three closing quotes two were read as a doubled one.
    let is_triple = text[..start].ends_with(&[quote; 3]) && text[start..end].ends_with(&[quote; 2]);
    let end = if is_triple { end - 2 } else { end };
    Some(Extent {
        start,
        end,
        quoted: true,
    })
}

/// The numbers of `[]byte{1, 2}`, `new byte[] {0x01, 0x02}`, `[u8; 32] = [1, 2]`: as many different bytes
/// as a key has.
pub(super) fn bytes_at(text: &[u8], from: usize) -> Option<Extent> {
    let head = &text[from..text.len().min(from + BYTES_HEAD_LEN)];
    let in_head = |b: &u8| b.is_ascii_alphanumeric() || b" \n_:;=&*<>[](){}".contains(b);
    let is_open = |at: &usize| {
        let behind = text[from + at + 1..].trim_ascii_start();
        b"[({".contains(&head[*at]) && behind.first().is_some_and(u8::is_ascii_digit)
    };
    let open = (0..head.len()).find(is_open)?;
    if !head[..open].iter().all(in_head) {
        return None;
    }
    let start = from + open;
    let in_list = |b: &&u8| b.is_ascii_hexdigit() || b" \t\r\n,xXu_".contains(b);
    let list = text[start + 1..].iter().take(LINES_LEN_MAX);
    let list = &text[start + 1..start + 1 + list.take_while(in_list).count()];
    let byte = |word: &[u8]| {
        let word = std::str::from_utf8(word.trim_ascii()).ok()?;
        let word = word.strip_suffix("u8").unwrap_or(word);
        match word.strip_prefix("0x") {
            Some(hex) => u8::from_str_radix(hex, 16).ok(),
            None => word.parse().ok(),
        }
    };
    let words = list.split(|b| *b == b',').map(<[u8]>::trim_ascii);
    let bytes: Option<Vec<u8>> = words.filter(|w| !w.is_empty()).map(byte).collect();
    let end = start + 1 + list.len();
    bytes
        .is_some_and(|bytes| value::is_key_bytes(&bytes))
        .then(|| Extent {
            start,
            end: end + usize::from(text.get(end).is_some_and(|b| b"])}".contains(b))),
            quoted: false,
        })
}

/// The text of a cell in a table of Markdown, without the signs around code.
pub(super) fn cell_at(text: &[u8], from: usize) -> Option<Extent> {
    let cell = &text[from..text.len().min(from + CELL_LEN_MAX)];
    let cell = cell.split(|b| *b == b'\n').next()?;
    let cell = cell.split(|b| *b == b'|').next()?;
    let is_sign = |b: &&u8| b" `*\"'".contains(b);
    let start = cell.iter().take_while(is_sign).count();
    let end = cell.len() - cell.iter().rev().take_while(is_sign).count();
    (start < end).then_some(Extent {
        start: from + start,
        end: from + end,
        quoted: false,
    })
}

/// A word that looks generated.
pub(super) fn token_at(text: &[u8], from: usize) -> Option<Extent> {
    let len = text[from..]
        .iter()
        .take(CELL_LEN_MAX)
        .take_while(|b| **b > b' ')
        .count();
    let end = from + len;
    value::is_token(&text[from..end]).then_some(Extent {
        start: from,
        end,
        quoted: false,
    })
}

/// Skips blanks and colour sequences of terminals.
pub(super) fn skip_blanks(text: &[u8], from: usize) -> usize {
    let mut at = from;
    for _ in 0..BLANKS_MAX {
        match text.get(at) {
            Some(b' ' | b'\t') => at += 1,
            Some(0x1b) => at = skip_colour(text, at),
            _ => break,
        }
    }
    at
}

fn skip_colour(text: &[u8], escape: usize) -> usize {
    let in_sequence = |b: &&u8| matches!(b, b'[' | b';' | b'0'..=b'9');
    let len = text[escape + 1..]
        .iter()
        .take(16)
        .take_while(in_sequence)
        .count();
    let last = escape + 1 + len;
    if text.get(last) == Some(&b'm') {
        last + 1
    } else {
        text.len().min(escape + 1)
    }
}

pub(super) fn is_quote(byte: Option<&u8>) -> bool {
    matches!(byte, Some(b'"' | b'\'' | b'`'))
}

/// Backslashes in front of a quote at `at`; `None` when no quote follows them.
pub(super) fn escapes_before_quote(text: &[u8], at: usize) -> Option<usize> {
    let escapes = text[at..]
        .iter()
        .take(BACKSLASHES_MAX)
        .take_while(|b| **b == b'\\')
        .count();
    is_quote(text.get(at + escapes)).then_some(escapes)
}

/// Start of the content, backslashes and the quote, also behind `f`, `b`, `r`, `u` prefixes.
fn opening_quote(text: &[u8], start: usize) -> Option<(usize, usize, u8)> {
    let prefix = text[start..]
        .iter()
        .take(2)
        .take_while(|b| b"fbruFBRUL@$".contains(b))
        .count();
    let at = start + prefix;
    let escapes = escapes_before_quote(text, at)?;
    let quote = text[at + escapes];
    let open = at + escapes + 1;
    let is_triple = text.get(open..open + 2) == Some(&[quote, quote]);
    Some((if is_triple { open + 2 } else { open }, escapes, quote))
}

fn quoted_end(text: &[u8], open: usize, escapes: usize, quote: u8, lines: bool) -> usize {
    let mut first_line_end = None;
    let mut backslashes = 0;
    let mut second_of_two = false;
    for (at, byte) in text.iter().enumerate().skip(open) {
        let too_long = first_line_end.is_some() && at - open > LINES_LEN_MAX;
        if *byte == b'\n' && first_line_end.is_none() {
            first_line_end = Some(at);
        }
        if too_long || first_line_end.is_some() && !lines {
            break;
        }
        let closes = if escapes == 0 {
            backslashes % 2 == 0
        } else {
            backslashes <= escapes
        };
        // SQL doubles a quote inside a value.
        let is_doubled = escapes == 0 && at > open && text.get(at + 1) == Some(&quote);
        if *byte == quote && (is_doubled || second_of_two) {
            second_of_two = !second_of_two;
        } else if *byte == quote && closes {
            return if escapes == 0 { at } else { at - backslashes };
        }
        backslashes = if *byte == b'\\' { backslashes + 1 } else { 0 };
    }
    first_line_end.unwrap_or(text.len())
}

/// A JSON number or word.
fn literal_end(text: &[u8], start: usize) -> usize {
    let ends = |b: &u8| *b <= b' ' || b",]}\"'".contains(b);
    start + text[start..].iter().take_while(|b| !ends(b)).count()
}

fn bare_end(text: &[u8], start: usize) -> usize {
    let mut at = start;
    while let Some(byte) = text.get(at) {
        let ends = match byte {
            0..=b' ' | 0x7f => true,
            // `it's` goes on; `"token=x"` ends.
            b'"' | b'\'' | b'`' => !text.get(at + 1).is_some_and(u8::is_ascii_alphanumeric),
            b'&' => text.get(at + 1) == Some(&b'&') || starts_pair(text, at + 1),
            b',' | b';' => is_end_or_blank(text, at + 1) || starts_pair(text, at + 1),
            b'\\' => ends_at_escape(text, at),
            b'<' => text.get(at + 1) == Some(&b'/'),
            b'%' => matches!(text.get(at + 1..at + 3), Some(b"22" | b"26" | b"27")),
            _ => false,
        };
        if ends {
            break;
        }
        at += 1;
    }
    without_closing(text, start, at)
}

/// Drops the punctuation and the brackets that belong to what is around a bare value.
fn without_closing(text: &[u8], start: usize, mut end: usize) -> usize {
    // A few: what ends in a thousand brackets is not prose.
    for _ in 0..8 {
        let value = &text[start..end];
        let opening = match value.last() {
            Some(b'.' | b',' | b';' | b'\\') => None,
            Some(b')') => Some(b'('),
            Some(b']') => Some(b'['),
            Some(b'}') => Some(b'{'),
            Some(b':') if value.ends_with(b"):") => None,
            _ => break,
        };
        if opening.is_some_and(|opening| value.contains(&opening)) {
            break;
        }
        end -= 1;
    }
    end
}

fn is_end_or_blank(text: &[u8], at: usize) -> bool {
    text.get(at).is_none_or(|b| *b <= b' ' || is_quote(Some(b)))
}

/// Whether another `name=` or `"name":` starts here.
fn starts_pair(text: &[u8], at: usize) -> bool {
    let at = at
        + text[at.min(text.len())..]
            .iter()
            .take(1)
            .filter(|b| is_quote(Some(b)))
            .count();
    let in_name =
        |b: &&u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b'[' | b']');
    let rest = text.get(at..).unwrap_or_default();
    let len = rest
        .iter()
        .take(PAIR_NAME_LEN_MAX)
        .take_while(in_name)
        .count();
    let behind = rest.get(len + usize::from(is_quote(rest.get(len))));
    len > 0 && matches!(behind, Some(b'=' | b':'))
}

/// `\"` ends a value inside a string; a literal `\n` does when a pair or nothing follows it.
fn ends_at_escape(text: &[u8], at: usize) -> bool {
    match text.get(at + 1) {
        Some(b'"' | b'\'') => true,
        Some(b'n' | b'r' | b't') => {
            is_end_or_blank(text, at + 2)
                || text.get(at + 2) == Some(&b'\\')
                || starts_pair(text, at + 2)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str, tie: Tie) -> &str {
        let extent = value_at(text.as_bytes(), 0, tie, false);
        &text[extent.start..extent.end]
    }

    #[test]
    fn quoted_values_end_at_their_quote() {
        assert_eq!(value(r#" "a\"b" c"#, Tie::Colon), r#"a\"b"#);
        assert_eq!(value(r#"\"ab\",\"c\""#, Tie::Colon), "ab");
        assert_eq!(value("'a b", Tie::Colon), "a b");
        assert_eq!(value("\"a\nb\" c", Tie::Equals), "a\nb");
        assert_eq!(value("\"a\nb\" c", Tie::Colon), "a");
        assert_eq!(value("'it''s' x", Tie::SpacedEquals), "it''s");
        assert_eq!(value("'' x", Tie::SpacedEquals), "");
        assert_eq!(value("f'a b'", Tie::SpacedEquals), "a b");
    }

    #[test]
    fn bare_values_end_where_the_next_thing_begins() {
        for (text, expected) in [
            ("ab cd", "ab"),
            ("a&b&user=x", "a&b"),
            ("a,b, c", "a,b"),
            ("ab;user=c", "ab"),
            ("it's\"", "it's"),
            (r"ab\nuser=c", "ab"),
            (r#"ab\" }"#, "ab"),
            ("ab).", "ab"),
            ("hunter2!", "hunter2!"),
            ("", ""),
        ] {
            assert_eq!(value(text, Tie::Equals), expected, "{text}");
        }
    }

    #[test]
    fn colours_are_skipped() {
        assert_eq!(value("\x1b[32mab\x1b[0m", Tie::Equals), "ab");
    }
}
