//! What a value looks like by itself: a placeholder, a number, a word, code, or random.
//!
//! Judges shapes only; whether the place makes it a secret is the caller's business.

use super::mark;
use super::names::{self, KeyName};

/// Longer values are looked at no further: they are not placeholders, and work stays bounded.
const PLACEHOLDER_LEN_MAX: usize = 256;
const DUMMY_LEN_MAX: usize = 64;

/// What stands where a text was shortened.
const ELLIPSIS: &[u8] = "…".as_bytes();

/// A stand-in for a value that is elsewhere: `$VAR`, `<token>`, `***`, `…`, `null`, a mark. A text may have been
/// shortened after it.
pub(super) fn is_placeholder(value: &[u8]) -> bool {
    let value = value.strip_suffix(ELLIPSIS).unwrap_or(value);
    let is_short = value.len() <= PLACEHOLDER_LEN_MAX;
    value.is_empty()
        || is_short && (is_variable(value) || is_enclosed(value) || is_monotonous(value))
        || STOP_WORDS
            .iter()
            .any(|word| value.eq_ignore_ascii_case(word.as_bytes()))
        || is_short && is_dummy(value)
        || mark::mark_len(value) == Some(value.len())
}

fn is_variable(value: &[u8]) -> bool {
    let in_name = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b':');
    match value {
        [b'$', b'{' | b'(', first, ..] => first.is_ascii_alphabetic() || b"_{".contains(first),
        [b'$', b'{' | b'('] => true,
        [b'$', first, rest @ ..] => {
            (first.is_ascii_alphabetic() || *first == b'_')
                && rest.iter().all(in_name)
                && !(value.len() >= 24 && is_random(rest))
        }
        [b'%', inner @ .., b'%'] => inner.iter().all(in_name),
        [b'%', verb] => verb.is_ascii_lowercase(),
        // `!Ref`, `!vault`: a tag of YAML.
        [b'!', first, rest @ ..] if first.is_ascii_alphabetic() => {
            rest.iter().all(u8::is_ascii_alphabetic)
        }
        _ => false,
    }
}

fn is_enclosed(value: &[u8]) -> bool {
    let is_plain = |inner: &[u8]| {
        inner
            .iter()
            .all(|b| b.is_ascii_alphabetic() || matches!(b, b' ' | b'_' | b'-' | b'.'))
    };
    match value {
        [b'{', b'{', .., b'}', b'}'] | [b'<', b'%', .., b'%', b'>'] | [b'#', b'{', .., b'}'] => {
            true
        }
        [b'<', inner @ .., b'>'] | [b'[', inner @ .., b']'] | [b'(', inner @ .., b')'] => {
            is_plain(inner)
        }
        [b'{', inner @ .., b'}'] => {
            // `{token:?}`, `{0}`: a value is put in later.
            let name = inner.split(|b| *b == b':').next().unwrap_or(inner);
            is_plain(name) || name.iter().all(u8::is_ascii_digit)
        }
        _ => false,
    }
}

/// Hardly any different characters: `********`, `xxxx-xxxx`, `....`.
pub(super) fn is_monotonous(value: &[u8]) -> bool {
    let starts_with_digit = value.first().is_some_and(u8::is_ascii_digit);
    let distinct = distinct(&value[..value.len().min(PLACEHOLDER_LEN_MAX)]);
    // `sk-xxxxxxxxxxxxxxxx`.
    let body = value.rsplit(|b| b"_-.".contains(b)).next().unwrap_or(value);
    let is_crossed_out = body.iter().all(|b| b"xX*".contains(b)) || body.iter().all(|b| *b == b'0');
    if body.len() >= 16 && is_crossed_out {
        return true;
    }
    match value.len() {
        0..3 => !value.iter().any(u8::is_ascii_alphanumeric) && value.is_ascii(),
        3..8 => distinct == 1 && !starts_with_digit,
        8..16 => distinct <= 2 && !starts_with_digit,
        _ => distinct <= 3,
    }
}

