//! The daemon's HTTP side as a whole: begins on threads of its own, so that no load there holds up
//! supervision, and ends in order.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use axum::Router;
use axum::middleware::from_fn_with_state;
use relight_runtime::os::threads;
use relight_runtime::supervise::control::Control;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{NotForContentType, Predicate, SizeAbove};

use crate::app::{App, BODY_WAIT_MAX, Shared};
use crate::backend::Backend;
use crate::guard::guard;
use crate::hosts::Hosts;
use crate::idempotency::{self, IdempotentAnswers};
use crate::listen::tls::Tls;
use crate::listen::{self, ConnectionContext};
use crate::login::BrowserSessions;
use crate::relay;
use crate::routes;
use crate::tokens::Scope;
use crate::tokens::{Keyring, TokenError};

/// Threads that answer requests.
const WORKERS: usize = 2;
/// Threads for what blocks: a log read from disk, a question to another supervisor.
const BLOCKING_MAX: usize = 8;
/// How long requests under way have to end.
const END_MAX: Duration = Duration::from_secs(3);
/// Shorter answers fit into one packet anyway.
const COMPRESSED_BYTES_MIN: u16 = 1_400;
/// How long a client may take to say its headers, and to be idle between two requests.
const HEADER_WAIT_MAX: Duration = Duration::from_secs(10);

/// What is served, and where.
#[derive(Debug)]
pub struct Settings {
    /// The TCP address; only the socket when none.
    pub listen: Option<SocketAddr>,
    /// Where else it may listen, in this order, when somebody else has that address. Nobody asked for
    /// that very one: when none can be had, only the socket is served.
    pub listen_else: Vec<SocketAddr>,
    /// Somebody said that it may be reached from elsewhere.
    pub allows_remote: bool,
    /// The certificate.
    pub tls: Option<Tls>,
    /// Further names by which it is called, without a port.
    pub hosts: Vec<String>,
    /// How long a client may take to say its headers, and to be idle between two requests.
    pub header_wait_max: Duration,
    /// How long a whole body may take to come.
    pub body_wait_max: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: None,
            listen_else: Vec::new(),
            allows_remote: false,
            tls: None,
            hosts: Vec::new(),
            header_wait_max: HEADER_WAIT_MAX,
            body_wait_max: BODY_WAIT_MAX,
        }
    }
}

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// It would be reached from elsewhere.
    #[error("{address} can be reached from other machines, and {missing} is missing")]
    Exposed {
        /// The address.
        address: SocketAddr,
        /// What is missing.
        missing: &'static str,
    },
    /// Somebody else listens there, or the system says no.
    #[error("cannot listen at {address}")]
    Bind {
        /// Where.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The tokens.
    #[error(transparent)]
    Token(#[from] TokenError),
}

/// The threads on which HTTP is answered.
#[derive(Debug)]
pub struct Threads(Option<Runtime>);

impl Threads {
    /// Idle until something is served.
    pub fn new() -> io::Result<Self> {
        // Tokio would panic.
        threads::check_room(WORKERS)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(WORKERS)
            .max_blocking_threads(BLOCKING_MAX)
            .thread_name("relight-http")
            .enable_all()
            .build()?;
        Ok(Self(Some(runtime)))
    }

    /// Binds the socket, so that these threads wait for its clients.
    pub fn bind<T>(&self, bind: impl FnOnce() -> T) -> T {
        let _entered = self.runtime().enter();
        bind()
    }

    fn runtime(&self) -> &Runtime {
        self.0
            .as_ref()
            .expect("it is taken only when it is dropped")
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            // Inside another runtime nothing may be waited for.
            runtime.shutdown_background();
        }
    }
}

/// The HTTP side while it runs. Dropped, it ends at once.
#[derive(Debug)]
pub struct Server {
    ends: watch::Sender<bool>,
    open: mpsc::Receiver<()>,
    app: App,
    skipped: Option<io::Error>,
    _threads: Threads,
}

impl Server {
    /// Serves from now on. `control` was bound by `threads`.
    pub fn start(
        threads: Threads,
        control: Control,
        settings: Settings,
        backend: Backend,
    ) -> Result<Self, ServeError> {
        let runtime = threads.runtime();
        let (app, listener, skipped) = prepare(runtime, &settings, backend)?;
        let (ends, ending) = watch::channel(false);
        let (open, all_closed) = mpsc::channel(1);
        let header_wait_max = settings.header_wait_max;
        let connections = ConnectionContext {
            router: router(&app),
            ends: ending.clone(),
            open,
            header_wait_max,
        };
        let reader = app.clone();
        runtime.spawn(async move {
            reader
                .journal
                .read(reader.backend.engine.store().as_ref(), ending)
                .await;
        });
        if let Some(listener) = listener {
            let tls = settings.tls.map(|tls| tls.0);
            runtime.spawn(listen::tcp(listener, tls, connections.clone()));
        }
        runtime.spawn(listen::socket(control, connections));
        Ok(Self {
            ends,
            open: all_closed,
            app,
            skipped,
            _threads: threads,
        })
    }

    /// The TCP address, with the port that the system chose.
    pub fn address(&self) -> Option<SocketAddr> {
        self.app.address
    }

