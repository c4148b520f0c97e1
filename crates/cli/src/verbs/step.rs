//! `relight step`, but for `run`.

use std::collections::HashMap;
use std::io::Read;
use std::path::Path;

use relight_core::alert::resolve_first;
use relight_core::decide::{Right, StepAdvice, TaskEvent};
use relight_core::error_code::ErrorCode;
use relight_core::ids::{StepName, TaskId};
use relight_core::lease::Fence;
use relight_core::progress::Progress;
use relight_core::step::{KeptBytes, Output, RepeatRule, Step, StepKey, StepState};
use relight_runtime::engine::{ActError, Acted, TaskSnapshot};
use relight_runtime::operations::step::{self, StepBegin, StepEnd, StepResolve, StepSkip};
use relight_runtime::operations::step_times::StepTime;
use relight_runtime::operations::view::StepWithOutput;
use relight_runtime::operations::{Context, view};
use relight_runtime::os::file;

use super::operate::{context, operate};
use super::step_run;
use crate::arguments::step::{
    OfTask, ResolveArguments, SkipArguments, StepBeginArguments, StepCommand, StepEndArguments,
    StepListArguments, StepOutputArguments, StepShowArguments,
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
        StepCommand::Show(arguments) => show(environment, &arguments),
        StepCommand::Output(arguments) => print_output(environment, &arguments),
        StepCommand::Resolve(arguments) => resolve(environment, arguments),
        StepCommand::Skip(arguments) => skip(environment, arguments),
    }
}

/// A step of a task, by what right, in an open store.
pub(super) struct StepContext {
    pub(super) context: Context,
    pub(super) task: TaskId,
    pub(super) key: StepKey,
    pub(super) right: Right,
}

impl StepContext {
    pub(super) fn find(
        environment: &Environment,
        of: OfTask,
        name: StepName,
    ) -> Result<Self, Failure> {
        let task = environment.task(of.task)?;
        let right = environment.right(&task, of.fence)?;
        let context = context(environment)?;
        let key = step::key(&context.engine, name, Some(of.occurrence))?;
        Ok(Self {
            context,
            task,
            key,
            right,
        })
    }

    pub(super) async fn act(&self, event: TaskEvent) -> Result<Acted, ActError> {
        self.context.engine.act(&self.task, self.right, event).await
    }

    /// Records the begin; what to do is what was decided in the commit.
    pub(super) async fn begin(&self, rule: RepeatRule) -> Result<StepAdvice, ActError> {
        let engine = &self.context.engine;
        Ok(step::begin(engine, &self.task, self.right, &self.key, rule)
            .await?
            .0)
    }

    pub(super) async fn step(&self) -> Result<Option<Step>, Failure> {
        Ok(self
            .context
            .engine
            .store()
            .step(&self.task, &self.key)
            .await?)
    }

    /// Only a person may continue from here.
    pub(super) fn in_doubt(&self) -> Failure {
        in_doubt(&self.task, &self.key)
    }
}

fn in_doubt(task: &TaskId, key: &StepKey) -> Failure {
    let text = format!("step {key} of task {task} is in doubt and must not be repeated");
    Failure::of(ErrorCode::NOT_REPEATED, text).hint(resolve_hint(task, key))
}

/// What a person types who found out.
pub(super) fn resolve_hint(task: &TaskId, key: &StepKey) -> String {
    format!("find out, then: {}", resolve_first(task, key))
}

fn begin(environment: &Environment, arguments: StepBeginArguments) -> Outcome {
    let StepBeginArguments {
        name,
        of,
        repeat: rule,
    } = arguments;
    let task = environment.task(of.task)?;
    let fence = environment.right(&task, of.fence)?.fence();
    let request = StepBegin {
        task,
        step: name,
        occurrence: Some(of.occurrence),
        fence,
        rule,
    };
    let written = operate(environment, request, |begun| {
        let key = key_of(&begun.step, begun.occurrence);
        let word = match begun.advice {
            StepAdvice::Finished => return format!("step {key} is finished; nothing to do"),
            StepAdvice::Ask | StepAdvice::Wait => return String::new(),
            StepAdvice::Again => "go again, with the same key",
            StepAdvice::Go => "go",
        };
        format!(
            "step {key}: {word} (idempotency key {})",
            begun.idempotency_key
        )
    })?;
    let begun = written.answer;
    match begun.advice {
        StepAdvice::Go | StepAdvice::Again => Ok(0),
        StepAdvice::Finished => Ok(1),
        StepAdvice::Ask | StepAdvice::Wait => Err(in_doubt(
            &begun.task,
            &key_of(&begun.step, begun.occurrence),
        )),
    }
}

