//! The checkpoint dialect: one tool to save, one to go on.

use std::path::Path;

use relight_runtime::dialect::Dialect;
use relight_runtime::engine::ActError;
use relight_runtime::operations::checkpoint::{
    CheckpointResume, CheckpointSave, CheckpointSaved, WorkflowState,
};
use serde_json::json;

use super::call_context::CallContext;
use super::reply::{Reply, first};
use super::task::{started_data, started_text};
use crate::error::ApiError;

fn workflows(context: &CallContext) -> Dialect {
    Dialect::new(context.engine.clone(), context.checkpoints.clone())
}

/// Over HTTP no folder is told.
fn told(context: &CallContext, error: ActError) -> ApiError {
    match error {
        ActError::Workflow(error) if context.is_over_http() => {
            ActError::from(error.without_folders()).into()
        }
        error => error.into(),
    }
}

pub(super) async fn save(
    context: &CallContext,
    mut given: CheckpointSave,
) -> Result<Reply, ApiError> {
    given.fence = context.fence(&given.workflow, given.fence.map(|fence| fence.0));
    let written = given.run(&workflows(context), context.agent.clone()).await;
    let written = written.map_err(|error| told(context, error))?;
    context.written(&written.task);
    Ok(saved_reply(&written.answer).with_file_error(written.file_error))
}

/// Of the whole answer only what matters: an agent pays for each word.
fn saved_reply(saved: &CheckpointSaved) -> Reply {
    let CheckpointSaved {
        workflow,
        outcome,
        state,
    } = saved;
    let mut data = json!({"workflow": workflow, "outcome": outcome});
    let Some(WorkflowState {
        status,
        step,
        left_open,
        replaced,
        ..
    }) = state
    else {
        let why = match *outcome {
            "completed" => "was completed before; nothing to do",
            _ => "has this idempotency key; nothing was started",
        };
        return Reply::new(format!("workflow {workflow} {why}"), data);
    };
    let mut text = format!("workflow {workflow} {outcome}");
    (data["status"], data["step"]) = (json!(status), json!(step));
    if let Some(step) = step {
        text += &format!("; at {step}");
    }
    if !left_open.is_empty() {
        text += &format!("\nsteps left open: {}", first(left_open).join(", "));
        data["left_open"] = json!(first(left_open));
    }
    if let Some(status) = replaced {
        text += &format!("\na new run: the one before was {status}");
        data["replaced"] = json!(status);
    }
    Reply::new(text, data)
}

pub(super) async fn resume(
    context: &CallContext,
    mut given: CheckpointResume,
) -> Result<Reply, ApiError> {
    given.caller.clone_from(&context.agent);
    let agent = given.agent.clone().or_else(|| context.agent.clone());
    let holder = context.holder(agent.as_ref()).await?;
    let (limits, mut reports) = (context.limits.clone(), Vec::new());
    let written = given
        .run(&workflows(context), holder, limits, &mut reports)
        .await;
    let written = written.map_err(|error| told(context, error))?;
    let started = &written.answer.started;
    context.remember(started);
    let mut text = started_text("workflow", started);
    let mut data = started_data(started);
    if let Some(notes) = &written.answer.checkpoint.notes {
        text += &format!("\nnotes: {notes}");
        data["notes"] = json!(notes);
    }
    for report in &reports {
        let what = if report.is_damaged {
            "is damaged"
        } else {
            "is not used"
        };
        let name = report
            .file
            .file_name()
            .map(Path::new)
            .filter(|_| context.is_over_http());
        let file = name.unwrap_or(&report.file).display();
        text += &format!("\n{file} {what}: {}", report.reason);
    }
    Ok(Reply::new(text, data).with_file_error(written.file_error))
}
