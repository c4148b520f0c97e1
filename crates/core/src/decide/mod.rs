//! Decides which changes an event makes to a task. Pure: the same task, event and time give the
//! same decision.
//!
//! Reading the task, checking whether a holder lives, and committing are done elsewhere.

mod hold;
mod observe;
mod recover;
mod status;
mod step_advice;
pub mod step_deaths;
mod steps;

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use crate::change::Change;
use crate::claimant::Claimant;
use crate::event::EventKind;
use crate::ids::{AgentName, StepName, TaskId};
use crate::lease::{Fence, HeldLease, Holder, HolderLife};
use crate::limits::{self, TooLarge};
use crate::recovery::{Exhausted, RecoveryPlan, TaskPolicy};
use crate::status::TaskStatus;
use crate::step::{Output, RepeatRule, Step, StepKey, StepOutcome};
use crate::task::{CheckpointSettings, NewTask, Task, Usage};
use crate::time::{Span, Time};

pub use hold::STARTED_WITHOUT_AGENT;
pub use observe::Observed;
pub use status::interrupted;
pub use step_advice::{StepAdvice, advise};

/// The agent that starts a task by name. The task belongs to it from then on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Starter {
    /// The agent itself; refused if the task has another agent.
    Itself(Claimant),
    /// Named by a person (`run --task`, `task` in the configuration): the task is handed over to
    /// it.
    Planned(AgentName),
}

impl Starter {
    /// Its name.
    pub fn agent(&self) -> &AgentName {
        match self {
            Self::Itself(claimant) => &claimant.agent,
            Self::Planned(agent) => agent,
        }
    }
}

/// A request for an existing task.
#[derive(Debug, Clone, PartialEq)]
pub enum TaskEvent {
    /// Take the lease and start work.
    Start {
        /// The holder of the lease.
        holder: Holder,
        /// How long each write renews it for.
        ttl: Option<Span>,
        /// Also from a live holder.
        steal: bool,
        /// The agent; none for a person or a program without a name.
        starter: Option<Starter>,
        /// Limits that can refuse the start.
        limits: StartLimits,
    },
    /// Take it from the queue for an agent.
    Claim {
        /// The claimant.
        claimant: Claimant,
        /// The holder of the lease.
        holder: Holder,
        /// How long each write renews it for.
        ttl: Option<Span>,
        /// Limits of tasks; a task over a limit is parked instead.
        policy: TaskPolicy,
    },
    /// Assign it to an agent that will be started for it.
    Assign {
        /// To whom.
        claimant: Claimant,
        /// Limits of tasks; a task over a limit is parked instead.
        policy: TaskPolicy,
    },
    /// Its holder died or gave it up, and its strategy has answered.
    Recover(Box<RecoveryPlan>),
    /// Record usage.
    Spend(Usage),
    /// Add context.
    Set(BTreeMap<String, String>),
    /// Go to a status by the shortest path through the table, for the checkpoint dialect, which has
    /// fewer statuses.
    Move {
        /// The target status.
        to: TaskStatus,
        /// Why.
        reason: Option<String>,
    },
    /// Change the steps known ahead.
    Declare(Vec<StepName>),
    /// Replace the task and start over.
    Replace(Box<NewTask>),
    /// Submit it for review.
    Review,
    /// It is finished.
    Done {
        /// Even if declared steps are open.
        force: bool,
    },
    /// It failed.
    Fail {
        /// Why.
        reason: String,
    },
    /// It waits for a person; an alert is sent.
    Block {
        /// Why.
        reason: String,
        /// Whether another event of the same commit is the alert.
        is_told: bool,
    },
    /// It resumes later.
    Defer {
        /// When.
        until: Time,
        /// Why.
        reason: Option<String>,
    },
    /// It is cancelled.
    Cancel {
        /// Why.
        reason: Option<String>,
    },
    /// Assign it again.
    Retry {
        /// The agent; the same as before when none.
        agent: Option<AgentName>,
        /// Even beyond the limit.
        force: bool,
    },
    /// Assign it again from the beginning; its progress is discarded.
    Restart {
        /// The agent; the same as before when none.
        agent: Option<AgentName>,
    },
    /// An event that changes nothing.
    Note(EventKind, serde_json::Value),
    /// Its holder died, shuts down or gives it up: it waits to be resumed.
    Interrupt {
        /// Why.
        reason: String,
        /// Whether only its agent continues it; see [`interrupted`].
        agent_keeps_it: bool,
    },
    /// Release the lease.
    Release {
        /// Also from a live holder.
        force: bool,
    },
    /// Set the checkpoint dialect's settings.
    SetCheckpoint(CheckpointSettings),
    /// A step begins.
    StepBegin {
        /// Which.
        key: StepKey,
        /// Its repeat rule, unless one is recorded.
        rule: RepeatRule,
        /// A hash of its input.
        fingerprint: Option<u64>,
    },
    /// A step ended.
    StepEnd {
        /// Which.
        key: StepKey,
        /// How.
        outcome: StepOutcome,
        /// With what.
        output: Option<Output>,
    },
    /// A person resolves a step in doubt.
    StepResolve {
        /// Which.
        key: StepKey,
        /// Whether it happened.
        happened: bool,
    },
    /// Record what hooks observed.
    Observe(Observed),
    /// Skip a step.
    StepSkip {
        /// Which.
        key: StepKey,
        /// Why.
        reason: String,
    },
}

