//! The file copy of a workflow.

use std::fs::File;
use std::io;
use std::path::Path;

use relight_core::checkpoint::{Checkpoint, Extra, SchemaVersion, Status};
use relight_core::ids::TaskId;
use relight_core::status::TaskStatus;
use relight_core::time::Time;
use rustix::fs::{FlockOperation, flock};

use super::{Dialect, DialectError, Saved, SetAside};
use crate::checkpoint_files::{CheckpointFolder, ReadError};
use crate::doors::clock;
use crate::engine::TaskView;

/// The dialect's document of a task.
pub fn document(view: &TaskView) -> Checkpoint {
    let (task, progress) = (&view.task, &view.progress);
    let door = task.checkpoint.as_ref();
    Checkpoint {
        schema_version: SchemaVersion::default(),
        workflow_id: task.id.to_string(),
        agent_id: task.agent.as_ref().map(ToString::to_string).unwrap_or_default(),
        status: dialect_status(task.status),
        current_step: progress.next_step.clone().filter(|_| !task.status.is_terminal()),
        completed_steps: progress.done_steps.clone(),
        remaining_steps: progress.remaining_steps.clone(),
        handoff_to: door.and_then(|door| door.handoff_to.clone()),
        notes: door.and_then(|door| door.notes.clone()),
        idempotency_key: task.spec.key.as_ref().map(ToString::to_string).unwrap_or_default(),
        updated_at: task.updated_at.as_timestamp(),
        expires_at: task.expires_at.map(Time::as_timestamp),
        fence: task.lease.fence.0,
        seq: task.seq,
        context: task.context.clone(),
        extra: Extra::default(),
    }
}

/// The dialect has four words: what is not blocked, done or failed is in progress.
pub(super) fn dialect_status(status: TaskStatus) -> Status {
    match status {
        TaskStatus::Blocked | TaskStatus::Suspended => Status::Blocked,
        TaskStatus::Completed => Status::Done,
        TaskStatus::Failed | TaskStatus::Cancelled => Status::Failed,
        TaskStatus::Created
        | TaskStatus::Assigned
        | TaskStatus::InProgress
        | TaskStatus::InReview
        | TaskStatus::Deferred
        | TaskStatus::Interrupted => Status::InProgress,
    }
}

impl Dialect {
    /// Writes the file from what the store has now.
    pub(super) async fn save(&self, id: &TaskId) -> Result<Saved, DialectError> {
        let folder = self.folder_of(id).await?;
        let folder = folder.as_ref().unwrap_or(&self.folder);
        let mut set_aside = Vec::new();
        let file = folder.path_of(id.as_str());
        let (view, written) = match lock(folder.path()) {
            // Under the lock the newest state is read last, so an older one never replaces it.
            Ok(_lock) => {
                let view = self.view(id).await?;
                let written = mend(folder, id, &mut set_aside)
                    .and_then(|()| folder.write(id.as_str(), &document(&view).seal()));
                (view, written)
            }
            Err(error) => (self.view(id).await?, Err(error)),
        };
        Ok(Saved { view, file, copy_error: written.err(), set_aside })
    }

    /// A workflow's file stays where it was started; only one that never had a file gets it here.
    async fn folder_of(&self, id: &TaskId) -> Result<Option<CheckpointFolder>, DialectError> {
        let task = self.engine.task(id).await?;
        let own = task.checkpoint.map(|door| door.folder);
        let elsewhere = own.filter(|own| *own != self.folder_text());
        Ok(elsewhere.map(CheckpointFolder::at))
    }
}

/// Sets a damaged file of this workflow aside before it is written anew.
fn mend(folder: &CheckpointFolder, id: &TaskId, set_aside: &mut Vec<SetAside>) -> io::Result<()> {
    match folder.read(id.as_str()) {
        Ok(_) => Ok(()),
        Err(ReadError::Io { source, .. }) => Err(source),
        Err(ReadError::Damaged { path, reason }) => {
            let now_at = folder.quarantine(&path, &reason, clock::now().as_timestamp())?;
            let reason = reason.to_string();
            set_aside.push(SetAside { file: path, reason, now_at: Some(now_at) });
            Ok(())
        }
    }
}

/// One writer of the folder at a time; freed with the handle. The folder is made when it is absent.
fn lock(folder: &Path) -> io::Result<File> {
    let open = || File::open(folder);
    let handle = match open() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            CheckpointFolder::at(folder).make()?;
            open()?
        }
        other => other?,
    };
    flock(&handle, FlockOperation::LockExclusive)?;
    Ok(handle)
}
