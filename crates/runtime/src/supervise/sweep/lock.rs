//! Who holds an agent's lock: one of its descriptors is the very open file that was locked.
//!
//! The file is in our own folder and only we may open it, and the lock belongs to what was opened, not to
//! the file: whoever has that inherited it from an attempt. This finds what dropped its tag, as `env -i`
//! does. Parts of Relight are left alone: a supervisor has the lock for a moment, a shim all its life.

use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, Mode, OFlags, openat, statat};
use rustix::io::Errno;

use super::Proc;

/// No process has more files open.
const FILES_MAX: usize = 1 << 20;
/// What the kernel tells of one open file is far shorter.
const INFO_BYTES: usize = 4 << 10;
/// What every part of Relight is called.
const OUR_NAME: &[u8] = b"relight";

/// The lock file of an agent.
#[derive(Debug, Clone)]
pub struct Lock {
    device: u64,
    inode: u64,
    users: Vec<u32>,
    /// Our own program: its device and inode.
    program: (u64, u64),
}

impl Lock {
    /// The one at this path; only what these users run is looked at.
    pub fn at(path: &Path, users: Vec<u32>) -> io::Result<Self> {
        let file = std::fs::metadata(path)?;
        let program = std::fs::metadata("/proc/self/exe")?;
        let program = (program.dev(), program.ino());
        Ok(Self { device: file.dev(), inode: file.ino(), users, program })
    }

    /// Whether a process holds it; not when it is gone, another user's, or a part of Relight.
    pub(super) fn is_held_by(&self, proc: &Proc, pid: u32) -> Result<bool, Errno> {
        match self.look_at(proc, pid) {
            Err(Errno::NOENT | Errno::SRCH) => Ok(false),
            looked => looked,
        }
    }

    fn look_at(&self, proc: &Proc, pid: u32) -> Result<bool, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let process = openat(&proc.folder, pid.to_string(), flags, Mode::empty())?;
        let user = statat(&process, c"", AtFlags::EMPTY_PATH)?.st_uid;
        if !self.users.contains(&user) || self.is_relight(&process)? {
            return Ok(false);
        }
        let files = openat(&process, c"fd", flags, Mode::empty())?;
        for entry in Dir::read_from(&files)?.take(FILES_MAX) {
            let entry = entry?;
            if self.is_here(&files, entry.file_name()) && is_locked(&process, entry.file_name())? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a process is a part of Relight, by its program or its name.
    fn is_relight(&self, process: &OwnedFd) -> Result<bool, Errno> {
        let program = statat(process, c"exe", AtFlags::empty())?;
        let is_ours = (program.st_dev, program.st_ino) == self.program;
        Ok(is_ours || read_small(process, c"comm")?.starts_with(OUR_NAME))
    }

    /// Whether a descriptor is on this file; one that was just closed is not.
    fn is_here(&self, files: &OwnedFd, number: &CStr) -> bool {
        let file = statat(files, number, AtFlags::empty());
        file.is_ok_and(|file| (file.st_dev, file.st_ino) == (self.device, self.inode))
    }
}

/// Whether what a descriptor is on is what was locked: the kernel names the lock with it.
fn is_locked(process: &OwnedFd, number: &CStr) -> Result<bool, Errno> {
    let folder = openat(process, c"fdinfo", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let info = match read_small(&folder, number) {
        Err(Errno::NOENT) => return Ok(false),
        info => info?,
    };
    let mut lines = info.split(|byte| *byte == b'\n');
    Ok(lines.any(|line| {
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        words.next() == Some(b"lock:") && words.nth(1) == Some(b"FLOCK")
    }))
}

fn read_small(folder: &OwnedFd, name: &CStr) -> Result<Vec<u8>, Errno> {
    let file = openat(folder, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut bytes = vec![0; INFO_BYTES];
    let mut length = 0;
    while length < bytes.len() {
        match rustix::io::read(&file, &mut bytes[length..]) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(length);
    Ok(bytes)
}
