//! Flags of the smaller commands.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use clap_complete::Shell;
use relight_core::ids::{AgentName, TaskId};
use relight_core::time::Span;

use super::hook::HookProgram;
use crate::values;

/// `check`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  relight check --stale 10m --root ~/work --log ~/relight-check.log\n\n\
    Prints OK, or one ALERT line per finding. Exit code 1: unfinished work is older than the threshold;\n\
    65: a file is damaged. Needs no model, no daemon and no network."
)]
pub(crate) struct CheckArguments {
    /// Alert when unfinished work was not touched for this long
    #[arg(long, value_name = "DURATION", default_value = "10m")]
    pub(crate) stale: Span,
    /// A workspace whose checkpoint files are checked too (repeat for more) [default: this folder]
    #[arg(long = "root", value_name = "DIR")]
    pub(crate) roots: Vec<PathBuf>,
    /// Append the output to this file, with the time
    #[arg(long, value_name = "FILE", value_parser = values::new_path())]
    pub(crate) log: Option<PathBuf>,
}

/// `prune`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  relight prune --dry-run")]
pub(crate) struct PruneArguments {
    /// Only print what would be removed
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Remove finished work, with its idempotency key, and events older than this
    #[arg(long, value_name = "DURATION", default_value = "30d")]
    pub(crate) older_than: Span,
}

/// `drain`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  relight drain --wait 10m && sudo reboot\n  relight drain --cancel\n\n\
    Running work is finished; nothing new is started: task claim finds nothing (75), task start\n\
    defers (75), agents of up and run are not started again.\n\
    --wait waits for held tasks, turns in flight and running agents, but not for agents that wait for\n\
    work. Stop an agent that never ends: relight stop NAME.\n\
    The drain survives a restart of the daemon, but not a reboot. Exit code 1: with --wait, something\n\
    is still running when the time is over."
)]
pub(crate) struct DrainArguments {
    /// End the drain
    #[arg(long, conflicts_with = "wait")]
    pub(crate) cancel: bool,
    /// Wait until nothing is running, without limit or this long
    #[arg(long, value_name = "DURATION", num_args = 0..=1)]
    pub(crate) wait: Option<Option<Span>>,
}

/// `trust`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  relight trust\n  relight trust ~/work/relight.toml\n  relight trust --list\n\n\
    A relight.toml that was found in the working folder needs approval: until then its [store] url,\n\
    [recovery] exec, [alert] command and [alert] webhook are refused with exit code 78. A changed file\n\
    needs a new approval. A file named by --config or RELIGHT_CONFIG needs none, and relight up approves\n\
    the file that it runs. Exit code 1: with --remove, nothing was approved; 78: it cannot be approved."
)]
pub(crate) struct TrustArguments {
    /// The file, or its folder [default: the nearest relight.toml]
    pub(crate) path: Option<PathBuf>,
    /// List approved files
    #[arg(long, conflicts_with_all = ["path", "remove"])]
    pub(crate) list: bool,
    /// Withdraw the approval
    #[arg(long)]
    pub(crate) remove: bool,
}

/// `inflight`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  relight inflight --json\n\n\
    Steps in doubt come first, with the effect of their rule and what to type; then tasks whose holder\n\
    is gone, tasks held now, agents without a supervisor, sessions with a turn in flight.")]
pub(crate) struct InflightArguments {}

/// `doctor`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  relight doctor\n  relight doctor --salvage rescued.db\n\n\
    One line per finding: ok, warning or problem. Exit code 0: nothing worse than a warning; 65: the\n\
    store is damaged; 74, 75 or 78: as the store's error says; 1: another problem. With --salvage,\n\
    0: everything was copied; 65: something could not be read. The damaged file is never changed."
)]
pub(crate) struct DoctorArguments {
    /// Read every page of the store, not only its header
    #[arg(long)]
    pub(crate) whole: bool,
    /// Copy what can be read of a damaged store into this new file [default: beside the store]
    #[arg(long, value_name = "FILE", num_args = 0..=1, value_parser = values::new_path())]
    pub(crate) salvage: Option<Option<PathBuf>>,
}

