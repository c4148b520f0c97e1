//! Finds tasks whose holder is gone and gives them to their strategy.
//!
//! Decides by lease alone: a slow holder that lost its lease counts as dead, and its late writes are
//! refused by the fence.

use relight_core::agent::AgentStateKind;
use relight_core::decide::Refusal;
use relight_core::ids::AgentName;
use relight_core::lease::HolderLife;
use relight_core::recovery::HolderDeath;
use relight_core::status::TaskStatus;
use relight_core::task::Task;
use relight_store::{AgentQuery, StoreError, TaskQuery};
use tokio::task::JoinSet;

use super::recoverer::{Recovered, Recoverer};
use crate::doors::{clock, process};
use crate::engine::{ActError, Engine};

/// Recoveries that are under way at a time: their commits share a sync.
const AT_ONCE: usize = 64;

/// A task that lost whoever was to do it.
#[derive(Debug, Clone)]
pub enum Lost {
    /// Its holder is gone.
    Holder(Task),
    /// It waits for an agent that does not come back by itself.
    Agent(Task, AgentName),
}

impl Lost {
    /// The task.
    pub fn task(&self) -> &Task {
        match self {
            Self::Holder(task) | Self::Agent(task, _) => task,
        }
    }
}

/// All of them, those whose holder is gone first.
pub async fn lost(engine: &Engine) -> Result<Vec<Lost>, StoreError> {
    let held = held(engine).await?.into_iter().filter(is_abandoned);
    let mut found: Vec<Lost> = held.map(Lost::Holder).collect();
    found.extend(left_by_terminated(engine).await?);
    Ok(found)
}

/// Tasks that somebody works on, whether he lives or not, oldest first.
pub(crate) async fn held(engine: &Engine) -> Result<Vec<Task>, StoreError> {
    let statuses = vec![TaskStatus::Assigned, TaskStatus::InProgress, TaskStatus::Interrupted];
    engine.store().tasks(TaskQuery { statuses, held: true, ..TaskQuery::default() }).await
}

/// Tasks that wait for an agent which is terminated, oldest first.
pub(crate) async fn left_by_terminated(engine: &Engine) -> Result<Vec<Lost>, StoreError> {
    let gone = terminated(engine).await?;
    if gone.is_empty() {
        return Ok(Vec::new());
    }
    let statuses = vec![TaskStatus::Interrupted];
    let tasks = engine.store().tasks(TaskQuery { statuses, ..TaskQuery::default() }).await?;
    let left = tasks.into_iter().filter_map(|task| {
        let agent = task.agent.clone().filter(|agent| gone.contains(agent))?;
        Some(Lost::Agent(task, agent))
    });
    Ok(left.collect())
}

pub(crate) fn is_abandoned(task: &Task) -> bool {
    let held = task.lease.held.as_ref();
    held.is_some_and(|held| process::holder_life(held) == HolderLife::Gone)
}

async fn terminated(engine: &Engine) -> Result<Vec<AgentName>, StoreError> {
    let states = vec![AgentStateKind::Terminated];
    let query = AgentQuery { states, ..AgentQuery::default() };
    Ok(engine.store().agents(query).await?.into_iter().map(|agent| agent.name).collect())
}

/// Recovers each of them; one that cannot be stops no other. What others recovered meanwhile is left
/// out.
pub async fn sweep(
    recoverer: &Recoverer,
    found: Vec<Lost>,
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

async fn one(recoverer: Recoverer, lost: Lost) -> Option<Result<Recovered, (Box<Task>, ActError)>> {
    let (task, recovered) = match lost {
        Lost::Holder(task) => {
            let death = HolderDeath::vanished(&task, clock::now());
            let recovered = recoverer.recover_unwatched(&task, death, None).await;
            (task, recovered)
        }
        Lost::Agent(task, agent) => {
            let death = HolderDeath {
                reason: format!("its agent {agent} is terminated"),
                agent_gone: true,
                ..HolderDeath::vanished(&task, clock::now())
            };
            let right = relight_core::decide::Right::Unfenced;
            let recovered = recoverer.recover(&task, right, death, None).await;
            (task, recovered)
        }
    };
    match recovered {
        // Somebody else was faster.
        Err(ActError::Refused(Refusal::Fenced { .. } | Refusal::Held { .. })) => None,
        Err(error) => Some(Err((Box::new(task), error))),
        Ok(recovered) => Some(Ok(recovered)),
    }
}