/// Limits that can refuse to start a task by name.
#[derive(Debug, Clone, PartialEq)]
pub enum StartLimits {
    /// Refused if the task waits for a person or is over a limit.
    Policy(TaskPolicy),
    /// Refused if the task waits for a person; the starter has a budget of its own.
    OwnBudget,
    /// No limits: forced by a person.
    Forced,
}

impl StartLimits {
    /// Why the task may not be started.
    pub fn refusal(&self, task: &Task, now: Time) -> Option<Refusal> {
        if task.status.is_paused() && *self != Self::Forced {
            return Some(Refusal::waits_for_person(task));
        }
        let Self::Policy(policy) = self else {
            return None;
        };
        let why = policy
            .exhausted(task, now)
            .filter(|_| !task.is_assigned_by_hand())?;
        Some(Refusal::UsedUp {
            task: task.id.clone(),
            why,
        })
    }
}

/// The authority of a writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// The fence of a lease.
    Fence(Fence),
    /// No fence; recorded as such. Refused while a live holder has the task.
    Unfenced,
    /// No fence, but the caller belongs to the current holder: its process, a child of it, or its
    /// attempt.
    Holder,
    /// No fence, from a script of the checkpoint dialect, which has none; accepted and recorded as
    /// such.
    Dialect,
    /// No fence, from a person, who may also end work that waits for one.
    Person,
}

impl Right {
    /// The fence, if there is one.
    pub fn fence(self) -> Option<Fence> {
        match self {
            Self::Fence(fence) => Some(fence),
            Self::Unfenced | Self::Holder | Self::Dialect | Self::Person => None,
        }
    }
}

/// Conditions checked by the commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Guard {
    /// The lease is held with this fence.
    pub fence: Option<Fence>,
    /// Nothing was committed since the task was read.
    pub seq: Option<u64>,
}

/// What to commit.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskDecision {
    /// Conditions of the commit.
    pub guard: Guard,
    /// Applied in this order, all or none. Empty: nothing to do.
    pub changes: Vec<Change>,
}

