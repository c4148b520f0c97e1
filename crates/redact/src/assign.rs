//! Secrets that are secret because of their name: `PASSWORD=x`, `"apiKey": "x"`, `--token x`,
//! `Authorization: Bearer x`, `<password>x</password>`, "the token is x". Names that no sign ties to
//! their value are in `untied`.

use memchr::memmem;

use super::extent::{self, Extent, Tie, is_quote, skip_blanks};
use super::finding::{FoundSecret, Rank};
use super::key::{Name, tie_behind};
use super::names::{self, KeyName};
use super::{assigned_value, lines, untied, value};

/// Numbers up to this long count something when the name is loose.
/// How far a header's value is read to see what it is.
const HEADER_HEAD_LEN: usize = 128;
/// Lengths of `digest `, `signature ` and `aws4-hmac-sha256 `, which are followed by lists.
const LISTED_SCHEMES: [usize; 3] = [7, 10, 17];
const ARRAY_LEN_MAX: usize = 256;
const PHRASE_LEN_MAX: usize = 256;
const LINE_LEN_MAX: usize = 512;
const GLUED_LEN_MIN: usize = 20;

/// Looks at the name around `stem` and adds the secrets it names; answers where to go on.
pub(super) fn find(text: &[u8], stem: usize, findings: &mut Vec<FoundSecret<'_>>) -> Option<usize> {
    let name = Name::around(text, stem)?;
    if let Some(found) = untied::of_pair(text, &name) {
        findings.push(found);
        return Some(found.end);
    }
    let Some((tie, from, name_quoted)) = tie_behind(text, &name) else {
        return untied::find(text, &name, findings).or_else(|| glued(text, stem, &name, findings));
    };
    let key = name.judge(text);
    // `discord:9f86…` is an id of a session or a URN; a setting has a blank or quotes.
    let is_glued = tie == Tie::Colon
        && !name_quoted
        && !names::ends_with_key(name.bytes(text))
        && !names::has_capitals(name.bytes(text))
        && text
            .get(from)
            .is_some_and(|b| !is_quote(Some(b)) && *b > b' ');
    // `log("token:", token)`: the quote closes what the name stands in.
    let quote = skip_blanks(text, from);
    let behind = text.get(skip_blanks(text, quote + 1));
    let is_closing = !name_quoted
        && is_quote(text.get(quote))
        && match tie {
            Tie::Colon => text.get(quote + 1).is_none_or(|b| b",);]+".contains(b)),
            // `print("token=" + token)`.
            Tie::Equals => matches!(behind, Some(b'+')) && quote == from,
            _ => false,
        };
    if key == KeyName::Plain || key == KeyName::Weak && is_glued || is_closing {
        return None;
    }
    if tie == Tie::Colon
        && let Some(end) = lines::items_below(text, key, from, findings)
    {
        return Some(end);
    }
    if let Some(below) = lines::value_below(text, &name, key, tie, from) {
        findings.push(below);
        return Some(below.end);
    }
    if tie == Tie::Argument
        && let Some(named) = untied::named_value(text, &name, key)
    {
        findings.push(named);
        return Some(named.end);
    }
    if key == KeyName::Strong
        && let Some(bytes) = extent::bytes_at(text, from)
    {
        findings.push(FoundSecret::new(
            bytes.start,
            bytes.end,
            "assignment",
            Rank::Context,
        ));
        return Some(bytes.end);
    }
    if text.get(skip_blanks(text, from)) == Some(&b'[') && tie != Tie::Flag {
        return in_array(text, skip_blanks(text, from), key, findings);
    }
    let open = skip_blanks(text, from);
    if tie == Tie::Colon && matches!(text[open..], [b'{', b' ' | b'\n' | b'\r' | b'"', ..]) {
        let found = untied::default_in_block(text, open, key)?;
        findings.push(found);
        return Some(found.end);
    }
    // `env("SECRET_KEY", default="x")`.
    let is_default =
        tie == Tie::Argument && text[skip_blanks(text, from)..].starts_with(b"default=");
    let from = if is_default {
        skip_blanks(text, from) + b"default=".len()
    } else {
        from
    };
    let place = AssignmentContext {
        name,
        key,
        tie,
        name_quoted,
    };
    let extent = match tie {
        Tie::Dash if text[..from].trim_ascii_end().ends_with(b"|") => extent::cell_at(text, from)?,
        Tie::Dash => extent::quoted_at(text, from, tie).or_else(|| extent::token_at(text, from))?,
        Tie::Compare | Tie::List | Tie::Argument | Tie::Call => extent::quoted_at(text, from, tie)?,
        _ => extent::value_at(text, from, tie, name_quoted),
    };
    let secret = place.secret(text, extent)?;
    // `"密码": "请输入"` is a text and its translation.
    if names::is_foreign(name.bytes(text)) && !value::is_generated(&text[secret.start..secret.end])
    {
        return None;
    }
    let kind = assigned_value::kind_of(&text[secret.start..secret.end], name.bytes(text));
    let mut finding = FoundSecret::new(secret.start, secret.end, kind, Rank::Context);
    let is_bare = !secret.quoted && secret == extent;
    finding.quote = (name_quoted && is_bare && tie == Tie::Colon).then_some(b'"');
    findings.push(finding);
    assigned_value::again(text, &finding, findings);
    let is_parallel = || text[..name.start].trim_ascii_end().ends_with(b",");
    if tie == Tie::Call || secret.quoted && is_parallel() {
        more_arguments(text, secret.end + 1, findings);
    }
    // Of a private key over several lines only the first was read here.
    let value = &text[secret.start..secret.end];
    let is_torn_key = value.starts_with(b"-----BEGIN ") && memmem::find(value, b"-END ").is_none();
    Some(if is_torn_key {
        secret.start
    } else {
        secret.end
    })
}

