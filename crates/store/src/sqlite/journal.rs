//! The journal: what happened, in order. A step's records are its rows with a name.

use std::collections::HashMap;
use std::sync::LazyLock;

use relight_core::event::{Event, EventKind};
use relight_core::ids::TaskId;
use relight_core::lease::Fence;
use relight_core::step::{Output, RepeatRule, Step, StepKey, StepState};
use relight_core::time::Time;
use rusqlite::types::Value as SqlValue;
use rusqlite::{Connection, OptionalExtension, Result, Row, params, params_from_iter};
use serde_json::Value;

use super::error::bad_value;
use super::tasks::{from_json, parse};
use crate::apply::{Entry, StepEntry};
use crate::bodies::OutputDetail;
use crate::contract::EventQuery;

/// A body up to this many bytes stays in its row; a longer one would push its neighbours apart.
const BODY_BYTES_INLINE_MAX: usize = 8 << 10;

/// Most records that one statement appends.
const TOGETHER_MAX: usize = 16;

/// The statement that appends so many records of no step.
static APPEND_TOGETHER: LazyLock<Vec<String>> = LazyLock::new(|| {
    let sql = |rows: usize| {
        let rows = vec!["(?, ?, ?, ?, ?, ?)"; rows].join(", ");
        // None of them can fail alone, and SQLite need not keep each page as it was before.
        format!("INSERT OR FAIL INTO journal (at, kind, task, agent, fence, detail) VALUES {rows}")
    };
    (0..=TOGETHER_MAX).map(sql).collect()
});

/// Appends these in their order, with as few statements as possible.
pub(super) fn append(db: &Connection, mut entries: &[Entry<'_>]) -> Result<()> {
    while let Some(first) = entries.first() {
        let plain = entries.iter().take(TOGETHER_MAX).take_while(|entry| entry.step.is_none());
        let count = plain.count();
        match &first.step {
            Some(step) => append_step(db, first, step)?,
            None => append_together(db, &entries[..count])?,
        }
        entries = &entries[count.max(1)..];
    }
    Ok(())
}

fn append_together(db: &Connection, entries: &[Entry<'_>]) -> Result<()> {
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
    db.prepare_cached(&APPEND_TOGETHER[entries.len()])?.execute(params_from_iter(values))?;
    Ok(())
}

fn append_step(db: &Connection, entry: &Entry<'_>, step: &StepEntry<'_>) -> Result<()> {
    let (inline, apart) = keep_body(db, step.output)?;
    let mut insert = db.prepare_cached(
        "INSERT INTO journal (at, kind, task, fence, name, occurrence, rule, tries, fingerprint,
                              exit_code, detail, body, output)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
    )?;
    let mark = step.mark;
    insert.execute(params![
        entry.at.as_ms(),
        entry.kind.code(),
        entry.task.map(|(n, _)| n),
        entry.fence.map(|fence| fence.0.cast_signed()),
        mark.key.name.as_str(),
        mark.key.occurrence,
        mark.rule.code(),
        mark.tries,
        mark.fingerprint.map(u64::cast_signed),
        step.output.map(|output| output.exit_code),
        entry.kept_detail(),
        inline,
        apart,
    ])?;
    Ok(())
}

type Body<'a> = (Option<&'a [u8]>, Option<i64>);

fn keep_body<'a>(db: &Connection, output: Option<&'a Output>) -> Result<Body<'a>> {
    match output.map(|output| output.body.as_slice()) {
        None => Ok((None, None)),
        Some(body) if body.len() <= BODY_BYTES_INLINE_MAX => Ok((Some(body), None)),
        Some(body) => {
            let mut insert = db.prepare_cached("INSERT INTO output (body) VALUES (?1)")?;
            Ok((None, Some(insert.insert([body])?)))
        }
    }
}

/// Where a body goes that is copied: into the row, or apart; the other is null.
pub(super) fn keep_apart(db: &Connection, body: SqlValue) -> Result<(SqlValue, SqlValue)> {
    match body {
        SqlValue::Blob(bytes) if bytes.len() > BODY_BYTES_INLINE_MAX => {
            let mut insert = db.prepare_cached("INSERT INTO output (body) VALUES (?1)")?;
            Ok((SqlValue::Null, SqlValue::Integer(insert.insert([bytes])?)))
        }
        body => Ok((body, SqlValue::Null)),
    }
}

