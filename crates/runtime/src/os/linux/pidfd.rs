//! Processes by pidfd, which is safe against pid reuse.
//!
//! Open first, then compare the identity: if it matches after opening, the handle refers to that
//! process.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use relight_core::lease::ProcessIdentity;
use relight_core::time::Span;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::os::{descriptor, process};

/// A handle to the current process with this pid.
pub fn open(pid: u32) -> io::Result<OwnedFd> {
    let pid = i32::try_from(pid)
        .ok()
        .and_then(Pid::from_raw)
        .ok_or(io::ErrorKind::NotFound)?;
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

/// A handle to this process; none when it is gone.
pub fn open_identified(identity: &ProcessIdentity) -> io::Result<Option<OwnedFd>> {
    match open(identity.pid) {
        Ok(handle) => Ok(process::is_alive(identity).then_some(handle)),
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Sends a signal; false when the process is gone.
pub fn signal(handle: impl AsFd, signal: Signal) -> io::Result<bool> {
    match pidfd_send_signal(handle, signal).map_err(io::Error::from) {
        Ok(()) => Ok(true),
        Err(error) if is_gone(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Continues this process if it was stopped (SIGSTOP). Returns whether it was.
pub fn continue_stopped(identity: &ProcessIdentity) -> bool {
    let Ok(Some(handle)) = open_identified(identity) else {
        return false;
    };
    process::is_stopped(identity) && matches!(signal(&handle, Signal::CONT), Ok(true))
}

/// Whether the process has ended, reaped or not.
pub fn has_ended(handle: impl AsFd) -> bool {
    ends_within(handle, Span::ZERO)
}

/// Waits for the end of the process with a time limit. Returns whether it ended. Blocks.
pub fn ends_within(handle: impl AsFd, at_most: Span) -> bool {
    let limit = Timespec::try_from(at_most.as_duration()).ok();
    let mut waiting = [PollFd::new(&handle, PollFlags::IN)];
    poll(&mut waiting, limit.as_ref()) == Ok(1)
}

/// Waits until the process has ended, reaped or not. Needs a Tokio runtime.
pub async fn ended(handle: OwnedFd) -> io::Result<()> {
    descriptor::readable(handle)?
        .readable()
        .await?
        .retain_ready();
    Ok(())
}

/// A descriptor that is readable once one of these processes has ended. They must stay open.
pub fn any_ended(handles: &[OwnedFd]) -> io::Result<OwnedFd> {
    let any = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for handle in handles {
        epoll::add(
            &any,
            handle,
            epoll::EventData::new_u64(0),
            epoll::EventFlags::IN,
        )?;
    }
    Ok(any)
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_tells_the_end_and_refuses_what_has_only_the_same_pid() {
        let mut child = process::command("sleep", &["60"]).spawn().unwrap();
        let identity = process::identity(child.id()).unwrap();
        let another = ProcessIdentity {
            start: identity.start + 1,
            ..identity.clone()
        };
        assert!(open_identified(&another).unwrap().is_none());

        let handle = open_identified(&identity).unwrap().unwrap();
        assert!(!has_ended(&handle));
        assert!(signal(&handle, Signal::KILL).unwrap());
        child.wait().unwrap();
        assert!(has_ended(&handle));
        assert!(!signal(&handle, Signal::KILL).unwrap());
        assert!(open_identified(&identity).unwrap().is_none());
    }
}
