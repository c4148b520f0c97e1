//! Flags of `node`.

use clap::{Args, Subcommand};
use relight_core::ids::NodeName;

/// `node`.
#[derive(Debug, Subcommand)]
pub(crate) enum NodeCommand {
    /// List the nodes of the fleet, and what each has
    #[command(after_help = "Example:\n  relight node list\n\n\
        A node whose lease expired is `gone`: other nodes take over what it had.")]
    List,
    /// Let a node take nothing new, and hand over agents that end
    #[command(
        after_help = "Examples:\n  relight node drain build-1\n  relight node drain build-1 --cancel\n\n\
        Running agents continue until they end; then another node takes them over. relight down on\n\
        that machine hands everything over at once. Exit code 1: there is no such node."
    )]
    Drain(NodeDrainArguments),
    /// Remove a node that is gone
    #[command(after_help = "Example:\n  relight node remove build-1\n\n\
        Exit code 1: there is no such node; 75: its lease is still valid.")]
    Remove(NameArguments),
}

/// `node drain`.
#[derive(Debug, Args)]
pub(crate) struct NodeDrainArguments {
    /// The node
    pub(crate) name: NodeName,
    /// Let it take work again
    #[arg(long)]
    pub(crate) cancel: bool,
}

/// `node remove`.
#[derive(Debug, Args)]
pub(crate) struct NameArguments {
    /// The node
    pub(crate) name: NodeName,
}
