//! Processes: identity and liveness.
//!
//! A pid may be reused, so a process is identified by pid, start time and boot.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{LazyLock, Mutex, OnceLock, PoisonError};

use relight_core::lease::ProcessIdentity;
use relight_core::time::Span;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::param::clock_ticks_per_second;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, test_kill_process};

use super::{clock, fleet, limits};

/// The identity of a live process; none when there is no such process.
pub fn identity(pid: u32) -> Option<ProcessIdentity> {
    let stat = stat(pid)?;
    let node = fleet::node().cloned();
    stat.is_alive().then(|| ProcessIdentity {
        pid,
        start: stat.start,
        boot: boot_id(),
        node,
    })
}

/// This process. The first call needs a descriptor, so a supervisor calls [`know_me`] at its start.
pub fn me() -> &'static ProcessIdentity {
    loop {
        match know_me() {
            Ok(me) => return me,
            // A file will be closed; a guess could make others take this process for dead.
            Err(error) if limits::is_exhausted(&error) => pause(),
            Err(error) => panic!("this process cannot be found in /proc: {error}"),
        }
    }
}

/// This process, or why it cannot be determined.
pub fn know_me() -> io::Result<&'static ProcessIdentity> {
    // A fact of this process, read once; a forked process has that of its parent first.
    static ME: OnceLock<ProcessIdentity> = OnceLock::new();
    static FORKED: Mutex<Option<&'static ProcessIdentity>> = Mutex::new(None);
    let pid = std::process::id();
    let mut forked = None;
    match ME.get() {
        Some(me) if me.pid == pid => return Ok(me),
        Some(_) => {
            let known = FORKED.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(me) = known.filter(|me| me.pid == pid) {
                return Ok(me);
            }
            forked = Some(known);
        }
        None => {}
    }
    let stat = look(pid)?.ok_or(io::ErrorKind::NotFound)?;
    let node = fleet::node().cloned();
    let me = ProcessIdentity {
        pid,
        start: stat.start,
        boot: boot_id(),
        node,
    };
    if let Some(mut forked) = forked {
        return Ok(*forked.insert(Box::leak(Box::new(me))));
    }
    Ok(ME.get_or_init(|| me))
}

#[expect(
    clippy::disallowed_methods,
    reason = "nobody tells when a descriptor is free"
)]
fn pause() {
    std::thread::sleep(std::time::Duration::from_millis(10));
}

/// Whether a process is of this machine and this boot, so that it can be looked at.
pub fn is_local(process: &ProcessIdentity) -> bool {
    let is_of_node = process
        .node
        .as_ref()
        .is_none_or(|node| fleet::node() == Some(node));
    is_of_node && process.boot == boot_id()
}

/// Whether this process lives and runs on this machine; pids say nothing about other machines.
/// Without a free descriptor, any process with this pid counts.
pub fn is_alive(process: &ProcessIdentity) -> bool {
    if !is_local(process) {
        return false;
    }
    match look(process.pid) {
        Ok(stat) => stat.is_some_and(|stat| stat.is_alive() && stat.start == process.start),
        Err(_) => is_any(process.pid),
    }
}

/// Whether a process with this pid exists; needs no descriptor.
fn is_any(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH))
}

/// Whether this process is stopped (SIGSTOP).
pub fn is_stopped(process: &ProcessIdentity) -> bool {
    is_alive(process) && stat(process.pid).is_some_and(|stat| stat.state == 'T')
}

/// Waits for a killed process that is still exiting, up to `patience`. Returns whether it has
/// ended; false at once if it was not killed.
pub fn has_died_within(pid: u32, patience: Span) -> bool {
    let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let Some(Ok(process)) = raw.map(|pid| pidfd_open(pid, PidfdFlags::empty())) else {
        return stat(pid).is_none();
    };
    let is_dying = stat(pid).is_none_or(|stat| !stat.is_alive() || stat.is_exiting())
        || has_kill_pending(&status(pid));
    let limit = Timespec::try_from(patience.as_duration()).ok();
    let mut polled = [PollFd::new(&process, PollFlags::IN)];
    is_dying && poll(&mut polled, limit.as_ref()).is_ok_and(|ready| ready > 0)
}

fn status(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default()
}

/// Whether SIGKILL is pending for a process or its main thread.
fn has_kill_pending(status: &str) -> bool {
    let masks = status.lines().filter_map(|line| {
        let mask = line
            .strip_prefix("SigPnd:")
            .or_else(|| line.strip_prefix("ShdPnd:"))?;
        u64::from_str_radix(mask.trim(), 16).ok()
    });
    masks.fold(0, |all, mask| all | mask) & (1 << (Signal::KILL.as_raw() - 1)) != 0
}

