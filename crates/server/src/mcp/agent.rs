//! Tools about the calling agent: `inflight`, `resume_brief`, `heartbeat`.

use relight_core::agent::plain::clipped;
use relight_core::error_code::ErrorCode;
use relight_core::ids::{AgentName, TaskId};
use relight_core::time::Span;
use relight_runtime::engine::{ActError, Engine};
use relight_runtime::inflight::{self, Holding, OpenStep};
use relight_runtime::os::clock;
use relight_runtime::supervise::daemon_client;
use relight_runtime::supervise::folder::AgentFolder;
use relight_runtime::supervise::notify::{self, NotifySign};
use relight_runtime::supervise::reporters::{Belief, answer_supervised};
use relight_runtime::supervise::successor::{BriefSubject, Unfinished, current_brief, unfinished};
use serde_json::{Value, json};

use super::arguments;
use super::call_context::{CallContext, Process, Side};
use super::reply::{OUTPUT_BYTES_MAX, Reply, first};
use crate::error::ApiError;
use crate::routes::heartbeat;
use crate::routes::waiting_until;
use crate::wire;

/// What the daemon may take to hear a heartbeat.
const PATIENCE: Span = Span::from_secs(10);

pub(super) async fn inflight(
    context: &CallContext,
    _: arguments::InflightTool,
) -> Result<Reply, ApiError> {
    let found = inflight::look(&context.engine, &context.home).await?;
    let (in_doubt, lost, held) = (&found.in_doubt, &found.lost, &found.held);
    let mut text = format!(
        "{} in doubt, {} whose holder is gone, {} held",
        in_doubt.len(),
        lost.len(),
        held.len()
    );
    for OpenStep {
        task, step, rule, ..
    } in first(in_doubt)
    {
        text += &format!("\nin doubt: step {step} of task {task} ({rule})");
    }
    for Holding { task, .. } in first(lost) {
        text += &format!("\nholder gone: task {task}; task_start continues it");
    }
    let data = json!({
        "in_doubt": first(in_doubt), "lost": first(lost), "held": first(held),
        "running": first(&found.running), "agents": first(&found.agents),
        "sessions": first(&found.sessions),
        "counts": {"in_doubt": in_doubt.len(), "lost": lost.len(), "held": held.len(),
            "running": found.running.len(), "agents": found.agents.len(), "sessions": found.sessions.len()},
    });
    Ok(Reply::new(text, data))
}

pub(super) async fn brief(
    context: &CallContext,
    given: arguments::ResumeBrief,
) -> Result<Reply, ApiError> {
    let task = given.task.map(TaskId::new).transpose()?;
    let agent = context.agent(given.agent)?;
    let task = task.or_else(|| context.current());
    let mut text = brief_text(context, task.clone(), agent).await?;
    let Some(task) = task else {
        return Ok(Reply::text(text));
    };
    let payload = context
        .engine
        .store()
        .task(&task)
        .await?
        .and_then(|task| task.spec.payload);
    let Some(payload) = payload else {
        return Ok(Reply::text(text));
    };
    text += &format!(
        "\nPayload: {}\n",
        clipped(&payload.to_string(), OUTPUT_BYTES_MAX)
    );
    Ok(Reply::new(text, json!({"task": task, "payload": payload})))
}

/// The brief of this task, else of the one that was started, else of the agent's own.
pub(super) async fn brief_text(
    context: &CallContext,
    task: Option<TaskId>,
    agent: Option<AgentName>,
) -> Result<String, ApiError> {
    let task = task.or_else(|| context.current());
    let workspace = match &context.side {
        Side::Process(process) => process.workspace.as_deref(),
        Side::Http { .. } => None,
    };
    let about = BriefSubject {
        agent: agent.as_ref(),
        task: task.as_ref(),
        workspace,
    };
    match current_brief(&context.engine, about).await {
        Ok(Some(text)) => Ok(text),
        Ok(None) if task.is_none() && agent.is_none() => which_one(&context.engine).await,
        Ok(None) => Ok(NOTHING.to_owned()),
        // Named by the environment, and not begun yet.
        Err(ActError::NoSuchTask(_)) if context.current() == task => Ok(NOTHING.to_owned()),
        Err(error) => Err(error.into()),
    }
}

const NOTHING: &str = "Nothing was interrupted: begin at the beginning.\n";

/// For a reader that named neither itself nor its task, where more than one may be meant.
async fn which_one(engine: &Engine) -> Result<String, ApiError> {
    let found = unfinished(engine).await?;
    if found.is_empty() {
        return Ok(NOTHING.to_owned());
    }
    let mut text = format!(
        "Unfinished tasks: {}. If one is yours, call resume_brief with it.\n",
        found.len()
    );
    for Unfinished { task, is_held } in first(&found) {
        let agent = task
            .agent
            .as_ref()
            .map(|agent| format!(" of agent {agent}"))
            .unwrap_or_default();
        let held = if *is_held { ", held" } else { "" };
        text += &format!("- {}{agent}: {}{held}\n", task.id, task.status);
    }
    Ok(text)
}

