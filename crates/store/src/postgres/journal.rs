//! The journal: what happened, in order. A step's records are its rows with a name.

use std::collections::HashMap;
use std::sync::LazyLock;

use relight_core::event::{Event, EventKind};
use relight_core::ids::TaskId;
use relight_core::lease::Fence;
use relight_core::step::{Output, RepeatRule, Step, StepKey, StepState};
use relight_core::time::Time;
use serde_json::Value as Json;
use tokio_postgres::Row;

use super::connection::{Connection, Script, Value, get, values};
use super::error::{BadValue, Failure, bad_value};
use super::tasks::{from_json, number, parse};
use crate::apply::{Entry, StepEntry};
use crate::bodies::OutputDetail;
use crate::contract::EventQuery;

/// What `append_step` takes of the record of a step.
pub(super) fn step_values(entry: &Entry<'_>) -> Vec<Value> {
    let StepEntry { mark, output } = entry.step.as_ref().expect("it is the record of a step");
    let mut all = values![i16::from(entry.kind.code()), entry.kept_detail()];
    all.extend(values![mark.key.name.as_str().to_owned(), i64::from(mark.key.occurrence)]);
    all.extend(values![i16::from(mark.rule.code()), i64::from(mark.tries)]);
    all.extend(values![mark.fingerprint.map(u64::cast_signed)]);
    all.extend(values![output.map(|output| output.exit_code)]);
    all.extend(values![output.map(|output| output.body.clone())]);
    all
}

/// From the lock until the transaction ends nobody else draws numbers of the journal: they become
/// visible in order, or a reader who has seen a later one would never look for an earlier one. The lock
/// is taken in the same statement, once all its values have arrived: outputs on their way over a slow
/// link hold up nobody. Numbers are drawn from what the join gives, and so after the lock.
const APPEND: &str = "
    INSERT INTO journal (at, kind, task, agent, fence, detail, name, occurrence, rule, tries,
                         fingerprint, exit_code, body)
    SELECT at, kind, task, agent, fence, detail, name, occurrence, rule, tries, fingerprint,
           exit_code, body
    FROM pg_advisory_xact_lock($14::bigint) AS one_at_a_time
    CROSS JOIN unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[],
                $7::text[], $8::bigint[], $9::smallint[], $10::bigint[], $11::bigint[],
                $12::integer[], $13::bytea[]) WITH ORDINALITY
         AS u (at, kind, task, agent, fence, detail, name, occurrence, rule, tries, fingerprint,
               exit_code, body, place)
    ORDER BY place";

/// Rows to be, as columns.
#[derive(Debug, Default)]
pub(super) struct JournalColumns {
    at: Vec<i64>,
    kind: Vec<i16>,
    task: Vec<Option<i64>>,
    agent: Vec<Option<i64>>,
    fence: Vec<Option<i64>>,
    detail: Vec<Option<String>>,
    name: Vec<Option<String>>,
    occurrence: Vec<Option<i64>>,
    rule: Vec<Option<i16>>,
    tries: Vec<Option<i64>>,
    fingerprint: Vec<Option<i64>>,
    exit_code: Vec<Option<i32>>,
    body: Vec<Option<Vec<u8>>>,
}

impl JournalColumns {
    pub(super) fn with_capacity(count: usize) -> Self {
        Self {
            at: Vec::with_capacity(count),
            kind: Vec::with_capacity(count),
            task: Vec::with_capacity(count),
            agent: Vec::with_capacity(count),
            fence: Vec::with_capacity(count),
            detail: Vec::with_capacity(count),
            name: Vec::with_capacity(count),
            occurrence: Vec::with_capacity(count),
            rule: Vec::with_capacity(count),
            tries: Vec::with_capacity(count),
            fingerprint: Vec::with_capacity(count),
            exit_code: Vec::with_capacity(count),
            body: Vec::with_capacity(count),
        }
    }

    pub(super) fn push(&mut self, entry: &Entry<'_>) {
        self.at.push(entry.at.as_ms());
        self.kind.push(entry.kind.code().into());
        self.task.push(entry.task.map(|(n, _)| n));
        self.agent.push(entry.agent.map(|(n, _)| n));
        self.fence.push(entry.fence.map(|fence| fence.0.cast_signed()));
        self.detail.push(entry.kept_detail());
        let mark = entry.step.as_ref().map(|step| step.mark);
        let output = entry.step.as_ref().and_then(|step| step.output);
        self.name.push(mark.map(|mark| mark.key.name.as_str().to_owned()));
        self.occurrence.push(mark.map(|mark| mark.key.occurrence.into()));
        self.rule.push(mark.map(|mark| mark.rule.code().into()));
        self.tries.push(mark.map(|mark| mark.tries.into()));
        self.fingerprint.push(mark.and_then(|mark| mark.fingerprint).map(u64::cast_signed));
        self.exit_code.push(output.map(|output| output.exit_code));
        self.body.push(output.map(|output| output.body.clone()));
    }

