//! Connections of a shim: its supervisor, and others that claim to be.
//!
//! Reads and writes lines. A peer cannot block it or exhaust memory: invalid, too long or unread
//! data closes only that connection.

use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};

use relight_core::lease::Fence;

use super::wire::{Order, ShimReport};

/// Maximum length of an order: command and environment are at most 2 MiB, and JSON may double them.
const LINE_LEN_MAX: usize = 4 << 20;

/// Maximum number of unauthenticated connections.
const STRANGERS_MAX: usize = 8;

/// One connection.
#[derive(Debug)]
pub(super) struct ShimPeer {
    pub(super) stream: UnixStream,
    /// Its number, stable while others come and go.
    pub(super) number: u64,
    unread: Vec<u8>,
    /// It was closed; orders received before are still executed.
    has_ended: bool,
}

/// All connections.
#[derive(Debug)]
pub(super) struct Peers {
    listener: UnixListener,
    /// False after a failed accept until a connection is closed, because the waiting one would wake
    /// us for ever.
    pub(super) is_listening: bool,
    pub(super) all: Vec<ShimPeer>,
    supervisor: Option<u64>,
    newest: Fence,
    numbers: u64,
}

impl Peers {
    /// Starts with the first connection, from which data was already read.
    pub(super) fn new(listener: UnixListener, first: UnixStream, unread: Vec<u8>) -> Self {
        let first = ShimPeer {
            stream: first,
            number: 0,
            unread,
            has_ended: false,
        };
        Self {
            listener,
            is_listening: true,
            all: vec![first],
            supervisor: None,
            newest: Fence::default(),
            numbers: 0,
        }
    }

    /// The listening socket.
    pub(super) fn listener(&self) -> &UnixListener {
        &self.listener
    }

    /// Whether an authenticated supervisor is connected.
    pub(super) fn has_supervisor(&self) -> bool {
        self.supervisor.is_some()
    }

    /// Accepts waiting connections of our own user.
    pub(super) fn accept(&mut self) {
        match self.listener.accept() {
            Ok((stream, _)) => self.take_in(stream),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => self.is_listening = false,
        }
    }

    fn take_in(&mut self, stream: UnixStream) {
        let is_ours = rustix::net::sockopt::socket_peercred(&stream)
            .is_ok_and(|peer| peer.uid.is_root() || peer.uid == rustix::process::geteuid());
        if !is_ours || stream.set_nonblocking(true).is_err() {
            return;
        }
        let is_stranger = |peer: &ShimPeer| Some(peer.number) != self.supervisor;
        if self.all.iter().filter(|peer| is_stranger(peer)).count() >= STRANGERS_MAX
            && let Some(oldest) = self.all.iter().position(is_stranger)
        {
            self.all.remove(oldest);
        }
        self.numbers += 1;
        let number = self.numbers;
        self.all.push(ShimPeer {
            stream,
            number,
            unread: Vec::new(),
            has_ended: false,
        });
    }

    /// Reads what a connection sent.
    pub(super) fn read(&mut self, number: u64) {
        if let Some(peer) = self.find(number) {
            peer.fill();
        }
    }

    /// The next order of a connection. It is closed when it has ended or sent nonsense.
    pub(super) fn next_order(&mut self, number: u64) -> Option<Order> {
        let peer = self.find(number)?;
        let order = peer.take_line();
        let is_over = order.is_err() || (peer.has_ended && matches!(order, Ok(None)));
        if is_over {
            self.close(number);
        }
        order.ok().flatten()
    }

    /// Whether this connection is the supervisor's.
    pub(super) fn is_supervisor(&self, number: u64) -> bool {
        self.supervisor == Some(number)
    }

    /// Makes this connection the supervisor's, if its right is not older than another that was here.
    pub(super) fn admit(&mut self, number: u64, fence: Fence) -> bool {
        if fence < self.newest {
            self.send_to(
                number,
                &ShimReport::Refused {
                    newest: self.newest,
                },
            );
            self.close(number);
            return false;
        }
        self.newest = fence;
        let before = self.supervisor.replace(number);
        if let Some(before) = before.filter(|before| *before != number) {
            self.close(before);
        }
        true
    }

    /// Tells the supervisor, if there is one.
    pub(super) fn tell(&mut self, report: &ShimReport) {
        if let Some(supervisor) = self.supervisor {
            self.send_to(supervisor, report);
        }
    }

    /// Ends a connection.
    pub(super) fn close(&mut self, number: u64) {
        self.all.retain(|peer| peer.number != number);
        self.supervisor = self.supervisor.filter(|supervisor| *supervisor != number);
        self.is_listening = true;
    }

    fn find(&mut self, number: u64) -> Option<&mut ShimPeer> {
        self.all.iter_mut().find(|peer| peer.number == number)
    }

    /// Reports are few and small. If a connection has no room for one, its reader stopped reading long
    /// ago.
    fn send_to(&mut self, number: u64, report: &ShimReport) {
        let Some(peer) = self.find(number) else {
            return;
        };
        let mut line = serde_json::to_vec(report).expect("a report is always JSON");
        line.push(b'\n');
        let is_sent = matches!(peer.stream.write(&line), Ok(len) if len == line.len());
        if !is_sent {
            self.close(number);
        }
    }
}

impl ShimPeer {
    /// Reads all there is now.
    fn fill(&mut self) {
        let mut chunk = [0; 4_096];
        while self.unread.len() <= LINE_LEN_MAX {
            match self.stream.read(&mut chunk) {
                Ok(0) => return self.has_ended = true,
                Ok(len) => self.unread.extend_from_slice(&chunk[..len]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return self.has_ended = true,
            }
        }
    }

    fn take_line(&mut self) -> io::Result<Option<Order>> {
        let Some(end) = memchr::memchr(b'\n', &self.unread) else {
            let is_too_long = self.unread.len() > LINE_LEN_MAX;
            return if is_too_long {
                Err(io::ErrorKind::InvalidData.into())
            } else {
                Ok(None)
            };
        };
        let order = serde_json::from_slice(&self.unread[..end])?;
        self.unread.drain(..=end);
        if self.unread.is_empty() {
            // An environment may have been large, and a shim lives long.
            self.unread = Vec::new();
        }
        Ok(Some(order))
    }
}
