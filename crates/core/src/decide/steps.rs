//! Beginning, ending, resolving and skipping steps.

use super::{Refusal, StepAdvice, TaskDecisionInput, advise, become_status, illegal};
use crate::alert::Alert;
use crate::change::{Change, StepMark};
use crate::event::EventKind;
use crate::status::TaskStatus;
use crate::step::{Output, RepeatRule, Step, StepKey, StepOutcome, StepState};

/// Begins a step. If only a person may decide, the task is blocked; if it must be verified, nothing
/// changes.
pub(super) fn begin(
    input: &TaskDecisionInput<'_>,
    key: StepKey,
    rule: RepeatRule,
    fingerprint: Option<u64>,
) -> Result<Vec<Change>, Refusal> {
    if input.task.status.is_terminal() {
        return Err(illegal(input.task, TaskStatus::InProgress));
    }
    check_input(input, &key, fingerprint)?;
    let recorded_rule = input
        .step
        .filter(|step| step.is_open())
        .map(|step| step.rule);
    let mark = mark(input, key, recorded_rule.unwrap_or(rule), fingerprint, 1);
    match advise(input.step) {
        StepAdvice::Finished => Err(Refusal::StepFinished {
            task: input.task.id.clone(),
            step: mark.key,
        }),
        StepAdvice::Go | StepAdvice::Again => {
            let mut changes = Vec::from_iter(wake(input)?);
            changes.push(Change::StepBegun(mark));
            Ok(changes)
        }
        StepAdvice::Ask => Ok(Vec::new()),
        StepAdvice::Wait => block_for(input, &mark.key),
    }
}

/// Starts a task that only waits for its turn. A task that waits for a person is not started.
fn wake(input: &TaskDecisionInput<'_>) -> Result<Option<Change>, Refusal> {
    let to = TaskStatus::InProgress;
    match input.task.status {
        TaskStatus::InProgress => Ok(None),
        TaskStatus::Created
        | TaskStatus::Assigned
        | TaskStatus::Deferred
        | TaskStatus::Interrupted => become_status(input.task, to, None).map(Some),
        TaskStatus::InReview | TaskStatus::Blocked | TaskStatus::Suspended => {
            Err(Refusal::waits_for_person(input.task))
        }
        TaskStatus::Failed | TaskStatus::Completed | TaskStatus::Cancelled => {
            Err(illegal(input.task, to))
        }
    }
}

/// Ends a step. A task that was blocked only by doubt about this step continues. One that was completed in
/// the step stays so, and the step has its end.
pub(super) fn end(
    input: &TaskDecisionInput<'_>,
    key: StepKey,
    outcome: StepOutcome,
    output: Option<Output>,
) -> Result<Vec<Change>, Refusal> {
    let is_late =
        input.task.status == TaskStatus::Completed && input.step.is_some_and(Step::is_open);
    if input.task.status.is_terminal() && !is_late {
        return Err(illegal(input.task, TaskStatus::InProgress));
    }
    let task = || input.task.id.clone();
    match input.step.map(|step| step.state) {
        Some(StepState::Done | StepState::Skipped) => {
            return Err(Refusal::StepFinished {
                task: task(),
                step: key,
            });
        }
        Some(StepState::Begun) => {}
        Some(StepState::Failed) | None => {
            return Err(Refusal::StepNotBegun {
                task: task(),
                step: key,
            });
        }
    }
    let step = input.step.expect("a step in state begun is there");
    let waits_for_it = input.task.status == TaskStatus::Blocked
        && input.task.reason.as_ref() == Some(&doubt_reason(&key));
    let mark = mark(input, key, step.rule, step.fingerprint, 0);
    let mut changes = vec![Change::StepEnded {
        mark,
        outcome,
        output,
    }];
    if waits_for_it {
        changes.push(become_status(input.task, TaskStatus::Assigned, None)?);
    }
    Ok(changes)
}

