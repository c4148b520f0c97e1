//! Tasks as rows: the hot row, the body and the lease.

use std::ops::Range;

use relight_core::ids::{AgentName, IdempotencyKey};
use relight_core::lease::{Fence, Holder, Lease};
use relight_core::status::TaskStatus;
use relight_core::task::{Task, TaskSpec, TaskTally};
use relight_core::time::Time;

use super::Row;
use super::{BadValue, RowReader, bad_value, held};
use crate::apply::TaskEntry;
use crate::bodies::to_json;
use crate::contract::TaskGlance;

/// Lease, counts and budgets: what most commits change.
pub(crate) const COUNTS: Range<usize> = 0..14;
/// `COUNTS`, and the fields that the queue's indexes cover.
pub(crate) const HOT: Range<usize> = 0..26;
pub(crate) const REASON: usize = 26;
/// Specification, context and checkpoint, with the columns that repeat parts of them.
pub(crate) const BODY: Range<usize> = 27..33;
/// The holder of the lease.
pub(crate) const LEASE: Range<usize> = 33..36;

/// Unfinished tasks, for `read_glance`. In SQLite, the scan in the order of n is faster than the index unless
/// most tasks are finished.
pub(crate) const UNFINISHED: &str = "
    SELECT id, status, agent, updated_at, not_before, expires_at FROM task
    WHERE status < 10 ORDER BY n";

pub(crate) fn read_glance(row: &mut RowReader<'_>) -> Result<TaskGlance, BadValue> {
    Ok(TaskGlance {
        id: row.parse("task.id")?,
        status: row.code("task.status", TaskStatus::from_code)?,
        agent: row
            .some_text("task.agent")?
            .map(|text| agent_of(&text))
            .transpose()?,
        updated_at: row.time("task.updated_at")?,
        not_before: row.some_time("task.not_before")?,
        expires_at: row.some_time("task.expires_at")?,
    })
}

/// If the body was not selected, the specification has only what the hot row repeats, and a holder that was
/// not selected is a placeholder. `left` of the lease is the value of `lease_left`.
pub(crate) fn read_task(row: &mut RowReader<'_>) -> Result<TaskEntry, BadValue> {
    let n = row.number("task.n")?;
    let fence = Fence(row.unsigned("task.fence")?);
    let is_held = row.flag("task.held")?;
    let (ttl, left) = (
        row.some_span("task.lease_ttl")?,
        row.some_span("task.lease_left")?,
    );
    let seq = row.unsigned("task.seq")?;
    let steps_done = row.unsigned("task.steps_done")?;
    let starts = row.small("task.starts")?;
    let updated_at = row.time("task.updated_at")?;
    let mut tally = TaskTally {
        recoveries: row.small("task.recoveries")?,
        progress_at: row.some_time("task.progress_at")?,
        cost_micros: row.unsigned("task.cost")?,
        turns: row.unsigned("task.turns")?,
        given_up: false,
    };
    let steps_open = row.unsigned("task.steps_open")?;
    let id = row.parse("task.id")?;
    let status = row.code("task.status", TaskStatus::from_code)?;
    let agent = row
        .some_text("task.agent")?
        .map(|text| agent_of(&text))
        .transpose()?;
    let steps_from = row.number("task.steps_from")?;
    let retries = row.small("task.retries")?;
    let max_retries = Some(row.small("task.max_retries")?);
    let priority = row.small("task.priority")?;
    let created_at = row.time("task.created_at")?;
    let not_before = row.some_time("task.not_before")?;
    let expires_at = row.some_time("task.expires_at")?;
    tally.given_up = row.flag("task.given_up")?;
    let pinned = row.flag("task.pinned")?;
    let reason = row.some_text("task.reason")?.map(String::from);
    // They repeat parts of the specification and the checkpoint.
    for column in ["task.needs", "task_body.key", "task_body.folder"] {
        row.some_text(column)?;
    }
    let spec: Option<TaskSpec> = row.some_json("task_body.spec")?;
    let context = row.some_json("task_body.context")?.unwrap_or_default();
    let checkpoint = row.some_json("task_body.door")?;
    let holder: Option<Holder> = row.some_json("lease.holder")?;
    let since = row.some_time("lease.since")?.unwrap_or(Time::from_ms(0));
    let holder = match (is_held, holder, &spec) {
        (false, ..) => None,
        (true, Some(holder), _) => Some(holder),
        (true, None, None) => Some(Holder::Time { by: String::new() }),
        (true, None, Some(_)) => return Err(bad_value("lease.holder", "nothing")),
    };
    let lease = Lease {
        fence,
        held: holder.map(|holder| held(holder, since, ttl, left)),
    };
    let spec = spec.unwrap_or(TaskSpec {
        max_retries,
        priority,
        ..TaskSpec::default()
    });
    let task = Task {
        id,
        status,
        reason,
        agent,
        pinned,
        lease,
        seq,
        steps_done,
        steps_open,
        starts,
        retries,
        tally,
        created_at,
        updated_at,
        not_before,
        expires_at,
        spec,
        context,
        checkpoint,
    };
    Ok(TaskEntry {
        steps_from,
        ..TaskEntry::new(n, task)
    })
}

