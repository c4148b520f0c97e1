//! Which key names hold secrets: `DB_PASSWORD`, `apiKey`, `x-auth-token`; and which only sound
//! like it: `max_tokens`, `author`, `primary_key`.
//!
//! A name is split into segments at `_ - . space` and at camel case; whole segments are compared.

use super::vendors::{QUIET_VENDORS, VENDORS};
use super::{mark, trigger};

/// What a key name says about its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyName {
    /// Not a secret.
    Plain,
    /// A secret when the value looks like one that was generated: `vendor_key`, `heroku`.
    Weak,
    /// A secret unless it is a number: `token`, `pass`, `auth` also count and describe things.
    Loose,
    /// A secret, also when it is a number.
    Strong,
}

/// Longest name looked at; longer ones are data, not names.
pub(super) const NAME_LEN_MAX: usize = 128;
const SEGMENTS_MAX: usize = 16;

/// Judges a key name.
pub(super) fn judge(name: &[u8]) -> KeyName {
    // A mark inside a name tells what was there and is no part of the name.
    if name.len() > NAME_LEN_MAX
        || !mark::marks(name).is_empty()
        || !trigger::may_be_secret_name(name)
    {
        return KeyName::Plain;
    }
    let mut segments = Segments::split(name);
    segments.drop_numbers();
    let all = segments.all();
    let Some(last) = all.last() else {
        return KeyName::Plain;
    };
    let is_vault_id = is(last, "id") && all.len() > 1 && is(all[all.len() - 2], "secret");
    let is_host = is(all[0], "bundle") && all.len() > 2;
    if is_any(last, DESCRIPTIONS) && !is_vault_id && !is_host {
        let is_client_id = is(last, "id") && has_vendor(all) && all.len() > 1;
        return if is_client_id {
            KeyName::Weak
        } else {
            KeyName::Plain
        };
    }
    match all {
        _ if is_strong(all) => KeyName::Strong,
        _ if is_loose(all) => KeyName::Loose,
        _ if is_weak(all) => KeyName::Weak,
        _ => KeyName::Plain,
    }
}

/// Whether a value under this name is never a plain word: nobody gives out tokens like that.
pub(super) fn holds_no_words(name: &[u8]) -> bool {
    ends_with_any(
        name,
        &[
            "token", "tokens", "auth", "cookie", "cookies", "bearer", "secrets",
        ],
    )
}

/// Length of the word for a password or a key in another script with which a text begins, or 0.
pub(super) fn foreign_len(text: &[u8]) -> usize {
    let starts = |word: &&&str| text.starts_with(word.as_bytes());
    // Most names are ASCII.
    let words = if text.first().is_some_and(u8::is_ascii) {
        &[]
    } else {
        FOREIGN
    };
    words.iter().find(starts).map_or(0, |word| word.len())
}

pub(super) fn is_foreign(name: &[u8]) -> bool {
    !name.is_empty() && foreign_len(name) == name.len()
}

/// Whether the name of a secret stands at its end: a value behind nothing but a colon is one then.
pub(super) fn ends_with_key(name: &[u8]) -> bool {
    ends_with_any(name, &["key", "keys"])
}

/// `KEY`, `acmeACCESS`, `acmePRIVATEkey`: in capitals a name, in a sentence too.
pub(super) fn has_capitals(name: &[u8]) -> bool {
    let ends = [b"KEY".as_slice(), b"ACCESS", b"PRIVATE", b"TOKEN"];
    let ends_in = |name: &[u8]| ends.iter().any(|end| name.ends_with(end));
    let without_key = name.strip_suffix(b"key").unwrap_or(name);
    ends_in(name) || ends_in(without_key) || without_key.ends_with(b"SECRET")
}

/// `acme-access`, `acmeaccess`, `acme-private`: a service and what it gives.
pub(super) fn is_access(name: &[u8]) -> bool {
    name.len() >= 10 && ends_with_any(name, &["access", "private"])
}

