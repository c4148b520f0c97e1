//! Watches a process that need not be our child: whether and how it ended.
//!
//! For attempts whose shim is gone too. The kernel tells the exit of a process to whoever holds a
//! pidfd of it since before it was reaped (Linux 6.15 and later); before it is reaped, `/proc` tells.

#![expect(unsafe_code, reason = "one question to the kernel has no safe way")]

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use relight_core::agent::death::HowEnded;
use relight_core::lease::ProcessIdentity;
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::unix::AsyncFd;

use crate::os::{descriptor, process};

/// A process watched by its pidfd.
#[derive(Debug)]
pub struct ProcessWatch {
    pidfd: AsyncFd<OwnedFd>,
    process: ProcessIdentity,
}

impl ProcessWatch {
    /// Watches this process; none when it is gone or its pid was reused. Needs a Tokio runtime.
    pub fn new(process: &ProcessIdentity) -> io::Result<Option<Self>> {
        let Some(pidfd) = open(process)? else {
            return Ok(None);
        };
        Ok(Some(Self {
            pidfd: descriptor::readable(pidfd)?,
            process: process.clone(),
        }))
    }

    /// The watched process.
    pub fn process(&self) -> &ProcessIdentity {
        &self.process
    }

    /// Its pidfd, for signals.
    pub fn pidfd(&self) -> impl AsFd {
        self.pidfd.get_ref()
    }

    /// Resolves when it has ended, reaped or not.
    pub async fn gone(&self) -> io::Result<()> {
        // It stays readable, so the guard is dropped without clearing anything.
        self.pidfd.readable().await.map(drop)
    }

    /// How it ended; none while it lives or when that is unknown.
    pub fn exit(&self) -> Option<HowEnded> {
        let pidfd = self.pidfd.get_ref();
        let told = exit_of_reaped(pidfd).or_else(|| exit_of_zombie(&self.process));
        // It may have been reaped in between.
        told.or_else(|| exit_of_reaped(pidfd)).map(how_ended)
    }
}

