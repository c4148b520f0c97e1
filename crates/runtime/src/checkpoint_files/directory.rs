//! An open directory: everything in it is reached through its descriptor, never by a path that
//! could be swapped underneath.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Dir, Mode, OFlags, fsync, mkdirat, openat};
use rustix::io::Errno;

const PRIVATE: Mode = Mode::RWXU;

/// A directory held open.
pub(super) struct Directory {
    fd: OwnedFd,
}

impl Directory {
    /// Opens the directory at a path the user chose; links on the way are followed.
    pub(super) fn open(path: &Path) -> io::Result<Option<Self>> {
        match openat(CWD, path, flags(), Mode::empty()) {
            Ok(fd) => Ok(Some(Directory { fd })),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens the directory inside this one, created (0700) when absent; a planted link is refused.
    pub(super) fn open_inside(&self, name: &str) -> io::Result<Self> {
        match mkdirat(&self.fd, name, PRIVATE) {
            Ok(()) => self.sync()?,
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let fd = openat(&self.fd, name, flags() | OFlags::NOFOLLOW, Mode::empty())?;
        Ok(Directory { fd })
    }

    /// Makes the entries made, renamed and removed so far survive a power cut.
    pub(super) fn sync(&self) -> io::Result<()> {
        if cfg!(feature = "broken-no-folder-sync") {
            return Ok(());
        }
        Ok(fsync(&self.fd)?)
    }

    /// The names of the entries that `keep` wants, sorted.
    pub(super) fn names(&self, keep: impl Fn(&[u8]) -> bool) -> io::Result<Vec<CString>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.fd)? {
            let entry = entry?;
            if keep(entry.file_name().to_bytes()) {
                names.push(entry.file_name().to_owned());
            }
        }
        names.sort_unstable();
        Ok(names)
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC
}

/// Creates a directory (0700) and its parents as needed, and makes its own entry durable.
///
/// An existing directory is synced too: its creator may have died before the sync. Directories are only
/// created inside durable ones, so only the innermost may be missing after a crash.
pub(super) fn create_durably(path: &Path) -> io::Result<()> {
    let parent = match path.parent() {
        None => return Ok(()),
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
    };
    if path.is_dir() {
        return sync_if_allowed(parent);
    }
    create_durably(parent)?;
    match mkdirat(CWD, path, PRIVATE) {
        Ok(()) | Err(Errno::EXIST) => sync_if_allowed(parent),
        Err(error) => Err(error.into()),
    }
}

/// A directory that we may pass through but not read cannot be synced by us.
fn sync_if_allowed(path: &Path) -> io::Result<()> {
    match Directory::open(path) {
        Ok(Some(directory)) => directory.sync(),
        Ok(None) => Err(Errno::NOENT.into()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        Err(error) => Err(error),
    }
}
