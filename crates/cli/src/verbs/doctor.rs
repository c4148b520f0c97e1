//! `relight doctor`.

use crate::arguments::other::DoctorArguments;
use crate::environment::Environment;
use crate::exit::{Exit, Failure, Outcome};

pub(crate) fn run(_environment: &Environment, _arguments: &DoctorArguments) -> Outcome {
    Err(Failure::new(Exit::Bug, "not built yet"))
}
