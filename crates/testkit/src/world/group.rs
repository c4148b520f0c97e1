//! A process and all that it starts: spawned in a group of its own, waited for as a whole.
//!
//! The prover is the subreaper, so orphans come to it and none is left when `wait_for_all` returns.

use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, kill_process, kill_process_group, pidfd_open, waitpgid,
};

use super::clock;

/// Tries to find a process outside of a write.
const STOPS_MAX: u32 = 50;

/// A running group.
#[derive(Debug)]
pub struct Group {
    leader: Pid,
    code: Option<i32>,
}

/// Makes this process the one that orphans come to. Once, before the first group.
pub fn adopt_orphans() -> anyhow::Result<()> {
    let me = rustix::process::getpid();
    rustix::process::set_child_subreaper(Some(me)).context("cannot become the subreaper")
}

/// Waits until a child that was not reaped has ended or the time is up; whether it has ended.
pub fn ends_within(child: Pid, span: Duration) -> anyhow::Result<bool> {
    let pidfd = pidfd_open(child, PidfdFlags::empty()).context("no pidfd")?;
    let limit = Timespec::try_from(span).context("a span that long")?;
    let mut wanted = [PollFd::new(&pidfd, PollFlags::IN)];
    Ok(poll(&mut wanted, Some(&limit)).context("cannot poll")? > 0)
}

impl Group {
    /// Starts a command as the leader of its own group.
    pub fn spawn(command: &mut Command) -> anyhow::Result<Self> {
        command.process_group(0);
        let child = command
            .spawn()
            .with_context(|| format!("cannot start {command:?}"))?;
        Ok(Self {
            leader: Pid::from_child(&child),
            code: None,
        })
    }

    /// The leader.
    pub fn leader(&self) -> Pid {
        self.leader
    }

    /// Waits until the leader has ended or the time is up; whether it has ended.
    pub fn leader_ends_within(&self, span: Duration) -> anyhow::Result<bool> {
        ends_within(self.leader, span)
    }

    /// Kills every member.
    pub fn kill_all(&self) {
        let _ = kill_process_group(self.leader, Signal::KILL);
    }

    /// Stops every member where it is.
    pub fn stop_all(&self) {
        let _ = kill_process_group(self.leader, Signal::STOP);
    }

    /// Stops every member where the leader does not write: one who is frozen while it writes keeps
    /// SQLite's lock, and everybody waits.
    pub fn stop_outside_of_a_write(&self) -> anyhow::Result<()> {
        let pid = self.leader.as_raw_nonzero().to_string();
        for tries in 1..=STOPS_MAX {
            kill_process_group(self.leader, Signal::STOP)?;
            clock::pause(Duration::from_millis(2));
            let locks = std::fs::read_to_string("/proc/locks")?;
            let writes = |line: &str| {
                let fields: Vec<&str> = line.split_whitespace().collect();
                matches!(fields[..], [_, "POSIX", _, "WRITE", of, ..] if of == pid)
            };
            if !locks.lines().any(writes) {
                return Ok(());
            }
            kill_process_group(self.leader, Signal::CONT)?;
            // A slow disk makes a write long: it gets more time each time.
            clock::pause(Duration::from_millis(u64::from(tries)));
        }
        anyhow::bail!("it wrote every time it was stopped")
    }

    /// Kills the leader alone.
    pub fn kill_leader(&self) {
        let _ = kill_process(self.leader, Signal::KILL);
    }

    /// The members whose program is the one at this path.
    pub fn members_running(&self, program: &std::path::Path) -> Vec<Pid> {
        let children = |pid: Pid| {
            let pid = pid.as_raw_nonzero();
            let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
            let text = text.unwrap_or_default();
            text.split(' ')
                .filter_map(|pid| Pid::from_raw(pid.parse().ok()?))
                .collect::<Vec<_>>()
        };
        let runs = |pid: &Pid| {
            std::fs::read_link(format!("/proc/{}/exe", pid.as_raw_nonzero()))
                .is_ok_and(|found| found == program)
        };
        children(self.leader).into_iter().filter(runs).collect()
    }

    /// Waits until no member is left, killing those that outlast the limit. The exit code is the
    /// leader's, 128+n for a signal; whether the limit was enough stands beside it.
    pub fn wait_for_all(mut self, limit: Duration) -> anyhow::Result<(i32, bool)> {
        let end = clock::now() + limit;
        let mut in_time = true;
        loop {
            match waitpgid(self.leader, WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.leader => {
                    let signal = || status.terminating_signal().map(|signal| 128 + signal);
                    self.code = status.exit_status().or_else(signal);
                }
                Ok(Some(_)) => {}
                Ok(None) => {
                    if clock::now() > end {
                        in_time = false;
                        self.kill_all();
                    }
                    clock::pause(Duration::from_micros(300));
                }
                Err(rustix::io::Errno::CHILD) => break,
                Err(error) => return Err(error).context("cannot wait for the group"),
            }
        }
        Ok((self.code.context("the leader's end was not seen")?, in_time))
    }
}
