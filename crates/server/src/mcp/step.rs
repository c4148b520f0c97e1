//! Steps: begun before they act, ended after.

use relight_core::agent::plain::clipped;
use relight_core::decide::StepAdvice;
use relight_core::step::{StepKey, StepState};
use relight_runtime::operations::Written;
use relight_runtime::operations::step::{StepBegin, StepClosed, StepEnd, StepSkip};
use rmcp::model::JsonObject;
use serde_json::json;

use super::call_context::CallContext;
use super::reply::{OUTPUT_BYTES_MAX, Reply};
use crate::error::ApiError;

pub(super) async fn begin(context: &CallContext, given: JsonObject) -> Result<Reply, ApiError> {
    let written = context.operate::<StepBegin>(given).await?;
    let answer = &written.answer;
    let mut data = json!(answer);
    let word = data["advice"].as_str().unwrap_or_default();
    let mut text = format!("{word}: {}", meaning(answer.advice));
    if matches!(
        answer.advice,
        StepAdvice::Go | StepAdvice::Again | StepAdvice::Ask
    ) {
        text += &format!("; idempotency_key {}", answer.idempotency_key);
    }
    if let Some(output) = answer.output.as_ref().filter(|output| !output.is_empty()) {
        let told = clipped(output, OUTPUT_BYTES_MAX);
        text += &format!("\noutput: {told}");
        data["output"] = json!(told);
        if told.len() < output.len() {
            text += &format!("\n(cut: the output has {} bytes)", output.len());
            data["output_cut"] = json!(true);
            data["output_bytes"] = json!(output.len());
        }
    }
    Ok(Reply::new(text, data).with_file_error(written.file_error))
}

fn meaning(advice: StepAdvice) -> &'static str {
    match advice {
        StepAdvice::Go => "do it, then step_end",
        StepAdvice::Again => {
            "it may have happened; check if you can, then do it with the same key, then step_end"
        }
        StepAdvice::Ask => {
            "it may have happened; find out: if it did, only step_end; if not, do it, then step_end"
        }
        StepAdvice::Wait => "it may have happened and must not be repeated; stop, a person decides",
        StepAdvice::Finished => "it was done before; skip it",
    }
}

pub(super) async fn skip(context: &CallContext, given: JsonObject) -> Result<Reply, ApiError> {
    Ok(closed_reply(context.operate::<StepSkip>(given).await?))
}

pub(super) async fn end(context: &CallContext, given: JsonObject) -> Result<Reply, ApiError> {
    Ok(closed_reply(context.operate::<StepEnd>(given).await?))
}

fn closed_reply(written: Written<StepClosed>) -> Reply {
    let answer = &written.answer;
    let key = StepKey {
        name: answer.step.clone(),
        occurrence: answer.occurrence,
    };
    let word = match answer.outcome {
        StepState::Skipped => "is skipped",
        StepState::Failed => "failed; step_begin tries it again",
        _ if answer.is_repeated => "was done already",
        StepState::Done | StepState::Begun => "is done",
    };
    let mut text = format!("step {key} {word}");
    if let Some(next) = &answer.next_step {
        text += &format!("; next: {next}");
    }
    Reply::new(text, json!(answer)).with_file_error(written.file_error)
}
