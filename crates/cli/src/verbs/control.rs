//! `relight start`, `stop` and `restart`: what a live supervisor does for a person. Without one
//! only `stop` can be done: the command takes the agent up itself, for as long as that takes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use relight_core::agent::remote_command::RemoteVerb;
use relight_core::agent::{Agent, AgentPlan, AgentState, AgentStateKind, FOREGROUND, Stopper};
use relight_core::error_code::{ErrorCode, with_causes};
use relight_core::ids::AgentName;
use relight_core::time::Span;
use relight_runtime::engine::{ActError, Engine};
use relight_runtime::operations::agent::{SupervisorView, start_with_daemon};
use relight_runtime::os::process;
use relight_runtime::spelling;
use relight_runtime::supervise::control::{
    self, AskError, Changed, ControlReply, Refused, Reloaded, Request, daemon_socket, run_socket,
};
use relight_runtime::supervise::folder::AgentFolder;
use relight_runtime::supervise::heartbeats::Beats;
use relight_runtime::supervise::notices::Notices;
use relight_runtime::supervise::remote_command_sender::{self, RemoteCommandError, RemoteDelivery};
use relight_runtime::supervise::reporters::Reporters;
use relight_runtime::supervise::supervisor::{AcquireMode, Supervisor};
use relight_runtime::supervise::unnoticed_deaths;
use relight_server::client;
use relight_store::AgentQuery;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::operate;
use super::supervision::{self, cannot_use};
use crate::arguments::agent::{ForgetArguments, NamesArguments};
use crate::environment::Environment;
use crate::exit::{Exit, Failure, Outcome};
use crate::work::Work;
use crate::{block_on, block_on_with, output};

/// What a supervisor may take beyond the agent's own grace.
pub(super) const PATIENCE: Span = Span::from_secs(30);
/// A supervisor that lives and does not listen is just starting or ending: how often it is tried
/// again, and after how long.
const ROUNDS_MAX: usize = 20;
const PAUSE: Span = Span::from_ms(100);

pub(crate) fn start(environment: &Environment, arguments: &NamesArguments) -> Outcome {
    for_each(environment, arguments, RemoteVerb::Start)
}

pub(crate) fn stop(environment: &Environment, arguments: &NamesArguments) -> Outcome {
    for_each(environment, arguments, RemoteVerb::Stop)
}

pub(crate) fn restart(environment: &Environment, arguments: &NamesArguments) -> Outcome {
    for_each(environment, arguments, RemoteVerb::Restart)
}

/// Has the daemon read its configuration again.
pub(crate) fn reload(environment: &Environment) -> Outcome {
    let socket = daemon_socket(&environment.state_folder()?);
    let reply = client::ask(&socket, &Request::Reload, PATIENCE);
    let reply = reply.map_err(|error| match error {
        AskError::Nobody(_) => Failure::new(Exit::Unreachable, "no daemon is running")
            .hint("relight up -d starts it with relight.toml as it is now"),
        error => no_answer("the daemon", &error),
    })?;
    let reloaded: Reloaded = answer(reply)?;
    let told = [
        ("added", &reloaded.added, ""),
        (
            "changed",
            &reloaded.changed,
            " (relight restart applies it at once)",
        ),
        ("removed", &reloaded.removed, ""),
    ];
    let told = told.iter().filter(|(_, names, _)| !names.is_empty());
    let parts: Vec<String> = told
        .map(|(what, names, then)| {
            let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
            format!("{what} {}{then}", names.join(", "))
        })
        .collect();
    let what = match parts.is_empty() {
        true => "no agent was added, changed or removed".to_owned(),
        false => parts.join("; "),
    };
    let text = format!("the configuration was read again: {what}");
    output::answer(environment, &reloaded, &text);
    Ok(0)
}

/// One that fails does not keep the others from it; the exit code is that of the last that failed.
fn for_each(environment: &Environment, arguments: &NamesArguments, verb: RemoteVerb) -> Outcome {
    let engine = environment.engine()?;
    let home = environment.store_folder(&engine)?;
    let mut code = 0;
    let names = match arguments.all {
        true => all(&engine, verb)?,
        false => members(&engine, &arguments.names)?,
    };
    for name in names {
        let request = Request::of(name.clone(), verb);
        match change(environment, &engine, &home, &request, &name) {
            Ok(changed) => tell(environment, &changed),
            Err(failure) => {
                output::failure(environment.json, &failure);
                code = failure.exit as u8;
            }
        }
    }
    Ok(code)
}

