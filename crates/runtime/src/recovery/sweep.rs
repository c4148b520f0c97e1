//! Finds tasks whose holder died and recovers them.
//!
//! Decides only by the lease: a slow holder that lost its lease counts as dead, and its late writes
//! are fenced.

use std::collections::VecDeque;

use relight_core::agent::{AgentState, AgentStateKind, AttemptTag};
use relight_core::decide::Refusal;
use relight_core::ids::{AgentName, TaskId};
use relight_core::lease::{Holder, LEASE_DEFAULT};
use relight_core::recovery::HolderDeath;
use relight_core::status::TaskStatus;
use relight_core::task::Task;
use relight_core::time::{Span, Time};
use relight_store::{AgentQuery, StoreError, TaskQuery};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::recoverer::{Recovered, Recoverer};
use crate::boxed::boxed;
use crate::engine::{ActError, Engine};
use crate::holders::HolderWatch;
use crate::os::clock;
use crate::running_step::{is_left_without_lease, is_run_by_orphan};

/// How often whoever waits searches for dead holders that no event reports, where `[queue] sweep` does not
/// say. All fronts use it.
pub const SWEEP: Span = Span::from_secs(5);
/// Minimum time between two such searches.
pub const SWEEP_MIN: Span = Span::from_ms(100);

/// Concurrent recoveries; their commits share a sync.
const AT_ONCE: usize = 64;
/// Tasks examined before those found are recovered.
const PAGE: usize = 1_000;
/// Number of holders whose state is cached during a sweep.
const HOLDERS_REMEMBERED: usize = 16;

/// A task that lost its holder or agent.
#[derive(Debug, Clone)]
pub enum OrphanedTask {
    /// Its holder is gone.
    Holder(Task),
    /// It waits for an agent that will not come back by itself.
    Agent(Task, AgentName),
}

impl OrphanedTask {
    /// The task.
    pub fn task(&self) -> &Task {
        match self {
            Self::Holder(task) | Self::Agent(task, _) => task,
        }
    }
}

/// All orphaned tasks, those with a dead holder first.
#[boxed]
pub async fn lost(engine: &Engine) -> Result<Vec<OrphanedTask>, StoreError> {
    let mut found = Vec::new();
    let tasks = page(engine, None, None).await?;
    for lost in abandoned(engine, tasks, &mut HolderWatch::default()) {
        if !is_run_by_orphan(engine, lost.task()).await? {
            found.push(lost);
        }
    }
    found.extend(left_without_lease(engine).await?.0);
    found.extend(left_by_terminated(engine).await?);
    Ok(found)
}

/// Tasks in progress that nobody holds and nobody works on any more, and when to look at others again that
/// somebody still works on; none when there are none. Workflows are not among them: they hold nothing between two commands.
pub(crate) async fn left_without_lease(
    engine: &Engine,
) -> Result<(Vec<OrphanedTask>, Option<Time>), StoreError> {
    let query = TaskQuery {
        statuses: vec![TaskStatus::InProgress],
        ..TaskQuery::default()
    };
    let (mut left, mut others_until) = (Vec::new(), None::<Time>);
    let now = clock::now();
    for task in engine.store().tasks(query).await? {
        if task.lease.held.is_some() || task.checkpoint.is_some() {
            continue;
        }
        if is_left_without_lease(engine, &task, now).await? {
            left.push(OrphanedTask::Holder(task));
            continue;
        }
        // A command that runs for longer ends by a write.
        let until = task.updated_at.plus(LEASE_DEFAULT);
        let until = if until > now {
            until
        } else {
            now.plus(LEASE_DEFAULT)
        };
        others_until = Some(others_until.map_or(until, |earliest| earliest.min(until)));
    }
    Ok((left, others_until))
}

/// Held tasks, oldest first, whether the holder lives or not.
pub(crate) async fn held(engine: &Engine) -> Result<Vec<Task>, StoreError> {
    page(engine, None, None).await
}

