//! Detects that the store's files were removed or replaced while open: later writes would go to
//! unlinked files and be lost when they are closed.
//!
//! Checks by path only: closing a file handle of our own would drop the process's SQLite locks.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::open::{io_error, with_suffix};
use crate::contract::StoreError;

/// Device and inode.
type FileId = (u64, u64);

/// The path of a store and the identity of its open files.
#[derive(Debug)]
pub(super) struct StoreFiles {
    path: PathBuf,
    file: FileId,
    /// The log and its index. SQLite removes them with the last connection and creates them again.
    side_files: Mutex<[FileId; 2]>,
}

impl StoreFiles {
    /// Call after a connection has read: then all three files are open.
    pub(super) fn of_open(path: &Path) -> Result<Self, StoreError> {
        let file = file_id(path, path)?;
        Ok(Self {
            path: path.to_owned(),
            file,
            side_files: Mutex::new(side_files(path)?),
        })
    }

    /// The writer reconnected, which may have created the log again.
    pub(super) fn reopened(&self) -> Result<(), StoreError> {
        self.check()?;
        *self.lock() = side_files(&self.path)?;
        Ok(())
    }

    /// Fails if the path is no longer the file that was opened.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        match file_id(&self.path, &self.path)? == self.file {
            true => Ok(()),
            false => Err(replaced(&self.path)),
        }
    }

    /// Like `check`, including the log and its index. Call it before a commit is acknowledged.
    pub(super) fn check_all(&self) -> Result<(), StoreError> {
        self.check()?;
        match side_files(&self.path)? == *self.lock() {
            true => Ok(()),
            false => Err(replaced(&self.path)),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, [FileId; 2]> {
        self.side_files
            .lock()
            .expect("nothing panics while it is locked")
    }
}

fn side_files(path: &Path) -> Result<[FileId; 2], StoreError> {
    Ok([
        file_id(path, &with_suffix(path, "-wal"))?,
        file_id(path, &with_suffix(path, "-shm"))?,
    ])
}

fn file_id(store: &Path, file: &Path) -> Result<FileId, StoreError> {
    match fs::metadata(file) {
        Ok(found) => Ok((found.dev(), found.ino())),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Err(replaced(store))
        }
        Err(error) => Err(io_error(store, error)),
    }
}

fn replaced(path: &Path) -> StoreError {
    StoreError::Replaced {
        place: path.display().to_string(),
    }
}
