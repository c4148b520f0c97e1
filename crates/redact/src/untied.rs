//! Names of secrets that no sign ties to their value: `#define PASSWORD "x"`, `ENV TOKEN x`, netrc,
//! `PASSWORD 'x'` of SQL, `"x" == password`, `name: TOKEN` with `value: x` behind it, and prose.

use memchr::memmem;

use super::extent::{self, Tie, is_quote, skip_blanks};
use super::finding::{FoundSecret, Rank};
use super::key::Name;
use super::names::KeyName;
use super::{assigned_value, lines, names, value};

/// How far before a name its keyword may stand.
const BEFORE_LEN: usize = 256;
/// How far behind a name `value` may stand.
const VALUE_REACH: usize = 64;
const LITERAL_LEN_MAX: usize = 200;

/// Looks for a value near a name without a tie; answers where to go on.
pub(super) fn find(text: &[u8], name: &Name, findings: &mut Vec<FoundSecret<'_>>) -> Option<usize> {
    // Judging a name is the dear part: first whether anything near could be its value.
    let is_compared = text[..name.start].trim_ascii_end().ends_with(b"=");
    let has_gap = matches!(
        text.get(name.end),
        Some(b' ' | b'\t' | b'\n' | b'"' | b'\'' | b'\\' | 0x1b)
    );
    if !(is_compared || has_gap && may_hold_value(text, name)) {
        return None;
    }
    let key = name.judge(text);
    if key == KeyName::Plain {
        return None;
    }
    if let Some(compared) = compared_before(text, name, key) {
        findings.push(compared);
        return None;
    }
    let is_secret_name = matches!(key, KeyName::Strong | KeyName::Loose)
        || names::is_opening_key(name.with_word_before_key(text));
    let below = || {
        is_secret_name
            .then(|| lines::token_below(text, name))
            .flatten()
    };
    let found = named_value(text, name, key)
        .or_else(|| variable_block(text, name, key))
        .or_else(|| of_somebody(text, name))
        .or_else(|| typed(text, name, key))
        .or_else(|| spaced(text, name, key))
        .or_else(|| in_prose(text, name, key))
        .or_else(below)?;
    findings.push(found);
    assigned_value::again(text, &found, findings);
    Some(found.end)
}

/// Whether a sign of a value stands soon behind a name: a quote, a digit, `=`, or `value`.
fn may_hold_value(text: &[u8], name: &Name) -> bool {
    let near = &text[name.end..text.len().min(name.end + VALUE_REACH)];
    near.iter().any(|b| {
        matches!(
            b,
            b'0'..=b'9' | b'"' | b'\'' | b'`' | b'=' | b'#' | b'%' | b'^' | b'*' | b'~'
        )
    }) || memmem::find(near, b"alue").is_some()
        || names::has_capitals(name.bytes(text))
        || is_behind_keyword(text, name)
        || is_in_netrc(text, name)
        || name.bytes(text).eq_ignore_ascii_case(b"requirepass")
        || name.bytes(text).eq_ignore_ascii_case(b"masterauth")
}

/// `"x" == password`: the literal before a name that it is compared with.
fn compared_before(text: &[u8], name: &Name, key: KeyName) -> Option<FoundSecret<'static>> {
    let before = text[..name.start].trim_ascii_end();
    let before = before
        .strip_suffix(b"=")
        .filter(|rest| rest.ends_with(b"=") || rest.ends_with(b"!"))?;
    let signs = before
        .iter()
        .rev()
        .take(2)
        .take_while(|b| matches!(b, b'=' | b'!'))
        .count();
    let before = before[..before.len() - signs].trim_ascii_end();
    let (quote, inner) = before
        .split_last()
        .filter(|(last, _)| is_quote(Some(last)))?;
    let len = inner
        .iter()
        .rev()
        .take(LITERAL_LEN_MAX)
        .take_while(|b| *b != quote && **b != b'\n')
        .count();
    let start = inner.len() - len;
    let is_literal = start > 0 && inner[start - 1] == *quote;
    let secret = &inner[start..];
    let is_parsed = assigned_value::is_parser_token(name.bytes(text), secret);
    (is_literal && !is_parsed && !assigned_value::is_harmless(key, secret)).then(|| {
        FoundSecret::new(
            start,
            inner.len(),
            assigned_value::kind_of(secret, b""),
            Rank::Context,
        )
    })
}

