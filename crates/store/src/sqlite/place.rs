//! Notices that the store's files were removed or replaced while they are open: what is written then goes
//! to files without a name, and is lost when they are closed.
//!
//! By the path only: a handle on the file of our own would drop the process's locks when it is closed.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::open::{io_error, with_suffix};
use crate::contract::StoreError;

/// Device and inode.
type FileId = (u64, u64);

/// Where a store is, and which files were opened there.
#[derive(Debug)]
pub(super) struct StoreFiles {
    path: PathBuf,
    file: FileId,
    /// The log and its index. SQLite removes them when the last connection is closed, and makes them anew.
    side_files: Mutex<[FileId; 2]>,
}

impl StoreFiles {
    /// To be called after a connection has read: then all three files are open.
    pub(super) fn of_open(path: &Path) -> Result<Self, StoreError> {
        let file = file_id(path, path)?;
        Ok(Self { path: path.to_owned(), file, side_files: Mutex::new(side_files(path)?) })
    }

    /// The writer has a new connection to the same file, which may have made the log anew.
    pub(super) fn reopened(&self) -> Result<(), StoreError> {
        self.check()?;
        *self.lock() = side_files(&self.path)?;
        Ok(())
    }

    /// Refuses when the path is no longer the file that was opened.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        match file_id(&self.path, &self.path)? == self.file {
            true => Ok(()),
            false => Err(replaced(&self.path)),
        }
    }

    /// The same, and for the log and its index: to be called before a commit is acknowledged.
    pub(super) fn check_all(&self) -> Result<(), StoreError> {
        self.check()?;
        match side_files(&self.path)? == *self.lock() {
            true => Ok(()),
            false => Err(replaced(&self.path)),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, [FileId; 2]> {
        self.side_files.lock().expect("nothing panics while it is locked")
    }
}

fn side_files(path: &Path) -> Result<[FileId; 2], StoreError> {
    Ok([file_id(path, &with_suffix(path, "-wal"))?, file_id(path, &with_suffix(path, "-shm"))?])
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
    StoreError::Replaced { place: path.display().to_string() }
}
