//! Tasks as rows: hot row, body and lease, read together and written separately.

use std::sync::LazyLock;

use relight_core::ids::{IdempotencyKey, TaskId};
use relight_core::task::Task;

use super::connection::{Connection, values};
use super::error::PostgresFailure;
use super::rows::{self, LeaseColumn, columns, names, some_columns, unnest, update_sql};
use crate::contract::{TaskGlance, TaskQuery, UnreadableRow};
use crate::record::{
    BODY, HOT, LEASE, REASON, TaskConditions, UNFINISHED, list_tasks, read_glance, read_task,
};
use crate::record::{Column, LEASE_LEFT, Table};

static SELECT: LazyLock<String> = LazyLock::new(|| {
    let columns = columns(Table::Task, LeaseColumn::Left);
    format!(
        "SELECT {columns}
         FROM task t JOIN task_body b ON b.n = t.n LEFT JOIN lease l ON l.n = t.n"
    )
});

pub(super) async fn by_ids(
    db: &Connection,
    ids: &[TaskId],
    ahead_ms: i64,
) -> Result<Vec<Task>, PostgresFailure> {
    let texts: Vec<String> = ids.iter().map(|id| id.as_str().to_owned()).collect();
    let sql = format!("{} WHERE t.id = ANY($2)", *SELECT);
    let rows = db.query(&sql, &values![ahead_ms, texts]).await?;
    let found = rows::readable(&rows, |row| Ok(read_task(row)?.task));
    let mut found: std::collections::HashMap<TaskId, Task> = found
        .into_iter()
        .map(|task| (task.id.clone(), task))
        .collect();
    Ok(ids.iter().filter_map(|id| found.remove(id)).collect())
}

pub(super) async fn by_id(
    db: &Connection,
    id: &TaskId,
    ahead_ms: i64,
) -> Result<Option<Task>, PostgresFailure> {
    static SQL: LazyLock<String> = LazyLock::new(|| format!("{} WHERE t.id = $2", *SELECT));
    one(db, &SQL, ahead_ms, id.as_str()).await
}

pub(super) async fn by_key(
    db: &Connection,
    key: &IdempotencyKey,
    ahead_ms: i64,
) -> Result<Option<Task>, PostgresFailure> {
    static SQL: LazyLock<String> = LazyLock::new(|| format!("{} WHERE b.key = $2", *SELECT));
    one(db, &SQL, ahead_ms, key.as_str()).await
}

async fn one(
    db: &Connection,
    sql: &str,
    ahead_ms: i64,
    name: &str,
) -> Result<Option<Task>, PostgresFailure> {
    let values = values![ahead_ms, name.to_owned()];
    Ok(rows::one(db, sql, &values, read_task)
        .await?
        .map(|entry| entry.task))
}

/// Title and steps are cut out as text: a body that is damaged, or holds a NUL, fails no query.
const CONDITIONS: TaskConditions = TaskConditions {
    held: "l.n IS NOT NULL",
    words: r#"coalesce(substring(b.spec from '^\{"title":"(([^"\\]|\\.)*)"'), '') || ' ' ||
              coalesce(split_part(split_part(b.spec, '"steps":[', 2), ']', 1), '')"#,
};

pub(super) async fn list(
    db: &Connection,
    query: &TaskQuery,
    ahead_ms: i64,
) -> Result<Vec<Task>, PostgresFailure> {
    let list = list_tasks(&SELECT, vec![ahead_ms.into()], query, &CONDITIONS);
    rows::list(db, list, |row| Ok(read_task(row)?.task)).await
}

/// As `SELECT`, also of tasks without a body: that is an empty specification, which cannot be read.
static SELECT_ANY: LazyLock<String> = LazyLock::new(|| {
    SELECT
        .replacen("JOIN task_body", "LEFT JOIN task_body", 1)
        .replacen("b.spec", "COALESCE(b.spec, '')", 1)
});

/// The tasks of a list that cannot be read.
pub(super) async fn unreadable(
    db: &Connection,
    query: &TaskQuery,
) -> Result<Vec<UnreadableRow>, PostgresFailure> {
    let list = list_tasks(&SELECT_ANY, vec![0.into()], query, &CONDITIONS);
    rows::unreadable(db, list, ("task", Table::Task.place("id")), read_task).await
}

/// All tasks that cannot be read, page by page: there may be many.
pub(super) async fn all_unreadable(db: &Connection) -> Result<Vec<UnreadableRow>, PostgresFailure> {
    let mut found = Vec::new();
    let sql = format!("{} WHERE t.n > $2 ORDER BY t.n LIMIT 1000", *SELECT_ANY);
    let mut after = 0_i64;
    loop {
        let rows = db.query(&sql, &values![0_i64, after]).await?;
        let Some(last) = rows.last() else {
            return Ok(found);
        };
        after = last.get(0);
        let named = ("task", Table::Task.place("id"));
        found.extend(rows::unreadable_of(&rows, named, read_task));
    }
}

pub(super) async fn unfinished(db: &Connection) -> Result<Vec<TaskGlance>, PostgresFailure> {
    let rows = db.query(UNFINISHED, &[]).await?;
    Ok(rows::readable(&rows, read_glance))
}

// What a writer reads, in this order: later statements see what was committed while the first waited.

/// Locks the hot rows of these tasks until the transaction ends, in the requested order, which is the
/// same for every writer.
pub(super) static LOCK: LazyLock<String> = LazyLock::new(|| lock("FOR UPDATE"));

/// The same, without rows that another writer has locked. Run it after `LOCK`: the holders of these
/// locks wait for no other task.
pub(super) static LOCK_FREE: LazyLock<String> = LazyLock::new(|| lock("FOR UPDATE SKIP LOCKED"));

