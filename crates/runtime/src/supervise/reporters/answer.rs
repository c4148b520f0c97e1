//! What a heartbeat is answered: what is wanted of the agent, and its leases, which the beat renews.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use relight_core::agent::{Agent, AgentStateKind};
use relight_core::ids::{AgentName, TaskId};
use relight_core::lease::Fence;
use relight_core::time::{Span, Time};
use relight_store::CommitError;
use serde::Serialize;

use super::{AGENTS_MAX, ReportError, Reporters, works_on};
use crate::boxed::boxed;
use crate::drain;
use crate::engine::Engine;
use crate::os::clock;

/// Beats that come faster are answered from memory unless something was committed meanwhile, and renew no
/// lease: a flood of them writes nothing.
const RENEW_EVERY_MS: u64 = 250;

/// The answer to a heartbeat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[expect(missing_docs, reason = "the fields are those of the documented JSON")]
pub struct HeartbeatAnswer {
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub agent: AgentName,
    /// `created`, `running`, `crashed`, `suspended`, `stopped` or `terminated`.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub state: AgentStateKind,
    /// Number of its newest attempt.
    pub attempt: u32,
    /// `continue`; `wait` (take no work before `again_at`); `cancel` (give up the task it named);
    /// `restart` (start over: what it held was taken away); `stop` (end).
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub action: Action,
    /// Why, unless it continues.
    pub why: Option<String>,
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub again_at: Option<Time>,
    /// No new work is given out.
    pub draining: bool,
    /// What it holds under leases by time, which the beat has renewed.
    pub tasks: Vec<HeldTask>,
}

/// What an agent has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Go on.
    Continue,
    /// Take no work before `again_at`.
    Wait,
    /// Give up the task that it named: it does not hold that any more.
    Cancel,
    /// Begin anew: what it held was taken from it.
    Restart,
    /// End: a person stopped it, or its attempts are used up.
    Stop,
}

/// A task that an agent holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[expect(missing_docs, reason = "the fields are those of the documented JSON")]
pub struct HeldTask {
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub task: TaskId,
    /// The right to write.
    #[cfg_attr(feature = "schema", schema(value_type = u64))]
    pub fence: Fence,
    /// When the lease ends, unless something renews it.
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub lease_ends_at: Option<Time>,
}

/// What an agent says that it is at.
#[derive(Debug, Clone, Default)]
pub struct Belief {
    /// The attempt that it is in.
    pub attempt: Option<u32>,
    /// The task that it works on.
    pub task: Option<TaskId>,
}

/// What was last read of an agent.
#[derive(Debug)]
pub(super) struct CachedReport {
    renewed_ms: u64,
    /// The newest event then.
    newest: u64,
    agent: Agent,
    draining: bool,
    tasks: Vec<HeldTask>,
}

impl Reporters {
    /// Renews the leases of an agent that has just beaten, and tells it what it has to know.
    #[boxed]
    pub async fn answer(
        &self,
        name: &AgentName,
        belief: Belief,
    ) -> Result<HeartbeatAnswer, ReportError> {
        let standing = self.standing(name).await?;
        let (agent, attempt) = (&standing.agent, belief.attempt);
        let is_to_restart = || agent.plan.reports_itself() && self.is_to_restart(agent, attempt);
        standing.answer(self.engine(), belief, is_to_restart).await
    }

    /// One that says in which attempt it is learns of a restart whenever it asks; others are told once.
    fn is_to_restart(&self, agent: &Agent, attempt: Option<u32>) -> bool {
        if let Some(attempt) = attempt {
            return attempt != agent.attempt_number;
        }
        let watched = self.watched();
        let told = watched.get(&agent.name);
        told.is_some_and(|watched| watched.restarted.swap(false, Ordering::Relaxed))
    }

    async fn standing(&self, name: &AgentName) -> Result<Arc<CachedReport>, ReportError> {
        let (now_ms, store) = (clock::monotonic_ms(), self.engine().store());
        let newest = store.newest_event().await?;
        let known = self.standings().get(name).cloned();
        let known = known.filter(|known| now_ms < known.renewed_ms + RENEW_EVERY_MS);
        let renewed_ms = match known {
            Some(known) if known.newest == newest => return Ok(known),
            Some(known) => known.renewed_ms,
            None => now_ms,
        };
        let mut read = CachedReport::read(self.engine(), name, renewed_ms == now_ms).await?;
        (read.renewed_ms, read.newest) = (renewed_ms, newest);
        let standing = Arc::new(read);
        let mut standings = self.standings();
        if standings.len() < AGENTS_MAX || standings.contains_key(name) {
            standings.insert(name.clone(), Arc::clone(&standing));
        }
        Ok(standing)
    }
}

