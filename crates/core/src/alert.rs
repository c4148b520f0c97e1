//! Alerts: what happened, to what, and which command to type next.
//!
//! An alert is written as the detail of an `EventKind::Alert` in the same commit as the change it
//! tells of (`Change::Noted`, `AgentChange::Noted`), so the journal is the outbox: what is recorded
//! is told, however often the machine goes down in between. Sending is left to the runtime.
//! Holds counts, names and redacted reasons, never other text of an agent's messages.

use std::fmt;

use serde_json::{Value, json};

use crate::ids::{AgentName, TaskId};
use crate::shell::{shell_word, show_then_retry};
use crate::step::StepKey;
use crate::time::{Span, Time};

/// What to do when the budget of the store is spent.
pub const OVERSPENT_HINT: &str = "relight start NAME lets one continue; a higher [budget] in relight.toml counts after SIGHUP to \
     the daemon";

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AlertKind {
    /// An agent exhausted its restart budget; only a person starts it again.
    Terminated,
    /// A task failed and no retries are left.
    GivenUp,
    /// A task that killed its holders is parked; others continue.
    Parked,
    /// Something waits for a person because its strategy or policy says so.
    Suspended,
    /// A task waits until a person acts or resolves a step in doubt.
    Blocked,
    /// An agent that reports its own heartbeats was silent for too long.
    Silent,
    /// Unfinished work had no activity for too long.
    Stale,
    /// A boot loop was detected.
    BootLoop,
    /// Alerts of a sink could not be delivered.
    Undelivered,
    /// A test of the delivery.
    Test,
}

impl AlertKind {
    /// All of them, in the order of the reference.
    pub const ALL: [Self; 10] = [
        Self::Terminated,
        Self::GivenUp,
        Self::Parked,
        Self::Suspended,
        Self::Blocked,
        Self::Silent,
        Self::Stale,
        Self::BootLoop,
        Self::Undelivered,
        Self::Test,
    ];

    /// Its name in JSON and output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Terminated => "terminated",
            Self::GivenUp => "given_up",
            Self::Parked => "parked",
            Self::Suspended => "suspended",
            Self::Blocked => "blocked",
            Self::Silent => "silent",
            Self::Stale => "stale",
            Self::BootLoop => "boot_loop",
            Self::Undelivered => "undelivered",
            Self::Test => "test",
        }
    }

    /// The kind with this name.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

impl fmt::Display for AlertKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What an alert is about. Shown as `agent/NAME`, `task/ID`, `session/KEY` or `store`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// An agent.
    Agent(AgentName),
    /// A task.
    Task(TaskId),
    /// A session, by its key.
    Session(String),
    /// Everything in the store.
    Store,
}

impl Subject {
    /// Parses the output of `Display`.
    pub fn parse(text: &str) -> Option<Self> {
        if text == "store" {
            return Some(Self::Store);
        }
        match text.split_once('/')? {
            ("agent", name) => AgentName::new(name).ok().map(Self::Agent),
            ("task", id) => TaskId::new(id).ok().map(Self::Task),
            ("session", key) => Some(Self::Session(key.to_owned())),
            _ => None,
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Agent(name) => write!(f, "agent/{name}"),
            Self::Task(id) => write!(f, "task/{id}"),
            Self::Session(key) => write!(f, "session/{key}"),
            Self::Store => f.write_str("store"),
        }
    }
}

/// An alert.
#[derive(Debug, Clone, PartialEq)]
pub struct Alert {
    /// What happened.
    pub kind: AlertKind,
    /// Its subject.
    pub subject: Subject,
    /// One sentence for people.
    pub text: String,
    /// The command to type next.
    pub hint: Option<String>,
    /// Facts for programs; null when there are none.
    pub more: Value,
}

impl Alert {
    /// An alert with only a sentence.
    pub fn new(kind: AlertKind, subject: Subject, text: impl Into<String>) -> Self {
        Self {
            kind,
            subject,
            text: text.into(),
            hint: None,
            more: Value::Null,
        }
    }

    /// Adds the command to type next.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }

    /// Adds facts for programs.
    #[must_use]
    pub fn more(self, more: Value) -> Self {
        Self { more, ..self }
    }

