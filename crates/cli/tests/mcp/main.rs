//! `relight mcp`, by hand and by a real client.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

#[path = "../relight/mod.rs"]
mod relight;

mod client;
mod python;
mod setup;
mod wire;
