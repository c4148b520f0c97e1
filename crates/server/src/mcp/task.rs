//! Tasks: taken, finished, blocked.

use relight_core::decide::Right;
use relight_core::ids::StepName;
use relight_core::lease::Fence;
use relight_core::task::{NewTask, TaskSpec};
use relight_runtime::drain;
use relight_runtime::engine::Started;
use relight_runtime::operations::task::{TaskBlock, TaskDone};
use relight_runtime::operations::{Written, view};
use relight_runtime::running_step::check_start;
use rmcp::model::JsonObject;
use serde_json::{Value, json};

use super::arguments;
use super::call_context::CallContext;
use super::reply::{Reply, first, last};
use crate::error::ApiError;

pub(super) async fn start(
    context: &CallContext,
    given: arguments::TaskStart,
) -> Result<Reply, ApiError> {
    let id = context.task(given.task)?;
    let agent = context.agent(given.agent)?;
    let (holder, ttl) = context.holder(agent.as_ref(), given.lease.as_deref()).await?;
    let steps: Result<Vec<StepName>, _> = given.steps.into_iter().map(StepName::new).collect();
    let spec = TaskSpec { title: given.title, steps: steps?, ..TaskSpec::default() };
    check_start(&context.engine, &id, given.fence.map(Fence)).await?;
    context.reported(agent.as_ref()).await?;
    let (expires_at, checkpoint) = (None, None);
    let new = NewTask { id: id.clone(), agent, spec, context: given.set, expires_at, checkpoint };
    let right = context.fence(&id, given.fence).map_or(Right::Unfenced, Right::Fence);
    let started =
        drain::start(&context.engine, new, right, holder, ttl, context.limits.clone()).await?;
    context.remember(&started);
    let written = context.operations().refresh(&started.view.task.id).await?;
    let reply = Reply::new(started_text("task", &started), started_data(&started));
    Ok(reply.with_file_error(written.file_error))
}

/// How far it is, in a line or two.
pub(super) fn started_text(noun: &str, started: &Started) -> String {
    let (task, progress, fence) = (&started.view.task, &started.view.progress, started.fence);
    let word = if started.resumed { "resumed" } else { "started" };
    let mut text = format!("{noun} {} {word}; fence {fence}", task.id);
    if started.resumed {
        text += &format!("; {} done", progress.done_steps.len());
    }
    if let Some(next) = &progress.next_step {
        text += &format!("; next: {next}");
    }
    if !progress.in_doubt.is_empty() {
        text += &format!("\nin doubt: {}", first(&progress.in_doubt).join(", "));
    }
    if let Some(handed_over) = &started.handed_over {
        text += &format!("\n{}", handed_over.text());
    }
    if started.resumed {
        text += "\nresume_brief tells what happened before";
    }
    text
}

pub(super) fn started_data(started: &Started) -> Value {
    let (task, progress) = (&started.view.task, &started.view.progress);
    let mut data = json!({
        "task": task.id,
        "fence": started.fence,
        "resumed": started.resumed,
        "handed_over": started.handed_over,
        "done_steps": last(&progress.done_steps),
        "in_doubt": first(&progress.in_doubt),
        "next_step": progress.next_step,
    });
    let done = progress.done_steps.len();
    if done > last(&progress.done_steps).len() {
        data["done_count"] = json!(done);
    }
    if !task.context.is_empty() {
        data["context"] = json!(task.context);
    }
    data
}

pub(super) async fn done(context: &CallContext, given: JsonObject) -> Result<Reply, ApiError> {
    Ok(task_reply(context.operate::<TaskDone>(given).await?))
}

pub(super) async fn block(context: &CallContext, given: JsonObject) -> Result<Reply, ApiError> {
    Ok(task_reply(context.operate::<TaskBlock>(given).await?))
}

/// Of the whole task only what matters: an agent pays for each word.
fn task_reply(written: Written<view::Task>) -> Reply {
    let view::Task { id, status, .. } = &written.answer;
    let reply = Reply::new(format!("task {id} is {status}"), json!({"id": id, "status": status}));
    reply.with_file_error(written.file_error)
}
