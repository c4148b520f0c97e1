//! Agents that report by themselves: begins a life of theirs by a report, and has its silence judged.
//!
//! Nobody starts or stops their process; the rules are `core::agent`'s. The daemon that heard an agent
//! last holds its lease, so that of two daemons on one store only one judges. Signs of life are kept in
//! memory, beside those of supervised agents; only a life's begin and end are written.

mod answer;
mod life;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use relight_core::agent::change::AgentChange;
use relight_core::agent::death::{HowEnded, ReportedEnd};
use relight_core::agent::decide::{AgentDecisionInput, AgentEvent, decide};
use relight_core::agent::{
    Agent, AgentPlan, AgentState, AgentStateKind, Cause, Death, PostMortem, SELF_REPORTING,
    StopReason, Stopper,
};
use relight_core::decide::{Guard, Right, TaskEvent};
use relight_core::ids::{AgentName, TaskId};
use relight_core::lease::Holder;
use relight_core::recovery::HolderDeath;
use relight_core::status::TaskStatus;
use relight_core::task::Task;
use relight_core::time::{Span, Time};
use relight_store::{AgentCommit, AgentCommitError, AgentQuery, StoreError, TaskQuery};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use self::answer::CachedReport;
pub use self::answer::{Action, Belief, HeartbeatAnswer, HeldTask, answer_supervised};
use self::life::Life;
use super::actor::AgentSnapshot;
use super::control::Changed;
use super::heartbeats::{Beat, BeatSlot, Beats};
use super::notices::{Notices, What};
use super::post_mortem;
use crate::boxed::boxed;
use crate::engine::{ActError, Engine};
use crate::os::{clock, process, random};
use crate::recovery::Recoverer;

/// How often a decision is made anew while others change the agent.
const ROUNDS_MAX: usize = 20;
/// Agents that can report to one daemon.
const AGENTS_MAX: usize = 10_000;
/// No agent works on more at a time.
const HELD_TASKS_MAX: usize = 100;

/// Why a report, or what a person wants, cannot be taken.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// There is no such agent.
    #[error("there is no agent {0}")]
    Unknown(AgentName),
    /// It has a supervisor, or was never said to report by itself.
    #[error("agent {0} does not report by itself")]
    NotReporting(AgentName),
    /// There is no room for its signs of life.
    #[error("{AGENTS_MAX} agents report here already")]
    Full,
    /// Others change it all the time.
    #[error("agent {0} is being changed by others all the time")]
    Contended(AgentName),
    /// There is another agent of this name.
    #[error("there is an agent {0} already")]
    Exists(AgentName),
    /// The store itself.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The agents that report to this daemon. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Reporters {
    recoverer: Recoverer,
    beats: Beats,
    notices: Notices,
    /// What the configuration says of their limits.
    defaults: Arc<AgentPlan>,
    watched: Arc<Mutex<HashMap<AgentName, Watched>>>,
    /// What beats are answered from.
    standings: Arc<Mutex<HashMap<AgentName, Arc<CachedReport>>>>,
}

/// An agent whose silence is judged here.
#[derive(Debug)]
struct Watched {
    slot: Arc<BeatSlot>,
    judging: AbortHandle,
    /// A person restarted it, and it was not told yet.
    restarted: AtomicBool,
}

/// What a decision made of an agent.
struct Made {
    before: AgentStateKind,
    after: Agent,
    changes: Vec<AgentChange>,
}

impl Made {
    /// Whether an attempt of it was ended.
    fn has_ended(&self) -> bool {
        self.changes
            .iter()
            .any(|change| matches!(change, AgentChange::Ended { .. }))
    }
}

impl Reporters {
    /// Nobody reports yet. Signs of life are found where those of supervised agents are.
    /// Of `defaults` their budgets and limits of silence count.
    pub fn new(recoverer: Recoverer, beats: Beats, notices: Notices, defaults: AgentPlan) -> Self {
        let (watched, standings) = (Arc::default(), Arc::default());
        Self {
            recoverer,
            beats,
            notices,
            defaults: Arc::new(defaults),
            watched,
            standings,
        }
    }

