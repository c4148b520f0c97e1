//! `relight step`, but for `run`.

use std::io::Read;
use std::path::Path;

use relight::engine::{ActError, Acted, Engine};
use relight::os::file;
use relight_core::change::Change;
use relight_core::decide::{Refusal, Right, TaskEvent};
use relight_core::error_code::ErrorCode;
use relight_core::ids::{StepName, TaskId};
use relight_core::progress::Progress;
use relight_core::step::{KeptBytes, Output, RepeatRule, Step, StepKey, StepOutcome, StepState};
use relight_core::task::Usage;
use relight_server::view;
use serde_json::{Value, json};

use super::inflight::resolve_command;
use super::{checkpoint, step_run};
use crate::arguments::step::{
    BeginArguments, EndArguments, ListArguments, OfTask, ResolveArguments, SkipArguments,
    StepCommand,
};
use crate::environment::Environment;
use crate::exit::{Exit, Failure, Outcome};
use crate::{block_on, output};

pub(crate) fn run(environment: &Environment, command: StepCommand) -> Outcome {
    match command {
        StepCommand::Run(arguments) => step_run::run(environment, &arguments),
        StepCommand::Begin(arguments) => begin(environment, arguments),
        StepCommand::End(arguments) => end(environment, arguments),
        StepCommand::List(arguments) => list(environment, arguments),
        StepCommand::Resolve(arguments) => resolve(environment, arguments),
        StepCommand::Skip(arguments) => skip(environment, arguments),
    }
}

/// What a begin came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Begin {
    /// Do it.
    Go,
    /// It was in doubt; do it again.
    Again,
    /// Finished before.
    Finished,
    /// In doubt, and not to be repeated.
    InDoubt,
}

/// A step of a task, by what right, in an open store.
pub(super) struct Place {
    pub(super) engine: Engine,
    pub(super) task: TaskId,
    pub(super) key: StepKey,
    pub(super) right: Right,
}

impl Place {
    pub(super) fn find(
        environment: &Environment,
        of: OfTask,
        name: StepName,
    ) -> Result<Self, Failure> {
        let task = environment.task(of.task)?;
        let right = environment.right(&task, of.fence)?;
        let engine = environment.engine()?;
        let mut key = StepKey { name, occurrence: of.occurrence };
        relight::redact_input::clean_step(engine.redactor(), &mut key);
        Ok(Self { engine, task, key, right })
    }

    pub(super) async fn act(&self, event: TaskEvent) -> Result<Acted, ActError> {
        self.engine.act(&self.task, self.right, event).await
    }

    /// Records an end, and in the same commit what the work has used.
    pub(super) async fn end(
        &self,
        outcome: StepOutcome,
        output: Output,
        usage: Option<Usage>,
    ) -> Result<Acted, ActError> {
        let (engine, key) = (&self.engine, self.key.clone());
        let usage = usage.unwrap_or_default();
        engine.end_step(&self.task, self.right, key, (outcome, output), usage).await
    }

    /// Records the begin. Whether the step may act is what was decided in the commit, not what was
    /// seen before it.
    pub(super) async fn begin(&self, rule: RepeatRule) -> Result<Begin, Failure> {
        let key = self.key.clone();
        let event = TaskEvent::StepBegin { key, rule, fingerprint: None };
        let acted = match self.act(event).await {
            Err(ActError::Refused(Refusal::StepFinished { .. })) => return Ok(Begin::Finished),
            other => other?,
        };
        let begun = acted.decision.changes.iter().find_map(|change| match change {
            Change::StepBegun(mark) => Some(mark),
            _ => None,
        });
        Ok(match begun {
            Some(mark) if mark.was_open => Begin::Again,
            Some(_) => Begin::Go,
            None => Begin::InDoubt,
        })
    }

    pub(super) async fn step(&self) -> Result<Option<Step>, Failure> {
        Ok(self.engine.store().step(&self.task, &self.key).await?)
    }

    /// Only a person may go on from here.
    pub(super) fn in_doubt(&self) -> Failure {
        let (key, task) = (&self.key, &self.task);
        let text = format!("step {key} of task {task} is in doubt and must not be repeated");
        Failure::of(ErrorCode::NOT_REPEATED, text).hint(self.resolve_hint())
    }

    /// What a person types who found out.
    pub(super) fn resolve_hint(&self) -> String {
        format!("find out, then: {}", resolve_command(&self.task, &self.key))
    }
}

fn begin(environment: &Environment, arguments: BeginArguments) -> Outcome {
    let place = Place::find(environment, arguments.of, arguments.name)?;
    block_on(async {
        let (word, text) = match place.begin(arguments.repeat).await? {
            Begin::Finished => {
                let text = format!("step {} is finished; nothing to do", place.key);
                output::answer(environment, &advice_json(&place, "finished"), &text);
                return Ok(1);
            }
            Begin::InDoubt => return Err(place.in_doubt()),
            Begin::Again => ("again", "go again, with the same key"),
            Begin::Go => ("go", "go"),
        };
        let key = place.key.idempotency_key(&place.task);
        let text = format!("step {}: {text} (idempotency key {key})", place.key);
        output::answer(environment, &advice_json(&place, word), &text);
        checkpoint::refresh(&place.engine, &place.task).await?;
        Ok(0)
    })
}

