//! `relight completions` and `relight man`.

use crate::arguments::other::{CompletionsArguments, ManArguments};
use crate::exit::{Exit, Failure, Outcome};

pub(crate) fn completions(_arguments: &CompletionsArguments) -> Outcome {
    Err(Failure::new(Exit::Bug, "not built yet"))
}

pub(crate) fn man(_arguments: &ManArguments) -> Outcome {
    Err(Failure::new(Exit::Bug, "not built yet"))
}
