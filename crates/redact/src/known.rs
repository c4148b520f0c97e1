//! Values that are known to be secret, in every form in which they may turn up.
//!
//! The forms (base64, hex, percent, JSON) are made and indexed at the first search, not at
//! start-up: four bytes of a text are hashed into a bitmap, and only hits are compared.

use std::sync::OnceLock;

use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use super::finding::{self, FoundSecret, Rank};
use super::{mark, url, value};

/// Shorter values would be found everywhere.
const LEN_MIN: usize = 8;
/// A line of a longer value that is looked for by itself: output is often torn into lines.
const LINE_LEN_MIN: usize = 16;
const BITMAP_BITS: u32 = 15;
const BITMAP_WORDS: usize = 1 << (BITMAP_BITS - 6);

/// The known values and, once needed, their index.
#[derive(Clone, Default)]
pub(super) struct KnownSecrets {
    values: Vec<(String, Vec<u8>)>,
    index: OnceLock<Index>,
}

impl KnownSecrets {
    /// Adds a value; one that is too short to be told from other text is left out.
    pub(super) fn add(&mut self, kind: &str, secret: &str) {
        let secret = secret.trim().as_bytes();
        let is_there = self.values.iter().any(|(_, there)| there == secret);
        if secret.len() < LEN_MIN || is_there {
            return;
        }
        self.index = OnceLock::new();
        let kind = mark::clean_kind(kind);
        let lines = secret
            .split(|b| *b == b'\n')
            .filter(|line| line.len() < secret.len());
        for line in lines.map(<[u8]>::trim_ascii) {
            if line.len() >= LINE_LEN_MIN && !line.starts_with(b"-----") {
                self.values.push((kind.clone(), line.to_vec()));
            }
        }
        self.values.push((kind, secret.to_vec()));
    }

    /// Adds the value of a secret-named variable, unless it is too ordinary to be a secret.
    pub(super) fn add_variable(&mut self, secret: &str) {
        let bytes = secret.trim().as_bytes();
        let is_ordinary = value::is_placeholder(bytes)
            || value::is_number(bytes)
            || value::is_path(bytes)
            || ORDINARY
                .iter()
                .any(|word| bytes.eq_ignore_ascii_case(word.as_bytes()));
        if !is_ordinary {
            self.add("env", secret);
        }
    }

    /// Adds the passwords of the URLs in a value, as written and percent-decoded.
    pub(super) fn add_url_passwords(&mut self, text: &str) {
        if memchr::memchr(b'@', text.as_bytes()).is_none() {
            return;
        }
        for (start, end) in url::passwords(text.as_bytes()) {
            let password = &text[start..end];
            self.add("url-password", password);
            if let Some(plain) = percent_decoded(password) {
                self.add("url-password", &plain);
            }
        }
    }

    /// Whether a mark holds a known value where its kind should be.
    ///
    /// Kinds that are really given do not count, also when somebody's password is such a word.
    pub(super) fn is_in_mark(&self, mark: &[u8]) -> bool {
        let (inside, kind) = mark::inside(mark);
        let is_given = finding::is_rule_kind(kind)
            || self
                .values
                .iter()
                .any(|(given, _)| given.as_bytes() == kind);
        let mut findings = Vec::new();
        if !is_given {
            self.find(inside, &mut findings);
        }
        !findings.is_empty()
    }

    /// Finds every form of every known value.
    pub(super) fn find<'s>(&'s self, text: &[u8], findings: &mut Vec<FoundSecret<'s>>) {
        if self.values.is_empty() {
            return;
        }
        let index = self.index.get_or_init(|| Index::new(&self.values));
        let mut window = 0;
        for (at, byte) in text.iter().enumerate() {
            window = window << 8 | u32::from(*byte);
            if index.may_start(window) && at >= 3 {
                index.compare(text, at - 3, window, |form, start, end| {
                    let kind = &self.values[form.value].0;
                    findings.push(FoundSecret::new(start, end, kind, Rank::Known));
                });
            }
        }
    }
}

