//! The table of agent state and event. Pure: the same agent, event, time and chance give the same
//! decision.
//!
//! | state \ event | wake | start | work | stop | end | died | due |
//! |---|---|---|---|---|---|---|---|
//! | created | begin | begin | – | stopped | – | – | – |
//! | running | – | – | – | ending | ending | judge | – |
//! | running, being stopped | stop again | ending: restart | – | – | – | stopped | – |
//! | running, ending otherwise | stop again | – | – | ending: stop | – | as it was ended | – |
//! | crashed | wait or begin | begin, forgiven | – | stopped | – | – | begin |
//! | suspended | wait or begin | begin, forgiven | – | stopped | – | – | begin |
//! | stopped by a person | – | begin, forgiven | – | stopped | – | – | – |
//! | stopped by itself | – | begin, forgiven | begin, when idle | stopped | – | – | – |
//! | stopped with its supervisor | begin | begin, forgiven | – | stopped | – | – | – |
//! | terminated | – | begin, forgiven | – | stopped | – | – | – |
//!
//! *begin*: start the next attempt. An agent whose task waits for a person is suspended instead;
//! one whose task has ended is stopped by itself. *forgiven*: the count of recoveries without
//! progress is reset, the total is not. *judge*: by cause, restart rule, budgets and the state of
//! its task. *stop again*: the supervisor that recorded the end may have died before it sent the
//! signal. *–*: nothing happens.
//!
//! Agents started for a task (`Takes::Start`) are *idle* in between: stopped by itself, without a
//! task. Where an attempt would begin but the task is no longer the agent's, it becomes idle; then
//! only `work` begins an attempt. A death that cost the agent its task is charged like any other.
//! So an agent that always fails gets cooldowns and is terminated, and does not drain the queue.
//!
//! Agents that report their own heartbeats have a table of their own, in `reports`. For all others
//! `reported` and `silent` do nothing. `used` adds up what an attempt has used, in every state, and
//! ends a running attempt that has spent its limit without progress; it is then judged as a failure
//! that no retry can cure.
//!
//! While the budget of the store is spent (`overspent.rs`), what would begin is suspended until it
//! is not, and what runs is ended without a charge: *running, ending for the budget* begins again after
//! its death, which is suspended in turn. Only a person's start begins an attempt meanwhile.

use super::attempt::AttemptTag;
use super::change::AgentChange;
use super::death::{Cause, Death, PostMortem, RecordedDeath, ReportedEnd};
use super::{Agent, AgentState, Pause, RestartRule, StopReason, Stopper, Takes, reports};
use crate::alert::Alert;
use crate::event::EventKind;
use crate::ids::TaskId;
use crate::restart_budget::{self, RestartVerdict, Tally};
use crate::status::TaskStatus;
use crate::store_budget::spending_detail;
use crate::time::{Span, Time};
use crate::usage::{Reading, Usage};

/// What happened to an agent, or was requested.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentEvent {
    /// A supervisor acquired it: continue as the state says.
    Wake,
    /// A person starts it.
    Start,
    /// The queue assigned a task to it.
    Work(TaskId),
    /// Stop it and keep it stopped, by a person or with its supervisor.
    Stop(Stopper),
    /// Stop its attempt only.
    End(StopReason),
    /// Its attempt ended.
    Died {
        /// The facts.
        death: Box<Death>,
        /// The post-mortem.
        post_mortem: Box<PostMortem>,
        /// Status of its plan's task, if there is one and it is still its own.
        task: Option<TaskStatus>,
    },
    /// The time it waited for has come.
    Due,
    /// Nothing may be resumed now.
    HoldBack,
    /// It finished a step or was stable for a while.
    Progress,
    /// Totals of what it has used were read.
    Used {
        /// The readings.
        readings: Vec<Reading>,
        /// A step or a task was finished since the last progress that its usage knows of.
        made_progress: bool,
        /// Its attempt still runs, and can be ended.
        is_alive: bool,
        /// A task was charged, which tells the journal.
        is_charged: bool,
    },
    /// The budget of the store is spent.
    Overspent,
    /// A loop's round succeeded, and the condition was checked.
    RoundOver {
        /// The condition of `--until` holds.
        finished: bool,
    },
    /// A loop's round succeeded, but its condition cannot be checked. Continuing could loop for
    /// ever.
    CannotAsk,
    /// It reported a heartbeat.
    Reported,
    /// An agent that reports its own heartbeats was silent for too long.
    Silent {
        /// For how long.
        silent: Span,
        /// A step of its tasks was finished since it began to report.
        made_progress: bool,
        /// The post-mortem.
        post_mortem: Box<PostMortem>,
    },
}

