//! What `run` and `up` have in common: settings, signals, and what is said of what happens.

use std::ffi::OsStr;
use std::path::Path;

use relight_core::agent::Cause;
use relight_core::error_code::{ErrorCode, with_causes};
use relight_core::limits;
use relight_core::time::Span;
use relight_redact::Redactor;
use relight_runtime::daemon;
use relight_runtime::operations::recover::HOLD_OF_A_MOMENT;
use relight_runtime::os::fleet;
use relight_runtime::os::word::Word;
use relight_runtime::presets::Preset;
use relight_runtime::supervise::cgroup::CgroupSetting;
use relight_runtime::supervise::control::{
    Control, ControlReply, Request, ShutdownSummary, daemon_socket,
};
use relight_runtime::supervise::control_server::ControlCall;
use relight_runtime::supervise::notices::{Notice, What};
use relight_runtime::supervise::program;
use relight_runtime::supervise::supervisor::{AcquireError, Supervisor, SupervisorSettings};
use relight_store::StoreError;
use tokio::runtime::Runtime;

use crate::environment::Environment;
pub(crate) use crate::exit::cannot_use;
use crate::exit::{Exit, Failure};
use crate::log::{Level, Line};
use crate::output;
use crate::work::Work;

/// Variables of an outer agent, or of Relight itself, that an agent must not take for its own.
const NOT_PASSED_ON: [&str; 23] = [
    "NOTIFY_SOCKET",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
    "RELIGHT_AGENT",
    "RELIGHT_ATTEMPT",
    "RELIGHT_ATTEMPT_NUMBER",
    "RELIGHT_BRIEF_FILE",
    "RELIGHT_BRIEF_PASSED",
    "RELIGHT_CONTEXT",
    "RELIGHT_DEATH_CAUSE",
    "RELIGHT_FENCE",
    "RELIGHT_ITERATION",
    "RELIGHT_METERED",
    "RELIGHT_NEXT_STEP",
    "RELIGHT_NODE",
    "RELIGHT_NODE_LEASE",
    "RELIGHT_RESUMED",
    "RELIGHT_SOCKET",
    "RELIGHT_STATE_FILE",
    "RELIGHT_STORE",
    "RELIGHT_TASK",
    "RELIGHT_TOKEN",
    "RELIGHT_WEBHOOK_SECRET",
];

/// What every program expects to find.
const SHORT_LIST: [&str; 9] = [
    "PATH", "HOME", "LANG", "TZ", "TERM", "USER", "LOGNAME", "SHELL", "TMPDIR",
];

/// One thread, for a supervisor waits most of the time; but never for whoever reads what it says.
pub(crate) fn runtime() -> Result<Runtime, Failure> {
    output::wait_for_no_reader();
    crate::runtime().map_err(|error| cannot_wait(&error))
}

/// There is no runtime to wait for anything.
pub(crate) fn cannot_wait(error: &std::io::Error) -> Failure {
    Failure::new(Exit::Io, format!("cannot wait for events: {error}"))
}

pub(crate) fn settings(
    environment: &Environment,
    home: &Path,
) -> Result<SupervisorSettings, Failure> {
    let mut places = vec![(
        Word::from("RELIGHT_HOME"),
        environment.home()?.into_os_string().into(),
    )];
    if let Some(url) = environment.local_store()? {
        places.push((Word::from("RELIGHT_STORE"), Word::from(url)));
    }
    if let Some(node) = fleet::node() {
        places.push((Word::from(fleet::VARIABLE), Word::from(node.as_str())));
        let socket = daemon_socket(home).into_os_string();
        places.push((Word::from("RELIGHT_SOCKET"), Word::from(socket)));
    }
    let cgroups = cgroup_setting(environment);
    Ok(SupervisorSettings {
        home: home.to_path_buf(),
        places,
        cgroups,
        ..SupervisorSettings::default()
    })
}

/// For a command that takes an agent up for a moment. On a machine that is no node of the fleet its hold
/// ends by the store's clock: whoever is cut off in the middle would keep the agent for ever.
pub(crate) fn settings_for_a_moment(
    environment: &Environment,
    home: &Path,
) -> Result<SupervisorSettings, Failure> {
    let is_no_node = environment.is_shared()? && fleet::node().is_none();
    let settings = settings(environment, home)?;
    Ok(SupervisorSettings {
        hold: is_no_node.then_some(HOLD_OF_A_MOMENT),
        ..settings
    })
}

