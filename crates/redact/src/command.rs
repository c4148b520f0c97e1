//! Passwords in the flags of programs that are known to take them there: `curl -u user:password`,
//! `mysql -pPASSWORD`, `sshpass -p PASSWORD`. Long flags with a telling name are in `assign`.
//!
//! One table serves commands that are given as words and commands that stand in a text.

use super::names::{self, KeyName};
use super::value;

/// More of a command in a text is not looked at.
const LINE_LEN_MAX: usize = 1024;
const WORDS_MAX: usize = 64;

/// A program, or the word of a command, and where its passwords stand.
struct Program {
    name: &'static str,
    /// Every program whose name starts like this: `mysqldump`, `mongosh`.
    is_family: bool,
    /// Short flags without a value, which may stand before another one: `-sSu`.
    switches: &'static str,
    flags: &'static [Flag],
}

struct Flag {
    /// For operands the switch without which none is a password, or nothing.
    name: &'static str,
    place: SecretPosition,
    /// The password stands behind the first of this sign: `user:password`.
    behind: Option<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SecretPosition {
    /// Directly behind the flag or in the next word.
    Next,
    /// Only directly behind the flag: `mysql -p db` asks, and the next word is the database.
    Attached,
    /// The first, the last or each word that is not a flag.
    First,
    Last,
    Each,
}

const fn whole(name: &'static str) -> Flag {
    Flag {
        name,
        place: SecretPosition::Next,
        behind: None,
    }
}

const fn attached(name: &'static str) -> Flag {
    Flag {
        name,
        place: SecretPosition::Attached,
        behind: None,
    }
}

const fn behind(name: &'static str, sign: u8) -> Flag {
    Flag {
        name,
        place: SecretPosition::Next,
        behind: Some(sign),
    }
}

const fn operand(place: SecretPosition, switch: &'static str, behind: Option<u8>) -> Flag {
    Flag {
        name: switch,
        place,
        behind,
    }
}

const fn program(name: &'static str, flags: &'static [Flag]) -> Program {
    Program {
        name,
        is_family: false,
        switches: "",
        flags,
    }
}

const fn family(name: &'static str, flags: &'static [Flag]) -> Program {
    Program {
        name,
        is_family: true,
        switches: "",
        flags,
    }
}

impl Program {
    const fn switches(self, switches: &'static str) -> Self {
        Self { switches, ..self }
    }
}

/// `sqlplus ann/x@db`.
const ORACLE: &[Flag] = &[operand(SecretPosition::Each, "", Some(b'/'))];
const SNMP: &[Flag] = &[whole("-c"), whole("-A"), whole("-X")];
const HTTPIE: &[Flag] = &[behind("-a", b':'), behind("--auth", b':')];

/// The table. Each name is also a trigger.
#[rustfmt::skip]
const PROGRAMS: &[Program] = &[
    program("curl", &[
        behind("-u", b':'), behind("--user", b':'), behind("-U", b':'),
        behind("--proxy-user", b':'), behind("-E", b':'), behind("--cert", b':'),
    ]).switches("0123469#aBfgGiIjJklLMnNOpRsSvVZ"),
    program("http", HTTPIE).switches("jfvhbmSdcF"),
    program("https", HTTPIE).switches("jfvhbmSdcF"),
    family("mysql", &[attached("-p")]),
    family("mariadb", &[attached("-p")]),
    family("mongo", &[whole("-p")]),
    program("sshpass", &[whole("-p")]).switches("ev"),
    program("redis-cli", &[whole("-a")]).switches("23cex"),
    program("valkey-cli", &[whole("-a")]).switches("23cex"),
    family("ldap", &[whole("-w")]).switches("acLMnvxZ"),
    program("sqlcmd", &[whole("-P")]),
    program("bcp", &[whole("-P")]),
    program("sqlplus", ORACLE),
    program("sqlldr", ORACLE),
    program("expdp", ORACLE),
    program("impdp", ORACLE),
    program("cqlsh", &[whole("-p")]),
    program("htpasswd", &[operand(SecretPosition::Last, "-b", None)]),
    program("mosquitto_passwd", &[operand(SecretPosition::Last, "-b", None)]),
    family("mosquitto_", &[whole("-P")]),
    program("wpa_passphrase", &[operand(SecretPosition::Last, "", None)]),
    program("add_user", &[operand(SecretPosition::Last, "", None)]),
    program("change_password", &[operand(SecretPosition::Last, "", None)]),
    program("encrypt_string", &[operand(SecretPosition::First, "", None)]),
    program("operator unseal", &[operand(SecretPosition::Last, "", None)]),
    // `kubectl create secret generic x`, `gh secret set X`, `fly secrets set X=y`.
    program("secret generic", &[behind("--from-literal", b'=')]),
    program("secret set", &[whole("-b"), whole("--body")]),
    program("secrets set", &[operand(SecretPosition::Each, "", Some(b'='))]),
    program("put-parameter", &[whole("--value")]),
    program("unlock-keychain", &[whole("-p")]),
    program("add-generic-password", &[whole("-w")]),
    program("psexec", &[whole("-p")]),
    program("xfreerdp", &[attached("/p:"), attached("/password:")]),
    program("cmdkey", &[attached("/pass:")]),
    program("ssh-keygen", &[whole("-N"), whole("-P")]),
    program("ipmitool", &[whole("-P")]),
    program("snmpwalk", SNMP),
    program("snmpbulkwalk", SNMP),
    program("snmpget", SNMP),
    program("snmpset", SNMP),
    program("usermod", &[whole("-p")]),
    program("useradd", &[whole("-p")]),
    program("smbclient", &[behind("-U", b'%')]),
    program("rpcclient", &[behind("-U", b'%')]),
    program("winexe", &[behind("-U", b'%')]),
    program("lftp", &[behind("-u", b',')]),
    program("zip", &[whole("-P")]).switches("0123456789jmqrTuvXy"),
    program("unzip", &[whole("-P")]).switches("acfjlnopqtuvz"),
    program("7z", &[attached("-p")]),
    program("unrar", &[attached("-p")]),
    program("rdesktop", &[whole("-p")]),
    program("openssl", &[whole("-k"), behind("-pass", b':'), behind("-passin", b':'), behind("-passout", b':')]),
];

/// `docker login -p x`, `oc login -p x`: elsewhere `-p` is a port or a path.
const LOGIN: &[Flag] = &[whole("-p")];

/// Words after which a command begins anew.
const SEPARATORS: &[&[u8]] = &[b";", b"|", b"||", b"&&", b"&", b">", b">>", b"2>&1"];

/// For each word of a command the place of a password in it. `is_command` says that the first word
/// is not just a word of a sentence.
///
/// In a text the next program is a trigger of its own.
pub(super) fn places(
    words: &[&[u8]],
    is_command: bool,
    in_text: bool,
) -> Vec<Option<(usize, usize)>> {
    let mut places = vec![None; words.len()];
    let (mut flags, mut switches): (&[Flag], &str) = (&[], "");
    for (at, word) in words.iter().enumerate() {
        let mut found = Vec::new();
        if SEPARATORS.contains(word) {
            (flags, switches) = (&[], "");
        } else if *word == b"login" {
            (flags, switches) = (LOGIN, "");
            found.extend(vault_token(words, at, is_command).map(|token| (token, 0)));
        } else if let Some(program) = named(words, at) {
            if in_text && at > 0 {
                break;
            }
            (flags, switches) = (program.flags, program.switches);
            found.extend(flags.iter().flat_map(|flag| flag.operands(words, at)));
        } else if matches!(word.first(), Some(b'-' | b'/')) {
            let of_flag = flags
                .iter()
                .find_map(|flag| flag.password(words, at, switches));
            found.extend(of_flag.or_else(|| generated_behind_p(words, at)));
        }
        for (word, start) in found {
            if !value::is_placeholder(&words[word][start..]) {
                places[word] = Some((start, words[word].len()));
            }
        }
    }
    // `ann/x@db`: the database stays.
    for (word, place) in words.iter().zip(&mut places) {
        if let Some((start, end)) = place
            && *start > 0
            && word[*start - 1] == b'/'
        {
            *end = memchr::memrchr(b'@', word)
                .filter(|at| at > start)
                .unwrap_or(*end);
        }
    }
    places
}

/// `vault login TOKEN`, and not "the vault login page".
fn vault_token(words: &[&[u8]], login: usize, is_command: bool) -> Option<usize> {
    let program = words[login.checked_sub(1)?];
    let is_url = |word: &[u8]| word.windows(3).any(|part| part == b"://");
    let is_argument = |at: &usize| !words[*at].starts_with(b"-") && !is_url(words[*at]);
    let token = (login + 1..words.len()).find(is_argument)?;
    let has_digit = words[token].iter().any(u8::is_ascii_digit);
    let is_last = words
        .get(token + 1)
        .is_none_or(|next| SEPARATORS.contains(next));
    let is_token = has_digit || is_command && login == 1 && is_last;
    let is_vault = program == b"vault" || program.ends_with(b"/vault");
    (is_vault && is_token && !words[token].contains(&b'=')).then_some(token)
}

/// `-p x` of a program that is not in the table: elsewhere `-p` is a port, a path, a package or a
/// patch of a commit, so only what a generator of passwords makes is one.
fn generated_behind_p(words: &[&[u8]], at: usize) -> Option<(usize, usize)> {
    let value = words.get(at + 1).filter(|_| words[at] == b"-p")?;
    let in_password = |b: &u8| b.is_ascii_alphanumeric() || b"_-+=!#%^&*~@".contains(b);
    let is_id = value.iter().all(|b| b.is_ascii_hexdigit() || *b == b'-');
    // `deploy -u admin -p x`: beside a user it is a password rather than a port or a path.
    let has_user = words[..at]
        .iter()
        .any(|word| [b"-u".as_slice(), b"--user"].contains(word));
    let is_password = value.iter().all(in_password)
        && !is_id
        && (value.len() >= 12 && value::is_token_body(value)
            || has_user && value::is_generated(value));
    is_password.then_some((at + 1, 0))
}

impl Flag {
    /// The words behind the program at `at` that hold passwords, and where these begin.
    fn operands(&self, words: &[&[u8]], at: usize) -> Vec<(usize, usize)> {
        let rest = &words[at + 1..];
        let end = rest
            .iter()
            .position(|word| SEPARATORS.contains(word))
            .unwrap_or(rest.len());
        let switch = self.name.as_bytes().last();
        let is_switched =
            |word: &&[u8]| word.starts_with(b"-") && switch.is_none_or(|b| word.contains(b));
        let is_given = switch.is_none() || rest[..end].iter().any(is_switched);
        let mut places: Vec<usize> = (at + 1..=at + end)
            .filter(|word| !words[*word].starts_with(b"-"))
            .collect();
        match self.place {
            _ if !is_given => places.clear(),
            SecretPosition::Next | SecretPosition::Attached => places.clear(),
            SecretPosition::First => places.truncate(1),
            SecretPosition::Last => drop(places.drain(..places.len().saturating_sub(1))),
            SecretPosition::Each => {}
        }
        places
            .into_iter()
            .filter_map(|word| Some((word, self.behind(words[word])?)))
            .collect()
    }

