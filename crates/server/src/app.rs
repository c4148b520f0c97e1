//! What all handlers share.

use std::net::{IpAddr, SocketAddr};
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use relight_core::time::Time;
use relight_runtime::os::clock;

use crate::audit::Audit;
use crate::backend::Backend;
use crate::event_stream::Journal;
use crate::heartbeats::LastHeartbeats;
use crate::hosts::Hosts;
use crate::login::{BrowserSessions, Codes};
use crate::metrics::traffic::Traffic;
use crate::rate_limit::FailedLogins;
use crate::statistics::EventStatistics;
use crate::tokens::Keyring;

/// How long a whole body may take to arrive.
pub(crate) const BODY_WAIT_MAX: Duration = Duration::from_secs(20);

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
    /// How long a whole body may take to arrive.
    pub(crate) body_wait_max: Duration,
    pub(crate) codes: Codes,
    pub(crate) browser_sessions: BrowserSessions,
    pub(crate) failures: FailedLogins,
    pub(crate) audit: Audit,
    pub(crate) journal: Journal,
    pub(crate) statistics: EventStatistics,
    pub(crate) traffic: Traffic,
    /// When the daemon began to serve.
    pub(crate) started_at: Time,
    /// Of agents that report by themselves.
    pub(crate) signs: LastHeartbeats,
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
            body_wait_max: BODY_WAIT_MAX,
            codes: Codes::default(),
            browser_sessions: BrowserSessions::default(),
            failures: FailedLogins::default(),
            audit: Audit::default(),
            journal: Journal::default(),
            statistics: EventStatistics::default(),
            traffic: Traffic::default(),
            started_at: clock::now(),
            signs: LastHeartbeats::default(),
        }
    }
}

impl App {
    pub(crate) fn new(shared: Shared) -> Self {
        Self(Arc::new(shared))
    }

    /// The URL for browsers; none when only the socket is served.
    pub(crate) fn url(&self) -> Option<String> {
        self.address.map(|address| url(address, self.is_tls))
    }

    /// The cookie's name. Browsers send cookies to every port of a host: each daemon has its own.
    pub(crate) fn cookie_name(&self) -> String {
        format!(
            "relight-{}",
            self.address.map_or(0, |address| address.port())
        )
    }
}

impl Deref for App {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

fn url(address: SocketAddr, is_tls: bool) -> String {
    let scheme = if is_tls { "https" } else { "http" };
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::from([127, 0, 0, 1]),
        ip => ip,
    };
    format!("{scheme}://{}", SocketAddr::new(ip, address.port()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_link_names_an_address_that_a_browser_can_open() {
        assert_eq!(
            url("0.0.0.0:7717".parse().unwrap(), true),
            "https://127.0.0.1:7717"
        );
        assert_eq!(url("[::1]:80".parse().unwrap(), false), "http://[::1]:80");
    }
}
