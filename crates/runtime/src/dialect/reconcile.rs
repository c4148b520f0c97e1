//! Reconciles the store with a workflow file that another writer has changed.
//!
//! The original script writes files only, and the store of another home has its own count of commits.
//! What they wrote counts as a write without a fence: the store takes it in before anything else is
//! written over the file. Steps that the store has finished stay finished.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use relight_core::checkpoint::{Checkpoint, WorkflowStatus};
use relight_core::decide::{Guard, Refusal, Right, TaskEvent};
use relight_core::event::EventKind;
use relight_core::ids::{IdError, StepName, TaskId};
use relight_core::task::Task;
use relight_core::time::Time;
use relight_store::Commit;

use super::copy::{dialect_status, is_from_elsewhere, is_kept_as};
use super::{Dialect, UpdateRequest};
use crate::boxed::BoxFuture;
use crate::checkpoint_files::{CheckpointFolder, ReadError};
use crate::engine::{ActError, Engine, TaskSnapshot, WorkflowError, act_error};
use crate::os::clock;
use crate::redact_input;

/// The intake of checkpoint files for an engine (`Engine::with_file_intake`).
pub fn take_in_file(engine: Engine, task: &Task) -> BoxFuture<'_, bool> {
    let Some(settings) = &task.checkpoint else {
        return Box::pin(std::future::ready(false));
    };
    let dialect = Dialect::new(engine, PathBuf::from(&settings.folder));
    Box::pin(async move { dialect.reconcile_before(task).await })
}

/// The good file of a workflow that was written no earlier than the store's record of it.
pub(crate) fn newer_file(task: &Task) -> Option<(PathBuf, Checkpoint)> {
    let folder = CheckpointFolder::at(PathBuf::from(&task.checkpoint.as_ref()?.folder));
    let file = folder.read(task.id.as_str()).ok().flatten()?;
    is_newer(&file, task).then(|| (folder.path_of(task.id.as_str()), file))
}

impl Dialect {
    /// Takes in what the file of a workflow has and the store has not; answers the file when the store
    /// has all of it now.
    ///
    /// A damaged file is left to whoever writes it anew.
    pub(super) async fn reconcile(&self, id: &TaskId) -> Result<Option<Checkpoint>, ActError> {
        let folder = self.folder_of(id).await?;
        let file = match folder.read(id.as_str()) {
            Ok(Some(file)) => file,
            Ok(None) | Err(ReadError::Damaged { .. } | ReadError::Io { .. }) => return Ok(None),
        };
        let path = folder.path_of(id.as_str());
        // Read after the file: the store is never behind a file of our own.
        let view = self.view(id).await?;
        if view.task.checkpoint.is_none() {
            return Ok(None);
        }
        if !is_from_elsewhere(&file, &view, self.engine.redactor()) {
            return Ok(Some(file));
        }
        let is_newer = is_newer(&file, &view.task);
        let key = view
            .task
            .spec
            .key
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default();
        let is_same_run = is_kept_as(self.engine.redactor(), &file.idempotency_key, &key);
        let completed: HashSet<&String> = file.completed_steps.iter().collect();
        let mut done = view.progress.done_steps.iter();
        let has_all_steps = done.all(|step| completed.contains(step));
        // A store that was put back from a backup has the beginning of what the file says.
        let is_restored = file.seq > view.task.seq && has_all_steps;
        let mut is_replaced = false;
        if is_newer && (is_restored || !is_same_run) {
            match self.take_in(&path, &file, false).await {
                // Whoever holds it here continues with what was done elsewhere.
                Err(ActError::Refused(Refusal::Held { .. })) if is_same_run => {}
                taken => is_replaced = taken.map(|_| true)?,
            }
        }
        if !is_replaced && is_same_run && (is_newer || file.foreign) {
            self.merge(&path, &file, &view, is_newer).await?;
        }
        Ok(is_newer.then_some(file))
    }

    /// Adds what the file has and the store has not.
    async fn merge(
        &self,
        path: &Path,
        file: &Checkpoint,
        view: &TaskSnapshot,
        is_newer: bool,
    ) -> Result<(), ActError> {
        let id = &view.task.id;
        let mut request = news(file, view, is_newer).map_err(|source| WorkflowError::BadName {
            file: path.to_path_buf(),
            source,
        })?;
        let steps = view.steps.iter().map(|step| &step.key.name);
        let known: HashSet<&StepName> = steps.chain(&view.task.spec.steps).collect();
        let names = request.complete.iter_mut().chain(&mut request.step);
        names
            .chain(&mut request.remaining)
            .filter(|name| !known.contains(&**name))
            .for_each(|name| redact_input::clean_step_name(self.engine.redactor(), name));
        let mut context = file.context.clone();
        redact_input::clean_pairs(self.engine.redactor(), &mut context);
        context.retain(|key, value| view.task.context.get(key) != Some(value));
        let has_context = is_newer && !context.is_empty() && !view.task.status.is_terminal();
        if has_context {
            let plan = |_: &TaskSnapshot| Ok::<_, ActError>(vec![TaskEvent::Set(context.clone())]);
            self.engine.act_in_turn(id, Right::Dialect, plan).await?;
        }
        let has_news = request != UpdateRequest::default();
        if has_news {
            self.apply(id, Right::Dialect, &request).await?;
        }
        if has_news || has_context {
            self.note_taken_up(id, path, file).await?;
        }
        Ok(())
    }

