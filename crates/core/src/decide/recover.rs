//! Applies the decision of a recovery strategy, within the limits of the task.

use serde_json::json;

use super::{Refusal, Right, TaskDecisionInput, hold, illegal, status};
use crate::alert::Alert;
use crate::change::Change;
use crate::event::EventKind;
use crate::lease::HolderLife;
use crate::recovery::{Decision, Exhausted, RecoveryPlan};
use crate::status::TaskStatus;
use crate::task::{STRATEGY_DEFAULT, Task, TaskTally};

/// A strategy's decision after applying the limits.
#[derive(Debug, Clone, PartialEq)]
enum LimitedDecision {
    As(Decision),
    /// Suspended after this many recoveries in a row without progress.
    AttemptsUsedUp(u32),
    /// Failed, and no retry is left.
    RetriesUsedUp,
    /// A limit of the whole task is reached.
    Parked(Exhausted),
}

/// Takes the task from a holder that died or gave it up, and applies the decision. A task that
/// already waits for a person only loses its lease.
pub(super) fn recover(
    input: &TaskDecisionInput<'_>,
    recovery: &RecoveryPlan,
) -> Result<Vec<Change>, Refusal> {
    let task = input.task;
    let is_held = task.lease.held.is_some() && input.life == HolderLife::Alive;
    // Who may report a failure was checked as for every other request of a holder.
    if is_held && input.right == Right::Unfenced && !recovery.death.is_told {
        return Err(hold::held(input));
    }
    let is_told = recovery.death.is_told && task.status.can_become(TaskStatus::Failed);
    if recovery.death.is_told && !is_told {
        return Err(illegal(task, TaskStatus::Failed));
    }
    if !is_told && !is_recoverable(task.status) {
        return Ok(status::end_lease(task).into_iter().collect());
    }
    if task.spec.observed {
        // Only its conversation can go on with it: there is nothing to assign, charge or report.
        return status::interrupt(input, recovery.death.reason.clone(), true);
    }
    let outcome = within_limits(input, recovery);
    let mut changes = vec![Change::Noted(
        EventKind::TaskRecovery,
        told(task, recovery, &outcome),
    )];
    changes.extend(carry_out(input, recovery, &outcome));
    changes.extend(status::end_lease(task));
    Ok(changes)
}

/// Whether a strategy is asked when a holder is gone: the task was assigned or in progress.
fn is_recoverable(status: TaskStatus) -> bool {
    match status {
        TaskStatus::Assigned
        | TaskStatus::InProgress
        | TaskStatus::Interrupted
        | TaskStatus::Deferred => true,
        TaskStatus::Created
        | TaskStatus::InReview
        | TaskStatus::Blocked
        | TaskStatus::Suspended
        | TaskStatus::Failed
        | TaskStatus::Completed
        | TaskStatus::Cancelled => false,
    }
}

fn within_limits(input: &TaskDecisionInput<'_>, recovery: &RecoveryPlan) -> LimitedDecision {
    let task = input.task;
    let goes_on = match recovery.decision {
        Decision::Suspend | Decision::GiveUp => false,
        Decision::Resume | Decision::Reassign { .. } | Decision::Defer { .. } => true,
    };
    if goes_on && let Some(why) = recovery.policy.exhausted(task, input.now) {
        return LimitedDecision::Parked(why);
    }
    let recoveries = task.tally.recoveries;
    let attempts_used_up = recoveries >= recovery.policy.max_attempts;
    let decision = match recovery.decision {
        Decision::Resume | Decision::Suspend if attempts_used_up && task.pinned => {
            return LimitedDecision::AttemptsUsedUp(recoveries);
        }
        Decision::Resume if attempts_used_up => Decision::Reassign {
            keep_progress: true,
        },
        other => other,
    };
    match decision {
        Decision::Reassign { .. } if task.retries >= task.max_retries() => {
            LimitedDecision::RetriesUsedUp
        }
        decision => LimitedDecision::As(decision),
    }
}

fn carry_out(
    input: &TaskDecisionInput<'_>,
    recovery: &RecoveryPlan,
    outcome: &LimitedDecision,
) -> Vec<Change> {
    let task = input.task;
    let (to, mut changes) = match outcome {
        LimitedDecision::As(Decision::Resume) => {
            let mut changes = charge(input, recovery);
            // Its agent gets the retry instead of another one.
            if recovery.death.is_told && recovery.strategy == STRATEGY_DEFAULT {
                changes.push(Change::Retried);
            }
            (TaskStatus::Interrupted, changes)
        }
        LimitedDecision::As(Decision::Reassign { keep_progress }) => {
            let mut changes = charge(input, recovery);
            let has_steps = task.steps_done > 0 || task.steps_open > 0;
            if !keep_progress && has_steps {
                changes.push(Change::StepsCleared);
            }
            if task.pinned && recovery.gives_away(task) {
                changes.push(Change::Pinned(false));
            }
            (TaskStatus::Failed, changes)
        }
        LimitedDecision::As(Decision::Defer { until }) => {
            let mut changes = charge(input, recovery);
            changes.retain(|change| !matches!(change, Change::NotBefore(_)));
            changes.push(Change::NotBefore(Some(*until)));
            (TaskStatus::Deferred, changes)
        }
        LimitedDecision::As(Decision::Suspend)
        | LimitedDecision::AttemptsUsedUp(_)
        | LimitedDecision::Parked(_) => (TaskStatus::Suspended, Vec::new()),
        LimitedDecision::As(Decision::GiveUp) => {
            let tally = TaskTally {
                given_up: true,
                ..task.tally.clone()
            };
            (TaskStatus::Failed, vec![Change::Tally(tally)])
        }
        LimitedDecision::RetriesUsedUp => (TaskStatus::Failed, Vec::new()),
    };
    let reason = Some(reason(recovery, outcome));
    // A task that already waits, interrupted or deferred, only changes what it waits for.
    let waits = matches!(task.status, TaskStatus::Interrupted | TaskStatus::Deferred);
    if task.status.can_become(to) {
        changes.insert(0, Change::Status { to, reason });
    } else if !waits {
        changes.insert(
            0,
            Change::Status {
                to: TaskStatus::Failed,
                reason,
            },
        );
    }
    changes.extend(alert(task, recovery, outcome));
    changes
}

