//! All that a supervisor needs to know of an agent, beside what the store remembers.

use std::sync::Arc;

use relight_core::agent::AgentPlan;
use relight_core::agent::silence::SignSource;
use relight_core::ids::AgentName;
use relight_core::node::Placement;

use super::log::LogLimits;
use super::os_word::Word;
use super::shim::wire::{Input, Rung};
use crate::presets::Preset;

/// One agent as it was asked for. Holds secrets (the environment); never written down.
#[derive(Debug, Clone)]
pub struct AgentSpec {
    /// Its name.
    pub name: AgentName,
    /// What decisions stand on; kept in the store.
    pub plan: AgentPlan,
    /// Program and arguments, before the preset adds its own.
    pub command: Vec<Word>,
    /// Its environment, before Relight adds its own.
    pub environment: Vec<(Word, Word)>,
    /// How this kind of agent is started, resumed, read and stopped.
    pub preset: Arc<Preset>,
    /// What is added to the command of a resumed attempt instead of the preset's arguments.
    pub resume_args: Option<Vec<Word>>,
    /// What it reads.
    pub input: Input,
    /// The user to run as: uid and gid.
    pub user: Option<(u32, u32)>,
    /// A loop's condition: it is over when this command ends with 0.
    pub until: Option<Vec<Word>>,
    /// What counts as a sign of life.
    pub signs: Vec<SignSource>,
    /// How it is told to end, where it is not as the preset says.
    pub ladder: Option<Vec<Rung>>,
    /// What becomes of tasks that name no strategy when it dies; the default when none.
    pub strategy: Option<String>,
    /// On which nodes of a fleet it may run.
    pub placement: Placement,
    /// How much of its output is kept.
    pub log_limits: LogLimits,
}
