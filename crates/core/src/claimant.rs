//! Claimants of tasks, and which tasks they may take.

use serde::{Deserialize, Serialize};

use crate::ids::AgentName;
use crate::status::TaskStatus;
use crate::task::Task;

/// A claimant for tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claimant {
    /// Its name.
    pub agent: AgentName,
    /// The name of its pool.
    pub pool: Option<AgentName>,
    /// Its skills.
    pub skills: Vec<String>,
}

impl Claimant {
    /// A claimant with only a name.
    pub fn new(agent: AgentName) -> Self {
        Self {
            agent,
            pool: None,
            skills: Vec::new(),
        }
    }

    /// Whether it may take this task; time and lease are not checked here.
    pub fn may_take(&self, task: &Task) -> bool {
        let is_in_queue = match task.status {
            TaskStatus::Created | TaskStatus::Deferred => true,
            TaskStatus::Assigned | TaskStatus::Interrupted => task
                .agent
                .as_ref()
                .is_none_or(|agent| self.is_called(agent)),
            TaskStatus::Failed => task.has_retry_left(),
            TaskStatus::InProgress
            | TaskStatus::InReview
            | TaskStatus::Blocked
            | TaskStatus::Suspended
            | TaskStatus::Completed
            | TaskStatus::Cancelled => false,
        };
        let is_its_agent = || {
            task.agent
                .as_ref()
                .is_some_and(|agent| self.is_called(agent))
        };
        let can_do_it = || {
            task.spec
                .needs
                .iter()
                .all(|need| self.skills.contains(need))
        };
        is_in_queue && (!task.pinned || is_its_agent()) && can_do_it()
    }

    /// Whether tasks of this status are in the queue.
    pub fn is_for_the_queue(status: TaskStatus) -> bool {
        match status {
            TaskStatus::Created
            | TaskStatus::Deferred
            | TaskStatus::Assigned
            | TaskStatus::Interrupted
            | TaskStatus::Failed => true,
            TaskStatus::InProgress
            | TaskStatus::InReview
            | TaskStatus::Blocked
            | TaskStatus::Suspended
            | TaskStatus::Completed
            | TaskStatus::Cancelled => false,
        }
    }

    /// Whether the name is its own or its pool's.
    pub fn is_called(&self, name: &AgentName) -> bool {
        *name == self.agent || Some(name) == self.pool.as_ref()
    }
}
