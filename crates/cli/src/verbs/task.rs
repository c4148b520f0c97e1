//! `relight task`.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use relight_core::error_code::with_causes;
use relight_core::ids::{TaskId, is_obeyed};
use relight_core::lease::{Fence, Holder};
use relight_core::shell::shell_escape;
use relight_core::status::TRANSITIONS;
use relight_core::step::Step;
use relight_core::task::Task;
use relight_runtime::engine::{Engine, Started};
use relight_runtime::operations::needs::lacks_agent;
use relight_runtime::operations::task::{
    TaskBlock, TaskCancel, TaskDefer, TaskDone, TaskRelease, TaskRetry, TaskReview, TaskSet,
    TaskSpend,
};
use relight_runtime::operations::work::{Taker, TaskAdd, TaskDefinition, TaskList, TaskStart};
use relight_runtime::operations::{Operation, page_limit, view};
use relight_runtime::recovery::Strategies;
use relight_runtime::running_step::RunningStep;
use relight_runtime::supervise::successor::{self, RefreshError};
use relight_store::AgentQuery;
use serde_json::{Value, json};

use super::operate::{self, operate};
use super::task_queue;
use super::task_view::{list_text, view_text};
use crate::arguments::task::{
    AddArguments, DoneArguments, NewArguments, SetArguments, SpendArguments, TaskCommand,
    TaskEndArguments, TaskListArguments, TaskStartArguments,
};
use crate::environment::Environment;
use crate::exit::{Exit, Failure, Outcome};
use crate::work;
use crate::{block_on, output, values};

pub(crate) fn run(environment: &Environment, command: TaskCommand) -> Outcome {
    match command {
        TaskCommand::Add(arguments) => add(environment, arguments),
        TaskCommand::Start(arguments) => {
            let export = arguments.export;
            or_tell_the_shell(export, start(environment, arguments))
        }
        TaskCommand::Claim(arguments) => {
            or_tell_the_shell(arguments.export, task_queue::claim(environment, &arguments))
        }
        TaskCommand::Set(arguments) => set(environment, arguments),
        TaskCommand::Done(given) => done(environment, given),
        TaskCommand::Review(given) => {
            let force = given.force || environment.is_person();
            let (task, fence) = holder(environment, given.which)?;
            act(environment, TaskReview { task, fence, force })
        }
        TaskCommand::Fail(given) => task_queue::fail(environment, given),
        TaskCommand::Spend(given) => spend(environment, given),
        TaskCommand::Block(given) => {
            let (task, fence) = holder(environment, given.which)?;
            act(
                environment,
                TaskBlock {
                    task,
                    fence,
                    reason: given.reason,
                },
            )
        }
        TaskCommand::Defer(given) => {
            let (task, fence) = holder(environment, given.which)?;
            act(
                environment,
                TaskDefer {
                    task,
                    fence,
                    until: given.until,
                    reason: given.reason,
                },
            )
        }
        TaskCommand::Release(given) => {
            let (force, shown) = (given.force, given.which.fence.map(Fence));
            let (task, own) = holder(environment, given.which)?;
            act(
                environment,
                TaskRelease {
                    task,
                    fence: if force { shown } else { own },
                    force,
                },
            )
        }
        TaskCommand::Cancel(given) => {
            let (task, fence) = (environment.task(given.id)?, None);
            act(
                environment,
                TaskCancel {
                    task,
                    fence,
                    reason: given.reason,
                },
            )
        }
        TaskCommand::Retry(given) => {
            let (task, fence) = (environment.task(given.id)?, None);
            act(
                environment,
                TaskRetry {
                    task,
                    fence,
                    agent: given.agent,
                    force: given.force,
                },
            )
        }
        TaskCommand::Show(given) => show(environment, given.id),
        TaskCommand::List(given) => list(environment, given),
        TaskCommand::States => Ok(states(environment)),
    }
}

fn add(environment: &Environment, arguments: AddArguments) -> Outcome {
    let (strategies, definition) = definition(environment, arguments.new)?;
    let request = TaskAdd {
        id: arguments.id,
        definition,
    };
    let added = block_on(request.run(&operate::context(environment)?, &strategies))?;
    let view::TaskView { id, status, .. } = &added.task;
    let text = match added.outcome {
        "created" => format!("task {id} is {status}"),
        "unchanged" => format!("task {id} was there already"),
        _ => format!("task {id} has this key; nothing was added"),
    };
    output::answer(environment, &added, &text);
    Ok(0)
}