/// Age of a process of this boot, by the boot clock.
pub fn age(process: &ProcessIdentity) -> Span {
    let started_ms = process.start.saturating_mul(1_000) / clock_ticks_per_second();
    Span::from_ms(clock::boot_ms().saturating_sub(started_ms))
}

/// A command without a shell, with our standard input.
#[expect(clippy::disallowed_methods, reason = "this is the door")]
pub fn command(program: impl AsRef<OsStr>, arguments: &[impl AsRef<OsStr>]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::inherit());
    command
}

/// The kernel's status of a process, including zombies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// The letter of its state.
    pub state: char,
    /// Its parent.
    pub parent: u32,
    /// Its process group.
    pub group: u32,
    /// Its session.
    pub session: u32,
    /// Kernel flags (`PF_…`).
    pub flags: u32,
    /// When it started, in ticks since boot.
    pub start: u64,
    /// CPU time of the process and its reaped children, in ticks.
    pub cpu_ticks: u64,
}

impl Stat {
    /// Whether it still runs, waits or is stopped.
    pub fn is_alive(self) -> bool {
        !matches!(self.state, 'Z' | 'X')
    }

    /// Whether it is exiting (`PF_EXITING`).
    fn is_exiting(self) -> bool {
        self.flags & 4 != 0
    }
}

/// The kernel's status of a process; none when it does not exist.
pub fn stat(pid: u32) -> Option<Stat> {
    look(pid).ok().flatten()
}

/// The same, with errors.
fn look(pid: u32) -> io::Result<Option<Stat>> {
    match std::fs::read(format!("/proc/{pid}/stat")) {
        Ok(stat) => Ok(read_stat(&stat)),
        Err(error) if limits::is_exhausted(&error) => Err(error),
        Err(_) => Ok(None),
    }
}

/// The name may contain anything, so fields are counted from the last parenthesis.
fn read_stat(stat: &[u8]) -> Option<Stat> {
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(stat.get(name_end + 2..)?).ok()?;
    let mut fields = rest.split(' ');
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    // A group of another PID namespace is shown as 0, no group as -1.
    let group = fields.next()?.parse().unwrap_or(0);
    let session = fields.next()?.parse().unwrap_or(0);
    let flags = fields.nth(2)?.parse().ok()?;
    let mut times = fields.skip(4);
    // User and system time: its own, then those of children that it waited for.
    let cpu_ticks = times
        .by_ref()
        .take(4)
        .filter_map(|ticks| ticks.parse::<u64>().ok())
        .sum();
    let start = times.nth(4)?.parse().ok()?;
    Some(Stat {
        state,
        parent,
        group,
        session,
        flags,
        start,
        cpu_ticks,
    })
}

/// CPU and I/O use of a process and its descendants. Only meaningful in comparison with another
/// reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TreeUsage {
    cpu_ticks: u64,
    io_bytes: u64,
    processes: usize,
}

/// Maximum number of processes examined per tree.
const TREE_PROCESSES_MAX: usize = 1_000;

/// Usage of the tree of this process; none when it does not exist.
pub fn tree_usage(root: u32) -> Option<TreeUsage> {
    stat(root).filter(|stat| stat.is_alive())?;
    let mut usage = TreeUsage::default();
    let mut open = vec![root];
    while let Some(pid) = open.pop().filter(|_| usage.processes < TREE_PROCESSES_MAX) {
        let Some(stat) = stat(pid) else { continue };
        usage.processes += 1;
        usage.cpu_ticks = usage.cpu_ticks.saturating_add(stat.cpu_ticks);
        usage.io_bytes = usage.io_bytes.saturating_add(io_bytes(pid));
        open.extend(children(pid));
    }
    Some(usage)
}

/// Bytes read and written; 0 without permission.
fn io_bytes(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    let counted = text.lines().filter_map(|line| {
        line.strip_prefix("rchar: ")
            .or_else(|| line.strip_prefix("wchar: "))?
            .parse::<u64>()
            .ok()
    });
    counted.fold(0, u64::saturating_add)
}

/// Whether this process is that one or a descendant of it.
pub fn is_below(process: &ProcessIdentity) -> bool {
    has_below(process, std::process::id())
}

/// Whether a process is the same as another or a descendant of it.
pub fn has_below(process: &ProcessIdentity, mut pid: u32) -> bool {
    if !is_alive(process) {
        return false;
    }
    // A parent that ends meanwhile could make a ring of pids that are used again.
    for _ in 0..TREE_PROCESSES_MAX {
        if pid == process.pid {
            return true;
        }
        match stat(pid) {
            Some(stat) if stat.parent > 0 => pid = stat.parent,
            _ => return false,
        }
    }
    false
}

/// The nearest ancestor of this process that is not a shell: who called, where a shell is between.
pub fn caller() -> Option<u32> {
    const SHELLS: [&str; 7] = ["sh", "bash", "dash", "zsh", "ash", "busybox", "timeout"];
    let mut pid = stat(std::process::id())?.parent;
    for _ in 0..TREE_PROCESSES_MAX {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        if !SHELLS.contains(&name.trim_end()) {
            break;
        }
        pid = stat(pid)?.parent;
    }
    (pid > 1).then_some(pid)
}

