//! Flags of `relight task`.

use clap::{Args, Subcommand};
use relight_core::ids::{AgentName, IdempotencyKey, StepName, TaskId};
use relight_core::status::TaskStatus;
use relight_core::time::{Moment, Span};

use super::{ConfigFile, HolderArguments, UsageArguments};
use crate::values;

/// Verbs of a task.
#[derive(Debug, Subcommand)]
pub(crate) enum TaskCommand {
    /// Add a task to the queue
    #[command(
        after_help = "Example:\n  relight task add report-7 --title 'Weekly report' --step fetch --step write --key week-18"
    )]
    Add(AddArguments),
    /// Start a task, or continue it where it was; takes the lease
    #[command(
        after_help = "Example:\n  eval \"$(relight task start report-7 --owner-pid $$ --export)\"\n  echo \"fence $RELIGHT_FENCE, next: $RELIGHT_NEXT_STEP\""
    )]
    Start(TaskStartArguments),
    /// Take the next task of the queue
    #[command(
        after_help = "Examples:\n  relight task claim --agent writer --owner-pid $$ --wait 5m --json\n  \
        eval \"$(relight task claim --agent painter --skill gpu --export)\"\n\n\
        Also applies the strategy to tasks whose holder died. Exit code 1: there is no task; 75: nothing\n\
        is started while draining, or the agent already holds its maximum number of tasks; 78: the\n\
        configuration is wrong."
    )]
    Claim(ClaimArguments),
    /// Store context that a successor needs
    #[command(after_help = "Example:\n  relight task set report-7 branch=fix-42 stage=review")]
    Set(SetArguments),
    /// Finish a task
    #[command(after_help = "Example:\n  relight task done report-7\n\n\
        Refused with exit code 1 while declared steps are neither finished nor skipped; the message\n\
        names them. relight step skip closes one on purpose.")]
    Done(DoneArguments),
    /// Hand a task in for review
    #[command(after_help = "Example:\n  relight task review report-7")]
    Review(ReviewArguments),
    /// Record that a task failed; its strategy decides what happens next
    #[command(
        after_help = "Example:\n  relight task fail report-7 --reason 'the API is gone'\n\n\
        Prints whether it may be taken again. Exit code 0 for every decision; 78: the configuration is\n\
        wrong. If the strategy fails, hangs or gives an invalid answer, that is printed on standard\n\
        error and recorded, and fail-and-reassign decides instead."
    )]
    Fail(FailArguments),
    /// Add cost and model turns to a task
    #[command(
        after_help = "Example:\n  relight task spend report-7 --cost 0.25 --turns 3\n\n\
        Counts towards cost_max of [queue] and is never reset. Exceeding it stops nothing: the holder\n\
        may finish, and the next recovery parks the task. step run and step end take the same flags."
    )]
    Spend(SpendArguments),
    /// Block a task until a person acts
    #[command(after_help = "Example:\n  relight task block report-7 --reason 'needs a review'")]
    Block(ReasonArguments),
    /// Defer a task
    #[command(
        after_help = "Example:\n  relight task defer report-7 --until 30m --reason 'rate limit'"
    )]
    Defer(DeferArguments),
    /// Cancel a task (for people: needs no fence)
    #[command(after_help = "Example:\n  relight task cancel report-7 --reason 'no longer needed'")]
    Cancel(CancelArguments),
    /// Assign a task again (for people: needs no fence)
    #[command(after_help = "Example:\n  relight task retry report-7 --agent writer-2")]
    Retry(RetryArguments),
    /// Release the lease of a task
    #[command(after_help = "Example:\n  relight task release report-7 --force")]
    Release(ReleaseArguments),
    /// Show a task with its steps
    #[command(after_help = "Example:\n  relight task show report-7 --json")]
    Show(TaskIdArguments),
    /// List tasks
    #[command(after_help = "Example:\n  relight task list --status interrupted --status blocked")]
    List(TaskListArguments),
    /// Print the table of allowed transitions
    #[command(after_help = "Example:\n  relight task states")]
    States,
}

