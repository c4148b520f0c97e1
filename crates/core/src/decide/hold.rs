//! Taking and releasing the lease.

use serde_json::json;

use super::{Refusal, Right, StartLimits, Starter, TaskDecisionInput, become_status, illegal};
use crate::change::Change;
use crate::claimant::Claimant;
use crate::event::EventKind;
use crate::lease::{Holder, HolderLife};
use crate::recovery::TaskPolicy;
use crate::status::TaskStatus;
use crate::task::Task;
use crate::time::Span;

/// Reason for interrupting a task whose holder died.
const HOLDER_GONE: &str = "its holder is gone";
const STOLEN: &str = "taken over from its holder";
/// Reason of an assigned task that was given back; see [`Task::is_assigned_by_hand`].
const RELEASED: &str = "released by its holder";
/// Detail of the event before the lease when a person, or a program without a name, takes an
/// agent's task.
pub const STARTED_WITHOUT_AGENT: &str = "started_without_agent";

pub(super) fn start(
    input: &TaskDecisionInput<'_>,
    holder: Holder,
    ttl: Option<Span>,
    steal: bool,
    starter: Option<&Starter>,
    limits: &StartLimits,
) -> Result<Vec<Change>, Refusal> {
    let task = input.task;
    if task.status.is_terminal() || task.status == TaskStatus::Failed {
        return Err(illegal(task, TaskStatus::InProgress));
    }
    let continues = !steal
        && task
            .lease
            .is_continued_by(&holder, input.right.fence(), input.life);
    if !continues {
        check_agent(task, starter)?;
    }
    let taken = if continues {
        Vec::new()
    } else {
        take_from_holder(input, steal)?
    };
    let refusal = limits.refusal(task, input.now);
    // The current holder may finish regardless of limits.
    if let Some(refusal) =
        refusal.filter(|refusal| !continues || matches!(refusal, Refusal::WaitsForPerson { .. }))
    {
        return Err(refusal);
    }
    if continues {
        return Ok(to_in_progress(task).into_iter().collect());
    }
    let mut changes = taken;
    changes.extend(belongs_to(task, starter, &holder));
    changes.push(Change::LeaseTaken { holder, ttl });
    let interrupted = changes.iter().any(|c| matches!(c, Change::Status { .. }));
    if interrupted {
        changes.push(Change::Status {
            to: TaskStatus::InProgress,
            reason: None,
        });
    } else {
        changes.extend(to_in_progress(task));
    }
    if task.not_before.is_some() {
        changes.push(Change::NotBefore(None));
    }
    Ok(changes)
}

/// An agent may start its own tasks, its pool's and those without an agent.
fn check_agent(task: &Task, starter: Option<&Starter>) -> Result<(), Refusal> {
    match (starter, &task.agent) {
        (Some(Starter::Itself(starter)), Some(agent)) if !starter.is_called(agent) => {
            Err(Refusal::OtherAgent {
                task: task.id.clone(),
                agent: agent.clone(),
                starter: starter.agent.clone(),
            })
        }
        _ => Ok(()),
    }
}

/// Changes the task's agent, if needed. Recorded before the lease, so that the events show for whom
/// it was taken.
fn belongs_to(task: &Task, starter: Option<&Starter>, holder: &Holder) -> Vec<Change> {
    let mut changes = Vec::new();
    if let Some(agent) = starter.map(Starter::agent) {
        if task.agent.as_ref() != Some(agent) {
            changes.push(Change::Assigned(Some(agent.clone())));
        }
        if !task.pinned {
            changes.push(Change::Pinned(true));
        }
    } else if task.agent.is_some() && !matches!(holder, Holder::Attempt { .. }) {
        let detail = json!({STARTED_WITHOUT_AGENT: true});
        changes.push(Change::Noted(EventKind::TaskAssigned, detail));
    }
    changes
}

/// Claims a task of the queue. A task over a limit is parked instead.
pub(super) fn claim(
    input: &TaskDecisionInput<'_>,
    claimant: &Claimant,
    holder: Holder,
    ttl: Option<Span>,
    policy: &TaskPolicy,
) -> Result<Vec<Change>, Refusal> {
    let (mut changes, given) = give(input, claimant, policy)?;
    if given {
        changes.push(Change::LeaseTaken { holder, ttl });
        changes.push(Change::Status {
            to: TaskStatus::InProgress,
            reason: None,
        });
    }
    Ok(changes)
}