/// `{"name": "DB_PASSWORD", "value": "x"}`, `- name: TOKEN` and `value: x`, `key="Password" value="x"`.
pub(super) fn named_value(text: &[u8], name: &Name, key: KeyName) -> Option<FoundSecret<'static>> {
    let is_sign = |b: &u8| b.is_ascii_whitespace() || b"\"',\\".contains(b);
    let trimmed = |bytes: &[u8]| {
        bytes
            .iter()
            .rev()
            .take(8)
            .take_while(|b| is_sign(b))
            .count()
    };
    let before = &text[..name.start];
    let before = &before[..before.len() - trimmed(before)];
    let before = before
        .strip_suffix(b":")
        .or_else(|| before.strip_suffix(b"="))?;
    let before = &before[..before.len() - trimmed(before)];
    let is_named = ["name", "key"].iter().any(|word| {
        before.len() >= word.len()
            && before[before.len() - word.len()..].eq_ignore_ascii_case(word.as_bytes())
    });
    // `name="password"` of a form; an empty line stands before its value.
    let behind = text[name.end..].strip_prefix(b"\"").unwrap_or_default();
    let lines = [b"\r\n\r\n".as_slice(), b"\n\n"]
        .into_iter()
        .find(|end| behind.starts_with(end));
    if let Some(lines) = lines.filter(|_| is_named) {
        let field = extent::value_at(text, name.end + 1 + lines.len(), Tie::Flag, false);
        let is_secret = !assigned_value::is_harmless(key, &text[field.start..field.end]);
        return is_secret
            .then(|| FoundSecret::new(field.start, field.end, "assignment", Rank::Context));
    }
    let gap = text[name.end..]
        .iter()
        .take(VALUE_REACH)
        .take_while(|b| is_sign(b))
        .count();
    let word = name.end + gap;
    let is_value = text
        .get(word..word + 5)
        .is_some_and(|w| w.eq_ignore_ascii_case(b"value"));
    if !is_named || !is_value || gap == 0 {
        return None;
    }
    let escapes = extent::escapes_before_quote(text, word + 5).map_or(0, |escapes| escapes + 1);
    let sign = skip_blanks(text, word + 5 + escapes);
    let tie = match text.get(sign)? {
        b'=' => Tie::Equals,
        b':' => Tie::Colon,
        _ => return None,
    };
    let extent = extent::value_at(text, sign + 1, tie, false);
    let secret = &text[extent.start..extent.end];
    (!assigned_value::is_harmless(key, secret)).then(|| {
        FoundSecret::new(
            extent.start,
            extent.end,
            assigned_value::kind_of(secret, b""),
            Rank::Context,
        )
    })
}

/// `variable "db_password" { default = "x" }` of Terraform, over several lines.
fn variable_block(text: &[u8], name: &Name, key: KeyName) -> Option<FoundSecret<'static>> {
    let quote = usize::from(text.get(name.end) == Some(&b'"'));
    let open = skip_blanks(text, name.end + quote);
    let is_block = text.get(open) == Some(&b'{') && name.before(text) == Some(b'"');
    default_in_block(text, open, key).filter(|_| is_block)
}

/// `default = "x"`, `"Default": "x"` in the braces that open at `open`.
pub(super) fn default_in_block(
    text: &[u8],
    open: usize,
    key: KeyName,
) -> Option<FoundSecret<'static>> {
    let block = &text[open..text.len().min(open + BEFORE_LEN)];
    let block = block.split(|b| *b == b'}').next()?;
    let default = open + memmem::find(block, b"efault")? + b"efault".len();
    let sign = skip_blanks(text, default + usize::from(is_quote(text.get(default))));
    if !matches!(text.get(sign), Some(b'=' | b':')) {
        return None;
    }
    let extent = extent::quoted_at(text, sign + 1, Tie::SpacedEquals)?;
    let secret = &text[extent.start..extent.end];
    let is_secret = !assigned_value::is_harmless(key, secret);
    let kind = assigned_value::kind_of(secret, b"");
    is_secret.then(|| FoundSecret::new(extent.start, extent.end, kind, Rank::Context))
}

