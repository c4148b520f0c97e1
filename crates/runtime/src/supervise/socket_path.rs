//! A path of any length as the address of a Unix socket, whose own limit is 107 bytes.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, openat};

/// A socket's path, reached through its folder. Good for as long as it lives.
#[derive(Debug)]
pub struct SocketPath {
    short: PathBuf,
    _folder: File,
}

impl SocketPath {
    /// Of this path; its folder has to be there.
    pub fn of(path: &Path) -> io::Result<Self> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder: OwnedFd = openat(CWD, folder, flags, Mode::empty())?;
        let short = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(name);
        Ok(Self {
            short,
            _folder: folder.into(),
        })
    }

    /// What the system's calls take.
    pub fn as_path(&self) -> &Path {
        &self.short
    }
}
