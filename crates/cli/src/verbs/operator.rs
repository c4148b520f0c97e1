//! The operator's desk: what `relight recover` lists, and what a person does with it.

use std::time::Duration;

use relight_core::decide::Refusal;
use relight_core::error_code::ErrorCode;
use relight_core::ids::TaskId;
use relight_core::status::TaskStatus;
use relight_core::task::Task;
use relight_core::time::Time;
use relight_runtime::engine::ActError;
use relight_runtime::operations::Context;
use relight_runtime::os::clock;
use relight_runtime::recovery::Recovered;
use relight_runtime::recovery::operator::{self, AwaitingOperator, Filter, OperatorCommand, Then};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::operate;
use super::progress::Bar;
use crate::arguments::agent::RecoverArguments;
use crate::environment::Environment;
use crate::exit::{Exit, Failure, Outcome};
use crate::work::find_config;
use crate::{block_on, output};

/// Without a pace: so many share a sync of the disk.
const AT_ONCE: usize = 64;
/// Why a task was abandoned when nobody said.
const ABANDONED: &str = "abandoned by a person";

/// What a person asked for; none when a strategy decides.
pub(super) fn verb(arguments: &RecoverArguments) -> Option<OperatorCommand> {
    let deed = &arguments.deed;
    let reason = || {
        Some(
            arguments
                .reason
                .clone()
                .unwrap_or_else(|| ABANDONED.to_owned()),
        )
    };
    let flags = [
        deed.resume.then_some(OperatorCommand::Resume),
        deed.restart.then_some(OperatorCommand::Restart),
        deed.abandon
            .then(|| OperatorCommand::Abandon { reason: reason() }),
        deed.hand_over
            .clone()
            .map(|agent| OperatorCommand::HandOver { agent }),
    ];
    flags.into_iter().flatten().next()
}

/// Does it with each of the tasks, at the wanted pace.
pub(super) fn act(
    environment: &Environment,
    arguments: &RecoverArguments,
    verb: &OperatorCommand,
) -> Outcome {
    if arguments.tasks.is_empty() && !arguments.all {
        return Err(Failure::new(Exit::Usage, "no task is named")
            .hint("name the tasks, or give --all; relight recover --dry-run lists them"));
    }
    let rate = match arguments.rate {
        Some(rate) => rate,
        None => find_config(environment, arguments.config.config.as_deref())?
            .map_or(0, |config| config.queue.resume_rate),
    };
    let context = operate::context(environment)?;
    block_on(async {
        let tasks = if arguments.all {
            let found = operator::tasks(&context.engine, &filter(arguments)).await?;
            found.into_iter().map(|task| task.id).collect()
        } else {
            arguments.tasks.clone()
        };
        let mut all = Deeds {
            environment,
            context,
            verb,
            dry_run: arguments.dry_run,
            done: vec![],
        };
        all.run(&tasks, rate).await;
        Ok(all.tell())
    })
}

pub(super) fn filter(arguments: &RecoverArguments) -> Filter {
    Filter {
        statuses: arguments.statuses.clone(),
        agent: arguments.agent.clone(),
    }
}

/// What was done, task by task.
struct Deeds<'a> {
    environment: &'a Environment,
    context: Context,
    verb: &'a OperatorCommand,
    dry_run: bool,
    done: Vec<(TaskId, Result<Done, Failure>)>,
}

/// A task as it is then, and what to type where nobody who is there would take it.
struct Done {
    task: Task,
    command: Option<String>,
}

