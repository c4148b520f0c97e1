//! What somebody has to be told of: which limit was reached, by what, and what to type next.
//!
//! An alert is written as the detail of an `EventKind::Alert` in the same commit as the change it
//! tells of (`Change::Noted`, `AgentChange::Noted`), so the journal is the outbox: what is recorded
//! is told, however often the machine goes down in between. Sending is left to the runtime.
//! Holds counts, names and reasons, never text of an agent's messages.

use std::fmt;

use serde_json::{Value, json};

use crate::ids::{AgentName, TaskId};
use crate::shell::{shell_word, show_then_retry};
use crate::step::StepKey;
use crate::time::Span;

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AlertKind {
    /// An agent used up its recoveries: only a person starts it again.
    Terminated,
    /// A task failed and no try is left.
    GivenUp,
    /// A task that killed its holders is set aside while the others go on.
    Parked,
    /// Something waits for a person because its strategy or policy says so.
    Suspended,
    /// A task cannot go on before a person acts, or says whether a step in doubt happened.
    Blocked,
    /// An agent that reports by itself has not done so for too long.
    Silent,
    /// Unfinished work was not touched for too long.
    Stale,
    /// The machine went down again and again soon after work was resumed.
    BootLoop,
    /// Alerts of a sink could not be delivered.
    Undelivered,
    /// Somebody tries whether alerts arrive.
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

    /// The word used everywhere.
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

    /// The kind with this word.
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
    /// What `Display` wrote.
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

/// One thing to tell.
#[derive(Debug, Clone, PartialEq)]
pub struct Alert {
    /// What happened.
    pub kind: AlertKind,
    /// To what.
    pub subject: Subject,
    /// In one sentence, for a person.
    pub text: String,
    /// What to type next.
    pub hint: Option<String>,
    /// The facts for a program; null when there are none.
    pub more: Value,
}

impl Alert {
    /// With nothing beside the sentence.
    pub fn new(kind: AlertKind, subject: Subject, text: impl Into<String>) -> Self {
        Self { kind, subject, text: text.into(), hint: None, more: Value::Null }
    }

    /// With what to type next.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// With the facts for a program.
    #[must_use]
    pub fn more(self, more: Value) -> Self {
        Self { more, ..self }
    }

    /// An agent used up its recoveries.
    pub fn agent_terminated(name: &AgentName, command_to_start: &str, why: &str) -> Self {
        let text = format!("agent {name} is terminated: {why}");
        Self::new(AlertKind::Terminated, Subject::Agent(name.clone()), text)
            .hint(format!("relight deaths {name} says how it died, then {command_to_start}"))
            .more(json!({"why": why}))
    }

    /// An agent that reports by itself is silent.
    pub fn agent_silent(name: &AgentName, silent: Span) -> Self {
        let text = format!("agent {name} has not reported for {silent}");
        Self::new(AlertKind::Silent, Subject::Agent(name.clone()), text)
            .hint(format!("start it where it runs; relight ps {name} shows when it is back"))
            .more(json!({"silent_ms": silent.as_ms()}))
    }

    /// A task failed and no try is left.
    pub fn task_given_up(id: &TaskId, why: &str) -> Self {
        let text = format!("task {id} is given up: {why}");
        Self::new(AlertKind::GivenUp, Subject::Task(id.clone()), text)
            .hint(format!("{} --force", show_then_retry(id)))
            .more(json!({"why": why}))
    }

    /// A task that kills its holders is set aside.
    pub fn task_parked(id: &TaskId, why: &str) -> Self {
        let text = format!("task {id} is parked: {why}");
        Self::new(AlertKind::Parked, Subject::Task(id.clone()), text)
            .hint(format!("relight task show {} says what it did last", shell_word(id.as_str())))
            .more(json!({"why": why}))
    }

    /// A task is set aside because one of its steps takes its supervisor down.
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

    /// A task cannot go on before a person acts.
    pub fn blocked(id: &TaskId, why: &str) -> Self {
        let text = format!("task {id} is blocked: {why}");
        Self::new(AlertKind::Blocked, Subject::Task(id.clone()), text)
            .hint(show_then_retry(id))
            .more(json!({"why": why}))
    }

    /// A task cannot go on before a step in doubt is resolved.
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
            .hint(format!("relight session show {word}, then relight session resume {word}"))
            .more(json!({"why": why}))
    }

    /// Resuming stops because the machine goes down by it.
    pub fn boot_loop(boots: u32) -> Self {
        let text = format!(
            "the machine went down {boots} times in a row soon after work was resumed; nothing is \
             resumed now"
        );
        Self::new(AlertKind::BootLoop, Subject::Store, text)
            .hint("relight start NAME, or relight up --resume-anyway")
            .more(json!({"boots": boots}))
    }

    /// For the journal.
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

    /// What `detail` wrote; none for what another version wrote.
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

    /// The sentence and what to type next, on one line.
    pub fn line(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{}; {hint}", self.text),
            None => self.text.clone(),
        }
    }
}

fn resolve_hint(id: &TaskId, step: &StepKey) -> String {
    let command = resolve_command(id, step);
    format!("see whether it happened, then {command} --happened, or --did-not")
}

/// What resolves a step in doubt, but for the answer: `--happened` or `--did-not`.
pub fn resolve_command(id: &TaskId, step: &StepKey) -> String {
    let occurrence = match step.occurrence {
        1 => String::new(),
        nth => format!(" --occurrence {nth}"),
    };
    let name = shell_word(step.name.as_str());
    format!("relight step resolve {name}{occurrence} --task {}", shell_word(id.as_str()))
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
        for detail in [json!({}), json!({"why": "x"}), json!({"alert": "new", "subject": "store"})]
        {
            assert_eq!(Alert::from_detail(&detail), None);
        }
    }

    #[test]
    fn the_line_for_a_person_says_what_to_type() {
        insta::assert_snapshot!(samples()[0].line(), @"agent writer is terminated: recovered 3 times in a row without progress; relight deaths writer says how it died, then relight start writer");
    }
}
