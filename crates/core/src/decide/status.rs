//! Moving a task through the table of transitions.

use std::collections::BTreeMap;

use super::{Refusal, Scene, become_status, hold, illegal};
use crate::change::Change;
use crate::ids::AgentName;
use crate::status::TaskStatus;
use crate::task::Task;
use crate::time::Time;

/// Context of a finished task is history and stays as it is.
pub(super) fn set(
    scene: &Scene<'_>,
    pairs: BTreeMap<String, String>,
) -> Result<Vec<Change>, Refusal> {
    if scene.task.status.is_terminal() {
        return Err(illegal(scene.task, TaskStatus::InProgress));
    }
    Ok(vec![Change::ContextSet(pairs)])
}

/// To a status in which nobody works on it: the lease ends.
pub(super) fn leave(
    scene: &Scene<'_>,
    to: TaskStatus,
    reason: Option<String>,
) -> Result<Vec<Change>, Refusal> {
    let mut changes = vec![become_status(scene.task, to, reason)?];
    changes.extend(end_lease(scene.task));
    Ok(changes)
}

pub(super) fn defer(
    scene: &Scene<'_>,
    until: Time,
    reason: Option<String>,
) -> Result<Vec<Change>, Refusal> {
    let mut changes = leave(scene, TaskStatus::Deferred, reason)?;
    changes.push(Change::NotBefore(Some(until)));
    Ok(changes)
}

pub(super) fn cancel(scene: &Scene<'_>, reason: Option<String>) -> Result<Vec<Change>, Refusal> {
    let status = become_status(scene.task, TaskStatus::Cancelled, reason)?;
    Ok(vec![status, Change::FenceRaised])
}

/// A failed task uses up one of its retries; one that only waits does not.
pub(super) fn retry(
    scene: &Scene<'_>,
    agent: Option<AgentName>,
    force: bool,
) -> Result<Vec<Change>, Refusal> {
    let task = scene.task;
    let mut changes = vec![become_status(task, TaskStatus::Assigned, None)?, Change::FenceRaised];
    if task.status == TaskStatus::Failed {
        if !force {
            hold::check_retries(task)?;
        }
        changes.push(Change::Retried);
    }
    if agent.is_some() {
        changes.push(Change::Assigned(agent));
    }
    if task.not_before.is_some() {
        changes.push(Change::NotBefore(None));
    }
    Ok(changes)
}

pub(super) fn end_lease(task: &Task) -> Option<Change> {
    task.lease.held.is_some().then_some(Change::LeaseEnded)
}
