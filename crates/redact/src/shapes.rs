//! Secrets that neither a prefix nor a name gives away, but what stands around them: files of other
//! programs, passwords in pipes, and secrets inside base64.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use memchr::{memchr, memmem, memrchr};

use super::finding::{FoundSecret, Rank};
use super::formats::{self, Alphabet, is_in};
use super::{extent, format_match, names, value};

const LINE_LEN_MAX: usize = 1024;
/// More of a list of lines is not looked at.
const LINES_LEN_MAX: usize = 16 * 1024;
const ENCODED_LEN_MAX: usize = 16 * 1024;
/// How far behind an access key id its secret may stand.
const PAIR_REACH: usize = 96;
/// Shorter ones are ids and names.
const RUN_LEN_MIN: usize = 20;
/// The whole value of a setting.
const ASSIGNED_LEN_MIN: usize = 24;
/// Behind a name that does not speak of secrets: ids of requests and messages are shorter, and data is
/// longer.
const MIXED_LEN_MIN: usize = 31;
const ONE_CASE_LEN_MIN: usize = 32;
/// In hexadecimal digits it may be a hash, and only some names tell that it is not.
const LOWER_LEN_MIN: usize = 40;
/// As long as this in letters of both cases and digits there is nothing but keys.
const LONG_LEN_MIN: usize = 50;
/// Prefix and body of a token with signs in it.
const SIGNED_LEN_MIN: usize = 34;
const RUN_LEN_MAX: usize = 256;
const NAME_LEN_MAX: usize = 24;
const GROUP_LEN_MAX: usize = 48;
/// How far around its `kty` a JSON web key is read.
const KEY_REACH: usize = 4 * 1024;
const KEY_MEMBERS_MAX: usize = 24;

/// Bot tokens of Discord: three parts between dots, the first of them a number in base64.
pub(super) fn discord(text: &[u8], findings: &mut Vec<FoundSecret<'_>>) {
    const STRIDE: usize = 64;
    for from in (0..text.len()).step_by(STRIDE) {
        let chunk = &text[from..text.len().min(from + STRIDE + 8)];
        if has_middle(chunk) {
            let dots = memchr::memchr_iter(b'.', &chunk[..chunk.len().min(STRIDE)]);
            findings.extend(dots.filter_map(|dot| discord_around(text, from + dot)));
        }
    }
}

/// Whether two dots enclose the middle of such a token. Most of a text ends here, so it is one loop
/// without branches. Behind the second dot there are more than eight bytes.
fn has_middle(chunk: &[u8]) -> bool {
    let Some(len) = chunk.len().checked_sub(8) else {
        return false;
    };
    let is_dot = |b: &u8| u8::from(*b == b'.');
    let ends = chunk[7..7 + len].iter().zip(&chunk[8..8 + len]);
    let pairs = chunk[..len].iter().zip(ends);
    pairs.fold(0, |any, (dot, (six, seven))| {
        any | is_dot(dot) & (is_dot(six) | is_dot(seven))
    }) > 0
}

fn discord_around(text: &[u8], dot: usize) -> Option<FoundSecret<'static>> {
    let in_part = |b: &u8| is_in(*b, Alphabet::Url);
    let middle = [6, 7]
        .into_iter()
        .find(|len| text.get(dot + len + 1) == Some(&b'.'))?;
    if !text[dot + 1..=dot + middle].iter().all(in_part) {
        return None;
    }
    let first = text[..dot]
        .iter()
        .rev()
        .take(30)
        .take_while(|b| in_part(b))
        .count();
    let last = &text[dot + middle + 2..];
    let last = last.iter().take(46).take_while(|b| in_part(b)).count();
    let is_start =
        |start: &usize| b"MNO".contains(&text[*start]) && formats::starts_word(text, *start);
    let start = (23..=first).rev().map(|len| dot - len).find(is_start)?;
    let end = dot + middle + 2 + last;
    (27..=45)
        .contains(&last)
        .then(|| FoundSecret::new(start, end, "discord", Rank::Format))
}