async fn page(
    engine: &Engine,
    after: Option<TaskId>,
    limit: Option<usize>,
) -> Result<Vec<Task>, StoreError> {
    let statuses = vec![
        TaskStatus::Assigned,
        TaskStatus::InProgress,
        TaskStatus::Interrupted,
    ];
    let query = TaskQuery {
        statuses,
        held: true,
        after,
        limit,
        ..TaskQuery::default()
    };
    let tasks = engine.store().tasks(query).await?;
    let leases = tasks.iter().filter_map(|task| task.lease.held.as_ref());
    engine.holders().look_for(leases).await?;
    Ok(tasks)
}

/// Interrupted tasks, oldest first.
pub(crate) async fn interrupted(engine: &Engine) -> Result<Vec<Task>, StoreError> {
    let statuses = vec![TaskStatus::Interrupted];
    engine
        .store()
        .tasks(TaskQuery {
            statuses,
            ..TaskQuery::default()
        })
        .await
}

/// Interrupted tasks of terminated agents.
async fn left_by_terminated(engine: &Engine) -> Result<Vec<OrphanedTask>, StoreError> {
    let gone = terminated(engine).await?;
    if gone.is_empty() {
        return Ok(Vec::new());
    }
    let left = interrupted(engine).await?.into_iter().filter_map(|task| {
        let agent = task.agent.clone().filter(|agent| gone.contains(agent))?;
        Some(OrphanedTask::Agent(task, agent))
    });
    Ok(left.collect())
}

/// Interrupted tasks of this agent, which will not come back by itself.
pub(crate) async fn left_by(
    engine: &Engine,
    agent: &AgentName,
) -> Result<Vec<OrphanedTask>, StoreError> {
    let (statuses, agent) = (vec![TaskStatus::Interrupted], agent.clone());
    let query = TaskQuery {
        statuses,
        agent: Some(agent.clone()),
        ..TaskQuery::default()
    };
    let tasks = engine.store().tasks(query).await?;
    Ok(tasks
        .into_iter()
        .map(|task| OrphanedTask::Agent(task, agent.clone()))
        .collect())
}

/// Tasks whose holder is gone. Time-limited leases are checked one by one; a process is checked
/// once for all its tasks.
/// What ends the others' leases is added to the watch.
fn abandoned(engine: &Engine, tasks: Vec<Task>, watch: &mut HolderWatch) -> Vec<OrphanedTask> {
    let mut lives: VecDeque<(Holder, bool)> = VecDeque::new();
    let mut found = Vec::new();
    for task in tasks {
        let Some(held) = task.lease.held.as_ref() else {
            continue;
        };
        let (holder, is_by_clock) = (held.holder.clone(), held.ttl.is_some());
        let known = lives
            .iter()
            .find(|(known, _)| !is_by_clock && *known == holder);
        let known = known.map(|(_, gone)| *gone);
        let is_gone = known.unwrap_or_else(|| !engine.holders().is_alive(held));
        if known.is_none() && !is_by_clock {
            lives.push_front((holder, is_gone));
            lives.truncate(HOLDERS_REMEMBERED);
        }
        if is_gone {
            found.push(OrphanedTask::Holder(task));
        } else if known.is_none() {
            engine.holders().watch(held, watch);
        }
    }
    found
}

async fn terminated(engine: &Engine) -> Result<Vec<AgentName>, StoreError> {
    let states = vec![AgentStateKind::Terminated];
    let query = AgentQuery {
        states,
        ..AgentQuery::default()
    };
    Ok(engine
        .store()
        .agents(query)
        .await?
        .into_iter()
        .map(|agent| agent.name)
        .collect())
}

/// Result of a sweep over the whole store.
#[derive(Debug, Default)]
pub struct TaskSweep {
    /// The recovered tasks.
    pub recovered: Vec<Recovered>,
    /// Tasks that could not be recovered, with the error.
    pub failed: Vec<(TaskId, ActError)>,
    /// When the holders that live may have gone.
    pub(crate) watch: HolderWatch,
}

