//! One pass over a text that stops only where a rule could begin.
//!
//! Every rule has a literal; its first three bytes, folded to 5 bits each, select a slot in a
//! table made at compile time. So there is nothing to build at start-up, short texts cost as
//! little per byte as long ones, and prose is walked with one table look-up a byte.

use super::formats::{FORMATS, INFIXES};
use super::names::VENDORS;

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
    /// The n-th format that is known by its middle or its end.
    Infix(usize),
    /// `SK` and 32 hexadecimal digits.
    Twilio,
    /// The beginning of a secret in base64.
    Encoded,
    /// `kind: Secret` of Kubernetes.
    KubernetesSecret,
    /// `Private-Lines: 14` of PuTTY.
    PuttyKey,
    /// `host:5432:database:user:password` of PostgreSQL.
    Pgpass,
    /// `echo x | sudo -S`.
    Piped,
    /// `IDENTIFIED BY 'x'` of SQL.
    Identified,
    /// What was redacted before.
    Mark,
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
    ("vault login ", Rule::Command),
    // `http` alone begins every URL.
    ("http -", Rule::Command),
    ("http get ", Rule::Command),
    ("http post ", Rule::Command),
    ("http put ", Rule::Command),
    ("http patch ", Rule::Command),
    ("http delete ", Rule::Command),
    ("https -", Rule::Command),
    ("https get ", Rule::Command),
    ("https post ", Rule::Command),
    ("https put ", Rule::Command),
    (" -p ", Rule::Command),
    // Two letters: the table has them before any sign.
    ("pw", Rule::Name),
    ("pw:", Rule::Name),
    ("psw", Rule::Name),
    ("psk", Rule::Name),
    ("contrase", Rule::Name),
    ("bundle_", Rule::Name),
    ("kennwort", Rule::Name),
    ("senha", Rule::Name),
    ("wachtwoord", Rule::Name),
    ("seed", Rule::Name),
    ("jwt", Rule::Name),
    ("api", Rule::Name),
    ("access", Rule::Name),
    ("sk0", Rule::Twilio),
    ("ska", Rule::Twilio),
    ("skb", Rule::Twilio),
    ("skc", Rule::Twilio),
    ("skd", Rule::Twilio),
    ("ske", Rule::Twilio),
    ("skf", Rule::Twilio),
    ("kind: secret", Rule::KubernetesSecret),
    ("private-lines: ", Rule::PuttyKey),
    (":5432:", Rule::Pgpass),
    ("identified by ", Rule::Identified),
    ("echo ", Rule::Piped),
    ("printf ", Rule::Piped),
    // `ghp_`, `github_pat_`, `glpat-`, `sk-ant-`, `sk-proj-`, `sk_live_`, `AKIA`, `AIza`, `xoxb-`, `xoxp-`,
    // `hvs.`, `SG.`, `npm_`, `dckr_`, `-----BEGIN`, and words before an assignment.
    ("z2hwx", Rule::Encoded),
    ("z2l0ahvix3bhd", Rule::Encoded),
    ("z2xwyxqt", Rule::Encoded),
    ("c2styw50l", Rule::Encoded),
    ("c2stchjvai", Rule::Encoded),
    ("c2tfbgl2zv", Rule::Encoded),
    ("qutjq", Rule::Encoded),
    ("qul6y", Rule::Encoded),
    ("eg94y", Rule::Encoded),
    ("eg94c", Rule::Encoded),
    ("ahzzl", Rule::Encoded),
    ("u0cu", Rule::Encoded),
    ("bnbtx", Rule::Encoded),
    ("zgnrcl9", Rule::Encoded),
    ("ls0tls1crudjti", Rule::Encoded),
    ("cgfzc3dvcmq", Rule::Encoded),
    ("ueftu1dpukq", Rule::Encoded),
    ("dg9rzw", Rule::Encoded),
    ("c2vjcmv0", Rule::Encoded),
    ("yxbpx2tle", Rule::Encoded),
    ("cg9zdgdyzxm6ly", Rule::Encoded),
    ("bxlzcww6ly", Rule::Encoded),
    ("bw9uz29kyj", Rule::Encoded),
    ("zxhwb3j0i", Rule::Encoded),
];

const TRIGGERS: usize = FORMATS.len() + INFIXES.len() + WORDS.len() + VENDORS.len();
const SLOTS: usize = 1 << 15;

const _: () = assert!(TRIGGERS < u16::MAX as usize, "a slot holds two bytes");

/// Whether a slot has a chain, its head, and the next trigger of each trigger; 0 ends a chain.
struct Table {
    /// Small enough to stay in the fastest cache.
    used: [u64; SLOTS / 64],
    head: [u16; SLOTS],
    next: [u16; TRIGGERS],
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
        if TABLE.used[code / 64] >> (code % 64) & 1 == 0 || at < 3 {
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
    let mut found = name.len() >= 2 && name[name.len() - 2..].eq_ignore_ascii_case(b"pw");
    scan(name, |_, rule| {
        found |= matches!(rule, Rule::Name | Rule::Scheme);
        found.then_some(name.len())
    });
    found
}

fn visit_slot(
    text: &[u8],
    start: usize,
    head: u16,
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
    let (literal, rule) = trigger(index);
    let here = text.get(start..start + literal.len())?;
    // The first three bytes agree but for case: the last tells most of the others apart.
    let last = literal.len() - 1;
    if fold(here[last]) != fold(literal.as_bytes()[last]) {
        return None;
    }
    let stands = match rule {
        Rule::Format(_) => here == literal.as_bytes(),
        Rule::Infix(_) | Rule::Twilio => is_with_any_digit(here, literal.as_bytes()),
        _ => here.eq_ignore_ascii_case(literal.as_bytes()),
    };
    stands.then_some(rule)
}

/// A `0` of the literal stands for any digit; letters of a lower-case literal for both cases.
fn is_with_any_digit(here: &[u8], literal: &[u8]) -> bool {
    here.iter().zip(literal).all(|(here, wanted)| match wanted {
        b'0' => here.is_ascii_digit(),
        b'a'..=b'z' => here.eq_ignore_ascii_case(wanted),
        _ => here == wanted,
    })
}

/// The n-th trigger: formats, infixes, words and vendors in one row.
const fn trigger(index: usize) -> (&'static str, Rule) {
    let infix = FORMATS.len();
    let word = infix + INFIXES.len();
    let vendor = word + WORDS.len();
    if index < infix {
        (FORMATS[index].prefix, Rule::Format(index))
    } else if index < word {
        (INFIXES[index - infix].literal, Rule::Infix(index - infix))
    } else if index < vendor {
        WORDS[index - word]
    } else {
        (VENDORS[index - vendor], Rule::Name)
    }
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
    let mut table = Table { used: [0; SLOTS / 64], head: [0; SLOTS], next: [0; TRIGGERS] };
    // Backwards, so that a chain tries the earlier (longer) literals first.
    let mut index = TRIGGERS;
    while index > 0 {
        index -= 1;
        let literal = trigger(index).0.as_bytes();
        let code = (fold(literal[0]) as usize) << 10
            | (fold(literal[1]) as usize) << 5
            | if literal.len() > 2 { fold(literal[2]) as usize } else { 0 };
        table.next[index] = table.head[code];
        table.head[code] = index as u16 + 1;
        table.used[code / 64] |= 1 << (code % 64);
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
        for (literal, rule) in (0..TRIGGERS).map(trigger) {
            assert!(visited(&format!("{literal}=")).contains(&(0, rule)), "{literal}");
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
