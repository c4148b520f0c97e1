//! What hooks observe of an agent: turns of its conversation, and its tool calls.
//!
//! A call happens whatever is decided here. So nothing about it blocks the task, waits for a person or is
//! refused because another step is in doubt; only a task that has ended takes no new calls.

use super::{Refusal, TaskDecisionInput, hold, illegal};
use crate::change::{Change, StepMark};
use crate::lease::{Holder, LEASE_DEFAULT};
use crate::status::TaskStatus;
use crate::step::{Call, Output, RepeatRule, StepKey, StepOutcome};
use crate::task::{NewTask, TaskTally};
use crate::usage::{Reading, Usage};

/// What a hook observed.
#[derive(Debug, Clone, PartialEq)]
pub enum Observed {
    /// A turn of the conversation that the task stands for. The task starts over if it has ended.
    Turn {
        /// The task, with the context of this turn.
        new: Box<NewTask>,
        /// The agent's process or attempt.
        holder: Holder,
    },
    /// A tool call that is about to happen.
    CallBegun {
        /// Which.
        key: StepKey,
        /// What its doubt means after a crash.
        rule: RepeatRule,
        /// What it does.
        call: Call,
    },
    /// A tool call that has ended, whether or not its begin was observed.
    CallEnded {
        /// Which.
        key: StepKey,
        /// Its rule, unless its begin was recorded.
        rule: RepeatRule,
        /// How.
        outcome: StepOutcome,
        /// With what.
        output: Option<Output>,
    },
    /// What was used, as totals of counters. Also counts after the task has ended.
    Used {
        /// The readings, each with where its counter stood when the work on this task began, which
        /// matters only for one that was never read.
        readings: Vec<(Reading, Usage)>,
    },
}

pub(super) fn observe(
    input: &TaskDecisionInput<'_>,
    observed: Observed,
) -> Result<Vec<Change>, Refusal> {
    match observed {
        Observed::Turn { new, holder } => turn(input, new, holder),
        Observed::CallBegun { key, rule, call } => begun(input, key, rule, call),
        Observed::CallEnded {
            key,
            rule,
            outcome,
            output,
        } => Ok(ended(input, key, rule, outcome, output)),
        Observed::Used { readings } => Ok(used(input, readings)),
    }
}

/// Takes the lease for the process that the conversation runs in now; the newest one counts.
fn turn(
    input: &TaskDecisionInput<'_>,
    new: Box<NewTask>,
    holder: Holder,
) -> Result<Vec<Change>, Refusal> {
    let (task, mut new) = (input.task, new);
    if !task.spec.observed {
        return Err(illegal(task, TaskStatus::InProgress));
    }
    if task.lease.is_continued_by(&holder, None, input.life) {
        return Ok(vec![Change::ContextSet(new.context)]);
    }
    let has_ended = task.status.is_terminal() || task.status == TaskStatus::Failed;
    let mut changes = hold::take_from_holder(input, true)?;
    if has_ended && task.steps_open == 0 {
        changes.push(Change::StepsCleared);
    }
    let is_interrupted = changes
        .iter()
        .any(|change| matches!(change, Change::Status { .. }));
    if has_ended {
        // The usage of a conversation adds up over its turns.
        new.spec.meter = task.spec.meter.clone();
        changes.push(Change::Replaced(new));
        let TaskTally {
            cost_micros, turns, ..
        } = task.tally;
        changes.push(Change::Tally(TaskTally {
            cost_micros,
            turns,
            ..TaskTally::default()
        }));
    } else {
        changes.push(Change::ContextSet(new.context));
    }
    // Without an agent, nobody else can take a pinned task.
    changes.push(Change::Pinned(true));
    let ttl = matches!(holder, Holder::Time { .. }).then_some(LEASE_DEFAULT);
    changes.push(Change::LeaseTaken { holder, ttl });
    if is_interrupted || has_ended || task.status != TaskStatus::InProgress {
        changes.push(Change::Status {
            to: TaskStatus::InProgress,
            reason: None,
        });
    }
    Ok(changes)
}

fn used(input: &TaskDecisionInput<'_>, readings: Vec<(Reading, Usage)>) -> Vec<Change> {
    let meter = &input.task.spec.meter;
    let spent = readings
        .iter()
        .fold(Usage::default(), |sum, (reading, base)| {
            sum.plus(meter.news(reading, *base))
        });
    if spent.is_nothing() {
        return Vec::new();
    }
    let readings = readings.into_iter().map(|(reading, _)| reading).collect();
    vec![Change::Metered { readings, spent }]
}

/// The same call observed twice counts once.
fn begun(
    input: &TaskDecisionInput<'_>,
    key: StepKey,
    rule: RepeatRule,
    call: Call,
) -> Result<Vec<Change>, Refusal> {
    if input.task.status.is_terminal() {
        return Err(illegal(input.task, TaskStatus::InProgress));
    }
    let mark = StepMark {
        key,
        rule,
        tries: 1,
        fingerprint: None,
        was_open: false,
        call: Some(call),
    };
    Ok(if input.step.is_some() {
        Vec::new()
    } else {
        vec![Change::StepBegun(mark)]
    })
}

/// A call may end after its task: `relight task done` is a call too.
fn ended(
    input: &TaskDecisionInput<'_>,
    key: StepKey,
    rule: RepeatRule,
    outcome: StepOutcome,
    output: Option<Output>,
) -> Vec<Change> {
    let (rule, was_open) = match input.step {
        Some(step) if step.is_open() => (step.rule, true),
        Some(_) => return Vec::new(),
        None => (rule, false),
    };
    let call = Some(Call::default());
    let mark = StepMark {
        key,
        rule,
        tries: 1,
        fingerprint: None,
        was_open,
        call,
    };
    vec![Change::StepEnded {
        mark,
        outcome,
        output,
    }]
}
