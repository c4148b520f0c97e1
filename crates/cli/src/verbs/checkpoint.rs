//! `relight checkpoint`.

use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use relight_core::checkpoint::{Checkpoint, WorkflowStatus};
use relight_core::status::TaskStatus;
use relight_core::time::{Span, Time};
use relight_runtime::checkpoint_files::{
    CheckpointFolder, ReadError, file_name, is_name_of, read_file,
};
use relight_runtime::dialect::{
    Dialect, DialectError, Imported, ResumeError, ResumeRequest, Saved, SetAside, StartOutcome,
    StartRequest, Survey, UpdateRequest, document,
};
use relight_runtime::operations::view::Started;
use relight_runtime::os::clock;
use serde_json::{Value, json};

use super::operate::{not_copied, set_aside_text};
use crate::arguments::checkpoint::{
    CheckpointCommand, CheckpointImportArguments, CheckpointListArguments,
    CheckpointStartArguments, CompleteArguments, Folder, ResumeArguments, ShowArguments, Status,
    UpdateArguments, VerifyArguments,
};
use crate::environment::Environment;
use crate::exit::{Exit, Failure, Outcome, held_text};
use crate::output::shell_word;
use crate::{block_on, output, work};

pub(crate) fn run(environment: &Environment, command: CheckpointCommand) -> Outcome {
    match command {
        CheckpointCommand::Start(given) => start(environment, given),
        CheckpointCommand::Update(given) => update(environment, given),
        CheckpointCommand::Complete(given) => complete(environment, &given),
        CheckpointCommand::Resume(given) => resume(environment, given),
        CheckpointCommand::List(given) => list(environment, &given),
        CheckpointCommand::Show(given) => show(environment, &given),
        CheckpointCommand::Verify(given) => verify(environment, given),
        CheckpointCommand::Import(given) => import(environment, &given),
    }
}

fn dialect(environment: &Environment, folder: &Folder) -> Result<Dialect, Failure> {
    let folder = environment.checkpoint_folder(folder.dir.as_deref())?;
    Ok(Dialect::new(environment.engine()?, folder))
}

fn start(environment: &Environment, given: CheckpointStartArguments) -> Outcome {
    let dialect = dialect(environment, &given.folder)?;
    let days = u64::from(given.ttl_days);
    let lifetime = (days > 0).then(|| Span::from_secs(days * 24 * 60 * 60));
    let request = StartRequest {
        workflow: given.workflow,
        agent: given.agent,
        step: given.step,
        remaining: given.remaining,
        key: given.idempotency,
        handoff_to: given.handoff,
        notes: given.notes,
        expires_at: lifetime.map(|span| clock::now().plus(span)),
        force: given.force,
    };
    match block_on(dialect.start(request))? {
        StartOutcome::Started { saved, replaced: None } => {
            saved_answer(environment, &saved, "started", "started", None)
        }
        StartOutcome::Started { saved, replaced: Some(status) } => {
            let id = shell_word(saved.view.task.id.as_str());
            let text = format!(
                "this is a new run: the one before was {status}, and its steps count no more; \
                 relight events --task {id} keeps its record"
            );
            output::note(environment, &text);
            saved_answer(environment, &saved, "started", "started anew", Some(status))
        }
        StartOutcome::Same(saved) => {
            saved_answer(environment, &saved, "same", "was started already", None)
        }
        StartOutcome::Completed(id) => {
            let text = format!("workflow {id} was completed with this key; nothing to do");
            output::answer(environment, &json!({"workflow": id, "outcome": "completed"}), &text);
            Ok(0)
        }
        StartOutcome::KeyTaken(id) => {
            let text = format!("workflow {id} has this key; nothing was started");
            output::answer(environment, &json!({"workflow": id, "outcome": "key_taken"}), &text);
            Ok(0)
        }
    }
}

