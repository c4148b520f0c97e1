//! Opens a store by its URL.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use relight_store::postgres::{
    self, PostgresExporter, PostgresImporter, PostgresStore, PostgresUrl, PostgresUrlError,
};
use relight_store::sqlite::{self, SqliteExporter, SqliteImporter, SqliteStore, Use};
use relight_store::transfer::{Exporter, Importer};
use relight_store::{MemoryStore, Store, StoreError};
use serde_json::Value;

use crate::os::environment;

/// Which store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreUrl {
    /// `sqlite:PATH`.
    Sqlite(PathBuf),
    /// `postgres://…`, shared by the nodes of a fleet.
    Postgres(Box<PostgresUrl>),
    /// `memory:`, gone with the process.
    Memory,
}

/// Why a text names no store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreUrlError {
    /// Not one of ours. Holds only the scheme: behind it there may be a password.
    #[error("{0:?} is not a store; write sqlite:PATH, postgres://USER@HOST/DATABASE or memory:")]
    Unknown(String),
    /// A PostgreSQL that cannot be read.
    #[error(transparent)]
    Postgres(#[from] PostgresUrlError),
    /// No path.
    #[error("{0:?} names no file; write sqlite:PATH")]
    NoPath(String),
}

impl StoreUrl {
    /// Reads a URL. A relative path is relative to `folder`.
    pub fn parse(text: &str, folder: &Path) -> Result<Self, StoreUrlError> {
        if text == "memory:" {
            return Ok(Self::Memory);
        }
        if text.starts_with("postgres:") || text.starts_with("postgresql:") {
            return Ok(Self::Postgres(Box::new(text.parse()?)));
        }
        let Some(path) = text.strip_prefix("sqlite:") else {
            let len = text.find(|c: char| !c.is_ascii_alphanumeric() && !"+-._/".contains(c));
            let scheme = &text[..len.unwrap_or(text.len())];
            return Err(StoreUrlError::Unknown(scheme.to_owned()));
        };
        let path = path.strip_prefix("//").unwrap_or(path);
        if path.is_empty() || path == ":memory:" {
            return Err(StoreUrlError::NoPath(text.to_owned()));
        }
        Ok(Self::Sqlite(folder.join(path)))
    }

    /// Opens it, creating it when there is none.
    pub fn open(&self, usage: Use) -> Result<Arc<dyn Store>, StoreError> {
        Ok(match self {
            Self::Sqlite(path) => Arc::new(SqliteStore::open(path, usage)?),
            Self::Postgres(url) => Arc::new(PostgresStore::open(&with_password(url))?),
            Self::Memory => Arc::new(MemoryStore::new()),
        })
    }

    /// Begins to read the whole of it, as it is at this moment. It must be there.
    pub fn exporter(&self) -> Result<Box<dyn Exporter>, StoreError> {
        Ok(match self {
            Self::Sqlite(path) => Box::new(SqliteExporter::open(path)?),
            Self::Postgres(url) => Box::new(PostgresExporter::open(&with_password(url))?),
            Self::Memory => return Err(nothing_is_kept()),
        })
    }

    /// Opens it to be filled from another, creating it when there is none.
    pub fn importer(&self) -> Result<Box<dyn Importer>, StoreError> {
        Ok(match self {
            Self::Sqlite(path) => Box::new(SqliteImporter::open(path)?),
            Self::Postgres(url) => Box::new(PostgresImporter::open(&with_password(url))?),
            Self::Memory => return Err(nothing_is_kept()),
        })
    }

    /// Raises every number that a writer may still show to at least this one, and tells of it in an
    /// event. For a store that was brought back from a backup, before anything uses it.
    pub fn raise_numbers(&self, least: u64, told: &Value) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(path) => sqlite::raise_numbers(path, least, told),
            Self::Postgres(url) => postgres::raise_numbers(&with_password(url), least, told),
            Self::Memory => Err(nothing_is_kept()),
        }
    }
}

fn nothing_is_kept() -> StoreError {
    let why = "it keeps nothing past the end of a process".to_owned();
    StoreError::Unsuitable {
        place: "memory:".to_owned(),
        why,
    }
}

/// The variable that opens a store whose URL has no password.
pub const PASSWORD: &str = "PGPASSWORD";

/// The variable that names a store, perhaps with its password.
const STORE: &str = "RELIGHT_STORE";

/// Keeps from a program what this process opened a shared store by: a `relight` there asks the daemon.
pub fn withhold(command: &mut Command) {
    command.env_remove(PASSWORD).env_remove(STORE);
}

/// A URL without one takes `PGPASSWORD`, as PostgreSQL's own programs do: so that none has to stand in
/// a configuration or on a command line.
fn with_password(url: &PostgresUrl) -> PostgresUrl {
    let variables = environment::variables();
    let mut texts = environment::texts(&variables);
    let password = texts
        .find(|(name, _)| *name == PASSWORD)
        .map(|(_, value)| value);
    match password.filter(|_| url.needs_password()) {
        Some(password) => url.clone().with_password(password),
        None => url.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_a_store_or_say_what_to_write() {
        let parse = |text| StoreUrl::parse(text, Path::new("/here"));
        assert_eq!(
            parse("sqlite:a.db"),
            Ok(StoreUrl::Sqlite("/here/a.db".into()))
        );
        assert_eq!(
            parse("sqlite:/x/a.db"),
            Ok(StoreUrl::Sqlite("/x/a.db".into()))
        );
        assert_eq!(
            parse("sqlite:///x/a.db"),
            Ok(StoreUrl::Sqlite("/x/a.db".into()))
        );
        assert_eq!(parse("memory:"), Ok(StoreUrl::Memory));
        if cfg!(feature = "postgres") {
            assert!(matches!(parse("postgres://h/d"), Ok(StoreUrl::Postgres(_))));
        }
        assert!(matches!(
            parse("postgresql://h/d?schema=x;"),
            Err(StoreUrlError::Postgres(_))
        ));
        for typo in [
            "postgre://ann:s3cret@h/d",
            "postgre:ann:s3cret@h",
            "host=h password=s3cret",
            "PGPASSWORD=s3cret postgres://h/d",
        ] {
            let error = parse(typo).unwrap_err();
            assert!(!format!("{error:?} {error}").contains("s3cret"), "{error}");
        }
        assert!(matches!(parse("redis://h"), Err(StoreUrlError::Unknown(_))));
        assert!(matches!(parse("sqlite:"), Err(StoreUrlError::NoPath(_))));
    }
}