/// `var token string = "x"`: the type stands behind the name.
fn typed(text: &[u8], name: &Name, key: KeyName) -> Option<FoundSecret<'static>> {
    let from = skip_blanks(text, name.end);
    // `Const Password As String = "x"`.
    let is_basic = text
        .get(from..from + 3)
        .is_some_and(|word| word.eq_ignore_ascii_case(b"as "));
    let from = if is_basic { from + 3 } else { from };
    let in_type = |b: &&u8| b.is_ascii_alphanumeric() || b"_.*[]<>?".contains(b);
    let len = text[from..].iter().take(32).take_while(in_type).count();
    let sign = skip_blanks(text, from + len);
    if from == name.end
        || len == 0
        || text.get(sign) != Some(&b'=')
        || text.get(sign + 1) == Some(&b'=')
    {
        return None;
    }
    let extent = extent::quoted_at(text, sign + 1, Tie::SpacedEquals)?;
    let secret = &text[extent.start..extent.end];
    (!assigned_value::is_harmless(key, secret)).then(|| {
        FoundSecret::new(
            extent.start,
            extent.end,
            assigned_value::kind_of(secret, b""),
            Rank::Context,
        )
    })
}

/// A value behind nothing but blanks.
fn spaced(text: &[u8], name: &Name, key: KeyName) -> Option<FoundSecret<'static>> {
    // `"token" "x"`, as in some settings files.
    let is_quoted = is_quote(text.get(name.end)) && name.before(text) == Some(text[name.end]);
    let end = name.end + usize::from(is_quoted);
    let from = skip_blanks(text, end);
    let next = text
        .get(from)
        .filter(|b| from > end && !b"=:|".contains(b) && **b > b' ')?;
    let word = name.bytes(text).to_ascii_lowercase();
    let is_password = is_password_word(&word);
    let is_declared =
        is_behind_keyword(text, name) || matches!(word.as_slice(), b"requirepass" | b"masterauth");
    let is_netrc = is_password && is_in_netrc(text, name);
    let extent = extent::value_at(text, from, Tie::Flag, false);
    let secret = &text[extent.start..extent.end];
    let behind = text.get(extent.end + 1);
    // `secrets "github.com/x/secrets"` names what is imported.
    let is_import = secret.contains(&b'/') && !value::is_random(secret);
    let is_statement = matches!(next, b'"' | b'\'')
        && !is_import
        && (is_password && !secret.contains(&b' ')
            || behind == Some(&b';')
            || name.starts_line(text) && matches!(behind, None | Some(b'\n' | b'\r')));
    if !is_declared && !is_netrc && !is_statement {
        return None;
    }
    let is_secret =
        !assigned_value::is_harmless(key, secret) && (extent.quoted || !value::is_code(secret));
    is_secret.then(|| {
        FoundSecret::new(
            extent.start,
            extent.end,
            assigned_value::kind_of(secret, b""),
            Rank::Context,
        )
    })
}

/// `#define X`, `ENV X`, `setenv X`, `setx X`, `set -x X`, `aws configure set X`.
fn is_behind_keyword(text: &[u8], name: &Name) -> bool {
    const KEYWORDS: &[&[u8]] = &[
        b"#define",
        b"ENV",
        b"ARG",
        b"setenv",
        b"setx",
        b"set -x",
        b"set -gx",
        b"set -Ux",
        b"configure set",
        b"config set",
        b"(setq",
        b"(def",
        b"(defvar",
        b"(define",
    ];
    let before = &text[name.start.saturating_sub(BEFORE_LEN)..name.start];
    // `npm config set //registry.npmjs.org/:_authToken x`: a path may stand before the name.
    let path = before
        .iter()
        .rev()
        .take_while(|b| !b.is_ascii_whitespace())
        .count();
    let before = before[..before.len() - path].trim_ascii_end();
    KEYWORDS.iter().any(|keyword| before.ends_with(keyword))
}

fn is_password_word(name: &[u8]) -> bool {
    [
        b"password".as_slice(),
        b"passwd",
        b"passphrase",
        b"pwd",
        b"psk",
    ]
    .iter()
    .any(|word| name.eq_ignore_ascii_case(word))
}

