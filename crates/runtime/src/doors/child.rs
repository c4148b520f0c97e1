//! Children of our own that must end in time.

use std::os::fd::AsFd as _;
use std::process::{Child, ExitStatus};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::time::Timespec;

/// Waits for a child; one that takes longer is killed. None when it did not end by itself.
pub fn wait_or_kill(child: &mut Child, at_most: Duration) -> Option<ExitStatus> {
    if ends_within(child, at_most) {
        return child.wait().ok();
    }
    // It may have ended just now.
    let _ = child.kill();
    let _ = child.wait();
    None
}

fn ends_within(child: &Child, at_most: Duration) -> bool {
    let Ok(pidfd) = pidfd_open(Pid::from_child(child), PidfdFlags::empty()) else { return false };
    let Ok(patience) = Timespec::try_from(at_most) else { return false };
    let mut ends = [PollFd::from_borrowed_fd(pidfd.as_fd(), PollFlags::IN)];
    poll(&mut ends, Some(&patience)).is_ok_and(|count| count > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doors::process::command;

    #[test]
    fn a_child_that_takes_too_long_is_killed() {
        let mut quick = command("true", &[] as &[&str]).spawn().unwrap();
        assert!(wait_or_kill(&mut quick, Duration::from_secs(30)).unwrap().success());
        let mut slow = command("sleep", &["1000"]).spawn().unwrap();
        assert_eq!(wait_or_kill(&mut slow, Duration::from_millis(10)), None);
    }
}
