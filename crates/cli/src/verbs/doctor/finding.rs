//! One thing that was looked at.

use serde::Serialize;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Severity {
    /// As it should be.
    Ok,
    /// Works, but somebody should look.
    Warning,
    /// Does not work.
    Problem,
}

/// One line of the report.
#[derive(Debug, Serialize)]
pub(super) struct DoctorFinding {
    pub(super) level: Severity,
    topic: &'static str,
    text: String,
    hint: Option<String>,
}

impl DoctorFinding {
    pub(super) fn ok(topic: &'static str, text: impl Into<String>) -> Self {
        Self {
            level: Severity::Ok,
            topic,
            text: text.into(),
            hint: None,
        }
    }

    pub(super) fn warning(topic: &'static str, text: impl Into<String>) -> Self {
        Self {
            level: Severity::Warning,
            ..Self::ok(topic, text)
        }
    }

    pub(super) fn problem(topic: &'static str, text: impl Into<String>) -> Self {
        Self {
            level: Severity::Problem,
            ..Self::ok(topic, text)
        }
    }

    /// What to type next.
    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(super) fn line(&self) -> String {
        let level = match self.level {
            Severity::Ok => "ok",
            Severity::Warning => "warning",
            Severity::Problem => "problem",
        };
        let hint = self
            .hint
            .as_ref()
            .map(|hint| format!("; try: {hint}"))
            .unwrap_or_default();
        format!("{level:<8} {:<11} {}{hint}", self.topic, self.text).replace('\n', " ")
    }
}
