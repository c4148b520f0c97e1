//! Steps: begun before they act, ended after, and resolved by a person in between.

use axum::extract::State;
use relight::engine::{ActError, Engine};
use relight_core::change::Change;
use relight_core::decide::{Refusal, Right, StepAdvice, TaskEvent, advise};
use relight_core::ids::{StepName, TaskId};
use relight_core::step::{Output, RepeatRule, StepKey, StepOutcome};
use relight_core::task::{self, Usage};

use super::heartbeat::Done;
use super::tasks::right;
use crate::answer::Answer;
use crate::app::App;
use crate::error::ApiError;
use crate::extract::{Given, Named};
use crate::wire::step::{Advice, BeginStep, EndStep, ResolveStep, SkipStep};
use crate::wire::task::Task;

/// A step is about to act: what to do with it.
#[cfg_attr(test, utoipa::path(post, path = "/api/tasks/{id}/steps/{name}/begin", tag = "steps",
    params(("id" = String, Path), ("name" = String, Path)), request_body = BeginStep,
    responses((status = 200, body = Advice), (status = 404),
        (status = 409), (status = 422))))]
pub(super) async fn begin(
    State(app): State<App>,
    Named((id, name)): Named<(String, String)>,
    Given(given): Given<BeginStep>,
) -> Result<Answer<Advice>, ApiError> {
    let id = TaskId::new(id)?;
    let engine = &app.backend.engine;
    let key = step_key(engine, name, given.occurrence)?;
    let rule = given.rule.as_deref().map(str::parse::<RepeatRule>).transpose();
    let rule = rule.map_err(|error| ApiError::invalid(error.to_string()))?.unwrap_or_default();
    let (advice, before) = begin_step(engine, &id, right(given.fence), &key, rule).await?;
    if let Some(before) = before {
        app.refresh_after_step(&before).await;
    }
    let output = match advice {
        StepAdvice::Finished => engine.store().output(&id, &key).await?,
        _ => None,
    };
    Ok(Answer(Advice {
        advice: word(advice).to_owned(),
        idempotency_key: key.idempotency_key(&id),
        exit_code: output.as_ref().map(|output| output.exit_code),
        output: output.map(|output| String::from_utf8_lossy(&output.body).into_owned()),
    }))
}

/// Records the begin; what to do is what was decided in the commit. Also answers the task that it was
/// decided upon, where there was something to decide.
pub(crate) async fn begin_step(
    engine: &Engine,
    id: &TaskId,
    right: Right,
    key: &StepKey,
    rule: RepeatRule,
) -> Result<(StepAdvice, Option<task::Task>), ActError> {
    let event = TaskEvent::StepBegin { key: key.clone(), rule, fingerprint: None };
    let acted = match engine.act(id, right, event).await {
        Err(ActError::Refused(Refusal::StepFinished { .. })) => {
            return Ok((StepAdvice::Finished, None));
        }
        acted => acted?,
    };
    let begun = acted.decision.changes.iter().find_map(|change| match change {
        Change::StepBegun(mark) => Some(mark.was_open),
        _ => None,
    });
    let advice = match begun {
        Some(true) => StepAdvice::Again,
        Some(false) => StepAdvice::Go,
        // Its rule leaves it to a question, or to a person.
        None => advise(engine.store().step(id, key).await?.as_ref()),
    };
    Ok((advice, Some(acted.before)))
}

/// The word used everywhere.
pub(crate) fn word(advice: StepAdvice) -> &'static str {
    match advice {
        StepAdvice::Go => "go",
        StepAdvice::Again => "again",
        StepAdvice::Ask => "ask",
        StepAdvice::Wait => "wait",
        StepAdvice::Finished => "finished",
    }
}

/// A step has acted. One that was finished before stays as it is.
#[cfg_attr(test, utoipa::path(post, path = "/api/tasks/{id}/steps/{name}/end", tag = "steps",
    params(("id" = String, Path), ("name" = String, Path)), request_body = EndStep,
    responses((status = 200), (status = 404), (status = 409),
        (status = 422))))]