/// What a new task is.
#[derive(Debug, Clone, Args)]
pub(crate) struct NewArguments {
    /// One line for people
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) title: Option<String>,
    /// The agent that the task belongs to
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<AgentName>,
    /// A declared step (repeat for more, in order)
    #[arg(long = "step", value_name = "NAME")]
    pub(crate) steps: Vec<StepName>,
    /// Input for the agent
    #[arg(long, value_name = "JSON", value_parser = values::json, allow_negative_numbers = true)]
    pub(crate) payload: Option<serde_json::Value>,
    /// What happens when its holder dies: fail-and-reassign, resume, suspend or exec
    #[arg(long, value_name = "NAME")]
    pub(crate) strategy: Option<String>,
    /// How often it may be reassigned after a failure [default: 1]
    #[arg(long, value_name = "N")]
    pub(crate) max_retries: Option<u32>,
    /// Idempotency key: a second task with the same key is not created
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<IdempotencyKey>,
    /// Priority; larger goes first
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        allow_negative_numbers = true
    )]
    pub(crate) priority: i32,
    /// A skill that an agent needs to take it (repeat for more)
    #[arg(long = "skill", value_name = "WORD", value_parser = values::skill)]
    pub(crate) skills: Vec<String>,
    /// Time after which it is not worth resuming; 0s: never expires
    #[arg(long, value_name = "DURATION")]
    pub(crate) ttl: Option<Span>,
    /// Context that a successor needs (repeat for more)
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = values::pair)]
    pub(crate) context: Vec<(String, String)>,
    /// Where the strategy exec has its command.
    #[command(flatten)]
    pub(crate) config: ConfigFile,
}

/// `task add`.
#[derive(Debug, Args)]
pub(crate) struct AddArguments {
    /// The task's id: 1–128 of A-Za-z0-9._:@/-
    pub(crate) id: TaskId,
    /// What it is.
    #[command(flatten)]
    pub(crate) new: NewArguments,
}

/// `task start`.
#[derive(Debug, Args)]
pub(crate) struct TaskStartArguments {
    /// The task [default: $RELIGHT_TASK]
    pub(crate) id: Option<TaskId>,
    /// What it is, when it is absent.
    #[command(flatten)]
    pub(crate) new: NewArguments,
    /// Whose life the lease follows.
    #[command(flatten)]
    pub(crate) holder: HolderArguments,
    /// Print shell lines that set RELIGHT_TASK, RELIGHT_FENCE, RELIGHT_RESUMED, RELIGHT_NEXT_STEP,
    /// RELIGHT_STATE_FILE, and the context: as RELIGHT_CONTEXT (JSON) and as one variable
    /// RELIGHT_CONTEXT_NAME per value
    #[arg(long, conflicts_with = "json")]
    pub(crate) export: bool,
    /// Start it even if it is blocked or suspended, or has used up its budget
    #[arg(long)]
    pub(crate) force: bool,
    /// Continue the lease that has this fence [default: $RELIGHT_FENCE]
    #[arg(long, value_name = "N", value_parser = values::number)]
    pub(crate) fence: Option<u64>,
}

/// `task claim`.
#[derive(Debug, Args)]
pub(crate) struct ClaimArguments {
    /// The agent that claims [default: $RELIGHT_AGENT]
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<AgentName>,
    /// A skill, in addition to those that the store has for it (repeat for more)
    #[arg(long = "skill", value_name = "WORD", value_parser = values::skill)]
    pub(crate) skills: Vec<String>,
    /// Whose life the lease follows.
    #[command(flatten)]
    pub(crate) holder: HolderArguments,
    /// Where strategies and limits are.
    #[command(flatten)]
    pub(crate) config: ConfigFile,
    /// Wait up to this long for a task
    #[arg(long, value_name = "DURATION")]
    pub(crate) wait: Option<Span>,
    /// Print shell lines that set RELIGHT_TASK, RELIGHT_FENCE, RELIGHT_RESUMED, RELIGHT_NEXT_STEP,
    /// RELIGHT_STATE_FILE, and the context: as RELIGHT_CONTEXT (JSON) and as one variable
    /// RELIGHT_CONTEXT_NAME per value
    #[arg(long, conflicts_with = "json")]
    pub(crate) export: bool,
}

/// Which task, by what right.
#[derive(Debug, Args)]
pub(crate) struct TaskEndArguments {
    /// The task [default: $RELIGHT_TASK]
    pub(crate) id: Option<TaskId>,
    /// The fence of the lease [default: $RELIGHT_FENCE]
    #[arg(long, value_name = "N", value_parser = values::number)]
    pub(crate) fence: Option<u64>,
}

/// `task done`.
#[derive(Debug, Args)]
pub(crate) struct DoneArguments {
    /// Which, by what right.
    #[command(flatten)]
    pub(crate) which: TaskEndArguments,
    /// Finish it even if declared steps are open or failed; they are recorded
    #[arg(long)]
    pub(crate) force: bool,
}

