//! Moving a task through the table of transitions.

use super::{Refusal, TaskDecisionInput, become_status, hold, illegal, some_of};
use crate::alert::Alert;
use crate::change::Change;
use crate::event::EventKind;
use crate::ids::{AgentName, StepName};
use crate::lease::{Holder, HolderLife};
use crate::progress::left_open;
use crate::status::TaskStatus;
use crate::task::{CheckpointSettings, NewTask, Task, TaskTally};
use crate::time::Time;

/// Refuses changes to finished tasks.
pub(super) fn while_open(
    input: &TaskDecisionInput<'_>,
    change: Change,
) -> Result<Vec<Change>, Refusal> {
    if input.task.status.is_terminal() {
        return Err(illegal(input.task, TaskStatus::InProgress));
    }
    Ok(vec![change])
}

/// Moves to a status in which nobody works on it, and ends the lease.
pub(super) fn leave(
    input: &TaskDecisionInput<'_>,
    to: TaskStatus,
    reason: Option<String>,
) -> Result<Vec<Change>, Refusal> {
    let mut changes = vec![become_status(input.task, to, reason)?];
    changes.extend(end_lease(input.task));
    Ok(changes)
}

/// Blocks the task and sends an alert in the same commit.
pub(super) fn block(
    input: &TaskDecisionInput<'_>,
    reason: String,
    is_told: bool,
) -> Result<Vec<Change>, Refusal> {
    let alert = Alert::blocked(&input.task.id, &reason).detail();
    let mut changes = leave(input, TaskStatus::Blocked, Some(reason))?;
    if !is_told {
        changes.push(Change::Noted(EventKind::Alert, alert));
    }
    Ok(changes)
}

/// Completes the task. Refused if declared steps are open; with force they are recorded.
pub(super) fn done(input: &TaskDecisionInput<'_>, force: bool) -> Result<Vec<Change>, Refusal> {
    let steps = steps_left_open(input);
    let changes = leave(input, TaskStatus::Completed, left_open_reason(&steps))?;
    if force || steps.is_empty() {
        return Ok(changes);
    }
    Err(Refusal::StepsLeftOpen {
        task: input.task.id.clone(),
        steps,
    })
}

fn steps_left_open(input: &TaskDecisionInput<'_>) -> Vec<StepName> {
    left_open(&input.task.spec.steps, input.steps)
        .into_iter()
        .cloned()
        .collect()
}

/// The recorded reason when declared steps are open at the end.
fn left_open_reason(steps: &[StepName]) -> Option<String> {
    (!steps.is_empty()).then(|| format!("steps left open: {}", some_of(steps)))
}

/// Moves by the shortest path through the table; nothing when it is there already.
pub(super) fn shortest(
    input: &TaskDecisionInput<'_>,
    to: TaskStatus,
    reason: Option<&str>,
) -> Result<Vec<Change>, Refusal> {
    let is_own_block = input
        .task
        .checkpoint
        .as_ref()
        .is_some_and(|settings| settings.blocked);
    let waits = match (input.task.status, to) {
        (TaskStatus::Blocked, TaskStatus::InProgress | TaskStatus::Failed) => !is_own_block,
        (from, TaskStatus::InProgress | TaskStatus::Completed | TaskStatus::Failed) => {
            from.is_paused()
        }
        // Otherwise the dialect could end a block that it did not set.
        (from, TaskStatus::Blocked) => from == TaskStatus::Suspended,
        _ => false,
    };
    if waits {
        return Err(Refusal::waits_for_person(input.task));
    }
    // Only a person, or a resume, which costs an attempt, assigns a failed task again.
    let is_revived = input.task.status == TaskStatus::Failed
        && matches!(
            to,
            TaskStatus::InProgress | TaskStatus::Completed | TaskStatus::Blocked
        );
    let way = way(input.task.status, to).filter(|_| !is_revived);
    let way = way.ok_or_else(|| illegal(input.task, to))?;
    let completes = to == TaskStatus::Completed && input.task.status != to;
    let left_open = if completes {
        left_open_reason(&steps_left_open(input))
    } else {
        None
    };
    let reason = left_open.or_else(|| reason.map(str::to_owned));
    let mut changes: Vec<Change> = way
        .into_iter()
        .map(|to| Change::Status {
            to,
            reason: reason.clone(),
        })
        .collect();
    let blocks = to == TaskStatus::Blocked && input.task.status != to;
    if blocks
        || matches!(
            to,
            TaskStatus::Completed | TaskStatus::Failed | TaskStatus::Cancelled
        )
    {
        changes.extend(end_lease(input.task));
    }
    if blocks {
        let why = reason.as_deref().unwrap_or("its checkpoint says so");
        let alert = Alert::blocked(&input.task.id, why).detail();
        changes.push(Change::Noted(EventKind::Alert, alert));
    }
    Ok(changes)
}