/// Why an event is refused. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A text over its limit.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// A reason that must be given is empty.
    #[error("a reason is needed")]
    NoReason,
    /// The transition is not allowed.
    #[error("task {task} {}", why_illegal(*.from, *.to))]
    Illegal {
        /// Which task.
        task: TaskId,
        /// Where it stands.
        from: TaskStatus,
        /// The wanted status.
        to: TaskStatus,
        /// It failed, and no retries are left.
        is_used_up: bool,
    },
    /// Another holder has the lease.
    #[error("task {task} has been {}", held_text(.held, .agent.as_ref(), *.now))]
    Held {
        /// Which task.
        task: TaskId,
        /// The task's agent.
        agent: Option<AgentName>,
        /// The current lease.
        held: Box<HeldLease>,
        /// The current time.
        now: Time,
    },
    /// The task belongs to another agent.
    #[error("task {task} belongs to agent {agent}, not to {starter}")]
    OtherAgent {
        /// Which task.
        task: TaskId,
        /// The task's agent.
        agent: AgentName,
        /// The agent that wanted to start it.
        starter: AgentName,
    },
    /// The writer's lease is no longer valid.
    #[error("task {task} is fenced: {}", why_fenced(*.ours, *.newest))]
    Fenced {
        /// Which task.
        task: TaskId,
        /// The writer's fence.
        ours: Fence,
        /// The fence of the newest lease.
        newest: Fence,
    },
    /// No retries are left.
    #[error("task {task} has no retry left: {used} of {max} are used")]
    RetriesUsedUp {
        /// Which task.
        task: TaskId,
        /// Retries used.
        used: u32,
        /// Retries allowed.
        max: u32,
    },
    /// Its strategy has given it up.
    #[error("task {task} was given up by its strategy")]
    GivenUp {
        /// Which task.
        task: TaskId,
    },
    /// It is blocked or suspended.
    #[error("task {task} is {status} and waits for a person")]
    WaitsForPerson {
        /// Which task.
        task: TaskId,
        /// Where it stands.
        status: TaskStatus,
    },
    /// The task is over one of its limits.
    #[error("task {task} has used up what it may: {why}")]
    UsedUp {
        /// Which task.
        task: TaskId,
        /// Which limit.
        why: Exhausted,
    },
    /// Not yet.
    #[error("task {task} is not to be started before {at}")]
    NotBefore {
        /// Which task.
        task: TaskId,
        /// When it may start.
        at: Time,
    },
    /// The step was not begun.
    #[error("step {step} of task {task} was not begun")]
    StepNotBegun {
        /// Which task.
        task: TaskId,
        /// Which step.
        step: StepKey,
    },
    /// A process of a dead holder still runs the step; a new lease would discard its result.
    #[error("step {step} of task {task} is still being run")]
    StepRunning {
        /// Which task.
        task: TaskId,
        /// Which step.
        step: StepKey,
    },
    /// The step is not in doubt.
    #[error("step {step} of task {task} is not in doubt")]
    StepNotInDoubt {
        /// Which task.
        task: TaskId,
        /// Which step.
        step: StepKey,
    },
    /// It is finished.
    #[error("step {step} of task {task} is finished")]
    StepFinished {
        /// Which task.
        task: TaskId,
        /// Which step.
        step: StepKey,
    },
    /// The step was neither declared nor begun.
    #[error("task {task} has no step {step}")]
    NoSuchStep {
        /// Which task.
        task: TaskId,
        /// Which step.
        step: StepKey,
    },
    /// It was begun and not ended; it must be resolved first.
    #[error("step {step} of task {task} was begun and not ended")]
    StepInDoubt {
        /// Which task.
        task: TaskId,
        /// Which step.
        step: StepKey,
    },
    /// It is in doubt, and its rule lets only a person decide.
    #[error("step {step} of task {task} is in doubt and must be resolved first")]
    StepUnresolved {
        /// Which task.
        task: TaskId,
        /// Which step.
        step: StepKey,
    },
    /// Declared steps are neither finished nor skipped.
    #[error("task {task} has declared steps that are not finished: {}", some_of(.steps))]
    StepsLeftOpen {
        /// Which task.
        task: TaskId,
        /// Which steps, in their order.
        steps: Vec<StepName>,
    },
    /// The same step was begun with another input.
    #[error("step {step} of task {task} was recorded with another input")]
    OtherInput {
        /// Which task.
        task: TaskId,
        /// Which step.
        step: StepKey,
    },
}

/// The holder, by the agent's name where it is known, and how it holds.
pub fn who_holds(held: &HeldLease, agent: Option<&AgentName>) -> String {
    let holder = held.holder.to_string();
    match (&held.holder, agent) {
        (Holder::Attempt { .. }, _) | (_, None) => holder,
        // The description of a lease by time begins with the agent when it is the agent's own.
        (Holder::Time { by }, Some(_)) if by.starts_with("agent ") => holder,
        (Holder::Process(_) | Holder::Time { .. }, Some(agent)) => {
            format!("agent {agent} ({holder})")
        }
    }
}