    /// The word that holds the password of this flag, which may stand at `at`, and where it begins.
    fn password(&self, words: &[&[u8]], at: usize, switches: &str) -> Option<(usize, usize)> {
        if !matches!(self.place, SecretPosition::Next | SecretPosition::Attached) {
            return None;
        }
        let is_long = self.name.len() > 2;
        let together = match words[at] {
            [b'-', letters @ ..] if !is_long => letters
                .iter()
                .take_while(|b| switches.as_bytes().contains(b))
                .count(),
            _ => 0,
        };
        let name_end = together + self.name.len();
        let (sign, letters) = words[at].split_first()?;
        let rest = letters
            .get(together..)?
            .strip_prefix(&self.name.as_bytes()[1..])?;
        let (word, start) = match rest.first() {
            _ if *sign != self.name.as_bytes()[0] => return None,
            None if self.place == SecretPosition::Attached => return None,
            None => (at + 1, 0),
            Some(b'=') => (at, name_end + 1),
            Some(_) if is_long && !self.name.ends_with(':') => return None,
            Some(_) => (at, name_end),
        };
        Some((word, start + self.behind(words.get(word)?.get(start..)?)?))
    }

    /// Where the password begins in the value of the flag.
    fn behind(&self, value: &[u8]) -> Option<usize> {
        let Some(sign) = self.behind else {
            return Some(0);
        };
        // `curl -u TOKEN:`: the token is the user.
        if value.ends_with(&[sign]) && value::is_token(&value[..value.len() - 1]) {
            return Some(0);
        }
        let at = memchr::memchr(sign, value).filter(|at| *at > 0 || sign == b':')?;
        // `curl -u https://x`: the user was forgotten. `/ as sysdba`: nobody is named.
        let is_url = value[at..].starts_with(b"://") || value[..at].ends_with(b":");
        (!is_url).then_some(at + 1)
    }
}

/// What the word before says about the next one: `--password x`, `aws configure set aws_secret_access_key x`.
pub(super) fn next_word(word: &str) -> KeyName {
    let name = word.trim_start_matches('-');
    let is_flag = name.len() < word.len();
    let is_plain_name = matches!(name, "password" | "passwd" | "passphrase") || name.contains('_');
    if word.contains(['=', ' ']) || !is_flag && !is_plain_name {
        return KeyName::Plain;
    }
    names::judge(name.as_bytes())
}

/// Which of the programs the word at `at` names, also by a path or with the word behind it.
fn named(words: &[&[u8]], at: usize) -> Option<&'static Program> {
    let base = words[at]
        .rsplit(|b| matches!(b, b'/' | b'\\'))
        .next()?
        .to_ascii_lowercase();
    let base = base.strip_suffix(b".exe").unwrap_or(&base);
    let in_name = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    // `HTTP` is the protocol.
    if words[at].starts_with(b"HTTP") {
        return None;
    }
    PROGRAMS
        .iter()
        .find(|program| match program.name.split_once(' ') {
            Some((name, next)) => {
                base == name.as_bytes() && words.get(at + 1) == Some(&next.as_bytes())
            }
            None => {
                let name = program.name.as_bytes();
                base == name
                    || program.is_family && base.starts_with(name) && base.iter().all(in_name)
            }
        })
}