fn lock(how: &str) -> String {
    let is_hot = |at| HOT.contains(&at) || at == REASON;
    let columns = some_columns(Table::Task, LeaseColumn::Until, is_hot);
    format!(
        "SELECT t.* FROM unnest($1::text[]) AS w (id)
         CROSS JOIN LATERAL (SELECT {columns} FROM task t WHERE t.id = w.id {how}) AS t"
    )
}

pub(super) const BODIES: &str = "
    SELECT w.id, b.spec, b.context, b.door FROM unnest($1::text[]) AS w (id)
    CROSS JOIN LATERAL (SELECT n FROM task WHERE task.id = w.id OFFSET 0) AS t
    CROSS JOIN LATERAL (SELECT spec, context, door FROM task_body WHERE n = t.n OFFSET 0) AS b";

pub(super) const LEASES: &str = "
    SELECT w.id, l.holder, l.since FROM unnest($1::text[]) AS w (id)
    CROSS JOIN LATERAL (SELECT n FROM task WHERE task.id = w.id OFFSET 0) AS t
    CROSS JOIN LATERAL (SELECT holder, since FROM lease WHERE n = t.n OFFSET 0) AS l";

/// The tasks with these idempotency keys.
pub(super) const KEYS: &str = "
    SELECT w.key, t.id FROM unnest($1::text[]) AS w (key)
    CROSS JOIN LATERAL (SELECT n FROM task_body WHERE task_body.key = w.key OFFSET 0) AS b
    CROSS JOIN LATERAL (SELECT id FROM task WHERE n = b.n OFFSET 0) AS t";

/// Reserves numbers for new tasks.
pub(super) const NUMBERS: &str = "SELECT nextval('task_n_seq') FROM generate_series(1, $1::bigint)";

// What a writer writes: many rows in one statement.

/// The columns that change with every commit.
pub(super) fn hot() -> &'static [Column] {
    &Table::Task.columns()[HOT.start..=REASON]
}

/// If no indexed value changes, the new version of the row needs no index entries.
pub(super) static UPDATE: LazyLock<String> =
    LazyLock::new(|| update_sql("task", hot(), "n", &["id", "created_at", "steps_from"]));

/// The number and the body; what claims need of the body is also in the hot row.
pub(super) fn body() -> Vec<Column> {
    let columns = Table::Task.columns();
    [&columns[..1], &columns[BODY]].concat()
}

pub(super) static UPDATE_BODIES: LazyLock<String> = LazyLock::new(|| {
    let unnest = unnest(&body(), 1);
    format!(
        "WITH u AS MATERIALIZED (SELECT * FROM {unnest}), needed AS (
             UPDATE task t SET needs = {NEEDS} FROM u
             WHERE t.n = u.n AND (u.needs IS NOT NULL OR t.needs IS NOT NULL))
         UPDATE task_body b SET key = u.key, folder = u.folder, spec = u.spec, context = u.context,
             door = u.door
         FROM u WHERE b.n = u.n"
    )
});

/// The skills that a task needs, from a JSON list.
const NEEDS: &str = "CASE WHEN u.needs IS NOT NULL
    THEN ARRAY(SELECT json_array_elements_text(u.needs::json)) END";

/// Inserts the three rows of a task; a missing body stays missing. `until` is the end of its lease.
pub(super) fn insert_sql(until: &str) -> String {
    let columns = Table::Task.columns();
    let (names, unnest) = (names(hot()), unnest(columns, 1));
    let values = hot().iter().map(|(name, _)| match *name {
        LEASE_LEFT => until.to_owned(),
        name => format!("u.{name}"),
    });
    let values = values.collect::<Vec<_>>().join(", ");
    format!(
        "WITH u AS MATERIALIZED (SELECT * FROM {unnest}), body AS (
             INSERT INTO task_body (n, key, folder, spec, context, door)
             SELECT n, key, folder, spec, context, door FROM u WHERE spec IS NOT NULL),
         held AS (
             INSERT INTO lease (n, since, holder, attempt)
             SELECT n, held_since, holder, holder_attempt FROM u WHERE holder IS NOT NULL)
         INSERT INTO task ({names}, needs) SELECT {values}, {NEEDS} FROM u ORDER BY place"
    )
}

pub(super) static INSERT: LazyLock<String> = LazyLock::new(|| insert_sql("u.lease_until"));

/// Marks the step records of these tasks before the last clearing as history. Run it after writing the
/// journal.
pub(super) static CLEAR_STEPS: LazyLock<String> = LazyLock::new(|| {
    let cleared = relight_core::event::EventKind::StepsCleared.code();
    format!(
        "UPDATE task t SET steps_from =
             (SELECT MAX(j.id) FROM journal j
              WHERE j.task = t.n AND j.name IS NULL AND j.kind = {cleared})
         WHERE t.n = ANY($1)"
    )
});

/// The number and the holder.
pub(super) fn lease() -> Vec<Column> {
    let columns = Table::Task.columns();
    [&columns[..1], &columns[LEASE]].concat()
}

pub(super) static WRITE_LEASES: LazyLock<String> = LazyLock::new(|| {
    let unnest = unnest(&lease(), 1);
    format!(
        "INSERT INTO lease (n, holder, since, attempt)
         SELECT n, holder, held_since, holder_attempt FROM {unnest}
         ON CONFLICT (n) DO UPDATE
         SET holder = excluded.holder, since = excluded.since, attempt = excluded.attempt"
    )
});

pub(super) const END_LEASES: &str = "DELETE FROM lease WHERE n = ANY($1)";
