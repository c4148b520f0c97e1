//! The exact list of hosts that a request may name.
//!
//! A page whose name was made to point here (DNS rebinding) still names its own host, and is refused
//! by that alone.

use axum::http::{HeaderMap, Uri, header};

use crate::error::ApiError;
use crate::listen::Peer;

/// The names by which this daemon is called.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hosts {
    /// With their port, in lower case.
    names: Vec<String>,
    /// `http` or `https`.
    scheme: &'static str,
}

impl Hosts {
    /// The loopback names at this port, and those that the configuration adds.
    pub(crate) fn new(port: u16, is_tls: bool, more: &[String]) -> Self {
        let scheme = if is_tls { "https" } else { "http" };
        let usual = if is_tls { 443 } else { 80 };
        let mut names = Vec::new();
        let loopback = ["127.0.0.1", "localhost", "[::1]"].map(str::to_owned);
        for host in loopback.iter().chain(more) {
            let host = host.to_ascii_lowercase();
            if port == usual {
                names.push(host.clone());
            }
            names.push(format!("{host}:{port}"));
        }
        Self { names, scheme }
    }

    fn has(&self, host: &str) -> bool {
        self.names.contains(&host.to_ascii_lowercase())
    }

    /// Whether a page from there is one of ours.
    pub(crate) fn is_ours(&self, origin: &str) -> bool {
        let host = origin
            .strip_prefix(self.scheme)
            .and_then(|rest| rest.strip_prefix("://"));
        host.is_some_and(|host| self.names.iter().any(|name| name == host))
    }
}

/// Refuses a request that names another host, none, or two.
pub(crate) fn check(
    hosts: &Hosts,
    peer: Peer,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<(), ApiError> {
    let mut given = headers.get_all(header::HOST).iter();
    let (Some(host), None) = (given.next(), given.next()) else {
        return Err(ApiError::bad_request("name one Host"));
    };
    let named = [
        host.to_str().ok(),
        uri.authority().map(|authority| authority.as_str()),
    ];
    let is_known = |host: &str| match peer {
        Peer::Tcp { .. } => hosts.has(host),
        Peer::Socket => is_local_name(host),
    };
    let is_fine = named[0].is_some_and(is_known) && named[1].is_none_or(is_known);
    if is_fine { Ok(()) } else { Err(foreign()) }
}

/// On the socket the name means nothing; it is held to a few all the same, with any port.
fn is_local_name(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    ["localhost", "relight", "127.0.0.1", "[::1]"].contains(&name.to_ascii_lowercase().as_str())
}

fn foreign() -> ApiError {
    ApiError::forbidden("this host is not served here")
        .hint("use http://127.0.0.1 with the daemon's port, or add the name to [daemon] hosts")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(peer: Peer, hosts: &[&str], uri: &str) -> u16 {
        let known = Hosts::new(7717, false, &["relight.example".to_owned()]);
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(header::HOST, host.parse().unwrap());
        }
        let checked = check(&known, peer, &uri.parse().unwrap(), &headers);
        checked.err().map_or(200, |error| error.code.status)
    }

    #[test]
    fn only_the_listed_hosts_are_served_over_tcp() {
        let tcp = Peer::Tcp {
            ip: [127, 0, 0, 1].into(),
        };
        for host in [
            "127.0.0.1:7717",
            "localhost:7717",
            "LOCALHOST:7717",
            "[::1]:7717",
        ] {
            assert_eq!(code(tcp, &[host], "/"), 200, "{host}");
        }
        assert_eq!(code(tcp, &["relight.example:7717"], "/"), 200);
        for host in [
            "evil.example",
            "evil.example:7717",
            "127.0.0.1",
            "127.0.0.1:80",
            "localhost:7717.evil.example",
            "localhost.:7717",
            "127.0.0.1:7717@evil",
            "0.0.0.0:7717",
            "",
        ] {
            assert_eq!(code(tcp, &[host], "/"), 403, "{host}");
        }
        assert_eq!(code(tcp, &[], "/"), 400);
        assert_eq!(code(tcp, &["localhost:7717", "localhost:7717"], "/"), 400);
        assert_eq!(
            code(tcp, &["localhost:7717"], "http://evil.example/api/health"),
            403
        );
    }

    #[test]
    fn the_socket_is_held_to_local_names() {
        for (host, expected) in [
            ("localhost", 200),
            ("relight", 200),
            ("localhost:1234", 200),
            ("evil.example", 403),
            ("localhost.evil.example", 403),
        ] {
            assert_eq!(code(Peer::Socket, &[host], "/"), expected, "{host}");
        }
    }

    #[test]
    fn an_origin_is_ours_by_scheme_host_and_port() {
        let hosts = Hosts::new(7717, false, &[]);
        assert!(hosts.is_ours("http://127.0.0.1:7717"));
        for foreign in [
            "https://127.0.0.1:7717",
            "http://127.0.0.1",
            "null",
            "127.0.0.1:7717",
            "",
        ] {
            assert!(!hosts.is_ours(foreign), "{foreign}");
        }
        assert!(Hosts::new(443, true, &["a.example".to_owned()]).is_ours("https://a.example"));
    }
}
