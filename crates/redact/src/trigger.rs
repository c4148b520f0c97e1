//! One pass over a text that stops only where a rule could begin.
//!
//! Every rule has a literal; its first three bytes, folded to 5 bits each, select a slot in a
//! table made at compile time, and the slot tells which fourth bytes go on. So there is nothing to
//! build at start-up, short texts cost as little per byte as long ones, and prose is walked with
//! one table look-up a byte.

use super::formats::{FORMATS, INFIXES, one_by_one};
use super::names::FOREIGN;
use super::vendors::TRIGGERING as VENDORS;

/// What to try where a literal stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// The n-th provider format.
    Format(usize),
    /// Part of a key name that may be secret.
    Name,
    /// The same, at the end of a word in the name: `api_key`, `apiKeyProd`, `keys`, and not `keyword`.
    NameEnd,
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
    /// `jdbc:oracle:thin:user/password@host`.
    OracleThin,
    /// `echo x | sudo -S`.
    Piped,
    /// `gh auth login --with-token <<< x`.
    HereString,
    /// `IDENTIFIED BY 'x'` of SQL.
    Identified,
    /// `login("ann", "x")`, `connect("host", "ann", "x")`.
    Call,
    /// A client id of Google, before its secret.
    GoogleClient,
    /// `</Exponent>` of an RSA key in XML.
    XmlKey,
    /// `"kty": "EC"` of a JSON web key.
    JsonWebKey,
    /// What was redacted before.
    Mark,
}

/// Literals in lower case, by what to try where they stand; compared without case, except the formats, which
/// compare themselves.
#[rustfmt::skip]
const GROUPS: &[(Rule, &[&str])] = &[
    // Of `signature` the end: the rest is the beginning of many words. Two letters: the table has them before any
    // sign.
    (Rule::Name, &[
        "pass", "pwd", "secret", "cred", "authorization", "authentication", "cookie", "dsn",
        "sessid", "sessionid", "sig=", "nature=", "sig%3d", "nature%3d", "mnemonic",
        "connectionstring", "connection_string", "connection-string", "connection.string", "_pat",
        "pw", "pw:", "psw", "pssw", "pasw", "paas", "psk", "contrase", "bundle_", "kennwort", "senha",
        "mdp", "haslo", "heslo", "jelszo", "sifre", "losenord", "adgangskode", "salasana", "snmp",
        "code=", "dockerc", "wachtwoord", "phrase", "jwt",
    ]),
    (Rule::Name, &["lozinka", "kodeord", "slaptazodis", "pasahitza", "parool"]),
    (Rule::Name, FOREIGN),
    (Rule::NameEnd, &["token", "key", "auth", "private", "clave", "parola", "api", "access", "salt"]),
    (Rule::Mark, &["redacted:"]),
    (Rule::Pem, &["begin "]),
    // `{"` and the same with blanks.
    (Rule::Jwt, &["eyj", "ewog", "ewoi"]),
    (Rule::Url, &["://"]),
    (Rule::Scheme, &["bearer", "basic"]),
    // `http` by itself begins every URL.
    (Rule::Command, &[
        "curl", "mysql", "mariadb", "sshpass", "mongo", "login", "redis-cli", "valkey-cli", "ldap",
        "sqlcmd", "bcp", "cqlsh", "ssh-keygen", "ipmitool", "smbclient", "rpcclient", "lftp", "zip",
        "unzip", "unrar", "7z ", "rdesktop", "openssl", "vault login ", "http ", "https ",
        "sqlplus", "sqlldr", "expdp", "impdp", "htpasswd ", "mosquitto_", "wpa_passphrase ",
        "add_user ", "change_password ", "encrypt_string ", "operator unseal ", "secret generic ",
        "secret set ", "secrets set ", "put-parameter ", "unlock-keychain ",
        "add-generic-password ", "psexec", "xfreerdp", "cmdkey", "winexe", "snmpwalk", "snmpbulkwalk", "snmpget", "snmpset", "usermod", "useradd", " -p ",
    ]),
    (Rule::Call, &[
        "connect(", "connection(", "login(", "authenticate(", "basic(", "mysqli(", "pdo(",
        "directoryentry(",
    ]),
    (Rule::Twilio, &[
        "sk0", "ska", "skb", "skc", "skd", "ske", "skf", "ac0", "aca", "acb", "acc", "acd", "ace", "acf",
    ]),
    (Rule::KubernetesSecret, &["kind: secret", "kind: 'secret", "kind: \"secret"]),
    (Rule::PuttyKey, &["private-lines: "]),
    (Rule::Pgpass, &[":5432:"]),
    (Rule::Identified, &[
        "identified by ", "securestring ", "identified with ", "login password ",
        "password for ",
    ]),
    (Rule::OracleThin, &["thin:"]),
    (Rule::GoogleClient, &[".apps.googleusercontent.com"]),
    (Rule::XmlKey, &["</exponent>"]),
    (Rule::JsonWebKey, &["kty\"", "kty\\\""]),
    // `intf` of `printf`.
    (Rule::Piped, &["echo ", "intf "]),
    (Rule::HereString, &["-token <<<", "-stdin <<<", "sudo -s <<<", "-fd 0 <<<"]),
    // `ghp_`, `github_pat_`, `glpat-`, `sk-ant-`, `sk-proj-`, `sk_live_`, `AKIA`, `AIza`, `xoxb-`, `xoxp-`,
    // `hvs.`, `SG.`, `npm_`, `dckr_`, `-----BEGIN`, and words before an assignment.
    (Rule::Encoded, &[
        "z2hwx", "z2l0ahvix3bhd", "z2xwyxqt", "c2styw50l", "c2stchjvai", "c2tfbgl2zv", "qutjq",
        "qul6y", "eg94y", "eg94c", "ahzzl", "u0cu", "bnbtx", "zgnrcl9", "ls0tls1crudjti",
        "cgfzc3dvcmq", "ueftu1dpukq", "dg9rzw", "c2vjcmv0", "yxbpx2tle", "cg9zdgdyzxm6ly",
        "bxlzcww6ly", "bw9uz29kyj", "zxhwb3j0i",
    ]),
];

