//! Several nodes on one store, shown from outside with real daemons that are really killed. They wait for
//! leases most of the time: `./test` runs many at once, beside the others.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

mod asked;
mod fleet;
#[path = "../supervision/ground.rs"]
#[expect(dead_code, reason = "what other tests need too")]
mod ground;
mod guarded;
mod held;
mod outage;
mod relay;
#[path = "../relight/mod.rs"]
mod relight;
#[path = "../../../testkit/src/postgres.rs"]
#[expect(
    dead_code,
    unreachable_pub,
    reason = "a module of testkit, taken in by its path"
)]
mod server;
mod standing;
mod takeover;
mod which_store;
