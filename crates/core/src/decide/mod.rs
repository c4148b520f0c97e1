//! Turns an event into changes. Pure: the same task, event and time give the same decision.
//!
//! Leaves to others: reading the task, finding out whether a holder lives, committing the
//! changes, and acting on them.

mod hold;
mod recover;
mod status;
mod steps;

use std::cmp::Ordering;
use std::collections::BTreeMap;

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
pub use steps::{StepAdvice, advise};

/// The agent that starts a task by its name. The task belongs to it from then on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Starter {
    /// It names itself: refused where the task has another agent.
    Itself(Claimant),
    /// A person names it (`run --task`, `task` of the configuration): the task is handed over to it.
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

/// What somebody wants of a task that exists.
#[derive(Debug, Clone, PartialEq)]
pub enum TaskEvent {
    /// Take the lease and work on it.
    Start {
        /// Whose life the lease follows.
        holder: Holder,
        /// How long each write renews it for.
        ttl: Option<Span>,
        /// Take it from a live holder too.
        steal: bool,
        /// The agent that takes it by its name; none for a person or a program without one.
        starter: Option<Starter>,
        /// What keeps it from being started.
        limits: StartLimits,
    },
    /// Take it from the queue for an agent.
    Claim {
        /// Who wants work.
        claimant: Claimant,
        /// Whose life the lease follows.
        holder: Holder,
        /// How long each write renews it for.
        ttl: Option<Span>,
        /// What tasks may use up; one that has is parked instead.
        policy: TaskPolicy,
    },
    /// Give it to an agent of the queue that will be started with it.
    Assign {
        /// To whom.
        claimant: Claimant,
        /// What tasks may use up; one that has is parked instead.
        policy: TaskPolicy,
    },
    /// Its holder died or gave it up, and its strategy was asked.
    Recover(Box<RecoveryPlan>),
    /// Work on it has used this.
    Spend(Usage),
    /// Add context.
    Set(BTreeMap<String, String>),
    /// Go to a status by the shortest way through the table, for a dialect with fewer words.
    Move {
        /// Where to.
        to: TaskStatus,
        /// Why.
        reason: Option<String>,
    },
    /// Change the steps known ahead.
    Declare(Vec<StepName>),
    /// Ask for something else, from the beginning.
    Replace(Box<NewTask>),
    /// Hand it to a second look.
    Review,
    /// It is finished.
    Done {
        /// Also when declared steps are left open.
        force: bool,
    },
    /// It went wrong.
    Fail {
        /// Why.
        reason: String,
    },
    /// It cannot go on before a person acts, who is sent an alert.
    Block {
        /// Why.
        reason: String,
        /// Whether another event of the same commit is the alert.
        is_told: bool,
    },
    /// It goes on later.
    Defer {
        /// When.
        until: Time,
        /// Why.
        reason: Option<String>,
    },
    /// It is not wanted any more.
    Cancel {
        /// Why.
        reason: Option<String>,
    },
    /// Give it to somebody again.
    Retry {
        /// To whom; the same as before when none.
        agent: Option<AgentName>,
        /// Beyond the limit too.
        force: bool,
    },
    /// Give it to somebody from its beginning: what was done of it counts no more.
    Restart {
        /// To whom; the same as before when none.
        agent: Option<AgentName>,
    },
    /// Something worth telling that changes nothing.
    Note(EventKind, serde_json::Value),
    /// Its holder died, or ends: it waits to be taken up again.
    Interrupt {
        /// Why.
        reason: String,
    },
    /// Give it back.
    Release {
        /// Take it from a live holder too.
        force: bool,
    },
    /// Say what the checkpoint dialect has beside.
    Door(CheckpointSettings),
    /// A step is about to act.
    StepBegin {
        /// Which.
        key: StepKey,
        /// By which rule, unless one is recorded.
        rule: RepeatRule,
        /// A hash of its input.
        fingerprint: Option<u64>,
    },
    /// A step has acted.
    StepEnd {
        /// Which.
        key: StepKey,
        /// How.
        outcome: StepOutcome,
        /// With what.
        output: Option<Output>,
    },
    /// A person knows what became of a step in doubt.
    StepResolve {
        /// Which.
        key: StepKey,
        /// Whether it happened.
        happened: bool,
    },
    /// A step is not to be done.
    StepSkip {
        /// Which.
        key: StepKey,
        /// Why.
        reason: String,
    },
}

/// What keeps a task from being started by its name.
#[derive(Debug, Clone, PartialEq)]
pub enum StartLimits {
    /// One that waits for a person, or has used up what it may, is refused.
    Policy(TaskPolicy),
    /// One that waits for a person is refused; whoever starts it has a budget of its own.
    OwnBudget,
    /// None: a person wants it.
    Forced,
}