pub(super) async fn end(
    State(app): State<App>,
    Named((id, name)): Named<(String, String)>,
    Given(given): Given<EndStep>,
) -> Result<Answer<Done>, ApiError> {
    let id = TaskId::new(id)?;
    let key = step_key(&app.backend.engine, name, given.occurrence)?;
    let exit_code = given.exit_code.unwrap_or(i32::from(given.failed));
    let usage = Usage {
        cost_micros: given.cost.as_deref().map(micros).transpose()?.unwrap_or(0),
        turns: given.turns.unwrap_or(0),
    };
    let outcome = if given.failed { StepOutcome::Failed } else { StepOutcome::Done };
    let output = Output::keep(exit_code, given.output.unwrap_or_default().into_bytes());
    let (engine, right, ended) = (&app.backend.engine, right(given.fence), (outcome, output));
    match engine.end_step(&id, right, key, ended, usage).await {
        // Said twice; the first time counts.
        Err(ActError::Refused(Refusal::StepFinished { .. })) if !given.failed => {}
        acted => app.refresh_after_step(&acted?.before).await,
    }
    Ok(Answer(Done {}))
}

/// `0.25` in millionths.
pub(crate) fn micros(text: &str) -> Result<u64, ApiError> {
    let bad = || ApiError::invalid(format!("{text:?} is no cost; write a number such as 0.25"));
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || part.len() > 6 || !is_number(whole) || !is_number(part) {
        return Err(bad());
    }
    let whole: u64 = whole.parse().map_err(|_| bad())?;
    let part: u64 = format!("{part:0<6}").parse().map_err(|_| bad())?;
    whole.checked_mul(1_000_000).and_then(|whole| whole.checked_add(part)).ok_or_else(bad)
}

/// A person knows what became of a step in doubt.
#[cfg_attr(test, utoipa::path(post, path = "/api/tasks/{id}/steps/{name}/resolve", tag = "steps",
    params(("id" = String, Path), ("name" = String, Path)), request_body = ResolveStep,
    responses((status = 200, body = Task), (status = 404),
        (status = 409), (status = 422))))]
pub(super) async fn resolve(
    State(app): State<App>,
    Named((id, name)): Named<(String, String)>,
    Given(given): Given<ResolveStep>,
) -> Result<Answer<Task>, ApiError> {
    let id = TaskId::new(id)?;
    let engine = &app.backend.engine;
    let key = step_key(engine, name, given.occurrence)?;
    let event = TaskEvent::StepResolve { key, happened: given.happened };
    engine.act(&id, right(None), event).await?;
    app.refresh(&id).await;
    Ok(Answer(engine.task(&id).await?.into()))
}

/// A step is not to be done: it is closed, and no longer keeps its task from being done.
#[cfg_attr(test, utoipa::path(post, path = "/api/tasks/{id}/steps/{name}/skip", tag = "steps",
    params(("id" = String, Path), ("name" = String, Path)), request_body = SkipStep,
    responses((status = 200, body = Task), (status = 404),
        (status = 409), (status = 422))))]
pub(super) async fn skip(
    State(app): State<App>,
    Named((id, name)): Named<(String, String)>,
    Given(given): Given<SkipStep>,
) -> Result<Answer<Task>, ApiError> {
    let id = TaskId::new(id)?;
    let engine = &app.backend.engine;
    let key = step_key(engine, name, given.occurrence)?;
    let event = TaskEvent::StepSkip { key, reason: given.reason };
    engine.act(&id, right(given.fence), event).await?;
    app.refresh(&id).await;
    Ok(Answer(engine.task(&id).await?.into()))
}

/// The step as the store knows it: a secret in its name is marked.
pub(crate) fn step_key(
    engine: &Engine,
    name: String,
    occurrence: Option<u32>,
) -> Result<StepKey, ApiError> {
    let occurrence = occurrence.unwrap_or(1);
    if occurrence == 0 {
        return Err(ApiError::invalid("occurrence counts from 1"));
    }
    let mut key = StepKey { name: StepName::new(name)?, occurrence };
    relight::redact_input::clean_step(engine.redactor(), &mut key);
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_read_as_people_write_them() {
        for (text, expected) in
            [("0", 0), ("0.25", 250_000), ("3", 3_000_000), ("1.000001", 1_000_001)]
        {
            assert_eq!(micros(text).unwrap(), expected);
        }
        for bad in ["", ".", ".5", "-1", "1e3", "0.0000001", "1.2.3", "99999999999999999999"] {
            assert!(micros(bad).is_err(), "{bad:?}");
        }
    }
}
