//! Removing what nobody wants any more: expired work, and finished work that is old.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use relight_core::event::EventKind;
use relight_core::ids::{SessionKey, TaskId};
use relight_core::session::{Session, SessionStateKind};
use relight_core::task::Task;
use relight_core::time::{Span, Time};
use relight_store::{AttemptQuery, EventQuery, SessionQuery, TaskQuery};

use crate::boxed::boxed;
use crate::dialect;
use crate::engine::{ActError, Engine};

/// How many tasks are removed in one commit.
const BATCH: usize = 256;

/// A task that goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Which.
    pub id: TaskId,
    /// Why: `expired` or `finished`.
    pub why: &'static str,
    seq: u64,
    folder: Option<String>,
}

/// What was removed, or would be.
#[derive(Debug, Default)]
pub struct Pruned {
    /// Tasks.
    pub tasks: Vec<TaskId>,
    /// Events that belonged to no step.
    pub events: u64,
    /// Ended attempts with their post-mortems, but the newest of each agent.
    pub attempts: u64,
    /// Sessions that were idle, or expired.
    pub sessions: u64,
    /// Temporary files that dead writers left beside checkpoint files.
    pub temporary_files: usize,
    /// Tasks that stay because their file could not be removed, with the reason.
    pub files_left: Vec<(String, std::io::Error)>,
}

/// What a look at every task found.
#[derive(Debug, Default)]
pub struct Candidates {
    /// The tasks that go.
    pub tasks: Vec<Candidate>,
    /// Every folder that a task has a checkpoint file in.
    pub folders: BTreeSet<PathBuf>,
}

/// What would go: expired tasks that nobody holds, and finished ones older than the limit.
#[boxed]
pub async fn candidates(
    engine: &Engine,
    older_than: Span,
    now: Time,
) -> Result<Candidates, ActError> {
    let mut found = Candidates::default();
    let mut after = None;
    loop {
        let query = TaskQuery {
            after,
            limit: Some(1_000),
            ..TaskQuery::default()
        };
        let tasks = engine.store().tasks(query).await?;
        let Some(last) = tasks.last() else {
            return Ok(found);
        };
        after = Some(last.id.clone());
        let leases = tasks.iter().filter_map(|task| task.lease.held.as_ref());
        engine.holders().look_for(leases).await?;
        found.tasks.extend(tasks.iter().filter_map(|task| {
            let is_held = engine.holders().is_held(&task.lease);
            candidate(task, is_held, older_than, now)
        }));
        let settings = tasks.into_iter().filter_map(|task| task.checkpoint);
        found
            .folders
            .extend(settings.map(|settings| PathBuf::from(settings.folder)));
    }
}

fn candidate(task: &Task, is_held: bool, older_than: Span, now: Time) -> Option<Candidate> {
    let old = now.since(task.updated_at) >= older_than;
    let why = match (task.status.is_terminal(), task.is_expired(now)) {
        (true, _) if old => "finished",
        (_, true) if !is_held => "expired",
        _ => return None,
    };
    let folder = task
        .checkpoint
        .as_ref()
        .map(|settings| settings.folder.clone());
    Some(Candidate {
        id: task.id.clone(),
        why,
        seq: task.seq,
        folder,
    })
}

/// A session that goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OldSession {
    /// Which.
    pub key: SessionKey,
    /// Why: `idle` or `expired`.
    pub why: &'static str,
    seq: u64,
}

/// Which sessions would go: those that are idle or expired and older than the limit.
#[boxed]
pub async fn old_sessions(
    engine: &Engine,
    older_than: Span,
    now: Time,
) -> Result<Vec<OldSession>, ActError> {
    let mut found = Vec::new();
    let mut after = None;
    loop {
        let query = SessionQuery {
            after,
            limit: Some(1_000),
            ..SessionQuery::default()
        };
        let sessions = engine.store().sessions(query).await?;
        let Some(last) = sessions.last() else {
            return Ok(found);
        };
        after = Some(last.key.clone());
        found.extend(
            sessions
                .iter()
                .filter_map(|session| old_session(session, older_than, now)),
        );
    }
}

fn old_session(session: &Session, older_than: Span, now: Time) -> Option<OldSession> {
    let why = match session.state_at(now) {
        SessionStateKind::Idle => "idle",
        SessionStateKind::Expired => "expired",
        SessionStateKind::Active
        | SessionStateKind::ResumePending
        | SessionStateKind::Suspended => return None,
    };
    let is_old = now.since(session.updated_at) >= older_than;
    is_old.then(|| OldSession {
        key: session.key.clone(),
        why,
        seq: session.seq,
    })
}

