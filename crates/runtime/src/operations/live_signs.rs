//! What only a live supervisor knows of its agents: this process itself, else one that is asked.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use relight_core::agent::Attempt;
use relight_core::ids::AgentName;
use relight_core::time::Span;

use crate::boxed::boxed;
use crate::supervise::control::{
    self, AgentSigns, ControlReply, Request, SupervisorStatus, run_socket,
};
use crate::supervise::daemon_client;
use crate::supervise::folder::AgentFolder;
use crate::supervise::heartbeats::Beats;

/// A supervisor that does not answer at once has its agents shown without signs of life.
const WAIT_MAX: Span = Span::from_ms(500);

/// Where signs of life are found. Each supervisor is asked once.
#[derive(Debug, Default)]
pub struct LiveSigns {
    own: Option<Beats>,
    asked: HashMap<u32, Option<SupervisorAnswer>>,
}

/// What a supervisor answered.
#[derive(Debug)]
struct SupervisorAnswer {
    kind: &'static str,
    signs: HashMap<AgentName, AgentSigns>,
}

/// What its supervisor knows of an agent.
#[derive(Debug, Clone, Default)]
pub(super) struct Live {
    /// `run` or `up`.
    pub(super) kind: Option<&'static str>,
    pub(super) signs: Option<AgentSigns>,
    /// The last attempt that ended, where it is known without a look at the store.
    pub(super) last_attempt: Option<Option<Attempt>>,
}

impl LiveSigns {
    /// For the daemon, which supervises agents itself.
    pub fn of_daemon(beats: Beats) -> Self {
        Self {
            own: Some(beats),
            asked: HashMap::new(),
        }
    }

    /// What the supervisor with this pid, on this machine, knows of an agent.
    pub(super) async fn of(&mut self, home: &Path, agent: &AgentName, pid: u32) -> Live {
        if let Some(own) = self.own.as_ref().filter(|_| pid == std::process::id()) {
            let view = own.view(agent);
            let last_attempt = view.as_ref().map(|view| view.last_attempt.clone());
            return Live {
                kind: Some("up"),
                signs: view.and_then(AgentSigns::of),
                last_attempt,
            };
        }
        if !self.asked.contains_key(&pid) {
            let (home, agent, asks_daemon) = (home.to_owned(), agent.clone(), self.own.is_none());
            let ask = move || ask(&home, &agent, pid, asks_daemon);
            self.asked.insert(
                pid,
                tokio::task::spawn_blocking(ask).await.unwrap_or_default(),
            );
        }
        let Some(Some(answer)) = self.asked.get_mut(&pid) else {
            return Live::default();
        };
        let signs = answer.signs.remove(agent);
        Live {
            kind: Some(answer.kind),
            signs,
            last_attempt: None,
        }
    }

    /// Whether an agent waits for work in a verb and does nothing else.
    #[boxed]
    pub async fn waits_for_work(&mut self, home: &Path, agent: &AgentName, pid: u32) -> bool {
        self.of(home, agent, pid)
            .await
            .signs
            .is_some_and(|signs| signs.waits_for_work)
    }

    /// Whether the daemon of this home runs. It starts only agents that it supervises.
    pub(super) async fn is_daemon_up(&self, home: &Path) -> bool {
        let home: PathBuf = home.to_owned();
        let ask = move || daemon_client::status(&home, WAIT_MAX).is_some();
        self.own.is_some() || tokio::task::spawn_blocking(ask).await.unwrap_or_default()
    }
}

/// Asks where a `relight run` of this agent would listen, then where the daemon does.
fn ask(home: &Path, agent: &AgentName, pid: u32, asks_daemon: bool) -> Option<SupervisorAnswer> {
    let socket = run_socket(&AgentFolder::of(home, agent));
    let run = match control::ask(&socket, &Request::Status, WAIT_MAX) {
        Ok(ControlReply::Ok(value)) => serde_json::from_value::<SupervisorStatus>(value).ok(),
        _ => None,
    };
    let is_it = |status: &SupervisorStatus| status.pid == pid;
    let (kind, status) = match run.filter(is_it) {
        Some(status) => ("run", status),
        None if asks_daemon => ("up", daemon_client::status(home, WAIT_MAX).filter(is_it)?),
        None => return None,
    };
    let signs = status
        .agents
        .into_iter()
        .map(|signs| (signs.agent.clone(), signs));
    Some(SupervisorAnswer {
        kind,
        signs: signs.collect(),
    })
}
