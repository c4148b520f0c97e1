//! Tasks as rows: hot row, body and lease, read together and written separately.

use std::sync::LazyLock;

use relight_core::event::EventKind;
use relight_core::ids::{IdempotencyKey, TaskId};
use relight_core::task::Task;
use rusqlite::{Connection, OptionalExtension, Result, Row, params};

use super::lease_clock::LeaseNow;
use super::rows::{self, columns, some_columns, update_sql};
use crate::apply::{TaskEntry, TaskParts, until};
use crate::contract::{TaskGlance, TaskQuery, UnreadableRow};
use crate::record::Table;
use crate::record::{
    COUNTS, HOT, LEASE, REASON, Statement, TaskConditions, UNFINISHED, body_row, counts_row,
    hot_row, lease_row, list_tasks, read_glance, read_task, task_row,
};

static SELECT: LazyLock<String> = LazyLock::new(|| {
    let columns = columns(Table::Task);
    format!(
        "SELECT {columns}
         FROM task t JOIN task_body b ON b.n = t.n LEFT JOIN lease l ON l.n = t.n"
    )
});

/// A task without its body, which most commits do not need; with reason and holder, or without
/// both.
static SELECT_LEAN: LazyLock<String> = LazyLock::new(|| {
    let is_lean = |at| HOT.contains(&at) || at == REASON || LEASE.contains(&at);
    let columns = some_columns(Table::Task, is_lean);
    format!(
        "SELECT {columns} FROM task t JOIN task_body b ON b.n = t.n LEFT JOIN lease l ON l.n = t.n
         WHERE t.id = ?3"
    )
});
static SELECT_HOT: LazyLock<String> = LazyLock::new(|| {
    let columns = some_columns(Table::Task, |at| HOT.contains(&at));
    format!("SELECT {columns} FROM task t WHERE t.id = ?3")
});

fn one(db: &Connection, sql: &str, name: &str, now: LeaseNow) -> Result<Option<TaskEntry>> {
    let mut select = db.prepare_cached(sql)?;
    select
        .query_row(params![now.ms, now.boot, name], |row| {
            rows::read(row, read_task)
        })
        .optional()
}

pub(super) fn by_id(db: &Connection, id: &TaskId, now: LeaseNow) -> Result<Option<Task>> {
    static SQL: LazyLock<String> = LazyLock::new(|| format!("{} WHERE t.id = ?3", *SELECT));
    Ok(one(db, &SQL, id.as_str(), now)?.map(|entry| entry.task))
}

pub(super) fn by_key(db: &Connection, key: &IdempotencyKey, now: LeaseNow) -> Result<Option<Task>> {
    static SQL: LazyLock<String> = LazyLock::new(|| format!("{} WHERE b.key = ?3", *SELECT));
    Ok(one(db, &SQL, key.as_str(), now)?.map(|entry| entry.task))
}

/// Reads all in one transaction: taking locks costs more than reading a row.
pub(super) fn by_ids(db: &Connection, ids: &[TaskId], now: LeaseNow) -> Result<Vec<Task>> {
    let look = db.unchecked_transaction()?;
    let found = ids.iter().filter_map(|id| by_id(db, id, now).transpose());
    let found = rows::readable(found);
    look.finish()?;
    found
}

/// Loads the parts of a task that the writer needs.
pub(super) fn for_write(
    db: &Connection,
    id: &TaskId,
    parts: &TaskParts,
    now: LeaseNow,
) -> Result<Option<TaskEntry>> {
    static FULL: LazyLock<String> = LazyLock::new(|| format!("{} WHERE t.id = ?3", *SELECT));
    let sql = match parts {
        TaskParts { body: true, .. } => &FULL,
        TaskParts { reason: true, .. } | TaskParts { holder: true, .. } => &SELECT_LEAN,
        _ => &SELECT_HOT,
    };
    let entry = one(db, sql, id.as_str(), now)?;
    Ok(entry.map(|entry| {
        let left = entry.task.lease.held.as_ref().and_then(|held| held.left);
        TaskEntry {
            lease_until: until(left, now.ms),
            ..entry
        }
    }))
}

/// The task with this idempotency key.
pub(super) fn id_with_key(db: &Connection, key: &IdempotencyKey) -> Result<Option<TaskId>> {
    let sql = "SELECT t.id FROM task_body b JOIN task t ON t.n = b.n WHERE b.key = ?1";
    let read = |row: &Row<'_>| rows::read(row, |row| row.parse("task.id"));
    db.prepare_cached(sql)?
        .query_row([key.as_str()], read)
        .optional()
}

