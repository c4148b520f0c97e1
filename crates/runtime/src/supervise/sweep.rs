//! Finds what an attempt left behind, by its tag in the environment, and stops it.
//!
//! A process is ours when `/proc/PID/environ` has exactly `RELIGHT_ATTEMPT=<tag>`, whatever its
//! session, group or parent. It is signalled only through a pidfd that was opened before tag and
//! start time were read, and that was still alive after: a pid that came to somebody else in between
//! cannot be hit.
//!
//! Not found by it: what another user runs (counted), and what wrote over its own environment; for
//! those there are the subreaper and the cgroup. Blocks: a supervisor calls it where it may.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use memchr::memmem::Finder;
use relight_core::agent::AttemptTag;
use relight_core::lease::ProcessIdentity;
use relight_core::time::Span;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Dir, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::doors::{clock, process};

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
/// A forker whose children outrun this many scans is left to the caller, by name.
const KILL_ROUNDS_MAX: u32 = 100;

/// A live process that carries one of the tags.
#[derive(Debug)]
pub struct Found {
    /// By which it is watched and signalled.
    pub pidfd: OwnedFd,
    /// Who it is.
    pub process: ProcessIdentity,
    /// Which tag it carries.
    pub tag: AttemptTag,
}

/// What one look over all processes gave.
#[derive(Debug, Default)]
pub struct Scan {
    /// What was looked for.
    pub tags: Vec<AttemptTag>,
    /// In the order of their pids.
    pub found: Vec<Found>,
    /// Processes whose environment cannot be read: almost always because they belong to others.
    pub unreadable: u32,
    /// There are more than descriptors to hold them; look again when these are gone.
    pub more: bool,
}

/// What became of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Swept {
    /// Processes that were there and are gone.
    pub stopped: u32,
    /// Processes that are still there.
    pub survivors: Vec<ProcessIdentity>,
}

/// Finds every live process that carries one of the tags, but not ourselves.
pub fn find(tags: &[AttemptTag]) -> io::Result<Scan> {
    if tags.is_empty() {
        return Ok(Scan::default());
    }
    look(tags, |_| {})
}

/// Finds and stops all of them; see [`stop`].
pub fn clear(tags: &[AttemptTag], grace: Span, kill: Span) -> io::Result<Swept> {
    stop(find(tags)?, grace, kill)
}

/// Tells them to end, waits for `grace`, ends them by force and waits for `kill` at most, and looks
/// again after each time until nothing carries their tags: what they forked meanwhile goes as well.
/// Nobody is told twice to end. A zombie counts as gone.
pub fn stop(scan: Scan, grace: Span, kill: Span) -> io::Result<Swept> {
    let tags = scan.tags.clone();
    let mut met = Met::default();
    if ask_to_end(scan, grace, &mut met)? || end_by_force(&tags, kill, &mut met)? {
        return Ok(met.swept(Vec::new()));
    }
    let left = find(&tags)?.found;
    left.iter().for_each(|one| met.meet(one));
    Ok(met.swept(left))
}

/// Everyone that was met in one sweep.
#[derive(Debug, Default)]
struct Met(HashSet<(u32, u64)>);

impl Met {
    fn meet(&mut self, one: &Found) {
        self.0.insert((one.process.pid, one.process.start));
    }

    fn has(&self, one: &Found) -> bool {
        self.0.contains(&(one.process.pid, one.process.start))
    }

    fn swept(&self, left: Vec<Found>) -> Swept {
        let survivors: Vec<_> = left.into_iter().map(|one| one.process).collect();
        let stopped = self.0.len().saturating_sub(survivors.len());
        Swept { stopped: u32::try_from(stopped).unwrap_or(u32::MAX), survivors }
    }
}

/// True when nothing is left.
fn ask_to_end(mut scan: Scan, grace: Span, met: &mut Met) -> io::Result<bool> {
    let deadline = clock::boot_ms().saturating_add(grace.as_ms());
    while !scan.found.is_empty() {
        for one in &scan.found {
            if !met.has(one) {
                met.meet(one);
                tell(one, Signal::TERM);
                // What was stopped would hear it only when it goes on.
                tell(one, Signal::CONT);
            }
        }
        // A forker may be gone each time and never be done: the deadline holds for it as well.
        if !wait_until_gone(&scan.found, deadline)? || clock::boot_ms() >= deadline {
            return Ok(false);
        }
        let tags = std::mem::take(&mut scan.tags);
        drop(scan);
        scan = find(&tags)?;
    }
    Ok(true)
}

/// True when nothing is left. Each one is hit while the scan goes on: pids grow, so a scan meets
/// what was forked before its parent was hit.
fn end_by_force(tags: &[AttemptTag], kill: Span, met: &mut Met) -> io::Result<bool> {
    let deadline = clock::boot_ms().saturating_add(kill.as_ms());
    for _ in 0..KILL_ROUNDS_MAX {
        let scan = look(tags, |one| tell(one, Signal::KILL))?;
        if scan.found.is_empty() {
            return Ok(true);
        }
        scan.found.iter().for_each(|one| met.meet(one));
        if !wait_until_gone(&scan.found, deadline)? {
            return Ok(false);
        }
    }
    Ok(false)
}

/// One that is gone already needs no signal; one that may not be signalled is found again.
fn tell(one: &Found, signal: Signal) {
    let _ = pidfd_send_signal(&one.pidfd, signal);
}

