//! Flags of `relight checkpoint`: those of the tool that agents use today.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use relight_core::checkpoint::WorkflowStatus;
use relight_core::ids::{AgentName, IdempotencyKey, StepName, TaskId};
use relight_runtime::operations::checkpoint::TTL_DAYS_DEFAULT;

use super::HolderArguments;
use crate::values;

/// Verbs of the checkpoint dialect.
#[derive(Debug, Subcommand)]
pub(crate) enum CheckpointCommand {
    /// Begin a workflow, before the first risky step
    #[command(
        after_help = "Example:\n  relight checkpoint start --workflow deploy-42 --agent ops --step backup --remaining migrate restart --idempotency deploy-42-2026-05-01"
    )]
    Start(CheckpointStartArguments),
    /// Record which step is finished and which is next
    #[command(
        after_help = "Example:\n  relight checkpoint update --workflow deploy-42 --complete backup --step migrate"
    )]
    Update(UpdateArguments),
    /// Complete the workflow and release its lease
    #[command(after_help = "Example:\n  relight checkpoint complete --workflow deploy-42")]
    Complete(CompleteArguments),
    /// Continue the oldest unfinished workflow, or the named one; takes the lease
    #[command(
        after_help = "Example:\n  relight checkpoint resume --agent ops --owner-pid $$\n\nThe answer is JSON with the fields of the file, the fence and the next step; without --workflow\nit is the line NO_CHECKPOINT if there is nothing to resume (exit code 1).\n\nExit code 75: unfinished, but another holder has it, or it waits for a person or a time."
    )]
    Resume(ResumeArguments),
    /// List workflows: id, status, current step and time of the last change, separated by tabs
    #[command(
        after_help = "Example:\n  relight checkpoint list --json\n\nA damaged file is listed as NAME and INVALID; standard error says what is wrong with it."
    )]
    List(CheckpointListArguments),
    /// Show one workflow
    #[command(after_help = "Example:\n  relight checkpoint show --workflow deploy-42")]
    Show(ShowArguments),
    /// Check files against their hash; changes nothing
    #[command(after_help = "Example:\n  relight checkpoint verify memory/checkpoints/*.json")]
    Verify(VerifyArguments),
    /// Import a checkpoint file of another machine into the store
    #[command(
        after_help = "Example:\n  relight checkpoint import /mnt/old/memory/checkpoints/deploy-42.json"
    )]
    Import(CheckpointImportArguments),
}

/// Where the files are.
#[derive(Debug, Clone, Args)]
pub(crate) struct Folder {
    /// Folder of the checkpoint files [default: $RELIGHT_CHECKPOINT_DIR, else memory/checkpoints]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

/// `checkpoint start`.
#[derive(Debug, Args)]
pub(crate) struct CheckpointStartArguments {
    /// The workflow's id: up to 512 bytes of any text without control characters
    #[arg(long, value_name = "ID")]
    pub(crate) workflow: TaskId,
    /// Who works on it; the name may be any text, like the id
    #[arg(long, value_name = "NAME", value_parser = AgentName::of_workflow)]
    pub(crate) agent: AgentName,
    /// The step that is about to be done
    #[arg(long, value_name = "NAME")]
    pub(crate) step: StepName,
    /// Idempotency key: two starts with the same key are one start; a completed one is not started again
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency: IdempotencyKey,
    /// The steps after it, in order
    #[arg(long, value_name = "NAME", num_args = 0.., value_delimiter = ',')]
    pub(crate) remaining: Vec<StepName>,
    /// Who should take over
    #[arg(long, value_name = "NAME")]
    pub(crate) handoff: Option<String>,
    /// Free text for the successor
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) notes: Option<String>,
    /// Days after which it is not worth resuming; 0 for never
    #[arg(long, value_name = "DAYS", default_value_t = TTL_DAYS_DEFAULT)]
    pub(crate) ttl_days: u32,
    /// Begin a new run over a workflow of this id that is unfinished or has ended: the old steps no
    /// longer count, but stay in the history
    #[arg(long)]
    pub(crate) force: bool,
    /// Where the files are.
    #[command(flatten)]
    pub(crate) folder: Folder,
}