/// Runs of so many letters and digits in no order that they are neither hashes nor names, behind the name
/// of a service: `acme_x`, `acme-x`, `acme = "x"`. Services make their tokens like that.
///
/// Not inlined, as `visit_slot`.
#[inline(never)]
pub(super) fn shuffled(text: &[u8], findings: &mut Vec<FoundSecret<'_>>) {
    let in_word = |b: &u8| is_in(*b, Alphabet::Url);
    // What other rules found is theirs.
    let mut places: Vec<_> = findings
        .iter()
        .map(|found| (found.start, found.end))
        .collect();
    places.sort_unstable();
    let mut places = places.into_iter().peekable();
    let (mut at, mut taken) = (0, 0);
    // Looked at from its end, most of a text is stepped over.
    while let Some(window) = text.get(at..at + RUN_LEN_MIN) {
        if let Some(sign) = window.iter().rposition(|b| !in_word(b)) {
            at += sign + 1;
            continue;
        }
        let end = at + text[at..].iter().take_while(|b| in_word(b)).count();
        let start = behind_escape(text, at, end);
        at = end;
        while let Some((_, end)) = places.next_if(|place| place.0 < at) {
            taken = taken.max(end);
        }
        if taken > start {
            continue;
        }
        let mut run_start = start;
        for run in text[start..at].split(|b| !b.is_ascii_alphanumeric()) {
            let (from, to) = (run_start, run_start + run.len());
            run_start = to + 1;
            if from < taken || !(RUN_LEN_MIN..=RUN_LEN_MAX).contains(&run.len()) {
                continue;
            }
            let found = with_id(text, from, to)
                .or_else(|| vault(text, from, to))
                .or_else(|| prefixed(text, from, to))
                .or_else(|| numbered(text, from, to))
                .or_else(|| assigned(text, from, to));
            taken = found.map_or(taken, |found| found.end);
            findings.extend(found);
        }
        if taken <= start {
            findings.extend(signed(text, start, at));
        }
        at = at.max(taken);
    }
}

/// Where the word at `start` begins when the rest of an escape or of a colour sequence stands before it.
fn behind_escape(text: &[u8], start: usize, end: usize) -> usize {
    let digits = text[start..end]
        .iter()
        .take_while(|b| b.is_ascii_digit())
        .count();
    let len = match (text[..start].last(), text[start]) {
        (Some(b'%'), b'0'..=b'9' | b'A'..=b'F' | b'a'..=b'f') => 2,
        (Some(b'\\'), b'n' | b'r' | b't') => 1,
        _ if start + digits < end && formats::colour_len(text, start + digits + 1) > 0 => {
            digits + 1
        }
        _ => 0,
    };
    end.min(start + len)
}

/// `acme_x-y_z`: a token with signs of base64 in it behind a prefix in small letters.
fn signed(text: &[u8], start: usize, end: usize) -> Option<FoundSecret<'static>> {
    let word = &text[start..end];
    if !(SIGNED_LEN_MIN..=RUN_LEN_MAX).contains(&word.len()) {
        return None;
    }
    // Up to the last sign before the first capital or digit.
    let in_prefix = |b: &&u8| b.is_ascii_lowercase() || matches!(b, b'_' | b'-');
    let len = word.iter().take_while(in_prefix).count();
    let prefix = word[..len].iter().rposition(|b| matches!(b, b'_' | b'-'))?;
    let body = &word[prefix + 1..];
    let is_token = (2..=NAME_LEN_MAX).contains(&prefix)
        && word[0].is_ascii_lowercase()
        && body.len() >= MIXED_LEN_MIN
        && (value::is_shuffled(body) || value::is_letter_salad(body) && value::is_random(body))
        && !names::is_public(&word[..prefix])
        && !names::is_of_an_id(&word[..prefix])
        && formats::starts_word(text, start);
    is_token.then(|| FoundSecret::new(start, end, "access-token", Rank::Shape))
}

