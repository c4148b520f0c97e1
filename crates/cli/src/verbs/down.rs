//! `relight down`: asks the daemon to end. One that does not answer gets a signal, if it is proved to be
//! the process that holds the daemon's lock.

use std::path::Path;

use relight_core::agent::AgentStateKind;
use relight_core::lease::{Holder, ProcessIdentity};
use relight_core::shell::shell_word;
use relight_core::time::Span;
use relight_runtime::operations::agent::Truth;
use relight_runtime::operations::live_signs::LiveSigns;
use relight_runtime::os::{pidfd, process};
use relight_runtime::supervise::control::{Request, ShutdownSummary, daemon_socket};
use relight_runtime::supervise::daemon_client::{DaemonState, find};
use relight_runtime::supervise::folder::AgentFolder;
use relight_server::client;
use relight_store::AgentQuery;
use rustix::process::Signal;
use serde_json::json;

use super::control::{self, PATIENCE};
use super::{operate, overview, supervision};
use crate::arguments::agent::DownArguments;
use crate::environment::Environment;
use crate::exit::{Exit, Failure, Outcome};
use crate::{block_on, output};

/// A daemon that does not answer a question by then is not asked to end, but signalled.
const ANSWER_MAX: Span = Span::from_secs(10);
/// So many agents are named.
const NAMED_MAX: usize = 5;

pub(crate) fn run(environment: &Environment, arguments: &DownArguments) -> Outcome {
    let home = environment.state_folder()?;
    // Never both: a daemon that is told twice kills its agents without their grace.
    match find(&home, ANSWER_MAX) {
        DaemonState::NotRunning => Err(no_daemon(environment, &home)),
        DaemonState::Silent(process) => end_silent(environment, &home, arguments, &process),
        DaemonState::Answers(status) => {
            let daemon = process::identity(status.pid);
            ask(environment, &home, arguments.keep_agents, daemon.as_ref())
        }
    }
}

fn ask(
    environment: &Environment,
    home: &Path,
    keep_agents: bool,
    daemon: Option<&ProcessIdentity>,
) -> Outcome {
    // Afterwards, nobody answers for a store that is reached through the daemon.
    let patience = longest_grace(environment);
    let store_stays = environment.opens_store()?;
    let reply = client::ask(
        &daemon_socket(home),
        &Request::Down { keep_agents },
        PATIENCE,
    );
    let reply = reply.map_err(|error| control::no_answer("the daemon", &error))?;
    let ending: ShutdownSummary = control::answer(reply)?;
    if let Some(problem) = ending.problem {
        let has_ended = control::has_ended(ending.pid, PATIENCE);
        let how = if has_ended { "has ended" } else { "is ending" };
        let text = format!("the daemon (pid {}) {how}: {problem}", ending.pid);
        return Err(Failure::new(Exit::Io, text)
            .hint("the next relight up adopts the agents that the store knows"));
    }
    if !control::has_ended(ending.pid, patience?) {
        let text = format!("the daemon (pid {}) is still ending", ending.pid);
        return Err(Failure::new(Exit::Busy, text).hint("relight ps shows what is left"));
    }
    let how = if keep_agents {
        "left running"
    } else {
        if store_stays {
            refuse_unrecorded(environment, daemon)?;
        }
        "stopped"
    };
    let text = format!("the daemon has ended; agents {how}: {}", ending.agents);
    let value = json!({
        "pid": ending.pid, "agents": ending.agents, "kept": keep_agents, "answered": true,
    });
    output::answer(environment, &value, &text);
    Ok(0)
}

/// Ends a daemon by SIGTERM, which it takes as a request to stop its agents and end.
fn end_silent(
    environment: &Environment,
    home: &Path,
    arguments: &DownArguments,
    process: &ProcessIdentity,
) -> Outcome {
    let (text, _) = overview::silent(home, process);
    let pid = process.pid;
    let kill = format!(
        "kill -9 {pid} ends it at once; its agents keep running, and relight up -d adopts them"
    );
    if arguments.keep_agents {
        let text = format!("{text}, and a signal would stop its agents");
        return Err(Failure::new(Exit::Busy, text).hint(kill));
    }
    let agents = running_under(environment, process)?.len();
    let patience = longest_grace(environment)?;
    let has_ended = signal(process, patience).map_err(|error| {
        let text = format!("the daemon (process {pid}) cannot be signalled: {error}");
        Failure::new(Exit::Io, text)
    })?;
    if !has_ended {
        let text = format!("{text}; it got SIGTERM, and has not ended within {patience}");
        return Err(Failure::new(Exit::Busy, text).hint(kill));
    }
    let left = orphans(environment, home);
    if !left.is_empty() {
        let text = format!("{text}; SIGTERM ended it, but {}", still_run(&left));
        return Err(Failure::new(Exit::Busy, text).hint(what_to_do_with(&left)));
    }
    let text = format!(
        "the daemon (process {pid}) did not answer, and was ended by SIGTERM; agents stopped: {agents}"
    );
    let value = json!({"pid": pid, "agents": agents, "kept": false, "answered": false});
    output::answer(environment, &value, &text);
    Ok(0)
}