/// The agent of a task.
fn agent_of(text: &str) -> Result<AgentName, BadValue> {
    AgentName::of_workflow(text).map_err(|_| bad_value("task.agent", text))
}

/// The whole row; `lease_left` holds the end of the lease.
pub(crate) fn task_row(entry: &TaskEntry) -> Row {
    let mut row = hot_row(entry);
    row.extend(body_row(&entry.task));
    row.extend(lease_row(&entry.task));
    row
}

/// `HOT` and `REASON`.
pub(crate) fn hot_row(entry: &TaskEntry) -> Row {
    let task = &entry.task;
    let mut row = counts_row(entry);
    row.extend([
        task.id.as_str().into(),
        task.status.code().into(),
        task.agent.as_ref().map(AgentName::as_str).into(),
        entry.steps_from.into(),
        task.retries.into(),
        task.max_retries().into(),
        task.spec.priority.into(),
        task.created_at.into(),
        task.not_before.into(),
        task.expires_at.into(),
        task.tally.given_up.into(),
        task.pinned.into(),
        task.reason.as_deref().into(),
    ]);
    row
}

/// `COUNTS`.
pub(crate) fn counts_row(entry: &TaskEntry) -> Row {
    let task = &entry.task;
    let held = task.lease.held.as_ref();
    vec![
        entry.n.into(),
        task.lease.fence.0.into(),
        held.is_some().into(),
        held.and_then(|held| held.ttl).into(),
        entry.lease_until.into(),
        task.seq.into(),
        task.steps_done.into(),
        task.starts.into(),
        task.updated_at.into(),
        task.tally.recoveries.into(),
        task.tally.progress_at.into(),
        task.tally.cost_micros.into(),
        task.tally.turns.into(),
        task.steps_open.into(),
    ]
}

/// `BODY`. `needs` is null if the task needs nothing.
pub(crate) fn body_row(task: &Task) -> Row {
    let needs = &task.spec.needs;
    let door = task.checkpoint.as_ref();
    vec![
        (!needs.is_empty()).then(|| to_json(needs)).into(),
        task.spec.key.as_ref().map(IdempotencyKey::as_str).into(),
        door.map(|door| door.folder.as_str()).into(),
        to_json(&task.spec).into(),
        to_json(&task.context).into(),
        door.map(to_json).into(),
    ]
}

/// `LEASE`.
pub(crate) fn lease_row(task: &Task) -> Row {
    let held = task.lease.held.as_ref();
    let attempt = held.and_then(|held| held.holder.attempt());
    let (holder, since) = (
        held.map(|held| to_json(&held.holder)),
        held.map(|held| held.since),
    );
    vec![holder.into(), since.into(), attempt.into()]
}