/// What people write where the reader has to put something in: `changeme`, `your_api_key_here`.
pub(super) fn is_dummy(value: &[u8]) -> bool {
    const WHOLE: &[&str] = &[
        "changeme",
        "changeit",
        "changethis",
        "changemeplease",
        "placeholder",
        "example",
        "dummy",
        "replaceme",
        "fillmein",
        "notset",
        "inherit",
        "redacted",
        "insecure",
        "stringvalue",
    ];
    const ENDS: &[&str] = &[
        "key",
        "token",
        "password",
        "secret",
        "here",
        "passwd",
        "pwd",
        "passphrase",
    ];
    const ASKS: &[&str] = &[
        "your",
        "replace",
        "insert",
        "placeholder",
        "example",
        "dummy",
        "fake",
    ];
    let inner = value.strip_prefix(b"<").unwrap_or(value);
    let inner = inner.strip_suffix(b">").unwrap_or(inner);
    let mut parts = inner.split(|b| b"_- .".contains(b));
    let is_any = |words: &[&str], part: &[u8]| {
        words
            .iter()
            .any(|word| part.eq_ignore_ascii_case(word.as_bytes()))
    };
    let is_short = value.len() <= DUMMY_LEN_MAX;
    if is_short
        && parts.clone().any(|part| is_any(ASKS, part))
        && parts.clone().any(|part| is_any(ENDS, part))
    {
        return true;
    }
    if !parts.all(|part| part.iter().all(u8::is_ascii_alphabetic)) {
        return false;
    }
    let word: Vec<u8> = inner
        .iter()
        .filter(|b| b.is_ascii_alphabetic())
        .map(u8::to_ascii_lowercase)
        .collect();
    let asks = [b"your".as_slice(), b"insert", b"enter", b"replace"];
    WHOLE.iter().any(|whole| word == whole.as_bytes())
        || asks.iter().any(|start| word.starts_with(start))
            && ENDS.iter().any(|end| word.ends_with(end.as_bytes()))
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
    "read", "inherit", "nullptr", "void", "passed", "failed", "sent", "found",
];

/// `API_KEY`, and among tokens `initial-access-token`: what a secret is called, and not the secret.
pub(super) fn is_name_of_secret(value: &[u8], is_token: bool) -> bool {
    let is_constant = value
        .iter()
        .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || *b == b'_');
    let is_words = value
        .iter()
        .all(|b| b.is_ascii_lowercase() || matches!(b, b'_' | b'-'));
    let is_joined = value.iter().any(|b| matches!(b, b'_' | b'-'));
    let is_name = is_joined && (is_constant || is_token && is_words);
    is_name && value.len() <= 48 && names::judge(value) != KeyName::Plain
}

/// A plain number, with what people put into numbers.
pub(super) fn is_number(value: &[u8]) -> bool {
    let digits = value.iter().filter(|b| b.is_ascii_digit()).count();
    let hex = value.strip_prefix(b"0x").unwrap_or_default();
    if (1..=8).contains(&hex.len()) && hex.iter().all(u8::is_ascii_hexdigit) {
        return true;
    }
    digits > 0
        && value
            .iter()
            .all(|b| b.is_ascii_digit() || matches!(b, b'.' | b',' | b'_' | b'%' | b'-' | b'+'))
}

/// A path in a file system, written as people write them.
pub(super) fn is_path(value: &[u8]) -> bool {
    let rooted = [b"/".as_slice(), b"./", b"../", b"~/", b"file:"]
        .iter()
        .any(|r| value.starts_with(r));
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
        && !is_letter_salad(value)
        && value
            .iter()
            .all(|b| b.is_ascii_alphabetic() || matches!(b, b'-' | b'_' | b'\''))
}

