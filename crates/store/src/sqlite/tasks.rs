//! Tasks as rows: hot row, body and lease, read together and written apart.

use std::collections::BTreeMap;

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

const SELECT_LEAN: &str = "
    SELECT t.n, t.id, t.status, t.agent, t.fence, t.held, t.lease_ttl, t.lease_until, t.lease_boot,
           t.seq, t.steps_done, t.steps_open, t.starts, t.retries, t.created_at, t.updated_at,
           t.not_before, t.expires_at, b.reason, t.max_retries, t.priority, NULL, l.holder, l.since,
           t.steps_from, t.recoveries, t.progress_at, t.cost, t.turns, t.given_up, t.pinned
    FROM task t JOIN task_body b ON b.n = t.n LEFT JOIN lease l ON l.n = t.n WHERE t.id = ?1";

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

/// A task without what is kept in its body but the reason: all that most commits need to know.
pub(super) fn lean_by_id(db: &Connection, id: &TaskId, now: LeaseNow) -> Result<Option<TaskRow>> {
    let mut select = db.prepare_cached(SELECT_LEAN)?;
    select.query_row([id.as_str()], |row| read_lean(row, now)).optional()
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

/// The first row of a new task; its body follows by `write_body`.
pub(super) fn insert(db: &Connection, task: &Task) -> Result<i64> {
    let mut insert = db.prepare_cached(
        "INSERT INTO task (id, status, agent, fence, held, seq, steps_done, steps_open, steps_from,
                           starts, retries, max_retries, priority, created_at, updated_at,
                           not_before, expires_at, needs, pinned)
         VALUES (?1, ?2, ?3, 0, 0, 0, 0, 0, 0, 0, 0, ?4, ?5, ?6, ?6, NULL, ?7, ?8, ?9)",
    )?;
    insert.insert(params![
        task.id.as_str(),
        task.status.code(),
        task.agent.as_ref().map(AgentName::as_str),
        task.max_retries(),
        task.spec.priority,
        task.created_at.as_ms(),
        task.expires_at.map(Time::as_ms),
        needs(task),
        task.pinned,
    ])
}

/// A JSON list; none for a task that anybody can do.
fn needs(task: &Task) -> Option<String> {
    (!task.spec.needs.is_empty()).then(|| to_json(&task.spec.needs))
}

/// Writes the hot row, if nobody else did since it was read. What an index stands on is written
/// apart, and only when it changed: naming it here would rewrite the index each time.
pub(super) fn write_hot(db: &Connection, n: i64, before: &Hot, task: &Task) -> Result<bool> {
    let place = Place::of(task);
    let is_moved = place != before.place;
    let mut update = db.prepare_cached(if is_moved { UPDATE_MOVED } else { UPDATE_HOT })?;
    let held = task.lease.held.as_ref();
    let mut values: Vec<SqlValue> = vec![
        n.into(),
        before.seq.cast_signed().into(),
        task.lease.fence.0.cast_signed().into(),
        held.is_some().into(),
        held.and_then(|h| h.ttl).map(|ttl| ttl.as_ms().cast_signed()).into(),
        task.seq.cast_signed().into(),
        task.steps_done.cast_signed().into(),
        task.starts.into(),
        task.updated_at.as_ms().into(),
        task.expires_at.map(Time::as_ms).into(),
        task.tally.recoveries.into(),
        task.tally.progress_at.map(Time::as_ms).into(),
        task.tally.cost_micros.cast_signed().into(),
        task.tally.turns.cast_signed().into(),
    ];
    if is_moved {
        values.extend([
            i64::from(place.status.code()).into(),
            place.priority.into(),
            place.not_before.map(Time::as_ms).into(),
            place.agent.map(|agent| agent.as_str().to_owned()).into(),
            place.retries.into(),
            place.max_retries.into(),
            place.given_up.into(),
            place.pinned.into(),
        ]);
    }
    let changed = update.execute(params_from_iter(values))?;
    if task.steps_open != before.steps_open {
        db.prepare_cached("UPDATE task SET steps_open = ?2 WHERE n = ?1")?
            .execute([n, task.steps_open.cast_signed()])?;
    }
    Ok(changed == 1)
}

const UPDATE_HOT: &str = "
    UPDATE task SET fence = ?3, held = ?4, lease_ttl = ?5, seq = ?6, steps_done = ?7, starts = ?8,
        updated_at = ?9, expires_at = ?10, recoveries = ?11, progress_at = ?12, cost = ?13, turns = ?14
    WHERE n = ?1 AND seq = ?2";

/// With what the indexes of the queue stand on.
const UPDATE_MOVED: &str = "
    UPDATE task SET fence = ?3, held = ?4, lease_ttl = ?5, seq = ?6, steps_done = ?7, starts = ?8,
        updated_at = ?9, expires_at = ?10, recoveries = ?11, progress_at = ?12, cost = ?13, turns = ?14,
        status = ?15, priority = ?16, not_before = ?17, agent = ?18, retries = ?19, max_retries = ?20,
        given_up = ?21, pinned = ?22
    WHERE n = ?1 AND seq = ?2";

/// What of a task an index stands on, and its sequence number, as they were read.
#[derive(Debug)]
pub(super) struct Hot {
    seq: u64,
    is_held: bool,
    steps_open: u64,
    place: Place,
}

