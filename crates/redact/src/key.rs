//! The key name around a place in a text, and what ties it to a value.

use memchr::memmem;

use super::extent::{Tie, escapes_before_quote, skip_blanks};
use super::names::{self, KeyName, NAME_LEN_MAX};
use super::{formats, value};

/// How far behind its name a function may return.
const RETURN_REACH: usize = 48;

/// A key name's place in a text.
#[derive(Clone, Copy)]
pub(super) struct Name {
    pub(super) start: usize,
    pub(super) end: usize,
    is_flag: bool,
}

impl Name {
    /// The name that holds the byte at `stem`, without the escape or the dashes before it.
    pub(super) fn around(text: &[u8], stem: usize) -> Option<Self> {
        let foreign = names::foreign_len(&text[stem..]);
        if foreign > 0 {
            let (start, end) = (stem, stem + foreign);
            return Some(Self {
                start,
                end,
                is_flag: false,
            });
        }
        let in_name = |b: &&u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
        // The two bytes of a letter such as `ñ`; before the stem they could be half of something else.
        let in_letter = |b: &&u8| matches!(b, 0xC3 | 0x80..=0xBF);
        let in_right = |b: &&u8| in_name(b) || in_letter(b);
        let right = text[stem..]
            .iter()
            .take(NAME_LEN_MAX)
            .take_while(in_right)
            .count();
        let left = text[..stem]
            .iter()
            .rev()
            .take(NAME_LEN_MAX)
            .take_while(in_name)
            .count();
        if right == NAME_LEN_MAX || left == NAME_LEN_MAX {
            return None;
        }
        let mut start = stem - left;
        let before = start.checked_sub(1).map(|at| text[at]);
        if before == Some(b'\\') && matches!(text[start], b'n' | b'r' | b't') && start < stem {
            start += 1;
        } else if before == Some(b'%') && start + 2 <= stem {
            start += 2;
        }
        let digits = text[start..stem]
            .iter()
            .take_while(|b| b.is_ascii_digit())
            .count();
        if start + digits < stem && formats::colour_len(text, start + digits + 1) > 0 {
            start += digits + 1;
        }
        let dashes = text[start..stem]
            .iter()
            .take_while(|b| matches!(b, b'-' | b'.'))
            .count();
        let dots = text[stem..stem + right]
            .iter()
            .rev()
            .take_while(|b| matches!(b, b'-' | b'.'))
            .count();
        let is_flag = dashes > 0 && text[start] == b'-';
        // `-Dname=value` sets a property.
        let is_property = is_flag && dashes == 1 && text[start + 1] == b'D' && start + 2 <= stem;
        let dashes = dashes + usize::from(is_property);
        Some(Self {
            start: start + dashes,
            end: stem + right - dots,
            is_flag,
        })
    }

    pub(super) fn bytes<'t>(&self, text: &'t [u8]) -> &'t [u8] {
        &text[self.start..self.end]
    }

    pub(super) fn judge(&self, text: &[u8]) -> KeyName {
        let name = self.with_word_before_key(text);
        let is_parameter = matches!(self.before(text), Some(b'?' | b'&'));
        let is_word = || {
            [b"key".as_slice(), b"code"]
                .iter()
                .any(|w| name.eq_ignore_ascii_case(w))
        };
        match names::judge(name) {
            KeyName::Plain | KeyName::Weak
                if is_parameter
                    && names::is_secret_parameter(name)
                    && (!is_word() || self.has_long_parameter(text)) =>
            {
                KeyName::Loose
            }
            key => key,
        }
    }

    /// Whether the value of a parameter is longer than a word: `?key=title` is no secret.
    fn has_long_parameter(&self, text: &[u8]) -> bool {
        let in_value = |b: &&u8| b.is_ascii_alphanumeric() || b"_-.~%+".contains(b);
        let value = text.get(self.end + 1..).unwrap_or_default();
        let value = &value[..value.iter().take(64).take_while(in_value).count()];
        value.len() >= 16 && !value::is_snake(value)
    }

    /// `API key: x`, `pass phrase: x`: people write the two words apart.
    pub(super) fn with_word_before_key<'t>(&self, text: &'t [u8]) -> &'t [u8] {
        let name = self.bytes(text);
        let before = &text[..self.start];
        let is_second = [b"key".as_slice(), b"phrase"]
            .iter()
            .any(|w| name.eq_ignore_ascii_case(w));
        if !is_second || !before.ends_with(b" ") {
            return name;
        }
        let letters = before[..before.len() - 1].iter().rev().take(16);
        let len = letters.take_while(|b| b.is_ascii_alphabetic()).count();
        &text[self.start - 1 - len..self.end]
    }

    fn is_upper(&self, text: &[u8]) -> bool {
        self.bytes(text).iter().all(u8::is_ascii_uppercase)
    }

    /// `CURLOPT_PASSWORD`.
    fn is_constant(&self, text: &[u8]) -> bool {
        let in_constant = |b: &u8| b.is_ascii_uppercase() || b.is_ascii_digit() || *b == b'_';
        self.bytes(text).iter().all(in_constant) && self.bytes(text).contains(&b'_')
    }

    pub(super) fn before(&self, text: &[u8]) -> Option<u8> {
        self.start.checked_sub(1).map(|at| text[at])
    }

    /// `<password`, `<wsse:Password`.
    fn opens_tag(&self, text: &[u8]) -> bool {
        let before = &text[..self.start];
        let prefix = before.strip_suffix(b":").unwrap_or(before);
        let len = prefix
            .iter()
            .rev()
            .take(16)
            .take_while(|b| b.is_ascii_alphanumeric())
            .count();
        let len = if prefix.len() < before.len() { len } else { 0 };
        prefix[..prefix.len() - len].ends_with(b"<")
    }

    /// Whether only indentation, list signs and quotes stand before it on its line.
    pub(super) fn starts_line(&self, text: &[u8]) -> bool {
        let in_margin = |b: &&u8| b" \t-*#>\"'".contains(b);
        let before = formats::without_colour(&text[..self.start]);
        let margin = before.iter().rev().take(32).take_while(in_margin).count();
        let before = formats::without_colour(&before[..before.len() - margin]);
        matches!(before, [] | [.., b'\n' | b'{']) || before.ends_with(b"\\n")
    }
}