/// Letters of both cases in no order, shorter than `is_scrambled` asks for. `parseJSONFromURL` has longer
/// runs of both.
pub(super) fn is_letter_salad(value: &[u8]) -> bool {
    let is_pair = |pair: &&[u8]| pair.iter().all(u8::is_ascii_uppercase);
    let pairs = value.windows(2).filter(is_pair).count();
    value.len() >= 12 && pairs >= 2 && changes(value) * 5 >= value.len() * 2
}

/// An expression of a program: a call, a path of names, a type, a name of a secret.
pub(super) fn is_code(value: &[u8]) -> bool {
    let in_ident =
        |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b':' | b'&' | b'?' | b'!');
    let ident_len = value.iter().take_while(|b| in_ident(b)).count();
    let (ident, rest) = value.split_at(ident_len);
    let starts_like_name = ident
        .first()
        .is_some_and(|b| b.is_ascii_alphabetic() || matches!(b, b'_' | b'&'));
    if is_type(value) || is_notation(value) {
        return true;
    }
    let opens = matches!(rest.first(), Some(b'(' | b'[' | b'<' | b'{'));
    if value.len() > PLACEHOLDER_LEN_MAX
        || !starts_like_name
        || ident.iter().filter(|b| b.is_ascii_digit()).count() > 3
    {
        return false;
    }
    let is_argument = ident.ends_with(b"!")
        || rest
            .get(1)
            .is_none_or(|b| b.is_ascii_alphanumeric() || b"\"'`&_([{)]}>#*/|".contains(b));
    let has_word = longest_run(ident, u8::is_ascii_alphabetic) >= 3 || ident == b"Ok";
    let is_call = opens && is_argument && has_word && looks_spoken(ident);
    let is_path = ident.windows(2).any(|pair| pair == b"::");
    let is_reference = ident[0] == b'&' && looks_spoken(ident);
    is_call
        || rest.is_empty() && (is_path || is_reference || names_a_secret(ident) || is_member(ident))
}

/// `(name, value) => x`, `|name| x`, `*name`, `!request.auth`, `{"a": 1}`, `/^[a-z]+$/`, `1*tchar`: what begins a function, a
/// condition, a map, a regular expression or a rule of a grammar.
fn is_notation(value: &[u8]) -> bool {
    let in_name = |b: &u8| b.is_ascii_alphabetic() || matches!(b, b'_' | b'.');
    match value {
        [b'(', name @ ..] => {
            let name = name.strip_prefix(b"*").unwrap_or(name);
            let name = name.split(|b| *b == b')').next().unwrap_or(name);
            let digits = name.iter().rev().take_while(|b| b.is_ascii_digit()).count();
            digits <= 2 && name.first().is_some_and(in_name) && {
                name[..name.len() - digits].iter().all(in_name)
            }
        }
        [b'!', b'(', name @ ..] => name.iter().take(3).all(in_name),
        [b'!', name @ ..] => is_member(name) || name.ends_with(b")") && is_code(name),
        // `*node` of a pointer or of YAML, `|token: &str|` of a function.
        [b'*' | b'|', name @ ..] if !name.is_empty() => {
            let name = name.strip_suffix(b":").unwrap_or(name);
            name.iter().all(in_name)
        }
        // `<<EOF`: the value stands below.
        [b'<', b'<', ..] => true,
        [b'{', b'"' | b'\'', ..] | [b'/', b'^' | b'*', ..] | [b'1', b'*', ..] => true,
        _ => false,
    }
}

/// `&[u8]`, `*mut c_int`, `<Token![:]>`, `::core::x`, `u32`: what stands behind a name in a declaration.
fn is_type(value: &[u8]) -> bool {
    const STARTS: &[&[u8]] = &[
        b"&[", b"&'", b"&<", b"*mut", b"*const", b"::", b"fn(", b"[u8", b"__u", b"Fn(", b"FnMut(",
        b"FnOnce(",
    ];
    let value = value.strip_suffix(b">").unwrap_or(value);
    let is_generic = matches!(value, [b'<', b'A'..=b'Z', rest @ ..] if rest.contains(&b'['));
    is_number_type(value) || is_generic || STARTS.iter().any(|start| value.starts_with(start))
}