    /// The values of `APPEND` but the key of the lock.
    fn into_values(self) -> Vec<Value> {
        let mut all = values![self.at, self.kind, self.task, self.agent, self.fence, self.detail];
        all.extend(values![self.name, self.occurrence, self.rule, self.tries, self.fingerprint]);
        all.extend(values![self.exit_code, self.body]);
        all
    }

    /// The same for records of steps, whose task is told apart and who have no agent.
    pub(super) fn into_step_values(self) -> Vec<Value> {
        let mut all = values![self.at, self.kind, self.fence, self.detail, self.name];
        all.extend(values![self.occurrence, self.rule, self.tries, self.fingerprint]);
        all.extend(values![self.exit_code, self.body]);
        all
    }
}

/// Appends these, as one of the last statements of a transaction.
pub(super) fn append(script: &mut Script, journal_key: i64, entries: &[Entry<'_>]) {
    let mut columns = JournalColumns::with_capacity(entries.len());
    for entry in entries {
        columns.push(entry);
    }
    let mut values = columns.into_values();
    values.extend(values![journal_key]);
    script.add(APPEND, values);
}

/// Where each of these steps stands: its place in the question, the kind of its newest record, and the
/// detail of a person's word.
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

pub(super) fn state(code: i16, detail: Option<&str>) -> Result<StepState, BadValue> {
    match kind(code)? {
        EventKind::StepBegun => Ok(StepState::Begun),
        EventKind::StepDone => Ok(StepState::Done),
        EventKind::StepFailed => Ok(StepState::Failed),
        EventKind::StepSkipped => Ok(StepState::Skipped),
        EventKind::StepResolved => {
            let detail: Json = from_json(detail.unwrap_or_default(), "journal.detail")?;
            let happened = detail["happened"].as_bool().unwrap_or(false);
            Ok(if happened { StepState::Done } else { StepState::Failed })
        }
        other => Err(bad_value("journal.kind", other.as_str())),
    }
}

fn kind(code: i16) -> Result<EventKind, BadValue> {
    let found = u8::try_from(code).ok().and_then(EventKind::from_code);
    found.ok_or_else(|| bad_value("journal.kind", code))
}

const STEP_COLUMNS: &str = "
    j.kind, j.name, j.occurrence, j.rule, j.tries, j.fence, j.at, j.exit_code, j.fingerprint,
    CASE WHEN j.exit_code IS NULL THEN j.detail END";

pub(super) async fn step(
    db: &Connection,
    task: &TaskId,
    key: &StepKey,
) -> Result<Option<Step>, Failure> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        format!(
            "SELECT {STEP_COLUMNS} FROM task t JOIN journal j ON j.task = t.n
             WHERE t.id = $1 AND j.name = $2 AND j.occurrence = $3 AND j.id > t.steps_from
             ORDER BY j.id DESC LIMIT 1"
        )
    });
    let row = db.query_opt(&SQL, &key_values(task, key)).await?;
    row.as_ref().map(read_step).transpose().map_err(|bad| db.damaged(&bad))
}

fn key_values(task: &TaskId, key: &StepKey) -> Vec<Value> {
    values![task.as_str().to_owned(), key.name.as_str().to_owned(), i64::from(key.occurrence)]
}