/// An action to take once the changes are durable.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentEffect {
    /// Start the attempt with this number and tag.
    Spawn {
        /// Its number.
        number: u32,
        /// Its tag.
        tag: AttemptTag,
        /// Both were allocated ahead, so it need not wait for this commit.
        at_once: bool,
    },
    /// Stop all processes of the live attempt.
    StopTree(StopReason),
    /// Send `Due` at this time.
    WaitUntil(Time),
    /// Check the loop's condition, then send `RoundOver`.
    AskUntil,
    /// Show it to users who watch. Others get the alert from the journal.
    Alert(String),
    /// The agent is at rest: nothing happens without a new event.
    AtRest,
}

/// Changes to commit and actions to take afterwards.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AgentDecision {
    /// Applied in this order, all or none.
    pub changes: Vec<AgentChange>,
    /// Taken in this order, after the commit.
    pub effects: Vec<AgentEffect>,
}

/// Inputs of a decision besides the agent.
#[derive(Debug, Clone, Copy)]
pub struct AgentDecisionInput {
    /// The current time.
    pub now: Time,
    /// Random number from 0 to 1, to spread restarts.
    pub jitter: f64,
    /// Random number that makes new tags unique.
    pub chance: u64,
    /// Status of its plan's task, if there is one and it is still its own.
    pub task: Option<TaskStatus>,
}

/// Decides how an agent reacts to an event.
pub fn decide(agent: &Agent, event: AgentEvent, input: AgentDecisionInput) -> AgentDecision {
    if agent.plan.reports_itself() {
        return reports::decide(agent, event, input);
    }
    match event {
        AgentEvent::Wake => wake(agent, input),
        AgentEvent::Start => start(agent, input),
        AgentEvent::Work(task) => work(agent, task, input),
        AgentEvent::Stop(by) => stop(agent, by),
        AgentEvent::End(ending) => end(agent, ending),
        AgentEvent::Died {
            death,
            post_mortem,
            task,
        } => died(agent, *death, *post_mortem, task, input),
        AgentEvent::Due => due(agent, input),
        AgentEvent::HoldBack => hold_back(agent),
        AgentEvent::Progress => progress(agent),
        AgentEvent::Used {
            readings,
            made_progress,
            is_alive,
            is_charged,
        } => {
            let (mut usage, is_over) = used(agent, &readings, made_progress, input.now);
            if !is_charged {
                usage.changes.extend(spending(agent, &usage));
            }
            match is_over && is_alive {
                true => usage.then(end(agent, StopReason::Incurable)),
                false => usage,
            }
        }
        AgentEvent::RoundOver { finished } => round_over(agent, finished, input),
        AgentEvent::CannotAsk => cannot_ask(agent),
        AgentEvent::Reported | AgentEvent::Silent { .. } | AgentEvent::Overspent => {
            AgentDecision::default()
        }
    }
}

/// Like `decide`, while nothing may be started: what would begin an attempt is paused instead, and
/// deaths are recorded as usual. Only a person's request for this agent is executed. A restart
/// requested before must be requested again.
pub fn decide_held(
    agent: &Agent,
    event: AgentEvent,
    input: AgentDecisionInput,
    why: Pause,
) -> AgentDecision {
    let is_restart = matches!(
        agent.state,
        AgentState::Running {
            ending: Some(StopReason::Restart),
            ..
        }
    );
    let is_wanted = match event {
        AgentEvent::Start => true,
        AgentEvent::Died { .. } => is_restart && why != Pause::HeldBack,
        _ => false,
    };
    let decision = decide(agent, event, input);
    if is_wanted {
        decision
    } else {
        decision.held(why, None)
    }
}