/// The same for an agent that a supervisor hears, by whoever has the store.
#[boxed]
pub async fn answer_supervised(
    engine: &Engine,
    name: &AgentName,
    belief: Belief,
) -> Result<HeartbeatAnswer, ReportError> {
    CachedReport::read(engine, name, true)
        .await?
        .answer(engine, belief, || false)
        .await
}

impl CachedReport {
    /// As it is now, with each lease renewed where that is due.
    async fn read(engine: &Engine, name: &AgentName, renews: bool) -> Result<Self, ReportError> {
        let store = engine.store();
        let agent = store.agent(name).await?;
        let agent = agent.ok_or_else(|| ReportError::Unknown(name.clone()))?;
        let draining = drain::now(store.as_ref()).await?.is_some();
        let mut tasks = Vec::new();
        for task in works_on(engine, name).await? {
            let Some(held) = &task.lease.held else {
                continue;
            };
            let fence = task.lease.fence;
            let mut left = held.left;
            if let Some(ttl) = held.ttl.filter(|_| renews) {
                match store.renew(&task.id, fence).await {
                    Ok(()) => left = Some(ttl),
                    Err(CommitError::Store(error)) => return Err(error.into()),
                    // Taken from it just now.
                    Err(_) => continue,
                }
            }
            let lease_ends_at = left.map(|left: Span| clock::now().plus(left));
            tasks.push(HeldTask {
                task: task.id,
                fence,
                lease_ends_at,
            });
        }
        Ok(Self {
            renewed_ms: 0,
            newest: 0,
            agent,
            draining,
            tasks,
        })
    }

    async fn answer(
        &self,
        engine: &Engine,
        belief: Belief,
        is_to_restart: impl FnOnce() -> bool,
    ) -> Result<HeartbeatAnswer, ReportError> {
        let Self {
            agent,
            draining,
            tasks,
            ..
        } = self;
        let (action, why) = self.wanted(engine, belief, is_to_restart).await?;
        Ok(HeartbeatAnswer {
            agent: agent.name.clone(),
            state: agent.state.kind(),
            attempt: agent.attempt_number,
            action,
            why,
            again_at: agent.state.again_at().filter(|_| action == Action::Wait),
            draining: *draining,
            tasks: tasks.clone(),
        })
    }

    async fn wanted(
        &self,
        engine: &Engine,
        belief: Belief,
        is_to_restart: impl FnOnce() -> bool,
    ) -> Result<(Action, Option<String>), ReportError> {
        let (agent, state) = (&self.agent, self.agent.state.kind());
        if let Some(why) = agent.refuses_work(clock::now()) {
            let waits = state == AgentStateKind::Crashed;
            return Ok((if waits { Action::Wait } else { Action::Stop }, Some(why)));
        }
        // Its supervisor ended it: whatever still beats was left over.
        let is_over = matches!(state, AgentStateKind::Stopped | AgentStateKind::Terminated);
        if is_over && !agent.plan.reports_itself() {
            return Ok((Action::Stop, Some(format!("it is {state}"))));
        }
        if is_to_restart() {
            let newest = agent.attempt_number;
            let why = match belief.attempt {
                Some(attempt) if attempt > newest => {
                    format!("attempt {attempt} was never begun; the newest is {newest}")
                }
                Some(attempt) => format!("attempt {attempt} is over; the newest is {newest}"),
                None => "a person restarted it".to_owned(),
            };
            return Ok((Action::Restart, Some(why)));
        }
        let is_held = |id: &TaskId| self.tasks.iter().any(|held| held.task == *id);
        let Some(task) = belief.task.filter(|id| !is_held(id)) else {
            return Ok((Action::Continue, None));
        };
        let found = engine.store().task(&task).await?;
        // A task that was started without an agent's name is whose fence says so.
        let is_its_own = found.as_ref().is_some_and(|found| {
            let belongs = found
                .agent
                .as_ref()
                .is_none_or(|owner| *owner == agent.name);
            found.lease.held.is_some() && belongs
        });
        if is_its_own {
            return Ok((Action::Continue, None));
        }
        let why = match found {
            Some(task) => format!(
                "it does not hold task {}, which is {}",
                task.id, task.status
            ),
            None => format!("there is no task {task}"),
        };
        Ok((Action::Cancel, Some(why)))
    }
}
