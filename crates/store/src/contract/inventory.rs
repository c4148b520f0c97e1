//! Inventory of a store.

use relight_core::agent::AgentStateKind;
use relight_core::session::SessionStateKind;
use relight_core::status::TaskStatus;
use serde::{Deserialize, Serialize};

/// Contents and settings of a store, for `doctor`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Inventory {
    /// The backend and its version.
    pub backend: String,
    /// Its location.
    pub place: String,
    /// Its schema's number.
    pub schema: u32,
    /// Number of tasks by status; statuses without tasks are left out.
    pub tasks: Vec<(TaskStatus, u64)>,
    /// Number of agents by state; states without agents are left out.
    pub agents: Vec<(AgentStateKind, u64)>,
    /// Number of sessions by state; states without sessions are left out.
    pub sessions: Vec<(SessionStateKind, u64)>,
    /// Events and step records together.
    pub events: u64,
    /// Tasks with a step begun and not ended.
    pub in_doubt: u64,
    /// Bytes on disk.
    pub bytes: u64,
    /// Settings that matter for durability, as name and value.
    pub settings: Vec<(String, String)>,
    /// Replication; none for a file.
    pub replication: Option<Replication>,
    /// Damage found by a full check; empty when there is none.
    pub damage: Vec<String>,
}

/// Replication of the database server: which commits survive its loss.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Replication {
    /// Which standbys commits wait for, as the server reports it; none if they do not wait.
    pub waits_for: Option<String>,
    /// Standbys that stream now.
    pub standbys: Vec<Standby>,
}

/// A standby server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standby {
    /// Its name; none if our role may not read it.
    pub name: Option<String>,
    /// Whether commits wait for it.
    pub is_synchronous: bool,
    /// Bytes not yet on its disk.
    pub behind_bytes: Option<u64>,
    /// Its replication lag.
    pub behind_ms: Option<u64>,
}
