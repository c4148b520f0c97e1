//! The checkpoint verbs: doors to tasks, with a verified file copy of each.

use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use relight_core::checkpoint::{Checkpoint, WorkflowStatus};
use relight_core::decide::StartLimits;
use relight_core::ids::{AgentName, IdError, IdempotencyKey, StepName, TaskId};
use relight_core::lease::{Fence, Holder};
use relight_core::status::TaskStatus;
use relight_core::step::StepKey;
use relight_core::task::{CheckpointSettings, NewTask, Task, TaskSpec};
use relight_core::time::{Span, Time};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, json};

use super::work::length;
use super::{Written, fields, invalid, right, state_file, view};
use crate::boxed::boxed;
use crate::checkpoint_files::{ReadError, ScannedFile, file_name, is_name_of, read_file};
use crate::dialect::{
    Dialect, Imported, ResumeRequest, Saved, SetAside, StartOutcome, UpdateRequest, document,
};
use crate::engine::{ActError, Started};
use crate::os::clock;

/// Days after which a workflow is not worth resuming, where nobody says.
pub const TTL_DAYS_DEFAULT: u32 = 7;

/// A workflow to begin, before its first risky step.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckpointStart {
    /// Its id.
    pub workflow: TaskId,
    /// Who works on it.
    #[serde(deserialize_with = "fields::named_workflow_agent")]
    pub agent: AgentName,
    /// The step that is about to be done.
    pub step: StepName,
    /// The steps after it.
    #[serde(default)]
    pub remaining: Vec<StepName>,
    /// What makes two starts the same start.
    pub idempotency: IdempotencyKey,
    /// Who should take over.
    pub handoff: Option<String>,
    /// Free text for the successor.
    pub notes: Option<String>,
    /// Days after which it is not worth resuming; 0 for never.
    #[serde(default = "ttl_days_default")]
    pub ttl_days: u32,
    /// Begin a new run over one that is unfinished or has ended.
    #[serde(default)]
    pub force: bool,
}

fn ttl_days_default() -> u32 {
    TTL_DAYS_DEFAULT
}

/// What became of a workflow and of its file.
#[derive(Debug, Serialize)]
pub struct CheckpointSaved {
    /// Which workflow.
    pub workflow: TaskId,
    /// `started`, `same`, `completed`, `key_taken`, `updated`, `done` or `imported`.
    pub outcome: &'static str,
    /// As it is now; none when nothing was changed for another reason than that it was just so.
    #[serde(flatten)]
    pub state: Option<WorkflowState>,
}

/// A workflow as it was saved.
#[derive(Debug, Serialize)]
pub struct WorkflowState {
    /// Its file.
    pub file: PathBuf,
    /// The newest fence.
    pub fence: Fence,
    /// The dialect's word for how far it is.
    pub status: WorkflowStatus,
    /// The step that is being done.
    pub step: Option<String>,
    /// Finished steps.
    pub done_steps: Vec<String>,
    /// Steps that were begun and not ended.
    pub in_doubt: Vec<String>,
    /// The first step that is not finished.
    pub next_step: Option<String>,
    /// The declared steps that a finished workflow left open.
    pub left_open: Vec<String>,
    /// Where the run before stood, which this one replaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaced: Option<TaskStatus>,
    /// What its file says.
    pub checkpoint: Checkpoint,
}

fn unchanged(task: Task, outcome: &'static str) -> Written<CheckpointSaved> {
    let state = None;
    Written::new(task).map(|(), task| CheckpointSaved {
        workflow: task.id.clone(),
        outcome,
        state,
    })
}

fn saved(
    saved: Saved,
    outcome: &'static str,
    replaced: Option<TaskStatus>,
) -> Written<CheckpointSaved> {
    let (checkpoint, left_open) = (document(&saved.view), saved.left_open());
    let file_error = saved.file_error();
    let Saved {
        view,
        file,
        set_aside,
        ..
    } = saved;
    let state = WorkflowState {
        file,
        fence: view.task.lease.fence,
        status: checkpoint.status,
        step: checkpoint.current_step.clone(),
        done_steps: view.progress.done_steps,
        in_doubt: view.progress.in_doubt,
        next_step: view.progress.next_step,
        left_open,
        replaced,
        checkpoint,
    };
    let workflow = view.task.id.clone();
    let answer = CheckpointSaved {
        workflow,
        outcome,
        state: Some(state),
    };
    Written {
        answer,
        file_error,
        set_aside,
        task: view.task,
    }
}