/// `private-key`, `API key`: the name of a key that opens something, and not of one that is public or
/// known by its digest.
pub(super) fn is_opening_key(name: &[u8]) -> bool {
    let segments = Segments::split(name);
    matches!(segments.all(), [.., before, key] if is(key, "key")
        && is_any(before, &["private", "secret", "access", "api", "auth", "app", "master"]))
}

/// `acme key`: the word before tells whose key it is. Verbs and participles do not.
pub(super) fn is_owned_key(name: &[u8]) -> bool {
    let segments = Segments::split(name);
    let is_owner = |word: &[u8]| {
        word.len() >= 5
            && word.iter().all(u8::is_ascii_lowercase)
            && ![b"ing".as_slice(), b"ed", b"es"]
                .iter()
                .any(|end| word.ends_with(end))
    };
    matches!(segments.all(), [owner, key] if is(key, "key") && (is_owner(owner) || is_vendor(owner)))
}

/// Whether what stands under this name is shown to everybody although it looks generated.
pub(super) fn is_public(name: &[u8]) -> bool {
    #[rustfmt::skip]
    const PUBLIC: &[&str] = &[
        "hash", "digest", "sum", "checksum", "etag", "integrity", "nonce", "cursor", "address",
        "public", "pubkey", "cid", "fingerprint", "data", "body", "content", "state", "trace",
        "commit", "revision", "query", "base64", "image", "src", "href", "text", "test", "sha",
        "sha1", "sha256", "sha384", "sha512", "md5", "blake3", "rev", "blob", "tree", "hashed",
        "key", "uuid", "challenge", "signature", "marker", "alphabet", "charset", "expected",
    ];
    let segments = Segments::split(name);
    segments
        .all()
        .last()
        .is_none_or(|last| is_any(last, DESCRIPTIONS) || is_any(last, PUBLIC))
}

/// `msg_x`, `resp_x`: what services and APIs of models call the things that they number, which are sent back to them.
pub(super) fn is_of_an_id(name: &[u8]) -> bool {
    #[rustfmt::skip]
    const IDS: &[&str] = &[
        "msg", "resp", "fc", "rs", "ws", "cu", "mcp", "ig", "ci", "call", "toolu", "srvtoolu", "chatcmpl", "cmpl",
        "gen", "item", "event", "evt", "req", "request", "response", "message", "conv", "conversation", "thread",
        "run", "step", "asst", "file", "batch", "vs", "sess", "session", "trace", "span", "group",
    ];
    is_any(name, IDS)
}

/// `k2sk`, `acme_pat_v1`: a part of the name says that a secret follows.
pub(super) fn ends_in_secret(name: &[u8]) -> bool {
    const ENDS: &[&str] = &[
        "sk", "key", "token", "tok", "secret", "pat", "api", "live", "prod",
    ];
    Segments::split(name)
        .all()
        .iter()
        .any(|segment| ends_with_any(segment, ENDS))
}

/// Whether the name has several words.
pub(super) fn is_compound(name: &[u8]) -> bool {
    Segments::split(name).all().len() > 1
}

/// Whether a service is called so.
pub(super) fn is_vendor(name: &[u8]) -> bool {
    VENDORS.holds(name) || QUIET_VENDORS.holds(name)
}

/// Whether a service is called so whose tokens may be hexadecimal: what stands behind it is no commit.
pub(super) fn is_keyed_vendor(name: &[u8]) -> bool {
    VENDORS.holds(name)
}

/// Whether a call of this name takes a user and a password.
pub(super) fn is_auth(name: &[u8]) -> bool {
    ends_with_any(name, &["auth", "credential", "credentials"])
}

/// Whether a value under this name may be several words.
pub(super) fn holds_phrases(name: &[u8]) -> bool {
    ends_with_any(
        name,
        &["passphrase", "password", "passwd", "mnemonic", "phrase"],
    )
}