/// Removes them, each only if nobody has touched it since; answers how many.
async fn prune_sessions(engine: &Engine, found: &[OldSession]) -> Result<u64, ActError> {
    let mut removed = 0;
    for batch in found.chunks(BATCH) {
        let batch = batch.iter().map(|one| (one.key.clone(), one.seq)).collect();
        removed += engine.store().forget_sessions(batch).await?;
    }
    Ok(removed)
}

/// Removes them, each only if nobody has touched it since, old events, and what dead writers left in
/// the folders of checkpoint files; `tell` hears of progress.
pub async fn prune(
    engine: &Engine,
    found: &Candidates,
    older_than: Span,
    now: Time,
    mut tell: impl FnMut(usize),
) -> Result<Pruned, ActError> {
    let mut pruned = Pruned::default();
    for batch in found.tasks.chunks(BATCH) {
        let mut wanted = Vec::with_capacity(batch.len());
        for one in batch {
            // The file goes first: one that outlived its task would be taken in as new work.
            match one
                .folder
                .as_ref()
                .map(|folder| dialect::remove(Path::new(folder), &one.id))
            {
                Some(Err(error)) => pruned.files_left.push((one.id.to_string(), error)),
                None | Some(Ok(())) => wanted.push((one.id.clone(), one.seq)),
            }
        }
        let removed = engine.store().forget(wanted, now).await?;
        pruned.tasks.extend(removed);
        tell(pruned.tasks.len());
    }
    let before = limit(older_than, now);
    pruned.events = engine.store().forget_events(before).await?;
    pruned.attempts = engine.store().forget_attempts(before).await?;
    let sessions = old_sessions(engine, older_than, now).await?;
    pruned.sessions = prune_sessions(engine, &sessions).await?;
    for folder in &found.folders {
        // A folder of another machine or user is theirs to sweep.
        pruned.temporary_files += dialect::sweep(folder, false).unwrap_or(0);
    }
    Ok(pruned)
}

/// Counts what [`prune`] would remove, and changes nothing.
pub async fn foresee(
    engine: &Engine,
    found: &Candidates,
    older_than: Span,
    now: Time,
) -> Result<Pruned, ActError> {
    let before = limit(older_than, now);
    let tasks: Vec<TaskId> = found.tasks.iter().map(|one| one.id.clone()).collect();
    let sessions = old_sessions(engine, older_than, now).await?.len() as u64;
    let sweep = |folder: &PathBuf| dialect::sweep(folder, true).unwrap_or(0);
    Ok(Pruned {
        events: old_events(engine, &tasks, before).await?,
        attempts: old_attempts(engine, before).await?,
        sessions,
        temporary_files: found.folders.iter().map(sweep).sum(),
        tasks,
        ..Pruned::default()
    })
}

fn limit(older_than: Span, now: Time) -> Time {
    Time::from_ms(now.as_ms().saturating_sub_unsigned(older_than.as_ms()))
}

/// How many events would go by `forget_events` once these tasks have gone with theirs.
async fn old_events(engine: &Engine, tasks: &[TaskId], before: Time) -> Result<u64, ActError> {
    let store = engine.store();
    let tasks: HashSet<&TaskId> = tasks.iter().collect();
    // The newest stays; after a task was removed, that is the event which says so.
    let newest = match tasks.is_empty() {
        true => store.newest_event().await?,
        false => u64::MAX,
    };
    let (mut after, mut count) = (0, 0);
    loop {
        let kinds = EventKind::ALL.into_iter();
        let query = EventQuery {
            after,
            before: None,
            task: None,
            agent: None,
            kinds: kinds.filter(|kind| !kind.is_of_steps()).collect(),
            limit: 1_000,
            newest: false,
        };
        let events = store.events(query).await?;
        let Some(last) = events.last() else {
            return Ok(count);
        };
        after = last.id;
        let stays = |task: &TaskId| !tasks.contains(task);
        let old = events.iter().filter(|event| {
            event.at < before && event.id != newest && event.task.as_ref().is_none_or(stays)
        });
        count += old.count() as u64;
    }
}

/// How many attempts would go by `forget_attempts`.
async fn old_attempts(engine: &Engine, before: Time) -> Result<u64, ActError> {
    let query = AttemptQuery {
        agent: None,
        ended: false,
        before: None,
        limit: usize::MAX,
    };
    let mut agents = HashSet::new();
    let attempts = engine.store().attempts(query).await?;
    // The first of each agent is its newest, which stays.
    let old = attempts.into_iter().filter(|attempt| {
        !agents.insert(attempt.agent.clone())
            && attempt.ended.is_some()
            && attempt.begun_at < before
    });
    Ok(old.count() as u64)
}