/// By whom it is held, for how long, and when that ends.
pub fn held_text(held: &HeldLease, agent: Option<&AgentName>, now: Time) -> String {
    let (who, age) = (who_holds(held, agent), now.since(held.since));
    let left = match held.left {
        Some(left) => format!("; its lease ends in {left}"),
        None => String::new(),
    };
    format!("held by {who} for {age}{left}")
}

fn why_fenced(ours: Fence, newest: Fence) -> String {
    match ours.cmp(&newest) {
        Ordering::Equal => format!("the lease with fence {ours} has ended"),
        Ordering::Less => format!("fence {ours} is no longer valid, the newest is {newest}"),
        Ordering::Greater => format!("fence {ours} was never given out, the newest is {newest}"),
    }
}

/// Nobody who sets or spends something on a task that has ended asked for a status.
fn why_illegal(from: TaskStatus, to: TaskStatus) -> String {
    match (from.is_terminal(), to) {
        (true, TaskStatus::InProgress) => format!("is {from}: it has ended"),
        _ => format!("is {from} and cannot become {to}"),
    }
}

/// The first names of a possibly long list.
pub fn some_of(names: &[StepName]) -> String {
    const SHOWN_MAX: usize = 20;
    let shown: Vec<&str> = names.iter().take(SHOWN_MAX).map(StepName::as_str).collect();
    match names.len().saturating_sub(SHOWN_MAX) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Inputs of a decision.
#[derive(Debug, Clone, Copy)]
pub struct TaskDecisionInput<'a> {
    /// The task as it was read.
    pub task: &'a Task,
    /// The step that the event is about, as it was read.
    pub step: Option<&'a Step>,
    /// All its steps, as they were read; needed by an event that completes or retries it.
    pub steps: &'a [Step],
    /// Whether the current holder lives; ignored when there is none.
    pub life: HolderLife,
    /// The authority of the event's sender.
    pub right: Right,
    /// The agent that sends it, where one is known.
    pub caller: Option<&'a AgentName>,
    /// The current time.
    pub now: Time,
}

/// Decides how a task reacts to an event.
pub fn decide(input: &TaskDecisionInput<'_>, event: TaskEvent) -> Result<TaskDecision, Refusal> {
    check_limits(input.task, &event)?;
    let person = is_a_persons(&event);
    let is_late_end = is_late_end(input.task, &event);
    if !takes_a_lease(&event) {
        // Whoever takes the task away may show the fence of a lease that has ended.
        check_fence(input, person || is_late_end)?;
        if !person {
            check_owner(input, &event)?;
            check_holder(input, &event)?;
        }
    }
    // From in_review and failed an agent could continue it.
    let leaves_it = match &event {
        TaskEvent::Review | TaskEvent::Fail { .. } => true,
        TaskEvent::Recover(recovery) => recovery.death.is_told,
        _ => false,
    };
    if leaves_it && input.task.status.is_paused() && input.right != Right::Person {
        return Err(Refusal::waits_for_person(input.task));
    }
    let by_dialect = matches!(event, TaskEvent::Move { .. });
    let mut changes = match event {
        TaskEvent::Start {
            holder,
            ttl,
            steal,
            starter,
            limits,
        } => hold::start(input, holder, ttl, steal, starter.as_ref(), &limits)?,
        TaskEvent::Claim {
            claimant,
            holder,
            ttl,
            policy,
        } => hold::claim(input, &claimant, holder, ttl, &policy)?,
        TaskEvent::Assign { claimant, policy } => hold::assign(input, &claimant, &policy)?,
        TaskEvent::Recover(recovery) => recover::recover(input, &recovery)?,
        TaskEvent::Spend(usage) => status::while_open(input, Change::Spent(usage))?,
        TaskEvent::Note(kind, detail) => vec![Change::Noted(kind, detail)],
        TaskEvent::Interrupt {
            reason,
            agent_keeps_it,
        } => status::interrupt(input, reason, agent_keeps_it)?,
        TaskEvent::Release { force } => hold::release(input, force)?,
        TaskEvent::Set(pairs) => status::while_open(input, Change::ContextSet(pairs))?,
        TaskEvent::SetCheckpoint(settings) => status::set_checkpoint(input, settings)?,
        TaskEvent::Move { to, reason } => status::shortest(input, to, reason.as_deref())?,
        TaskEvent::Declare(steps) => status::while_open(input, Change::StepsDeclared(steps))?,
        TaskEvent::Replace(new) => status::replace(input, new),
        TaskEvent::Review => status::leave(input, TaskStatus::InReview, None)?,
        TaskEvent::Done { force } => status::done(input, force)?,
        TaskEvent::Fail { reason } => status::leave(input, TaskStatus::Failed, Some(reason))?,
        TaskEvent::Block { reason, is_told } => status::block(input, reason, is_told)?,
        TaskEvent::Defer { until, reason } => status::defer(input, until, reason)?,
        TaskEvent::Cancel { reason } => status::cancel(input, reason)?,
        TaskEvent::Retry { agent, force } => status::retry(input, agent, force)?,
        TaskEvent::Restart { agent } => status::restart(input, agent)?,
        TaskEvent::StepBegin {
            key,
            rule,
            fingerprint,
        } => steps::begin(input, key, rule, fingerprint)?,
        TaskEvent::StepEnd {
            key,
            outcome,
            output,
        } => steps::end(input, key, outcome, output)?,
        TaskEvent::StepResolve { key, happened } => steps::resolve(input, key, happened)?,
        TaskEvent::StepSkip { key, reason } => steps::skip(input, key, reason)?,
        TaskEvent::Observe(observed) => observe::observe(input, observed)?,
    };
    changes.extend(status::mark_block(input.task, by_dialect, &changes));
    Ok(TaskDecision {
        guard: guard(input, person, &changes),
        changes,
    })
}