fn update(environment: &Environment, given: UpdateArguments) -> Outcome {
    let right = environment.right(&given.workflow, given.fence)?;
    let dialect = dialect(environment, &given.folder)?;
    let request = UpdateRequest {
        complete: given.complete,
        step: given.step,
        status: given.status.map(word),
        notes: given.notes,
        ..UpdateRequest::default()
    };
    let saved = block_on(dialect.update(&given.workflow, right, &request))?;
    saved_answer(environment, &saved, "updated", "updated", None)
}

fn complete(environment: &Environment, given: &CompleteArguments) -> Outcome {
    let right = environment.right(&given.workflow, given.fence)?;
    let dialect = dialect(environment, &given.folder)?;
    let request = UpdateRequest { status: Some(WorkflowStatus::Done), ..UpdateRequest::default() };
    let saved = block_on(dialect.update(&given.workflow, right, &request))?;
    saved_answer(environment, &saved, "done", "is done", None)
}

fn word(status: Status) -> WorkflowStatus {
    match status {
        Status::InProgress => WorkflowStatus::InProgress,
        Status::Blocked => WorkflowStatus::Blocked,
        Status::Done => WorkflowStatus::Done,
        Status::Failed => WorkflowStatus::Failed,
    }
}

/// What was committed; exit code 73 when its file could not be written.
fn saved_answer(
    environment: &Environment,
    saved: &Saved,
    outcome: &str,
    verb: &str,
    replaced: Option<TaskStatus>,
) -> Outcome {
    let checkpoint = document(&saved.view);
    let mut text = format!("workflow {} {verb}", checkpoint.workflow_id);
    if let Some(step) = &checkpoint.current_step {
        text += &format!("; step {step}");
    }
    tell_set_aside(environment, &saved.set_aside);
    let left_open = saved.left_open();
    if !left_open.is_empty() {
        let names = left_open.join(", ");
        output::alert(&format!(
            "workflow {} is done with steps left open: {names}",
            checkpoint.workflow_id
        ));
    }
    let mut value = json!({
        "workflow": checkpoint.workflow_id,
        "outcome": outcome,
        "file": saved.file,
        "fence": saved.view.task.lease.fence,
        "done_steps": saved.view.progress.done_steps,
        "in_doubt": saved.view.progress.in_doubt,
        "next_step": saved.view.progress.next_step,
        "left_open": left_open,
        "checkpoint": checkpoint,
    });
    if let Some(status) = replaced {
        value["replaced"] = json!(status);
    }
    output::answer(environment, &value, &text);
    copy_check(saved)?;
    Ok(0)
}

fn copy_check(saved: &Saved) -> Result<(), Failure> {
    saved.file_error().map_or(Ok(()), |error| Err(not_copied(&error)))
}

fn tell_set_aside(environment: &Environment, reports: &[SetAside]) {
    for report in reports {
        output::note(environment, &set_aside_text(report));
    }
}

fn resume(environment: &Environment, given: ResumeArguments) -> Outcome {
    let engine = environment.engine()?;
    let (holder, ttl) =
        environment.holder(&given.holder, given.agent.as_ref(), engine.store().as_ref())?;
    let folder = environment.checkpoint_folder(given.folder.dir.as_deref())?;
    let dialect = Dialect::new(engine, folder);
    let any = given.workflow.is_none();
    let request = ResumeRequest {
        workflow: given.workflow,
        agent: given.agent,
        steal: given.steal_lock,
        holder,
        ttl,
        limits: work::start_limits(environment, None, given.force)?,
    };
    let mut reports = Vec::new();
    let resumed = block_on(dialect.resume(&request, &mut reports));
    tell_set_aside(environment, &reports);
    if any && !environment.json && matches!(resumed, Err(ResumeError::Nothing { .. })) {
        // What the original script answers when there is nothing to continue.
        output::line("NO_CHECKPOINT");
    }
    let resumed = resumed?;
    tell_set_aside(environment, &resumed.saved.set_aside);
    let mut value = json!(Started::from(resumed.started.clone()));
    let checkpoint = document(&resumed.saved.view);
    value["workflow"] = json!(resumed.started.view.task.id);
    value["file"] = json!(resumed.saved.file);
    value["checkpoint"] = json!(checkpoint);
    // Beside our own names those of the file, for readers of the original script's answer.
    for (name, member) in checkpoint.sealed_members() {
        value[name] = member;
    }
    output::json(&value);
    copy_check(&resumed.saved)?;
    Ok(0)
}

