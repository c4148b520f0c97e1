//! Removes old records in transactions of bounded size, so that locks are short.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::LazyLock;

use relight_core::event::EventKind;
use relight_core::ids::{AgentName, SessionKey, TaskId};
use relight_core::session::SessionStateKind;
use relight_core::time::Time;

use super::connection::{Connection, LONG_WAIT, Script, get, values};
use super::error::PostgresFailure;
use super::journal;
use super::open;
use super::text;
use crate::apply::JournalEntry;
use crate::contract::{AGENT_FORGOTTEN, KeptRange};
use crate::record::parse;

/// Maximum number of tasks removed per transaction.
const TASKS_MAX: usize = 100;
/// Journal rows examined per transaction.
const JOURNAL_STRETCH: i64 = 20_000;
/// Maximum number of rows removed per transaction.
const ROWS_MAX: i64 = 5_000;
/// Age at which a writer's mark is removed.
const MARK_AGE_MS_MAX: i64 = 24 * 60 * 60 * 1_000;

/// Removes tasks that are unchanged since the caller read them.
pub(super) async fn tasks(
    db: &Connection,
    wanted: &[(TaskId, u64)],
    at: Time,
    journal_key: i64,
) -> Result<Vec<TaskId>, PostgresFailure> {
    let mut removed = Vec::new();
    for some in wanted.chunks(TASKS_MAX) {
        removed.extend(some_tasks(db, some, at, journal_key).await?);
    }
    Ok(removed)
}

async fn some_tasks(
    db: &Connection,
    wanted: &[(TaskId, u64)],
    at: Time,
    journal_key: i64,
) -> Result<Vec<TaskId>, PostgresFailure> {
    let ids: Vec<String> = wanted
        .iter()
        .map(|(id, _)| id.as_str().to_owned())
        .collect();
    let seqs: Vec<i64> = wanted.iter().map(|(_, seq)| seq.cast_signed()).collect();
    begin(db).await?;
    let delete = "DELETE FROM task t USING unnest($1::text[], $2::bigint[]) AS w (id, seq)
                  WHERE t.id = w.id AND t.seq = w.seq RETURNING t.n, t.id, t.seq";
    let (mut numbers, mut gone) = (Vec::new(), HashSet::new());
    for row in db.query(delete, &values![ids, seqs]).await? {
        let id: TaskId = get(&row, 1)
            .and_then(|id| parse(id, "task.id"))
            .map_err(|bad| db.damaged(&bad))?;
        numbers.push(row.get::<_, i64>(0));
        gone.insert((id, row.get::<_, i64>(2).cast_unsigned()));
    }
    // In the requested order, without duplicates.
    let removed: Vec<TaskId> = wanted
        .iter()
        .filter_map(|pair| gone.take(pair))
        .map(|(id, _)| id)
        .collect();
    for sql in [
        "DELETE FROM journal WHERE task = ANY($1)",
        "DELETE FROM task_body WHERE n = ANY($1)",
        "DELETE FROM lease WHERE n = ANY($1)",
    ] {
        db.query_within(LONG_WAIT, sql, &values![numbers.clone()])
            .await?;
    }
    let told = |id: &TaskId| {
        let detail = Cow::Owned(serde_json::json!({"task": id}));
        JournalEntry::of_nothing(at, EventKind::TaskForgotten, detail)
    };
    commit(
        db,
        &removed.iter().map(told).collect::<Vec<_>>(),
        journal_key,
    )
    .await?;
    Ok(removed)
}

/// Begins a transaction and locks the schema's `meta` against changes, because a removal has no
/// writer mark.
async fn begin(db: &Connection) -> Result<(), PostgresFailure> {
    db.batch("BEGIN").await?;
    let row = db
        .query_opt("SELECT min_compatible FROM meta WHERE one FOR SHARE", &[])
        .await?;
    let min_compatible = row.map_or(0, |row| row.get(0));
    Ok(open::check_compatible(&db.place, min_compatible)?)
}

/// Writes the events and commits.
async fn commit(
    db: &Connection,
    told: &[JournalEntry<'_>],
    journal_key: i64,
) -> Result<(), PostgresFailure> {
    let mut script = Script::default();
    if !told.is_empty() {
        journal::append(&mut script, journal_key, told);
    }
    script.add("COMMIT", Vec::new());
    db.run(script).await.map(drop)
}

/// Removes old events that are not step records, and marks of old writers. The newest id is kept.
pub(super) async fn events(db: &Connection, before: Time) -> Result<u64, PostgresFailure> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        let cleared = EventKind::StepsCleared.code();
        format!(
            "WITH gone AS (
                 DELETE FROM journal WHERE id > $1 AND id <= $2 AND id < $3 AND name IS NULL
                     AND at < $4 AND kind != {cleared} RETURNING 1)
             SELECT COUNT(*) FROM gone"
        )
    });
    let newest = journal::newest(db).await?.cast_signed();
    let (mut from, mut count) = (i64::MIN, 0);
    while let Some(stretch) = next_stretch(db, from).await? {
        // Node clocks differ slightly, so ids and times are only nearly in the same order. Missed
        // events are removed the next time.
        if stretch.oldest_at >= before.as_ms() {
            break;
        }
        let values = values![from, stretch.to, newest, before.as_ms()];
        count += counted(db, &SQL, values).await?;
        from = stretch.to;
    }
    let marks = "DELETE FROM commit_mark
                 WHERE at < (extract(epoch FROM clock_timestamp()) * 1000)::bigint - $1";
    db.query(marks, &values![MARK_AGE_MS_MAX]).await?;
    Ok(count)
}

