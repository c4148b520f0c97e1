//! What a store says of itself.

use relight_core::agent::AgentStateKind;
use relight_core::session::SessionStateKind;
use relight_core::status::TaskStatus;
use serde::{Deserialize, Serialize};

/// What a store holds, for `doctor`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Inventory {
    /// The backend and its version.
    pub backend: String,
    /// Where it is.
    pub place: String,
    /// Its schema's number.
    pub schema: u32,
    /// Tasks by status; only those that are there.
    pub tasks: Vec<(TaskStatus, u64)>,
    /// Agents by state; only those that are there.
    pub agents: Vec<(AgentStateKind, u64)>,
    /// Sessions by state; only those that are there.
    pub sessions: Vec<(SessionStateKind, u64)>,
    /// Events and step records together.
    pub events: u64,
    /// Tasks with a step begun and not ended.
    pub in_doubt: u64,
    /// Bytes on disk.
    pub bytes: u64,
    /// Settings that matter for durability, as name and value.
    pub settings: Vec<(String, String)>,
    /// Whether others have it too; none where the store is a file.
    pub replication: Option<Replication>,
    /// What a check of the whole found; empty when all is well.
    pub damage: Vec<String>,
}

/// What is left of acknowledged commits when the server is lost.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Replication {
    /// Whether our commits wait for a standby at all, and for which: the server's own words.
    pub waits_for: Option<String>,
    /// Those that stream from the server now.
    pub standbys: Vec<Standby>,
}

/// Another server that follows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standby {
    /// As it calls itself; none when our role may not know.
    pub name: Option<String>,
    /// Whether a commit is acknowledged only when it has it too.
    pub is_synchronous: bool,
    /// How much it has not on its disk yet.
    pub behind_bytes: Option<u64>,
    /// For how long it did not have what it got last.
    pub behind_ms: Option<u64>,
}
