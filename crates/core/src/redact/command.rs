//! Passwords in the flags of programs that are known to take them there: `curl -u user:password`,
//! `mysql -pPASSWORD`, `sshpass -p PASSWORD`. Long flags with a telling name are in `assign`.
//!
//! One table serves commands that are given as words and commands that stand in a text.

use super::names::{self, KeyName};
use super::value;

/// More of a command in a text is not looked at.
const LINE_LEN_MAX: usize = 1024;
const WORDS_MAX: usize = 64;

/// A program and the flags that hold its passwords.
struct Program {
    name: &'static str,
    /// Every program whose name starts like this: `mysqldump`, `mongosh`.
    is_family: bool,
    /// Short flags without a value, which may stand before another one: `-sSu`.
    switches: &'static str,
    flags: &'static [Flag],
}

struct Flag {
    name: &'static str,
    /// Only directly behind the flag: `mysql -p db` asks, and the next word is the database.
    is_attached: bool,
    /// The password stands behind the first of this sign: `user:password`.
    behind: Option<u8>,
}

const fn whole(name: &'static str) -> Flag {
    Flag { name, is_attached: false, behind: None }
}

const fn attached(name: &'static str) -> Flag {
    Flag { name, is_attached: true, behind: None }
}

const fn behind(name: &'static str, sign: u8) -> Flag {
    Flag { name, is_attached: false, behind: Some(sign) }
}

const fn program(name: &'static str, flags: &'static [Flag]) -> Program {
    Program { name, is_family: false, switches: "", flags }
}

const fn family(name: &'static str, flags: &'static [Flag]) -> Program {
    Program { name, is_family: true, switches: "", flags }
}

impl Program {
    const fn switches(self, switches: &'static str) -> Self {
        Self { switches, ..self }
    }
}

