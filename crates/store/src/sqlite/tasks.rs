//! Tasks as rows: hot row, body and lease, read together and written apart.

use std::collections::BTreeMap;

use relight_core::event::EventKind;
use relight_core::ids::{AgentName, IdempotencyKey, TaskId};
use relight_core::lease::{Fence, Held, Holder, Lease};
use relight_core::status::TaskStatus;
use relight_core::task::{CheckpointDoor, Task, TaskSpec, TaskTally};
use relight_core::time::{Span, Time};
use rusqlite::types::Value as SqlValue;
use rusqlite::{Connection, OptionalExtension, Result, Row, params, params_from_iter};
use serde::de::DeserializeOwned;

use super::error::bad_value;
use super::lease_clock::LeaseNow;
use crate::apply::{Parts, TaskEntry, until};
pub(super) use crate::bodies::to_json;
use crate::contract::{TaskGlance, TaskQuery};

/// A task and what only this backend knows of it.
#[derive(Debug)]
pub(super) struct TaskRow {
    pub(super) n: i64,
    pub(super) steps_from: i64,
    pub(super) task: Task,
}

const SELECT: &str = "
    SELECT t.n, t.id, t.status, t.agent, t.fence, t.held, t.lease_ttl, t.lease_until, t.lease_boot,
           t.seq, t.steps_done, t.steps_open, t.starts, t.retries, t.created_at, t.updated_at,
           t.not_before, t.expires_at, b.reason, b.spec, b.context, b.door, l.holder, l.since,
           t.steps_from, t.recoveries, t.progress_at, t.cost, t.turns, t.given_up, t.pinned
    FROM task t JOIN task_body b ON b.n = t.n LEFT JOIN lease l ON l.n = t.n";

/// A task without its body: all that most commits need to know. With its reason and its holder, or with
/// neither.
const SELECT_LEAN: &str = "
    SELECT t.n, t.id, t.status, t.agent, t.fence, t.held, t.lease_ttl, t.lease_until, t.lease_boot,
           t.seq, t.steps_done, t.steps_open, t.starts, t.retries, t.created_at, t.updated_at,
           t.not_before, t.expires_at, b.reason, t.max_retries, t.priority, NULL, l.holder, l.since,
           t.steps_from, t.recoveries, t.progress_at, t.cost, t.turns, t.given_up, t.pinned
    FROM task t JOIN task_body b ON b.n = t.n LEFT JOIN lease l ON l.n = t.n WHERE t.id = ?1";
const SELECT_HOT: &str = "
    SELECT t.n, t.id, t.status, t.agent, t.fence, t.held, t.lease_ttl, t.lease_until, t.lease_boot,
           t.seq, t.steps_done, t.steps_open, t.starts, t.retries, t.created_at, t.updated_at,
           t.not_before, t.expires_at, NULL, t.max_retries, t.priority, NULL, NULL, 0,
           t.steps_from, t.recoveries, t.progress_at, t.cost, t.turns, t.given_up, t.pinned
    FROM task t WHERE t.id = ?1";

pub(super) fn by_id(db: &Connection, id: &TaskId, now: LeaseNow) -> Result<Option<TaskRow>> {
    let mut select = db.prepare_cached(&format!("{SELECT} WHERE t.id = ?1"))?;
    select.query_row([id.as_str()], |row| read(row, now)).optional()
}

/// In one look at the file: taking its locks costs more than reading a row.
pub(super) fn by_ids(db: &Connection, ids: &[TaskId], now: LeaseNow) -> Result<Vec<Task>> {
    let look = db.unchecked_transaction()?;
    let found = ids.iter().filter_map(|id| by_id(db, id, now).transpose());
    let found = readable(found.map(|row| row.map(|row| row.task)));
    look.finish()?;
    found
}

/// For the writer, with as much as it looks at.
pub(super) fn for_write(
    db: &Connection,
    id: &TaskId,
    parts: &Parts,
    now: LeaseNow,
) -> Result<Option<TaskEntry>> {
    let row = if parts.body {
        by_id(db, id, now)?
    } else {
        let has_more = parts.reason || parts.holder;
        let mut select = db.prepare_cached(if has_more { SELECT_LEAN } else { SELECT_HOT })?;
        select.query_row([id.as_str()], |row| read_lean(row, now)).optional()?
    };
    Ok(row.map(|TaskRow { n, steps_from, task }| {
        let left = task.lease.held.as_ref().and_then(|held| held.left);
        let lease_until = until(left, now.ms);
        TaskEntry { lease_until, steps_from, ..TaskEntry::new(n, task) }
    }))
}