/// `9f86…d015.x`, `9f86…d015-5eeb6406-757a4247`: a secret behind the id of its key, 32 hexadecimal digits
/// and a dot, and one in three groups.
fn with_id(text: &[u8], start: usize, end: usize) -> Option<FoundSecret<'static>> {
    let is_id = end - start == 32 && text[start..end].iter().all(u8::is_ascii_hexdigit);
    let behind = text
        .get(end + 1..)
        .filter(|_| is_id && formats::starts_word(text, start))?;
    let in_secret = |b: &&u8| b.is_ascii_alphanumeric() || text[end] == b'-' && **b == b'-';
    let len = behind.iter().take(65).take_while(in_secret).count();
    let secret = &behind[..len];
    let is_secret = match text[end] {
        b'.' => (16..=64).contains(&len) && value::is_mixed(secret) && has_cases(secret),
        b'-' => {
            let in_group = |(at, b): (usize, &u8)| {
                if at == 8 {
                    *b == b'-'
                } else {
                    b.is_ascii_hexdigit()
                }
            };
            len == 17 && secret.iter().enumerate().all(in_group)
        }
        _ => false,
    };
    is_secret.then(|| FoundSecret::new(start, end + 1 + len, "access-token", Rank::Shape))
}

/// `s.` and 24 letters and digits: a token of Vault before it gave them a longer prefix.
fn vault(text: &[u8], start: usize, end: usize) -> Option<FoundSecret<'static>> {
    let is_token = end - start == 24
        && text[..start].ends_with(b"s.")
        && formats::starts_word(text, start - 2)
        && !matches!(text.get(end), Some(b'(' | b'.' | b'['))
        && (value::is_mixed(&text[start..end]) || value::is_random(&text[start..end]));
    is_token.then(|| FoundSecret::new(start - 2, end, "vault", Rank::Format))
}

fn has_cases(run: &[u8]) -> bool {
    run.iter().any(u8::is_ascii_uppercase) && run.iter().any(u8::is_ascii_lowercase)
}

/// Letters of one case and digits in no order, of the whole alphabet: hashes have six letters only.
fn is_one_case_key(run: &[u8]) -> bool {
    let beyond = run
        .iter()
        .filter(|b| (b'g'..=b'z').contains(&b.to_ascii_lowercase()))
        .count();
    let digits = run.iter().filter(|b| b.is_ascii_digit()).count();
    run.len() >= ONE_CASE_LEN_MIN
        && !has_cases(run)
        && beyond >= 4
        && digits * 8 >= run.len()
        && value::is_random(run)
}

/// `main-` or `rl-` before a SHA-1 or SHA-256 names a build, an image or an idempotency key.
fn is_hash(run: &[u8]) -> bool {
    matches!(run.len(), 40 | 64) && run.iter().all(u8::is_ascii_hexdigit)
}

fn prefixed(text: &[u8], start: usize, end: usize) -> Option<FoundSecret<'static>> {
    let sign = start
        .checked_sub(1)
        .filter(|at| matches!(text[*at], b'_' | b'-'))?;
    let in_name = |b: &&u8| b.is_ascii_alphanumeric() || b"_-".contains(b);
    let name = text[..sign]
        .iter()
        .rev()
        .take(GROUP_LEN_MAX + 1)
        .take_while(in_name)
        .count();
    // `\nacme_x`: the letter belongs to the line's end.
    let is_escape = matches!(text[..=sign - name], [.., b'\\', b'n' | b'r' | b't']);
    let name_start = sign - name + usize::from(is_escape && name > 0);
    let (name, run) = (&text[name_start..sign], &text[start..end]);
    // `x_y`: a token in two groups.
    let is_group = || value::is_shuffled(name) && (16..=GROUP_LEN_MAX).contains(&name.len());
    let is_spoken = || {
        (2..=NAME_LEN_MAX).contains(&name.len())
            && name[0].is_ascii_alphabetic()
            && !names::is_of_an_id(name)
            && (!names::is_public(name) || names::ends_in_secret(name) && has_cases(run))
    };
    let is_name = formats::starts_word(text, name_start) && (is_spoken() || is_group());
    let is_mixed = || value::is_shuffled(run) || value::is_scrambled(run);
    let is_lower = || !run.iter().any(u8::is_ascii_uppercase) && value::is_random(run);
    let is_body = is_name
        && match run.len() {
            _ if text[sign] == b'-' && is_hash(run) => false,
            LOWER_LEN_MIN.. => is_mixed() || is_lower(),
            MIXED_LEN_MIN.. => {
                let is_upper = run.iter().any(u8::is_ascii_uppercase);
                is_mixed() || (is_upper || text[sign] == b'_') && is_one_case_key(run)
            }
            _ => (is_group() || names::ends_in_secret(name)) && is_mixed(),
        };
    is_body.then(|| FoundSecret::new(name_start, end, "access-token", Rank::Shape))
}