/// `machine h login u password x`, on one line or several, with or without `account a`.
fn is_in_netrc(text: &[u8], name: &Name) -> bool {
    let before = &text[name.start.saturating_sub(BEFORE_LEN)..name.start];
    if !is_password_word(name.bytes(text)) {
        return false;
    }
    let Some(login) = memmem::rfind(before, b"login ") else {
        return false;
    };
    let start = memmem::rfind(&before[..login], b"machine ");
    let Some(start) = start.or_else(|| memmem::rfind(&before[..login], b"default ")) else {
        return false;
    };
    let entry = &before[start..];
    let words: Vec<&[u8]> = entry
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty())
        .collect();
    let host = match words.as_slice() {
        [_, host, b"login", _] | [_, host, b"login", _, b"account", _] => *host,
        [_, host, b"account", _, b"login", _] => *host,
        [b"default", b"login", _] => b"localhost",
        _ => return false,
    };
    // Of words on one line only a host tells an entry from prose.
    let is_spread = entry.contains(&b'\n');
    is_spread || !value::is_word(host) || host.len() == 1 || host == b"localhost"
}

/// A random string directly after a secret word, as people tell each other.
fn in_prose(text: &[u8], name: &Name, key: KeyName) -> Option<FoundSecret<'static>> {
    const LINKS: &[&str] = &[
        "is", "was", "value", "=", "to", "key", "are", "now", "auth", "token", "secret", "api",
        "bot", "code", "access", "private", "0", "5", "7", "provided", "given", "used",
    ];
    let mut at = name.end;
    let mut links = 0;
    let mut is_numbered = false;
    while links < 3 {
        let start = skip_blanks(text, at);
        let len = text[start..]
            .iter()
            .take(8)
            .take_while(|b| **b > b' ' && **b != b':')
            .count();
        if start == at
            || !LINKS
                .iter()
                .any(|l| text[start..start + len].eq_ignore_ascii_case(l.as_bytes()))
        {
            break;
        }
        at = start + len + usize::from(text.get(start + len) == Some(&b':'));
        // `secret 5 x` of a router.
        is_numbered = text[start].is_ascii_digit();
        links += 1;
    }
    let start = skip_blanks(text, at);
    let opens = is_quote(text.get(start)) || text.get(start) == Some(&b'(');
    let start = start + usize::from(start > at && opens);
    // `my passphrase is "a b c d"`.
    if links > 0
        && names::holds_phrases(name.bytes(text))
        && let Some(literal) = extent::quoted_at(text, at, Tie::List)
        && value::is_phrase(&text[literal.start..literal.end])
    {
        let (from, to) = (literal.start, literal.end);
        return Some(FoundSecret::new(from, to, "assignment", Rank::Context));
    }
    let in_token = |b: &&u8| b.is_ascii_alphanumeric() || b"_-+/=.~%".contains(b);
    let len = text[start..].iter().take(512).take_while(in_token).count();
    let token = &text[start..start + len];
    let word = name.bytes(text).to_ascii_lowercase();
    let ends = |ends: &[&[u8]]| ends.iter().any(|end| word.ends_with(end));
    // `storepass x`; `PASS x` is the result of a test.
    let is_password = ends(&[b"password", b"passwd", b"passphrase", b"pwd", b"pw", b"psk"])
        || word.len() > 4 && word.ends_with(b"pass")
        || names::is_foreign(&word);
    let is_secret = is_password || ends(&[b"secret", b"token", b"apikey", b"tok"]);
    let full_name = name.with_word_before_key(text);
    // `username ann secret x`, `tacacs-server key x`.
    let is_device = is_secret && is_numbered
        || (is_secret || names::is_owned_key(full_name))
            && value::is_jumbled(&text[start..told_end(text, start)]);
    let is_told_plainly = links > 0
        && matches!(key, KeyName::Strong | KeyName::Loose)
        && is_code_word(&text[start..told_end(text, start)]);
    if (is_password || is_device || is_told_plainly)
        && start > at
        && (links > 0 || is_setting(text, start))
        && is_told(text, start)
    {
        let end = told_end(text, start);
        return Some(FoundSecret::new(start, end, "assignment", Rank::Context));
    }
    // `KEY x`, `acmeACCESS x`: in capitals it is a name and not a word of the sentence.
    let is_constant = names::has_capitals(name.bytes(text));
    let is_vendor = names::is_vendor(name.bytes(text));
    let is_quoted = start > 0 && is_quote(text.get(start - 1));
    // `acme key x` begins a line; in a sentence the word before is any word.
    let is_owned =
        names::is_owned_key(full_name) && is_line_start(text, name.end - full_name.len());
    let is_secret = is_secret
        || is_constant
        || names::is_opening_key(full_name)
        || is_owned
        || names::is_access(name.bytes(text));
    let is_key_of_vendor = is_vendor && is_quoted
        || (matches!(len, 32 | 64) || value::is_uuid(token))
            && names::is_keyed_vendor(name.bytes(text));
    let is_digest = links == 0
        && !is_secret
        && !is_key_of_vendor
        && token.iter().all(|b| b.is_ascii_hexdigit() || *b == b'-');
    let is_file =
        !token.iter().any(u8::is_ascii_uppercase) && token.iter().any(|b| b"/.".contains(b));
    let is_run = value::is_run(token)
        || value::is_signed_run(token)
        || value::is_uuid(token)
        || value::is_licence(token);
    let is_generated = value::is_random(token)
        || (is_secret || is_vendor) && is_run
        || (is_constant || is_secret) && value::is_unspoken(token)
        || is_secret && is_short_token(token);
    let is_token = start > at && is_generated && !is_digest && (!is_file || is_constant);
    // `mixpanel x`: hashes and ids are hexadecimal.
    let is_named = is_secret || is_quoted || is_vendor;
    if !is_token || key == KeyName::Weak && links == 0 && !is_named {
        return None;
    }
    let kind = assigned_value::kind_of(token, b"");
    Some(FoundSecret::new(start, start + len, kind, Rank::Context))
}

