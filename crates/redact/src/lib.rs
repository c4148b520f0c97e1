//! Finds secrets in text and puts a mark, `[redacted:KIND:xxxxxxxx]`, in their place.
//!
//! ```
//! use relight_redact::{MarkKey, Redactor};
//!
//! let redactor = Redactor::new(MarkKey::new([7; 32]))
//!     .with_environment([("SERVICE_TOKEN", "correct-horse-42")].into_iter())
//!     .with_known("session", "a1b2c3d4e5f6");
//!
//! let clean = redactor.text("password=hunter2-hunter3 for run 17");
//! assert!(clean.starts_with("password=[redacted:") && clean.ends_with(" for run 17"));
//! assert!(redactor.text("sent correct-horse-42").starts_with("sent [redacted:env:"));
//! // Counts, hashes, ids and placeholders stay.
//! let harmless = "max_tokens: 4096, password: $PASSWORD, commit 9fceb02d0ae598e95dc970b74767f19372d61af8";
//! assert_eq!(redactor.text(harmless), harmless);
//!
//! // Text that arrives in pieces is returned line by line.
//! let mut log = redactor.stream();
//! assert_eq!(log.pass(b"starting\nexport API_K"), b"starting\n");
//! assert!(log.pass(b"EY=8fJ2kd93LxQz71\n").starts_with(b"export API_KEY=[redacted:"));
//! ```
//!
//! | to redact | use |
//! |---|---|
//! | a text, or bytes that may not be UTF-8 | [`Redactor::text`], [`Redactor::bytes`] |
//! | a JSON value in place | [`Redactor::json`] |
//! | one `key=value` pair | [`Redactor::pair`] |
//! | the words of a command | [`Redactor::command`] |
//! | a log that still grows | [`Redactor::stream`], [`RedactedStream`] |
//!
//! Rules apply in this order: known values in all their encodings, published token formats, keys
//! and headers by their shape, values under secret names. Randomness is never enough by itself:
//! hashes and ids stay. Redacting twice gives the same text as redacting once.
//!
//! The crate reads no environment, clock or file: the caller passes the key of the marks, the
//! variables and the known values. The time is linear in the length of the text.

mod assign;
mod assigned_value;
mod blocks;
mod checksum;
mod command;
mod extent;
mod finding;
mod format_match;
mod formats;
mod json;
mod key;
mod known;
mod lines;
mod mark;
mod names;
mod shapes;
mod stream;
mod trigger;
mod untied;
mod url;
mod value;
mod vendors;

use std::borrow::Cow;
use std::fmt;

use serde_json::Value;

use self::finding::{FoundSecret, Rank};
use self::known::KnownSecrets;
pub use self::mark::{MarkKey, floor_mark_boundary};
use self::names::KeyName;
pub use self::stream::{HELD_BYTES_MAX, RedactedStream, SIGHT_BYTES};
use self::trigger::Rule;

/// A mark may uncover a secret that was glued to its neighbour, so a redacted text is looked at
/// again until nothing changes; in practice once.
const ROUNDS_MAX: usize = 8;

/// Recognises secrets and replaces them.
///
/// Cheap to make and to share; nothing is compiled or indexed before it is needed.
#[derive(Clone)]
pub struct Redactor {
    mark_key: MarkKey,
    known: KnownSecrets,
}

impl Redactor {
    /// A redactor that knows formats and names, and no value yet.
    pub fn new(mark_key: MarkKey) -> Self {
        Self {
            mark_key,
            known: KnownSecrets::default(),
        }
    }

