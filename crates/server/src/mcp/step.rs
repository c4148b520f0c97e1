//! Steps: begun before they act, ended after.

use relight::engine::ActError;
use relight_core::agent::plain::clipped;
use relight_core::decide::{Refusal, StepAdvice, TaskEvent};
use relight_core::ids::TaskId;
use relight_core::step::{Output, RepeatRule, StepKey, StepOutcome};
use relight_core::task::Usage;
use serde_json::json;

use super::arguments;
use super::call_context::CallContext;
use super::problem::Problem;
use super::reply::Reply;
use crate::routes::steps::{self, micros};

/// So much of a finished step's output is told; all of it is in the store.
const OUTPUT_BYTES_MAX: usize = 4 << 10;

pub(super) async fn begin(
    seat: &CallContext,
    given: arguments::StepBegin,
) -> Result<Reply, Problem> {
    let id = seat.task(given.task)?;
    let right = seat.right(&id, given.fence)?;
    let key = steps::step_key(&seat.engine, given.step, given.occurrence)?;
    let rule = given.rule.as_deref().map(str::parse::<RepeatRule>).transpose();
    let rule = rule.map_err(|error| Problem::invalid(error.to_string()))?.unwrap_or_default();
    let (advice, _) = steps::begin_step(&seat.engine, &id, right, &key, rule).await?;
    if advice == StepAdvice::Wait {
        seat.forget(&id);
    }
    seat.refresh(&id).await;
    let output = match advice {
        StepAdvice::Finished => seat.engine.store().output(&id, &key).await?,
        _ => None,
    };
    Ok(advice_reply(&id, &key, advice, output.as_ref()))
}

fn advice_reply(
    task: &TaskId,
    key: &StepKey,
    advice: StepAdvice,
    output: Option<&Output>,
) -> Reply {
    let idempotency_key = key.idempotency_key(task);
    let word = steps::word(advice);
    let mut data = json!({"advice": word, "step": key.to_string()});
    let mut text = format!("{word}: {}", meaning(advice));
    if matches!(advice, StepAdvice::Go | StepAdvice::Again | StepAdvice::Ask) {
        text += &format!("; idempotency_key {idempotency_key}");
        data["idempotency_key"] = json!(idempotency_key);
    }
    if let Some(output) = output.filter(|output| !output.body.is_empty()) {
        let whole = String::from_utf8_lossy(&output.body);
        let told = clipped(&whole, OUTPUT_BYTES_MAX);
        text += &format!("\noutput: {told}");
        data["output"] = json!(told);
        if told.len() < whole.len() {
            data["output_bytes"] = json!(whole.len());
        }
    }
    Reply::new(text, data)
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

pub(super) async fn skip(seat: &CallContext, given: arguments::StepSkip) -> Result<Reply, Problem> {
    let id = seat.task(given.task)?;
    let right = seat.right(&id, given.fence)?;
    let key = steps::step_key(&seat.engine, given.step, given.occurrence)?;
    let event = TaskEvent::StepSkip { key: key.clone(), reason: given.reason };
    seat.engine.act(&id, right, event).await?;
    seat.refresh(&id).await;
    let next = seat.engine.view(&id).await?.progress.next_step;
    let mut text = format!("step {key} is skipped");
    if let Some(next) = &next {
        text += &format!("; next: {next}");
    }
    Ok(Reply::new(text, json!({"step": key.to_string(), "state": "skipped", "next_step": next})))
}

pub(super) async fn end(seat: &CallContext, given: arguments::StepEnd) -> Result<Reply, Problem> {
    let id = seat.task(given.task)?;
    let right = seat.right(&id, given.fence)?;
    let key = steps::step_key(&seat.engine, given.step, given.occurrence)?;
    let usage = Usage {
        cost_micros: given.cost.as_deref().map(micros).transpose()?.unwrap_or(0),
        turns: given.turns.unwrap_or(0),
    };
    let outcome = if given.failed { StepOutcome::Failed } else { StepOutcome::Done };
    let exit_code = i32::from(given.failed);
    let output = Output::keep(exit_code, given.output.unwrap_or_default().into_bytes());
    let ended = (outcome, output);
    let word = match seat.engine.end_step(&id, right, key.clone(), ended, usage).await {
        // Said twice; the first time counts.
        Err(ActError::Refused(Refusal::StepFinished { .. })) if !given.failed => "was done already",
        acted => {
            acted?;
            if given.failed { "failed; step_begin tries it again" } else { "is done" }
        }
    };
    seat.refresh(&id).await;
    let next = seat.engine.view(&id).await?.progress.next_step;
    let mut text = format!("step {key} {word}");
    if let Some(next) = &next {
        text += &format!("; next: {next}");
    }
    Ok(Reply::new(text, json!({"step": key.to_string(), "outcome": outcome, "next_step": next})))
}