/// `u32`, `uint8_t`, and a number of one, `16u32`.
fn is_number_type(value: &[u8]) -> bool {
    let value = &value[value.iter().take_while(|b| b.is_ascii_digit()).count()..];
    let letters = value.iter().take_while(|b| b.is_ascii_lowercase()).count();
    let width = value[letters..]
        .strip_suffix(b"_t")
        .unwrap_or(&value[letters..]);
    matches!(
        &value[..letters],
        b"u" | b"i" | b"f" | b"int" | b"uint" | b"float"
    ) && matches!(width, b"8" | b"16" | b"32" | b"64" | b"128")
}

/// `config.db.value`, `node?.dot2_token`: words between dots.
pub(super) fn is_member(ident: &[u8]) -> bool {
    let is_part = |part: &[u8]| {
        let part = part.strip_suffix(b"?").unwrap_or(part);
        (1..=32).contains(&part.len())
            && !part[0].is_ascii_digit()
            && part.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_')
    };
    let digits = ident.iter().filter(|b| b.is_ascii_digit()).count();
    let is_named = digits == 0 || digits == 1 && ident.contains(&b'_');
    is_named && ident.contains(&b'.') && ident.split(|b| *b == b'.').all(is_part)
}

/// `user_input`: what programs call things, and hardly anybody a password.
pub(super) fn is_snake(value: &[u8]) -> bool {
    value.len() <= 40
        && value[1..].contains(&b'_')
        && value.iter().all(|b| b.is_ascii_lowercase() || *b == b'_')
}

/// `password`, `self.token`, `args.api_key`: a name of a secret is not the secret.
fn names_a_secret(ident: &[u8]) -> bool {
    let is_dotted = |b: &u8| b.is_ascii_alphabetic() || matches!(b, b'_' | b'.');
    ident.iter().all(is_dotted) && !is_letter_salad(ident) && names::judge(ident) != KeyName::Plain
}

/// `TestLogin`, `test_login_2`, `src/login.test.ts`: what a test is called. `hunter2` is a password.
pub(super) fn is_test_name(value: &[u8]) -> bool {
    let in_name = |b: &u8| b.is_ascii_alphanumeric() || b"_-./:#[]()".contains(b);
    let digits = value.iter().filter(|b| b.is_ascii_digit()).count();
    let spoken: usize = value
        .split(|b| !b.is_ascii_lowercase())
        .map(<[u8]>::len)
        .filter(|len| *len >= 3)
        .sum();
    let is_joined = value.iter().any(|b| b"_-./:#".contains(b));
    let is_test = value.len() > 4 && value[..4].eq_ignore_ascii_case(b"test");
    value.first().is_some_and(u8::is_ascii_alphabetic)
        && value.len() <= PLACEHOLDER_LEN_MAX
        && value.iter().all(in_name)
        && (digits == 0 && is_word(value) || spoken * 2 >= value.len() && digits * 4 <= value.len())
        && (digits == 0 || is_joined || is_test)
}

/// Lower-case or upper-case words, no digit soup: nothing that a generator would make.
fn looks_spoken(value: &[u8]) -> bool {
    !is_random(value) && longest_digit_run(value) < 8
}

fn longest_digit_run(value: &[u8]) -> usize {
    longest_run(value, u8::is_ascii_digit)
}

fn longest_run(value: &[u8], is_in: fn(&u8) -> bool) -> usize {
    value
        .split(|b| !is_in(b))
        .map(<[u8]>::len)
        .max()
        .unwrap_or(0)
}