/// Marks a block set by the dialect, because only the dialect may end it that way. Any other status
/// change clears the mark.
pub(super) fn mark_block(task: &Task, by_dialect: bool, changes: &[Change]) -> Option<Change> {
    let to = changes.iter().rev().find_map(|change| match change {
        Change::Status { to, .. } => Some(*to),
        _ => None,
    })?;
    let blocked = by_dialect && to == TaskStatus::Blocked;
    let settings = task
        .checkpoint
        .clone()
        .filter(|settings| settings.blocked != blocked)?;
    Some(Change::CheckpointSettings(CheckpointSettings {
        blocked,
        ..settings
    }))
}

/// Sets the dialect's settings; does not change who blocked the task.
pub(super) fn set_checkpoint(
    input: &TaskDecisionInput<'_>,
    settings: CheckpointSettings,
) -> Result<Vec<Change>, Refusal> {
    let blocked = input
        .task
        .checkpoint
        .as_ref()
        .is_some_and(|settings| settings.blocked);
    while_open(
        input,
        Change::CheckpointSettings(CheckpointSettings {
            blocked,
            ..settings
        }),
    )
}

/// The statuses after `from` on the shortest path to `to`, without passing through a terminal
/// status.
fn way(from: TaskStatus, to: TaskStatus) -> Option<Vec<TaskStatus>> {
    let mut ways = vec![(from, Vec::new())];
    let mut at = 0;
    while at < ways.len() {
        let (status, way) = ways[at].clone();
        if status == to {
            return Some(way);
        }
        for next in status.next() {
            let passable =
                *next == to || matches!(next, TaskStatus::Assigned | TaskStatus::InProgress);
            let new = !ways.iter().any(|(seen, _)| seen == next);
            if passable && new {
                let mut longer: Vec<TaskStatus> = way.clone();
                longer.push(*next);
                ways.push((*next, longer));
            }
        }
        at += 1;
    }
    None
}

/// Starts over under the same id: steps are cleared and the holder is fenced off.
pub(super) fn replace(input: &TaskDecisionInput<'_>, new: Box<NewTask>) -> Vec<Change> {
    let mut changes = vec![Change::FenceRaised, Change::StepsCleared];
    if input.task.not_before.is_some() {
        changes.push(Change::NotBefore(None));
    }
    changes.push(Change::Replaced(new));
    changes
}

/// Its holder died, shuts down or gives it up. A task that was not in progress only loses its lease.
pub(super) fn interrupt(
    input: &TaskDecisionInput<'_>,
    reason: String,
    agent_keeps_it: bool,
) -> Result<Vec<Change>, Refusal> {
    if input.task.status.can_become(TaskStatus::Interrupted) {
        return Ok(interrupted(input.task, reason, agent_keeps_it));
    }
    Ok(end_lease(input.task).into_iter().collect())
}

