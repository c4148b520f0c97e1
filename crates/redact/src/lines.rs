//! Values that do not stand on the line of their name: the next line, and blocks and lists of YAML.

use super::extent::{self, Tie, skip_blanks};
use super::finding::{FoundSecret, Rank};
use super::key::Name;
use super::names::KeyName;
use super::{assigned_value, format_match, value};

const BLOCK_LEN_MAX: usize = 16 * 1024;
const ITEMS_MAX: usize = 256;
const LINE_LEN_MAX: usize = 512;
/// How far behind a name its sentence may end.
const TOLD_LEN_MAX: usize = 48;

/// The value below a name whose line ends behind the tie at `from`.
pub(super) fn value_below(
    text: &[u8],
    name: &Name,
    key: KeyName,
    tie: Tie,
    from: usize,
) -> Option<FoundSecret<'static>> {
    if !matches!(tie, Tie::Colon | Tie::Equals | Tie::SpacedEquals) {
        return None;
    }
    let at = skip_blanks(text, from);
    if text[at..].starts_with(b"<<") {
        return here_document(text, key, at);
    }
    let is_block = tie == Tie::Colon && matches!(text.get(at), Some(b'|' | b'>'));
    let in_header = |b: &&u8| is_block && b"|>+-0123456789 ".contains(b);
    let header = text[at..].iter().take(8).take_while(in_header).count();
    let line = match text[at + header..] {
        // An empty line in between sets the value off: an installer tells the first password like that.
        [b'\n', b'\n', ..] if !is_block => at + header + 2,
        [b'\n', ..] => at + header + 1,
        [b'\r', b'\n', ..] => at + header + 2,
        _ => return None,
    };
    let is_apart = text[..line].ends_with(b"\n\n");
    if is_block && !name.starts_line(text) {
        return None;
    }
    if is_block {
        block(text, name, line)
    } else {
        let found = next_line(text, name, key, tie, line)
            .or_else(|| default_below(text, name, key, line))?;
        (!is_apart || value::is_token(&text[found.start..found.end])).then_some(found)
    }
}

/// `Access token` alone on its line, and a generated value alone on the next; behind `use this password to
/// proceed:` an empty line may stand in between.
pub(super) fn token_below(text: &[u8], name: &Name) -> Option<FoundSecret<'static>> {
    let rest = &text[name.end..text.len().min(name.end + TOLD_LEN_MAX)];
    let end = rest.iter().position(|b| *b == b'\n')?;
    let is_told = rest[..end].ends_with(b":");
    if end > 0 && !is_told {
        return None;
    }
    let line = name.end + end + 1;
    let line = line + usize::from(is_told && text.get(line) == Some(&b'\n'));
    let start = line + margin(text, line);
    let token = &text[start..];
    let token = &token[..token
        .iter()
        .take(LINE_LEN_MAX)
        .take_while(|b| **b > b' ')
        .count()];
    let end = start + token.len();
    let is_alone = matches!(text.get(end), None | Some(b'\n' | b'\r'));
    let is_generated = value::is_random(token) || value::is_run(token);
    let is_secret = is_alone && is_generated && value::is_token(token);
    is_secret.then(|| {
        let kind = assigned_value::kind_of(token, name.bytes(text));
        FoundSecret::new(start, end, kind, Rank::Context)
    })
}

/// `<<EOF` and the lines up to the word behind it.
fn here_document(text: &[u8], key: KeyName, at: usize) -> Option<FoundSecret<'static>> {
    let signs = text[at..]
        .iter()
        .take(4)
        .take_while(|b| b"<-~'\"".contains(b))
        .count();
    let in_word = |b: &&u8| b.is_ascii_alphanumeric() || **b == b'_';
    let word = at + signs;
    let word = &text[word..word + text[word..].iter().take(32).take_while(in_word).count()];
    let line = at + text[at..].iter().take(64).position(|b| *b == b'\n')? + 1;
    let body = &text[line..text.len().min(line + BLOCK_LEN_MAX)];
    let is_end = |place: &usize| body[..*place].trim_ascii_end().len() < *place || *place == 0;
    let end = memchr::memmem::find_iter(body, word).find(is_end);
    let body = &body[..end.filter(|_| !word.is_empty())?];
    let start = line + body.len() - body.trim_ascii_start().len();
    let secret = body.trim_ascii();
    (!assigned_value::is_harmless(key, secret)).then(|| {
        let kind = assigned_value::kind_of(secret, b"");
        FoundSecret::new(start, start + secret.len(), kind, Rank::Context)
    })
}

