//! Agents as they are shown: the store's rows with what only their supervisor and their tasks know.

use std::collections::HashMap;

use relight_core::agent::{Agent, AgentState, Attempt, Pause, StopReason, Stopper, Takes};
use relight_core::ids::AgentName;
use relight_core::lease::{Holder, HolderLife};
use relight_core::status::TaskStatus;
use relight_core::task::Task;
use relight_runtime::os::{clock, process};
use relight_runtime::supervise::supervisor::AgentView;
use relight_store::{AttemptQuery, StoreError, TaskQuery};

use super::heartbeat::Sign;
use crate::app::App;
use crate::wire;
use crate::wire::agent::LastDeath;

/// Above this many agents, tasks in progress are read once for all of them.
const FEW: usize = 8;

impl App {
    /// Agents with all that is shown of them.
    pub(super) async fn shown(
        &self,
        agents: Vec<Agent>,
    ) -> Result<Vec<wire::agent::Agent>, StoreError> {
        let mut held = if agents.len() > FEW { Some(self.held_tasks().await?) } else { None };
        let mut shown = Vec::with_capacity(agents.len());
        for agent in agents {
            let task = match (&mut held, attempt_tag(&agent)) {
                (Some(held), Some(_)) if agent.plan.reports_itself() => {
                    held.remove(&by_name(&agent.name))
                }
                (Some(held), Some(tag)) => held.remove(tag),
                (None, Some(_)) => self.held_task(&agent).await?,
                (_, None) => None,
            };
            shown.push(self.show(agent, task).await?);
        }
        Ok(shown)
    }

    async fn show(
        &self,
        agent: Agent,
        held: Option<Task>,
    ) -> Result<wire::agent::Agent, StoreError> {
        let store = self.backend.engine.store();
        let view = self.backend.beats.view(&agent.name);
        let attempt = match &agent.state {
            AgentState::Running { attempt, .. } => store.attempt(attempt).await?,
            _ => None,
        };
        let last = match &view {
            Some(view) => view.last_attempt.clone(),
            None if agent.attempt_number > 0 => self.last_death(&agent).await?,
            None => None,
        };
        let step = match &held {
            Some(task) => self.step_of(task).await?,
            None => None,
        };
        let task = held.map(|task| task.id.to_string());
        let task = task.or_else(|| agent.plan.task.as_ref().map(ToString::to_string));
        let own_sign = self.signs.of(&agent.name);
        Ok(Parts { agent, view, attempt, last, task, step, own_sign }.shown(self))
    }

    async fn last_death(&self, agent: &Agent) -> Result<Option<Attempt>, StoreError> {
        let query =
            AttemptQuery { agent: Some(agent.name.clone()), ended: true, limit: 1, before: None };
        Ok(self.backend.engine.store().attempts(query).await?.pop())
    }

    /// Tasks that attempts hold, by the attempt.
    async fn held_tasks(&self) -> Result<HashMap<String, Task>, StoreError> {
        let statuses = vec![TaskStatus::InProgress];
        let query = TaskQuery { statuses, ..TaskQuery::default() };
        let tasks = self.backend.engine.store().tasks(query).await?;
        let by_attempt = |task: Task| match &task.lease.held.as_ref()?.holder {
            Holder::Attempt { attempt, .. } => Some((attempt.clone(), task)),
            // Whoever reports by itself holds for a time.
            Holder::Time { .. } => Some((by_name(task.agent.as_ref()?), task)),
            Holder::Process(_) => None,
        };
        Ok(tasks.into_iter().filter_map(by_attempt).collect())
    }

    async fn held_task(&self, agent: &Agent) -> Result<Option<Task>, StoreError> {
        let AgentState::Running { attempt, .. } = &agent.state else { return Ok(None) };
        let query = match agent.plan.reports_itself() {
            true => {
                TaskQuery { agent: Some(agent.name.clone()), held: true, ..TaskQuery::default() }
            }
            false => TaskQuery { held_by: Some(attempt.clone()), ..TaskQuery::default() },
        };
        let query = TaskQuery { limit: Some(1), ..query };
        Ok(self.backend.engine.store().tasks(query).await?.pop())
    }

    /// The step a task is at.
    async fn step_of(&self, task: &Task) -> Result<Option<String>, StoreError> {
        let steps = self.backend.engine.store().steps(&task.id).await?;
        Ok(relight_core::progress::progress(&task.spec.steps, &steps).next_step)
    }
}

/// A key that no attempt has.
fn by_name(agent: &AgentName) -> String {
    format!("agent {agent}")
}

fn attempt_tag(agent: &Agent) -> Option<&str> {
    match &agent.state {
        AgentState::Running { attempt, .. } => Some(attempt.as_str()),
        _ => None,
    }
}

