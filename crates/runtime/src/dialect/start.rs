//! `checkpoint start`.

use relight_core::change::{Change, StepMark};
use relight_core::decide::{Guard, Right, TaskEvent};
use relight_core::ids::{IdempotencyKey, TaskId};
use relight_core::status::TaskStatus;
use relight_core::step::{RepeatRule, StepKey};
use relight_core::task::{NewTask, SPENT_KEYS_MAX, Task};
use relight_core::time::Time;
use relight_store::{Commit, CommitError};

use super::copy::dialect_status;
use super::{Dialect, Saved};
use crate::boxed::boxed;
use crate::drain;
use crate::engine::{ActError, WorkflowError, act_error};
use crate::os::clock;
use crate::redact_input;

/// How often another starter may be faster.
const ROUNDS_MAX: usize = 100;

/// What became of a start.
#[derive(Debug)]
pub enum StartOutcome {
    /// It has begun.
    Started {
        /// The new run.
        saved: Box<Saved>,
        /// Where the run before stood, which it replaces; history keeps that one.
        replaced: Option<TaskStatus>,
    },
    /// It had begun with the same key; nothing was changed.
    Same(Box<Saved>),
    /// The key was completed before; nothing was changed.
    Completed(Box<Task>),
    /// Another workflow has the key; nothing was changed.
    KeyTaken(Box<Task>),
}

impl Dialect {
    /// Begins a workflow, whose first declared step is about to be done. Holds nothing: after a crash
    /// it can be resumed at once.
    #[boxed]
    pub async fn start(&self, mut new: NewTask, force: bool) -> Result<StartOutcome, ActError> {
        self.engine.check_new(&new)?;
        redact_input::clean_new(self.engine.redactor(), &mut new);
        let key = new
            .spec
            .key
            .clone()
            .expect("a workflow has an idempotency key");
        for _ in 0..ROUNDS_MAX {
            let store = self.engine.store();
            let owner = store.task_with_key(&key).await?;
            let key_was_free = owner.is_none();
            if let Some(owner) = owner {
                if owner.status == TaskStatus::Completed {
                    if owner.checkpoint.is_some() {
                        // It may have been cut off between its end and its file.
                        self.save(&owner.id).await?;
                    }
                    return Ok(StartOutcome::Completed(Box::new(owner)));
                }
                if owner.id != new.id {
                    return Ok(StartOutcome::KeyTaken(Box::new(owner)));
                }
                if !force && !owner.status.is_terminal() {
                    let seen = self.reconcile(&new.id).await?;
                    let saved = self.save_over(&new.id, seen.as_ref()).await?;
                    return Ok(StartOutcome::Same(Box::new(saved)));
                }
            }
            let before = store.task(&new.id).await?;
            // What the new run replaces on purpose is not set aside.
            let old = self.folder.read(new.id.as_str()).ok().flatten();
            let old = old.filter(|file| before.is_some() && !file.foreign);
            let replaced = before.as_ref().map(|task| task.status);
            let begun = match before {
                // A file that the store does not know is taken in first; then it is judged as any other.
                None if !force && self.take_in_unknown(&new.id).await? => false,
                None => self.create(&new).await?,
                Some(task) if task.spec.spent_keys.contains(&key) => {
                    return Ok(StartOutcome::Completed(Box::new(task)));
                }
                // The same start by somebody else, between the two looks: look again.
                Some(task) if key_was_free && task.spec.key.as_ref() == Some(&key) => false,
                Some(task) => self.replace(task, &new, force).await?,
            };
            if begun {
                let saved = Box::new(self.save_over(&new.id, old.as_ref()).await?);
                return Ok(StartOutcome::Started { saved, replaced });
            }
        }
        Err(ActError::Contended(new.id))
    }

    /// Takes in the good and unexpired file of a workflow; false when there is none.
    async fn take_in_unknown(&self, id: &TaskId) -> Result<bool, ActError> {
        let Ok(Some(file)) = self.folder.read(id.as_str()) else {
            return Ok(false);
        };
        if file
            .expires_at
            .is_some_and(|at| Time::from(at) <= clock::now())
        {
            return Ok(false);
        }
        self.take_in(&self.folder.path_of(id.as_str()), &file, false)
            .await?;
        Ok(true)
    }

    /// False when somebody else was faster.
    async fn create(&self, new: &NewTask) -> Result<bool, ActError> {
        if drain::now(self.engine.store().as_ref()).await?.is_some() {
            return Err(ActError::Draining {
                task: new.id.clone(),
                status: None,
            });
        }
        let commit = Commit {
            task: new.id.clone(),
            guard: Guard::default(),
            at: clock::now(),
            changes: vec![
                Change::Created(Box::new(new.clone())),
                Change::Status {
                    to: TaskStatus::InProgress,
                    reason: None,
                },
                Change::StepBegun(first_mark(new)),
            ],
        };
        match self.engine.store().commit(commit).await {
            Ok(_) => Ok(true),
            Err(CommitError::Exists(_) | CommitError::KeyTaken { .. }) => Ok(false),
            Err(error) => Err(act_error(error)),
        }
    }

    /// A run that has ended makes room for one under another key; anything else only by force: what is
    /// unfinished, what a person cancelled, and a finished task that never was a workflow.
    async fn replace(&self, task: Task, new: &NewTask, force: bool) -> Result<bool, ActError> {
        let is_another_run = task.checkpoint.is_some() && task.spec.key != new.spec.key;
        if !force && task.status.is_terminal() && !is_another_run {
            return Err(WorkflowError::Ended {
                id: task.id,
                status: task.status,
            }
            .into());
        }
        if !force && !task.status.is_terminal() {
            return Err(WorkflowError::Unfinished {
                id: task.id,
                status: dialect_status(task.status).as_str(),
                place: task
                    .checkpoint
                    .map_or("the store".to_owned(), |it| it.folder),
            }
            .into());
        }
        self.engine.refuse_while_draining(&task).await?;
        let mark = first_mark(new);
        let plan = |view: &crate::engine::TaskSnapshot| {
            let mut new = new.clone();
            new.spec.spent_keys = spent_keys(&view.task);
            let key = mark.key.clone();
            Ok::<_, ActError>(vec![
                TaskEvent::Replace(Box::new(new)),
                TaskEvent::Move {
                    to: TaskStatus::InProgress,
                    reason: None,
                },
                TaskEvent::StepBegin {
                    key,
                    rule: mark.rule,
                    fingerprint: None,
                },
            ])
        };
        match self
            .engine
            .act_in_turn(&task.id, Right::Dialect, plan)
            .await
        {
            Ok(_) => Ok(true),
            Err(ActError::Exists { .. } | ActError::NoSuchTask(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn first_mark(new: &NewTask) -> StepMark {
    StepMark {
        key: StepKey::first(new.spec.steps[0].clone()),
        rule: RepeatRule::Keyed,
        tries: 1,
        fingerprint: None,
        was_open: false,
        call: None,
    }
}

/// The keys under which this id was completed, the present one among them when it was.
fn spent_keys(task: &Task) -> Vec<IdempotencyKey> {
    let mut keys = task.spec.spent_keys.clone();
    if task.status == TaskStatus::Completed {
        keys.extend(task.spec.key.clone());
    }
    let extra = keys.len().saturating_sub(SPENT_KEYS_MAX);
    keys.drain(..extra);
    keys
}
