//! What all handlers share.

use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use relight_core::time::Time;

use crate::backend::Backend;
use crate::guard::audit::Audit;
use crate::guard::failures::Failures;
use crate::guard::guard;
use crate::guard::host::Hosts;
use crate::journal::Journal;
use crate::login::{Codes, Visits};
use crate::metrics::traffic::Traffic;
use crate::pulse::Pulse;
use crate::remembered::{self, Remembered};
use crate::routes;
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
    pub(crate) codes: Codes,
    pub(crate) visits: Visits,
    pub(crate) failures: Failures,
    pub(crate) audit: Audit,
    pub(crate) remembered: Remembered,
    pub(crate) journal: Journal,
    pub(crate) pulse: Pulse,
    pub(crate) traffic: Traffic,
    /// When the daemon began to serve.
    pub(crate) started_at: Time,
    /// Of agents that report by themselves.
    pub(crate) signs: routes::heartbeat::Signs,
}

impl App {
    pub(crate) fn new(shared: Shared) -> Self {
        Self(Arc::new(shared))
    }

    /// Everything that is served, behind the guard.
    pub(crate) fn router(&self) -> Router {
        routes::all()
            .layer(from_fn_with_state(self.clone(), remembered::remember))
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