/// Assigns a task to an agent that will be started for it; nobody holds it yet.
pub(super) fn assign(
    input: &TaskDecisionInput<'_>,
    claimant: &Claimant,
    policy: &TaskPolicy,
) -> Result<Vec<Change>, Refusal> {
    let task = input.task;
    let (mut changes, given) = give(input, claimant, policy)?;
    let is_assigned = task.status == TaskStatus::Assigned
        || changes
            .iter()
            .any(|change| matches!(change, Change::Status { .. }));
    if given && !is_assigned {
        changes.push(Change::Status {
            to: TaskStatus::Assigned,
            reason: None,
        });
    }
    Ok(changes)
}

/// The common part of claiming and assigning. Returns whether it succeeded.
fn give(
    input: &TaskDecisionInput<'_>,
    claimant: &Claimant,
    policy: &TaskPolicy,
) -> Result<(Vec<Change>, bool), Refusal> {
    let task = input.task;
    if let Some(at) = task.not_before.filter(|at| *at > input.now) {
        return Err(Refusal::NotBefore {
            task: task.id.clone(),
            at,
        });
    }
    let mut changes = take_from_holder(input, false)?;
    // If its holder died at work, a strategy must be asked first.
    if task.status == TaskStatus::InProgress || !claimant.may_take(task) {
        return Err(illegal(task, TaskStatus::InProgress));
    }
    if !task.is_assigned_by_hand()
        && let Some(why) = policy.exhausted(task, input.now)
    {
        changes.extend(super::recover::park(task, &why.to_string()));
        return Ok((changes, false));
    }
    if task.status == TaskStatus::Failed {
        changes.push(Change::Retried);
        changes.push(Change::Status {
            to: TaskStatus::Assigned,
            reason: None,
        });
    }
    if task.agent.as_ref() != Some(&claimant.agent) {
        changes.push(Change::Assigned(Some(claimant.agent.clone())));
    }
    if task.not_before.is_some() {
        changes.push(Change::NotBefore(None));
    }
    Ok((changes, true))
}

pub(super) fn release(input: &TaskDecisionInput<'_>, force: bool) -> Result<Vec<Change>, Refusal> {
    let task = input.task;
    let holder_lives = task.lease.held.is_some() && input.life == HolderLife::Alive;
    if holder_lives && !force && input.right == Right::Unfenced {
        return Err(held(input));
    }
    let mut changes = Vec::new();
    if force {
        changes.push(Change::FenceRaised);
    } else {
        changes.extend(super::status::end_lease(task));
    }
    if task.status == TaskStatus::InProgress {
        changes.push(become_status(
            task,
            TaskStatus::Assigned,
            Some(RELEASED.to_owned()),
        )?);
        changes.extend(return_to_queue(task));
    } else if task.lease.held.is_none() {
        return Err(illegal(task, TaskStatus::Assigned));
    }
    Ok(changes)
}

/// Leaves a task without an agent, as after the death of its holder, so that anyone may claim it; nothing
/// when it is pinned to its agent.
pub(super) fn return_to_queue(task: &Task) -> Option<Change> {
    (task.agent.is_some() && !task.pinned).then_some(Change::Assigned(None))
}

/// Refuses another assignment when the limit is reached.
pub(super) fn check_retries(task: &Task) -> Result<(), Refusal> {
    let max = task.max_retries();
    if task.tally.given_up {
        return Err(Refusal::GivenUp {
            task: task.id.clone(),
        });
    }
    if task.retries < max {
        return Ok(());
    }
    Err(Refusal::RetriesUsedUp {
        task: task.id.clone(),
        used: task.retries,
        max,
    })
}

/// Interrupts the task if its holder is dead or robbed; nothing when nobody holds it.
pub(super) fn take_from_holder(
    input: &TaskDecisionInput<'_>,
    steal: bool,
) -> Result<Vec<Change>, Refusal> {
    let task = input.task;
    if task.lease.held.is_none() {
        return Ok(Vec::new());
    }
    let reason = match (input.life, steal) {
        (HolderLife::Gone, _) => HOLDER_GONE,
        (HolderLife::Alive, true) => STOLEN,
        (HolderLife::Alive, false) => return Err(held(input)),
    };
    let mut changes = vec![Change::LeaseEnded];
    if task.status == TaskStatus::InProgress {
        let reason = Some(reason.to_owned());
        changes.push(Change::Status {
            to: TaskStatus::Interrupted,
            reason,
        });
    }
    Ok(changes)
}

fn to_in_progress(task: &Task) -> Option<Change> {
    let already = task.status == TaskStatus::InProgress;
    (!already).then_some(Change::Status {
        to: TaskStatus::InProgress,
        reason: None,
    })
}

pub(super) fn held(input: &TaskDecisionInput<'_>) -> Refusal {
    let task = input.task;
    let held = task.lease.held.clone();
    Refusal::Held {
        task: task.id.clone(),
        agent: task.agent.clone(),
        held: Box::new(held.expect("only a held task is refused")),
        now: input.now,
    }
}