/// What the flags say of a task, and the strategies that its own must be one of.
fn definition(
    environment: &Environment,
    given: NewArguments,
) -> Result<(Strategies, TaskDefinition), Failure> {
    let config = given.config.config.as_deref();
    let strategies = work::strategies_for(environment, config, given.strategy.as_deref())?;
    let definition = TaskDefinition {
        title: given.title,
        agent: given.agent,
        steps: given.steps,
        payload: given.payload,
        strategy: given.strategy,
        max_retries: given.max_retries,
        key: given.key,
        priority: given.priority,
        needs: given.skills,
        ttl: given.ttl,
        set: given.context.into_iter().collect(),
    };
    Ok((strategies, definition))
}

/// `eval "$(… --export)"` loses our exit code; the shell gets it by a line of its own.
fn or_tell_the_shell(export: bool, outcome: Outcome) -> Outcome {
    if let (true, Err(failure)) = (export, &outcome) {
        output::line(&format!("(exit {})", failure.exit as u8));
    }
    outcome
}

fn start(environment: &Environment, mut arguments: TaskStartArguments) -> Outcome {
    arguments.new.agent = environment.starter(arguments.new.agent)?;
    let config = arguments.new.config.config.as_deref();
    let limits = work::start_limits(environment, config, arguments.force)?;
    let task = environment.task(arguments.id)?;
    let known = environment.right(&task, arguments.fence)?.fence();
    let context = operate::context(environment)?;
    let store = context.engine.store().as_ref();
    let (holder, lease) =
        environment.holder(&arguments.holder, arguments.new.agent.as_ref(), store)?;
    let is_named = arguments.holder.owner_pid.is_some();
    let (strategies, definition) = definition(environment, arguments.new)?;
    let (fence, force) = (arguments.fence.map(Fence), arguments.force);
    let request = TaskStart {
        task,
        definition,
        lease,
        fence,
        force,
    };
    let taker = Taker {
        is_named,
        fence: known,
        ..holder.into()
    };
    let written = block_on(request.run(&context, &strategies, limits, taker))?;
    print_started(
        environment,
        &context.engine,
        &written.answer,
        arguments.export,
    )?;
    operate::file_check(&written)?;
    Ok(0)
}

fn refresh_failure(error: RefreshError) -> Failure {
    match error {
        RefreshError::Store(error) => error.into(),
        error @ RefreshError::File { .. } => Failure::new(Exit::FileCopy, with_causes(&error)),
    }
}

fn set(environment: &Environment, arguments: SetArguments) -> Outcome {
    let mut words = arguments.words;
    let names_a_task = words.first().is_some_and(|word| !word.contains('='));
    let id = if names_a_task {
        Some(words.remove(0))
    } else {
        None
    };
    let id = id.map(TaskId::new).transpose();
    let id = id.map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
    let pairs: Result<BTreeMap<_, _>, _> = words.iter().map(|word| values::pair(word)).collect();
    let pairs = pairs.map_err(|error| Failure::new(Exit::Usage, error))?;
    let count = pairs.len();
    let (task, fence) = holder(
        environment,
        TaskEndArguments {
            id,
            fence: arguments.fence,
        },
    )?;
    let request = TaskSet {
        task,
        fence,
        set: pairs,
    };
    operate(environment, request, |task| {
        format!("task {}: {count} set", task.id)
    })?;
    Ok(0)
}

/// The task, and the fence of its holder.
fn holder(
    environment: &Environment,
    which: TaskEndArguments,
) -> Result<(TaskId, Option<Fence>), Failure> {
    let id = environment.task(which.id)?;
    let fence = environment.right(&id, which.fence)?.fence();
    Ok((id, fence))
}

fn spend(environment: &Environment, given: SpendArguments) -> Outcome {
    let (task, fence) = holder(environment, given.which)?;
    let request = TaskSpend {
        task,
        fence,
        cost: given.usage.cost,
        turns: given.usage.turns,
    };
    operate(environment, request, |task| {
        format!(
            "task {} has cost {} in {} turns",
            task.id, task.cost, task.turns
        )
    })?;
    Ok(0)
}

