//! Tasks as rows: hot row, body and lease, read together and written apart.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use relight_core::ids::{AgentName, IdempotencyKey, TaskId};
use relight_core::lease::{Fence, Held, Holder, Lease};
use relight_core::status::TaskStatus;
use relight_core::task::{CheckpointDoor, Task, TaskSpec, TaskTally};
use relight_core::time::{Span, Time};
use serde::de::DeserializeOwned;
use tokio_postgres::Row;

use super::connection::{Connection, Value, get, values};
use super::error::{BadValue, Failure, bad_value};
use super::lease_clock::NOW_MS;
use super::text;
use crate::apply::{TaskEntry, left};
use crate::bodies::to_json;
use crate::contract::{TaskGlance, TaskQuery};

/// The hot row, in the order that `read_hot` takes it.
const HOT: &str = "
    t.n, t.id, t.status, t.agent, t.fence, t.held, t.lease_ttl, t.lease_until, t.seq,
    t.steps_done, t.steps_open, t.starts, t.retries, t.created_at, t.updated_at, t.not_before,
    t.expires_at, t.reason, t.max_retries, t.priority, t.recoveries, t.progress_at, t.cost,
    t.turns, t.given_up, t.steps_from, t.pinned";
/// How many columns that is.
const HOT_COLUMNS: usize = 27;

static SELECT: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {HOT}, {NOW_MS}, b.spec, b.context, b.door, l.holder, l.since
         FROM task t JOIN task_body b ON b.n = t.n LEFT JOIN lease l ON l.n = t.n"
    )
});

pub(super) async fn by_ids(
    db: &Connection,
    ids: &[TaskId],
    ahead_ms: i64,
) -> Result<Vec<Task>, Failure> {
    let texts: Vec<String> = ids.iter().map(|id| id.as_str().to_owned()).collect();
    let sql = format!("{} WHERE t.id = ANY($2)", *SELECT);
    let rows = db.query(&sql, &values![ahead_ms, texts]).await?;
    let found = readable(rows.iter().map(read))?;
    let mut found: std::collections::HashMap<TaskId, Task> =
        found.into_iter().map(|task| (task.id.clone(), task)).collect();
    Ok(ids.iter().filter_map(|id| found.remove(id)).collect())
}

pub(super) async fn by_id(
    db: &Connection,
    id: &TaskId,
    ahead_ms: i64,
) -> Result<Option<Task>, Failure> {
    static SQL: LazyLock<String> = LazyLock::new(|| format!("{} WHERE t.id = $2", *SELECT));
    let row = db.query_opt(&SQL, &values![ahead_ms, id.as_str().to_owned()]).await?;
    row.as_ref().map(read).transpose().map_err(|bad| db.damaged(&bad))
}

pub(super) async fn by_key(
    db: &Connection,
    key: &IdempotencyKey,
    ahead_ms: i64,
) -> Result<Option<Task>, Failure> {
    static SQL: LazyLock<String> = LazyLock::new(|| format!("{} WHERE b.key = $2", *SELECT));
    let row = db.query_opt(&SQL, &values![ahead_ms, key.as_str().to_owned()]).await?;
    row.as_ref().map(read).transpose().map_err(|bad| db.damaged(&bad))
}

pub(super) async fn list(
    db: &Connection,
    query: &TaskQuery,
    ahead_ms: i64,
) -> Result<Vec<Task>, Failure> {
    let (sql, values) = list_sql(query, ahead_ms);
    readable(db.query(&sql, &values).await?.iter().map(read))
}

