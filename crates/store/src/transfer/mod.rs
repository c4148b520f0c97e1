//! Transfers of whole stores: reads a consistent snapshot, checks and hashes it, and copies it into
//! another store.
//!
//! A second, narrow contract besides `Store`. A backend exports its rows by table in a common form
//! (`Exporter`) and imports them (`Importer`). `verify` reads everything; `copy` copies and reads
//! it back.
//!
//! An unfinished copy is marked in the target store, and every other use of that store is refused
//! until the copy is complete.

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

/// Name of the record that marks an unfinished copy in the target store. Never copied.
pub(crate) const MARK: &str = "store copy";

/// Reads a consistent snapshot of a store.
#[async_trait]
pub trait Exporter: Send {
    /// The store.
    fn place(&self) -> String;

    /// How many rows a table has.
    async fn count(&mut self, table: Table) -> Result<u64, StoreError>;

    /// The next rows after this key, in key order; empty at the end. Bounded by memory.
    async fn page(&mut self, table: Table, after: &Cell) -> Result<Vec<Row>, StoreError>;

    /// Damage beyond single rows: pages, indexes, rows without an owner.
    async fn integrity(&mut self) -> Result<Vec<String>, StoreError>;

    /// Keeps the snapshot open; a server ends idle transactions.
    async fn touch(&mut self) -> Result<(), StoreError>;

    /// Ends the snapshot. Returns how many events were written since it began.
    async fn written_since(&mut self) -> Result<u64, StoreError>;
}

/// Fills an empty store in atomic parts.
#[async_trait]
pub trait Importer: Send {
    /// The store.
    fn place(&self) -> String;

    /// Marks the store as incomplete, or resumes a copy; `newest_key` tells which rows exist. True
    /// when it resumes.
    async fn begin(&mut self, from: &str) -> Result<bool, CopyError>;

    /// The last written key of a table.
    async fn newest_key(&mut self, table: Table) -> Result<Cell, CopyError>;

    /// Appends rows atomically; `Unkept` when a row is invalid for this store.
    async fn write(&mut self, table: Table, rows: Vec<Row>) -> Result<(), CopyError>;

    /// Clears a table that differs from its source.
    async fn clear(&mut self, table: Table) -> Result<(), CopyError>;

    /// Reads what was written.
    async fn read_back(&mut self) -> Result<Box<dyn Exporter>, CopyError>;

    /// Removes the mark; the store is complete.
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
    /// The target is not empty.
    #[error("the store {place} is not empty: it has {what}")]
    NotEmpty {
        /// The store.
        place: String,
        /// The first record found.
        what: String,
    },
    /// A copy of another store into it was begun.
    #[error("the store {place} is half copied from {from}")]
    OtherSource {
        /// The store.
        place: String,
        /// From where.
        from: String,
    },
    /// The same copy was started again.
    #[error("another copy into the store {0} has taken over")]
    TakenOver(String),
    /// A row contains a value that the target cannot store.
    #[error("a row cannot be kept: {why}")]
    Unkept {
        /// Why.
        why: String,
    },
    /// The copy differs from what was written.
    #[error("{table} in the store {place} differs from what was copied")]
    Differs {
        /// The store.
        place: String,
        /// Which table.
        table: Table,
    },
}

impl CopyError {
    /// Converts a write error caused by an invalid value into `Unkept`.
    pub(crate) fn of_a_row(self) -> Self {
        match self {
            Self::Store(StoreError::Unsuitable { why, .. }) => Self::Unkept { why },
            other => other,
        }
    }
}

/// Content of the `MARK` record.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct CopyMark {
    /// The source store.
    pub(crate) from: String,
    /// Number of the run; only the last one may write.
    pub(crate) run: u64,
}

impl CopyMark {
    /// The mark for a new or resumed run; `before` is the existing mark.
    pub(crate) fn next(before: Option<Self>, place: &str, from: &str) -> Result<Self, CopyError> {
        match before {
            None => Ok(Self {
                from: from.to_owned(),
                run: 1,
            }),
            Some(mark) if mark.from == from => Ok(Self {
                run: mark.run + 1,
                ..mark
            }),
            Some(mark) => Err(CopyError::OtherSource {
                place: place.to_owned(),
                from: mark.from,
            }),
        }
    }
}
