//! The built-in strategies.

use super::{Decision, HolderDeath, RecoveryContext};
use crate::status::TaskStatus;
use crate::task::{STRATEGY_DEFAULT, Task};

/// A built-in strategy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Builtin {
    /// It fails, and any suitable agent may take it while retries are left.
    FailAndReassign,
    /// The same agent resumes.
    Resume,
    /// A person decides.
    Suspend,
}

impl Builtin {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::FailAndReassign, Self::Resume, Self::Suspend];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FailAndReassign => STRATEGY_DEFAULT,
            Self::Resume => "resume",
            Self::Suspend => "suspend",
        }
    }

    /// The strategy with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|builtin| builtin.as_str() == name)
    }

    /// The decision and its reason.
    pub fn recover(
        self,
        task: &Task,
        death: &HolderDeath,
        context: &RecoveryContext,
    ) -> (Decision, String) {
        match self {
            Self::FailAndReassign if is_kept(task, death) => {
                Self::Resume.recover(task, death, context)
            }
            Self::FailAndReassign => reassign("its holder is not trusted with it again"),
            Self::Suspend => (Decision::Suspend, "a person is to decide".to_owned()),
            Self::Resume if context.damaged => {
                let reason = "what was recorded of its steps cannot be read".to_owned();
                (
                    Decision::Reassign {
                        keep_progress: false,
                    },
                    reason,
                )
            }
            Self::Resume if death.agent_gone => give_or_park(task, "its agent does not come back"),
            Self::Resume if context.recoveries >= context.max_attempts => {
                give_or_park(task, "its agent was tried often enough")
            }
            Self::Resume => (
                Decision::Resume,
                "the same agent goes on with it".to_owned(),
            ),
        }
    }
}

/// Whether the default keeps a task for its agent. A task that belongs to an agent is not offered
/// to others: after a reported failure the agent gets the retries itself. A task without an agent
/// was started by name and not claimed, so the same script can start it again.
fn is_kept(task: &Task, death: &HolderDeath) -> bool {
    let is_default = task.spec.strategy.is_none();
    is_default
        && match death.is_told {
            true => {
                let is_worked_on = task.status.can_become(TaskStatus::Interrupted);
                task.pinned && is_worked_on && task.retries < task.max_retries()
            }
            false => task.pinned || task.agent.is_none(),
        }
}

/// A task that belongs to its agent waits for a person; others are offered to any suitable agent.
fn give_or_park(task: &Task, why: &str) -> (Decision, String) {
    match task.pinned {
        true => (
            Decision::Suspend,
            format!("{why}, and the task belongs to it"),
        ),
        false => reassign(why),
    }
}

fn reassign(why: &str) -> (Decision, String) {
    (
        Decision::Reassign {
            keep_progress: true,
        },
        why.to_owned(),
    )
}
