//! Reads one checkpoint file, trusting neither its kind nor its content.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use relight_core::checkpoint::{Checkpoint, Damage, Limits, StrictError};
use rustix::buffer::spare_capacity;
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
use rustix::io::{Errno, retry_on_intr};

use super::CheckpointFolder;
use super::directory::Directory;
use super::file_name::{file_name, is_name_of, plain_name};

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
    /// The file exists but is not a valid checkpoint.
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
        match self.read_own(workflow_id)? {
            None => self.read_plain(workflow_id),
            found => Ok(found),
        }
    }

    /// The same, only under our own name.
    pub(crate) fn read_own(&self, workflow_id: &str) -> Result<Option<Checkpoint>, ReadError> {
        self.read_name(&file_name(workflow_id), workflow_id)
    }

    /// The same, only under the name that the original script gives it, where that is another.
    pub(crate) fn read_plain(&self, workflow_id: &str) -> Result<Option<Checkpoint>, ReadError> {
        let Some(name) = plain_name(workflow_id) else {
            return Ok(None);
        };
        match self.read_name(&name, workflow_id) {
            // The name is also our own for another workflow.
            Err(ReadError::Damaged {
                reason: FileDamage::WrongName { .. },
                ..
            }) => Ok(None),
            found => found,
        }
    }

    /// The checkpoint of a workflow in the file of that name; `None` when there is no such file.
    fn read_name(&self, name: &str, workflow_id: &str) -> Result<Option<Checkpoint>, ReadError> {
        let path = self.path().join(name);
        let directory = match Directory::open(self.path()) {
            Ok(Some(directory)) => directory,
            Ok(None) => return Ok(None),
            Err(source) => return Err(ReadError::Io { path, source }),
        };
        match read_content(directory.as_fd(), name, OFlags::NOFOLLOW, &mut Vec::new()) {
            Ok(checkpoint) if checkpoint.workflow_id == workflow_id => Ok(Some(checkpoint)),
            Ok(Checkpoint { workflow_id, .. }) => Err(ReadError::Damaged {
                path,
                reason: FileDamage::WrongName { workflow_id },
            }),
            Err(Unread::Absent) => Ok(None),
            Err(unread) => Err(unread.at(path)),
        }
    }
}

/// The checkpoint in a file that a person named. A link is followed; a pipe or a device is never
/// waited for.
pub fn read_file(path: &Path) -> Result<Checkpoint, ReadError> {
    read_content(CWD, path, OFlags::empty(), &mut Vec::new())
        .map_err(|unread| unread.at(path.to_path_buf()))
}

/// Why an entry gave no checkpoint.
pub(super) enum Unread {
    Absent,
    Refused(Errno),
    Damaged(FileDamage),
}

impl Unread {
    fn at(self, path: PathBuf) -> ReadError {
        match self {
            Unread::Absent => ReadError::Io {
                path,
                source: Errno::NOENT.into(),
            },
            Unread::Refused(errno) => ReadError::Io {
                path,
                source: errno.into(),
            },
            Unread::Damaged(reason) => ReadError::Damaged { path, reason },
        }
    }
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
    let checkpoint = read_content(directory.as_fd(), name, OFlags::NOFOLLOW, buffer)?;
    if is_name_of(name.to_bytes(), &checkpoint.workflow_id) {
        return Ok(checkpoint);
    }
    Err(FileDamage::WrongName {
        workflow_id: checkpoint.workflow_id,
    }
    .into())
}

/// Opens without waiting, as for the other end of a pipe, and reads only a regular file.
fn read_content(
    directory: BorrowedFd<'_>,
    name: impl rustix::path::Arg + Copy,
    link_flag: OFlags,
    buffer: &mut Vec<u8>,
) -> Result<Checkpoint, Unread> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC | link_flag;
    let file = match retry_on_intr(|| openat(directory, name, flags, Mode::empty())) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Err(Unread::Absent),
        Err(Errno::LOOP) => return Err(FileDamage::SymbolicLink.into()),
        Err(Errno::NXIO) => return Err(FileDamage::NotAFile.into()),
        Err(errno) => return Err(Unread::Refused(errno)),
    };
    read_bytes(&file, buffer)?;
    Ok(Checkpoint::open(buffer)?)
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