/// Which cgroup agents are to be in.
pub(crate) fn cgroup_setting(environment: &Environment) -> CgroupSetting {
    match environment.get("RELIGHT_CGROUP") {
        Some("off") => CgroupSetting::Off,
        Some(path) => CgroupSetting::At(path.into()),
        None => CgroupSetting::Auto,
    }
}

/// With what the configuration says of work.
pub(crate) fn with_work(settings: SupervisorSettings, work: Work) -> SupervisorSettings {
    SupervisorSettings {
        strategies: work.strategies,
        policy: work.policy,
        ..settings
    }
}

/// The environment that `relight run` passes on: all of its own, or the short list.
pub(crate) fn passed_on(environment: &Environment, short: bool) -> Vec<(Word, Word)> {
    let is_passed_on = |name: &OsStr| {
        let is_ours = NOT_PASSED_ON.iter().any(|known| name == *known);
        !is_ours && (!short || is_in_the_short_list(name))
    };
    let pairs = environment.variables_for_agents();
    let pairs = pairs.iter().filter(|(name, _)| is_passed_on(name));
    pairs
        .map(|(name, value)| (name.as_os_str().into(), value.as_os_str().into()))
        .collect()
}

/// What an agent of the daemon gets without being asked for.
pub(crate) fn is_in_the_short_list(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else {
        return false;
    };
    SHORT_LIST.contains(&name) || name.starts_with("LC_") || name.starts_with("XDG_")
}

/// Listens at a socket; none when a live supervisor does, unless it is taken over.
pub(crate) fn bind(socket: &Path, take_over: bool) -> Result<Option<Control>, Failure> {
    let bound = match Control::bind(socket) {
        Ok(None) if take_over => Control::bind_over(socket).map(Some),
        other => other,
    };
    bound.map_err(|error| cannot_use(socket, &error))
}

/// The preset, with the user's own ones before the built-in ones.
pub(crate) fn preset(environment: &Environment, name: Option<&str>) -> Result<Preset, Failure> {
    let folder = environment
        .config_folder()
        .map(|folder| folder.join("presets"));
    Preset::by_name(name.unwrap_or("generic"), folder.as_deref()).map_err(|error| {
        Failure::new(Exit::Config, with_causes(&error)).hint("relight presets list shows all")
    })
}

/// A command for people to read, and for the store to keep: without secrets.
pub(crate) fn readable(redactor: &Redactor, command: &[Word]) -> Vec<String> {
    let words: Vec<String> = command.iter().map(Word::to_text).collect();
    redactor
        .command(&words)
        .into_iter()
        .map(|word| limits::COMMAND.shorten(word))
        .collect()
}

/// Says before anything is started that it could not be.
pub(crate) fn check_program(
    command: &[Word],
    environment: &[(Word, Word)],
    folder: &str,
) -> Result<(), Failure> {
    limits::COMMAND.check(command.iter().map(|word| word.to_text().len()).sum())?;
    program::check(command, environment, Path::new(folder)).map_err(|error| {
        let exit = if error.code == 127 {
            Exit::NotFound
        } else {
            Exit::NotExecutable
        };
        Failure::new(exit, error.note)
    })
}

/// The uid and gid of a user, by name or number.
pub(crate) fn user(name: &str) -> Result<(u32, u32), Failure> {
    let accounts = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let found = accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (account, uid, gid) = (fields.next()?, fields.nth(1)?, fields.next()?);
        (account == name || uid == name).then(|| Some((uid.parse().ok()?, gid.parse().ok()?)))?
    });
    let found =
        found.ok_or_else(|| Failure::new(Exit::Usage, format!("there is no user {name}")))?;
    let own = rustix::process::geteuid();
    if own.is_root() || found.0 == own.as_raw() {
        return Ok(found);
    }
    Err(Failure::new(
        Exit::Usage,
        format!("only root can run an agent as {name}"),
    ))
}