/// Shorter than other tokens, or with a single digit.
fn is_short_token(token: &[u8]) -> bool {
    let is_plain = token.iter().all(u8::is_ascii_alphanumeric);
    let has_digit = token.iter().any(u8::is_ascii_digit);
    is_plain
        && has_digit
        && token.len() >= 14
        && (value::is_mixed(token) || value::is_unpronounceable(token))
}

/// `enable password 7 x`: the last word of a line, with letters and digits.
fn is_setting(text: &[u8], start: usize) -> bool {
    let end = told_end(text, start);
    let value = &text[start..end];
    let is_name = value.iter().any(|b| b"$<>{}()[]/\\".contains(b)) || value.starts_with(b"%");
    matches!(text.get(end), None | Some(b'\n' | b'\r')) && value::is_generated(value) && !is_name
}

/// `password for ann: x`, `the password of root is x`: one word at the end of the line.
fn of_somebody(text: &[u8], name: &Name) -> Option<FoundSecret<'static>> {
    const LINKS: &[&[u8]] = &[b": ", b" is ", b":"];
    let line = &text[name.end..text.len().min(name.end + VALUE_REACH)];
    let line = line.split(|b| *b == b'\n').next()?;
    // `A temporary password is generated for root@localhost: x`.
    let is_made = line.starts_with(b" is generated for ");
    let is_owned = is_made
        || [b" for ".as_slice(), b" of ", b" to "]
            .iter()
            .any(|word| line.starts_with(word));
    let word = name.bytes(text).to_ascii_lowercase();
    if !is_owned
        || ![b"password".as_slice(), b"passwd", b"pw"]
            .iter()
            .any(|end| word.ends_with(end))
    {
        return None;
    }
    let link = LINKS
        .iter()
        .filter(|link| !is_made || **link != b" is ")
        .find_map(|link| Some(memmem::find(line, link)? + link.len()))?;
    let start = name.end + link;
    let is_value = start < text.len() && is_setting(text, start) && is_told(text, start);
    is_value.then(|| FoundSecret::new(start, told_end(text, start), "assignment", Rank::Context))
}