/// `task review`.
#[derive(Debug, Args)]
pub(crate) struct ReviewArguments {
    /// Which, by what right.
    #[command(flatten)]
    pub(crate) which: TaskEndArguments,
    /// Hand it in even if it is blocked or suspended, as a person outside of an agent may
    #[arg(long)]
    pub(crate) force: bool,
}

/// `task set`.
#[derive(Debug, Args)]
pub(crate) struct SetArguments {
    /// The task [default: $RELIGHT_TASK], then KEY=VALUE pairs
    #[arg(value_name = "[ID] KEY=VALUE", required = true)]
    pub(crate) words: Vec<String>,
    /// The fence of the lease [default: $RELIGHT_FENCE]
    #[arg(long, value_name = "N", value_parser = values::number)]
    pub(crate) fence: Option<u64>,
}

/// `task fail`.
#[derive(Debug, Args)]
pub(crate) struct FailArguments {
    /// Which, by what right.
    #[command(flatten)]
    pub(crate) which: TaskEndArguments,
    /// Why
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) reason: String,
    /// Record it even if the task is blocked or suspended, as a person outside of an agent may
    #[arg(long)]
    pub(crate) force: bool,
    /// Where strategies and limits are.
    #[command(flatten)]
    pub(crate) config: ConfigFile,
}

/// `task spend`.
#[derive(Debug, Args)]
pub(crate) struct SpendArguments {
    /// Which, by what right.
    #[command(flatten)]
    pub(crate) which: TaskEndArguments,
    /// How much.
    #[command(flatten)]
    pub(crate) usage: UsageArguments,
}

/// `task block`.
#[derive(Debug, Args)]
pub(crate) struct ReasonArguments {
    /// Which, by what right.
    #[command(flatten)]
    pub(crate) which: TaskEndArguments,
    /// Why
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) reason: String,
}

/// `task defer`.
#[derive(Debug, Args)]
pub(crate) struct DeferArguments {
    /// Which, by what right.
    #[command(flatten)]
    pub(crate) which: TaskEndArguments,
    /// When it continues: a time, or a duration from now
    #[arg(long, value_name = "TIME|DURATION", value_parser = values::later)]
    pub(crate) until: Moment,
    /// Why
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) reason: Option<String>,
}

/// `task cancel`.
#[derive(Debug, Args)]
pub(crate) struct CancelArguments {
    /// The task [default: $RELIGHT_TASK]
    pub(crate) id: Option<TaskId>,
    /// Why
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) reason: Option<String>,
}

/// `task retry`.
#[derive(Debug, Args)]
pub(crate) struct RetryArguments {
    /// The task [default: $RELIGHT_TASK]
    pub(crate) id: Option<TaskId>,
    /// The new agent [default: the same agent as before]
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<AgentName>,
    /// Assign it even if no retry is left, or a live holder has it
    #[arg(long)]
    pub(crate) force: bool,
}

/// `task release`.
#[derive(Debug, Args)]
pub(crate) struct ReleaseArguments {
    /// Which, by what right.
    #[command(flatten)]
    pub(crate) which: TaskEndArguments,
    /// Take it even from a live holder, whose later writes are refused
    #[arg(long)]
    pub(crate) force: bool,
}

/// One task.
#[derive(Debug, Args)]
pub(crate) struct TaskIdArguments {
    /// The task [default: $RELIGHT_TASK]
    pub(crate) id: Option<TaskId>,
}

/// `task list`.
#[derive(Debug, Args)]
pub(crate) struct TaskListArguments {
    /// Only tasks with this status (repeat for more)
    #[arg(long = "status", value_name = "STATUS")]
    pub(crate) statuses: Vec<TaskStatus>,
    /// Only tasks of this agent
    #[arg(long, value_name = "NAME", value_parser = AgentName::of_workflow)]
    pub(crate) agent: Option<AgentName>,
    /// Only tasks with a step in doubt
    #[arg(long)]
    pub(crate) in_doubt: bool,
    /// Only tasks whose id, title or steps contain this text
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) find: Option<String>,
    /// Newest first
    #[arg(long)]
    pub(crate) newest: bool,
    /// Maximum number to list, 1 to 1000
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub(crate) limit: usize,
    /// Only tasks that come after this one
    #[arg(long, value_name = "ID")]
    pub(crate) after: Option<TaskId>,
}