/// `events`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  relight events --task report-7\n  relight events -f --json\n\n\
    Each line holds: time, number, kind, task, step, detail. With -f it ends with exit code 0 on\n\
    Ctrl-C, on SIGTERM, or when its output is closed."
)]
pub(crate) struct EventsArguments {
    /// Follow new events
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Number of newest events to show
    #[arg(short = 'n', long, value_name = "N", default_value_t = 50)]
    pub(crate) newest: usize,
    /// Show all events
    #[arg(long, conflicts_with = "newest")]
    pub(crate) all: bool,
    /// Only after the event with this number
    #[arg(long, value_name = "ID", conflicts_with_all = ["newest", "all"],
          value_parser = clap::value_parser!(u64).range(..=i64::MAX.cast_unsigned()))]
    pub(crate) after: Option<u64>,
    /// Only this task
    #[arg(long, value_name = "ID")]
    pub(crate) task: Option<TaskId>,
    /// Only this agent
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<AgentName>,
    /// Only this kind, such as step.done or task.status (repeat for more)
    #[arg(long = "kind", value_name = "KIND")]
    pub(crate) kinds: Vec<relight_core::event::EventKind>,
}

/// `mcp`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  relight mcp\n  relight setup mcp --for claude --merge\n\n\
    An MCP client starts it. It needs no daemon. Tasks that the agent starts are held by this process,\n\
    or under relight run and up by the agent's attempt. When its input ends, or on SIGTERM, it finishes\n\
    running calls and exits with 0; the tasks that it held can then be resumed."
)]
pub(crate) struct McpArguments {
    /// The agent to serve [default: $RELIGHT_AGENT]
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<AgentName>,
    /// The folder of checkpoint files [default: $RELIGHT_CHECKPOINT_DIR, else memory/checkpoints]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

/// `setup`.
#[derive(Debug, Subcommand)]
pub(crate) enum SetupCommand {
    /// Write or update a block about restart-safe work in AGENTS.md
    #[command(
        after_help = "Examples:\n  relight setup agents-md\n  relight setup agents-md --check\n\n\
        Everything outside the block stays unchanged, byte for byte. Exit code 1: with --check, the\n\
        block is missing or outdated; else it was edited by hand and --force was not given."
    )]
    AgentsMd(AgentsMdArguments),
    /// Write or update a skill: a folder restart-recovery with SKILL.md
    #[command(
        after_help = "Examples:\n  relight setup skill --dir .claude/skills\n  relight setup skill --print\n\n\
        Exit code 1: with --check, the skill is missing or outdated; else it was edited by\n\
        hand and --force was not given."
    )]
    Skill(SkillArguments),
    /// Write a relight.toml with all keys, commented
    #[command(
        after_help = "Examples:\n  relight setup config\n  relight setup config --print\n\n\
        Exit code 1: the file exists, and --force was not given."
    )]
    Config(ConfigArguments),
    /// Print the entry for an MCP client's configuration, or merge it in
    #[command(after_help = "Examples:\n  relight setup mcp --for claude\n  \
        relight setup mcp --for codex --merge\n  relight setup mcp --for claude --check\n  \
        relight setup mcp --for cursor --http --merge\n\n\
        Everything else in the file is kept. With --http the client reads the token from $RELIGHT_TOKEN:\n\
        export RELIGHT_TOKEN=$(relight token new --operate). Exit code 1: another entry named relight\n\
        exists, and --force was not given; with --check, something is left to do; 65: the file cannot be parsed, and was not changed.")]
    Mcp(SetupMcpArguments),
    /// Let an agent's program call relight hook: every tool call is recorded, and after a crash the agent is told
    #[command(after_help = "Examples:\n  relight setup hooks --for claude\n  \
        relight setup hooks --for codex --user --check\n\n\
        Everything else in the file stays unchanged, byte for byte. Exit code 1: with --check, the hooks\n\
        are missing or not current; 65: the file cannot be parsed, and was not changed.")]
    Hooks(SetupHooksArguments),
    /// Set up everything for one agent's program: hooks, MCP, the skill and the block about restart-safe work
    #[command(after_help = "Examples:\n  relight setup agent --for claude\n  \
        relight setup agent --for codex --yes\n\n\
        The block goes into AGENTS.md, for claude into CLAUDE.md and for gemini into GEMINI.md, unless that\n\
        file imports @AGENTS.md. It shows what it will change and asks. Exit code 2: there is no terminal\n\
        to ask on, and --yes was not given.")]
    Agent(SetupAgentArguments),
}

