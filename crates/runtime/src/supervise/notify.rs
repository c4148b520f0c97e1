//! Receives `sd_notify` datagrams of an agent on a socket of its own.
//!
//! Only what this user, root or the agent's own user sent counts, and only lines that are known here;
//! a flood is read in bounded pieces. Leaves to others: what a sign means for the agent
//! (`core::agent::silence`), and redaction of its status text.

mod sign;

use std::fs;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendFlags,
    SocketAddrUnix, SocketFlags, SocketType, sockopt,
};
use tokio::io::unix::AsyncFd;

use super::folder::AgentFolder;
use crate::os::descriptor;

pub(super) use sign::clean;

pub use sign::{NotifySign, STATUS_BYTES_MAX, WaitId, signs};

/// Maximum datagram size; longer ones are dropped.
pub const DATAGRAM_BYTES_MAX: usize = 8 * 1024;

/// Datagrams read before yielding.
const DATAGRAMS_AT_ONCE: usize = 32;

/// Maximum number of datagrams discarded at an attempt's start; the kernel queues far fewer.
const DATAGRAMS_DISCARDED_MAX: usize = 100_000;

/// The longest path that fits an address, with the zero after it.
const PATH_BYTES_MAX: usize = 107;

/// Time limit of a sender while nobody reads.
const SEND_MAX: Duration = Duration::from_secs(5);

/// The socket of one agent. A later supervisor binds it again under the same address.
#[derive(Debug)]
pub struct NotifySocket {
    socket: AsyncFd<OwnedFd>,
    address: String,
    users: Vec<u32>,
    is_flooded: AtomicBool,
}