/// The changes that interrupt a task in progress. Unless its agent keeps it, a task that is not pinned
/// returns to the queue, as after a release: its agent's name may never come back. What an attempt held
/// stays its agent's, because the next attempt continues it.
pub fn interrupted(task: &Task, reason: String, agent_keeps_it: bool) -> Vec<Change> {
    let mut changes = vec![Change::Status {
        to: TaskStatus::Interrupted,
        reason: Some(reason),
    }];
    changes.extend(end_lease(task));
    let holder = task.lease.held.as_ref().map(|held| &held.holder);
    let is_attempts = matches!(holder, Some(Holder::Attempt { .. }));
    if !agent_keeps_it && !is_attempts {
        changes.extend(hold::return_to_queue(task));
    }
    changes
}

pub(super) fn defer(
    input: &TaskDecisionInput<'_>,
    until: Time,
    reason: Option<String>,
) -> Result<Vec<Change>, Refusal> {
    let mut changes = leave(input, TaskStatus::Deferred, reason)?;
    changes.push(Change::NotBefore(Some(until)));
    Ok(changes)
}

pub(super) fn cancel(
    input: &TaskDecisionInput<'_>,
    reason: Option<String>,
) -> Result<Vec<Change>, Refusal> {
    let status = become_status(input.task, TaskStatus::Cancelled, reason)?;
    Ok(vec![status, Change::FenceRaised])
}

/// Assigns it again. A failed task uses one retry; a waiting or assigned one does not. A live
/// holder keeps it unless forced. A step that only a person may decide about is resolved first:
/// whoever took the task would be stopped at it. Recoveries without progress are reset; total usage is not.
pub(super) fn retry(
    input: &TaskDecisionInput<'_>,
    agent: Option<AgentName>,
    force: bool,
) -> Result<Vec<Change>, Refusal> {
    let task = input.task;
    let is_at_work = task.lease.held.is_some() && input.life == HolderLife::Alive;
    if is_at_work && !force {
        return Err(hold::held(input));
    }
    let is_released = task.status == TaskStatus::Assigned && !task.is_assigned_by_hand();
    let is_handed_on = task.status == TaskStatus::Assigned && agent.is_some();
    let mut changes = if is_released {
        let to = |to| Change::Status { to, reason: None };
        vec![
            to(TaskStatus::Created),
            to(TaskStatus::Assigned),
            Change::FenceRaised,
        ]
    } else if is_handed_on {
        vec![Change::FenceRaised]
    } else {
        vec![
            become_status(task, TaskStatus::Assigned, None)?,
            Change::FenceRaised,
        ]
    };
    let unresolved = input.steps.iter().find(|step| step.waits_for_person());
    if let (false, Some(step)) = (is_at_work, unresolved) {
        return Err(Refusal::StepUnresolved {
            task: task.id.clone(),
            step: step.key.clone(),
        });
    }
    if task.status == TaskStatus::Failed {
        if !force {
            hold::check_retries(task)?;
        }
        changes.push(Change::Retried);
    }
    if task.tally.recoveries > 0 || task.tally.given_up {
        let tally = TaskTally {
            recoveries: 0,
            given_up: false,
            ..task.tally.clone()
        };
        changes.push(Change::Tally(tally));
    }
    if agent.is_some() {
        changes.push(Change::Assigned(agent));
    }
    if task.not_before.is_some() {
        changes.push(Change::NotBefore(None));
    }
    Ok(changes)
}

/// As a retry without a limit, with all steps put aside; history keeps them.
pub(super) fn restart(
    input: &TaskDecisionInput<'_>,
    agent: Option<AgentName>,
) -> Result<Vec<Change>, Refusal> {
    let mut changes = retry(input, agent, true)?;
    changes.push(Change::StepsCleared);
    Ok(changes)
}

pub(super) fn end_lease(task: &Task) -> Option<Change> {
    task.lease.held.is_some().then_some(Change::LeaseEnded)
}
