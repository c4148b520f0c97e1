//! `relight run`.

use crate::arguments::agent::RunArguments;
use crate::environment::Environment;
use crate::exit::{Exit, Failure, Outcome};

pub(crate) fn run(_environment: &Environment, _arguments: RunArguments) -> Outcome {
    Err(Failure::new(Exit::Usage, "not built yet"))
}