/// Where a task stands in the queue.
#[derive(Debug, PartialEq)]
struct Place {
    status: TaskStatus,
    priority: i32,
    not_before: Option<Time>,
    agent: Option<AgentName>,
    retries: u32,
    max_retries: u32,
    given_up: bool,
    pinned: bool,
}

impl Place {
    fn of(task: &Task) -> Self {
        Self {
            status: task.status,
            priority: task.spec.priority,
            not_before: task.not_before,
            agent: task.agent.clone(),
            retries: task.retries,
            max_retries: task.max_retries(),
            given_up: task.tally.given_up,
            pinned: task.pinned,
        }
    }
}

impl Hot {
    pub(super) fn of(task: &Task) -> Self {
        let is_held = task.lease.held.is_some();
        Self { seq: task.seq, is_held, steps_open: task.steps_open, place: Place::of(task) }
    }
}

/// The body of a new task.
pub(super) fn insert_body(db: &Connection, n: i64, task: &Task) -> Result<()> {
    let mut insert = db.prepare_cached(
        "INSERT INTO task_body (n, reason, spec, context, door, key, folder)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?;
    insert.execute(params![
        n,
        task.reason,
        to_json(&task.spec),
        to_json(&task.context),
        task.checkpoint.as_ref().map(to_json),
        task.spec.key.as_ref().map(IdempotencyKey::as_str),
        task.checkpoint.as_ref().map(|door| &door.folder),
    ])?;
    Ok(())
}

/// The body of a task that changed, without its key and folder.
pub(super) fn write_body(db: &Connection, n: i64, task: &Task) -> Result<()> {
    let mut write = db.prepare_cached(
        "UPDATE task_body SET reason = ?2, spec = ?3, context = ?4, door = ?5 WHERE n = ?1",
    )?;
    write.execute(params![
        n,
        task.reason,
        to_json(&task.spec),
        to_json(&task.context),
        task.checkpoint.as_ref().map(to_json),
    ])?;
    Ok(())
}

/// The reason alone of a task that changed.
pub(super) fn write_reason(db: &Connection, n: i64, task: &Task) -> Result<()> {
    db.prepare_cached("UPDATE task_body SET reason = ?2 WHERE n = ?1")?
        .execute(params![n, task.reason])?;
    Ok(())
}

/// What a task can be found by, and by whom.
pub(super) fn write_names(db: &Connection, n: i64, task: &Task) -> Result<()> {
    db.prepare_cached("UPDATE task SET needs = ?2 WHERE n = ?1")?
        .execute(params![n, needs(task)])?;
    let mut write = db.prepare_cached("UPDATE task_body SET key = ?2, folder = ?3 WHERE n = ?1")?;
    write.execute(params![
        n,
        task.spec.key.as_ref().map(IdempotencyKey::as_str),
        task.checkpoint.as_ref().map(|door| &door.folder),
    ])?;
    Ok(())
}

/// Who holds it now, if anybody; `before` tells whether somebody did.
pub(super) fn write_lease(
    db: &Connection,
    n: i64,
    before: &Hot,
    held: Option<&Held>,
) -> Result<()> {
    let Some(held) = held else {
        if before.is_held {
            db.prepare_cached("DELETE FROM lease WHERE n = ?1")?.execute([n])?;
        }
        return Ok(());
    };
    let sql = match before.is_held {
        false => "INSERT INTO lease (n, holder, since, attempt) VALUES (?1, ?2, ?3, ?4)",
        true => "UPDATE lease SET holder = ?2, since = ?3, attempt = ?4 WHERE n = ?1",
    };
    let values = params![n, to_json(&held.holder), held.since.as_ms(), attempt(held)];
    db.prepare_cached(sql)?.execute(values)?;
    Ok(())
}

fn attempt(held: &Held) -> Option<&str> {
    match &held.holder {
        Holder::Attempt { attempt, .. } => Some(attempt),
        Holder::Process(_) | Holder::Time { .. } => None,
    }
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
    read_with(row, now, body)
}

/// With as much of the body as stands in the hot row.
fn read_lean(row: &Row<'_>, now: LeaseNow) -> Result<TaskRow> {
    let (max_retries, priority) = (Some(row.get(19)?), row.get(20)?);
    let spec = TaskSpec { max_retries, priority, ..TaskSpec::default() };
    read_with(row, now, Body { spec, context: BTreeMap::new(), checkpoint: None })
}

/// What of a task is JSON.
struct Body {
    spec: TaskSpec,
    context: BTreeMap<String, String>,
    checkpoint: Option<CheckpointDoor>,
}

fn read_with(row: &Row<'_>, now: LeaseNow, body: Body) -> Result<TaskRow> {
    let ttl = row.get::<_, Option<i64>>(6)?.map(|ms| Span::from_ms(ms.cast_unsigned()));
    let held = if row.get(5)? {
        Some(Held {
            holder: from_json(row.get_ref(22)?.as_str()?, "lease.holder")?,
            ttl,
            since: Time::from_ms(row.get(23)?),
            left: match ttl {
                Some(_) => Some(left(row.get(7)?, row.get(8)?, now)),
                None => None,
            },
        })
    } else {
        None
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