/// `checkpoint update`.
#[derive(Debug, Args)]
pub(crate) struct UpdateArguments {
    /// The workflow
    #[arg(long, value_name = "ID")]
    pub(crate) workflow: TaskId,
    /// This step is finished (repeat for more)
    #[arg(long, value_name = "NAME")]
    pub(crate) complete: Vec<StepName>,
    /// This step is about to be done
    #[arg(long, value_name = "NAME")]
    pub(crate) step: Option<StepName>,
    /// The new status: in_progress, blocked (waits for a person), done or failed
    #[arg(long, value_name = "STATUS")]
    pub(crate) status: Option<WorkflowStatus>,
    /// Free text for the successor
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) notes: Option<String>,
    /// The fence of the lease [default: $RELIGHT_FENCE]
    #[arg(long, value_name = "N", value_parser = values::number)]
    pub(crate) fence: Option<u64>,
    /// Where the files are.
    #[command(flatten)]
    pub(crate) folder: Folder,
}

/// `checkpoint complete`.
#[derive(Debug, Args)]
pub(crate) struct CompleteArguments {
    /// The workflow
    #[arg(long, value_name = "ID")]
    pub(crate) workflow: TaskId,
    /// The fence of the lease [default: $RELIGHT_FENCE]
    #[arg(long, value_name = "N", value_parser = values::number)]
    pub(crate) fence: Option<u64>,
    /// Where the files are.
    #[command(flatten)]
    pub(crate) folder: Folder,
}

/// `checkpoint resume`.
#[derive(Debug, Args)]
pub(crate) struct ResumeArguments {
    /// The workflow [default: the oldest unfinished one]
    #[arg(long, value_name = "ID")]
    pub(crate) workflow: Option<TaskId>,
    /// Only workflows of this agent
    #[arg(long, value_name = "NAME", value_parser = AgentName::of_workflow)]
    pub(crate) agent: Option<AgentName>,
    /// Take it from a live holder, whose later writes are refused
    #[arg(long)]
    pub(crate) steal_lock: bool,
    /// Resume it even if it waits for a person (blocked, suspended, in review, failed for good), or
    /// has used up its budget
    #[arg(long)]
    pub(crate) force: bool,
    /// Whose life the lease follows.
    #[command(flatten)]
    pub(crate) holder: HolderArguments,
    /// Where the files are.
    #[command(flatten)]
    pub(crate) folder: Folder,
}

/// `checkpoint list`.
#[derive(Debug, Args)]
pub(crate) struct CheckpointListArguments {
    /// Workflows of every folder, not only of this one
    #[arg(long)]
    pub(crate) all: bool,
    /// Where the files are.
    #[command(flatten)]
    pub(crate) folder: Folder,
}

/// `checkpoint show`.
#[derive(Debug, Args)]
pub(crate) struct ShowArguments {
    /// The workflow
    #[arg(long, value_name = "ID")]
    pub(crate) workflow: TaskId,
    /// Where the files are.
    #[command(flatten)]
    pub(crate) folder: Folder,
}

/// `checkpoint verify`.
#[derive(Debug, Args)]
pub(crate) struct VerifyArguments {
    /// The files [default: all in the folder]
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Where the files are.
    #[command(flatten)]
    pub(crate) folder: Folder,
}

/// `checkpoint import`.
#[derive(Debug, Args)]
pub(crate) struct CheckpointImportArguments {
    /// The file
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Import it even if the store has a newer state
    #[arg(long)]
    pub(crate) force: bool,
    /// Where the files are.
    #[command(flatten)]
    pub(crate) folder: Folder,
}