fn key_of(step: &StepName, occurrence: u32) -> StepKey {
    StepKey {
        name: step.clone(),
        occurrence,
    }
}

fn end(environment: &Environment, arguments: StepEndArguments) -> Outcome {
    let StepEndArguments {
        name,
        of,
        failed,
        usage,
        output,
    } = arguments;
    let output = output
        .map(|path| read_output(&path))
        .transpose()?
        .unwrap_or_default();
    let task = environment.task(of.task)?;
    let fence = environment.right(&task, of.fence)?.fence();
    let (cost, turns) = (usage.cost, usage.turns);
    let (step, occurrence, exit_code) = (name, Some(of.occurrence), None);
    let request = StepEnd {
        task,
        step,
        occurrence,
        fence,
        failed,
        output,
        exit_code,
        cost,
        turns,
    };
    operate(environment, request, |ended| {
        let word = match ended.is_repeated {
            _ if failed => "failed",
            true if ended.outcome == StepState::Skipped => "was skipped",
            true => "was finished",
            false => "is finished",
        };
        format!("step {} {word}", key_of(&ended.step, ended.occurrence))
    })?;
    Ok(0)
}

/// Reads in parts: an output that is too long to keep is not held in memory either.
fn read_output(path: &Path) -> Result<Output, Failure> {
    let cannot = |error: std::io::Error| {
        Failure::new(
            Exit::Usage,
            format!("cannot read {}: {error}", path.display()),
        )
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
            0 => return Ok(kept.into_output(0)),
            count => kept.push(&part[..count]),
        }
    }
}

fn list(environment: &Environment, arguments: StepListArguments) -> Outcome {
    let task = environment.task(arguments.task)?;
    let context = context(environment)?;
    let view = block_on(context.show(&task))?;
    let times = block_on(context.step_times(&task))?;
    output::answer(
        environment,
        &view::StepList::new(&view),
        &steps_text(&view, &times),
    );
    Ok(0)
}

/// A step with what it wrote.
fn find(
    context: &Context,
    environment: &Environment,
    of: &StepShowArguments,
) -> Result<StepWithOutput, Failure> {
    let task = environment.task(of.task.clone())?;
    let found = context.show_step(&task, of.name.clone(), Some(of.occurrence));
    block_on(found)?.ok_or_else(|| {
        let text = format!("task {task} has no step {}", of.name);
        let hint = format!(
            "relight step list --task {}",
            output::shell_word(task.as_str())
        );
        Failure::of(ErrorCode::NOT_FOUND, text).hint(hint)
    })
}

fn show(environment: &Environment, arguments: &StepShowArguments) -> Outcome {
    let context = context(environment)?;
    let found = find(&context, environment, arguments)?;
    let task =
        TaskId::new(&found.task).map_err(|error| Failure::new(Exit::Bug, error.to_string()))?;
    let (view, times) = (
        block_on(context.show(&task))?,
        block_on(context.step_times(&task))?,
    );
    let key = StepKey {
        name: arguments.name.clone(),
        occurrence: arguments.occurrence.get(),
    };
    let time = times.get(&key).copied().unwrap_or_default();
    let step = &found.step;
    let size = match (found.truncated, found.redacted) {
        (true, _) => " (its beginning and end are kept)",
        (false, true) => " (secrets redacted)",
        (false, false) => "",
    };
    let facts = [
        ("step", Some(key.to_string())),
        ("task", Some(found.task.clone())),
        ("state", Some(state_text(&step.state, &key, &view.progress))),
        ("rule", Some(step.rule.clone())),
        ("tries", Some(step.tries.to_string())),
        ("begun", time.begun_at.map(|at| at.to_string())),
        ("ended", time.ended_at.map(|at| at.to_string())),
        ("took", time.took().map(|took| took.to_string())),
        ("exit code", step.exit_code.map(|code| code.to_string())),
        (
            "output",
            found
                .output
                .as_ref()
                .map(|_| format!("{} bytes{size}", found.output_bytes)),
        ),
        ("key", Some(step.idempotency_key.clone())),
    ];
    let rows: Vec<Vec<String>> = facts
        .into_iter()
        .filter_map(|(name, value)| Some(vec![name.to_owned(), value?]))
        .collect();
    output::answer(environment, &found, &output::facts(&rows));
    Ok(0)
}