    /// Adds the values of secret-named variables and the passwords of URLs among all values.
    ///
    /// Values under 8 characters, numbers, paths and common words are left out: they would be
    /// found everywhere.
    #[must_use]
    pub fn with_environment<'a>(mut self, vars: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        for (name, value) in vars {
            // The shell's working folder, not a password.
            if matches!(name, "PWD" | "OLDPWD") {
                continue;
            }
            let key = names::judge(name.as_bytes());
            let is_weak = key == KeyName::Weak && !value::is_token(value.trim().as_bytes());
            if key != KeyName::Plain && !is_weak {
                self.known.add_variable(value);
            }
            self.known.add_url_passwords(value);
        }
        self
    }

    /// Adds a value that is secret wherever it stands; under 8 characters it is left out.
    #[must_use]
    pub fn with_known(mut self, kind: &str, value: &str) -> Self {
        self.known.add(kind, value);
        self
    }

    /// Redacts a text; borrowed when nothing was found.
    pub fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match self.bytes(text.as_bytes()) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            Cow::Owned(bytes) => {
                let text = String::from_utf8(bytes);
                Cow::Owned(text.expect("findings start and end between characters"))
            }
        }
    }

    /// Redacts bytes that may not be UTF-8, such as program output; foreign bytes stay.
    pub fn bytes<'t>(&self, bytes: &'t [u8]) -> Cow<'t, [u8]> {
        let mut redacted = Cow::Borrowed(bytes);
        for _ in 0..ROUNDS_MAX {
            let findings = self.findings(&redacted);
            if findings.is_empty() {
                break;
            }
            redacted = Cow::Owned(self.render(&redacted, &findings));
        }
        redacted
    }

    /// Whether a name holds a value that was given as a secret, or a token of a published format.
    ///
    /// Keys of other programs have secret words and random parts (`auth:user:9f86…`): what stands
    /// before a value, which counts in a text, says nothing there.
    pub fn has_token(&self, name: &str) -> bool {
        self.findings(name.as_bytes())
            .iter()
            .any(|finding| finding.rank < Rank::Shape)
    }

    /// Redacts a JSON value in place and answers whether anything changed.
    ///
    /// Strings and object keys pass the funnel; strings under secret-named keys are replaced
    /// whole, numbers there too unless the name may count something. The shape stays.
    pub fn json(&self, value: &mut Value) -> bool {
        json::redact(self, value, KeyName::Plain)
    }

    /// Redacts the value of one `key=value` pair; the key's name counts.
    pub fn pair<'t>(&self, key: &str, value: &'t str) -> Cow<'t, str> {
        match names::judge(key.as_bytes()) {
            KeyName::Plain => self.text(value),
            secret => self.secret_value(secret, key.as_bytes(), value),
        }
    }

    /// Redacts the words of a command: passwords in flags of known programs, and words behind a flag
    /// or a name that tells of a secret.
    pub fn command<W: AsRef<str>>(&self, words: &[W]) -> Vec<String> {
        let bytes: Vec<&[u8]> = words.iter().map(|word| word.as_ref().as_bytes()).collect();
        let places = command::places(&bytes, true, false);
        let mut clean = Vec::with_capacity(words.len());
        let mut key = KeyName::Plain;
        for (word, place) in words.iter().zip(places) {
            let word = word.as_ref();
            clean.push(match (place, word.split_once('=')) {
                (Some((start, end)), _) => {
                    let secret = self.whole(&word.as_bytes()[start..end], "password");
                    format!("{}{secret}{}", &word[..start], &word[end..])
                }
                (None, _) if key != KeyName::Plain && !word.starts_with("--") => {
                    self.secret_value(key, b"", word).into_owned()
                }
                (None, Some((name, value))) if !name.contains(char::is_whitespace) => {
                    format!("{}={}", self.text(name), self.pair(name, value))
                }
                (None, _) => self.text(word).into_owned(),
            });
            key = command::next_word(word);
        }
        clean
    }

    /// A value under a secret key: replaced whole, unless it is harmless by its look.
    fn secret_value<'t>(&self, key: KeyName, name: &[u8], value: &'t str) -> Cow<'t, str> {
        let bytes = value.as_bytes();
        let marks = self.marks(bytes);
        if marks.iter().map(|(a, b)| b - a).sum::<usize>() == bytes.len() {
            return self.text(value);
        }
        // Harmless by its look, yet holding a secret, is not harmless.
        let kept = assigned_value::is_harmless(key, bytes).then(|| self.text(value));
        if let Some(kept @ Cow::Borrowed(_)) = kept {
            return kept;
        }
        let mut known = Vec::new();
        self.known.find(bytes, &mut known);
        let whole = known
            .iter()
            .find(|finding| finding.start == 0 && finding.end == bytes.len());
        let kind = whole.map_or_else(
            || assigned_value::kind_of(bytes, name),
            |finding| finding.kind,
        );
        Cow::Owned(self.whole(bytes, kind))
    }

    fn whole(&self, secret: &[u8], kind: &str) -> String {
        let mut out = Vec::new();
        self.mark_key.write_mark(&mut out, kind, secret);
        String::from_utf8_lossy(&out).into_owned()
    }

    /// The marks in a text, without those that hide a known value.
    fn marks(&self, text: &[u8]) -> Vec<(usize, usize)> {
        let mut marks = mark::marks(text);
        marks.retain(|&(start, end)| !self.known.is_in_mark(&text[start..end]));
        marks
    }

    /// The secrets in a text, in order and apart from each other.
    fn findings(&self, text: &[u8]) -> Vec<FoundSecret<'_>> {
        let mut findings = Vec::new();
        self.known.find(text, &mut findings);
        find_by_rule(text, &mut findings);
        if findings.is_empty() {
            return findings;
        }
        finding::settle(text, findings, &self.marks(text))
    }

    fn render(&self, text: &[u8], findings: &[FoundSecret<'_>]) -> Vec<u8> {
        let mut out = Vec::with_capacity(text.len() + findings.len() * 16);
        let mut done = 0;
        for finding in findings {
            out.extend_from_slice(&text[done..finding.start]);
            self.write_mark(&mut out, text, finding);
            done = finding.end;
        }
        out.extend_from_slice(&text[done..]);
        out
    }

    fn write_mark(&self, out: &mut Vec<u8>, text: &[u8], finding: &FoundSecret<'_>) {
        out.extend(finding.quote);
        self.mark_key
            .write_mark(out, finding.kind, &text[finding.start..finding.end]);
        out.extend(finding.quote);
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Redactor(..)")
    }
}

