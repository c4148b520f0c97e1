//! Reconciles the store with reality: agents that died unnoticed and tasks whose holder is gone.
//! Starts nothing.

use std::sync::Arc;

use relight_core::agent::{Agent, AgentState, FOREGROUND};
use relight_core::ids::{AgentName, TaskId};
use relight_core::lease::ProcessIdentity;
use relight_core::node::Placement;
use relight_store::{AgentQuery, StoreError};
use serde::Serialize;

use super::log::LogLimits;
use super::shim::wire::Input;
use super::spec::AgentSpec;
use super::supervisor::{AcquireError, AcquireMode, Supervisor};
use crate::boxed::boxed;
use crate::engine::Engine;
use crate::os::process;
use crate::presets::Preset;
use crate::recovery::{self, OrphanedTask};

/// A difference between the store and reality.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Discrepancy {
    /// An agent without a supervisor.
    Agent {
        /// Which.
        agent: AgentName,
        /// It runs; the next supervisor adopts it.
        lives: bool,
    },
    /// A task whose holder is gone.
    Task {
        /// Which.
        task: TaskId,
        /// Who held it.
        holder: String,
    },
}

/// Finds all differences, agents first.
#[boxed]
pub async fn find(engine: &Engine) -> Result<Vec<Discrepancy>, StoreError> {
    let mut findings = Vec::new();
    for agent in unsupervised(engine).await? {
        let lives = lives(engine, &agent).await?;
        findings.push(Discrepancy::Agent {
            agent: agent.name,
            lives,
        });
    }
    findings.extend(recovery::lost(engine).await?.iter().map(finding));
    Ok(findings)
}

fn finding(lost: &OrphanedTask) -> Discrepancy {
    let task = lost.task();
    let held = task.lease.held.as_ref();
    let holder = match lost {
        OrphanedTask::Agent(_, agent) => format!("agent {agent}"),
        OrphanedTask::Holder(_) => held.map_or_else(String::new, |held| held.holder.to_string()),
    };
    Discrepancy::Task {
        task: task.id.clone(),
        holder,
    }
}

/// Agents that are running according to the store but have no live supervisor.
async fn unsupervised(engine: &Engine) -> Result<Vec<Agent>, StoreError> {
    let agents = engine.store().agents(AgentQuery::default()).await?;
    let holders = engine.holders();
    holders
        .look_for(agents.iter().filter_map(|agent| agent.lease.held.as_ref()))
        .await?;
    // Only a listening daemon knows whether an agent that reports its own heartbeats is silent.
    let runs = |agent: &Agent| {
        matches!(agent.state, AgentState::Running { .. }) && !agent.plan.reports_itself()
    };
    let is_unsupervised = |agent: &Agent| runs(agent) && !holders.is_held(&agent.lease);
    Ok(agents.into_iter().filter(is_unsupervised).collect())
}

/// Unsupervised agents that died. Live ones are not touched: in a fleet, taking and releasing the
/// lease would let another node start a second copy.
async fn dead(engine: &Engine) -> Result<Vec<Agent>, StoreError> {
    let mut dead = Vec::new();
    for agent in unsupervised(engine).await? {
        if !lives(engine, &agent).await? {
            dead.push(agent);
        }
    }
    Ok(dead)
}

async fn lives(engine: &Engine, agent: &Agent) -> Result<bool, StoreError> {
    Ok(live_leader(engine, agent).await?.is_some())
}

/// The main process of its attempt, if it lives.
#[boxed]
pub async fn live_leader(
    engine: &Engine,
    agent: &Agent,
) -> Result<Option<ProcessIdentity>, StoreError> {
    let AgentState::Running { attempt, .. } = &agent.state else {
        return Ok(None);
    };
    let attempt = engine.store().attempt(attempt).await?;
    Ok(attempt
        .and_then(|attempt| attempt.process)
        .filter(process::is_alive))
}

/// Records deaths that `find` found, with their real end if known. Live agents are left alone. `preset`
/// returns the preset of an agent's plan, which interprets its end. Answers the agents that could not be
/// acquired.
pub async fn record(
    supervisor: &mut Supervisor,
    preset: impl Fn(&str) -> Preset,
) -> Result<Vec<(AgentName, AcquireError)>, StoreError> {
    let agents = dead(supervisor.engine()).await?;
    let spec = |agent: Agent| {
        let preset = preset(&agent.plan.preset);
        spec_of(agent, preset)
    };
    let specs = agents.into_iter().map(spec).collect();
    let refused = supervisor
        .acquire_all(specs, AcquireMode::HoldBack, false)
        .await;
    supervisor.leave().await;
    Ok(refused)
}

/// Specifications of the agents of a daemon that run without a supervisor according to the store,
/// except those in `wanted`.
pub async fn left_behind(
    engine: &Engine,
    wanted: &[AgentSpec],
    preset: impl Fn(&str) -> Preset,
) -> Result<Vec<AgentSpec>, StoreError> {
    let mut agents = unsupervised(engine).await?;
    // Only their own `relight run` can restart them: it adopts them when it is started again.
    agents.retain(|agent| !agent.plan.labels.contains_key(FOREGROUND));
    agents.retain(|agent| wanted.iter().all(|spec| spec.name != agent.name));
    let spec = |agent: Agent| {
        let preset = preset(&agent.plan.preset);
        spec_of(agent, preset)
    };
    Ok(agents.into_iter().map(spec).collect())
}

/// A specification from the store's record; enough to supervise it until its end, not to start it:
/// its command is stored without secrets, and its environment is not stored.
pub fn spec_of(agent: Agent, preset: Preset) -> AgentSpec {
    AgentSpec {
        signs: preset.sign_sources(),
        name: agent.name,
        command: Vec::new(),
        environment: Vec::new(),
        preset: Arc::new(preset),
        resume_args: None,
        input: Input::Null,
        user: None,
        until: None,
        ladder: None,
        strategy: None,
        placement: Placement::Any,
        log_limits: LogLimits::default(),
        plan: agent.plan,
    }
}
