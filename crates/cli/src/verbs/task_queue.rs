//! `relight task claim` and `relight task fail`: the ends of the queue, where strategies are asked.

use relight_core::error_code::ErrorCode;
use relight_core::ids::AgentName;
use relight_core::recovery::Decision;
use relight_core::status::TaskStatus;
use relight_core::task::Task;
use relight_runtime::operations::task::TaskFail;
use relight_runtime::operations::work::TaskClaim;
use relight_runtime::os::clock;
use relight_runtime::recovery::Recovered;
use relight_runtime::recovery::operator::command_to_continue;

use super::operate::{context, file_check, tell};
use super::supervision::cannot_wait;
use super::task::print_started;
use crate::arguments::task::{ClaimArguments, FailArguments};
use crate::environment::Environment;
use crate::exit::{Failure, Outcome};
use crate::work::Work;
use crate::{block_on, output};

pub(super) fn claim(environment: &Environment, arguments: &ClaimArguments) -> Outcome {
    let work = Work::find(environment, arguments.config.config.as_deref())?;
    let context = context(environment)?;
    let agent = environment.agent(arguments.agent.as_ref())?;
    let store = context.engine.store().as_ref();
    let (holder, lease) = environment.holder(&arguments.holder, agent.as_ref(), store)?;
    let (skills, wait) = (arguments.skills.clone(), arguments.wait);
    let request = TaskClaim {
        agent,
        skills,
        wait,
        lease,
    };
    let queue = work.queue(context.engine.clone());
    let taker = holder.into();
    let claiming = request.run(&context, &queue, &taker);
    // Only a wait needs the descriptors of a full runtime: it is woken by deaths of holders.
    let claimed = match wait {
        Some(_) => crate::runtime()
            .map_err(|error| cannot_wait(&error))?
            .block_on(claiming)?,
        None => block_on(claiming)?,
    };
    let nothing = || {
        Failure::of(
            ErrorCode::NOTHING,
            format!(
                "there is no task for {}",
                request.agent.as_ref().map_or("", AgentName::as_str)
            ),
        )
    };
    let written = claimed.ok_or_else(nothing)?;
    print_started(
        environment,
        &context.engine,
        &written.answer,
        arguments.export,
    )?;
    file_check(&written)?;
    Ok(0)
}

/// Asks the strategy. A task that does not go on is still what was asked for: exit code 0.
pub(super) fn fail(environment: &Environment, arguments: FailArguments) -> Outcome {
    let task = environment.task(arguments.which.id)?;
    let fence = environment.right(&task, arguments.which.fence)?.fence();
    let work = Work::find(environment, arguments.config.config.as_deref())?;
    let context = context(environment)?;
    let recoverer = work.recoverer(context.engine.clone());
    let force = arguments.force || environment.is_person();
    let request = TaskFail {
        task,
        fence,
        reason: arguments.reason,
        force,
    };
    let failed = block_on(request.run(&context, &recoverer))?;
    let recovered = &failed.answer.recovery;
    if let Some(trouble) = &recovered.trouble {
        output::alert(&trouble_text(recovered, trouble));
    }
    let command = block_on(command_to_continue(&context.engine, &failed.task))?;
    let text = recovered_text(recovered, &failed.task, command.as_deref());
    tell(environment, &failed, &text)?;
    Ok(0)
}

/// What was wrong with a strategy, and whose answer stands.
pub(super) fn trouble_text(recovered: &Recovered, trouble: &str) -> String {
    let strategy = recovered.strategy.as_deref().unwrap_or_default();
    let default = relight_core::task::STRATEGY_DEFAULT;
    let task = &recovered.task;
    format!("task {task}: the strategy {strategy} has no answer: {trouble}; {default} decided")
}

/// What became of a task, as a sentence; `command` is what to type where nobody who is there would take it.
pub(super) fn recovered_text(recovered: &Recovered, task: &Task, command: Option<&str>) -> String {
    let id = &recovered.task;
    let waits = command.map(|command| format!("it waits in the queue; to continue it: {command}"));
    let when = match recovered.not_before.filter(|at| *at > clock::now()) {
        Some(at) => format!("from {at} on"),
        None => "at once".to_owned(),
    };
    let agent = task
        .agent
        .as_ref()
        .map_or("whoever takes it", AgentName::as_str);
    let outcome = recovered.outcome.as_deref().unwrap_or_default();
    let resume = Decision::Resume.as_str();
    let defer = Decision::Defer {
        until: clock::now(),
    }
    .as_str();
    match recovered.status {
        TaskStatus::Failed if outcome == Decision::GiveUp.as_str() => {
            format!("task {id} failed; its strategy gives it up (relight task retry {id} --force)")
        }
        TaskStatus::Failed if task.has_retry_left() => {
            let retries = task.retries_in_words();
            format!("task {id} failed; may be taken again {when} (retries: {retries})")
        }
        TaskStatus::Failed => {
            format!("task {id} failed; no retry is left (relight task retry {id} --force)")
        }
        // The wait is for the queue. Whoever asks for it by name has it at once.
        TaskStatus::Interrupted if outcome == resume => {
            let verb = match task.checkpoint {
                Some(_) => "checkpoint resume --workflow",
                None => "task start",
            };
            let by_name = format!("relight {verb} {}", output::shell_word(id.as_str()));
            match (recovered.not_before.filter(|at| *at > clock::now()), waits) {
                (Some(_), _) => format!(
                    "task {id} is interrupted; the queue offers it to {agent} {when}, {by_name} \
                     continues it at once"
                ),
                (None, Some(waits)) => format!("task {id} is interrupted; {waits}"),
                (None, None) => {
                    format!("task {id} is interrupted; {agent} may continue it at once")
                }
            }
        }
        TaskStatus::Deferred if outcome == defer => {
            format!("task {id} is deferred; it may be taken {when}")
        }
        TaskStatus::Suspended => {
            let reason = recovered
                .reason
                .as_deref()
                .unwrap_or("its strategy wants that");
            format!("task {id} is suspended and waits for a person: {reason}")
        }
        status => match &recovered.reason {
            Some(reason) => format!("task {id} is {status}: {reason}"),
            None => format!("task {id} is {status}"),
        },
    }
}
