//! What the daemon lends to its HTTP side.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use relight_core::ids::NodeName;
use relight_core::session::Rules;
use relight_core::shell::shell_word;
use relight_runtime::engine::Engine;
use relight_runtime::fleet::key::FleetKey;
use relight_runtime::project::Project;
use relight_runtime::queue::Queue;
use relight_runtime::recovery::Recoverer;
use relight_runtime::supervise::control_server::ControlCall;
use relight_runtime::supervise::heartbeats::Beats;
use relight_runtime::supervise::reporters::Reporters;
use tokio::sync::mpsc;

/// What the daemon lends to its HTTP side.
#[derive(Clone)]
pub struct Backend {
    /// The store, behind redaction.
    pub engine: Engine,
    /// What claims go through.
    pub queue: Queue,
    /// Who is asked about tasks that failed.
    pub recoverer: Recoverer,
    /// What only the supervisor can do.
    pub calls: mpsc::Sender<ControlCall>,
    /// Where agents that are supervised here are told to live.
    pub beats: Beats,
    /// Where agents that report by themselves are heard.
    pub reporters: Reporters,
    /// What becomes of sessions that were cut off, unless the caller says otherwise.
    pub sessions: Rules,
    /// The folder of the state.
    pub home: PathBuf,
    /// The project whose state it is.
    pub project: Option<Project>,
    /// This machine in a fleet, with the key that it has in common with the others.
    pub node: Option<(NodeName, FleetKey)>,
    /// Nothing was resumed at the start.
    pub held_back: Arc<AtomicBool>,
    /// Whether an agent with a command may be registered over HTTP.
    pub allows_commands: bool,
    /// Where it is told what callers are not: the cause of an error inside.
    pub complain: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Backend {
    /// Opens the dashboard from any folder of this machine.
    pub(crate) fn login_command(&self) -> String {
        let home = self.home.display().to_string();
        let place = match &self.project {
            Some(project) => format!("--project {}", project.name),
            None => format!("--home {}", shell_word(&home)),
        };
        format!("relight {place} dashboard")
    }

    /// The name of this machine in a fleet.
    pub(crate) fn node_name(&self) -> Option<String> {
        self.node.as_ref().map(|(name, _)| name.to_string())
    }
}

impl std::fmt::Debug for Backend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Backend")
            .field("home", &self.home)
            .finish_non_exhaustive()
    }
}
