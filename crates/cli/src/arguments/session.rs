//! Flags of `relight session`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use relight_core::ids::{SessionId, SessionKey};
use relight_core::session::{Policy, SessionStateKind};
use relight_core::time::Span;

use super::HolderArguments;
use crate::values;

/// Verbs of a session.
#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// Mark a turn before it runs; prints its generation
    #[command(
        after_help = "Examples:\n  turn=$(relight session begin telegram:dm:42 --id \"$conversation\" --owner-pid $$)\n  relight session end telegram:dm:42 --generation \"$turn\"\n\n\
        The mark is on disk when it returns. A newer turn of the same owner replaces the older one. Exit\n\
        code 75: another live owner has a turn in flight; 1: the session was suspended on purpose.\n\
        Without --owner-pid, outside of relight run, all callers of one user count as one owner."
    )]
    Begin(SessionBeginArguments),
    /// End a turn; clears only its own mark
    #[command(
        after_help = "Example:\n  relight session end telegram:dm:42 --generation 7\n\n\
        Exit code 77: the turn is not the newest, or its mark was removed; nothing was changed. 1: there\n\
        is no such session."
    )]
    End(SessionEndArguments),
    /// Record activity in a session whose turns are not marked
    #[command(
        after_help = "Example:\n  relight session touch telegram:dm:42 --id \"$conversation\"\n\n\
        For gateways that cannot mark turns: after a crash, recovery finds sessions that were active\n\
        within the time window. A session that was ever marked is not found that way."
    )]
    Touch(TouchArguments),
    /// List sessions
    #[command(after_help = "Example:\n  relight session list --state resume_pending --json")]
    List(SessionListArguments),
    /// Show a session
    #[command(after_help = "Example:\n  relight session show telegram:dm:42 --json")]
    Show(SessionKeyArguments),
    /// Resume a session that was cut off, suspended or expired
    #[command(after_help = "Example:\n  relight session resume telegram:dm:42\n\n\
        The session becomes idle; the answer has its id and context. Its count of deaths is reset. Exit\n\
        code 1: there is nothing to resume; 75: a turn is in flight.")]
    Resume(SessionKeyArguments),
    /// Suspend a session: no turn begins until it is resumed
    #[command(
        after_help = "Example:\n  relight session suspend telegram:dm:42 --reason 'waits for the customer'\n\n\
        A turn in flight loses its mark: its end is refused (77)."
    )]
    Suspend(SuspendArguments),
    /// Clear a session's mark, reason, deaths and context
    #[command(after_help = "Example:\n  relight session clear telegram:dm:42")]
    Clear(SessionKeyArguments),
    /// Discard the marks of a gateway that stops cleanly
    #[command(after_help = "Example:\n  relight session shutdown --owner-pid $$\n\n\
        Turns of other owners keep their marks.")]
    Shutdown(ShutdownArguments),
    /// Decide what happens to each session whose turn was cut off, and return them; call it when a
    /// gateway starts
    #[command(
        after_help = "Examples:\n  relight session recover --json\n  relight session recover --policy resume_pending\n\n\
        It finds exactly the sessions whose turn was in flight and whose owner is gone. A session that\n\
        lost three owners in a row without a finished turn is suspended, whatever the policy. Flags that\n\
        are not given default to [sessions] in relight.toml."
    )]
    Recover(SessionRecoverArguments),
    /// Import the turns in flight that a gateway keeps in agent_checkpoints.json
    #[command(
        after_help = "Example:\n  relight session import agent_checkpoints.json && relight session recover\n\n\
        Exit code 65: the file or some of its entries are damaged, and the others were imported; 1: the\n\
        store has a newer generation than some of them."
    )]
    Import(SessionImportArguments),
    /// Write the turns in flight as agent_checkpoints.json
    #[command(after_help = "Example:\n  relight session export agent_checkpoints.json")]
    Export(FileArguments),
}