impl StartLimits {
    /// Why the task may not be started.
    pub fn refusal(&self, task: &Task, now: Time) -> Option<Refusal> {
        if task.status.is_paused() && *self != Self::Forced {
            return Some(Refusal::WaitsForPerson { task: task.id.clone(), status: task.status });
        }
        // Who gave it to an agent by hand wants it tried once more.
        let is_by_hand = matches!(task.status, TaskStatus::Created | TaskStatus::Assigned);
        let Self::Policy(policy) = self else { return None };
        let why = policy.exhausted(task, now).filter(|_| !is_by_hand)?;
        Some(Refusal::UsedUp { task: task.id.clone(), why })
    }
}

/// By what right somebody writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// The number of a lease.
    Fence(Fence),
    /// None; recorded so. What a live holder works on is refused.
    Unfenced,
    /// None, but the caller is part of the present holder: its process, a child of it, or its attempt.
    Holder,
    /// None, by a script of the checkpoint dialect, which knows no fences; taken, and recorded so.
    Dialect,
}

impl Right {
    /// The number that is shown.
    pub fn fence(self) -> Option<Fence> {
        match self {
            Self::Fence(fence) => Some(fence),
            Self::Unfenced | Self::Holder | Self::Dialect => None,
        }
    }
}

/// What must still be true when the changes are committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Guard {
    /// The lease is held, with this number.
    pub fence: Option<Fence>,
    /// Nothing was committed since the task was read.
    pub seq: Option<u64>,
}

/// What to commit.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// On which condition.
    pub guard: Guard,
    /// In this order, all or nothing. Empty: nothing to do.
    pub changes: Vec<Change>,
}