/// `ID/PW: ann/x`, `user/password ann (x)`: the pair that two names speak of.
pub(super) fn of_pair(text: &[u8], name: &Name) -> Option<FoundSecret<'static>> {
    const USERS: &[&str] = &["id", "user", "username", "login", "account", "email"];
    let before = text[..name.start].strip_suffix(b" ");
    let before = before.unwrap_or(&text[..name.start]).strip_suffix(b"/")?;
    let before = before.strip_suffix(b" ").unwrap_or(before);
    let in_word = |b: &&u8| b.is_ascii_alphabetic();
    let len = before.iter().rev().take(16).take_while(in_word).count();
    let user = &before[before.len() - len..];
    let is_user = USERS
        .iter()
        .any(|word| user.eq_ignore_ascii_case(word.as_bytes()));
    if !is_user || name.judge(text) == KeyName::Plain {
        return None;
    }
    let run = |from: usize, is_in: &dyn Fn(&u8) -> bool| {
        let rest = text[from..].iter().take(VALUE_REACH);
        from + rest.take_while(|b| is_in(b)).count()
    };
    let first = run(name.end, &|b| b" :=->(".contains(b));
    let first_end = run(first, &|b| b.is_ascii_alphanumeric() || b"_.@-".contains(b));
    let start = run(first_end, &|b| b" /(".contains(b));
    let end = told_end(text, start);
    let is_parted = text[first_end..start].iter().any(|b| b"/(".contains(b));
    let is_secret = is_parted
        && first < first_end
        && value::is_generated(&text[start..end])
        && !value::is_placeholder(&text[start..end])
        && !text[start..end].contains(&b'/');
    is_secret.then(|| FoundSecret::new(first, end, "assignment", Rank::Context))
}

fn is_line_start(text: &[u8], at: usize) -> bool {
    let margin = text[..at]
        .iter()
        .rev()
        .take(32)
        .take_while(|b| matches!(b, b' ' | b'\t'))
        .count();
    matches!(text[..at - margin], [] | [.., b'\n'])
}

/// `the password is hunter2.`: letters and digits or signs up to the end of the sentence or the quote.
fn is_told(text: &[u8], start: usize) -> bool {
    const SPOKEN: &[&[u8]] = &[
        b"sha", b"md5", b"base64", b"utf", b"bcrypt", b"argon", b"x509", b"http",
    ];
    let end = told_end(text, start);
    let value = &text[start..end];
    let is_quoted =
        start > 0 && is_quote(Some(&text[start - 1])) && text.get(end) == Some(&text[start - 1]);
    let digits = value.iter().filter(|b| b.is_ascii_digit()).count();
    let letters = value.iter().filter(|b| b.is_ascii_alphabetic()).count();
    // `wrong!` is a word.
    let is_signed = value.iter().rev().skip(1).any(|b| b"!#%^*~".contains(b));
    let is_spoken = SPOKEN
        .iter()
        .any(|word| value.to_ascii_lowercase().starts_with(word));
    let behind = text[end..].trim_ascii_start().first();
    let is_last = matches!(
        text.get(end),
        None | Some(b'\n' | b'\r' | b'.' | b',' | b';' | b'!')
    ) || behind.is_none();
    value.len() >= 6
        && !value::is_placeholder(value)
        && (is_quoted || (digits > 0 || is_signed) && letters > 0 && is_last && !is_spoken)
}

/// `hunter212`, `Tr0ub4dor&3`: no word of a sentence, nor the name of an algorithm.
fn is_code_word(value: &[u8]) -> bool {
    let digits = value.iter().filter(|b| b.is_ascii_digit()).count();
    let is_signed = value.iter().any(|b| b"!#%^*~&@".contains(b));
    value.len() >= 8 && (digits >= 3 || digits >= 1 && is_signed) && value::is_generated(value)
}

fn told_end(text: &[u8], start: usize) -> usize {
    let ends = |b: &u8| *b <= b' ' || b"\"'`,;".contains(b);
    let len = text[start..]
        .iter()
        .take(LITERAL_LEN_MAX)
        .take_while(|b| !ends(b))
        .count();
    let dots = text[start..start + len]
        .iter()
        .rev()
        .take_while(|b| matches!(b, b'.' | b')'))
        .count();
    start + len - dots
}