/// `10-x`: a long key behind its number.
fn numbered(text: &[u8], start: usize, end: usize) -> Option<FoundSecret<'static>> {
    let before = text[..start].strip_suffix(b"-")?;
    let digits = before
        .iter()
        .rev()
        .take(5)
        .take_while(|b| b.is_ascii_digit())
        .count();
    let from = before.len() - digits;
    let is_key = (1..=4).contains(&digits)
        && end - start >= LONG_LEN_MIN
        && value::is_shuffled(&text[start..end])
        && formats::starts_word(text, from);
    is_key.then(|| FoundSecret::new(from, end, "access-token", Rank::Shape))
}

/// `acme = "x"`: the whole value of a setting.
fn assigned(text: &[u8], start: usize, end: usize) -> Option<FoundSecret<'static>> {
    let in_value = |b: &&u8| is_in(**b, Alphabet::Url);
    let start = start
        - text[..start]
            .iter()
            .rev()
            .take(GROUP_LEN_MAX)
            .take_while(in_value)
            .count();
    let end = end
        + text[end..]
            .iter()
            .take(GROUP_LEN_MAX)
            .take_while(in_value)
            .count();
    let without = |text: &'_ [u8], sign: fn(&u8) -> bool| {
        text.len() - text.iter().rev().take(2).take_while(|b| sign(b)).count()
    };
    let is_quote: fn(&u8) -> bool = |b| matches!(b, b'"' | b'\'' | b'`' | b'\\');
    let is_blank: fn(&u8) -> bool = |b| *b == b' ';
    let quote = without(&text[..start], is_quote);
    let is_whole = match text.get(end) {
        Some(b) if quote < start => is_quote(b),
        behind => behind.is_none_or(|b| *b <= b' ' || b",;)&".contains(b)),
    };
    let tie = without(&text[..quote], is_blank);
    let signs = without(&text[..tie], |b| matches!(b, b'=' | b':'));
    let name_end = without(&text[..without(&text[..signs], is_blank)], is_quote);
    let in_name = |b: &&u8| b.is_ascii_alphanumeric() || b"_-.".contains(b);
    let name = text[..name_end]
        .iter()
        .rev()
        .take(NAME_LEN_MAX)
        .take_while(in_name)
        .count();
    let name = &text[name_end - name..name_end];
    let is_name =
        signs < tie && name.len() >= 2 && name[0].is_ascii_alphabetic() && !names::is_public(name);
    let run = &text[start..end];
    let is_key = run.len() >= ASSIGNED_LEN_MIN && value::is_shuffled(run) || is_one_case_key(run);
    (is_whole && is_name && is_key)
        .then(|| FoundSecret::new(start, end, "assignment", Rank::Context))
}

