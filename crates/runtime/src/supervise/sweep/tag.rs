//! Finds processes by tag: `/proc/PID/environ` contains exactly `RELIGHT_ATTEMPT=<tag>`.

use std::collections::HashSet;
use std::fmt::Write as _;

use memchr::memmem::Finder;
use relight_core::agent::AttemptTag;
use rustix::event::{Timespec, poll};
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

use super::Proc;
use crate::os::clock;

/// The variable that holds the tag.
const VARIABLE: &[u8] = b"RELIGHT_ATTEMPT=";
/// Maximum size of an environment that is read; the kernel's limit is far below.
const ENVIRONMENT_BYTES_MAX: usize = 64 << 20;
/// Read buffer; enough for most environments.
const PIECE_BYTES: usize = 32 << 10;
/// Maximum time for an `exec` to complete, in checks of a millisecond.
const SETTLE_LOOKS_MAX: u32 = 1_000;
/// How long a process may have its parent's environment before that is taken as its own.
const YOUNG_MS: u64 = 100;

/// Reads environments into one reused buffer.
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

    /// Whether a process has one of the tags; false when it is gone. A process before its `exec`
    /// still has its parent's environment and is checked again.
    pub(super) fn is(&mut self, pid: u32) -> Result<bool, Errno> {
        for _ in 0..=YOUNG_MS {
            let length = match self.read_settled(pid) {
                Ok(length) => length,
                Err(Errno::NOENT | Errno::SRCH) => return Ok(false),
                Err(error) => return Err(error),
            };
            if self.has_tag(length) {
                return Ok(true);
            }
            let looks_like_its_parent = StatFields::of(pid).is_some_and(|stat| {
                stat.is_forked() && stat.age_ms() < YOUNG_MS && !stat.is_dead()
            });
            if !looks_like_its_parent {
                return Ok(false);
            }
            wait_a_moment()?;
        }
        Ok(false)
    }

    /// Whether the first `length` bytes of the buffer contain one of the tags.
    fn has_tag(&self, length: usize) -> bool {
        let bytes = &self.bytes[..length];
        for at in self.variable.find_iter(bytes) {
            let begins_entry = at == 0 || bytes[at - 1] == 0;
            let value = &bytes[at + VARIABLE.len()..];
            let value = &value[..memchr::memchr(0, value).unwrap_or(value.len())];
            if begins_entry && self.tags.contains(value) {
                return true;
            }
        }
        false
    }

    /// Reads the environment. During an `exec` it is missing or incomplete for a moment; then it is
    /// read again.
    fn read_settled(&mut self, pid: u32) -> Result<usize, Errno> {
        for _ in 0..SETTLE_LOOKS_MAX {
            let length = self.read(pid)?;
            let seems_whole = length > 0 && length < PIECE_BYTES && self.bytes[length - 1] == 0;
            if seems_whole || is_settled(pid, length) {
                return Ok(length);
            }
            wait_a_moment()?;
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

/// Whether this is the complete environment. Zombies and kernel threads have none.
fn is_settled(pid: u32, length: usize) -> bool {
    let Some(stat) = StatFields::of(pid) else {
        return true;
    };
    let (begin, end) = stat.environment();
    let is_whole = end != 0 && end.saturating_sub(begin) == length as u64;
    stat.is_dead() || stat.is_kernels() || is_whole || length >= ENVIRONMENT_BYTES_MAX
}

fn wait_a_moment() -> Result<(), Errno> {
    let moment = Timespec {
        tv_sec: 0,
        tv_nsec: 1_000_000,
    };
    match poll(&mut [], Some(&moment)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error),
    }
}

/// The fields of `/proc/PID/stat` after the name.
struct StatFields(String);

impl StatFields {
    /// `PF_KTHREAD`.
    const KERNEL_THREAD: u64 = 0x0020_0000;
    /// `PF_FORKNOEXEC`.
    const FORKED: u64 = 0x0000_0040;
    /// Clock ticks are hundredths of a second.
    const TICK_MS: u64 = 10;

    /// None when there is no such process.
    fn of(pid: u32) -> Option<Self> {
        let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
        let name_end = memchr::memrchr(b')', &stat)?;
        Some(Self(
            String::from_utf8_lossy(&stat[name_end + 1..]).into_owned(),
        ))
    }

    fn number(&self, at: usize) -> Option<u64> {
        self.0.split_ascii_whitespace().nth(at)?.parse().ok()
    }

    fn is_dead(&self) -> bool {
        matches!(
            self.0.split_ascii_whitespace().next(),
            Some("Z" | "X") | None
        )
    }

    fn is_kernels(&self) -> bool {
        self.number(6)
            .is_none_or(|flags| flags & Self::KERNEL_THREAD != 0)
    }

    fn is_forked(&self) -> bool {
        self.number(6)
            .is_some_and(|flags| flags & Self::FORKED != 0)
            && !self.is_kernels()
    }

    fn age_ms(&self) -> u64 {
        let began_ms = self.number(19).unwrap_or(0).saturating_mul(Self::TICK_MS);
        clock::boot_ms().saturating_sub(began_ms)
    }

    /// Start and end address of its environment; zeros if there is none.
    fn environment(&self) -> (u64, u64) {
        (self.number(47).unwrap_or(0), self.number(48).unwrap_or(0))
    }
}
