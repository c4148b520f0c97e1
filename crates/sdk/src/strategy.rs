//! Recovery strategies that are written in another language.

use std::fmt;
use std::sync::Arc;

use relight_core::recovery::{HolderDeath, RecoveryContext};
use relight_core::task::Task;
use relight_runtime::os::clock;
use relight_runtime::recovery::{exec_case, read_exec_answer};
use relight_runtime::{RecoveryAnswer, RecoveryStrategy, StrategyError};

/// Decides what becomes of a task whose holder died or that failed. Called on a thread of its own, with the
/// JSON that a command of `[recovery] exec` gets on standard input; answers what such a command prints.
pub trait StrategyCallback: Send + Sync + fmt::Debug {
    /// The decision as JSON: `{"decision": "resume|reassign|suspend|defer|give_up", …}`.
    fn decide(&self, failure: &str) -> Result<String, String>;
}

#[derive(Debug)]
pub(crate) struct Callback(pub(crate) Arc<dyn StrategyCallback>);

impl RecoveryStrategy for Callback {
    fn recover(
        &self,
        task: &Task,
        death: &HolderDeath,
        context: &RecoveryContext,
    ) -> Result<RecoveryAnswer, StrategyError> {
        let failure = exec_case(task, death, context).to_string();
        let answer = self.0.decide(&failure)?;
        Ok(read_exec_answer(&answer, clock::now())?)
    }
}