fn list_sql(query: &TaskQuery, ahead_ms: i64) -> (String, Vec<Value>) {
    let mut sql = format!("{} WHERE true", *SELECT);
    let mut all = values![ahead_ms];
    let mut also = |condition: &str, value: Option<Value>| {
        all.extend(value);
        sql += &condition.replace('?', &format!("${}", all.len()));
    };
    if !query.statuses.is_empty() {
        let codes: Vec<i16> = query.statuses.iter().map(|s| i16::from(s.code())).collect();
        also(" AND t.status = ANY(?)", Some(Box::new(codes)));
        if !query.statuses.iter().any(|status| status.is_terminal()) {
            // Said once more in the words of the index, which knows open tasks alone.
            also(" AND t.status < 10", None);
        }
    }
    if let Some(agent) = &query.agent {
        also(" AND t.agent = ?", Some(Box::new(agent.as_str().to_owned())));
    }
    if let Some(folder) = &query.checkpoint_folder {
        also(" AND b.folder = ?", Some(Box::new(text::kept(folder).into_owned())));
    }
    if let Some(tag) = &query.held_by {
        also(" AND l.attempt = ?", Some(Box::new(text::kept(tag.as_str()).into_owned())));
    }
    if query.held {
        also(" AND l.n IS NOT NULL", None);
    }
    if query.in_doubt {
        also(" AND t.steps_open > 0", None);
    }
    if let Some(after) = &query.after {
        let value = Box::new(after.as_str().to_owned());
        also(" AND t.n > (SELECT n FROM task WHERE id = ?)", Some(value));
    }
    also(" ORDER BY t.n", None);
    if let Some(limit) = query.limit {
        also(" LIMIT ?", Some(Box::new(i64::try_from(limit).unwrap_or(i64::MAX))));
    }
    (sql, all)
}

/// Passes over rows that hold what no version wrote: one of them must not hide the others. `doctor`
/// tells of them.
pub(super) fn readable<T>(
    rows: impl Iterator<Item = Result<T, BadValue>>,
) -> Result<Vec<T>, Failure> {
    Ok(rows.filter_map(Result::ok).collect())
}

/// The tasks that cannot be read, with the reason.
pub(super) async fn unreadable(db: &Connection, most: i64) -> Result<Vec<String>, Failure> {
    let orphans = "SELECT id FROM task t WHERE NOT EXISTS
                       (SELECT 1 FROM task_body b WHERE b.n = t.n) ORDER BY n LIMIT $1";
    let rows = db.query_within(super::connection::LONG_WAIT, orphans, &values![most]).await?;
    let mut found: Vec<String> =
        rows.iter().map(|row| format!("task {} has no body", row.get::<_, String>(0))).collect();
    let sql = format!("{} WHERE t.n > $2 ORDER BY t.n LIMIT 1000", *SELECT);
    let mut after = 0_i64;
    loop {
        let rows = db.query(&sql, &values![0_i64, after]).await?;
        let Some(last) = rows.last() else { return Ok(found) };
        after = last.get(0);
        for row in &rows {
            if let Err(error) = read(row) {
                found.push(format!("task {} cannot be read: {error}", row.get::<_, String>(1)));
            }
        }
    }
}

pub(super) async fn unfinished(db: &Connection) -> Result<Vec<TaskGlance>, Failure> {
    let sql = "SELECT id, status, agent, updated_at, not_before, expires_at FROM task
               WHERE status < 10 ORDER BY n";
    let rows = db.query(sql, &[]).await?;
    readable(rows.iter().map(|row| {
        Ok(TaskGlance {
            id: parse(get(row, 0)?, "task.id")?,
            status: status(get(row, 1)?)?,
            agent: agent(get(row, 2)?)?,
            updated_at: Time::from_ms(get(row, 3)?),
            not_before: get::<Option<i64>>(row, 4)?.map(Time::from_ms),
            expires_at: get::<Option<i64>>(row, 5)?.map(Time::from_ms),
        })
    }))
}

pub(super) async fn count_by_status(db: &Connection) -> Result<Vec<(TaskStatus, u64)>, Failure> {
    let sql = "SELECT status, COUNT(*) FROM task GROUP BY status ORDER BY status";
    let rows = db.query_within(super::connection::LONG_WAIT, sql, &[]).await?;
    readable(rows.iter().map(|row| Ok((status(get(row, 0)?)?, unsigned(row, 1)?))))
}

