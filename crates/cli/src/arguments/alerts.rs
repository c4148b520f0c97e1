//! Flags of `alerts`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `alerts`.
#[derive(Debug, Subcommand)]
pub(crate) enum AlertsCommand {
    /// What somebody was told, or is still to be
    #[command(after_help = "Example:\n  relight alerts list\n\n\
        A line holds: time, number, kind, subject, who was told or is still to be, text.")]
    List(ListArguments),
    /// Send a test through every sink of relight.toml, and say what became of it
    #[command(after_help = "Example:\n  relight alerts test\n\n\
        Exit code 1: a sink could not be told; 78: there is none, or it is not set up right.")]
    Test(SinksArguments),
    /// Tell now what was not told yet, for hosts without a daemon
    #[command(after_help = "Example:\n  relight alerts send\n\n\
        The first call only notes that the sinks are there: what happened before is not told.\n\
        Exit code 1: something could not be told, and is tried again by the next call; 75: another\n\
        process is telling it just now; 78: there is no sink, or it is not set up right.")]
    Send(SinksArguments),
    /// Print what webhooks are signed with, for the receiver
    #[command(after_help = "Example:\n  relight alerts secret\n\n\
        Made when there is none yet. Exit code 78: it cannot be read, or others can.")]
    Secret(SinksArguments),
}

/// `alerts list`.
#[derive(Debug, Args)]
pub(crate) struct ListArguments {
    /// The newest so many
    #[arg(short = 'n', long, value_name = "N", default_value_t = 50)]
    pub(crate) newest: usize,
    /// Only those that somebody is still to be told
    #[arg(long)]
    pub(crate) pending: bool,
}

/// `alerts test`, `send` and `secret`.
#[derive(Debug, Args)]
pub(crate) struct SinksArguments {
    /// The configuration [default: ./relight.toml, else the user's]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}