/// `acme-secret-x`, `acmeTOKEN-x`: a generated value that only a sign ties to the end of its name.
fn glued(
    text: &[u8],
    stem: usize,
    name: &Name,
    findings: &mut Vec<FoundSecret<'_>>,
) -> Option<usize> {
    let word = text[stem..name.end]
        .iter()
        .take_while(|b| b.is_ascii_alphabetic())
        .count();
    let from = stem + word + 1;
    let secret = text
        .get(from..name.end)
        .filter(|secret| secret.len() >= GLUED_LEN_MIN)?;
    // `SecretData_AcmeOAuth2Token` is a name of a program.
    let is_generated = value::is_uuid(secret)
        || value::is_token(secret)
            && (value::is_random(secret)
                || value::is_run(secret)
                || value::is_scrambled(secret) && !secret.contains(&b'.'));
    let is_secret = matches!(text[from - 1], b'-' | b'.' | b'_')
        && is_generated
        && match names::judge(&text[name.start..from - 1]) {
            KeyName::Strong | KeyName::Loose => true,
            KeyName::Weak => {
                let name = &text[name.start..from - 1];
                names::has_capitals(name) || names::is_access(name) || value::is_uuid(secret)
            }
            KeyName::Plain => false,
        };
    let found = FoundSecret::new(from, name.end, "assignment", Rank::Context);
    is_secret.then(|| findings.push(found)).map(|()| name.end)
}

/// `Client("x", "y")`: generated literals that follow a secret one.
fn more_arguments(text: &[u8], mut at: usize, findings: &mut Vec<FoundSecret<'_>>) {
    for _ in 0..4 {
        at = skip_blanks(text, at.min(text.len()));
        let comma = text.get(at) == Some(&b',');
        let Some(next) = comma
            .then(|| extent::quoted_at(text, at + 1, Tie::Call))
            .flatten()
        else {
            return;
        };
        if value::is_token(&text[next.start..next.end]) {
            findings.push(FoundSecret::new(
                next.start,
                next.end,
                "assignment",
                Rank::Context,
            ));
        }
        at = next.end + 1;
    }
}

/// Everything around a value that decides whether it is a secret.
struct AssignmentContext {
    name: Name,
    key: KeyName,
    tie: Tie,
    name_quoted: bool,
}