/// Whose the key is.
pub(super) fn id_with_key(db: &Connection, key: &IdempotencyKey) -> Result<Option<TaskId>> {
    let sql = "SELECT t.id FROM task_body b JOIN task t ON t.n = b.n WHERE b.key = ?1";
    let read = |row: &Row<'_>| parse(row.get_ref(0)?.as_str()?, "task.id");
    db.prepare_cached(sql)?.query_row([key.as_str()], read).optional()
}

pub(super) fn by_key(
    db: &Connection,
    key: &IdempotencyKey,
    now: LeaseNow,
) -> Result<Option<TaskRow>> {
    let mut select = db.prepare_cached(&format!("{SELECT} WHERE b.key = ?1"))?;
    select.query_row([key.as_str()], |row| read(row, now)).optional()
}

pub(super) fn list(db: &Connection, query: &TaskQuery, now: LeaseNow) -> Result<Vec<Task>> {
    let (sql, values) = list_sql(query);
    let mut select = db.prepare_cached(&sql)?;
    readable(select.query_map(params_from_iter(values), |row| Ok(read(row, now)?.task))?)
}

pub(super) fn list_sql(query: &TaskQuery) -> (String, Vec<SqlValue>) {
    let mut sql = format!("{SELECT} WHERE 1");
    let mut values: Vec<SqlValue> = Vec::new();
    if !query.statuses.is_empty() {
        let codes: Vec<String> = query.statuses.iter().map(|s| s.code().to_string()).collect();
        sql += &format!(" AND t.status IN ({})", codes.join(","));
        let is_rarer = query.in_doubt || query.held || query.held_by.is_some();
        if !is_rarer && !query.statuses.iter().any(|status| status.is_terminal()) {
            // Said once more in the words of the index, which knows open tasks alone.
            sql += " AND t.status < 10";
        }
    }
    let mut also = |condition: &str, value: Option<SqlValue>| {
        sql += condition;
        values.extend(value);
    };
    if let Some(agent) = &query.agent {
        also(" AND t.agent = ?", Some(agent.as_str().to_owned().into()));
    }
    if let Some(folder) = &query.checkpoint_folder {
        also(" AND b.folder = ?", Some(folder.clone().into()));
    }
    if let Some(tag) = &query.held_by {
        also(" AND l.attempt = ?", Some(tag.as_str().to_owned().into()));
    }
    if query.held {
        also(" AND t.n IN (SELECT n FROM lease)", None);
    }
    if query.in_doubt {
        also(" AND t.steps_open > 0", None);
    }
    if let Some(after) = &query.after {
        let value = after.as_str().to_owned().into();
        also(" AND t.n > (SELECT n FROM task WHERE id = ?)", Some(value));
    }
    sql += " ORDER BY t.n";
    if let Some(limit) = query.limit {
        sql += &format!(" LIMIT {}", limit.min(i64::MAX as usize));
    }
    (sql, values)
}

/// Passes over rows that hold what no version wrote: one of them must not hide the others. `doctor`
/// tells of them.
pub(super) fn readable<T>(rows: impl Iterator<Item = Result<T>>) -> Result<Vec<T>> {
    rows.filter(|row| !matches!(row, Err(error) if error.sqlite_error_code().is_none())).collect()
}

