//! Processes, as `/proc` shows them.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use relight_core::agent::AttemptTag;
use relight_core::lease::ProcessIdentity;
use relight_core::time::Span;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::param::clock_ticks_per_second;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open};

use crate::os::process::{TREE_PROCESSES_MAX, is_alive};
use crate::os::{attempts, clock, limits};

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

    /// Whether this is when it started.
    pub fn began_at(self, start: u64) -> bool {
        self.start == start
    }

    /// Whether it is neither stopped nor ended.
    pub fn is_acting(self) -> bool {
        self.is_alive() && self.state != 'T'
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
pub(crate) fn look(pid: u32) -> io::Result<Option<Stat>> {
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

/// Bytes of another process's environment that are read; the kernel's limit is far below.
const ENVIRONMENT_BYTES_MAX: u64 = 16 << 20;

/// The attempt that another process belongs to, by the environment that it was started with. Reading it
/// may block for as long as that process likes.
pub fn attempt_of(pid: u32) -> Option<AttemptTag> {
    let file = File::open(format!("/proc/{pid}/environ")).ok()?;
    let mut bytes = Vec::new();
    file.take(ENVIRONMENT_BYTES_MAX)
        .read_to_end(&mut bytes)
        .ok()?;
    let mut entries = bytes.split(|byte| *byte == 0);
    let value = entries.find_map(|entry| {
        entry
            .strip_prefix(attempts::VARIABLE.as_bytes())?
            .strip_prefix(b"=")
    })?;
    Some(AttemptTag::from_text(std::str::from_utf8(value).ok()?))
}

/// The boot that start times count from.
pub(crate) fn read_boot_id() -> io::Result<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    text.map(|text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::process::{command, identity};

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
}