/// The same of a short name, which says less about a value without quotes.
pub(super) fn may_be_phrase(name: &[u8]) -> bool {
    holds_phrases(name) || ends_with_any(name, &["pass", "passe", "pw", "clave", "parola"])
}

/// Whether a header of this name carries credentials after a scheme word or as pairs.
pub(super) fn is_credential_header(name: &[u8]) -> bool {
    is_any(
        name,
        &[
            "authorization",
            "proxy-authorization",
            "cookie",
            "set-cookie",
        ],
    )
}

/// Whether a query parameter of this name is a secret although a key of this name is not.
pub(super) fn is_secret_parameter(name: &[u8]) -> bool {
    is_any(
        name,
        &[
            "key",
            "code",
            "sig",
            "signature",
            "x-amz-signature",
            "x-goog-signature",
        ],
    )
}

fn is_strong(all: &[&[u8]]) -> bool {
    let last = all[all.len() - 1];
    let is_word = |segment: &&[u8]| {
        is_any(segment, STRONG) || ends_with_any(segment, STRONG_ENDINGS) || is_password(segment)
    };
    all.iter().any(is_word)
        || is_any(last, FOREIGN)
        || pairs(all).any(|(before, segment)| {
            let is_key = is(segment, "key") || is(segment, "keys");
            (is_key && is_any(before, BEFORE_KEY))
                || (is(before, "connection") && is(segment, "string"))
                || (is(before, "api") && is(segment, "hash"))
                || (is(before, "snmp") && is(segment, "community"))
                || (is(segment, "phrase") && is_any(before, &["seed", "pass", "recovery"]))
        })
        || matches!(all, [.., owner, pat] if is(pat, "pat") && is_vendor(owner))
        || is_any(last, &["dsn", "psk"])
}

/// `passwd`, `PSSWRD`, `pasword`, `passworsd`: however much of the word is left out or written twice.
fn is_password(segment: &[u8]) -> bool {
    let letters = segment
        .iter()
        .map(u8::to_ascii_lowercase)
        .filter(|b| !b"aor".contains(b));
    let mut left = letters.take(16).collect::<Vec<u8>>();
    left.dedup();
    matches!(left.as_slice(), b"pswd" | b"pswsd" | b"pswdw" | b"pwsd" if segment.len() > 3)
}

fn is_loose(all: &[&[u8]]) -> bool {
    let last = all[all.len() - 1];
    let is_cursor = all.len() > 1 && is_any(all[all.len() - 2], &["page", "next", "continuation"]);
    let is_plural_secret = pairs(all).any(|(before, segment)| {
        is(segment, "tokens") && is_any(before, &["access", "refresh", "auth", "api", "bearer"])
    });
    // `BUNDLE_GEMS__EXAMPLE__COM`: the credentials that Bundler has for a host.
    let is_bundler = is(all[0], "bundle") && is_any(last, &["com", "org", "net", "io"]);
    is_bundler
        || is_any(last, LOOSE_LAST)
        || ends_with_any(last, &["pass"]) && !is_any(last, WORDS_IN_PASS)
        || is_plural_secret
        || (!is_cursor && all.iter().any(|segment| ends_with_any(segment, &["token"])))
        || is_vendor_key(all)
}

/// `acme_key`, `acmekey`; those of a few name a thing.
fn is_vendor_key(all: &[&[u8]]) -> bool {
    let vendor = match all {
        [.., before, key] if is(key, "key") => before,
        [.., glued] if ends_with_any(glued, &["key"]) => &glued[..glued.len() - 3],
        _ => return false,
    };
    is_vendor(vendor) && !is_any(vendor, &["jira", "linear", "sonar"])
}

