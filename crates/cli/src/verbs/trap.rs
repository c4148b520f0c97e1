//! `relight trap`: why a loop ended that is not under `relight run`. A courtesy: what was done is on
//! disk before any signal comes.

use relight_core::decide::{Right, TaskEvent};
use relight_core::ids::TaskId;
use relight_core::status::TaskStatus;
use relight_core::task::Task;

use super::operate;
use crate::arguments::agent::{RecordArguments, TrapCommand};
use crate::environment::Environment;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::shell_quote;
use crate::work::Work;
use crate::{block_on, output};

const SNIPPET: &str = include_str!("trap.bash");

pub(crate) fn run(environment: &Environment, command: &TrapCommand) -> Outcome {
    match command {
        TrapCommand::Bash => {
            output::line(snippet(environment)?.trim_end());
            Ok(0)
        }
        TrapCommand::Record(arguments) => record(environment, arguments),
    }
}

/// Calls this very program, wherever the loop goes and whatever its `PATH` becomes.
fn snippet(environment: &Environment) -> Result<String, Failure> {
    let program = std::env::current_exe().map_err(|error| {
        Failure::new(
            Exit::Io,
            format!("cannot find out where this program is: {error}"),
        )
    })?;
    let mut call = vec![shell_quote(&program.to_string_lossy())];
    for (flag, value) in environment.flags_for_state()? {
        call.push(flag.to_owned());
        call.push(shell_quote(&value));
    }
    Ok(SNIPPET.replace("@RELIGHT@", &call.join(" ")))
}

fn record(environment: &Environment, arguments: &RecordArguments) -> Outcome {
    // Under a supervisor the end of the attempt is known better.
    let is_supervised = environment.get("RELIGHT_ATTEMPT").is_some();
    if is_supervised || environment.get("RELIGHT_TASK").is_none() {
        return Ok(0);
    }
    let id = environment.task(None)?;
    let right = environment.right(&id, None)?;
    interrupt(environment, &id, right, reason(arguments))
}

fn reason(arguments: &RecordArguments) -> String {
    match (&arguments.signal, arguments.code) {
        (Some(signal), _) => format!("signal {signal}"),
        (None, 0) => "exit 0 before the task was done".to_owned(),
        (None, code) => format!("exit {code}"),
    }
}

fn interrupt(environment: &Environment, id: &TaskId, right: Right, reason: String) -> Outcome {
    let context = operate::context(environment)?;
    // A loop that ends need not hear of its configuration.
    let work = Work::find(environment, None).or_else(|_| Work::by_default())?;
    block_on(async {
        let task = context.engine.task(id).await?;
        if is_left_behind(&task, right) {
            let event = TaskEvent::Interrupt {
                reason,
                agent_keeps_it: work.strategies.keep_agent(&task),
            };
            context.engine.act(id, right, event).await?;
            operate::refresh(&context, id).await?;
        }
        Ok(0)
    })
}

/// What is finished, or was put away on purpose, stays as it is; what somebody else holds is theirs.
fn is_left_behind(task: &Task, right: Right) -> bool {
    let is_ours = match right.fence() {
        Some(fence) => task.lease.admits(fence),
        None => task.lease.held.is_none(),
    };
    is_ours && matches!(task.status, TaskStatus::Assigned | TaskStatus::InProgress)
}
