//! Passwords in short flags of programs that everybody calls: `curl -u user:password`,
//! `mysql -pPASSWORD`, `sshpass -p PASSWORD`, `redis-cli -a PASSWORD`. Long flags are key names (see `assign`).

use memchr::memmem;

use super::finding::{Finding, Rank};
use super::value;

const LINE_LEN_MAX: usize = 1024;

/// The first password in the flags of the command named at `start`.
pub(super) fn password(text: &[u8], start: usize) -> Option<Finding<'static>> {
    let line = &text[start..text.len().min(start + LINE_LEN_MAX)];
    let line = line.split(|b| *b == b'\n').next()?;
    let (from, to) = match line[0] | 0x20 {
        b'c' => curl_user(line)?,
        b'r' => word_after(line, b" -a").filter(|word| is_secret(line, *word))?,
        b's' | b'd' => word_after(line, b" -p").filter(|word| is_secret(line, *word))?,
        _ => mysql_password(line)?,
    };
    Some(Finding::new(start + from, start + to, "password", Rank::Context))
}

fn curl_user(line: &[u8]) -> Option<(usize, usize)> {
    [b" -u".as_slice(), b" --user", b" --proxy-user", b" -U"].iter().find_map(|flag| {
        let (from, to) = word_after(line, flag)?;
        let colon = memchr::memchr(b':', &line[from..to])?;
        Some((from + colon + 1, to)).filter(|word| is_secret(line, *word))
    })
}

/// Only the attached form: after a blank `-p` asks, and the next word is the database.
fn mysql_password(line: &[u8]) -> Option<(usize, usize)> {
    let flag = memmem::find(line, b" -p")? + 3;
    let is_attached = line.get(flag).is_some_and(|b| !b" -".contains(b));
    let word = word_after(line, b" -p").filter(|word| is_secret(line, *word))?;
    is_attached.then_some(word)
}

fn is_secret(line: &[u8], (from, to): (usize, usize)) -> bool {
    !value::is_placeholder(&line[from..to])
}

/// The word behind a flag: attached, behind blanks or `=`, and inside quotes.
fn word_after(line: &[u8], flag: &[u8]) -> Option<(usize, usize)> {
    let mut from = memmem::find(line, flag)? + flag.len();
    from += line[from..].iter().take(8).take_while(|b| matches!(b, b' ' | b'=')).count();
    let quote = line.get(from).filter(|b| matches!(b, b'"' | b'\''));
    from += usize::from(quote.is_some());
    let ends = |b: &u8| match quote {
        Some(quote) => b == quote,
        None => *b <= b' ' || b"\"'`".contains(b),
    };
    let len = line[from..].iter().take_while(|b| !ends(b)).count();
    (len > 0).then_some((from, from + len))
}
