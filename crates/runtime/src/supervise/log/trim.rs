//! Frees the oldest output, so that a log stays within its limits however long its agent lives.
//!
//! Files are removed whole when nobody writes them any more. A file that is alone larger than its share
//! loses its head: the blocks are given back by a hole, the size and every offset stay, and the agent
//! that appends at the end notices nothing. Each step is one call of the kernel, so being killed between
//! any two leaves a log that the next call goes on with.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::FallocateFlags;

use super::{AgentLog, LogLimits, data_from};

/// What [`AgentLog::trim`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Trimmed {
    /// Files that were removed.
    pub files_removed: u32,
    /// Bytes given back from heads of files.
    pub head_bytes_freed: u64,
    /// What became of heads that were too long.
    pub head: HeadOutcome,
}

/// What became of the head of a file that is larger than its share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HeadOutcome {
    /// No file was.
    #[default]
    Fits,
    /// Given back.
    Freed,
    /// This file system has no holes: the newest file grows until an attempt begins the next one.
    CannotBeFreed,
}

impl AgentLog {
    /// Brings the log within its limits: what is newer is kept, all files together at most
    /// `files_max * file_bytes_max` bytes, rounded up to a block. Of a file that loses its head a tenth
    /// more than needed is freed, so that a fast writer is not trimmed at every call.
    ///
    /// Costs one listing and two short calls a file when there is nothing to do; worth calling when an
    /// attempt begins and for each `file_bytes_max` that the log grew. Safe at any time.
    pub fn trim(&self, limits: &LogLimits) -> io::Result<Trimmed> {
        let mut trimmed = Trimmed::default();
        let mut share = limits.total_bytes_max();
        for (age, &number) in self.numbers()?.iter().rev().enumerate() {
            let Some(file) = self.open(number)? else {
                continue;
            };
            let kept = kept_bytes(&file)?;
            let is_current = age == 0;
            let is_one_too_many = age >= limits.files_max as usize;
            let is_long = kept > limits.file_bytes_max && share > 0;
            if kept <= share && !is_one_too_many {
                share -= kept;
                continue;
            }
            let may_lose_its_head = is_current || (is_long && !is_one_too_many);
            let has_room = may_lose_its_head && self.free_head(number, share, &mut trimmed)?;
            if !has_room && !is_current {
                remove(&self.path(number))?;
                remove(&self.times_path(number))?;
                trimmed.files_removed += 1;
            }
            // Nothing older has a place.
            share = 0;
        }
        Ok(trimmed)
    }

    /// Gives back the head of a file, so that less than `share` bytes of it stay; says whether it could.
    fn free_head(&self, number: u64, share: u64, trimmed: &mut Trimmed) -> io::Result<bool> {
        let file = OpenOptions::new().write(true).open(self.path(number))?;
        let from = data_from(&file, 0)?;
        let kept = share - share / 10;
        let wanted = file.metadata()?.len().saturating_sub(kept);
        let until = wanted - wanted % file.metadata()?.blksize().max(1);
        if until <= from {
            return Ok(true);
        }
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(&file, hole, from, until - from) {
            Ok(()) => {
                trimmed.head_bytes_freed += until - from;
                trimmed.head = HeadOutcome::Freed;
                Ok(true)
            }
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {
                trimmed.head = HeadOutcome::CannotBeFreed;
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Removes a file; one that somebody else removed meanwhile is as good.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// What is left of a file: all after its freed head. By offsets and not by blocks, which some file
/// systems allocate far ahead of a writer.
fn kept_bytes(file: &File) -> io::Result<u64> {
    let size = file.metadata()?.len();
    Ok(size.saturating_sub(data_from(file, 0)?))
}
