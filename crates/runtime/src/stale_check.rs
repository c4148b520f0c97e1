//! The stale check: unfinished work that nobody has touched for a while, and damaged files. Needs
//! no model, no daemon and no network.

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use relight_core::checkpoint::{Checkpoint, WorkflowStatus};
use relight_core::ids::TaskId;
use relight_core::status::TaskStatus;
use relight_core::time::{Span, Time};
use relight_store::{Rows, Store, StoreError, TaskGlance};

use crate::boxed::boxed;
use crate::checkpoint_files::{CheckpointFolder, ScannedFile, usual_folder};
use crate::dialect::newer_file;
use crate::engine::Engine;

/// Why somebody should look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckFinding {
    /// Unfinished, and older than the threshold.
    Stale {
        /// The task or workflow.
        id: String,
        /// Its status.
        status: String,
        /// Whose it is.
        agent: Option<String>,
        /// How long nobody touched it.
        age: Span,
        /// Its file, when the store does not know it.
        file: Option<PathBuf>,
    },
    /// A file that is no good checkpoint.
    Damaged {
        /// Which.
        file: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

/// What was found.
#[derive(Debug, Default)]
pub struct CheckReport {
    /// One each, in the order of the store, then of the files.
    pub alerts: Vec<CheckFinding>,
    /// Unfinished tasks and files that were looked at.
    pub checked: usize,
}

/// Looks at every unfinished task of the store, and for rows that cannot be read: lists leave them out.
/// What another tool wrote to the file of a workflow counts before its age; it is not taken in here.
#[boxed]
pub async fn check_store(
    engine: &Engine,
    stale: Span,
    now: Time,
) -> Result<CheckReport, StoreError> {
    let store = engine.store();
    let mut alerts = Vec::new();
    let tasks = store.unfinished().await?;
    for task in &tasks {
        let Some(alert) = task_alert(task, stale, now) else {
            continue;
        };
        let whole = store.task(&task.id).await?;
        let file = whole.as_ref().and_then(newer_file);
        let is_well =
            file.is_some_and(|(path, file)| file_alert(path, &file, stale, now).is_none());
        if !is_well {
            alerts.push(alert);
        }
    }
    let damage = store.unreadable(Rows::All).await?;
    if !damage.is_empty() {
        let file = PathBuf::from(store.inventory(false).await?.place);
        alerts.extend(damage.iter().map(|row| CheckFinding::Damaged {
            file: file.clone(),
            reason: row.to_string(),
        }));
    }
    Ok(CheckReport {
        alerts,
        checked: tasks.len(),
    })
}

/// Looks at the checkpoint files of a workspace. Of a workflow that the store knows, only its
/// file's health counts: the store has told the rest.
#[boxed]
pub async fn check_files(
    store: Option<&dyn Store>,
    root: &Path,
    stale: Span,
    now: Time,
) -> Result<CheckReport, CheckError> {
    let folder = checkpoint_folder(root).map_err(|source| CheckError::Folder {
        folder: root.to_path_buf(),
        source,
    })?;
    let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let judged = folder
        .scan_with(threads, |found| Some(judge(found, stale, now)))
        .map_err(|source| CheckError::Folder {
            folder: folder.path().to_path_buf(),
            source,
        })?;
    let mut report = CheckReport {
        alerts: Vec::new(),
        checked: judged.len(),
    };
    let known = match store {
        Some(store) => store
            .unfinished()
            .await?
            .into_iter()
            .map(|task| task.id)
            .collect(),
        None => HashSet::new(),
    };
    let empty = match store {
        Some(store) => store.newest_event().await? == 0,
        None => true,
    };
    for alert in judged.into_iter().flatten() {
        let told = match (&alert, store) {
            (CheckFinding::Stale { id, .. }, Some(store)) if !empty => {
                match TaskId::new(id.as_str()) {
                    Ok(id) => known.contains(&id) || store.task(&id).await?.is_some(),
                    Err(_) => false,
                }
            }
            _ => false,
        };
        if !told {
            report.alerts.push(alert);
        }
    }
    Ok(report)
}

/// Why a check could not be made.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The folder cannot be read.
    #[error("cannot read {}", .folder.display())]
    Folder {
        /// Which.
        folder: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A workspace keeps them in `memory/checkpoints`; a folder without that is taken as it is.
fn checkpoint_folder(root: &Path) -> std::io::Result<CheckpointFolder> {
    let usual = usual_folder(root)?;
    Ok(CheckpointFolder::at(if usual.is_dir() {
        usual
    } else {
        root.to_path_buf()
    }))
}

fn task_alert(task: &TaskGlance, stale: Span, now: Time) -> Option<CheckFinding> {
    (stale_in(task, stale, now) == Some(Span::ZERO)).then(|| CheckFinding::Stale {
        id: task.id.to_string(),
        status: task.status.to_string(),
        agent: task.agent.as_ref().map(ToString::to_string),
        age: now.since(task.updated_at),
        file: None,
    })
}

/// How long until a task is stale if nobody touches it; zero when it is, none when it never will be.
/// What waits for its time on purpose is not stale before, and what is expired nobody wants.
pub(crate) fn stale_in(task: &TaskGlance, stale: Span, now: Time) -> Option<Span> {
    if task.expires_at.is_some_and(|at| at <= now) {
        return None;
    }
    let is_deferred = task.status == TaskStatus::Deferred;
    let waits_for = task
        .not_before
        .filter(|at| is_deferred && *at > now)
        .map(|at| at.since(now));
    let left = stale
        .as_ms()
        .saturating_sub(now.since(task.updated_at).as_ms());
    Some(waits_for.unwrap_or_default().max(Span::from_ms(left)))
}

fn judge(found: ScannedFile, stale: Span, now: Time) -> Option<CheckFinding> {
    match found {
        ScannedFile::Damaged { path, reason } => Some(CheckFinding::Damaged {
            file: path,
            reason: reason.to_string(),
        }),
        ScannedFile::Good { path, checkpoint } => file_alert(path, &checkpoint, stale, now),
    }
}

fn file_alert(
    path: PathBuf,
    checkpoint: &Checkpoint,
    stale: Span,
    now: Time,
) -> Option<CheckFinding> {
    let finished = checkpoint.status == WorkflowStatus::Done;
    let expired = checkpoint
        .expires_at
        .is_some_and(|at| Time::from(at) <= now);
    let age = now.since(Time::from(checkpoint.updated_at));
    (!finished && !expired && age >= stale).then(|| CheckFinding::Stale {
        id: checkpoint.workflow_id.clone(),
        status: checkpoint.status.as_str().to_owned(),
        agent: Some(checkpoint.agent_id.clone()),
        age,
        file: Some(path),
    })
}