fn wake(agent: &Agent, input: AgentDecisionInput) -> AgentDecision {
    match &agent.state {
        AgentState::Created
        | AgentState::Stopped {
            by: Stopper::Shutdown,
        } => begin(agent, input),
        AgentState::Suspended {
            why: Pause::Budget, ..
        } => begin(agent, input),
        AgentState::Crashed { again_at: Some(at) }
        | AgentState::Suspended {
            until: Some(at), ..
        } => wait_or_begin(agent, *at, input),
        AgentState::Suspended {
            why: Pause::HeldBack | Pause::Task | Pause::Draining | Pause::Turn,
            until: None,
        } => begin(agent, input),
        AgentState::Suspended {
            why: Pause::Asking,
            until: None,
        } => ask(),
        AgentState::Running { ending: None, .. } => AgentDecision::default(),
        // It was being stopped by a supervisor that is gone; this one starts it again.
        AgentState::Running {
            ending: Some(StopReason::Shutdown),
            ..
        } => tell_to_end(agent, StopReason::Restart),
        AgentState::Running {
            ending: Some(ending),
            ..
        } => signal_tree(*ending),
        AgentState::Crashed { again_at: None }
        | AgentState::Suspended {
            why: Pause::Deferred | Pause::Resting | Pause::Incurable,
            until: None,
        }
        | AgentState::Stopped {
            by: Stopper::Person | Stopper::Itself,
        }
        | AgentState::Terminated { .. } => at_rest(),
    }
}

fn start(agent: &Agent, input: AgentDecisionInput) -> AgentDecision {
    let anew = budget_anew(agent, input.now);
    match &agent.state {
        // It is already being stopped.
        AgentState::Running {
            ending: Some(StopReason::Stop | StopReason::Budget),
            ..
        } => ending_by(agent, StopReason::Restart),
        AgentState::Running { .. } => AgentDecision::default(),
        AgentState::Stopped {
            by: Stopper::Person | Stopper::Itself,
        }
        | AgentState::Terminated { .. } => progress(agent)
            .then(anew)
            .then(first_round(agent))
            .then(begin(agent, input)),
        AgentState::Created
        | AgentState::Crashed { .. }
        | AgentState::Suspended { .. }
        | AgentState::Stopped {
            by: Stopper::Shutdown,
        } => progress(agent).then(anew).then(begin(agent, input)),
    }
}

/// An agent that is not idle is busy or stopped on purpose.
fn work(agent: &Agent, task: TaskId, input: AgentDecisionInput) -> AgentDecision {
    if !agent.is_idle() {
        return AgentDecision::default();
    }
    let given = AgentChange::Given(Some(task));
    AgentDecision {
        changes: vec![given],
        effects: Vec::new(),
    }
    .then(spawn(agent, input))
}

fn stop(agent: &Agent, by: Stopper) -> AgentDecision {
    let ending = if by == Stopper::Shutdown {
        StopReason::Shutdown
    } else {
        StopReason::Stop
    };
    match &agent.state {
        AgentState::Running {
            ending: Some(StopReason::Stop),
            ..
        } => AgentDecision::default(),
        // A second stop sequence would give it a second grace period.
        AgentState::Running {
            ending: Some(already),
            ..
        } if *already == ending => AgentDecision::default(),
        AgentState::Running { .. } => tell_to_end(agent, ending),
        AgentState::Stopped {
            by: Stopper::Person,
        } => at_rest(),
        // An agent that waits for its turn also waits for the next supervisor.
        AgentState::Created
        | AgentState::Crashed { .. }
        | AgentState::Suspended { .. }
        | AgentState::Stopped { .. }
        | AgentState::Terminated { .. }
            if by == Stopper::Shutdown =>
        {
            at_rest()
        }
        AgentState::Created
        | AgentState::Crashed { .. }
        | AgentState::Suspended { .. }
        | AgentState::Stopped { .. }
        | AgentState::Terminated { .. } => come_to_rest(AgentState::Stopped { by }),
    }
}

pub(super) fn end(agent: &Agent, ending: StopReason) -> AgentDecision {
    match &agent.state {
        AgentState::Running { ending: None, .. } => tell_to_end(agent, ending),
        AgentState::Running {
            ending: Some(_), ..
        }
        | AgentState::Created
        | AgentState::Crashed { .. }
        | AgentState::Suspended { .. }
        | AgentState::Stopped { .. }
        | AgentState::Terminated { .. } => AgentDecision::default(),
    }
}