/// Removes agents from the store. The daemon gives back first what it has of them.
pub(crate) fn forget(environment: &Environment, arguments: &ForgetArguments) -> Outcome {
    let context = operate::context(environment)?;
    let socket = daemon_socket(&context.home);
    let mut code = 0;
    for name in members(&context.engine, &arguments.names)? {
        let request = Request::Unregister {
            agent: name.clone(),
        };
        let forgotten = match client::ask(&socket, &request, PATIENCE) {
            Err(AskError::Nobody(_)) => block_on(context.forget_agent(&name)).map_err(Into::into),
            Err(error) => Err(no_answer(&format!("agent {name}"), &error)),
            Ok(ControlReply::Error(refused)) => Err(refused.into()),
            Ok(ControlReply::Ok(_)) => Ok(()),
        };
        match forgotten {
            Ok(()) if environment.json => output::json_line(&json!({"agent": name})),
            Ok(()) => output::answer(environment, &(), &format!("{name} is removed")),
            Err(failure) => {
                output::failure(environment.json, &failure);
                code = failure.exit as u8;
            }
        }
    }
    Ok(code)
}

/// Those that somebody supervises or that run; for a stop also those that the next daemon would start.
fn all(engine: &Engine, verb: RemoteVerb) -> Result<Vec<AgentName>, Failure> {
    let agents = block_on(engine.store().agents(AgentQuery::default()))?;
    let leases = agents.iter().filter_map(|agent| agent.lease.held.as_ref());
    block_on(engine.holders().look_for(leases))?;
    let is_meant = |agent: &&Agent| {
        let plan = &agent.plan;
        let is_of_daemon = !plan.labels.contains_key(FOREGROUND) && !plan.reports_itself();
        let supervisor = SupervisorView::of(agent, engine.holders());
        supervisor.is_some_and(|supervisor| supervisor.alive)
            || agent.state.kind() == AgentStateKind::Running
            || verb == RemoteVerb::Stop && is_of_daemon
    };
    let meant = agents.iter().filter(is_meant);
    let meant: Vec<AgentName> = meant.map(|agent| agent.name.clone()).collect();
    if meant.is_empty() && verb != RemoteVerb::Stop {
        return Err(
            Failure::new(Exit::Unreachable, "no agent has a supervisor just now")
                .hint("relight up -d starts those of relight.toml"),
        );
    }
    Ok(meant)
}

/// The agents that are meant: a name that only a pool has stands for all its members.
pub(super) fn members(engine: &Engine, names: &[AgentName]) -> Result<Vec<AgentName>, Failure> {
    let agents = block_on(engine.store().agents(AgentQuery::default()))?;
    let mut meant = Vec::new();
    for name in names {
        let of_pool = agents
            .iter()
            .filter(|agent| agent.plan.pool.as_ref() == Some(name));
        let pool: Vec<AgentName> = of_pool.map(|agent| agent.name.clone()).collect();
        let is_agent = agents.iter().any(|agent| agent.name == *name);
        let known = agents.iter().map(|agent| agent.name.as_str());
        if !is_agent
            && pool.is_empty()
            && let Some(near) = spelling::nearest(name.as_str(), known)
        {
            let failure = Failure::from(ActError::NoSuchAgent(name.clone()));
            return Err(failure.hint(format!("did you mean {near}? relight ps lists all")));
        }
        match is_agent || pool.is_empty() {
            true => meant.push(name.clone()),
            false => meant.extend(pool),
        }
    }
    // Named twice, or by its pool too.
    let mut known = BTreeSet::new();
    meant.retain(|name| known.insert(name.clone()));
    Ok(meant)
}

fn tell(environment: &Environment, changed: &Changed) {
    if environment.json {
        output::json_line(changed);
        return;
    }
    let Changed {
        agent,
        previous_state,
        state,
        task_interrupted,
        ..
    } = changed;
    let mut text = format!("{agent}: {previous_state} → {state}");
    if let Some(task) = task_interrupted {
        text += &format!(" (its task {task} is interrupted)");
    }
    output::answer(environment, changed, &text);
}

