//! Flags of the commands that supervise agents.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use relight_core::agent::{AgentStateKind, RestartRule};
use relight_core::ids::{AgentName, TaskId};
use relight_core::status::TaskStatus;
use relight_core::task::Cost;
use relight_core::time::Span;
use relight_runtime::transcripts::Format;

use crate::log::LogFormat;
use crate::values;

/// `run`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  relight run -- ./agent.sh\n  \
    relight run --name writer --preset claude-code --task report-7 -- claude -p 'Write the report'\n  \
    relight run --loop --until './all-done.sh --quiet' --max-iterations 50 -- ./one-round.sh\n\n\
    The command gets its arguments unchanged: no shell is involved. It is restarted after every death\n\
    that is not a success: the first time at once, then after a growing cooldown. The exit code is the\n\
    agent's own (128+n for a signal, 124 for a timeout). --json prints one JSON document at the end,\n\
    which says whose code it is, and none of the agent's output. Exit code 75: the agent has another\n\
    supervisor, another command runs under its name, or nothing is started while draining; 127: the\n\
    program does not exist; 126: it may not be executed. If the agent exits with 75 (\"later\"),\n\
    Relight waits and charges nothing.\n\n\
    The output is shown live: on a terminal without control sequences other than colours, unless\n\
    --raw is given; into a pipe or file unchanged.\n\n\
    --until and --resume-args take words separated by spaces; '…' and \"…\" keep a word together, a\n\
    backslash keeps the next character. Nothing is expanded.")]
pub(crate) struct RunArguments {
    /// The agent's name [default: the name of the program, or of the script that it runs]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<AgentName>,
    /// The kind of agent; relight presets list shows all [default: generic]
    #[arg(long, value_name = "NAME")]
    pub(crate) preset: Option<String>,
    /// The task it works on; started, and held while an attempt is alive
    #[arg(long, value_name = "ID", value_parser = TaskId::strict)]
    pub(crate) task: Option<TaskId>,
    /// When to restart it
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = RestartChoice::OnFailure)]
    pub(crate) restart: RestartChoice,
    /// Recoveries in a row without progress; the next death terminates it
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(crate) max_attempts: u32,
    /// Delay before the second recovery in a row; further ones wait longer
    #[arg(long, value_name = "DURATION", default_value = "60s")]
    pub(crate) cooldown: Span,
    /// Count it as hung after this long without a sign of life; 0s switches it off
    #[arg(long, value_name = "DURATION", default_value = "180s")]
    pub(crate) silence_max: Span,
    /// How long an open step or tool call without a time limit explains silence; 0s for as long as it
    /// is open
    #[arg(long, value_name = "DURATION", default_value = "1h")]
    pub(crate) step_silence_max: Span,
    /// Time limit for one attempt [default: no limit, as 0s]
    #[arg(long, value_name = "DURATION")]
    pub(crate) timeout: Option<Span>,
    /// Time between the first stop signal and SIGKILL
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    pub(crate) grace: Span,
    /// How long to wait when it exits with 75 ("later")
    #[arg(long, value_name = "DURATION", default_value = "60s")]
    pub(crate) defer: Span,
    /// An attempt that lives this long counts as progress
    #[arg(long, value_name = "DURATION", default_value = "10m")]
    pub(crate) stable_after: Span,
    /// Restarts within 24 h, with or without progress
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub(crate) restarts_max: u32,
    /// Maximum cost without progress, as its output reports it; then it is stopped. 0: no limit
    #[arg(long, value_name = "AMOUNT", default_value = "0")]
    pub(crate) spend_max: Cost,
    /// The same in tokens; 0 no limit
    #[arg(long, value_name = "N", default_value = "0", value_parser = values::number)]
    pub(crate) tokens_max: u64,
    /// Arguments for a resumed attempt instead of the preset's; {session} and {brief} are filled in
    #[arg(long, value_name = "WORDS", allow_hyphen_values = true, value_parser = values::words)]
    pub(crate) resume_args: Vec<values::Words>,
    /// Pass on only a short list of variables, not the whole environment
    #[arg(long)]
    pub(crate) env_clean: bool,
    /// The folder it runs in [default: this one]
    #[arg(long, value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
    /// Give it the terminal, for interactive programs
    #[arg(long)]
    pub(crate) tty: bool,
    /// Format of the log on standard error [default: $RELIGHT_LOG_FORMAT, else text]
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub(crate) log_format: Option<LogFormat>,
    /// Show its output unchanged, also on a terminal
    #[arg(long)]
    pub(crate) raw: bool,
    /// Finish its task on exit 0
    #[arg(long)]
    pub(crate) exit_completes: bool,
    /// Run it repeatedly; each round ends with exit 0
    #[arg(long = "loop")]
    pub(crate) is_loop: bool,
    /// Program to run after each round, with its arguments; its exit 0 ends the loop
    #[arg(long, value_name = "CMD", requires = "is_loop", value_parser = values::words)]
    pub(crate) until: Option<values::Words>,
    /// Maximum number of rounds, counted across restarts
    #[arg(long, value_name = "N", requires = "is_loop",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_iterations: Option<u32>,
    /// Take it from a supervisor that no longer responds
    #[arg(long)]
    pub(crate) take_over: bool,
    /// Run it as this user (root only)
    #[arg(long, value_name = "USER")]
    pub(crate) user: Option<String>,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// When an agent that ended is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RestartChoice {
    /// When it did not succeed
    OnFailure,
    /// After every exit
    Always,
    /// Never
    Never,
}