/// All that is known of one agent.
struct Parts {
    agent: Agent,
    view: Option<AgentView>,
    /// The live one.
    attempt: Option<Attempt>,
    /// The newest that ended.
    last: Option<Attempt>,
    task: Option<String>,
    step: Option<String>,
    /// What it said itself, when nobody supervises it.
    own_sign: Option<Sign>,
}

impl Parts {
    fn shown(self, app: &App) -> wire::agent::Agent {
        let Self { agent, view, attempt, last, task, step, own_sign } = self;
        let supervised = agent
            .lease
            .held
            .as_ref()
            .is_some_and(|held| process::holder_life(held) == HolderLife::Alive);
        let holder = agent.lease.held.as_ref().and_then(|held| held.holder.node());
        let ran_on = attempt.as_ref().and_then(|attempt| attempt.process.as_ref()?.node.as_ref());
        let node = holder.or(ran_on).map(ToString::to_string);
        let last_death = last.as_ref().and_then(|attempt| {
            attempt.ended.as_ref().map(|ended| LastDeath::of(attempt.number, ended))
        });
        let since = match &agent.state {
            AgentState::Running { since, .. } => *since,
            _ => agent.state_since.unwrap_or(agent.updated_at),
        };
        let takes = match agent.plan.takes {
            Takes::Claim => "claim",
            Takes::Start => "start",
        };
        let phase = view.as_ref().and_then(|view| view.phase);
        let phase = phase.or_else(|| own_sign.as_ref().map(|sign| sign.phase(clock::now())));
        let sign_at = view.as_ref().and_then(|view| view.last_sign);
        let waiting_until = view.as_ref().and_then(|view| view.waiting_until);
        let status_text = view.and_then(|view| view.status);
        let (own_at, own_waiting, own_status) = own_sign
            .map_or((None, None, None), |sign| (Some(sign.at), sign.waiting_until, sign.status));
        wire::agent::Agent {
            name: agent.name.to_string(),
            state: agent.state.kind().to_string(),
            why: why(&agent),
            since,
            again_at: again_at(&agent.state),
            attempt: agent.attempt_number,
            attempt_begun_at: attempt.as_ref().map(|attempt| attempt.begun_at),
            pid: attempt.and_then(|attempt| attempt.process).map(|process| process.pid),
            phase: phase.map(str::to_owned),
            last_sign_at: sign_at.or(own_at),
            waiting_until: waiting_until.or(own_waiting),
            status_text: status_text.or(own_status),
            task,
            step,
            session: agent.session,
            recoveries_in_a_row: agent.tally.in_a_row,
            max_attempts: agent.plan.policy.max_attempts,
            restarts_total: agent.tally.total(),
            self_reporting: agent.plan.reports_itself(),
            command: agent.plan.command,
            folder: agent.plan.folder,
            preset: agent.plan.preset,
            takes: takes.to_owned(),
            skills: agent.plan.skills,
            pool: agent.plan.pool.map(String::from),
            supervised,
            node: node.or_else(|| app.backend.node_name()),
            last_death,
            updated_at: agent.updated_at,
        }
    }
}

fn again_at(state: &AgentState) -> Option<relight_core::time::Time> {
    match state {
        AgentState::Crashed { again_at } => *again_at,
        AgentState::Suspended { until, .. } => *until,
        AgentState::Created
        | AgentState::Running { .. }
        | AgentState::Stopped { .. }
        | AgentState::Terminated { .. } => None,
    }
}

fn why(agent: &Agent) -> Option<String> {
    let text = match &agent.state {
        AgentState::Crashed { .. } if agent.plan.reports_itself() => "it does not report any more",
        AgentState::Created | AgentState::Crashed { .. } => return None,
        AgentState::Running { ending: None, .. } => return None,
        AgentState::Running { ending: Some(ending), .. } => match ending {
            StopReason::Stop => "it is being stopped",
            StopReason::Shutdown => "its supervisor ends",
            StopReason::Restart => "it is being restarted",
            StopReason::Hung => "no sign of life; it is being stopped",
            StopReason::Timeout => "the attempt took too long; it is being stopped",
        },
        AgentState::Suspended { why, .. } => match why {
            Pause::Deferred => "it asked to be resumed later",
            Pause::HeldBack => "nothing is resumed before a person says so",
            Pause::Asking => "whether its loop is over is being asked",
            Pause::Resting => "it rests before its next attempt",
            Pause::Task => "its task waits for a person",
            Pause::Draining => "nothing is begun while draining",
            Pause::Turn => "it waits for its turn to be taken up",
        },
        AgentState::Stopped { by } => match by {
            Stopper::Person => "a person stopped it",
            Stopper::Shutdown => "it was stopped with its supervisor",
            Stopper::Itself => "it finished",
        },
        AgentState::Terminated { why } => why,
    };
    Some(text.to_owned())
}
