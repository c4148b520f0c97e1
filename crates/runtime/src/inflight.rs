//! Everything that is in doubt or in flight: what somebody must know before a machine is switched off,
//! or after it came back.
//!
//! Reads only. Finished work costs nothing, however much there is of it.

use std::collections::BTreeMap;
use std::path::Path;

use relight_core::agent::{Agent, AgentState, AgentStateKind, Pause};
use relight_core::ids::{AgentName, SessionKey, TaskId};
use relight_core::lease::{HeldLease, HolderLife};
use relight_core::session::{Generation, Session, SessionState, SessionStateKind};
use relight_core::status::TaskStatus;
use relight_core::step::{Call, RepeatRule, Step, StepKey};
use relight_core::task::Task;
use relight_core::time::{Span, Time};
use relight_store::{AgentQuery, SessionQuery, StoreError, TaskQuery};
use serde::Serialize;

use crate::boxed::boxed;
use crate::engine::Engine;
use crate::os::{clock, process};
use crate::running_step::is_under_way;
use crate::supervise::unnoticed_deaths::{self, Discrepancy};

/// What was found, the most urgent first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Inflight {
    /// Steps begun and not ended that nobody is at.
    pub in_doubt: Vec<OpenStep>,
    /// Tasks whose holder is gone.
    pub lost: Vec<Holding>,
    /// Tasks that somebody holds.
    pub held: Vec<Holding>,
    /// Steps that run on this machine, of tasks that nobody alive holds.
    pub running: Vec<OpenStep>,
    /// Agents that run without a supervisor.
    pub agents: Vec<Unsupervised>,
    /// Sessions with a turn in flight.
    pub sessions: Vec<OpenTurn>,
}

impl Inflight {
    /// Whether there is nothing to know.
    pub fn is_empty(&self) -> bool {
        let work = self.in_doubt.len() + self.lost.len() + self.held.len() + self.running.len();
        work + self.agents.len() + self.sessions.len() == 0
    }
}

/// A step that was begun and not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OpenStep {
    /// Of which task.
    pub task: TaskId,
    /// Where that stands.
    pub status: TaskStatus,
    /// Which step.
    #[serde(flatten)]
    pub step: StepKey,
    /// The rule that holds for it.
    pub rule: RepeatRule,
    /// How often it was tried.
    pub tries: u32,
    /// When it was begun.
    pub since: Time,
    /// Set for a tool call that hooks observed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<Call>,
}

/// A task under a lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Holding {
    /// Which.
    pub task: TaskId,
    /// Where it stands.
    pub status: TaskStatus,
    /// Whose it is.
    pub agent: Option<AgentName>,
    /// Who holds it, for people to read.
    pub holder: String,
    /// Since when.
    pub since: Time,
    /// The steps that the holder is at.
    pub steps: Vec<String>,
}

/// How far ahead of its time an agent that waits counts as one that is about to run.
const ABOUT_TO_BEGIN: Span = Span::from_secs(1);

/// Agents whose attempt lives, wherever that is, and those whose supervisor is about to decide whether the
/// next attempt begins; but none that report by themselves.
#[boxed]
pub async fn running_agents(engine: &Engine) -> Result<Vec<Agent>, StoreError> {
    let states = vec![
        AgentStateKind::Running,
        AgentStateKind::Crashed,
        AgentStateKind::Suspended,
    ];
    let soon = clock::now().plus(ABOUT_TO_BEGIN);
    let (store, holders) = (engine.store(), engine.holders());
    let agents = store
        .agents(AgentQuery {
            states,
            ..AgentQuery::default()
        })
        .await?;
    holders
        .look_for(agents.iter().filter_map(|agent| agent.lease.held.as_ref()))
        .await?;
    let mut running = Vec::new();
    for agent in agents {
        let is_supervised = || holders.is_held(&agent.lease);
        let runs = match &agent.state {
            AgentState::Running { attempt, .. } => {
                let leader = store
                    .attempt(attempt)
                    .await?
                    .and_then(|attempt| attempt.process);
                is_supervised() || leader.is_some_and(|leader| process::is_alive(&leader))
            }
            AgentState::Crashed { again_at: Some(at) }
            | AgentState::Suspended {
                until: Some(at), ..
            } => *at <= soon && is_supervised(),
            // The condition of a loop is being asked.
            AgentState::Suspended {
                why: Pause::Asking,
                until: None,
            } => is_supervised(),
            _ => false,
        };
        if runs && !agent.plan.reports_itself() {
            running.push(agent);
        }
    }
    Ok(running)
}

/// An agent whose death nobody would notice, or has noticed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unsupervised {
    /// Which.
    pub agent: AgentName,
    /// Whether it lives.
    pub lives: bool,
}

