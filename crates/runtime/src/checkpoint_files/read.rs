//! Reads one checkpoint file, trusting neither its kind nor its content.

use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use relight_core::checkpoint::{Checkpoint, Damage, Limits, StrictError};
use rustix::buffer::spare_capacity;
use rustix::fs::{FileType, Mode, OFlags, fstat, openat};
use rustix::io::{Errno, retry_on_intr};

use super::CheckpointFolder;
use super::directory::Directory;
use super::file_name::file_name;

/// Why a file in the folder is not a good checkpoint; the text is a short reason for a person.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileDamage {
    /// What it holds is damaged.
    #[error(transparent)]
    Content(#[from] Damage),
    /// It holds a good checkpoint of another workflow.
    #[error("holds workflow {workflow_id:?}, which belongs into another file")]
    WrongName {
        /// The workflow in the content.
        workflow_id: String,
    },
    /// It is a link, which is never followed.
    #[error("a symbolic link, not a file")]
    SymbolicLink,
    /// It is a folder, a pipe, a socket or a device.
    #[error("not a regular file")]
    NotAFile,
    /// The system refuses to read it.
    #[error("cannot be read: {0}")]
    Unreadable(Errno),
}

/// Why the checkpoint of a workflow could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The system refused; the file may be good.
    #[error("checkpoint file {path} cannot be read")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is there and is no good.
    #[error("checkpoint file {path} is damaged: {reason}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: FileDamage,
    },
}

impl CheckpointFolder {
    /// The checkpoint of a workflow; `None` when it has no file.
    pub fn read(&self, workflow_id: &str) -> Result<Option<Checkpoint>, ReadError> {
        let path = self.path_of(workflow_id);
        let directory = match Directory::open(self.path()) {
            Ok(Some(directory)) => directory,
            Ok(None) => return Ok(None),
            Err(source) => return Err(ReadError::Io { path, source }),
        };
        match read_content(&directory, file_name(workflow_id).as_str(), &mut Vec::new()) {
            Ok(checkpoint) if checkpoint.workflow_id == workflow_id => Ok(Some(checkpoint)),
            Ok(Checkpoint { workflow_id, .. }) => {
                Err(ReadError::Damaged { path, reason: FileDamage::WrongName { workflow_id } })
            }
            Err(Unread::Absent) => Ok(None),
            Err(Unread::Refused(errno)) => Err(ReadError::Io { path, source: errno.into() }),
            Err(Unread::Damaged(reason)) => Err(ReadError::Damaged { path, reason }),
        }
    }
}

/// Why an entry gave no checkpoint.
pub(super) enum Unread {
    Absent,
    Refused(Errno),
    Damaged(FileDamage),
}

impl<T: Into<FileDamage>> From<T> for Unread {
    fn from(damage: T) -> Self {
        Unread::Damaged(damage.into())
    }
}

/// Reads the entry of that name; the checkpoint must lead back to the name.
pub(super) fn read_entry(
    directory: &Directory,
    name: &CStr,
    buffer: &mut Vec<u8>,
) -> Result<Checkpoint, Unread> {
    let checkpoint = read_content(directory, name, buffer)?;
    if file_name(&checkpoint.workflow_id).as_bytes() == name.to_bytes() {
        return Ok(checkpoint);
    }
    Err(FileDamage::WrongName { workflow_id: checkpoint.workflow_id }.into())
}

fn read_content(
    directory: &Directory,
    name: impl rustix::path::Arg + Copy,
    buffer: &mut Vec<u8>,
) -> Result<Checkpoint, Unread> {
    let file = open_entry(directory, name)?;
    read_bytes(&file, buffer)?;
    Ok(Checkpoint::open(buffer)?)
}

/// Never follows a link and never waits, as for the other end of a pipe.
fn open_entry(
    directory: &Directory,
    name: impl rustix::path::Arg + Copy,
) -> Result<OwnedFd, Unread> {
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    match retry_on_intr(|| openat(directory, name, flags, Mode::empty())) {
        Ok(file) => Ok(file),
        Err(Errno::NOENT) => Err(Unread::Absent),
        Err(Errno::LOOP) => Err(FileDamage::SymbolicLink.into()),
        Err(Errno::NXIO) => Err(FileDamage::NotAFile.into()),
        Err(errno) => Err(Unread::Refused(errno)),
    }
}

fn read_bytes(file: &OwnedFd, buffer: &mut Vec<u8>) -> Result<(), Unread> {
    let stat = fstat(file).map_err(Unread::Refused)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(FileDamage::NotAFile.into());
    }
    let bytes = usize::try_from(stat.st_size).unwrap_or(usize::MAX);
    let bytes_max = Limits::CHECKPOINT.bytes_max;
    if bytes > bytes_max {
        return Err(Damage::Json(StrictError::TooLarge { bytes, bytes_max }).into());
    }
    buffer.clear();
    // One byte of room more than needed: the read that leaves it free has seen the end.
    buffer.reserve_exact(bytes + 1);
    while buffer.len() <= bytes {
        let count = retry_on_intr(|| rustix::io::read(file, spare_capacity(buffer)))
            .map_err(Unread::Refused)?;
        if count == 0 || buffer.len() == bytes {
            break;
        }
    }
    Ok(())
}