/// Resolves a step in doubt by a person, which fences off the holder and lets the task continue.
pub(super) fn resolve(
    input: &TaskDecisionInput<'_>,
    key: StepKey,
    happened: bool,
) -> Result<Vec<Change>, Refusal> {
    let Some(step) = input.step.filter(|step| step.is_open()) else {
        return Err(Refusal::StepNotInDoubt {
            task: input.task.id.clone(),
            step: key,
        });
    };
    let mark = mark(input, key, step.rule, step.fingerprint, 0);
    let mut changes = vec![Change::StepResolved { mark, happened }, Change::FenceRaised];
    if matches!(
        input.task.status,
        TaskStatus::Blocked | TaskStatus::InProgress
    ) {
        changes.push(become_status(input.task, TaskStatus::Assigned, None)?);
    }
    Ok(changes)
}

/// Skips a step. A step in doubt must be resolved first.
pub(super) fn skip(
    input: &TaskDecisionInput<'_>,
    key: StepKey,
    reason: String,
) -> Result<Vec<Change>, Refusal> {
    if input.task.status.is_terminal() {
        return Err(illegal(input.task, TaskStatus::InProgress));
    }
    let is_declared = key.occurrence == 1 && input.task.spec.steps.contains(&key.name);
    let task = || input.task.id.clone();
    match input.step.map(|step| step.state) {
        Some(StepState::Skipped) => return Ok(Vec::new()),
        Some(StepState::Done) => {
            return Err(Refusal::StepFinished {
                task: task(),
                step: key,
            });
        }
        Some(StepState::Begun) => {
            return Err(Refusal::StepInDoubt {
                task: task(),
                step: key,
            });
        }
        None if !is_declared => {
            return Err(Refusal::NoSuchStep {
                task: task(),
                step: key,
            });
        }
        Some(StepState::Failed) | None => {}
    }
    let rule = input
        .step
        .map_or_else(RepeatRule::default, |step| step.rule);
    Ok(vec![Change::StepSkipped {
        mark: mark(input, key, rule, None, 0),
        reason,
    }])
}

fn check_input(
    input: &TaskDecisionInput<'_>,
    key: &StepKey,
    given: Option<u64>,
) -> Result<(), Refusal> {
    // A failed try may be followed by one with another input.
    let counts = input.step.filter(|step| step.state != StepState::Failed);
    let recorded = counts.and_then(|step| step.fingerprint);
    match (recorded, given) {
        (Some(recorded), Some(given)) if recorded != given => Err(Refusal::OtherInput {
            task: input.task.id.clone(),
            step: key.clone(),
        }),
        _ => Ok(()),
    }
}

fn mark(
    input: &TaskDecisionInput<'_>,
    key: StepKey,
    rule: RepeatRule,
    fingerprint: Option<u64>,
    more_tries: u32,
) -> StepMark {
    StepMark {
        key,
        rule,
        tries: input.step.map_or(0, |step| step.tries) + more_tries,
        fingerprint: fingerprint.or(input.step.and_then(|step| step.fingerprint)),
        was_open: input.step.is_some_and(Step::is_open),
        // A person may also resolve a call.
        call: input.step.and_then(|step| step.call.clone()),
    }
}

fn doubt_reason(key: &StepKey) -> String {
    format!("step {key} is in doubt and must not be repeated")
}

fn block_for(input: &TaskDecisionInput<'_>, key: &StepKey) -> Result<Vec<Change>, Refusal> {
    if input.task.status == TaskStatus::Blocked {
        return Ok(Vec::new());
    }
    let why = "it is in doubt and must not be repeated";
    let alert = Alert::task_blocked(&input.task.id, key, why);
    let reason = Some(doubt_reason(key));
    let mut changes = Vec::from_iter(wake(input)?);
    changes.push(Change::Status {
        to: TaskStatus::Blocked,
        reason,
    });
    changes.push(Change::Noted(EventKind::Alert, alert.detail()));
    changes.extend(super::status::end_lease(input.task));
    Ok(changes)
}
