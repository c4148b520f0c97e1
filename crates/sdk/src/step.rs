//! A step of a task, between its begin and its end. Values are JSON as bytes, which nobody reads twice.

use std::convert::Infallible;

use relight_core::alert::resolve_command;
use relight_core::error_code::{ErrorCode, Refused};
use relight_core::ids::TaskId;
use relight_core::step::RepeatRule;
use relight_runtime::engine::ActError;
use relight_runtime::{RunningTask, StepBuilder, StepError, StepInProgress, StepRun, StepStart};
use serde_json::Value;

use crate::client::Client;
use crate::fork_guard::OfProcess;
use crate::open::invalid;

/// Which step.
#[derive(Debug, Clone, Default)]
pub struct StepRequest {
    /// Its name.
    pub name: String,
    /// `keyed`, `repeatable`, `verify` or `once`; `keyed` when none.
    pub repeat: Option<String>,
    /// Which use of this name, from 1. Default: counted automatically.
    pub occurrence: Option<u32>,
    /// What the step depends on: a finished step asked for with another input is refused.
    pub input: Option<Value>,
}

impl StepRequest {
    pub(crate) fn plan<'t>(&self, task: &'t RunningTask) -> Result<StepBuilder<'t>, Refused> {
        let mut plan = task.plan(&self.name).map_err(invalid)?;
        if let Some(repeat) = &self.repeat {
            plan = plan.rule(repeat.parse::<RepeatRule>().map_err(invalid)?);
        }
        if let Some(occurrence) = self.occurrence {
            plan = plan.occurrence(occurrence);
        }
        if let Some(input) = &self.input {
            plan = plan.input(input);
        }
        Ok(plan)
    }
}

/// What to do with a step.
#[derive(Debug)]
pub enum StepBegun {
    /// It is finished: its value as JSON.
    Done(Vec<u8>),
    /// Run it, then end it.
    Run(StepHandle),
    /// It is in doubt under the rule `verify`: find out whether it happened. Then `finish` it, or run it
    /// after `did_not_happen`.
    Verify(StepHandle),
}

impl StepBegun {
    pub(crate) fn new(
        client: &Client,
        task: &TaskId,
        started: Result<StepStart, StepError<Infallible>>,
    ) -> Result<Self, Refused> {
        Ok(match started.map_err(|error| refused(task, error))? {
            StepStart::Finished(finished) => Self::Done(finished.accept()),
            StepStart::Run(step) => Self::Run(StepHandle::new(client, task, step)),
            StepStart::Verify(step) => Self::Verify(StepHandle::new(client, task, step)),
        })
    }
}

/// A step that is being run. Dropped without an end it is in doubt.
#[derive(Debug)]
pub struct StepHandle {
    task: TaskId,
    run: StepRun,
    step: OfProcess<StepInProgress>,
    client: Client,
}

impl StepHandle {
    fn new(client: &Client, task: &TaskId, step: StepInProgress) -> Self {
        Self {
            task: task.clone(),
            run: step.run(),
            step: OfProcess::new(step),
            client: client.clone(),
        }
    }

    /// The client that it came from.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Stays the same however often the step is tried; hand it to the other side.
    pub fn idempotency_key(&self) -> &str {
        &self.run.idempotency_key
    }

    /// Which try this is, from 1.
    pub fn tries(&self) -> u32 {
        self.run.tries
    }

    /// Whether an earlier try may have happened.
    pub fn in_doubt(&self) -> bool {
        self.run.in_doubt
    }

    /// It has acted and gave this JSON. On disk when it returns.
    pub async fn finish(mut self, value: Vec<u8>) -> Result<(), Refused> {
        let ended = self.step.take()?.finish(value).await;
        ended.map_err(|error| refused(&self.task, error))
    }

    /// It went wrong: recorded as a failed try, and the next one may run it again.
    pub async fn fail(mut self, error: String) -> Result<(), Refused> {
        let ended = self.step.take()?.fail(error).await;
        ended.map_err(|error| refused(&self.task, error))
    }

    /// Somebody found out that it did not happen: recorded, and to be run now.
    pub async fn did_not_happen(mut self) -> Result<Self, Refused> {
        let step = self.step.take()?.did_not_happen().await;
        let step = step.map_err(|error| refused(&self.task, error))?;
        Ok(Self::new(&self.client, &self.task, step))
    }
}

fn refused(task: &TaskId, error: StepError<Infallible>) -> Refused {
    match error {
        StepError::Failed(never) => match never {},
        StepError::Fenced(refusal) => ActError::from(refusal).into(),
        StepError::InDoubt(step) => Refused::new(
            ErrorCode::NOT_REPEATED,
            format!("step {step} of task {task} is in doubt and must not be repeated"),
            format!(
                "find out, then: {} --happened (or --did-not)",
                resolve_command(task, &step)
            ),
        ),
        error @ StepError::Value { .. } => {
            Refused::without_hint(ErrorCode::INVALID_DATA, error.to_string())
        }
        StepError::Name(error) => invalid(error),
        StepError::Act(error) => error.into(),
    }
}