/// Brings the state file of a supervised agent up to date.
async fn refreshed<T>(
    workflows: &Dialect,
    mut written: Written<T>,
) -> Result<Written<T>, ActError> {
    let engine = workflows.engine();
    let Some(home) = engine.home() else {
        return Ok(written);
    };
    let error = state_file::refresh(&home, engine, &written.task).await;
    written.file_error = written.file_error.or(error);
    Ok(written)
}

impl CheckpointStart {
    /// Begins it; the same start again, or one whose key is completed or another's, changes nothing.
    #[boxed]
    pub async fn run(self, workflows: &Dialect) -> Result<Written<CheckpointSaved>, ActError> {
        let mut seen = HashSet::new();
        let mut steps = vec![self.step];
        steps.extend(self.remaining);
        steps.retain(|step| seen.insert(step.clone()));
        let lifetime = Span::from_secs(u64::from(self.ttl_days) * 24 * 60 * 60).as_limit();
        let new = NewTask {
            id: self.workflow,
            agent: Some(self.agent),
            spec: TaskSpec {
                steps,
                key: Some(self.idempotency),
                ..TaskSpec::default()
            },
            context: std::collections::BTreeMap::new(),
            expires_at: lifetime.map(|span| clock::now().plus(span)),
            checkpoint: Some(CheckpointSettings {
                folder: workflows.folder_text(),
                handoff_to: self.handoff,
                notes: self.notes,
                blocked: false,
            }),
        };
        let written = match workflows.start(new, self.force).await? {
            StartOutcome::Started {
                saved: state,
                replaced,
            } => saved(*state, "started", replaced),
            StartOutcome::Same(state) => saved(*state, "same", None),
            StartOutcome::Completed(task) => unchanged(*task, "completed"),
            StartOutcome::KeyTaken(task) => unchanged(*task, "key_taken"),
        };
        refreshed(workflows, written).await
    }
}

/// What changed in a workflow.
#[derive(Debug, Clone, Deserialize)]
#[serde(from = "UpdateFields")]
pub struct CheckpointUpdate {
    /// Which workflow.
    pub workflow: TaskId,
    /// The right to write. Whoever only saves need not hold it; a fence that is shown must be valid.
    pub fence: Option<Fence>,
    /// What changed.
    pub change: UpdateRequest,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UpdateFields {
    workflow: TaskId,
    #[serde(default, deserialize_with = "fields::fence")]
    fence: Option<Fence>,
    #[serde(default)]
    complete: Vec<StepName>,
    step: Option<StepName>,
    #[serde(default)]
    remaining: Vec<StepName>,
    #[serde(default, deserialize_with = "fields::optional_text")]
    status: Option<WorkflowStatus>,
    notes: Option<String>,
}

impl From<UpdateFields> for CheckpointUpdate {
    fn from(given: UpdateFields) -> Self {
        Self {
            workflow: given.workflow,
            fence: given.fence,
            change: UpdateRequest {
                complete: given.complete,
                step: given.step,
                remaining: given.remaining,
                status: given.status,
                notes: given.notes,
            },
        }
    }
}

impl CheckpointUpdate {
    /// Records it in one commit.
    #[boxed]
    pub async fn run(self, workflows: &Dialect) -> Result<Written<CheckpointSaved>, ActError> {
        let Self {
            workflow,
            fence,
            change,
        } = self;
        let state = workflows.update(&workflow, right(fence), &change).await?;
        let is_done = change.status == Some(WorkflowStatus::Done);
        refreshed(
            workflows,
            saved(state, if is_done { "done" } else { "updated" }, None),
        )
        .await
    }
}

/// The progress of a workflow, which is begun where it is new.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckpointSave {
    /// Which workflow.
    pub workflow: TaskId,
    /// The step that is about to be done.
    pub step: Option<StepName>,
    /// Steps that are finished.
    #[serde(default)]
    pub complete: Vec<StepName>,
    /// For a new workflow: the steps after this one.
    #[serde(default)]
    pub remaining: Vec<StepName>,
    /// Where it stands.
    #[serde(default, deserialize_with = "fields::optional_text")]
    pub status: Option<WorkflowStatus>,
    /// Free text for the successor.
    pub notes: Option<String>,
    /// For a new workflow: who should take over.
    pub handoff: Option<String>,
    /// For a new workflow: what makes two starts the same start. Default: its id.
    pub idempotency: Option<IdempotencyKey>,
    /// For a new workflow: who works on it.
    #[serde(default, deserialize_with = "fields::workflow_agent")]
    pub agent: Option<AgentName>,
    /// The right to write.
    #[serde(default, deserialize_with = "fields::fence")]
    pub fence: Option<Fence>,
}

