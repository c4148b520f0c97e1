//! Each noun as JSON: the one form that every front shows.
//!
//! Holders are judged here: call `Holders::look_for` for them first.

#![expect(missing_docs, reason = "the fields are those of the documented JSON")]

use std::collections::BTreeMap;

use relight_core::event::Event;
use relight_core::ids::TaskId;
use relight_core::lease::{HeldLease, Holder};
use relight_core::progress::left_open;
use relight_core::task::Cost;
use relight_core::time::{Span, Time};
use relight_core::{step, task};
use relight_store::{EventQuery, StoreError, UnreadableRow};
use serde::Serialize;
use serde_json::{Value, json};

use super::Written;
use crate::boxed::boxed;
use crate::engine::{self, Engine, TaskSnapshot};
use crate::handover::HandedOver;
use crate::holders::Holders;

/// A page of items.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct List<T> {
    pub items: Vec<T>,
    /// Pass it as `after` to get the next page; null on the last page.
    pub next: Option<String>,
    /// Rows of this page that cannot be read and are left out, each with the reason; absent when there
    /// are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schema(required = false))]
    pub unreadable: Vec<String>,
}

/// Cuts rows to a page that were read with one more than fits; the cursor of the next page, where more
/// follow. Rows that cannot be read count too: they must not end the list.
pub(crate) fn cut<S>(
    found: &mut Vec<S>,
    unreadable: &[UnreadableRow],
    limit: usize,
    cursor: impl Fn(&S) -> String,
) -> Option<String> {
    let has_more = found.len() + unreadable.len() > limit;
    found.truncate(limit);
    let last = found.last().map(cursor);
    let last = last.or_else(|| unreadable.last().map(|row| row.name.clone()));
    last.filter(|_| has_more)
}

/// Rows that cannot be read, as a list tells of them.
pub(crate) fn told(unreadable: &[UnreadableRow]) -> Vec<String> {
    unreadable.iter().map(ToString::to_string).collect()
}

impl<T> List<T> {
    /// A list whose rows were all read.
    pub fn new(items: Vec<T>, next: Option<String>) -> Self {
        let unreadable = Vec::new();
        Self {
            items,
            next,
            unreadable,
        }
    }
}

/// One unit of recoverable work.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = Task))]
pub struct TaskView {
    pub id: String,
    pub title: Option<String>,
    pub status: String,
    pub reason: Option<String>,
    pub agent: Option<String>,
    /// It belongs to its agent: the queue does not offer it to others.
    pub pinned: bool,
    pub holder: Option<HeldBy>,
    /// Number of the newest lease.
    pub fence: u64,
    /// Number of its commits.
    pub seq: u64,
    /// Finished or skipped steps, declared or not.
    pub steps_done: u64,
    pub steps_in_doubt: u64,
    /// The declared steps, in order.
    pub steps_declared: Vec<String>,
    /// How many of the declared steps are finished or skipped; in lists and for one task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps_declared_done: Option<usize>,
    pub starts: u32,
    pub retries: u32,
    pub max_retries: u32,
    /// Recoveries since a step was last finished.
    pub recoveries: u32,
    pub given_up: bool,
    /// Its cost, such as `0.25`.
    pub cost: String,
    pub turns: u64,
    /// Tokens sent to the model for it, cached ones included.
    pub input_tokens: u64,
    /// Tokens that the model wrote for it.
    pub output_tokens: u64,
    /// When a step was last finished.
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub progress_at: Option<Time>,
    /// Its own strategy; null for the configured one.
    pub strategy: Option<String>,
    /// The idempotency key: two requests with the same key are one.
    pub key: Option<String>,
    pub priority: i32,
    pub needs: Vec<String>,
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub not_before: Option<Time>,
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub expires_at: Option<Time>,
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub created_at: Time,
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub updated_at: Time,
}

/// A task with everything that a successor needs.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct WholeTask {
    #[serde(flatten)]
    pub task: TaskView,
    /// The strategy that applies when its holder dies; null if the configuration cannot be read.
    pub strategy_in_effect: Option<String>,
    pub steps: Vec<StepView>,
    pub done_steps: Vec<String>,
    pub skipped_steps: Vec<String>,
    pub in_doubt: Vec<String>,
    pub next_step: Option<String>,
    pub remaining_steps: Vec<String>,
    pub context: BTreeMap<String, String>,
    #[cfg_attr(feature = "schema", schema(value_type = Value))]
    pub payload: Option<Value>,
}

/// A task whose lease was just taken.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = Started))]
pub struct StartedView {
    pub task: String,
    pub status: String,
    pub title: Option<String>,
    pub agent: Option<String>,
    /// The fence of the lease.
    pub fence: u64,
    /// It was worked on before.
    pub resumed: bool,
    /// Set if another agent worked on it before.
    pub handed_over: Option<HandedOver>,
    pub done_steps: Vec<String>,
    pub in_doubt: Vec<String>,
    pub next_step: Option<String>,
    pub context: BTreeMap<String, String>,
    #[cfg_attr(feature = "schema", schema(value_type = Value))]
    pub payload: Option<Value>,
}

