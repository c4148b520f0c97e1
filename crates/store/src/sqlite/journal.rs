//! The journal: all events in order. A step's records are the rows with a step name.

use std::sync::LazyLock;

use relight_core::event::{Event, EventKind};
use relight_core::ids::TaskId;
use relight_core::step::{Output, Step, StepKey, StepState};
use rusqlite::types::Value as SqlValue;
use rusqlite::{Connection, OptionalExtension, Result, params, params_from_iter};

use super::lease_clock::LeaseNow;
use super::rows;
use crate::apply::JournalEntry;
use crate::contract::EventQuery;
use crate::record::Table;
use crate::record::{
    self, RowReader, Statement, entry_row, list_events, newest_of_each, read_event, read_output,
    read_step,
};

/// Maximum number of records per statement.
const TOGETHER_MAX: usize = 16;

/// Statements that append a number of records without a step.
static APPEND_TOGETHER: LazyLock<Vec<String>> = LazyLock::new(|| {
    let sql = |rows: usize| {
        let rows = vec!["(?, ?, ?, ?, ?, ?)"; rows].join(", ");
        // No row can fail alone, so SQLite need not keep a statement journal.
        format!("INSERT OR FAIL INTO journal (at, kind, task, agent, fence, detail) VALUES {rows}")
    };
    (0..=TOGETHER_MAX).map(sql).collect()
});

/// Appends records in order, with as few statements as possible.
pub(super) fn append(
    db: &Connection,
    mut entries: &[JournalEntry<'_>],
    now: LeaseNow,
) -> Result<()> {
    while let Some(first) = entries.first() {
        let plain = entries
            .iter()
            .take(TOGETHER_MAX)
            .take_while(|entry| entry.step.is_none());
        let count = plain.count();
        match count {
            0 => rows::insert(db, Table::Journal, entry_row(first), now)?,
            count => append_together(db, &entries[..count])?,
        }
        entries = &entries[count.max(1)..];
    }
    Ok(())
}

fn append_together(db: &Connection, entries: &[JournalEntry<'_>]) -> Result<()> {
    let mut values: Vec<SqlValue> = Vec::with_capacity(6 * entries.len());
    for entry in entries {
        values.extend([
            entry.at.as_ms().into(),
            i64::from(entry.kind.code()).into(),
            entry.task.map(|(n, _)| n).into(),
            entry.agent.map(|(n, _)| n).into(),
            entry.fence.map(|fence| fence.0.cast_signed()).into(),
            entry.kept_detail().into(),
        ]);
    }
    db.prepare_cached(&APPEND_TOGETHER[entries.len()])?
        .execute(params_from_iter(values))?;
    Ok(())
}

const STEP_COLUMNS: &str = "j.kind, j.name, j.occurrence, j.rule, j.tries, j.fence, j.at, j.exit_code, j.fingerprint, j.detail";

pub(super) fn step(db: &Connection, task: &TaskId, key: &StepKey) -> Result<Option<Step>> {
    let mut select = db.prepare_cached(&format!(
        "SELECT {STEP_COLUMNS} FROM task t JOIN journal j ON j.task = t.n
         WHERE t.id = ?1 AND j.name = ?2 AND j.occurrence = ?3 AND j.id > t.steps_from
         ORDER BY j.id DESC LIMIT 1"
    ))?;
    let values = params![task.as_str(), key.name.as_str(), key.occurrence];
    select
        .query_row(values, |row| rows::read(row, read_step))
        .optional()
}

/// The state of a step, for the writer's check.
pub(super) fn step_state(
    db: &Connection,
    n: i64,
    steps_from: i64,
    key: &StepKey,
) -> Result<Option<StepState>> {
    let mut select = db.prepare_cached(
        "SELECT kind, detail FROM journal
         WHERE task = ?1 AND name = ?2 AND occurrence = ?3 AND id > ?4
         ORDER BY id DESC LIMIT 1",
    )?;
    let values = params![n, key.name.as_str(), key.occurrence, steps_from];
    let read = |row: &mut RowReader<'_>| {
        let kind = row.code("journal.kind", EventKind::from_code)?;
        record::step_state(kind, row.some_text("journal.detail")?.as_deref())
    };
    select
        .query_row(values, |row| rows::read(row, read))
        .optional()
}

pub(super) fn steps(db: &Connection, task: &TaskId) -> Result<Vec<Step>> {
    let mut select = db.prepare_cached(&format!(
        "SELECT {STEP_COLUMNS} FROM task t JOIN journal j ON j.task = t.n
         WHERE t.id = ?1 AND j.name IS NOT NULL AND j.id > t.steps_from ORDER BY j.id"
    ))?;
    let found = select.query_map([task.as_str()], |row| rows::read(row, read_step))?;
    Ok(newest_of_each(found.collect::<Result<Vec<_>>>()?))
}

pub(super) fn output(db: &Connection, task: &TaskId, key: &StepKey) -> Result<Option<Output>> {
    let mut select = db.prepare_cached(
        "SELECT j.exit_code, COALESCE(j.body, o.body, x''), j.detail
         FROM task t JOIN journal j ON j.task = t.n LEFT JOIN output o ON o.id = j.output
         WHERE t.id = ?1 AND j.name = ?2 AND j.occurrence = ?3 AND j.id > t.steps_from
           AND j.kind != ?4
         ORDER BY j.id DESC LIMIT 1",
    )?;
    let begun = EventKind::StepBegun.code();
    let values = params![task.as_str(), key.name.as_str(), key.occurrence, begun];
    let found = select
        .query_row(values, |row| rows::read(row, read_output))
        .optional()?;
    Ok(found.flatten())
}

pub(super) fn events(db: &Connection, query: &EventQuery) -> Result<Vec<Event>> {
    let mut found = rows::list(db, &events_sql(query), read_event)?;
    if query.newest {
        found.reverse();
    }
    Ok(found)
}

pub(super) fn events_sql(query: &EventQuery) -> Statement {
    list_events(query, |kinds, order, limit| {
        format!(
            "j.id IN (SELECT id FROM journal WHERE kind IN (21, 22, 23) AND {kinds}
                AND id > ?1 AND id < ?2 ORDER BY id {order} LIMIT {limit})"
        )
    })
}

pub(super) fn newest(db: &Connection) -> Result<u64> {
    let mut select = db.prepare_cached("SELECT COALESCE(MAX(id), 0) FROM journal")?;
    Ok(select
        .query_row([], |row| row.get::<_, i64>(0))?
        .cast_unsigned())
}