/// Whether a string looks made by a generator: letters and digits well mixed.
///
/// Hashes and ids look so too: only to be asked where the context speaks of secrets.
pub(super) fn is_random(value: &[u8]) -> bool {
    let value = &value[..value.len().min(256)];
    let digits = value.iter().filter(|b| b.is_ascii_digit()).count();
    let letters = value.iter().filter(|b| b.is_ascii_alphabetic()).count();
    value.len() >= 16
        && digits >= 2
        && letters >= 2
        && distinct(value) >= 9
        && changes(value) * 5 >= digits + letters
}

/// How often small letters, capitals and digits follow one another; signs between words do not count.
fn changes(value: &[u8]) -> usize {
    let classes = value
        .iter()
        .filter(|b| b.is_ascii_alphanumeric())
        .map(|b| class(*b));
    classes
        .clone()
        .zip(classes.skip(1))
        .filter(|(one, next)| one != next)
        .count()
}

/// Three and more words of a message: letters and the signs between them.
pub(super) fn is_sentence(value: &[u8]) -> bool {
    let in_sentence = |b: &u8| b.is_ascii_alphabetic() || b" .,:'()-".contains(b);
    value.iter().filter(|b| **b == b' ').count() >= 2 && value.iter().all(in_sentence)
}

/// Letters, digits and many signs in no order, as long as no text without words is: keys of WordPress.
pub(super) fn is_noise(value: &[u8]) -> bool {
    let signs = |b: &&u8| b.is_ascii_punctuation() && !b"_-.,/".contains(b);
    let is_printable = value.iter().all(|b| (b' '..=b'~').contains(b));
    (48..=96).contains(&value.len())
        && is_printable
        && value.iter().filter(signs).count() * 8 >= value.len()
        && value.iter().filter(|b| b.is_ascii_digit()).count() >= 2
        && longest_run(value, u8::is_ascii_alphabetic) <= 10
        && changes(value) * 4 >= value.len()
        && distinct(value) >= 28
}

/// At least 128 bits, and not counted up.
pub(super) fn is_key_bytes(bytes: &[u8]) -> bool {
    let is_counted = bytes
        .windows(2)
        .all(|pair| pair[1] == pair[0].wrapping_add(1));
    bytes.len() >= 16 && distinct(bytes) >= 12 && !is_counted
}

/// Several words as people choose them for a passphrase, and not a sentence.
pub(super) fn is_phrase(line: &[u8]) -> bool {
    const SENTENCE: &str = "
        a an the is are was be must should not see for of in to and or with your you at least from has
        have invalid required wrong missing set use this that it by on if will can may please enter
        expired incorrect empty none no changed unchanged updated successfully failed";
    let mut count = 0;
    for word in line.split(|b| *b == b' ') {
        let is_plain = (2..=16).contains(&word.len())
            && word
                .iter()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-');
        if !is_plain
            || SENTENCE
                .split_ascii_whitespace()
                .any(|other| word == other.as_bytes())
        {
            return false;
        }
        count += 1;
    }
    (3..=24).contains(&count)
}

/// Letters of both cases and digits that change as no name in camel case does; as short as passwords are.
pub(super) fn is_jumbled(value: &[u8]) -> bool {
    let classes: [fn(&u8) -> bool; 3] = [
        u8::is_ascii_uppercase,
        u8::is_ascii_lowercase,
        u8::is_ascii_digit,
    ];
    (8..=64).contains(&value.len())
        && classes.iter().all(|class| value.iter().any(class))
        && changes(value) * 5 >= value.len() * 2
}

/// Letters with digits or signs, as no plain word has them.
pub(super) fn is_generated(value: &[u8]) -> bool {
    let letters = value.iter().filter(|b| b.is_ascii_alphabetic()).count();
    let others = value
        .iter()
        .filter(|b| b.is_ascii_digit() || b"!#$%^&*+=~@".contains(b))
        .count();
    let is_pattern = [
        b"{}".as_slice(),
        b"{:",
        b"%s",
        b"://",
        b"${",
        b"{{",
        b"$(",
        b"%(",
    ]
    .iter()
    .any(|part| value.windows(part.len()).any(|window| window == *part));
    let is_mixed = letters >= 2 && others >= 1 || is_scrambled(value);
    value.len() >= 8 && is_mixed && !value.contains(&b' ') && !is_pattern
}

