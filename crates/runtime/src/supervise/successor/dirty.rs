//! Changed files, as `git status` tells them, within a bound of time and bytes.
//!
//! Takes no lock, writes no index, runs no monitor or hook, looks into no submodule. Whatever it started
//! is gone when it returns.

use std::io::Read as _;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use relight_core::agent::brief::{DIRTY_NAMES_MAX, DirtyFiles};
use relight_core::time::Span;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use crate::doors::{environment, process};

/// Thousands of names; a status that is longer is counted no further.
const STATUS_BYTES_MAX: usize = 1 << 20;
/// What git needs of our environment; what would point it elsewhere stays behind.
const PASSED_ON: [&str; 4] = ["PATH", "HOME", "XDG_CONFIG_HOME", "SYSTEMROOT"];
const ARGUMENTS: [&str; 12] = [
    "--no-optional-locks",
    "--no-pager",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.untrackedCache=keep",
    "status",
    "--porcelain=v1",
    "-z",
    "--ignore-submodules=dirty",
];

/// The changed and new files; none when git is absent, refuses, or takes longer than `wait`.
///
/// Blocks for so long at most: call it where nothing else is kept from running.
pub fn dirty_files(workspace: &Path, wait: Span) -> Option<DirtyFiles> {
    let timer = timer(wait).ok()?;
    let mut git = Running(git_status(workspace).spawn().ok()?);
    let (status, is_whole) = read_until(git.0.stdout.take()?, timer.as_fd())?;
    if is_whole && !git.ended_well(timer.as_fd())? {
        return None;
    }
    Some(parse(&status))
}

fn git_status(workspace: &Path) -> Command {
    let mut command = process::command("git", &ARGUMENTS);
    let passed_on = environment::variables().into_iter();
    command
        .current_dir(workspace)
        .env_clear()
        .envs(passed_on.filter(|(name, _)| PASSED_ON.iter().any(|known| name == *known)))
        .envs([
            ("GIT_OPTIONAL_LOCKS", "0"),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("LC_ALL", "C"),
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0);
    command
}

/// A child that does not outlive this, nor what it started in its group.
struct Running(Child);

impl Running {
    /// Whether it ended with success; none when the time is over first.
    fn ended_well(&mut self, timer: BorrowedFd<'_>) -> Option<bool> {
        let ended = pidfd_open(Pid::from_child(&self.0), PidfdFlags::empty()).ok()?;
        if !comes_before(ended.as_fd(), timer) {
            return None;
        }
        Some(self.0.wait().ok()?.success())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Not reaped yet or just reaped: its number is nobody else's before we return, and a group
        // that is gone cannot be hit.
        if let Ok(None) = self.0.try_wait() {
            let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
            let _ = self.0.wait();
        }
    }
}

/// Everything up to the end or the limit, and whether it was the end; none when the time is over.
fn read_until(mut from: ChildStdout, timer: BorrowedFd<'_>) -> Option<(Vec<u8>, bool)> {
    let mut bytes = Vec::new();
    let mut part = [0; 8 << 10];
    while bytes.len() < STATUS_BYTES_MAX {
        if !comes_before(from.as_fd(), timer) {
            return None;
        }
        match from.read(&mut part).ok()? {
            0 => return Some((bytes, true)),
            count => bytes.extend_from_slice(&part[..count]),
        }
    }
    Some((bytes, false))
}

/// Waits for one of both; whether the first is there.
fn comes_before(first: BorrowedFd<'_>, timer: BorrowedFd<'_>) -> bool {
    let mut both = [
        PollFd::from_borrowed_fd(first, PollFlags::IN),
        PollFd::from_borrowed_fd(timer, PollFlags::IN),
    ];
    loop {
        match poll(&mut both, None) {
            Ok(_) => return !both[0].revents().is_empty() && both[1].revents().is_empty(),
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

fn timer(wait: Span) -> rustix::io::Result<OwnedFd> {
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
    let never = Timespec { tv_sec: 0, tv_nsec: 0 };
    let wait = wait.as_duration();
    let it_value =
        Timespec { tv_sec: wait.as_secs().cast_signed(), tv_nsec: wait.subsec_nanos().into() };
    timerfd_settime(
        &timer,
        TimerfdTimerFlags::empty(),
        &Itimerspec { it_interval: never, it_value },
    )?;
    Ok(timer)
}

/// Entries end with NUL: two letters, a space, the name; a renamed one is followed by its old name.
fn parse(status: &[u8]) -> DirtyFiles {
    let mut found = DirtyFiles::default();
    let mut entries = status.split(|byte| *byte == 0);
    while let Some(entry) = entries.next() {
        let Some((letters, name)) = entry.split_at_checked(3) else { continue };
        if letters.starts_with(b"R") || letters.starts_with(b"C") {
            entries.next();
        }
        found.count += 1;
        if found.names.len() < DIRTY_NAMES_MAX {
            found.names.push(String::from_utf8_lossy(name).into_owned());
        }
    }
    found
}
