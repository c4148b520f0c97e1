//! `relight presets`.

use crate::arguments::agent::PresetsCommand;
use crate::environment::Environment;
use crate::exit::{Exit, Failure, Outcome};

pub(crate) fn run(_environment: &Environment, _command: &PresetsCommand) -> Outcome {
    Err(Failure::new(Exit::Usage, "not built yet"))
}