/// What a client of a `run` may ask for beside its agent: the end.
pub(crate) fn end_or_answer(supervisor: &Supervisor, call: ControlCall, told: &mut Option<i32>) {
    let Some(call) = supervisor.answer(call, told.is_some()) else {
        return;
    };
    let reply = match call.request {
        Request::Down { .. } => {
            *told = Some(15);
            drop(supervisor.shut_down());
            ControlReply::ok(&ShutdownSummary {
                pid: std::process::id(),
                agents: 1,
                problem: None,
            })
        }
        _ => ControlReply::error(ErrorCode::CONFLICT, "only a daemon can do that", None),
    };
    let _ = call.reply.send(reply);
}

/// The exit code of what a signal ended.
pub(crate) fn code_of_signal(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(Exit::No as u8)
}

/// What a supervisor says that ends without its agents.
pub(crate) fn agents_live_on(error: &StoreError) -> Failure {
    Failure::new(Exit::Io, daemon::agents_live_on(error)).hint(
        "move the files back if they were not replaced on purpose; the next relight up or run adopts \
         the agents that the store knows",
    )
}

/// What a supervisor says whose agents were stopped, but whose store cannot be written.
pub(crate) fn stopped_unrecorded(error: &str) -> Failure {
    let text = format!("the agents are stopped, but that cannot be recorded: {error}");
    Failure::new(Exit::Io, text).hint(
        "make room or repair the folder; then relight recover, or the next start, records how they \
         ended",
    )
}

/// Says on standard error what happened, where a person wants to know.
pub(crate) fn say(environment: &Environment, notice: &Notice) {
    let verbose = environment.verbose > 0;
    let Some((text, is_loud)) = in_words(&notice.what) else {
        return;
    };
    let is_alert = matches!(notice.what, What::Alert(_));
    let is_wanted = (is_loud || verbose) && !environment.quiet;
    if !(is_alert || is_wanted) {
        return;
    }
    let (level, event) = kind_of(&notice.what);
    let task = match &notice.what {
        What::TaskWaits { task, .. } | What::TaskRecovered { task, .. } => Some(task.as_str()),
        What::Died { ended, .. } => ended.death.unfinished_task.as_deref(),
        _ => None,
    };
    let agent = Some(notice.agent.as_str());
    output::say(&Line {
        agent,
        task,
        ..Line::of(level, event, &text)
    });
}

/// What a program that collects logs knows it by: the journal's word where there is one.
fn kind_of(what: &What) -> (Level, &'static str) {
    match what {
        What::Started { .. } => (Level::Info, "attempt.started"),
        What::Adopted { .. } => (Level::Info, "attempt.adopted"),
        What::Died { ended, .. } if ended.cause == Cause::Completed => {
            (Level::Info, "attempt.died")
        }
        What::Died { .. } => (Level::Warn, "attempt.died"),
        What::Reported { .. } => (Level::Info, "attempt.begun"),
        What::Silent { .. } => (Level::Warn, "agent.silent"),
        What::Hung { .. } => (Level::Warn, "agent.hung"),
        What::AskedForRestart => (Level::Warn, "agent.asked_for_restart"),
        What::TimedOut => (Level::Warn, "agent.timed_out"),
        What::Incurable(_) => (Level::Warn, "agent.incurable"),
        What::Waiting { .. } => (Level::Info, "agent.waits"),
        What::TaskWaits { .. } | What::TaskHeld(_) => (Level::Info, "task.waits"),
        What::TaskRecovered { .. } => (Level::Warn, "task.recovery"),
        What::Swept { .. } => (Level::Warn, "agent.swept"),
        What::Round { .. } => (Level::Info, "agent.iteration"),
        What::Asked { .. } => (Level::Info, "agent.asked"),
        What::Alert(_) => (Level::Error, "alert"),
        What::Trouble(_) => (Level::Warn, "trouble"),
        What::StoppedUnrecorded(_) => (Level::Warn, "agent.unrecorded"),
        What::Lost => (Level::Warn, "agent.taken"),
        What::NodeLost => (Level::Warn, "node.lost"),
        What::AtRest => (Level::Info, "agent.at_rest"),
    }
}

