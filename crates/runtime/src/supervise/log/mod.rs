//! The log of one agent: `000001.log`, `000002.log`, … in its log folder.
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
mod times;
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
pub use times::{LogTimes, TimeMarks};
pub use trim::{HeadOutcome, Trimmed};

/// Limits of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogLimits {
    /// A new attempt begins the next file at this size.
    pub file_bytes_max: u64,
    /// Maximum number of files; `file_bytes_max` times this is the total limit.
    pub files_max: u32,
}

impl Default for LogLimits {
    fn default() -> Self {
        Self {
            file_bytes_max: 10_000_000,
            files_max: 10,
        }
    }
}

impl LogLimits {
    /// Maximum size of all files together.
    pub fn total_bytes_max(&self) -> u64 {
        self.file_bytes_max
            .saturating_mul(u64::from(self.files_max))
    }
}

/// A position in the log: file number and offset.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct LogPosition {
    /// The file's number.
    pub number: u64,
    /// Bytes from its beginning, including freed ones.
    pub offset: u64,
}

impl LogPosition {
    /// The position before everything that is kept.
    pub const START: Self = Self {
        number: 0,
        offset: 0,
    };
}

impl From<(u64, u64)> for LogPosition {
    /// From the form stored with an attempt.
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
    /// The position where the attempt's output begins.
    pub fn position(&self) -> LogPosition {
        LogPosition {
            number: self.number,
            offset: self.offset,
        }
    }
}

/// The log of one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentLog {
    folder: PathBuf,
}

impl AgentLog {
    /// The log of the agent with this folder.
    pub fn of(agent: &AgentFolder) -> Self {
        Self {
            folder: agent.logs(),
        }
    }

    /// The file for the next attempt, created if needed: the newest, or the next number when that
    /// is full. Call it while nothing of the agent runs.
    pub fn for_attempt(&self, limits: &LogLimits) -> io::Result<LogStart> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.folder)?;
        let newest = self.numbers()?.last().copied().unwrap_or(1);
        let offset = self.open_or_make(newest)?.metadata()?.len();
        if offset < limits.file_bytes_max {
            return Ok(LogStart {
                number: newest,
                path: self.path(newest),
                offset,
            });
        }
        let offset = self.open_or_make(newest + 1)?.metadata()?.len();
        Ok(LogStart {
            number: newest + 1,
            path: self.path(newest + 1),
            offset,
        })
    }

    /// The current end of the log; the start when there is none. A change is a sign of life.
    pub fn end(&self) -> io::Result<LogPosition> {
        let Some(&number) = self.numbers()?.last() else {
            return Ok(LogPosition::START);
        };
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

    /// The numbers of existing files, oldest first. Other files are ignored.
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
        OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(self.path(number))
    }
}

/// The number in a file's name, when it is written as we write it.
fn number_of(name: &str) -> Option<u64> {
    let number: u64 = name.strip_suffix(".log")?.parse().ok()?;
    (number > 0 && format!("{number:06}.log") == name).then_some(number)
}

/// The first offset at or after `offset` that was not freed; the end when there is none.
fn data_from(file: &File, offset: u64) -> io::Result<u64> {
    match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(offset)) {
        Ok(data) => Ok(data),
        Err(rustix::io::Errno::NXIO) => Ok(file.metadata()?.len().max(offset)),
        // A file system without this feature cannot free blocks either.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::OPNOTSUPP) => Ok(offset),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests;