impl From<RestartChoice> for RestartRule {
    fn from(choice: RestartChoice) -> Self {
        match choice {
            RestartChoice::OnFailure => Self::OnFailure,
            RestartChoice::Always => Self::Always,
            RestartChoice::Never => Self::Never,
        }
    }
}

/// `up`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  relight up\n  relight up -d\n  relight up --config ~/agents/relight.toml\n\n\
    Supervises all agents of relight.toml in the foreground. Without --config and\n\
    $RELIGHT_CONFIG the file is looked for in this folder and those above it, then in\n\
    $XDG_CONFIG_HOME/relight. SIGHUP reloads it; SIGTERM and Ctrl-C stop the agents and end it (exit\n\
    code 143 or 130; 0 after relight down). With -d it runs in the background, the command returns once\n\
    it serves, and its log is daemon.log in the home folder.\n\
    If another program listens on port 7717, a free port is chosen and kept for the next start.\n\
    Exit code 75: it is already running; 78: the configuration is wrong, with line and column."
)]
pub(crate) struct UpArguments {
    /// Run in the background; return once it serves
    #[arg(short, long)]
    pub(crate) detach: bool,
    /// It was started by `up -d`
    #[arg(long, hide = true)]
    pub(crate) is_detached: bool,
    /// The configuration
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Serve, but start no agent before relight start NAME
    #[arg(long)]
    pub(crate) paused: bool,
    /// Take agents from a supervisor that no longer responds
    #[arg(long)]
    pub(crate) take_over: bool,
    /// Resume work even though the machine repeatedly went down soon after
    #[arg(long)]
    pub(crate) resume_anyway: bool,
    /// Address and port of the API and the dashboard [default: 127.0.0.1:7717, or a free port]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<std::net::SocketAddr>,
    /// Serve only the Unix socket
    #[arg(long, conflicts_with = "listen")]
    pub(crate) no_http: bool,
    /// Let other machines reach it; needs TLS
    #[arg(long)]
    pub(crate) allow_remote: bool,
    /// Join a fleet (several daemons, one store) as this node
    #[arg(long, value_name = "NAME")]
    pub(crate) node: Option<relight_core::ids::NodeName>,
    /// Format of the log on standard error [default: $RELIGHT_LOG_FORMAT, else text]
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub(crate) log_format: Option<LogFormat>,
}

