//! Opens a store by its URL.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use relight_store::sqlite::{SqliteStore, Use};
use relight_store::{MemoryStore, Store, StoreError};

use crate::doors::fleet;

/// Which store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreUrl {
    /// `sqlite:PATH`.
    Sqlite(PathBuf),
    /// `memory:`, gone with the process.
    Memory,
}

/// Why a text names no store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreUrlError {
    /// Not one of ours.
    #[error("{0:?} is not a store; write sqlite:PATH or memory:")]
    Unknown(String),
    /// Ours, but not in this version.
    #[error("PostgreSQL stores are not in this version; write sqlite:PATH")]
    Postgres,
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
            return Err(StoreUrlError::Postgres);
        }
        let path =
            text.strip_prefix("sqlite:").ok_or_else(|| StoreUrlError::Unknown(text.to_owned()))?;
        let path = path.strip_prefix("//").unwrap_or(path);
        if path.is_empty() {
            return Err(StoreUrlError::NoPath(text.to_owned()));
        }
        Ok(Self::Sqlite(folder.join(path)))
    }

    /// Opens it, creating it when there is none.
    pub fn open(&self, usage: Use) -> Result<Arc<dyn Store>, StoreError> {
        if !matches!(self, Self::Sqlite(_) | Self::Memory) {
            fleet::share_store();
        }
        Ok(match self {
            Self::Sqlite(path) => Arc::new(SqliteStore::open(path, usage)?),
            Self::Memory => Arc::new(MemoryStore::new()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_a_store_or_say_what_to_write() {
        let parse = |text| StoreUrl::parse(text, Path::new("/here"));
        assert_eq!(parse("sqlite:a.db"), Ok(StoreUrl::Sqlite("/here/a.db".into())));
        assert_eq!(parse("sqlite:/x/a.db"), Ok(StoreUrl::Sqlite("/x/a.db".into())));
        assert_eq!(parse("sqlite:///x/a.db"), Ok(StoreUrl::Sqlite("/x/a.db".into())));
        assert_eq!(parse("memory:"), Ok(StoreUrl::Memory));
        assert_eq!(parse("postgres://h/d"), Err(StoreUrlError::Postgres));
        assert!(matches!(parse("redis://h"), Err(StoreUrlError::Unknown(_))));
        assert!(matches!(parse("sqlite:"), Err(StoreUrlError::NoPath(_))));
    }
}
