//! Changed files, as `git status` tells them, within a bound of time and bytes.
//!
//! An agent can write the configuration and the attributes of its repository, and git would run what they
//! name: filters, monitors, hooks, helpers that fetch. So git is given a repository of our own that has
//! the index, refs and objects of the agent's, and none of its configuration. It runs as the agent's
//! user, in the attempt's cgroup and under its tag. It takes no lock, writes no index and looks into no
//! submodule; it is gone when the call returns.

use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use relight_core::agent::AttemptTag;
use relight_core::agent::brief::{DIRTY_NAMES_MAX, DirtyFiles};
use relight_core::time::Span;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use crate::git_state::Repository;
use crate::os::word::Word;
use crate::os::{environment, process, random};
use crate::supervise::folder::AgentFolder;
use crate::supervise::program;

/// Thousands of names; a status that is longer is counted no further.
const STATUS_BYTES_MAX: usize = 1 << 20;
/// The command line counts before every configuration.
const ARGUMENTS: [&str; 10] = [
    "--no-optional-locks",
    "--no-pager",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.hooksPath=/dev/null",
    "status",
    "--porcelain=v1",
    "-z",
    "--ignore-submodules=dirty",
];
/// No other configuration, no prompt, no fetch of what is missing.
const VARIABLES: [(&str, &str); 8] = [
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("LC_ALL", "C"),
];
/// What of its own a private repository begins its name with, in the folder of an agent.
pub(super) const PRIVATE: &str = "git";

/// For whom git is asked: it has no more rights than that attempt.
#[derive(Debug, Clone)]
pub struct Asker {
    /// Where our own repository is made, unless the agent has a user of its own.
    pub folder: AgentFolder,
    /// The user and group of the agent, where those are not ours.
    pub user: Option<(u32, u32)>,
    /// By which it is found, should we die meanwhile.
    pub tag: AttemptTag,
    /// Where it is counted, and killed with the rest.
    pub cgroup: Option<PathBuf>,
}

/// The changed and new files; none when git is absent, refuses, or takes longer than `wait`.
///
/// Blocks for so long at most: call it where nothing else is kept from running.
pub fn dirty_files(workspace: &Path, wait: Span, asker: &Asker) -> Option<DirtyFiles> {
    let timer = timer(wait).ok()?;
    let repository = Repository::of(workspace)?;
    let private = Private::of(&repository, asker).ok()?;
    let mut git = Running(status_of(&repository, &private, asker)?.spawn().ok()?);
    if let Some(cgroup) = &asker.cgroup {
        std::fs::write(cgroup.join("cgroup.procs"), git.0.id().to_string()).ok()?;
    }
    let (status, is_whole) = read_until(git.0.stdout.take()?, timer.as_fd())?;
    if is_whole && !git.ended_well(timer.as_fd())? {
        return None;
    }
    Some(parse(&status))
}

/// Found in our own `PATH`, never in the workspace; git itself gets none.
fn status_of(repository: &Repository, private: &Private, asker: &Asker) -> Option<Command> {
    let path = environment::variables()
        .into_iter()
        .filter(|(name, _)| name == "PATH");
    let path: Vec<(Word, Word)> = path
        .map(|(name, value)| (name.as_os_str().into(), value.as_os_str().into()))
        .collect();
    let program = program::find(OsStr::new("git"), &path, Path::new("/")).ok()?;
    let mut command = process::command(program, &ARGUMENTS);
    command
        .current_dir(&private.0)
        .env_clear()
        .envs(VARIABLES)
        .env("GIT_DIR", &private.0)
        .env("GIT_WORK_TREE", &repository.root)
        .env("GIT_INDEX_FILE", repository.own.join("index"))
        .env("HOME", &private.0)
        .env("RELIGHT_ATTEMPT", asker.tag.as_str())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0);
    if let Some((user, group)) = asker.user {
        command.uid(user).gid(group);
    }
    Some(command)
}

/// A repository of our own around the refs and objects of another: links to those, which git follows
/// with its own rights, and a configuration that nobody else wrote. Gone when it is dropped.
struct Private(PathBuf);

impl Private {
    fn of(repository: &Repository, asker: &Asker) -> io::Result<Self> {
        let own = asker
            .user
            .filter(|(user, _)| *user != rustix::process::geteuid().as_raw());
        let above = match own {
            None => asker.folder.path().to_owned(),
            // The folder of the agent is closed to the agent's user.
            Some(_) => std::env::temp_dir(),
        };
        let number = random::number();
        let name = format!("{PRIVATE}.tmp-{}-{number}", std::process::id());
        let folder = above.join(if own.is_some() {
            format!("relight-{name}")
        } else {
            name
        });
        std::fs::DirBuilder::new().mode(0o750).create(&folder)?;
        let private = Self(folder);
        let group = own.map(|(_, group)| group);
        std::os::unix::fs::chown(&private.0, None, group)?;
        let head = repository.head_line().ok_or(io::ErrorKind::InvalidData)?;
        for (name, text) in [("HEAD", head), ("config", repository.plain_config())] {
            let mut options = std::fs::OpenOptions::new();
            let file = options.write(true).create_new(true).mode(0o640);
            let mut file = file.open(private.0.join(name))?;
            io::Write::write_all(&mut file, text.as_bytes())?;
            std::os::unix::fs::fchown(&file, None, group)?;
        }
        for name in ["refs", "packed-refs", "objects", "info"] {
            symlink(repository.common.join(name), private.0.join(name))?;
        }
        Ok(private)
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        // What stays is swept with the other leftovers of the agent.
        let _ = std::fs::remove_dir_all(&self.0);
    }
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
    let never = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let wait = wait.as_duration();
    let it_value = Timespec {
        tv_sec: wait.as_secs().cast_signed(),
        tv_nsec: wait.subsec_nanos().into(),
    };
    timerfd_settime(
        &timer,
        TimerfdTimerFlags::empty(),
        &Itimerspec {
            it_interval: never,
            it_value,
        },
    )?;
    Ok(timer)
}

/// Entries end with NUL: two letters, a space, the name; a renamed one is followed by its old name.
fn parse(status: &[u8]) -> DirtyFiles {
    let mut found = DirtyFiles::default();
    let mut entries = status.split(|byte| *byte == 0);
    while let Some(entry) = entries.next() {
        let Some((letters, name)) = entry.split_at_checked(3) else {
            continue;
        };
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
