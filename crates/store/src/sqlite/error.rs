//! What SQLite's errors mean for whoever uses the store.

use std::path::Path;
use std::sync::Arc;

use rusqlite::ErrorCode;

use crate::contract::StoreError;
use crate::record::BadValue;

/// Names the store in an error of SQLite.
pub(super) fn store_error(path: &Path, error: rusqlite::Error) -> StoreError {
    let place = path.display().to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Busy { place },
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            StoreError::Damaged { place, what: error.to_string() }
        }
        Some(ErrorCode::ConstraintViolation | ErrorCode::TooBig) => {
            StoreError::Unsuitable { place, why: format!("a value cannot be kept: {error}") }
        }
        Some(_) => StoreError::Io { place, source: Arc::new(error) },
        // Not SQLite but our reading of a row: the row is not what we wrote.
        None => StoreError::Damaged { place, what: error.to_string() },
    }
}

/// Turns a bad value into the error that rusqlite's row functions return.
pub(super) fn bad_row(error: BadValue) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Null, Box::new(error))
}
