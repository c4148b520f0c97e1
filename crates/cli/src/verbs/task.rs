//! `relight task`.

use std::collections::BTreeMap;

use relight::doors::{clock, process};
use relight::engine::{ActError, Added, Engine, Started, TaskView};
use relight::running_step::RunningStep;
use relight_core::claimant::Claimant;
use relight_core::decide::{Refusal, TaskEvent};
use relight_core::ids::TaskId;
use relight_core::lease::{Fence, Held, Holder, HolderLife};
use relight_core::recovery::TaskPolicy;
use relight_core::status::{TRANSITIONS, TaskStatus};
use relight_core::task::{NewTask, Task, TaskSpec};
use relight_core::time::Span;
use relight_store::TaskQuery;
use serde_json::{Value, json};

use super::checkpoint;
use crate::arguments::task::{
    AddArguments, ClaimArguments, EndArguments, ListArguments, NewArguments, SetArguments,
    StartArguments, TaskCommand,
};
use crate::environment::Environment;
use crate::exit::{Exit, Failure, Outcome, chain};
use crate::{block_on, output, values};
use relight::supervise::successor::{self, RefreshError};

pub(crate) fn run(environment: &Environment, command: TaskCommand) -> Outcome {
    match command {
        TaskCommand::Add(arguments) => add(environment, arguments),
        TaskCommand::Start(arguments) => {
            let export = arguments.export;
            or_tell_the_shell(export, start(environment, arguments))
        }
        TaskCommand::Claim(arguments) => {
            or_tell_the_shell(arguments.export, claim(environment, &arguments))
        }
        TaskCommand::Set(arguments) => set(environment, arguments),
        TaskCommand::Done(which) => holders_verb(environment, which, TaskEvent::Done),
        TaskCommand::Review(which) => holders_verb(environment, which, TaskEvent::Review),
        TaskCommand::Fail(given) => {
            holders_verb(environment, given.which, TaskEvent::Fail { reason: given.reason })
        }
        TaskCommand::Block(given) => {
            holders_verb(environment, given.which, TaskEvent::Block { reason: given.reason })
        }
        TaskCommand::Defer(given) => {
            let until = given.until.from(clock::now());
            let event = TaskEvent::Defer { until, reason: given.reason };
            holders_verb(environment, given.which, event)
        }
        TaskCommand::Release(given) => {
            holders_verb(environment, given.which, TaskEvent::Release { force: given.force })
        }
        TaskCommand::Cancel(given) => {
            let event = TaskEvent::Cancel { reason: given.reason };
            act(environment, given.id, None, event)
        }
        TaskCommand::Retry(given) => {
            let event = TaskEvent::Retry { agent: given.agent, force: given.force };
            act(environment, given.id, None, event)
        }
        TaskCommand::Show(given) => show(environment, given.id),
        TaskCommand::List(given) => list(environment, given),
        TaskCommand::States => Ok(states(environment)),
    }
}

fn add(environment: &Environment, arguments: AddArguments) -> Outcome {
    let engine = environment.engine()?;
    let added = block_on(engine.add(new_task(arguments.id, arguments.new)))?;
    let task = added.task();
    let (word, text) = match &added {
        Added::Created(_) => ("created", format!("task {} is {}", task.id, task.status)),
        Added::Same(_) => ("unchanged", format!("task {} was there already", task.id)),
        Added::KeyTaken(_) => {
            ("key_taken", format!("task {} has this key; nothing was added", task.id))
        }
    };
    output::answer(environment, &json!({"task": task_json(task), "outcome": word}), &text);
    Ok(0)
}

/// `eval "$(… --export)"` loses our exit code; the shell gets it by a line of its own.
fn or_tell_the_shell(export: bool, outcome: Outcome) -> Outcome {
    if let (true, Err(failure)) = (export, &outcome) {
        output::line(&format!("(exit {})", failure.exit as u8));
    }
    outcome
}

fn start(environment: &Environment, arguments: StartArguments) -> Outcome {
    let id = environment.task(arguments.id)?;
    let right = environment.right(&id, arguments.fence)?;
    let engine = environment.engine()?;
    let (holder, ttl) = environment.holder(&arguments.holder, engine.store().as_ref())?;
    let started = block_on(async {
        may_start(environment, &engine, &id, arguments.fence).await?;
        let started = engine.start(new_task(id, arguments.new), right, holder, ttl).await?;
        refresh_state(environment, &engine, &started.view.task).await?;
        Ok::<_, Failure>(started)
    })?;
    print_started(environment, &started, arguments.export);
    Ok(0)
}