/// An API key of Twilio, `SK` and 32 letters and digits, or the id of an account, `AC` and 32
/// hexadecimal digits.
pub(super) fn twilio(text: &[u8], start: usize) -> Option<FoundSecret<'static>> {
    let is_account = text[start..].starts_with(b"AC");
    if !is_account && !text[start..].starts_with(b"SK") || !formats::starts_word(text, start) {
        return None;
    }
    let digits = &text[start + 2..];
    let in_key = |b: &&u8| b.is_ascii_alphanumeric() && (!is_account || b.is_ascii_hexdigit());
    let len = digits.iter().take(33).take_while(in_key).count();
    let is_key = len == 32 && value::is_random(&digits[..len]);
    is_key.then(|| FoundSecret::new(start, start + 34, "twilio", Rank::Format))
}

/// The secret that stands soon behind an id which is known by its format: how its signs and its length
/// are published for the services whose secrets have no prefix.
pub(super) fn paired_secret(
    text: &[u8],
    id: &FoundSecret<'static>,
) -> Option<FoundSecret<'static>> {
    let is_of = |kind: &str, start: &[u8]| id.kind == kind && text[id.start..].starts_with(start);
    match () {
        () if id.kind == "aws" || is_of("google", b"GOOG1E") => paired(text, id, b"/+", 40),
        () if id.kind == "alibaba" => paired(text, id, b"", 30),
        () if id.kind == "tencent" => paired(text, id, b"", 32),
        () => None,
    }
}

/// A client id of Google, whose `.apps.googleusercontent.com` stands at `start`, and the secret behind it.
pub(super) fn google_client(text: &[u8], start: usize, findings: &mut Vec<FoundSecret<'_>>) {
    let end = start + b".apps.googleusercontent.com".len();
    let in_id = |b: &&u8| is_in(**b, Alphabet::Url);
    let len = text[..start]
        .iter()
        .rev()
        .take(64)
        .take_while(in_id)
        .count();
    // An escape may stand before the number.
    let is_start = |at: &usize| {
        formats::starts_word(text, *at) && text[*at..*at + 6].iter().all(u8::is_ascii_digit)
    };
    let id_start = (start - len..start.saturating_sub(24))
        .take(8)
        .find(is_start);
    let id = FoundSecret::new(id_start.unwrap_or(start), end, "google", Rank::Format);
    findings.extend(paired(text, &id, b"_-", 24));
    findings.extend(id_start.map(|_| id));
}

fn paired(
    text: &[u8],
    id: &FoundSecret<'static>,
    signs: &[u8],
    len: usize,
) -> Option<FoundSecret<'static>> {
    let near = &text[id.end..text.len().min(id.end + PAIR_REACH)];
    let in_secret = |b: &u8| b.is_ascii_alphanumeric() || signs.contains(b);
    let mut at = id.end;
    for word in near.split(|b| !in_secret(b)) {
        let classes: [fn(&u8) -> bool; 3] = [
            u8::is_ascii_uppercase,
            u8::is_ascii_lowercase,
            u8::is_ascii_digit,
        ];
        let is_mixed = classes.iter().all(|class| word.iter().any(class));
        let is_whole = at + word.len() < id.end + near.len() || near.len() < PAIR_REACH;
        if word.len() == len && is_mixed && is_whole {
            return Some(FoundSecret::new(at, at + word.len(), id.kind, Rank::Format));
        }
        at += word.len() + 1;
    }
    None
}

/// The private members of the RSA key in XML whose public ones end at `start`.
pub(super) fn xml_key(text: &[u8], start: usize) -> Option<FoundSecret<'static>> {
    let from = start + b"</exponent>".len();
    let reach = &text[from..text.len().min(from + KEY_REACH)];
    let len = memmem::find(reach, b"</RSA").unwrap_or(reach.len());
    let is_private = memmem::find(&reach[..len], b"<D>").is_some();
    is_private.then(|| FoundSecret::new(from, from + len, "private-key", Rank::Format))
}