    /// An agent exhausted its restart budget.
    pub fn agent_terminated(name: &AgentName, command_to_start: &str, why: &str) -> Self {
        let text = format!("agent {name} is terminated: {why}");
        Self::new(AlertKind::Terminated, Subject::Agent(name.clone()), text)
            .hint(format!(
                "relight deaths {name} says how it died, then {command_to_start}"
            ))
            .more(json!({"why": why}))
    }

    /// An agent failed with an error that no retry can cure.
    pub fn agent_suspended(name: &AgentName, command_to_start: &str, why: &str) -> Self {
        let text = format!("agent {name} is suspended, because no retry can cure this: {why}");
        Self::new(AlertKind::Suspended, Subject::Agent(name.clone()), text)
            .hint(format!("fix it, then {command_to_start}"))
            .more(json!({"why": why}))
    }

    /// An agent has spent its limit without progress.
    pub fn agent_overspent(name: &AgentName, command_to_start: &str, why: &str) -> Self {
        let text = format!("agent {name} is suspended: {why}");
        let hint = format!(
            "{command_to_start} lets it spend as much again; a higher limit in relight.toml counts after a \
             reload"
        );
        Self::new(AlertKind::Suspended, Subject::Agent(name.clone()), text)
            .hint(hint)
            .more(json!({"why": why}))
    }

    /// An agent that reports its own heartbeats is silent.
    pub fn agent_silent(name: &AgentName, silent: Span) -> Self {
        let text = format!("agent {name} has not reported for {silent}");
        Self::new(AlertKind::Silent, Subject::Agent(name.clone()), text)
            .hint(format!(
                "start it where it runs; relight ps {name} shows when it is back"
            ))
            .more(json!({"silent_ms": silent.as_ms()}))
    }

    /// A task failed and no retries are left.
    pub fn task_given_up(id: &TaskId, why: &str) -> Self {
        let text = format!("task {id} is given up: {why}");
        Self::new(AlertKind::GivenUp, Subject::Task(id.clone()), text)
            .hint(format!("{} --force", show_then_retry(id)))
            .more(json!({"why": why}))
    }

    /// A task that kills its holders is parked.
    pub fn task_parked(id: &TaskId, why: &str) -> Self {
        let text = format!("task {id} is parked: {why}");
        Self::new(AlertKind::Parked, Subject::Task(id.clone()), text)
            .hint(format!(
                "relight task show {} says what it did last",
                shell_word(id.as_str())
            ))
            .more(json!({"why": why}))
    }

    /// A task is parked because one of its steps kills its supervisor.
    pub fn step_parked(id: &TaskId, step: &StepKey, why: &str) -> Self {
        let text = format!("task {id} is parked: {why}");
        Self::new(AlertKind::Parked, Subject::Task(id.clone()), text)
            .hint(resolve_hint(id, step))
            .more(json!({"step": step.name, "occurrence": step.occurrence, "why": why}))
    }

    /// A task waits for a person.
    pub fn task_suspended(id: &TaskId, why: &str) -> Self {
        let text = format!("task {id} is suspended: {why}");
        Self::new(AlertKind::Suspended, Subject::Task(id.clone()), text)
            .hint(format!("relight task show {}", shell_word(id.as_str())))
            .more(json!({"why": why}))
    }

    /// A task is blocked until a person acts.
    pub fn blocked(id: &TaskId, why: &str) -> Self {
        let text = format!("task {id} is blocked: {why}");
        Self::new(AlertKind::Blocked, Subject::Task(id.clone()), text)
            .hint(show_then_retry(id))
            .more(json!({"why": why}))
    }

    /// A task is blocked until a step in doubt is resolved.
    pub fn task_blocked(id: &TaskId, step: &StepKey, why: &str) -> Self {
        let text = format!("task {id} is blocked by step {step}: {why}");
        Self::new(AlertKind::Blocked, Subject::Task(id.clone()), text)
            .hint(resolve_hint(id, step))
            .more(json!({"step": step.name, "occurrence": step.occurrence, "why": why}))
    }

    /// A session waits for a person.
    pub fn session_suspended(key: &str, why: &str) -> Self {
        let text = format!("session {key} is suspended: {why}");
        let word = shell_word(key);
        Self::new(AlertKind::Suspended, Subject::Session(key.to_owned()), text)
            .hint(format!(
                "relight session show {word}, then relight session resume {word}"
            ))
            .more(json!({"why": why}))
    }

