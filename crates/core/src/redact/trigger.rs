//! One pass over a text that stops only where a rule could begin.
//!
//! Every rule has a literal; its first three bytes, folded to 5 bits each, select a slot in a
//! table made at compile time. So there is nothing to build at start-up, short texts cost as
//! little per byte as long ones, and prose is walked with one table look-up a byte.

use super::formats::FORMATS;

/// What to try where a literal stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// The n-th provider format.
    Format(usize),
    /// Part of a key name that may be secret.
    Name,
    /// `BEGIN … PRIVATE KEY`.
    Pem,
    /// `eyJ…` segments.
    Jwt,
    /// `scheme://user:password@host`.
    Url,
    /// `Bearer xxx`, `Basic xxx`.
    Scheme,
    /// Programs that take passwords as short flags.
    Command,
    /// `123456789:AA…`.
    Telegram,
    /// `abc8Q~…` client secrets of Azure.
    AzureClient,
    /// What was redacted before.
    Mark,
    /// Vendors whose tokens have no prefix of their own.
    Vendor,
}

/// Literals in lower case; compared without case, except the formats, which compare themselves.
const WORDS: &[(&str, Rule)] = &[
    ("pass", Rule::Name),
    ("pwd", Rule::Name),
    ("secret", Rule::Name),
    ("token", Rule::Name),
    ("key", Rule::Name),
    ("cred", Rule::Name),
    ("auth", Rule::Name),
    ("cookie", Rule::Name),
    ("dsn", Rule::Name),
    ("sessid", Rule::Name),
    ("sessionid", Rule::Name),
    ("sig", Rule::Name),
    ("mnemonic", Rule::Name),
    ("connection", Rule::Name),
    ("_pat", Rule::Name),
    ("redacted:", Rule::Mark),
    ("begin ", Rule::Pem),
    ("eyj", Rule::Jwt),
    ("://", Rule::Url),
    ("bearer", Rule::Scheme),
    ("basic", Rule::Scheme),
    ("curl", Rule::Command),
    ("mysql", Rule::Command),
    ("mariadb", Rule::Command),
    ("sshpass", Rule::Command),
    ("mongo", Rule::Command),
    ("login", Rule::Command),
    ("redis-cli", Rule::Command),
    ("valkey-cli", Rule::Command),
    ("ldap", Rule::Command),
    ("sqlcmd", Rule::Command),
    ("bcp", Rule::Command),
    ("cqlsh", Rule::Command),
    ("ssh-keygen", Rule::Command),
    ("ipmitool", Rule::Command),
    ("smbclient", Rule::Command),
    ("rpcclient", Rule::Command),
    ("lftp", Rule::Command),
    ("zip", Rule::Command),
    ("unzip", Rule::Command),
    ("unrar", Rule::Command),
    ("rdesktop", Rule::Command),
    ("openssl", Rule::Command),
    ("http", Rule::Command),
    (":aa", Rule::Telegram),
    ("0q~", Rule::AzureClient),
    ("twilio", Rule::Vendor),
    ("discord", Rule::Vendor),
];

const TRIGGERS: usize = FORMATS.len() + WORDS.len();
const SLOTS: usize = 1 << 15;

const _: () = assert!(TRIGGERS < 255, "a slot holds one byte");

/// Head of each slot's chain and the next trigger of each trigger; 0 ends a chain.
struct Table {
    head: [u8; SLOTS],
    next: [u8; TRIGGERS],
}

static TABLE: Table = build();

/// Visits every place where a rule could begin, left to right. `visit` answers where to go on:
/// a larger place than the one it was given when it found something, to skip over it.
pub(super) fn scan(text: &[u8], mut visit: impl FnMut(usize, Rule) -> Option<usize>) {
    let mut code = 0;
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        code = (code << 5 | CLASS[byte as usize] as usize) & (SLOTS - 1);
        at += 1;
        if TABLE.head[code] == 0 || at < 3 {
            continue;
        }
        if let Some(resume) = visit_slot(text, at - 3, TABLE.head[code], &mut visit) {
            // The three bytes of the next literal must lie behind what was found.
            at = at.max(resume);
            code = 0;
        }
    }
}

