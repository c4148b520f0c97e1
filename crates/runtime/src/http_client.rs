//! The HTTP client of webhooks, traces and logs of other nodes: bounded in time and size, without redirects.

use std::time::Duration;

use ureq::Agent;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

/// A longer head is not read.
const HEADER_BYTES_MAX: usize = 16 << 10;

/// Keeps no connection between two requests. `use_proxy`: as the environment says.
pub(crate) fn agent(timeout: Duration, use_proxy: bool) -> Agent {
    let mut config = Agent::config_builder()
        .timeout_global(Some(timeout))
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .max_response_header_size(HEADER_BYTES_MAX)
        .max_idle_connections(0)
        .user_agent(concat!("relight/", env!("CARGO_PKG_VERSION")))
        .tls_config(TlsConfig::builder().root_certs(roots()).build());
    if !use_proxy {
        config = config.proxy(None);
    }
    config.build().into()
}

/// Those that this machine trusts; Mozilla's where it names none, as in a small container.
fn roots() -> RootCerts {
    let certificates = rustls_native_certs::load_native_certs().certs;
    if certificates.is_empty() {
        return RootCerts::WebPki;
    }
    RootCerts::from(
        certificates
            .iter()
            .map(|one| Certificate::from_der(one).to_owned()),
    )
}
