//! What a strategy is: asked once for each task that lost its holder.

use relight_core::recovery::{Decision, HolderDeath, RecoveryContext};
use relight_core::task::Task;

/// Why a strategy has no answer. The default's stands then, and this is recorded beside it.
pub type StrategyError = Box<dyn std::error::Error + Send + Sync>;

/// A rule of the user's own for what becomes of a task whose holder died, or that failed.
///
/// Asked on a thread of its own, bounded in time: it may block. Whatever it answers, the limits of the
/// task hold. It may be asked twice about one death when Relight itself is killed in between, so it
/// must not act by itself.
pub trait RecoveryStrategy: Send + Sync {
    /// What is to become of the task.
    fn recover(
        &self,
        task: &Task,
        death: &HolderDeath,
        context: &RecoveryContext,
    ) -> Result<RecoveryAnswer, StrategyError>;
}

/// A decision, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoveryAnswer {
    /// What is to become of the task.
    pub decision: Decision,
    /// Why, for people.
    pub reason: Option<String>,
}

impl RecoveryAnswer {
    /// With the reason that is recorded beside it.
    #[must_use]
    pub fn because(self, reason: impl Into<String>) -> Self {
        Self {
            reason: Some(reason.into()),
            ..self
        }
    }
}

impl From<Decision> for RecoveryAnswer {
    fn from(decision: Decision) -> Self {
        Self {
            decision,
            reason: None,
        }
    }
}
