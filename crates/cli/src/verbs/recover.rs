//! `relight recover`.

use crate::arguments::agent::RecoverArguments;
use crate::environment::Environment;
use crate::exit::{Exit, Failure, Outcome};

pub(crate) fn run(_environment: &Environment, _arguments: &RecoverArguments) -> Outcome {
    Err(Failure::new(Exit::Usage, "not built yet"))
}
