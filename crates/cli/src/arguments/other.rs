//! Flags of the smaller commands.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use clap_complete::Shell;
use relight_core::ids::TaskId;
use relight_core::time::Span;

/// `check`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  relight check --stale 10m --root ~/work --log ~/relight-check.log\n\n\
    Prints OK, or one ALERT line each. Exit code 1: something unfinished is older than the threshold;\n\
    65: something is damaged. Needs no model, no daemon and no network."
)]
pub(crate) struct CheckArguments {
    /// Alert when unfinished work was not touched for this long
    #[arg(long, value_name = "DURATION", default_value = "10m")]
    pub(crate) stale: Span,
    /// A workspace whose checkpoint files are checked too (repeat for more) [default: this folder]
    #[arg(long = "root", value_name = "DIR")]
    pub(crate) roots: Vec<PathBuf>,
    /// Append what is printed to this file, with the time
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
}

/// `prune`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  relight prune --dry-run")]
pub(crate) struct PruneArguments {
    /// Only say what would be removed
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Remove finished work and events older than this
    #[arg(long, value_name = "DURATION", default_value = "30d")]
    pub(crate) older_than: Span,
}

/// `doctor`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  relight doctor\n  relight doctor --salvage rescued.db")]
pub(crate) struct DoctorArguments {
    /// Read every page of the store, not only its header
    #[arg(long)]
    pub(crate) whole: bool,
    /// Copy what can be read of a damaged store into this new file
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "")]
    pub(crate) salvage: Option<PathBuf>,
}

/// `events`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  relight events --task report-7\n  relight events -f --json")]
pub(crate) struct EventsArguments {
    /// Go on with what happens from now on
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// The newest so many
    #[arg(short = 'n', value_name = "N", default_value_t = 50)]
    pub(crate) newest: usize,
    /// All there are
    #[arg(long, conflicts_with = "newest")]
    pub(crate) all: bool,
    /// Only after the event with this number
    #[arg(long, value_name = "ID", conflicts_with_all = ["newest", "all"])]
    pub(crate) after: Option<u64>,
    /// Only of this task
    #[arg(long, value_name = "ID")]
    pub(crate) task: Option<TaskId>,
    /// Only of this kind, such as step.done or task.status (repeat for more)
    #[arg(long = "kind", value_name = "KIND", value_parser = super::super::values::event_kind)]
    pub(crate) kinds: Vec<relight_core::event::EventKind>,
}

/// `setup`.
#[derive(Debug, Subcommand)]
pub(crate) enum SetupCommand {
    /// Keep a block about restart-safe work in AGENTS.md
    #[command(
        after_help = "Examples:\n  relight setup agents-md\n  relight setup agents-md --check"
    )]
    AgentsMd(SetupArguments),
    /// Keep a skill folder with SKILL.md
    #[command(
        after_help = "Examples:\n  relight setup skill --dir .claude/skills\n  relight setup skill --print"
    )]
    Skill(SetupArguments),
}

/// `setup agents-md`, `setup skill`.
#[derive(Debug, Args)]
pub(crate) struct SetupArguments {
    /// Only say whether it is there and current (exit code 1 when not)
    #[arg(long, conflicts_with_all = ["print", "remove"])]
    pub(crate) check: bool,
    /// Only print it
    #[arg(long, conflicts_with = "remove")]
    pub(crate) print: bool,
    /// Take it out again
    #[arg(long)]
    pub(crate) remove: bool,
    /// The file (agents-md) [default: AGENTS.md] or the folder of skills (skill) [default: skills]
    #[arg(long = "dir", alias = "file", value_name = "PATH")]
    pub(crate) place: Option<PathBuf>,
}

/// `service`.
#[derive(Debug, Subcommand)]
pub(crate) enum ServiceCommand {
    /// Install a unit that runs on a schedule
    #[command(
        after_help = "Examples:\n  relight service install check --print\n  relight service install check --systemd"
    )]
    Install(InstallArguments),
    /// Take it out again
    #[command(after_help = "Example:\n  relight service remove check --systemd")]
    Remove(InstallArguments),
}

/// `service install`.
#[derive(Debug, Args)]
pub(crate) struct InstallArguments {
    /// What to install: check
    #[arg(value_name = "WHAT", value_parser = ["check"])]
    pub(crate) what: String,
    /// As a systemd user timer
    #[arg(long, group = "scheduler")]
    pub(crate) systemd: bool,
    /// As a line of the user's crontab
    #[arg(long, group = "scheduler")]
    pub(crate) cron: bool,
    /// As a launchd agent
    #[arg(long, group = "scheduler")]
    pub(crate) launchd: bool,
    /// Only print what would be written
    #[arg(long)]
    pub(crate) print: bool,
    /// How often it runs
    #[arg(long, value_name = "DURATION", default_value = "10m")]
    pub(crate) every: Span,
    /// Alert when unfinished work was not touched for this long
    #[arg(long, value_name = "DURATION", default_value = "10m")]
    pub(crate) stale: Span,
    /// A workspace whose checkpoint files are checked too (repeat for more)
    #[arg(long = "root", value_name = "DIR")]
    pub(crate) roots: Vec<PathBuf>,
}

/// `completions`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  relight completions bash > ~/.local/share/bash-completion/completions/relight"
)]
pub(crate) struct CompletionsArguments {
    /// For which shell
    pub(crate) shell: Shell,
}

/// `man`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  relight man | man -l -\n  relight man --dir ~/.local/share/man/man1"
)]
pub(crate) struct ManArguments {
    /// Write a page for each command into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}