/// A damaged body has no title, and fails no query.
const CONDITIONS: TaskConditions = TaskConditions {
    held: "t.n IN (SELECT n FROM lease)",
    words: "CASE WHEN json_valid(b.spec) THEN coalesce(b.spec ->> '$.title', '') || ' ' ||
            coalesce(b.spec ->> '$.steps', '') ELSE '' END",
};

pub(super) fn list(db: &Connection, query: &TaskQuery, now: LeaseNow) -> Result<Vec<Task>> {
    rows::list(db, &list_sql(query, now), |row| Ok(read_task(row)?.task))
}

pub(super) fn list_sql(query: &TaskQuery, now: LeaseNow) -> Statement {
    list_tasks(&SELECT, now.values(), query, &CONDITIONS)
}

/// The tasks of a list that cannot be read, also for want of a body.
pub(super) fn unreadable(
    db: &Connection,
    query: &TaskQuery,
    now: LeaseNow,
) -> Result<Vec<UnreadableRow>> {
    // A body that is missing is an empty specification, which cannot be read.
    let select = SELECT
        .replacen("JOIN task_body", "LEFT JOIN task_body", 1)
        .replacen("b.spec", "COALESCE(b.spec, '')", 1);
    let list = list_tasks(&select, now.values(), query, &CONDITIONS);
    rows::unreadable(db, &list, ("task", Table::Task.place("id")), read_task)
}

pub(super) fn unfinished(db: &Connection) -> Result<Vec<TaskGlance>> {
    let mut select = db.prepare_cached(UNFINISHED)?;
    rows::readable(select.query_map([], |row| rows::read(row, read_glance))?)
}

/// Writes the changed parts.
pub(super) fn write(db: &Connection, entry: &TaskEntry, now: LeaseNow) -> Result<()> {
    let TaskEntry {
        n, task, touched, ..
    } = entry;
    if touched.is_new {
        return rows::insert(db, Table::Task, task_row(entry), now);
    }
    if touched.hot {
        write_hot(db, entry, now)?;
    }
    if touched.body {
        write_body(db, *n, task)?;
    } else if touched.reason {
        db.prepare_cached("UPDATE task_body SET reason = ?2 WHERE n = ?1")?
            .execute(params![n, task.reason])?;
    }
    if touched.lease && task.lease.held.is_none() {
        db.prepare_cached("DELETE FROM lease WHERE n = ?1")?
            .execute([n])?;
    } else if touched.lease {
        let lease = lease_row(task);
        rows::write_lease(db, [&(*n).into(), &lease[0], &lease[1], &lease[2]])?;
    }
    Ok(())
}

/// Sets indexed columns only when they changed, because setting them rewrites the index.
fn write_hot(db: &Connection, entry: &TaskEntry, now: LeaseNow) -> Result<()> {
    static UPDATE: LazyLock<[String; 3]> = LazyLock::new(|| {
        let of = |but: &[&str]| update_sql(Table::Task, |name| !but.contains(&name), 0);
        let never = ["n", "id", "created_at", "needs", "steps_from"];
        let queue = Table::Task.columns()[COUNTS.end..HOT.end]
            .iter()
            .map(|(name, _)| *name);
        let counts: Vec<&str> = never.into_iter().chain(queue).collect();
        [
            of(&never),
            of(&counts),
            of(&[&counts[..], &["steps_open"]].concat()),
        ]
    });
    match (entry.touched.queue, entry.touched.open) {
        (true, _) => rows::run(db, &UPDATE[0], &hot_row(entry), now.boot),
        (false, true) => rows::run(db, &UPDATE[1], &counts_row(entry), now.boot),
        (false, false) => rows::run(db, &UPDATE[2], &counts_row(entry), now.boot),
    }
}

/// Marks the step records before the last clearing as history. Call it after writing the journal.
pub(super) fn clear_steps(db: &Connection, n: i64) -> Result<()> {
    let mut update = db.prepare_cached(
        "UPDATE task SET steps_from =
             (SELECT MAX(id) FROM journal WHERE task = ?1 AND name IS NULL AND kind = ?2)
         WHERE n = ?1",
    )?;
    update
        .execute([n, EventKind::StepsCleared.code().into()])
        .map(drop)
}

fn write_body(db: &Connection, n: i64, task: &Task) -> Result<()> {
    let body = body_row(task);
    db.prepare_cached("UPDATE task SET needs = ?2 WHERE n = ?1 AND needs IS NOT ?2")?
        .execute(params![n, body[0]])?;
    let mut write = db.prepare_cached(
        "UPDATE task_body SET reason = ?2, key = ?3, folder = ?4, spec = ?5, context = ?6, door = ?7
         WHERE n = ?1",
    )?;
    write
        .execute(params![
            n,
            task.reason,
            body[1],
            body[2],
            body[3],
            body[4],
            body[5]
        ])
        .map(drop)
}
