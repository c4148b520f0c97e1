//! `relight beat`: a sign of life, from inside an agent or for one by name. Called all the time, so it
//! opens no store: one datagram, and gone.

use std::io;

use relight::doors::clock;
use relight::supervise::folder::AgentFolder;
use relight::supervise::notify::{self, Sign};
use relight_core::ids::AgentName;
use serde_json::json;

use super::ps::no_such_agent;
use crate::arguments::agent::BeatArguments;
use crate::environment::Environment;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;

pub(crate) fn run(environment: &Environment, arguments: &BeatArguments) -> Outcome {
    let address = address(environment, arguments.name.as_ref())?;
    notify::send(&address, &signs(arguments)).map_err(|error| failure(&address, &error))?;
    if environment.json {
        output::json(&json!({"sent": true, "address": address}));
    }
    Ok(0)
}

fn signs(arguments: &BeatArguments) -> Vec<Sign> {
    let mut signs = vec![Sign::Alive];
    signs.extend(arguments.waiting_until.map(|until| Sign::WaitingUntil(until.from(clock::now()))));
    signs.extend(arguments.status.clone().map(Sign::Status));
    signs
}

fn address(environment: &Environment, name: Option<&AgentName>) -> Result<String, Failure> {
    let Some(name) = name else {
        let found = environment.get("NOTIFY_SOCKET").map(str::to_owned);
        return found.ok_or_else(|| {
            Failure::new(Exit::Usage, "no agent is named, and NOTIFY_SOCKET is not set")
                .hint("relight beat NAME, or call it inside an agent under relight run or up")
        });
    };
    let folder = AgentFolder::of(&environment.state_folder()?, name);
    if !folder.path().exists() {
        return Err(no_such_agent(name));
    }
    let path = folder.notify_socket();
    let path = std::path::absolute(&path).unwrap_or(path);
    path.into_os_string().into_string().map_err(|path| {
        let text = format!("the path {} is no text", path.to_string_lossy());
        Failure::new(Exit::Usage, text).hint("beat from inside the agent, by NOTIFY_SOCKET")
    })
}

fn failure(address: &str, error: &io::Error) -> Failure {
    use io::ErrorKind::{ConnectionRefused, InvalidInput, NotFound, TimedOut, WouldBlock};
    match error.kind() {
        NotFound | ConnectionRefused => {
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
