//! Tasks: taken, finished, blocked.

use relight_core::agent::plain::clipped;
use relight_runtime::engine::Started;
use relight_runtime::operations::task::{TaskBlock, TaskDone};
use relight_runtime::operations::work::{Taker, TaskStart};
use relight_runtime::operations::{Written, read, view};
use relight_runtime::recovery::Strategies;
use rmcp::model::JsonObject;
use serde_json::{Value, json};

use super::call_context::CallContext;
use super::reply::{OUTPUT_BYTES_MAX, Reply, first, last};
use crate::error::ApiError;

pub(super) async fn start(context: &CallContext, mut given: JsonObject) -> Result<Reply, ApiError> {
    let id = context.task(&given)?;
    given.insert("task".to_owned(), json!(id));
    let mut request: TaskStart = read(given)?;
    request.definition.agent = request.definition.agent.or_else(|| context.agent.clone());
    let agent = request.definition.agent.as_ref();
    context.reported(agent).await?;
    let taker = Taker {
        fence: context.fence(&id, None),
        ..context.taker(agent).await?
    };
    let (limits, strategies) = (context.limits.clone(), Strategies::default());
    let written = request
        .run(&context.operations(), &strategies, limits, taker)
        .await?;
    let started = &written.answer;
    context.remember(started);
    let reply = Reply::new(started_text("task", started), started_data(started));
    Ok(reply.with_file_error(written.file_error))
}

/// How far it is, in a line or two.
pub(super) fn started_text(noun: &str, started: &Started) -> String {
    let (task, progress, fence) = (&started.view.task, &started.view.progress, started.fence);
    let word = if started.resumed {
        "resumed"
    } else {
        "started"
    };
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
    if let Some(payload) = &task.spec.payload {
        text += &format!(
            "\npayload: {}",
            clipped(&payload.to_string(), OUTPUT_BYTES_MAX)
        );
    }
    if let Some(handed_over) = &started.handed_over {
        text += &format!("\n{}", handed_over.text());
    }
    if started.resumed {
        text += "\nresume_brief tells what happened before";
    }
    text
}

/// The answer of every front, with the last steps only where there are many: an agent pays for each word.
pub(super) fn started_data(started: &Started) -> Value {
    let mut data = json!(view::StartedView::from(started.clone()));
    let done = &started.view.progress.done_steps;
    if last(done).len() < done.len() {
        data["done_steps"] = json!(last(done));
        data["done_steps_total"] = json!(done.len());
    }
    let in_doubt = &started.view.progress.in_doubt;
    if first(in_doubt).len() < in_doubt.len() {
        data["in_doubt"] = json!(first(in_doubt));
        data["in_doubt_total"] = json!(in_doubt.len());
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
fn task_reply(written: Written<view::TaskView>) -> Reply {
    let view::TaskView { id, status, .. } = &written.answer;
    let reply = Reply::new(
        format!("task {id} is {status}"),
        json!({"id": id, "status": status}),
    );
    reply.with_file_error(written.file_error)
}