/// Opens the pidfd first, then compares the identity, so that the pid cannot be reused in between.
fn open(process: &ProcessIdentity) -> io::Result<Option<OwnedFd>> {
    let Some(pid) = i32::try_from(process.pid).ok().and_then(Pid::from_raw) else {
        return Ok(None);
    };
    let pidfd = match pidfd_open(pid, PidfdFlags::NONBLOCK) {
        Ok(pidfd) => pidfd,
        Err(Errno::SRCH | Errno::INVAL) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    Ok(process::is_alive(process).then_some(pidfd))
}

/// The wait status of a process that was reaped.
fn exit_of_reaped(pidfd: &OwnedFd) -> Option<i32> {
    const ASK: Opcode = opcode::read_write::<PidfdInfo>(0xff, 11);
    let mut info = PidfdInfo {
        mask: PidfdInfo::EXIT,
        ..PidfdInfo::default()
    };
    // SAFETY: `ASK` is `PIDFD_GET_INFO`, whose number holds the size of its argument; the kernel
    // fills at most that many bytes of it, with integers. Another kind of descriptor, or a kernel
    // without it, answers with an error.
    let asked = unsafe { ioctl(pidfd, Updater::<ASK, PidfdInfo>::new(&mut info)) };
    let tells = asked.is_ok() && info.mask & PidfdInfo::EXIT != 0;
    tells.then_some(info.exit_code)
}

/// `struct pidfd_info` as its first version was; later ones only add to its end.
#[repr(C)]
#[derive(Debug, Default)]
struct PidfdInfo {
    mask: u64,
    cgroup: u64,
    pid: u32,
    tgid: u32,
    ppid: u32,
    users_and_groups: [u32; 8],
    exit_code: i32,
}

impl PidfdInfo {
    const EXIT: u64 = 1 << 3;
}

const _: () = assert!(
    size_of::<PidfdInfo>() == 64,
    "the size of the first version"
);

/// The wait status of a process that has ended and whose parent did not ask yet: the last field of
/// `/proc/PID/stat`. Start time and state say that it is this one.
fn exit_of_zombie(process: &ProcessIdentity) -> Option<i32> {
    let stat = std::fs::read(format!("/proc/{}/stat", process.pid)).ok()?;
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(stat.get(name_end + 2..)?).ok()?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let is_zombie = fields.first() == Some(&"Z");
    let is_same = fields.get(19)?.parse() == Ok(process.start);
    let status = fields.get(49)?.parse().ok()?;
    (is_zombie && is_same).then_some(status)
}

/// Interprets a wait status.
fn how_ended(status: i32) -> HowEnded {
    match status & 0x7f {
        0 => HowEnded::Code(status >> 8 & 0xff),
        signal => HowEnded::Signal(signal),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Child;

    use super::*;
    use crate::os::process::{command, identity};

    fn child(program: &str, arguments: &[&str]) -> (Child, ProcessIdentity) {
        let child = command(program, arguments).spawn().unwrap();
        let process = identity(child.id()).unwrap();
        (child, process)
    }

    async fn gone(watch: &ProcessWatch) {
        let bound = std::time::Duration::from_secs(30);
        tokio::time::timeout(bound, watch.gone())
            .await
            .expect("it ends soon")
            .unwrap();
    }

    /// Whether the kernel tells the exit of what was reaped; said loudly when it does not.
    fn kernel_tells() -> bool {
        let (mut child, process) = child("sleep", &["60"]);
        let pidfd = open(&process).unwrap().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let tells = exit_of_reaped(&pidfd) == Some(9);
        if !tells {
            eprintln!(
                "SKIPPED: this kernel does not tell the exit of a reaped process (6.15 does)"
            );
        }
        tells
    }

    #[tokio::test]
    async fn a_killed_process_is_gone_at_once_and_tells_its_signal_before_and_after_it_is_reaped() {
        let (mut child, process) = child("sleep", &["60"]);
        let watch = ProcessWatch::new(&process).unwrap().unwrap();
        assert_eq!(watch.exit(), None);
        child.kill().unwrap();
        gone(&watch).await;
        assert_eq!(watch.exit(), Some(HowEnded::Signal(9)));
        child.wait().unwrap();
        if kernel_tells() {
            assert_eq!(watch.exit(), Some(HowEnded::Signal(9)));
        }
    }

    #[tokio::test]
    async fn the_exit_code_of_a_grandchild_whose_parent_is_gone_is_told() {
        if !kernel_tells() {
            return;
        }
        let mut parent = command(
            "sh",
            &["-c", "exec 3<&0; sh -c 'read x <&3; exit 7' & echo $!"],
        )
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
        let input = parent.stdin.take().unwrap();
        let mut line = String::new();
        let output = parent.stdout.take().unwrap();
        io::BufRead::read_line(&mut io::BufReader::new(output), &mut line).unwrap();
        let process = identity(line.trim().parse().unwrap()).unwrap();
        let watch = ProcessWatch::new(&process).unwrap().unwrap();
        parent.wait().unwrap();
        drop(input);
        gone(&watch).await;
        assert_eq!(watch.exit(), Some(HowEnded::Code(7)));
    }

    #[tokio::test]
    async fn another_process_of_the_same_pid_is_not_watched() {
        let (mut child, process) = child("sleep", &["60"]);
        let other = ProcessIdentity {
            start: process.start - 1,
            ..process.clone()
        };
        assert!(ProcessWatch::new(&other).unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(ProcessWatch::new(&process).unwrap().is_none());
    }

    #[test]
    fn a_wait_status_is_a_code_or_a_signal() {
        for (status, how) in [
            (0, HowEnded::Code(0)),
            (7 << 8, HowEnded::Code(7)),
            (255 << 8, HowEnded::Code(255)),
            (9, HowEnded::Signal(9)),
            (11 | 0x80, HowEnded::Signal(11)),
        ] {
            assert_eq!(how_ended(status), how);
        }
    }
}