// What a writer reads, in this order: the second and third see what the first waited for.

/// The hot rows of these tasks, held until the transaction ends; in the order that was asked, which is
/// the same for every writer.
pub(super) static LOCK: LazyLock<String> = LazyLock::new(|| lock("FOR UPDATE"));

/// The same, without those that another writer holds. After the others: who holds these waits for no
/// task any more.
pub(super) static LOCK_FREE: LazyLock<String> = LazyLock::new(|| lock("FOR UPDATE SKIP LOCKED"));

fn lock(how: &str) -> String {
    format!(
        "SELECT t.* FROM unnest($1::text[]) AS w (id)
         CROSS JOIN LATERAL (SELECT {HOT} FROM task t WHERE t.id = w.id {how}) AS t"
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

/// Whose these keys are.
pub(super) const KEYS: &str = "
    SELECT w.key, t.id FROM unnest($1::text[]) AS w (key)
    CROSS JOIN LATERAL (SELECT n FROM task_body WHERE task_body.key = w.key OFFSET 0) AS b
    CROSS JOIN LATERAL (SELECT id FROM task WHERE n = b.n OFFSET 0) AS t";

/// Numbers of tasks to be.
pub(super) const NUMBERS: &str = "SELECT nextval('task_n_seq') FROM generate_series(1, $1::bigint)";

/// A hot row alone: of the body only as much as stands in it, of the lease only that it is held.
pub(super) fn read_hot(row: &Row) -> Result<TaskEntry, BadValue> {
    let spec = TaskSpec {
        max_retries: Some(number(row, 18)?),
        priority: get(row, 19)?,
        ..TaskSpec::default()
    };
    let held = get::<bool>(row, 5)?.then(|| Held {
        holder: Holder::Time { by: String::new() },
        ttl: None,
        since: Time::from_ms(0),
        left: None,
    });
    let body = Body { spec, context: BTreeMap::new(), checkpoint: None };
    let mut task = read_with(row, held, body)?;
    if let Some(held) = &mut task.lease.held {
        held.ttl = get::<Option<i64>>(row, 6)?.map(|ms| Span::from_ms(ms.cast_unsigned()));
    }
    let (lease_until, steps_from) = (get(row, 7)?, get(row, 25)?);
    Ok(TaskEntry { lease_until, steps_from, ..TaskEntry::new(get(row, 0)?, task) })
}

/// What of a task is JSON.
pub(super) struct Body {
    pub(super) spec: TaskSpec,
    pub(super) context: BTreeMap<String, String>,
    pub(super) checkpoint: Option<CheckpointDoor>,
}

/// Three columns from this one on.
pub(super) fn read_body(row: &Row, at: usize) -> Result<Body, BadValue> {
    let door: Option<&str> = get(row, at + 2)?;
    Ok(Body {
        spec: from_json(get(row, at)?, "task_body.spec")?,
        context: from_json(get(row, at + 1)?, "task_body.context")?,
        checkpoint: door.map(|door| from_json(door, "task_body.door")).transpose()?,
    })
}

fn read(row: &Row) -> Result<Task, BadValue> {
    let now_ms = get(row, HOT_COLUMNS)?;
    let body = read_body(row, HOT_COLUMNS + 1)?;
    let ttl = get::<Option<i64>>(row, 6)?.map(|ms| Span::from_ms(ms.cast_unsigned()));
    let holder: Option<&str> = get(row, HOT_COLUMNS + 4)?;
    let held = match (get::<bool>(row, 5)?, holder) {
        (false, _) => None,
        (true, None) => return Err(bad_value("lease.holder", "nothing")),
        (true, Some(holder)) => Some(Held {
            holder: from_json(holder, "lease.holder")?,
            ttl,
            since: Time::from_ms(get(row, HOT_COLUMNS + 5)?),
            left: ttl.map(|_| get(row, 7).map(|until| left(until, now_ms))).transpose()?,
        }),
    };
    read_with(row, held, body)
}

fn read_with(row: &Row, held: Option<Held>, body: Body) -> Result<Task, BadValue> {
    Ok(Task {
        id: parse(get(row, 1)?, "task.id")?,
        status: status(get(row, 2)?)?,
        reason: get::<Option<String>>(row, 17)?.map(text::read),
        agent: agent(get(row, 3)?)?,
        pinned: get(row, 26)?,
        lease: Lease { fence: Fence(unsigned(row, 4)?), held },
        seq: unsigned(row, 8)?,
        steps_done: unsigned(row, 9)?,
        steps_open: unsigned(row, 10)?,
        starts: number(row, 11)?,
        retries: number(row, 12)?,
        tally: TaskTally {
            recoveries: number(row, 20)?,
            progress_at: get::<Option<i64>>(row, 21)?.map(Time::from_ms),
            cost_micros: unsigned(row, 22)?,
            turns: unsigned(row, 23)?,
            given_up: get(row, 24)?,
        },
        created_at: Time::from_ms(get(row, 13)?),
        updated_at: Time::from_ms(get(row, 14)?),
        not_before: get::<Option<i64>>(row, 15)?.map(Time::from_ms),
        expires_at: get::<Option<i64>>(row, 16)?.map(Time::from_ms),
        spec: body.spec,
        context: body.context,
        checkpoint: body.checkpoint,
    })
}

// What a writer writes: many rows by one statement.

/// Hot rows as columns.
#[derive(Debug, Default)]
pub(super) struct HotColumns {
    n: Vec<i64>,
    id: Vec<String>,
    status: Vec<i16>,
    agent: Vec<Option<String>>,
    reason: Vec<Option<String>>,
    fence: Vec<i64>,
    held: Vec<bool>,
    lease_ttl: Vec<Option<i64>>,
    lease_until: Vec<Option<i64>>,
    seq: Vec<i64>,
    steps_done: Vec<i64>,
    steps_open: Vec<i64>,
    starts: Vec<i64>,
    retries: Vec<i64>,
    max_retries: Vec<i64>,
    priority: Vec<i32>,
    created_at: Vec<i64>,
    updated_at: Vec<i64>,
    not_before: Vec<Option<i64>>,
    expires_at: Vec<Option<i64>>,
    recoveries: Vec<i64>,
    progress_at: Vec<Option<i64>>,
    cost: Vec<i64>,
    turns: Vec<i64>,
    given_up: Vec<bool>,
    pinned: Vec<bool>,
}

impl HotColumns {
    pub(super) fn push(&mut self, row: &TaskEntry) {
        let task = &row.task;
        let held = task.lease.held.as_ref();
        self.n.push(row.n);
        self.id.push(task.id.as_str().to_owned());
        self.status.push(i16::from(task.status.code()));
        self.agent.push(task.agent.as_ref().map(|agent| agent.as_str().to_owned()));
        self.reason.push(task.reason.as_deref().map(|reason| text::kept(reason).into_owned()));
        self.fence.push(task.lease.fence.0.cast_signed());
        self.held.push(held.is_some());
        self.lease_ttl.push(held.and_then(|held| held.ttl).map(|ttl| ttl.as_ms().cast_signed()));
        self.lease_until.push(row.lease_until);
        self.seq.push(task.seq.cast_signed());
        self.steps_done.push(task.steps_done.cast_signed());
        self.steps_open.push(task.steps_open.cast_signed());
        self.starts.push(task.starts.into());
        self.retries.push(task.retries.into());
        self.max_retries.push(task.max_retries().into());
        self.priority.push(task.spec.priority);
        self.created_at.push(task.created_at.as_ms());
        self.updated_at.push(task.updated_at.as_ms());
        self.not_before.push(task.not_before.map(Time::as_ms));
        self.expires_at.push(task.expires_at.map(Time::as_ms));
        self.recoveries.push(task.tally.recoveries.into());
        self.progress_at.push(task.tally.progress_at.map(Time::as_ms));
        self.cost.push(task.tally.cost_micros.cast_signed());
        self.turns.push(task.tally.turns.cast_signed());
        self.given_up.push(task.tally.given_up);
        self.pinned.push(task.pinned);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.n.is_empty()
    }

    pub(super) fn into_values(self) -> Vec<Value> {
        values![
            self.n,
            self.id,
            self.status,
            self.agent,
            self.reason,
            self.fence,
            self.held,
            self.lease_ttl,
            self.lease_until,
            self.seq,
            self.steps_done,
            self.steps_open,
            self.starts,
            self.retries,
            self.max_retries,
            self.priority,
            self.created_at,
            self.updated_at,
            self.not_before,
            self.expires_at,
            self.recoveries,
            self.progress_at,
            self.cost,
            self.turns,
            self.given_up,
            self.pinned,
        ]
    }
}

const HOT_UNNEST: &str = "
    unnest($1::bigint[], $2::text[], $3::smallint[], $4::text[], $5::text[], $6::bigint[],
           $7::boolean[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[],
           $13::bigint[], $14::bigint[], $15::bigint[], $16::integer[], $17::bigint[],
           $18::bigint[], $19::bigint[], $20::bigint[], $21::bigint[], $22::bigint[], $23::bigint[],
           $24::bigint[], $25::boolean[], $26::boolean[])";

const HOT_NAMES: &str = "
    n, id, status, agent, reason, fence, held, lease_ttl, lease_until, seq, steps_done, steps_open,
    starts, retries, max_retries, priority, created_at, updated_at, not_before, expires_at,
    recoveries, progress_at, cost, turns, given_up, pinned";

pub(super) static INSERT: LazyLock<String> = LazyLock::new(|| {
    format!(
        "INSERT INTO task ({HOT_NAMES}, steps_from)
         SELECT u.*, 0 FROM {HOT_UNNEST} AS u ({HOT_NAMES})"
    )
});

/// Values that are as they were keep the new version of the row out of every index.
pub(super) static UPDATE: LazyLock<String> = LazyLock::new(|| {
    let set: Vec<String> = HOT_NAMES
        .split(',')
        .map(str::trim)
        .filter(|name| !["n", "id", "created_at"].contains(name))
        .map(|name| format!("{name} = u.{name}"))
        .collect();
    let set = set.join(", ");
    format!("UPDATE task t SET {set} FROM {HOT_UNNEST} AS u ({HOT_NAMES}) WHERE t.n = u.n")
});

/// The records of these tasks' steps up to their last clearing are history. After the journal's rows.
pub(super) static CLEAR_STEPS: LazyLock<String> = LazyLock::new(|| {
    let cleared = relight_core::event::EventKind::StepsCleared.code();
    format!(
        "UPDATE task t SET steps_from =
             (SELECT MAX(j.id) FROM journal j
              WHERE j.task = t.n AND j.name IS NULL AND j.kind = {cleared})
         WHERE t.n = ANY($1)"
    )
});

/// Bodies as columns.
#[derive(Debug, Default)]
pub(super) struct BodyColumns {
    n: Vec<i64>,
    key: Vec<Option<String>>,
    folder: Vec<Option<String>>,
    spec: Vec<String>,
    context: Vec<String>,
    door: Vec<Option<String>>,
    needs: Vec<Option<String>>,
}

impl BodyColumns {
    pub(super) fn push(&mut self, row: &TaskEntry) {
        let task = &row.task;
        let door = task.checkpoint.as_ref();
        self.n.push(row.n);
        self.key.push(task.spec.key.as_ref().map(|key| key.as_str().to_owned()));
        self.folder.push(door.map(|door| text::kept(&door.folder).into_owned()));
        self.spec.push(to_json(&task.spec));
        self.context.push(to_json(&task.context));
        self.door.push(door.map(to_json));
        let needs: Vec<_> = task.spec.needs.iter().map(|need| text::kept(need)).collect();
        self.needs.push((!needs.is_empty()).then(|| to_json(&needs)));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.n.is_empty()
    }

    pub(super) fn has_needs(&self) -> bool {
        self.needs.iter().any(Option::is_some)
    }

    /// For the bodies, and for what stands in the hot rows of them.
    pub(super) fn into_values(self) -> (Vec<Value>, Vec<Value>) {
        let needs = values![self.n.clone(), self.needs];
        (values![self.n, self.key, self.folder, self.spec, self.context, self.door], needs)
    }
}

pub(super) const INSERT_BODIES: &str = "
    INSERT INTO task_body (n, key, folder, spec, context, door)
    SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[])";

pub(super) const UPDATE_BODIES: &str = "
    UPDATE task_body b SET key = u.key, folder = u.folder, spec = u.spec, context = u.context,
        door = u.door
    FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[])
        AS u (n, key, folder, spec, context, door)
    WHERE b.n = u.n";

pub(super) const UPDATE_NEEDS: &str = "
    UPDATE task t SET needs = CASE WHEN u.needs IS NOT NULL
        THEN ARRAY(SELECT json_array_elements_text(u.needs::json)) END
    FROM unnest($1::bigint[], $2::text[]) AS u (n, needs)
    WHERE t.n = u.n AND (u.needs IS NOT NULL OR t.needs IS NOT NULL)";

/// Leases as columns.
#[derive(Debug, Default)]
pub(super) struct LeaseColumns {
    n: Vec<i64>,
    holder: Vec<String>,
    since: Vec<i64>,
    attempt: Vec<Option<String>>,
    /// Those that nobody holds any more.
    pub(super) ended: Vec<i64>,
}

impl LeaseColumns {
    pub(super) fn push(&mut self, row: &TaskEntry) {
        let Some(held) = &row.task.lease.held else { return self.ended.push(row.n) };
        self.n.push(row.n);
        self.holder.push(to_json(&held.holder));
        self.since.push(held.since.as_ms());
        self.attempt.push(match &held.holder {
            Holder::Attempt { attempt, .. } => Some(text::kept(attempt).into_owned()),
            Holder::Process(_) | Holder::Time { .. } => None,
        });
    }

    pub(super) fn has_held(&self) -> bool {
        !self.n.is_empty()
    }

    pub(super) fn into_values(self) -> Vec<Value> {
        values![self.n, self.holder, self.since, self.attempt]
    }
}

pub(super) const WRITE_LEASES: &str = "
    INSERT INTO lease (n, holder, since, attempt)
    SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[])
    ON CONFLICT (n) DO UPDATE
    SET holder = excluded.holder, since = excluded.since, attempt = excluded.attempt";