/// `setup hooks`.
#[derive(Debug, Args)]
pub(crate) struct SetupHooksArguments {
    /// The agent's program
    #[arg(long = "for", value_name = "PROGRAM")]
    pub(crate) program: HookProgram,
    /// Only report whether they are there and current (exit code 1 if not)
    #[arg(long, conflicts_with_all = ["print", "remove"])]
    pub(crate) check: bool,
    /// Only print what a new file would hold
    #[arg(long, conflicts_with = "remove")]
    pub(crate) print: bool,
    /// Remove them
    #[arg(long)]
    pub(crate) remove: bool,
    /// In the file of this folder's project; the default, except for kimi, which has none
    #[arg(long, conflicts_with = "user")]
    pub(crate) in_project: bool,
    /// In the user's own file, for all projects
    #[arg(long)]
    pub(crate) user: bool,
}

impl SetupHooksArguments {
    /// Install them in this folder.
    pub(crate) fn of(program: HookProgram) -> Self {
        let (check, print, remove, in_project, user) = (false, false, false, false, false);
        Self {
            program,
            check,
            print,
            remove,
            in_project,
            user,
        }
    }
}

/// `setup agent`.
#[derive(Debug, Args)]
pub(crate) struct SetupAgentArguments {
    /// The agent's program
    #[arg(long = "for", value_name = "PROGRAM")]
    pub(crate) program: HookProgram,
    /// Do not ask
    #[arg(long)]
    pub(crate) yes: bool,
}

/// `setup mcp`.
#[derive(Debug, Args)]
pub(crate) struct SetupMcpArguments {
    /// The client
    #[arg(long = "for", value_name = "CLIENT")]
    pub(crate) client: McpClient,
    /// Merge it into the client's own file instead of printing it
    #[arg(long, visible_alias = "write")]
    pub(crate) merge: bool,
    /// Report whether the file has it, and ask the client whether it uses it (exit code 1 if something is
    /// left to do); the client may take up to a minute
    #[arg(long, conflicts_with = "merge")]
    pub(crate) check: bool,
    /// The file [default: the project's own in this folder; for codex ~/.codex/config.toml]
    #[arg(long, value_name = "PATH", value_parser = values::new_path())]
    pub(crate) file: Option<PathBuf>,
    /// Use the daemon over HTTP instead of starting a process
    #[arg(long)]
    pub(crate) http: bool,
    /// Where the daemon is
    #[arg(
        long,
        value_name = "URL",
        default_value = "http://127.0.0.1:7717/mcp",
        requires = "http"
    )]
    pub(crate) url: String,
    /// The agent to serve
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<AgentName>,
    /// Replace an existing entry that differs
    #[arg(long, requires = "merge")]
    pub(crate) force: bool,
}

impl SetupMcpArguments {
    /// Merge the entry of a process into the client's own file.
    pub(crate) fn merged(client: McpClient) -> Self {
        let (file, agent, url) = (None, None, String::new());
        Self {
            client,
            merge: true,
            check: false,
            file,
            http: false,
            url,
            agent,
            force: false,
        }
    }
}

/// A client whose configuration is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum McpClient {
    /// Claude Code: .mcp.json
    Claude,
    /// Codex: ~/.codex/config.toml
    Codex,
    /// Gemini CLI: .gemini/settings.json
    Gemini,
    /// OpenCode: opencode.json
    Opencode,
    /// Cursor: .cursor/mcp.json
    Cursor,
    /// Kimi Code: .kimi-code/mcp.json
    Kimi,
    /// Qwen Code: .qwen/settings.json
    Qwen,
    /// GitHub Copilot CLI: ~/.copilot/mcp-config.json
    Copilot,
}

/// `setup config`.
#[derive(Debug, Args)]
pub(crate) struct ConfigArguments {
    /// The file
    #[arg(long, value_name = "PATH", default_value = "relight.toml", value_parser = values::new_path())]
    pub(crate) file: PathBuf,
    /// Only print it
    #[arg(long, conflicts_with = "force")]
    pub(crate) print: bool,
    /// Replace an existing file
    #[arg(long)]
    pub(crate) force: bool,
}

