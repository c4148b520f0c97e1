//! The brief as it would be written now: for whoever asks in the middle of an attempt, or outside of any.

use std::path::Path;

use relight_core::agent::Attempt;
use relight_core::agent::brief::{BriefFacts, Interrupted, brief};
use relight_core::ids::{AgentName, TaskId};
use relight_core::status::TaskStatus;
use relight_store::{AttemptQuery, StoreError, TaskQuery};

use super::git_facts;
use crate::engine::{ActError, Engine, TaskView};

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
    /// The task; the agent's first unfinished one when none.
    pub task: Option<&'a TaskId>,
    /// Where git is asked, unless the task names another folder; nowhere when none.
    pub workspace: Option<&'a Path>,
}

/// The redacted text; none when nothing was interrupted.
pub async fn current_brief(
    engine: &Engine,
    about: BriefSubject<'_>,
) -> Result<Option<String>, ActError> {
    let view = match about.task {
        Some(task) => Some(engine.view(task).await?),
        None => open_task(engine, about.agent).await?,
    };
    let last = match about.agent {
        Some(agent) => last_ended(engine, agent).await?,
        None => None,
    };
    let before = last.as_ref().and_then(|last| {
        let (ended, post_mortem) = (last.ended.as_ref()?, last.post_mortem.as_ref()?);
        Some(Interrupted { number: last.number, ended, post_mortem, head_at_begin: None })
    });
    let own = view.as_ref().and_then(|view| view.task.context.get("workspace"));
    let workspace = about.workspace.map(|folder| own.map_or(folder, Path::new));
    let git = workspace.and_then(git_facts);
    let place = workspace.map(Path::to_string_lossy).unwrap_or_default();
    let facts = BriefFacts {
        handed_over: None,
        // One that nobody supervises has no attempts to speak of.
        agent: about.agent.filter(|_| last.is_some()),
        attempt_number: last.as_ref().map_or(1, |last| last.number + 1),
        before,
        task: view.as_ref().map(|view| (&view.task, view.steps.as_slice())),
        git: git.as_ref().map(|git| (&*place, git)),
        host: None,
    };
    Ok(brief(&facts).map(|text| engine.redactor().text(&text).into_owned()))
}

async fn open_task(
    engine: &Engine,
    agent: Option<&AgentName>,
) -> Result<Option<TaskView>, ActError> {
    let Some(agent) = agent.cloned() else { return Ok(None) };
    let query = TaskQuery {
        statuses: OPEN.to_vec(),
        agent: Some(agent),
        limit: Some(1),
        ..TaskQuery::default()
    };
    match engine.store().tasks(query).await?.first() {
        Some(task) => Ok(Some(engine.view(&task.id).await?)),
        None => Ok(None),
    }
}

async fn last_ended(engine: &Engine, agent: &AgentName) -> Result<Option<Attempt>, StoreError> {
    let query = AttemptQuery { agent: Some(agent.clone()), ended: true, before: None, limit: 1 };
    Ok(engine.store().attempts(query).await?.into_iter().next())
}