impl Deeds<'_> {
    /// One that cannot be done stops no other.
    async fn run(&mut self, tasks: &[TaskId], rate: u32) {
        let is_paced = rate > 0 && !self.dry_run;
        let at_once = if is_paced { 1 } else { AT_ONCE };
        let pause = Duration::from_secs(1) / rate.max(1);
        let mut bar = Bar::new(self.environment);
        for chunk in tasks.chunks(at_once) {
            if is_paced && !self.done.is_empty() {
                tokio::time::sleep(pause).await;
            }
            bar.count("deciding about tasks", self.done.len(), tasks.len());
            self.run_together(chunk).await;
        }
    }

    async fn run_together(&mut self, tasks: &[TaskId]) {
        let mut under_way = JoinSet::new();
        for (at, id) in tasks.iter().enumerate() {
            let (context, verb, dry_run) = (self.context.clone(), self.verb.clone(), self.dry_run);
            let id = id.clone();
            under_way.spawn(async move { (at, one(&context, id, &verb, dry_run).await) });
        }
        let mut done = under_way.join_all().await;
        done.sort_by_key(|(at, _)| *at);
        self.done.extend(done.into_iter().map(|(_, done)| done));
    }

    fn tell(&self) -> u8 {
        let items: Vec<Value> = self.done.iter().map(|(id, done)| item(id, done)).collect();
        let value = json!({"dry_run": self.dry_run, "action": word(self.verb), "tasks": items});
        let done = self.done.iter().filter_map(|(_, done)| done.as_ref().ok());
        let lines: Vec<String> = done.map(|done| self.in_words(done)).collect();
        let text = if self.done.is_empty() {
            "no task waits".to_owned()
        } else {
            lines.join("\n")
        };
        output::answer(self.environment, &value, &text);
        let mut code = 0;
        for (_, done) in &self.done {
            if let Err(failure) = done {
                code = Exit::No as u8;
                if !self.environment.json {
                    output::failure(false, failure);
                }
            }
        }
        code
    }

    fn in_words(&self, Done { task, command }: &Done) -> String {
        let (id, whose) = (&task.id, whose(task));
        let mut text = self.what_becomes(id, whose);
        if let Some(command) = command {
            text += &format!("; it waits in the queue; to continue it: {command}");
        }
        text
    }

    fn what_becomes(&self, id: &TaskId, whose: &str) -> String {
        match (self.verb, self.dry_run) {
            (OperatorCommand::Resume, false) => format!("task {id} may continue with {whose}"),
            (OperatorCommand::Resume, true) => format!("task {id} would continue with {whose}"),
            (OperatorCommand::Restart, false) => format!("task {id} begins anew with {whose}"),
            (OperatorCommand::Restart, true) => format!("task {id} would begin anew with {whose}"),
            (OperatorCommand::Abandon { .. }, false) => format!("task {id} is cancelled"),
            (OperatorCommand::Abandon { .. }, true) => format!("task {id} would be cancelled"),
            (OperatorCommand::HandOver { .. }, false) => {
                format!("task {id} is handed over to {whose}")
            }
            (OperatorCommand::HandOver { .. }, true) => {
                format!("task {id} would be handed over to {whose}")
            }
        }
    }
}

async fn one(
    context: &Context,
    id: TaskId,
    verb: &OperatorCommand,
    dry_run: bool,
) -> (TaskId, Result<Done, Failure>) {
    let done = if dry_run {
        operator::foresee(&context.engine, &id, verb).await
    } else {
        operator::act(&context.engine, &id, verb).await
    };
    let done = match done {
        Ok(task) if !dry_run => operate::refresh(context, &id).await.map(|()| task),
        other => other.map_err(|error: ActError| match error {
            ActError::Refused(Refusal::Illegal { from, .. }) => nothing_to_recover(&id, from),
            error => error.into(),
        }),
    };
    let done = match done {
        Ok(task) if matches!(verb, OperatorCommand::Abandon { .. }) => Ok(Done {
            task,
            command: None,
        }),
        Ok(task) => match operator::command_to_continue(&context.engine, &task).await {
            Ok(command) => Ok(Done { task, command }),
            Err(error) => Err(error.into()),
        },
        Err(failure) => Err(failure),
    };
    (id, done)
}

/// Of a task that nobody left behind.
fn nothing_to_recover(id: &TaskId, status: TaskStatus) -> Failure {
    let code = match status.is_terminal() {
        true => ErrorCode::ENDED,
        false => ErrorCode::ILLEGAL,
    };
    Failure::of(
        code,
        format!("task {id} is {status}: there is nothing to recover"),
    )
    .hint(match status {
        TaskStatus::Created => format!("nobody has begun it; relight task start {id} does"),
        TaskStatus::Completed | TaskStatus::Cancelled => {
            "it has ended; new work needs a new id".to_owned()
        }
        _ => format!("relight task show {id}"),
    })
}