/// The file of a supervised agent says what its task does.
async fn refresh_state(
    environment: &Environment,
    engine: &Engine,
    task: &Task,
) -> Result<(), Failure> {
    let home = environment.store_folder(engine)?;
    match successor::refresh_state(&home, engine, task).await {
        Ok(_) => Ok(()),
        Err(RefreshError::Store(error)) => Err(error.into()),
        Err(error @ RefreshError::File { .. }) => Err(Failure::new(Exit::FileCopy, chain(&error))),
    }
}

/// A fence that was given must be good. A step that an orphan of a dead process is still at is left
/// to it, for a new lease would throw its result away. (A timed lease is renewed by a live runner;
/// once it ran out, the runner is frozen, and waiting for it would be for ever.)
async fn may_start(
    environment: &Environment,
    engine: &Engine,
    id: &TaskId,
    fence: Option<u64>,
) -> Result<(), Failure> {
    let view = match engine.view(id).await {
        Err(ActError::NoSuchTask(_)) => return Ok(()),
        other => other?,
    };
    let lease = &view.task.lease;
    if let Some(ours) = fence.map(Fence).filter(|ours| !lease.admits(*ours)) {
        return Err(Refusal::Fenced { task: id.clone(), ours, newest: lease.fence }.into());
    }
    let by_process = |held: &Held| matches!(held.holder, Holder::Process(_));
    if !lease.held.as_ref().is_some_and(by_process) {
        return Ok(());
    }
    let home = environment.store_folder(engine)?;
    for step in view.steps.iter().filter(|step| step.is_open()) {
        let taken = RunningStep::is_taken(&home, id, &step.key).unwrap_or(false);
        if taken {
            let text = format!("step {} of task {id} is still being run", step.key);
            return Err(Failure::new(Exit::Busy, text).hint("wait for it to end, then try again"));
        }
    }
    Ok(())
}

fn claim(environment: &Environment, arguments: &ClaimArguments) -> Outcome {
    let engine = environment.engine()?;
    let (holder, ttl) = environment.holder(&arguments.holder, engine.store().as_ref())?;
    let claimant = Claimant::new(arguments.agent.clone());
    let policy = TaskPolicy::default();
    let claimed = block_on(async {
        let wait = async {
            loop {
                let newest = engine.store().newest_event().await?;
                if let Some(started) = engine.claim(&claimant, &holder, ttl, &policy).await? {
                    return Ok::<_, ActError>(started);
                }
                // A task may also become due by time alone; nobody tells of that.
                let second = std::time::Duration::from_secs(1);
                let _ = tokio::time::timeout(second, engine.store().changed(newest)).await;
            }
        };
        match arguments.wait {
            None => engine.claim(&claimant, &holder, ttl, &policy).await,
            Some(span) => match tokio::time::timeout(span.as_duration(), wait).await {
                Ok(started) => started.map(Some),
                Err(_) => Ok(None),
            },
        }
    })?;
    let Some(started) = claimed else {
        return Err(Failure::new(Exit::No, format!("there is no task for {}", arguments.agent)));
    };
    print_started(environment, &started, arguments.export);
    Ok(0)
}

fn set(environment: &Environment, arguments: SetArguments) -> Outcome {
    let mut words = arguments.words;
    let names_a_task = words.first().is_some_and(|word| !word.contains('='));
    let id = if names_a_task { Some(words.remove(0)) } else { None };
    let id = id.map(TaskId::new).transpose();
    let id = id.map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
    let pairs: Result<BTreeMap<_, _>, _> = words.iter().map(|word| values::pair(word)).collect();
    let pairs = pairs.map_err(|error| Failure::new(Exit::Usage, error))?;
    if pairs.is_empty() {
        return Err(Failure::new(Exit::Usage, "nothing to set; write KEY=VALUE"));
    }
    let count = pairs.len();
    let id = environment.task(id)?;
    let right = environment.right(&id, arguments.fence)?;
    let engine = environment.engine()?;
    block_on(async {
        let acted = engine.act(&id, right, TaskEvent::Set(pairs)).await?;
        checkpoint::refresh(&engine, &id).await?;
        refresh_state(environment, &engine, &acted.before).await
    })?;
    let text = format!("task {id}: {count} set");
    output::answer(environment, &json!({"task": id, "set": count}), &text);
    Ok(0)
}

fn holders_verb(environment: &Environment, which: EndArguments, event: TaskEvent) -> Outcome {
    act(environment, which.id, which.fence, event)
}