impl AssignmentContext {
    /// The part of `extent` that is secret, if any.
    fn secret(&self, text: &[u8], mut extent: Extent) -> Option<Extent> {
        // `(env("X") or "x")`.
        let value = &text[extent.start..extent.end];
        if !extent.quoted && value.strip_prefix(b"(").is_some_and(value::is_code) {
            extent.start += 1;
        }
        if names::is_credential_header(self.name.bytes(text))
            && let Some(secret) = self.header_value(text, extent)
        {
            return Some(secret);
        }
        let value = &text[extent.start..extent.end];
        // `api: OAuth x`.
        let line = &text[extent.start..text.len().min(extent.start + HEADER_HEAD_LEN)];
        if !extent.quoted && scheme_len(line) > 0 && own_scheme_len(line) > 0 {
            return self.header_value(text, extent);
        }
        let is_tuple = !extent.quoted && matches!(value, [b'(', b'"' | b'\'', ..]);
        if is_tuple || self.tie == Tie::Call && names::is_auth(self.name.bytes(text)) {
            return self.of_user(text, extent, is_tuple);
        }
        match self.tie {
            Tie::Argument if !self.is_given(text, value) => return None,
            Tie::Call if !self.is_set(text, value) => return None,
            Tie::Dash if !value::is_generated(value.trim_ascii()) => return None,
            _ if extent.quoted => return self.quoted_secret(text, extent),
            _ if is_asked_for(text, extent.start) => return None,
            _ => {}
        }
        if let Some(phrase) = self.phrase(text, extent) {
            return Some(phrase);
        }
        if self.is_literal_setting(text, extent) && !value::is_placeholder(value) {
            return Some(extent);
        }
        if assigned_value::is_harmless(self.key, value) {
            return self
                .behind_type(text, extent)
                .or_else(|| self.wrapped(text, extent));
        }
        // `<label for="password">` has a text too.
        let is_element = self.tie == Tie::Markup && value::is_generated(value);
        if self.name_quoted && !is_element {
            return value::is_number(value).then_some(extent);
        }
        if self.is_code_or_prose(text, extent) {
            return self
                .behind_type(text, extent)
                .or_else(|| self.wrapped(text, extent))
                .or_else(|| self.generated(text, default_of(text, extent.end, &LINKS[1..])?));
        }
        Some(extent)
    }

    /// `PASSWORD=letmein` of a shell or a settings file, `;Password=letmein;` of a connection string: what
    /// stands there is the value itself and not the name of one.
    fn is_literal_setting(&self, text: &[u8], extent: Extent) -> bool {
        let name = self.name.bytes(text);
        let value = &text[extent.start..extent.end];
        let in_value = |b: &u8| b.is_ascii_lowercase() || *b == b'_';
        let is_constant = name.iter().all(|b| b.is_ascii_uppercase() || *b == b'_')
            && value.iter().all(in_value)
            && name.contains(&b'_')
            && is_line_end(&text[extent.end..]);
        let before = &text[..self.name.start];
        // `Password=letmein` of a settings file: the arguments of a call are indented.
        let is_line = matches!(before, [] | [.., b'\n'])
            && value.iter().all(u8::is_ascii_lowercase)
            && matches!(text.get(extent.end), None | Some(b'\n' | b'\r'));
        let before = before.strip_suffix(b" ").unwrap_or(before);
        let is_connection = before.ends_with(b";")
            && matches!(text.get(extent.end), Some(b';' | b'"' | b'\''))
            && value
                .iter()
                .all(|b| b.is_ascii_alphanumeric() || *b == b'_')
            && before[..before.len() - 1]
                .rsplit(|b| matches!(b, b';' | b'\n'))
                .next()
                .is_some_and(|pair| pair.contains(&b'='));
        self.key == KeyName::Strong
            && matches!(self.tie, Tie::Equals)
            && value.len() >= 4
            && (is_constant || is_line || is_connection)
    }

    /// `auth=("ann", "x")`, `auth("ann", "x")`: the second of two literals.
    fn of_user(&self, text: &[u8], extent: Extent, is_tuple: bool) -> Option<Extent> {
        let first = if is_tuple {
            extent::quoted_at(text, extent.start + 1, Tie::List)?
        } else {
            extent
        };
        let comma = skip_blanks(text, first.end + 1);
        let password = match text.get(comma) {
            Some(b',') => extent::quoted_at(text, comma + 1, Tie::List)?,
            _ => first,
        };
        let value = &text[password.start..password.end];
        (!assigned_value::is_harmless(self.key, value)).then_some(password)
    }

