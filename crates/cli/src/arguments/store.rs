//! Flags of `store`.

use clap::{Args, Subcommand};

/// `store`.
#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Copy a whole store into an empty one, of whatever kind
    #[command(
        after_help = "Examples:\n  relight store copy sqlite:/srv/relight/relight.db postgres://relight@db/work\n  \
        relight store copy postgres://relight@db/work sqlite:/backup/relight.db\n\n\
        Everything comes along: tasks, steps with their outputs, agents, sessions, events, fences, and\n\
        leases with the time they have left. FROM is read as it was at one moment and may be used\n\
        meanwhile; what is written to it later is not in TO, and is counted. TO is read back, and its\n\
        hashes are compared.\n\n\
        Cut off, the same command goes on. Until the copy is complete every other command refuses TO\n\
        (75). Exit code 1: TO is not empty; 65: FROM has damaged rows, and so has TO; 75: TO is half\n\
        copied from elsewhere."
    )]
    Copy(CopyArguments),
    /// Read a whole store: whether every row is good and agrees with the others, with counts and hashes
    #[command(
        after_help = "Examples:\n  relight store verify\n  relight store verify postgres://relight@db/work --json\n\n\
        Two stores with the same hashes have the same rows. It may be in use: all is read as it was at\n\
        one moment. Exit code 65: something is wrong, and said; 69: there is no such store."
    )]
    Verify(UrlArguments),
    /// Say that a store was brought back from a backup, before anything uses it
    #[command(after_help = "Example:\n  relight store restored\n\n\
        A store from a backup gives out numbers of leases again that living writers may still have.\n\
        This raises them all beyond any that was ever given out: whoever worked with the later state\n\
        is refused (77). Holders stay; those that live take their work up anew.")]
    Restored(UrlArguments),
}

/// `store copy`.
#[derive(Debug, Args)]
pub(crate) struct CopyArguments {
    /// The store to read: sqlite:PATH or postgres://USER@HOST/DATABASE
    pub(crate) from: String,
    /// The store to fill, made if it is not there
    pub(crate) to: String,
}

/// `store verify`, `store restored`.
#[derive(Debug, Args)]
pub(crate) struct UrlArguments {
    /// Which store: sqlite:PATH or postgres://USER@HOST/DATABASE [default: as for every command]
    #[arg(value_name = "URL")]
    pub(crate) url: Option<String>,
}
