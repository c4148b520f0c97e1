//! Processes: who one is, and whether it still lives.
//!
//! A pid alone may belong to somebody else by now; the start time and the boot it counts from make
//! it one process.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use relight_core::lease::{Held, Holder, HolderLife, ProcessIdentity};

/// The identity of a live process; none when there is no such process.
pub fn identity(pid: u32) -> Option<ProcessIdentity> {
    let (state, start) = state_and_start(pid)?;
    let dead = matches!(state, 'Z' | 'X');
    (!dead).then(|| ProcessIdentity { pid, start, boot: boot_id() })
}

/// Whether that very process still lives.
pub fn is_alive(process: &ProcessIdentity) -> bool {
    identity(process.pid).as_ref() == Some(process)
}

/// Whether the holder of a lease lives, as far as this machine can tell.
pub fn holder_life(held: &Held) -> HolderLife {
    let alive = match &held.holder {
        Holder::Process(process) => is_alive(process),
        Holder::Attempt { shim, .. } => is_alive(shim),
        Holder::Time { .. } => held.left.is_none_or(|left| left.as_ms() > 0),
    };
    if alive { HolderLife::Alive } else { HolderLife::Gone }
}

/// A command that takes its arguments as they are: no shell, standard input as ours.
#[expect(clippy::disallowed_methods, reason = "this is the door")]
pub fn command(program: impl AsRef<OsStr>, arguments: &[impl AsRef<OsStr>]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::inherit());
    command
}

/// The state letter and the start time of `/proc/PID/stat`. The name before them may hold anything,
/// so the fields are counted from the last parenthesis.
fn state_and_start(pid: u32) -> Option<(char, u64)> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(stat.get(name_end + 2..)?).ok()?;
    let mut fields = rest.split(' ');
    let state = fields.next()?.chars().next()?;
    let start = fields.nth(18)?.parse().ok()?;
    Some((state, start))
}

fn boot_id() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_pid_start_and_boot() {
        let me = identity(std::process::id()).unwrap();
        assert!(is_alive(&me));
        assert!(!is_alive(&ProcessIdentity { start: me.start + 1, ..me.clone() }));
        assert!(!is_alive(&ProcessIdentity { boot: "another".to_owned(), ..me }));
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
