//! Why an operation did not happen inside SQLite's transaction.

use crate::contract::OperationRefusal;

/// A refusal that is the store's answer, or SQLite's own error.
#[derive(Debug)]
pub(super) enum ApplyError {
    Refused(OperationRefusal),
    Sqlite(rusqlite::Error),
}

impl From<rusqlite::Error> for ApplyError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl<R: Into<OperationRefusal>> From<R> for ApplyError {
    fn from(refusal: R) -> Self {
        Self::Refused(refusal.into())
    }
}

pub(super) type Applied<T> = Result<T, ApplyError>;