/// The private members of the JSON web key whose `kty` stands at `start`; they may stand before it.
pub(super) fn json_web_key(text: &[u8], start: usize, findings: &mut Vec<FoundSecret<'_>>) {
    const PRIVATE: &[&[u8]] = &[b"d", b"k", b"p", b"q", b"dp", b"dq", b"qi"];
    let reach = &text[..text.len().min(start + KEY_REACH)];
    let open = start.saturating_sub(KEY_REACH);
    let open = memrchr(b'{', &text[open..start]).map_or(start, |at| open + at);
    let close = memchr(b'}', &reach[start..]).map_or(reach.len(), |at| start + at);
    let mut at = open;
    for _ in 0..KEY_MEMBERS_MAX {
        let Some(colon) = memchr(b':', &text[at..close]) else {
            break;
        };
        let name = text[at..at + colon].trim_ascii_end();
        let name = name
            .rsplit(|b| !b.is_ascii_alphanumeric())
            .find(|word| !word.is_empty());
        at += colon + 1;
        let value = extent::quoted_at(text, at, extent::Tie::List);
        let Some(value) = value.filter(|value| value.end <= close) else {
            continue;
        };
        let secret = &text[value.start..value.end];
        let is_number = secret.len() >= 16 && secret.iter().all(|b| is_in(*b, Alphabet::Base64));
        if name.is_some_and(|name| PRIVATE.contains(&name)) && is_number {
            findings.push(FoundSecret::new(
                value.start,
                value.end,
                "jwk",
                Rank::Format,
            ));
        }
        at = value.end;
    }
}

/// The values under `data:` and `stringData:` in the document of a `kind: Secret` of Kubernetes.
///
/// Keys are often sorted, so `data` may stand before `kind`.
pub(super) fn kubernetes(text: &[u8], kind: usize, findings: &mut Vec<FoundSecret<'_>>) {
    let first = kind.saturating_sub(LINES_LEN_MAX);
    let start = memmem::rfind(&text[first..kind], b"\n---").map_or(first, |at| first + at + 1);
    let behind = &text[kind..text.len().min(kind + LINES_LEN_MAX)];
    let document_end = kind + memmem::find(behind, b"\n---").unwrap_or(behind.len());
    let margin = |line: &[u8]| line.len() - line.trim_ascii_start().len();
    // How deep the keys of the section are indented, and those of its values.
    let (mut section, mut keys): (Option<usize>, Option<usize>) = (None, None);
    let mut at = start;
    for line in text[start..document_end].split_inclusive(|b| *b == b'\n') {
        let (from, body) = (at + margin(line), line.trim_ascii());
        at += line.len();
        if body.is_empty() || body.starts_with(b"#") {
            continue;
        }
        if matches!(body, b"data:" | b"stringData:") {
            (section, keys) = (Some(margin(line)), None);
            continue;
        }
        if section.is_none_or(|section| margin(line) <= section) {
            section = None;
            continue;
        }
        // Deeper than its key stands a block: all of it is the value.
        let depth = *keys.get_or_insert(margin(line));
        let colon = memmem::find(body, b":").filter(|_| margin(line) <= depth);
        let value_at = from + colon.map_or(0, |colon| colon + 1);
        let value = extent::value_at(text, value_at, extent::Tie::Colon, false);
        let secret = &text[value.start..value.end];
        let is_block = matches!(secret.first(), None | Some(b'|' | b'>'));
        if !is_block && !value::is_placeholder(secret) && value.end <= at {
            findings.push(FoundSecret::new(
                value.start,
                value.end,
                "kubernetes",
                Rank::Context,
            ));
        }
    }
}

/// The private lines of a key file of PuTTY, whose `Private-Lines: ` stands at `start`.
pub(super) fn putty(text: &[u8], start: usize) -> Option<FoundSecret<'static>> {
    let number = &text[start + b"private-lines: ".len()..];
    let digits = number
        .iter()
        .take(3)
        .take_while(|b| b.is_ascii_digit())
        .count();
    let count: usize = std::str::from_utf8(&number[..digits]).ok()?.parse().ok()?;
    let first = memchr(b'\n', number).filter(|at| *at < 8)? + 1;
    let from = text.len() - number.len() + first;
    let lines = &text[from..text.len().min(from + LINES_LEN_MAX)];
    let ends = memchr::memchr_iter(b'\n', lines);
    let end = ends.take(count).last().filter(|_| count > 0);
    let is_whole = memchr::memchr_iter(b'\n', lines).take(count).count() == count;
    let end = from + end.filter(|_| is_whole).unwrap_or(lines.len());
    let body = text[from..end].trim_ascii();
    let is_key = !body.is_empty()
        && body
            .iter()
            .all(|b| is_in(*b, Alphabet::Base64) || *b <= b' ');
    is_key.then(|| FoundSecret::new(from, end, "putty", Rank::Format))
}

