//! The `relight` binary: reads flags and environment, prints, exits with a documented code.
//!
//! Knows the terminal, not how a decision is made.

#![cfg_attr(
    not(feature = "mcp"),
    allow(dead_code, reason = "some helpers serve MCP alone")
)]

mod arguments;
mod config;
mod environment;
mod exit;
mod line_writer;
mod log;
mod node_file;
mod output;
mod terminal_filter;
mod trust;
mod values;
mod verbs;
mod whole_file;
mod work;

use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::process::ExitCode;

use arguments::{Cli, Command, usage};
use environment::Environment;
use exit::{Exit, Failure, Outcome};
use tokio::runtime::Runtime;

/// The parsers of outside input, which `crates/fuzz` tries.
#[doc(hidden)]
pub mod parsers {
    pub use crate::arguments::Cli;
    pub use crate::arguments::quick::parse as parse_usual;
    pub use crate::config::Config;
    pub use crate::output::one_line;
    pub use crate::terminal_filter::TerminalFilter;
    pub use crate::values::{count, json, lease, pair, rate, words};
}

/// Does what the command line says; the code to exit with.
pub fn main() -> ExitCode {
    if std::env::args_os()
        .nth(1)
        .is_some_and(|first| first == relight_runtime::supervise::shim::ARGUMENT)
    {
        // Before anything else: a shim for each agent has to be small.
        return relight_runtime::supervise::shim::main();
    }
    if asks_for_version_alone() {
        output::line(concat!("relight ", env!("CARGO_PKG_VERSION")));
        return ExitCode::SUCCESS;
    }
    let words: Vec<OsString> = std::env::args_os().collect();
    let cli = match Cli::read(&words) {
        Ok(cli) => cli,
        // A hook that a later or earlier version installed must not stop the agent either.
        Err(failure) if words.get(1).is_some_and(|verb| verb == "hook") => {
            verbs::hook::not_understood(&failure);
            return ExitCode::SUCCESS;
        }
        Err(failure) => {
            output::failure(usage::wants_json(&words), &failure);
            return ExitCode::from(failure.exit as u8);
        }
    };
    let environment = Environment::read(&cli.global);
    tell_of_upgrades(&environment);
    let is_hook = matches!(cli.command, Command::Hook(_));
    let outcome = catch_unwind(AssertUnwindSafe(|| run(&environment, cli.command)));
    if is_hook {
        return ExitCode::SUCCESS;
    }
    let outcome =
        outcome.unwrap_or_else(|_| Err(Failure::new(Exit::Bug, "this is a bug in Relight")));
    let code = match outcome {
        Ok(code) => code,
        Err(failure) => {
            output::failure(environment.json, &failure);
            failure.exit as u8
        }
    };
    output::settle();
    ExitCode::from(code)
}

/// Whoever waits while a large store is brought up to date knows for what.
fn tell_of_upgrades(environment: &Environment) {
    let environment = environment.clone();
    relight_store::on_upgrade(move |upgrade| {
        let relight_store::Upgrade {
            place,
            found,
            known,
        } = upgrade;
        let text = format!("upgrading the store {place} from schema {found} to {known}");
        output::note(&environment, &terminal_filter::clean(&text));
    });
}

/// Scripts ask for it all the time; the flags of fifty commands need not be put together for that.
fn asks_for_version_alone() -> bool {
    let mut arguments = std::env::args_os().skip(1);
    let first = arguments.next();
    arguments.next().is_none() && first.is_some_and(|first| first == "--version" || first == "-V")
}

fn run(environment: &Environment, command: Command) -> Outcome {
    match command {
        Command::Init(arguments) => verbs::init::run(environment, &arguments),
        Command::Task(command) => verbs::task::run(environment, command),
        Command::Step(command) => verbs::step::run(environment, command),
        Command::Checkpoint(command) => verbs::checkpoint::run(environment, command),
        Command::Session(command) => verbs::session::run(environment, command),
        Command::Run(arguments) => verbs::run::run(environment, *arguments),
        Command::Up(arguments) => verbs::up::run(environment, &arguments),
        Command::Project(command) => verbs::project::run(environment, &command),
        Command::Trust(arguments) => verbs::trust::run(environment, &arguments),
        Command::Down(arguments) => verbs::down::run(environment, &arguments),
        Command::Dashboard(arguments) => verbs::dashboard::run(environment, &arguments),
        Command::Token(command) => verbs::token::run(environment, &command),
        Command::Mcp(arguments) => verbs::mcp::run(environment, &arguments),
        Command::Status(_) => verbs::status::run(environment),
        Command::Ps(arguments) => verbs::ps::run(environment, &arguments),
        Command::Forget(arguments) => verbs::control::forget(environment, &arguments),
        Command::Reload(_) => verbs::control::reload(environment),
        Command::Start(arguments) => verbs::control::start(environment, &arguments),
        Command::Stop(arguments) => verbs::control::stop(environment, &arguments),
        Command::Restart(arguments) => verbs::control::restart(environment, &arguments),
        Command::Logs(arguments) => verbs::logs::run(environment, &arguments),
        Command::Deaths(arguments) => verbs::deaths::run(environment, &arguments),
        Command::Beat(arguments) => verbs::beat::run(environment, &arguments),
        Command::Hook(arguments) => Ok(verbs::hook::run(environment, &arguments)),
        Command::Recover(arguments) => verbs::recover::run(environment, &arguments),
        Command::Inflight(_) => verbs::inflight::run(environment),
        Command::Drain(arguments) => verbs::drain::run(environment, &arguments),
        Command::Node(command) => verbs::node::run(environment, &command),
        Command::Store(command) => verbs::store::run(environment, &command),
        Command::Trap(command) => verbs::trap::run(environment, &command),
        Command::Presets(command) => verbs::presets::run(environment, &command),
        Command::Transcript(command) => verbs::transcript::run(environment, &command),
        Command::Alerts(command) => verbs::alerts::run(environment, &command),
        Command::Check(arguments) => verbs::check::run(environment, &arguments),
        Command::Prune(arguments) => verbs::prune::run(environment, &arguments),
        Command::Doctor(arguments) => verbs::doctor::run(environment, &arguments),
        Command::Events(arguments) => verbs::events::run(environment, &arguments),
        Command::Explain(arguments) => verbs::explain::run(environment, &arguments),
        Command::Setup(command) => verbs::setup::run(environment, &command),
        Command::Service(command) => verbs::service::run(environment, &command),
        Command::Completions(arguments) => verbs::shell::completions(&arguments),
        Command::Man(arguments) => verbs::shell::man(environment, &arguments),
    }
}

/// Waits for timers, sockets, signals and children, on this thread.
fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    relight_runtime::os::limits::check_room_for_runtime()?;
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}

/// Runs what never waits on a timer or a socket, without an executor around it.
fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    block_on_with(
        &runtime.expect("a runtime without drivers cannot fail"),
        future,
    )
}

/// Waits on this runtime.
fn block_on_with<F: Future>(runtime: &Runtime, future: F) -> F::Output {
    let mut answer = None;
    {
        // As a trait object without an answer: there would be a copy of the executor for each type.
        let future = pin!(async { answer = Some(future.await) });
        runtime.block_on(future as Pin<&mut dyn Future<Output = ()>>);
    }
    answer.expect("the future has ended")
}