    /// Makes an agent known that reports by itself; whether it is new. The same one again changes nothing
    /// but what the configuration says of it.
    #[boxed]
    pub async fn register(
        &self,
        name: &AgentName,
        skills: Vec<String>,
        silence_max: Option<Span>,
    ) -> Result<bool, ReportError> {
        let silence_max = match silence_max {
            None => self.defaults.silence_max,
            given => given.and_then(Span::as_limit),
        };
        let labels = [(SELF_REPORTING.to_owned(), "true".to_owned())].into();
        let plan = self.with_defaults(AgentPlan {
            skills,
            silence_max,
            labels,
            ..AgentPlan::default()
        });
        for _ in 0..ROUNDS_MAX {
            let Some(known) = self.engine().store().agent(name).await? else {
                let changes = vec![AgentChange::Created(Box::new(plan.clone()))];
                let (guard, at) = (Guard::default(), clock::now());
                let commit = AgentCommit {
                    agent: name.clone(),
                    guard,
                    at,
                    changes,
                };
                match self.engine().store().commit_agent(commit).await {
                    Ok(_) => return Ok(true),
                    Err(AgentCommitError::Store(error)) => return Err(error.into()),
                    Err(_) => continue,
                }
            };
            if self.with_defaults(known.plan.clone()) != plan {
                return Err(ReportError::Exists(name.clone()));
            }
            if self.settle_plan(&known).await? {
                return Ok(false);
            }
        }
        Err(ReportError::Contended(name.clone()))
    }

    fn with_defaults(&self, plan: AgentPlan) -> AgentPlan {
        let AgentPlan {
            policy,
            step_silence_max,
            ..
        } = self.defaults.as_ref();
        AgentPlan {
            policy: policy.clone(),
            step_silence_max: *step_silence_max,
            ..plan
        }
    }

    /// Brings its plan up to what the configuration says; false when somebody else changed it since.
    async fn settle_plan(&self, agent: &Agent) -> Result<bool, StoreError> {
        let plan = self.with_defaults(agent.plan.clone());
        if plan == agent.plan {
            return Ok(true);
        }
        self.commit(
            agent,
            vec![AgentChange::Planned(Box::new(plan))],
            clock::now(),
        )
        .await
    }

    /// Goes on with those whose daemon is gone. Their last reports were its own to know, so each has a
    /// whole window to be heard in.
    #[boxed]
    pub async fn adopt(&self) -> Result<(), StoreError> {
        for agent in self.engine().store().agents(AgentQuery::default()).await? {
            if !agent.plan.reports_itself() || self.is_held_by_another(&agent) {
                continue;
            }
            self.settle_plan(&agent).await?;
            // One that changes just now is heard of by whoever changes it.
            let runs = agent.state.kind() == AgentStateKind::Running;
            if runs && let Ok(made) = self.decide(&agent.name, &AgentEvent::Wake).await {
                self.watch(made.after, Beat::default());
            }
        }
        Ok(())
    }

    /// The agent says that it lives. False when it was not known to: then [`Self::report`].
    pub fn worked(&self, name: &AgentName) -> bool {
        self.standings().remove(name);
        let slot = self
            .watched()
            .get(name)
            .map(|watched| Arc::clone(&watched.slot));
        slot.is_some_and(|slot| {
            slot.beat(Beat::default());
            true
        })
    }

    /// The agent says for the first time, or again, that it lives. One that may not work now stays as it
    /// is: the answer to its beat says so, and it is given no work.
    #[boxed]
    pub async fn report(&self, name: &AgentName, beat: Beat) -> Result<(), ReportError> {
        if self.watched().len() >= AGENTS_MAX {
            return Err(ReportError::Full);
        }
        let made = self.decide(name, &AgentEvent::Reported).await?;
        if made.after.state.kind() != AgentStateKind::Running {
            return Ok(());
        }
        if made.before != AgentStateKind::Running {
            let number = made.after.attempt_number;
            self.notices.tell(name, What::Reported { number });
        }
        self.watch(made.after, beat);
        Ok(())
    }

    /// Somebody took a task. If that was an agent that reports by itself, it is watched from now on.
    pub(super) async fn task_taken(&self, id: &TaskId) -> Result<(), ReportError> {
        let Some(task) = self.engine().store().task(id).await? else {
            return Ok(());
        };
        let Some(name) = task.agent.filter(|_| task.lease.held.is_some()) else {
            return Ok(());
        };
        if self.worked(&name) {
            return Ok(());
        }
        match self.engine().store().agent(&name).await? {
            Some(agent) if agent.plan.reports_itself() && !self.is_held_by_another(&agent) => {
                self.report(&name, Beat::default()).await
            }
            _ => Ok(()),
        }
    }

