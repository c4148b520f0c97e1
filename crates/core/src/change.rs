//! Changes of tasks. Stores apply them; `apply` defines what each one means.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::event::EventKind;
use crate::ids::{AgentName, StepName};
use crate::lease::{Fence, HeldLease, Holder};
use crate::status::TaskStatus;
use crate::step::{Call, Output, RepeatRule, Step, StepKey, StepOutcome, StepState};
use crate::task::{CheckpointSettings, NewTask, Task, TaskTally};
use crate::time::{Span, Time};
use crate::usage::{Reading, Usage};

/// One change of one task. A commit holds several and is atomic.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Change {
    /// The task is created. Always the first change of its commit.
    Created(Box<NewTask>),
    /// Another task starts under the same id; fence and history are kept.
    Replaced(Box<NewTask>),
    /// The status changes.
    Status {
        /// The new status.
        to: TaskStatus,
        /// The reason, if given.
        reason: Option<String>,
    },
    /// The task is assigned to an agent, or to none.
    Assigned(Option<AgentName>),
    /// The task belongs to its agent, or to the queue again.
    Pinned(bool),
    /// One retry is used.
    Retried,
    /// Usage of its budgets is replaced.
    Tally(TaskTally),
    /// Usage is added to its budgets.
    Spent(Usage),
    /// The same, found by reading counters.
    Metered {
        /// The readings.
        readings: Vec<Reading>,
        /// What they add.
        spent: Usage,
    },
    /// A new lease, with the next fence.
    LeaseTaken {
        /// The holder.
        holder: Holder,
        /// How long each write renews it for.
        ttl: Option<Span>,
    },
    /// The holder releases the lease.
    LeaseEnded,
    /// The current holder is fenced off; the fence grows.
    FenceRaised,
    /// Context is added or overwritten.
    ContextSet(BTreeMap<String, String>),
    /// When the task may be started.
    NotBefore(Option<Time>),
    /// The steps known ahead.
    StepsDeclared(Vec<StepName>),
    /// Settings of the checkpoint dialect.
    CheckpointSettings(CheckpointSettings),
    /// A step is begun.
    StepBegun(StepMark),
    /// A step is ended.
    StepEnded {
        /// The step, its tries and its rule.
        mark: StepMark,
        /// How.
        outcome: StepOutcome,
        /// With what.
        output: Option<Output>,
    },
    /// A person resolves a step in doubt.
    StepResolved {
        /// Which.
        mark: StepMark,
        /// Whether it happened.
        happened: bool,
    },
    /// A step is closed on purpose without being done.
    StepSkipped {
        /// Which.
        mark: StepMark,
        /// Why.
        reason: String,
    },
    /// All steps are cleared; history keeps them.
    StepsCleared,
    /// An event that changes nothing.
    Noted(EventKind, Value),
}

/// Fields of every step record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepMark {
    /// Which step.
    pub key: StepKey,
    /// Its repeat rule.
    pub rule: RepeatRule,
    /// Number of the try, from 1.
    pub tries: u32,
    /// A hash of its input, if given.
    pub fingerprint: Option<u64>,
    /// Whether the store already has its begin.
    pub was_open: bool,
    /// Set for a tool call that hooks observed; its content is kept while the call is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<Call>,
}

impl Change {
    /// The kind of its event.
    pub fn kind(&self) -> EventKind {
        match self {
            Self::Created(_) => EventKind::TaskCreated,
            Self::Replaced(_)
            | Self::StepsDeclared(_)
            | Self::CheckpointSettings(_)
            | Self::NotBefore(_) => EventKind::TaskChanged,
            Self::Status { .. } => EventKind::TaskStatus,
            Self::Assigned(_) | Self::Pinned(_) | Self::Retried => EventKind::TaskAssigned,
            Self::Tally(_) | Self::Spent(_) | Self::Metered { .. } => EventKind::TaskBudget,
            Self::LeaseTaken { .. } => EventKind::LeaseTaken,
            Self::LeaseEnded => EventKind::LeaseEnded,
            Self::FenceRaised => EventKind::FenceRaised,
            Self::ContextSet(_) => EventKind::TaskContext,
            Self::StepBegun(_) => EventKind::StepBegun,
            Self::StepEnded {
                outcome: StepOutcome::Done,
                ..
            } => EventKind::StepDone,
            Self::StepEnded {
                outcome: StepOutcome::Failed,
                ..
            } => EventKind::StepFailed,
            Self::StepResolved { .. } => EventKind::StepResolved,
            Self::StepSkipped { .. } => EventKind::StepSkipped,
            Self::StepsCleared => EventKind::StepsCleared,
            Self::Noted(kind, _) => *kind,
        }
    }

