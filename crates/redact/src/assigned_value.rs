//! A value under a secret name: whether it is harmless by its look, of which kind it is, and where it stands
//! once more.

use memchr::memmem;

use super::finding::{FoundSecret, Rank};
use super::names::{self, KeyName};
use super::{format_match, value};

const COUNT_LEN_MAX: usize = 12;
const LINE_LEN_MAX: usize = 512;
/// Shorter values are not looked for again: they may be part of something else.
const AGAIN_LEN_MIN: usize = 12;

/// Whether a whole value under a secret key is harmless by its look.
pub(super) fn is_harmless(key: KeyName, value: &[u8]) -> bool {
    let is_count = value::is_number(value)
        && match key {
            KeyName::Plain | KeyName::Weak => !value::is_token(value),
            KeyName::Loose => value.len() <= COUNT_LEN_MAX,
            KeyName::Strong => value.len() < 4 || value.starts_with(b"0x"),
        };
    value::is_placeholder(value)
        || is_count
        || value::is_path(value)
        || key == KeyName::Weak && !value::is_token(value)
}

/// Kind of a secret that was found by its name.
pub(super) fn kind_of(secret: &[u8], name: &[u8]) -> &'static str {
    let ends = |word: &str| {
        name.len() >= word.len()
            && name[name.len() - word.len()..].eq_ignore_ascii_case(word.as_bytes())
    };
    match format_match::kind_of(secret) {
        Some(kind) => kind,
        None if ends("cookie") => "cookie",
        None if ends("authorization") => "authorization",
        None => "assignment",
    }
}

/// `token == "else"`: a parser compares its tokens with short words and signs.
pub(super) fn is_parser_token(name: &[u8], value: &[u8]) -> bool {
    let is_short_word = value::is_word(value) && value.len() <= 16;
    let is_sign = !value.iter().any(u8::is_ascii_alphanumeric);
    names::holds_no_words(name) && (is_short_word || is_sign)
}

/// The same value once more on its line: `token = 'x' | 'x'`.
pub(super) fn again(text: &[u8], found: &FoundSecret<'_>, findings: &mut Vec<FoundSecret<'_>>) {
    let secret = text[found.start..found.end].trim_ascii();
    if secret.len() < AGAIN_LEN_MIN || secret.contains(&b' ') {
        return;
    }
    let line = &text[found.end..text.len().min(found.end + secret.len() + LINE_LEN_MAX)];
    let line = line.split(|b| *b == b'\n').next().unwrap_or_default();
    for at in memmem::find_iter(line, secret) {
        let start = found.end + at;
        findings.push(FoundSecret::new(
            start,
            start + secret.len(),
            "assignment",
            Rank::Context,
        ));
    }
}
