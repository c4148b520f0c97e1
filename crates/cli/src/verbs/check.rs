//! `relight check`.

use crate::arguments::other::CheckArguments;
use crate::environment::Environment;
use crate::exit::{Exit, Failure, Outcome};

pub(crate) fn run(_environment: &Environment, _arguments: &CheckArguments) -> Outcome {
    Err(Failure::new(Exit::Bug, "not built yet"))
}
