//! The daemon's HTTP side from outside: a real server over a real store, on TCP and on its socket.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

mod agents;
mod attempts;
mod door;
mod ground;
mod hostile;
mod limits;
mod login;
mod mcp;
mod metrics;
mod pages;
mod relay;
mod reporters;
mod stream;
mod tls;
mod work;
