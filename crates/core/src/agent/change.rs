//! Changes of agents. Stores apply them; `apply` defines what each one means.

use serde_json::{Value, json};

use super::attempt::{Attempt, AttemptTag};
use super::death::{PostMortem, RecordedDeath};
use super::remote_command::{RemoteCommand, RemoteCommandProgress};
use super::{Agent, AgentPlan, AgentState};
use crate::event::EventKind;
use crate::ids::{AgentName, TaskId};
use crate::lease::{Fence, HeldLease, Holder, Lease, ProcessIdentity};
use crate::restart_budget::Tally;
use crate::time::{Span, Time};
use crate::usage::AgentUsage;

/// One change of one agent. A commit holds several and is atomic.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentChange {
    /// The agent is created. Always the first change of its commit.
    Created(Box<AgentPlan>),
    /// Its plan changes.
    Planned(Box<AgentPlan>),
    /// The queue assigned a task to it, or its task was removed.
    Given(Option<TaskId>),
    /// Its state changes.
    State(AgentState),
    /// Usage of its budgets changes.
    Tally(Tally),
    /// What its attempts have used changes.
    Usage(Box<AgentUsage>),
    /// An attempt is begun, before its process is started.
    Begun {
        /// Its number.
        number: u32,
        /// Its tag.
        tag: AttemptTag,
    },
    /// The tag of the attempt after it is allocated.
    Reserved(AttemptTag),
    /// The attempt's process was started.
    Spawned {
        /// Which attempt.
        number: u32,
        /// Its main process.
        process: ProcessIdentity,
        /// Its shim.
        shim: Option<ProcessIdentity>,
        /// Where its output begins.
        log: Option<(u64, u64)>,
    },
    /// The attempt ended.
    Ended {
        /// Which attempt.
        number: u32,
        /// How.
        ended: Box<RecordedDeath>,
        /// The post-mortem.
        post_mortem: Box<PostMortem>,
    },
    /// The agent's own session has an id.
    Session(Option<String>),
    /// A round of a loop is over.
    Iteration(u32),
    /// A supervisor takes the lease, with the next fence.
    LeaseTaken {
        /// The holder.
        holder: Holder,
        /// How long each write renews it for.
        ttl: Option<Span>,
    },
    /// The supervisor releases the lease.
    LeaseEnded,
    /// A command from another node, or its outcome.
    RemoteCommand(Box<RemoteCommand>),
    /// An event that changes nothing.
    Noted(EventKind, Value),
}

impl AgentChange {
    /// The kind of its event.
    pub fn kind(&self) -> EventKind {
        match self {
            Self::Created(_) => EventKind::AgentCreated,
            Self::Planned(_) | Self::Given(_) => EventKind::AgentChanged,
            Self::State(_) => EventKind::AgentState,
            Self::Tally(_) | Self::Usage(_) | Self::Reserved(_) => EventKind::AgentBudget,
            Self::Begun { .. } => EventKind::AttemptBegun,
            Self::Spawned { .. } => EventKind::AttemptStarted,
            Self::Ended { .. } => EventKind::AttemptDied,
            Self::Session(_) => EventKind::AgentSession,
            Self::Iteration(_) => EventKind::AgentIteration,
            Self::LeaseTaken { .. } => EventKind::AgentTaken,
            Self::LeaseEnded => EventKind::AgentLeft,
            Self::RemoteCommand(_) => EventKind::AgentWish,
            Self::Noted(kind, _) => *kind,
        }
    }

    /// Whether it gets an event; pure counters do not.
    pub fn is_told(&self) -> bool {
        match self {
            Self::Tally(_) | Self::Usage(_) | Self::Reserved(_) => false,
            Self::RemoteCommand(wish) => wish.progress != RemoteCommandProgress::Taken,
            _ => true,
        }
    }

    /// The detail of its event; `before` is the agent before the change.
    pub fn detail(&self, before: Option<&Agent>) -> Value {
        match self {
            Self::Created(plan) | Self::Planned(plan) => json!({"command": plan.command}),
            Self::Given(task) => json!({"task": task}),
            Self::State(state) => state_detail(before, state),
            Self::Tally(tally) => json!({"in_a_row": tally.in_a_row, "total": tally.total()}),
            Self::Usage(usage) => json!({"used": usage.meter.used}),
            Self::Reserved(tag) => json!({"next": tag}),
            Self::Begun { number, tag } => json!({"number": number, "attempt": tag}),
            Self::Spawned {
                number, process, ..
            } => json!({"number": number, "pid": process.pid}),
            Self::Ended { number, ended, .. } => json!({
                "number": number, "cause": ended.cause, "how": ended.in_words(),
                "lived_ms": ended.death.lived.as_ms(), "note": ended.death.note,
                "died_at": ended.death.at, "down_since": ended.down_since(),
            }),
            Self::Session(id) => json!({"session": id}),
            Self::Iteration(number) => json!({"iteration": number}),
            Self::LeaseTaken { holder, .. } => json!({"holder": holder}),
            Self::LeaseEnded => Value::Null,
            Self::RemoteCommand(wish) => wish_detail(wish),
            Self::Noted(_, detail) => detail.clone(),
        }
    }

