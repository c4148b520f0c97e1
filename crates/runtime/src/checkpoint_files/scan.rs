//! Reads the whole folder; a bad entry never stops the rest.

use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt as _;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::thread;

use relight_core::checkpoint::Checkpoint;
use rustix::io::Errno;

use super::CheckpointFolder;
use super::directory::Directory;
use super::file_name::is_checkpoint_name;
use super::read::{FileDamage, Unread, read_entry};

/// How many files a thread takes at a time: few enough that a slow thread does not delay the scan.
const BLOCK_NAMES: usize = 256;

/// One file of the folder.
#[derive(Debug, Clone, PartialEq)]
pub enum ScannedFile {
    /// A verified checkpoint.
    Good {
        /// Its file.
        path: PathBuf,
        /// What it says.
        checkpoint: Box<Checkpoint>,
    },
    /// A file that should be a checkpoint and is not.
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: FileDamage,
    },
}

impl CheckpointFolder {
    /// All checkpoint files in the order of their names, each fully verified.
    ///
    /// Skips temporary, hidden and quarantined files and those not ending in `.json`. A missing folder
    /// counts as empty. Only problems beyond a single file are errors: an unreadable folder, no free
    /// descriptors, no memory.
    pub fn scan(&self) -> io::Result<Vec<ScannedFile>> {
        let threads = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        self.scan_with(threads, Some)
    }

    /// Like [`scan`](Self::scan) on that many threads, keeping only what `pick` makes of each file.
    pub fn scan_with<T: Send>(
        &self,
        threads: NonZeroUsize,
        pick: impl Fn(ScannedFile) -> Option<T> + Sync,
    ) -> io::Result<Vec<T>> {
        let Some(directory) = Directory::open(self.path())? else {
            return Ok(Vec::new());
        };
        let names = directory.names(is_checkpoint_name)?;
        let blocks = Mutex::new(names.chunks(BLOCK_NAMES).enumerate());
        let scan_blocks = || {
            let mut scanned = Vec::new();
            let next = || blocks.lock().unwrap_or_else(PoisonError::into_inner).next();
            while let Some((index, names)) = next() {
                scanned.push((index, self.scan_names(&directory, names, &pick)?));
            }
            Ok(scanned)
        };
        let threads = threads.get().min(names.len().div_ceil(BLOCK_NAMES));
        let mut scanned = on_threads(threads, scan_blocks)?;
        scanned.sort_unstable_by_key(|(index, _)| *index);
        Ok(scanned.into_iter().flat_map(|(_, picked)| picked).collect())
    }

    fn scan_names<T>(
        &self,
        directory: &Directory,
        names: &[CString],
        pick: impl Fn(ScannedFile) -> Option<T>,
    ) -> io::Result<Vec<T>> {
        let mut buffer = Vec::new();
        let mut picked = Vec::new();
        for name in names {
            if let Some(found) = self.look_at(directory, name, &mut buffer)? {
                picked.extend(pick(found));
            }
        }
        Ok(picked)
    }

    fn look_at(
        &self,
        directory: &Directory,
        name: &CStr,
        buffer: &mut Vec<u8>,
    ) -> io::Result<Option<ScannedFile>> {
        let path = || self.path().join(OsStr::from_bytes(name.to_bytes()));
        match read_entry(directory, name, buffer) {
            Ok(checkpoint) => Ok(Some(ScannedFile::Good {
                path: path(),
                checkpoint: Box::new(checkpoint),
            })),
            Err(Unread::Damaged(reason)) => Ok(Some(ScannedFile::Damaged {
                path: path(),
                reason,
            })),
            // Finished and removed since the folder was listed.
            Err(Unread::Absent) => Ok(None),
            // These say nothing about the file: calling it damaged would quarantine good files.
            Err(Unread::Refused(errno @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM))) => {
                Err(errno.into())
            }
            Err(Unread::Refused(errno)) => {
                let reason = FileDamage::Unreadable(errno);
                Ok(Some(ScannedFile::Damaged {
                    path: path(),
                    reason,
                }))
            }
        }
    }
}

/// Runs the same work on that many threads and puts together what they made.
fn on_threads<T: Send>(
    threads: usize,
    work: impl Fn() -> io::Result<Vec<T>> + Sync,
) -> io::Result<Vec<T>> {
    thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(&work)).collect();
        let mut made = Vec::new();
        for handle in handles {
            made.extend(handle.join().unwrap_or_else(|panic| resume_unwind(panic))?);
        }
        Ok(made)
    })
}
