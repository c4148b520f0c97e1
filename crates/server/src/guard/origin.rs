//! The page that a request comes from: none, one of ours, or a stranger's.

use axum::http::{HeaderMap, header};

use crate::error::ApiError;
use crate::hosts::Hosts;
use crate::listen::Peer;

/// What a browser says about the way from page to request.
const SEC_FETCH_SITE: &str = "sec-fetch-site";

/// Three states: no `Origin` is no page; ours is ours; anything else, `null` among it, is refused.
pub(crate) fn check(hosts: &Hosts, peer: Peer, headers: &HeaderMap) -> Result<(), ApiError> {
    let origins: Vec<_> = headers.get_all(header::ORIGIN).iter().collect();
    let is_fine = match origins.as_slice() {
        [] => true,
        // No page can reach the socket.
        [_] if peer == Peer::Socket => false,
        [origin] => origin.to_str().is_ok_and(|origin| hosts.is_ours(origin)),
        _ => false,
    };
    let sites = headers.get_all(SEC_FETCH_SITE);
    let is_near = sites
        .iter()
        .all(|site| matches!(site.as_bytes(), b"same-origin" | b"none"));
    if is_fine && is_near {
        return Ok(());
    }
    Err(ApiError::forbidden(
        "requests of foreign pages are not taken",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_origin_and_our_own_pass_and_every_other_is_refused() {
        let hosts = Hosts::new(7717, false, &[]);
        let tcp = Peer::Tcp {
            ip: [127, 0, 0, 1].into(),
        };
        let passes = |peer, pairs: &[(&'static str, &str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.append(*name, value.parse().unwrap());
            }
            check(&hosts, peer, &headers).is_ok()
        };
        assert!(passes(tcp, &[]));
        assert!(passes(tcp, &[("origin", "http://localhost:7717")]));
        assert!(passes(tcp, &[("sec-fetch-site", "same-origin")]));
        assert!(passes(tcp, &[("sec-fetch-site", "none")]));
        for origin in [
            "null",
            "",
            "http://evil.example",
            "http://localhost:7718",
            "HTTP://LOCALHOST:7717",
        ] {
            assert!(!passes(tcp, &[("origin", origin)]), "{origin:?}");
        }
        let ours = ("origin", "http://localhost:7717");
        assert!(!passes(tcp, &[ours, ours]));
        assert!(!passes(Peer::Socket, &[ours]));
        for site in ["cross-site", "same-site", ""] {
            assert!(!passes(tcp, &[ours, ("sec-fetch-site", site)]), "{site:?}");
        }
    }
}