    /// Applies it to an agent.
    pub fn apply(&self, agent: &mut Agent, at: Time) {
        match self {
            Self::Created(_) | Self::Spawned { .. } | Self::Ended { .. } => {}
            Self::Noted(..) => return,
            Self::RemoteCommand(wish) => {
                agent.wish = Some((**wish).clone());
                return;
            }
            Self::Planned(plan) => agent.plan = (**plan).clone(),
            Self::Given(task) => agent.plan.task.clone_from(task),
            Self::State(state) => {
                if agent.state.kind() != state.kind() {
                    agent.state_since = Some(at);
                }
                agent.state = state.clone();
            }
            Self::Tally(tally) => agent.tally = tally.clone(),
            Self::Usage(usage) => agent.usage = (**usage).clone(),
            Self::Begun { number, tag } => {
                agent.attempt_number = *number;
                if agent.next_attempt.as_ref() == Some(tag) {
                    agent.next_attempt = None;
                }
            }
            Self::Reserved(tag) => agent.next_attempt = Some(tag.clone()),
            Self::Session(id) => agent.session.clone_from(id),
            Self::Iteration(number) => agent.iteration = *number,
            Self::LeaseTaken { holder, ttl } => {
                agent.lease.fence = agent.lease.fence.next();
                agent.wish = None;
                agent.lease.held = Some(HeldLease {
                    holder: holder.clone(),
                    ttl: *ttl,
                    since: at,
                    left: *ttl,
                });
            }
            Self::LeaseEnded => agent.lease.held = None,
        }
        agent.updated_at = at;
    }

    /// Applies it to the attempt it is about; none when it is not about an attempt.
    pub fn apply_to_attempt(
        &self,
        agent: &AgentName,
        before: Option<Attempt>,
        at: Time,
    ) -> Option<Attempt> {
        match self {
            Self::Begun { number, tag } => Some(Attempt {
                agent: agent.clone(),
                number: *number,
                tag: tag.clone(),
                begun_at: at,
                process: None,
                shim: None,
                log: None,
                ended: None,
                post_mortem: None,
            }),
            Self::Spawned {
                process, shim, log, ..
            } => {
                let (process, shim, log) = (Some(process.clone()), shim.clone(), *log);
                before.map(|attempt| Attempt {
                    process,
                    shim,
                    log,
                    ..attempt
                })
            }
            Self::Ended {
                ended, post_mortem, ..
            } => before.map(|attempt| Attempt {
                ended: Some((**ended).clone()),
                post_mortem: Some((**post_mortem).clone()),
                ..attempt
            }),
            _ => None,
        }
    }

    /// The number of the attempt it is about.
    pub fn attempt(&self) -> Option<u32> {
        match self {
            Self::Begun { number, .. }
            | Self::Spawned { number, .. }
            | Self::Ended { number, .. } => Some(*number),
            _ => None,
        }
    }

    /// The agent that a first commit creates.
    pub fn first(name: &AgentName, plan: &AgentPlan, at: Time) -> Agent {
        Agent {
            name: name.clone(),
            state: AgentState::Created,
            lease: Lease {
                fence: Fence(0),
                held: None,
            },
            seq: 0,
            attempt_number: 0,
            next_attempt: None,
            tally: Tally::default(),
            session: None,
            iteration: 0,
            usage: AgentUsage::default(),
            state_since: Some(at),
            plan: plan.clone(),
            wish: None,
            created_at: at,
            updated_at: at,
        }
    }
}

fn wish_detail(wish: &RemoteCommand) -> Value {
    let RemoteCommand {
        id,
        verb,
        by,
        progress,
    } = wish;
    let mut detail = json!({"id": id, "verb": verb, "by": by, "progress": progress.as_str()});
    if let RemoteCommandProgress::Answered(outcome) = progress {
        detail["outcome"] = json!(outcome);
    }
    detail
}

/// The old and the new state, with the new state's data.
fn state_detail(before: Option<&Agent>, state: &AgentState) -> Value {
    let mut detail = json!({"from": before.map(|agent| agent.state.kind()), "to": state.kind()});
    let told = serde_json::to_value(state).expect("a state has string keys");
    if let (Value::Object(detail), Value::Object(told)) = (&mut detail, told) {
        detail.extend(told.into_iter().filter(|(name, _)| name != "state"));
    }
    detail
}