fn change(
    environment: &Environment,
    engine: &Engine,
    home: &Path,
    request: &Request,
    name: &AgentName,
) -> Result<Changed, Failure> {
    let sockets = [
        run_socket(&AgentFolder::of(home, name)),
        daemon_socket(home),
    ];
    let mut supervisor_pid = 0;
    let mut request = request.clone();
    for _ in 0..ROUNDS_MAX {
        let agent = block_on(engine.store().agent(name))?
            .ok_or_else(|| ActError::NoSuchAgent(name.clone()))?;
        refuse_if_frozen(&agent, engine)?;
        let patience = Span::from_ms(PATIENCE.as_ms().saturating_add(agent.plan.grace.as_ms()));
        match ask_first(&sockets, &request, patience) {
            Err(AskError::Nobody(_)) => {}
            // To stop what is stopped already does no harm.
            Err(AskError::Broken(_)) if matches!(request, Request::Stop { .. }) => {}
            Err(error) => return Err(no_answer(&format!("agent {name}"), &error)),
            // The daemon runs, but this agent is not in its configuration.
            Ok(ControlReply::Error(Refused {
                code: ErrorCode::NOT_FOUND | ErrorCode::NOT_SUPERVISED | ErrorCode::ENDING,
                ..
            })) => {}
            Ok(reply) => return answer(reply),
        }
        let agent = block_on(engine.store().agent(name))?
            .ok_or_else(|| ActError::NoSuchAgent(name.clone()))?;
        block_on(engine.holders().look_for(&agent.lease.held))?;
        let supervisor = SupervisorView::of(&agent, engine.holders());
        let supervisor = supervisor.filter(|supervisor| supervisor.alive);
        match &supervisor {
            None
            | Some(SupervisorView {
                elsewhere: Some(_), ..
            }) => {
                let is_free = supervisor.is_none();
                match ask_node(environment, &request, patience)? {
                    Some(RemoteDelivery::Done(changed)) => return Ok(changed),
                    Some(RemoteDelivery::Left(verb)) => request = Request::of(name.clone(), verb),
                    None => {}
                }
                if is_free {
                    return nobody(environment, agent, &request);
                }
            }
            Some(_) if is_stopped_already(&agent, &request) => return Ok(unchanged(&agent)),
            Some(supervisor) => supervisor_pid = supervisor.pid,
        }
        has_ended(supervisor_pid, PAUSE);
    }
    let text = format!("the supervisor of agent {name} (pid {supervisor_pid}) does not listen");
    Err(Failure::new(Exit::Unreachable, text).hint("try again; relight ps shows it"))
}

/// A supervisor that is stopped answers nobody, however long one waits.
fn refuse_if_frozen(agent: &Agent, engine: &Engine) -> Result<(), Failure> {
    let supervisor = SupervisorView::of(agent, engine.holders());
    let here = supervisor.filter(|supervisor| supervisor.alive && supervisor.elsewhere.is_none());
    let is_frozen = |pid| process::stat(pid).is_some_and(|stat| stat.state == 'T');
    let Some(SupervisorView { pid, .. }) = here.filter(|here| is_frozen(here.pid)) else {
        return Ok(());
    };
    let text = format!(
        "the supervisor of agent {} (pid {pid}) was stopped (SIGSTOP) and cannot answer",
        agent.name
    );
    let replace = match agent.plan.labels.contains_key(FOREGROUND) {
        true => "the same relight run with --take-over",
        false => "relight up -d --take-over",
    };
    Err(Failure::new(Exit::Busy, text).hint(format!(
        "kill -CONT {pid} lets it continue; {replace} replaces it"
    )))
}

/// No daemon is here that could ask the other node: this command does.
fn ask_node(
    environment: &Environment,
    request: &Request,
    patience: Span,
) -> Result<Option<RemoteDelivery>, Failure> {
    let Some((name, verb)) = request.wish() else {
        return Ok(None);
    };
    let engine = environment.long_engine()?;
    let asked = remote_command_sender::ask(engine.holders(), name, verb, patience);
    match block_on_with(&supervision::runtime()?, asked) {
        Ok(asked) => Ok(Some(asked)),
        Err(RemoteCommandError::Store(error)) => Err(error.into()),
        Err(error) => Err(Refused::from(error).into()),
    }
}

/// Asks whoever listens, in this order: those that supervise one agent, then the daemon.
fn ask_first(
    sockets: &[PathBuf],
    request: &Request,
    patience: Span,
) -> Result<ControlReply, AskError> {
    let (last, others) = sockets.split_last().expect("there is a socket");
    for socket in others {
        match control::ask(socket, request, patience) {
            Err(AskError::Nobody(_)) => {}
            answered => return answered,
        }
    }
    client::ask(last, request, patience)
}

fn is_stopped_already(agent: &Agent, request: &Request) -> bool {
    let is_stopped = matches!(
        agent.state,
        AgentState::Stopped {
            by: Stopper::Person
        }
    );
    is_stopped && matches!(request, Request::Stop { .. })
}

fn unchanged(agent: &Agent) -> Changed {
    let state = agent.state.kind();
    Changed::new(agent.name.clone(), state, state, None)
}

