//! Connections: how many, how slow, and who is at the other end.
//!
//! The socket and TCP have places of their own, so that ten thousand idle connections from anywhere
//! leave the socket free. Whoever is slow to speak or to listen is cut off.

mod timeout_io;
pub(crate) mod tls;

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use relight_core::agent::AttemptTag;
use relight_runtime::os::{limits, process, threads};
use relight_runtime::supervise::control::Control;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixStream};
use tokio::sync::{OnceCell, Semaphore, watch};
use tokio_rustls::TlsAcceptor;

use timeout_io::TimeoutIo;

/// TCP connections at a time; further ones wait to be taken. At most an eighth of all descriptors: agents
/// need theirs, whoever connects.
const TCP_MAX: usize = 2_048;
const TCP_SHARE: u64 = 8;
/// The same on the socket: a thousand agents may wait for work there, and people still get in.
const SOCKET_MAX: usize = 2_048;
const SOCKET_SHARE: u64 = 4;
/// How long the first words of TLS may take.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// All headers together.
const HEADER_BYTES_MAX: usize = 32 << 10;
const HEADERS_MAX: usize = 64;
/// How long the environment of a process at the socket may take to be read.
const PEER_READ_MAX: Duration = Duration::from_secs(1);
/// After an error of the listener itself: out of descriptors, most likely.
const PAUSE: Duration = Duration::from_millis(100);

/// Who is at the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    /// A process of our own user, or root's.
    Socket,
    /// Anybody.
    Tcp {
        /// From there.
        ip: IpAddr,
    },
}

/// The process at the other end of the socket.
#[derive(Debug, Clone)]
pub(crate) struct PeerProcess {
    pid: u32,
    /// The attempt that it is part of, once that was asked for.
    attempt: Arc<OnceCell<Option<AttemptTag>>>,
}

impl PeerProcess {
    fn of(stream: &UnixStream) -> Option<Self> {
        let pid = stream.peer_cred().ok()?.pid()?;
        // A process that this one cannot see has no number here.
        let pid = u32::try_from(pid).ok().filter(|pid| *pid != 0)?;
        let attempt = Arc::default();
        Some(Self { pid, attempt })
    }

    /// The attempt of an agent that it is part of.
    pub(crate) async fn attempt(&self) -> Option<AttemptTag> {
        let pid = self.pid;
        // On a thread and not for long: the process decides how long it takes to read its memory.
        let look = async || {
            let read = threads::run_at_once(move || process::attempt_of(pid));
            let read = tokio::time::timeout(PEER_READ_MAX, read).await;
            read.ok().flatten().flatten()
        };
        self.attempt.get_or_init(look).await.clone()
    }
}

/// What every connection shares.
#[derive(Clone)]
pub(crate) struct ConnectionContext {
    pub(crate) router: Router,
    /// Turns true when the daemon ends.
    pub(crate) ends: watch::Receiver<bool>,
    /// Dropped by each connection; when all are gone, the other end closes.
    pub(crate) open: tokio::sync::mpsc::Sender<()>,
    /// How long one may take to say all its headers, and to be idle between two requests.
    pub(crate) header_wait_max: Duration,
}

/// Takes connections of the socket until the end.
pub(crate) async fn socket(control: Control, connections: ConnectionContext) {
    let places = places(SOCKET_MAX, SOCKET_SHARE);
    let mut ends = connections.ends.clone();
    loop {
        let place = Arc::clone(&places)
            .acquire_owned()
            .await
            .expect("it is never closed");
        let stream = tokio::select! {
            stream = control.accept_stream() => stream,
            () = ended(&mut ends) => return,
        };
        match stream {
            Ok(stream) => {
                let connections = connections.clone();
                tokio::spawn(async move {
                    let process = PeerProcess::of(&stream);
                    attend(stream, Peer::Socket, process, connections).await;
                    drop(place);
                });
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// Places for so many connections, and no more than a share of the descriptors of this process.
fn places(most: usize, share: u64) -> Arc<Semaphore> {
    let part = usize::try_from(limits::open_files() / share).unwrap_or(most);
    Arc::new(Semaphore::new(part.clamp(1, most)))
}

/// Takes TCP connections until the end.
pub(crate) async fn tcp(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    connections: ConnectionContext,
) {
    let places = places(TCP_MAX, TCP_SHARE);
    let mut ends = connections.ends.clone();
    loop {
        let place = Arc::clone(&places)
            .acquire_owned()
            .await
            .expect("it is never closed");
        let taken = tokio::select! {
            taken = listener.accept() => taken,
            () = ended(&mut ends) => return,
        };
        let (stream, address) = match taken {
            Ok(taken) => taken,
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
            Err(_) => {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        // Small answers go at once.
        let _ = stream.set_nodelay(true);
        let (connections, tls, peer) = (
            connections.clone(),
            tls.clone(),
            Peer::Tcp { ip: address.ip() },
        );
        tokio::spawn(async move {
            match tls {
                None => attend(stream, peer, None, connections).await,
                Some(tls) => {
                    let shaken = tokio::time::timeout(HANDSHAKE_MAX, tls.accept(stream)).await;
                    if let Ok(Ok(stream)) = shaken {
                        attend(stream, peer, None, connections).await;
                    }
                }
            }
            drop(place);
        });
    }
}

/// Answers the requests of one connection, one after the other.
pub(crate) async fn attend<S>(
    stream: S,
    peer: Peer,
    process: Option<PeerProcess>,
    connections: ConnectionContext,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let ConnectionContext {
        router,
        mut ends,
        open,
        header_wait_max,
    } = connections;
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer);
        process
            .clone()
            .map(|process| request.extensions_mut().insert(process));
        router.call(request)
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(header_wait_max)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEADER_BYTES_MAX);
    let connection = http.serve_connection(TokioIo::new(TimeoutIo::new(stream)), service);
    tokio::pin!(connection);
    // A connection that breaks has nobody to tell.
    tokio::select! {
        _ = connection.as_mut() => {}
        () = ended(&mut ends) => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
    drop(open);
}

/// Returns when the daemon ends.
pub(crate) async fn ended(ends: &mut watch::Receiver<bool>) {
    // One whose other end is gone has ended too.
    let _ = ends.wait_for(|ends| *ends).await;
}