/// `dashboard`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  relight dashboard\n  relight dashboard --print\n\n\
    The link logs one browser in, once, within a minute. Exit code 69: no daemon is running."
)]
pub(crate) struct DashboardArguments {
    /// Print the link instead of opening it
    #[arg(long)]
    pub(crate) print: bool,
}

/// `token`.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Print the admin token; create it if there is none
    #[command(
        after_help = "Example:\n  curl -H \"Authorization: Bearer $(relight token show)\" \
        http://127.0.0.1:7717/api/agents"
    )]
    Show,
    /// Replace the admin token; the old one is invalid at once, and every browser is logged out
    #[command(after_help = "Example:\n  relight token rotate")]
    Rotate,
    /// Create a token with fewer rights; it is printed only once
    #[command(
        after_help = "Examples:\n  relight token new --read-only --name grafana\n  relight token new --operate"
    )]
    New(NewTokenArguments),
    /// List the other tokens, without their secrets
    #[command(after_help = "Example:\n  relight token list --json")]
    List,
    /// Revoke a token
    #[command(
        after_help = "Example:\n  relight token revoke 9f3c2a1b\n\nExit code 1: there is no such token."
    )]
    Revoke(RevokeArguments),
}

/// `token new`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("scope").required(true).args(["read_only", "operate"]))]
pub(crate) struct NewTokenArguments {
    /// It may read everything and change nothing
    #[arg(long)]
    pub(crate) read_only: bool,
    /// It may work: tasks, steps, sessions, beats, start and stop agents
    #[arg(long)]
    pub(crate) operate: bool,
    /// What it is for
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
}

/// `token revoke`.
#[derive(Debug, Args)]
pub(crate) struct RevokeArguments {
    /// Its id, from relight token list
    pub(crate) id: String,
}

/// `down`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  relight down\n  relight down --keep-agents\n\n\
    The next relight up starts these agents again. A daemon that is frozen or has lost its socket is\n\
    ended by SIGTERM; it cannot be told to keep its agents. Exit code 69: no daemon is running. If\n\
    agents of a killed daemon are still running, they are listed with the commands that stop or adopt\n\
    them."
)]
pub(crate) struct DownArguments {
    /// Keep the agents running; the next relight up adopts them
    #[arg(long)]
    pub(crate) keep_agents: bool,
}

/// A state that `ps` filters by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListedState {
    Kind(AgentStateKind),
    /// Stopped, and waiting for a task of the queue.
    Idle,
}

impl std::str::FromStr for ListedState {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "idle" => Ok(Self::Idle),
            _ => text
                .parse()
                .map(Self::Kind)
                .map_err(|error| format!("{error}, idle")),
        }
    }
}

/// `ps`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  relight ps\n  relight ps -v\n  relight ps --all\n  relight ps --watch\n  \
    relight ps --state crashed --state terminated --json\n\n\
    Needs no daemon: reads the store, and checks the recorded processes against the live ones. Below the\n\
    table it prints what to type for each agent that needs you. -v also shows the restarts (in a row /\n\
    in all) and the supervisor of each agent. --watch stays open until Ctrl-C and shows agents, work in\n\
    flight and what needs you as they change; with --json it prints one line for each change."
)]
pub(crate) struct PsArguments {
    /// Only this agent, in full; with --all those of this name
    pub(crate) name: Option<AgentName>,
    /// Agents of all projects of this machine
    #[arg(short, long, conflicts_with = "watch")]
    pub(crate) all: bool,
    /// Stay open and show changes as they happen
    #[arg(short, long, conflicts_with = "name")]
    pub(crate) watch: bool,
    /// Only in this state (repeat for more)
    #[arg(long = "state", value_name = "STATE")]
    pub(crate) states: Vec<ListedState>,
}

/// `status`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  relight status\n  relight status --json\n\n\
    Shows the daemon, the agents, work in flight, what needs you, and the store. Needs no daemon. Exit\n\
    code 0: nothing needs you; 1: something does; 69: the store cannot be reached."
)]
pub(crate) struct StatusArguments {}

