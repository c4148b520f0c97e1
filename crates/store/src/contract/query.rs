//! Filters for reading records.

use relight_core::agent::{AgentStateKind, AttemptTag};
use relight_core::event::EventKind;
use relight_core::ids::{AgentName, SessionKey, TaskId};
use relight_core::session::SessionStateKind;
use relight_core::status::TaskStatus;
use relight_core::time::Time;
use serde::{Deserialize, Serialize};

/// Filter for tasks. All conditions must hold; the default selects all tasks.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TaskQuery {
    /// Only of these statuses; any when empty.
    pub statuses: Vec<TaskStatus>,
    /// Only of this agent.
    pub agent: Option<AgentName>,
    /// Only workflows of the checkpoint dialect with this folder.
    pub checkpoint_folder: Option<String>,
    /// Only those whose lease this attempt of an agent holds.
    pub held_by: Option<AttemptTag>,
    /// Only those with a lease, whether its holder lives or not.
    pub held: bool,
    /// Only those with a step begun and not ended.
    pub in_doubt: bool,
    /// Only those whose id, title, declared or recorded steps contain this text; ASCII letters in any
    /// case.
    #[serde(default)]
    pub find: Option<String>,
    /// Newest first instead of in the order in which they were added.
    #[serde(default)]
    pub newest: bool,
    /// Only those listed after this one; for paging.
    pub after: Option<TaskId>,
    /// At most so many; all when none.
    pub limit: Option<usize>,
}

impl TaskQuery {
    /// Tasks with a step in doubt, except cancelled ones: nobody wants those any more.
    pub fn with_steps_in_doubt() -> Self {
        let is_wanted = |status: &TaskStatus| *status != TaskStatus::Cancelled;
        let statuses = TaskStatus::ALL.into_iter().filter(is_wanted).collect();
        Self {
            statuses,
            in_doubt: true,
            ..Self::default()
        }
    }
}

/// Summary of a task for scans over many tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskGlance {
    /// Its id.
    pub id: TaskId,
    /// Its status.
    pub status: TaskStatus,
    /// Its agent.
    pub agent: Option<AgentName>,
    /// When it last changed.
    pub updated_at: Time,
    /// Not to be started before.
    pub not_before: Option<Time>,
    /// Not worth resuming after.
    pub expires_at: Option<Time>,
}

/// Filter for agents, ordered by name. The default selects all.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AgentQuery {
    /// Only in these states; any when empty.
    pub states: Vec<AgentStateKind>,
    /// Only those after this name; for paging.
    pub after: Option<AgentName>,
    /// At most so many; all when none.
    pub limit: Option<usize>,
}

/// Filter for attempts, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptQuery {
    /// Only of this agent.
    pub agent: Option<AgentName>,
    /// Only those that ended.
    pub ended: bool,
    /// At most so many.
    pub limit: usize,
    /// Only those begun before this one; no result when it does not exist. For paging.
    pub before: Option<AttemptTag>,
}

/// Filter for sessions, ordered by key. The default selects all.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SessionQuery {
    /// Only in these states; any when empty.
    pub states: Vec<SessionStateKind>,
    /// Only those that were seen without ever being marked.
    pub seen: bool,
    /// Only those after this key; for paging.
    pub after: Option<SessionKey>,
    /// At most so many; all when none.
    pub limit: Option<usize>,
}

/// Small records by their names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptRange {
    /// The first name.
    pub from: String,
    /// The name after the last.
    pub to: String,
    /// From the last name to the first.
    pub descending: bool,
    /// At most so many; a removal takes all.
    pub limit: Option<usize>,
}

/// Filter for events, oldest first unless `newest` is set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventQuery {
    /// Only those after this one.
    pub after: u64,
    /// Only those before this one; for paging back from the newest.
    pub before: Option<u64>,
    /// Only of this task.
    pub task: Option<TaskId>,
    /// Only of this agent.
    pub agent: Option<AgentName>,
    /// Only of these kinds; any when empty.
    pub kinds: Vec<EventKind>,
    /// At most so many.
    pub limit: usize,
    /// Select the newest `limit` events instead of the oldest; still returned oldest first.
    pub newest: bool,
}

/// Rows that may be unreadable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rows {
    /// All tasks, agents, attempts and sessions.
    All,
    /// The tasks of a list.
    Tasks(TaskQuery),
    /// The agents of a list.
    Agents(AgentQuery),
    /// The sessions of a list.
    Sessions(SessionQuery),
}

/// A row that cannot be read; lists leave it out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnreadableRow {
    /// `task`, `agent`, `attempt` or `session`.
    pub what: String,
    /// Its id, name, tag or key.
    pub name: String,
    /// Why it cannot be read.
    pub reason: String,
}

impl std::fmt::Display for UnreadableRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { what, name, reason } = self;
        write!(f, "{what} {name} cannot be read: {reason}")
    }
}