    /// `define('X_PASSWORD', 'x')`, `.put("token", "x")`, and not `["password", "email"]`.
    fn is_given(&self, text: &[u8], value: &[u8]) -> bool {
        const SETTERS: &[&str] = &[
            "define", "env", "put", "set", "property", "header", "add", "default",
        ];
        let before = &text[..self.name.start.saturating_sub(1)];
        let before = before.strip_suffix(b" ").unwrap_or(before);
        let before = before.strip_suffix(b"(").unwrap_or_default();
        let in_ident = |b: &&u8| b.is_ascii_alphanumeric() || **b == b'_';
        let len = before.iter().rev().take(40).take_while(in_ident).count();
        let function = before[before.len() - len..].to_ascii_lowercase();
        let sets = SETTERS
            .iter()
            .any(|setter| function.ends_with(setter.as_bytes()));
        let is_one = !value.contains(&b' ') && !value::is_code(value);
        value::is_noise(value) || is_one && (sets || value::is_generated(value))
    }

    /// `setPassword("x")`, `char secret("x")`, and not `getToken("name")`.
    fn is_set(&self, text: &[u8], value: &[u8]) -> bool {
        const ASKING: &[&str] = &[
            "get", "find", "read", "check", "verify", "validate", "is", "has", "ask", "input",
            "prompt", "parse", "fetch", "load", "decode", "next", "expect", "match",
        ];
        let name = self.name.bytes(text);
        let starts = |word: &&str| {
            name.len() > word.len() && name[..word.len()].eq_ignore_ascii_case(word.as_bytes())
        };
        let sets = starts(&"set") || starts(&"with") || name.ends_with(b".assign");
        let before = &text[..self.name.start];
        let is_declared = matches!(before, [.., b'a'..=b'z' | b'>' | b'*', b' '])
            && ![b"return ".as_slice(), b"new ", b"await "]
                .iter()
                .any(|word| before.ends_with(word));
        !value.contains(&b' ')
            && (sets || value::is_token(value) || !self.is_of_other_member(text))
            && !ASKING.iter().any(starts)
            && !value::is_code(value)
            && (sets || is_declared || value::is_generated(value))
    }

    /// `passphrase: correct horse battery staple`: several words and nothing else on the line.
    fn phrase(&self, text: &[u8], extent: Extent) -> Option<Extent> {
        let name = self.name.bytes(text);
        let is_phrase_name = names::holds_phrases(name);
        let tied = self.tie == Tie::Colon || !name.to_ascii_lowercase().ends_with(b"word");
        if !is_phrase_name || !tied || self.name_quoted || !self.name.starts_line_with_word(text) {
            return None;
        }
        let line = &text[extent.start..text.len().min(extent.start + PHRASE_LEN_MAX)];
        let line = line
            .split(|b| matches!(b, b'\n' | b'\r' | b'#'))
            .next()?
            .trim_ascii_end();
        value::is_phrase(line).then_some(Extent {
            end: extent.start + line.len(),
            ..extent
        })
    }

    /// `= Some("x")`, `= SecretStr("x")`: a generated literal inside a call that does not look it up.
    fn wrapped(&self, text: &[u8], extent: Extent) -> Option<Extent> {
        const LOOKS_UP: &[&str] = &[
            "env",
            "get",
            "var",
            "config",
            "read",
            "open",
            "load",
            "fetch",
            "input",
            "pass",
            "prompt",
            "find",
            "require",
            "import",
            "format",
            "print",
            "key",
            "param",
            "query",
            "header",
            "path",
            "variable",
            "include_bytes!",
            "include_str!",
        ];
        let value = &text[extent.start..extent.end];
        // `or(env("X"), "x")`: the innermost call.
        let quote = value.iter().position(|b| is_quote(Some(b)))?;
        let function = value[..quote].strip_suffix(b"(");
        let function = function.or_else(|| value[..quote].strip_suffix(b"["))?;
        let function = function.to_ascii_lowercase();
        let mut literal = extent::quoted_at(text, extent.start + quote, Tie::Call)?;
        if LOOKS_UP
            .iter()
            .any(|word| function.ends_with(word.as_bytes()))
        {
            literal = default_of(text, literal.end + 1, LINKS)?;
        }
        self.generated(text, literal)
    }

    fn generated(&self, text: &[u8], literal: Extent) -> Option<Extent> {
        let value = &text[literal.start..literal.end];
        (value::is_generated(value) && !assigned_value::is_harmless(self.key, value))
            .then_some(literal)
    }