pub(super) const END_LEASES: &str = "DELETE FROM lease WHERE n = ANY($1)";

// Values of every table

pub(super) fn unsigned(row: &Row, at: usize) -> Result<u64, BadValue> {
    Ok(get::<i64>(row, at)?.cast_unsigned())
}

/// A count that has more room in the database than here.
pub(super) fn number(row: &Row, at: usize) -> Result<u32, BadValue> {
    let wide: i64 = get(row, at)?;
    u32::try_from(wide).map_err(|_| bad_value(row.columns()[at].name(), wide))
}

fn status(code: i16) -> Result<TaskStatus, BadValue> {
    let found = u8::try_from(code).ok().and_then(TaskStatus::from_code);
    found.ok_or_else(|| bad_value("task.status", code))
}

fn agent(text: Option<&str>) -> Result<Option<AgentName>, BadValue> {
    let name = |text| AgentName::of_workflow(text).map_err(|_| bad_value("task.agent", text));
    text.map(name).transpose()
}

pub(super) fn parse<T: std::str::FromStr>(text: &str, column: &str) -> Result<T, BadValue> {
    text.parse().map_err(|_| bad_value(column, text))
}

pub(super) fn from_json<T: DeserializeOwned>(text: &str, column: &str) -> Result<T, BadValue> {
    serde_json::from_str(text).map_err(|error| bad_value(column, error))
}