fn died(
    agent: &Agent,
    death: Death,
    post_mortem: PostMortem,
    task: Option<TaskStatus>,
    input: AgentDecisionInput,
) -> AgentDecision {
    let AgentState::Running { ending, .. } = &agent.state else {
        return AgentDecision::default();
    };
    let input = AgentDecisionInput { task, ..input };
    let cause = death.cause(*ending);
    let is_stable = agent.plan.policy.is_stable(death.lived);
    let advanced = death.made_progress || is_stable;
    let spent = agent.spent().filter(|_| !death.made_progress);
    let charge = match &death.said {
        Some(ReportedEnd::SessionGone) if cause == Cause::Failed => Charge::Nothing,
        Some(ReportedEnd::Incurable(why)) if cause == Cause::Failed => {
            Charge::Incurable(why.clone())
        }
        _ if spent.is_some() => Charge::Incurable(spent.unwrap_or_default()),
        _ if death.node_lost => Charge::Total,
        _ if advanced => Charge::RowAnew,
        _ => Charge::Row,
    };
    let until = later(&death, input.now, agent);
    let deferrals = if advanced {
        1
    } else {
        agent.tally.deferrals.saturating_add(1)
    };
    let has_succeeded = cause == Cause::Completed || death.has_said_success();
    let released_task = death.unfinished_task.is_none();
    let ended = AgentChange::Ended {
        number: agent.attempt_number,
        ended: Box::new(RecordedDeath { cause, death }),
        post_mortem: Box::new(post_mortem),
    };
    let mut decision = AgentDecision {
        changes: vec![ended],
        effects: Vec::new(),
    };
    if has_succeeded {
        decision = decision.then(budget_anew(agent, input.now));
    }
    if cause == Cause::Completed && agent.session.is_some() {
        decision.changes.push(AgentChange::Session(None));
    }
    if cause == Cause::Deferred {
        let tally = Tally {
            deferrals,
            ..agent.tally.clone()
        };
        decision.changes.push(AgentChange::Tally(tally));
    }
    let is_started = agent.plan.takes == Takes::Start;
    let next = match (ending, cause, task.and_then(rest_with)) {
        _ if is_started => {
            let end = StartedEnd {
                has_succeeded,
                advanced,
                charge,
                released_task,
                until,
            };
            died_with_work(agent, *ending, cause, &end, input)
        }
        (Some(StopReason::Stop), _, _) => come_to_rest(AgentState::Stopped {
            by: Stopper::Person,
        }),
        (Some(StopReason::Restart), _, _) => begin(agent, input),
        (_, _, Some(state)) if has_succeeded && agent.plan.is_loop() => {
            round_counted(agent).then(come_to_rest(state))
        }
        (_, _, Some(_)) if has_succeeded => come_to_rest(AgentState::Stopped {
            by: Stopper::Itself,
        }),
        (_, _, Some(state)) => come_to_rest(state),
        (Some(StopReason::Shutdown), _, _) if has_succeeded && agent.plan.is_loop() => {
            round_counted(agent).then(at_rest())
        }
        (Some(StopReason::Shutdown), _, _)
            if !has_succeeded || agent.plan.restart == RestartRule::Always =>
        {
            come_to_rest(AgentState::Stopped {
                by: Stopper::Shutdown,
            })
        }
        (Some(StopReason::Budget), _, _) if !has_succeeded => begin(agent, input),
        (_, Cause::Deferred, _) => pause(Pause::Deferred, until),
        _ if has_succeeded && agent.plan.is_loop() => round_counted(agent).then(ask()),
        _ if has_succeeded && agent.plan.restart == RestartRule::Always => {
            // Success costs no budget; only the rate is limited.
            progress(agent).then(pause(Pause::Resting, input.now.plus(rest(agent))))
        }
        _ if has_succeeded => come_to_rest(AgentState::Stopped {
            by: Stopper::Itself,
        }),
        _ if agent.plan.restart == RestartRule::Never => {
            come_to_rest(AgentState::Crashed { again_at: None })
        }
        _ => recover(agent, charge, input),
    };
    decision.then(next)
}

/// Which budget a death is charged to, besides the total of restarts.
#[derive(Debug, Clone)]
enum Charge {
    /// None: its session was gone, and the next attempt begins a new one.
    Nothing,
    /// None: no retry can cure this error, so a person is asked.
    Incurable(String),
    /// The count of recoveries without progress.
    Row,
    /// That count, after a reset: it made progress or was stable.
    RowAnew,
    /// Only the total: its node was lost.
    Total,
}

/// Facts about the end of an agent that was started for a task.
struct StartedEnd {
    has_succeeded: bool,
    /// It made progress or was stable.
    advanced: bool,
    charge: Charge,
    /// It released its task itself.
    released_task: bool,
    /// When it resumes after asking for later.
    until: Time,
}