/// What happened in words, and whether it is worth saying to everybody.
fn in_words(what: &What) -> Option<(String, bool)> {
    Some(match what {
        What::Started {
            number,
            resumed,
            process,
            down,
        } => {
            let back = down
                .map(|down| format!(", back after {down}"))
                .unwrap_or_default();
            (
                format!("attempt {number} started (pid {}){back}", process.pid),
                *resumed,
            )
        }
        What::Adopted {
            number,
            process,
            without_shim,
        } => {
            let how = if *without_shim {
                ", without its shim"
            } else {
                ""
            };
            (
                format!(
                    "attempt {number} lives and is adopted (pid {}{how})",
                    process.pid
                ),
                true,
            )
        }
        What::Died { number, ended } => {
            let lived = ended.lived_in_words();
            let note = ended
                .death
                .note
                .as_ref()
                .map_or_else(String::new, |n| format!(" ({n})"));
            let verb = if ended.cause == Cause::Completed {
                "ended"
            } else {
                "died"
            };
            let how = ended.cause_in_words();
            let text = format!("attempt {number} {verb} after {lived}: {how}{note}");
            (text, ended.cause != Cause::Completed)
        }
        What::Reported { number } => (format!("it reports; attempt {number} begins"), true),
        What::Silent { number, silent_ms } => {
            let silent = Span::from_ms(*silent_ms);
            (
                format!("no report for {silent}; attempt {number} counts as hung"),
                true,
            )
        }
        What::Hung { silent_ms } => {
            let silent = Span::from_ms(*silent_ms);
            (
                format!("no sign of life for {silent}; it is being stopped"),
                true,
            )
        }
        What::AskedForRestart => (
            "it asked to be restarted; it is being stopped".to_owned(),
            true,
        ),
        What::TimedOut => (
            "the attempt takes too long; it is being stopped".to_owned(),
            true,
        ),
        What::Incurable(why) => (format!("{why}; it is being stopped"), true),
        What::Waiting {
            until,
            deferred: false,
        } => (format!("the next attempt starts at {until}"), true),
        What::Waiting {
            until,
            deferred: true,
        } => (
            format!("it asked to be resumed later; it resumes at {until}"),
            true,
        ),
        What::TaskWaits {
            task,
            status,
            command,
        } => (
            format!("it waits: its task {task} is {status}; try: {command}"),
            true,
        ),
        What::TaskHeld(why) => (format!("it waits: {why}"), true),
        What::TaskRecovered { task, status } => {
            let text = format!("its task {task} lost its holder, and is {status} now");
            (text, true)
        }
        What::Swept {
            stopped: 1,
            survivors: 0,
        } => (
            "stopped a process that an earlier attempt left behind".to_owned(),
            true,
        ),
        What::Swept {
            stopped,
            survivors: 0,
        } => (
            format!("stopped what an earlier attempt left behind ({stopped} processes)"),
            true,
        ),
        What::Swept { stopped, survivors } => {
            let text = format!(
                "stopped {stopped} processes of an earlier attempt; {survivors} cannot be stopped"
            );
            (text, true)
        }
        What::Round { done } => (format!("round {done} is done"), true),
        What::Alert(text) => (format!("ALERT {text}"), true),
        What::Trouble(text) => (text.clone(), true),
        What::StoppedUnrecorded(error) => (
            format!("it is stopped, but that cannot be recorded: {error}"),
            true,
        ),
        What::Lost => ("another supervisor has it now".to_owned(), true),
        What::NodeLost => (
            "given up, for the lease of this node ran out".to_owned(),
            true,
        ),
        What::Asked { .. } | What::AtRest => return None,
    })
}

impl From<AcquireError> for Failure {
    fn from(error: AcquireError) -> Self {
        match error {
            AcquireError::Held { ref agent, .. } => Self::new(Exit::Busy, error.to_string()).hint(
                format!("relight ps {agent} shows it; --take-over takes it from a supervisor that hangs, --name gives this one another name"),
            ),
            AcquireError::Contended(_) => Self::new(Exit::Busy, error.to_string()).hint("try again"),
            AcquireError::Store(error) => error.into(),
            AcquireError::Lost(ref lost) => Self::new(Exit::Fenced, lost.to_string()),
        }
    }
}
