//! Work that waits for an operator, and the operator's commands.
//!
//! Commands here are only for tasks that no live holder works on.

use relight_core::agent::FOREGROUND;
use relight_core::alert::resolve_first;
use relight_core::decide::{Refusal, Right, TaskDecisionInput, TaskEvent, decide, illegal};
use relight_core::ids::{AgentName, TaskId};
use relight_core::lease::HolderLife;
use relight_core::recovery::HolderDeath;
use relight_core::shell::shell_word;
use relight_core::status::TaskStatus;
use relight_core::step::StepState;
use relight_core::task::Task;
use relight_core::time::Time;
use relight_store::{AgentQuery, StoreError, TaskQuery};
use serde::Serialize;

use super::recoverer::{Recovered, Recoverer};
use crate::boxed::boxed;
use crate::engine::{ActError, Engine, TaskSnapshot};
use crate::os::clock;

/// Statuses of waiting work.
const WAITING: [TaskStatus; 5] = [
    TaskStatus::Interrupted,
    TaskStatus::Suspended,
    TaskStatus::Failed,
    TaskStatus::Blocked,
    TaskStatus::Deferred,
];

/// Filter of waiting work. All conditions must hold; the default selects all.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Only of these statuses; any when empty.
    pub statuses: Vec<TaskStatus>,
    /// Only of this agent.
    pub agent: Option<AgentName>,
}

/// A task that waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AwaitingOperator {
    /// Which.
    pub task: TaskId,
    /// Its status.
    pub status: TaskStatus,
    /// The reason of its status.
    pub reason: Option<String>,
    /// Its agent.
    pub agent: Option<AgentName>,
    /// Its recovery strategy.
    pub strategy: String,
    /// The step that was finished last.
    pub last_step: Option<String>,
    /// The step in doubt, else the first not finished.
    pub next_step: Option<String>,
    /// Steps begun and not ended.
    pub in_doubt: Vec<String>,
    /// What happens without a person.
    pub then: Then,
    /// Not before.
    pub not_before: Option<Time>,
    /// When it last changed.
    pub updated_at: Time,
    /// What to type, if it waits in the queue and no supervised agent would take it.
    pub command: Option<String>,
    /// What to type first: only a person may decide whether a step of it happened.
    pub resolve: Option<String>,
    /// What its strategy would do, if its holder is gone and no command has to be asked.
    pub foreseen: Option<Recovered>,
}

/// What happens to waiting work without a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Then {
    /// Its holder is gone: the next sweep recovers it.
    Recovered,
    /// Its agent resumes it.
    Resumed,
    /// Any suitable agent may take it.
    Taken,
    /// Nothing.
    Waits,
}

/// A person's command for a waiting task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OperatorCommand {
    /// Resume it now, with its agent.
    Resume,
    /// Start it over now, with its agent.
    Restart,
    /// Cancel it.
    Abandon {
        /// Why.
        reason: Option<String>,
    },
    /// Resume it with another agent.
    HandOver {
        /// The new agent.
        agent: AgentName,
    },
}

impl OperatorCommand {
    fn event(&self) -> TaskEvent {
        match self {
            Self::Resume => TaskEvent::Retry {
                agent: None,
                force: true,
            },
            Self::Restart => TaskEvent::Restart { agent: None },
            Self::Abandon { reason } => TaskEvent::Cancel {
                reason: reason.clone(),
            },
            Self::HandOver { agent } => TaskEvent::Retry {
                agent: Some(agent.clone()),
                force: true,
            },
        }
    }

    fn leads_to(&self) -> TaskStatus {
        match self {
            Self::Abandon { .. } => TaskStatus::Cancelled,
            Self::Resume | Self::Restart | Self::HandOver { .. } => TaskStatus::Assigned,
        }
    }
}

