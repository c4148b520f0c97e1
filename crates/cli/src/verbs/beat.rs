//! `relight beat`: a sign of life, from inside an agent or for one by name. Called all the time, so it
//! opens no store: one datagram, and gone.

use std::io;

use relight::os::clock;
use relight::supervise::folder::AgentFolder;
use relight::supervise::notify::{self, NotifySign};
use relight_core::ids::AgentName;
use serde_json::json;

use super::ps::no_such_agent;
use crate::arguments::agent::BeatArguments;
use crate::environment::Environment;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;

pub(crate) fn run(environment: &Environment, arguments: &BeatArguments) -> Outcome {
    let addresses = addresses(environment, arguments.name.as_ref())?;
    let address = send(addresses, &signs(arguments))?;
    if environment.json {
        output::json(&json!({"sent": true, "address": address}));
    }
    Ok(0)
}

fn signs(arguments: &BeatArguments) -> Vec<NotifySign> {
    let mut signs = vec![NotifySign::Alive];
    signs.extend(
        arguments.waiting_until.map(|until| NotifySign::WaitingUntil(until.from(clock::now()))),
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
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

fn addresses(environment: &Environment, name: Option<&AgentName>) -> Result<Vec<String>, Failure> {
    if let Some(name) = name {
        let folder = AgentFolder::of(&environment.state_folder()?, name);
        if !folder.path().exists() {
            let failure = no_such_agent(name);
            // No store is asked: of a fleet this machine knows its own agents alone.
            return Err(match environment.node()? {
                Some(node) => failure.hint(format!(
                    "none on node {}; an agent of another node beats on that machine",
                    node.name
                )),
                None => failure,
            });
        }
        return Ok(notify::addresses(&folder));
    }
    let found = environment.get("NOTIFY_SOCKET").map(str::to_owned);
    found.map(|address| vec![address]).ok_or_else(|| {
        Failure::new(Exit::Usage, "no agent is named, and NOTIFY_SOCKET is not set")
            .hint("relight beat NAME, or call it inside an agent under relight run or up")
    })
}

fn failure(address: &str, error: &io::Error) -> Failure {
    use io::ErrorKind::{InvalidInput, TimedOut, WouldBlock};
    match error.kind() {
        _ if is_nobody(error) => {
            Failure::new(Exit::Busy, format!("nobody listens for signs of life at {address}"))
                .hint("relight ps says who supervises what; relight up or run adopts it")
        }
        WouldBlock | TimedOut => {
            Failure::new(Exit::Busy, format!("whoever listens at {address} does not read"))
                .hint("try again")
        }
        InvalidInput => Failure::new(Exit::Usage, format!("{address} is no address: {error}"))
            .hint("beat from inside the agent, by NOTIFY_SOCKET"),
        _ => Failure::new(Exit::Io, format!("cannot beat at {address}: {error}")),
    }
}
