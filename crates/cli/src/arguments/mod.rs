//! The flags of every command. Each command's example is part of its help.

pub(crate) mod agent;
pub(crate) mod alerts;
pub(crate) mod checkpoint;
mod help;
pub(crate) mod hook;
pub(crate) mod node;
pub(crate) mod other;
pub(crate) mod quick;
#[cfg(test)]
pub(crate) mod reference;
pub(crate) mod session;
pub(crate) mod step;
pub(crate) mod store;
pub(crate) mod task;
pub(crate) mod usage;

use std::ffi::OsString;
use std::io::Write as _;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand};
use relight_core::ids::is_obeyed;

use crate::exit::Failure;
use crate::output;
use crate::terminal_filter;

/// Restart AI agents after any crash and continue their work.
///
/// Relight keeps every task, step and checkpoint on disk before anything acts on it. Kill the agent
/// or the machine at any moment: work continues after the last finished step, and no finished step
/// is lost or repeated.
#[derive(Debug, Parser)]
#[command(
    name = "relight",
    version,
    propagate_version = true,
    infer_long_args = false,
    after_help = "Examples:\n  \
        relight init && relight up -d\n  \
        relight run -- ./agent.sh\n  \
        eval \"$(relight task start deploy-42 --owner-pid $$ --export)\"\n  \
        relight step run publish --repeat once -- ./publish.sh\n  \
        relight task done"
)]
pub struct Cli {
    /// What every command takes.
    #[command(flatten)]
    pub(crate) global: Global,
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// Reads the command line; ends the process after a help text.
    pub(crate) fn read(words: &[OsString]) -> Result<Self, Failure> {
        if let Some(cli) = quick::parse(words) {
            return Ok(cli);
        }
        Self::try_parse_from(words).map_err(|error| match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => complain(words, &error),
            // `relight task` without a subcommand prints its help.
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand if !usage::wants_json(words) => {
                complain(words, &error)
            }
            _ => usage::failure(&error, words),
        })
    }
}

/// Ends the process with a help text of clap's. It repeats the words that it was given: when a terminal
/// would obey something in them, all of it goes out as plain text with that shown.
fn complain(words: &[OsString], error: &clap::Error) -> ! {
    let arranged = help::asked_for(words);
    let error = arranged.as_ref().unwrap_or(error);
    let is_harmless = |word: &OsString| !word.to_string_lossy().contains(is_obeyed);
    if words.iter().all(is_harmless) {
        error.exit();
    }
    let text = terminal_filter::clean(&error.render().to_string());
    match error.use_stderr() {
        // An error is ignored: without standard error there is no place to report it.
        true => _ = std::io::stderr().write_all(text.as_bytes()),
        false => output::write_out(text.as_bytes()),
    }
    std::process::exit(error.exit_code())
}

