//! `relight checkpoint`.

use crate::arguments::checkpoint::CheckpointCommand;
use crate::environment::Environment;
use crate::exit::{Exit, Failure, Outcome};

#[expect(clippy::needless_pass_by_value, reason = "built soon")]
pub(crate) fn run(_environment: &Environment, _command: CheckpointCommand) -> Outcome {
    Err(Failure::new(Exit::Bug, "not built yet"))
}