fn is_weak(all: &[&[u8]]) -> bool {
    let last = all[all.len() - 1];
    let before = all.len().checked_sub(2).map(|at| all[at]);
    let is_key = is(last, "key") || is(last, "keys");
    let is_glued = last.len() > 3 && ends_with_any(last, &["key"]) && !is_any(last, WORDS_IN_KEY);
    is_glued
        || is_key && !before.is_some_and(|before| is_any(before, BEFORE_PLAIN_KEY))
        // `azure_search_key`: these open something at a service; `google_public_key` does not.
        || is_key
            && before.is_some_and(|before| is_any(before, &["search", "query", "primary", "data"]))
            && all.iter().any(|segment| is_vendor(segment))
        // Of WordPress; others are stored beside what they are for.
        || is(last, "salt") && before.is_some_and(|word| is_any(word, &["auth", "in", "nonce"]))
        // `HEX_PAT` of a program is a pattern.
        || all.len() > 1 && is(last, "pat")
        || is_any(last, &["api", "access", "private", "oauth"])
        || is_access(last)
        || has_vendor(all)
}

fn has_vendor(all: &[&[u8]]) -> bool {
    all.iter().any(|segment| VENDORS.holds(segment))
}

/// Secret wherever they stand in a name, unless the name ends in a description.
#[rustfmt::skip]
const STRONG: &[&str] = &[
    "pwd", "passwd", "passcode", "secret", "secrets", "credential", "credentials", "creds",
    "cred", "mnemonic", "apikeys", "phpsessid", "jsessionid", "pword", "passw", "secrete", "contrasena", "contraseña", "kennwort", "passwort", "senha", "wachtwoord", "masterauth",
    "bindpw", "rootpw", "mdp", "motdepasse", "haslo", "heslo", "jelszo", "sifre", "losenord",
    "adgangskode", "salasana", "lozinka", "kodeord", "slaptazodis", "pasahitza", "parool", "dockerconfigjson", "dockercfg",
];
/// The same in other scripts, where a value has to look generated.
#[rustfmt::skip]
pub(super) const FOREIGN: &[&str] = &[
    "пароль", "Пароль", "ПАРОЛЬ", "密码", "密碼", "口令", "密钥", "密鑰", "令牌", "パスワード", "暗証番号", "비밀번호",
    "비번", "암호", "패스워드", "토큰",
];
#[rustfmt::skip]
const STRONG_ENDINGS: &[&str] = &[
    "password", "passwords", "passwd", "passphrase", "secret", "apikey", "secretkey",
    "privatekey", "accesskey", "signingkey", "encryptionkey", "presharedkey", "authkey", "pswd",
    "passwort", "kennwort", "pwd", "secretid", "dbkey", "databasekey", "servicekey", "accountkey", "privkey",
    "clientkey",
];
#[rustfmt::skip]
const LOOSE_LAST: &[&str] = &[
    "auth", "authorization", "authentication", "cookie", "cookies", "bearer", "pass", "passe", "pw",
    "jwt", "clave", "parola",
];
/// Words that end in `pass` and are none.
#[rustfmt::skip]
const WORDS_IN_PASS: &[&str] = &[
    "bypass", "compass", "encompass", "trespass", "surpass", "overpass", "underpass", "multipass",
    "askpass",
];
/// Words that end in `key` and open nothing.
#[rustfmt::skip]
const WORDS_IN_KEY: &[&str] = &[
    "monkey", "turkey", "donkey", "hockey", "jockey", "whiskey", "hotkey", "pubkey", "publickey",
    "rowkey", "sortkey", "onkey", "haskey", "getkey", "bykey", "primarykey", "foreignkey", "cachekey",
];
/// `key` after these names something and opens nothing.
#[rustfmt::skip]
const BEFORE_PLAIN_KEY: &[&str] = &[
    "primary", "foreign", "public", "pub", "cache", "sort", "partition", "row", "map", "dict",
    "lookup", "hash", "idempotency", "unique", "natural", "composite", "routing", "bucket",
    "object", "translation", "arrow", "hot", "shortcut", "registry", "config", "metric", "group",
    "search", "index", "state", "candidate", "surrogate", "range", "shard", "event", "message",
    "item", "field", "column", "data", "dedupe", "dedup", "order", "trace", "span", "lock", "job",
    "task", "step", "commit", "digest", "content", "etag", "image", "layer", "blob", "query",
    "react", "list", "press", "by", "has", "get", "on", "is", "no", "known", "s3", "file",
    "test", "mark", "this", "the", "a", "each", "every", "last", "first", "next", "new", "old",
];