/// `host:5432:database:user:password`, whose port stands at `start`.
pub(super) fn pgpass(text: &[u8], start: usize) -> Option<FoundSecret<'static>> {
    let behind = &text[start + b":5432:".len()..];
    let line = &behind[..behind.len().min(LINE_LEN_MAX)];
    let line = line.split(|b| *b == b'\n').next()?;
    let fields: Vec<&[u8]> = line.splitn(3, |b| *b == b':').collect();
    let [database, user, password] = fields[..] else {
        return None;
    };
    let is_name = |field: &[u8]| !field.is_empty() && field.iter().all(|b| *b > b' ');
    let password = password.trim_ascii_end();
    let is_entry = is_name(database) && is_name(user) && is_name(password);
    let from = text.len() - behind.len() + database.len() + user.len() + 2;
    (is_entry && !value::is_placeholder(password))
        .then(|| FoundSecret::new(from, from + password.len(), "password", Rank::Context))
}

/// `thin:user/password@host`, which stands at `start`.
pub(super) fn oracle_thin(text: &[u8], start: usize) -> Option<FoundSecret<'static>> {
    let behind = &text[start + b"thin:".len()..];
    let url = &behind[..behind
        .iter()
        .take(LINE_LEN_MAX)
        .take_while(|b| **b > b' ')
        .count()];
    let (slash, at_sign) = (memchr(b'/', url)?, memchr(b'@', url)?);
    let password = url
        .get(slash + 1..at_sign)
        .filter(|password| !password.is_empty())?;
    let from = start + b"thin:".len() + slash + 1;
    (!value::is_placeholder(password))
        .then(|| FoundSecret::new(from, from + password.len(), "password", Rank::Context))
}

/// `echo x | sudo -S`: what a program prints that feeds one which asks for a password.
pub(super) fn piped(text: &[u8], start: usize) -> Option<FoundSecret<'static>> {
    const READERS: &[&[u8]] = &[
        b"sudo -S",
        b"sudo --stdin",
        b"chpasswd",
        b"passwd --stdin",
        b"--password-stdin",
        b"--with-token",
        b"kinit",
        b"--passphrase-fd",
        b"cryptsetup",
    ];
    let line = &text[start..text.len().min(start + LINE_LEN_MAX)];
    let line = line.split(|b| *b == b'\n').next()?;
    let pipe = memchr(b'|', line)?;
    READERS
        .iter()
        .find(|reader| memmem::find(&line[pipe..], reader).is_some())?;
    let mut words = super::command::split(&line[..pipe]).into_iter().skip(1);
    // Of `printf '%s' x` the format stays.
    let is_value =
        |&(from, to): &(usize, usize)| line[from] != b'-' && !line[from..to].starts_with(b"%s");
    let (from, to) = words.find(is_value)?;
    let word = &line[from..to];
    let of_user = memmem::find(&line[pipe..], b"chpasswd").and(memchr(b':', word));
    let from = from + of_user.map_or(0, |colon| colon + 1);
    (!value::is_placeholder(&line[from..to]))
        .then(|| FoundSecret::new(start + from, start + to, "password", Rank::Context))
}

/// `--with-token <<< x`: what a program that asks for a password is given.
pub(super) fn here_string(text: &[u8], start: usize) -> Option<FoundSecret<'static>> {
    let from = start + memmem::find(&text[start..], b"<<<")? + 3;
    let extent = extent::value_at(text, from, extent::Tie::Flag, false);
    (!value::is_placeholder(&text[extent.start..extent.end]))
        .then(|| FoundSecret::new(extent.start, extent.end, "password", Rank::Context))
}