/// Waiting tasks, by priority, then by age.
#[boxed]
pub async fn tasks(engine: &Engine, filter: &Filter) -> Result<Vec<Task>, StoreError> {
    let is_wanted = |task: &Task| {
        let has_status = filter.statuses.is_empty() || filter.statuses.contains(&task.status);
        has_status
            && filter
                .agent
                .as_ref()
                .is_none_or(|agent| task.agent.as_ref() == Some(agent))
    };
    let query = TaskQuery {
        statuses: WAITING.to_vec(),
        ..TaskQuery::default()
    };
    let mut found = engine.store().tasks(query).await?;
    let held = engine
        .store()
        .tasks(TaskQuery {
            held: true,
            ..TaskQuery::default()
        })
        .await?;
    let leases = held.iter().filter_map(|task| task.lease.held.as_ref());
    engine.holders().look_for(leases).await?;
    found.extend(held.into_iter().filter(|task| is_lost(engine, task)));
    let (left, _) = super::left_without_lease(engine).await?;
    found.extend(left.iter().map(|left| left.task().clone()));
    found.retain(|task| is_wanted(task));
    found.sort_by_key(|task| (std::cmp::Reverse(task.spec.priority), task.created_at));
    Ok(found)
}

/// Whether it is in progress and its holder is gone.
fn is_lost(engine: &Engine, task: &Task) -> bool {
    task.status == TaskStatus::InProgress && !engine.holders().is_held(&task.lease)
}

