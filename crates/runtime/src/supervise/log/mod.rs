//! The output of one agent on disk: `000001.log`, `000002.log`, … in its folder of logs.
//!
//! An agent holds its log open for append and writes by itself, so nothing here ever renames, truncates
//! or copies a file: a new attempt begins the next number when the newest is full, and [`AgentLog::trim`]
//! frees what is too old, at the head. Leaves to others: opening the file for the agent, and when to trim.

mod follow;
mod growth;
mod inotify;
mod lines;
mod reader;
mod tail;
mod trim;

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::folder::AgentFolder;

pub use follow::Follow;
pub use growth::Growth;
pub use lines::{LINE_BYTES_MAX, LogLine, LogLines};
pub use reader::LogReader;
pub use trim::{HeadOutcome, Trimmed};

/// How much output is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogLimits {
    /// An attempt begins the next file when the newest has so many bytes.
    pub file_bytes_max: u64,
    /// So many files are kept, and as many times `file_bytes_max` bytes in all.
    pub files_max: u32,
}

impl Default for LogLimits {
    fn default() -> Self {
        Self { file_bytes_max: 10_000_000, files_max: 10 }
    }
}

impl LogLimits {
    /// What is kept at most, in all files together.
    pub fn total_bytes_max(&self) -> u64 {
        self.file_bytes_max.saturating_mul(u64::from(self.files_max))
    }
}

/// A place in the output: a file's number and the offset in it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct LogPosition {
    /// The file's number.
    pub number: u64,
    /// Bytes from its beginning; what was freed counts on.
    pub offset: u64,
}

impl LogPosition {
    /// Before all that is kept.
    pub const START: Self = Self { number: 0, offset: 0 };
}

impl From<(u64, u64)> for LogPosition {
    /// As the store keeps it with an attempt.
    fn from((number, offset): (u64, u64)) -> Self {
        Self { number, offset }
    }
}

/// Where the output of an attempt goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogStart {
    /// The file's number.
    pub number: u64,
    /// The file.
    pub path: PathBuf,
    /// Where the attempt's output begins in it.
    pub offset: u64,
}

impl LogStart {
    /// The place where the attempt's output begins.
    pub fn position(&self) -> LogPosition {
        LogPosition { number: self.number, offset: self.offset }
    }
}

/// The output of one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentLog {
    folder: PathBuf,
}

impl AgentLog {
    /// Of the agent with this folder.
    pub fn of(agent: &AgentFolder) -> Self {
        Self { folder: agent.logs() }
    }

    /// The file for the output of the next attempt, made when it is not there: the newest, or the next
    /// number when that one is full. Called while nothing of the agent lives.
    pub fn for_attempt(&self, limits: &LogLimits) -> io::Result<LogStart> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let newest = self.numbers()?.last().copied().unwrap_or(1);
        let offset = self.open_or_make(newest)?.metadata()?.len();
        if offset < limits.file_bytes_max {
            return Ok(LogStart { number: newest, path: self.path(newest), offset });
        }
        let offset = self.open_or_make(newest + 1)?.metadata()?.len();
        Ok(LogStart { number: newest + 1, path: self.path(newest + 1), offset })
    }

    /// Where the output ends now. When this has changed, the agent gave a sign; the start when there is
    /// none yet.
    pub fn end(&self) -> io::Result<LogPosition> {
        let Some(&number) = self.numbers()?.last() else { return Ok(LogPosition::START) };
        let offset = fs::metadata(self.path(number))?.len();
        Ok(LogPosition { number, offset })
    }

    /// The file with this number.
    pub fn path(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{number:06}.log"))
    }

    /// The folder of the files.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The numbers of the files that are there, oldest first. What is not one of ours is left alone.
    fn numbers(&self) -> io::Result<Vec<u64>> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut numbers = Vec::new();
        for entry in entries {
            numbers.extend(entry?.file_name().to_str().and_then(number_of));
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Opens a file to read it; none when it was removed.
    fn open(&self, number: u64) -> io::Result<Option<File>> {
        match File::open(self.path(number)) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn open_or_make(&self, number: u64) -> io::Result<File> {
        OpenOptions::new().append(true).create(true).mode(0o600).open(self.path(number))
    }
}

/// The number in a file's name, when it is written as we write it.
fn number_of(name: &str) -> Option<u64> {
    let number: u64 = name.strip_suffix(".log")?.parse().ok()?;
    (number > 0 && format!("{number:06}.log") == name).then_some(number)
}

/// Where the first byte is that was not freed, at or after `offset`; the end when nothing is there.
fn data_from(file: &File, offset: u64) -> io::Result<u64> {
    match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(offset)) {
        Ok(data) => Ok(data),
        Err(rustix::io::Errno::NXIO) => Ok(file.metadata()?.len().max(offset)),
        // A file system that cannot tell has not freed anything either.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::OPNOTSUPP) => Ok(offset),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests;