fn list(environment: &Environment, given: &CheckpointListArguments) -> Outcome {
    let dialect = dialect(environment, &given.folder)?;
    let survey = block_on(dialect.survey(given.all))?;
    if environment.json {
        output::json(&survey_json(&survey));
        return Ok(0);
    }
    let mut rows: Vec<[String; 4]> = Vec::new();
    for workflow in &survey.workflows {
        rows.push(list_row(&document(&block_on(dialect.view(&workflow.task.id))?)));
    }
    rows.extend(survey.unknown.iter().map(|(_, checkpoint)| list_row(checkpoint)));
    rows.sort();
    for row in rows {
        output::line(&row.map(|text| output::one_line(&text)).join("\t"));
    }
    for (file, _) in &survey.damaged {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        output::line(&format!("{}\tINVALID", output::one_line(&name)));
    }
    list_notes(environment, &survey);
    Ok(0)
}

/// The columns of the original script: workflow, status, current step, time of the last change.
fn list_row(checkpoint: &Checkpoint) -> [String; 4] {
    let current = checkpoint.current_step.clone().unwrap_or_else(|| "-".to_owned());
    let updated_at = Time::from(checkpoint.updated_at).to_string();
    [checkpoint.workflow_id.clone(), checkpoint.status.as_str().to_owned(), current, updated_at]
}

/// What the columns have no place for.
fn list_notes(environment: &Environment, survey: &Survey) {
    let is_empty = survey.workflows.is_empty() && survey.unknown.is_empty();
    if is_empty && survey.damaged.is_empty() {
        output::note(environment, "no workflows here; relight checkpoint start begins one");
    }
    for (file, checkpoint) in &survey.unknown {
        let text = format!("not in the store: {} ({})", file.display(), checkpoint.workflow_id);
        output::note(environment, &text);
    }
    for (file, why) in &survey.damaged {
        output::note(environment, &format!("damaged: {}: {why}", file.display()));
    }
    for (file, why) in &survey.quarantined {
        output::note(environment, &format!("set aside: {}: {why}", file.display()));
    }
}

fn survey_json(survey: &Survey) -> Value {
    let workflows: Vec<Value> = survey
        .workflows
        .iter()
        .map(|workflow| {
            let task = &workflow.task;
            json!({
                "workflow": task.id,
                "status": task.status,
                "agent": task.agent,
                "steps_done": task.steps_done,
                "updated_at": task.updated_at,
                "expires_at": task.expires_at,
                "expired": task.is_expired(clock::now()),
                "held_by": task.lease.held.as_ref().map(|held| held.holder.to_string()),
                "folder": task.checkpoint.as_ref().map(|door| &door.folder),
                "damaged": workflow.damaged,
            })
        })
        .collect();
    let unknown = survey.unknown.iter().map(|(file, checkpoint)| {
        json!({"file": file, "workflow": checkpoint.workflow_id, "status": checkpoint.status})
    });
    let damaged = survey.damaged.iter();
    let damaged = damaged.map(|(file, why)| json!({"file": file, "reason": why.to_string()}));
    let quarantined = survey.quarantined.iter();
    let quarantined = quarantined.map(|(file, why)| json!({"file": file, "reason": why}));
    json!({
        "items": workflows,
        "unknown": unknown.collect::<Vec<_>>(),
        "damaged": damaged.collect::<Vec<_>>(),
        "quarantined": quarantined.collect::<Vec<_>>(),
    })
}

fn show(environment: &Environment, given: &ShowArguments) -> Outcome {
    let dialect = dialect(environment, &given.folder)?;
    let view = block_on(dialect.view(&given.workflow))?;
    output::json(&document(&view));
    Ok(0)
}

