//! `relight prune`.

use crate::arguments::other::PruneArguments;
use crate::environment::Environment;
use crate::exit::{Exit, Failure, Outcome};

pub(crate) fn run(_environment: &Environment, _arguments: &PruneArguments) -> Outcome {
    Err(Failure::new(Exit::Bug, "not built yet"))
}