/// Passwords of examples and defaults: redacting them would hide ordinary words.
#[rustfmt::skip]
const ORDINARY: &[&str] = &[
    "password", "passw0rd", "postgres", "changeme", "localhost", "development", "production",
    "username", "example.com", "anonymous", "keychain", "external", "disabled", "ssh-agent",
    "osxkeychain", "github-actions", "test-token", "dummy-key",
];

#[derive(Clone)]
struct Form {
    needle: Vec<u8>,
    /// Index of the value it comes from.
    value: usize,
    /// Base64 characters on each side that hold some bits of the value.
    ragged: (usize, usize),
    /// A plain word is found as a whole word only.
    whole_word: bool,
}

#[derive(Clone)]
struct Index {
    bitmap: Box<[u64; BITMAP_WORDS]>,
    /// Sorted by the first four bytes.
    forms: Vec<(u32, Form)>,
}

impl Index {
    fn new(values: &[(String, Vec<u8>)]) -> Self {
        let mut forms = Vec::new();
        for (value, (_, secret)) in values.iter().enumerate() {
            add_forms(&mut forms, value, secret);
        }
        forms.sort_by_key(|(head, _)| *head);
        let mut bitmap = Box::new([0; BITMAP_WORDS]);
        for (head, _) in &forms {
            let slot = slot(*head);
            bitmap[slot / 64] |= 1 << (slot % 64);
        }
        Self { bitmap, forms }
    }

    fn may_start(&self, window: u32) -> bool {
        let slot = slot(window);
        self.bitmap[slot / 64] >> (slot % 64) & 1 == 1
    }

    fn compare(
        &self,
        text: &[u8],
        start: usize,
        head: u32,
        mut hit: impl FnMut(&Form, usize, usize),
    ) {
        let first = self.forms.partition_point(|(other, _)| *other < head);
        let candidates = self.forms[first..]
            .iter()
            .take_while(|(other, _)| *other == head);
        for (_, form) in candidates {
            let end = start + form.needle.len();
            let stands = text[start..].starts_with(&form.needle);
            if stands && (!form.whole_word || is_whole_word(text, start, end)) {
                let (before, after) = form.ragged;
                let (start, end) = with_ragged_ends(text, start, end, before, after);
                hit(form, start, end);
            }
        }
    }
}

fn slot(window: u32) -> usize {
    (window.wrapping_mul(0x9E37_79B1) >> (32 - BITMAP_BITS)) as usize
}

fn is_whole_word(text: &[u8], start: usize, end: usize) -> bool {
    let is_letter = |at: Option<usize>| {
        at.and_then(|at| text.get(at))
            .is_some_and(u8::is_ascii_alphanumeric)
    };
    !is_letter(start.checked_sub(1)) && !is_letter(Some(end))
}

/// Takes in the base64 characters that the value shares with its neighbours, and the padding.
fn with_ragged_ends(
    text: &[u8],
    start: usize,
    end: usize,
    before: usize,
    after: usize,
) -> (usize, usize) {
    let in_base64 = |b: &u8| b.is_ascii_alphanumeric() || b"+/-_".contains(b);
    let before = text[..start]
        .iter()
        .rev()
        .take(before)
        .take_while(|b| in_base64(b))
        .count();
    let after = text[end..]
        .iter()
        .take(after)
        .take_while(|b| in_base64(b))
        .count();
    let is_encoded = before + after > 0;
    let padding = text[end + after..]
        .iter()
        .take(2)
        .take_while(|b| **b == b'=')
        .count();
    (
        start - before,
        end + after + if is_encoded { padding } else { 0 },
    )
}

