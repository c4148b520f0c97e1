//! Processes: identity and liveness.
//!
//! A pid may be reused, so a process is identified by pid, start time and boot.

use std::ffi::OsStr;
use std::io;
use std::process::{Command, Stdio};
use std::sync::{LazyLock, Mutex, OnceLock, PoisonError};

use relight_core::lease::ProcessIdentity;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

pub use super::system::process::*;
use super::system::process::{look, read_boot_id};
use super::{fleet, limits};

/// Maximum number of processes examined per tree.
pub(super) const TREE_PROCESSES_MAX: usize = 1_000;

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
            Err(error) => panic!("this process cannot be found: {error}"),
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
        Ok(stat) => stat.is_some_and(|stat| stat.is_alive() && stat.began_at(process.start)),
        Err(_) => is_any(process.pid),
    }
}

/// Whether a process with this pid exists; needs no descriptor.
pub(super) fn is_any(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH))
}

/// A command without a shell, with our standard input.
#[expect(clippy::disallowed_methods, reason = "this is the door")]
pub fn command(program: impl AsRef<OsStr>, arguments: &[impl AsRef<OsStr>]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::inherit());
    command
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

/// The boot that start times count from; no process sees two of them.
pub fn boot_id() -> String {
    // A fact of this machine, read once.
    static BOOT: LazyLock<String> = LazyLock::new(|| {
        loop {
            match read_boot_id() {
                Ok(boot) => return boot,
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
            start: me.start + 10,
            ..me.clone()
        }));
        assert!(!is_alive(&ProcessIdentity {
            boot: "another".to_owned(),
            ..me
        }));
        assert_eq!(identity(0), None);
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