/// The children of a process, as far as they can be listed while they come and go.
pub fn children(pid: u32) -> Vec<u32> {
    let kernel_lists_them = Path::new("/proc/thread-self/children").exists();
    if !kernel_lists_them {
        return all()
            .filter(|other| stat(*other).is_some_and(|s| s.parent == pid))
            .collect();
    }
    let threads = numbers_in(format!("/proc/{pid}/task"));
    let lists = threads.filter_map(|thread| {
        std::fs::read_to_string(format!("/proc/{pid}/task/{thread}/children")).ok()
    });
    lists
        .flat_map(|list| {
            list.split(' ')
                .filter_map(|p| p.parse().ok())
                .collect::<Vec<_>>()
        })
        .collect()
}

/// The live processes of a session or a group, which outlive whoever led it.
pub fn in_session_or_group(session: Option<u32>, group: Option<u32>) -> Vec<u32> {
    let is_in = |stat: Stat| {
        let is_one = Some(stat.session) == session || Some(stat.group) == group;
        is_one && stat.is_alive()
    };
    all().filter(|pid| stat(*pid).is_some_and(is_in)).collect()
}

/// Every process there is.
fn all() -> impl Iterator<Item = u32> {
    numbers_in("/proc".to_owned())
}

fn numbers_in(folder: String) -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The boot that start times count from; no process sees two of them.
pub fn boot_id() -> String {
    // A fact of this machine, read once.
    static BOOT: LazyLock<String> = LazyLock::new(|| {
        loop {
            match std::fs::read_to_string("/proc/sys/kernel/random/boot_id") {
                Ok(text) => return text.trim().to_owned(),
                // None at all would be another boot for everybody else.
                Err(error) if limits::is_exhausted(&error) => pause(),
                Err(_) => return String::new(),
            }
        }
    });
    BOOT.clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_pid_start_and_boot() {
        let me = identity(std::process::id()).unwrap();
        assert!(is_alive(&me));
        assert!(!is_alive(&ProcessIdentity {
            start: me.start + 1,
            ..me.clone()
        }));
        assert!(!is_alive(&ProcessIdentity {
            boot: "another".to_owned(),
            ..me
        }));
        assert_eq!(identity(0), None);
    }

    #[test]
    fn the_age_of_a_process_does_not_follow_the_wall_clock() {
        let me = identity(std::process::id()).unwrap();
        assert!(age(&me) < Span::from_secs(600));
        assert!(
            age(&ProcessIdentity {
                start: 0,
                ..me.clone()
            }) > age(&me)
        );
    }

    #[test]
    fn a_name_full_of_parentheses_does_not_move_the_fields() {
        let line = b"7 (a) Z 1 (x) S 5 6 6 0 -1 4 1 2 3 4 5 6 7 8 20 0 1 0 99 1000 10";
        let stat = read_stat(line).unwrap();
        let (parent, group, session) = (5, 6, 6);
        let wanted = Stat {
            state: 'S',
            parent,
            group,
            session,
            flags: 4,
            start: 99,
            cpu_ticks: 26,
        };
        assert_eq!(stat, wanted);
        assert!(stat.is_exiting());
    }

    #[test]
    fn only_a_process_that_was_killed_is_waited_for() {
        let mut child = command("sleep", &["60"]).spawn().unwrap();
        assert!(
            !has_died_within(child.id(), Span::from_secs(60)),
            "it lives on"
        );
        child.kill().unwrap();
        assert!(has_died_within(child.id(), Span::from_secs(60)));
        child.wait().unwrap();
        assert!(
            has_died_within(child.id(), Span::from_secs(60)),
            "there is no such process"
        );
        assert!(has_kill_pending(
            "Name:\tx\nSigPnd:\t0000000000000100\nShdPnd:\t0\n"
        ));
        assert!(!has_kill_pending(
            "SigPnd:\t0000000000004000\nShdPnd:\t0000000000000002\n"
        ));
    }

    #[test]
    fn a_child_is_listed_with_its_parent() {
        let mut child = command("sleep", &["60"]).spawn().unwrap();
        let listed = children(std::process::id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(listed.contains(&child.id()));
    }

    #[test]
    fn a_zombie_is_dead() {
        let mut child = command("true", &[] as &[&str]).spawn().unwrap();
        let pid = child.id();
        let exited = rustix::process::waitid(
            rustix::process::WaitId::Pid(rustix::process::Pid::from_child(&child)),
            rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT,
        );
        assert!(exited.is_ok());
        assert_eq!(identity(pid), None);
        child.wait().unwrap();
    }
}
