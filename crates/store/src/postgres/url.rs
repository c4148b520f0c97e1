//! The URL of a PostgreSQL store: `postgres://user:password@host:port/database?sslmode=…&schema=…`.

use relight_core::error_code::with_causes;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

/// The default schema.
const SCHEMA_DEFAULT: &str = "relight";
/// A silent server is detected within twice this time.
const SILENCE_MAX: Duration = Duration::from_secs(5);
/// Default time limit of a response.
const PATIENCE: Duration = Duration::from_secs(10);

/// How a server's certificate is verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CertificateTrust {
    /// Encrypted, without verification, as in `sslmode=require`.
    Anybody,
    /// Verified by the roots, for the host name of the URL.
    Verified,
}

/// The address of a PostgreSQL store. Never shows its password.
#[derive(Clone, PartialEq)]
pub struct PostgresUrl {
    pub(super) config: Config,
    pub(super) schema: String,
    pub(super) trust: CertificateTrust,
    /// The URL sets `sslmode`; otherwise a password requires encryption.
    pub(super) says_mode: bool,
    /// A file with trusted roots; the system's if none.
    pub(super) roots: Option<String>,
    /// Time limit of a response, including waiting for locks.
    pub(super) patience: Duration,
}

impl Eq for PostgresUrl {}

/// Why a URL is invalid. Never contains the URL, which may have a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PostgresUrlError {
    /// Not a valid PostgreSQL URL.
    #[error("the address of the PostgreSQL store cannot be read: {0}")]
    Malformed(String),
    /// An unknown `sslmode`.
    #[error("sslmode={0} is not known; write disable, prefer, require, verify-ca or verify-full")]
    SslMode(String),
    /// A schema that would need quoting.
    #[error("{0:?} cannot be the name of a schema; write 1 to 63 of a-z, 0-9 and _")]
    Schema(String),
}

impl PostgresUrl {
    /// Whether the URL has no password.
    pub fn needs_password(&self) -> bool {
        self.config.get_password().is_none()
    }

    /// Sets a password from elsewhere.
    #[must_use]
    pub fn with_password(mut self, password: &str) -> Self {
        self.config.password(password);
        self
    }

    /// The same database with another schema, for tests.
    #[must_use]
    pub fn with_schema(mut self, schema: &str) -> Self {
        assert!(is_schema(schema), "the name of a schema is plain");
        schema.clone_into(&mut self.schema);
        self
    }

    /// The same with another time limit of a response, for tests.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    fn fill_in(&mut self) {
        let config = &mut self.config;
        config.application_name("relight");
        config
            .keepalives_idle(SILENCE_MAX)
            .keepalives_interval(SILENCE_MAX)
            .keepalives_retries(1);
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(2 * SILENCE_MAX);
        }
        if config.get_hosts().len() > 1 {
            // After a failover, use the server that is writable.
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
    }
}

impl FromStr for PostgresUrl {
    type Err = PostgresUrlError;

    fn from_str(text: &str) -> Result<Self, PostgresUrlError> {
        check_userinfo(text)?;
        let (base, query) = text.split_once('?').unwrap_or((text, ""));
        let mut schema = SCHEMA_DEFAULT.to_owned();
        let (mut mode, mut roots) = (None, None);
        let mut rest = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("schema", name)) => name.clone_into(&mut schema),
                Some(("sslmode", word)) => mode = Some(word.to_owned()),
                Some(("sslrootcert", file)) => roots = Some(unescaped(file)),
                _ => rest.push(pair),
            }
        }
        if !is_schema(&schema) {
            return Err(PostgresUrlError::Schema(schema));
        }
        let plain = if rest.is_empty() {
            base.to_owned()
        } else {
            format!("{base}?{}", rest.join("&"))
        };
        let mut config = Config::from_str(&plain)
            .map_err(|error| PostgresUrlError::Malformed(with_causes(&error)))?;
        check_hosts(&config)?;
        let trust = set_mode(&mut config, mode.as_deref(), roots.is_some())?;
        let says_mode = mode.is_some();
        let mut url = Self {
            config,
            schema,
            trust,
            says_mode,
            roots,
            patience: PATIENCE,
        };
        url.fill_in();
        Ok(url)
    }
}

/// A password with an unescaped character would be parsed as a host or an option, and those are shown
/// in errors.
fn check_userinfo(text: &str) -> Result<(), PostgresUrlError> {
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    let is_split = rest
        .rsplit_once('@')
        .is_some_and(|(user, _)| user.contains(['@', '/', '?', '#']));
    let why = if text.split_once("://").is_none() {
        "write postgres://USER@HOST/DATABASE"
    } else if is_split {
        "an unescaped @, /, ? or # stands in its user or password; write %40, %2F, %3F or %23"
    } else {
        return Ok(());
    };
    Err(PostgresUrlError::Malformed(why.to_owned()))
}

fn check_hosts(config: &Config) -> Result<(), PostgresUrlError> {
    let hosts = config.get_hosts().len();
    let (addresses, ports) = (config.get_hostaddrs().len(), config.get_ports().len());
    let why = if hosts == 0 {
        "it names no host".to_owned()
    } else if addresses != 0 && addresses != hosts {
        format!("it names {hosts} hosts and {addresses} addresses of hosts")
    } else if ports > 1 && ports != hosts {
        "a port stands behind its host, HOST:PORT".to_owned()
    } else {
        return Ok(());
    };
    Err(PostgresUrlError::Malformed(why))
}