/// The same one by one.
const WORDS: &[(&str, Rule)] = &one_by_one!(GROUPS, |rule, word| (word, rule));

const TRIGGERS: usize = FORMATS.len() + INFIXES.len() + WORDS.len() + VENDORS.len();
const SLOTS: usize = 1 << 15;

const _: () = assert!(TRIGGERS < u16::MAX as usize, "a slot holds two bytes");

/// The literals that start with the same three bytes are a chain.
struct TriggerTable {
    /// Bit n: some literal of the slot may be followed by a byte that folds to n.
    follows: [u32; SLOTS],
    /// The same for the fifth byte, by the second to the fourth; all bits where a literal is shorter.
    fifths: [u32; SLOTS],
    /// The first trigger of a slot and the next of each trigger, counted from 1; 0 ends a chain.
    head: [u16; SLOTS],
    next: [u16; TRIGGERS],
    /// Which bytes may be the fourth of each trigger, as in `follows`.
    fourth: [u32; TRIGGERS],
}

static TABLE: TriggerTable = build();
static TRIGGER: [(&str, Rule); TRIGGERS] = {
    let mut triggers = [("", Rule::Name); TRIGGERS];
    let mut index = 0;
    while index < TRIGGERS {
        triggers[index] = trigger(index);
        index += 1;
    }
    triggers
};

/// Visits every place where a rule could begin, left to right. `visit` answers where to go on:
/// a larger place than the one it was given when it found something, to skip over it.
#[inline]
pub(super) fn scan(text: &[u8], mut visit: impl FnMut(usize, Rule) -> Option<usize>) {
    let mut at = 0;
    let mut window = Window(0);
    while at <= text.len() {
        (at, window) = skip_plain(text, at, window);
        for _ in 0..STRIDE.min(text.len() + 1 - at) {
            // Behind the text as before a blank.
            let class = text.get(at).map_or(0, |byte| CLASS[*byte as usize]);
            let may_start = window.may_go_on(class)
                && at >= 3
                && window
                    .with(class)
                    .may_end(text.get(at + 1).copied().unwrap_or(b' '));
            let resume = if may_start {
                visit_slot(text, at - 3, window, class, &mut visit)
            } else {
                None
            };
            if let Some(resume) = resume {
                // The three bytes of the next literal must lie behind what was found.
                at = at.max(resume);
                window = Window(0);
                break;
            }
            window = window.with(class);
            at += 1;
        }
    }
}

const STRIDE: usize = 8;

/// Walks over whole strides in which no rule could begin: most of a text, so without branches inside.
fn skip_plain(text: &[u8], mut at: usize, mut window: Window) -> (usize, Window) {
    for stride in text[at..].chunks_exact(STRIDE) {
        let before = window;
        let mut hits = false;
        for byte in stride {
            let class = CLASS[*byte as usize];
            hits |= window.may_go_on(class);
            window = window.with(class);
        }
        if hits {
            return (at, before);
        }
        at += STRIDE;
    }
    (at, window)
}

/// The last bytes, folded; the three of a literal are known when the fourth is looked at.
#[derive(Clone, Copy)]
struct Window(u32);

impl Window {
    const fn slot(self) -> usize {
        self.0 as usize % SLOTS
    }

    const fn with(self, class: u32) -> Self {
        Self(self.0 << 5 | class)
    }

    fn may_go_on(self, class: u32) -> bool {
        TABLE.follows[self.slot()] >> class & 1 == 1
    }

    /// Whether the fifth byte fits behind the second to the fourth: most places where a rule could
    /// begin by its first four bytes end here.
    fn may_end(self, byte: u8) -> bool {
        TABLE.fifths[self.slot()] >> CLASS[byte as usize] & 1 == 1
    }
}

