//! What becomes of work, shown from outside: the queue, strategies, the operator's desk, draining.
//!
//! Holders are real processes that are really killed; nothing waits for time alone where it can wait
//! for a sign.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

#[path = "../cases/mod.rs"]
mod cases;

mod desk;
mod drain;
mod given;
mod inflight;
mod queue;
mod strategies;
mod trust;
mod usage;
