//! `checkpoint start`.

use relight_core::change::{Change, StepMark};
use relight_core::decide::{Guard, Right, TaskEvent};
use relight_core::ids::{AgentName, IdempotencyKey, StepName, TaskId};
use relight_core::status::TaskStatus;
use relight_core::step::{RepeatRule, StepKey};
use relight_core::task::{CheckpointSettings, NewTask, SPENT_KEYS_MAX, Task, TaskSpec};
use relight_core::time::Time;
use relight_store::{Commit, CommitError};

use super::copy::dialect_status;
use super::{Dialect, DialectError, Saved};
use crate::drain;
use crate::engine::{ActError, act_error};
use crate::os::clock;
use crate::redact_input;

/// How often another starter may be faster.
const ROUNDS_MAX: usize = 100;

/// What a workflow begins with.
#[derive(Debug, Clone)]
pub struct StartRequest {
    /// Its id.
    pub workflow: TaskId,
    /// Who works on it.
    pub agent: AgentName,
    /// The step that is about to be done.
    pub step: StepName,
    /// The steps after it.
    pub remaining: Vec<StepName>,
    /// What makes two starts the same start.
    pub key: IdempotencyKey,
    /// Who should take over.
    pub handoff_to: Option<String>,
    /// Free text for the successor.
    pub notes: Option<String>,
    /// Not worth resuming after.
    pub expires_at: Option<Time>,
    /// Replace an unfinished one.
    pub force: bool,
}

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
    Completed(TaskId),
    /// Another workflow has the key; nothing was changed.
    KeyTaken(TaskId),
}

impl Dialect {
    /// Begins a workflow. Holds nothing: after a crash it can be resumed at once.
    pub async fn start(&self, mut request: StartRequest) -> Result<StartOutcome, DialectError> {
        redact_input::clean_key(self.engine.redactor(), &mut request.key);
        let mut new = self.new_task(&request);
        self.engine.check_new(&new)?;
        redact_input::clean_new(self.engine.redactor(), &mut new);
        for _ in 0..ROUNDS_MAX {
            let store = self.engine.store();
            let owner = store.task_with_key(&request.key).await.map_err(ActError::from)?;
            let key_was_free = owner.is_none();
            if let Some(owner) = owner {
                if owner.status == TaskStatus::Completed {
                    if owner.checkpoint.is_some() {
                        // It may have been cut off between its end and its file.
                        self.save(&owner.id).await?;
                    }
                    return Ok(StartOutcome::Completed(owner.id));
                }
                if owner.id != request.workflow {
                    return Ok(StartOutcome::KeyTaken(owner.id));
                }
                if !request.force && !owner.status.is_terminal() {
                    let seen = self.take_up(&request.workflow).await?;
                    let saved = self.save_over(&request.workflow, seen.as_ref()).await?;
                    return Ok(StartOutcome::Same(Box::new(saved)));
                }
            }
            let before = store.task(&request.workflow).await.map_err(ActError::from)?;
            // What the new run replaces on purpose is not set aside.
            let old = self.folder.read(request.workflow.as_str()).ok().flatten();
            let old = old.filter(|file| before.is_some() && !file.foreign);
            let replaced = before.as_ref().map(|task| task.status);
            let begun = match before {
                // A file that the store does not know is taken in first; then it is judged as any other.
                None if !request.force && self.take_in_unknown(&request.workflow).await? => false,
                None => self.create(&new).await?,
                Some(task) if task.spec.spent_keys.contains(&request.key) => {
                    return Ok(StartOutcome::Completed(task.id));
                }
                // The same start by somebody else, between the two looks: look again.
                Some(task) if key_was_free && task.spec.key.as_ref() == Some(&request.key) => false,
                Some(task) => self.replace(task, &new, request.force).await?,
            };
            if begun {
                let saved = Box::new(self.save_over(&request.workflow, old.as_ref()).await?);
                return Ok(StartOutcome::Started { saved, replaced });
            }
        }
        Err(ActError::Contended(request.workflow).into())
    }

    /// Takes in the good and unexpired file of a workflow; false when there is none.
    async fn take_in_unknown(&self, id: &TaskId) -> Result<bool, DialectError> {
        let Ok(Some(file)) = self.folder.read(id.as_str()) else { return Ok(false) };
        if file.expires_at.is_some_and(|at| Time::from(at) <= clock::now()) {
            return Ok(false);
        }
        self.take_in(&self.folder.path_of(id.as_str()), &file, false).await?;
        Ok(true)
    }

    fn new_task(&self, request: &StartRequest) -> NewTask {
        let mut steps = vec![request.step.clone()];
        for step in &request.remaining {
            if !steps.contains(step) {
                steps.push(step.clone());
            }
        }
        NewTask {
            id: request.workflow.clone(),
            agent: Some(request.agent.clone()),
            spec: TaskSpec { steps, key: Some(request.key.clone()), ..TaskSpec::default() },
            context: std::collections::BTreeMap::new(),
            expires_at: request.expires_at,
            checkpoint: Some(CheckpointSettings {
                folder: self.folder_text(),
                handoff_to: request.handoff_to.clone(),
                notes: request.notes.clone(),
                blocked: false,
            }),
        }
    }

    /// False when somebody else was faster.
    async fn create(&self, new: &NewTask) -> Result<bool, DialectError> {
        if drain::now(self.engine.store().as_ref()).await.map_err(ActError::from)?.is_some() {
            return Err(ActError::Draining { task: new.id.clone(), status: None }.into());
        }
        let commit = Commit {
            task: new.id.clone(),
            guard: Guard::default(),
            at: clock::now(),
            changes: vec![
                Change::Created(Box::new(new.clone())),
                Change::Status { to: TaskStatus::InProgress, reason: None },
                Change::StepBegun(first_mark(new)),
            ],
        };
        match self.engine.store().commit(commit).await {
            Ok(_) => Ok(true),
            Err(CommitError::Exists(_) | CommitError::KeyTaken { .. }) => Ok(false),
            Err(error) => Err(act_error(error).into()),
        }
    }

    /// A run that has ended makes room for one under another key; anything else only by force: what is
    /// unfinished, what a person cancelled, and a finished task that never was a workflow.
    async fn replace(&self, task: Task, new: &NewTask, force: bool) -> Result<bool, DialectError> {
        let is_another_run = task.checkpoint.is_some() && task.spec.key != new.spec.key;
        if !force && task.status.is_terminal() && !is_another_run {
            return Err(DialectError::Ended { id: task.id, status: task.status });
        }
        if !force && !task.status.is_terminal() {
            return Err(DialectError::Unfinished {
                id: task.id,
                status: dialect_status(task.status).as_str(),
                folder: task.checkpoint.map(|settings| settings.folder).unwrap_or_default(),
            });
        }
        drain::refuse_new_work(self.engine.store().as_ref(), &task).await?;
        let mark = first_mark(new);
        let plan = |view: &crate::engine::TaskView| {
            let mut new = new.clone();
            new.spec.spent_keys = spent_keys(&view.task);
            let key = mark.key.clone();
            Ok::<_, ActError>(vec![
                TaskEvent::Replace(Box::new(new)),
                TaskEvent::Move { to: TaskStatus::InProgress, reason: None },
                TaskEvent::StepBegin { key, rule: mark.rule, fingerprint: None },
            ])
        };
        match self.engine.act_in_turn(&task.id, Right::Dialect, plan).await {
            Ok(_) => Ok(true),
            Err(ActError::Exists { .. } | ActError::NoSuchTask(_)) => Ok(false),
            Err(error) => Err(error.into()),
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
