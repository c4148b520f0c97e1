//! The brief as it would be written now: for whoever asks in the middle of an attempt, or outside of any.

use std::path::Path;

use relight_core::agent::brief::{BriefFacts, Interrupted, brief};
use relight_core::decide::Right;
use relight_core::ids::{AgentName, TaskId};
use relight_core::lease::HolderLife;
use relight_core::status::TaskStatus;
use relight_core::task::Task;
use relight_store::{AttemptQuery, TaskQuery};

use crate::boxed::{BoxFuture, boxed};
use crate::engine::{ActError, Engine, TaskSnapshot};
use crate::git_state::git_facts;
use crate::handover;

/// Statuses of work that somebody goes on with.
const OPEN: [TaskStatus; 6] = [
    TaskStatus::InProgress,
    TaskStatus::Interrupted,
    TaskStatus::Assigned,
    TaskStatus::Blocked,
    TaskStatus::Suspended,
    TaskStatus::Deferred,
];

/// What a brief is wanted about.
#[derive(Debug, Clone, Copy, Default)]
pub struct BriefSubject<'a> {
    /// The agent that reads it.
    pub agent: Option<&'a AgentName>,
    /// The task; the agent's first unfinished one when none. For a reader without a name the only one that
    /// was left behind.
    pub task: Option<&'a TaskId>,
    /// Where git is asked, unless the task names another folder; nowhere when none.
    pub workspace: Option<&'a Path>,
}

/// The redacted text; none when nothing was interrupted.
pub fn current_brief<'a>(
    engine: &'a Engine,
    about: BriefSubject<'a>,
) -> BoxFuture<'a, Result<Option<String>, ActError>> {
    Box::pin(async move {
        let mut view = match about.task {
            Some(task) => Some(engine.view(task).await?),
            None => open_task(engine, about.agent).await?,
        };
        if let Some(TaskSnapshot { task, .. }) = &mut view {
            let life = engine.holder_life(task, Right::Unfenced).await?;
            task.lease.held.take_if(|_| life != HolderLife::Alive);
        }
        let last = match about.agent {
            Some(agent) => {
                let agent = Some(agent.clone());
                let query = AttemptQuery {
                    agent,
                    ended: true,
                    before: None,
                    limit: 1,
                };
                engine.store().attempts(query).await?.into_iter().next()
            }
            None => None,
        };
        let worked = match &view {
            Some(view) => {
                let store = engine.store().as_ref();
                handover::last_attempt_at(store, &view.task.id, about.agent).await?
            }
            None => None,
        };
        // What an attempt said in other work is nothing to whoever asks about a task.
        let worked = worked.or_else(|| last.clone().filter(|_| about.task.is_none()));
        let before = worked.as_ref().and_then(Interrupted::of);
        let worker = worked.as_ref().map(|worked| &worked.agent);
        let own = view
            .as_ref()
            .and_then(|view| view.task.context.get("workspace"));
        let workspace = about.workspace.map(|folder| own.map_or(folder, Path::new));
        let git = workspace.and_then(git_facts);
        let place = workspace.map(Path::to_string_lossy).unwrap_or_default();
        let facts = BriefFacts {
            settled: &[],
            open_calls: &[],
            handed_over: None,
            // One that nobody supervises has no attempts to speak of.
            agent: about.agent.filter(|_| last.is_some()),
            attempt_number: last.as_ref().map_or(1, |last| last.number + 1),
            before,
            worker: worker.filter(|worker| Some(*worker) != about.agent),
            task: view
                .as_ref()
                .map(|view| (&view.task, view.steps.as_slice())),
            git: git.as_ref().map(|git| (&*place, git)),
            host: None,
        };
        Ok(brief(&facts).map(|text| engine.redactor().text(&text).into_owned()))
    })
}

async fn open_task(
    engine: &Engine,
    agent: Option<&AgentName>,
) -> Result<Option<TaskSnapshot>, ActError> {
    let found = match agent {
        Some(agent) => {
            let (agent, limit) = (Some(agent.clone()), Some(1));
            let query = TaskQuery {
                statuses: OPEN.to_vec(),
                agent,
                limit,
                ..TaskQuery::default()
            };
            engine.store().tasks(query).await?.pop()
        }
        None => match &unfinished(engine).await?[..] {
            [
                Unfinished {
                    task,
                    is_held: false,
                },
            ] if task.agent.is_none() => Some(task.clone()),
            _ => None,
        },
    };
    match found {
        Some(task) => Ok(Some(engine.view(&task.id).await?)),
        None => Ok(None),
    }
}

/// A task that somebody began and nobody has finished.
#[derive(Debug)]
pub struct Unfinished {
    /// The task.
    pub task: Task,
    /// A live holder has it.
    pub is_held: bool,
}

/// All unfinished tasks, for a reader without a name: it may have begun any of them.
#[boxed]
pub async fn unfinished(engine: &Engine) -> Result<Vec<Unfinished>, ActError> {
    let query = TaskQuery {
        statuses: OPEN.to_vec(),
        ..TaskQuery::default()
    };
    let mut found = engine.store().tasks(query).await?;
    found.retain(|task| task.starts > 0);
    let leases = found.iter().filter_map(|task| task.lease.held.as_ref());
    engine.holders().look_for(leases).await?;
    let told = found.into_iter().map(|task| {
        let is_held = engine.holders().is_held(&task.lease);
        Unfinished { task, is_held }
    });
    Ok(told.collect())
}
