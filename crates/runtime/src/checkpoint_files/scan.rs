//! Reads the whole folder; a bad entry never stops the rest.

use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::thread;

use relight_core::checkpoint::Checkpoint;
use rustix::io::Errno;

use super::CheckpointFolder;
use super::directory::Directory;
use super::file_name::is_checkpoint_name;
use super::read::{FileDamage, Unread, read_entry};

/// One file of the folder.
#[derive(Debug, Clone, PartialEq)]
pub enum Found {
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
    /// Temporary, hidden and quarantined files and those not ending in `.json` are passed over. An
    /// absent folder is an empty one. Only what is no single file's fault is an error: an
    /// unreadable folder, no free descriptors, no memory.
    pub fn scan(&self) -> io::Result<Vec<Found>> {
        let threads = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        self.scan_with(threads, Some)
    }

    /// Like [`scan`](Self::scan) on that many threads, keeping only what `pick` makes of each file.
    pub fn scan_with<T: Send>(
        &self,
        threads: NonZeroUsize,
        pick: impl Fn(Found) -> Option<T> + Sync,
    ) -> io::Result<Vec<T>> {
        let Some(directory) = Directory::open(self.path())? else {
            return Ok(Vec::new());
        };
        let names = directory.names(is_checkpoint_name)?;
        let share = names.len().div_ceil(threads.get()).max(1);
        let scan_share = |names| self.scan_names(&directory, names, &pick);
        thread::scope(|scope| {
            let shares = names.chunks(share).map(|names| scope.spawn(move || scan_share(names)));
            let mut picked = Vec::with_capacity(names.len());
            for share in shares.collect::<Vec<_>>() {
                let share = share.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                picked.extend(share?);
            }
            Ok(picked)
        })
    }

    fn scan_names<T>(
        &self,
        directory: &Directory,
        names: &[CString],
        pick: impl Fn(Found) -> Option<T>,
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
    ) -> io::Result<Option<Found>> {
        let path = || self.path().join(OsStr::from_bytes(name.to_bytes()));
        match read_entry(directory, name, buffer) {
            Ok(checkpoint) => {
                Ok(Some(Found::Good { path: path(), checkpoint: Box::new(checkpoint) }))
            }
            Err(Unread::Damaged(reason)) => Ok(Some(Found::Damaged { path: path(), reason })),
            // Finished and removed since the folder was listed.
            Err(Unread::Absent) => Ok(None),
            Err(Unread::Refused(errno)) if is_our_own_lack(errno) => Err(errno.into()),
            Err(Unread::Refused(errno)) => {
                let reason = FileDamage::Unreadable(errno);
                Ok(Some(Found::Damaged { path: path(), reason }))
            }
        }
    }
}

/// Errors that say nothing about the file: calling it damaged would set good files aside.
fn is_our_own_lack(errno: Errno) -> bool {
    [Errno::MFILE, Errno::NFILE, Errno::NOMEM].contains(&errno)
}
