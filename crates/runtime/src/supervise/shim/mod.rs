//! The shim: parent and subreaper of one agent's processes, in its own session, with the agent's
//! lock.
//!
//! Started by the supervisor as `relight __shim FOLDER`, with the control connection as its
//! standard input. One thread with one `poll`, woken only by deaths, orders and the signals of a
//! stop. It serves several attempts while a supervisor is connected; without one it exits with its
//! attempt.

mod attempt;
mod cgroup;
pub mod client;
mod event_loop;
mod ladder;
mod launch;
mod lease_deadline;
mod peers;
pub mod record;
mod signals;
mod system;
pub mod wire;

use std::fs::{File, Permissions};
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::ExitCode;

use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use crate::os::process;
use crate::supervise::folder::AgentFolder;
use cgroup::ShimCgroup;
use event_loop::Shim;
use lease_deadline::DeadlineGuard;
use peers::Peers;

/// The argument that makes the `relight` binary a shim.
pub const ARGUMENT: &str = "__shim";

/// Scripts use small descriptor numbers for their own files (`exec 3>`, `flock 9`, `flock 200`),
/// which would close the lock.
const LOCK_FD_MIN: i32 = 300;

/// Runs a shim; the second argument is the agent's folder. Call it first in `main`, because it
/// closes open files.
///
/// Errors are not reported; the supervisor sees its connection end.
pub fn main() -> ExitCode {
    system::close_inherited_files();
    let Some(folder) = std::env::args_os().nth(2) else {
        return ExitCode::from(2);
    };
    let folder = AgentFolder::at(folder.into());
    let lived = begin(folder).and_then(Shim::live);
    if lived.is_ok() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn begin(folder: AgentFolder) -> io::Result<Shim> {
    let deaths = signals::install()?;
    rustix::thread::set_name(c"relight-shim")?;
    // Moved away from standard input, so that agents cannot use the connection.
    let control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    let Inheritance {
        lock,
        terminal,
        input,
        unread,
    } = receive(&control)?;
    control.set_nonblocking(true)?;
    if terminal.is_none() {
        rustix::process::setsid()?;
    }
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    // Keep no other file system from being unmounted.
    rustix::process::chdir(folder.path())?;
    let listener = listen(&folder)?;
    // Agents inherit the lock, so that it is held even if the shim is killed.
    let lock = fcntl_dupfd_cloexec(&lock, LOCK_FD_MIN).unwrap_or(lock);
    fcntl_setfd(&lock, FdFlags::empty())?;
    Ok(Shim {
        identity: process::identity(std::process::id()).ok_or(io::ErrorKind::NotFound)?,
        folder,
        deaths,
        peers: Peers::new(listener, control, unread),
        terminal,
        input,
        lock,
        place: ShimCgroup::default(),
        attempt: None,
        is_told_to_quit: false,
        guard: DeadlineGuard::default(),
    })
}

/// Descriptors sent with the first message.
struct Inheritance {
    lock: OwnedFd,
    terminal: Option<[OwnedFd; 3]>,
    input: Option<OwnedFd>,
    unread: Vec<u8>,
}

fn receive(control: &UnixStream) -> io::Result<Inheritance> {
    let mut bytes = [0; 512];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let into = &mut [IoSliceMut::new(&mut bytes)];
    let received = recvmsg(control, into, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let mut handles: Vec<OwnedFd> = ancillary
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(handles) => Some(handles),
            _ => None,
        })
        .flatten()
        .collect();
    if handles.is_empty() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let lock = handles.remove(0);
    let unread = bytes[..received.bytes].to_vec();
    let input = if handles.len() == 1 {
        handles.pop()
    } else {
        None
    };
    Ok(Inheritance {
        lock,
        terminal: handles.try_into().ok(),
        input,
        unread,
    })
}

/// Binds the socket. We hold the lock, so an existing socket is stale.
fn listen(folder: &AgentFolder) -> io::Result<UnixListener> {
    let place = folder.shim_socket();
    // By file name, because a path may be longer than a socket address.
    let name = place.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let _ = std::fs::remove_file(name);
    let listener = UnixListener::bind(name)?;
    std::fs::set_permissions(name, Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}