impl CheckpointSave {
    /// Updates the workflow, or starts it. `agent` is the caller, where that is known.
    #[boxed]
    pub async fn run(
        self,
        workflows: &Dialect,
        agent: Option<AgentName>,
    ) -> Result<Written<CheckpointSaved>, ActError> {
        let (workflow, fence) = (self.workflow.clone(), self.fence);
        let change = UpdateRequest {
            complete: self.complete.clone(),
            step: self.step.clone(),
            status: self.status,
            notes: self.notes.clone(),
            ..UpdateRequest::default()
        };
        let is_only_start = change.complete.is_empty() && change.status.is_none();
        let update = CheckpointUpdate {
            workflow,
            fence,
            change,
        };
        let known = workflows.engine().store().task(&self.workflow).await?;
        // Steps are finished only of a workflow that is there: a mistyped name is not a new one.
        let names_no_step = self.step.is_none() && !self.complete.is_empty();
        if names_no_step || self.is_update_of(known.as_ref(), is_only_start)? {
            let mut written = update.run(workflows).await?;
            if is_only_start && known.is_some_and(|known| known.seq == written.task.seq) {
                written.answer.outcome = "same";
            }
            return Ok(written);
        }
        let started = self.start(agent)?.run(workflows).await?;
        if is_only_start || started.answer.state.is_none() {
            return Ok(started);
        }
        update.run(workflows).await
    }

    /// A key that is not the known workflow's asks for another run, as `checkpoint start` does, and the
    /// start of a run that was completed is that start again.
    fn is_update_of(&self, known: Option<&Task>, is_only_start: bool) -> Result<bool, ActError> {
        let Some(task) = known else { return Ok(false) };
        let is_its_key = task.spec.key.as_ref() == Some(&self.key()?);
        let is_completed = task.status == TaskStatus::Completed && is_its_key && is_only_start;
        Ok(match self.idempotency {
            Some(_) => is_its_key && !task.status.is_terminal(),
            None => !is_completed,
        })
    }

    /// Its id is the key, where none is given and the id can be one.
    fn key(&self) -> Result<IdempotencyKey, IdError> {
        if let Some(key) = &self.idempotency {
            return Ok(key.clone());
        }
        IdempotencyKey::new(self.workflow.as_str()).or_else(|_| {
            let first = StepKey::first(StepName::new("workflow")?);
            IdempotencyKey::new(first.idempotency_key(&self.workflow))
        })
    }

    fn start(self, agent: Option<AgentName>) -> Result<CheckpointStart, ActError> {
        let lacks = |what: &str| invalid(format!("a new workflow needs {what}"));
        let idempotency = self.key()?;
        Ok(CheckpointStart {
            agent: self
                .agent
                .or(agent)
                .ok_or_else(|| lacks("agent, your name"))?,
            step: self
                .step
                .ok_or_else(|| lacks("step, what you are about to do"))?,
            workflow: self.workflow,
            remaining: self.remaining,
            idempotency,
            handoff: self.handoff,
            notes: self.notes,
            ttl_days: TTL_DAYS_DEFAULT,
            force: false,
        })
    }
}

/// A workflow to resume.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckpointResume {
    /// Which; the oldest unfinished one when none.
    pub workflow: Option<TaskId>,
    /// Only of this agent.
    #[serde(default, deserialize_with = "fields::workflow_agent")]
    pub agent: Option<AgentName>,
    /// The fence of the lease to continue.
    #[serde(default, deserialize_with = "fields::fence")]
    pub fence: Option<Fence>,
    /// How long each write renews the lease for.
    #[serde(default, deserialize_with = "fields::optional_text")]
    pub lease: Option<Span>,
    /// Who asks, where no agent is named.
    #[serde(skip)]
    pub caller: Option<AgentName>,
    /// Take it from a live holder.
    #[serde(default)]
    pub steal_lock: bool,
    /// Resume it even if it waits for a person, or has used up its budget.
    #[serde(default)]
    pub force: bool,
}

