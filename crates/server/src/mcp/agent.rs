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
use relight_runtime::supervise::successor::{BriefSubject, Unfinished, current_brief, unfinished};
use serde_json::{Value, json};

use super::arguments;
use super::call_context::{CallContext, Process, Side};
use super::reply::{OUTPUT_BYTES_MAX, Reply, first};
use crate::error::ApiError;
use crate::routes::heartbeat;
use crate::routes::moment;
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
    for OpenStep { task, step, rule, .. } in first(in_doubt) {
        text += &format!("\nin doubt: step {step} of task {task} ({rule})");
    }
    for Holding { task, .. } in first(lost) {
        text += &format!("\nholder gone: task {task}; task_start continues it");
    }
    let holding = |holding: &Holding| {
        json!({"task": holding.task, "status": holding.status, "holder": holding.holder,
            "since": holding.since, "steps": holding.steps})
    };
    let open = |open: &OpenStep| {
        json!({"task": open.task, "step": open.step.to_string(), "rule": open.rule,
            "since": open.since})
    };
    let data = json!({
        "in_doubt": first(in_doubt).iter().map(open).collect::<Vec<Value>>(),
        "lost": first(lost).iter().map(holding).collect::<Vec<Value>>(),
        "held": first(held).iter().map(holding).collect::<Vec<Value>>(),
        "running": first(&found.running).iter().map(open).collect::<Vec<Value>>(),
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
    let Some(task) = task else { return Ok(Reply::text(text)) };
    let payload = context.engine.store().task(&task).await?.and_then(|task| task.spec.payload);
    let Some(payload) = payload else { return Ok(Reply::text(text)) };
    text += &format!("\nPayload: {}\n", clipped(&payload.to_string(), OUTPUT_BYTES_MAX));
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
    let about = BriefSubject { agent: agent.as_ref(), task: task.as_ref(), workspace };
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
    let mut text =
        format!("Unfinished tasks: {}. If one is yours, call resume_brief with it.\n", found.len());
    for Unfinished { task, is_held } in first(&found) {
        let agent =
            task.agent.as_ref().map(|agent| format!(" of agent {agent}")).unwrap_or_default();
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
    let arguments::HeartbeatTool { status, waiting_until, agent } = given;
    let named = agent.map(AgentName::new).transpose()?;
    let name = named.clone().or_else(|| context.agent.clone());
    let task = context.current().map(String::from);
    let beat = wire::agent::Heartbeat { status, waiting_until, attempt: None, task };
    let answer = match (&context.side, name) {
        (Side::Http { app, .. }, Some(name)) => {
            let answer = heartbeat::hear(app, name, beat).await?;
            serde_json::to_value(answer).expect("wire types have string keys")
        }
        (Side::Http { .. }, None) => return Err(ApiError::invalid("give agent, your name")),
        (Side::Process(_), Some(name)) if reports(context, &name, named.is_some()).await? => {
            report(context, name, &beat).await?
        }
        (Side::Process(process), _) => {
            let is_heard = notify(context, process, named, beat).await?;
            let text = if is_heard { "heard" } else { "nobody supervises you; nothing to tell" };
            return Ok(Reply::new(text, json!({"heard": is_heard})));
        }
    };
    let text = answer["why"].as_str().unwrap_or("heard").to_owned();
    let mut data = answer;
    data["heard"] = json!(true);
    Ok(Reply::new(text, data))
}

/// Whether the daemon hears it. An agent that was named must be there; one that nobody registered may have
/// its name from its environment.
async fn reports(
    context: &CallContext,
    name: &AgentName,
    is_named: bool,
) -> Result<bool, ApiError> {
    match context.engine.store().agent(name).await? {
        None if is_named => Err(ActError::NoSuchAgent(name.clone()).into()),
        agent => Ok(agent.is_some_and(|agent| agent.plan.reports_itself())),
    }
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
    let answered =
        sent.map_err(|error| ApiError::internal(error.to_string()))?.map_err(|error| {
            ApiError::new(ErrorCode::UNREACHABLE, format!("the daemon cannot be reached: {error}"))
                .hint("relight up starts it; go on meanwhile and try again later")
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
        signs.push(NotifySign::WaitingUntil(moment(text, clock::now())?));
    }
    signs.extend(beat.status.map(NotifySign::Status));
    let send = move || addresses.iter().any(|address| notify::send(address, &signs).is_ok());
    Ok(tokio::task::spawn_blocking(send).await.unwrap_or(false))
}
