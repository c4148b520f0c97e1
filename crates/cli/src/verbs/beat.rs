//! `relight beat`: a sign of life, from inside an agent or for one by name. Called all the time, so it
//! opens no store: one datagram, and gone. An agent that reports by itself has nobody who reads those: the
//! daemon is asked, and its answer says what the agent has to do.

use std::io;

use relight_core::ids::AgentName;
use relight_core::time::Span;
use relight_runtime::engine::ActError;
use relight_runtime::os::clock;
use relight_runtime::supervise::control::AskError;
use relight_runtime::supervise::daemon_client;
use relight_runtime::supervise::folder::AgentFolder;
use relight_runtime::supervise::notify::{self, NotifySign};
use serde_json::json;

use super::control::no_answer;
use crate::arguments::agent::BeatArguments;
use crate::environment::Environment;
use crate::exit::{Exit, Failure, Outcome};
use crate::{block_on, output};

/// What the daemon may take.
const PATIENCE: Span = Span::from_secs(10);

pub(crate) fn run(environment: &Environment, arguments: &BeatArguments) -> Outcome {
    if let Some(name) = &arguments.name
        && !AgentFolder::of(&environment.state_folder()?, name)
            .path()
            .exists()
    {
        return report(environment, name, arguments);
    }
    let addresses = addresses(environment, arguments.name.as_ref())?;
    let address = send(addresses, &signs(arguments))?;
    if environment.json {
        output::json(&json!({"sent": true, "address": address}));
    }
    Ok(0)
}

/// Tells the daemon that an agent lives which reports by itself.
fn report(environment: &Environment, name: &AgentName, arguments: &BeatArguments) -> Outcome {
    let until = arguments
        .waiting_until
        .and_then(|until| until.after(clock::now()).ok());
    let body = json!({
        "waiting_until": until, "status": arguments.status, "attempt": arguments.attempt,
        "task": arguments.task,
    });
    let home = environment.state_folder()?;
    let answered = match daemon_client::heartbeat(&home, name, &body, PATIENCE) {
        Ok(answered) if answered.status != 404 => answered,
        Ok(_) => return Err(unknown(environment, name)?),
        Err(AskError::Nobody(_)) => return Err(no_daemon(environment, name)?),
        Err(error) => return Err(no_answer(&format!("agent {name}"), &error)),
    };
    if let Some(refused) = answered.refusal() {
        return Err(refused.into());
    }
    let action = answered.body["action"].as_str().unwrap_or_default();
    if environment.json {
        output::json(&answered.body);
    } else if let Some(why) = answered.body["why"].as_str() {
        output::line(&format!("{action}: {why}"));
    }
    Ok(match action {
        "stop" | "restart" | "cancel" => Exit::Fenced as u8,
        "wait" => Exit::Busy as u8,
        _ => 0,
    })
}

/// Only now the store is asked whether the agent would report to the daemon.
fn no_daemon(environment: &Environment, name: &AgentName) -> Result<Failure, Failure> {
    let known = block_on(environment.engine()?.store().agent(name))?;
    if known.is_none_or(|agent| !agent.plan.reports_itself()) {
        return unknown(environment, name);
    }
    let text = format!("agent {name} reports to the daemon, and no daemon runs here");
    Ok(Failure::new(Exit::Unreachable, text).hint("relight up starts it; try again then"))
}

/// No store is asked: of a fleet this machine knows its own agents alone.
fn unknown(environment: &Environment, name: &AgentName) -> Result<Failure, Failure> {
    let failure = Failure::from(ActError::NoSuchAgent(name.clone()));
    Ok(match environment.node()? {
        Some(node) => failure.hint(format!(
            "none on node {}; an agent of another node beats on that machine",
            node.name
        )),
        None => failure,
    })
}

fn signs(arguments: &BeatArguments) -> Vec<NotifySign> {
    let mut signs = vec![NotifySign::Alive];
    signs.extend(
        arguments
            .waiting_until
            .and_then(|until| until.after(clock::now()).ok())
            .map(NotifySign::WaitingUntil),
    );
    signs.extend(arguments.status.clone().map(NotifySign::Status));
    signs
}

/// To the first at which somebody listens; says which. When nobody does, the likeliest is told.
fn send(addresses: Vec<String>, signs: &[NotifySign]) -> Result<String, Failure> {
    let mut first = None;
    for address in addresses {
        match notify::send(&address, signs) {
            Ok(()) => return Ok(address),
            Err(error) if is_nobody(&error) => {
                first.get_or_insert_with(|| failure(&address, &error));
            }
            Err(error) => return Err(failure(&address, &error)),
        }
    }
    Err(first.expect("there is at least one address"))
}

fn is_nobody(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
    )
}

fn addresses(environment: &Environment, name: Option<&AgentName>) -> Result<Vec<String>, Failure> {
    if let Some(name) = name {
        let folder = AgentFolder::of(&environment.state_folder()?, name);
        return Ok(notify::addresses(&folder));
    }
    let found = environment.get("NOTIFY_SOCKET").map(str::to_owned);
    found.map(|address| vec![address]).ok_or_else(|| {
        Failure::new(
            Exit::Usage,
            "no agent is named, and NOTIFY_SOCKET is not set",
        )
        .hint("relight beat NAME, or call it inside an agent under relight run or up")
    })
}

fn failure(address: &str, error: &io::Error) -> Failure {
    use io::ErrorKind::{InvalidInput, TimedOut, WouldBlock};
    match error.kind() {
        _ if is_nobody(error) => Failure::new(
            Exit::Busy,
            format!("nobody listens for signs of life at {address}"),
        )
        .hint("relight ps says who supervises what; relight up or run adopts it"),
        WouldBlock | TimedOut => Failure::new(
            Exit::Busy,
            format!("whoever listens at {address} does not read"),
        )
        .hint("try again"),
        InvalidInput => Failure::new(Exit::Usage, format!("{address} is not an address: {error}"))
            .hint("beat from inside the agent, by NOTIFY_SOCKET"),
        _ => Failure::new(Exit::Io, format!("cannot beat at {address}: {error}")),
    }
}