/// A run of base64 that begins like a secret and holds one.
pub(super) fn encoded(
    text: &[u8],
    start: usize,
    holds_secret: impl Fn(&[u8]) -> bool,
) -> Option<FoundSecret<'static>> {
    if !formats::starts_word(text, start) {
        return None;
    }
    let rest = &text[start..text.len().min(start + ENCODED_LEN_MAX)];
    let run = rest
        .iter()
        .take_while(|b| is_in(**b, Alphabet::Base64))
        .count();
    let body = rest[..run].split(|b| *b == b'=').next()?;
    let whole = &body[..body.len() - usize::from(body.len() % 4 == 1)];
    let plain = STANDARD_NO_PAD
        .decode(whole)
        .or_else(|_| URL_SAFE_NO_PAD.decode(whole))
        .ok()?;
    let is_text = plain
        .iter()
        .all(|b| matches!(b, b'\n' | b'\r' | b'\t' | b' '..=b'~'));
    let end = start + run;
    let end = end + format_match::folded_len(text, start, end);
    (run >= 16 && is_text && holds_secret(&plain))
        .then(|| FoundSecret::new(start, end, "encoded", Rank::Format))
}

/// The password among the literals of the call that starts at `start`: the last of `user, password` of a
/// `login`, the third argument of a `connect`.
pub(super) fn called(text: &[u8], start: usize) -> Option<FoundSecret<'static>> {
    let open = start + memchr(b'(', &text[start..])? + 1;
    let line = &text[open..text.len().min(open + LINE_LEN_MAX)];
    let line = line.split(|b| *b == b'\n').next()?;
    let mut at = 0;
    // Of a connection also the host.
    let before = if b"lLaAbB".contains(&text[start]) {
        1
    } else {
        2
    };
    for _ in 0..before {
        at += match extent::quoted_at(line, at, extent::Tie::List) {
            Some(literal) => literal.end - at + 1,
            None => 0,
        };
        at += memchr(b',', line.get(at..)?)? + 1;
    }
    let literal = extent::quoted_at(line, at, extent::Tie::List)?;
    let secret = &line[literal.start..literal.end];
    let (from, to) = (open + literal.start, open + literal.end);
    (value::is_generated(secret) && !value::is_placeholder(secret))
        .then(|| FoundSecret::new(from, to, "password", Rank::Context))
}

/// `IDENTIFIED BY 'x'`, `IDENTIFIED WITH plugin BY 'x'`, `LOGIN PASSWORD x`, `SET PASSWORD FOR ann = 'x'`,
/// which stand at `start`.
pub(super) fn identified_by(text: &[u8], start: usize) -> Option<FoundSecret<'static>> {
    let line = &text[start..text.len().min(start + LINE_LEN_MAX)];
    let line = line.split(|b| *b == b'\n').next()?.to_ascii_lowercase();
    let words: &[&[u8]] = match line[..] {
        [b'l', ..] => &[b" password "],
        [b'p', ..] => &[b" = "],
        // PowerShell: `ConvertTo-SecureString "x"`, `ConvertTo-SecureString -String "x"`.
        [b's', ..] => &[b"string -string ", b"string "],
        _ => &[b" by ", b" as "],
    };
    let word = words
        .iter()
        .find_map(|word| Some(memmem::find(&line, word)? + word.len()))?;
    let extent = extent::value_at(text, start + word, extent::Tie::SpacedEquals, false);
    let secret = &text[extent.start..extent.end];
    // A bare word may be one of a sentence, or `RANDOM PASSWORD`.
    let is_secret = extent.quoted && text[extent.start - 1] != b'`'
        || !extent.quoted && value::is_generated(secret);
    (is_secret && !value::is_placeholder(secret))
        .then(|| FoundSecret::new(extent.start, extent.end, "password", Rank::Context))
}
