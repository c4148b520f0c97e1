//! Flags of `store`.

use clap::{Args, Subcommand};

/// `store`.
#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Copy a whole store into an empty one of any kind
    #[command(
        after_help = "Examples:\n  relight store copy sqlite:/srv/relight/relight.db postgres://relight@db/work\n  \
        relight store copy postgres://relight@db/work sqlite:/backup/relight.db\n\n\
        Everything is copied: tasks, steps with their outputs, agents, sessions, events, fences, and\n\
        leases with their remaining time. FROM is read as of one moment and may be used meanwhile;\n\
        later writes are not in TO, and are counted. TO is read back, and its hashes are compared.\n\n\
        If the command is interrupted, run it again and it continues. Until the copy is complete every\n\
        other command refuses TO (75). Exit code 1: TO is not empty; 65: FROM has damaged rows, and\n\
        they are in TO as well; 75: TO is half copied from another store."
    )]
    Copy(CopyArguments),
    /// Read a whole store and check that every row is valid and consistent; print counts and hashes
    #[command(
        after_help = "Examples:\n  relight store verify\n  relight store verify postgres://relight@db/work --json\n\n\
        Two stores with the same hashes have the same rows. The store may be in use: it is read as of\n\
        one moment. Exit code 65: something is wrong, as printed; 69: there is no such store."
    )]
    Verify(UrlArguments),
    /// Prepare a store that was restored from a backup, before anything uses it
    #[command(after_help = "Example:\n  relight store restored\n\n\
        A restored store would issue fences again that live writers may still have. This command raises\n\
        all fences beyond any that was ever issued: holders from the later state are refused (77).\n\
        Holders are kept; live ones take their work again.")]
    Restored(UrlArguments),
}

/// `store copy`.
#[derive(Debug, Args)]
pub(crate) struct CopyArguments {
    /// The store to read: sqlite:PATH or postgres://USER@HOST/DATABASE
    pub(crate) from: String,
    /// The store to fill; created if it does not exist
    pub(crate) to: String,
}

/// `store verify`, `store restored`.
#[derive(Debug, Args)]
pub(crate) struct UrlArguments {
    /// Which store: sqlite:PATH or postgres://USER@HOST/DATABASE [default: as for every command]
    #[arg(value_name = "URL")]
    pub(crate) url: Option<String>,
}
