//! Each verb of the command line, by the built binary.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

#[path = "../agent_store/mod.rs"]
mod agent_store;
#[path = "../cases/mod.rs"]
mod cases;
#[path = "../supervision/ground.rs"]
#[expect(dead_code, reason = "not all of it is used here")]
mod ground;
#[path = "../relight/mod.rs"]
mod relight;
#[path = "../../../testkit/src/postgres.rs"]
#[expect(
    dead_code,
    unreachable_pub,
    reason = "a module of testkit, taken in by its path"
)]
mod server;

mod agents;
mod check_and_prune;
mod checkpoints;
mod cut_off;
mod doctor;
mod events;
mod exit_codes;
mod hooks;
mod lists;
mod operate;
mod projects;
mod redaction;
mod remedies;
mod service;
mod sessions;
mod setup;
mod sharing;
mod shell;
mod steps;
mod stores;
mod supervisors;
mod tasks;
mod transcripts;
mod traps;
