//! `relight logs` for what is on another node: read there, or as far as the store has it.

use relight_core::agent::Agent;
use relight_core::agent::plain::plain_line;
use relight_core::ids::{AgentName, NodeName};
use relight_core::time::Span;
use relight_runtime::fleet::far_log::{self, FarLog};
use relight_runtime::supervise::control::daemon_socket;
use relight_server::client;

use crate::arguments::agent::LogsArguments;
use crate::block_on_with;
use crate::environment::Environment;
use crate::exit::{Exit, Failure};
use crate::verbs::supervision;

/// What the daemon may take, beyond what it waits for the other node.
const PATIENCE: Span = Span::from_secs(15);
/// Most lines that another node gives.
const LINES_MAX: usize = 5_000;

/// The lines, redacted, and where they are from.
pub(super) struct FarLines {
    pub(super) lines: Vec<String>,
    pub(super) node: NodeName,
    /// Where they are from, and why there are no more.
    pub(super) note: String,
}

pub(super) fn read(
    environment: &Environment,
    arguments: &LogsArguments,
    agent: &Agent,
    node: &NodeName,
) -> Result<FarLines, Failure> {
    let name = &agent.name;
    if arguments.follow {
        let text = format!("agent {name} writes on node {node}, and is followed there alone");
        return Err(Failure::new(Exit::No, text).hint(format!(
            "relight logs {name} -f on that machine; without -f it works here too"
        )));
    }
    if let Some(number) = arguments.attempt {
        let text = format!("the output of attempt {number} of agent {name} is on node {node}");
        return Err(Failure::new(Exit::No, text).hint(format!(
            "relight deaths {name} --attempt {number} shows its end; the rest is on that machine"
        )));
    }
    let engine = environment.long_engine()?;
    let wanted = arguments.last().unwrap_or(LINES_MAX).min(LINES_MAX);
    let far = match through_daemon(environment, name, wanted.max(1)) {
        Some(far) => far,
        None => {
            let read = far_log::read(engine.store().as_ref(), agent, node, wanted.max(1));
            block_on_with(&supervision::runtime()?, read)?
        }
    };
    // Cleaned before it is redacted: what a terminal obeys may stand in the middle of a secret.
    let plain: Vec<String> = far.lines.iter().map(|line| plain_line(line)).collect();
    let text = engine.redactor().text(&plain.join("\n")).into_owned();
    let lines = text.split('\n').filter(|_| !plain.is_empty());
    let lines = lines.skip(plain.len().saturating_sub(wanted));
    Ok(FarLines {
        lines: lines.map(str::to_owned).collect(),
        note: said(arguments, &far),
        node: far.node,
    })
}

/// What the daemon of this node says; none without one. Inside an agent nobody else can ask: the key of
/// the fleet is not for agents.
fn through_daemon(environment: &Environment, name: &AgentName, lines: usize) -> Option<FarLog> {
    let socket = daemon_socket(&environment.state_folder().ok()?);
    let path = far_log::path(name, lines);
    let answered = client::send(&socket, "GET", &path, None, PATIENCE).ok()?;
    let is_done = answered.status == 200;
    is_done
        .then(|| serde_json::from_value(answered.body).ok())
        .flatten()
}

fn said(arguments: &LogsArguments, far: &FarLog) -> String {
    let wants_more = arguments.last().is_none_or(|lines| lines > LINES_MAX);
    match &far.note {
        Some(note) => note.clone(),
        None if wants_more && far.truncated => {
            format!(
                "from node {}, which gives the last {LINES_MAX} lines",
                far.node
            )
        }
        None => format!("from node {}", far.node),
    }
}