/// An agent started for a task continues with it while the task is its own, then becomes idle.
fn died_with_work(
    agent: &Agent,
    ending: Option<StopReason>,
    cause: Cause,
    end: &StartedEnd,
    input: AgentDecisionInput,
) -> AgentDecision {
    let resumes = has_work(agent, input.task);
    let is_finished = matches!(
        input.task,
        Some(TaskStatus::Completed | TaskStatus::InReview)
    );
    match ending {
        Some(StopReason::Stop) => {
            return come_to_rest(AgentState::Stopped {
                by: Stopper::Person,
            });
        }
        Some(StopReason::Restart) => return begin(agent, input),
        Some(StopReason::Shutdown) if resumes => {
            return come_to_rest(AgentState::Stopped {
                by: Stopper::Shutdown,
            });
        }
        Some(StopReason::Shutdown) => return idle(agent),
        Some(StopReason::Budget) if !end.has_succeeded => return begin(agent, input),
        Some(
            StopReason::Hung | StopReason::Timeout | StopReason::Incurable | StopReason::Budget,
        )
        | None => {}
    }
    // It would defer another task as well.
    if cause == Cause::Deferred {
        return pause(Pause::Deferred, end.until);
    }
    let has_failed = resumes || !(end.has_succeeded || end.released_task);
    match has_failed {
        true if agent.plan.restart == RestartRule::Never => {
            come_to_rest(AgentState::Crashed { again_at: None })
        }
        true => recover(agent, end.charge.clone(), input),
        false if is_finished || end.advanced => progress(agent).then(idle(agent)),
        false => idle(agent),
    }
}

/// Whether an agent that is started with tasks has one to go on with.
fn has_work(agent: &Agent, task: Option<TaskStatus>) -> bool {
    match task {
        Some(TaskStatus::Assigned | TaskStatus::InProgress | TaskStatus::Interrupted) => true,
        // What it deferred itself it takes up itself; the rest is the queue's.
        Some(TaskStatus::Deferred) => {
            matches!(
                agent.state,
                AgentState::Suspended {
                    why: Pause::Deferred,
                    ..
                }
            )
        }
        Some(
            TaskStatus::Created
            | TaskStatus::InReview
            | TaskStatus::Blocked
            | TaskStatus::Suspended
            | TaskStatus::Failed
            | TaskStatus::Completed
            | TaskStatus::Cancelled,
        )
        | None => false,
    }
}

/// It has nothing to do, and waits for work.
fn idle(agent: &Agent) -> AgentDecision {
    let mut decision = at_rest();
    if agent.plan.task.is_some() {
        decision.changes.push(AgentChange::Given(None));
    }
    if !agent.is_idle() {
        let state = AgentState::Stopped {
            by: Stopper::Itself,
        };
        decision.changes.push(AgentChange::State(state));
    }
    decision
}

/// A supervisor that takes it up looks at the task again.
const WAITS_WITH_TASK: AgentState = AgentState::Suspended {
    why: Pause::Task,
    until: None,
};

/// What becomes of an agent whose work is over, or waits for somebody: trying again would find it so.
fn rest_with(task: TaskStatus) -> Option<AgentState> {
    match task {
        TaskStatus::Completed | TaskStatus::Cancelled | TaskStatus::InReview => {
            Some(AgentState::Stopped {
                by: Stopper::Itself,
            })
        }
        TaskStatus::Blocked | TaskStatus::Suspended => Some(WAITS_WITH_TASK),
        TaskStatus::Failed => Some(AgentState::Crashed { again_at: None }),
        TaskStatus::Created
        | TaskStatus::Assigned
        | TaskStatus::InProgress
        | TaskStatus::Deferred
        | TaskStatus::Interrupted => None,
    }
}

/// A death that is to be recovered from: charged, and brought back now, later or never.
fn recover(agent: &Agent, charge: Charge, input: AgentDecisionInput) -> AgentDecision {
    let (policy, tally) = (&agent.plan.policy, agent.tally.clone());
    let (tally, verdict) = match charge {
        Charge::Nothing => return begin(agent, input),
        Charge::Incurable(why) => return wait_for_cure(agent, &why),
        Charge::Row => restart_budget::next(policy, tally, input.now, input.jitter),
        Charge::RowAnew => restart_budget::next(
            policy,
            restart_budget::progress(tally),
            input.now,
            input.jitter,
        ),
        Charge::Total => restart_budget::moved(policy, tally, input.now),
    };
    let charged = AgentDecision {
        changes: vec![AgentChange::Tally(tally)],
        effects: Vec::new(),
    };
    charged.then(match verdict {
        RestartVerdict::AtOnce => begin(agent, input),
        RestartVerdict::At(at) => AgentDecision {
            changes: vec![AgentChange::State(AgentState::Crashed {
                again_at: Some(at),
            })],
            effects: vec![AgentEffect::WaitUntil(at)],
        },
        RestartVerdict::Terminate { why } => {
            let why = why.to_string();
            let alert = Alert::agent_terminated(&agent.name, &agent.command_to_start(None), &why);
            let mut decision = come_to_rest(AgentState::Terminated { why });
            decision
                .changes
                .push(AgentChange::Noted(EventKind::Alert, alert.detail()));
            decision.effects.insert(0, AgentEffect::Alert(alert.line()));
            decision
        }
    })
}