/// Finds and recovers all orphaned tasks in pages, so that the first resume early and memory use is
/// bounded.
pub async fn sweep_all(recoverer: &Recoverer) -> Result<TaskSweep, StoreError> {
    let engine = recoverer.engine();
    let mut swept = TaskSweep::default();
    let mut after = None;
    loop {
        let page = page(engine, after, Some(PAGE)).await?;
        let is_last = page.len() < PAGE;
        after = page.last().map(|task| task.id.clone());
        let found = abandoned(engine, page, &mut swept.watch);
        swept.add(sweep(recoverer, found).await);
        if is_last {
            break;
        }
    }
    let (left, others_until) = left_without_lease(engine).await?;
    swept.add(sweep(recoverer, left).await);
    if let Some(until) = others_until {
        let left = until.since(clock::now()).as_duration();
        swept.watch.add_end(Instant::now() + left);
    }
    swept.add(sweep(recoverer, left_by_terminated(engine).await?).await);
    Ok(swept)
}

impl TaskSweep {
    fn add(&mut self, results: Vec<Result<Recovered, (Box<Task>, ActError)>>) {
        for result in results {
            match result {
                Ok(recovered) => self.recovered.push(recovered),
                Err((task, error)) => self.failed.push((task.id, error)),
            }
        }
    }
}

/// Recovers these tasks; a failure does not stop the others. Tasks recovered by others meanwhile
/// are left out.
pub async fn sweep(
    recoverer: &Recoverer,
    found: Vec<OrphanedTask>,
) -> Vec<Result<Recovered, (Box<Task>, ActError)>> {
    let mut done = Vec::new();
    let mut under_way = JoinSet::new();
    for lost in found {
        if under_way.len() >= AT_ONCE {
            done.extend(under_way.join_next().await.and_then(Result::ok).flatten());
        }
        under_way.spawn(one(recoverer.clone(), lost));
    }
    while let Some(recovered) = under_way.join_next().await {
        done.extend(recovered.ok().flatten());
    }
    done
}

async fn one(
    recoverer: Recoverer,
    lost: OrphanedTask,
) -> Option<Result<Recovered, (Box<Task>, ActError)>> {
    if let OrphanedTask::Holder(task) = &lost {
        match is_run_by_orphan(recoverer.engine(), task).await {
            // Its step still runs; it is recovered after the step's end is recorded.
            Ok(true) => return None,
            Ok(false) => {}
            Err(error) => return Some(Err((Box::new(task.clone()), error.into()))),
        }
    }
    let (task, recovered) = match lost {
        OrphanedTask::Holder(task) => {
            let death = HolderDeath::vanished(&task, clock::now());
            let recovered = match for_task(&recoverer, &task).await {
                Ok((recoverer, strategy)) => {
                    recoverer
                        .recover_unwatched(&task, death, strategy.as_deref())
                        .await
                }
                Err(error) => Err(error.into()),
            };
            (task, recovered)
        }
        OrphanedTask::Agent(task, agent) => {
            let death = HolderDeath {
                reason: format!("its agent {agent} will not be restarted"),
                agent_gone: true,
                ..HolderDeath::vanished(&task, clock::now())
            };
            let right = relight_core::decide::Right::Unfenced;
            let recovered = recoverer.recover(&task, right, death, None).await;
            (task, recovered)
        }
    };
    match recovered {
        // Someone else was faster.
        Err(
            ActError::Refused(Refusal::Fenced { .. } | Refusal::Held { .. })
            | ActError::Contended(_),
        ) => None,
        Err(error) => Some(Err((Box::new(task), error))),
        Ok(recovered) => Some(Ok(recovered)),
    }
}

/// The budget of a task whose holder was an attempt is its agent's, whoever finds that the attempt is
/// gone: the agent's own supervisor or another node.
async fn for_task(
    recoverer: &Recoverer,
    task: &Task,
) -> Result<(Recoverer, Option<String>), StoreError> {
    let held = task.lease.held.as_ref();
    let tag = held.and_then(|held| AttemptTag::of_holder(&held.holder));
    let name = tag
        .as_ref()
        .and_then(AttemptTag::agent)
        .and_then(|name| AgentName::new(name).ok());
    let agent = match name {
        Some(name) => recoverer.engine().store().agent(&name).await?,
        None => None,
    };
    Ok(
        match agent.filter(|agent| !matches!(agent.state, AgentState::Terminated { .. })) {
            Some(agent) => recoverer.for_agent(&agent.plan, None, task),
            None => (recoverer.clone(), None),
        },
    )
}
