//! What gets killed: programs that work through a task and tell the ledger what was acknowledged.
//!
//! All of them are written as an agent would be: begin at the first step, every time, and let
//! Relight say what is finished. A driver that is killed and started again needs no memory.

pub mod checkpoint;
pub mod cli;
pub mod effect;
pub mod fleet_agent;
pub mod gateway;
pub mod library;
pub mod machine;
pub mod queue;
pub mod slow;

/// How a driver ends when the task is completed.
pub const COMPLETED: u8 = 0;
/// How it ends when a step is in doubt and only somebody who looks can say what became of it.
pub const IN_DOUBT: u8 = 75;
/// How it ends when the product gave an answer that it must not give.
pub const UNEXPECTED: u8 = 99;
/// How it ends when the product's process was killed under it.
pub const KILLED: u8 = 137;

/// Which program works through the task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriverKind {
    /// Calls the CLI for each step.
    Cli,
    /// Embeds the library.
    Library,
    /// Calls the verbs of the checkpoint dialect.
    Checkpoint,
    /// Uses the Python package.
    Python,
    /// Uses the npm package.
    Node,
}

impl DriverKind {
    /// Those of this workspace, which need nothing else.
    pub const ALL: [Self; 3] = [Self::Cli, Self::Library, Self::Checkpoint];

    /// The number of kinds.
    pub const COUNT: usize = Self::ALL.len() + 2;

    /// Whether it uses a package of another language, which has to be installed.
    pub fn is_package(self) -> bool {
        matches!(self, Self::Python | Self::Node)
    }

    /// The word that `prove-driver` takes.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cli => "cli",
            Self::Library => "library",
            Self::Checkpoint => "checkpoint",
            Self::Python => "python",
            Self::Node => "node",
        }
    }
}