/// A person has to act: another attempt would end the same way.
fn wait_for_cure(agent: &Agent, why: &str) -> AgentDecision {
    let start = agent.command_to_start(None);
    let alert = match agent.spent() {
        Some(spent) if spent == why => Alert::agent_overspent(&agent.name, &start, why),
        _ => Alert::agent_suspended(&agent.name, &start, why),
    };
    let mut decision = come_to_rest(AgentState::Suspended {
        why: Pause::Incurable,
        until: None,
    });
    decision
        .changes
        .push(AgentChange::Noted(EventKind::Alert, alert.detail()));
    decision.effects.insert(0, AgentEffect::Alert(alert.line()));
    decision
}

fn due(agent: &Agent, input: AgentDecisionInput) -> AgentDecision {
    match &agent.state {
        AgentState::Crashed { again_at: Some(at) }
        | AgentState::Suspended {
            until: Some(at), ..
        } => wait_or_begin(agent, *at, input),
        AgentState::Created
        | AgentState::Running { .. }
        | AgentState::Crashed { again_at: None }
        | AgentState::Suspended { until: None, .. }
        | AgentState::Stopped { .. }
        | AgentState::Terminated { .. } => AgentDecision::default(),
    }
}

/// The breaker of boot loops: what would be started waits for a person instead.
fn hold_back(agent: &Agent) -> AgentDecision {
    match &agent.state {
        AgentState::Stopped {
            by: Stopper::Itself,
        } if agent.is_idle() => come_to_rest(AgentState::Suspended {
            why: Pause::HeldBack,
            until: None,
        }),
        AgentState::Created
        | AgentState::Crashed { again_at: Some(_) }
        | AgentState::Stopped {
            by: Stopper::Shutdown,
        }
        | AgentState::Suspended { until: Some(_), .. } => come_to_rest(AgentState::Suspended {
            why: Pause::HeldBack,
            until: None,
        }),
        AgentState::Running { ending: None, .. } => AgentDecision::default(),
        AgentState::Running {
            ending: Some(ending),
            ..
        } => signal_tree(*ending),
        AgentState::Crashed { again_at: None }
        | AgentState::Suspended { until: None, .. }
        | AgentState::Stopped { .. }
        | AgentState::Terminated { .. } => at_rest(),
    }
}

fn progress(agent: &Agent) -> AgentDecision {
    let mut decision = AgentDecision::default();
    if agent.tally.in_a_row > 0 || agent.tally.deferrals > 0 {
        decision
            .changes
            .push(AgentChange::Tally(restart_budget::progress(
                agent.tally.clone(),
            )));
    }
    decision
}

/// Adds up what it uses; whether it has reached its limit.
fn used(
    agent: &Agent,
    readings: &[Reading],
    made_progress: bool,
    now: Time,
) -> (AgentDecision, bool) {
    let mut usage = if made_progress {
        agent.usage.with_progress(now)
    } else {
        agent.usage.clone()
    };
    for reading in readings {
        let news = usage.meter.news(reading, Usage::default());
        usage.meter.read(reading, news);
    }
    let is_over = agent.plan.spend.reached(usage.since_progress()).is_some();
    let mut decision = AgentDecision::default();
    if usage != agent.usage {
        decision.changes.push(AgentChange::Usage(Box::new(usage)));
    }
    (decision, is_over)
}

/// What an agent without a task has used, for the journal: the budget of the store counts it.
fn spending(agent: &Agent, decision: &AgentDecision) -> Option<AgentChange> {
    let used = decision.changes.iter().find_map(|change| match change {
        AgentChange::Usage(usage) => Some(usage.meter.used.since(agent.usage.meter.used)),
        _ => None,
    })?;
    (!used.is_nothing()).then(|| AgentChange::Noted(EventKind::AgentBudget, spending_detail(used)))
}