/// Why an event is refused. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A text over its limit.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// The table of transitions has no such arrow.
    #[error("task {task} is {from} and cannot become {to}")]
    Illegal {
        /// Which task.
        task: TaskId,
        /// Where it stands.
        from: TaskStatus,
        /// Where it was to go.
        to: TaskStatus,
    },
    /// Somebody else has the lease.
    #[error("task {task} is held by {} since {}", who_holds(.held, .agent.as_ref()), .held.since)]
    Held {
        /// Which task.
        task: TaskId,
        /// Whose task it is.
        agent: Option<AgentName>,
        /// By whom.
        held: Box<HeldLease>,
    },
    /// The task belongs to another agent than the one that wants to start it.
    #[error("task {task} belongs to agent {agent}, not to {starter}")]
    OtherAgent {
        /// Which task.
        task: TaskId,
        /// Whose task it is.
        agent: AgentName,
        /// Who wanted to start it.
        starter: AgentName,
    },
    /// The writer's lease is no longer valid.
    #[error("task {task} is fenced: {}", why_fenced(*.ours, *.newest))]
    Fenced {
        /// Which task.
        task: TaskId,
        /// What the writer showed.
        ours: Fence,
        /// The newest lease's number.
        newest: Fence,
    },
    /// No assignment after a failure is left.
    #[error("task {task} was retried {used} of {max} times")]
    RetriesUsedUp {
        /// Which task.
        task: TaskId,
        /// How often it was assigned again.
        used: u32,
        /// How often it may be.
        max: u32,
    },
    /// Its strategy wants nobody to take it again.
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
    /// A limit of the whole task is reached.
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
        /// When it may.
        at: Time,
    },
    /// Nothing was begun that could be ended.
    #[error("step {step} of task {task} was not begun")]
    StepNotBegun {
        /// Which task.
        task: TaskId,
        /// Which step.
        step: StepKey,
    },
    /// A process of a holder that is gone is still at it: a new lease would throw its result away.
    #[error("step {step} of task {task} is still being run")]
    StepRunning {
        /// Which task.
        task: TaskId,
        /// Which step.
        step: StepKey,
    },
    /// Nothing is in doubt that could be resolved.
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
    /// Nobody declared or began it.
    #[error("task {task} has no step {step}")]
    NoSuchStep {
        /// Which task.
        task: TaskId,
        /// Which step.
        step: StepKey,
    },
    /// It was begun and not ended: whether it happened has to be said first.
    #[error("step {step} of task {task} was begun and not ended")]
    StepInDoubt {
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

/// The agent by its name where the holder does not name it, or another one.
pub fn who_holds(held: &HeldLease, agent: Option<&AgentName>) -> String {
    let holder = held.holder.to_string();
    let names_agent =
        |agent: &AgentName| holder.contains(agent.as_str()) || holder.starts_with(NAMED_HOLDER);
    match agent.filter(|agent| !names_agent(agent)) {
        Some(agent) => format!("agent {agent} ({holder})"),
        None => holder,
    }
}

/// How the holder of a lease by time begins where it is an agent.
const NAMED_HOLDER: &str = "agent ";

fn why_fenced(ours: Fence, newest: Fence) -> String {
    match ours.cmp(&newest) {
        Ordering::Equal => format!("the lease with fence {ours} has ended"),
        Ordering::Less => format!("fence {ours} is no longer valid, the newest is {newest}"),
        Ordering::Greater => format!("fence {ours} was never given out, the newest is {newest}"),
    }
}

/// The first names of a list that may be long.
fn some_of(names: &[StepName]) -> String {
    const SHOWN_MAX: usize = 20;
    let shown: Vec<&str> = names.iter().take(SHOWN_MAX).map(StepName::as_str).collect();
    match names.len().saturating_sub(SHOWN_MAX) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// What the decision stands on.
#[derive(Debug, Clone, Copy)]
pub struct TaskDecisionInput<'a> {
    /// The task as it was read.
    pub task: &'a Task,
    /// The step that the event speaks of, as it was read.
    pub step: Option<&'a Step>,
    /// All its steps, as they were read; needed by an event that completes it.
    pub steps: &'a [Step],
    /// Whether the present holder lives; of no meaning when nobody holds it.
    pub life: HolderLife,
    /// By what right the event comes.
    pub right: Right,
    /// The time.
    pub now: Time,
}

/// Decides what becomes of a task by an event.
pub fn decide(scene: &TaskDecisionInput<'_>, event: TaskEvent) -> Result<Decision, Refusal> {
    limits::check_event(scene.task, &event)?;
    let person = is_a_persons(&event);
    if !person && !takes_a_lease(&event) {
        check_fence(scene)?;
        check_holder(scene, &event)?;
    }
    let by_dialect = matches!(event, TaskEvent::Move { .. });
    let mut changes = match event {
        TaskEvent::Start { holder, ttl, steal, starter, limits } => {
            hold::start(scene, holder, ttl, steal, starter.as_ref(), &limits)?
        }
        TaskEvent::Claim { claimant, holder, ttl, policy } => {
            hold::claim(scene, &claimant, holder, ttl, &policy)?
        }
        TaskEvent::Assign { claimant, policy } => hold::assign(scene, &claimant, &policy)?,
        TaskEvent::Recover(recovery) => recover::recover(scene, &recovery)?,
        TaskEvent::Spend(usage) => status::while_open(scene, Change::Spent(usage))?,
        TaskEvent::Note(kind, detail) => vec![Change::Noted(kind, detail)],
        TaskEvent::Interrupt { reason } => status::interrupt(scene, reason)?,
        TaskEvent::Release { force } => hold::release(scene, force)?,
        TaskEvent::Set(pairs) => status::while_open(scene, Change::ContextSet(pairs))?,
        TaskEvent::Door(door) => status::door(scene, door)?,
        TaskEvent::Move { to, reason } => status::shortest(scene, to, reason.as_deref())?,
        TaskEvent::Declare(steps) => status::while_open(scene, Change::StepsDeclared(steps))?,
        TaskEvent::Replace(new) => status::replace(scene, new),
        TaskEvent::Review => status::leave(scene, TaskStatus::InReview, None)?,
        TaskEvent::Done { force } => status::done(scene, force)?,
        TaskEvent::Fail { reason } => status::leave(scene, TaskStatus::Failed, Some(reason))?,
        TaskEvent::Block { reason, is_told } => status::block(scene, reason, is_told)?,
        TaskEvent::Defer { until, reason } => status::defer(scene, until, reason)?,
        TaskEvent::Cancel { reason } => status::cancel(scene, reason)?,
        TaskEvent::Retry { agent, force } => status::retry(scene, agent, force)?,
        TaskEvent::Restart { agent } => status::restart(scene, agent)?,
        TaskEvent::StepBegin { key, rule, fingerprint } => {
            steps::begin(scene, key, rule, fingerprint)?
        }
        TaskEvent::StepEnd { key, outcome, output } => steps::end(scene, key, outcome, output)?,
        TaskEvent::StepResolve { key, happened } => steps::resolve(scene, key, happened)?,
        TaskEvent::StepSkip { key, reason } => steps::skip(scene, key, reason)?,
    };
    changes.extend(status::mark_block(scene.task, by_dialect, &changes));
    Ok(Decision { guard: guard(scene, person, &changes), changes })
}

/// Decides several events in turn as one decision, all or nothing; `steps` are the ones they speak
/// of, as they were read.
pub fn decide_in_turn(
    scene: &TaskDecisionInput<'_>,
    steps: &[Step],
    events: Vec<TaskEvent>,
) -> Result<Decision, Refusal> {
    let mut task = scene.task.clone();
    let mut steps = steps.to_vec();
    let mut changes = Vec::new();
    for event in events {
        let step = event.step().and_then(|key| steps.iter().find(|step| step.key == *key)).cloned();
        let scene_now =
            TaskDecisionInput { task: &task, step: step.as_ref(), steps: &steps, ..*scene };
        let decided = decide(&scene_now, event)?.changes;
        for change in &decided {
            change.apply(&mut task, scene.now);
            if matches!(change, Change::StepsCleared) {
                steps.clear();
            }
            if let Some(record) = change.step_record(scene.now, None) {
                steps.retain(|step| step.key != record.key);
                steps.push(record);
            }
        }
        changes.extend(decided);
    }
    let mut guard = guard(scene, false, &changes);
    guard.seq = Some(scene.task.seq);
    Ok(Decision { guard, changes })
}

impl TaskEvent {
    /// The step it speaks of.
    pub fn step(&self) -> Option<&StepKey> {
        match self {
            Self::StepBegin { key, .. }
            | Self::StepEnd { key, .. }
            | Self::StepResolve { key, .. }
            | Self::StepSkip { key, .. } => Some(key),
            _ => None,
        }
    }

    /// Whether it is decided upon all steps of the task.
    pub fn needs_all_steps(&self) -> bool {
        match self {
            Self::Done { .. } => true,
            Self::Move { to, .. } => *to == TaskStatus::Completed,
            _ => false,
        }
    }
}

/// A person's verbs need no fence and raise it.
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

/// Doing the work, and ending it, are the holder's.
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

/// Whoever wants the lease may still show an old fence; it is no reason to refuse.
fn takes_a_lease(event: &TaskEvent) -> bool {
    matches!(event, TaskEvent::Start { .. } | TaskEvent::Claim { .. } | TaskEvent::Assign { .. })
}

fn check_fence(scene: &TaskDecisionInput<'_>) -> Result<(), Refusal> {
    match scene.right.fence() {
        Some(ours) if !scene.task.lease.admits(ours) => Err(Refusal::Fenced {
            task: scene.task.id.clone(),
            ours,
            newest: scene.task.lease.fence,
        }),
        _ => Ok(()),
    }
}

/// A live holder's work is left to it: a caller that shows no fence must be part of the holder. Whoever
/// shows the fence of a lease by time is its holder, and a person may work on such a task without it, but
/// not on a step that was begun under it.
fn check_holder(scene: &TaskDecisionInput<'_>, event: &TaskEvent) -> Result<(), Refusal> {
    let lease = &scene.task.lease;
    let Some(held) = lease.held.as_ref().filter(|_| scene.life == HolderLife::Alive) else {
        return Ok(());
    };
    // The checkpoint dialect needs no fence, but only for its own workflows.
    let is_strangers = match scene.right {
        Right::Unfenced => is_a_holders(event),
        Right::Dialect => scene.task.checkpoint.is_none() && !matches!(event, TaskEvent::Note(..)),
        Right::Fence(_) | Right::Holder => false,
    };
    if !is_strangers {
        return Ok(());
    }
    let is_begun_under_it =
        scene.step.is_some_and(|step| step.is_open() && step.fence == lease.fence);
    match held.holder {
        Holder::Time { .. } if !is_begun_under_it => Ok(()),
        _ => Err(hold::held(scene.task)),
    }
}

/// Steps of one holder may be committed side by side; everything else stands on what was read.
fn guard(scene: &TaskDecisionInput<'_>, person: bool, changes: &[Change]) -> Guard {
    let is_taken = changes.iter().any(|change| matches!(change, Change::LeaseTaken { .. }));
    let shown = scene.right.fence().filter(|_| !person && !is_taken);
    let fence = shown.filter(|ours| scene.task.lease.admits(*ours));
    let steps_only = changes.iter().all(|change| change.mark().is_some());
    let seq = if steps_only && fence.is_some() { None } else { Some(scene.task.seq) };
    Guard { fence, seq }
}

fn illegal(task: &Task, to: TaskStatus) -> Refusal {
    Refusal::Illegal { task: task.id.clone(), from: task.status, to }
}

/// The change to a status, when the table allows it.
fn become_status(task: &Task, to: TaskStatus, reason: Option<String>) -> Result<Change, Refusal> {
    if task.status.can_become(to) {
        Ok(Change::Status { to, reason })
    } else {
        Err(illegal(task, to))
    }
}