fn print_output(environment: &Environment, arguments: &StepOutputArguments) -> Outcome {
    let context = context(environment)?;
    let found = find(&context, environment, &arguments.of)?;
    let text = match arguments.stderr {
        true => found
            .output
            .is_some()
            .then(|| found.stderr.clone().unwrap_or_default()),
        false => found.output.clone(),
    };
    let Some(text) = text else {
        let text = format!("step {} has recorded no output", found.step.name);
        return Err(Failure::of(ErrorCode::NOT_FOUND, text)
            .hint("a step records its output when it ends; relight step show tells its state"));
    };
    if environment.json {
        output::json(&found);
    } else if output::is_terminal() {
        output::line(crate::terminal_filter::clean(&text).trim_end_matches('\n'));
    } else {
        output::write_out(text.as_bytes());
    }
    Ok(0)
}

/// The steps under each other, and what is still to do.
pub(super) fn steps_text(
    TaskSnapshot {
        task,
        steps,
        progress,
    }: &TaskSnapshot,
    times: &HashMap<StepKey, StepTime>,
) -> String {
    let header = ["step", "state", "rule", "tries", "took", "at"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for step in steps {
        rows.push(vec![
            step.key.to_string(),
            state_text(step.state.as_str(), &step.key, progress),
            step.rule.to_string(),
            step.tries.to_string(),
            took_text(times.get(&step.key)),
            step.at.to_string(),
        ]);
    }
    let recorded = |name: &String| steps.iter().any(|step| step.key.to_string() == *name);
    let to_do = progress.next_step.iter().chain(&progress.remaining_steps);
    for name in to_do.filter(|name| !recorded(name)) {
        rows.push(vec![name.clone(), "to do".to_owned()]);
    }
    if rows.len() == 1 {
        return "no steps yet".to_owned();
    }
    let is_in_doubt = |step: &&Step| progress.in_doubt.contains(&step.key.to_string());
    let unresolved = steps.iter().filter(|step| step.waits_for_person());
    let resolve = unresolved.filter(is_in_doubt).map(|step| {
        let command = resolve_first(&task.id, &step.key);
        format!("\n\nstep {} is in doubt: {command}", step.key)
    });
    output::table(&rows) + &resolve.collect::<String>()
}

fn state_text(state: &str, key: &StepKey, progress: &Progress) -> String {
    match state {
        "begun" if progress.in_doubt.contains(&key.to_string()) => "in doubt",
        "begun" => "running",
        state => state,
    }
    .to_owned()
}

fn took_text(time: Option<&StepTime>) -> String {
    let took = time.and_then(StepTime::took);
    took.map_or_else(|| "–".to_owned(), |took| took.to_string())
}

fn resolve(environment: &Environment, arguments: ResolveArguments) -> Outcome {
    let ResolveArguments {
        name: step,
        of,
        answer,
    } = arguments;
    let (task, happened) = (environment.task(of.task)?, answer.happened);
    let (occurrence, fence) = (Some(of.occurrence), of.fence.map(Fence));
    let request = StepResolve {
        task,
        step,
        occurrence,
        fence,
        happened,
    };
    operate(environment, request, |resolved| {
        let word = if happened {
            "counts as finished"
        } else {
            "may be run again"
        };
        let key = key_of(&resolved.step, resolved.occurrence);
        format!("step {key} of task {} {word}", resolved.task)
    })?;
    Ok(0)
}

fn skip(environment: &Environment, arguments: SkipArguments) -> Outcome {
    let SkipArguments {
        name: step,
        of,
        reason,
    } = arguments;
    let task = environment.task(of.task)?;
    let fence = environment.right(&task, of.fence)?.fence();
    let request = StepSkip {
        task,
        step,
        occurrence: Some(of.occurrence),
        fence,
        reason,
    };
    operate(environment, request, |skipped| {
        let key = key_of(&skipped.step, skipped.occurrence);
        format!("step {key} of task {} is skipped", skipped.task)
    })?;
    Ok(0)
}
