//! The mark that stands where a secret stood: `[redacted:KIND:xxxxxxxx]`.
//!
//! The digits are a keyed hash, so equal secrets stay comparable inside one installation and
//! say nothing to somebody without the key.

use std::fmt;

use memchr::memmem;

/// Key of the hash inside the marks; one per installation, given by the caller.
#[derive(Clone)]
pub struct MarkKey([u8; 32]);

impl MarkKey {
    /// Takes 32 random bytes.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Appends the mark of `secret` to `out`.
    pub(super) fn write_mark(&self, out: &mut Vec<u8>, kind: &str, secret: &[u8]) {
        let hex = blake3::keyed_hash(&self.0, secret).to_hex();
        out.extend_from_slice(OPENING);
        out.extend_from_slice(kind.as_bytes());
        out.push(b':');
        out.extend_from_slice(&hex.as_bytes()[..HASH_DIGITS]);
        out.push(b']');
    }
}

impl fmt::Debug for MarkKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MarkKey(..)")
    }
}

const OPENING: &[u8] = b"[redacted:";
const HASH_DIGITS: usize = 8;
const KIND_LEN_MAX: usize = 24;

/// A kind as it may stand in a mark: short, lower-case, no character that means something there.
pub(super) fn clean_kind(kind: &str) -> String {
    let clean = |c: char| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_lowercase()
        } else {
            '-'
        }
    };
    let kind: String = kind.chars().take(KIND_LEN_MAX).map(clean).collect();
    if kind.is_empty() {
        "known".to_owned()
    } else {
        kind
    }
}

/// The marks in a text, as `start..end`, in order.
pub(super) fn marks(text: &[u8]) -> Vec<(usize, usize)> {
    if memchr::memchr(OPENING[0], text).is_none() {
        return Vec::new();
    }
    memmem::find_iter(text, OPENING)
        .filter_map(|start| mark_len(&text[start..]).map(|len| (start, start + len)))
        .collect()
}

/// The largest place up to `end` at which a text can be cut: between characters, and not inside a mark, for
/// half of one is taken for a secret.
pub fn floor_mark_boundary(text: &str, end: usize) -> usize {
    let end = text.floor_char_boundary(end);
    let marks = marks(text.as_bytes()).into_iter();
    let mut around = marks.filter(|(start, after)| *start < end && end < *after);
    around.next().map_or(end, |(start, _)| start)
}

/// What a mark says, `KIND:xxxxxxxx`, and its kind alone.
pub(super) fn inside(mark: &[u8]) -> (&[u8], &[u8]) {
    let inside = &mark[OPENING.len()..mark.len() - 1];
    (inside, &inside[..inside.len() - HASH_DIGITS - 1])
}

/// Length of the mark at the start of `text`, if one stands there.
pub(super) fn mark_len(text: &[u8]) -> Option<usize> {
    let rest = text.strip_prefix(OPENING)?;
    let in_kind = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-';
    let kind_len = rest
        .iter()
        .take(KIND_LEN_MAX + 1)
        .take_while(|b| in_kind(b))
        .count();
    let hash = rest[kind_len..].strip_prefix(b":")?;
    let in_hash = |b: &u8| b.is_ascii_digit() || (b'a'..=b'f').contains(b);
    let digits = hash
        .iter()
        .take(HASH_DIGITS)
        .take_while(|b| in_hash(b))
        .count();
    let whole = (1..=KIND_LEN_MAX).contains(&kind_len)
        && digits == HASH_DIGITS
        && hash.get(HASH_DIGITS) == Some(&b']');
    whole.then_some(OPENING.len() + kind_len + 1 + HASH_DIGITS + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_mark_is_recognised_whole() {
        let mut out = Vec::new();
        MarkKey::new([7; 32]).write_mark(&mut out, "github", b"something");
        assert_eq!(mark_len(&out), Some(out.len()));
        assert_eq!(marks(&out), [(0, out.len())]);
        assert_eq!(inside(&out).1, b"github");
    }

    #[test]
    fn a_text_is_not_cut_inside_a_mark() {
        let text = "ä [redacted:x:12345678] b";
        let cuts = [0, 1, 2, 3, 4, 22, 23, 24, 99].map(|end| floor_mark_boundary(text, end));
        assert_eq!(cuts, [0, 0, 2, 3, 3, 3, 3, 24, text.len()]);
    }

    #[test]
    fn what_only_resembles_a_mark_is_none() {
        for text in [
            "[redacted:]",
            "[redacted:x:]",
            "[redacted:X:12345678]",
            "[redacted:x:1234567",
        ] {
            assert_eq!(mark_len(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn kinds_are_cleaned() {
        assert_eq!(clean_kind("My Kind]"), "my-kind-");
        assert_eq!(clean_kind(""), "known");
    }

    #[test]
    fn the_key_is_not_printed() {
        assert_eq!(format!("{:?}", MarkKey::new([1; 32])), "MarkKey(..)");
    }
}
