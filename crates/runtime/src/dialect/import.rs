//! Taking a good file into the store.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::path::Path;

use relight_core::change::{Change, StepMark};
use relight_core::checkpoint::{Checkpoint, WorkflowStatus};
use relight_core::decide::{Guard, Refusal};
use relight_core::event::EventKind;
use relight_core::ids::{AgentName, IdError, IdempotencyKey, StepName, TaskId};
use relight_core::status::TaskStatus;
use relight_core::step::{Output, RepeatRule, StepKey, StepOutcome};
use relight_core::task::{CheckpointSettings, NewTask, Task, TaskSpec};
use relight_core::time::Time;
use relight_store::{Commit, CommitError};

use super::copy::document;
use super::{Dialect, Saved};
use crate::boxed::boxed;
use crate::checkpoint_files::{ReadError, read_file};
use crate::engine::{ActError, WorkflowError, act_error};
use crate::os::clock;
use crate::redact_input;

/// What became of an import.
#[derive(Debug)]
pub enum Imported {
    /// The store has it now.
    Taken(Box<Saved>),
    /// The store had just this state.
    Same(Box<Task>),
}

impl Dialect {
    /// Takes a file of another machine in.
    #[boxed]
    pub async fn import(&self, file: &Path, force: bool) -> Result<Imported, ActError> {
        let checkpoint = read_file(file).map_err(|error| match error {
            ReadError::Io { path, source } if source.kind() == ErrorKind::NotFound => {
                WorkflowError::NoFile { file: path }
            }
            error => error.into(),
        })?;
        let id = self.take_in(file, &checkpoint, force).await?;
        match id {
            Some(id) => Ok(Imported::Taken(Box::new(self.save(&id).await?))),
            None => {
                let id = name(file, TaskId::new(checkpoint.workflow_id.as_str()))?;
                Ok(Imported::Same(Box::new(self.engine.task(&id).await?)))
            }
        }
    }

    /// The id when the store was changed.
    pub(super) async fn take_in(
        &self,
        file: &Path,
        checkpoint: &Checkpoint,
        force: bool,
    ) -> Result<Option<TaskId>, ActError> {
        let mut new = self.new_from(file, checkpoint)?;
        self.engine.check_new(&new)?;
        redact_input::clean_new(self.engine.redactor(), &mut new);
        let id = new.id.clone();
        let known = self.engine.store().task(&id).await?;
        if let Some(task) = &known
            && !force
        {
            if says_the_same(&document(&self.view(&id).await?), checkpoint) {
                return Ok(None);
            }
            if task.updated_at >= Time::from(checkpoint.updated_at) {
                return Err(WorkflowError::Older(id).into());
            }
            let held = task.lease.held.as_ref();
            self.engine.holders().look_for(held).await?;
            if let Some(held) = held
                && self.engine.holders().is_alive(held)
            {
                let (agent, held) = (task.agent.clone(), Box::new(held.clone()));
                return Err(Refusal::Held {
                    task: id,
                    agent,
                    held,
                    now: clock::now(),
                }
                .into());
            }
        }
        let changes = self.changes(file, checkpoint, new, known.as_ref())?;
        let seq = known.map(|task| task.seq);
        let commit = Commit {
            task: id.clone(),
            guard: Guard { fence: None, seq },
            at: clock::now(),
            changes,
        };
        match self.engine.store().commit(commit).await {
            Ok(_) => Ok(Some(id)),
            Err(CommitError::Exists(_) | CommitError::Moved(_)) => {
                Err(WorkflowError::Older(id).into())
            }
            Err(error) => Err(act_error(error)),
        }
    }

