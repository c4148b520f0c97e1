//! Relight's memory: tasks, steps, leases and events behind one contract.
//!
//! Remembers and compares; decides nothing. Knows no process, no HTTP and no configuration.

#![cfg_attr(
    not(feature = "postgres"),
    allow(
        dead_code,
        unused_imports,
        reason = "some of what both databases share only one needs"
    )
)]

mod apply;
mod bodies;
mod commit_guards;
mod contract;
mod memory;
#[cfg_attr(not(feature = "postgres"), path = "postgres_absent.rs")]
pub mod postgres;
mod record;
pub mod refused;
pub mod sqlite;
pub mod transfer;
mod upgrading;

pub use contract::{
    AgentCommit, AgentCommitError, AgentQuery, AttemptQuery, Commit, CommitError, Committed,
    DeferredCommit, EventQuery, Inventory, Joined, KeptRange, Operation, OperationRefusal,
    OperationReply, OperationResult, Removal, Replication, Rows, SessionQuery, Standby, Store,
    StoreError, StoreEvent, TaskGlance, TaskQuery, UnreadableRow,
};
pub use memory::MemoryStore;
pub use upgrading::{Upgrade, on_upgrade};