fn item(id: &TaskId, done: &Result<Done, Failure>) -> Value {
    match done {
        Ok(Done { task, command }) => json!({
            "task": id, "status": task.status, "agent": task.agent, "command": command,
            "error": null,
        }),
        Err(failure) => {
            json!({
                "task": id, "status": null, "agent": null, "command": null,
                "error": failure.json(),
            })
        }
    }
}

fn word(verb: &OperatorCommand) -> &'static str {
    match verb {
        OperatorCommand::Resume => "resume",
        OperatorCommand::Restart => "restart",
        OperatorCommand::Abandon { .. } => "abandon",
        OperatorCommand::HandOver { .. } => "hand_over",
    }
}

fn whose(task: &Task) -> &str {
    task.agent
        .as_ref()
        .map_or("whoever takes it", |agent| agent.as_str())
}

/// A task on the desk: what it is, why, how far, and what becomes of it.
pub(super) fn waiting_text(waiting: &AwaitingOperator) -> String {
    let AwaitingOperator {
        task,
        status,
        strategy,
        ..
    } = waiting;
    let mut text = format!("task {task} is {status}");
    if waiting.then == Then::Recovered {
        text += ", and its holder is gone";
    }
    if let Some(reason) = &waiting.reason {
        text += &format!(": {}", output::one_line(reason));
    }
    let mut facts = vec![format!("strategy {strategy}")];
    facts.extend(waiting.agent.as_ref().map(|agent| format!("agent {agent}")));
    facts.extend(
        waiting
            .last_step
            .as_ref()
            .map(|step| format!("last step {step}")),
    );
    facts.extend(
        waiting
            .next_step
            .as_ref()
            .map(|step| format!("next step {step}")),
    );
    if !waiting.in_doubt.is_empty() {
        facts.push(format!("in doubt {}", waiting.in_doubt.join(", ")));
    }
    let resolve = waiting.resolve.as_ref();
    let resolve = resolve.map(|command| format!("first: {command}\n    "));
    format!(
        "{text}\n    {}\n    {}{}",
        facts.join(" · "),
        resolve.unwrap_or_default(),
        then_text(waiting, clock::now())
    )
}

fn then_text(waiting: &AwaitingOperator, now: Time) -> String {
    let id = &waiting.task;
    let when = match waiting.not_before.filter(|at| *at > now) {
        Some(at) => format!("in {}", at.since(now)),
        None => "now".to_owned(),
    };
    // The agent of a task that anybody may take is the one that had it last.
    let agent = waiting
        .agent
        .as_ref()
        .filter(|_| waiting.then != Then::Taken);
    let agent = agent.map_or("whoever takes it", |agent| agent.as_str());
    if let Some(command) = &waiting.command {
        return format!("waits in the queue for {agent}, {when}: {command}");
    }
    match waiting.then {
        Then::Recovered => match &waiting.foreseen {
            Some(foreseen) => format!("recover: {}", foreseen_text(foreseen)),
            None => format!("recover: the strategy {} is asked", waiting.strategy),
        },
        Then::Resumed if waiting.not_before.is_some_and(|at| at > now) => {
            format!("continues with {agent} {when}; relight task start {id} continues it at once")
        }
        Then::Resumed => format!("continues with {agent} {when}"),
        Then::Taken => format!("may be taken by anybody who can do it, {when}"),
        Then::Waits => format!(
            "waits for a person: relight recover {id} --resume, --restart, --abandon or --hand-over AGENT"
        ),
    }
}

/// What a strategy of Relight's own would make of a task.
fn foreseen_text(foreseen: &Recovered) -> String {
    let strategy = foreseen
        .strategy
        .as_deref()
        .unwrap_or("no strategy is asked");
    let what = match foreseen.outcome.as_deref() {
        Some("reassign") => "failed, and any agent with the skills may take it",
        Some("retries_used_up") => "failed, and no retry is left",
        Some("resume") => "interrupted, and its agent may continue it",
        Some("parked") => "parked: it has used up what it may",
        _ => return format!("{} ({strategy})", foreseen.status),
    };
    format!("{what} ({strategy})")
}
