//! Flags of `relight task`.

use clap::{Args, Subcommand};
use relight_core::ids::{AgentName, IdempotencyKey, StepName, TaskId};
use relight_core::status::TaskStatus;
use relight_core::time::Span;

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
    Start(StartArguments),
    /// Take the next task of the queue
    #[command(
        after_help = "Examples:\n  relight task claim --agent writer --owner-pid $$ --wait 5m --json\n  \
        eval \"$(relight task claim --agent painter --skill gpu --export)\"\n\n\
        Tasks whose holder died are given to their strategy on the way. Exit code 1: there is no task;\n\
        75: nothing is begun while draining, or the agent holds as many tasks as it may; 78: the\n\
        configuration is wrong."
    )]
    Claim(ClaimArguments),
    /// Keep context that a successor needs
    #[command(after_help = "Example:\n  relight task set report-7 branch=fix-42 stage=review")]
    Set(SetArguments),
    /// The task is finished
    #[command(after_help = "Example:\n  relight task done report-7\n\n\
        Refused with exit code 1 while steps that were declared ahead are neither finished nor\n\
        skipped; they are named. relight step skip closes one on purpose.")]
    Done(DoneArguments),
    /// The task is done and waits for a second look
    #[command(after_help = "Example:\n  relight task review report-7")]
    Review(EndArguments),
    /// The task went wrong: its strategy is asked what becomes of it
    #[command(after_help = "Example:\n  relight task fail report-7 --reason 'the API is gone'\n\n\
        The answer says whether it may be taken again. Exit code 0 whatever it is; 78: the\n\
        configuration is wrong. A strategy that fails, hangs or talks nonsense is told of on\n\
        standard error and recorded, and fail-and-reassign decides instead.")]
    Fail(FailArguments),
    /// Work on the task has cost this much
    #[command(after_help = "Example:\n  relight task spend report-7 --cost 0.25 --turns 3\n\n\
        Counts towards cost_max of [queue] and is never reset. Over it nothing stops: the holder may\n\
        finish, and the next recovery parks the task. step run and step end take the same flags.")]
    Spend(SpendArguments),
    /// The task cannot go on before a person acts
    #[command(after_help = "Example:\n  relight task block report-7 --reason 'needs a review'")]
    Block(ReasonArguments),
    /// The task goes on later
    #[command(
        after_help = "Example:\n  relight task defer report-7 --until 30m --reason 'rate limit'"
    )]
    Defer(DeferArguments),
    /// The task is not wanted any more (a person's verb: needs no fence)
    #[command(after_help = "Example:\n  relight task cancel report-7 --reason 'no longer needed'")]
    Cancel(CancelArguments),
    /// Give the task to somebody again (a person's verb: needs no fence)
    #[command(after_help = "Example:\n  relight task retry report-7 --agent writer-2")]
    Retry(RetryArguments),
    /// Give the lease back
    #[command(after_help = "Example:\n  relight task release report-7 --force")]
    Release(ReleaseArguments),
    /// Show a task with its steps
    #[command(after_help = "Example:\n  relight task show report-7 --json")]
    Show(OneArguments),
    /// List tasks
    #[command(after_help = "Example:\n  relight task list --status interrupted --status blocked")]
    List(ListArguments),
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
    /// Whose task it is
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<AgentName>,
    /// A step that is known ahead (repeat for more, in order)
    #[arg(long = "step", value_name = "NAME")]
    pub(crate) steps: Vec<StepName>,
    /// What the agent needs to do it
    #[arg(long, value_name = "JSON", value_parser = values::json)]
    pub(crate) payload: Option<serde_json::Value>,
    /// What happens when its holder dies: fail-and-reassign, resume, suspend or exec
    #[arg(long, value_name = "NAME", value_parser = values::strategy)]
    pub(crate) strategy: Option<String>,
    /// How often it may be assigned again after a failure [default: 1]
    #[arg(long, value_name = "N")]
    pub(crate) max_retries: Option<u32>,
    /// Idempotency key: a second task with the same key is not created
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<IdempotencyKey>,
    /// Larger goes first
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    pub(crate) priority: i32,
    /// What an agent must be able to do to take it (repeat for more)
    #[arg(long = "skill", value_name = "WORD", value_parser = values::skill)]
    pub(crate) skills: Vec<String>,
    /// Not worth resuming after this long; 0s: always
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
pub(crate) struct StartArguments {
    /// The task [default: $RELIGHT_TASK]
    pub(crate) id: Option<TaskId>,
    /// What it is, when it is absent.
    #[command(flatten)]
    pub(crate) new: NewArguments,
    /// Whose life the lease follows.
    #[command(flatten)]
    pub(crate) holder: HolderArguments,
    /// Print shell lines that set RELIGHT_TASK, RELIGHT_FENCE, RELIGHT_RESUMED, RELIGHT_NEXT_STEP,
    /// RELIGHT_STATE_FILE, and the context as RELIGHT_CONTEXT (JSON) and RELIGHT_CONTEXT_NAME each
    #[arg(long, conflicts_with = "json")]
    pub(crate) export: bool,
    /// Start it also when it is blocked or suspended, or has used up its budget
    #[arg(long)]
    pub(crate) force: bool,
    /// Go on with the lease that has this fence [default: $RELIGHT_FENCE]
    #[arg(long, value_name = "N")]
    pub(crate) fence: Option<u64>,
}

