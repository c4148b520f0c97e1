//! `relight mcp`: one process for one client, on standard input and output.
//!
//! The end of the input, or a signal, is no reason to throw anything away: what is under way is
//! finished, then the process ends. What it held is then without a holder, and is recovered as
//! everything else is; nothing is cancelled.

use std::path::PathBuf;
use std::sync::Arc;

use relight_core::decide::StartLimits;
use relight_core::ids::{AgentName, TaskId};
use relight_core::lease::{Fence, Holder};
use relight_runtime::engine::Engine;
use rmcp::service::ServerInitializeError;
use rmcp::transport::io::stdio_pipes;

use super::call_context::CallContext;
use super::handler::Handler;
use super::lines::Lines;

/// What the process stands on.
pub struct Stdio {
    /// The store, behind redaction.
    pub engine: Engine,
    /// The folder of the store.
    pub home: PathBuf,
    /// Where checkpoint files go.
    pub checkpoints: PathBuf,
    /// The agent that is served, where it has a name.
    pub agent: Option<AgentName>,
    /// What keeps the agent from starting a task.
    pub limits: StartLimits,
    /// Whose life the leases follow: this process, or the attempt that it is part of.
    pub holder: Holder,
    /// Where the supervisor hears the agent; nowhere when nobody supervises it.
    pub addresses: Vec<String>,
    /// Where git is asked for the brief.
    pub workspace: Option<PathBuf>,
    /// The task that the agent was started with, and its fence.
    pub task: Option<(TaskId, Option<Fence>)>,
    /// Where it is told what the agent is not: the cause of an error inside.
    pub complain: Arc<dyn Fn(&str) + Send + Sync>,
}

impl std::fmt::Debug for Stdio {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stdio")
            .field("home", &self.home)
            .finish_non_exhaustive()
    }
}

/// Why nothing was served.
#[derive(Debug, thiserror::Error)]
pub enum StdioError {
    /// The client speaks something else.
    #[error("the client does not speak MCP: {0}")]
    Protocol(String),
    /// A bug: the server's own task broke off.
    #[error("the server broke off: {0}")]
    Broken(String),
}

/// Serves until the input ends or `ending` comes, and finishes what is under way then.
pub async fn serve_stdio(stdio: Stdio, ending: impl Future<Output = ()>) -> Result<(), StdioError> {
    let handler = Handler {
        context: CallContext::at_stdio(stdio),
    };
    let mut ending = std::pin::pin!(ending);
    let (read, write) = stdio_pipes();
    let begun = tokio::select! {
        begun = rmcp::serve_server(handler, Lines::new(read, write)) => begun,
        () = &mut ending => return Ok(()),
    };
    let running = match begun {
        Ok(running) => running,
        // Whoever started us has thought better of it.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        // What it said instead is its own business, and may hold anything.
        Err(ServerInitializeError::ExpectedInitializeRequest(_)) => {
            return Err(StdioError::Protocol(
                "its first message is not a request".to_owned(),
            ));
        }
        Err(error) => return Err(StdioError::Protocol(error.to_string())),
    };
    let token = running.cancellation_token();
    let mut ended = std::pin::pin!(running.waiting());
    let done = tokio::select! {
        done = &mut ended => done,
        () = &mut ending => {
            token.cancel();
            ended.await
        }
    };
    done.map(drop)
        .map_err(|error| StdioError::Broken(error.to_string()))
}
