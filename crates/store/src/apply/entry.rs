//! New rows of the journal.

use std::borrow::Cow;

use relight_core::agent::Agent;
use relight_core::agent::change::AgentChange;
use relight_core::change::{Change, StepMark};
use relight_core::event::{Event, EventKind};
use relight_core::ids::{AgentName, TaskId};
use relight_core::lease::Fence;
use relight_core::step::Output;
use relight_core::task::Task;
use relight_core::time::Time;
use serde_json::{Value, json};

use crate::bodies::{OutputDetail, to_json};
use crate::contract::{AgentCommit, Commit};

/// One new row of the journal.
#[derive(Debug)]
pub(crate) struct JournalEntry<'o> {
    pub(crate) at: Time,
    pub(crate) kind: EventKind,
    /// The row number and the id of the task.
    pub(crate) task: Option<(i64, &'o TaskId)>,
    pub(crate) agent: Option<(i64, &'o AgentName)>,
    pub(crate) fence: Option<Fence>,
    /// Null for a step that ended: the exit code is in its output.
    pub(crate) detail: Cow<'o, Value>,
    pub(crate) step: Option<StepEntry<'o>>,
}

/// The fields that only step records have.
#[derive(Debug)]
pub(crate) struct StepEntry<'o> {
    pub(crate) mark: &'o StepMark,
    pub(crate) output: Option<&'o Output>,
}

impl<'o> JournalEntry<'o> {
    /// The record of one change of a task; `before` is the task without it.
    pub(crate) fn of_task(
        n: i64,
        commit: &'o Commit,
        change: &'o Change,
        before: Option<&Task>,
    ) -> Self {
        let (output, detail) = match change {
            Change::StepEnded { output, .. } => (output.as_ref(), Value::Null),
            change => (None, change.detail(before)),
        };
        Self {
            task: Some((n, &commit.task)),
            fence: commit.guard.fence,
            detail: Cow::Owned(detail),
            step: change.mark().map(|mark| StepEntry { mark, output }),
            ..Self::new(commit.at, change.kind())
        }
    }

    /// The record of one change of an agent; `before` is the agent without it.
    pub(crate) fn of_agent(
        n: i64,
        commit: &'o AgentCommit,
        change: &AgentChange,
        before: &Agent,
    ) -> Self {
        Self {
            agent: Some((n, &commit.agent)),
            fence: commit.guard.fence,
            detail: Cow::Owned(change.detail(Some(before))),
            ..Self::new(commit.at, change.kind())
        }
    }

    /// An event that belongs to neither a task nor an agent.
    pub(crate) fn of_nothing(at: Time, kind: EventKind, detail: Cow<'o, Value>) -> Self {
        Self {
            detail,
            ..Self::new(at, kind)
        }
    }

    fn new(at: Time, kind: EventKind) -> Self {
        let (task, agent, fence, step) = (None, None, None, None);
        Self {
            at,
            kind,
            task,
            agent,
            fence,
            detail: Cow::Owned(Value::Null),
            step,
        }
    }

    /// The detail column: for an output its rare fields (`OutputDetail`), otherwise the detail unless it is
    /// null.
    pub(crate) fn kept_detail(&self) -> Option<String> {
        match self.step.as_ref().and_then(|step| step.output) {
            Some(output) => OutputDetail::of(output).as_ref().map(to_json),
            None => (!self.detail.is_null()).then(|| to_json(&*self.detail)),
        }
    }

    /// The event as readers get it.
    pub(crate) fn into_event(self, id: u64) -> Event {
        let output = self.step.as_ref().and_then(|step| step.output);
        Event {
            id,
            at: self.at,
            kind: self.kind,
            agent: self.agent.map(|(_, name)| name.clone()),
            task: self.task.map(|(_, id)| id.clone()),
            step: self.step.as_ref().map(|step| step.mark.key.clone()),
            fence: self.fence,
            detail: match output {
                Some(output) => json!({"exit_code": output.exit_code}),
                None => self.detail.into_owned(),
            },
        }
    }
}
