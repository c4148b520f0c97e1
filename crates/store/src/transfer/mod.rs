//! Whole stores: read in one look that nothing moves, checked, hashed, and copied into another.
//!
//! A second, narrow contract beside `Store`. A backend gives its rows table by table in one form that
//! all backends share (`Exporter`), and takes them (`Importer`); what is done with them is written once:
//! `verify` reads everything, `copy` moves it and reads it back.
//!
//! A copy under way is marked as such in the store that it goes into, so that nobody takes the half for
//! the whole: every other use of that store is refused until the copy is complete.

mod copy;
mod row_check;
mod sum;
mod verify;

use async_trait::async_trait;

pub use self::copy::{Copied, CopyProgress, copy};
pub use self::row_check::Findings;
pub use self::sum::{TableSum, whole};
pub use self::verify::{Verified, verify};
pub use crate::record::{Cell, Row, Table};

use crate::contract::StoreError;

/// The record of a copy under way, among the small records of the store that it goes into. Never copied.
pub(crate) const MARK: &str = "store copy";

/// Reads a whole store as it was at one moment, whatever is written meanwhile.
#[async_trait]
pub trait Exporter: Send {
    /// Which store.
    fn place(&self) -> String;

    /// How many rows a table has.
    async fn count(&mut self, table: Table) -> Result<u64, StoreError>;

    /// The next rows in the order of their keys, after this one; none at the end. As many as fit into
    /// memory well.
    async fn page(&mut self, table: Table, after: &Cell) -> Result<Vec<Row>, StoreError>;

    /// What is wrong that no single row tells: pages, indexes, rows that belong to nothing.
    async fn integrity(&mut self) -> Result<Vec<String>, StoreError>;

    /// Says that the look is still wanted: a server ends one that nobody uses for long.
    async fn touch(&mut self) -> Result<(), StoreError>;

    /// Ends the look, and says how many events were written since it began.
    async fn written_since(&mut self) -> Result<u64, StoreError>;
}

/// Fills an empty store, in pieces that each are there or not.
#[async_trait]
pub trait Importer: Send {
    /// Which store.
    fn place(&self) -> String;

    /// Marks the store as half copied, or goes on with what was begun; says which rows are there by
    /// `newest_key`. True when it goes on.
    async fn begin(&mut self, from: &str) -> Result<bool, CopyError>;

    /// The last key of a table that is written.
    async fn newest_key(&mut self, table: Table) -> Result<Cell, CopyError>;

    /// Appends rows, all or none; `Unkept` when one of them is at fault.
    async fn write(&mut self, table: Table, rows: Vec<Row>) -> Result<(), CopyError>;

    /// Empties a table that turned out to be another than the one it is copied from.
    async fn clear(&mut self, table: Table) -> Result<(), CopyError>;

    /// Looks at what is written by now.
    async fn read_back(&mut self) -> Result<Box<dyn Exporter>, CopyError>;

    /// Takes the mark away: from now on it is a store like any other.
    async fn finish(&mut self) -> Result<(), CopyError>;
}

/// Why a store was not copied.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CopyError {
    /// One of the two stores.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Both are the same.
    #[error("{0} cannot be copied into itself")]
    Same(String),
    /// There is something in it.
    #[error("the store {place} is not empty: it has {what}")]
    NotEmpty {
        /// Which store.
        place: String,
        /// What was found first.
        what: String,
    },
    /// Somebody began to copy another store into it.
    #[error("the store {place} is half copied from {from}")]
    OtherSource {
        /// Which store.
        place: String,
        /// From where.
        from: String,
    },
    /// The same command was begun once more.
    #[error("another copy into the store {0} has taken over")]
    TakenOver(String),
    /// A row holds what the store it goes into has no place for.
    #[error("a row cannot be kept: {why}")]
    Unkept {
        /// Why.
        why: String,
    },
    /// What was read back is not what was written.
    #[error("{table} in the store {place} differs from what was copied")]
    Differs {
        /// Which store.
        place: String,
        /// Which table.
        table: Table,
    },
}

impl CopyError {
    /// Of a write: a value that cannot be kept is the row's fault, not the store's.
    pub(crate) fn of_a_row(self) -> Self {
        match self {
            Self::Store(StoreError::Unsuitable { why, .. }) => Self::Unkept { why },
            other => other,
        }
    }
}

/// What a copy under way says of itself, in `MARK`.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct CopyMark {
    /// Which store is copied.
    pub(crate) from: String,
    /// How often the copy was begun or gone on with: only the last of them may write.
    pub(crate) run: u64,
}

impl CopyMark {
    /// The mark of whoever begins or goes on now; `before` is what was found.
    pub(crate) fn next(before: Option<Self>, place: &str, from: &str) -> Result<Self, CopyError> {
        match before {
            None => Ok(Self { from: from.to_owned(), run: 1 }),
            Some(mark) if mark.from == from => Ok(Self { run: mark.run + 1, ..mark }),
            Some(mark) => Err(CopyError::OtherSource { place: place.to_owned(), from: mark.from }),
        }
    }
}
