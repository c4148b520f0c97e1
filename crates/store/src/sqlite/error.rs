//! What SQLite's errors mean for whoever uses the store.

use std::path::Path;
use std::sync::Arc;

use rusqlite::ErrorCode;
use rustix::fs::{Access, access};

use crate::contract::StoreError;
use crate::record::BadValue;

/// Names the store in an error of SQLite.
pub(super) fn store_error(path: &Path, error: rusqlite::Error) -> StoreError {
    let place = path.display().to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Busy { place },
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreError::Damaged {
            place,
            what: error.to_string(),
        },
        Some(ErrorCode::ConstraintViolation | ErrorCode::TooBig) => StoreError::Unsuitable {
            place,
            why: format!("a value cannot be kept: {error}"),
        },
        // SQLite says only that it cannot; the system knows why.
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly) if !may_write(path) => {
            let denied = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
            StoreError::Io {
                place,
                source: Arc::new(denied),
            }
        }
        Some(_) => StoreError::Io {
            place,
            source: Arc::new(error),
        },
        // Not SQLite but our reading of a row: the row is not what we wrote.
        None => StoreError::Damaged {
            place,
            what: error.to_string(),
        },
    }
}

/// Whether this user may write the file and make others beside it.
fn may_write(path: &Path) -> bool {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let is_given = |path: &Path| {
        access(path, Access::READ_OK | Access::WRITE_OK) != Err(rustix::io::Errno::ACCESS)
    };
    is_given(path) && is_given(folder)
}

/// Turns a bad value into the error that rusqlite's row functions return.
pub(super) fn bad_row(error: BadValue) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Null, Box::new(error))
}