/// It may spend its whole limit again.
fn budget_anew(agent: &Agent, now: Time) -> AgentDecision {
    let mut decision = AgentDecision::default();
    if !agent.usage.since_progress().is_nothing() {
        let anew = Box::new(agent.usage.with_progress(now));
        decision.changes.push(AgentChange::Usage(anew));
    }
    decision
}

fn round_over(agent: &Agent, finished: bool, input: AgentDecisionInput) -> AgentDecision {
    if !matches!(
        agent.state,
        AgentState::Suspended {
            why: Pause::Asking,
            ..
        }
    ) {
        return AgentDecision::default();
    }
    let max = agent.plan.iterations_max.unwrap_or(0);
    let was_last = max > 0 && agent.iteration >= max;
    if finished || was_last {
        return come_to_rest(AgentState::Stopped {
            by: Stopper::Itself,
        });
    }
    progress(agent).then(begin(agent, input))
}

fn cannot_ask(agent: &Agent) -> AgentDecision {
    match agent.state {
        AgentState::Suspended {
            why: Pause::Asking, ..
        } => come_to_rest(AgentState::Crashed { again_at: None }),
        _ => AgentDecision::default(),
    }
}

/// Begins when the time has come. Also when it is further ahead than any wait can be, because then
/// the clock was set back.
fn wait_or_begin(agent: &Agent, at: Time, input: AgentDecisionInput) -> AgentDecision {
    let policy = &agent.plan.policy;
    let longest = match agent.state {
        AgentState::Suspended {
            why: Pause::Resting,
            ..
        } => rest(agent),
        AgentState::Suspended { .. } => LATER_MAX.max(agent.plan.defer),
        _ => policy.cooldown_max,
    };
    if at <= input.now || at.since(input.now) > longest {
        return begin(agent, input);
    }
    AgentDecision {
        changes: Vec::new(),
        effects: vec![AgentEffect::WaitUntil(at)],
    }
}

/// The longest deferral that an agent can ask for.
const LATER_MAX: Span = Span::from_secs(8 * 24 * 3_600);
/// The shortest deferral. Deferrals cost no budget, so only this limits their rate.
const LATER_MIN: Span = Span::from_secs(1);
/// The shortest pause after a success, which costs no budget either.
const REST_MIN: Span = Span::from_ms(100);

/// A deferral without a time doubles up to this, or stays at the plan's where that is longer.
const DEFERRAL_MAX: Span = Span::from_secs(3_600);

/// When a deferred agent resumes: at the time it gave, if that is plausible, else after a wait that
/// grows with each deferral in a row. A limit that is told again and again, each time as if it soon ended, is
/// not believed for ever.
pub fn later(death: &Death, now: Time, agent: &Agent) -> Time {
    let defer = agent.plan.defer;
    let in_a_row = if death.made_progress {
        0
    } else {
        agent.tally.deferrals.min(32)
    };
    let grown = |first: Span| Span::from_ms(first.as_ms().saturating_mul(1 << in_a_row));
    let wait = grown(defer.max(LATER_MIN)).min(DEFERRAL_MAX.max(defer));
    let soonest = match death.said {
        Some(ReportedEnd::Limited { .. }) => grown(LATER_MIN).min(DEFERRAL_MAX),
        _ => LATER_MIN,
    };
    let asked = death.said.as_ref().and_then(ReportedEnd::resumes_at);
    asked
        .filter(|at| *at > now && at.since(now) <= LATER_MAX)
        .unwrap_or_else(|| now.plus(wait))
        .max(now.plus(soonest))
}

/// Begins the next attempt. Does not begin one, at no charge, while its task waits for a person or
/// has ended, or when it is started for tasks and has none.
fn begin(agent: &Agent, input: AgentDecisionInput) -> AgentDecision {
    if agent.plan.takes == Takes::Start && !has_work(agent, input.task) {
        return idle(agent);
    }
    match input.task {
        Some(task) if task.waits_for_person() => come_to_rest(WAITS_WITH_TASK),
        Some(task) if task.is_terminal() => come_to_rest(AgentState::Stopped {
            by: Stopper::Itself,
        }),
        _ => spawn(agent, input),
    }
}