impl Name {
    /// The same, or one word before it: `wifi password: x`, `seed phrase: x`.
    pub(super) fn starts_line_with_word(&self, text: &[u8]) -> bool {
        let before = text[..self.start].strip_suffix(b" ").unwrap_or_default();
        let in_word = |b: &&u8| b.is_ascii_alphabetic() || matches!(b, b'-' | b'_');
        let len = before.iter().rev().take(16).take_while(in_word).count();
        let word = Self {
            start: before.len() - len,
            ..*self
        };
        self.starts_line(text) || len > 0 && word.starts_line(text)
    }
}

/// The tie behind a name, where its value may start, and whether the name was quoted.
pub(super) fn tie_behind(text: &[u8], name: &Name) -> Option<(Tie, usize, bool)> {
    let escapes = escapes_before_quote(text, name.end);
    let mut end = escapes.map_or(name.end, |escapes| name.end + escapes + 1);
    end += usize::from(text.get(end) == Some(&b']'));
    // `$ENV{TOKEN} = x` of Perl.
    let is_in_braces = matches!(text[..name.start], [.., b'A'..=b'Z' | b'a'..=b'z', b'{']);
    end += usize::from(is_in_braces && text.get(end) == Some(&b'}'));
    end += array_len(&text[end.min(text.len())..]);
    if text[end.min(text.len())..].starts_with(b"%22") {
        end += 3;
    }
    let quoted = escapes.is_some();
    let mut at = skip_blanks(text, end);
    // `Unseal Key 2: x`: the names are numbered.
    if let [b'0'..=b'9', b':', ..] = text.get(at..).unwrap_or_default() {
        at += 1;
    }
    // A long name has its value on the next line.
    if let [b'\n', behind @ ..] = text.get(at..).unwrap_or_default() {
        let margin = behind.iter().take(32).take_while(|b| **b == b' ').count();
        at += if behind[margin..].starts_with(b"= ") {
            margin + 1
        } else {
            0
        };
    }
    let rest = text.get(at..).unwrap_or_default();
    let tied = |tie, len| Some((tie, at + len, quoted));
    match rest {
        // The colon of Chinese and Japanese.
        [0xEF, 0xBC, 0x9A, ..] => tied(Tie::Colon, 3),
        [b'=', b'=', b'=', ..] => tied(Tie::Compare, 3),
        [b'=', b'=', ..] => tied(Tie::Compare, 2),
        [b'!', b'=', b'=', ..] => tied(Tie::Compare, 3),
        [b'!', b'=', ..] => tied(Tie::Compare, 2),
        [b'?', b'?', b'=', ..] | [b'|', b'|', b'=', ..] => tied(Tie::SpacedEquals, 3),
        [b'?', b'?', ..] | [b'|', b'|', ..] => tied(Tie::Compare, 2),
        [b':', b':', b':', b'=', ..] => tied(Tie::SpacedEquals, 4),
        [b':', b':', b'=', ..] => tied(Tie::SpacedEquals, 3),
        [b'+' | b'.' | b'?', b'=', ..] | [b'<', b'-', ..] => tied(Tie::SpacedEquals, 2),
        [b'%', b'3', b'A' | b'a', ..] => tied(Tie::Colon, 3),
        [b'=', b'>', ..] => tied(Tie::SpacedEquals, 2),
        [b'=', b' ' | b'\t', ..] => tied(Tie::SpacedEquals, 1),
        [b'=', ..] => tied(Tie::Equals, 1),
        [b'%', b'3', b'D' | b'd', ..] => tied(Tie::Equals, 3),
        [b'-', b'>', ..] => tied(Tie::SpacedEquals, 2),
        // `userPassword:: x` of LDAP.
        [b':', b':', b' ', ..] if at == end => tied(Tie::Colon, 2),
        [b':', b':', ..] => None,
        [b':', b'=', ..] => tied(Tie::SpacedEquals, 2),
        // `<entry key="db.password">x</entry>`, `<password><value>x</value></password>`.
        [b'>', behind @ ..] if quoted || name.opens_tag(text) => {
            let gap = behind
                .iter()
                .take(64)
                .take_while(|b| b.is_ascii_whitespace())
                .count();
            let inner = behind.get(gap..gap + b"<value>".len()).unwrap_or_default();
            let is_inner = inner.eq_ignore_ascii_case(b"<value>");
            tied(
                Tie::Markup,
                if is_inner { 1 + gap + inner.len() } else { 1 },
            )
        }
        // `**API key**: x`, `**Password:** x`.
        [b'*', b'*', b':', ..] => tied(Tie::Colon, 3),
        [b':', b'*', b'*', ..] => tied(Tie::Colon, 3),
        // `| password | x |`.
        [b'|', b' ', ..] if at > end && text[..name.start].trim_ascii_end().ends_with(b"|") => {
            tied(Tie::Dash, 2)
        }
        // `password | x` of psql.
        [b'|', behind @ ..] if at > end && name.starts_line(text) && !quoted => {
            tied(Tie::Dash, 1 + usize::from(behind.first() == Some(&b' ')))
        }
        // `password() { return "x" }`.
        [b'(', b')', behind @ ..] if at == end => {
            let near = &behind[..behind.len().min(RETURN_REACH)];
            memmem::find(near, b"return ").and_then(|at| tied(Tie::Dash, 2 + at + 7))
        }
        [_, ..] if at > end && name.opens_tag(text) => {
            attributes_len(rest).and_then(|len| tied(Tie::Markup, len))
        }
        [b',', ..] if quoted && (name.is_flag || names::is_credential_header(name.bytes(text))) => {
            tied(Tie::List, 1)
        }
        // `"password" to "x"` of Kotlin.
        [b't', b'o', b' ', b'"', ..] if quoted && at > end => tied(Tie::Dash, 3),
        // `{password, "x"}` of Erlang.
        [b',', ..] if quoted || name.is_constant(text) || name.before(text) == Some(b'{') => {
            tied(Tie::Argument, 1)
        }
        [b':', ..] => tied(Tie::Colon, 1),
        // `api_key;x` of a table.
        [b';' | b',', ..] if !quoted && at == end && name.starts_line(text) => tied(Tie::Dash, 1),
        [b'-', b' ', ..] if at > end => tied(Tie::Dash, 2),
        [b'<', b'/', ..] => element_behind(text, name).map(|from| (Tie::Markup, from, false)),
        // Also `PASSWORD ('x')` of SQL.
        [b'(', b'"' | b'\'', ..] if !quoted && (at == end || name.is_upper(text)) => {
            tied(Tie::Call, 1)
        }
        [_, ..] if at > end && name.is_flag && !quoted => tied(Tie::Flag, 0),
        _ => None,
    }
}