fn add_forms(forms: &mut Vec<(u32, Form)>, value: usize, secret: &[u8]) {
    let first = forms.len();
    let mut add = |needle: Vec<u8>, ragged: (usize, usize), whole_word: bool| {
        let is_there = forms[first..]
            .iter()
            .any(|(_, form): &(u32, Form)| form.needle == needle);
        if needle.len() >= LEN_MIN && !is_there {
            let head = u32::from_be_bytes([needle[0], needle[1], needle[2], needle[3]]);
            forms.push((
                head,
                Form {
                    needle,
                    value,
                    ragged,
                    whole_word,
                },
            ));
        }
    };
    add(secret.to_vec(), (0, 0), value::is_word(secret));
    add(hex(secret, b"0123456789abcdef"), (0, 0), false);
    add(hex(secret, b"0123456789ABCDEF"), (0, 0), false);
    add(percent_encoded(secret, b"0123456789ABCDEF"), (0, 0), false);
    add(percent_encoded(secret, b"0123456789abcdef"), (0, 0), false);
    add(json_escaped(secret), (0, 0), false);
    for shift in 0..3 {
        add(
            base64_core(&STANDARD_NO_PAD, secret, shift),
            ragged(secret, shift),
            false,
        );
        add(
            base64_core(&URL_SAFE_NO_PAD, secret, shift),
            ragged(secret, shift),
            false,
        );
    }
}

/// The base64 characters that hold nothing but bits of `secret`, when it starts at a byte
/// `shift` (mod 3) of what was encoded.
fn base64_core(engine: &impl base64::Engine, secret: &[u8], shift: usize) -> Vec<u8> {
    let mut shifted = vec![0; shift];
    shifted.extend_from_slice(secret);
    let encoded = engine.encode(&shifted).into_bytes();
    let whole = shifted.len() * 8 / 6;
    let skipped = (shift * 8).div_ceil(6);
    encoded[skipped..whole].to_vec()
}

fn ragged(secret: &[u8], shift: usize) -> (usize, usize) {
    (
        usize::from(shift > 0),
        usize::from(!(secret.len() + shift).is_multiple_of(3)),
    )
}

fn hex(bytes: &[u8], digits: &[u8; 16]) -> Vec<u8> {
    bytes.iter().flat_map(|b| hex_pair(*b, digits)).collect()
}

fn hex_pair(byte: u8, digits: &[u8; 16]) -> [u8; 2] {
    [
        digits[usize::from(byte >> 4)],
        digits[usize::from(byte & 15)],
    ]
}

fn percent_encoded(bytes: &[u8], digits: &[u8; 16]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() * 2);
    for byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) {
            out.push(*byte);
        } else {
            out.push(b'%');
            out.extend_from_slice(&hex_pair(*byte, digits));
        }
    }
    out
}

fn percent_decoded(text: &str) -> Option<String> {
    if !text.contains('%') {
        return None;
    }
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let pair = tail
            .get(..2)
            .filter(|_| *first == b'%')
            .and_then(|d| std::str::from_utf8(d).ok());
        match pair.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                rest = &tail[2..];
            }
            None => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8(out).ok()
}

fn json_escaped(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            _ => out.push(*byte),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;

    use super::*;

    #[test]
    fn a_base64_core_is_part_of_every_encoding_around_it() {
        let secret = b"Zx81kQp02m";
        for shift in 0..3 {
            let core = base64_core(&STANDARD_NO_PAD, secret, shift);
            let around = [b"xyzab".get(..3 + shift).unwrap(), secret, b"tail"].concat();
            let encoded = STANDARD_NO_PAD.encode(around);
            assert!(
                encoded.contains(std::str::from_utf8(&core).unwrap()),
                "{shift}"
            );
        }
    }

    #[test]
    fn percent_forms_go_both_ways() {
        assert_eq!(percent_encoded(b"a b/c", b"0123456789ABCDEF"), b"a%20b%2Fc");
        assert_eq!(percent_decoded("a%20b%2Fc%"), Some("a b/c%".to_owned()));
        assert_eq!(percent_decoded("plain"), None);
    }

    #[test]
    fn short_and_ordinary_values_are_left_out() {
        let mut known = KnownSecrets::default();
        known.add("x", "seven77");
        for value in [
            "postgres",
            "12345678",
            "/run/secrets/db",
            "********",
            "$OTHER_TOKEN",
        ] {
            known.add_variable(value);
        }
        assert!(known.values.is_empty());
    }
}
