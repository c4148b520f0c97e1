//! A shim with real agents: their ends, their trees, and the deaths of those around it.
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

mod cgroups;
mod guarding;
mod releasing;
mod stage;
mod starting;
mod supervisors;
mod trees;
