//! Secrets that are secret because of their name: `PASSWORD=x`, `"apiKey": "x"`, `--token x`,
//! `Authorization: Bearer x`, `<password>x</password>`, "the token is x".

use super::extent::{self, Extent, Tie, is_quote, skip_blanks};
use super::finding::{Finding, Rank};
use super::key::{Name, tie_behind};
use super::names::{self, KeyName};
use super::{formats, value};

/// Numbers up to this long count something when the name is loose.
const COUNT_LEN_MAX: usize = 12;
/// How far a header's value is read to see what it is.
const HEADER_HEAD_LEN: usize = 128;
/// Lengths of `digest `, `signature ` and `aws4-hmac-sha256 `, which are followed by lists.
const LISTED_SCHEMES: [usize; 3] = [7, 10, 17];
const ARRAY_LEN_MAX: usize = 256;

/// Looks at the name around `stem` and adds the secrets it names; answers where to go on.
pub(super) fn find(text: &[u8], stem: usize, findings: &mut Vec<Finding<'_>>) -> Option<usize> {
    let name = Name::around(text, stem)?;
    let Some((tie, from, name_quoted)) = tie_behind(text, &name) else {
        return in_prose(text, &name, findings);
    };
    let key = name.judge(text);
    if key == KeyName::Plain {
        return None;
    }
    if text.get(skip_blanks(text, from)) == Some(&b'[') && tie != Tie::Flag {
        return in_array(text, skip_blanks(text, from), key, findings);
    }
    let place = Place { name, key, tie, name_quoted };
    let extent = match tie {
        Tie::Compare | Tie::List => extent::quoted_at(text, from, tie)?,
        _ => extent::value_at(text, from, tie, name_quoted),
    };
    let secret = place.secret(text, extent)?;
    let kind = kind_of(&text[secret.start..secret.end], name.bytes(text));
    let mut finding = Finding::new(secret.start, secret.end, kind, Rank::Context);
    let is_bare = !secret.quoted && secret == extent;
    finding.quote = (name_quoted && is_bare && tie == Tie::Colon).then_some(b'"');
    findings.push(finding);
    Some(secret.end)
}

/// Whether a whole value under a secret key is harmless by its look.
pub(super) fn is_harmless(key: KeyName, value: &[u8]) -> bool {
    let is_count = value::is_number(value)
        && match key {
            KeyName::Plain => true,
            KeyName::Loose => value.len() <= COUNT_LEN_MAX,
            KeyName::Strong => value.len() < 4,
        };
    value::is_placeholder(value) || is_count || value::is_path(value)
}

/// Kind of a secret that was found by its name.
pub(super) fn kind_of(secret: &[u8], name: &[u8]) -> &'static str {
    let ends = |word: &str| {
        name.len() >= word.len()
            && name[name.len() - word.len()..].eq_ignore_ascii_case(word.as_bytes())
    };
    match formats::kind_of(secret) {
        Some(kind) => kind,
        None if ends("cookie") => "cookie",
        None if ends("authorization") => "authorization",
        None => "assignment",
    }
}

/// Everything around a value that decides whether it is a secret.
struct Place {
    name: Name,
    key: KeyName,
    tie: Tie,
    name_quoted: bool,
}

impl Place {
    /// The part of `extent` that is secret, if any.
    fn secret(&self, text: &[u8], extent: Extent) -> Option<Extent> {
        if names::is_credential_header(self.name.bytes(text))
            && let Some(secret) = self.header_value(text, extent)
        {
            return Some(secret);
        }
        let value = &text[extent.start..extent.end];
        if extent.quoted {
            return self.quoted_secret(text, extent);
        }
        if is_harmless(self.key, value) {
            return self.behind_type(text, extent);
        }
        if self.name_quoted {
            return value::is_number(value).then_some(extent);
        }
        if self.is_code_or_prose(text, extent) {
            return self.behind_type(text, extent);
        }
        Some(extent)
    }

    fn quoted_secret(&self, text: &[u8], extent: Extent) -> Option<Extent> {
        let value = &text[extent.start..extent.end];
        let start = extent.start + scheme_len(value);
        let value = &text[start..extent.end];
        (!is_harmless(self.key, value)).then_some(Extent { start, ..extent })
    }

    /// `Bearer x`, `Digest a=b, c=d`, `a=b; c=d`: header values hold blanks.
    fn header_value(&self, text: &[u8], extent: Extent) -> Option<Extent> {
        let head = &text[extent.start..text.len().min(extent.start + HEADER_HEAD_LEN)];
        let head = head.split(|b| *b == b'\n').next()?;
        let is_cookie = self.name.bytes(text).to_ascii_lowercase().ends_with(b"cookie");
        let scheme = scheme_len(head);
        let is_listed = is_cookie || LISTED_SCHEMES.contains(&scheme);
        let is_header = if is_cookie { head.contains(&b'=') } else { scheme > 0 };
        if extent.quoted || !is_header {
            return None;
        }
        let enclosing = self.name.before(text).filter(|b| is_quote(Some(b)));
        let ends = |b: &u8| {
            matches!(b, b'\n' | b'\r') || Some(*b) == enclosing || (*b == b' ' && !is_listed)
        };
        let start = extent.start + scheme;
        let len = text[start..].iter().take_while(|b| !ends(b)).count();
        let value = &text[start..start + len];
        let value = value.strip_suffix(b"\\").unwrap_or(value).trim_ascii_end();
        let end = start + value.len();
        (!value::is_placeholder(value)).then_some(Extent { start, end, quoted: false })
    }

