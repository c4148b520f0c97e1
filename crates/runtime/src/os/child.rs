//! Child processes with a time limit.

use std::process::{Child, ExitStatus};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use super::system::child::{ends_within, kill_below};

/// Waits for a child and kills it after the time limit. None when it was killed.
pub fn wait_or_kill(child: &mut Child, at_most: Duration) -> Option<ExitStatus> {
    if ends_within(child, at_most) {
        return child.wait().ok();
    }
    // It may have just ended.
    let _ = child.kill();
    let _ = child.wait();
    None
}

/// Like `wait_or_kill`, for a child that leads a process group: the group and all below the child are killed.
pub fn wait_or_kill_group(child: &mut Child, at_most: Duration) -> Option<ExitStatus> {
    if ends_within(child, at_most) {
        return child.wait().ok();
    }
    // Not reaped yet, so the pid is still its own.
    kill_below(child);
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
    let _ = child.wait();
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::process::command;

    #[test]
    fn a_child_that_takes_too_long_is_killed() {
        let mut quick = command("true", &[] as &[&str]).spawn().unwrap();
        assert!(
            wait_or_kill(&mut quick, Duration::from_secs(30))
                .unwrap()
                .success()
        );
        let mut slow = command("sleep", &["1000"]).spawn().unwrap();
        assert_eq!(wait_or_kill(&mut slow, Duration::from_millis(10)), None);
    }

    #[test]
    fn what_a_slow_leader_started_is_killed_with_it() {
        use std::io::Read as _;
        use std::os::unix::process::CommandExt as _;
        let apart = match cfg!(feature = "portable") {
            true => "",
            false => "setsid ",
        };
        let script = format!("{apart}sleep 1000 & sleep 1000");
        let mut leader = command("sh", &["-c", &script]);
        leader.process_group(0).stdout(std::process::Stdio::piped());
        let mut leader = leader.spawn().unwrap();
        let mut held_open = leader.stdout.take().unwrap();
        assert_eq!(
            wait_or_kill_group(&mut leader, Duration::from_millis(50)),
            None
        );
        // Ends only when nobody of the group has it open any more.
        held_open.read_to_end(&mut Vec::new()).unwrap();
    }
}