/// Waits for the end of all of them; false when one is still there at the deadline.
fn wait_until_gone(there: &[Found], deadline_ms: u64) -> io::Result<bool> {
    let mut left: Vec<BorrowedFd<'_>> = there.iter().map(|one| one.pidfd.as_fd()).collect();
    loop {
        let ms = deadline_ms.saturating_sub(clock::boot_ms());
        left = still_there(left, Duration::from_millis(ms))?;
        if left.is_empty() {
            return Ok(true);
        }
        if ms == 0 {
            return Ok(false);
        }
    }
}

/// Those that did not end, after one of them did or the time has passed.
fn still_there(there: Vec<BorrowedFd<'_>>, time: Duration) -> Result<Vec<BorrowedFd<'_>>, Errno> {
    if there.is_empty() {
        return Ok(there);
    }
    let mut polled: Vec<PollFd<'_>> =
        there.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    let time = Timespec::try_from(time).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 });
    match poll(&mut polled, Some(&time)) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error),
    }
    let is_there: Vec<bool> = polled.iter().map(|fd| fd.revents().is_empty()).collect();
    Ok(there.into_iter().zip(is_there).filter_map(|(fd, is)| is.then_some(fd)).collect())
}

/// One look over all processes; `met` is called for each as soon as it is proved.
fn look(tags: &[AttemptTag], mut met: impl FnMut(&Found)) -> io::Result<Scan> {
    let proc = Proc::open()?;
    let mut reader = Reader::new(&proc, tags);
    let own = std::process::id();
    let mut scan = Scan { tags: tags.to_vec(), ..Scan::default() };
    for entry in Dir::read_from(&proc.folder)? {
        let entry = entry?;
        let Some(pid) = pid_of(entry.file_name().to_bytes()) else { continue };
        if pid == own {
            continue;
        }
        match reader.prove_if_tagged(pid) {
            Ok(Some(found)) => {
                met(&found);
                scan.found.push(found);
            }
            Ok(None) => {}
            Err(Errno::ACCESS | Errno::PERM) => scan.unreadable += 1,
            Err(Errno::MFILE | Errno::NFILE) if !scan.found.is_empty() => {
                scan.more = true;
                break;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(scan)
}

fn pid_of(name: &[u8]) -> Option<u32> {
    if !name.first()?.is_ascii_digit() {
        return None;
    }
    std::str::from_utf8(name).ok()?.parse().ok()
}

/// `/proc`, of our own pid namespace.
struct Proc {
    folder: OwnedFd,
}

impl Proc {
    fn open() -> io::Result<Self> {
        let folder = rustix::fs::open(
            "/proc",
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let own = rustix::fs::readlinkat(&folder, "self", Vec::new())?;
        if pid_of(own.to_bytes()) == Some(std::process::id()) {
            return Ok(Self { folder });
        }
        // Its numbers would be other processes for us.
        Err(io::Error::new(io::ErrorKind::Unsupported, "/proc belongs to another pid namespace"))
    }
}

/// Reads environments, one after the other, into the same memory.
struct Reader<'a> {
    proc: &'a Proc,
    tags: HashSet<&'a [u8]>,
    variable: Finder<'static>,
    path: String,
    bytes: Vec<u8>,
}

impl<'a> Reader<'a> {
    fn new(proc: &'a Proc, tags: &'a [AttemptTag]) -> Self {
        Self {
            proc,
            tags: tags.iter().map(|tag| tag.as_str().as_bytes()).collect(),
            variable: Finder::new(VARIABLE),
            path: String::new(),
            bytes: vec![0; PIECE_BYTES],
        }
    }

    /// Most processes are not ours, which one look at their environment says.
    fn prove_if_tagged(&mut self, pid: u32) -> Result<Option<Found>, Errno> {
        if self.tag_of(pid)?.is_some() { self.prove(pid) } else { Ok(None) }
    }

    /// Opens the pidfd, then reads what it carries and who it is, then sees that it is still there:
    /// so the pid was its own all the while.
    fn prove(&mut self, pid: u32) -> Result<Option<Found>, Errno> {
        let Some(number) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Ok(None) };
        let pidfd = match pidfd_open(number, PidfdFlags::empty()) {
            Ok(pidfd) => pidfd,
            Err(Errno::SRCH | Errno::INVAL) => return Ok(None),
            Err(error) => return Err(error),
        };
        // The environment first: it says when there are no more descriptors.
        let Some(tag) = self.tag_of(pid)? else { return Ok(None) };
        let Some(process) = process::identity(pid) else { return Ok(None) };
        let is_there = !still_there(vec![pidfd.as_fd()], Duration::ZERO)?.is_empty();
        Ok(is_there.then_some(Found { pidfd, process, tag }))
    }

    /// The first of the tags in its environment; none when it has none or is gone.
    fn tag_of(&mut self, pid: u32) -> Result<Option<AttemptTag>, Errno> {
        let length = match self.read_settled(pid) {
            Ok(length) => length,
            Err(Errno::NOENT | Errno::SRCH) => return Ok(None),
            Err(error) => return Err(error),
        };
        let bytes = &self.bytes[..length];
        for at in self.variable.find_iter(bytes) {
            let begins_entry = at == 0 || bytes[at - 1] == 0;
            let value = &bytes[at + VARIABLE.len()..];
            let value = &value[..memchr::memchr(0, value).unwrap_or(value.len())];
            if begins_entry && self.tags.contains(value) {
                let text = std::str::from_utf8(value).expect("it equals a tag, which is text");
                return Ok(Some(AttemptTag::from_text(text)));
            }
        }
        Ok(None)
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