/// One event, then the task as it is now.
fn act(
    environment: &Environment,
    id: Option<TaskId>,
    fence: Option<u64>,
    event: TaskEvent,
) -> Outcome {
    let id = environment.task(id)?;
    let right = environment.right(&id, fence)?;
    let engine = environment.engine()?;
    block_on(async {
        engine.act(&id, right, event).await?;
        let task = engine.task(&id).await?;
        let text = format!("task {id} is {}", task.status);
        output::answer(environment, &json!({"task": task_json(&task)}), &text);
        if task.status == TaskStatus::Completed && task.steps_open > 0 {
            let steps = engine.view(&id).await?.progress.in_doubt.join(", ");
            output::note(environment, &format!("it ended with steps in doubt: {steps}"));
        }
        checkpoint::refresh(&engine, &id).await?;
        Ok(0)
    })
}

fn show(environment: &Environment, id: Option<TaskId>) -> Outcome {
    let id = environment.task(id)?;
    let engine = environment.engine()?;
    let view = block_on(engine.view(&id))?;
    output::answer(environment, &view_json(&view), &view_text(&view));
    Ok(0)
}

fn list(environment: &Environment, arguments: ListArguments) -> Outcome {
    let engine = environment.engine()?;
    let query = TaskQuery {
        held_by: None,
        statuses: arguments.statuses,
        agent: arguments.agent,
        checkpoint_folder: None,
        after: arguments.after,
        limit: Some(arguments.limit.saturating_add(1)),
    };
    let mut tasks = block_on(engine.store().tasks(query))?;
    let more = tasks.len() > arguments.limit;
    tasks.truncate(arguments.limit);
    let next = tasks.last().filter(|_| more).map(|task| task.id.clone());
    let items: Vec<Value> = tasks.iter().map(task_json).collect();
    output::answer(environment, &json!({"items": items, "next": next}), &list_text(&tasks));
    if let (Some(next), false) = (next, environment.json) {
        output::note(environment, &format!("there are more: --after {next}"));
    }
    Ok(0)
}

fn states(environment: &Environment) -> u8 {
    let rows: Vec<Value> =
        TRANSITIONS.iter().map(|(from, to)| json!({"from": from, "to": to})).collect();
    let mut text = vec![vec!["from".to_owned(), "to".to_owned()]];
    for (from, to) in TRANSITIONS {
        let to: Vec<&str> = to.iter().map(|status| status.as_str()).collect();
        let to = if to.is_empty() { "– (the end)".to_owned() } else { to.join(", ") };
        text.push(vec![from.to_string(), to]);
    }
    output::answer(environment, &json!({"transitions": rows}), &output::table(&text));
    0
}

fn new_task(id: TaskId, given: NewArguments) -> NewTask {
    NewTask {
        id,
        agent: given.agent,
        spec: TaskSpec {
            title: given.title,
            steps: given.steps,
            payload: given.payload,
            strategy: given.strategy,
            max_retries: given.max_retries,
            key: given.key,
            priority: given.priority,
            needs: given.skills,
            ttl_ms: given.ttl.map(Span::as_ms),
            spent_keys: Vec::new(),
        },
        context: given.context.into_iter().collect(),
        expires_at: given.ttl.map(|span| clock::now().plus(span)),
        checkpoint: None,
    }
}

/// The same shape for `task start`, `task claim` and `checkpoint resume`.
pub(super) fn started_json(started: &Started) -> Value {
    json!({
        "task": started.view.task.id,
        "fence": started.fence,
        "resumed": started.resumed,
        "done_steps": started.view.progress.done_steps,
        "in_doubt": started.view.progress.in_doubt,
        "next_step": started.view.progress.next_step,
        "status": started.view.task.status,
        "title": started.view.task.spec.title,
        "agent": started.view.task.agent,
        "payload": started.view.task.spec.payload,
        "context": started.view.task.context,
    })
}