fn find_by_rule(text: &[u8], findings: &mut Vec<FoundSecret<'_>>) {
    trigger::scan(text, |start, rule| {
        let found = match rule {
            Rule::Name | Rule::NameEnd => return assign::find(text, start, findings),
            // Marks hold no names: reading continues behind them.
            Rule::Mark => {
                let opening = start.checked_sub(1)?;
                return mark::mark_len(&text[opening..]).map(|len| opening + len);
            }
            Rule::Format(index) => format_at(text, start, index),
            Rule::Pem => blocks::pem(text, start),
            // A whole file of credentials in base64 also begins with a bracket.
            Rule::Jwt => {
                blocks::jwt(text, start).or_else(|| shapes::encoded(text, start, holds_secret))
            }
            Rule::Url => url_at(text, start),
            Rule::Scheme => blocks::scheme(text, start),
            Rule::Command => {
                // A flag may stand far behind the program: what lies between is still to be read.
                findings.extend(
                    command::passwords(text, start)
                        .into_iter()
                        .map(|(from, to)| FoundSecret::new(from, to, "password", Rank::Context)),
                );
                return None;
            }
            Rule::Infix(index) => infix_at(text, start, index),
            Rule::Twilio => shapes::twilio(text, start),
            Rule::Encoded => shapes::encoded(text, start, holds_secret),
            Rule::KubernetesSecret => {
                shapes::kubernetes(text, start, findings);
                return None;
            }
            Rule::PuttyKey => shapes::putty(text, start),
            Rule::Pgpass => shapes::pgpass(text, start),
            Rule::OracleThin => shapes::oracle_thin(text, start),
            Rule::Piped => shapes::piped(text, start),
            Rule::HereString => shapes::here_string(text, start),
            Rule::Call => shapes::called(text, start),
            Rule::Identified => shapes::identified_by(text, start),
            Rule::XmlKey => shapes::xml_key(text, start),
            Rule::GoogleClient => {
                shapes::google_client(text, start, findings);
                return None;
            }
            Rule::JsonWebKey => {
                shapes::json_web_key(text, start, findings);
                return None;
            }
        }?;
        findings.extend(shapes::paired_secret(text, &found));
        findings.push(found);
        Some(found.end)
    });
    shapes::discord(text, findings);
    shapes::shuffled(text, findings);
}

fn holds_secret(text: &[u8]) -> bool {
    let mut findings = Vec::new();
    find_by_rule(text, &mut findings);
    !findings.is_empty()
}

fn format_at(text: &[u8], start: usize, index: usize) -> Option<FoundSecret<'static>> {
    let format = &formats::FORMATS[index];
    let end = format_match::token_end(text, start, format)?;
    Some(FoundSecret::new(start, end, format.kind, Rank::Format))
}

fn infix_at(text: &[u8], at: usize, index: usize) -> Option<FoundSecret<'static>> {
    let infix = &formats::INFIXES[index];
    let (start, end) = format_match::around(text, at, infix)?;
    Some(FoundSecret::new(start, end, infix.kind, Rank::Format))
}

fn url_at(text: &[u8], start: usize) -> Option<FoundSecret<'static>> {
    let (from, to) = url::password_at(text, start)?;
    let kind = format_match::kind_of(&text[from..to]).unwrap_or("url-password");
    Some(FoundSecret::new(from, to, kind, Rank::Context))
}
