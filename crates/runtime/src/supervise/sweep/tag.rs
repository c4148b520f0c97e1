//! Who carries a tag: `/proc/PID/environ` has exactly `RELIGHT_ATTEMPT=<tag>`.

use std::collections::HashSet;
use std::fmt::Write as _;

use memchr::memmem::Finder;
use relight_core::agent::AttemptTag;
use rustix::event::{Timespec, poll};
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

use super::Proc;

/// What a tag is given by.
const VARIABLE: &[u8] = b"RELIGHT_ATTEMPT=";
/// No environment is read further than this; the kernel's own limit is far below.
const ENVIRONMENT_BYTES_MAX: usize = 64 << 20;
/// Most environments are read in one piece.
const PIECE_BYTES: usize = 32 << 10;
/// How long a process may take to put its new program in place, in looks of a millisecond.
const SETTLE_LOOKS_MAX: u32 = 1_000;
/// The kernel's mark of its own threads, in the flags of `/proc/PID/stat`.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// Reads environments, one after the other, into the same memory.
pub(super) struct Tagged<'a> {
    proc: &'a Proc,
    tags: HashSet<&'a [u8]>,
    variable: Finder<'static>,
    path: String,
    bytes: Vec<u8>,
}

impl<'a> Tagged<'a> {
    pub(super) fn new(proc: &'a Proc, tags: &'a [AttemptTag]) -> Self {
        Self {
            proc,
            tags: tags.iter().map(|tag| tag.as_str().as_bytes()).collect(),
            variable: Finder::new(VARIABLE),
            path: String::new(),
            bytes: vec![0; PIECE_BYTES],
        }
    }

    /// Whether a process carries one of the tags; not when it is gone.
    pub(super) fn is(&mut self, pid: u32) -> Result<bool, Errno> {
        let length = match self.read_settled(pid) {
            Ok(length) => length,
            Err(Errno::NOENT | Errno::SRCH) => return Ok(false),
            Err(error) => return Err(error),
        };
        let bytes = &self.bytes[..length];
        for at in self.variable.find_iter(bytes) {
            let begins_entry = at == 0 || bytes[at - 1] == 0;
            let value = &bytes[at + VARIABLE.len()..];
            let value = &value[..memchr::memchr(0, value).unwrap_or(value.len())];
            if begins_entry && self.tags.contains(value) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads the environment. Around an `exec` there is none for a moment, or the old program's breaks
    /// off while it is read: then it is looked at again.
    fn read_settled(&mut self, pid: u32) -> Result<usize, Errno> {
        for _ in 0..SETTLE_LOOKS_MAX {
            let length = self.read(pid)?;
            let seems_whole = length > 0 && length < PIECE_BYTES && self.bytes[length - 1] == 0;
            if seems_whole || is_settled(pid, length) {
                return Ok(length);
            }
            let moment = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
            match poll(&mut [], Some(&moment)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Err(Errno::ACCESS)
    }

    fn read(&mut self, pid: u32) -> Result<usize, Errno> {
        self.path.clear();
        write!(self.path, "{pid}/environ").expect("memory takes any text");
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = openat(&self.proc.folder, self.path.as_str(), flags, Mode::empty())?;
        let mut length = 0;
        loop {
            if length == self.bytes.len() {
                if length >= ENVIRONMENT_BYTES_MAX {
                    return Ok(length);
                }
                self.bytes.resize(length * 2, 0);
            }
            match rustix::io::read(&file, &mut self.bytes[length..]) {
                Ok(0) => return Ok(length),
                Ok(count) => length += count,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Whether so many bytes are all of its environment, as the kernel has it. Zombies and the kernel's own
/// threads have none, and never will.
fn is_settled(pid: u32, length: usize) -> bool {
    let Ok(stat) = std::fs::read(format!("/proc/{pid}/stat")) else { return true };
    let Some(name_end) = memchr::memrchr(b')', &stat) else { return true };
    let rest = String::from_utf8_lossy(&stat[name_end + 1..]);
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok());
    let is_dead = matches!(fields.first(), Some(&("Z" | "X")) | None);
    let is_kernels = number(6).is_none_or(|flags| flags & KERNEL_THREAD != 0);
    let (begin, end) = (number(47).unwrap_or(0), number(48).unwrap_or(0));
    let is_whole = end != 0 && end.saturating_sub(begin) == length as u64;
    is_dead || is_kernels || is_whole || length >= ENVIRONMENT_BYTES_MAX
}
