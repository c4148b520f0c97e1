//! Flags of `relight step`.

use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use relight_core::ids::{StepName, TaskId};
use relight_core::step::RepeatRule;
use relight_core::time::Span;

use super::UsageArguments;
use crate::values;

/// Verbs of a step.
#[derive(Debug, Subcommand)]
pub(crate) enum StepCommand {
    /// Run a command as a step: recorded when it ends, not run again once finished
    #[command(after_help = "Examples:\n  relight step run build -- make release\n  \
        relight step run pay --repeat once -- ./pay.sh\n  \
        relight step run push --repeat verify --verify 'test -n \"$(git ls-remote origin v1)\"' -- git push origin v1\n\n\
        Exit code: the command's own (128+n for a signal, 124 for a timeout);\n\
        75 if the step is in doubt and must not be repeated.")]
    Run(StepRunArguments),
    /// Record that a step is about to run; exits with 0 (run it), 1 (finished) or 75 (in doubt)
    #[command(
        after_help = "Example:\n  relight step begin publish --repeat once && ./publish.sh && relight step end publish"
    )]
    Begin(StepBeginArguments),
    /// Record that a step has run
    #[command(
        after_help = "Examples:\n  relight step end publish --output result.txt\n  \
        relight step end draft --cost 0.12 --turns 4"
    )]
    End(StepEndArguments),
    /// List the steps of a task
    #[command(after_help = "Example:\n  relight step list --task report-7")]
    List(StepListArguments),
    /// Show one step: state, rule, tries, when it ran and how long
    #[command(
        after_help = "Examples:\n  relight step show build --task report-7\n  \
        relight step show fetch --task report-7 --occurrence 2 --json\n\n\
        Exit code 1: there is no such step."
    )]
    Show(StepShowArguments),
    /// Print what a step wrote, as it was recorded
    #[command(
        after_help = "Examples:\n  relight step output build --task report-7\n  \
        relight step output build --task report-7 --stderr\n\n\
        Secrets are redacted; of a long output the beginning and the end are kept. Exit code 1: there is\n\
        no such step, or it has not ended."
    )]
    Output(StepOutputArguments),
    /// Record whether a step in doubt happened (for people: needs no fence)
    #[command(after_help = "Example:\n  relight step resolve publish --task report-7 --happened")]
    Resolve(ResolveArguments),
    /// Close a step on purpose without doing it
    #[command(
        after_help = "Example:\n  relight step skip translate --task report-7 --reason 'only one language'\n\n\
        A step that began and did not end is refused: use relight step end or step resolve first."
    )]
    Skip(SkipArguments),
}

/// Which task, by what right.
#[derive(Debug, Clone, Args)]
pub(crate) struct OfTask {
    /// The task [default: $RELIGHT_TASK]
    #[arg(long, value_name = "ID")]
    pub(crate) task: Option<TaskId>,
    /// Which use of this name, from 1
    #[arg(long, value_name = "N", default_value = "1", value_parser = values::occurrence)]
    pub(crate) occurrence: NonZeroU32,
    /// The fence of the lease [default: $RELIGHT_FENCE]
    #[arg(long, value_name = "N", value_parser = values::number)]
    pub(crate) fence: Option<u64>,
}

/// `step run`.
#[derive(Debug, Args)]
pub(crate) struct StepRunArguments {
    /// The step's name
    pub(crate) name: StepName,
    /// Of which task.
    #[command(flatten)]
    pub(crate) of: OfTask,
    /// What to do if it began earlier and did not end: keyed, repeatable, verify or once [default: keyed]
    #[arg(long, value_name = "RULE")]
    pub(crate) repeat: Option<RepeatRule>,
    /// For the rule verify: a command that exits 0 if it happened, 1 if it did not (run by sh -c)
    #[arg(long, value_name = "COMMAND")]
    pub(crate) verify: Option<String>,
    /// Stop the command after this long (exit code 124); 0s: never
    #[arg(long, value_name = "DURATION")]
    pub(crate) timeout: Option<Span>,
    /// What it has used.
    #[command(flatten)]
    pub(crate) usage: UsageArguments,
    /// Exit codes other than 0 that finish the step, such as 1,3
    #[arg(long, value_name = "CODES", value_delimiter = ',')]
    pub(crate) accept: Vec<u8>,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<std::ffi::OsString>,
}

/// `step begin`.
#[derive(Debug, Args)]
pub(crate) struct StepBeginArguments {
    /// The step's name
    pub(crate) name: StepName,
    /// Of which task.
    #[command(flatten)]
    pub(crate) of: OfTask,
    /// What to do if it began earlier and did not end: keyed, repeatable, verify or once
    #[arg(long, value_name = "RULE", default_value_t)]
    pub(crate) repeat: RepeatRule,
}

/// `step end`.
#[derive(Debug, Args)]
pub(crate) struct StepEndArguments {
    /// The step's name
    pub(crate) name: StepName,
    /// Of which task.
    #[command(flatten)]
    pub(crate) of: OfTask,
    /// It failed; it may be run again
    #[arg(long)]
    pub(crate) failed: bool,
    /// What it has used.
    #[command(flatten)]
    pub(crate) usage: UsageArguments,
    /// Store this file's content as the step's output (- for standard input)
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// `step list`.
#[derive(Debug, Args)]
pub(crate) struct StepListArguments {
    /// The task [default: $RELIGHT_TASK]
    #[arg(long, value_name = "ID")]
    pub(crate) task: Option<TaskId>,
}

/// `step show`.
#[derive(Debug, Args)]
pub(crate) struct StepShowArguments {
    /// The step's name
    pub(crate) name: StepName,
    /// The task [default: $RELIGHT_TASK]
    #[arg(long, value_name = "ID")]
    pub(crate) task: Option<TaskId>,
    /// Which use of this name, from 1
    #[arg(long, value_name = "N", default_value = "1", value_parser = values::occurrence)]
    pub(crate) occurrence: NonZeroU32,
}

/// `step output`.
#[derive(Debug, Args)]
pub(crate) struct StepOutputArguments {
    /// Which step.
    #[command(flatten)]
    pub(crate) of: StepShowArguments,
    /// Print the end of standard error instead
    #[arg(long)]
    pub(crate) stderr: bool,
}

/// `step resolve`.
#[derive(Debug, Args)]
pub(crate) struct ResolveArguments {
    /// The step's name
    pub(crate) name: StepName,
    /// Of which task.
    #[command(flatten)]
    pub(crate) of: OfTask,
    /// What became of it.
    #[command(flatten)]
    pub(crate) answer: StepResolution,
}

/// `step skip`.
#[derive(Debug, Args)]
pub(crate) struct SkipArguments {
    /// The step's name
    pub(crate) name: StepName,
    /// Of which task.
    #[command(flatten)]
    pub(crate) of: OfTask,
    /// Why it is not done
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) reason: String,
}

/// What became of a step in doubt.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct StepResolution {
    /// It happened: count it as finished
    #[arg(long)]
    pub(crate) happened: bool,
    /// It did not happen: it may be run
    #[arg(long)]
    pub(crate) did_not: bool,
}
