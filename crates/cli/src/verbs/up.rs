//! `relight up`.

use crate::arguments::agent::UpArguments;
use crate::environment::Environment;
use crate::exit::{Exit, Failure, Outcome};

pub(crate) fn run(_environment: &Environment, _arguments: UpArguments) -> Outcome {
    Err(Failure::new(Exit::Usage, "not built yet"))
}