    /// A person wants it to be at work: it has a window to be heard in.
    #[boxed]
    pub async fn start(&self, name: &AgentName) -> Result<Changed, ReportError> {
        let made = self.decide(name, &AgentEvent::Start).await?;
        let changed = changed(name, &made, None);
        self.watch(made.after, Beat::default());
        Ok(changed)
    }

    /// A person wants it to begin anew: what it holds is taken from it.
    #[boxed]
    pub async fn restart(&self, name: &AgentName) -> Result<Changed, ReportError> {
        let held = self.held_by(name).await?;
        let made = self
            .decide(name, &AgentEvent::End(StopReason::Restart))
            .await?;
        let task = match made.has_ended() {
            true => self.interrupt(name, held).await,
            false => None,
        };
        let changed = changed(name, &made, task);
        self.unwatch(name);
        self.watch(made.after, Beat::default());
        if let Some(watched) = self.watched().get(name) {
            watched.restarted.store(true, Ordering::Relaxed);
        }
        Ok(changed)
    }

    /// A person does not want it to work: what it holds is taken from it, and it is given no other work.
    #[boxed]
    pub async fn stop(&self, name: &AgentName) -> Result<Changed, ReportError> {
        let held = self.held_by(name).await?;
        let made = self
            .decide(name, &AgentEvent::Stop(Stopper::Person))
            .await?;
        self.unwatch(name);
        let task = match made.has_ended() {
            true => self.interrupt(name, held).await,
            false => None,
        };
        Ok(changed(name, &made, task))
    }

    /// Takes from it what it holds and gives it back, for whoever removes it; the agent as it is then.
    #[boxed]
    pub async fn let_go(&self, name: &AgentName) -> Result<Option<Agent>, ReportError> {
        self.unwatch(name);
        let found = self.engine().store().agent(name).await?;
        if found.is_some_and(|agent| !self.is_held_by_another(&agent)) {
            let held = self.held_by(name).await?;
            self.interrupt(name, held).await;
        }
        for _ in 0..ROUNDS_MAX {
            let Some(agent) = self.engine().store().agent(name).await? else {
                return Ok(None);
            };
            if agent.lease.held.is_none() || self.is_held_by_another(&agent) {
                return Ok(Some(agent));
            }
            // What moved meanwhile is read again.
            let _ = self
                .commit(&agent, vec![AgentChange::LeaseEnded], clock::now())
                .await?;
        }
        Err(ReportError::Contended(name.clone()))
    }

    fn engine(&self) -> &Engine {
        self.recoverer.engine()
    }