fn advice_json(place: &Place, advice: &str) -> Value {
    json!({
        "task": place.task,
        "step": place.key.name,
        "occurrence": place.key.occurrence,
        "advice": advice,
        "idempotency_key": place.key.idempotency_key(&place.task),
    })
}

fn end(environment: &Environment, arguments: EndArguments) -> Outcome {
    let exit_code = i32::from(arguments.failed);
    let output = match &arguments.output {
        Some(path) => read_output(path, exit_code)?,
        None => Output { exit_code, ..Output::default() },
    };
    let place = Place::find(environment, arguments.of, arguments.name)?;
    let outcome = if arguments.failed { StepOutcome::Failed } else { StepOutcome::Done };
    let acted = block_on(place.end(outcome, output, arguments.usage.usage()));
    let word = match acted {
        Err(ActError::Refused(Refusal::StepFinished { .. })) if !arguments.failed => "was finished",
        other => {
            other?;
            if arguments.failed { "failed" } else { "is finished" }
        }
    };
    let text = format!("step {} {word}", place.key);
    let value = json!({"task": place.task, "step": place.key, "outcome": outcome});
    output::answer(environment, &value, &text);
    block_on(checkpoint::refresh(&place.engine, &place.task))?;
    Ok(0)
}

/// Reads in parts: an output that is too long to keep is not held in memory either.
fn read_output(path: &Path, exit_code: i32) -> Result<Output, Failure> {
    let cannot = |error: std::io::Error| {
        Failure::new(Exit::Usage, format!("cannot read {}: {error}", path.display()))
    };
    let mut from: Box<dyn Read> = if path == Path::new("-") {
        Box::new(std::io::stdin())
    } else {
        Box::new(file::open_regular(path).map_err(|error| {
            cannot(error).hint("--output - reads standard input, such as a pipe")
        })?)
    };
    let mut kept = KeptBytes::default();
    let mut part = vec![0; 64 << 10];
    loop {
        match from.read(&mut part).map_err(cannot)? {
            0 => return Ok(kept.into_output(exit_code)),
            count => kept.push(&part[..count]),
        }
    }
}

fn list(environment: &Environment, arguments: ListArguments) -> Outcome {
    let task = environment.task(arguments.task)?;
    let engine = environment.engine()?;
    let view = block_on(engine.view(&task))?;
    let value = json!({
        "task": task,
        "items": view.steps.iter().map(|step| view::step(&task, step)).collect::<Vec<_>>(),
        "done_steps": view.progress.done_steps,
        "skipped_steps": view.progress.skipped_steps,
        "in_doubt": view.progress.in_doubt,
        "next_step": view.progress.next_step,
    });
    output::answer(environment, &value, &steps_text(&view.steps, &view.progress));
    Ok(0)
}

/// The steps under each other, and what is still to do.
pub(super) fn steps_text(steps: &[Step], progress: &Progress) -> String {
    let header = ["step", "state", "rule", "tries", "at"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for step in steps {
        let state = match step.state {
            StepState::Begun => "in doubt",
            state => state.as_str(),
        };
        rows.push(vec![
            step.key.to_string(),
            state.to_owned(),
            step.rule.to_string(),
            step.tries.to_string(),
            step.at.to_string(),
        ]);
    }
    let recorded = |name: &String| steps.iter().any(|step| step.key.to_string() == *name);
    let to_do = progress.next_step.iter().chain(&progress.remaining_steps);
    for name in to_do.filter(|name| !recorded(name)) {
        rows.push(vec![name.clone(), "to do".to_owned()]);
    }
    if rows.len() == 1 { "no steps yet".to_owned() } else { output::table(&rows) }
}

fn resolve(environment: &Environment, arguments: ResolveArguments) -> Outcome {
    let place = Place::find(environment, arguments.of, arguments.name)?;
    let happened = arguments.answer.happened;
    block_on(place.act(TaskEvent::StepResolve { key: place.key.clone(), happened }))?;
    let word = if happened { "counts as finished" } else { "may be run again" };
    let text = format!("step {} of task {} {word}", place.key, place.task);
    let value = json!({"task": place.task, "step": place.key, "happened": happened});
    output::answer(environment, &value, &text);
    block_on(checkpoint::refresh(&place.engine, &place.task))?;
    Ok(0)
}

fn skip(environment: &Environment, arguments: SkipArguments) -> Outcome {
    let place = Place::find(environment, arguments.of, arguments.name)?;
    let event = TaskEvent::StepSkip { key: place.key.clone(), reason: arguments.reason };
    block_on(place.act(event))?;
    let text = format!("step {} of task {} is skipped", place.key, place.task);
    let value = json!({"task": place.task, "step": place.key, "outcome": "skipped"});
    output::answer(environment, &value, &text);
    block_on(checkpoint::refresh(&place.engine, &place.task))?;
    Ok(0)
}