/// `start`, `stop`, `restart`.
#[derive(Debug, Args)]
pub(crate) struct NamesArguments {
    /// The agents
    #[arg(required_unless_present = "all", value_name = "NAME")]
    pub(crate) names: Vec<AgentName>,
    /// All agents of this project that have a supervisor or run; stop: also those that relight up starts
    #[arg(long, conflicts_with = "names")]
    pub(crate) all: bool,
}

/// `forget`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  relight forget writer\n\n\
    Removes an agent from relight ps, with its attempts, its own events and its log; tasks and their\n\
    events stay. An agent of relight.toml has to be taken out there first (then relight reload). DELETE\n\
    /api/agents/NAME does the same. Exit code 1: there is no such agent; 75: it runs or has a supervisor.")]
pub(crate) struct ForgetArguments {
    /// The agents
    #[arg(required = true, value_name = "NAME")]
    pub(crate) names: Vec<AgentName>,
}

/// `reload`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  relight reload\n\n\
    The daemon reads its relight.toml again: new agents are started, removed ones stopped, and changed\n\
    ones use the new values from their next attempt. SIGHUP and POST /api/reload do the same. Exit code\n\
    69: no daemon is running; 78: the file has an error, and the old configuration stays.")]
pub(crate) struct ReloadArguments {}

/// `logs`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  relight logs writer\n  relight logs writer -f -n 0\n  \
    relight logs -f\n  relight logs writer reviewer --since 10m -t\n  \
    relight logs --grep 'error|warning' --since 2026-11-15T08:00:00Z\n\n\
    Without a name it shows all agents. Lines of several agents are merged by time and begin with the\n\
    agent's name. The time of a line is when its supervisor saw it, which is within a second or so.\n\
    On a terminal colours are kept and all other control sequences are removed; into a pipe or file\n\
    the bytes of one agent are unchanged. Recognised secrets are always redacted. With -f it continues\n\
    across restarts and ends with exit code 0 on Ctrl-C, on SIGTERM, or when its output is closed.\n\
    Exit code 1: there is no such agent, or no such attempt."
)]
pub(crate) struct LogsArguments {
    /// The agents [default: all]
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<AgentName>,
    /// Follow new output
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Number of last lines to show of each agent [default: 200, or all with --since or --grep]
    #[arg(short = 'n', long, value_name = "N")]
    pub(crate) lines: Option<usize>,
    /// Show everything that is kept
    #[arg(long, conflicts_with = "lines")]
    pub(crate) all: bool,
    /// Only this attempt
    #[arg(long, value_name = "N", conflicts_with_all = ["follow", "since"])]
    pub(crate) attempt: Option<u32>,
    /// Show when each line was written
    #[arg(short, long)]
    pub(crate) timestamps: bool,
    /// Only output since then: a time, or a duration before now
    #[arg(long, value_name = "TIME|DURATION", value_parser = values::earlier)]
    pub(crate) since: Option<relight_core::time::Time>,
    /// Only lines that match this regular expression
    #[arg(long, value_name = "REGEX", allow_hyphen_values = true, value_parser = values::pattern)]
    pub(crate) grep: Option<regex_lite::Regex>,
    /// Keep control sequences, also on a terminal; secrets are still redacted
    #[arg(long)]
    pub(crate) raw: bool,
}

impl LogsArguments {
    /// How many of the last lines are wanted; none for all of them.
    pub(crate) fn last(&self) -> Option<usize> {
        const LINES: usize = 200;
        let is_search = self.since.is_some() || self.grep.is_some();
        match (self.lines, self.all || is_search) {
            (Some(lines), _) => Some(lines),
            (None, true) => None,
            (None, false) => Some(LINES),
        }
    }
}