/// `task claim`.
#[derive(Debug, Args)]
pub(crate) struct ClaimArguments {
    /// Who wants work [default: $RELIGHT_AGENT]
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<AgentName>,
    /// What it can do, beside what the store knows of it (repeat for more)
    #[arg(long = "skill", value_name = "WORD", value_parser = values::skill)]
    pub(crate) skills: Vec<String>,
    /// Whose life the lease follows.
    #[command(flatten)]
    pub(crate) holder: HolderArguments,
    /// Where strategies and limits are.
    #[command(flatten)]
    pub(crate) config: ConfigFile,
    /// Wait for a task this long
    #[arg(long, value_name = "DURATION")]
    pub(crate) wait: Option<Span>,
    /// Print shell lines that set RELIGHT_TASK, RELIGHT_FENCE, RELIGHT_RESUMED, RELIGHT_NEXT_STEP,
    /// RELIGHT_STATE_FILE, and the context as RELIGHT_CONTEXT (JSON) and RELIGHT_CONTEXT_NAME each
    #[arg(long, conflicts_with = "json")]
    pub(crate) export: bool,
}

/// Which task, by what right.
#[derive(Debug, Args)]
pub(crate) struct EndArguments {
    /// The task [default: $RELIGHT_TASK]
    pub(crate) id: Option<TaskId>,
    /// The fence of the lease [default: $RELIGHT_FENCE]
    #[arg(long, value_name = "N")]
    pub(crate) fence: Option<u64>,
}

/// `task done`.
#[derive(Debug, Args)]
pub(crate) struct DoneArguments {
    /// Which, by what right.
    #[command(flatten)]
    pub(crate) which: EndArguments,
    /// Also when declared steps are open or failed; they are recorded
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
    #[arg(long, value_name = "N")]
    pub(crate) fence: Option<u64>,
}

/// `task fail`.
#[derive(Debug, Args)]
pub(crate) struct FailArguments {
    /// Which, by what right.
    #[command(flatten)]
    pub(crate) which: EndArguments,
    /// Why
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) reason: String,
    /// Where strategies and limits are.
    #[command(flatten)]
    pub(crate) config: ConfigFile,
}

/// `task spend`.
#[derive(Debug, Args)]
pub(crate) struct SpendArguments {
    /// Which, by what right.
    #[command(flatten)]
    pub(crate) which: EndArguments,
    /// How much.
    #[command(flatten)]
    pub(crate) usage: UsageArguments,
}

/// `task block`.
#[derive(Debug, Args)]
pub(crate) struct ReasonArguments {
    /// Which, by what right.
    #[command(flatten)]
    pub(crate) which: EndArguments,
    /// Why
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) reason: String,
}

/// `task defer`.
#[derive(Debug, Args)]
pub(crate) struct DeferArguments {
    /// Which, by what right.
    #[command(flatten)]
    pub(crate) which: EndArguments,
    /// When it goes on: a time, or a duration from now
    #[arg(long, value_name = "TIME|DURATION", value_parser = values::later)]
    pub(crate) until: values::Moment,
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
    /// To whom; the same agent as before when none is named
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<AgentName>,
    /// Also when no retry is left, or a live holder has it
    #[arg(long)]
    pub(crate) force: bool,
}

/// `task release`.
#[derive(Debug, Args)]
pub(crate) struct ReleaseArguments {
    /// Which, by what right.
    #[command(flatten)]
    pub(crate) which: EndArguments,
    /// Take it from a live holder too; its later writes are refused
    #[arg(long)]
    pub(crate) force: bool,
}

/// One task.
#[derive(Debug, Args)]
pub(crate) struct OneArguments {
    /// The task [default: $RELIGHT_TASK]
    pub(crate) id: Option<TaskId>,
}

/// `task list`.
#[derive(Debug, Args)]
pub(crate) struct ListArguments {
    /// Only of this status (repeat for more)
    #[arg(long = "status", value_name = "STATUS")]
    pub(crate) statuses: Vec<TaskStatus>,
    /// Only of this agent
    #[arg(long, value_name = "NAME", value_parser = AgentName::of_workflow)]
    pub(crate) agent: Option<AgentName>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = values::count)]
    pub(crate) limit: usize,
    /// Only those added after this one
    #[arg(long, value_name = "ID")]
    pub(crate) after: Option<TaskId>,
}
