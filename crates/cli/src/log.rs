//! What a supervisor says, a line each: as text for people, or as JSON for whoever collects logs.
//!
//! How a line is written is settled once, by `up` and `run`; every other command writes text. Secrets
//! that the store's redactor knows are taken out of both.

use std::sync::OnceLock;

use clap::ValueEnum;
use relight_runtime::engine::Engine;
use relight_runtime::os::clock;
use serde_json::json;

use crate::exit::{Exit, Failure};
use crate::terminal_filter::clean;

/// The variable that says how, where no flag does.
pub(crate) const VARIABLE: &str = "RELIGHT_LOG_FORMAT";

/// How lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    /// It happened.
    Info,
    /// It is not as it should be, and goes on.
    Warn,
    /// Somebody has to act.
    Error,
}

impl Level {
    fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

/// One thing that is said.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line<'a> {
    pub(crate) level: Level,
    /// What kind of thing happened.
    pub(crate) event: &'a str,
    pub(crate) agent: Option<&'a str>,
    pub(crate) task: Option<&'a str>,
    pub(crate) message: &'a str,
    /// What to type next.
    pub(crate) hint: Option<&'a str>,
}

impl<'a> Line<'a> {
    /// Of no agent and no task.
    pub(crate) fn of(level: Level, event: &'a str, message: &'a str) -> Self {
        Self {
            level,
            event,
            agent: None,
            task: None,
            message,
            hint: None,
        }
    }

    /// As it goes out, without the end of the line.
    pub(crate) fn written(&self) -> String {
        match FORMAT.get().copied().unwrap_or_default() {
            LogFormat::Text => self.as_text(),
            LogFormat::Json => self.as_json(),
        }
    }

    fn as_text(&self) -> String {
        let message = clean(&redacted(self.message));
        let mut text = match self.agent {
            Some(agent) => format!("relight: {}: {message}", clean(agent)),
            None => format!("relight: {message}"),
        };
        if let Some(hint) = self.hint {
            text += &format!("\n  try: {}", clean(hint));
        }
        text
    }

    fn as_json(&self) -> String {
        json!({
            "time": clock::now(),
            "level": self.level.as_str(),
            "event": self.event,
            "agent": self.agent,
            "task": self.task,
            "message": clean(&redacted(self.message)),
            "hint": self.hint.map(clean),
        })
        .to_string()
    }
}

/// Set once at the start: standard error is one for the process.
static FORMAT: OnceLock<LogFormat> = OnceLock::new();
/// Redacts every line of the process, also where whoever writes it has no engine.
static ENGINE: OnceLock<Engine> = OnceLock::new();

/// Settles how lines are written: the flag, else the variable, else the configuration.
pub(crate) fn settle(
    variable: Option<&str>,
    flag: Option<LogFormat>,
    configured: LogFormat,
) -> Result<(), Failure> {
    let format = match (flag, variable) {
        (Some(format), _) => format,
        (None, Some(word)) => LogFormat::from_str(word, false).map_err(|_| {
            Failure::new(
                Exit::Usage,
                format!("{VARIABLE} is {word:?}, which is not a format of logs"),
            )
            .hint("write text or json")
        })?,
        (None, None) => configured,
    };
    // The first word counts.
    let _ = FORMAT.set(format);
    Ok(())
}

/// From now on what this store's redactor knows is taken out.
pub(crate) fn redact_with(engine: &Engine) {
    let _ = ENGINE.set(engine.clone());
}

/// Whether lines are JSON.
pub(crate) fn is_json() -> bool {
    FORMAT.get() == Some(&LogFormat::Json)
}

fn redacted(text: &str) -> std::borrow::Cow<'_, str> {
    ENGINE
        .get()
        .map_or_else(|| text.into(), |engine| engine.redactor().text(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line() -> Line<'static> {
        Line {
            agent: Some("writer"),
            task: Some("t"),
            ..Line::of(
                Level::Warn,
                "attempt.died",
                "it died \u{1b}[31m\nof \"this\"",
            )
        }
    }

    #[test]
    fn a_line_is_one_object_whatever_is_in_it() {
        let text = line().as_json();
        assert_eq!(text.lines().count(), 1);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert!(value["time"].as_str().unwrap().ends_with('Z'));
        assert_eq!(value["message"], "it died \\u{1b}[31m\nof \"this\"");
        assert_eq!(
            (&value["level"], &value["agent"]),
            (&json!("warn"), &json!("writer"))
        );
        assert_eq!(
            (&value["event"], &value["task"]),
            (&json!("attempt.died"), &json!("t"))
        );
    }

    #[test]
    fn for_people_it_is_as_it_was() {
        let text = Line {
            message: "it died",
            ..line()
        }
        .as_text();
        assert_eq!(text, "relight: writer: it died");
    }
}