/// The same and as long as tokens are.
pub(super) fn is_generated_long(value: &[u8]) -> bool {
    value.len() >= 20 && is_generated(value) && !is_snake(value)
}

/// Whether a value looks like a generated token, judged by itself: for names that only hint at one.
pub(super) fn is_token(value: &[u8]) -> bool {
    let in_token = |b: &u8| b.is_ascii_alphanumeric() || b"_-+/=.:~%|".contains(b);
    let has_upper = value.iter().any(u8::is_ascii_uppercase);
    // Paths, names of files and hosts, versions and times have these signs and no capitals.
    let is_spoken = !has_upper && value.iter().any(|b| b"/.".contains(b));
    // `1/1203456789012345:9f86d081884c7d65…` of Asana.
    let is_asana =
        value.get(1) == Some(&b'/') && value[0].is_ascii_digit() && value.contains(&b':');
    // `9f86d081-884c-….9f86d081884c7d65…`: an id and its secret.
    let is_pair = !value.contains(&b'/') && longest_run(value, u8::is_ascii_hexdigit) >= 32;
    let is_base64 = value.len() >= 32 && value.iter().any(|b| matches!(b, b'+' | b'='));
    let is_spoken = is_spoken && !is_asana && !is_pair && !is_base64;
    // Nothing is counted or dated with so many digits.
    let is_number = value.len() >= 24 && value.iter().all(u8::is_ascii_digit);
    (14..=512).contains(&value.len())
        && value.iter().all(in_token)
        && (is_number || !self::is_number(value))
        && !is_spoken
        && !value.windows(3).any(|part| part == b"://")
        && (is_uuid(value)
            || is_number
            || is_mixed(value)
            || is_run(value)
            || is_scrambled(value)
            || is_signed_run(value)
            || is_licence(value)
            || is_long_word(value)
            || is_unpronounceable(value))
        || is_noise(value)
}

/// Letters among which so few vowels stand that nobody could say them.
pub(super) fn is_unpronounceable(value: &[u8]) -> bool {
    let is_consonant = |b: &u8| b.is_ascii_alphabetic() && !b"aeiouAEIOU".contains(b);
    let runs = value
        .split(|b| !is_consonant(b))
        .map(<[u8]>::len)
        .filter(|len| *len >= 4);
    let letters = value.iter().filter(|b| b.is_ascii_alphabetic()).count();
    // More different ones are an alphabet.
    value.len() >= 20
        && distinct(value) < 26
        && letters * 2 >= value.len()
        && runs.sum::<usize>() * 5 >= letters * 2
}

/// Letters of one case without an end: no word is as long.
fn is_long_word(value: &[u8]) -> bool {
    let is_one_case =
        value.iter().all(u8::is_ascii_lowercase) || value.iter().all(u8::is_ascii_uppercase);
    value.len() >= 28 && is_one_case
}

/// Letters of both cases in no order, as some services make keys without a digit. Words in camel case
/// have no two capitals in a row.
pub(super) fn is_scrambled(value: &[u8]) -> bool {
    let value = &value[..value.len().min(256)];
    let letters = value.iter().filter(|b| b.is_ascii_alphabetic()).count();
    let is_pair = |pair: &&[u8]| pair.iter().all(u8::is_ascii_uppercase);
    let capitals = value.windows(2).filter(is_pair).count();
    value.len() >= 20
        && letters * 10 >= value.len() * 9
        && changes(value) * 3 >= letters
        && capitals * 12 >= value.len()
        && distinct(value) >= 12
}

