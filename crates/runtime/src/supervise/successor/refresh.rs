//! Keeps `active_state.json` true while an attempt works: whoever changed its task writes it anew.

use std::io;
use std::path::Path;

use relight_core::agent::active_state::{ActiveState, reason};
use relight_core::agent::{Agent, AgentState, AttemptTag};
use relight_core::ids::AgentName;
use relight_core::lease::Holder;
use relight_core::task::Task;
use relight_store::{AttemptQuery, StoreError};

use super::file::{read_state, write_state};
use crate::doors::clock;
use crate::engine::Engine;
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
    let Some(tag) = holding_attempt(task) else { return Ok(false) };
    let Some(agent) = agent_of(engine, &tag).await? else { return Ok(false) };
    let folder = AgentFolder::of(home, &agent.name);
    let reason = last_reason(engine, &folder, &agent, &tag).await?;
    let mut has_changed = false;
    let mut written_seq = None;
    for _ in 0..ROUNDS_MAX {
        let Some(task) = engine.store().task(&task.id).await? else { break };
        let is_current = written_seq == Some(task.seq);
        if is_current || holding_attempt(&task).as_ref() != Some(&tag) {
            break;
        }
        let session = agent.session.as_deref();
        let now = clock::now();
        let state = ActiveState::new(&agent.name, &tag, session, Some(&task), reason.clone(), now);
        has_changed |= write_state(&folder, &state).map_err(|source| RefreshError::File {
            path: folder.state().display().to_string(),
            source,
        })?;
        written_seq = Some(task.seq);
    }
    Ok(has_changed)
}

fn holding_attempt(task: &Task) -> Option<AttemptTag> {
    match &task.lease.held.as_ref()?.holder {
        Holder::Attempt { attempt, .. } => Some(AttemptTag::from_text(attempt)),
        Holder::Process(_) | Holder::Time { .. } => None,
    }
}

/// The agent whose live attempt has this tag: a lease may outlive its attempt for a moment.
async fn agent_of(engine: &Engine, tag: &AttemptTag) -> Result<Option<Agent>, StoreError> {
    let name = tag.as_str().rsplitn(3, '.').nth(2).and_then(|name| AgentName::new(name).ok());
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
    if let Some(there) = read_state(folder).filter(|there| there.attempt == *tag) {
        return Ok(there.reason);
    }
    let query =
        AttemptQuery { agent: Some(agent.name.clone()), ended: true, limit: 1, before: None };
    let newest = engine.store().attempts(query).await?.into_iter().next();
    Ok(newest.and_then(|attempt| attempt.ended).as_ref().map(reason))
}