/// `deaths`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  relight deaths\n  relight deaths writer\n  \
    relight deaths writer --attempt 7 --json\n\n\
    Newest first. With a name the newest post-mortem follows: last output, last step, steps done,\n\
    in doubt and next, memory and CPU time. Exit code 1: no such agent, or no such attempt."
)]
pub(crate) struct DeathsArguments {
    /// Only this agent, with the newest post-mortem
    pub(crate) name: Option<AgentName>,
    /// Number of newest deaths to show
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20, value_parser = values::count)]
    pub(crate) newest: usize,
    /// Only the post-mortem of this attempt
    #[arg(long, value_name = "N", requires = "name")]
    pub(crate) attempt: Option<u32>,
}

/// `beat`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  relight beat\n  relight beat --status 'reading 40 files'\n  \
    relight beat --waiting-until 30m\n\n\
    Inside an agent it needs no name: the supervisor is found by NOTIFY_SOCKET, which any sd_notify\n\
    library can use too (WATCHDOG=1). Exit code 75: no supervisor listens. If a failed beat must\n\
    not end a script, write: relight beat || true\n\n\
    The beat of an agent that reports itself goes to the daemon and renews its leases. Exit code 77: it\n\
    was stopped or restarted, or no longer holds its task; 75: it has to wait."
)]
pub(crate) struct BeatArguments {
    /// The agent [default: the one whose $NOTIFY_SOCKET this is]
    pub(crate) name: Option<AgentName>,
    /// It waits on purpose and does not count as hung before then: a time, or a duration from now
    #[arg(long, value_name = "TIME|DURATION", value_parser = values::later)]
    pub(crate) waiting_until: Option<relight_core::time::Moment>,
    /// What it is doing, in one line
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) status: Option<String>,
    /// For an agent that reports itself: the task it works on; the answer says whether it still holds it
    #[arg(long, value_name = "ID", requires = "name")]
    pub(crate) task: Option<TaskId>,
    /// For an agent that reports itself: its attempt; the answer says whether it was restarted
    #[arg(long, value_name = "N", requires = "name")]
    pub(crate) attempt: Option<u32>,
}

/// `recover`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  relight recover --dry-run\n  relight recover\n  \
    relight recover report-7 --resume\n  relight recover --all --status failed --restart --rate 2/s\n  \
    relight recover report-7 report-8 --hand-over writer-2\n\n\
    Without arguments, records the death of every holder that is gone and applies the strategy of its\n\
    work, without confirmation. --dry-run lists all waiting work, why it waits, and what will happen\n\
    to it. With --resume, --restart, --abandon or --hand-over you decide about the named tasks, or\n\
    about --all that wait; a task that is being worked on is not changed. Exit code 1: something\n\
    failed, the rest was done; 78: the configuration is wrong."
)]
pub(crate) struct RecoverArguments {
    /// The tasks to decide about
    #[arg(value_name = "TASK")]
    pub(crate) tasks: Vec<TaskId>,
    /// All tasks that wait
    #[arg(long, conflicts_with = "tasks")]
    pub(crate) all: bool,
    /// Only tasks with this status (repeat for more)
    #[arg(long = "status", value_name = "STATUS", conflicts_with = "tasks")]
    pub(crate) statuses: Vec<TaskStatus>,
    /// Only tasks of this agent
    #[arg(long, value_name = "NAME", conflicts_with = "tasks")]
    pub(crate) agent: Option<AgentName>,
    /// What to do with them.
    #[command(flatten)]
    pub(crate) deed: DeskDeed,
    /// Why they are abandoned
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true,
          conflicts_with_all = ["resume", "restart", "hand_over"])]
    pub(crate) reason: Option<String>,
    /// Maximum number per second; 0 for no limit [default: resume_rate of the configuration]
    #[arg(long, value_name = "N/s", value_parser = values::rate)]
    pub(crate) rate: Option<u32>,
    /// Only print what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Where strategies and limits are.
    #[command(flatten)]
    pub(crate) config: super::ConfigFile,
}

