//! The collector: where it is, and one request to it.

use std::time::Duration;

use ureq::http::Uri;

use super::span::{TraceSpan, request};
use crate::http_client;

/// How long one request may take.
const TIMEOUT: Duration = Duration::from_secs(10);
const PATH: &str = "/v1/traces";

/// Where traces go.
#[derive(Clone)]
pub struct Collector {
    url: String,
    place: String,
    service: String,
    headers: Vec<(String, String)>,
}

/// Its headers may hold a secret.
impl std::fmt::Debug for Collector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Collector").field(&self.place).finish()
    }
}

/// Why a collector cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadCollector {
    /// Not an address.
    #[error("{0:?} is not an http:// or https:// address")]
    NotAUrl(String),
    /// Not pairs of name and value.
    #[error("the headers of the collector are not NAME=VALUE, with commas between")]
    BadHeaders,
}

impl Collector {
    /// At this base address, as `OTEL_EXPORTER_OTLP_ENDPOINT` has it.
    pub fn at_base(base: &str, service: &str) -> Result<Self, BadCollector> {
        Self::at(&format!("{}{PATH}", base.trim_end_matches('/')), service)
    }

    /// At this very address.
    pub fn at(url: &str, service: &str) -> Result<Self, BadCollector> {
        let bad = || BadCollector::NotAUrl(url.to_owned());
        let parsed: Uri = url.parse().map_err(|_| bad())?;
        let (scheme, host) = (parsed.scheme_str(), parsed.host());
        let (Some(scheme @ ("http" | "https")), Some(host)) = (scheme, host) else {
            return Err(bad());
        };
        let port = parsed
            .port_u16()
            .map(|port| format!(":{port}"))
            .unwrap_or_default();
        let place = format!("{scheme}://{host}{port}");
        let (url, service) = (url.to_owned(), service.to_owned());
        Ok(Self {
            url,
            place,
            service,
            headers: Vec::new(),
        })
    }

    /// With these headers: `NAME=VALUE,NAME=VALUE`.
    pub fn with_headers(mut self, text: &str) -> Result<Self, BadCollector> {
        for pair in text.split(',').filter(|pair| !pair.trim().is_empty()) {
            let (name, value) = pair.split_once('=').ok_or(BadCollector::BadHeaders)?;
            self.headers
                .push((name.trim().to_owned(), value.trim().to_owned()));
        }
        Ok(self)
    }

    /// The address without what may be secret in it.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Tells it some spans. Blocks for as long as that takes, which is bounded.
    pub(super) fn post(&self, spans: &[TraceSpan]) -> Result<(), String> {
        let body = request(&self.service, spans).to_string();
        let agent = http_client::agent(TIMEOUT, false);
        let mut post = agent
            .post(&self.url)
            .header("content-type", "application/json");
        for (name, value) in &self.headers {
            post = post.header(name, value);
        }
        match post.send(body.as_bytes()) {
            Ok(answer) if answer.status().is_success() => Ok(()),
            Ok(answer) => Err(format!("it answered {}", answer.status())),
            Err(error) => Err(error.to_string().replace(&self.url, &self.place)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_base_or_the_whole() {
        let base = Collector::at_base("http://127.0.0.1:4318/", "relight").unwrap();
        assert_eq!(base.url, "http://127.0.0.1:4318/v1/traces");
        let whole = Collector::at("https://me:pw@example.org/t/v1/traces", "relight").unwrap();
        assert_eq!(format!("{whole:?}"), r#"Collector("https://example.org")"#);
        for bad in ["", "127.0.0.1:4318", "grpc://x:1", "http://"] {
            assert!(Collector::at_base(bad, "relight").is_err(), "{bad}");
        }
        assert!(
            base.clone()
                .with_headers("authorization=Bearer x, a=b")
                .is_ok()
        );
        assert_eq!(
            base.with_headers("nonsense").unwrap_err(),
            BadCollector::BadHeaders
        );
    }
}
