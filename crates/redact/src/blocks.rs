//! Secrets that are recognised by their own shape: PEM private keys, JWTs, `Bearer xxx`,
//! `Basic xxx`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use memchr::memmem;

use super::finding::{FoundSecret, Rank};
use super::{format_match, formats, value};

const PEM_LABEL_LEN_MAX: usize = 64;
/// Keys of 16,384 bits fit.
const PEM_LEN_USUAL: usize = 16 * 1024;
const TOKEN_LEN_MAX: usize = 16 * 1024;

/// A private key whose `BEGIN` stands at `begin`; without an end it goes to the end of the text.
pub(super) fn pem(text: &[u8], begin: usize) -> Option<FoundSecret<'static>> {
    let blank = usize::from(text[..begin].ends_with(b"- "));
    let dashes = text[..begin - blank]
        .iter()
        .rev()
        .take(5)
        .take_while(|b| **b == b'-')
        .count();
    let before = dashes + blank;
    let label_end = (begin + PEM_LABEL_LEN_MAX).min(text.len());
    let label = &text[begin..label_end];
    let label_len = memmem::find(label, b"----")?;
    let is_private = [b"PRIVATE KEY".as_slice(), b"Static key"]
        .iter()
        .any(|word| memmem::find(&label[..label_len], word).is_some());
    if dashes < 4 || !is_private {
        return None;
    }
    let body = begin + label_len + 4;
    let end = pem_end(text, body)?;
    Some(FoundSecret::new(begin - before, end, "pem", Rank::Format))
}

fn pem_end(text: &[u8], body: usize) -> Option<usize> {
    let usual = &text[body..text.len().min(body + PEM_LEN_USUAL)];
    let near = memmem::find(usual, b"---END ");
    if near.is_none() && !is_key_material(&text[body..]) {
        return None;
    }
    let Some(end) = near.or_else(|| memmem::find(&text[body..], b"---END ")) else {
        return Some(text.len());
    };
    let footer = body + end + b"---END ".len();
    let footer_text = &text[footer..text.len().min(footer + PEM_LABEL_LEN_MAX)];
    let label_len = memmem::find(footer_text, b"----").unwrap_or(0);
    let dashes = text[footer + label_len..]
        .iter()
        .take(5)
        .take_while(|b| **b == b'-')
        .count();
    Some(footer + label_len + dashes)
}

/// Whether base64 follows, behind line ends, escapes, quotes and the gutters of logs.
fn is_key_material(text: &[u8]) -> bool {
    let text = &text[..text.len().min(256)];
    let in_base64 = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=');
    let longest = text
        .split(|b| !in_base64(b))
        .map(<[u8]>::len)
        .max()
        .unwrap_or(0);
    longest >= 24 || text.trim_ascii().len() < 24
}

/// A JSON web token: `eyJ…` segments between dots; a missing signature does not make it public.
pub(super) fn jwt(text: &[u8], start: usize) -> Option<FoundSecret<'static>> {
    let in_segment = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
    let is_continued = start > 0 && !formats::starts_word(text, start);
    let starts = |text: &[u8]| text.starts_with(b"eyJ") || text.starts_with(b"ewo");
    if is_continued || !starts(&text[start..]) {
        return None;
    }
    let segment_end =
        |from: usize| from + text[from..].iter().take_while(|b| in_segment(b)).count();
    let header_end = segment_end(start);
    let payload = text.get(header_end + 1..).unwrap_or_default();
    let is_token = header_end - start >= 10
        && text.get(header_end) == Some(&b'.')
        // The payload of an encrypted one starts with a key and may be empty.
        && (starts(payload) || payload.iter().take(16).all(|b| in_segment(b) || *b == b'.'));
    if !is_token || payload.len() < 8 {
        return None;
    }
    let mut end = header_end;
    for _ in 0..4 {
        if text.get(end) == Some(&b'.') {
            end = segment_end(end + 1);
        }
    }
    Some(FoundSecret::new(start, end, "jwt", Rank::Format))
}

/// `Bearer xxx` and `Basic xxx`, wherever they stand.
pub(super) fn scheme(text: &[u8], start: usize) -> Option<FoundSecret<'static>> {
    let is_bearer = text[start] | 0x20 == b'b' && text[start + 1] | 0x20 == b'e';
    let word_len = if is_bearer { 6 } else { 5 };
    if start > 0 && !formats::starts_word(text, start) {
        return None;
    }
    let gap = &text[start + word_len..];
    let blanks = gap
        .iter()
        .take(4)
        .take_while(|b| matches!(b, b' ' | b'\t'))
        .count();
    let percent = if gap.starts_with(b"%20") { 3 } else { 0 };
    let from = start + word_len + blanks.max(percent);
    let token = token68(&text[from..]);
    let is_secret = if is_bearer {
        is_bearer_token(token)
    } else {
        is_basic_pair(token)
    };
    if blanks + percent == 0 || !is_secret {
        return None;
    }
    let kind = format_match::kind_of(token).unwrap_or(if is_bearer { "bearer" } else { "basic" });
    Some(FoundSecret::new(
        from,
        from + token.len(),
        kind,
        Rank::Context,
    ))
}

fn token68(text: &[u8]) -> &[u8] {
    let in_token = |b: &u8| b.is_ascii_alphanumeric() || b"-._~+/=".contains(b);
    let len = text
        .iter()
        .take(TOKEN_LEN_MAX)
        .take_while(|b| in_token(b))
        .count();
    let dots = text[..len].iter().rev().take_while(|b| **b == b'.').count();
    &text[..len - dots]
}

/// `Bearer authentication` is prose: a token has digits or is long.
fn is_bearer_token(token: &[u8]) -> bool {
    let has_digit = token.iter().any(u8::is_ascii_digit);
    let is_spoken = value::is_placeholder(token) || value::is_word(token) && token.len() < 20;
    token.len() >= 6 && !is_spoken && (has_digit || token.len() >= 20)
}

fn is_basic_pair(token: &[u8]) -> bool {
    let unpadded = token.trim_ascii_end().strip_suffix(b"==").unwrap_or(token);
    let unpadded = unpadded.strip_suffix(b"=").unwrap_or(unpadded);
    token.len() >= 6
        && STANDARD_NO_PAD.decode(unpadded).is_ok_and(|plain| {
            plain.contains(&b':') && plain.iter().all(|b| (b' '..0x7f).contains(b))
        })
}