/// Letters of both cases and digits that change as often as chance makes them.
pub(super) fn is_shuffled(value: &[u8]) -> bool {
    let value = &value[..value.len().min(256)];
    // A name in camel case may end in a number.
    let numbers = value
        .split(|b| !b.is_ascii_digit())
        .filter(|number| !number.is_empty())
        .count();
    let classes: [fn(&u8) -> bool; 2] = [u8::is_ascii_uppercase, u8::is_ascii_lowercase];
    let counts = classes.map(|class| value.iter().filter(|b| class(b)).count());
    let is_base62 = counts.iter().all(|count| count * 8 >= value.len()) && numbers >= 3;
    is_base62 && changes(value) * 20 >= value.len() * 9 && distinct(value) >= 16
}

/// `k_abcd1234efgh5678`: a long run of letters and digits in whatever order, with signs around it.
pub(super) fn is_signed_run(value: &[u8]) -> bool {
    let value = &value[..value.len().min(256)];
    let in_token = |b: &u8| b.is_ascii_alphanumeric() || b"_-+/=.".contains(b);
    let digits = value.iter().filter(|b| b.is_ascii_digit()).count();
    let letters = value.iter().filter(|b| b.is_ascii_alphabetic()).count();
    value.len() >= 20
        && value.iter().all(in_token)
        && letters >= 4
        && digits * 8 >= value.len()
        && longest_run(value, u8::is_ascii_alphanumeric) >= 16
        && (8..=60).contains(&distinct(value))
}

/// `ZAQ3S-XCDER-VBGTR-FRTGU`: four and more groups of one length, in capitals.
pub(super) fn is_licence(value: &[u8]) -> bool {
    let len = value.iter().take_while(|b| **b != b'-').count();
    let in_group = |b: &u8| b.is_ascii_uppercase() || b.is_ascii_digit();
    let is_group = |group: &[u8]| group.len() == len && group.iter().all(in_group);
    (4..=8).contains(&len)
        && value.split(|b| *b == b'-').count() >= 4
        && value.split(|b| *b == b'-').all(is_group)
}

/// Many letters and digits without a sign between them, in whatever order.
pub(super) fn is_run(value: &[u8]) -> bool {
    let digits = value.iter().filter(|b| b.is_ascii_digit()).count();
    let letters = value.iter().filter(|b| b.is_ascii_alphabetic()).count();
    // All of them in a row are an alphabet.
    let is_alphabet = distinct(value) > 60;
    let in_base32 = |b: &u8| b.is_ascii_uppercase() || b.is_ascii_digit();
    let is_base32 = value.len() >= 20 && letters >= 4 && value.iter().all(in_base32);
    digits + letters == value.len()
        && value.len() >= 16
        && (digits >= 4 && letters >= 4 || is_base32)
        && !is_alphabet
}

/// No word and no name of a program: letters and digits without a sign, shorter than in `is_run` or
/// letters of one case only, and groups of them between dots. For names in capitals.
pub(super) fn is_unspoken(value: &[u8]) -> bool {
    let digits = value.iter().filter(|b| b.is_ascii_digit()).count();
    let letters = value.iter().filter(|b| b.is_ascii_alphabetic()).count();
    let is_plain = digits + letters == value.len() && !is_monotonous(value);
    let is_long = value.len() >= 24 && (digits >= 2 || changes(value) <= 2);
    let is_short = value.len() >= 15 && digits >= 4 && letters >= 4;
    let is_grouped = value.len() >= 20 && letters >= 4 && digits * 3 >= value.len();
    is_plain && (is_long || is_short) || !is_plain && is_grouped && value[1..].contains(&b'.')
}

pub(super) fn is_uuid(value: &[u8]) -> bool {
    value.len() == 36
        && value.iter().enumerate().all(|(at, b)| match at {
            8 | 13 | 18 | 23 => *b == b'-',
            _ => b.is_ascii_hexdigit(),
        })
}