    fn quoted_secret(&self, text: &[u8], extent: Extent) -> Option<Extent> {
        let value = &text[extent.start..extent.end];
        let start = extent.start + scheme_len(value);
        let value = &text[start..extent.end];
        let is_compared = assigned_value::is_parser_token(self.name.bytes(text), value)
            || value::is_word(value) && self.is_of_other_member(text);
        let is_message = self.key == KeyName::Loose
            && !names::may_be_phrase(self.name.bytes(text))
            && value::is_sentence(value);
        if self.tie == Tie::Compare && is_compared || is_message {
            return None;
        }
        if value::is_name_of_secret(value, names::holds_no_words(self.name.bytes(text)))
            || self.is_list_of_headers(text, value)
            || self.is_own_name(text, value)
            || self.is_letter(text, value)
            || self.is_phrase_or_type(text, value)
        {
            return None;
        }
        (!assigned_value::is_harmless(self.key, value)).then_some(Extent { start, ..extent })
    }

    /// `["authorization", "x-api-version"]`: names of headers, and no credential.
    fn is_list_of_headers(&self, text: &[u8], value: &[u8]) -> bool {
        names::is_credential_header(self.name.bytes(text))
            && self.tie == Tie::List
            && value.iter().all(|b| b.is_ascii_lowercase() || *b == b'-')
    }

    /// `accesskey="h"`, `'CREDENTIALS_CODE': 'e'`: a key of the keyboard, a code. In JSON it could be anything.
    fn is_letter(&self, text: &[u8], value: &[u8]) -> bool {
        value.len() <= 2 && !(self.name_quoted && self.name.before(text) != Some(b'\''))
    }

    /// `InvalidApiKey: "invalid-api-key"`, `'Cookie': 'http.cookies'`: a code under its own name, a module.
    fn is_own_name(&self, text: &[u8], value: &[u8]) -> bool {
        let letters = |bytes: &[u8]| {
            let letters = bytes.iter().filter(|b| b.is_ascii_alphanumeric());
            letters.map(u8::to_ascii_lowercase).collect::<Vec<u8>>()
        };
        let name = self.name.bytes(text);
        let is_compound = names::is_compound(name);
        let is_module = names::holds_no_words(name) && value::is_member(value);
        let is_same = is_compound
            && names::is_compound(value)
            && value.len() < 64
            && letters(name).ends_with(&letters(value));
        is_module || is_same
    }

    /// `'Clear authentication': 'Anmeldung löschen'`, `"AWS::IAM::AccessKey": "…"`: a text and its
    /// translation, a type and what belongs to it.
    fn is_phrase_or_type(&self, text: &[u8], value: &[u8]) -> bool {
        let before = &text[..self.name.start];
        let is_text = value.contains(&b' ') || !value.is_ascii();
        self.name_quoted && (before.ends_with(b" ") && is_text || before.ends_with(b"::"))
    }

    /// `Bearer x`, `Digest a=b, c=d`, `a=b; c=d`: header values hold blanks.
    fn header_value(&self, text: &[u8], extent: Extent) -> Option<Extent> {
        let head = &text[extent.start..text.len().min(extent.start + HEADER_HEAD_LEN)];
        let head = head.split(|b| *b == b'\n').next()?;
        let is_cookie = self
            .name
            .bytes(text)
            .to_ascii_lowercase()
            .ends_with(b"cookie");
        let scheme = match scheme_len(head) {
            0 if !is_cookie => own_scheme_len(head),
            len => len,
        };
        let is_listed = is_cookie || LISTED_SCHEMES.contains(&scheme);
        let is_header = if is_cookie {
            head.contains(&b'=')
        } else {
            scheme > 0
        };
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
        (!value::is_placeholder(value)).then_some(Extent {
            start,
            end,
            quoted: false,
        })
    }

    fn is_code_or_prose(&self, text: &[u8], extent: Extent) -> bool {
        let value = &text[extent.start..extent.end];
        if value::is_code(value) || self.is_working_folder(text, value) {
            return true;
        }
        let rest = &text[extent.end..];
        let is_word = value::is_word(value);
        let is_no_token = is_word && names::holds_no_words(self.name.bytes(text));
        match self.tie {
            Tie::Colon => {
                // `const TOKEN: Type7 = …`.
                rest.starts_with(b" = ")
                    || is_no_token
                    || is_word && !self.is_alone(text, rest)
                    || self.is_result(text, value)
            }
            Tie::SpacedEquals => {
                let is_code = matches!(rest.first(), Some(b';' | b',' | b')' | b'.'))
                    || !is_line_end(rest)
                    || self.is_variable(text);
                is_word && (is_code || is_no_token || self.is_of_other_member(text))
                    || value::is_snake(value)
            }
            Tie::Flag => value[0] == b'-' || is_word && is_flag_prose(value),
            _ => false,
        }
    }

