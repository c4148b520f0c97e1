//! The journal: all events in order. A step's records are the rows with a step name.

use std::sync::LazyLock;

use relight_core::event::{Event, EventKind};
use relight_core::ids::TaskId;
use relight_core::step::{Output, Step, StepKey};

use super::connection::{Connection, Script, Value, values};
use super::error::PostgresFailure;
use super::rows::{self, names, unnest};
use crate::apply::JournalEntry;
use crate::contract::EventQuery;
use crate::record::{Column, Row, Table};
use crate::record::{entry_row, list_events, newest_of_each, read_event, read_output, read_step};

/// All columns except the number, which the database assigns.
fn written() -> &'static [Column] {
    &Table::Journal.columns()[1..]
}

/// The columns of a step's record, without task (passed separately) and agent: time, kind, fence, name,
/// occurrence, rule, tries, fingerprint, exit code, detail and body.
fn step_columns() -> Vec<Column> {
    let columns = Table::Journal.columns();
    [&columns[1..3], &columns[5..]].concat()
}

fn step_row(entry: &JournalEntry<'_>) -> Row {
    let mut row = entry_row(entry);
    row.drain(3..5);
    row.remove(0);
    row
}

/// The parameters of `append_steps` for the records.
pub(super) fn step_values(entries: &[JournalEntry<'_>]) -> Vec<Value> {
    rows::lists_of(&step_columns(), entries.iter().map(step_row).collect())
}

/// The parameters of `append_step` for a record; time and fence are those of its task.
pub(super) fn one_step_values(entry: &JournalEntry<'_>) -> Vec<Value> {
    let columns = step_columns().into_iter().zip(step_row(entry));
    let columns = columns.filter(|((name, _), _)| !["at", "fence"].contains(name));
    columns
        .map(|((_, kind), cell)| rows::scalar(kind, cell))
        .collect()
}

/// Until the transaction ends, no other writer draws numbers of the journal. They must become visible in
/// order, because a reader that has seen a later one never looks for an earlier one. The lock is taken in
/// the same statement, when all its values have arrived, so that outputs on a slow link block no one.
/// Numbers are drawn from the result of the join, and so after the lock.
static APPEND: LazyLock<String> = LazyLock::new(|| {
    let (names, unnest, key) = (names(written()), unnest(written(), 1), written().len() + 1);
    format!(
        "INSERT INTO journal ({names}) SELECT {names}
         FROM pg_advisory_xact_lock(${key}::bigint) AS one_at_a_time CROSS JOIN {unnest}
         ORDER BY place"
    )
});

/// Appends entries; one of the last statements of a transaction.
pub(super) fn append(script: &mut Script, journal_key: i64, entries: &[JournalEntry<'_>]) {
    let row = |entry: &JournalEntry<'_>| entry_row(entry).into_iter().skip(1).collect();
    let mut values = rows::lists_of(written(), entries.iter().map(row).collect());
    values.extend(values![journal_key]);
    script.add(&APPEND, values);
}

/// The state of each of these steps: its place in the query, the kind of its newest record, and the
/// detail of a resolution.
pub(super) static STATES: LazyLock<String> = LazyLock::new(|| {
    let resolved = EventKind::StepResolved.code();
    format!(
        "SELECT w.place, j.kind, CASE WHEN j.kind = {resolved} THEN j.detail END
         FROM unnest($1::text[], $2::text[], $3::bigint[]) WITH ORDINALITY
              AS w (id, name, occurrence, place)
         CROSS JOIN LATERAL (SELECT n, steps_from FROM task WHERE task.id = w.id OFFSET 0) AS t
         CROSS JOIN LATERAL (
             SELECT kind, detail FROM journal
             WHERE task = t.n AND name = w.name AND occurrence = w.occurrence AND id > t.steps_from
             ORDER BY id DESC LIMIT 1) j"
    )
});

const STEP_COLUMNS: &str = "
    j.kind, j.name, j.occurrence, j.rule, j.tries, j.fence, j.at, j.exit_code, j.fingerprint,
    CASE WHEN j.exit_code IS NULL THEN j.detail END";

pub(super) async fn step(
    db: &Connection,
    task: &TaskId,
    key: &StepKey,
) -> Result<Option<Step>, PostgresFailure> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        format!(
            "SELECT {STEP_COLUMNS} FROM task t JOIN journal j ON j.task = t.n
             WHERE t.id = $1 AND j.name = $2 AND j.occurrence = $3 AND j.id > t.steps_from
             ORDER BY j.id DESC LIMIT 1"
        )
    });
    rows::one(db, &SQL, &key_values(task, key), read_step).await
}

fn key_values(task: &TaskId, key: &StepKey) -> Vec<Value> {
    values![
        task.as_str().to_owned(),
        key.name.as_str().to_owned(),
        i64::from(key.occurrence)
    ]
}

pub(super) async fn steps(db: &Connection, task: &TaskId) -> Result<Vec<Step>, PostgresFailure> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        format!(
            "SELECT {STEP_COLUMNS} FROM task t JOIN journal j ON j.task = t.n
             WHERE t.id = $1 AND j.name IS NOT NULL AND j.id > t.steps_from ORDER BY j.id"
        )
    });
    let rows = db.query(&SQL, &values![task.as_str().to_owned()]).await?;
    let steps: Result<Vec<Step>, _> = rows.iter().map(|row| rows::read(row, read_step)).collect();
    Ok(newest_of_each(steps.map_err(|bad| db.damaged(&bad))?))
}

pub(super) async fn output(
    db: &Connection,
    task: &TaskId,
    key: &StepKey,
) -> Result<Option<Output>, PostgresFailure> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        let begun = EventKind::StepBegun.code();
        format!(
            "SELECT j.exit_code, COALESCE(j.body, ''), j.detail
             FROM task t JOIN journal j ON j.task = t.n
             WHERE t.id = $1 AND j.name = $2 AND j.occurrence = $3 AND j.id > t.steps_from
               AND j.kind != {begun}
             ORDER BY j.id DESC LIMIT 1"
        )
    });
    Ok(rows::one(db, &SQL, &key_values(task, key), read_output)
        .await?
        .flatten())
}

pub(super) async fn events(
    db: &Connection,
    query: &EventQuery,
) -> Result<Vec<Event>, PostgresFailure> {
    let by_index = |kinds: &str, _: &str, _| format!("j.{kinds} AND j.kind IN (21, 22, 23)");
    let mut found = rows::list(db, list_events(query, by_index), read_event).await?;
    if query.newest {
        found.reverse();
    }
    Ok(found)
}

pub(super) async fn newest(db: &Connection) -> Result<u64, PostgresFailure> {
    let row = db
        .query_opt("SELECT COALESCE(MAX(id), 0) FROM journal", &[])
        .await?;
    Ok(row.map_or(0, |row| row.get::<_, i64>(0)).cast_unsigned())
}