/// `session begin`.
#[derive(Debug, Args)]
pub(crate) struct SessionBeginArguments {
    /// The session: up to 512 bytes of any text without control characters [default: $RELIGHT_SESSION]
    pub(crate) key: Option<SessionKey>,
    /// The agent's own id of the conversation
    #[arg(long, value_name = "ID")]
    pub(crate) id: SessionId,
    /// Whose life the turn follows.
    #[command(flatten)]
    pub(crate) holder: HolderArguments,
    /// Context for the next turn after a crash (repeat for more)
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = values::pair)]
    pub(crate) context: Vec<(String, String)>,
    /// Print shell lines that set RELIGHT_SESSION, RELIGHT_GENERATION, RELIGHT_RESUMED
    #[arg(long, conflicts_with = "json")]
    pub(crate) export: bool,
}

/// `session end`.
#[derive(Debug, Args)]
pub(crate) struct SessionEndArguments {
    /// The session [default: $RELIGHT_SESSION]
    pub(crate) key: Option<SessionKey>,
    /// The turn's generation, as begin printed it [default: $RELIGHT_GENERATION]
    #[arg(long, value_name = "N", value_parser = values::number)]
    pub(crate) generation: Option<u64>,
}

/// `session touch`.
#[derive(Debug, Args)]
pub(crate) struct TouchArguments {
    /// The session [default: $RELIGHT_SESSION]
    pub(crate) key: Option<SessionKey>,
    /// The agent's own id of the conversation
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<SessionId>,
    /// Renew the mark of this turn, as begin printed it
    #[arg(long, value_name = "N", value_parser = values::number)]
    pub(crate) generation: Option<u64>,
    /// The gateway that saw it [default: the attempt, in an agent under relight run or up; else this
    /// user]
    #[arg(long, value_name = "PID")]
    pub(crate) owner_pid: Option<u32>,
}

/// One session.
#[derive(Debug, Args)]
pub(crate) struct SessionKeyArguments {
    /// The session [default: $RELIGHT_SESSION]
    pub(crate) key: Option<SessionKey>,
}

/// `session suspend`.
#[derive(Debug, Args)]
pub(crate) struct SuspendArguments {
    /// The session [default: $RELIGHT_SESSION]
    pub(crate) key: Option<SessionKey>,
    /// Why
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) reason: Option<String>,
}

/// `session list`.
#[derive(Debug, Args)]
pub(crate) struct SessionListArguments {
    /// Only in this state: idle, active, resume_pending, suspended or expired (repeat for more)
    #[arg(long = "state", value_name = "STATE")]
    pub(crate) states: Vec<SessionStateKind>,
    /// Maximum number to list
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub(crate) limit: usize,
    /// Only sessions after this key, in key order
    #[arg(long, value_name = "KEY")]
    pub(crate) after: Option<SessionKey>,
}

/// `session shutdown`.
#[derive(Debug, Args)]
pub(crate) struct ShutdownArguments {
    /// The owner of the marks: this process, even if it has ended [default: the attempt, in an agent
    /// under relight run or up; else this user]
    #[arg(long, value_name = "PID")]
    pub(crate) owner_pid: Option<u32>,
}

/// `session recover`.
#[derive(Debug, Args)]
pub(crate) struct SessionRecoverArguments {
    /// What happens to them: suspend or resume_pending [default: from relight.toml, else suspend]
    #[arg(long, value_name = "POLICY")]
    pub(crate) policy: Option<Policy>,
    /// How recently a session that was never marked must have been active; 0s finds none [default: from
    /// relight.toml, else 120s]
    #[arg(long, value_name = "DURATION")]
    pub(crate) window: Option<Span>,
    /// How long a resume_pending session may wait to be resumed, from now on; 0s for ever [default: from
    /// relight.toml, else 1h]
    #[arg(long, value_name = "DURATION")]
    pub(crate) freshness: Option<Span>,
    /// Only print what would be decided
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// The configuration [default: $RELIGHT_CONFIG, else the nearest relight.toml, else the user's]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// `session import`.
#[derive(Debug, Args)]
pub(crate) struct SessionImportArguments {
    /// Which file.
    #[command(flatten)]
    pub(crate) file: FileArguments,
    /// The gateway that keeps the file, if it is still running; otherwise its turns count as cut off
    #[arg(long, value_name = "PID")]
    pub(crate) owner_pid: Option<u32>,
}

/// A file of marks.
#[derive(Debug, Args)]
pub(crate) struct FileArguments {
    /// The file; - for standard input or output
    #[arg(default_value = "agent_checkpoints.json", value_parser = values::new_path())]
    pub(crate) file: PathBuf,
}
