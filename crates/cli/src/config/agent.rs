//! `[[agent]]`: one agent of the daemon, its plan and its environment.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use relight_core::agent::silence::SignSource;
use relight_core::agent::{AgentPlan, RestartRule, Takes};
use relight_core::ids::{AgentName, TaskId};
use relight_core::node::Placement;
use relight_core::time::Span;
use relight_runtime::os::word::Word;
use relight_runtime::presets::{Preset, StopRung, signal_number};
use relight_runtime::spelling::nearest;

use super::recovery::Recovery;
use super::section::Section;
use crate::values;

/// Variables that every agent gets from the daemon; a star stands for any end.
const PASSED: [&str; 11] = [
    "PATH", "HOME", "LANG", "LC_*", "TZ", "TERM", "USER", "LOGNAME", "SHELL", "TMPDIR", "XDG_*",
];

/// Variables that were meant for the daemon itself, which no agent inherits.
const OF_DAEMON: [&str; 8] = [
    "RELIGHT_*",
    "NOTIFY_SOCKET",
    "WATCHDOG_*",
    "LISTEN_*",
    "MAINPID",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "CREDENTIALS_DIRECTORY",
];

/// One agent of the file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AgentConfig {
    pub(crate) name: AgentName,
    /// Program and arguments.
    pub(crate) command: Vec<String>,
    pub(crate) preset: String,
    pub(crate) restart: RestartRule,
    /// Where it runs.
    pub(crate) folder: PathBuf,
    /// Variables of its own.
    pub(crate) env: BTreeMap<String, String>,
    /// Variables of the daemon that it gets too; a star stands for any end.
    pub(crate) env_pass: Vec<String>,
    /// It gets all of them, less Relight's.
    pub(crate) env_inherit: bool,
    pub(crate) task: Option<TaskId>,
    /// Exit 0 finishes its task.
    pub(crate) exit_completes: bool,
    /// Its signs of life; those of the preset when none.
    pub(crate) signs: Option<Vec<SignSource>>,
    /// Instead of the preset's arguments for a resumed agent.
    pub(crate) resume_args: Option<Vec<String>>,
    /// Instead of the preset's stop ladder.
    pub(crate) stop: Option<Vec<StopRung>>,
    pub(crate) user: Option<String>,
    /// A session of its own to begin with.
    pub(crate) session: Option<String>,
    /// Whether the daemon starts it.
    pub(crate) enabled: bool,
    /// What it can do, for the router.
    pub(crate) takes: Takes,
    pub(crate) skills: Vec<String>,
    /// Tasks that it takes at a time.
    pub(crate) concurrency: u32,
    /// The node that it runs on; any when none.
    pub(crate) placement: Placement,
    /// How it is recovered: its own keys over those of `[recovery]`.
    pub(crate) recovery: Recovery,
}

impl AgentConfig {
    /// None without a good name or a command, which was told then.
    pub(super) fn read(section: &Section<'_>, folder: &Path, presets: &[String]) -> Option<Self> {
        let rules = [
            ("on-failure", RestartRule::OnFailure),
            ("always", RestartRule::Always),
            ("never", RestartRule::Never),
        ];
        let takes = [("claim", Takes::Claim), ("start", Takes::Start)];
        section.required("name", "an agent needs a `name`");
        let has_command = section.required("command", "an agent needs a `command`");
        let name = section.optional("name", |text| {
            AgentName::new(text).map_err(|error| error.to_string())
        });
        let is_whole = name.is_some() && has_command;
        let agent = Self {
            // All its keys are read, so that all mistakes are told.
            name: name.unwrap_or_else(|| AgentName::new("unnamed").expect("a valid name")),
            command: command_words(section),
            preset: section.parsed("preset", |text| preset(text, presets)),
            restart: section.one_of("restart", &rules),
            folder: section.parsed("folder", |below| Ok(join(folder, below))),
            env: variables(section),
            env_pass: section.each("env_pass", variable_name).unwrap_or_default(),
            env_inherit: section.flag("env_inherit"),
            task: section.optional("task", |text| {
                TaskId::strict(text).map_err(|error| error.to_string())
            }),
            exit_completes: section.flag("exit_completes"),
            signs: section.each("signs", sign),
            resume_args: section.words("resume_args"),
            stop: ladder(section),
            user: section.optional("user", not_empty),
            session: section.optional("session", session_id),
            enabled: section.flag("enabled"),
            takes: section.one_of("takes", &takes),
            skills: section.each("skills", values::skill).unwrap_or_default(),
            concurrency: section.count("concurrency", 1..=1_000),
            placement: section.parsed("placement", placement),
            recovery: Recovery::read(section),
        };
        if agent.takes == Takes::Start && agent.task.is_some() {
            let text = "an agent that is started with tasks of the queue has none of its own";
            section.problem(
                "task",
                text,
                Some("leave out `task`, or write takes = \"claim\""),
            );
        }
        is_whole.then_some(agent)
    }