/// Signals this process and no other with its pid. Returns whether it has ended; one that is frozen is
/// continued, because it could not obey.
fn signal(process: &ProcessIdentity, patience: Span) -> std::io::Result<bool> {
    let Some(handle) = pidfd::open_identified(process)? else {
        return Ok(true);
    };
    pidfd::signal(&handle, Signal::TERM)?;
    pidfd::signal(&handle, Signal::CONT)?;
    Ok(pidfd::ends_within(&handle, patience))
}

fn no_daemon(environment: &Environment, home: &Path) -> Failure {
    let left = orphans(environment, home);
    if left.is_empty() {
        return Failure::new(Exit::Unreachable, "no daemon runs here")
            .hint("relight ps shows what does; Ctrl-C ends a relight run");
    }
    let text = format!("no daemon runs here, but {}", still_run(&left));
    Failure::new(Exit::Unreachable, text).hint(what_to_do_with(&left))
}

/// Agents that live without a supervisor. A store that cannot be read hides them, but not the answer.
fn orphans(environment: &Environment, home: &Path) -> Vec<String> {
    // No agent ever ran here, and perhaps there is no store.
    if AgentFolder::all(home).unwrap_or_default().is_empty() {
        return Vec::new();
    }
    let Ok(context) = operate::context(environment) else {
        return Vec::new();
    };
    let mut signs = LiveSigns::default();
    let listed = block_on(context.list_agents(AgentQuery::default(), &mut signs, None));
    let agents = listed.map(|list| list.items).unwrap_or_default();
    let orphans = agents
        .into_iter()
        .filter(|agent| agent.truth == Truth::Orphaned);
    orphans.map(|agent| agent.name).collect()
}

fn still_run(left: &[String]) -> String {
    let count = match left.len() {
        1 => "1 agent still runs".to_owned(),
        count => format!("{count} agents still run"),
    };
    let more = if left.len() > NAMED_MAX { ", …" } else { "" };
    let named = left[..left.len().min(NAMED_MAX)].join(", ");
    format!("{count} without a supervisor ({named}{more})")
}

fn what_to_do_with(left: &[String]) -> String {
    let (them, their) = match left.len() {
        1 => ("it", "its"),
        _ => ("them", "their"),
    };
    let words: Vec<String> = left.iter().map(|name| shell_word(name)).collect();
    let stop = match left.len() > NAMED_MAX {
        true => "relight stop NAME ends one, relight ps shows all".to_owned(),
        false => format!("relight stop {} ends {them}", words.join(" ")),
    };
    format!("{stop}; relight up -d, or {their} relight run, adopts {them}")
}

/// A daemon that records the end of its agents gives up their leases.
fn refuse_unrecorded(
    environment: &Environment,
    daemon: Option<&ProcessIdentity>,
) -> Result<(), Failure> {
    let Some(daemon) = daemon else { return Ok(()) };
    let names = running_under(environment, daemon)?;
    match names.is_empty() {
        true => Ok(()),
        false => Err(supervision::stopped_unrecorded(&format!(
            "the store says that these still run: {}",
            names.join(", ")
        ))),
    }
}

/// The agents that run under this supervisor, as the store knows it. One that reports itself is heard by the
/// daemon, and goes on without it.
fn running_under(
    environment: &Environment,
    process: &ProcessIdentity,
) -> Result<Vec<String>, Failure> {
    let engine = environment.engine()?;
    let agents = block_on(engine.store().agents(AgentQuery::default()))?;
    let is_under = |holder: &Holder| match holder {
        Holder::Process(holder) => holder.pid == process.pid && holder.start == process.start,
        Holder::Attempt { .. } | Holder::Time { .. } => false,
    };
    let running = agents.into_iter().filter(|agent| {
        let held = agent.lease.held.as_ref();
        agent.state.kind() == AgentStateKind::Running
            && !agent.plan.reports_itself()
            && held.is_some_and(|held| is_under(&held.holder))
    });
    Ok(running.map(|agent| agent.name.to_string()).collect())
}

/// The daemon stops its agents at the same time, each with its own grace.
fn longest_grace(environment: &Environment) -> Result<Span, Failure> {
    let engine = environment.engine()?;
    let agents = block_on(engine.store().agents(AgentQuery::default()))?;
    let longest = agents
        .iter()
        .map(|agent| agent.plan.grace)
        .max()
        .unwrap_or_default();
    Ok(Span::from_ms(
        longest.as_ms().saturating_add(PATIENCE.as_ms()),
    ))
}
