//! Where a token of a published format begins and ends, and whose it is.

use memchr::memmem;

use super::checksum::has_github_checksum;
use super::formats::Alphabet::{self, Alphanumeric, Base64, Upper, Url, Wide};
use super::formats::{FORMATS, Infix, KEY_LEN_MAX, SecretFormat, Trust, is_in, starts_word};
use super::value;

const HEAD_LEN: usize = 256;
const FOLD_LEN_MIN: usize = 64;

/// End of the n-th format's token that starts at `start`, where its prefix stands.
pub(super) fn token_end(text: &[u8], start: usize, format: &SecretFormat) -> Option<usize> {
    if format.trust != Trust::Prefix && !starts_word(text, start) {
        return None;
    }
    let body_start = start + format.prefix.len();
    let rest = &text[body_start..];
    // Judged by a bounded head, so that a run that is no token costs little wherever it is tried.
    let head = run(&rest[..rest.len().min(HEAD_LEN)], format.alphabet);
    if head.len() < format.len_min || (is_id(format) && head.len() != format.len_min) {
        return None;
    }
    // Of `AKIAZZZZ…` the prefix says enough; crossed out it is a placeholder.
    let is_crossed_out =
        || format.trust == Trust::Random || head.iter().all(|b| b"xX*0.-_".contains(b));
    let is_placeholder = value::is_monotonous(head)
        && !has_github_checksum(head)
        && (format.prefix.len() < 4 || is_crossed_out())
        || value::is_dummy(head);
    let is_prose = format.trust == Trust::Random && !value::is_token_body(head);
    let is_token = !is_placeholder && !is_prose;
    // Two tokens of a kind may stand side by side.
    let prefix = format.prefix.as_bytes();
    let behind = &rest[format.len_min..rest.len().min(head.len() + prefix.len())];
    let next = memmem::find(behind, prefix).filter(|_| prefix.len() > 3);
    let len = || {
        next.map_or_else(
            || escaped_run(rest, format.alphabet),
            |at| format.len_min + at,
        )
    };
    is_token.then(|| body_start + len())
}

/// Length of a run in which the signs of base64 may be escaped: `%3D`, `\=`.
fn escaped_run(text: &[u8], alphabet: Alphabet) -> usize {
    const ESCAPES: &[&[u8]] = &[
        b"%3D", b"%3d", b"%2B", b"%2b", b"%2F", b"%2f", b"\\=", b"\\/",
    ];
    let mut len = run(text, alphabet).len();
    while matches!(alphabet, Base64 | Wide)
        && let Some(escape) = ESCAPES
            .iter()
            .find(|escape| text[len..].starts_with(escape))
    {
        len += escape.len();
        len += run(&text[len..], alphabet).len();
    }
    len
}

/// Place of the token whose literal stands at `at`.
pub(super) fn around(text: &[u8], at: usize, infix: &Infix) -> Option<(usize, usize)> {
    // Most places end here: what follows is too short.
    let (alphabet, least, _) = infix.after;
    let last = at + infix.literal.len() + least;
    if least > 0 && !text.get(last - 1).is_some_and(|b| is_in(*b, alphabet)) {
        return None;
    }
    let (alphabet, min, max) = infix.before;
    let before = text[..at]
        .iter()
        .rev()
        .take(max + 1)
        .take_while(|b| is_in(**b, alphabet))
        .count();
    let start = at - before.min(max);
    if before < min || before > max && !starts_word(text, start) {
        return None;
    }
    // Header and payload of a web token are both JSON; an escape may stand before them.
    let is_header = |at: &usize| text[*at..].starts_with(b"ey") && starts_word(text, *at);
    let start = match infix.kind {
        "jwt" => (start..=at - min).take(8).find(is_header)?,
        _ => start,
    };
    let (alphabet, min, max) = infix.after;
    let behind = &text[at + infix.literal.len()..];
    let run = behind
        .iter()
        .take(max + 1)
        .take_while(|b| is_in(**b, alphabet))
        .count();
    let after = run
        - behind[..run]
            .iter()
            .rev()
            .take_while(|b| **b == b'.')
            .count();
    let end = at + infix.literal.len() + after;
    // `my_test_…` begins many names of functions.
    let is_spoken = || {
        min >= 20
            && infix.literal.contains(['_', '-', '/', '.'])
            && !value::is_random(&text[end - after..end])
    };
    let is_token =
        (min..=max).contains(&after) && !value::is_monotonous(&text[start..end]) && !is_spoken();
    is_token.then(|| (start, end + tail_len(&text[end..], infix)))
}

