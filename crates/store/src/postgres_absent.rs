//! In place of `postgres` in a build without that feature. No URL can be read, so nothing else is called.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use crate::StoreError;
use crate::memory::MemoryStore;
use crate::sqlite::{SqliteExporter, SqliteImporter};

pub use self::{NoPostgres as PostgresUrlError, NoPostgresUrl as PostgresUrl};

/// There is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoPostgresUrl(Infallible);

/// Every URL of PostgreSQL is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this build of Relight has no PostgreSQL; build it with the feature `postgres`")]
pub struct NoPostgres;

impl FromStr for NoPostgresUrl {
    type Err = NoPostgres;

    fn from_str(_: &str) -> Result<Self, NoPostgres> {
        Err(NoPostgres)
    }
}

impl fmt::Display for NoPostgresUrl {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {}
    }
}

impl NoPostgresUrl {
    /// Never called.
    pub fn needs_password(&self) -> bool {
        match self.0 {}
    }

    /// Never called.
    #[must_use]
    pub fn with_password(self, _: &str) -> Self {
        self
    }
}

macro_rules! never_opened {
    ($($name:ident as $other:ty),*) => {$(
        /// Never opened.
        #[derive(Debug)]
        pub enum $name {}

        impl $name {
            /// Never called.
            pub fn open(url: &NoPostgresUrl) -> Result<$other, StoreError> {
                match url.0 {}
            }
        }
    )*};
}

never_opened!(
    PostgresStore as MemoryStore,
    PostgresExporter as SqliteExporter,
    PostgresImporter as SqliteImporter
);

/// Never called.
pub fn raise_numbers(url: &NoPostgresUrl, _: u64, _: &Value) -> Result<(), StoreError> {
    match url.0 {}
}