/// What every command takes.
#[derive(Debug, Clone, Args)]
pub(crate) struct Global {
    /// Folder of the state [default: $RELIGHT_HOME, else that of the project, else $XDG_STATE_HOME/relight, else ~/.local/state/relight]
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        help_heading = "Global options"
    )]
    pub(crate) home: Option<PathBuf>,
    /// The project, by its name [default: that of the nearest relight.toml]
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        conflicts_with = "home",
        help_heading = "Global options"
    )]
    pub(crate) project: Option<String>,
    /// Where the store is: sqlite:PATH or postgres://USER@HOST/DATABASE [default: $RELIGHT_STORE, else [store] url of the configuration, else relight.db in the home folder]
    #[arg(
        long,
        global = true,
        value_name = "URL",
        help_heading = "Global options"
    )]
    pub(crate) store: Option<String>,
    /// Print one JSON document on standard output (JSON lines if it streams)
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) json: bool,
    /// Print only errors
    #[arg(short, long, global = true, help_heading = "Global options")]
    pub(crate) quiet: bool,
    /// Print more, such as where the store is
    #[arg(short, global = true, action = clap::ArgAction::Count, help_heading = "Global options")]
    pub(crate) verbose: u8,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Write a short relight.toml for the agent program found here
    Init(other::InitArguments),
    /// Manage tasks: units of recoverable work
    #[command(subcommand)]
    Task(task::TaskCommand),
    /// Run and record steps of a task: never run again once finished
    #[command(subcommand)]
    Step(step::StepCommand),
    /// Use the checkpoint dialect of agents and skills
    #[command(subcommand)]
    Checkpoint(checkpoint::CheckpointCommand),
    /// Mark turns of conversations, and find those that were cut off
    #[command(subcommand)]
    Session(session::SessionCommand),
    /// Supervise one agent in the foreground; restart it after any death
    Run(Box<agent::RunArguments>),
    /// Supervise all agents of relight.toml
    Up(agent::UpArguments),
    /// List the projects of this machine, and choose where their state is
    #[command(subcommand)]
    Project(other::ProjectCommand),
    /// Approve a relight.toml: its store, commands and webhook
    Trust(other::TrustArguments),
    /// Apply a changed relight.toml to the running daemon
    Reload(agent::ReloadArguments),
    /// Stop the daemon and its agents
    Down(agent::DownArguments),
    /// Open the dashboard in a browser
    Dashboard(agent::DashboardArguments),
    /// Manage access tokens for the API
    #[command(subcommand)]
    Token(agent::TokenCommand),
    /// Serve the verbs as MCP tools on standard input and output
    Mcp(other::McpArguments),
    /// Show the daemon, agents, work in flight and what needs you
    Status(agent::StatusArguments),
    /// List agents and what they are doing
    Ps(agent::PsArguments),
    /// Start agents, including stopped and terminated ones
    #[command(
        after_help = "Examples:\n  relight start writer\n  relight start --all\n\n\
        Exit code 1: there is no such agent; 69: it has no supervisor; 75: not possible now."
    )]
    Start(agent::NamesArguments),
    /// Stop agents and keep them stopped
    #[command(
        after_help = "Examples:\n  relight stop writer reviewer\n  relight stop --all\n\n\
        Recorded before the first signal; no recovery, reboot or reload undoes it. Needs no\n\
        supervisor: without one the command stops the agent itself. Exit code 1: there is no such agent;\n\
        75: not possible now."
    )]
    Stop(agent::NamesArguments),
    /// Stop agents and start them again
    #[command(
        after_help = "Examples:\n  relight restart writer\n  relight restart --all\n\n\
        Exit code 1: there is no such agent; 69: it has no supervisor; 75: not possible now."
    )]
    Restart(agent::NamesArguments),
    /// Remove agents that are no longer used
    Forget(agent::ForgetArguments),
    /// Show the output of agents
    Logs(agent::LogsArguments),
    /// Show how agents died
    Deaths(agent::DeathsArguments),
    /// Send a sign of life to the supervisor
    Beat(agent::BeatArguments),
    /// Record what an agent's program does; called by its hooks
    Hook(hook::HookArguments),
    /// Recover work whose holder is gone; decide about waiting work
    Recover(Box<agent::RecoverArguments>),
    /// List everything in doubt or in flight
    Inflight(other::InflightArguments),
    /// Finish running work and start nothing new
    Drain(other::DrainArguments),
    /// Manage the nodes of a fleet
    #[command(subcommand)]
    Node(node::NodeCommand),
    /// Copy, verify and restore whole stores
    #[command(subcommand)]
    Store(store::StoreCommand),
    /// Record why a loop outside of relight run ended
    #[command(subcommand)]
    Trap(agent::TrapCommand),
    /// Show and check presets for kinds of agents
    #[command(subcommand)]
    Presets(agent::PresetsCommand),
    /// Check and repair the transcripts of agents
    #[command(subcommand)]
    Transcript(agent::TranscriptCommand),
    /// List, test and send alerts
    #[command(subcommand)]
    Alerts(alerts::AlertsCommand),
    /// Find stale unfinished work and damaged files
    Check(other::CheckArguments),
    /// Remove expired and old finished work
    Prune(other::PruneArguments),
    /// Check the store, the machine and the settings
    Doctor(other::DoctorArguments),
    /// Show events in order
    Events(other::EventsArguments),
    /// Explain an exit code, error code, event, cause of death or state
    Explain(other::ExplainArguments),
    /// Write files for agents: AGENTS.md, skill, hooks, MCP, relight.toml
    #[command(subcommand)]
    Setup(other::SetupCommand),
    /// Let the host's scheduler run the daemon or the stale check
    #[command(subcommand)]
    Service(other::ServiceCommand),
    /// Print a completion script for a shell
    Completions(other::CompletionsArguments),
    /// Print the manual pages, or write them to a folder
    Man(other::ManArguments),
}

/// Whose life a lease follows.
#[derive(Debug, Clone, Args)]
pub(crate) struct HolderArguments {
    /// Hold it while this process is alive (in a shell: $$)
    #[arg(long, value_name = "PID")]
    pub(crate) owner_pid: Option<u32>,
    /// Hold it for this long after each write; in an agent under relight run or up at most while the
    /// attempt is alive, which is the default there [default elsewhere: 10m]
    #[arg(long, value_name = "DURATION", value_parser = crate::values::lease)]
    pub(crate) lease: Option<relight_core::time::Span>,
}

/// The file that says how work is recovered.
#[derive(Debug, Clone, Args)]
pub(crate) struct ConfigFile {
    /// The configuration [default: $RELIGHT_CONFIG, else the nearest relight.toml, else the user's]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// What a piece of work has used.
#[derive(Debug, Clone, Args)]
pub(crate) struct UsageArguments {
    /// What it has cost, in the money or units of your choice, such as 0.25
    #[arg(long, value_name = "N")]
    pub(crate) cost: Option<relight_core::task::Cost>,
    /// Turns of a model that it took
    #[arg(long, value_name = "N", value_parser = crate::values::number)]
    pub(crate) turns: Option<u64>,
}
