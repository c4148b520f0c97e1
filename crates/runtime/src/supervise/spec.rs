//! What a supervisor needs to know about an agent, besides the store's record.

use std::sync::Arc;

use relight_core::agent::AgentPlan;
use relight_core::agent::silence::SignSource;
use relight_core::ids::AgentName;
use relight_core::node::Placement;

use super::log::LogLimits;
use super::shim::wire::Input;
use crate::os::word::Word;
use crate::presets::Preset;
use crate::presets::Rung;

/// The specification of an agent. Contains secrets (the environment), so it is never stored.
#[derive(Debug, Clone)]
pub struct AgentSpec {
    /// Its name.
    pub name: AgentName,
    /// Its plan, which is stored.
    pub plan: AgentPlan,
    /// Program and arguments, before the preset adds its own.
    pub command: Vec<Word>,
    /// Its environment, before Relight adds its own.
    pub environment: Vec<(Word, Word)>,
    /// How this kind of agent is started, resumed, read and stopped.
    pub preset: Arc<Preset>,
    /// What is added to the command of a resumed attempt instead of the preset's arguments.
    pub resume_args: Option<Vec<Word>>,
    /// Its standard input.
    pub input: Input,
    /// The user to run as: uid and gid.
    pub user: Option<(u32, u32)>,
    /// A loop's condition: it is over when this command ends with 0.
    pub until: Option<Vec<Word>>,
    /// What counts as a sign of life.
    pub signs: Vec<SignSource>,
    /// Its stop sequence, if not the preset's.
    pub ladder: Option<Vec<Rung>>,
    /// The strategy for tasks without one when it dies; the default when none.
    pub strategy: Option<String>,
    /// On which nodes of a fleet it may run.
    pub placement: Placement,
    /// Limits of its log.
    pub log_limits: LogLimits,
}

impl AgentSpec {
    /// Whether its command is known; otherwise it is only supervised until it ends.
    pub fn can_start(&self) -> bool {
        !self.command.is_empty()
    }

    /// Whether an attempt by it may run differently than by the other.
    pub fn differs_from(&self, other: &Self) -> bool {
        self.plan != other.plan
            || self.command != other.command
            || self.environment != other.environment
            || self.resume_args != other.resume_args
            || (self.user, &self.signs, &self.ladder) != (other.user, &other.signs, &other.ladder)
            || (&self.strategy, &self.placement) != (&other.strategy, &other.placement)
    }
}
