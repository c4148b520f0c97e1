//! Keeps `active_state.json` true while an attempt works: whoever changed its task writes it anew.

use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use relight_core::agent::active_state::{ActiveState, reason};
use relight_core::agent::{Agent, AgentState, AttemptTag};
use relight_core::ids::{AgentName, TaskId};
use relight_core::task::Task;
use relight_store::{AttemptQuery, StoreError};

use super::file::{read_state, write_state};
use crate::boxed::boxed;
use crate::checkpoint_files::encoded_name;
use crate::engine::Engine;
use crate::os::clock;
use crate::supervise::folder::AgentFolder;

/// How often it is written again because the task moved on meanwhile.
const ROUNDS_MAX: usize = 8;

/// Why the file could not be brought up to date. The store is right all the same.
#[derive(Debug, thiserror::Error)]
pub enum RefreshError {
    /// The file.
    #[error("cannot write {path}")]
    File {
        /// Which.
        path: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Writes the state of the agent whose live attempt holds this task; whether anything changed.
///
/// For whoever just changed the task, in any process: reads the task as it is now, and again after the
/// write, so that of two at the same time the newer one stays.
pub async fn refresh_state(
    home: &Path,
    engine: &Engine,
    task: &Task,
) -> Result<bool, RefreshError> {
    let Some(tag) = holding_attempt(task) else {
        return refresh_task_state(home, engine, &task.id).await;
    };
    let Some(agent) = agent_of(engine, &tag).await? else {
        return Ok(false);
    };
    let folder = AgentFolder::of(home, &agent.name);
    let reason = last_reason(engine, &folder, &agent, &tag).await?;
    let mut has_changed = false;
    let mut written_seq = None;
    for _ in 0..ROUNDS_MAX {
        let Some(task) = engine.store().task(&task.id).await? else {
            break;
        };
        let is_current = written_seq == Some(task.seq);
        if is_current || holding_attempt(&task).as_ref() != Some(&tag) {
            break;
        }
        let session = agent.session.as_deref();
        let now = clock::now();
        let (name, tag) = (Some(&agent.name), Some(&tag));
        let state = ActiveState::new(name, tag, session, Some(&task), reason.clone(), now);
        let written = write_state(&folder.state(), &state);
        has_changed |= written.map_err(|source| file_error(&folder.state(), source))?;
        written_seq = Some(task.seq);
    }
    Ok(has_changed)
}

/// Where the state of a task is that no supervised attempt works on.
pub fn task_state_file(home: &Path, task: &TaskId) -> PathBuf {
    home.join("states")
        .join(format!("{}.json", encoded_name(task.as_str())))
}

/// Writes the state of a task that is worked on outside of `relight run`; its file.
#[boxed]
pub async fn write_task_state(
    home: &Path,
    engine: &Engine,
    task: &TaskId,
) -> Result<PathBuf, RefreshError> {
    let path = task_state_file(home, task);
    let folder = path.parent().expect("it lies in a folder");
    let made = std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder);
    made.map_err(|source| file_error(folder, source))?;
    write_task_file(engine, &path, task).await?;
    Ok(path)
}

/// Keeps such a file true where there is one. With the end of its task it is gone.
async fn refresh_task_state(
    home: &Path,
    engine: &Engine,
    task: &TaskId,
) -> Result<bool, RefreshError> {
    let path = task_state_file(home, task);
    if !path.exists() {
        return Ok(false);
    }
    write_task_file(engine, &path, task).await
}

async fn write_task_file(
    engine: &Engine,
    path: &Path,
    task: &TaskId,
) -> Result<bool, RefreshError> {
    let mut has_changed = false;
    let mut written_seq = None;
    for _ in 0..ROUNDS_MAX {
        let task = engine.store().task(task).await?;
        let Some(task) = task.filter(|task| !task.status.is_terminal()) else {
            // One that is gone already is what was wanted.
            has_changed |= std::fs::remove_file(path).is_ok();
            break;
        };
        if written_seq == Some(task.seq) {
            break;
        }
        let agent = task.agent.as_ref();
        let state = ActiveState::new(agent, None, None, Some(&task), None, clock::now());
        has_changed |= write_state(path, &state).map_err(|source| file_error(path, source))?;
        written_seq = Some(task.seq);
    }
    Ok(has_changed)
}

fn file_error(path: &Path, source: io::Error) -> RefreshError {
    RefreshError::File {
        path: path.display().to_string(),
        source,
    }
}

fn holding_attempt(task: &Task) -> Option<AttemptTag> {
    AttemptTag::of_holder(&task.lease.held.as_ref()?.holder)
}

/// The agent whose live attempt has this tag: a lease may outlive its attempt for a moment.
async fn agent_of(engine: &Engine, tag: &AttemptTag) -> Result<Option<Agent>, StoreError> {
    let name = tag.agent().and_then(|name| AgentName::new(name).ok());
    let Some(name) = name else { return Ok(None) };
    let agent = engine.store().agent(&name).await?;
    let is_live = |agent: &Agent| matches!(&agent.state, AgentState::Running { attempt, .. } if attempt == tag);
    Ok(agent.filter(is_live))
}

/// As the attempt's start wrote it, else from the newest death.
async fn last_reason(
    engine: &Engine,
    folder: &AgentFolder,
    agent: &Agent,
    tag: &AttemptTag,
) -> Result<Option<String>, StoreError> {
    let there = read_state(&folder.state());
    if let Some(there) = there.filter(|there| there.attempt.as_ref() == Some(tag)) {
        return Ok(there.reason);
    }
    let query = AttemptQuery {
        agent: Some(agent.name.clone()),
        ended: true,
        limit: 1,
        before: None,
    };
    let newest = engine.store().attempts(query).await?.into_iter().next();
    Ok(newest
        .and_then(|attempt| attempt.ended)
        .as_ref()
        .map(reason))
}
