//! Flags of `alerts`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `alerts`.
#[derive(Debug, Subcommand)]
pub(crate) enum AlertsCommand {
    /// List delivered and pending alerts
    #[command(after_help = "Example:\n  relight alerts list\n\n\
        Each line holds: time, number, kind, subject, sinks delivered to or pending, text.")]
    List(AlertListArguments),
    /// Send a test alert through every sink of relight.toml, and print the result
    #[command(after_help = "Example:\n  relight alerts test\n\n\
        Exit code 1: a delivery failed; 78: there is no sink, or it is not configured correctly.")]
    Test(SinksArguments),
    /// Send pending alerts now, for hosts without a daemon
    #[command(after_help = "Example:\n  relight alerts send\n\n\
        The first call only records that the sinks exist: earlier alerts are not sent.\n\
        Exit code 1: a delivery failed, and the next call retries it; 75: another process is sending\n\
        now; 78: there is no sink, or it is not configured correctly.")]
    Send(SinksArguments),
    /// Print the secret that signs webhooks, for the receiver
    #[command(after_help = "Example:\n  relight alerts secret\n\n\
        Generated if there is none. Exit code 78: it cannot be read, or other users can read it.")]
    Secret(SinksArguments),
}

/// `alerts list`.
#[derive(Debug, Args)]
pub(crate) struct AlertListArguments {
    /// Number of newest alerts to show
    #[arg(short = 'n', long, value_name = "N", default_value_t = 50)]
    pub(crate) newest: usize,
    /// Only pending alerts
    #[arg(long)]
    pub(crate) pending: bool,
}

/// `alerts test`, `send` and `secret`.
#[derive(Debug, Args)]
pub(crate) struct SinksArguments {
    /// The configuration [default: $RELIGHT_CONFIG, else the nearest relight.toml, else the user's]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}