/// The items of a list below a name, `- x`, that look generated; answers where the last of them ends.
pub(super) fn items_below(
    text: &[u8],
    key: KeyName,
    from: usize,
    findings: &mut Vec<FoundSecret<'_>>,
) -> Option<usize> {
    let mut at = skip_blanks(text, from);
    let mut last_end = None;
    for _ in 0..ITEMS_MAX {
        let line = at
            + text[at..]
                .iter()
                .take(2)
                .take_while(|b| b"\r\n".contains(b))
                .count();
        let dash = line + margin(text, line);
        if line == at || !text[dash..].starts_with(b"- ") {
            break;
        }
        at = dash
            + text[dash..]
                .iter()
                .take_while(|b| !b"\r\n".contains(b))
                .count();
        let item = extent::value_at(text, dash + 2, Tie::Colon, false);
        let secret = &text[item.start..item.end];
        let is_alone = at - item.end == usize::from(item.quoted) && !secret.ends_with(b":");
        let is_secret = value::is_generated(secret) && !value::is_code(secret);
        if is_alone && is_secret && !assigned_value::is_harmless(key, secret) {
            let kind = assigned_value::kind_of(secret, b"");
            findings.push(FoundSecret::new(item.start, item.end, kind, Rank::Context));
            last_end = Some(item.end);
        }
    }
    last_end
}

/// All lines that are indented deeper than the name's.
fn block(text: &[u8], name: &Name, first: usize) -> Option<FoundSecret<'static>> {
    let margin = margin(text, line_start(text, name.start));
    let mut at = first;
    let mut end = first;
    while at < text.len() && at - first < BLOCK_LEN_MAX {
        let len = text[at..].iter().take_while(|b| **b != b'\n').count();
        let is_empty = text[at..at + len].trim_ascii().is_empty();
        if !is_empty && self::margin(text, at) <= margin {
            break;
        }
        if !is_empty {
            end = at + text[at..at + len].trim_ascii_end().len();
        }
        at += len + 1;
    }
    let start = first + self::margin(text, first);
    if end <= start || value::is_placeholder(&text[start..end]) {
        return None;
    }
    let mut finding = FoundSecret::new(
        start,
        end,
        assigned_value::kind_of(&text[start..end], b""),
        Rank::Context,
    );
    finding.reach = if at >= text.len() { text.len() } else { end };
    Some(finding)
}

/// `Default: x` among the lines that are indented deeper than the name's, as in a template of parameters.
fn default_below(
    text: &[u8],
    name: &Name,
    key: KeyName,
    first: usize,
) -> Option<FoundSecret<'static>> {
    let own = margin(text, line_start(text, name.start));
    let near = &text[first..text.len().min(first + LINE_LEN_MAX)];
    let mut at = first;
    for line in near.split_inclusive(|b| *b == b'\n') {
        let start = at + margin(text, at);
        if start - at <= own {
            return None;
        }
        let is_default = text[start..].starts_with(b"Default: ");
        if is_default || text[start..].starts_with(b"default: ") {
            let extent = extent::value_at(text, start + b"default: ".len(), Tie::Colon, false);
            let secret = &text[extent.start..extent.end];
            let is_secret = (extent.quoted || value::is_generated(secret))
                && !assigned_value::is_harmless(key, secret)
                && !value::is_code(secret);
            let kind = assigned_value::kind_of(secret, b"");
            return is_secret
                .then(|| FoundSecret::new(extent.start, extent.end, kind, Rank::Context));
        }
        at += line.len();
    }
    None
}

/// A quoted value, or one word that is all there is on its line.
fn next_line(
    text: &[u8],
    name: &Name,
    key: KeyName,
    tie: Tie,
    line: usize,
) -> Option<FoundSecret<'static>> {
    let own = margin(text, line);
    let start = line + own;
    let is_deeper = own > margin(text, line_start(text, name.start));
    let extent = extent::value_at(text, start, Tie::Colon, false);
    let secret = &text[extent.start..extent.end];
    let len = text[start..].iter().take_while(|b| **b != b'\n').count();
    let is_alone = text[start..start + len].trim_ascii_end().len() == secret.len();
    let is_value = if extent.quoted {
        // The next key of a JSON document is quoted too.
        let behind = skip_blanks(text, extent.end + 1);
        text.get(behind) != Some(&b':') && secret.len() < len
    } else {
        let is_pair = secret.contains(&b'=') && !value::is_token(secret) || secret.ends_with(b":");
        let is_sign = secret
            .first()
            .is_none_or(|b| b"-{[<#}])/*|>&!@+".contains(b));
        let is_word = value::is_word(secret) && !(is_deeper && key == KeyName::Strong);
        let is_told = name.starts_line(text) || value::is_generated(secret);
        is_alone && is_told && !is_pair && !is_sign && !is_word && (tie == Tie::Colon || is_deeper)
    };
    let is_harmless = assigned_value::is_harmless(key, secret) || value::is_code(secret);
    (is_value && !is_harmless).then(|| {
        let kind = assigned_value::kind_of(secret, name.bytes(text));
        let end = extent.end + format_match::folded_len(text, extent.start, extent.end);
        FoundSecret::new(extent.start, end, kind, Rank::Context)
    })
}

fn line_start(text: &[u8], at: usize) -> usize {
    let len = text[..at]
        .iter()
        .rev()
        .take(512)
        .take_while(|b| **b != b'\n')
        .count();
    at - len
}

fn margin(text: &[u8], line: usize) -> usize {
    text[line..]
        .iter()
        .take(256)
        .take_while(|b| matches!(b, b' ' | b'\t'))
        .count()
}
