//! What `relight up` lends to its HTTP side, and where that listens.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use relight_core::error_code::with_causes;
use relight_core::ids::NodeName;
use relight_runtime::engine::Engine;
use relight_runtime::fleet::key::FleetKey;
use relight_runtime::queue::Queue;
use relight_runtime::supervise::control::Control;
use relight_runtime::supervise::control_server::Reception;
use relight_runtime::supervise::reporters::Reporters;
use relight_runtime::supervise::supervisor::Supervisor;
use relight_server::tokens::TokenError;
use relight_server::{Backend, ServeError, Server, Settings, Threads, Tls};

use crate::arguments::agent::UpArguments;
use crate::config::Config;
use crate::environment::Environment;
use crate::exit::{Exit, Failure};
use crate::{output, whole_file};

/// The daemon's parts that HTTP stands on.
pub(super) struct Ground<'a> {
    pub(super) environment: &'a Environment,
    pub(super) arguments: &'a UpArguments,
    pub(super) config: &'a Config,
    pub(super) home: &'a Path,
    pub(super) engine: &'a Engine,
    pub(super) supervisor: &'a Supervisor,
    pub(super) reporters: Reporters,
    pub(super) held_back: Arc<AtomicBool>,
    /// This machine in a fleet, with the fleet's key.
    pub(super) node: Option<(NodeName, FleetKey)>,
}

/// The threads on which requests are answered.
pub(super) fn threads() -> Result<Threads, Failure> {
    Threads::new().map_err(|error| Failure::new(Exit::Io, format!("cannot start threads: {error}")))
}

/// Serves from now on; what only the supervisor can do comes in at the reception.
pub(super) fn start(
    ground: Ground<'_>,
    threads: Threads,
    control: Control,
) -> Result<(Server, Reception), Failure> {
    let settings = settings(ground.arguments, ground.config, ground.home)?;
    let wanted = settings.listen;
    let (calls, reception) = Reception::channel();
    let recoverer = ground.supervisor.recoverer().clone();
    let environment = ground.environment.clone();
    let backend = Backend {
        engine: ground.engine.clone(),
        queue: Queue::new(recoverer.clone()).with_sweep(ground.config.queue.sweep),
        recoverer,
        calls,
        beats: ground.supervisor.beats(),
        reporters: ground.reporters,
        sessions: ground.config.sessions,
        home: ground.home.to_path_buf(),
        project: ground.environment.project()?.cloned(),
        node: ground.node,
        held_back: ground.held_back,
        allows_commands: ground.config.daemon.commands,
        complain: Arc::new(move |text| output::note(&environment, &format!("http: {text}"))),
    };
    let server =
        Server::start(threads, control, settings, backend).map_err(|error| refused(&error))?;
    if let (Some(error), Some(wanted)) = (server.skipped(), wanted) {
        let text = match server.address() {
            Some(address) => format!("{wanted} is taken ({error}); serving {address} instead"),
            None => format!("cannot serve {wanted} ({error}); only the Unix socket is served"),
        };
        output::note(ground.environment, &text);
    }
    if is_free_choice(ground.arguments, ground.config)
        && let Some(address) = server.address()
    {
        remember_port(ground.home, address.port());
    }
    Ok((server, reception))
}

/// Nobody named an address: any port of this machine will do.
fn is_free_choice(arguments: &UpArguments, config: &Config) -> bool {
    arguments.listen.is_none() && config.daemon.listen == Config::default().daemon.listen
}

const PORT_FILE: &str = "http-port";

/// The port that the daemon of this home served last, when that was not the usual one.
pub(super) fn remembered_port(home: &Path) -> Option<u16> {
    let text = relight_runtime::os::file::read_regular(&home.join(PORT_FILE), 16)?;
    std::str::from_utf8(&text).ok()?.trim().parse().ok()
}

/// Links and clients that know the port find the next daemon there too. Without the file only they
/// would miss it.
fn remember_port(home: &Path, port: u16) {
    if remembered_port(home).unwrap_or(Config::default().daemon.listen.port()) != port {
        let _ = whole_file::replace_private(&home.join(PORT_FILE), format!("{port}\n").as_bytes());
    }
}

fn settings(arguments: &UpArguments, config: &Config, home: &Path) -> Result<Settings, Failure> {
    let daemon = &config.daemon;
    let is_wanted = !arguments.no_http && (daemon.http || arguments.listen.is_some());
    let mut listen = arguments.listen.unwrap_or(daemon.listen);
    let mut listen_else = Vec::new();
    if is_free_choice(arguments, config) {
        let at = |port| SocketAddr::new(listen.ip(), port);
        listen_else = vec![listen, at(0)];
        listen = remembered_port(home).map_or(listen, at);
    }
    let tls = match &daemon.tls {
        Some((certificate, key)) => Some(Tls::load(certificate, key).map_err(|error| {
            Failure::new(Exit::Config, error.to_string()).hint("mend [daemon] tls_cert and tls_key")
        })?),
        None => None,
    };
    Ok(Settings {
        listen: is_wanted.then_some(listen),
        listen_else,
        allows_remote: arguments.allow_remote,
        tls,
        hosts: hosts(config),
        ..Settings::default()
    })
}

/// Those that the configuration names; other nodes call this one by its address.
fn hosts(config: &Config) -> Vec<String> {
    let address = config
        .node
        .address
        .as_deref()
        .and_then(|text| text.split_once("://"));
    let authority = address.map(|(_, rest)| rest.split('/').next().unwrap_or(rest));
    let host = authority.map(|authority| match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    });
    config
        .daemon
        .hosts
        .iter()
        .cloned()
        .chain(host.map(str::to_owned))
        .collect()
}

fn refused(error: &ServeError) -> Failure {
    match error {
        ServeError::Exposed { .. } => Failure::new(Exit::Config, error.to_string())
            .hint("listen at 127.0.0.1, or see docs/operate/security.md"),
        ServeError::Bind { .. } => Failure::new(Exit::Unreachable, with_causes(error))
            .hint("--listen takes another address, --no-http serves the socket alone"),
        ServeError::Token(TokenError::File { .. }) => Failure::new(Exit::Io, with_causes(error)),
        ServeError::Token(_) => Failure::new(Exit::Config, with_causes(error)),
    }
}
