//! `relight setup`.

use crate::arguments::other::SetupCommand;
use crate::environment::Environment;
use crate::exit::{Exit, Failure, Outcome};

pub(crate) fn run(_environment: &Environment, _arguments: &SetupCommand) -> Outcome {
    Err(Failure::new(Exit::Bug, "not built yet"))
}