    /// `self.password = value`, `let token = value`: a program's own names on both sides.
    fn is_variable(&self, text: &[u8]) -> bool {
        let name = self.name.bytes(text);
        let before = &text[..self.name.start];
        [b"self.".as_slice(), b"this.", b"cls."]
            .iter()
            .any(|object| name.starts_with(object))
            || [
                b"let ".as_slice(),
                b"mut ",
                b"const ",
                b"var ",
                b"val ",
                b"auto ",
                b"final ",
            ]
            .iter()
            .any(|keyword| before.ends_with(keyword))
    }

    /// `creds.email = email`: what is set is a member of the secret thing that is not secret itself.
    fn is_of_other_member(&self, text: &[u8]) -> bool {
        let name = self.name.bytes(text);
        let member = name
            .iter()
            .rposition(|b| *b == b'.')
            .map(|dot| &name[dot + 1..]);
        member.is_some_and(|member| names::judge(member) == KeyName::Plain)
    }

    /// `PASS: TestLogin`, `pass: test/login.js`: the result of a test, not a password.
    fn is_result(&self, text: &[u8], value: &[u8]) -> bool {
        let name = self.name.bytes(text);
        name.eq_ignore_ascii_case(b"pass")
            && value::is_test_name(value)
            && (name != b"pass"
                || !value::is_word(value)
                || value.contains(&b'_') && !self.is_among_settings(text))
    }

    /// Whether the line before or behind is another `name: value`, as in a settings file.
    fn is_among_settings(&self, text: &[u8]) -> bool {
        const RESULTS: &[&[u8]] = &[
            b"pass", b"fail", b"skip", b"ok", b"error", b"test", b"todo", b"warn", b"info",
        ];
        let is_setting = |line: Option<&[u8]>| {
            let line = line.unwrap_or_default().trim_ascii();
            let in_name = |b: &&u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
            let name = &line[..line.iter().take(40).take_while(in_name).count()];
            let is_result = RESULTS.iter().any(|word| name.eq_ignore_ascii_case(word));
            !name.is_empty() && !is_result && line[name.len()..].starts_with(b": ")
        };
        let before = &text[..self.name.start];
        let before = &before[before.len().saturating_sub(LINE_LEN_MAX)..];
        let behind = &text[self.name.end..text.len().min(self.name.end + LINE_LEN_MAX)];
        is_setting(before.rsplit(|b| *b == b'\n').nth(1))
            || is_setting(behind.split(|b| *b == b'\n').nth(1))
    }

    /// `PWD=/home/Ann`.
    fn is_working_folder(&self, text: &[u8], value: &[u8]) -> bool {
        let name = self.name.bytes(text);
        let is_pwd = name.eq_ignore_ascii_case(b"pwd") || name.eq_ignore_ascii_case(b"oldpwd");
        is_pwd && matches!(value.first(), Some(b'/' | b'~' | b'.'))
    }

    /// Whether name and value are all there is on the line, as in a settings file.
    fn is_alone(&self, text: &[u8], rest: &[u8]) -> bool {
        let before = &text[..self.name.start];
        let follows = [b", ".as_slice(), b"; ", b"| ", b"/ "]
            .iter()
            .any(|sign| before.ends_with(sign));
        is_line_end(rest) && (follows || self.name.starts_line(text))
    }

    /// `password: &str = "x"`: the literal behind the type.
    fn behind_type(&self, text: &[u8], extent: Extent) -> Option<Extent> {
        let in_type = |b: &&u8| b.is_ascii_alphanumeric() || b" _<>&':".contains(b);
        let rest = &text[extent.end..];
        let equals = rest.iter().take(32).take_while(in_type).count();
        if self.tie != Tie::Colon || rest.get(equals) != Some(&b'=') {
            return None;
        }
        let value = extent::value_at(text, extent.end + equals + 1, Tie::SpacedEquals, false);
        if value.quoted {
            self.quoted_secret(text, value)
        } else {
            self.wrapped(text, value)
        }
    }
}