const STEP_COLUMNS: &str = "j.kind, j.name, j.occurrence, j.rule, j.tries, j.fence, j.at, j.exit_code, j.fingerprint, j.detail";

pub(super) fn step(db: &Connection, task: &TaskId, key: &StepKey) -> Result<Option<Step>> {
    let mut select = db.prepare_cached(&format!(
        "SELECT {STEP_COLUMNS} FROM task t JOIN journal j ON j.task = t.n
         WHERE t.id = ?1 AND j.name = ?2 AND j.occurrence = ?3 AND j.id > t.steps_from
         ORDER BY j.id DESC LIMIT 1"
    ))?;
    let values = params![task.as_str(), key.name.as_str(), key.occurrence];
    select.query_row(values, read_step).optional()
}

/// Where a step stands, for the writer to compare.
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
    select.query_row(values, |row| state(row.get(0)?, row.get_ref(1)?.as_str_or_null()?)).optional()
}

fn state(code: u8, detail: Option<&str>) -> Result<StepState> {
    match kind(code)? {
        EventKind::StepBegun => Ok(StepState::Begun),
        EventKind::StepDone => Ok(StepState::Done),
        EventKind::StepFailed => Ok(StepState::Failed),
        EventKind::StepSkipped => Ok(StepState::Skipped),
        EventKind::StepResolved => resolved_state(detail.unwrap_or_default()),
        other => Err(bad_value("journal.kind", other.as_str())),
    }
}

pub(super) fn steps(db: &Connection, task: &TaskId) -> Result<Vec<Step>> {
    let mut select = db.prepare_cached(&format!(
        "SELECT {STEP_COLUMNS} FROM task t JOIN journal j ON j.task = t.n
         WHERE t.id = ?1 AND j.name IS NOT NULL AND j.id > t.steps_from ORDER BY j.id"
    ))?;
    let mut found: Vec<Step> = Vec::new();
    let mut places: HashMap<StepKey, usize> = HashMap::new();
    for step in select.query_map([task.as_str()], read_step)? {
        let step = step?;
        match places.get(&step.key) {
            Some(&place) => found[place] = step,
            None => {
                places.insert(step.key.clone(), found.len());
                found.push(step);
            }
        }
    }
    Ok(found)
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
    let read = |row: &Row<'_>| {
        let Some(exit_code) = row.get(0)? else { return Ok(None) };
        let detail: OutputDetail = match row.get_ref(2)?.as_str_or_null()? {
            Some(text) => from_json(text, "journal.detail")?,
            None => OutputDetail::default(),
        };
        Ok(Some(Output {
            exit_code,
            body: row.get(1)?,
            stderr: detail.stderr,
            cut: detail.cut,
            redacted: detail.redacted,
        }))
    };
    Ok(select.query_row(values, read).optional()?.flatten())
}

fn read_step(row: &Row<'_>) -> Result<Step> {
    let state = state(row.get(0)?, row.get_ref(9)?.as_str_or_null()?)?;
    let rule = row.get(3)?;
    Ok(Step {
        key: StepKey {
            name: parse(row.get_ref(1)?.as_str()?, "journal.name")?,
            occurrence: row.get(2)?,
        },
        state,
        rule: RepeatRule::from_code(rule).ok_or_else(|| bad_value("journal.rule", rule))?,
        tries: row.get(4)?,
        fence: Fence(row.get::<_, Option<i64>>(5)?.unwrap_or(0).cast_unsigned()),
        at: Time::from_ms(row.get(6)?),
        exit_code: row.get(7)?,
        fingerprint: row.get::<_, Option<i64>>(8)?.map(i64::cast_unsigned),
    })
}

fn resolved_state(detail: &str) -> Result<StepState> {
    let detail: Value = from_json(detail, "journal.detail")?;
    let happened = detail["happened"].as_bool().unwrap_or(false);
    Ok(if happened { StepState::Done } else { StepState::Failed })
}

pub(super) fn events(db: &Connection, query: &EventQuery) -> Result<Vec<Event>> {
    let (sql, values) = events_sql(query);
    let mut select = db.prepare_cached(&sql)?;
    let rows = select.query_map(params_from_iter(values), any_event)?;
    let mut found: Vec<Event> = rows.collect::<Result<_>>()?;
    if query.newest {
        found.reverse();
    }
    Ok(found)
}

/// Kinds with an index of their own.
const OF_ATTEMPTS: [EventKind; 3] =
    [EventKind::AttemptBegun, EventKind::AttemptStarted, EventKind::AttemptDied];