/// A range of journal rows.
struct Stretch {
    to: i64,
    oldest_at: i64,
}

/// By row count, because ids may have large gaps, such as after a restore.
async fn next_stretch(db: &Connection, after: i64) -> Result<Option<Stretch>, PostgresFailure> {
    let sql = "SELECT MAX(id), MIN(at) FROM
                   (SELECT id, at FROM journal WHERE id > $1 ORDER BY id LIMIT $2) AS next";
    let rows = db
        .query_within(LONG_WAIT, sql, &values![after, JOURNAL_STRETCH])
        .await?;
    let row = rows.first().expect("an aggregate gives a row");
    let ends: (Option<i64>, Option<i64>) = (row.get(0), row.get(1));
    Ok(ends
        .0
        .zip(ends.1)
        .map(|(to, oldest_at)| Stretch { to, oldest_at }))
}

/// Removes ended attempts begun before this, except the newest of each agent.
pub(super) async fn attempts(db: &Connection, before: Time) -> Result<u64, PostgresFailure> {
    let sql = "
        WITH gone AS (
            DELETE FROM attempt WHERE n IN (
                SELECT a.n FROM attempt a WHERE a.cause IS NOT NULL AND a.begun_at < $1
                    AND a.number < (SELECT MAX(b.number) FROM attempt b WHERE b.agent = a.agent)
                LIMIT $2) RETURNING 1)
        SELECT COUNT(*) FROM gone";
    let mut count = 0;
    loop {
        let some = counted(db, sql, values![before.as_ms(), ROWS_MAX]).await?;
        count += some;
        if some < ROWS_MAX.cast_unsigned() {
            return Ok(count);
        }
    }
}

/// Removes sessions that are unchanged since they were read and have no open turn.
pub(super) async fn sessions(
    db: &Connection,
    wanted: &[(SessionKey, u64)],
) -> Result<u64, PostgresFailure> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        let active = SessionStateKind::Active.code();
        format!(
            "WITH gone AS (
                 DELETE FROM session s USING unnest($1::text[], $2::bigint[]) AS w (key, seq)
                 WHERE s.key = w.key AND s.seq = w.seq AND s.state <> {active} RETURNING 1)
             SELECT COUNT(*) FROM gone"
        )
    });
    let mut count = 0;
    for some in wanted.chunks(ROWS_MAX as usize) {
        let keys: Vec<String> = some
            .iter()
            .map(|(key, _)| key.as_str().to_owned())
            .collect();
        let seqs: Vec<i64> = some.iter().map(|(_, seq)| seq.cast_signed()).collect();
        count += counted(db, &SQL, values![keys, seqs]).await?;
    }
    Ok(count)
}

/// Removes the small records of a range.
pub(super) async fn kept(db: &Connection, range: &KeptRange) -> Result<u64, PostgresFailure> {
    let sql = "WITH gone AS (DELETE FROM kept WHERE name >= $1 AND name < $2 RETURNING 1)
               SELECT COUNT(*) FROM gone";
    let [from, to] = [&range.from, &range.to].map(|name| text::kept(name).into_owned());
    counted(db, sql, values![from, to]).await
}

/// Runs a removal in its own transaction and counts the rows.
async fn counted(
    db: &Connection,
    sql: &str,
    values: Vec<super::connection::Value>,
) -> Result<u64, PostgresFailure> {
    begin(db).await?;
    let rows = db.query_within(LONG_WAIT, sql, &values).await?;
    db.batch("COMMIT").await?;
    Ok(rows
        .first()
        .map_or(0, |row| row.get::<_, i64>(0))
        .cast_unsigned())
}

/// Removes an agent without a holder, with all its records.
pub(super) async fn agent(
    db: &Connection,
    name: &AgentName,
    seq: u64,
    at: Time,
    journal_key: i64,
) -> Result<bool, PostgresFailure> {
    begin(db).await?;
    let delete = "DELETE FROM agent WHERE name = $1 AND seq = $2 AND NOT held RETURNING n";
    let row = db
        .query_opt(
            delete,
            &values![name.as_str().to_owned(), seq.cast_signed()],
        )
        .await?;
    let Some(n) = row.map(|row| row.get::<_, i64>(0)) else {
        db.batch("ROLLBACK").await?;
        return Ok(false);
    };
    for sql in [
        "DELETE FROM journal WHERE agent = $1",
        "DELETE FROM attempt WHERE agent = $1",
    ] {
        db.query_within(LONG_WAIT, sql, &values![n]).await?;
    }
    let detail = Cow::Owned(serde_json::json!({"forgotten": name}));
    commit(
        db,
        &[JournalEntry::of_nothing(at, AGENT_FORGOTTEN, detail)],
        journal_key,
    )
    .await?;
    Ok(true)
}