/// Decides several events in sequence as one atomic decision; `steps` are the ones they are about.
pub fn decide_in_turn(
    input: &TaskDecisionInput<'_>,
    steps: &[Step],
    events: Vec<TaskEvent>,
) -> Result<TaskDecision, Refusal> {
    if events.is_empty() {
        // Nothing changes, but who has lost the task must not hear that it goes on.
        check_fence(input, true)?;
    }
    let mut task = input.task.clone();
    let mut steps = steps.to_vec();
    let places = steps.iter().enumerate();
    let mut places: HashMap<StepKey, usize> =
        places.map(|(at, step)| (step.key.clone(), at)).collect();
    let (mut changes, mut has_ended_late) = (Vec::new(), false);
    for event in events {
        let is_late_end = is_late_end(&task, &event);
        let place = event.step().and_then(|key| places.get(key));
        let step = place.map(|at| steps[*at].clone());
        let input_now = TaskDecisionInput {
            task: &task,
            step: step.as_ref(),
            steps: &steps,
            ..*input
        };
        let decided = match event {
            // What a step has used belongs to its end.
            TaskEvent::Spend(usage) if has_ended_late => vec![Change::Spent(usage)],
            event => decide(&input_now, event)?.changes,
        };
        has_ended_late = is_late_end;
        for change in &decided {
            change.apply(&mut task, input.now);
            if matches!(change, Change::StepsCleared) {
                steps.clear();
                places.clear();
            }
            if let Some(record) = change.step_record(input.now, None) {
                match places.get(&record.key) {
                    Some(at) => steps[*at] = record,
                    None => {
                        places.insert(record.key.clone(), steps.len());
                        steps.push(record);
                    }
                }
            }
        }
        changes.extend(decided);
    }
    let mut guard = guard(input, false, &changes);
    guard.seq = Some(input.task.seq);
    Ok(TaskDecision { guard, changes })
}

impl TaskEvent {
    /// The step it is about.
    pub fn step(&self) -> Option<&StepKey> {
        match self {
            Self::StepBegin { key, .. }
            | Self::StepEnd { key, .. }
            | Self::StepResolve { key, .. }
            | Self::StepSkip { key, .. }
            | Self::Observe(Observed::CallBegun { key, .. } | Observed::CallEnded { key, .. }) => {
                Some(key)
            }
            _ => None,
        }
    }

    /// Whether the decision needs all steps of the task: only declared ones can be left open.
    pub fn needs_all_steps(&self, task: &Task) -> bool {
        let has_declared = !task.spec.steps.is_empty();
        match self {
            Self::Done { .. } => has_declared,
            Self::Move { to, .. } => *to == TaskStatus::Completed && has_declared,
            Self::Retry { .. } => task.steps_open > 0,
            _ => false,
        }
    }
}

