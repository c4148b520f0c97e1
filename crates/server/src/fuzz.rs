//! What fuzzers throw at the daemon's door, and what must hold whatever they throw.
//!
//! One function a parser of outside input; each panics when its promise does not hold. Run by
//! `./prove fuzz`, and for a moment by `./test`.

mod connection;

use axum::extract::Query;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header};
use relight_core::time::Time;
use relight_runtime::operations::step::{StepBegin, StepEnd, StepResolve};
use relight_runtime::operations::task::{TaskDefer, TaskSpend};
use serde::de::DeserializeOwned;

use crate::client;
use crate::extract::{BODY_BYTES_MAX, check_content, check_depth, parse};
use crate::guard::host::Hosts;
use crate::guard::{caller, host, origin};
use crate::idempotency;
use crate::listen::Peer;
use crate::relay;
use crate::routes::{self, daemon, moment};
use crate::wire::{agent, event, list, login, session, stats, task};

pub use connection::{TOKEN, connection};

const PORT: u16 = 7717;
const HOSTS: [&str; 4] = ["127.0.0.1:7717", "localhost:7717", "[::1]:7717", "relight.example:7717"];

/// A request's body as each type of the wire: taken, or refused as the caller's mistake.
pub fn bodies(data: &[u8]) {
    if data.len() > BODY_BYTES_MAX || check_depth(data).is_err() {
        return;
    }
    body::<agent::NewAgent>(data);
    body::<agent::StartAgent>(data);
    body::<agent::Heartbeat>(data);
    body::<login::Login>(data);
    body::<session::BeginTurn>(data);
    body::<session::Turn>(data);
    body::<session::Because>(data);
    body::<StepBegin>(data);
    body::<StepEnd>(data);
    body::<StepResolve>(data);
    body::<TaskDefer>(data);
    body::<TaskSpend>(data);
    body::<task::NewTask>(data);
    body::<task::StartTask>(data);
    body::<task::Claim>(data);
    body::<daemon::Down>(data);
    body::<daemon::Recover>(data);
    if let Err(error) = relay::try_question(data) {
        assert!(error.status().is_client_error() && error.inside.is_none());
    }
}

fn body<T: DeserializeOwned>(data: &[u8]) {
    if let Err(error) = parse::<T>(data) {
        assert!(error.status().is_client_error() && error.inside.is_none());
    }
}

/// Headers through the guard: who is let in stands on the list, and nothing else is.
pub fn headers(data: &[u8]) {
    let headers = headers_of(data);
    let hosts = Hosts::new(PORT, false, &["relight.example".to_owned()]);
    let tcp = Peer::Tcp { ip: [127, 0, 0, 1].into() };
    for uri in ["/api/agents", "http://127.0.0.1:7717/", "http://evil.example/"] {
        let uri = Uri::from_static(uri);
        if host::check(&hosts, tcp, &uri, &headers).is_ok() {
            let named: Vec<_> = headers.get_all(header::HOST).iter().collect();
            let [host] = named.as_slice() else { panic!("one Host") };
            assert!(
                HOSTS.iter().any(|known| host.as_bytes().eq_ignore_ascii_case(known.as_bytes()))
            );
            assert_ne!(uri.authority().map(|it| it.as_str()), Some("evil.example"));
        }
    }
    if origin::check(&hosts, tcp, &headers).is_ok() {
        for origin in headers.get_all(header::ORIGIN) {
            let host = origin.as_bytes().strip_prefix(b"http://").expect("ours is plain HTTP");
            assert!(HOSTS.iter().any(|known| host == known.as_bytes()), "{origin:?}");
        }
        for site in headers.get_all("sec-fetch-site") {
            assert!(matches!(site.as_bytes(), b"same-origin" | b"none"));
        }
    }
    if check_content(&Method::POST, "/api/tasks", &headers).is_ok()
        && let Some(kind) = headers.get(header::CONTENT_TYPE)
    {
        assert!(kind.as_bytes().to_ascii_lowercase().starts_with(b"application/json"), "{kind:?}");
    }
    if let Ok(Some(key)) = idempotency::text_of(&headers) {
        assert!((1..=200).contains(&key.len()));
    }
    let _ = (caller::cookie("relight", &headers), routes::last_seen(&headers));
}

/// One header a line; lines that are none are passed over.
fn headers_of(data: &[u8]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in data.split(|byte| *byte == b'\n').take(64) {
        let Some(at) = line.iter().position(|byte| *byte == b':') else { continue };
        let name = HeaderName::from_bytes(&line[..at]);
        let value = HeaderValue::from_bytes(line[at + 1..].trim_ascii());
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    headers
}

/// Queries, cursors and single values of bodies.
pub fn queries(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let _ = (moment(text, Time::from_ms(0)), routes::kinds(text));
    let Ok(uri) = format!("/?{text}").parse::<Uri>() else { return };
    if let Ok(Query(page)) = Query::<list::Page>::try_from_uri(&uri)
        && let Ok(limit) = page.limit()
    {
        assert!((1..=1_000).contains(&limit));
    }
    let _ = Query::<event::WhichEvents>::try_from_uri(&uri);
    let _ = Query::<stats::WhichHours>::try_from_uri(&uri);
    routes::queries(&uri);
}

/// What the CLI reads from the socket of a daemon: an answer that broke off is none.
pub fn client_answer(data: &[u8]) {
    let Some(answered) = client::parse(data) else { return };
    assert_eq!(answered.refusal().is_none(), (200..300).contains(&answered.status));
}