    fn watched(&self) -> MutexGuard<'_, HashMap<AgentName, Watched>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn standings(&self) -> MutexGuard<'_, HashMap<AgentName, Arc<CachedReport>>> {
        self.standings
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn unwatch(&self, name: &AgentName) {
        if let Some(watched) = self.forget(name) {
            watched.judging.abort();
        }
    }

    fn forget(&self, name: &AgentName) -> Option<Watched> {
        let mut watched = self.watched();
        self.beats.remove(name);
        self.standings().remove(name);
        watched.remove(name)
    }

    /// Has its silence judged from now on. One that is judged already is only heard.
    fn watch(&self, agent: Agent, beat: Beat) {
        let name = agent.name.clone();
        let mut watched = self.watched();
        if let Some(known) = watched.get(&name) {
            return known.slot.beat(beat);
        }
        let slot = Arc::new(BeatSlot::default());
        slot.beat(beat);
        let (view, views) = watch::channel(first_view(agent.clone()));
        self.beats.add(name.clone(), Arc::clone(&slot), views);
        let life = Life::new(self.clone(), agent, Arc::clone(&slot), view);
        let judging = tokio::spawn(life.judge()).abort_handle();
        watched.insert(
            name,
            Watched {
                slot,
                judging,
                restarted: AtomicBool::new(false),
            },
        );
    }

    /// Decides and commits, and holds its lease then. Again while others change the agent.
    async fn decide(&self, name: &AgentName, event: &AgentEvent) -> Result<Made, ReportError> {
        for _ in 0..ROUNDS_MAX {
            let found = self.engine().store().agent(name).await?;
            let agent = found.ok_or_else(|| ReportError::Unknown(name.clone()))?;
            if !agent.plan.reports_itself() {
                return Err(ReportError::NotReporting(name.clone()));
            }
            let now = clock::now();
            let mut changes = decide(&agent, event.clone(), moment(now)).changes;
            let before = agent.state.kind();
            let mut after = agent.clone();
            changes
                .iter()
                .for_each(|change| change.apply(&mut after, now));
            let lease = lease_change(&after);
            lease
                .iter()
                .for_each(|change| change.apply(&mut after, now));
            changes.extend(lease);
            if changes.is_empty() || self.commit(&agent, changes.clone(), now).await? {
                self.standings().remove(name);
                return Ok(Made {
                    before,
                    after,
                    changes,
                });
            }
        }
        Err(ReportError::Contended(name.clone()))
    }

    /// False when somebody else changed it since.
    async fn commit(
        &self,
        agent: &Agent,
        changes: Vec<AgentChange>,
        at: Time,
    ) -> Result<bool, StoreError> {
        let guard = Guard {
            fence: None,
            seq: Some(agent.seq),
        };
        let commit = AgentCommit {
            agent: agent.name.clone(),
            guard,
            at,
            changes,
        };
        match self.engine().store().commit_agent(commit).await {
            Ok(_) => Ok(true),
            Err(AgentCommitError::Store(error)) => Err(error),
            Err(
                AgentCommitError::Fenced { .. }
                | AgentCommitError::Moved(_)
                | AgentCommitError::Exists(_)
                | AgentCommitError::Absent(_),
            ) => Ok(false),
        }
    }

    /// It was silent for too long: recorded and told, and what it holds goes by its strategy. Nothing
    /// happens when another daemon hears it by now.
    async fn silent(&self, judged: &Agent, silent: Span) -> Result<(), ReportError> {
        let name = &judged.name;
        let store = self.engine().store();
        let current = store.agent(name).await?;
        let is_ours = current.is_some_and(|agent| agent.lease.fence == judged.lease.fence);
        if !is_ours {
            return Ok(());
        }
        let held = self.held_by(name).await?;
        let mut found = PostMortem::default();
        if let Some(task) = held.first() {
            post_mortem::tell_task(&mut found, task, &store.steps(&task.id).await?);
        }
        let made_progress = self.has_progressed(judged).await?;
        let post_mortem = Box::new(found);
        let event = AgentEvent::Silent {
            silent,
            made_progress,
            post_mortem,
        };
        let made = self.decide(name, &event).await?;
        let number = made.after.attempt_number;
        if made.has_ended() {
            self.notices.tell(
                name,
                What::Silent {
                    number,
                    silent_ms: silent.as_ms(),
                },
            );
            let reason = format!("agent {name} has not reported for {silent}");
            self.recover(name, held, Cause::Hung, &reason).await;
        }
        Ok(())
    }

    /// The agent says that its attempt failed: recorded, and what it holds goes by its strategy. It may
    /// work again when its cooldown is over, unless its attempts are used up.
    #[boxed]
    pub async fn failed(&self, name: &AgentName, why: &str) -> Result<(), ReportError> {
        let store = self.engine().store();
        let found = store.agent(name).await?;
        let agent = found.ok_or_else(|| ReportError::Unknown(name.clone()))?;
        let AgentState::Running { since, .. } = agent.state else {
            return Ok(());
        };
        let why = self.engine().redactor().text(why);
        let held = self.held_by(name).await?;
        let mut found = PostMortem::default();
        if let Some(task) = held.first() {
            post_mortem::tell_task(&mut found, task, &store.steps(&task.id).await?);
        }
        let now = clock::now();
        let death = Death {
            lived: now.since(since),
            how: HowEnded::Code(1),
            unfinished_task: found.task.clone(),
            made_progress: self.has_progressed(&agent).await?,
            said: Some(ReportedEnd::Failure(why.to_string())),
            ..Death::lost(now, why.to_string())
        };
        let event = AgentEvent::Died {
            death: Box::new(death),
            post_mortem: Box::new(found),
            task: None,
        };
        let made = self.decide(name, &event).await?;
        self.unwatch(name);
        if made.has_ended() {
            let reason = format!("agent {name} failed: {why}");
            self.recover(name, held, Cause::Failed, &reason).await;
        }
        Ok(())
    }

    /// Whether a step of a task of it was finished since it began to report.
    async fn has_progressed(&self, agent: &Agent) -> Result<bool, StoreError> {
        let AgentState::Running { since, .. } = agent.state else {
            return Ok(false);
        };
        let statuses = vec![
            TaskStatus::InProgress,
            TaskStatus::InReview,
            TaskStatus::Completed,
        ];
        let query = TaskQuery {
            agent: Some(agent.name.clone()),
            statuses,
            ..TaskQuery::default()
        };
        let tasks = self.engine().store().tasks(query).await?;
        Ok(tasks
            .iter()
            .any(|task| task.tally.progress_at.is_some_and(|at| at >= since)))
    }

    /// Gives each task to its strategy; one that cannot be stops no other.
    async fn recover(&self, name: &AgentName, held: Vec<Task>, cause: Cause, reason: &str) {
        for task in held {
            let death = HolderDeath {
                agent: Some(name.clone()),
                ..HolderDeath::of(&task, cause, reason.to_owned(), clock::now())
            };
            let right = Right::Fence(task.lease.fence);
            match self.recoverer.recover(&task, right, death, None).await {
                Ok(recovered) => self.notices.tell_recovered(name, recovered),
                // Whoever wrote with another fence meanwhile goes on with it.
                Err(ActError::Refused(_)) => {}
                Err(error) => {
                    self.notices
                        .tell(name, What::Trouble(format!("task {}: {error}", task.id)));
                }
            }
        }
    }

    /// Takes from it what it holds. The first of it is answered.
    async fn interrupt(&self, name: &AgentName, held: Vec<Task>) -> Option<TaskId> {
        let mut first = None;
        for task in held {
            let event = TaskEvent::Interrupt {
                reason: format!("a person ended agent {name}"),
                agent_keeps_it: true,
            };
            let right = Right::Fence(task.lease.fence);
            match self.engine().act(&task.id, right, event).await {
                Ok(_) => drop(first.get_or_insert(task.id)),
                Err(ActError::Refused(_)) => {}
                Err(error) => {
                    self.notices
                        .tell(name, What::Trouble(format!("task {}: {error}", task.id)));
                }
            }
        }
        first
    }

    /// What it or a process of it holds, the newest first. What a supervised attempt holds ends with that
    /// attempt.
    async fn held_by(&self, name: &AgentName) -> Result<Vec<Task>, StoreError> {
        let mut held = works_on(self.engine(), name).await?;
        held.retain(|task| {
            let held = task.lease.held.as_ref();
            held.is_some_and(|held| !matches!(held.holder, Holder::Attempt { .. }))
        });
        held.sort_by_key(|task| std::cmp::Reverse((task.updated_at, task.seq)));
        Ok(held)
    }

    fn is_held_by_another(&self, agent: &Agent) -> bool {
        let Some(held) = &agent.lease.held else {
            return false;
        };
        let is_ours = held.holder == Holder::Process(process::me().clone());
        !is_ours && self.engine().holders().is_alive(held)
    }
}

/// What it holds, whoever's life the leases follow.
async fn works_on(engine: &Engine, name: &AgentName) -> Result<Vec<Task>, StoreError> {
    let query = TaskQuery {
        agent: Some(name.clone()),
        held: true,
        limit: Some(HELD_TASKS_MAX),
        ..TaskQuery::default()
    };
    let mut held = engine.store().tasks(query).await?;
    held.retain(|task| !task.status.is_terminal());
    Ok(held)
}

fn moment(now: Time) -> AgentDecisionInput {
    AgentDecisionInput {
        now,
        jitter: 0.0,
        chance: random::number(),
        task: None,
    }
}

/// Whoever hears a running agent holds it; nobody does otherwise.
fn lease_change(after: &Agent) -> Option<AgentChange> {
    let holder = Holder::Process(process::me().clone());
    let is_ours = after
        .lease
        .held
        .as_ref()
        .is_some_and(|held| held.holder == holder);
    match &after.state {
        AgentState::Running { .. } if is_ours => None,
        AgentState::Running { .. } => Some(AgentChange::LeaseTaken { holder, ttl: None }),
        AgentState::Created
        | AgentState::Crashed { .. }
        | AgentState::Suspended { .. }
        | AgentState::Stopped { .. }
        | AgentState::Terminated { .. } => {
            after.lease.held.as_ref().map(|_| AgentChange::LeaseEnded)
        }
    }
}

fn changed(name: &AgentName, made: &Made, task: Option<TaskId>) -> Changed {
    Changed::new(name.clone(), made.before, made.after.state.kind(), task)
}

fn first_view(agent: Agent) -> AgentSnapshot {
    AgentSnapshot {
        agent,
        last_sign: Some(clock::now()),
        waiting_until: None,
        waits_for_work: false,
        phase: Some("starting"),
        status: None,
        at_rest: false,
        last_attempt: None,
    }
}