fn done(environment: &Environment, given: DoneArguments) -> Outcome {
    let (task, fence) = holder(environment, given.which)?;
    let request = TaskDone {
        task: task.clone(),
        fence,
        force: given.force,
    };
    let written = operate(environment, request, status_text)?;
    if written.task.steps_open > 0 {
        let engine = environment.engine()?;
        let home = engine.home().unwrap_or_default();
        // The step that this command is called in has its end after its task.
        let is_run = |step: &Step| RunningStep::is_taken(&home, &task, &step.key).unwrap_or(false);
        let steps = block_on(engine.view(&task))?.steps;
        let in_doubt = steps
            .iter()
            .filter(|step| step.is_open() && !is_run(step))
            .map(|step| step.key.to_string());
        let in_doubt: Vec<String> = in_doubt.collect();
        if !in_doubt.is_empty() {
            let text = format!("it ended with steps in doubt: {}", in_doubt.join(", "));
            output::note(environment, &text);
        }
    }
    Ok(0)
}

fn act(environment: &Environment, request: impl Operation<Answer = view::TaskView>) -> Outcome {
    operate(environment, request, status_text)?;
    Ok(0)
}

fn status_text(task: &view::TaskView) -> String {
    format!("task {} is {}", task.id, task.status)
}

fn show(environment: &Environment, id: Option<TaskId>) -> Outcome {
    let id = environment.task(id)?;
    let context = operate::context(environment)?;
    let (view, holders) = (block_on(context.show(&id))?, context.engine.holders());
    let strategy = strategy_in_effect(environment, &view.task);
    let strategy = strategy.as_deref();
    // Only people are told how long steps took: it takes another look at the journal.
    let times = match environment.json {
        true => HashMap::default(),
        false => block_on(context.step_times(&id))?,
    };
    let agents = match view.task.spec.needs.is_empty() || environment.json {
        true => Vec::new(),
        false => block_on(context.engine.store().agents(AgentQuery::default()))?,
    };
    let lacks = lacks_agent(&view.task, &agents);
    let text = view_text(&view, strategy, lacks, holders, &times);
    output::answer(
        environment,
        &view::WholeTask::new(view, strategy, holders),
        &text,
    );
    Ok(0)
}

/// Its own, else the configured one. A configuration that is wrong hides no task.
fn strategy_in_effect(environment: &Environment, task: &Task) -> Option<String> {
    if task.spec.strategy.is_some() {
        return task.spec.strategy.clone();
    }
    let config = work::find_config(environment, None).ok()?;
    Some(config.unwrap_or_default().recovery.strategy)
}

fn list(environment: &Environment, given: TaskListArguments) -> Outcome {
    let TaskListArguments {
        statuses,
        agent,
        in_doubt,
        find,
        newest,
        limit,
        after,
    } = given;
    let limit = page_limit(Some(limit))?;
    let which = TaskList {
        statuses,
        agent,
        in_doubt,
        find,
        newest,
        limit: None,
        after,
    };
    let context = operate::context(environment)?;
    let (page, holders) = (
        block_on(which.run(&context, limit))?,
        context.engine.holders(),
    );
    let (text, next) = (list_text(&page.tasks, holders), page.next.clone());
    let list = page.list(holders);
    output::answer(environment, &list, &text);
    output::left_out(&list.unreadable);
    if let (Some(next), false) = (next, environment.json) {
        output::note(environment, &format!("there are more: --after {next}"));
    }
    Ok(0)
}

fn states(environment: &Environment) -> u8 {
    let rows: Vec<Value> = TRANSITIONS
        .iter()
        .map(|(from, to)| json!({"from": from, "to": to}))
        .collect();
    let mut text = vec![vec!["from".to_owned(), "to".to_owned()]];
    for (from, to) in TRANSITIONS {
        let to: Vec<&str> = to.iter().map(|status| status.as_str()).collect();
        let to = if to.is_empty() {
            "– (the end)".to_owned()
        } else {
            to.join(", ")
        };
        text.push(vec![from.to_string(), to]);
    }
    output::list(environment, rows, &output::table(&text));
    0
}

