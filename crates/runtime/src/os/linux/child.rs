//! The end of a child, by its pidfd.

use std::os::fd::AsFd as _;
use std::process::Child;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::time::Timespec;

use super::process_tree;
use crate::os::process;

/// Kills all below a child that was not reaped yet.
pub(crate) fn kill_below(child: &Child) {
    if let Some(root) = process::identity(child.id()) {
        process_tree::kill_below(&root);
    }
}

/// Whether a child ends in time. It is not reaped.
pub(crate) fn ends_within(child: &mut Child, at_most: Duration) -> bool {
    let Ok(pidfd) = pidfd_open(Pid::from_child(child), PidfdFlags::empty()) else {
        return false;
    };
    let Ok(patience) = Timespec::try_from(at_most) else {
        return false;
    };
    let mut ends = [PollFd::from_borrowed_fd(pidfd.as_fd(), PollFlags::IN)];
    poll(&mut ends, Some(&patience)).is_ok_and(|count| count > 0)
}
