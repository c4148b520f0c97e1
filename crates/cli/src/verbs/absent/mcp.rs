//! In place of `verbs::mcp` in a build without the feature `mcp`.

use crate::arguments::other::McpArguments;
use crate::environment::Environment;
use crate::exit::{Failure, Outcome};

pub(crate) fn run(_: &Environment, _: &McpArguments) -> Outcome {
    Err(Failure::not_built("MCP", "mcp"))
}