fn print_started(environment: &Environment, started: &Started, export: bool) {
    if export {
        output::line(&export_text(started));
        return;
    }
    let progress = &started.view.progress;
    let mut text = format!(
        "task {} {} (fence {})",
        started.view.task.id,
        if started.resumed { "goes on" } else { "started" },
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
    output::answer(environment, &started_json(started), &text);
}

fn export_text(started: &Started) -> String {
    let next = started.view.progress.next_step.as_deref().unwrap_or_default();
    let pairs = [
        ("RELIGHT_TASK", started.view.task.id.to_string()),
        ("RELIGHT_FENCE", started.fence.to_string()),
        ("RELIGHT_RESUMED", u8::from(started.resumed).to_string()),
        ("RELIGHT_NEXT_STEP", next.to_owned()),
    ];
    let lines: Vec<String> =
        pairs.iter().map(|(name, value)| format!("export {name}={}", shell_quote(value))).collect();
    lines.join("\n")
}

/// One word for any POSIX shell, whatever is in it.
pub(super) fn shell_quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A task as JSON: what it is, without its steps.
pub(super) fn task_json(task: &Task) -> Value {
    let held = task.lease.held.as_ref();
    json!({
        "id": task.id,
        "status": task.status,
        "reason": task.reason,
        "agent": task.agent,
        "title": task.spec.title,
        "fence": task.lease.fence,
        "holder": held.map(|held| json!({
            "who": held.holder,
            "since": held.since,
            "alive": process::holder_life(held) == HolderLife::Alive,
            "left_ms": held.left.map(Span::as_ms),
        })),
        "seq": task.seq,
        "steps_done": task.steps_done,
        "steps_open": task.steps_open,
        "starts": task.starts,
        "retries": task.retries,
        "max_retries": task.max_retries(),
        "strategy": task.spec.strategy,
        "key": task.spec.key,
        "priority": task.spec.priority,
        "payload": task.spec.payload,
        "context": task.context,
        "steps_declared": task.spec.steps,
        "created_at": task.created_at,
        "updated_at": task.updated_at,
        "not_before": task.not_before,
        "expires_at": task.expires_at,
    })
}

fn view_json(view: &TaskView) -> Value {
    let mut value = task_json(&view.task);
    value["steps"] = json!(super::step::steps_json(&view.task.id, &view.steps));
    value["done_steps"] = json!(view.progress.done_steps);
    value["in_doubt"] = json!(view.progress.in_doubt);
    value["next_step"] = json!(view.progress.next_step);
    value
}

fn view_text(view: &TaskView) -> String {
    let task = &view.task;
    let mut rows = vec![
        vec!["task".to_owned(), task.id.to_string()],
        vec!["status".to_owned(), status_text(task)],
    ];
    let mut row = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            rows.push(vec![name.to_owned(), value]);
        }
    };
    row("title", task.spec.title.clone());
    row("agent", task.agent.as_ref().map(ToString::to_string));
    row("holder", task.lease.held.as_ref().map(holder_text));
    row("fence", Some(task.lease.fence.to_string()));
    row("retries", Some(format!("{} of {}", task.retries, task.max_retries())));
    row("updated", Some(ago(task)));
    row("not before", task.not_before.map(|at| at.to_string()));
    row("expires", task.expires_at.map(|at| at.to_string()));
    for (key, value) in &task.context {
        row("context", Some(format!("{key}={value}")));
    }
    let mut text = output::table(&rows);
    text += "\n\n";
    text += &super::step::steps_text(&view.steps, &view.progress);
    text
}

fn status_text(task: &Task) -> String {
    match &task.reason {
        Some(reason) => format!("{} ({reason})", task.status),
        None => task.status.to_string(),
    }
}

fn holder_text(held: &Held) -> String {
    let life = match process::holder_life(held) {
        HolderLife::Alive => "",
        HolderLife::Gone => ", gone",
    };
    format!("{}{life}, since {}", held.holder, held.since)
}

fn list_text(tasks: &[Task]) -> String {
    if tasks.is_empty() {
        return "no tasks; relight task add ID adds one".to_owned();
    }
    let header = ["task", "status", "agent", "steps", "updated", "title"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for task in tasks {
        rows.push(vec![
            task.id.to_string(),
            status_mark(task),
            task.agent.as_ref().map_or_else(|| "–".to_owned(), ToString::to_string),
            format!("{}/{}", task.steps_done, task.spec.steps.len().max(task.steps_done as usize)),
            ago(task),
            task.spec.title.clone().unwrap_or_default(),
        ]);
    }
    output::table(&rows)
}

/// Nothing is called running whose holder is gone.
fn status_mark(task: &Task) -> String {
    let gone = task.status == TaskStatus::InProgress
        && task.lease.held.as_ref().is_some_and(|h| process::holder_life(h) == HolderLife::Gone);
    if gone { format!("{} (holder gone)", task.status) } else { task.status.to_string() }
}

fn ago(task: &Task) -> String {
    format!("{} ago", clock::now().since(task.updated_at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exported_values_are_one_literal_word() {
        insta::assert_snapshot!(shell_quote("a'b $(id); `x`"), @r"'a'\''b $(id); `x`'");
    }
}
