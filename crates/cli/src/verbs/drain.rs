//! `relight drain`: what runs is finished, nothing is begun.

use std::io::IsTerminal as _;

use relight_core::ids::AgentName;
use relight_core::time::{Span, Time};
use relight_runtime::declared_wait::DeclaredWait;
use relight_runtime::drain;
use relight_runtime::engine::Engine;
use relight_runtime::inflight::{self, Holding, Inflight, OpenStep, OpenTurn};
use relight_runtime::operations::agent::SupervisorView;
use relight_runtime::operations::live_signs::LiveSigns;
use relight_runtime::os::clock;
use relight_runtime::recovery::SWEEP;
use serde_json::json;
use tokio::time::Instant;

use crate::arguments::other::DrainArguments;
use crate::environment::Environment;
use crate::exit::{Exit, Failure, Outcome};
use crate::work::find_config;
use crate::{block_on, output};

/// How many of what still runs are named in a line.
const NAMED_MAX: usize = 5;

pub(crate) fn run(environment: &Environment, arguments: &DrainArguments) -> Outcome {
    let engine = environment.engine()?;
    if arguments.cancel {
        return cancel(environment, &engine);
    }
    block_on(async {
        let mark = drain::begin(engine.store().as_ref()).await?;
        let running = match arguments.wait {
            None => still_running(environment, &engine).await?,
            Some(most) => wait(environment, &engine, most).await?,
        };
        tell(environment, mark.since, &running);
        let has_waited_in_vain = arguments.wait.is_some() && running.count() > 0;
        Ok(if has_waited_in_vain {
            Exit::No as u8
        } else {
            0
        })
    })
}

fn cancel(environment: &Environment, engine: &Engine) -> Outcome {
    let was_set = block_on(drain::cancel(engine.store().as_ref()))?;
    let text = if was_set {
        "work begins again"
    } else {
        "nothing was draining"
    };
    output::answer(
        environment,
        &json!({"draining": false, "was_draining": was_set}),
        text,
    );
    Ok(0)
}

/// Work that somebody alive is at.
struct StillRunning {
    tasks: Vec<Holding>,
    /// Steps of tasks that nobody holds.
    steps: Vec<OpenStep>,
    sessions: Vec<OpenTurn>,
    /// Agents that run, but those that wait for work: what they do, only they know.
    agents: Vec<AgentName>,
}

impl StillRunning {
    fn count(&self) -> usize {
        self.tasks.len() + self.steps.len() + self.sessions.len() + self.agents.len()
    }
}

async fn still_running(
    environment: &Environment,
    engine: &Engine,
) -> Result<StillRunning, Failure> {
    let home = environment.store_folder(engine)?;
    let Inflight {
        held,
        mut running,
        mut sessions,
        ..
    } = inflight::look(engine, &home).await?;
    sessions.retain(|turn| turn.lives == Some(true));
    let mut agents = inflight::running_agents(engine).await?;
    // A step that drains does not wait for itself, nor does an agent.
    let own = (
        environment.get("RELIGHT_TASK"),
        environment.get("RELIGHT_STEP"),
    );
    running.retain(|open| own != (Some(open.task.as_str()), Some(open.step.name.as_str())));
    let own = environment.get("RELIGHT_AGENT");
    agents.retain(|agent| own != Some(agent.name.as_str()));
    let (mut signs, mut at_work) = (LiveSigns::default(), Vec::new());
    for agent in agents {
        let near = SupervisorView::of(&agent, engine.holders()).filter(SupervisorView::is_near);
        let waits = match near {
            Some(near) => signs.waits_for_work(&home, &agent.name, near.pid).await,
            None => false,
        };
        if !waits {
            at_work.push(agent.name);
        }
    }
    Ok(StillRunning {
        tasks: held,
        steps: running,
        sessions,
        agents: at_work,
    })
}

/// Until nothing runs, or the time is over; what runs then. Deaths are told by nobody: it is looked for
/// them now and then.
async fn wait(
    environment: &Environment,
    engine: &Engine,
    most: Option<Span>,
) -> Result<StillRunning, Failure> {
    let sweep = find_config(environment, None)
        .ok()
        .flatten()
        .map_or(SWEEP, |config| config.queue.sweep);
    let deadline = most.map(|most| Instant::now() + most.as_duration());
    let agent = environment
        .get("RELIGHT_AGENT")
        .and_then(|name| AgentName::new(name).ok());
    let _declared = DeclaredWait::begin(most, engine, agent.as_ref()).await;
    let mut told = usize::MAX;
    loop {
        let newest = engine.store().newest_event().await?;
        let running = still_running(environment, engine).await?;
        let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        if running.count() == 0 || left.is_some_and(|left| left.is_zero()) {
            return Ok(running);
        }
        let count = running.count();
        if count != told && std::io::stderr().is_terminal() {
            output::note(environment, &running_text(&running));
            told = count;
        }
        let pause = left.map_or(sweep.as_duration(), |left| left.min(sweep.as_duration()));
        if let Ok(changed) = tokio::time::timeout(pause, engine.store().changed(newest)).await {
            changed?;
        }
    }
}

fn tell(environment: &Environment, since: Time, running: &StillRunning) {
    let text = if running.count() == 0 {
        "draining; nothing runs any more (relight drain --cancel lets work begin again)".to_owned()
    } else {
        format!("draining; {}", running_text(running))
    };
    let value = json!({
        "draining": true, "since": since, "running": running.tasks, "steps": running.steps,
        "sessions": running.sessions,
        "agents": running.agents,
    });
    output::answer(environment, &value, &text);
}

fn running_text(running: &StillRunning) -> String {
    let mut parts = Vec::new();
    if !running.tasks.is_empty() {
        let now = clock::now();
        let one =
            |it: &Holding| format!("{} ({}, for {})", it.task, it.holder, now.since(it.since));
        let mut named: Vec<String> = running.tasks.iter().take(NAMED_MAX).map(one).collect();
        if running.tasks.len() > NAMED_MAX {
            named.push("…".to_owned());
        }
        parts.push(format!(
            "{} tasks still run: {}",
            running.tasks.len(),
            named.join(", ")
        ));
    }
    if !running.steps.is_empty() {
        let one = |it: &OpenStep| format!("{} of task {}", it.step, it.task);
        let mut named: Vec<String> = running.steps.iter().take(NAMED_MAX).map(one).collect();
        if running.steps.len() > NAMED_MAX {
            named.push("…".to_owned());
        }
        parts.push(format!(
            "{} steps still run: {}",
            running.steps.len(),
            named.join(", ")
        ));
    }
    if let Some(first) = running.agents.first() {
        let mut named: Vec<&str> = running
            .agents
            .iter()
            .take(NAMED_MAX)
            .map(AgentName::as_str)
            .collect();
        if running.agents.len() > NAMED_MAX {
            named.push("…");
        }
        let (count, named) = (running.agents.len(), named.join(", "));
        parts.push(format!(
            "{count} agents still run: {named} (relight stop {first} ends one)"
        ));
    }
    if !running.sessions.is_empty() {
        parts.push(format!(
            "{} turns of sessions are in flight",
            running.sessions.len()
        ));
    }
    parts.join("; ")
}

/// For those that show more than this: since when nothing is begun.
pub(super) fn line(since: Time) -> String {
    format!("draining since {since}: nothing is begun; relight drain --cancel ends that")
}