impl TaskView {
    /// With its holder as it is known.
    pub fn new(task: task::Task, holders: &Holders) -> Self {
        Self {
            max_retries: task.max_retries(),
            id: task.id.to_string(),
            title: task.spec.title,
            status: task.status.to_string(),
            reason: task.reason,
            agent: task.agent.map(String::from),
            pinned: task.pinned,
            holder: task
                .lease
                .held
                .as_ref()
                .map(|held| HeldBy::new(held, holders)),
            fence: task.lease.fence.0,
            seq: task.seq,
            steps_done: task.steps_done,
            steps_in_doubt: task.steps_open,
            steps_declared: task.spec.steps.iter().map(ToString::to_string).collect(),
            steps_declared_done: None,
            starts: task.starts,
            retries: task.retries,
            recoveries: task.tally.recoveries,
            given_up: task.tally.given_up,
            cost: Cost(task.tally.cost_micros).to_string(),
            turns: task.tally.turns,
            input_tokens: task.spec.meter.used.input_tokens,
            output_tokens: task.spec.meter.used.output_tokens,
            progress_at: task.tally.progress_at,
            strategy: task.spec.strategy,
            key: task.spec.key.map(String::from),
            priority: task.spec.priority,
            needs: task.spec.needs,
            not_before: task.not_before,
            expires_at: task.expires_at,
            created_at: task.created_at,
            updated_at: task.updated_at,
        }
    }

    /// As lists show it.
    pub fn listed(task: task::Task, declared_done: Option<usize>, holders: &Holders) -> Self {
        Self {
            steps_declared_done: declared_done.or(Some(0)),
            ..Self::new(task, holders)
        }
    }
}

impl WholeTask {
    /// With the strategy of tasks that have none of their own, where it is known.
    pub fn new(view: TaskSnapshot, strategy: Option<&str>, holders: &Holders) -> Self {
        let TaskSnapshot {
            task,
            steps,
            progress,
        } = view;
        let declared = &task.spec.steps;
        let declared_done = declared.len() - left_open(declared, &steps).len();
        let steps_in_doubt = progress.in_doubt.len() as u64;
        Self {
            strategy_in_effect: task
                .spec
                .strategy
                .as_deref()
                .or(strategy)
                .map(str::to_owned),
            steps: steps
                .iter()
                .map(|step| StepView::new(&task.id, step))
                .collect(),
            done_steps: progress.done_steps,
            skipped_steps: progress.skipped_steps,
            in_doubt: progress.in_doubt,
            next_step: progress.next_step,
            remaining_steps: progress.remaining_steps,
            context: task.context.clone(),
            payload: task.spec.payload.clone(),
            task: TaskView {
                steps_declared_done: Some(declared_done),
                steps_in_doubt,
                ..TaskView::new(task, holders)
            },
        }
    }
}

impl From<engine::Started> for StartedView {
    fn from(started: engine::Started) -> Self {
        let TaskSnapshot { task, progress, .. } = started.view;
        Self {
            fence: started.fence.0,
            resumed: started.resumed,
            handed_over: started.handed_over,
            done_steps: progress.done_steps,
            in_doubt: progress.in_doubt,
            next_step: progress.next_step,
            task: task.id.to_string(),
            status: task.status.to_string(),
            title: task.spec.title,
            agent: task.agent.map(String::from),
            context: task.context,
            payload: task.spec.payload,
        }
    }
}

impl From<Written<engine::Started>> for Written<StartedView> {
    fn from(written: Written<engine::Started>) -> Self {
        written.map(|started, _| started.into())
    }
}

/// One recorded part of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = Step))]
pub struct StepView {
    pub name: String,
    pub occurrence: u32,
    /// `begun`, `done`, `failed` or `skipped`.
    pub state: String,
    /// `keyed`, `repeatable`, `verify` or `once`.
    pub rule: String,
    pub tries: u32,
    /// The fence of the lease under which it began.
    pub fence: u64,
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub at: Time,
    pub exit_code: Option<i32>,
    /// The same for every try of the step.
    pub idempotency_key: String,
}

impl StepView {
    pub fn new(task: &TaskId, step: &step::Step) -> Self {
        Self {
            idempotency_key: step.key.idempotency_key(task),
            name: step.key.name.to_string(),
            occurrence: step.key.occurrence,
            state: step.state.as_str().to_owned(),
            rule: step.rule.to_string(),
            tries: step.tries,
            fence: step.fence.0,
            at: step.at,
            exit_code: step.exit_code,
        }
    }
}

/// A step with what it wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct StepWithOutput {
    pub task: String,
    #[serde(flatten)]
    pub step: StepView,
    /// Standard output, or the value of a library's step, redacted; null if none was recorded. Of the last
    /// try that ended.
    pub output: Option<String>,
    /// The end of standard error, redacted.
    pub stderr: Option<String>,
    /// The size of the whole output.
    pub output_bytes: u64,
    /// The output was too long: this is its beginning and its end.
    pub truncated: bool,
    /// Secrets were removed from it.
    pub redacted: bool,
}