/// The tasks that cannot be read, with the reason.
pub(super) fn unreadable(db: &Connection, now: LeaseNow) -> Result<Vec<String>> {
    let mut ids = db.prepare("SELECT id FROM task ORDER BY n")?;
    let ids = ids.query_map([], |row| row.get::<_, String>(0))?;
    let mut select = db.prepare(&format!("{SELECT} WHERE t.id = ?1"))?;
    let mut found = Vec::new();
    for id in ids {
        let id = id?;
        match select.query_row([&id], |row| read(row, now)).optional() {
            Ok(Some(_)) => {}
            Ok(None) => found.push(format!("task {id} has no body")),
            Err(error) if error.sqlite_error_code().is_none() => {
                found.push(format!("task {id} cannot be read: {error}"));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

pub(super) fn unfinished(db: &Connection) -> Result<Vec<TaskGlance>> {
    // The scan in the order of n is faster than the index unless most tasks are finished.
    let mut select = db.prepare_cached(
        "SELECT id, status, agent, updated_at, not_before, expires_at FROM task
         WHERE status < 10 ORDER BY n",
    )?;
    let rows = select.query_map([], |row| {
        Ok(TaskGlance {
            id: parse(row.get_ref(0)?.as_str()?, "task.id")?,
            status: status(row.get(1)?)?,
            agent: agent(row.get_ref(2)?.as_str_or_null()?)?,
            updated_at: Time::from_ms(row.get(3)?),
            not_before: row.get::<_, Option<i64>>(4)?.map(Time::from_ms),
            expires_at: row.get::<_, Option<i64>>(5)?.map(Time::from_ms),
        })
    })?;
    readable(rows)
}

/// Writes what was touched.
pub(super) fn write(db: &Connection, entry: &TaskEntry, now: LeaseNow) -> Result<()> {
    let TaskEntry { n, task, touched, .. } = entry;
    if touched.is_new {
        insert(db, entry, now)?;
    } else if touched.hot {
        update(db, entry, now)?;
    }
    if touched.body && !touched.is_new {
        write_body(db, *n, task)?;
    } else if touched.reason {
        db.prepare_cached("UPDATE task_body SET reason = ?2 WHERE n = ?1")?
            .execute(params![n, task.reason])?;
    }
    match &task.lease.held {
        Some(held) if touched.lease => write_lease(db, *n, held),
        None if touched.lease => {
            db.prepare_cached("DELETE FROM lease WHERE n = ?1")?.execute([n]).map(drop)
        }
        _ => Ok(()),
    }
}

/// The records of its steps up to the last clearing are history. After the journal's rows.
pub(super) fn clear_steps(db: &Connection, n: i64) -> Result<()> {
    let mut update = db.prepare_cached(
        "UPDATE task SET steps_from =
             (SELECT MAX(id) FROM journal WHERE task = ?1 AND name IS NULL AND kind = ?2)
         WHERE n = ?1",
    )?;
    update.execute([n, EventKind::StepsCleared.code().into()]).map(drop)
}

/// What changes with every commit.
fn hot_values(entry: &TaskEntry, now: LeaseNow) -> Vec<SqlValue> {
    let task = &entry.task;
    let held = task.lease.held.as_ref();
    vec![
        entry.n.into(),
        task.lease.fence.0.cast_signed().into(),
        held.is_some().into(),
        held.and_then(|held| held.ttl).map(|ttl| ttl.as_ms().cast_signed()).into(),
        entry.lease_until.into(),
        entry.lease_until.map(|_| now.boot).into(),
        task.seq.cast_signed().into(),
        task.steps_done.cast_signed().into(),
        task.starts.into(),
        task.updated_at.as_ms().into(),
        task.expires_at.map(Time::as_ms).into(),
        task.tally.recoveries.into(),
        task.tally.progress_at.map(Time::as_ms).into(),
        task.tally.cost_micros.cast_signed().into(),
        task.tally.turns.cast_signed().into(),
        task.steps_open.cast_signed().into(),
    ]
}

/// What the indexes of the queue stand on.
fn queue_values(task: &Task) -> [SqlValue; 8] {
    [
        i64::from(task.status.code()).into(),
        task.spec.priority.into(),
        task.not_before.map(Time::as_ms).into(),
        task.agent.as_ref().map(|agent| agent.as_str().to_owned()).into(),
        task.retries.into(),
        task.max_retries().into(),
        task.tally.given_up.into(),
        task.pinned.into(),
    ]
}

fn insert(db: &Connection, entry: &TaskEntry, now: LeaseNow) -> Result<()> {
    let task = &entry.task;
    let mut values = hot_values(entry, now);
    values.extend(queue_values(task));
    let (id, created_at) = (task.id.as_str().to_owned(), task.created_at.as_ms());
    values.extend([id.into(), created_at.into(), needs(task).into()]);
    let mut insert = db.prepare_cached(
        "INSERT INTO task (n, fence, held, lease_ttl, lease_until, lease_boot, seq, steps_done, starts,
             updated_at, expires_at, recoveries, progress_at, cost, turns, steps_open, status,
             priority, not_before, agent, retries, max_retries, given_up, pinned, id, created_at,
             needs, steps_from)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18,
             ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, 0)",
    )?;
    insert.execute(params_from_iter(values))?;
    let mut insert = db.prepare_cached(
        "INSERT INTO task_body (n, reason, spec, context, door, key, folder)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?;
    insert.execute(params_from_iter(body_values(entry.n, task)))?;
    Ok(())
}

macro_rules! hot {
    () => {
        "UPDATE task SET fence = ?2, held = ?3, lease_ttl = ?4, lease_until = ?5, lease_boot = ?6,
             seq = ?7, steps_done = ?8, starts = ?9, updated_at = ?10, expires_at = ?11,
             recoveries = ?12, progress_at = ?13, cost = ?14, turns = ?15"
    };
}
/// What an index stands on is named only when it changed: naming it would rewrite the index each time.
fn update(db: &Connection, entry: &TaskEntry, now: LeaseNow) -> Result<()> {
    let mut values = hot_values(entry, now);
    let sql = match (entry.touched.queue, entry.touched.open) {
        (true, _) => {
            values.extend(queue_values(&entry.task));
            concat!(
                hot!(),
                ", steps_open = ?16, status = ?17, priority = ?18, not_before = ?19,
                agent = ?20, retries = ?21, max_retries = ?22, given_up = ?23, pinned = ?24
                WHERE n = ?1"
            )
        }
        (false, true) => concat!(hot!(), ", steps_open = ?16 WHERE n = ?1"),
        (false, false) => {
            values.pop();
            concat!(hot!(), " WHERE n = ?1")
        }
    };
    db.prepare_cached(sql)?.execute(params_from_iter(values))?;
    Ok(())
}

/// A JSON list; none for a task that anybody can do.
fn needs(task: &Task) -> Option<String> {
    (!task.spec.needs.is_empty()).then(|| to_json(&task.spec.needs))
}

fn body_values(n: i64, task: &Task) -> [SqlValue; 7] {
    [
        n.into(),
        task.reason.clone().into(),
        to_json(&task.spec).into(),
        to_json(&task.context).into(),
        task.checkpoint.as_ref().map(to_json).into(),
        task.spec.key.as_ref().map(|key| key.as_str().to_owned()).into(),
        task.checkpoint.as_ref().map(|door| door.folder.clone()).into(),
    ]
}

fn write_body(db: &Connection, n: i64, task: &Task) -> Result<()> {
    let mut write = db.prepare_cached(
        "UPDATE task_body SET reason = ?2, spec = ?3, context = ?4, door = ?5, key = ?6, folder = ?7
         WHERE n = ?1",
    )?;
    write.execute(params_from_iter(body_values(n, task)))?;
    let sql = "UPDATE task SET needs = ?2 WHERE n = ?1 AND needs IS NOT ?2";
    db.prepare_cached(sql)?.execute(params![n, needs(task)])?;
    Ok(())
}

fn write_lease(db: &Connection, n: i64, held: &Held) -> Result<()> {
    let attempt = match &held.holder {
        Holder::Attempt { attempt, .. } => Some(attempt),
        Holder::Process(_) | Holder::Time { .. } => None,
    };
    let mut write = db.prepare_cached(
        "INSERT INTO lease (n, holder, since, attempt) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (n) DO UPDATE
         SET holder = excluded.holder, since = excluded.since, attempt = excluded.attempt",
    )?;
    write.execute(params![n, to_json(&held.holder), held.since.as_ms(), attempt])?;
    Ok(())
}

fn read(row: &Row<'_>, now: LeaseNow) -> Result<TaskRow> {
    let body = Body {
        spec: from_json::<TaskSpec>(row.get_ref(19)?.as_str()?, "task_body.spec")?,
        context: from_json::<BTreeMap<_, _>>(row.get_ref(20)?.as_str()?, "task_body.context")?,
        checkpoint: match row.get_ref(21)?.as_str_or_null()? {
            Some(door) => Some(from_json(door, "task_body.door")?),
            None => None,
        },
    };
    let held = match row.get(5)? {
        true => Some(from_json(row.get_ref(22)?.as_str()?, "lease.holder")?),
        false => None,
    };
    read_with(row, now, body, held)
}

/// With as much of the body as stands in the hot row. A holder that was not asked for is nobody.
fn read_lean(row: &Row<'_>, now: LeaseNow) -> Result<TaskRow> {
    let (max_retries, priority) = (Some(row.get(19)?), row.get(20)?);
    let spec = TaskSpec { max_retries, priority, ..TaskSpec::default() };
    let held = match (row.get(5)?, row.get_ref(22)?.as_str_or_null()?) {
        (true, Some(holder)) => Some(from_json(holder, "lease.holder")?),
        (true, None) => Some(Holder::Time { by: String::new() }),
        (false, _) => None,
    };
    read_with(row, now, Body { spec, context: BTreeMap::new(), checkpoint: None }, held)
}

/// What of a task is JSON.
struct Body {
    spec: TaskSpec,
    context: BTreeMap<String, String>,
    checkpoint: Option<CheckpointDoor>,
}

fn read_with(row: &Row<'_>, now: LeaseNow, body: Body, holder: Option<Holder>) -> Result<TaskRow> {
    let ttl = row.get::<_, Option<i64>>(6)?.map(|ms| Span::from_ms(ms.cast_unsigned()));
    let held = match holder {
        Some(holder) => Some(Held {
            holder,
            ttl,
            since: Time::from_ms(row.get(23)?),
            left: match ttl {
                Some(_) => Some(left(row.get(7)?, row.get(8)?, now)),
                None => None,
            },
        }),
        None => None,
    };
    let task = Task {
        id: parse(row.get_ref(1)?.as_str()?, "task.id")?,
        status: status(row.get(2)?)?,
        reason: row.get(18)?,
        agent: agent(row.get_ref(3)?.as_str_or_null()?)?,
        pinned: row.get(30)?,
        lease: Lease { fence: Fence(unsigned(row, 4)?), held },
        seq: unsigned(row, 9)?,
        steps_done: unsigned(row, 10)?,
        steps_open: unsigned(row, 11)?,
        starts: row.get(12)?,
        retries: row.get(13)?,
        tally: TaskTally {
            recoveries: row.get(25)?,
            progress_at: row.get::<_, Option<i64>>(26)?.map(Time::from_ms),
            cost_micros: unsigned(row, 27)?,
            turns: unsigned(row, 28)?,
            given_up: row.get(29)?,
        },
        created_at: Time::from_ms(row.get(14)?),
        updated_at: Time::from_ms(row.get(15)?),
        not_before: row.get::<_, Option<i64>>(16)?.map(Time::from_ms),
        expires_at: row.get::<_, Option<i64>>(17)?.map(Time::from_ms),
        spec: body.spec,
        context: body.context,
        checkpoint: body.checkpoint,
    };
    Ok(TaskRow { n: row.get(0)?, steps_from: row.get(24)?, task })
}

/// What is left of a timed lease; one of an earlier boot has nothing left.
pub(super) fn left(until_ms: i64, boot: i64, now: LeaseNow) -> Span {
    let left = if boot == now.boot { (until_ms - now.ms).max(0) } else { 0 };
    Span::from_ms(left.cast_unsigned())
}

pub(super) fn unsigned(row: &Row<'_>, column: usize) -> Result<u64> {
    Ok(row.get::<_, i64>(column)?.cast_unsigned())
}

fn status(code: u8) -> Result<TaskStatus> {
    TaskStatus::from_code(code).ok_or_else(|| bad_value("task.status", code))
}

fn agent(text: Option<&str>) -> Result<Option<AgentName>> {
    let name = |text| AgentName::of_workflow(text).map_err(|_| bad_value("task.agent", text));
    text.map(name).transpose()
}

pub(super) fn parse<T: std::str::FromStr>(text: &str, column: &'static str) -> Result<T> {
    text.parse().map_err(|_| bad_value(column, text))
}

pub(super) fn from_json<T: DeserializeOwned>(text: &str, column: &'static str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| bad_value(column, error))
}
