//! Relight's memory: tasks, steps, leases and events behind one contract.
//!
//! Remembers and compares; decides nothing. Knows no process, no HTTP and no configuration.

mod bodies;
mod check;
#[cfg(feature = "conformance")]
pub mod conformance;
mod contract;
mod memory;
mod node_told;
pub mod postgres;
mod refusal;
mod session_columns;
pub mod sqlite;
pub mod transfer;
mod upgrading;

pub use contract::{
    AgentCommit, AgentCommitError, AgentQuery, AttemptQuery, Commit, CommitError, Committed,
    EventQuery, Inventory, Joined, Recall, Replication, SessionQuery, Standby, Store, StoreError,
    TaskGlance, TaskQuery, Told,
};
pub use memory::MemoryStore;
pub use upgrading::{Upgrade, on_upgrade};
