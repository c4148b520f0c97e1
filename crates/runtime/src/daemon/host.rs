//! What a daemon needs of the program around it.

use relight_core::agent::AgentPlan;
use relight_core::ids::AgentName;
use relight_core::recovery::TaskPolicy;
use tokio::sync::oneshot;

use crate::engine::Engine;
use crate::presets::Preset;
use crate::recovery::Strategies;
use crate::supervise::control::{AgentRegistration, ControlReply, Refused};
use crate::supervise::notices::Notice;
use crate::supervise::spec::AgentSpec;
use crate::supervise::supervisor::QueueSettings;

/// A configuration as the daemon applies it.
#[derive(Debug)]
pub struct Configuration {
    /// Its agents, and those that were registered.
    pub specs: Vec<AgentSpec>,
    /// How tasks are given out.
    pub queue: QueueSettings,
    /// What happens to tasks whose holder died.
    pub strategies: Strategies,
    /// Limits of tasks.
    pub policy: TaskPolicy,
}

/// The program around a daemon: it has the configuration, and shows what the daemon reports.
pub trait Host {
    /// Shows a line.
    fn say(&self, text: &str);
    /// Shows an alert.
    fn alert(&self, text: &str);
    /// Shows what happened to an agent.
    fn notice(&self, notice: &Notice);
    /// The agents are taken up; the warnings name those that cannot be started.
    fn is_up(&self, warnings: &[String]);
    /// Reads the configuration again. One that is wrong changes nothing; the error says why.
    fn reload(&mut self, engine: &Engine) -> impl Future<Output = Result<Configuration, Refused>>;
    /// The preset of this name; the generic one when there is none.
    fn preset(&self, name: &str) -> Preset;
    /// Whether agents may be registered with a command.
    fn allows_commands(&self) -> bool;
    /// The plan of a registered agent.
    fn plan(&self, new: AgentRegistration) -> AgentPlan;
    /// The specification of a registered agent.
    fn registered_spec(&self, name: AgentName, plan: AgentPlan) -> Result<AgentSpec, Refused>;
    /// Recovers what died with its supervisor, beside the daemon.
    fn recover(&self, engine: Engine, dry_run: bool, reply: oneshot::Sender<ControlReply>);
}
