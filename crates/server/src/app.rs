//! What all handlers share.

use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::post;
use relight_core::time::Time;
use relight_runtime::os::clock;

use crate::activity::Pulse;
use crate::backend::Backend;
use crate::event_stream::Journal;
use crate::guard::audit::Audit;
use crate::guard::failures::Failures;
use crate::guard::guard;
use crate::guard::host::Hosts;
use crate::idempotency::{self, Remembered};
use crate::login::{Codes, Visits};
use crate::metrics::traffic::Traffic;
use crate::relay::{self, Answers};
use crate::routes;
use crate::serve::Settings;
use crate::tokens::Keyring;

/// What all handlers share. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct App(Arc<Shared>);

/// See [`App`].
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) backend: Backend,
    pub(crate) keyring: Keyring,
    pub(crate) hosts: Hosts,
    /// Where browsers reach us; none when only the socket is served.
    pub(crate) address: Option<SocketAddr>,
    pub(crate) is_tls: bool,
    /// How long a whole body may take to come.
    pub(crate) body_wait_max: Duration,
    pub(crate) codes: Codes,
    pub(crate) visits: Visits,
    pub(crate) failures: Failures,
    pub(crate) audit: Audit,
    pub(crate) remembered: Remembered,
    /// What became of the writes of agents.
    pub(crate) relayed: Answers,
    pub(crate) journal: Journal,
    pub(crate) pulse: Pulse,
    pub(crate) traffic: Traffic,
    /// When the daemon began to serve.
    pub(crate) started_at: Time,
    /// Of agents that report by themselves.
    pub(crate) signs: routes::heartbeat::Signs,
}

impl Shared {
    /// What a daemon begins with, served on the socket alone.
    pub(crate) fn new(backend: Backend, keyring: Keyring, hosts: Hosts) -> Self {
        Self {
            backend,
            keyring,
            hosts,
            address: None,
            is_tls: false,
            body_wait_max: Settings::default().body_wait_max,
            codes: Codes::default(),
            visits: Visits::default(),
            failures: Failures::default(),
            audit: Audit::default(),
            remembered: Remembered::default(),
            relayed: Answers::default(),
            journal: Journal::default(),
            pulse: Pulse::default(),
            traffic: Traffic::default(),
            started_at: clock::now(),
            signs: routes::heartbeat::Signs::default(),
        }
    }
}

impl App {
    pub(crate) fn new(shared: Shared) -> Self {
        Self(Arc::new(shared))
    }

    /// The cookie's name. Browsers send cookies to every port of a host: each daemon has its own.
    pub(crate) fn cookie_name(&self) -> String {
        format!("relight-{}", self.address.map_or(0, |address| address.port()))
    }

    /// Everything that is served, behind the guard.
    pub(crate) fn router(&self) -> Router {
        routes::all()
            .layer(from_fn_with_state(self.clone(), idempotency::remember))
            // Reads its own bodies and remembers its own answers.
            .route(relay::PATH, post(relay::serve))
            .layer(from_fn_with_state(self.clone(), guard))
            .with_state(self.clone())
    }
}

impl Deref for App {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}
