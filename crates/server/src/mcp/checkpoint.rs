//! The checkpoint dialect: one tool to save, one to go on.

use relight_core::checkpoint::WorkflowStatus;
use relight_core::decide::Right;
use relight_core::ids::{AgentName, IdError, IdempotencyKey, StepName, TaskId};
use relight_core::step::StepKey;
use relight_core::time::Span;
use relight_runtime::dialect::{
    Dialect, ResumeRequest, Saved, StartOutcome, StartRequest, UpdateRequest, document,
};
use relight_runtime::operations::work::length;
use relight_runtime::os::clock;
use relight_runtime::redact_input::clean_key;
use serde_json::json;

use super::arguments::{CheckpointResume, CheckpointSave};
use super::call_context::CallContext;
use super::reply::{Reply, first};
use super::task::{started_data, started_text};
use crate::error::ApiError;
use crate::routes::span;

/// How long a workflow is worth resuming.
const LIFETIME: Span = Span::from_secs(7 * 24 * 60 * 60);

pub(super) async fn save(context: &CallContext, given: CheckpointSave) -> Result<Reply, ApiError> {
    let dialect = Dialect::new(context.engine.clone(), context.checkpoints.clone());
    let id = TaskId::new(given.workflow.clone())?;
    // A key that is not the known workflow's asks for another run, as `checkpoint start` does.
    let is_update = match (context.engine.store().task(&id).await?, &given.idempotency) {
        (Some(task), Some(key)) if !task.status.is_terminal() => {
            let mut key = IdempotencyKey::new(key.clone())?;
            clean_key(context.engine.redactor(), &mut key);
            task.spec.key == Some(key)
        }
        (known, key) => known.is_some() && key.is_none(),
    };
    // Steps are finished only of a workflow that is there: a mistyped name is not a new one.
    let names_no_step = given.step.is_none() && !given.complete.is_empty();
    if is_update || names_no_step {
        return update(context, &dialect, &id, &given).await;
    }
    let (saved, replaced) = match dialect.start(start_request(context, &id, &given)?).await? {
        StartOutcome::Started { saved, replaced } => (saved, replaced),
        StartOutcome::Same(saved) => (saved, None),
        StartOutcome::Completed(id) => {
            let text = format!("workflow {id} was completed before; nothing to do");
            return Ok(Reply::new(text, json!({"workflow": id, "outcome": "completed"})));
        }
        StartOutcome::KeyTaken(id) => {
            let text = format!("workflow {id} has this idempotency key; nothing was started");
            return Ok(Reply::new(text, json!({"workflow": id, "outcome": "key_taken"})));
        }
    };
    if !given.complete.is_empty() || given.status.is_some() {
        return update(context, &dialect, &id, &given).await;
    }
    let mut reply = saved_reply(&saved, "started");
    if let Some(status) = replaced {
        reply.text += &format!("\na new run: the one before was {status}");
    }
    Ok(reply)
}

fn start_request(
    context: &CallContext,
    id: &TaskId,
    given: &CheckpointSave,
) -> Result<StartRequest, ApiError> {
    let lacks = |what: &str| ApiError::invalid(format!("a new workflow needs {what}"));
    let key = match &given.idempotency {
        Some(key) => IdempotencyKey::new(key.clone())?,
        // The id is the key, where it can be one.
        None => IdempotencyKey::new(id.as_str()).or_else(|_| {
            let first = StepKey::first(StepName::new("workflow")?);
            IdempotencyKey::new(first.idempotency_key(id))
        })?,
    };
    Ok(StartRequest {
        workflow: id.clone(),
        agent: agent(context, given.agent.as_deref())?.ok_or_else(|| lacks("agent, your name"))?,
        step: StepName::new(
            given.step.clone().ok_or_else(|| lacks("step, what you are about to do"))?,
        )?,
        remaining: names(&given.remaining)?,
        key,
        handoff_to: given.handoff.clone(),
        notes: given.notes.clone(),
        expires_at: Some(clock::now().plus(LIFETIME)),
        force: false,
    })
}

/// The agent of a workflow, which may have any name; the caller when none is given.
fn agent(context: &CallContext, given: Option<&str>) -> Result<Option<AgentName>, ApiError> {
    match given {
        Some(name) => Ok(Some(AgentName::of_workflow(name)?)),
        None => context.agent(None),
    }
}