/// The modes of libpq; if roots are given, they are always used.
fn set_mode(
    config: &mut Config,
    mode: Option<&str>,
    has_roots: bool,
) -> Result<CertificateTrust, PostgresUrlError> {
    let (mode, trust) = match mode {
        Some("disable") => (SslMode::Disable, CertificateTrust::Anybody),
        None | Some("prefer" | "allow") => (SslMode::Prefer, CertificateTrust::Anybody),
        Some("require") => (SslMode::Require, CertificateTrust::Anybody),
        Some("verify-ca" | "verify-full") => (SslMode::Require, CertificateTrust::Verified),
        Some(other) => return Err(PostgresUrlError::SslMode(other.to_owned())),
    };
    config.ssl_mode(mode);
    Ok(if has_roots {
        CertificateTrust::Verified
    } else {
        trust
    })
}

fn is_schema(name: &str) -> bool {
    let plain =
        |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
    (1..=63).contains(&name.len()) && name.chars().all(plain) && !name.starts_with("pg_")
}

fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let code = (byte == b'%').then(|| after.get(..2)).flatten();
        let code = code.and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(decoded) => {
                bytes.push(decoded);
                rest = &after[2..];
            }
            None => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

impl fmt::Display for PostgresUrl {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("postgres://")?;
        if let Some(user) = self.config.get_user() {
            write!(f, "{user}@")?;
        }
        let ports = self.config.get_ports();
        for (at, host) in self.config.get_hosts().iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            let port = ports.get(at).or(ports.first()).copied().unwrap_or(5432);
            match host {
                Host::Tcp(name) => write!(f, "{comma}{name}:{port}")?,
                Host::Unix(folder) => write!(f, "{comma}{}:{port}", folder.display())?,
            }
        }
        write!(f, "/{}", self.config.get_dbname().unwrap_or_default())?;
        if self.schema != SCHEMA_DEFAULT {
            write!(f, "?schema={}", self.schema)?;
        }
        Ok(())
    }
}

impl fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgresUrl({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> PostgresUrl {
        text.parse().unwrap()
    }

    #[test]
    fn a_password_is_shown_nowhere() {
        let url = read("postgres://ann:s3cret@db.example:5433/work?sslmode=require&schema=mine");
        insta::assert_snapshot!(url, @"postgres://ann@db.example:5433/work?schema=mine");
        assert!(!format!("{url:?} {url}").contains("s3cret"));
        let broken = "postgres://ann:s3cret@db:notaport/work"
            .parse::<PostgresUrl>()
            .unwrap_err();
        assert!(
            !format!("{broken:?} {broken}").contains("s3cret"),
            "{broken}"
        );
    }

    #[test]
    fn no_part_of_an_unescaped_password_is_shown() {
        for text in [
            "postgres://ann:p@s3cret@db/work",
            "postgres://ann:p?s3cret@db/work",
            "postgres://ann:p?s3cret=1&x@db/work",
            "postgres://ann:p/s3cret@db/work",
            "postgres://ann:p#s3cret@db/work",
            "postgres:host=db password=s3cret",
            "postgres:password=s3cret",
        ] {
            match text.parse::<PostgresUrl>() {
                Ok(url) => panic!("{url}"),
                Err(error) => assert!(!format!("{error:?} {error}").contains("s3cret"), "{error}"),
            }
        }
        for text in [
            "postgres://db/work?user=ann&password=s3cret",
            "postgres://a:p%40s3cret@db/w",
        ] {
            let url = read(text);
            assert!(!format!("{url:?} {url}").contains("s3cret"), "{url}");
        }
    }

    #[test]
    fn modes_mean_what_they_mean_elsewhere() {
        let mode = |text: &str| {
            let url = read(text);
            (url.config.get_ssl_mode(), url.trust)
        };
        assert_eq!(
            mode("postgres://h/d"),
            (SslMode::Prefer, CertificateTrust::Anybody)
        );
        assert_eq!(
            mode("postgres://h/d?sslmode=require"),
            (SslMode::Require, CertificateTrust::Anybody)
        );
        assert_eq!(
            mode("postgres://h/d?sslmode=verify-full"),
            (SslMode::Require, CertificateTrust::Verified)
        );
        let url = read("postgres://h/d?sslmode=require&sslrootcert=/etc/my%20ca.pem");
        assert_eq!(
            (url.trust, url.roots.as_deref()),
            (CertificateTrust::Verified, Some("/etc/my ca.pem"))
        );
        let unknown = "postgres://h/d?sslmode=maybe".parse::<PostgresUrl>();
        assert_eq!(
            unknown.unwrap_err(),
            PostgresUrlError::SslMode("maybe".to_owned())
        );
    }

    #[test]
    fn hosts_have_an_address_and_a_port_each_or_none_has() {
        let broken = |text: &str| text.parse::<PostgresUrl>().unwrap_err().to_string();
        insta::assert_snapshot!(broken("postgres://a,b/d?hostaddr=10.0.0.1"), @"the address of the PostgreSQL store cannot be read: it names 2 hosts and 1 addresses of hosts");
        insta::assert_snapshot!(broken("postgres://a,b/d?port=5433"), @"the address of the PostgreSQL store cannot be read: a port stands behind its host, HOST:PORT");
        read("postgres://a:5433,b/d?hostaddr=10.0.0.1,10.0.0.2");
        read("postgres:///d?host=/run/postgresql&port=5433");
    }

    #[test]
    fn a_schema_is_a_plain_name() {
        assert_eq!(read("postgres://h/d").schema, "relight");
        assert_eq!(read("postgres://h/d?schema=team_2").schema, "team_2");
        for bad in ["", "Team", "a\"b", "a;b", "pg_x", &"x".repeat(64)] {
            assert!(
                format!("postgres://h/d?schema={bad}")
                    .parse::<PostgresUrl>()
                    .is_err(),
                "{bad}"
            );
        }
    }
}