/// Charges one recovery without progress and sets the wait before the next try.
fn charge(input: &TaskDecisionInput<'_>, recovery: &RecoveryPlan) -> Vec<Change> {
    let task = input.task;
    let recoveries = task.tally.recoveries;
    let again_at = recovery
        .policy
        .again_at(recoveries, input.now, recovery.jitter);
    let tally = TaskTally {
        recoveries: recoveries + 1,
        ..task.tally.clone()
    };
    let mut changes = vec![Change::Tally(tally)];
    if again_at != task.not_before {
        changes.push(Change::NotBefore(again_at));
    }
    changes
}

/// The original error comes first, followed by the limit that was reached.
fn reason(recovery: &RecoveryPlan, outcome: &LimitedDecision) -> String {
    let first = &recovery.death.reason;
    match outcome {
        LimitedDecision::As(_) => first.clone(),
        // The agent's own count is the one that ended it.
        LimitedDecision::AttemptsUsedUp(_) if recovery.death.agent_gone => first.clone(),
        LimitedDecision::AttemptsUsedUp(times) => {
            let times = if *times == 1 {
                "once".to_owned()
            } else {
                format!("{times} times in a row")
            };
            format!("{first} (recovered {times} without progress)")
        }
        LimitedDecision::RetriesUsedUp => format!("{first} (no retry is left)"),
        LimitedDecision::Parked(why) => format!("{first} (parked: {why})"),
    }
}

/// The decision for the journal, with its reason, counts, cost and times.
fn told(task: &Task, recovery: &RecoveryPlan, outcome: &LimitedDecision) -> serde_json::Value {
    let came_to = match outcome {
        LimitedDecision::As(decision) => decision.as_str(),
        LimitedDecision::AttemptsUsedUp(_) => Decision::Suspend.as_str(),
        LimitedDecision::RetriesUsedUp => "retries_used_up",
        LimitedDecision::Parked(_) => "parked",
    };
    let death = &recovery.death;
    json!({
        "strategy": recovery.strategy,
        "decision": recovery.decision.as_str(),
        "outcome": came_to,
        "reason": recovery.reason,
        "trouble": recovery.trouble,
        "cause": death.cause,
        "error": death.reason,
        "holder": death.holder,
        "agent": task.agent,
        "context": recovery.context,
    })
}

/// Sends an alert if the task does not resume by itself.
fn alert(task: &Task, recovery: &RecoveryPlan, outcome: &LimitedDecision) -> Option<Change> {
    let error = &recovery.death.reason;
    let alert = match outcome {
        LimitedDecision::As(Decision::Suspend) | LimitedDecision::AttemptsUsedUp(_) => {
            Alert::task_suspended(&task.id, &reason(recovery, outcome))
        }
        LimitedDecision::As(Decision::GiveUp) => {
            Alert::task_given_up(&task.id, recovery.reason.as_deref().unwrap_or(error))
        }
        LimitedDecision::RetriesUsedUp => Alert::task_given_up(&task.id, error),
        // The queue offers it only to its agent, which may never ask.
        LimitedDecision::As(Decision::Reassign { .. })
            if task.pinned && !recovery.gives_away(task) =>
        {
            Alert::task_given_up(&task.id, error)
        }
        LimitedDecision::Parked(why) => Alert::task_parked(&task.id, &why.to_string()),
        LimitedDecision::As(
            Decision::Resume | Decision::Reassign { .. } | Decision::Defer { .. },
        ) => {
            return None;
        }
    };
    Some(Change::Noted(EventKind::Alert, alert.detail()))
}

/// Parks a task that is over a limit; others continue.
pub(super) fn park(task: &Task, why: &str) -> Vec<Change> {
    let alert = Alert::task_parked(&task.id, why);
    let mut changes = vec![Change::Noted(EventKind::Alert, alert.detail())];
    let reason = Some(format!("parked: {why}"));
    if task.status.can_become(TaskStatus::Suspended) {
        changes.push(Change::Status {
            to: TaskStatus::Suspended,
            reason,
        });
    } else {
        changes.push(Change::Tally(TaskTally {
            given_up: true,
            ..task.tally.clone()
        }));
    }
    changes
}
