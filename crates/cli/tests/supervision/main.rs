//! What supervision promises, shown from outside with real processes that are really killed.
//!
//! Every test has a home of its own and waits for what it wants to see, never for time.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

#[path = "../relight/mod.rs"]
mod relight;

#[path = "../../../runtime/tests/alerts/receiver.rs"]
mod receiver;

mod adoption;
mod alerts;
mod background;
mod daemon;
mod descriptors;
mod drain;
mod frozen_shim;
mod ground;
mod hang;
mod harsh;
mod http;
mod loops;
mod observed;
mod presets;
mod recover;
mod reload;
mod router;
mod run;
mod sessions;
mod signals;
mod store_budget;
mod strategies;
mod successor;
mod tasks;
mod wishes;