/// The table. Each name is also a trigger.
#[rustfmt::skip]
const PROGRAMS: &[Program] = &[
    program("curl", &[
        behind("-u", b':'), behind("--user", b':'), behind("-U", b':'),
        behind("--proxy-user", b':'), behind("-E", b':'), behind("--cert", b':'),
    ]).switches("0123469#aBfgGiIjJklLMnNOpRsSvVZ"),
    program("http", &[behind("-a", b':'), behind("--auth", b':')]).switches("jfvhbmSdcF"),
    program("https", &[behind("-a", b':'), behind("--auth", b':')]).switches("jfvhbmSdcF"),
    family("mysql", &[attached("-p")]),
    family("mariadb", &[attached("-p")]),
    family("mongo", &[whole("-p")]),
    program("sshpass", &[whole("-p")]).switches("ev"),
    program("redis-cli", &[whole("-a")]).switches("23cex"),
    program("valkey-cli", &[whole("-a")]).switches("23cex"),
    family("ldap", &[whole("-w")]).switches("acLMnvxZ"),
    program("sqlcmd", &[whole("-P")]),
    program("bcp", &[whole("-P")]),
    program("cqlsh", &[whole("-p")]),
    program("ssh-keygen", &[whole("-N"), whole("-P")]),
    program("ipmitool", &[whole("-P")]),
    program("smbclient", &[behind("-U", b'%')]),
    program("rpcclient", &[behind("-U", b'%')]),
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
const SEPARATORS: &[&[u8]] = &[b";", b"|", b"||", b"&&", b"&"];

/// For each word of a command where a password begins in it; it reaches to the word's end.
pub(super) fn starts(words: &[&[u8]]) -> Vec<Option<usize>> {
    let mut starts = vec![None; words.len()];
    let (mut flags, mut switches): (&[Flag], &str) = (&[], "");
    for (at, word) in words.iter().enumerate() {
        let found = if SEPARATORS.contains(word) {
            (flags, switches) = (&[], "");
            None
        } else if *word == b"login" {
            (flags, switches) = (LOGIN, "");
            vault_token(words, at).map(|token| (token, 0))
        } else if let Some(program) = named(word) {
            (flags, switches) = (program.flags, program.switches);
            None
        } else if word.first() == Some(&b'-') {
            let found = flags.iter().find_map(|flag| flag.password(words, at, switches));
            found.or_else(|| generated_behind_p(words, at))
        } else {
            None
        };
        if let Some((word, start)) = found
            && !value::is_placeholder(&words[word][start..])
        {
            starts[word] = Some(start);
        }
    }
    starts
}

/// `vault login TOKEN`, and not "the vault login page".
fn vault_token(words: &[&[u8]], login: usize) -> Option<usize> {
    let program = words[login.checked_sub(1)?];
    let is_url = |word: &[u8]| word.windows(3).any(|part| part == b"://");
    let is_argument = |at: &usize| !words[*at].starts_with(b"-") && !is_url(words[*at]);
    let token = (login + 1..words.len()).find(is_argument)?;
    let has_digit = words[token].iter().any(u8::is_ascii_digit);
    let is_token = has_digit && !words[token].contains(&b'=');
    ((program == b"vault" || program.ends_with(b"/vault")) && is_token).then_some(token)
}

/// `-p x` of a program that is not in the table: elsewhere `-p` is a port, a path, a package or a
/// patch of a commit, so only what a generator of passwords makes is one.
fn generated_behind_p(words: &[&[u8]], at: usize) -> Option<(usize, usize)> {
    let value = words.get(at + 1).filter(|_| words[at] == b"-p")?;
    let in_password = |b: &u8| b.is_ascii_alphanumeric() || b"_-+=!#%^&*~@".contains(b);
    let is_id = value.iter().all(|b| b.is_ascii_hexdigit() || *b == b'-');
    let is_password =
        value.len() >= 12 && value.iter().all(in_password) && !is_id && value::is_token_body(value);
    is_password.then_some((at + 1, 0))
}

impl Flag {
    /// The word that holds the password of this flag, which may stand at `at`, and where it begins.
    fn password(&self, words: &[&[u8]], at: usize, switches: &str) -> Option<(usize, usize)> {
        let is_long = self.name.len() > 2;
        let together = match words[at] {
            [b'-', letters @ ..] if !is_long => {
                letters.iter().take_while(|b| switches.as_bytes().contains(b)).count()
            }
            _ => 0,
        };
        let name_end = together + self.name.len();
        let letters = words[at].strip_prefix(b"-")?.get(together..)?;
        let rest = letters.strip_prefix(&self.name.as_bytes()[1..])?;
        let (word, start) = match rest.first() {
            None if self.is_attached => return None,
            None => (at + 1, 0),
            Some(b'=') => (at, name_end + 1),
            Some(_) if is_long => return None,
            Some(_) => (at, name_end),
        };
        let value = words.get(word)?.get(start..)?;
        let behind = match self.behind {
            // `curl -u TOKEN:`: the token is the user.
            Some(sign)
                if value.ends_with(&[sign]) && value::is_token(&value[..value.len() - 1]) =>
            {
                0
            }
            Some(sign) => {
                let at = memchr::memchr(sign, value)?;
                // `curl -u https://x`: the user was forgotten.
                if value[at..].starts_with(b"://") {
                    return None;
                }
                at + 1
            }
            None => 0,
        };
        Some((word, start + behind))
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

/// Which of the programs a word names, also by a path.
fn named(word: &[u8]) -> Option<&'static Program> {
    let base = word.rsplit(|b| *b == b'/').next().unwrap_or(word);
    let in_name = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    PROGRAMS.iter().find(|program| {
        let name = program.name.as_bytes();
        base == name || program.is_family && base.starts_with(name) && base.iter().all(in_name)
    })
}

/// The passwords in the command whose program stands at `start` of a text, as places in the text.
pub(super) fn passwords(text: &[u8], start: usize) -> Vec<(usize, usize)> {
    let line = &text[start..text.len().min(start + LINE_LEN_MAX)];
    let places = split(line);
    let words: Vec<&[u8]> = places.iter().map(|&(from, to)| &line[from..to]).collect();
    let found = starts(&words).into_iter().zip(&places).filter_map(|(password, &(from, to))| {
        let from = from + password?;
        let value = &line[from..to];
        // `-p"a b"`, `--user='a:b'`: the quotes stay. A quote that does not belong to the word ends it.
        let open = usize::from(matches!(value.first(), Some(b'"' | b'\'')));
        let len = value[open..].iter().take_while(|b| !b"\"'`\\".contains(b)).count();
        let is_secret = len > 0 && !value::is_placeholder(&value[open..open + len]);
        let from = start + from + open;
        is_secret.then_some((from, from + len))
    });
    found.collect()
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
    let len = line[from..].iter().take_while(|b| **b != quote && **b != b'\n').count();
    (line.get(from + len) == Some(&quote)).then_some(from + len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(command: &str) -> Vec<&str> {
        passwords(command.as_bytes(), 0).into_iter().map(|(from, to)| &command[from..to]).collect()
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
        ] {
            assert_eq!(found(command), [expected], "{command}");
        }
    }

    #[test]
    fn other_flags_do_not() {
        for command in ["mysql -p db", "curl -u ann x", "curl -u $U:$P x", "zip -r -p x"] {
            assert_eq!(found(command), [""; 0], "{command}");
        }
    }

    #[test]
    fn every_program_is_a_trigger() {
        for program in PROGRAMS {
            let name = program.name.as_bytes();
            let mut is_visited = false;
            let command = [name, b" -"].concat();
            super::super::trigger::scan(&command, |at, rule| {
                is_visited |= at == 0 && rule == super::super::trigger::Rule::Command;
                None
            });
            assert!(is_visited || name.len() < 3, "{}", program.name);
        }
    }
}
