//! `relight events`.

use crate::arguments::other::EventsArguments;
use crate::environment::Environment;
use crate::exit::{Exit, Failure, Outcome};

pub(crate) fn run(_environment: &Environment, _arguments: &EventsArguments) -> Outcome {
    Err(Failure::new(Exit::Bug, "not built yet"))
}