/// The passwords in the command whose program stands at `start` of a text, as places in the text.
pub(super) fn passwords(text: &[u8], start: usize) -> Vec<(usize, usize)> {
    let line = &text[start..text.len().min(start + LINE_LEN_MAX)];
    let spans = split(line);
    let words: Vec<&[u8]> = spans.iter().map(|&(from, to)| &line[from..to]).collect();
    let places = places(&words, starts_command(&text[..start]), true);
    let found = places
        .into_iter()
        .zip(&spans)
        .filter_map(|(password, &(from, _))| {
            let (from, to) = password.map(|(start, end)| (from + start, from + end))?;
            let value = &line[from..to];
            // `-p"a b"`, `--user='a:b'`: the quotes stay. A quote that does not belong to the word ends it.
            let open = usize::from(matches!(value.first(), Some(b'"' | b'\'')));
            let len = value[open..]
                .iter()
                .take_while(|b| !b"\"'`\\".contains(b))
                .count();
            let is_secret = len > 0 && !value::is_placeholder(&value[open..open + len]);
            let from = start + from + open;
            is_secret.then_some((from, from + len))
        });
    found.collect()
}

/// Whether a command may begin behind this: at a line's start, a prompt, a separator or `sudo`.
fn starts_command(before: &[u8]) -> bool {
    let margin = before
        .iter()
        .rev()
        .take(32)
        .take_while(|b| matches!(b, b' ' | b'\t'))
        .count();
    let before = &before[..before.len() - margin];
    before.last().is_none_or(|b| b"\n$#;&|(`\"'>%".contains(b)) || before.ends_with(b"sudo")
}