/// The index's own condition, to the letter: by it SQLite knows that the index has all of them.
const IS_OF_ATTEMPTS: &str = "kind IN (21, 22, 23)";

pub(super) fn events_sql(query: &EventQuery) -> (String, Vec<SqlValue>) {
    let mut sql = "
        SELECT j.id, j.at, j.kind, t.id, j.name, j.occurrence, j.fence, j.detail, j.exit_code,
               a.name
        FROM journal j LEFT JOIN task t ON t.n = j.task LEFT JOIN agent a ON a.n = j.agent
        WHERE j.id > ?1 AND j.id < ?2"
        .to_owned();
    let order = if query.newest { "DESC" } else { "ASC" };
    let limit = query.limit.min(i64::MAX as usize);
    let number = |id: u64| SqlValue::from(i64::try_from(id).unwrap_or(i64::MAX));
    let mut values = vec![number(query.after), number(query.before.unwrap_or(u64::MAX))];
    if let Some(task) = &query.task {
        sql += " AND j.task = (SELECT n FROM task WHERE id = ?)";
        values.push(task.as_str().to_owned().into());
    }
    if let Some(agent) = &query.agent {
        sql += " AND j.agent = (SELECT n FROM agent WHERE name = ?)";
        values.push(agent.as_str().to_owned().into());
    }
    if !query.kinds.is_empty() {
        let codes: Vec<String> = query.kinds.iter().map(|k| k.code().to_string()).collect();
        let condition = format!("kind IN ({})", codes.join(","));
        let are_of_attempts = query.kinds.iter().all(|kind| OF_ATTEMPTS.contains(kind));
        if are_of_attempts && query.task.is_none() && query.agent.is_none() {
            // By their own index, however many steps lie between.
            sql += &format!(
                " AND j.id IN (SELECT id FROM journal WHERE {IS_OF_ATTEMPTS} AND {condition}
                    AND id > ?1 AND id < ?2 ORDER BY id {order} LIMIT {limit})"
            );
        } else {
            sql += &format!(" AND j.{condition}");
        }
    }
    sql += &format!(" ORDER BY j.id {order} LIMIT {limit}");
    (sql, values)
}

/// Whatever it holds, it has its place: whoever reads in order must get past it.
fn any_event(row: &Row<'_>) -> Result<Event> {
    match read_event(row) {
        Err(bad) if bad.sqlite_error_code().is_none() => {
            let at = Time::from_ms(row.get(1).unwrap_or_default());
            Ok(Event::unreadable(row.get::<_, i64>(0)?.cast_unsigned(), at, &bad))
        }
        event => event,
    }
}

fn read_event(row: &Row<'_>) -> Result<Event> {
    let task = row.get_ref(3)?.as_str_or_null()?;
    let agent = row.get_ref(9)?.as_str_or_null()?;
    let step = match row.get_ref(4)?.as_str_or_null()? {
        Some(name) => Some(StepKey { name: parse(name, "journal.name")?, occurrence: row.get(5)? }),
        None => None,
    };
    let kind = kind(row.get(2)?).unwrap_or(EventKind::Unknown);
    let mut detail = match row.get_ref(7)?.as_str_or_null()? {
        Some(text) => from_json(text, "journal.detail")?,
        None => Value::Null,
    };
    if let Some(exit_code) = row.get::<_, Option<i32>>(8)? {
        // What a step wrote is in its output; its event says only how it ended.
        detail = serde_json::json!({"exit_code": exit_code});
    }
    Ok(Event {
        agent: agent.map(|name| parse(name, "agent.name")).transpose()?,
        id: row.get::<_, i64>(0)?.cast_unsigned(),
        at: Time::from_ms(row.get(1)?),
        kind,
        task: task.map(|id| parse(id, "task.id")).transpose()?,
        step,
        fence: row.get::<_, Option<i64>>(6)?.map(|fence| Fence(fence.cast_unsigned())),
        detail,
    })
}

fn kind(code: u8) -> Result<EventKind> {
    EventKind::from_code(code).ok_or_else(|| bad_value("journal.kind", code))
}

pub(super) fn newest(db: &Connection) -> Result<u64> {
    let mut select = db.prepare_cached("SELECT COALESCE(MAX(id), 0) FROM journal")?;
    Ok(select.query_row([], |row| row.get::<_, i64>(0))?.cast_unsigned())
}
