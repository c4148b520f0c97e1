//! Who holds an agent's lock: one of its descriptors is the very open file that was locked.
//!
//! The file is in our own folder and only we may open it, and the lock belongs to what was opened, not to
//! the file: whoever has that inherited it from an attempt. This finds what dropped its tag, as `env -i`
//! does. Parts of Relight are left alone: a supervisor has the lock for a moment, by a descriptor that no
//! child inherits, and a shim all its life. Both run our own program; a name proves nothing.

use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, Mode, OFlags, openat, readlinkat, statat};
use rustix::io::Errno;

use super::Proc;

/// No process has more files open.
const FILES_MAX: usize = 1 << 20;
/// What the kernel tells of one open file is far shorter.
const INFO_BYTES: usize = 4 << 10;
/// What a shim calls itself.
const SHIM_NAME: &[u8] = b"relight-shim\n";
/// How the kernel names a program whose file was removed or replaced, as by an upgrade.
const DELETED: &[u8] = b" (deleted)";

/// The lock file of an agent.
#[derive(Debug, Clone)]
pub struct Lock {
    device: u64,
    inode: u64,
    users: Vec<u32>,
    /// Our own program: its device and inode, and its path.
    program: (u64, u64),
    program_path: Vec<u8>,
}

impl Lock {
    /// The one at this path; only what these users run is looked at.
    pub fn at(path: &Path, users: Vec<u32>) -> io::Result<Self> {
        let file = std::fs::metadata(path)?;
        let program = std::fs::metadata("/proc/self/exe")?;
        let program = (program.dev(), program.ino());
        let path = std::fs::read_link("/proc/self/exe")?
            .into_os_string()
            .into_encoded_bytes();
        let program_path = without_mark(&path).to_vec();
        Ok(Self {
            device: file.dev(),
            inode: file.ino(),
            users,
            program,
            program_path,
        })
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
        if !self.users.contains(&user) {
            return Ok(false);
        }
        let is_relight = self.is_relight(&process)?;
        let is_shim = is_relight && read_small(&process, c"comm")? == SHIM_NAME;
        if is_shim {
            return Ok(false);
        }
        let files = openat(&process, c"fd", flags, Mode::empty())?;
        for entry in Dir::read_from(&files)?.take(FILES_MAX) {
            let entry = entry?;
            if !self.is_here(&files, entry.file_name()) {
                continue;
            }
            let held = how_held(&process, entry.file_name())?;
            // A command that an agent left behind runs our program too, and has inherited the lock.
            if held.is_locked && !(is_relight && held.is_close_on_exec) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a process runs our own program, or the one that was in its place before an upgrade.
    fn is_relight(&self, process: &OwnedFd) -> Result<bool, Errno> {
        let program = statat(process, c"exe", AtFlags::empty())?;
        let is_ours = (program.st_dev, program.st_ino) == self.program;
        let path = readlinkat(process, c"exe", Vec::new())?;
        Ok(is_ours || without_mark(path.to_bytes()) == self.program_path)
    }

    /// Whether a descriptor is on this file; one that was just closed is not.
    fn is_here(&self, files: &OwnedFd, number: &CStr) -> bool {
        let file = statat(files, number, AtFlags::empty());
        file.is_ok_and(|file| (file.st_dev, file.st_ino) == (self.device, self.inode))
    }
}

fn without_mark(path: &[u8]) -> &[u8] {
    path.strip_suffix(DELETED).unwrap_or(path)
}

/// How a process has the lock file open.
#[derive(Debug, Default)]
struct HowHeld {
    /// What the descriptor is on is what was locked: the kernel names the lock with it.
    is_locked: bool,
    /// It was not inherited, and is not handed on.
    is_close_on_exec: bool,
}

fn how_held(process: &OwnedFd, number: &CStr) -> Result<HowHeld, Errno> {
    let folder = openat(
        process,
        c"fdinfo",
        OFlags::PATH | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let info = match read_small(&folder, number) {
        Err(Errno::NOENT) => return Ok(HowHeld::default()),
        info => info?,
    };
    let mut held = HowHeld::default();
    for line in info.split(|byte| *byte == b'\n') {
        let mut words = line
            .split(u8::is_ascii_whitespace)
            .filter(|word| !word.is_empty());
        match words.next() {
            Some(b"lock:") => held.is_locked |= words.nth(1) == Some(b"FLOCK"),
            Some(b"flags:") => {
                let flags = words.next().and_then(|word| std::str::from_utf8(word).ok());
                let flags = flags.and_then(|flags| u32::from_str_radix(flags, 8).ok());
                held.is_close_on_exec = flags.is_some_and(|f| f & OFlags::CLOEXEC.bits() != 0);
            }
            _ => {}
        }
    }
    Ok(held)
}

fn read_small(folder: &OwnedFd, name: &CStr) -> Result<Vec<u8>, Errno> {
    let file = openat(
        folder,
        name,
        OFlags::RDONLY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
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