pub(super) fn print_started(
    environment: &Environment,
    engine: &Engine,
    started: &Started,
    export: bool,
) -> Result<(), Failure> {
    if export {
        let state_file = state_file(environment, engine, &started.view.task)?;
        output::line(&export_text(environment, started, state_file.as_deref()));
        return Ok(());
    }
    let progress = &started.view.progress;
    let mut text = format!(
        "task {} {} (fence {})",
        started.view.task.id,
        if started.resumed {
            "continues"
        } else {
            "started"
        },
        started.fence
    );
    if !progress.done_steps.is_empty() {
        text += &format!("\n  done: {}", progress.done_steps.join(", "));
    }
    if !progress.in_doubt.is_empty() {
        text += &format!("\n  in doubt: {}", progress.in_doubt.join(", "));
    }
    if let Some(next) = &progress.next_step {
        text += &format!("\n  next: {next}");
    }
    if let Some(handed_over) = &started.handed_over {
        text += &format!("\n  {}", handed_over.text());
    }
    output::answer(
        environment,
        &view::StartedView::from(started.clone()),
        &text,
    );
    Ok(())
}

/// The file of a task that is worked on outside of `relight run`; a supervised agent has its own.
fn state_file(
    environment: &Environment,
    engine: &Engine,
    task: &Task,
) -> Result<Option<PathBuf>, Failure> {
    let holder = task.lease.held.as_ref().map(|held| &held.holder);
    if matches!(holder, Some(Holder::Attempt { .. })) {
        return Ok(None);
    }
    let home = environment.store_folder(engine)?;
    let written = block_on(successor::write_task_state(&home, engine, &task.id));
    written.map(Some).map_err(refresh_failure)
}

/// The shell lines of `--export`. Context of a task that was exported before does not stay behind.
fn export_text(environment: &Environment, started: &Started, state_file: Option<&Path>) -> String {
    let (context, json) = small_context(environment, &started.view.task);
    let next = started
        .view
        .progress
        .next_step
        .as_deref()
        .unwrap_or_default();
    let mut pairs: BTreeMap<String, String> = context
        .iter()
        .map(|(key, value)| (context_variable(key), value.clone()))
        .collect();
    let gone = environment
        .variables()
        .iter()
        .filter_map(|(name, _)| name.to_str());
    let is_name = |name: &str| name.bytes().all(|b| b == b'_' || b.is_ascii_alphanumeric());
    let is_ours = |name: &str| name.starts_with(CONTEXT) && is_name(name);
    let gone = gone.filter(|name| is_ours(name) && !pairs.contains_key(*name));
    let gone: Vec<String> = gone.map(|name| format!("unset {name}")).collect();
    let fixed = [
        ("RELIGHT_TASK", started.view.task.id.to_string()),
        ("RELIGHT_FENCE", started.fence.to_string()),
        ("RELIGHT_RESUMED", u8::from(started.resumed).to_string()),
        ("RELIGHT_NEXT_STEP", next.to_owned()),
        ("RELIGHT_CONTEXT", json),
    ];
    pairs.extend(fixed.map(|(name, value)| (name.to_owned(), value)));
    pairs.extend(
        state_file.map(|file| ("RELIGHT_STATE_FILE".to_owned(), file.display().to_string())),
    );
    let exported = pairs
        .iter()
        .map(|(name, value)| format!("export {name}={}", quoted(value)));
    gone.into_iter()
        .chain(exported)
        .collect::<Vec<String>>()
        .join("\n")
}

/// A value for `eval`. A terminal gets the escapes that bash and zsh read, where it would obey a
/// character; they are no part of POSIX, so other readers get the value as it is.
fn quoted(value: &str) -> String {
    match output::is_terminal() && value.contains(is_obeyed) {
        true => shell_escape(value),
        false => output::shell_quote(value),
    }
}

/// The context and its JSON, unless they are too large to start a command with.
fn small_context(environment: &Environment, task: &Task) -> (BTreeMap<String, String>, String) {
    let json = json!(task.context).to_string();
    if json.len() <= CONTEXT_BYTES_MAX {
        return (task.context.clone(), json);
    }
    let text = format!(
        "the context has {} bytes and is not exported; relight task show {} --json has it",
        json.len(),
        task.id
    );
    output::note(environment, &text);
    (BTreeMap::new(), String::new())
}

/// More than this would keep the system from starting commands with it.
const CONTEXT_BYTES_MAX: usize = 64 << 10;
/// What begins the name of every variable of context.
const CONTEXT: &str = "RELIGHT_CONTEXT_";

/// A name that any shell takes: `pull-request` is `RELIGHT_CONTEXT_PULL_REQUEST`.
fn context_variable(key: &str) -> String {
    let letter = |c: char| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_uppercase()
        } else {
            '_'
        }
    };
    format!("{CONTEXT}{}", key.chars().map(letter).collect::<String>())
}