    /// The step it is about.
    pub fn mark(&self) -> Option<&StepMark> {
        match self {
            Self::StepBegun(mark)
            | Self::StepEnded { mark, .. }
            | Self::StepResolved { mark, .. }
            | Self::StepSkipped { mark, .. } => Some(mark),
            _ => None,
        }
    }

    /// Whether this change may follow the step's newest record: a step cannot end twice, and
    /// nothing follows a closed step.
    pub fn follows(&self, newest: Option<StepState>) -> bool {
        match (self.mark(), newest) {
            (None, _) => true,
            (Some(_), Some(StepState::Done | StepState::Skipped)) => false,
            (Some(mark), state) => mark.was_open == (state == Some(StepState::Begun)),
        }
    }

    /// The step's record that this change appends.
    pub fn step_record(&self, at: Time, fence: Option<Fence>) -> Option<Step> {
        let mark = self.mark()?;
        let (state, exit_code) = match self {
            Self::StepEnded {
                outcome: StepOutcome::Done,
                output,
                ..
            } => (
                StepState::Done,
                output.as_ref().map(|output| output.exit_code),
            ),
            Self::StepEnded {
                outcome: StepOutcome::Failed,
                output,
                ..
            } => (
                StepState::Failed,
                output.as_ref().map(|output| output.exit_code),
            ),
            Self::StepResolved { happened: true, .. } => (StepState::Done, None),
            Self::StepResolved {
                happened: false, ..
            } => (StepState::Failed, None),
            Self::StepSkipped { .. } => (StepState::Skipped, None),
            _ => (StepState::Begun, None),
        };
        Some(Step {
            key: mark.key.clone(),
            state,
            rule: mark.rule,
            tries: mark.tries,
            fence: fence.unwrap_or_default(),
            at,
            exit_code,
            fingerprint: mark.fingerprint,
            call: mark.call.as_ref().map(|call| match state {
                StepState::Begun => call.clone(),
                _ => Call::default(),
            }),
        })
    }

    /// The detail of its event; `before` is the task before the change.
    pub fn detail(&self, before: Option<&Task>) -> Value {
        match self {
            Self::Created(new) => json!({"title": new.spec.title, "agent": new.agent}),
            Self::Replaced(new) => {
                json!({"replaced": before.map(summary), "title": new.spec.title})
            }
            Self::Status { to, reason } => {
                json!({"from": before.map(|task| task.status), "to": to, "reason": reason})
            }
            Self::Assigned(agent) => json!({"agent": agent}),
            Self::Pinned(pinned) => json!({"pinned": pinned}),
            Self::Retried => json!({"retries": before.map(|task| task.retries + 1)}),
            Self::Tally(tally) => json!({"tally": tally}),
            Self::Spent(usage) | Self::Metered { spent: usage, .. } => json!({"spent": usage}),
            Self::LeaseTaken { holder, ttl } => {
                json!({"holder": holder, "ttl_ms": ttl.map(Span::as_ms)})
            }
            Self::LeaseEnded | Self::FenceRaised => {
                json!({"holder": before.and_then(|task| task.lease.held.as_ref()).map(|h| &h.holder)})
            }
            Self::ContextSet(pairs) => json!({"set": pairs}),
            Self::NotBefore(at) => json!({"not_before": at}),
            Self::StepsDeclared(names) => json!({"steps": names.len()}),
            Self::CheckpointSettings(settings) => {
                json!({"notes": settings.notes, "handoff_to": settings.handoff_to})
            }
            Self::StepResolved { happened, .. } => json!({"happened": happened}),
            Self::StepSkipped { reason, .. } => json!({"reason": reason}),
            Self::StepEnded {
                output: Some(output),
                ..
            } => json!({"exit_code": output.exit_code}),
            Self::StepBegun(StepMark {
                call: Some(call), ..
            }) => json!(call),
            Self::StepBegun(_) | Self::StepEnded { .. } | Self::StepsCleared => Value::Null,
            Self::Noted(_, detail) => detail.clone(),
        }
    }