/// A turn that is being run, or was cut off and not decided about yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OpenTurn {
    /// Of which session.
    pub session: SessionKey,
    /// Its number.
    pub generation: Generation,
    /// Since when.
    pub since: Time,
    /// Who runs it, where that is known.
    pub owner: Option<String>,
    /// Whether that one lives; none when nobody knows.
    pub lives: Option<bool>,
}

/// Looks at everything. `home` is the folder of the store, where running steps have their locks.
#[boxed]
pub async fn look(engine: &Engine, home: &Path) -> Result<Inflight, StoreError> {
    let (store, holders) = (engine.store(), engine.holders());
    let (in_doubt, mut under_way) = steps(engine, home, None).await?;
    let (mut held, mut lost) = (Vec::new(), Vec::new());
    let tasks = store
        .tasks(TaskQuery {
            held: true,
            ..TaskQuery::default()
        })
        .await?;
    holders
        .look_for(tasks.iter().filter_map(|task| task.lease.held.as_ref()))
        .await?;
    for task in tasks {
        let Some(holder) = &task.lease.held else {
            continue;
        };
        let (list, steps) = match holders.life(holder) {
            HolderLife::Alive => (&mut held, under_way.remove(&task.id)),
            HolderLife::Gone => (&mut lost, under_way.get(&task.id).cloned()),
        };
        let steps = steps
            .into_iter()
            .flatten()
            .map(|step| step.step.to_string())
            .collect();
        list.push(holding(&task, holder, steps));
    }
    let running = under_way.into_values().flatten().collect();
    let agents = agents(engine).await?;
    Ok(Inflight {
        in_doubt,
        lost,
        held,
        running,
        agents,
        sessions: turns(engine).await?,
    })
}

/// How many steps are in doubt, of so many tasks at most.
pub async fn count_in_doubt(
    engine: &Engine,
    home: &Path,
    tasks_max: usize,
) -> Result<usize, StoreError> {
    Ok(steps(engine, home, Some(tasks_max)).await?.0.len())
}

/// Steps in doubt, and those that somebody is at, by their task. A task that was cancelled is history; one
/// that was completed over a step in doubt still has that doubt.
async fn steps(
    engine: &Engine,
    home: &Path,
    tasks_max: Option<usize>,
) -> Result<(Vec<OpenStep>, BTreeMap<TaskId, Vec<OpenStep>>), StoreError> {
    let (store, holders) = (engine.store(), engine.holders());
    let (mut in_doubt, mut under_way) = (Vec::new(), BTreeMap::new());
    let tasks = store
        .tasks(TaskQuery {
            limit: tasks_max,
            ..TaskQuery::with_steps_in_doubt()
        })
        .await?;
    holders
        .look_for(tasks.iter().filter_map(|task| task.lease.held.as_ref()))
        .await?;
    for task in tasks {
        for step in store
            .steps(&task.id)
            .await?
            .into_iter()
            .filter(Step::is_open)
        {
            if is_under_way(holders, home, &task, &step) {
                let steps: &mut Vec<OpenStep> = under_way.entry(task.id.clone()).or_default();
                steps.push(open_step(&task, step));
            } else {
                in_doubt.push(open_step(&task, step));
            }
        }
    }
    Ok((in_doubt, under_way))
}

fn open_step(task: &Task, step: Step) -> OpenStep {
    OpenStep {
        task: task.id.clone(),
        status: task.status,
        step: step.key,
        rule: step.rule,
        tries: step.tries,
        since: step.at,
        call: step.call,
    }
}

fn holding(task: &Task, held: &HeldLease, steps: Vec<String>) -> Holding {
    Holding {
        task: task.id.clone(),
        status: task.status,
        agent: task.agent.clone(),
        holder: held.holder.to_string(),
        since: held.since,
        steps,
    }
}

async fn agents(engine: &Engine) -> Result<Vec<Unsupervised>, StoreError> {
    let found = unnoticed_deaths::find(engine).await?.into_iter();
    let of_agents = found.filter_map(|finding| match finding {
        Discrepancy::Agent { agent, lives } => Some(Unsupervised { agent, lives }),
        Discrepancy::Task { .. } => None,
    });
    Ok(of_agents.collect())
}

async fn turns(engine: &Engine) -> Result<Vec<OpenTurn>, StoreError> {
    let (store, holders) = (engine.store(), engine.holders());
    let states = vec![SessionStateKind::Active];
    let sessions = store
        .sessions(SessionQuery {
            states,
            ..SessionQuery::default()
        })
        .await?;
    holders
        .look_for(sessions.iter().filter_map(Session::owner))
        .await?;
    let turns = sessions.into_iter().filter_map(|session| {
        let SessionState::Active { since, owner } = session.state else {
            return None;
        };
        let owner = owner.as_ref();
        Some(OpenTurn {
            session: session.key,
            generation: session.generation,
            since,
            owner: owner.map(|held| held.holder.to_string()),
            lives: owner.map(|held| holders.is_alive(held)),
        })
    });
    Ok(turns.collect())
}