/// `setup agents-md`.
#[derive(Debug, Args)]
pub(crate) struct AgentsMdArguments {
    /// What to do with it.
    #[command(flatten)]
    pub(crate) deed: SetupDeed,
    /// The file
    #[arg(long, value_name = "PATH", default_value = "AGENTS.md", value_parser = values::new_path())]
    pub(crate) file: PathBuf,
}

/// `setup skill`.
#[derive(Debug, Args)]
pub(crate) struct SkillArguments {
    /// What to do with it.
    #[command(flatten)]
    pub(crate) deed: SetupDeed,
    /// The folder of skills
    #[arg(long, value_name = "PATH", default_value = "skills", value_parser = values::new_folder_of_program())]
    pub(crate) dir: PathBuf,
}

/// What `setup` does; without a flag it writes or updates.
#[derive(Debug, Args)]
pub(crate) struct SetupDeed {
    /// Only report whether it exists and is current (exit code 1 if not)
    #[arg(long, conflicts_with_all = ["print", "remove", "force"])]
    pub(crate) check: bool,
    /// Only print it
    #[arg(long, conflicts_with_all = ["remove", "force"])]
    pub(crate) print: bool,
    /// Remove it
    #[arg(long)]
    pub(crate) remove: bool,
    /// Replace or remove it even if it was edited by hand
    #[arg(long)]
    pub(crate) force: bool,
}

/// `service`.
#[derive(Debug, Subcommand)]
pub(crate) enum ServiceCommand {
    /// Let the host run `relight check` on a schedule, or `relight up` permanently
    #[command(subcommand)]
    Install(InstallCommand),
    /// Remove an installed service
    #[command(after_help = "Examples:\n  relight service remove check\n  \
        relight service remove daemon --cron\n\n\
        Removing the daemon stops it and its agents.")]
    Remove(RemoveArguments),
}

/// `service install`.
#[derive(Debug, Subcommand)]
pub(crate) enum InstallCommand {
    /// Let the host's scheduler run `relight check`
    #[command(after_help = "Examples:\n  relight service install check --print\n  \
        relight service install check --systemd --every 5m --stale 30m --root ~/work\n\n\
        Installing again replaces the earlier installation. Findings go to check.log in the home\n\
        folder. Exit code 69: the scheduler is missing or does not respond.")]
    Check(InstallCheckArguments),
    /// Let the host run `relight up` at every boot, and restart it when it dies
    #[command(after_help = "Examples:\n  relight service install daemon --print\n  \
        relight service install daemon --systemd --config ~/work/relight.toml\n\n\
        Installing again replaces the earlier installation; a running daemon is not disturbed. Agents\n\
        keep running when the daemon dies, and its successor adopts them. Exit code 69: the scheduler is\n\
        missing or does not respond.")]
    Daemon(InstallDaemonArguments),
}

/// What can be run by a scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scheduled {
    /// Find stale and damaged work
    Check,
    /// The daemon
    Daemon,
}

/// Which scheduler.
#[derive(Debug, Clone, Copy, Args)]
#[group(multiple = false)]
pub(crate) struct SchedulerChoice {
    /// A systemd user unit
    #[arg(long)]
    pub(crate) systemd: bool,
    /// A line of the user's crontab
    #[arg(long)]
    pub(crate) cron: bool,
    /// A launchd agent (untested)
    #[arg(long)]
    pub(crate) launchd: bool,
}

/// Where to, and whether at all.
#[derive(Debug, Args)]
pub(crate) struct PlacementArguments {
    /// The scheduler; systemd if it responds, else cron.
    #[command(flatten)]
    pub(crate) scheduler: SchedulerChoice,
    /// Only print what would be written
    #[arg(long)]
    pub(crate) print: bool,
}

/// `service install check`.
#[derive(Debug, Args)]
pub(crate) struct InstallCheckArguments {
    /// Where to.
    #[command(flatten)]
    pub(crate) placement: PlacementArguments,
    /// How often it runs
    #[arg(long, value_name = "DURATION", default_value = "10m")]
    pub(crate) every: Span,
    /// Alert when unfinished work was not touched for this long
    #[arg(long, value_name = "DURATION", default_value = "10m")]
    pub(crate) stale: Span,
    /// A workspace whose checkpoint files are checked too (repeat for more) [default: this folder]
    #[arg(long = "root", value_name = "DIR")]
    pub(crate) roots: Vec<PathBuf>,
}

