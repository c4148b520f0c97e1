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

/// A forker whose children outrun this many scans is left to the caller, by name.
const KILL_ROUNDS_MAX: u32 = 100;

/// A live process of ours.
#[derive(Debug)]
pub struct TaggedProcess {
    /// By which it is watched and signalled.
    pub pidfd: OwnedFd,
    /// Who it is.
    pub process: ProcessIdentity,
}

/// By what a process is known to be ours.
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

/// What one look over all processes gave.
#[derive(Debug, Default)]
pub struct Scan {
    proof: Proof,
    /// In the order of their pids.
    pub found: Vec<TaggedProcess>,
    /// Processes that cannot be looked at: almost always because they belong to others.
    pub unreadable: u32,
    /// There are more than descriptors to hold them; look again when these are gone.
    pub more: bool,
}

/// What became of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SweepOutcome {
    /// Processes that were there and are gone.
    pub stopped: u32,
    /// Processes that are still there.
    pub survivors: Vec<ProcessIdentity>,
}

/// Finds every live process that carries one of the tags, but not ourselves.
pub fn find(tags: &[AttemptTag]) -> io::Result<Scan> {
    look(&Proof::Tags(tags.to_vec()), |_| {})
}

/// Finds and stops all of them; see [`stop`].
pub fn clear(tags: &[AttemptTag], grace: Span, kill: Span) -> io::Result<SweepOutcome> {
    stop(find(tags)?, grace, kill)
}

/// Finds and stops all that hold a lock, but neither ourselves nor another supervisor or shim; see
/// [`stop`]. To be called while nothing may hold it.
pub fn clear_lock(lock: &Lock, grace: Span, kill: Span) -> io::Result<SweepOutcome> {
    stop(look(&Proof::Lock(lock.clone()), |_| {})?, grace, kill)
}

/// Tells them to end, waits for `grace`, ends them by force and waits for `kill` at most, and looks
/// again after each time until none is found: what they forked meanwhile goes as well.
/// Nobody is told twice to end. A zombie counts as gone.
pub fn stop(scan: Scan, grace: Span, kill: Span) -> io::Result<SweepOutcome> {
    let proof = scan.proof.clone();
    let mut met = SeenProcesses::default();
    if ask_to_end(scan, grace, &mut met)? || end_by_force(&proof, kill, &mut met)? {
        return Ok(met.swept(Vec::new()));
    }
    let left = look(&proof, |_| {})?.found;
    left.iter().for_each(|one| met.meet(one));
    Ok(met.swept(left))
}

/// Everyone that was met in one sweep.
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
        SweepOutcome { stopped: u32::try_from(stopped).unwrap_or(u32::MAX), survivors }
    }
}

/// True when nothing is left.
fn ask_to_end(mut scan: Scan, grace: Span, met: &mut SeenProcesses) -> io::Result<bool> {
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
        let proof = std::mem::take(&mut scan.proof);
        drop(scan);
        scan = look(&proof, |_| {})?;
    }
    Ok(true)
}

/// True when nothing is left. Each one is hit while the scan goes on: pids grow, so a scan meets
/// what was forked before its parent was hit.
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

/// One that is gone already needs no signal; one that may not be signalled is found again.
fn tell(one: &TaggedProcess, signal: Signal) {
    let _ = pidfd_send_signal(&one.pidfd, signal);
}

/// Waits for the end of all of them; false when one is still there at the deadline.
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
fn look(proof: &Proof, met: impl FnMut(&TaggedProcess)) -> io::Result<Scan> {
    match proof {
        Proof::Tags(tags) if tags.is_empty() => Ok(Scan::default()),
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
) -> io::Result<Scan> {
    let own = std::process::id();
    let mut scan = Scan { proof: proof.clone(), ..Scan::default() };
    for entry in Dir::read_from(&proc.folder)? {
        let entry = entry?;
        let Some(pid) = pid_of(entry.file_name().to_bytes()) else { continue };
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

/// Most processes are not ours, which one look says. Of the others the pidfd is opened, then it is
/// looked at again, and who it is, and then that it is still there: so the pid was its own all the while.
fn prove(
    pid: u32,
    is_ours: &mut impl FnMut(u32) -> Result<bool, Errno>,
) -> Result<Option<TaggedProcess>, Errno> {
    if !is_ours(pid)? {
        return Ok(None);
    }
    let Some(number) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Ok(None) };
    let pidfd = match pidfd_open(number, PidfdFlags::empty()) {
        Ok(pidfd) => pidfd,
        Err(Errno::SRCH | Errno::INVAL) => return Ok(None),
        Err(error) => return Err(error),
    };
    // This first: it says when there are no more descriptors.
    if !is_ours(pid)? {
        return Ok(None);
    }
    let Some(process) = process::identity(pid) else { return Ok(None) };
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
        // Its numbers would be other processes for us.
        Err(io::Error::new(io::ErrorKind::Unsupported, "/proc belongs to another pid namespace"))
    }
}