fn names(given: &[String]) -> Result<Vec<StepName>, IdError> {
    given.iter().cloned().map(StepName::new).collect()
}

async fn update(
    context: &CallContext,
    dialect: &Dialect,
    id: &TaskId,
    given: &CheckpointSave,
) -> Result<Reply, ApiError> {
    let status = given.status.as_deref().map(status).transpose()?;
    let request = UpdateRequest {
        complete: names(&given.complete)?,
        step: given.step.clone().map(StepName::new).transpose()?,
        status,
        notes: given.notes.clone(),
        ..UpdateRequest::default()
    };
    // Whoever only saves need not hold it; a fence that is there must be good.
    let right = context.fence(id, given.fence).map_or(Right::Unfenced, Right::Fence);
    let saved = dialect.update(id, right, &request).await?;
    if status == Some(WorkflowStatus::Done) {
        context.forget(id);
    }
    Ok(saved_reply(&saved, if status == Some(WorkflowStatus::Done) { "done" } else { "saved" }))
}

fn status(word: &str) -> Result<WorkflowStatus, ApiError> {
    let known = [
        WorkflowStatus::InProgress,
        WorkflowStatus::Blocked,
        WorkflowStatus::Done,
        WorkflowStatus::Failed,
    ];
    known.into_iter().find(|status| status.as_str() == word).ok_or_else(|| {
        ApiError::invalid(format!("{word:?} is not a status"))
            .hint("in_progress, blocked, done or failed")
    })
}

fn saved_reply(saved: &Saved, word: &str) -> Reply {
    let checkpoint = document(&saved.view);
    let mut text = format!("workflow {} {word}", checkpoint.workflow_id);
    if let Some(step) = &checkpoint.current_step {
        text += &format!("; at {step}");
    }
    let mut data = json!({
        "workflow": checkpoint.workflow_id, "outcome": word, "status": checkpoint.status,
        "step": checkpoint.current_step,
    });
    let left_open = saved.left_open();
    if !left_open.is_empty() {
        text += &format!("\nsteps left open: {}", first(&left_open).join(", "));
        data["left_open"] = json!(first(&left_open));
    }
    Reply::new(text, data).with_file_error(saved.file_error())
}

pub(super) async fn resume(
    context: &CallContext,
    given: CheckpointResume,
) -> Result<Reply, ApiError> {
    let dialect = Dialect::new(context.engine.clone(), context.checkpoints.clone());
    let workflow = given.workflow.map(TaskId::new).transpose()?;
    let agent = agent(context, given.agent.as_deref())?;
    let holder = context.holder(agent.as_ref()).await?;
    let ttl = length(&holder, given.lease.as_deref().map(span).transpose()?)?;
    if let (Some(id), Some(_)) = (&workflow, given.fence) {
        let fence = context.right(id, given.fence)?;
        let task = context.engine.task(id).await?;
        if task.lease.admits(fence) {
            let (right, limits) = (Right::Fence(fence), context.limits.clone());
            let started = context.engine.take(id, right, holder, ttl, false, limits).await?;
            context.remember(&started);
            let data = started_data(&started);
            return Ok(Reply::new(started_text("workflow", &started), data));
        }
    }
    let (agent, limits) = (agent.filter(|_| given.agent.is_some()), context.limits.clone());
    let request = ResumeRequest { workflow, agent, steal: false, holder, ttl, limits };
    let mut reports = Vec::new();
    let resumed = dialect.resume(&request, &mut reports).await?;
    context.remember(&resumed.started);
    let checkpoint = document(&resumed.saved.view);
    let mut text = started_text("workflow", &resumed.started);
    let mut data = started_data(&resumed.started);
    if let Some(notes) = &checkpoint.notes {
        text += &format!("\nnotes: {notes}");
        data["notes"] = json!(notes);
    }
    for report in &reports {
        let what = if report.is_damaged { "is damaged" } else { "is not used" };
        text += &format!("\n{} {what}: {}", report.file.display(), report.reason);
    }
    Ok(Reply::new(text, data).with_file_error(resumed.saved.file_error()))
}
