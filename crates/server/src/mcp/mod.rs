//! The same verbs as tools, for agents that speak MCP.
//!
//! One server for two ways in: `relight mcp` on standard input and output, where the process itself
//! holds what the agent works on, and `POST /mcp` of the daemon, where nothing is remembered between
//! two requests. What a verb does is decided where the command line and the API have it decided. A
//! refusal is a tool's result with a hint, for the agent to read, and not an error of the protocol.

mod agent;
mod arguments;
mod call_context;
mod checkpoint;
mod handler;
pub(crate) mod http;
mod lines;
mod reply;
mod stdio;
mod step;
mod task;
mod tool;

pub use stdio::{Stdio, StdioError, serve_stdio};

/// How an agent finds its way, in as few words as possible: it pays for each.
const INSTRUCTIONS: &str = "\
Relight keeps your work safe across crashes. \
1. task_start first. resumed=true: it was worked on before; call resume_brief, continue at next_step, never repeat a done step. \
2. step_begin before every action with an effect (send, pay, deploy, publish, delete). Its advice: \
go = do it; \
again = it may have happened: check if you can, then do it with the same idempotency_key; \
ask = find out whether it happened: if so only call step_end, if not do it; \
wait = stop, a person decides; \
finished = skip it, its output is given. \
3. step_end after it (failed=true when it did not work). \
4. task_done at the end; task_block with a reason when only a person can help. \
held = another holder works on it: leave it. fenced = you lost the task: stop working on it at once.";

/// What else there is to know where nothing is remembered between two calls.
const INSTRUCTIONS_OVER_HTTP: &str =
    " Give task, and the fence that task_start answered, with every call.";
