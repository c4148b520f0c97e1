//! The file copy of a workflow.

use std::collections::HashSet;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use relight_core::change::Change;
use relight_core::checkpoint::{Checkpoint, Extra, SchemaVersion, WorkflowStatus};
use relight_core::decide::Guard;
use relight_core::event::EventKind;
use relight_core::ids::{StepName, TaskId};
use relight_core::status::TaskStatus;
use relight_core::time::Time;
use relight_redact::Redactor;
use relight_store::Commit;
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;

use super::{Dialect, Saved, SetAside};
use crate::boxed::boxed;
use crate::checkpoint_files::{CheckpointFolder, ReadError};
use crate::engine::{ActError, TaskSnapshot, act_error};
use crate::os::clock;
use crate::redact_input::clean_step_name;

/// The dialect's document of a task.
pub fn document(view: &TaskSnapshot) -> Checkpoint {
    let (task, progress) = (&view.task, &view.progress);
    let settings = task.checkpoint.as_ref();
    let current = current(view);
    Checkpoint {
        schema_version: SchemaVersion::default(),
        workflow_id: task.id.to_string(),
        agent_id: task
            .agent
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default(),
        status: dialect_status(task.status),
        remaining_steps: remaining(view, current.as_deref()),
        current_step: current,
        completed_steps: progress.done_steps.clone(),
        handoff_to: settings.and_then(|settings| settings.handoff_to.clone()),
        notes: settings.and_then(|settings| settings.notes.clone()),
        idempotency_key: task
            .spec
            .key
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default(),
        updated_at: task.updated_at.as_timestamp(),
        expires_at: task.expires_at.map(Time::as_timestamp),
        fence: task.lease.fence.0,
        seq: task.seq,
        context: task.context.clone(),
        extra: Extra::default(),
        foreign: false,
    }
}

/// The step that was begun last and not ended; else the first that is not finished.
fn current(view: &TaskSnapshot) -> Option<String> {
    if view.task.status.is_terminal() {
        return None;
    }
    let begun = view
        .steps
        .iter()
        .filter(|step| step.is_open())
        .max_by_key(|step| step.at);
    begun
        .map(|step| step.key.to_string())
        .or_else(|| view.progress.next_step.clone())
}

/// What is still to do beside the current step, in doubt or not begun.
fn remaining(view: &TaskSnapshot, current: Option<&str>) -> Vec<String> {
    let progress = &view.progress;
    let all = progress
        .in_doubt
        .iter()
        .chain(&progress.next_step)
        .chain(&progress.remaining_steps);
    let mut seen = HashSet::new();
    all.filter(|name| Some(name.as_str()) != current && seen.insert(name.as_str()))
        .cloned()
        .collect()
}

/// The dialect has four words: what is not blocked, done or failed is in progress.
pub(super) fn dialect_status(status: TaskStatus) -> WorkflowStatus {
    match status {
        TaskStatus::Blocked | TaskStatus::Suspended => WorkflowStatus::Blocked,
        TaskStatus::Completed => WorkflowStatus::Done,
        TaskStatus::Failed | TaskStatus::Cancelled => WorkflowStatus::Failed,
        TaskStatus::Created
        | TaskStatus::Assigned
        | TaskStatus::InProgress
        | TaskStatus::InReview
        | TaskStatus::Deferred
        | TaskStatus::Interrupted => WorkflowStatus::InProgress,
    }
}

impl Dialect {
    /// Writes the file from what the store has now.
    #[boxed]
    pub async fn save(&self, id: &TaskId) -> Result<Saved, ActError> {
        self.save_over(id, None).await
    }

    /// The same, when the store has everything of `seen`: nothing is lost with that file.
    pub(super) async fn save_over(
        &self,
        id: &TaskId,
        seen: Option<&Checkpoint>,
    ) -> Result<Saved, ActError> {
        let folder = self.folder_of(id).await?;
        let mut set_aside = Vec::new();
        let file = folder.path_of(id.as_str());
        let (view, written) = match lock(folder.path()) {
            // Under the lock the newest state is read last, so an older one never replaces it.
            Ok(_lock) => {
                let view = self.view(id).await?;
                let written = match view.task.checkpoint {
                    Some(_) => {
                        let redactor = self.engine.redactor();
                        let is_known = |file: &Checkpoint| {
                            Some(file) == seen || !holds_more(file, &view, redactor)
                        };
                        replace(&folder, &view, is_known, &mut set_aside)
                    }
                    // A task that ended before it had a file needs none.
                    None => Ok(()),
                };
                (view, written)
            }
            Err(error) => (self.view(id).await?, Err(error)),
        };
        for report in &set_aside {
            // The caller is told by the report itself; an event that cannot be written is no reason
            // to deny what was committed.
            let _ = self.note_damage(id, report).await;
        }
        Ok(Saved {
            view,
            file,
            copy_error: written.err(),
            set_aside,
        })
    }

    /// History keeps that a file was set aside; the task itself is as it was.
    async fn note_damage(&self, id: &TaskId, report: &SetAside) -> Result<(), ActError> {
        let mut detail = serde_json::json!({
            "file": report.file, "reason": report.reason, "now_at": report.now_at,
        });
        self.engine.redactor().json(&mut detail);
        let commit = Commit {
            task: id.clone(),
            guard: Guard::default(),
            at: clock::now(),
            changes: vec![Change::Noted(EventKind::CheckpointDamaged, detail)],
        };
        self.engine
            .store()
            .commit(commit)
            .await
            .map_err(act_error)?;
        Ok(())
    }