    /// Where a browser finds it.
    pub fn url(&self) -> Option<String> {
        self.app.url()
    }

    /// A link that logs a browser in, good once and for a minute.
    pub fn login_link(&self) -> Option<String> {
        Some(format!(
            "{}/login/{}",
            self.url()?,
            self.app.codes.give(Scope::Admin)
        ))
    }

    /// Why another address is served than the first, or none.
    pub fn skipped(&self) -> Option<&io::Error> {
        self.skipped.as_ref()
    }

    /// Ends in order: nothing new is taken, streams end, and what is under way has a moment.
    pub async fn stop(mut self) {
        self.ends.send_replace(true);
        let _ = tokio::time::timeout(END_MAX, self.open.recv()).await;
    }
}

/// Everything that is served, behind the guard.
fn router(app: &App) -> Router {
    let routes = Router::new();
    #[cfg(feature = "mcp")]
    let routes = routes.route("/mcp", axum::routing::post(crate::mcp::http::serve));
    let answers = IdempotentAnswers::new(app.body_wait_max);
    routes::all(routes)
        .layer(from_fn_with_state(answers, idempotency::remember))
        .layer(compression())
        .merge(relay::routes())
        .layer(from_fn_with_state(app.clone(), guard))
        .with_state(app.clone())
}

/// Compresses answers for clients that accept gzip: a list repeats the same names in every row. Event
/// streams are left alone, because an event must not wait in a buffer.
fn compression() -> CompressionLayer<impl Predicate> {
    let when = SizeAbove::new(COMPRESSED_BYTES_MIN).and(NotForContentType::SSE);
    CompressionLayer::new()
        .quality(CompressionLevel::Fastest)
        .compress_when(when)
}

fn prepare(
    runtime: &Runtime,
    settings: &Settings,
    backend: Backend,
) -> Result<(App, Option<TcpListener>, Option<io::Error>), ServeError> {
    if let Some(address) = settings.listen {
        check_exposure(address, settings)?;
    }
    let keyring = Keyring::open(&backend.home)?;
    let browser_sessions = BrowserSessions::open(&backend.home);
    let (listener, skipped) = match settings.listen {
        Some(address) => bind_first(runtime, address, &settings.listen_else)?,
        None => (None, None),
    };
    let address = listener
        .as_ref()
        .and_then(|listener| listener.local_addr().ok());
    let is_tls = settings.tls.is_some();
    let mut names = settings.hosts.clone();
    // `0.0.0.0` is where it listens, and nobody's name.
    let named = address
        .map(|address| address.ip())
        .filter(|ip| !ip.is_unspecified());
    names.extend(named.map(host_of));
    let hosts = Hosts::new(address.map_or(0, |address| address.port()), is_tls, &names);
    let app = App::new(Shared {
        address,
        is_tls,
        browser_sessions,
        body_wait_max: settings.body_wait_max,
        ..Shared::new(backend, keyring, hosts)
    });
    Ok((app, listener, skipped))
}

/// What other machines can reach is served only with TLS, and when somebody said so.
fn check_exposure(address: SocketAddr, settings: &Settings) -> Result<(), ServeError> {
    let exposed = |missing| Err(ServeError::Exposed { address, missing });
    match (
        address.ip().is_loopback(),
        settings.allows_remote,
        &settings.tls,
    ) {
        (true, ..) | (false, true, Some(_)) => Ok(()),
        (false, false, _) => exposed("--allow-remote"),
        (false, true, None) => exposed("TLS ([daemon] tls_cert and tls_key)"),
    }
}

/// Binds the address, else the first of the others that can be had; with why it is not the first.
fn bind_first(
    runtime: &Runtime,
    address: SocketAddr,
    others: &[SocketAddr],
) -> Result<(Option<TcpListener>, Option<io::Error>), ServeError> {
    let source = match bind(runtime, address) {
        Ok(listener) => return Ok((Some(listener), None)),
        Err(ServeError::Bind { source, .. }) if !others.is_empty() => source,
        Err(error) => return Err(error),
    };
    let listener = others.iter().find_map(|other| bind(runtime, *other).ok());
    Ok((listener, Some(source)))
}

fn bind(runtime: &Runtime, address: SocketAddr) -> Result<TcpListener, ServeError> {
    let cannot = |source| ServeError::Bind { address, source };
    let _entered = runtime.enter();
    let listener = std::net::TcpListener::bind(address).map_err(cannot)?;
    listener.set_nonblocking(true).map_err(cannot)?;
    TcpListener::from_std(listener).map_err(cannot)
}

fn host_of(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_can_reach_needs_a_flag_and_tls() {
        let exposed = |address: &str, allows_remote| {
            let settings = Settings {
                allows_remote,
                ..Settings::default()
            };
            let checked = check_exposure(address.parse().unwrap(), &settings);
            checked.err().map(|error| error.to_string())
        };
        assert_eq!(exposed("127.0.0.1:7717", false), None);
        assert_eq!(exposed("[::1]:7717", false), None);
        for address in ["0.0.0.0:7717", "192.168.1.2:7717", "[::]:7717"] {
            assert!(exposed(address, false).unwrap().contains("--allow-remote"));
            assert!(exposed(address, true).unwrap().contains("TLS"));
        }
    }
}
