//! The same story through every front: the command line, HTTP, MCP, the library and packages must leave the
//! same journal and give the same answers and errors.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

#[path = "../mcp/client.rs"]
#[expect(dead_code, reason = "not all of it is used here")]
mod client;
#[path = "../supervision/ground.rs"]
#[expect(dead_code, reason = "not all of it is used here")]
mod ground;
#[path = "../relight/mod.rs"]
mod relight;

mod agents;
mod checkpoints;
mod fields;
mod front;
mod library;
mod models;
mod operations;
mod package;
mod recovery;
mod refusals;
mod reporters;
mod sessions;
mod stories;