    /// What decisions and successors need of it. The command is as the file has it: whoever stores
    /// it redacts.
    pub(crate) fn plan(&self) -> AgentPlan {
        let recovery = &self.recovery;
        AgentPlan {
            command: self.command.clone(),
            folder: self.folder.to_string_lossy().into_owned(),
            preset: self.preset.clone(),
            task: self.task.clone(),
            restart: self.restart,
            policy: recovery.policy.clone(),
            spend: recovery.spend,
            silence_max: recovery.silence_max,
            step_silence_max: recovery.step_silence_max,
            timeout: recovery.timeout,
            grace: recovery.grace,
            defer: recovery.defer,
            exit_completes: self.exit_completes,
            iterations_max: None,
            takes: self.takes,
            skills: self.skills.clone(),
            pool: None,
            concurrency: Some(self.concurrency),
            labels: BTreeMap::new(),
            typed: None,
        }
    }

    /// The whole environment of its processes, but for what an attempt adds: a short list from the
    /// daemon's, what `env_pass` names, and `env` over it. Nothing that is meant for Relight itself.
    pub(crate) fn environment(
        &self,
        daemon: &[(OsString, OsString)],
        preset: &Preset,
    ) -> Vec<(Word, Word)> {
        let mut pairs: BTreeMap<Word, Word> = BTreeMap::new();
        for (name, value) in daemon.iter().filter(|(name, _)| self.gets(name, preset)) {
            pairs.insert(Word::from(name.as_os_str()), Word::from(value.as_os_str()));
        }
        for (name, value) in &self.env {
            pairs.insert(Word::from(name.as_str()), Word::from(value.as_str()));
        }
        pairs.into_iter().collect()
    }

    fn gets(&self, name: &OsStr, preset: &Preset) -> bool {
        let is_in = |patterns: &[&str]| patterns.iter().any(|pattern| is_like(name, pattern));
        let asked = self.env_pass.iter().any(|pattern| is_like(name, pattern));
        let of_preset = preset
            .config_dir_variable()
            .is_some_and(|variable| name == variable);
        !is_in(&OF_DAEMON) && (self.env_inherit || asked || of_preset || is_in(&PASSED))
    }

    /// How its tree is ended.
    pub(crate) fn ladder(
        &self,
        preset: &Preset,
        grace: Span,
    ) -> Vec<relight_runtime::presets::Rung> {
        match &self.stop {
            Some(rungs) => rungs.iter().map(|rung| rung.rung(grace)).collect(),
            None => preset.ladder(grace),
        }
    }
}

/// What an agent gets of the daemon's variables when nothing more is said: the short list, and where
/// its preset looks for its configuration.
pub(crate) fn short_environment(
    daemon: &[(OsString, OsString)],
    preset: &Preset,
) -> Vec<(Word, Word)> {
    let is_in = |name: &OsStr| PASSED.iter().any(|pattern| is_like(name, pattern));
    let of_preset = |name: &OsStr| preset.config_dir_variable().is_some_and(|it| name == it);
    let gets = daemon
        .iter()
        .filter(|(name, _)| is_in(name) || of_preset(name));
    let pairs: BTreeMap<Word, Word> = gets
        .map(|(name, value)| (name.as_os_str().into(), value.as_os_str().into()))
        .collect();
    pairs.into_iter().collect()
}