    /// Work is held back because of a boot loop.
    pub fn boot_loop(boots: u32) -> Self {
        let text = format!(
            "the machine went down {boots} times in a row soon after work was resumed; nothing is \
             resumed now"
        );
        Self::new(AlertKind::BootLoop, Subject::Store, text)
            .hint("relight start NAME, or relight up --resume-anyway")
            .more(json!({"boots": boots}))
    }

    /// The budget of the store is spent.
    pub fn store_overspent(why: &str, until: Time) -> Self {
        let text = format!("nothing is started until {until}: {why}");
        Self::new(AlertKind::Suspended, Subject::Store, text)
            .hint(OVERSPENT_HINT)
            .more(json!({"why": why, "until": until}))
    }

    /// The detail for the journal.
    pub fn detail(&self) -> Value {
        let mut detail = json!({
            "alert": self.kind.as_str(), "subject": self.subject.to_string(), "text": self.text,
        });
        if let Some(hint) = &self.hint {
            detail["hint"] = json!(hint);
        }
        if !self.more.is_null() {
            detail["more"] = self.more.clone();
        }
        detail
    }

    /// Parses the output of `detail`; none for unknown formats.
    pub fn from_detail(detail: &Value) -> Option<Self> {
        let text = |name: &str| detail[name].as_str();
        Some(Self {
            kind: AlertKind::from_word(text("alert")?)?,
            subject: Subject::parse(text("subject")?)?,
            text: text("text")?.to_owned(),
            hint: text("hint").map(str::to_owned),
            more: detail["more"].clone(),
        })
    }

    /// The sentence and the command on one line.
    pub fn line(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{}; {hint}", self.text),
            None => self.text.clone(),
        }
    }
}

fn resolve_hint(id: &TaskId, step: &StepKey) -> String {
    format!("see whether it happened, then {}", resolve_first(id, step))
}

/// The command that resolves a step in doubt, without the answer: `--happened` or `--did-not`.
pub fn resolve_command(id: &TaskId, step: &StepKey) -> String {
    step_command("resolve", id, step)
}

/// A command about this step, without what follows its name and task.
pub fn step_command(verb: &str, id: &TaskId, step: &StepKey) -> String {
    let occurrence = match step.occurrence {
        1 => String::new(),
        nth => format!(" --occurrence {nth}"),
    };
    let name = shell_word(step.name.as_str());
    format!(
        "relight step {verb} {name}{occurrence} --task {}",
        shell_word(id.as_str())
    )
}

/// What to type first where only a person may decide whether a step happened.
pub fn resolve_first(id: &TaskId, step: &StepKey) -> String {
    let command = resolve_command(id, step);
    format!("{command} --happened (or --did-not)")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> Vec<Alert> {
        let task = TaskId::new("org/repo:7").unwrap();
        let agent = AgentName::new("writer").unwrap();
        vec![
            Alert::agent_terminated(
                &agent,
                "relight start writer",
                "recovered 3 times in a row without progress",
            ),
            Alert::task_given_up(&task, "no retry is left"),
            Alert::task_parked(&task, "three of its holders died"),
            Alert::session_suspended("chat/a b", "cut off three times"),
            Alert::boot_loop(3),
            Alert::new(AlertKind::Test, Subject::Store, "a test"),
        ]
    }

    #[test]
    fn an_alert_is_read_back_from_the_journal_as_it_was() {
        for alert in samples() {
            assert_eq!(Alert::from_detail(&alert.detail()), Some(alert));
        }
    }

    #[test]
    fn words_and_kinds_go_both_ways() {
        for kind in AlertKind::ALL {
            assert_eq!(AlertKind::from_word(kind.as_str()), Some(kind));
        }
    }

    #[test]
    fn what_is_not_an_alert_is_no_alert() {
        for detail in [
            json!({}),
            json!({"why": "x"}),
            json!({"alert": "new", "subject": "store"}),
        ] {
            assert_eq!(Alert::from_detail(&detail), None);
        }
    }

    #[test]
    fn the_line_for_a_person_says_what_to_type() {
        insta::assert_snapshot!(samples()[0].line(), @"agent writer is terminated: recovered 3 times in a row without progress; relight deaths writer says how it died, then relight start writer");
    }
}