    /// Applies it to a task. The store maintains `fence` and steps.
    pub fn apply(&self, task: &mut Task, at: Time) {
        match self {
            Self::Noted(..) => return,
            Self::Created(_) => {}
            Self::Replaced(new) => replace(task, new),
            Self::Status { to, reason } => {
                task.status = *to;
                task.reason.clone_from(reason);
            }
            Self::Assigned(agent) => task.agent.clone_from(agent),
            Self::Pinned(pinned) => task.pinned = *pinned,
            Self::Retried => task.retries += 1,
            Self::Tally(tally) => task.tally = tally.clone(),
            Self::Spent(usage) => spend(task, *usage),
            Self::Metered { readings, spent } => {
                spend(task, *spent);
                for reading in readings {
                    task.spec.meter.read(reading, Usage::default());
                }
            }
            Self::LeaseTaken { holder, ttl } => {
                let (holder, ttl) = (holder.clone(), *ttl);
                task.lease.fence = task.lease.fence.next();
                task.lease.held = Some(HeldLease {
                    holder,
                    ttl,
                    since: at,
                    left: ttl,
                });
                task.starts += 1;
            }
            Self::LeaseEnded => task.lease.held = None,
            Self::FenceRaised => {
                task.lease.fence = task.lease.fence.next();
                task.lease.held = None;
            }
            Self::ContextSet(pairs) => {
                task.context
                    .extend(pairs.iter().map(|(k, v)| (k.clone(), v.clone())));
            }
            Self::NotBefore(when) => task.not_before = *when,
            Self::StepsDeclared(names) => task.spec.steps.clone_from(names),
            Self::CheckpointSettings(settings) => {
                task.checkpoint = Some(settings.clone());
                task.pinned = true;
            }
            Self::StepBegun(mark) => task.steps_open += u64::from(!mark.was_open),
            Self::StepEnded { mark, outcome, .. } => {
                end_step(task, mark, *outcome == StepOutcome::Done, at);
            }
            Self::StepResolved { mark, happened } => end_step(task, mark, *happened, at),
            Self::StepSkipped { mark, .. } => end_step(task, mark, true, at),
            Self::StepsCleared => (task.steps_open, task.steps_done) = (0, 0),
        }
        task.updated_at = at;
    }

    /// The task that a first commit creates.
    pub fn first(new: &NewTask, at: Time) -> Task {
        Task {
            id: new.id.clone(),
            status: new.first_status(),
            reason: None,
            agent: new.agent.clone(),
            pinned: new.checkpoint.is_some(),
            lease: crate::lease::Lease {
                fence: Fence(0),
                held: None,
            },
            seq: 0,
            steps_done: 0,
            steps_open: 0,
            starts: 0,
            retries: 0,
            tally: TaskTally::default(),
            created_at: at,
            updated_at: at,
            not_before: None,
            expires_at: new.expires_at,
            spec: new.spec.clone(),
            context: new.context.clone(),
            checkpoint: new.checkpoint.clone(),
        }
    }
}

fn replace(task: &mut Task, new: &NewTask) {
    task.status = new.first_status();
    task.reason = None;
    task.retries = 0;
    task.tally = TaskTally::default();
    task.agent.clone_from(&new.agent);
    task.pinned = new.checkpoint.is_some();
    // What was read before is not read again for the new one.
    let readings = std::mem::take(&mut task.spec.meter.readings);
    task.spec = new.spec.clone();
    task.spec.meter.readings = readings;
    task.context.clone_from(&new.context);
    task.expires_at = new.expires_at;
    task.checkpoint.clone_from(&new.checkpoint);
}

fn end_step(task: &mut Task, mark: &StepMark, done: bool, at: Time) {
    task.steps_open -= u64::from(mark.was_open);
    task.steps_done += u64::from(done);
    // An agent that repeats a call and dies makes no progress.
    if done && mark.call.is_none() {
        task.tally.recoveries = 0;
        task.tally.progress_at = Some(at);
    }
}

/// Cost and turns have columns of their own.
fn spend(task: &mut Task, usage: Usage) {
    let (tally, tokens) = (&mut task.tally, &mut task.spec.meter.used);
    let columns = Usage {
        cost_micros: tally.cost_micros,
        turns: tally.turns,
        ..*tokens
    };
    let total = columns.plus(usage);
    (tally.cost_micros, tally.turns) = (total.cost_micros, total.turns);
    *tokens = Usage {
        cost_micros: 0,
        turns: 0,
        ..total
    };
}

fn summary(task: &Task) -> Value {
    json!({
        "status": task.status, "title": task.spec.title, "key": task.spec.key,
        "steps_done": task.steps_done, "fence": task.lease.fence,
    })
}