impl NotifySocket {
    /// Binds the agent's socket in its folder. Where the path is too long for an address, or the agent
    /// runs as another user who cannot get there, it has an abstract name instead, made from the path.
    /// Called inside a runtime by whoever holds the agent's lease: a socket left there is replaced.
    pub fn bind(folder: &AgentFolder, agent_user: Option<u32>) -> io::Result<Self> {
        let path = folder.notify_socket();
        // A stale socket would be found first.
        remove_stale(&path)?;
        let address = path_address(folder).filter(|_| agent_user.is_none());
        let address = address.unwrap_or_else(|| abstract_address(folder));
        let name = name_of(&address)?;
        let socket = datagram_socket(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
        sockopt::set_socket_passcred(&socket, true)?;
        rustix::net::bind(&socket, &name)?;
        if name.path().is_some() {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        }
        let mut users = vec![0, rustix::process::geteuid().as_raw()];
        users.extend(agent_user);
        let is_flooded = AtomicBool::new(false);
        Ok(Self {
            socket: descriptor::readable(socket)?,
            address,
            users,
            is_flooded,
        })
    }

    /// The value of `NOTIFY_SOCKET` for the agent.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Waits for at least one message; returns them in order. Cancel-safe.
    pub async fn recv(&self) -> io::Result<Vec<NotifySign>> {
        if self.is_flooded.swap(false, Ordering::Relaxed) {
            tokio::task::yield_now().await;
        }
        loop {
            let mut ready = self.socket.readable().await?;
            let mut heard = Vec::new();
            let is_empty = self.take_in(DATAGRAMS_AT_ONCE, &mut heard)?;
            if is_empty {
                ready.clear_ready();
            }
            if !heard.is_empty() {
                self.is_flooded.store(!is_empty, Ordering::Relaxed);
                return Ok(heard);
            }
            tokio::task::yield_now().await;
        }
    }

    /// The messages that are already queued.
    pub fn recv_now(&self) -> io::Result<Vec<NotifySign>> {
        let mut heard = Vec::new();
        self.take_in(DATAGRAMS_AT_ONCE, &mut heard)?;
        Ok(heard)
    }

    /// Discards queued messages, so that those of an earlier attempt do not count.
    pub fn discard(&self) -> io::Result<()> {
        self.take_in(DATAGRAMS_DISCARDED_MAX, &mut Vec::new())
            .map(|_| ())
    }

    /// Reads up to `datagrams_max` datagrams; returns whether the queue is empty.
    fn take_in(&self, datagrams_max: usize, heard: &mut Vec<NotifySign>) -> io::Result<bool> {
        for _ in 0..datagrams_max {
            match self.take_one() {
                Ok(signs) => heard.extend(signs),
                Err(Errno::AGAIN) => return Ok(true),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(false)
    }

    /// The messages of one datagram. The control buffer only fits the sender's credentials, so the
    /// kernel drops passed descriptors.
    fn take_one(&self) -> Result<Vec<NotifySign>, Errno> {
        let mut datagram = [0; DATAGRAM_BYTES_MAX];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = rustix::net::recvmsg(
            &self.socket,
            &mut [IoSliceMut::new(&mut datagram)],
            &mut control,
            RecvFlags::CMSG_CLOEXEC,
        )?;
        let sender = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmCredentials(sender) => Some(sender),
            _ => None,
        });
        let sender = sender.filter(|sender| self.users.contains(&sender.uid.as_raw()));
        let is_whole = !received.flags.contains(ReturnFlags::TRUNC);
        let Some(sender) = sender.filter(|_| is_whole) else {
            return Ok(Vec::new());
        };
        let mut signs = sign::signs(&datagram[..received.bytes]);
        for sign in &mut signs {
            // The waiting process is taken from the kernel, not from the sender.
            if let NotifySign::Verb(id, _) = sign {
                id.pid = sender.pid.as_raw_nonzero().get().unsigned_abs();
            }
        }
        Ok(signs)
    }
}

/// Possible addresses of the agent's socket, most likely first.
pub fn addresses(folder: &AgentFolder) -> Vec<String> {
    path_address(folder)
        .into_iter()
        .chain([abstract_address(folder)])
        .collect()
}

/// Sends messages to `address` (the value of `NOTIFY_SOCKET`) in one datagram. Waits for a slow
/// listener, with a time limit.
pub fn send(address: &str, signs: &[NotifySign]) -> io::Result<()> {
    send_with(address, signs, SendFlags::NOSIGNAL)
}

/// The same, without waiting for a slow listener.
pub fn try_send(address: &str, signs: &[NotifySign]) -> io::Result<()> {
    send_with(address, signs, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)
}

fn send_with(address: &str, signs: &[NotifySign], flags: SendFlags) -> io::Result<()> {
    let lines: Vec<String> = signs.iter().map(NotifySign::to_line).collect();
    let name = name_of(address)?;
    let socket = datagram_socket(SocketFlags::CLOEXEC)?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(SEND_MAX))?;
    rustix::net::sendto(&socket, lines.join("\n").as_bytes(), flags, &name)?;
    Ok(())
}

fn name_of(address: &str) -> io::Result<SocketAddrUnix> {
    Ok(match address.strip_prefix('@') {
        Some(name) => SocketAddrUnix::new_abstract_name(name.as_bytes())?,
        None if address.starts_with('/') => SocketAddrUnix::new(address)?,
        None => {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "no address of a socket",
            ));
        }
    })
}

fn datagram_socket(flags: SocketFlags) -> Result<OwnedFd, Errno> {
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)
}

fn remove_stale(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The socket in the folder, if its path fits an address.
fn path_address(folder: &AgentFolder) -> Option<String> {
    let path = std::path::absolute(folder.notify_socket())
        .ok()?
        .into_os_string();
    path.into_string()
        .ok()
        .filter(|text| text.len() <= PATH_BYTES_MAX)
}

/// The abstract address of a folder, independent of how its path is written, so that a running
/// agent reaches the next supervisor.
fn abstract_address(folder: &AgentFolder) -> String {
    let path = folder.path();
    let path = fs::canonicalize(path).or_else(|_| std::path::absolute(path));
    let path = path.unwrap_or_else(|_| folder.path().to_owned());
    let hash = blake3::hash(path.as_os_str().as_bytes()).to_hex();
    format!("@relight-notify-{}", &hash[..32])
}

#[cfg(test)]
mod tests;