/// Whether what stands behind a prefix that is also a word looks generated.
pub(super) fn is_token_body(value: &[u8]) -> bool {
    let value = &value[..value.len().min(256)];
    let has_cases =
        value.iter().any(u8::is_ascii_uppercase) && value.iter().any(u8::is_ascii_lowercase);
    is_random(value)
        || is_uuid(value)
        || has_cases && (is_mixed(value) || is_scrambled(value))
        || value.len() >= 20 && (is_run(value) || is_signed_run(value))
}

/// Letters and digits in no order; shorter ones than `is_random` asks for.
pub(super) fn is_mixed(value: &[u8]) -> bool {
    let digits = value.iter().filter(|b| b.is_ascii_digit()).count();
    let letters = value.iter().filter(|b| b.is_ascii_alphabetic()).count();
    digits >= 1 && letters >= 2 && distinct(value) >= 8 && changes(value) * 5 >= digits + letters
}

fn class(byte: u8) -> u8 {
    match byte {
        b'0'..=b'9' => 0,
        b'a'..=b'z' => 1,
        _ => 2,
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
        all(
            is_placeholder,
            &[
                "",
                "$VAR",
                "${VAR}",
                "$(cat x)",
                "<token>",
                "<your-token>",
                "***",
            ],
        );
        all(
            is_placeholder,
            &[
                "{{ token }}",
                "%TOKEN%",
                "null",
                "None",
                "true",
                "xxxxxxxx",
                "[REDACTED]",
            ],
        );
        all(
            is_placeholder,
            &[
                "[redacted:env:0123abcd]",
                "changeme",
                "CHANGE_ME",
                "your-api-key",
            ],
        );
        all(
            is_placeholder,
            &[
                "<your api key here>",
                "YOUR_SECRET_TOKEN",
                "insert-token-here",
            ],
        );
        none(
            is_placeholder,
            &[
                "hunter2",
                "$2b$12$abc",
                "<h4x0r>",
                "12345678",
                "11111111",
                "nullable1",
            ],
        );
    }

    #[test]
    fn code() {
        all(
            is_code,
            &[
                "get_token()",
                "os.environ[",
                "std::env::var",
                "&str",
                "self.token",
                "password",
            ],
        );
        all(
            is_code,
            &[
                "Option<String>",
                "&mut",
                "args.api_key",
                "parser.next_token()",
            ],
        );
        none(
            is_code,
            &[
                "hunter2",
                "letmein",
                "aB3(x9",
                "p4ssw0rd",
                "9f(",
                "correcthorse",
            ],
        );
    }

    #[test]
    fn random() {
        all(
            is_random,
            &[
                "dGhpc0lzQVRlc3Q0Mg",
                "9f86d081884c7d659a2feaa0c55ad015",
                "Zx81kQp02mVnB7sT",
            ],
        );
        none(
            is_random,
            &[
                "understanding",
                "cargo-nextest-runner-2",
                "aaaaaaaaaaaaaaaaaaaa",
                "hunter2",
            ],
        );
    }

    #[test]
    fn tokens() {
        all(
            is_token,
            &[
                "9f86d081-884c-7d65-9a2f-eaa0c55ad015",
                "dGhpc0lzQVRlc3Q0Mg",
                "9f86d081884c7d659a2f",
            ],
        );
        none(
            is_token,
            &[
                "understanding-it",
                "2026-05-01T12:00:00",
                "cdn.example.com/a1/b2c3",
                "v1.2.3",
            ],
        );
    }

    #[test]
    fn paths() {
        all(
            is_path,
            &[
                "/run/secrets/db",
                "./token.txt",
                "~/.ssh/id_ed25519",
                "/home/Ann/Keys",
            ],
        );
        none(is_path, &["/aB3dE5fG7hI9jK1lM3nO5", "hunter2/x"]);
    }

    #[test]
    fn numbers() {
        all(is_number, &["1234", "1,234", "12.5", "-3", "98%"]);
        none(is_number, &["", "12a", ".", "1e"]);
    }
}