/// `key` alone is any key; after these it opens something.
#[rustfmt::skip]
const BEFORE_KEY: &[&str] = &[
    "api", "access", "private", "secret", "signing", "encryption", "decryption", "master",
    "auth", "account", "service", "deploy", "ssh", "license", "session", "shared", "webhook",
    "admin", "rsa", "hmac", "aes", "jwt", "app", "consumer", "client", "storage", "gpg",
    "openai", "anthropic", "claude", "stripe", "github", "gitlab", "gemini", "google", "azure",
    "priv", "db", "database", "preshared", "vendor", "crypto", "wallet", "root", "ldap", "smtp",
    "aws", "slack", "sendgrid", "twilio", "mailgun", "groq", "mistral", "cohere", "datadog",
    "sentry", "deepseek", "openrouter", "xai", "perplexity", "replicate", "together",
    "fireworks", "tavily", "pinecone",
];

/// A name that ends in one of these tells about a secret and does not hold it; file endings too.
#[rustfmt::skip]
const DESCRIPTIONS: &[&str] = &[
    "count", "counts", "limit", "limits", "budget", "usage", "used", "total", "max", "min",
    "type", "kind", "length", "lengths", "len", "size", "sizes", "url", "uri", "endpoint", "expiry", "expire", "expires",
    "expired", "expiration", "ttl", "name", "names", "id", "ids", "path", "paths", "file",
    "files", "dir", "policy", "rotation", "age", "algorithm", "alg", "format", "field",
    "prefix", "issuer", "audience", "scope", "scopes", "at", "in", "status", "version", "rate",
    "cost", "price", "valid", "required", "enabled", "disabled", "index", "position", "pattern",
    "regex", "hint", "prompt", "manager", "provider", "method", "mode", "service", "sock",
    "socket", "store", "ref", "refs", "env", "var", "error", "errors", "changed", "updated",
    "created", "by", "class", "reset", "rs", "py", "js", "ts", "tsx", "jsx", "go", "java", "rb",
    "c", "h", "cpp", "md", "txt", "json", "yaml", "yml", "toml", "log", "lock", "sh", "html",
    "css", "conf", "cfg", "ini", "sql", "xml", "csv", "db", "com", "org", "net", "io",
];

/// Whether a segment is a word, which is in lower case. Most words of the lists differ in the first letter.
fn is(segment: &[u8], word: &str) -> bool {
    let is_near = segment.len() == word.len()
        && segment.first().map(u8::to_ascii_lowercase) == word.as_bytes().first().copied();
    is_near && segment.eq_ignore_ascii_case(word.as_bytes())
}

fn is_any(segment: &[u8], words: &[&str]) -> bool {
    words.iter().any(|word| is(segment, word))
}

/// `PGPASSWORD`, `authtoken`, `password2`: run-together names end in the word.
fn ends_with_any(segment: &[u8], words: &[&str]) -> bool {
    let digits = segment
        .iter()
        .rev()
        .take_while(|b| b.is_ascii_digit())
        .count();
    let segment = &segment[..segment.len() - digits];
    words
        .iter()
        .any(|word| segment.len() >= word.len() && is(&segment[segment.len() - word.len()..], word))
}

fn pairs<'s>(all: &'s [&'s [u8]]) -> impl Iterator<Item = (&'s [u8], &'s [u8])> {
    all.windows(2).map(|pair| (pair[0], pair[1]))
}

/// The segments of a name, without allocation; of more than 16 the first 16.
struct Segments<'n> {
    slots: [&'n [u8]; SEGMENTS_MAX],
    len: usize,
}