/// Requests of a person need no fence and raise it; one that is shown must be the newest.
fn is_a_persons(event: &TaskEvent) -> bool {
    matches!(
        event,
        TaskEvent::Cancel { .. }
            | TaskEvent::Retry { .. }
            | TaskEvent::Restart { .. }
            | TaskEvent::Release { force: true }
            | TaskEvent::StepResolve { .. }
            | TaskEvent::Replace(_)
            | TaskEvent::Start { steal: true, .. }
    )
}

/// Requests that only the holder may make: doing and ending the work.
fn is_a_holders(event: &TaskEvent) -> bool {
    match event {
        TaskEvent::StepBegin { .. }
        | TaskEvent::StepEnd { .. }
        | TaskEvent::StepSkip { .. }
        | TaskEvent::Review
        | TaskEvent::Done { .. }
        | TaskEvent::Fail { .. }
        | TaskEvent::Block { .. }
        | TaskEvent::Defer { .. } => true,
        TaskEvent::Recover(recovery) => recovery.death.is_told,
        _ => false,
    }
}

/// Requests that take a lease; an old fence is no reason to refuse them.
fn takes_a_lease(event: &TaskEvent) -> bool {
    matches!(
        event,
        TaskEvent::Start { .. }
            | TaskEvent::Claim { .. }
            | TaskEvent::Assign { .. }
            | TaskEvent::Observe(Observed::Turn { .. })
    )
}

/// The end of a step in which its holder completed the task: `relight task done` may be what a step runs.
fn is_late_end(task: &Task, event: &TaskEvent) -> bool {
    task.status == TaskStatus::Completed && matches!(event, TaskEvent::StepEnd { .. })
}

/// `after_end` allows the fence of a lease that has ended, until somebody takes the next one.
fn check_fence(input: &TaskDecisionInput<'_>, after_end: bool) -> Result<(), Refusal> {
    let Some(ours) = input.right.fence() else {
        return Ok(());
    };
    let (task, is_newest) = (input.task, ours == input.task.lease.fence);
    if after_end && is_newest {
        return Ok(());
    }
    let checked = task.check_fence(ours);
    // Its last holder hears what the task waits for, not that another may have it.
    match checked.is_err() && is_newest && task.status.is_paused() {
        true => Err(Refusal::waits_for_person(task)),
        false => checked,
    }
}

/// Refuses changes by another agent to a task that belongs to its own, also while nobody holds it.
fn check_owner(input: &TaskDecisionInput<'_>, event: &TaskEvent) -> Result<(), Refusal> {
    match input.right == Right::Unfenced && is_a_holders(event) {
        true => input.task.check_caller(input.caller),
        false => Ok(()),
    }
}

/// Refuses changes to the work of a live holder. A caller without a fence must be part of the
/// holder. The fence of a time-limited lease identifies its holder. A person may work on such a
/// task without it, but not on a step that was begun under it.
fn check_holder(input: &TaskDecisionInput<'_>, event: &TaskEvent) -> Result<(), Refusal> {
    let lease = &input.task.lease;
    let Some(held) = lease
        .held
        .as_ref()
        .filter(|_| input.life == HolderLife::Alive)
    else {
        return Ok(());
    };
    // The checkpoint dialect needs no fence for its own workflows.
    let is_strangers = match input.right {
        Right::Unfenced | Right::Person => is_a_holders(event),
        Right::Dialect => input.task.checkpoint.is_none() && !matches!(event, TaskEvent::Note(..)),
        Right::Fence(_) | Right::Holder => false,
    };
    if !is_strangers {
        return Ok(());
    }
    let is_begun_under_it = input
        .step
        .is_some_and(|step| step.is_open() && step.fence == lease.fence);
    let is_time_limited = held.ttl.is_some() || matches!(held.holder, Holder::Time { .. });
    if is_time_limited && !is_begun_under_it {
        Ok(())
    } else {
        Err(hold::held(input))
    }
}