pub(super) async fn steps(db: &Connection, task: &TaskId) -> Result<Vec<Step>, Failure> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        format!(
            "SELECT {STEP_COLUMNS} FROM task t JOIN journal j ON j.task = t.n
             WHERE t.id = $1 AND j.name IS NOT NULL AND j.id > t.steps_from ORDER BY j.id"
        )
    });
    let rows = db.query(&SQL, &values![task.as_str().to_owned()]).await?;
    let mut found: Vec<Step> = Vec::new();
    let mut places: HashMap<StepKey, usize> = HashMap::new();
    for row in &rows {
        let step = read_step(row).map_err(|bad| db.damaged(&bad))?;
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

pub(super) async fn output(
    db: &Connection,
    task: &TaskId,
    key: &StepKey,
) -> Result<Option<Output>, Failure> {
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
    let row = db.query_opt(&SQL, &key_values(task, key)).await?;
    let read = |row: &Row| {
        let Some(exit_code) = get(row, 0)? else { return Ok(None) };
        let detail = match get::<Option<&str>>(row, 2)? {
            Some(text) => from_json(text, "journal.detail")?,
            None => OutputDetail::default(),
        };
        let OutputDetail { stderr, cut, redacted } = detail;
        Ok(Some(Output { exit_code, body: get(row, 1)?, stderr, cut, redacted }))
    };
    let output = row.as_ref().map(read).transpose();
    Ok(output.map_err(|bad| db.damaged(&bad))?.flatten())
}

fn read_step(row: &Row) -> Result<Step, BadValue> {
    let rule = u8::try_from(get::<i16>(row, 3)?).ok().and_then(RepeatRule::from_code);
    Ok(Step {
        key: StepKey { name: parse(get(row, 1)?, "journal.name")?, occurrence: number(row, 2)? },
        state: state(get(row, 0)?, get(row, 9)?)?,
        rule: rule.ok_or_else(|| bad_value("journal.rule", "another"))?,
        tries: number(row, 4)?,
        fence: Fence(get::<Option<i64>>(row, 5)?.unwrap_or(0).cast_unsigned()),
        at: Time::from_ms(get(row, 6)?),
        exit_code: get(row, 7)?,
        fingerprint: get::<Option<i64>>(row, 8)?.map(i64::cast_unsigned),
    })
}

pub(super) async fn events(db: &Connection, query: &EventQuery) -> Result<Vec<Event>, Failure> {
    let (sql, values) = events_sql(query);
    let rows = db.query(&sql, &values).await?;
    let mut found: Vec<Event> = rows.iter().map(any_event).collect();
    if query.newest {
        found.reverse();
    }
    Ok(found)
}

/// Kinds with an index of their own.
const OF_ATTEMPTS: [EventKind; 3] =
    [EventKind::AttemptBegun, EventKind::AttemptStarted, EventKind::AttemptDied];
/// The index's own condition, to the letter: by it the database knows that the index has all of them.
const IS_OF_ATTEMPTS: &str = " AND j.kind IN (21, 22, 23)";

fn events_sql(query: &EventQuery) -> (String, Vec<Value>) {
    let mut sql = "
        SELECT j.id, j.at, j.kind, t.id, j.name, j.occurrence, j.fence,
               CASE WHEN j.exit_code IS NULL THEN j.detail END, j.exit_code, a.name
        FROM journal j LEFT JOIN task t ON t.n = j.task LEFT JOIN agent a ON a.n = j.agent
        WHERE j.id > $1"
        .to_owned();
    let mut all = values![i64::try_from(query.after).unwrap_or(i64::MAX)];
    let mut also = |condition: &str, value: Value| {
        all.push(value);
        sql += &condition.replace('?', &format!("${}", all.len()));
    };
    if let Some(task) = &query.task {
        let value = Box::new(task.as_str().to_owned());
        also(" AND j.task = (SELECT n FROM task WHERE id = ?)", value);
    }
    if let Some(agent) = &query.agent {
        let value = Box::new(agent.as_str().to_owned());
        also(" AND j.agent = (SELECT n FROM agent WHERE name = ?)", value);
    }
    if let Some(before) = query.before {
        also(" AND j.id < ?", Box::new(i64::try_from(before).unwrap_or(i64::MAX)));
    }
    if !query.kinds.is_empty() {
        let codes: Vec<i16> = query.kinds.iter().map(|kind| kind.code().into()).collect();
        let are_of_attempts = query.kinds.iter().all(|kind| OF_ATTEMPTS.contains(kind));
        let by_index = if are_of_attempts { IS_OF_ATTEMPTS } else { "" };
        also(&format!(" AND j.kind = ANY(?){by_index}"), Box::new(codes));
    }
    let order = if query.newest { "DESC" } else { "ASC" };
    let limit = i64::try_from(query.limit).unwrap_or(i64::MAX);
    also(&format!(" ORDER BY j.id {order} LIMIT ?"), Box::new(limit));
    (sql, all)
}

/// Whatever it holds, it has its place: whoever reads in order must get past it.
fn any_event(row: &Row) -> Event {
    read_event(row).unwrap_or_else(|bad| {
        let at = Time::from_ms(row.get(1));
        Event::unreadable(row.get::<_, i64>(0).cast_unsigned(), at, &bad)
    })
}

fn read_event(row: &Row) -> Result<Event, BadValue> {
    let step = match get::<Option<&str>>(row, 4)? {
        Some(name) => {
            Some(StepKey { name: parse(name, "journal.name")?, occurrence: number(row, 5)? })
        }
        None => None,
    };
    // What a step wrote is in its output; its event says only how it ended.
    let detail = match (get::<Option<i32>>(row, 8)?, get::<Option<&str>>(row, 7)?) {
        (Some(exit_code), _) => serde_json::json!({"exit_code": exit_code}),
        (None, Some(text)) => from_json(text, "journal.detail")?,
        (None, None) => Json::Null,
    };
    let (task, agent): (Option<&str>, Option<&str>) = (get(row, 3)?, get(row, 9)?);
    Ok(Event {
        id: get::<i64>(row, 0)?.cast_unsigned(),
        at: Time::from_ms(get(row, 1)?),
        kind: kind(get(row, 2)?).unwrap_or(EventKind::Unknown),
        agent: agent.map(|name| parse(name, "agent.name")).transpose()?,
        task: task.map(|id| parse(id, "task.id")).transpose()?,
        step,
        fence: get::<Option<i64>>(row, 6)?.map(|fence| Fence(fence.cast_unsigned())),
        detail,
    })
}

pub(super) async fn newest(db: &Connection) -> Result<u64, Failure> {
    let row = db.query_opt("SELECT COALESCE(MAX(id), 0) FROM journal", &[]).await?;
    Ok(row.map_or(0, |row| row.get::<_, i64>(0)).cast_unsigned())
}