    /// A workflow's file stays where it was started; only one that never had a file gets it here.
    pub(super) async fn folder_of(&self, id: &TaskId) -> Result<CheckpointFolder, ActError> {
        let task = self.engine.task(id).await?;
        let own = task
            .checkpoint
            .map_or_else(|| self.folder_text(), |settings| settings.folder);
        Ok(CheckpointFolder::at(own))
    }
}

/// Writes the file of a workflow. What was there before and is damaged, or holds what the store does
/// not know, is set aside first.
fn replace(
    folder: &CheckpointFolder,
    view: &TaskSnapshot,
    is_known: impl Fn(&Checkpoint) -> bool,
    set_aside: &mut Vec<SetAside>,
) -> io::Result<()> {
    let id = view.task.id.as_str();
    let plain = folder
        .plain_path_of(id)
        .map(|path| (path, folder.read_plain(id)));
    for (file, found) in [(folder.path_of(id), folder.read_own(id))]
        .into_iter()
        .chain(plain)
    {
        let (reason, is_damaged) = match found {
            Ok(Some(checkpoint)) if !is_known(&checkpoint) => {
                let at = checkpoint.updated_at;
                (
                    format!("another tool wrote it at {at}, and the store does not have all of it"),
                    false,
                )
            }
            Ok(_) => continue,
            Err(ReadError::Damaged { reason, .. }) => (reason.to_string(), true),
            // What nobody may read is no copy; it can still be moved.
            Err(ReadError::Io { source, .. })
                if source.kind() == io::ErrorKind::PermissionDenied =>
            {
                (format!("cannot be read: {source}"), true)
            }
            Err(ReadError::Io { source, .. }) => return Err(source),
        };
        let now_at = folder.quarantine(&file, &reason, clock::now().as_timestamp())?;
        set_aside.push(SetAside {
            file,
            reason,
            is_damaged,
            now_at: Some(now_at),
        });
    }
    folder.write(id, &document(view).seal())?;
    folder.remove_plain(id).map(|_| ())
}

/// Whether a file is not one that this store wrote for the task: it is in the form of another tool, was
/// written after the last change, or says something else than the store had at that time. The number
/// of commits proves nothing by itself, for every store counts its own.
pub(super) fn is_from_elsewhere(
    file: &Checkpoint,
    view: &TaskSnapshot,
    redactor: &Redactor,
) -> bool {
    file.foreign
        || Time::from(file.updated_at) > view.task.updated_at
        || holds_more(file, view, redactor)
}

/// Whether another writer put something into a file that would be lost with it.
fn holds_more(file: &Checkpoint, view: &TaskSnapshot, redactor: &Redactor) -> bool {
    let ours = document(view);
    let differs = |theirs: &str, ours: &str| !is_kept_as(redactor, theirs, ours);
    let done: HashSet<&str> = ours.completed_steps.iter().map(String::as_str).collect();
    let is_done = |step: &String| {
        done.contains(step.as_str())
            || done.contains(&*redactor.text(step))
            || step_name_here(redactor, step).is_some_and(|name| done.contains(name.as_str()))
    };
    let is_same_run = !differs(&file.idempotency_key, &ours.idempotency_key);
    let has_more_steps = !file.completed_steps.iter().all(is_done);
    // A file of this store that is behind differs from it, but for finished steps of the same run.
    let is_behind =
        !file.foreign && file.seq < ours.seq && Time::from(file.updated_at) <= view.task.updated_at;
    if is_behind {
        return is_same_run && has_more_steps;
    }
    has_more_steps
        || !is_same_run
        || file.status != ours.status
        || differs(
            file.notes.as_deref().unwrap_or_default(),
            ours.notes.as_deref().unwrap_or_default(),
        )
}

/// Whether the store has a text of a file, as it is or redacted: what is redacted depends on who reads it.
pub(super) fn is_kept_as(redactor: &Redactor, theirs: &str, ours: &str) -> bool {
    theirs == ours
        || redactor.text(theirs) == ours
        || step_name_here(redactor, theirs).is_some_and(|name| name.as_str() == ours)
}

/// The name that a step of a file has in the store.
fn step_name_here(redactor: &Redactor, theirs: &str) -> Option<StepName> {
    let mut name = StepName::new(theirs).ok()?;
    clean_step_name(redactor, &mut name);
    Some(name)
}

/// Removes the file of a workflow that is about to be forgotten, beside no other writer.
pub fn remove(folder: &Path, id: &TaskId) -> io::Result<()> {
    if !folder.is_dir() {
        return Ok(());
    }
    let _lock = lock(folder)?;
    CheckpointFolder::at(folder).remove(id.as_str()).map(|_| ())
}

/// Removes what writers that died left in a folder beside its files, or only counts it; answers how many.
pub fn sweep(folder: &Path, dry_run: bool) -> io::Result<usize> {
    if !folder.is_dir() {
        return Ok(0);
    }
    let _lock = lock(folder)?;
    CheckpointFolder::at(folder).sweep_temporary_files(dry_run)
}

/// One writer of the folder at a time; freed with the handle. The folder is made when it is absent.
fn lock(folder: &Path) -> io::Result<OwnedFd> {
    CheckpointFolder::at(folder).check_links()?;
    // Nothing but a folder: a pipe in its place would be waited for.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let open = || rustix::fs::open(folder, flags, Mode::empty());
    let handle = match open() {
        Err(Errno::NOENT) => {
            CheckpointFolder::at(folder).make()?;
            open()?
        }
        other => other?,
    };
    flock(&handle, FlockOperation::LockExclusive)?;
    Ok(handle)
}
