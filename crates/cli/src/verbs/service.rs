//! `relight service`.

use crate::arguments::other::ServiceCommand;
use crate::environment::Environment;
use crate::exit::{Exit, Failure, Outcome};

pub(crate) fn run(_environment: &Environment, _arguments: &ServiceCommand) -> Outcome {
    Err(Failure::new(Exit::Bug, "not built yet"))
}
