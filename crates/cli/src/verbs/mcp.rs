//! `relight mcp`: serves one agent that speaks MCP. Standard output belongs to the protocol; whatever
//! else there is to say goes to standard error.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::sync::Arc;

use relight_core::error_code::with_causes;
use relight_runtime::os::signals::Signals;
use relight_runtime::supervise::folder::AgentFolder;
use relight_runtime::supervise::notify;
use relight_server::mcp::{self, Stdio, StdioError};

use super::supervision;
use crate::arguments::other::McpArguments;
use crate::block_on_with;
use crate::environment::Environment;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;
use crate::work;

pub(crate) fn run(environment: &Environment, arguments: &McpArguments) -> Outcome {
    let stdio = stdio(environment, arguments)?;
    if std::io::stdin().is_terminal() {
        let text =
            "waiting for an MCP client; relight setup mcp --for CLIENT tells it to start this";
        output::note(environment, text);
    }
    let runtime = supervision::runtime()?;
    let served = block_on_with(&runtime, async {
        let mut signals = Signals::new().map_err(|error| supervision::cannot_wait(&error))?;
        let ending = async {
            signals.next().await;
        };
        mcp::serve_stdio(stdio, ending)
            .await
            .map_err(|error| failure(&error))
    });
    // A thread may still wait for input that never comes.
    runtime.shutdown_background();
    served.map(|()| 0)
}

fn stdio(environment: &Environment, arguments: &McpArguments) -> Result<Stdio, Failure> {
    let engine = environment.long_engine()?;
    let home = environment.store_folder(&engine)?;
    let agent = environment.agent(arguments.agent.as_ref())?;
    let notes = environment.clone();
    let own = environment
        .get("NOTIFY_SOCKET")
        .map(|address| vec![address.to_owned()]);
    let by_name = || {
        agent
            .as_ref()
            .map(|name| notify::addresses(&AgentFolder::of(&home, name)))
    };
    Ok(Stdio {
        checkpoints: environment.checkpoint_folder(arguments.dir.as_deref())?,
        limits: work::start_limits(environment, None, false)?,
        holder: environment.process_holder(engine.store().as_ref())?,
        addresses: own.or_else(by_name).unwrap_or_default(),
        workspace: std::path::absolute(PathBuf::from(".")).ok(),
        task: environment.own_task()?,
        complain: Arc::new(move |text| output::note(&notes, &format!("mcp: {text}"))),
        agent,
        home,
        engine,
    })
}

fn failure(error: &StdioError) -> Failure {
    match error {
        StdioError::Protocol(_) => Failure::new(Exit::Data, with_causes(error))
            .hint("an MCP client starts it; relight setup mcp --for CLIENT tells how"),
        StdioError::Broken(_) => Failure::new(Exit::Bug, with_causes(error)),
    }
}
