//! The verbs of a step: begun before it acts, ended after, skipped, or resolved by a person.

use std::num::NonZeroU32;

use async_trait::async_trait;
use relight_core::change::Change;
use relight_core::decide::{Refusal, Right, StepAdvice, TaskEvent, advise};
use relight_core::ids::{StepName, TaskId};
use relight_core::progress::progress;
use relight_core::status::TaskStatus;
use relight_core::step::{Output, RepeatRule, StepKey, StepOutcome, StepState};
use relight_core::task::{Cost, Task};
use serde::{Deserialize, Serialize};

use super::task::usage;
use super::view::StepWithOutput;
use super::{Context, Operation, Written, check_reason, fields, right};
use crate::boxed::boxed;
use crate::engine::{ActError, Acted, Engine};
use crate::redact_input::settle_step_name;
use crate::running_step::{Runner, RunningStep};

request! {
    /// Begins a step; the answer says what to do.
    step StepBegin {
        /// Default: `keyed`.
        #[serde(default, deserialize_with = "fields::text")]
        #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
        pub rule: RepeatRule,
    }
}

/// What to do with a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Advice {
    /// The task's id.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub task: TaskId,
    /// Its name.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub step: StepName,
    /// Which use of this name.
    pub occurrence: u32,
    /// `go`, `again`, `ask`, `wait` or `finished`.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub advice: StepAdvice,
    /// Stays the same however often the step is tried.
    pub idempotency_key: String,
    /// Of a finished step.
    pub output: Option<String>,
    /// Of a finished step.
    pub exit_code: Option<i32>,
}

#[async_trait]
impl Operation for StepBegin {
    type Answer = Advice;

    async fn run(self, context: &Context) -> Result<Written<Advice>, ActError> {
        let (engine, id) = (&context.engine, self.task);
        let key = key(engine, self.step, self.occurrence)?;
        check_not_running(context, &id, &key)?;
        // What a killed `step run` left is not this caller's end.
        if let Ok(Runner::Gone) = RunningStep::runner(&context.home, &id, &key) {
            drop(RunningStep::take(&context.home, &id, &key));
        }
        let (advice, acted) = begin(engine, &id, right(self.fence), &key, self.rule).await?;
        let written = match acted {
            Some(acted) => context.refresh_after_step(acted).await?,
            None => Written::new(engine.task(&id).await?),
        };
        let output = match advice {
            StepAdvice::Finished => engine.store().output(&id, &key).await?,
            _ => None,
        };
        Ok(written.map(|(), _| Advice {
            idempotency_key: key.idempotency_key(&id),
            task: id,
            step: key.name,
            occurrence: key.occurrence,
            advice,
            exit_code: output.as_ref().map(|output| output.exit_code),
            output: output.map(|output| String::from_utf8_lossy(&output.body).into_owned()),
        }))
    }
}

impl Context {
    /// A step and what it wrote; none when there is no such step.
    #[boxed]
    pub async fn show_step(
        &self,
        id: &TaskId,
        name: StepName,
        occurrence: Option<NonZeroU32>,
    ) -> Result<Option<StepWithOutput>, ActError> {
        let store = self.engine.store();
        self.engine.task(id).await?;
        let mut key = numbered(name, occurrence);
        let mut step = store.step(id, &key).await?;
        if step.is_none() && settle_step_name(self.engine.redactor(), &mut key.name).is_ok() {
            step = store.step(id, &key).await?;
        }
        let Some(step) = step else {
            return Ok(None);
        };
        let output = store.output(id, &key).await?;
        Ok(Some(StepWithOutput::new(id, &step, output.as_ref())))
    }
}

/// Records the begin; what to do is what was decided in the commit. Also answers what was committed,
/// where there was something to decide.
#[boxed]
pub async fn begin(
    engine: &Engine,
    id: &TaskId,
    right: Right,
    key: &StepKey,
    rule: RepeatRule,
) -> Result<(StepAdvice, Option<Acted>), ActError> {
    let event = TaskEvent::StepBegin {
        key: key.clone(),
        rule,
        fingerprint: None,
    };
    let acted = match engine.act(id, right, event).await {
        Err(ActError::Refused(Refusal::StepFinished { .. })) => {
            return Ok((StepAdvice::Finished, None));
        }
        acted => acted?,
    };
    let begun = acted
        .decision
        .changes
        .iter()
        .find_map(|change| match change {
            Change::StepBegun(mark) => Some(mark.was_open),
            _ => None,
        });
    let advice = match begun {
        Some(true) => StepAdvice::Again,
        Some(false) => StepAdvice::Go,
        // Its rule leaves it to a question, or to a person.
        None => advise(engine.store().step(id, key).await?.as_ref()),
    };
    Ok((advice, Some(acted)))
}

request! {
    /// Ends a step. A finished step is not changed.
    step StepEnd {
        /// It failed; it may be run again.
        #[serde(default)]
        pub failed: bool,
        /// Its output.
        #[serde(default, deserialize_with = "output")]
        #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
        pub output: Output,
        /// Default: 0, or 1 if it failed.
        #[cfg_attr(feature = "schema", schema(value_type = Option<i32>, minimum = 0, maximum = 255))]
        pub exit_code: Option<u8>,
        /// What it cost, such as `0.25`.
        #[serde(default, deserialize_with = "fields::optional_text")]
        #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
        pub cost: Option<Cost>,
        /// Turns of a model that it took.
        #[serde(default, deserialize_with = "fields::optional_number")]
        pub turns: Option<u64>,
    }
}