/// A workflow under a lease.
#[derive(Debug)]
pub struct CheckpointResumed {
    /// The lease, and how far the workflow is.
    pub started: Started,
    /// Its file.
    pub file: PathBuf,
    /// What the file says.
    pub checkpoint: Checkpoint,
}

impl Serialize for CheckpointResumed {
    /// Beside our own names those of the file, for readers of the original script's answer.
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut value = json!(view::StartedView::from(self.started.clone()));
        value["workflow"] = json!(self.started.view.task.id);
        value["file"] = json!(self.file);
        value["checkpoint"] = json!(self.checkpoint);
        for (name, member) in self.checkpoint.sealed_members() {
            value[name] = member;
        }
        Value::serialize(&value, to)
    }
}

impl CheckpointResume {
    /// Takes the lease of the workflow and says how far it is. Tells of files that are damaged or not
    /// used in `reports`, whatever comes of it.
    #[boxed]
    pub async fn run(
        self,
        workflows: &Dialect,
        holder: Holder,
        limits: StartLimits,
        reports: &mut Vec<SetAside>,
    ) -> Result<Written<CheckpointResumed>, ActError> {
        let request = ResumeRequest {
            workflow: self.workflow,
            agent: self.agent,
            caller: self.caller,
            fence: self.fence,
            steal: self.steal_lock,
            ttl: length(&holder, self.lease)?,
            holder,
            limits: if self.force {
                StartLimits::Forced
            } else {
                limits
            },
        };
        let resumed = workflows.resume(&request, reports).await?;
        let (checkpoint, file_error) = (document(&resumed.saved.view), resumed.saved.file_error());
        reports.extend(resumed.saved.set_aside);
        let (started, file) = (resumed.started, resumed.saved.file);
        let task = started.view.task.clone();
        let answer = CheckpointResumed {
            started,
            file,
            checkpoint,
        };
        let written = Written {
            answer,
            file_error,
            set_aside: Vec::new(),
            task,
        };
        refreshed(workflows, written).await
    }
}

/// A file to take into the store.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckpointImport {
    /// The file.
    pub file: PathBuf,
    /// Take it even if the store has a newer state.
    #[serde(default)]
    pub force: bool,
}

impl CheckpointImport {
    /// Takes it in; a state that the store has already changes nothing.
    #[boxed]
    pub async fn run(self, workflows: &Dialect) -> Result<Written<CheckpointSaved>, ActError> {
        let written = match workflows.import(&self.file, self.force).await? {
            Imported::Taken(state) => saved(*state, "imported", None),
            Imported::Same(task) => unchanged(*task, "same"),
        };
        refreshed(workflows, written).await
    }
}

/// The workflows of a folder, and files in it that are not theirs.
#[derive(Debug, Serialize)]
pub struct CheckpointList {
    /// Workflows that the store knows, oldest first.
    pub items: Vec<ListedWorkflow>,
    /// Always none: all are on one page.
    pub next: Option<String>,
    /// Good files that the store does not know.
    pub unknown: Vec<UnknownFile>,
    /// Damaged files.
    pub damaged: Vec<BadFile>,
    /// What was set aside earlier.
    pub quarantined: Vec<BadFile>,
}

/// A workflow in a list.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the fields are those of the documented JSON")]
pub struct ListedWorkflow {
    pub workflow: TaskId,
    pub status: TaskStatus,
    pub agent: Option<AgentName>,
    pub steps_done: u64,
    pub updated_at: Time,
    pub expires_at: Option<Time>,
    pub expired: bool,
    pub held_by: Option<String>,
    pub folder: Option<String>,
    pub damaged: bool,
    #[serde(skip)]
    pub checkpoint: Checkpoint,
}

/// A good file of a workflow that the store does not know.
#[derive(Debug, Serialize)]
pub struct UnknownFile {
    /// The file.
    pub file: PathBuf,
    /// Its workflow.
    pub workflow: String,
    /// Where that stands.
    pub status: WorkflowStatus,
    /// What it says.
    #[serde(skip)]
    pub checkpoint: Checkpoint,
}

/// A file that is no good.
#[derive(Debug, Serialize)]
pub struct BadFile {
    /// The file.
    pub file: PathBuf,
    /// What is wrong with it.
    pub reason: String,
}