    fn is_code_or_prose(&self, text: &[u8], extent: Extent) -> bool {
        let value = &text[extent.start..extent.end];
        if value::is_code(value) || self.is_working_folder(text, value) {
            return true;
        }
        let rest = &text[extent.end..];
        match self.tie {
            Tie::Colon => value::is_word(value) && !self.is_alone(text, rest),
            Tie::SpacedEquals => {
                value::is_word(value) && matches!(rest.first(), Some(b';' | b',' | b')' | b'.'))
            }
            Tie::Flag => value[0] == b'-' || value::is_word(value) && is_flag_prose(value),
            Tie::Equals | Tie::Compare | Tie::List | Tie::Markup => false,
        }
    }

    /// `PWD=/home/Ann`.
    fn is_working_folder(&self, text: &[u8], value: &[u8]) -> bool {
        let name = self.name.bytes(text);
        let is_pwd = name.eq_ignore_ascii_case(b"pwd") || name.eq_ignore_ascii_case(b"oldpwd");
        is_pwd && matches!(value.first(), Some(b'/' | b'~' | b'.'))
    }

    /// Whether name and value are all there is on the line, as in a settings file.
    fn is_alone(&self, text: &[u8], rest: &[u8]) -> bool {
        let after = rest.iter().find(|b| !matches!(b, b' ' | b'\t'));
        matches!(after, None | Some(b'\n' | b'\r' | b'#' | b'}')) && self.name.starts_line(text)
    }

    /// `password: &str = "x"`: the literal behind the type.
    fn behind_type(&self, text: &[u8], extent: Extent) -> Option<Extent> {
        let in_type = |b: &&u8| b.is_ascii_alphanumeric() || b" _<>&':".contains(b);
        let rest = &text[extent.end..];
        let equals = rest.iter().take(32).take_while(in_type).count();
        if self.tie != Tie::Colon || rest.get(equals) != Some(&b'=') {
            return None;
        }
        let literal = extent::quoted_at(text, extent.end + equals + 1, Tie::SpacedEquals)?;
        self.quoted_secret(text, literal)
    }
}

/// Words that follow the mention of a flag in a sentence.
fn is_flag_prose(value: &[u8]) -> bool {
    const WORDS: &str = "
        a an and are argument as at be but can flag for from if in instead is may must needs of
        on option options or parameter should takes that the then to was when which will with
        you value has not only";
    WORDS.split_ascii_whitespace().any(|word| value.eq_ignore_ascii_case(word.as_bytes()))
}

/// Length of a scheme word and its blank at the start of a credential: it stays.
fn scheme_len(value: &[u8]) -> usize {
    const SCHEMES: &[&str] = &[
        "bearer ",
        "basic ",
        "token ",
        "digest ",
        "bot ",
        "apikey ",
        "api-key ",
        "negotiate ",
        "ntlm ",
        "aws4-hmac-sha256 ",
        "key ",
        "dpop ",
        "signature ",
        "sharedaccesssignature ",
        "sso-key ",
    ];
    let starts = |scheme: &&&str| {
        value.get(..scheme.len()).is_some_and(|head| head.eq_ignore_ascii_case(scheme.as_bytes()))
    };
    SCHEMES.iter().find(starts).map_or(0, |scheme| scheme.len())
}

/// `"tokens": ["x", "y"]`: each string of the array.
fn in_array(
    text: &[u8],
    open: usize,
    key: KeyName,
    findings: &mut Vec<Finding<'_>>,
) -> Option<usize> {
    let in_gap = |b: &&u8| b.is_ascii_whitespace() || **b == b',';
    let mut at = open + 1;
    let mut last_end = None;
    for _ in 0..ARRAY_LEN_MAX {
        at += text[at..].iter().take(256).take_while(in_gap).count();
        let Some(extent) = extent::quoted_at(text, at, Tie::List) else { break };
        let secret = &text[extent.start..extent.end];
        if !is_harmless(key, secret) {
            findings.push(Finding::new(
                extent.start,
                extent.end,
                kind_of(secret, b""),
                Rank::Context,
            ));
            last_end = Some(extent.end);
        }
        at = text.len().min(extent.end + 1);
        at += usize::from(is_quote(text.get(at)));
    }
    last_end
}

/// A random string directly after a secret word, as people tell each other.
fn in_prose(text: &[u8], name: &Name, findings: &mut Vec<Finding<'_>>) -> Option<usize> {
    const LINKS: &[&str] = &["is", "was", "value", "=", "to", "key", "are", "now"];
    let mut at = name.end;
    let mut links = 0;
    while links < 3 {
        let start = skip_blanks(text, at);
        let len = text[start..].iter().take(6).take_while(|b| **b > b' ' && **b != b':').count();
        if start == at
            || !LINKS.iter().any(|l| text[start..start + len].eq_ignore_ascii_case(l.as_bytes()))
        {
            break;
        }
        at = start + len + usize::from(text.get(start + len) == Some(&b':'));
        links += 1;
    }
    let start = skip_blanks(text, at);
    let start = start + usize::from(start > at && is_quote(text.get(start)));
    let in_token = |b: &&u8| b.is_ascii_alphanumeric() || b"_-+/=.~".contains(b);
    let len = text[start..].iter().take(512).take_while(in_token).count();
    let token = &text[start..start + len];
    let is_digest = links == 0 && token.iter().all(|b| b.is_ascii_hexdigit() || *b == b'-');
    let is_file =
        !token.iter().any(u8::is_ascii_uppercase) && token.iter().any(|b| b"/.".contains(b));
    let is_token = start > at && value::is_random(token) && !is_digest && !is_file;
    if !is_token || name.judge(text) == KeyName::Plain {
        return None;
    }
    let kind = kind_of(token, b"");
    findings.push(Finding::new(start, start + len, kind, Rank::Context));
    Some(start + len)
}