fn verify(environment: &Environment, given: VerifyArguments) -> Outcome {
    let files = if given.files.is_empty() {
        folder_files(environment, &given.folder)?
    } else {
        given.files
    };
    let (mut rows, mut text) = (Vec::new(), Vec::new());
    let (mut damaged, mut missing) = (0, 0);
    for file in &files {
        let name = file.display();
        match verify_one(file) {
            Ok(id) => {
                rows.push(json!({"file": file, "ok": true, "workflow": id}));
                text.push(format!("OK       {name}"));
            }
            Err(Unverified::Damaged(reason)) => {
                damaged += 1;
                rows.push(json!({"file": file, "ok": false, "reason": reason}));
                text.push(format!("DAMAGED  {name}: {reason}"));
            }
            Err(Unverified::Missing) => {
                missing += 1;
                let reason = "there is no such file";
                rows.push(json!({"file": file, "ok": false, "reason": reason}));
                text.push(format!("MISSING  {name}: {reason}"));
            }
        }
    }
    if text.is_empty() {
        text.push("no checkpoint files".to_owned());
    }
    let answer = json!({"items": rows, "damaged": damaged, "missing": missing});
    output::answer(environment, &answer, &text.join("\n"));
    Ok(match (damaged, missing) {
        (0, 0) => 0,
        (0, _) => Exit::No as u8,
        _ => Exit::Data as u8,
    })
}

fn folder_files(environment: &Environment, folder: &Folder) -> Result<Vec<PathBuf>, Failure> {
    use relight_runtime::checkpoint_files::ScannedFile;
    let path = environment.checkpoint_folder(folder.dir.as_deref())?;
    let found = CheckpointFolder::at(&path).scan().map_err(|error| {
        Failure::new(Exit::Io, format!("cannot read {}: {error}", path.display()))
    })?;
    Ok(found
        .into_iter()
        .map(|found| match found {
            ScannedFile::Good { path, .. } | ScannedFile::Damaged { path, .. } => path,
        })
        .collect())
}

/// Why a file is not known to be good.
enum Unverified {
    Missing,
    Damaged(String),
}

/// A file is verified where it lies; its name must fit its content.
fn verify_one(file: &std::path::Path) -> Result<String, Unverified> {
    let unread = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => Unverified::Missing,
        _ => Unverified::Damaged(error.to_string()),
    };
    if !std::fs::symlink_metadata(file).map_err(unread)?.is_file() {
        return Err(Unverified::Damaged("not a regular file".to_owned()));
    }
    let checkpoint = read_file(file).map_err(|error| match error {
        ReadError::Io { source, .. } => unread(source),
        ReadError::Damaged { reason, .. } => Unverified::Damaged(reason.to_string()),
    })?;
    if file.file_name().is_some_and(|name| !is_name_of(name.as_bytes(), &checkpoint.workflow_id)) {
        return Err(Unverified::Damaged(format!(
            "holds workflow {:?}, which belongs into {}",
            checkpoint.workflow_id,
            file_name(&checkpoint.workflow_id)
        )));
    }
    Ok(checkpoint.workflow_id)
}

fn import(environment: &Environment, given: &CheckpointImportArguments) -> Outcome {
    let dialect = dialect(environment, &given.folder)?;
    match block_on(dialect.import(&given.file, given.force))? {
        Imported::Taken(saved) => saved_answer(environment, &saved, "imported", "taken in", None),
        Imported::Same(id) => {
            let text = format!("the store has just this state of workflow {id}");
            output::answer(environment, &json!({"workflow": id, "outcome": "same"}), &text);
            Ok(0)
        }
    }
}

impl From<DialectError> for Failure {
    fn from(error: DialectError) -> Self {
        match error {
            DialectError::Act(error) => error.into(),
            error => Self { hint: error.hint(), ..Self::of(error.code(), error.to_string()) },
        }
    }
}

impl From<ResumeError> for Failure {
    fn from(error: ResumeError) -> Self {
        let message = match error {
            ResumeError::Dialect(error) => return error.into(),
            ResumeError::Held { ref task, ref agent, ref held } => {
                held_text(task, agent.as_ref(), held)
            }
            ref error => error.to_string(),
        };
        Self { hint: error.hint(), ..Self::of(error.code(), message) }
    }
}