/// What belongs to the token although its alphabet has ended: further groups behind `_` and `-`, and the
/// further lines of a private key.
fn tail_len(text: &[u8], infix: &Infix) -> usize {
    match infix.kind {
        "private-key" => lines_len(text),
        _ if infix.after.0 == Alphanumeric && infix.after.1 >= 20 => text
            .iter()
            .take(infix.after.2)
            .take_while(|b| is_in(**b, Url))
            .count(),
        _ => 0,
    }
}

/// Length of what follows a line of base64 that is as long as programs fold it, 64 or 76 characters.
pub(super) fn folded_len(text: &[u8], start: usize, end: usize) -> usize {
    let line = &text[start..end];
    let is_folded = line.len() >= FOLD_LEN_MIN && line.iter().all(|b| is_in(*b, Base64));
    if is_folded {
        lines_len(&text[end..])
    } else {
        0
    }
}

/// Length of the lines of base64 that follow, also behind the `\n` of a literal.
fn lines_len(text: &[u8]) -> usize {
    let mut len = 0;
    while len < KEY_LEN_MAX {
        let rest = &text[len..];
        let end = if rest.starts_with(b"\\n") {
            2
        } else {
            usize::from(rest.starts_with(b"\n"))
        };
        let margin = rest[end..]
            .iter()
            .take(32)
            .take_while(|b| matches!(b, b' ' | b'\t'))
            .count();
        let line = rest[end + margin..]
            .iter()
            .take(80)
            .take_while(|b| is_in(**b, Base64))
            .count();
        let line_end = end + margin + line;
        if end == 0 || line < 24 && !rest[..line_end].ends_with(b"=") {
            break;
        }
        len += line_end;
    }
    len
}

/// Provider of a value that is one token from end to end.
pub(super) fn kind_of(value: &[u8]) -> Option<&'static str> {
    let whole = |format: &&SecretFormat| {
        value.starts_with(format.prefix.as_bytes())
            && token_end(value, 0, format) == Some(value.len())
    };
    FORMATS.iter().find(whole).map(|format| format.kind)
}

/// Access key ids of AWS have one length; longer runs in capitals are something else.
fn is_id(format: &SecretFormat) -> bool {
    format.kind == "aws" && format.alphabet == Upper
}

fn run(text: &[u8], alphabet: Alphabet) -> &[u8] {
    let len = text.iter().take_while(|b| is_in(**b, alphabet)).count();
    let trailing = text[..len]
        .iter()
        .rev()
        .take_while(|b| matches!(b, b'.' | b'/'))
        .count();
    &text[..len - trailing]
}

#[cfg(test)]
mod tests {
    use super::super::checksum::crc32;
    use super::*;

    #[test]
    fn a_right_checksum_beats_a_monotonous_body() {
        let zeros = [b'0'; 30];
        let mut sum = [b'0'; 6];
        let digits = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
        let mut rest = crc32(&zeros) as usize;
        for slot in sum.iter_mut().rev() {
            *slot = digits[rest % 62];
            rest /= 62;
        }
        let right = [b"ghp_".as_slice(), &zeros, &sum].concat();
        let wrong = [b"ghp_".as_slice(), &zeros, b"000000"].concat();
        assert_eq!(kind_of(&right), Some("github"));
        assert_eq!(kind_of(&wrong), None);
    }
}
