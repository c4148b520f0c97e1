//! The page that a request comes from: none, one of ours, or a stranger's.

use axum::http::{HeaderMap, Method, header};

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

/// Whether a person came here from another page, in a window of its own. A browser that sends the strict
/// cookie only to ours does not send it then.
pub(super) fn is_link_followed(method: &Method, headers: &HeaderMap) -> bool {
    let only = |name: &str, value: &str| {
        let mut all = headers.get_all(name).iter();
        all.next().is_some_and(|one| one == value) && all.next().is_none()
    };
    *method == Method::GET
        && !headers.contains_key(header::ORIGIN)
        && only("sec-fetch-mode", "navigate")
        && only("sec-fetch-dest", "document")
        && (only(SEC_FETCH_SITE, "cross-site") || only(SEC_FETCH_SITE, "same-site"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_followed_in_a_window_and_in_nothing_else() {
        let follows = |method: Method, pairs: [&str; 3]| {
            let names = ["sec-fetch-site", "sec-fetch-mode", "sec-fetch-dest"];
            let headers = names.into_iter().zip(pairs).map(|(name, value)| {
                (
                    axum::http::HeaderName::from_static(name),
                    value.parse().unwrap(),
                )
            });
            is_link_followed(&method, &headers.collect())
        };
        assert!(follows(Method::GET, ["cross-site", "navigate", "document"]));
        assert!(follows(Method::GET, ["same-site", "navigate", "document"]));
        for pairs in [
            ["same-origin", "navigate", "document"],
            ["cross-site", "navigate", "iframe"],
            ["cross-site", "no-cors", "document"],
            ["cross-site", "cors", "empty"],
        ] {
            assert!(!follows(Method::GET, pairs), "{pairs:?}");
        }
        assert!(!follows(
            Method::POST,
            ["cross-site", "navigate", "document"]
        ));
    }

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