const LINKS: &[&[u8]] = &[b",", b"or ", b"|| ", b"?? ", b"?: ", b"? "];

/// `getenv("X", "x")`, `env["X"] or "x"`, `env("X") || "x"`, `has("X") ? env("X") : "x"`: the literal for
/// a variable that is not set.
fn default_of(text: &[u8], from: usize, links: &[&[u8]]) -> Option<Extent> {
    let from = skip_blanks(text, from.min(text.len()));
    let close = text[from..]
        .iter()
        .take(2)
        .take_while(|b| matches!(b, b')' | b']'))
        .count();
    let from = skip_blanks(text, from + close);
    let link = links.iter().find(|link| text[from..].starts_with(link))?;
    let mut from = from + link.len();
    if *link == b"? " {
        let rest = &text[from..text.len().min(from + ARRAY_LEN_MAX)];
        let rest = rest.split(|b| *b == b'\n').next()?;
        from += memmem::find(rest, b" : ")? + 3;
    }
    extent::quoted_at(text, from, Tie::Call)
}

/// Whether nothing but a comment follows on the line.
fn is_line_end(rest: &[u8]) -> bool {
    let after = rest.iter().find(|b| !matches!(b, b' ' | b'\t'));
    matches!(after, None | Some(b'\n' | b'\r' | b'#' | b'}'))
}

/// `<your api key here>`: a request to the reader, with blanks in it.
fn is_asked_for(text: &[u8], start: usize) -> bool {
    let rest = &text[start..text.len().min(start + 80)];
    let close = rest.iter().position(|b| matches!(b, b'>' | b'\n'));
    rest.first() == Some(&b'<')
        && close.is_some_and(|at| rest[at] == b'>' && value::is_placeholder(&rest[..=at]))
}

/// Words that follow the mention of a flag in a sentence.
fn is_flag_prose(value: &[u8]) -> bool {
    const WORDS: &str = "
        a an and are argument as at be but can flag for from if in instead is may must needs of
        on option options or parameter should takes that the then to was when which will with
        you value has not only";
    WORDS
        .split_ascii_whitespace()
        .any(|word| value.eq_ignore_ascii_case(word.as_bytes()))
}

/// Length of a scheme word and its blank at the start of a credential: it stays.
fn scheme_len(value: &[u8]) -> usize {
    const SCHEMES: &[&str] = &[
        "bearer ",
        "basic ",
        "oauth ",
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
        value
            .get(..scheme.len())
            .is_some_and(|head| head.eq_ignore_ascii_case(scheme.as_bytes()))
    };
    SCHEMES.iter().find(starts).map_or(0, |scheme| scheme.len())
}

/// `GenieKey x`, `SSWS x`: the same for a scheme of one service, before a generated value.
fn own_scheme_len(value: &[u8]) -> usize {
    let in_scheme = |b: &&u8| b.is_ascii_alphanumeric() || **b == b'-';
    let len = value.iter().take(24).take_while(in_scheme).count();
    let credential = value.get(len + 1..).unwrap_or_default();
    let ends = |b: &u8| *b <= b' ' || is_quote(Some(b));
    let end = credential.iter().position(ends).unwrap_or(credential.len());
    let is_scheme = len >= 3 && value.get(len) == Some(&b' ');
    if is_scheme && value::is_generated_long(&credential[..end]) {
        len + 1
    } else {
        0
    }
}

/// `"tokens": ["x", "y"]`: each string of the array.
fn in_array(
    text: &[u8],
    open: usize,
    key: KeyName,
    findings: &mut Vec<FoundSecret<'_>>,
) -> Option<usize> {
    let in_gap = |b: &&u8| b.is_ascii_whitespace() || **b == b',';
    let mut at = open + 1;
    let mut last_end = None;
    for _ in 0..ARRAY_LEN_MAX {
        at += text[at..].iter().take(256).take_while(in_gap).count();
        let Some(extent) = extent::quoted_at(text, at, Tie::List) else {
            break;
        };
        let secret = &text[extent.start..extent.end];
        if !assigned_value::is_harmless(key, secret) {
            findings.push(FoundSecret::new(
                extent.start,
                extent.end,
                assigned_value::kind_of(secret, b""),
                Rank::Context,
            ));
            last_end = Some(extent.end);
        }
        at = text.len().min(extent.end + 1);
        at += usize::from(is_quote(text.get(at)));
    }
    last_end
}