/// Tells whoever judges the agent's silence: over HTTP the daemon itself, else the agent's supervisor, or
/// the daemon where the agent reports by itself.
pub(super) async fn heartbeat(
    context: &CallContext,
    given: arguments::HeartbeatTool,
) -> Result<Reply, ApiError> {
    let arguments::HeartbeatTool {
        status,
        waiting_until,
        task,
        attempt,
        agent,
    } = given;
    let named = agent.map(AgentName::new).transpose()?;
    let name = named.clone().or_else(|| context.agent.clone());
    // Only one that it took can be taken from it.
    let current = context
        .current()
        .filter(|task| context.fence(task, None).is_some());
    let task = task.or(current.map(String::from));
    let beat = wire::agent::Heartbeat {
        status,
        waiting_until,
        attempt,
        task,
    };
    let known = match &name {
        Some(name) => context.engine.store().agent(name).await?,
        None => None,
    };
    let Some(agent) = known else {
        if let Some(name) = named {
            return Err(ActError::NoSuchAgent(name).into());
        }
        // Nobody registered the name of the environment or the header.
        let is_heard = match &context.side {
            Side::Process(process) => notify(context, process, None, beat).await?,
            Side::Http { .. } if name.is_none() => {
                return Err(ApiError::invalid("give agent, your name"));
            }
            Side::Http { .. } => false,
        };
        return Ok(reply(is_heard, json!({"action": "continue"})));
    };
    let (is_heard, answer) = match &context.side {
        Side::Http { app, .. } => (true, json!(heartbeat::hear(app, agent.name, beat).await?)),
        Side::Process(_) if agent.plan.reports_itself() => {
            (true, report(context, agent.name, &beat).await?)
        }
        Side::Process(process) => {
            let belief = Belief {
                attempt,
                task: beat.task.clone().map(TaskId::new).transpose()?,
            };
            let is_heard = notify(context, process, named, beat).await?;
            let answer = answer_supervised(&context.engine, &agent.name, belief).await?;
            (is_heard, json!(answer))
        }
    };
    Ok(reply(is_heard, answer))
}

/// The answer of the API, and whether anybody judges the agent's silence.
fn reply(is_heard: bool, mut answer: Value) -> Reply {
    let nobody = if is_heard {
        "heard"
    } else {
        "nobody supervises you; nothing to tell"
    };
    let action = answer["action"]
        .as_str()
        .filter(|action| *action != "continue");
    let text = match (action, answer["why"].as_str()) {
        (Some(action), why) => format!("{action}: {}", why.unwrap_or_default()),
        (None, _) => nobody.to_owned(),
    };
    answer["heard"] = json!(is_heard);
    Reply::new(text, answer)
}

/// Sends the heartbeat to the daemon.
async fn report(
    context: &CallContext,
    name: AgentName,
    beat: &wire::agent::Heartbeat,
) -> Result<Value, ApiError> {
    let (home, body) = (context.home.clone(), json!(beat));
    let send = move || daemon_client::heartbeat(&home, &name, &body, PATIENCE);
    let sent = tokio::task::spawn_blocking(send).await;
    let answered = sent
        .map_err(|error| ApiError::internal(error.to_string()))?
        .map_err(|error| {
            ApiError::new(
                ErrorCode::UNREACHABLE,
                format!("the daemon cannot be reached: {error}"),
            )
            .hint("continue meanwhile, and try again later")
        })?;
    match answered.refusal() {
        Some(refused) => Err(refused.into()),
        None => Ok(answered.body),
    }
}

/// Whether a supervisor listens. Blocks for a moment at most, on a thread of its own.
async fn notify(
    context: &CallContext,
    process: &Process,
    name: Option<AgentName>,
    beat: wire::agent::Heartbeat,
) -> Result<bool, ApiError> {
    let addresses = match name {
        Some(name) => notify::addresses(&AgentFolder::of(&context.home, &name)),
        None => process.addresses.clone(),
    };
    let mut signs = vec![NotifySign::Alive];
    if let Some(text) = &beat.waiting_until {
        signs.push(NotifySign::WaitingUntil(waiting_until(text, clock::now())?));
    }
    signs.extend(beat.status.map(NotifySign::Status));
    let send = move || {
        addresses
            .iter()
            .any(|address| notify::send(address, &signs).is_ok())
    };
    Ok(tokio::task::spawn_blocking(send).await.unwrap_or(false))
}