impl StepWithOutput {
    pub fn new(task: &TaskId, step: &step::Step, output: Option<&step::Output>) -> Self {
        let cut = output.and_then(|output| output.cut.as_ref());
        let kept_bytes = output.map_or(0, |output| output.body.len() as u64);
        Self {
            task: task.to_string(),
            step: StepView::new(task, step),
            output: output.map(output_text),
            stderr: output
                .map(|output| output.stderr.clone())
                .filter(|text| !text.is_empty()),
            output_bytes: cut.map_or(kept_bytes, |cut| cut.bytes),
            truncated: cut.is_some(),
            redacted: output.is_some_and(|output| output.redacted),
        }
    }
}

/// The output, with a line for what was left out of it.
fn output_text(output: &step::Output) -> String {
    let text = |body: &[u8]| String::from_utf8_lossy(body).into_owned();
    let Some(cut) = &output.cut else {
        return text(&output.body);
    };
    let head = usize::try_from(cut.head_bytes).unwrap_or(usize::MAX);
    let (head, tail) = output.body.split_at(head.min(output.body.len()));
    let left_out = cut.bytes.saturating_sub(output.body.len() as u64);
    format!(
        "{}\n… {left_out} bytes left out …\n{}",
        text(head),
        text(tail)
    )
}

/// What a successor learns about a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = Brief))]
pub struct BriefView {
    pub task: String,
    /// Redacted; null if nothing was interrupted.
    pub text: Option<String>,
    /// The attempt of the task's agent that was given this text; null if it is what the next one would be given.
    pub given_to: Option<u32>,
}

/// The holder of a task, or the owner of a session's turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct HeldBy {
    /// `process`, `attempt` or `time`.
    pub kind: &'static str,
    /// For people.
    pub text: String,
    /// Of a process.
    pub pid: Option<u32>,
    /// Of an attempt of an agent.
    pub attempt: Option<String>,
    /// The user or agent who took a time lease.
    pub by: Option<String>,
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub since: Time,
    pub alive: bool,
    /// The rest of the lease; null if it has no time limit.
    pub left_ms: Option<u64>,
}

impl HeldBy {
    /// With its life as it is known.
    pub fn new(held: &HeldLease, holders: &Holders) -> Self {
        let (kind, pid, attempt, by) = match &held.holder {
            Holder::Process(process) => ("process", Some(process.pid), None, None),
            Holder::Attempt {
                attempt, process, ..
            } => {
                let pid = process.as_ref().map(|process| process.pid);
                ("attempt", pid, Some(attempt.clone()), None)
            }
            Holder::Time { by } => ("time", None, None, Some(by.clone())),
        };
        Self {
            kind,
            text: held.holder.to_string(),
            pid,
            attempt,
            by,
            since: held.since,
            alive: holders.is_alive(held),
            left_ms: held.left.map(Span::as_ms),
        }
    }
}

/// One entry of the journal.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = Event))]
pub struct EventView {
    /// Grows; never reused.
    pub id: u64,
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub at: Time,
    #[cfg_attr(feature = "schema", schema(example = "attempt.died"))]
    pub kind: String,
    pub agent: Option<String>,
    pub task: Option<String>,
    pub step: Option<String>,
    /// The fence of the lease under which it was written.
    pub fence: Option<u64>,
    /// Data that depends on the kind.
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub detail: Value,
}

impl From<Event> for EventView {
    fn from(event: Event) -> Self {
        Self {
            id: event.id,
            at: event.at,
            kind: event.kind.as_str().to_owned(),
            agent: event.agent.map(String::from),
            task: event.task.map(String::from),
            step: event.step.map(|step| step.to_string()),
            fence: event.fence.map(|fence| fence.0),
            detail: Some(event.detail)
                .filter(|detail| !detail.is_null())
                .unwrap_or_else(|| json!({})),
        }
    }
}

impl EventView {
    /// A page of events; `next` is the `after` of the next one, of the newest the `before`.
    #[boxed]
    pub async fn page(engine: &Engine, query: EventQuery) -> Result<List<Self>, StoreError> {
        let (limit, newest) = (query.limit, query.newest);
        let found = engine.store().events(query).await?;
        let edge = if newest { found.first() } else { found.last() };
        let edge = edge.filter(|_| found.len() == limit);
        let next = edge.map(|event| event.id.to_string());
        Ok(List::new(found.into_iter().map(Self::from).collect(), next))
    }
}

/// The steps of a task.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepList {
    pub task: TaskId,
    #[serde(flatten)]
    pub steps: List<StepView>,
    pub done_steps: Vec<String>,
    pub skipped_steps: Vec<String>,
    pub in_doubt: Vec<String>,
    pub next_step: Option<String>,
}

impl StepList {
    /// All of them.
    pub fn new(view: &TaskSnapshot) -> Self {
        let (id, progress) = (&view.task.id, view.progress.clone());
        let items = view.steps.iter().map(|step| StepView::new(id, step));
        Self {
            task: id.clone(),
            steps: List::new(items.collect(), None),
            done_steps: progress.done_steps,
            skipped_steps: progress.skipped_steps,
            in_doubt: progress.in_doubt,
            next_step: progress.next_step,
        }
    }
}
