//! Flags of `node`.

use clap::{Args, Subcommand};
use relight_core::ids::NodeName;

/// `node`.
#[derive(Debug, Subcommand)]
pub(crate) enum NodeCommand {
    /// The machines of the fleet, and what each has
    #[command(after_help = "Example:\n  relight node list\n\n\
        A node whose lease ran out is `gone`: what it had is taken up by others.")]
    List,
    /// Have a node take nothing new, and hand over what comes to rest
    #[command(
        after_help = "Examples:\n  relight node drain build-1\n  relight node drain build-1 --cancel\n\n\
        What runs there goes on until it ends; then another node takes it up. relight down on that\n\
        machine hands everything over at once. Exit code 1: there is no such node."
    )]
    Drain(DrainArguments),
    /// Forget a node that is gone
    #[command(after_help = "Example:\n  relight node remove build-1\n\n\
        Exit code 1: there is no such node; 75: its lease lasts.")]
    Remove(NameArguments),
}

/// `node drain`.
#[derive(Debug, Args)]
pub(crate) struct DrainArguments {
    /// Which node
    pub(crate) name: NodeName,
    /// Let it take things up again
    #[arg(long)]
    pub(crate) cancel: bool,
}

/// `node remove`.
#[derive(Debug, Args)]
pub(crate) struct NameArguments {
    /// Which node
    pub(crate) name: NodeName,
}
