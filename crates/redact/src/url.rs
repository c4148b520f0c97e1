//! Passwords in URLs: `scheme://user:password@host`. User and host stay.

use memchr::{memchr, memrchr};

use super::{mark, value};

const USERINFO_LEN_MAX: usize = 512;
/// A user name without a password that is as long as this and random is a token.
const TOKEN_LEN_MIN: usize = 16;

/// Place of the password of the URL whose `://` stands at `start`.
pub(super) fn password_at(text: &[u8], start: usize) -> Option<(usize, usize)> {
    let first = start + 3;
    let rest = &text[first..];
    let authority = &rest[..len_until(rest, |b| ends_word(b) || b"/?#".contains(b))];
    let at_sign = memrchr(b'@', authority)
        // `ann@x.org:pa#ss@host`: the address is the user.
        .filter(|at| !has_password(&authority[at + 1..]))
        .or_else(|| at_sign_behind_sign(rest, authority))?;
    let userinfo = &rest[..at_sign];
    let mark = mark::mark_len(userinfo).unwrap_or(0);
    let (from, secret) = match memchr(b':', &userinfo[mark..]).map(|colon| mark + colon) {
        // `TOKEN:x-oauth-basic@`: the token is the user.
        Some(colon) if is_empty_word(&userinfo[colon + 1..]) => {
            let user = Some(&userinfo[..colon]).filter(|user| is_token(user))?;
            return Some((first, first + user.len()));
        }
        Some(colon) => (colon + 1, &userinfo[colon + 1..]),
        None if is_token(userinfo) => (0, userinfo),
        None => return None,
    };
    (!value::is_placeholder(secret)).then_some((first + from, first + at_sign))
}

/// What stands for a password where the user says all.
fn is_empty_word(password: &[u8]) -> bool {
    matches!(
        password,
        b"" | b"x" | b"X" | b"x-oauth-basic" | b"api_token"
    )
}

/// Whether a user name looks generated. `ann%40x.org` is an address.
fn is_token(user: &[u8]) -> bool {
    user.len() >= TOKEN_LEN_MIN
        && memchr::memmem::find(user, b"%40").is_none()
        && (value::is_random(user) || value::is_token(user))
}

/// All passwords of URLs in a text.
pub(super) fn passwords(text: &[u8]) -> Vec<(usize, usize)> {
    memchr::memmem::find_iter(text, b"://")
        .filter_map(|start| password_at(text, start))
        .collect()
}

/// A blank, a quote or a bracket ends a URL in prose and markup.
fn ends_word(byte: &u8) -> bool {
    *byte <= b' ' || *byte == 0x7f || b"\"'`<>|\\".contains(byte)
}

fn len_until(text: &[u8], ends: impl Fn(&u8) -> bool) -> usize {
    text.iter()
        .take(USERINFO_LEN_MAX)
        .take_while(|b| !ends(b))
        .count()
}

/// Whether something else than a port stands behind a colon.
fn has_password(host: &[u8]) -> bool {
    let behind = memchr(b':', host).map(|colon| &host[colon + 1..]);
    host.first() != Some(&b'[') && behind.is_some_and(|port| !port.iter().all(u8::is_ascii_digit))
}

/// `user:pa/ss@host`: a password somebody forgot to encode. `host:8080/a@b` is none.
fn at_sign_behind_sign(rest: &[u8], authority: &[u8]) -> Option<usize> {
    let colon = memchr(b':', authority).filter(|_| has_password(authority))?;
    memchr(b'@', &rest[colon..len_until(rest, ends_word).max(colon)]).map(|at| colon + at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn password(text: &str) -> Option<&str> {
        let start = text.find("://").unwrap();
        password_at(text.as_bytes(), start).map(|(from, to)| &text[from..to])
    }

    #[test]
    fn the_password_and_nothing_else_is_found() {
        assert_eq!(password("postgres://ann:s3cr@t@db:5432/x"), Some("s3cr@t"));
        assert_eq!(password("redis://:s3cret@cache"), Some("s3cret"));
        assert_eq!(password("amqp://u:pa/ss@host/v"), Some("pa/ss"));
        assert_eq!(
            password("https://Zx81kQp02mVnB7sTz9aa@host/"),
            Some("Zx81kQp02mVnB7sTz9aa")
        );
    }

    #[test]
    fn urls_without_a_password_have_none() {
        for url in [
            "https://example.com/a@b",
            "http://host:8080/p@q",
            "ssh://git@github.com/x",
            "postgres://ann:$PASS@db",
            "postgres://ann:***@db",
            "http://[::1]:80/a@b",
            "https://x.y/?mail=a:b@c",
            "x://",
        ] {
            assert_eq!(password(url), None, "{url}");
        }
    }
}
