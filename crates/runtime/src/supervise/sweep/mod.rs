//! Finds what an attempt left behind, and stops it.
//!
//! A process is ours when its environment has exactly the attempt's tag (`tag`), or when it holds the
//! agent's lock (`lock`), whatever its session, group or parent. It is signalled only through a pidfd
//! that was opened before the proof and the start time were read, and that was still alive after: a
//! pid that came to somebody else in between cannot be hit.
//!
//! Not found by either: what another user runs (counted), and what wrote over its environment and closed
//! the lock; for those there are the subreaper and the cgroup. Blocks: a supervisor calls it where it may.

mod lock;
mod tag;

use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use relight_core::agent::AttemptTag;
use relight_core::lease::ProcessIdentity;
use relight_core::time::Span;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Dir, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

pub use self::lock::Lock;
use self::tag::Tagged;
use crate::os::{clock, process};

/// Maximum number of scans; processes that fork faster are reported as survivors.
const KILL_ROUNDS_MAX: u32 = 100;

/// A live process of an attempt.
#[derive(Debug)]
pub struct TaggedProcess {
    /// Used to watch and signal it.
    pub pidfd: OwnedFd,
    /// Its identity.
    pub process: ProcessIdentity,
}

/// How a process is recognised.
#[derive(Debug, Clone)]
enum Proof {
    /// It carries one of these tags.
    Tags(Vec<AttemptTag>),
    /// It holds this lock.
    Lock(Lock),
}

impl Default for Proof {
    fn default() -> Self {
        Self::Tags(Vec::new())
    }
}

/// Result of a scan over all processes.
#[derive(Debug, Default)]
pub struct ProcessScan {
    proof: Proof,
    /// Matching processes, by pid.
    pub found: Vec<TaggedProcess>,
    /// Unreadable processes, almost always of other users.
    pub unreadable: u32,
    /// There are more processes than free descriptors; scan again when these are gone.
    pub more: bool,
}

/// Result of a sweep.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SweepOutcome {
    /// Number of stopped processes.
    pub stopped: u32,
    /// Processes that could not be stopped.
    pub survivors: Vec<ProcessIdentity>,
}

/// Finds every live process with one of the tags, except ourselves.
pub fn find(tags: &[AttemptTag]) -> io::Result<ProcessScan> {
    look(&Proof::Tags(tags.to_vec()), |_| {})
}

/// Finds and stops all of them; see [`stop`].
pub fn clear(tags: &[AttemptTag], grace: Span, kill: Span) -> io::Result<SweepOutcome> {
    stop(find(tags)?, grace, kill)
}

/// Finds and stops all processes that hold a lock, except ourselves and other supervisors and
/// shims; see [`stop`]. Call it only while nothing should hold the lock.
pub fn clear_lock(lock: &Lock, grace: Span, kill: Span) -> io::Result<SweepOutcome> {
    stop(look(&Proof::Lock(lock.clone()), |_| {})?, grace, kill)
}

/// Sends SIGTERM, waits for `grace`, sends SIGKILL and waits up to `kill`. Scans again after each
/// step until nothing is found, so that forked children are stopped too. No process gets SIGTERM
/// twice. A zombie counts as gone.
pub fn stop(scan: ProcessScan, grace: Span, kill: Span) -> io::Result<SweepOutcome> {
    let proof = scan.proof.clone();
    let mut met = SeenProcesses::default();
    if ask_to_end(scan, grace, &mut met)? || end_by_force(&proof, kill, &mut met)? {
        return Ok(met.swept(Vec::new()));
    }
    let left = look(&proof, |_| {})?.found;
    left.iter().for_each(|one| met.meet(one));
    Ok(met.swept(left))
}

/// All processes found in one sweep.
#[derive(Debug, Default)]
struct SeenProcesses(HashSet<(u32, u64)>);

impl SeenProcesses {
    fn meet(&mut self, one: &TaggedProcess) {
        self.0.insert((one.process.pid, one.process.start));
    }

    fn has(&self, one: &TaggedProcess) -> bool {
        self.0.contains(&(one.process.pid, one.process.start))
    }

    fn swept(&self, left: Vec<TaggedProcess>) -> SweepOutcome {
        let survivors: Vec<_> = left.into_iter().map(|one| one.process).collect();
        let stopped = self.0.len().saturating_sub(survivors.len());
        SweepOutcome {
            stopped: u32::try_from(stopped).unwrap_or(u32::MAX),
            survivors,
        }
    }
}