impl<'n> Segments<'n> {
    fn split(name: &'n [u8]) -> Self {
        let mut segments = Self {
            slots: [&[]; SEGMENTS_MAX],
            len: 0,
        };
        let mut start = 0;
        for at in 0..name.len() {
            if matches!(
                name[at],
                b'_' | b'-' | b'.' | b' ' | b'/' | b':' | b'[' | b']'
            ) {
                segments.push(&name[start..at]);
                start = at + 1;
            } else if at > start && is_hump(name, at) {
                segments.push(&name[start..at]);
                start = at;
            }
        }
        segments.push(&name[start..]);
        segments
    }

    fn push(&mut self, segment: &'n [u8]) {
        if !segment.is_empty() && self.len < SEGMENTS_MAX {
            self.slots[self.len] = segment;
            self.len += 1;
        }
    }

    /// `TOKEN_2` is a token.
    fn drop_numbers(&mut self) {
        while self.len > 1 && self.slots[self.len - 1].iter().all(u8::is_ascii_digit) {
            self.len -= 1;
        }
    }

    fn all(&self) -> &[&'n [u8]] {
        &self.slots[..self.len]
    }
}

/// Whether a camel-case segment starts at `at`: `accessToken`, `APIKey`.
fn is_hump(name: &[u8], at: usize) -> bool {
    let lower_after = name.get(at + 1).is_some_and(u8::is_ascii_lowercase);
    name[at].is_ascii_uppercase() && (!name[at - 1].is_ascii_uppercase() || lower_after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_hold_secrets() {
        let names = "
            password DB_PASSWORD db.password PGPASSWORD MYSQL_PWD passwd passphrase
            client_secret clientSecret SECRET_KEY_BASE api_key apiKey APIKey APIKEY X-Api-Key
            OPENAI_API_KEY OPENAI_KEY aws_secret_access_key AccountKey SharedAccessKey private-key signing_key credentials db_creds SENTRY_DSN secret_id password_hash GITHUB_PAT
            AZURE_CONNECTION_STRING password2 PASSWORD_2 spring.datasource.password
            wallet_mnemonic PSWD db_pswd PresharedKey wpa_psk seed_phrase contrasena priv_key";
        for name in names.split_ascii_whitespace() {
            assert_eq!(judge(name.as_bytes()), KeyName::Strong, "{name}");
        }
    }

    #[test]
    fn names_that_hold_secrets_unless_numbers() {
        let names = "
            token access_token accessToken refreshToken GITHUB_TOKEN _authToken authtoken
            access_tokens auth basic_auth Authorization Cookie Set-Cookie SMTP_PASS id_token
            csrf_token TOKEN_2 github_token_prod pw db_pw dbpass mailpass";
        for name in names.split_ascii_whitespace() {
            assert_eq!(judge(name.as_bytes()), KeyName::Loose, "{name}");
        }
    }

    #[test]
    fn names_that_hold_secrets_when_they_look_generated() {
        let names = "key acme_key acmeKey heroku HEROKU_APP jira_client_id my_api access";
        for name in names.split_ascii_whitespace() {
            assert_eq!(judge(name.as_bytes()), KeyName::Weak, "{name}");
        }
    }

    #[test]
    fn names_that_only_sound_like_it() {
        let names = "
            tokens_used max_tokens token_count prompt_tokens total_tokens tokens
            completionTokens cache_read_input_tokens token_limit tokenizer author authored_by
            keyboard primary_key idempotency_key monkey public_key cache_key sort_key
            session_id sessionId access_key_id auth_type auth_method SSH_AUTH_SOCK XAUTHORITY
            GIT_ASKPASS token_url password_file secret_name auth.rs src/token.rs next_token
            nextPageToken passed compass secretary tokenId bypass authority api_version
            heroku_url bucket_key";
        for name in names.split_ascii_whitespace() {
            assert_eq!(judge(name.as_bytes()), KeyName::Plain, "{name}");
        }
    }

    #[test]
    fn a_very_long_name_is_no_name() {
        assert_eq!(judge("password_".repeat(30).as_bytes()), KeyName::Plain);
    }
}