fn nobody(environment: &Environment, agent: Agent, request: &Request) -> Result<Changed, Failure> {
    if is_stopped_already(&agent, request) {
        return Ok(unchanged(&agent));
    }
    if agent.plan.reports_itself() {
        return nobody_listens(environment, &agent, request);
    }
    if matches!(request, Request::Stop { .. }) {
        return block_on_with(&supervision::runtime()?, stop_alone(environment, agent));
    }
    let name = &agent.name;
    let failure = Failure::new(
        Exit::Unreachable,
        format!("nobody supervises agent {name} just now"),
    );
    Err(match agent.state.kind() {
        AgentStateKind::Running => failure.hint(format!(
            "{}; relight stop {name} ends it",
            match agent.plan.labels.contains_key(FOREGROUND) {
                true => format!("its command adopts it: {}", agent.command_to_start(None)),
                false => "relight up adopts it".to_owned(),
            }
        )),
        AgentStateKind::Created
        | AgentStateKind::Crashed
        | AgentStateKind::Suspended
        | AgentStateKind::Stopped
        | AgentStateKind::Terminated
            if agent.plan.labels.contains_key(FOREGROUND) =>
        {
            let command = agent.command_to_start(output::here().as_deref());
            failure.hint(format!("its relight run has ended: {command}"))
        }
        AgentStateKind::Created
        | AgentStateKind::Crashed
        | AgentStateKind::Suspended
        | AgentStateKind::Stopped
        | AgentStateKind::Terminated => failure.hint(format!(
            "{} if it is in relight.toml; relight run --name {name} -- CMD if not",
            start_with_daemon(&agent)
        )),
    })
}

/// Of one that reports by itself only the record can be changed, and only a daemon can hear it again.
fn nobody_listens(
    environment: &Environment,
    agent: &Agent,
    request: &Request,
) -> Result<Changed, Failure> {
    let name = &agent.name;
    if !matches!(request, Request::Stop { .. }) {
        let text = format!("agent {name} reports by itself, and nobody listens");
        return Err(Failure::new(Exit::Unreachable, text).hint("relight up listens"));
    }
    let work = Work::find(environment, None)?;
    block_on_with(&supervision::runtime()?, async {
        let recoverer = work.recoverer(environment.long_engine()?);
        let (beats, notices) = (Beats::default(), Notices::channel().0);
        let reporters = Reporters::new(recoverer, beats, notices, AgentPlan::default());
        let stopped = reporters.stop(name).await;
        stopped.map_err(|error| Failure::new(Exit::Busy, error.to_string()))
    })
}

/// Takes up an agent that no supervisor has, stops it, and lets go.
async fn stop_alone(environment: &Environment, agent: Agent) -> Result<Changed, Failure> {
    let engine = environment.long_engine()?;
    let home = environment.store_folder(&engine)?;
    let settings = supervision::settings_for_a_moment(environment, &home)?;
    // A preset that is gone is no reason to let its agents live.
    let preset = supervision::preset(environment, Some(&agent.plan.preset))
        .or_else(|_| supervision::preset(environment, None))?;
    let (name, previous_state) = (agent.name.clone(), agent.state.kind());
    let (mut supervisor, _notices) =
        Supervisor::new(engine, settings).map_err(|error| cannot_use(&home, &error))?;
    let spec = unnoticed_deaths::spec_of(agent, preset);
    supervisor
        .acquire(spec, AcquireMode::HoldBack, false)
        .await?;
    let stopped = supervisor.stop(&name).expect("it was just taken up").await;
    supervisor.leave().await;
    let lost = || {
        Failure::new(
            Exit::Fenced,
            format!("agent {name} has another supervisor now"),
        )
    };
    let stopped = stopped.map_err(|_| lost())?;
    Ok(Changed::new(
        name,
        previous_state,
        stopped.state,
        stopped.task_cancelled,
    ))
}

pub(super) fn answer<A: DeserializeOwned>(reply: ControlReply) -> Result<A, Failure> {
    match reply {
        ControlReply::Ok(value) => serde_json::from_value(value).map_err(|error| {
            Failure::new(
                Exit::Unreachable,
                format!("the supervisor's answer is not known: {error}"),
            )
            .hint("it may be of another version: relight down, then relight up")
        }),
        ControlReply::Error(refused) => Err(refused.into()),
    }
}

pub(super) fn no_answer(of: &str, error: &AskError) -> Failure {
    match error {
        AskError::Nobody(_) | AskError::Broken(_) => {
            Failure::new(Exit::Unreachable, format!("{of}: {}", with_causes(error)))
        }
        AskError::TooSlow(_) => Failure::new(Exit::Busy, format!("{of}: {error}"))
            .hint("what was asked for may still happen; relight ps shows it"),
    }
}

/// Waits for the end of a process that said it would.
pub(super) fn has_ended(pid: u32, patience: Span) -> bool {
    let Some(pid) = pid.try_into().ok().and_then(Pid::from_raw) else {
        return true;
    };
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else {
        return true;
    };
    let limit = Timespec::try_from(patience.as_duration()).ok();
    poll(&mut [PollFd::new(&process, PollFlags::IN)], limit.as_ref()).is_ok_and(|ready| ready > 0)
}
