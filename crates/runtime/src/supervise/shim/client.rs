//! The supervisor's side: takes an agent's lock, starts its shim or connects to a running one.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Arc, Weak};
use std::time::Duration;

use relight_core::ids::AgentName;
use relight_core::lease::{Fence, ProcessIdentity};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg, sockopt};
use tokio::net::UnixStream;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::ARGUMENT;
use super::wire::{Order, ShimReport};
use crate::os::{fleet, pidfd, process};
use crate::supervise::folder::AgentFolder;

/// Maximum length of a report.
const LINE_LEN_MAX: usize = 1 << 20;

/// How often a shim that does not read orders is checked before the connection is closed.
const ROOM_LOOKS_MAX: u32 = 10;
const ROOM_LOOK_EVERY: Duration = Duration::from_secs(1);

/// Takes the lock of an agent; none when processes of it run.
pub fn take_lock(folder: &AgentFolder) -> io::Result<Option<OwnedFd>> {
    let mut open = OpenOptions::new();
    let lock = open
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(folder.lock())?;
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(lock.into())),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Whether processes of an agent run, or that cannot be excluded.
pub fn is_lock_held(folder: &AgentFolder) -> bool {
    folder.lock().exists() && !matches!(take_lock(folder), Ok(Some(_)))
}

/// Starts the shim of an agent with its lock and `streams`: three for an agent with a terminal, one
/// as input of the first attempt, or none. Its first report is `Status`.
///
/// `program` is the `relight` binary, usually `/proc/self/exe`. Needs a Tokio runtime.
pub fn spawn(
    program: &Path,
    folder: &AgentFolder,
    lock: OwnedFd,
    streams: Vec<OwnedFd>,
    name: &AgentName,
    fence: Fence,
) -> io::Result<ShimConnection> {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
    let place = std::path::absolute(folder.path())?;
    let mut command = process::command(program, &[ARGUMENT.as_ref(), place.as_os_str()]);
    command.arg0(format!("relight-shim {name}")).env_clear();
    command.envs(fleet::node().map(|node| (fleet::VARIABLE, node.as_str())));
    command
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let child = command.spawn()?;
    // Close our copy of the other end, otherwise the shim's death would not be noticed.
    drop(command);
    let shim = Some(ShimChild(Some(child)));
    let handles: Vec<_> = [lock].into_iter().chain(streams).collect();
    send_hello(&ours, &handles, fence)?;
    ours.set_nonblocking(true)?;
    Ok(ShimConnection::over(UnixStream::from_std(ours)?, shim))
}

