//! What a value looks like by itself: a placeholder, a number, a word, code, or random.
//!
//! Judges shapes only; whether the place makes it a secret is the caller's business.

use super::mark;
use super::names::{self, KeyName};

/// Longer values are looked at no further: they are not placeholders, and work stays bounded.
const PLACEHOLDER_LEN_MAX: usize = 256;

/// A stand-in for a value that is elsewhere: `$VAR`, `<token>`, `***`, `null`, a mark.
pub(super) fn is_placeholder(value: &[u8]) -> bool {
    let is_short = value.len() <= PLACEHOLDER_LEN_MAX;
    value.is_empty()
        || is_short && (is_variable(value) || is_enclosed(value) || is_monotonous(value))
        || is_stop_word(value)
        || mark::mark_len(value) == Some(value.len())
}

fn is_variable(value: &[u8]) -> bool {
    let in_name = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b':');
    match value {
        [b'$', b'{' | b'(', first, ..] => first.is_ascii_alphabetic() || b"_{".contains(first),
        [b'$', b'{' | b'('] => true,
        [b'$', first, rest @ ..] => {
            (first.is_ascii_alphabetic() || *first == b'_') && rest.iter().all(in_name)
        }
        [b'%', inner @ .., b'%'] => inner.iter().all(in_name),
        _ => false,
    }
}

fn is_enclosed(value: &[u8]) -> bool {
    let is_plain = |inner: &[u8]| {
        inner.iter().all(|b| b.is_ascii_alphabetic() || matches!(b, b' ' | b'_' | b'-' | b'.'))
    };
    match value {
        [b'<', inner @ .., b'>'] | [b'[', inner @ .., b']'] | [b'(', inner @ .., b')'] => {
            is_plain(inner)
        }
        [b'{', inner @ .., b'}'] => {
            let inner = inner.strip_prefix(b"{").unwrap_or(inner);
            is_plain(inner.strip_suffix(b"}").unwrap_or(inner))
        }
        _ => false,
    }
}

/// Hardly any different characters: `********`, `xxxx-xxxx`, `....`.
pub(super) fn is_monotonous(value: &[u8]) -> bool {
    let starts_with_digit = value.first().is_some_and(u8::is_ascii_digit);
    let distinct = distinct(&value[..value.len().min(PLACEHOLDER_LEN_MAX)]);
    match value.len() {
        0..3 => !value.iter().any(u8::is_ascii_alphanumeric) && value.is_ascii(),
        3..8 => distinct == 1 && !starts_with_digit,
        8..16 => distinct <= 2 && !starts_with_digit,
        _ => distinct <= 3,
    }
}

fn is_stop_word(value: &[u8]) -> bool {
    STOP_WORDS.iter().any(|word| value.eq_ignore_ascii_case(word.as_bytes()))
}

/// Words that stand in the place of a secret and are none.
#[rustfmt::skip]
const STOP_WORDS: &[&str] = &[
    "null", "none", "nil", "undefined", "true", "false", "yes", "no", "on", "off", "empty",
    "unset", "not", "missing", "required", "optional", "invalid", "expired", "revoked",
    "rotated", "enabled", "disabled", "redacted", "hidden", "masked", "unknown", "default",
    "any", "basic", "bearer", "oauth", "oauth2", "jwt", "digest", "string", "str", "&str",
    "bytes", "int", "integer", "bool", "boolean", "number", "object", "secretstring", "self",
    "ok", "todo", "await", "new", "tbd", "n/a", "include", "same-origin", "omit", "write",
    "read",
];

/// A plain number, with what people put into numbers.
pub(super) fn is_number(value: &[u8]) -> bool {
    let digits = value.iter().filter(|b| b.is_ascii_digit()).count();
    digits > 0
        && value
            .iter()
            .all(|b| b.is_ascii_digit() || matches!(b, b'.' | b',' | b'_' | b'%' | b'-' | b'+'))
}

/// A path in a file system, written as people write them.
pub(super) fn is_path(value: &[u8]) -> bool {
    let rooted =
        [b"/".as_slice(), b"./", b"../", b"~/", b"file:"].iter().any(|r| value.starts_with(r));
    let in_path = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"/._-~:".contains(b);
    let slashes = value.iter().filter(|b| **b == b'/').count();
    if value.len() > PLACEHOLDER_LEN_MAX {
        return false;
    }
    rooted && slashes >= 1 && value.iter().all(in_path) && longest_digit_run(value) < 8
        || rooted && slashes >= 2 && looks_spoken(value)
}

/// Letters only: a word or an identifier without digits.
pub(super) fn is_word(value: &[u8]) -> bool {
    value.len() <= 24
        && value.iter().all(|b| b.is_ascii_alphabetic() || matches!(b, b'-' | b'_' | b'\''))
}