/// Whether a name holds any of the words that make names secret.
pub(super) fn may_be_secret_name(name: &[u8]) -> bool {
    let mut found = name.len() >= 2 && name[name.len() - 2..].eq_ignore_ascii_case(b"pw");
    scan(name, |_, rule| {
        found |= matches!(rule, Rule::Name | Rule::NameEnd | Rule::Scheme);
        found.then_some(name.len())
    });
    found
}

/// Not inlined: the walk over the text keeps its registers then.
#[inline(never)]
fn visit_slot(
    text: &[u8],
    start: usize,
    window: Window,
    class: u32,
    visit: &mut impl FnMut(usize, Rule) -> Option<usize>,
) -> Option<usize> {
    let mut trigger = TABLE.head[window.slot()] as usize;
    while trigger != 0 {
        let index = trigger - 1;
        if TABLE.fourth[index] >> class & 1 == 1
            && let Some(rule) = rule_at(text, start, index)
            && let Some(resume) = visit(start, rule)
        {
            return Some(resume);
        }
        trigger = TABLE.next[index] as usize;
    }
    None
}

#[inline]
fn rule_at(text: &[u8], start: usize, index: usize) -> Option<Rule> {
    let (literal, rule) = TRIGGER[index];
    let here = text.get(start..start + literal.len())?;
    // The first three bytes agree but for case: the last tells most of the others apart.
    let last = literal.len() - 1;
    if CLASS[here[last] as usize] != CLASS[literal.as_bytes()[last] as usize] {
        return None;
    }
    let stands = match rule {
        // A long prefix is known in whatever case.
        Rule::Format(_) => {
            here == literal.as_bytes()
                || literal.len() >= 5 && here.eq_ignore_ascii_case(literal.as_bytes())
        }
        Rule::Infix(_) | Rule::Twilio => is_with_any_digit(here, literal.as_bytes()),
        Rule::NameEnd if !ends_word(&text[start + literal.len()..]) => false,
        _ => here.eq_ignore_ascii_case(literal.as_bytes()),
    };
    stands.then_some(rule)
}

/// Whether a word of a name ends before `rest`, also in the plural.
fn ends_word(rest: &[u8]) -> bool {
    let rest = rest.strip_prefix(b"s").unwrap_or(rest);
    !rest.first().is_some_and(u8::is_ascii_lowercase)
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
        // By its end: beginnings such as `inst` and `data` stand everywhere.
        (end_of(VENDORS[index - vendor]), Rule::NameEnd)
    }
}

const fn end_of(name: &'static str) -> &'static str {
    let cut = if name.len() > 6 {
        name.len() - 6
    } else {
        name.len() / 6
    };
    name.split_at(cut).1
}

static CLASS: [u32; 256] = {
    let mut class = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        class[byte] = fold(byte as u8) as u32;
        byte += 1;
    }
    class
};

/// Five bits: letters without case, digits as one, the signs that literals hold, and other scripts among them.
const fn fold(byte: u8) -> u8 {
    match byte {
        b'a'..=b'z' => byte - b'a' + 1,
        b'A'..=b'Z' => byte - b'A' + 1,
        b'0'..=b'9' => 27,
        b'-' => 28,
        b'_' => 29,
        b':' | b'$' => 30,
        b'/' | b'.' => 31,
        128.. => byte & 31,
        _ => 0,
    }
}

const fn build() -> TriggerTable {
    let mut table = TriggerTable {
        follows: [0; SLOTS],
        fifths: [0; SLOTS],
        head: [0; SLOTS],
        next: [0; TRIGGERS],
        fourth: [u32::MAX; TRIGGERS],
    };
    // Backwards, so that a chain tries the earlier (longer) literals first.
    let mut index = TRIGGERS;
    while index > 0 {
        index -= 1;
        let literal = trigger(index).0.as_bytes();
        let third = if literal.len() > 2 {
            fold(literal[2]) as usize
        } else {
            0
        };
        let slot = (fold(literal[0]) as usize) << 10 | (fold(literal[1]) as usize) << 5 | third;
        table.next[index] = table.head[slot];
        table.head[slot] = index as u16 + 1;
        if literal.len() > 3 {
            table.fourth[index] = 1 << fold(literal[3]);
        }
        table.follows[slot] |= table.fourth[index];
        let base = (fold(literal[1]) as usize) << 10 | third << 5;
        if literal.len() > 4 {
            table.fifths[base | fold(literal[3]) as usize] |= 1 << fold(literal[4]);
        } else if literal.len() == 4 {
            table.fifths[base | fold(literal[3]) as usize] = u32::MAX;
        } else {
            let mut class = 0;
            while class < 32 {
                table.fifths[base | class] = u32::MAX;
                class += 1;
            }
        }
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
            assert!(
                visited(&format!("{literal}=")).contains(&(0, rule)),
                "{literal}"
            );
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