/// What a person decides.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct DeskDeed {
    /// Continue them where they were, with their agent, now
    #[arg(long)]
    pub(crate) resume: bool,
    /// Start them over, with their agent, now
    #[arg(long)]
    pub(crate) restart: bool,
    /// Cancel them
    #[arg(long)]
    pub(crate) abandon: bool,
    /// Continue them where they were, with this agent
    #[arg(long, value_name = "AGENT")]
    pub(crate) hand_over: Option<AgentName>,
}

/// `trap`.
#[derive(Debug, Subcommand)]
pub(crate) enum TrapCommand {
    /// Print a snippet that records why a bash loop ended
    #[command(after_help = "Examples:\n  \
        eval \"$(relight task start report-7 --owner-pid $$ --export)\"\n  \
        eval \"$(relight trap bash)\"\n\n\
        Put it after your own traps, which are kept and run. If the script ends on TERM, INT, HUP or an\n\
        exit before relight task done, the task becomes interrupted with the reason. The exit code does\n\
        not change. The trap is optional: finished work is on disk before any signal comes. As with any\n\
        trap, bash runs it once the command in the foreground has ended.")]
    Bash,
    /// What the snippet calls
    #[command(hide = true)]
    Record(RecordArguments),
}

/// `trap record`.
#[derive(Debug, Args)]
pub(crate) struct RecordArguments {
    /// The exit code
    #[arg(long, value_name = "N")]
    pub(crate) code: i32,
    /// The signal that came before
    #[arg(long, value_name = "NAME")]
    pub(crate) signal: Option<String>,
}

/// `presets`.
#[derive(Debug, Subcommand)]
pub(crate) enum PresetsCommand {
    /// List the known kinds of agents
    #[command(after_help = "Example:\n  relight presets list")]
    List,
    /// Print one preset, as TOML
    #[command(
        after_help = "Example:\n  relight presets show claude-code > ~/.config/relight/presets/mine.toml"
    )]
    Show(PresetArguments),
    /// Check a preset, and show how it starts, resumes and stops a command
    #[command(after_help = "Example:\n  relight presets test codex -- codex exec 'Fix the tests'")]
    Test(PresetTestArguments),
}

/// `presets show`.
#[derive(Debug, Args)]
pub(crate) struct PresetArguments {
    /// The preset
    pub(crate) name: String,
}

/// `presets test`.
#[derive(Debug, Args)]
pub(crate) struct PresetTestArguments {
    /// The preset
    pub(crate) name: String,
    /// As under run --tty
    #[arg(long)]
    pub(crate) tty: bool,
    /// The program and its arguments; without them only the preset itself is checked
    #[arg(last = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// `transcript`.
#[derive(Debug, Subcommand)]
pub(crate) enum TranscriptCommand {
    /// Find what a crash did to an agent's transcript
    #[command(
        after_help = "Examples:\n  relight transcript check --agent writer\n  \
        relight transcript check ~/.claude/projects/-srv-app/*.jsonl\n\n\
        Exit code 0: sound; 1: something was found that repair can fix; 65: it cannot be repaired."
    )]
    Check(TranscriptArguments),
    /// Repair a transcript so that its program can resume it; the damaged file is kept beside it
    #[command(
        after_help = "Example:\n  relight transcript repair --agent writer\n\n\
        Exit code 0: sound or repaired; 65: it cannot be repaired; 75: its program is running or has it\n\
        open."
    )]
    Repair(TranscriptArguments),
}

/// `transcript check` and `transcript repair`.
#[derive(Debug, Args)]
pub(crate) struct TranscriptArguments {
    /// The transcripts
    #[arg(
        value_name = "FILE",
        required_unless_present = "agent",
        conflicts_with = "agent"
    )]
    pub(crate) files: Vec<PathBuf>,
    /// The transcript of this agent's session
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<AgentName>,
    /// The format: claude-code, codex, gemini, kimi or qwen [default: detected from its records]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<Format>,
}
