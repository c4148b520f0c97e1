//! `active_state.json`: what an agent works on, for its successor.
//!
//! A copy for programs; the store is authoritative. Every key is always present, `null` when
//! unknown.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::RecordedDeath;
use super::attempt::AttemptTag;
use crate::ids::AgentName;
use crate::task::Task;
use crate::time::Time;

/// The document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActiveState {
    /// The task it works on.
    pub task_id: Option<String>,
    /// The task's `issue`: a number when it is one, else its text.
    pub issue_number: Value,
    /// The task's `workspace`.
    pub workspace_path: Option<String>,
    /// The task's `branch`.
    pub branch_name: Option<String>,
    /// The task's `stage`.
    pub progress_stage: Option<String>,
    /// The task's `memory_refs`.
    pub memory_refs: Option<Vec<String>>,
    /// The agent.
    pub agent: Option<AgentName>,
    /// The attempt (`RELIGHT_ATTEMPT`); none outside of `relight run` and `up`.
    pub attempt: Option<AttemptTag>,
    /// The agent's own session.
    pub session_id: Option<String>,
    /// When this last changed.
    pub updated_at: Time,
    /// Why the attempt before this one ended.
    pub reason: Option<String>,
}

impl ActiveState {
    /// Builds the document from an attempt and its task.
    pub fn new(
        agent: Option<&AgentName>,
        attempt: Option<&AttemptTag>,
        session: Option<&str>,
        task: Option<&Task>,
        reason: Option<String>,
        at: Time,
    ) -> Self {
        let nothing = BTreeMap::new();
        let context = task.map_or(&nothing, |task| &task.context);
        let said = |key: &str| context.get(key).filter(|text| !text.trim().is_empty());
        Self {
            task_id: task.map(|task| task.id.to_string()),
            issue_number: said("issue").map_or(Value::Null, |text| issue(text)),
            workspace_path: said("workspace").cloned(),
            branch_name: said("branch").cloned(),
            progress_stage: said("stage").cloned(),
            memory_refs: said("memory_refs").map(|text| list(text)),
            agent: agent.cloned(),
            attempt: attempt.cloned(),
            session_id: session.map(str::to_owned),
            updated_at: at,
            reason,
        }
    }

    /// The file's text.
    pub fn to_text(&self) -> String {
        let text = serde_json::to_string_pretty(self).expect("texts and numbers are JSON");
        text + "\n"
    }

    /// Parses the file's text; none when it is not such a document.
    pub fn from_text(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// Whether both are equal except for `updated_at`.
    pub fn says_the_same(&self, other: &Self) -> bool {
        *self
            == Self {
                updated_at: self.updated_at,
                ..other.clone()
            }
    }
}

/// The `reason` text of a death: `signal: signal 9 (KILL)`.
pub fn reason(ended: &RecordedDeath) -> String {
    format!("{}: {}", ended.cause, ended.in_words())
}

/// `42` and `#42` are numbers; `PROJ-42` is not.
fn issue(text: &str) -> Value {
    let text = text.trim();
    let number = text.strip_prefix('#').unwrap_or(text).parse::<u64>();
    number.map_or_else(|_| Value::from(text), Value::from)
}

/// A JSON list or comma-separated names.
fn list(text: &str) -> Vec<String> {
    if let Ok(Value::Array(items)) = serde_json::from_str(text) {
        return items.iter().map(item).collect();
    }
    let names = text
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}

fn item(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::Change;
    use crate::ids::TaskId;
    use crate::task::NewTask;

    fn task(pairs: &[(&str, &str)]) -> Task {
        let mut new = NewTask::bare(TaskId::new("deploy-42").unwrap());
        let owned = pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        new.context = owned.collect();
        Change::first(&new, Time::from_ms(0))
    }

    fn state(task: Option<&Task>) -> ActiveState {
        let agent = AgentName::new("writer").unwrap();
        let tag = AttemptTag::new(&agent, 2, 0xabcdef);
        let at = Time::from_ms(1_777_636_800_000);
        ActiveState::new(Some(&agent), Some(&tag), None, task, None, at)
    }

    #[test]
    fn every_key_is_there_when_nothing_is_known() {
        insta::assert_snapshot!(state(None).to_text(), @r#"
        {
          "task_id": null,
          "issue_number": null,
          "workspace_path": null,
          "branch_name": null,
          "progress_stage": null,
          "memory_refs": null,
          "agent": "writer",
          "attempt": "writer.2.000000abcdef",
          "session_id": null,
          "updated_at": "2026-05-01T12:00:00Z",
          "reason": null
        }
        "#);
    }

    #[test]
    fn the_context_of_the_task_is_told_in_the_names_of_the_document() {
        let task = task(&[
            ("issue", "#42"),
            ("workspace", "/srv/app"),
            ("branch", "fix-42"),
            ("stage", "review"),
            ("memory_refs", "notes.md, plan.md,"),
            ("other", "left out"),
        ]);
        let known = ActiveState {
            session_id: Some("s-1".to_owned()),
            reason: Some("signal: signal 9 (KILL)".to_owned()),
            ..state(Some(&task))
        };
        insta::assert_snapshot!(known.to_text(), @r#"
        {
          "task_id": "deploy-42",
          "issue_number": 42,
          "workspace_path": "/srv/app",
          "branch_name": "fix-42",
          "progress_stage": "review",
          "memory_refs": [
            "notes.md",
            "plan.md"
          ],
          "agent": "writer",
          "attempt": "writer.2.000000abcdef",
          "session_id": "s-1",
          "updated_at": "2026-05-01T12:00:00Z",
          "reason": "signal: signal 9 (KILL)"
        }
        "#);
        assert_eq!(ActiveState::from_text(&known.to_text()), Some(known));
    }

    #[test]
    fn issues_are_numbers_when_they_are() {
        for (text, expected) in [
            ("7", Value::from(7)),
            ("#7", Value::from(7)),
            ("PROJ-7", Value::from("PROJ-7")),
        ] {
            assert_eq!(
                state(Some(&task(&[("issue", text)]))).issue_number,
                expected
            );
        }
        assert_eq!(
            state(Some(&task(&[("issue", " ")]))).issue_number,
            Value::Null
        );
    }

    #[test]
    fn memory_references_are_a_list_however_they_were_written() {
        for (text, expected) in [
            ("a,b", vec!["a", "b"]),
            (r#"["a, with comma", "b"]"#, vec!["a, with comma", "b"]),
            ("[1, true]", vec!["1", "true"]),
            ("[broken", vec!["[broken"]),
        ] {
            let refs = state(Some(&task(&[("memory_refs", text)]))).memory_refs;
            assert_eq!(refs.unwrap(), expected);
        }
    }

    #[test]
    fn only_the_time_may_differ_in_two_that_say_the_same() {
        let (one, other) = (state(None), state(Some(&task(&[]))));
        assert!(one.says_the_same(&ActiveState {
            updated_at: Time::from_ms(5),
            ..one.clone()
        }));
        assert!(!one.says_the_same(&other));
    }
}