/// Whether a name holds any of the words that make names secret.
pub(super) fn may_be_secret_name(name: &[u8]) -> bool {
    let mut found = false;
    scan(name, |_, rule| {
        found |= matches!(rule, Rule::Name | Rule::Scheme);
        found.then_some(name.len())
    });
    found
}

fn visit_slot(
    text: &[u8],
    start: usize,
    head: u8,
    visit: &mut impl FnMut(usize, Rule) -> Option<usize>,
) -> Option<usize> {
    let mut trigger = head as usize;
    while trigger != 0 {
        let index = trigger - 1;
        if let Some(rule) = rule_at(text, start, index)
            && let Some(resume) = visit(start, rule)
        {
            return Some(resume);
        }
        trigger = TABLE.next[index] as usize;
    }
    None
}

fn rule_at(text: &[u8], start: usize, index: usize) -> Option<Rule> {
    if index < FORMATS.len() {
        let prefix = FORMATS[index].prefix.as_bytes();
        return text[start..].starts_with(prefix).then_some(Rule::Format(index));
    }
    let (literal, rule) = WORDS[index - FORMATS.len()];
    let here = text.get(start..start + literal.len())?;
    let stands = rule == Rule::AzureClient || here.eq_ignore_ascii_case(literal.as_bytes());
    stands.then_some(rule)
}

const CLASS: [u8; 256] = {
    let mut class = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        class[byte] = fold(byte as u8);
        byte += 1;
    }
    class
};

/// Five bits: letters without case, digits as one, and the four signs that literals hold.
const fn fold(byte: u8) -> u8 {
    match byte {
        b'a'..=b'z' => byte - b'a' + 1,
        b'A'..=b'Z' => byte - b'A' + 1,
        b'0'..=b'9' => 27,
        b'-' => 28,
        b'_' => 29,
        b':' => 30,
        b'/' => 31,
        _ => 0,
    }
}

const fn build() -> Table {
    let mut table = Table { head: [0; SLOTS], next: [0; TRIGGERS] };
    // Backwards, so that a chain tries the earlier (longer) literals first.
    let mut index = TRIGGERS;
    while index > 0 {
        index -= 1;
        let literal = if index < FORMATS.len() {
            FORMATS[index].prefix.as_bytes()
        } else {
            WORDS[index - FORMATS.len()].0.as_bytes()
        };
        let code = (fold(literal[0]) as usize) << 10
            | (fold(literal[1]) as usize) << 5
            | fold(literal[2]) as usize;
        table.next[index] = table.head[code];
        table.head[code] = index as u8 + 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visited(text: &str) -> Vec<(usize, Rule)> {
        let mut visited = Vec::new();
        scan(text.as_bytes(), |at, rule| {
            visited.push((at, rule));
            None
        });
        visited
    }

    #[test]
    fn literals_are_found_without_case_and_anywhere() {
        assert_eq!(visited("a PaSSword"), [(2, Rule::Name)]);
        assert_eq!(visited("x://y"), [(1, Rule::Url)]);
        assert!(visited("nothing to see here, move on").is_empty());
    }

    #[test]
    fn every_literal_is_reached_by_the_table() {
        for (literal, rule) in WORDS {
            assert!(visited(literal).contains(&(0, *rule)), "{literal}");
        }
        for (index, format) in FORMATS.iter().enumerate() {
            let rule = Rule::Format(index);
            assert!(visited(format.prefix).contains(&(0, rule)), "{}", format.prefix);
        }
    }

    #[test]
    fn a_literal_inside_what_was_skipped_is_not_visited() {
        let mut starts = Vec::new();
        scan(b"token token token", |at, _| {
            starts.push(at);
            Some(12)
        });
        assert_eq!(starts, [0, 12]);
    }
}