/// True when nothing is left.
fn ask_to_end(mut scan: ProcessScan, grace: Span, met: &mut SeenProcesses) -> io::Result<bool> {
    let deadline = clock::boot_ms().saturating_add(grace.as_ms());
    while !scan.found.is_empty() {
        for one in &scan.found {
            if !met.has(one) {
                met.meet(one);
                tell(one, Signal::TERM);
                // A stopped process only handles it when continued.
                tell(one, Signal::CONT);
            }
        }
        // The deadline also bounds a process that keeps forking.
        if !wait_until_gone(&scan.found, deadline)? || clock::boot_ms() >= deadline {
            return Ok(false);
        }
        let proof = std::mem::take(&mut scan.proof);
        drop(scan);
        scan = look(&proof, |_| {})?;
    }
    Ok(true)
}

/// True when nothing is left. Kills each process during the scan: pids grow, so a scan also finds
/// children forked before their parent was killed.
fn end_by_force(proof: &Proof, kill: Span, met: &mut SeenProcesses) -> io::Result<bool> {
    let deadline = clock::boot_ms().saturating_add(kill.as_ms());
    for _ in 0..KILL_ROUNDS_MAX {
        let scan = look(proof, |one| tell(one, Signal::KILL))?;
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

/// Ignores errors: a dead process needs no signal, and others are found again.
fn tell(one: &TaggedProcess, signal: Signal) {
    let _ = pidfd_send_signal(&one.pidfd, signal);
}

/// Waits until all have ended; false at the deadline.
fn wait_until_gone(there: &[TaggedProcess], deadline_ms: u64) -> io::Result<bool> {
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

/// The processes still running after one ended or the time passed.
fn still_there(there: Vec<BorrowedFd<'_>>, time: Duration) -> Result<Vec<BorrowedFd<'_>>, Errno> {
    if there.is_empty() {
        return Ok(there);
    }
    let mut polled: Vec<PollFd<'_>> = there
        .iter()
        .map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN))
        .collect();
    let time = Timespec::try_from(time).unwrap_or(Timespec {
        tv_sec: i64::MAX,
        tv_nsec: 0,
    });
    match poll(&mut polled, Some(&time)) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error),
    }
    let is_there: Vec<bool> = polled.iter().map(|fd| fd.revents().is_empty()).collect();
    Ok(there
        .into_iter()
        .zip(is_there)
        .filter_map(|(fd, is)| is.then_some(fd))
        .collect())
}

/// Scans all processes; `met` is called for each match at once.
fn look(proof: &Proof, met: impl FnMut(&TaggedProcess)) -> io::Result<ProcessScan> {
    match proof {
        Proof::Tags(tags) if tags.is_empty() => Ok(ProcessScan::default()),
        Proof::Tags(tags) => {
            let proc = Proc::open()?;
            let mut tagged = Tagged::new(&proc, tags);
            look_by(&proc, proof, |pid| tagged.is(pid), met)
        }
        Proof::Lock(lock) => {
            let proc = Proc::open()?;
            look_by(&proc, proof, |pid| lock.is_held_by(&proc, pid), met)
        }
    }
}

fn look_by(
    proc: &Proc,
    proof: &Proof,
    mut is_ours: impl FnMut(u32) -> Result<bool, Errno>,
    mut met: impl FnMut(&TaggedProcess),
) -> io::Result<ProcessScan> {
    let own = std::process::id();
    let mut scan = ProcessScan {
        proof: proof.clone(),
        ..ProcessScan::default()
    };
    for entry in Dir::read_from(&proc.folder)? {
        let entry = entry?;
        let Some(pid) = pid_of(entry.file_name().to_bytes()) else {
            continue;
        };
        if pid == own {
            continue;
        }
        match prove(pid, &mut is_ours) {
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

/// Proves that a process matches. After a first match the pidfd is opened, the match and identity
/// are read again, and the process must still live; so the pid was not reused meanwhile.
fn prove(
    pid: u32,
    is_ours: &mut impl FnMut(u32) -> Result<bool, Errno>,
) -> Result<Option<TaggedProcess>, Errno> {
    if !is_ours(pid)? {
        return Ok(None);
    }
    let Some(number) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return Ok(None);
    };
    let pidfd = match pidfd_open(number, PidfdFlags::empty()) {
        Ok(pidfd) => pidfd,
        Err(Errno::SRCH | Errno::INVAL) => return Ok(None),
        Err(error) => return Err(error),
    };
    // First, because it reports a lack of descriptors.
    if !is_ours(pid)? {
        return Ok(None);
    }
    let Some(process) = process::identity(pid) else {
        return Ok(None);
    };
    let is_there = !still_there(vec![pidfd.as_fd()], Duration::ZERO)?.is_empty();
    Ok(is_there.then_some(TaggedProcess { pidfd, process }))
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
        // Its pids would be those of another namespace.
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "/proc belongs to another pid namespace",
        ))
    }
}