/// Connects to a running shim; none when there is none. Its first report is `Status`, or `Refused`
/// when a newer supervisor was there.
pub async fn connect(folder: &AgentFolder, fence: Fence) -> io::Result<Option<ShimConnection>> {
    let stream = match connect_by_name(folder).await {
        Ok(stream) => stream,
        Err(error) if is_not_listening(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    let connection = ShimConnection::over(stream, None);
    match connection.send(&Order::Hello { fence }).await {
        Ok(()) => Ok(Some(connection)),
        Err(error) if is_not_listening(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A connection to a shim.
#[derive(Debug)]
pub struct ShimConnection {
    orders: Arc<Orders>,
    unread: Vec<u8>,
    /// Reaped after this is dropped.
    _shim: Option<ShimChild>,
}

/// Sends orders; concurrent senders wait for each other.
#[derive(Debug)]
pub struct Orders {
    stream: UnixStream,
    turn: Mutex<()>,
    peer_pid: Option<u32>,
}

impl Orders {
    /// Sends an order. Not cancel-safe: a partial order breaks the connection.
    pub async fn send(&self, order: &Order) -> io::Result<()> {
        let line = line_of(order)?;
        let _turn = self.turn.lock().await;
        let mut rest = line.as_slice();
        while !rest.is_empty() {
            match self.stream.try_write(rest) {
                Ok(len) => rest = &rest[len..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait_for_room().await?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Continues a stopped shim, which reads nothing. If that does not help, the connection is
    /// closed, because an order may be partially sent.
    async fn wait_for_room(&self) -> io::Result<()> {
        for _ in 0..ROOM_LOOKS_MAX {
            if let Ok(room) = timeout(ROOM_LOOK_EVERY, self.stream.writable()).await {
                return room;
            }
            let _ = self
                .peer()
                .is_some_and(|shim| pidfd::continue_stopped(&shim));
        }
        let _ = rustix::net::shutdown(&self.stream, rustix::net::Shutdown::Both);
        Err(io::ErrorKind::TimedOut.into())
    }

    /// The connected shim. Its pid is not reused while the connection is open.
    fn peer(&self) -> Option<ProcessIdentity> {
        let peer = process::identity(self.peer_pid?)?;
        let mut polled = [PollFd::new(&self.stream, PollFlags::RDHUP)];
        let is_open = poll(&mut polled, Some(&Timespec::default())) == Ok(0);
        is_open.then_some(peer)
    }
}

impl ShimConnection {
    fn over(stream: UnixStream, shim: Option<ShimChild>) -> Self {
        // For a listener the kernel knows the peer's pid; a socket pair belongs to this process on
        // both ends.
        let peer_pid = match shim.as_ref().and_then(|shim| shim.0.as_ref()) {
            Some(child) => Some(child.id()),
            None => sockopt::socket_peercred(&stream)
                .ok()
                .map(|peer| peer.pid.as_raw_nonzero().get().unsigned_abs()),
        };
        let orders = Arc::new(Orders {
            stream,
            turn: Mutex::new(()),
            peer_pid,
        });
        Self {
            orders,
            unread: Vec::new(),
            _shim: shim,
        }
    }

    /// The connected shim, before its first report; none when it is gone.
    pub fn peer(&self) -> Option<ProcessIdentity> {
        self.orders.peer()
    }

    /// A handle to send orders; valid as long as the connection.
    pub fn orders(&self) -> Weak<Orders> {
        Arc::downgrade(&self.orders)
    }

    /// Sends an order. Not cancel-safe: a partial order breaks the connection.
    pub async fn send(&self, order: &Order) -> io::Result<()> {
        self.orders.send(order).await
    }

    /// The next report; none when the shim is gone or a newer supervisor took over. Cancel-safe.
    pub async fn next(&mut self) -> io::Result<Option<ShimReport>> {
        loop {
            if let Some(report) = self.take_line()? {
                return Ok(Some(report));
            }
            let mut chunk = [0; 2_048];
            match self.orders.stream.try_read(&mut chunk) {
                Ok(0) => return Ok(None),
                Ok(len) => self.unread.extend_from_slice(&chunk[..len]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.orders.stream.readable().await?;
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    fn take_line(&mut self) -> io::Result<Option<ShimReport>> {
        let Some(end) = memchr::memchr(b'\n', &self.unread) else {
            let is_too_long = self.unread.len() > LINE_LEN_MAX;
            return if is_too_long {
                Err(io::ErrorKind::InvalidData.into())
            } else {
                Ok(None)
            };
        };
        let report = serde_json::from_slice(&self.unread[..end])?;
        self.unread.drain(..=end);
        if self.unread.is_empty() {
            self.unread = Vec::new();
        }
        Ok(Some(report))
    }
}

/// A shim started by this process, which must be reaped.
///
/// Once its connection is dropped a task waits for its pidfd, mostly for a moment, as a shim closes the
/// connection by ending. So there is nothing to poll, no handler of SIGCHLD that would wake the
/// supervisor for every other child too, and no descriptor more for shims that live. Without a runtime
/// the process is about to end, and others will wait for it.
#[derive(Debug)]
struct ShimChild(Option<Child>);

impl Drop for ShimChild {
    fn drop(&mut self) {
        let Some(mut child) = self.0.take() else {
            return;
        };
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        let runtime = tokio::runtime::Handle::try_current();
        if let (Ok(runtime), Ok(handle)) = (runtime, pidfd::open(child.id())) {
            runtime.spawn(wait_for(child, handle));
        }
    }
}

async fn wait_for(mut child: Child, handle: OwnedFd) {
    if pidfd::ended(handle).await.is_ok() {
        let _ = child.wait();
    }
}

fn send_hello(
    stream: &std::os::unix::net::UnixStream,
    handles: &[OwnedFd],
    fence: Fence,
) -> io::Result<()> {
    let line = line_of(&Order::Hello { fence })?;
    let handles: Vec<BorrowedFd<'_>> = handles.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    assert!(
        ancillary.push(SendAncillaryMessage::ScmRights(&handles)),
        "there is room for four"
    );
    let sent = sendmsg(
        stream,
        &[IoSlice::new(&line)],
        &mut ancillary,
        SendFlags::NOSIGNAL,
    )?;
    assert_eq!(sent, line.len(), "an empty socket has room for a greeting");
    Ok(())
}

fn line_of(order: &Order) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(order)?;
    line.push(b'\n');
    Ok(line)
}

/// Connects relative to the folder, because a path may be longer than a socket address.
async fn connect_by_name(folder: &AgentFolder) -> io::Result<UnixStream> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let handle = File::from(rustix::fs::open(folder.path(), flags, Mode::empty())?);
    let socket = folder.shim_socket();
    let name = socket.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let place = PathBuf::from(format!("/proc/self/fd/{}", handle.as_raw_fd())).join(name);
    UnixStream::connect(place).await
}

fn is_not_listening(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset, NotFound};
    matches!(
        error.kind(),
        NotFound | ConnectionRefused | ConnectionReset | BrokenPipe
    )
}
