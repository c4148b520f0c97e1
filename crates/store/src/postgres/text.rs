//! Escapes NUL, which PostgreSQL text cannot contain.
//!
//! `\0` is stored as `\u{1}0`, and `\u{1}` as `\u{1}1` to stay unambiguous. All other text is stored
//! unchanged, readable in `psql`. JSON needs no escaping: there NUL is six plain characters.

use std::borrow::Cow;

const MARK: char = '\u{1}';

/// Escapes a text; injective.
pub(super) fn kept(text: &str) -> Cow<'_, str> {
    if !text.contains(['\0', MARK]) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        match letter {
            '\0' => out.extend([MARK, '0']),
            MARK => out.extend([MARK, '1']),
            other => out.push(other),
        }
    }
    Cow::Owned(out)
}

/// The same for an owned text.
pub(super) fn into_kept(text: String) -> String {
    match kept(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(kept) => kept,
    }
}

/// As it was written.
pub(super) fn read_kept(kept: &str) -> Cow<'_, str> {
    match kept.contains(MARK) {
        true => Cow::Owned(read(kept.to_owned())),
        false => Cow::Borrowed(kept),
    }
}

/// As it was written.
pub(super) fn read(kept: String) -> String {
    if !kept.contains(MARK) {
        return kept;
    }
    let mut out = String::with_capacity(kept.len());
    let mut letters = kept.chars();
    while let Some(letter) = letters.next() {
        match letter {
            MARK if letters.next() == Some('0') => out.push('\0'),
            MARK => out.push(MARK),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_comes_back_and_none_has_a_nul() {
        for text in [
            "",
            "plain",
            "\0",
            "\u{1}",
            "\u{1}0",
            "\0\u{1}1\0",
            "grüße \0 🏴",
        ] {
            let kept = kept(text).into_owned();
            assert!(!kept.contains('\0'));
            assert_eq!(read(kept), text);
        }
        assert_ne!(kept("\0"), kept("\u{1}0"));
    }
}