/// The words of a shell command, without the quotes around whole words. A line that ends in a
/// backslash continues.
pub(super) fn split(line: &[u8]) -> Vec<(usize, usize)> {
    let mut words = Vec::new();
    let mut at = 0;
    while at < line.len() && words.len() < WORDS_MAX {
        let is_continued = line[at..].starts_with(b"\\\n");
        match line[at] {
            b'\n' => break,
            b' ' | b'\t' => at += 1,
            b'\\' if is_continued => at += 2,
            quote @ (b'"' | b'\'') if closing(line, at + 1, quote).is_some() => {
                let end = closing(line, at + 1, quote).unwrap_or(line.len());
                words.push((at + 1, end));
                at = end + 1;
            }
            _ => {
                let end = word_end(line, at);
                words.push((at, end));
                at = end;
            }
        }
    }
    words
}

fn word_end(line: &[u8], start: usize) -> usize {
    let mut at = start;
    while let Some(byte) = line.get(at) {
        match byte {
            0..=b' ' => break,
            quote @ (b'"' | b'\'') => match closing(line, at + 1, *quote) {
                Some(end) => at = end + 1,
                None => at += 1,
            },
            _ => at += 1,
        }
    }
    at
}

fn closing(line: &[u8], from: usize, quote: u8) -> Option<usize> {
    let len = line[from..]
        .iter()
        .take_while(|b| **b != quote && **b != b'\n')
        .count();
    (line.get(from + len) == Some(&quote)).then_some(from + len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(command: &str) -> Vec<&str> {
        passwords(command.as_bytes(), 0)
            .into_iter()
            .map(|(from, to)| &command[from..to])
            .collect()
    }

    #[test]
    fn flags_of_known_programs_hold_passwords() {
        for (command, expected) in [
            ("curl -s -u 'ann:s3 cret' https://x", "s3 cret"),
            ("curl \\\n  --user=ann:s3cret x", "s3cret"),
            ("mysqldump -uroot -p\"s3 cret\" db", "s3 cret"),
            ("mongosh -u a -p s3cret", "s3cret"),
            ("ldapsearch -D cn=a -w s3cret", "s3cret"),
            ("smbclient //h/s -U ann%s3cret", "s3cret"),
            ("ssh-keygen -t ed25519 -N s3cret -f k", "s3cret"),
            ("openssl rsa -in k -passin pass:s3cret", "s3cret"),
            ("mysql -ps3cret\" ...", "s3cret"),
            ("sqlplus -s ann/s3cret@//db:1521/x", "s3cret"),
            ("sqlplus ann/s3cret", "s3cret"),
            ("htpasswd -cb .htpasswd ann s3cret", "s3cret"),
            ("htpasswd -nbB ann s3cret > f", "s3cret"),
            ("mosquitto_pub -u a -P s3cret -t x", "s3cret"),
            ("wpa_passphrase home s3cret", "s3cret"),
            ("add_user ann s3cret", "s3cret"),
            ("encrypt_string 's3cret' --name x", "s3cret"),
            ("secret generic x --from-literal=a=s3cret", "s3cret"),
            ("secret set X -b s3cret", "s3cret"),
            ("secrets set X=s3cret", "s3cret"),
            ("put-parameter --name x --value s3cret", "s3cret"),
            ("xfreerdp /u:ann /p:s3cret /v:h", "s3cret"),
            ("vault login root", "root"),
        ] {
            assert_eq!(found(command), [expected], "{command}");
        }
    }

    #[test]
    fn other_flags_do_not() {
        for command in [
            "mysql -p db",
            "curl -u ann x",
            "curl -u $U:$P x",
            "zip -r -p x",
            "sqlplus / as sysdba",
            "htpasswd f ann",
            "secret generic x --from-literal=a=$A",
        ] {
            assert_eq!(found(command), [""; 0], "{command}");
        }
    }

    #[test]
    fn every_program_is_a_trigger() {
        for program in PROGRAMS {
            let name = program.name.as_bytes();
            let mut is_visited = false;
            let command = [name, b" -"].concat();
            crate::trigger::scan(&command, |at, rule| {
                is_visited |= at == 0 && rule == crate::trigger::Rule::Command;
                None
            });
            assert!(is_visited, "{}", program.name);
        }
    }
}