fn output<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Output, D::Error> {
    Ok(Output::keep(0, String::deserialize(from)?.into_bytes()))
}

/// A step that was ended, skipped or resolved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct StepClosed {
    /// The task's id.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub task: TaskId,
    /// The task's status now.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub status: TaskStatus,
    /// Its name.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub step: StepName,
    /// Which use of this name.
    pub occurrence: u32,
    /// `done`, `failed` or `skipped`.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub outcome: StepState,
    /// What to do now.
    pub next_step: Option<String>,
    /// It was finished before; the first time counts.
    #[serde(skip)]
    pub is_repeated: bool,
}

#[async_trait]
impl Operation for StepEnd {
    type Answer = StepClosed;

    async fn run(self, context: &Context) -> Result<Written<StepClosed>, ActError> {
        let (engine, id) = (&context.engine, self.task);
        let key = key(engine, self.step, self.occurrence)?;
        let usage = usage(self.cost, self.turns);
        let (outcome, state) = match self.failed {
            true => (StepOutcome::Failed, StepState::Failed),
            false => (StepOutcome::Done, StepState::Done),
        };
        let exit_code = i32::from(self.exit_code.unwrap_or(u8::from(self.failed)));
        let ended = (
            outcome,
            Output {
                exit_code,
                ..self.output
            },
        );
        let acted = engine
            .end_step(&id, right(self.fence), key.clone(), ended, usage)
            .await;
        let recorded = match &acted {
            Err(ActError::Refused(Refusal::StepFinished { .. })) if !self.failed => {
                engine.store().step(&id, &key).await?
            }
            Err(ActError::Refused(Refusal::StepNotBegun { .. })) if self.failed => {
                let recorded = engine.store().step(&id, &key).await?;
                recorded.filter(|step| step.state == StepState::Failed)
            }
            _ => None,
        };
        // Said twice; the first time counts.
        if let Some(recorded) = recorded {
            let written = Written::new(engine.task(&id).await?);
            return closed(context, written, key, recorded.state, true).await;
        }
        let written = context.refresh_after_step(acted?).await?;
        closed(context, written, key, state, false).await
    }
}

request! {
    /// Closes a step without doing it; it no longer keeps its task open.
    step StepSkip {
        /// Why.
        #[serde(deserialize_with = "fields::reason")]
        pub reason: String,
    }
}

#[async_trait]
impl Operation for StepSkip {
    type Answer = StepClosed;

    async fn run(self, context: &Context) -> Result<Written<StepClosed>, ActError> {
        check_reason(&self.reason)?;
        let key = key(&context.engine, self.step, self.occurrence)?;
        let event = TaskEvent::StepSkip {
            key: key.clone(),
            reason: self.reason,
        };
        let written = context
            .act(&self.task, right(self.fence), event)
            .await?
            .map(|_, _| ());
        closed(context, written, key, StepState::Skipped, false).await
    }
}

request! {
    /// What a person found out about a step in doubt.
    step StepResolve {
        /// Whether it happened.
        pub happened: bool,
    }
}

#[async_trait]
impl Operation for StepResolve {
    type Answer = StepClosed;

    async fn run(self, context: &Context) -> Result<Written<StepClosed>, ActError> {
        let key = key(&context.engine, self.step, self.occurrence)?;
        check_not_running(context, &self.task, &key)?;
        let event = TaskEvent::StepResolve {
            key: key.clone(),
            happened: self.happened,
        };
        let written = context
            .act(&self.task, right(self.fence), event)
            .await?
            .map(|_, _| ());
        let state = if self.happened {
            StepState::Done
        } else {
            StepState::Failed
        };
        closed(context, written, key, state, false).await
    }
}

/// A step whose command still acts is not in doubt: nobody else begins or resolves it.
fn check_not_running(context: &Context, id: &TaskId, key: &StepKey) -> Result<(), ActError> {
    match RunningStep::is_acting(&context.home, id, key) {
        Ok(true) => Err(Refusal::StepRunning {
            task: id.clone(),
            step: key.clone(),
        }
        .into()),
        // A folder that cannot be read has no lock of a running step.
        Ok(false) | Err(_) => Ok(()),
    }
}

/// The step that a write is for; refused if its name would have to be redacted.
pub fn key(
    engine: &Engine,
    mut name: StepName,
    occurrence: Option<NonZeroU32>,
) -> Result<StepKey, ActError> {
    settle_step_name(engine.redactor(), &mut name)?;
    Ok(numbered(name, occurrence))
}

fn numbered(name: StepName, occurrence: Option<NonZeroU32>) -> StepKey {
    let occurrence = occurrence.map_or(1, NonZeroU32::get);
    StepKey { name, occurrence }
}

async fn closed(
    context: &Context,
    written: Written<()>,
    key: StepKey,
    outcome: StepState,
    is_repeated: bool,
) -> Result<Written<StepClosed>, ActError> {
    let next_step = next_step(&context.engine, &written.task, outcome).await?;
    Ok(written.map(|(), task| StepClosed {
        task: task.id.clone(),
        status: task.status,
        step: key.name,
        occurrence: key.occurrence,
        outcome,
        next_step,
        is_repeated,
    }))
}

/// The steps of a task are read only where something may be left to do.
async fn next_step(
    engine: &Engine,
    task: &Task,
    outcome: StepState,
) -> Result<Option<String>, ActError> {
    if task.spec.steps.is_empty() && task.steps_open == 0 && outcome == StepState::Done {
        return Ok(None);
    }
    let steps = engine.store().steps(&task.id).await?;
    Ok(progress(&task.spec.steps, &steps).next_step)
}