/// Steps of one holder may be committed concurrently; everything else requires that the task is
/// unchanged.
fn guard(input: &TaskDecisionInput<'_>, person: bool, changes: &[Change]) -> Guard {
    let is_taken = changes
        .iter()
        .any(|change| matches!(change, Change::LeaseTaken { .. }));
    let shown = input.right.fence().filter(|_| !person && !is_taken);
    let fence = shown.filter(|ours| input.task.lease.admits(*ours));
    let steps_only = changes.iter().all(|change| change.mark().is_some());
    let seq = if steps_only && fence.is_some() {
        None
    } else {
        Some(input.task.seq)
    };
    Guard { fence, seq }
}

impl Task {
    /// Refuses an agent to which the task does not belong. A workflow of the checkpoint dialect is for
    /// whoever continues it.
    pub fn check_caller(&self, caller: Option<&AgentName>) -> Result<(), Refusal> {
        let is_owned = self.pinned && self.checkpoint.is_none();
        match (&self.agent, caller) {
            (Some(agent), Some(caller)) if is_owned && agent != caller => {
                Err(Refusal::OtherAgent {
                    task: self.id.clone(),
                    agent: agent.clone(),
                    starter: caller.clone(),
                })
            }
            _ => Ok(()),
        }
    }

    /// Refuses a fence that is not the one of the present lease.
    pub fn check_fence(&self, ours: Fence) -> Result<(), Refusal> {
        if self.lease.admits(ours) {
            return Ok(());
        }
        Err(Refusal::Fenced {
            task: self.id.clone(),
            ours,
            newest: self.lease.fence,
        })
    }
}

impl Refusal {
    /// Refuses work on a task before a person allows it.
    pub fn waits_for_person(task: &Task) -> Self {
        Self::WaitsForPerson {
            task: task.id.clone(),
            status: task.status,
        }
    }
}

/// Refuses a transition that the table does not allow. Whoever would work on a paused task is told that it
/// waits for a person.
pub fn illegal(task: &Task, to: TaskStatus) -> Refusal {
    let is_work = matches!(
        to,
        TaskStatus::InProgress
            | TaskStatus::InReview
            | TaskStatus::Completed
            | TaskStatus::Deferred
            | TaskStatus::Blocked
    );
    if task.status.is_paused() && is_work {
        return Refusal::waits_for_person(task);
    }
    let is_used_up = task.status == TaskStatus::Failed && !task.has_retry_left();
    Refusal::Illegal {
        task: task.id.clone(),
        from: task.status,
        to,
        is_used_up,
    }
}

/// The change to a status, if the table allows it.
fn become_status(task: &Task, to: TaskStatus, reason: Option<String>) -> Result<Change, Refusal> {
    if task.status.can_become(to) {
        Ok(Change::Status { to, reason })
    } else {
        Err(illegal(task, to))
    }
}

/// Checks the size of all free texts of an event, and that a reason which must be given is not empty.
fn check_limits(task: &Task, event: &TaskEvent) -> Result<(), Refusal> {
    match event {
        TaskEvent::Set(pairs) => limits::check_context(pairs, Some(&task.context))?,
        TaskEvent::Fail { reason }
        | TaskEvent::Block { reason, .. }
        | TaskEvent::StepSkip { reason, .. } => check_reason(reason)?,
        TaskEvent::Defer { reason, .. }
        | TaskEvent::Cancel { reason }
        | TaskEvent::Move { reason, .. } => limits::REASON.check_option(reason.as_deref())?,
        TaskEvent::Recover(recovery) if recovery.death.is_told => {
            check_reason(&recovery.death.reason)?;
        }
        TaskEvent::SetCheckpoint(settings) => limits::check_checkpoint(settings)?,
        TaskEvent::Replace(new) => limits::check_new(new)?,
        TaskEvent::Declare(steps) => limits::STEPS.check(steps.len())?,
        // Names are bounded by their types, outputs are cut, and Relight writes the other texts itself.
        _ => {}
    }
    Ok(())
}

/// Checks a reason that must be given: it is not empty and not too long.
pub fn check_reason(reason: &str) -> Result<(), Refusal> {
    if reason.trim().is_empty() {
        return Err(Refusal::NoReason);
    }
    Ok(limits::REASON.check(reason.len())?)
}
