//! Who takes work from the queue, and which tasks are for it.

use serde::{Deserialize, Serialize};

use crate::ids::AgentName;
use crate::status::TaskStatus;
use crate::task::Task;

/// Somebody who wants work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claimant {
    /// Its name.
    pub agent: AgentName,
    /// The name that it shares with others who do the same work.
    pub pool: Option<AgentName>,
    /// What it can do.
    pub skills: Vec<String>,
}

impl Claimant {
    /// One of whom nothing but the name is known.
    pub fn new(agent: AgentName) -> Self {
        Self { agent, pool: None, skills: Vec::new() }
    }

    /// Whether a task that stands where it does is for this one; time and lease are others' to judge.
    pub fn may_take(&self, task: &Task) -> bool {
        let is_in_queue = match task.status {
            TaskStatus::Created | TaskStatus::Deferred => true,
            TaskStatus::Assigned | TaskStatus::Interrupted => {
                task.agent.as_ref().is_none_or(|agent| self.is_called(agent))
            }
            TaskStatus::Failed => task.has_retry_left(),
            TaskStatus::InProgress
            | TaskStatus::InReview
            | TaskStatus::Blocked
            | TaskStatus::Suspended
            | TaskStatus::Completed
            | TaskStatus::Cancelled => false,
        };
        let is_its_agent = || task.agent.as_ref().is_some_and(|agent| self.is_called(agent));
        is_in_queue && (!task.pinned || is_its_agent()) && self.can_do(task)
    }

    /// Whether tasks of this status are taken from the queue at all, by whomever.
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

    /// Whether this is the one, or one of those, that the name means.
    pub fn is_called(&self, name: &AgentName) -> bool {
        *name == self.agent || Some(name) == self.pool.as_ref()
    }

    fn can_do(&self, task: &Task) -> bool {
        task.spec.needs.iter().all(|need| self.skills.contains(need))
    }
}