    fn changes(
        &self,
        file: &Path,
        checkpoint: &Checkpoint,
        new: NewTask,
        known: Option<&Task>,
    ) -> Result<Vec<Change>, ActError> {
        let new = Box::new(new);
        let mut changes = match known {
            None => vec![Change::Created(new)],
            Some(_) => vec![
                Change::FenceRaised,
                Change::StepsCleared,
                Change::Replaced(new),
            ],
        };
        changes.push(Change::Status {
            to: TaskStatus::InProgress,
            reason: None,
        });
        let mut recorded: HashSet<StepKey> = HashSet::new();
        for text in &checkpoint.completed_steps {
            let mark = self.mark(file, text)?;
            if recorded.insert(mark.key.clone()) {
                let (outcome, output) = (StepOutcome::Done, Some(Output::default()));
                changes.push(Change::StepEnded {
                    mark,
                    outcome,
                    output,
                });
            }
        }
        if let Some(text) = &checkpoint.current_step {
            let mark = self.mark(file, text)?;
            if !recorded.contains(&mark.key) {
                changes.push(Change::StepBegun(mark));
            }
        }
        let to = match checkpoint.status {
            WorkflowStatus::InProgress => TaskStatus::Interrupted,
            WorkflowStatus::Blocked => TaskStatus::Blocked,
            WorkflowStatus::Done => TaskStatus::Completed,
            WorkflowStatus::Failed => TaskStatus::Failed,
        };
        let reason = Some("taken in from a file".to_owned());
        changes.push(Change::Status { to, reason });
        let mut detail = serde_json::json!({"file": file, "seq": checkpoint.seq});
        self.engine.redactor().json(&mut detail);
        changes.push(Change::Noted(EventKind::CheckpointImported, detail));
        Ok(changes)
    }

    /// Steps of a file are `name` or `name#2`; the number is an occurrence only when it says so.
    fn mark(&self, file: &Path, text: &str) -> Result<StepMark, ActError> {
        let occurrence = text
            .rsplit_once('#')
            .and_then(|(_, n)| n.parse().ok())
            .filter(|n| *n > 1);
        let mut key = match (occurrence, text.rsplit_once('#')) {
            (Some(occurrence), Some((text, _))) => StepKey {
                name: name(file, StepName::new(text))?,
                occurrence,
            },
            _ => StepKey::first(name(file, StepName::new(text))?),
        };
        redact_input::clean_step_name(self.engine.redactor(), &mut key.name);
        let rule = RepeatRule::Keyed;
        Ok(StepMark {
            key,
            rule,
            tries: 1,
            fingerprint: None,
            was_open: false,
            call: None,
        })
    }

    fn new_from(&self, file: &Path, checkpoint: &Checkpoint) -> Result<NewTask, ActError> {
        let all = checkpoint
            .completed_steps
            .iter()
            .chain(&checkpoint.current_step)
            .chain(&checkpoint.remaining_steps);
        let (mut steps, mut seen) = (Vec::new(), HashSet::new());
        for text in all {
            let step = self.mark(file, text)?.key.name;
            if seen.insert(step.clone()) {
                steps.push(step);
            }
        }
        let agent = match checkpoint.agent_id.as_str() {
            "" => None,
            text => Some(name(file, AgentName::of_workflow(text))?),
        };
        let mut key = match checkpoint.idempotency_key.as_str() {
            "" => None,
            text => Some(name(file, IdempotencyKey::new(text))?),
        };
        if let Some(key) = &mut key {
            redact_input::clean_key(self.engine.redactor(), key);
        }
        Ok(NewTask {
            id: name(file, TaskId::new(checkpoint.workflow_id.as_str()))?,
            agent,
            spec: TaskSpec {
                steps,
                key,
                ..TaskSpec::default()
            },
            context: checkpoint.context.clone(),
            expires_at: checkpoint.expires_at.map(Time::from),
            checkpoint: Some(CheckpointSettings {
                folder: self.folder_text(),
                handoff_to: checkpoint.handoff_to.clone(),
                notes: checkpoint.notes.clone(),
                // Of a file of ours nobody knows who blocked it.
                blocked: checkpoint.foreign && checkpoint.status == WorkflowStatus::Blocked,
            }),
        })
    }
}

/// But for when and under which lease it was written.
fn says_the_same(ours: &Checkpoint, theirs: &Checkpoint) -> bool {
    let timeless = |checkpoint: &Checkpoint| Checkpoint {
        updated_at: theirs.updated_at,
        fence: 0,
        seq: 0,
        foreign: false,
        ..checkpoint.clone()
    };
    timeless(ours) == timeless(theirs)
}

fn name<T>(file: &Path, result: Result<T, IdError>) -> Result<T, WorkflowError> {
    result.map_err(|source| WorkflowError::BadName {
        file: file.to_path_buf(),
        source,
    })
}