impl CheckpointList {
    /// Reads the workflows of this folder, or of all folders; changes nothing.
    #[boxed]
    pub async fn read(workflows: &Dialect, all: bool) -> Result<Self, ActError> {
        let survey = workflows.reconciled_survey(all).await?;
        let mut items = Vec::with_capacity(survey.workflows.len());
        for (task, damaged) in survey.workflows {
            let checkpoint = document(&workflows.view(&task.id).await?);
            items.push(ListedWorkflow {
                expired: task.is_expired(clock::now()),
                workflow: task.id,
                status: task.status,
                agent: task.agent,
                steps_done: task.steps_done,
                updated_at: task.updated_at,
                expires_at: task.expires_at,
                held_by: task.lease.held.as_ref().map(|held| held.holder.to_string()),
                folder: task.checkpoint.map(|settings| settings.folder),
                damaged,
                checkpoint,
            });
        }
        let unknown = survey
            .unknown
            .into_iter()
            .map(|(file, checkpoint)| UnknownFile {
                file,
                workflow: checkpoint.workflow_id.clone(),
                status: checkpoint.status,
                checkpoint,
            });
        let damaged = survey.damaged.into_iter();
        let damaged = damaged.map(|(file, why)| BadFile {
            file,
            reason: why.to_string(),
        });
        let quarantined = survey.quarantined.into_iter();
        let quarantined = quarantined
            .map(|(file, reason)| BadFile { file, reason })
            .collect();
        Ok(Self {
            items,
            next: None,
            unknown: unknown.collect(),
            damaged: damaged.collect(),
            quarantined,
        })
    }
}

/// Files that were checked against their hash.
#[derive(Debug, Serialize)]
pub struct CheckpointVerified {
    /// Each file.
    pub items: Vec<VerifiedFile>,
    /// How many are damaged.
    pub damaged: usize,
    /// How many are not there.
    pub missing: usize,
}

/// A file that was checked.
#[derive(Debug, Serialize)]
pub struct VerifiedFile {
    /// The file.
    pub file: PathBuf,
    /// Whether it is good.
    pub ok: bool,
    /// Its workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow: Option<String>,
    /// Why it is not good.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// It is not there.
    #[serde(skip)]
    pub is_missing: bool,
}

impl CheckpointVerified {
    /// Checks these files, or all of the folder where none is named; changes nothing.
    pub fn read(workflows: &Dialect, mut files: Vec<PathBuf>) -> Result<Self, ActError> {
        if files.is_empty() {
            files.extend(workflows.scan()?.into_iter().map(|found| match found {
                ScannedFile::Good { path, .. } | ScannedFile::Damaged { path, .. } => path,
            }));
        }
        let items: Vec<VerifiedFile> = files.into_iter().map(VerifiedFile::read).collect();
        let missing = items.iter().filter(|item| item.is_missing).count();
        let damaged = items.iter().filter(|item| !item.ok).count() - missing;
        Ok(Self {
            items,
            damaged,
            missing,
        })
    }
}

impl VerifiedFile {
    fn read(file: PathBuf) -> Self {
        let (workflow, reason, is_missing) = match verify(&file) {
            Ok(workflow) => (Some(workflow), None, false),
            Err(Some(reason)) => (None, Some(reason), false),
            Err(None) => (None, Some("there is no such file".to_owned()), true),
        };
        Self {
            file,
            ok: workflow.is_some(),
            workflow,
            reason,
            is_missing,
        }
    }
}

/// The workflow of a file, which is verified where it lies, else what is wrong; none when it is not there.
/// Its name must fit its content.
fn verify(file: &Path) -> Result<String, Option<String>> {
    let unread = |error: std::io::Error| {
        (error.kind() != std::io::ErrorKind::NotFound).then(|| error.to_string())
    };
    if !std::fs::symlink_metadata(file).map_err(unread)?.is_file() {
        return Err(Some("not a regular file".to_owned()));
    }
    let Checkpoint { workflow_id, .. } = read_file(file).map_err(|error| match error {
        ReadError::Io { source, .. } => unread(source),
        ReadError::Damaged { reason, .. } => Some(reason.to_string()),
    })?;
    if file
        .file_name()
        .is_some_and(|name| !is_name_of(name.as_bytes(), &workflow_id))
    {
        let own = file_name(&workflow_id);
        return Err(Some(format!(
            "holds workflow {workflow_id:?}, which belongs into {own}"
        )));
    }
    Ok(workflow_id)
}