/// Uses the tag that was allocated ahead and allocates the next one.
fn spawn(agent: &Agent, input: AgentDecisionInput) -> AgentDecision {
    let number = agent.attempt_number + 1;
    let ahead = agent
        .next_attempt
        .clone()
        .filter(|tag| tag.number() == Some(number));
    let at_once = ahead.is_some();
    let tag = ahead.unwrap_or_else(|| AttemptTag::new(&agent.name, number, input.chance));
    let after = AttemptTag::new(&agent.name, number + 1, input.chance.rotate_left(24));
    let running = AgentState::Running {
        attempt: tag.clone(),
        since: input.now,
        ending: None,
    };
    AgentDecision {
        changes: vec![
            AgentChange::Begun {
                number,
                tag: tag.clone(),
            },
            AgentChange::Reserved(after),
            AgentChange::State(running),
        ],
        effects: vec![AgentEffect::Spawn {
            number,
            tag,
            at_once,
        }],
    }
}

fn tell_to_end(agent: &Agent, ending: StopReason) -> AgentDecision {
    ending_by(agent, ending).then(signal_tree(ending))
}

/// Records why the live attempt is being stopped.
fn ending_by(agent: &Agent, ending: StopReason) -> AgentDecision {
    let AgentState::Running { attempt, since, .. } = &agent.state else {
        return AgentDecision::default();
    };
    let (attempt, since) = (attempt.clone(), *since);
    let state = AgentState::Running {
        attempt,
        since,
        ending: Some(ending),
    };
    AgentDecision {
        changes: vec![AgentChange::State(state)],
        effects: Vec::new(),
    }
}

/// Sends the signal of a stop that is already recorded.
fn signal_tree(ending: StopReason) -> AgentDecision {
    AgentDecision {
        changes: Vec::new(),
        effects: vec![AgentEffect::StopTree(ending)],
    }
}

fn pause(why: Pause, until: Time) -> AgentDecision {
    let state = AgentState::Suspended {
        why,
        until: Some(until),
    };
    AgentDecision {
        changes: vec![AgentChange::State(state)],
        effects: vec![AgentEffect::WaitUntil(until)],
    }
}

fn rest(agent: &Agent) -> Span {
    agent.plan.policy.cooldown.max(REST_MIN)
}

/// Nothing runs between rounds; a supervisor that acquires it then checks the condition again.
fn round_counted(agent: &Agent) -> AgentDecision {
    let state = AgentState::Suspended {
        why: Pause::Asking,
        until: None,
    };
    let changes = vec![
        AgentChange::Iteration(agent.iteration + 1),
        AgentChange::State(state),
    ];
    AgentDecision {
        changes,
        effects: Vec::new(),
    }
}

/// Resets the round counter of a loop that a person starts again.
fn first_round(agent: &Agent) -> AgentDecision {
    let mut decision = AgentDecision::default();
    if agent.iteration > 0 {
        decision.changes.push(AgentChange::Iteration(0));
    }
    decision
}

fn ask() -> AgentDecision {
    AgentDecision {
        changes: Vec::new(),
        effects: vec![AgentEffect::AskUntil],
    }
}

fn come_to_rest(state: AgentState) -> AgentDecision {
    AgentDecision {
        changes: vec![AgentChange::State(state)],
        effects: vec![AgentEffect::AtRest],
    }
}

fn at_rest() -> AgentDecision {
    AgentDecision {
        changes: Vec::new(),
        effects: vec![AgentEffect::AtRest],
    }
}

impl AgentDecision {
    /// Pauses instead of beginning an attempt. If the pause lasts until a person acts, later begins
    /// are paused too, and a loop checks its condition when it is woken next.
    pub(super) fn held(mut self, why: Pause, until: Option<Time>) -> Self {
        let for_good = why == Pause::HeldBack;
        let begins = |effect: &AgentEffect| match effect {
            AgentEffect::Spawn { .. } => true,
            AgentEffect::WaitUntil(_) => for_good,
            _ => false,
        };
        if self.effects.iter().any(begins) {
            self.changes.retain(|change| {
                !matches!(
                    change,
                    AgentChange::Begun { .. } | AgentChange::Reserved(_) | AgentChange::State(_)
                )
            });
            let waits = AgentState::Suspended { why, until };
            self.changes.push(AgentChange::State(waits));
        }
        let asks = |effect: &AgentEffect| for_good && matches!(effect, AgentEffect::AskUntil);
        let acts = |effect: &AgentEffect| !begins(effect) && !asks(effect);
        let effects_before = self.effects.len();
        self.effects.retain(acts);
        if self.effects.len() < effects_before {
            self.effects.push(AgentEffect::AtRest);
        }
        self
    }

    fn then(mut self, next: Self) -> Self {
        self.changes.extend(next.changes);
        self.effects.extend(next.effects);
        self
    }
}