    /// The same before a verb that is not the dialect's decides, so that the verb has the last word.
    /// Answers whether the store was changed. The file is written anew at once: whoever writes it after
    /// the verb must not take it for news again.
    async fn reconcile_before(&self, task: &Task) -> bool {
        let Ok(Some(file)) = self.folder.read(task.id.as_str()) else {
            return false;
        };
        let Ok(view) = self.view(&task.id).await else {
            return false;
        };
        if !is_from_elsewhere(&file, &view, self.engine.redactor()) {
            return false;
        }
        let seen = self.reconcile(&task.id).await.ok().flatten();
        if seen.is_some() {
            // Where that fails, the write after the verb sets the old file aside.
            let _ = self.save_over(&task.id, seen.as_ref()).await;
        }
        let now = self.engine.task(&task.id).await;
        now.is_ok_and(|now| now.seq != task.seq)
    }

    async fn note_taken_up(
        &self,
        id: &TaskId,
        path: &Path,
        file: &Checkpoint,
    ) -> Result<(), ActError> {
        let mut detail = serde_json::json!({"file": path, "seq": file.seq});
        self.engine.redactor().json(&mut detail);
        let commit = Commit {
            task: id.clone(),
            guard: Guard::default(),
            at: clock::now(),
            changes: vec![relight_core::change::Change::Noted(
                EventKind::CheckpointImported,
                detail,
            )],
        };
        self.engine
            .store()
            .commit(commit)
            .await
            .map_err(act_error)?;
        Ok(())
    }
}

/// Whether a file was written after the task was changed last. Within a second, where its writer has
/// cut off the rest.
fn is_newer(file: &Checkpoint, task: &Task) -> bool {
    let (written, changed) = (Time::from(file.updated_at).as_ms(), task.updated_at.as_ms());
    let is_cut = file.foreign && written % 1_000 == 0;
    written
        >= if is_cut {
            changed - changed % 1_000
        } else {
            changed
        }
}

/// What a file has and the store has not. Finished steps always count; the rest only when the file
/// was written last.
fn news(file: &Checkpoint, view: &TaskSnapshot, is_newer: bool) -> Result<UpdateRequest, IdError> {
    let done: HashSet<&String> = view.progress.done_steps.iter().collect();
    let is_done = |step: &&String| done.contains(step);
    let complete: Vec<StepName> = file
        .completed_steps
        .iter()
        .filter(|step| !is_done(step))
        .map(StepName::new)
        .collect::<Result<_, _>>()?;
    let mut request = UpdateRequest {
        complete,
        ..UpdateRequest::default()
    };
    if !is_newer {
        return Ok(request);
    }
    let declared = view.task.spec.steps.iter().map(StepName::as_str);
    let declared: HashSet<&str> = declared.collect();
    request.remaining = file
        .remaining_steps
        .iter()
        .filter(|step| !declared.contains(step.as_str()))
        .map(StepName::new)
        .collect::<Result<_, _>>()?;
    let current = file.current_step.as_ref().filter(|step| {
        let is_open = view
            .steps
            .iter()
            .any(|known| known.is_open() && known.key.to_string() == **step);
        !is_open && !is_done(step) && !file.completed_steps.contains(step)
    });
    if file.status == WorkflowStatus::InProgress {
        request.step = current.map(StepName::new).transpose()?;
    }
    let works = !request.complete.is_empty() || request.step.is_some();
    let differs = file.status != dialect_status(view.task.status);
    // Work on steps wakes a workflow; one that the file calls blocked is blocked again.
    if differs || (works && file.status != WorkflowStatus::InProgress) {
        request.status = Some(file.status);
    }
    let notes = view
        .task
        .checkpoint
        .as_ref()
        .and_then(|settings| settings.notes.as_deref());
    request.notes = file
        .notes
        .clone()
        .filter(|text| text.as_str() != notes.unwrap_or_default());
    Ok(request)
}