/// All waiting work with everything needed for a decision.
#[boxed]
pub async fn list(
    recoverer: &Recoverer,
    filter: &Filter,
) -> Result<Vec<AwaitingOperator>, ActError> {
    let mut list = Vec::new();
    for task in tasks(recoverer.engine(), filter).await? {
        match waiting(recoverer, task).await {
            Ok(waiting) => list.push(waiting),
            // Somebody removed it meanwhile.
            Err(ActError::NoSuchTask(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(list)
}

/// A waiting task with everything needed for a decision.
#[boxed]
pub async fn waiting(recoverer: &Recoverer, task: Task) -> Result<AwaitingOperator, ActError> {
    let view = recoverer.engine().view(&task.id).await?;
    let foreseen = if is_lost(recoverer.engine(), &task) {
        recoverer
            .foresee(&task, HolderDeath::vanished(&task, clock::now()))
            .await
    } else {
        None
    };
    let command = match then(&task) {
        Then::Resumed | Then::Taken => command_to_continue(recoverer.engine(), &task).await?,
        Then::Recovered | Then::Waits => None,
    };
    let done = view
        .steps
        .iter()
        .filter(|step| step.state == StepState::Done);
    let last_step = done
        .max_by_key(|step| step.at)
        .map(|step| step.key.to_string());
    let unresolved = view.steps.iter().find(|step| step.waits_for_person());
    Ok(AwaitingOperator {
        resolve: unresolved.map(|step| resolve_first(&task.id, &step.key)),
        command,
        strategy: recoverer.strategies().name_for(&task).to_owned(),
        last_step,
        next_step: view.progress.next_step,
        in_doubt: view.progress.in_doubt,
        then: then(&task),
        foreseen,
        task: task.id,
        status: task.status,
        reason: task.reason,
        agent: task.agent,
        not_before: task.not_before,
        updated_at: task.updated_at,
    })
}

/// What to type for a task that waits in the queue while nobody who is there would take it: neither its own
/// agent is supervised nor, for a task without one, any agent at all. None where somebody is.
#[boxed]
pub async fn command_to_continue(
    engine: &Engine,
    task: &Task,
) -> Result<Option<String>, StoreError> {
    let store = engine.store();
    let agents = match &task.agent {
        Some(name) => store.agent(name).await?.into_iter().collect(),
        None => store.agents(AgentQuery::default()).await?,
    };
    let leases = agents.iter().filter_map(|agent| agent.lease.held.as_ref());
    engine.holders().look_for(leases.clone()).await?;
    if leases.clone().any(|held| engine.holders().is_alive(held)) {
        return Ok(None);
    }
    let agent = agents
        .first()
        .filter(|agent| task.agent.is_some() && !agent.plan.reports_itself());
    if let Some(agent) = agent.filter(|agent| agent.plan.labels.contains_key(FOREGROUND)) {
        return Ok(Some(agent.command_to_start(None)));
    }
    let id = shell_word(task.id.as_str());
    let name = |name: &AgentName| format!(" --agent {}", shell_word(name.as_str()));
    let name = task.agent.as_ref().map(name).unwrap_or_default();
    // A claim might take another task.
    let start = match (&task.checkpoint, task.status) {
        (Some(_), _) => format!("relight checkpoint resume --workflow {id}"),
        (None, TaskStatus::Failed) => {
            let force = if task.has_retry_left() {
                ""
            } else {
                " --force"
            };
            format!("relight task retry {id}{force} && relight task start {id}{name}")
        }
        (None, _) => format!("relight task start {id}{name}"),
    };
    Ok(Some(if agent.is_some() {
        format!("relight up, or {start}")
    } else {
        start
    }))
}

fn then(task: &Task) -> Then {
    match task.status {
        TaskStatus::InProgress | TaskStatus::Assigned => Then::Recovered,
        TaskStatus::Interrupted => Then::Resumed,
        // The queue offers it to its agent alone.
        TaskStatus::Deferred if task.pinned => Then::Resumed,
        TaskStatus::Deferred => Then::Taken,
        TaskStatus::Failed if !task.has_retry_left() => Then::Waits,
        TaskStatus::Failed if task.pinned => Then::Resumed,
        TaskStatus::Failed => Then::Taken,
        TaskStatus::Suspended
        | TaskStatus::Blocked
        | TaskStatus::Created
        | TaskStatus::InReview
        | TaskStatus::Completed
        | TaskStatus::Cancelled => Then::Waits,
    }
}

/// Executes a command on a task that nobody works on. Returns the task afterwards.
#[boxed]
pub async fn act(engine: &Engine, id: &TaskId, verb: &OperatorCommand) -> Result<Task, ActError> {
    let plan = |view: &TaskSnapshot| {
        check(engine, &view.task, verb)?;
        Ok::<_, ActError>(vec![verb.event()])
    };
    engine.act_in_turn(id, Right::Unfenced, plan).await?;
    engine.task(id).await
}

/// Predicts the result of `act` without changing anything.
#[boxed]
pub async fn foresee(
    engine: &Engine,
    id: &TaskId,
    verb: &OperatorCommand,
) -> Result<Task, ActError> {
    let TaskSnapshot {
        mut task, steps, ..
    } = engine.view(id).await?;
    engine.holders().look_for(&task.lease.held).await?;
    check(engine, &task, verb)?;
    let (life, right, now) = (HolderLife::Gone, Right::Unfenced, clock::now());
    let scene = TaskDecisionInput {
        task: &task,
        step: None,
        steps: &steps,
        life,
        right,
        caller: None,
        now,
    };
    for change in decide(&scene, verb.event())?.changes {
        change.apply(&mut task, now);
    }
    Ok(task)
}

fn check(engine: &Engine, task: &Task, verb: &OperatorCommand) -> Result<(), Refusal> {
    if let Some(held) = task
        .lease
        .held
        .clone()
        .filter(|held| engine.holders().is_alive(held))
    {
        let (agent, held) = (task.agent.clone(), Box::new(held));
        return Err(Refusal::Held {
            task: task.id.clone(),
            agent,
            held,
            now: clock::now(),
        });
    }
    // An assigned task may be assigned to another agent.
    let is_handed_on =
        task.status == TaskStatus::Assigned && matches!(verb, OperatorCommand::HandOver { .. });
    if WAITING.contains(&task.status) || is_lost(engine, task) || is_handed_on {
        return Ok(());
    }
    Err(illegal(task, verb.leads_to()))
}