fn is_like(name: &OsStr, pattern: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => name.as_encoded_bytes().starts_with(beginning.as_bytes()),
        None => name == pattern,
    }
}

fn command_words(section: &Section<'_>) -> Vec<String> {
    let words = section.words("command");
    if let Some([] | [_]) = words.as_deref()
        && words.iter().flatten().all(String::is_empty)
    {
        section.problem(
            "command",
            "the command is empty",
            Some("write [\"PROGRAM\", \"ARG\", …]"),
        );
    }
    words.unwrap_or_default()
}

fn preset(text: &str, known: &[String]) -> Result<String, String> {
    if known.iter().any(|name| name == text) {
        return Ok(text.to_owned());
    }
    let known = || known.iter().map(String::as_str);
    Err(match nearest(text, known()) {
        Some(nearest) => format!("there is no such preset; did you mean `{nearest}`?"),
        None => {
            format!(
                "there is no such preset; known are {}",
                known().collect::<Vec<_>>().join(", ")
            )
        }
    })
}

/// Without `.` in it, so that two ways of writing a folder are one.
fn join(folder: &Path, below: &str) -> PathBuf {
    let joined: PathBuf = folder.join(below).components().collect();
    if joined.as_os_str().is_empty() {
        PathBuf::from(".")
    } else {
        joined
    }
}

fn variables(section: &Section<'_>) -> BTreeMap<String, String> {
    let pairs = section.pairs("env");
    for (at, name, value) in &pairs {
        let without_nul = match value.contains('\0') {
            true => Err("a value cannot have a NUL".to_owned()),
            false => Ok(()),
        };
        if let Err(why) = variable_name(name).and(without_nul) {
            section.problem_at(at.clone(), &format!("bad variable {name:?}"), Some(&why));
        }
    }
    pairs
        .into_iter()
        .map(|(_, name, value)| (name, value))
        .collect()
}

fn variable_name(text: &str) -> Result<String, String> {
    if text.is_empty() || text.contains(['=', '\0']) {
        return Err("write the name of a variable".to_owned());
    }
    if text.starts_with("RELIGHT_") || text == "NOTIFY_SOCKET" {
        return Err("Relight sets its own variables".to_owned());
    }
    Ok(text.to_owned())
}

fn sign(text: &str) -> Result<SignSource, String> {
    let found = SignSource::DECLARED
        .into_iter()
        .find(|sign| sign.as_str() == text);
    found.ok_or_else(|| {
        format!(
            "known are {}",
            SignSource::DECLARED.map(SignSource::as_str).join(", ")
        )
    })
}

fn not_empty(text: &str) -> Result<String, String> {
    if text.is_empty() {
        Err("write a name".to_owned())
    } else {
        Ok(text.to_owned())
    }
}

fn session_id(text: &str) -> Result<String, String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._:-".contains(c);
    let is_id =
        (1..=128).contains(&text.len()) && !text.starts_with('-') && text.chars().all(allowed);
    let why = || "write 1 to 128 of A-Z a-z 0-9 . _ : -, no leading -".to_owned();
    is_id.then(|| text.to_owned()).ok_or_else(why)
}

fn ladder(section: &Section<'_>) -> Option<Vec<StopRung>> {
    let rungs = section.sections("stop", &["signal", "wait"]);
    let read = |rung: &Section<'_>| {
        let has_signal = rung.required("signal", "a rung needs a `signal`");
        let signal = rung.optional("signal", |text| {
            let number = signal_number(text);
            number.ok_or_else(|| {
                "there is no such signal; write INT, TERM, HUP or the like".to_owned()
            })
        });
        let wait = rung.optional_span("wait");
        signal
            .filter(|_| has_signal)
            .map(|signal| StopRung { signal, wait })
    };
    let rungs: Vec<StopRung> = rungs.iter().filter_map(read).collect();
    (!rungs.is_empty()).then_some(rungs)
}

fn placement(text: &str) -> Result<Placement, String> {
    text.parse()
        .map_err(|error| format!("{error}; write any, a node's name, or label:NAME"))
}