/// An expression of a program: a call, a path of names, a type, a name of a secret.
pub(super) fn is_code(value: &[u8]) -> bool {
    let in_ident =
        |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b':' | b'&' | b'?' | b'!');
    let ident_len = value.iter().take_while(|b| in_ident(b)).count();
    let (ident, rest) = value.split_at(ident_len);
    let starts_like_name =
        ident.first().is_some_and(|b| b.is_ascii_alphabetic() || matches!(b, b'_' | b'&'));
    if value.len() > PLACEHOLDER_LEN_MAX
        || !starts_like_name
        || ident.iter().filter(|b| b.is_ascii_digit()).count() > 3
    {
        return false;
    }
    let opens = matches!(rest.first(), Some(b'(' | b'[' | b'<' | b'{'));
    let is_argument =
        rest.get(1).is_none_or(|b| b.is_ascii_alphabetic() || b"\"'&_)]>".contains(b));
    let has_word = longest_run(ident, u8::is_ascii_alphabetic) >= 3;
    let is_call = opens && is_argument && has_word && looks_spoken(ident);
    let is_path = ident.windows(2).any(|pair| pair == b"::");
    let is_reference = ident[0] == b'&' && looks_spoken(ident);
    is_call || (rest.is_empty() && (is_path || is_reference || names_a_secret(ident)))
}

/// `password`, `self.token`, `args.api_key`: a name of a secret is not the secret.
fn names_a_secret(ident: &[u8]) -> bool {
    let is_dotted = |b: &u8| b.is_ascii_alphabetic() || matches!(b, b'_' | b'.');
    ident.iter().all(is_dotted) && names::judge(ident) != KeyName::Plain
}

/// Lower-case or upper-case words, no digit soup: nothing that a generator would make.
fn looks_spoken(value: &[u8]) -> bool {
    !is_random(value) && longest_digit_run(value) < 8
}

fn longest_digit_run(value: &[u8]) -> usize {
    longest_run(value, u8::is_ascii_digit)
}

fn longest_run(value: &[u8], is_in: fn(&u8) -> bool) -> usize {
    value.split(|b| !is_in(b)).map(<[u8]>::len).max().unwrap_or(0)
}

/// Whether a string looks made by a generator: letters and digits well mixed.
///
/// Hashes and ids look so too: only to be asked where the context speaks of secrets.
pub(super) fn is_random(value: &[u8]) -> bool {
    let value = &value[..value.len().min(256)];
    let digits = value.iter().filter(|b| b.is_ascii_digit()).count();
    let letters = value.iter().filter(|b| b.is_ascii_alphabetic()).count();
    let changes = value.windows(2).filter(|pair| class(pair[0]) != class(pair[1])).count();
    value.len() >= 16
        && digits >= 2
        && letters >= 2
        && distinct(value) >= 9
        && changes * 5 >= value.len()
}

fn class(byte: u8) -> u8 {
    match byte {
        b'0'..=b'9' => 0,
        b'a'..=b'z' => 1,
        b'A'..=b'Z' => 2,
        _ => 3,
    }
}

fn distinct(value: &[u8]) -> u32 {
    let mut seen = [0u64; 4];
    for byte in value {
        seen[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }
    seen.iter().map(|word| word.count_ones()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(judge: fn(&[u8]) -> bool, values: &[&str]) {
        for value in values {
            assert!(judge(value.as_bytes()), "{value}");
        }
    }

    fn none(judge: fn(&[u8]) -> bool, values: &[&str]) {
        for value in values {
            assert!(!judge(value.as_bytes()), "{value}");
        }
    }

    #[test]
    fn placeholders() {
        all(is_placeholder, &["", "$VAR", "${VAR}", "$(cat x)", "<token>", "<your-token>", "***"]);
        all(
            is_placeholder,
            &["{{ token }}", "%TOKEN%", "null", "None", "true", "xxxxxxxx", "[REDACTED]"],
        );
        all(is_placeholder, &["[redacted:env:0123abcd]"]);
        none(
            is_placeholder,
            &["hunter2", "$2b$12$abc", "<h4x0r>", "12345678", "11111111", "nullable1"],
        );
    }

    #[test]
    fn code() {
        all(
            is_code,
            &["get_token()", "os.environ[", "std::env::var", "&str", "self.token", "password"],
        );
        all(is_code, &["Option<String>", "&mut", "args.api_key", "parser.next_token()"]);
        none(is_code, &["hunter2", "letmein", "aB3(x9", "p4ssw0rd", "9f(", "correcthorse"]);
    }

    #[test]
    fn random() {
        all(
            is_random,
            &["dGhpc0lzQVRlc3Q0Mg", "9f86d081884c7d659a2feaa0c55ad015", "Zx81kQp02mVnB7sT"],
        );
        none(
            is_random,
            &["understanding", "cargo-nextest-runner-2", "aaaaaaaaaaaaaaaaaaaa", "hunter2"],
        );
    }

    #[test]
    fn paths() {
        all(is_path, &["/run/secrets/db", "./token.txt", "~/.ssh/id_ed25519", "/home/Ann/Keys"]);
        none(is_path, &["/aB3dE5fG7hI9jK1lM3nO5", "hunter2/x"]);
    }

    #[test]
    fn numbers() {
        all(is_number, &["1234", "1,234", "12.5", "-3", "98%"]);
        none(is_number, &["", "12a", ".", "1e"]);
    }
}