/// `service install daemon`.
#[derive(Debug, Args)]
pub(crate) struct InstallDaemonArguments {
    /// Where to.
    #[command(flatten)]
    pub(crate) placement: PlacementArguments,
    /// Its configuration [default: relight.toml in this folder if it exists, else where `up` looks]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// `service remove`.
#[derive(Debug, Args)]
pub(crate) struct RemoveArguments {
    /// What to remove
    #[arg(value_name = "WHAT")]
    pub(crate) what: Scheduled,
    /// The scheduler; any if none is named.
    #[command(flatten)]
    pub(crate) scheduler: SchedulerChoice,
    /// Only print what would be removed
    #[arg(long)]
    pub(crate) print: bool,
}

/// `project`.
#[derive(Debug, Subcommand)]
pub(crate) enum ProjectCommand {
    /// List the projects that were used on this machine
    #[command(
        after_help = "Examples:\n  relight project list\n  relight project list --json\n\n\
        A folder with a relight.toml is a project, and so is everything below it. Each has a home of its\n\
        own in the user's state folder. --project NAME chooses one from anywhere."
    )]
    List,
    /// Give the project of this folder a home of its own
    #[command(after_help = "Example:\n  relight project separate\n\n\
        What was recorded before stays in the old home: relight --home DIR shows it. Exit code 1: no\n\
        relight.toml is here or above; 75: agents of the project run.")]
    Separate,
    /// Keep the project of this folder in the user's default home
    #[command(after_help = "Example:\n  relight project share\n\n\
        What was recorded before stays in the old home: relight --home DIR shows it. Exit code 1: no\n\
        relight.toml is here or above; 75: agents of the project run.")]
    Share,
    /// Forget a project whose folder is gone
    #[command(after_help = "Example:\n  relight project remove shop\n\n\
        What was recorded stays in its home: relight --home DIR shows it. A project that was moved is found\n\
        again by the first command in its new folder. Exit code 1: its relight.toml is still there; 75: its\n\
        daemon or an agent of it runs; 78: there is no such project.")]
    Remove {
        /// Its name
        name: String,
    },
}

/// `init`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  relight init\n  relight init --yes\n  \
    relight init --agent codex --prompt 'Fix the failing tests'\n\n\
    Finds the agent programs that are installed and asks at most two questions. An existing relight.toml\n\
    is never changed. Exit code 1: there is one already; 2: there is no terminal to ask on, and --yes\n\
    was not given.")]
pub(crate) struct InitArguments {
    /// Ask nothing: the first agent program that is found, and an example task
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// The agent's program, such as claude or codex
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) agent: Option<String>,
    /// What to tell it to do
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) prompt: Option<String>,
}

/// `explain`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  relight explain 75\n  relight explain attempt.died\n  \
    relight explain in_doubt --json\n\n\
    Knows exit codes, error codes, event kinds, causes of death, alerts, statuses and states. Without a\n\
    word it lists all of them. Exit code 1: there is no such word."
)]
pub(crate) struct ExplainArguments {
    /// An exit code, error code, event kind, cause of death, alert, status or state
    #[arg(value_name = "WORD")]
    pub(crate) words: Vec<String>,
}

/// `completions`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  relight completions bash > ~/.local/share/bash-completion/completions/relight\n\n\
    In bash, zsh and fish, names of agents, tasks, steps, sessions and presets are completed too."
)]
pub(crate) struct CompletionsArguments {
    /// The shell
    pub(crate) shell: Shell,
    /// The command line up to the cursor: prints the names that its last word may become, for the script
    #[arg(last = true, hide = true)]
    pub(crate) words: Vec<OsString>,
}

/// `man`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  relight man | man -l -\n  relight man --dir ~/.local/share/man/man1"
)]
pub(crate) struct ManArguments {
    /// Write one page per command to this folder
    #[arg(long, value_name = "DIR", value_parser = values::new_path())]
    pub(crate) dir: Option<PathBuf>,
}