/// `<key>password</key> <string>x</string>`: where the text of the next element begins.
fn element_behind(text: &[u8], name: &Name) -> Option<usize> {
    const NAMES: &[&[u8]] = &[b"key", b"name"];
    const VALUES: &[&[u8]] = &[b"value>", b"string>"];
    let is_named = |tag: &&&[u8]| {
        let open = text[..name.start].strip_suffix(b">").unwrap_or_default();
        let behind = text[name.end + 2..].get(..tag.len()).unwrap_or_default();
        open.len() >= tag.len()
            && open[open.len() - tag.len()..].eq_ignore_ascii_case(tag)
            && behind.eq_ignore_ascii_case(tag)
    };
    let tag = NAMES.iter().find(is_named)?;
    let close = name.end + 2 + tag.len() + 1;
    let gap = text
        .get(close..)?
        .iter()
        .take(64)
        .take_while(|b| b.is_ascii_whitespace())
        .count();
    let open = close + gap + 1;
    let starts = |value: &&&[u8]| {
        text.get(open..open + value.len())
            .is_some_and(|tag| tag.eq_ignore_ascii_case(value))
    };
    VALUES.iter().find(starts).map(|value| open + value.len())
}

/// Length of the attributes of an element up to the end of its tag.
fn attributes_len(text: &[u8]) -> Option<usize> {
    let tag = &text[..text.len().min(96)];
    let close = tag.iter().position(|b| matches!(b, b'>' | b'<' | b'\n'))?;
    let is_tag =
        tag[close] == b'>' && tag[..close].contains(&b'=') && !tag[..close].ends_with(b"/");
    is_tag.then_some(close + 1)
}

/// Length of `[25]` or `[]` behind the name of an array.
fn array_len(text: &[u8]) -> usize {
    let digits = text
        .iter()
        .skip(1)
        .take(6)
        .take_while(|b| b.is_ascii_digit())
        .count();
    let is_array = text.first() == Some(&b'[') && text.get(digits + 1) == Some(&b']');
    if is_array { digits + 2 } else { 0 }
}
