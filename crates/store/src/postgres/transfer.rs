//! The schema as a whole: read in one transaction, filled page by page.

use std::sync::Arc;

use async_trait::async_trait;
use relight_core::event::EventKind;
use tokio_postgres::Row as SqlRow;

use super::OPEN_WAIT;
use super::background::Background;
use super::connection::{Connection, LONG_WAIT, Server, Value, get, values};
use super::error::{BadValue, Failure, bad_value};
use super::open::{self, Expected};
use super::tasks::from_json;
use super::text;
use super::url::PostgresUrl;
use crate::bodies::to_json;
use crate::contract::StoreError;
use crate::transfer::{
    Cell, CopyError, Exporter, Importer, MARK, Mark, PAGE_BYTES_MAX, PAGE_ROWS_MAX, Row, Table,
};

/// The other store may take its time between two pages; one that is frozen does not hold up the
/// removal of old rows for ever.
const PATIENCE: &str = "SET idle_in_transaction_session_timeout TO '600s'";

/// One connection, and the thread that it lives on.
struct Line {
    url: PostgresUrl,
    place: Arc<str>,
    db: Arc<Connection>,
    background: Background,
}

impl Line {
    fn open(url: &PostgresUrl, expected: Expected) -> Result<Self, StoreError> {
        let server = Arc::new(Server::new(url.clone())?);
        let background = Background::start(&server.place)?;
        let asked = Arc::clone(&server);
        let opening = async move {
            let opened = open::open(&asked, expected).await?;
            opened.connection.batch(PATIENCE).await?;
            Ok(opened.connection)
        };
        let place = Arc::clone(&server.place);
        match background.run_blocking(OPEN_WAIT, opening) {
            Some(Ok(db)) => Ok(Self { url: url.clone(), place, db: Arc::new(db), background }),
            Some(Err(failure)) => Err(Failure::into_store_error(failure, &place)),
            None => Err(server.unreachable("no answer")),
        }
    }

    async fn run<T, F>(&self, ask: impl FnOnce(Arc<Connection>) -> F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        let answer = self.background.run(ask(Arc::clone(&self.db))).await;
        let answer = answer.unwrap_or_else(|| Err(Failure::Lost("its thread has stopped".into())));
        answer.map_err(|failure| failure.into_store_error(&self.place))
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.background.end(async {});
    }
}

/// Reads a schema as it was when this was made.
pub struct PostgresExporter {
    line: Line,
    newest_event: i64,
}

impl PostgresExporter {
    /// Begins to read a schema that must be there. Blocks until the server has answered.
    pub fn open(url: &PostgresUrl) -> Result<Self, StoreError> {
        Self::begin(Line::open(url, Expected::There)?)
    }

    fn begin(line: Line) -> Result<Self, StoreError> {
        let db = Arc::clone(&line.db);
        let look = async move {
            // The first read fixes what all later ones see.
            db.batch("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
            super::journal::newest(&db).await
        };
        match line.background.run_blocking(LONG_WAIT, look) {
            Some(Ok(newest)) => Ok(Self { newest_event: newest.cast_signed(), line }),
            Some(Err(failure)) => Err(failure.into_store_error(&line.place)),
            None => {
                let (place, why) = (line.place.to_string(), "no answer".to_owned());
                Err(StoreError::Unreachable { place, why })
            }
        }
    }
}

#[async_trait]
impl Exporter for PostgresExporter {
    fn place(&self) -> String {
        self.line.place.to_string()
    }

    async fn count(&mut self, table: Table) -> Result<u64, StoreError> {
        let count = self.line.run(move |db| async move {
            let sql = format!("SELECT COUNT(*) FROM {table}");
            let rows = db.query_within(LONG_WAIT, &sql, &[]).await?;
            Ok(rows.first().map_or(0, |row| row.get::<_, i64>(0)))
        });
        Ok(count.await?.cast_unsigned())
    }

    async fn page(&mut self, table: Table, after: &Cell) -> Result<Vec<Row>, StoreError> {
        let after = after.clone();
        self.line.run(move |db| async move { page(&db, table, after).await }).await
    }

    async fn integrity(&mut self) -> Result<Vec<String>, StoreError> {
        self.line.run(|db| async move { integrity(&db).await }).await
    }

    async fn written_since(&mut self) -> Result<u64, StoreError> {
        let newest = self.newest_event;
        let count = self.line.run(move |db| async move {
            db.batch("COMMIT").await?;
            let sql = "SELECT COUNT(*) FROM journal WHERE id > $1";
            let rows = db.query_within(LONG_WAIT, sql, &values![newest]).await?;
            Ok(rows.first().map_or(0, |row| row.get::<_, i64>(0)))
        });
        Ok(count.await?.cast_unsigned())
    }
}

/// What is left of a lease by the database's clock.
macro_rules! left {
    ($until:literal) => {
        concat!(
            "GREATEST(0, ",
            $until,
            " - (extract(epoch FROM clock_timestamp()) * 1000)::bigint)"
        )
    };
}

/// In the order of `Table::columns`, all numbers as large ones. `$1` is the last key that was read, `$2`
/// the number of rows.
fn select(table: Table) -> &'static str {
    match table {
        Table::Task => concat!(
            "SELECT t.n, t.id, t.status::bigint, t.agent, t.reason, t.fence, t.held::int::bigint,
                    t.lease_ttl, CASE WHEN t.lease_ttl IS NOT NULL THEN ",
            left!("t.lease_until"),
            " END, l.holder, l.attempt, l.since, t.seq, t.steps_done, t.steps_open, t.steps_from,
                    t.starts, t.retries, t.max_retries, t.priority::bigint, t.created_at,
                    t.updated_at, t.not_before, t.expires_at, t.recoveries, t.progress_at, t.cost,
                    t.turns, t.given_up::int::bigint, t.needs, b.key, b.folder, b.spec, b.context,
                    b.door
             FROM task t LEFT JOIN task_body b ON b.n = t.n LEFT JOIN lease l ON l.n = t.n
             WHERE t.n > $1 ORDER BY t.n LIMIT $2"
        ),
        Table::Agent => concat!(
            "SELECT n, name, state::bigint, fence, held::int::bigint, lease_ttl,
                    CASE WHEN lease_ttl IS NOT NULL THEN ",
            left!("lease_until"),
            " END, seq, updated_at, body FROM agent WHERE n > $1 ORDER BY n LIMIT $2"
        ),
        Table::Attempt => {
            "SELECT n, agent, number, tag, begun_at, cause::bigint, body FROM attempt
             WHERE n > $1 ORDER BY n LIMIT $2"
        }
        Table::Session => concat!(
            "SELECT n, key, session_id, state::bigint, generation, finished, deaths, seq, since,
                    also_at, suspended_by::bigint, owner, lease_ttl,
                    CASE WHEN lease_ttl IS NOT NULL THEN ",
            left!("lease_until"),
            " END, reason, reason_given::int::bigint, context, seen_at, created_at, updated_at
             FROM session WHERE n > $1 ORDER BY n LIMIT $2"
        ),
        Table::Node => concat!(
            "SELECT name, epoch, draining::int::bigint, joined_at, body, ",
            left!("lease_until"),
            " FROM node WHERE name > $1 ORDER BY name LIMIT $2"
        ),
        Table::Kept => {
            "SELECT name, body FROM kept WHERE name > $1 AND name <> 'store copy'
             ORDER BY name LIMIT $2"
        }
        // How long a body is can be told without reading it: a page ends before it grows too large.
        Table::Journal => {
            "SELECT id, at, kind::bigint, task, agent, fence, name, occurrence, rule::bigint, tries,
                    fingerprint, exit_code::bigint, detail, body
             FROM journal WHERE id > $1 AND id <= (
                 SELECT MAX(id) FROM (
                     SELECT id, SUM(COALESCE(octet_length(body), 0)) OVER
                         (ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
                     FROM (SELECT id, body FROM journal WHERE id > $1 ORDER BY id LIMIT $2) AS next
                 ) AS sized WHERE COALESCE(before, 0) < $3)
             ORDER BY id"
        }
    }
}

/// What a column of the shared form holds here.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Number,
    Text,
    Words,
    Bytes,
}

fn kind(table: Table, column: &str) -> Kind {
    let texts = [
        "id",
        "name",
        "tag",
        "key",
        "session_id",
        "reason",
        "holder",
        "holder_attempt",
        "folder",
        "spec",
        "context",
        "door",
        "body",
        "owner",
        "detail",
    ];
    match (table, column) {
        (Table::Task, "needs") => Kind::Words,
        (Table::Journal, "body") => Kind::Bytes,
        (Table::Journal, "id") => Kind::Number,
        (Table::Task, "agent") => Kind::Text,
        (_, column) if texts.contains(&column) => Kind::Text,
        _ => Kind::Number,
    }
}

fn kinds(table: Table) -> Vec<Kind> {
    table.columns().iter().map(|column| kind(table, column)).collect()
}

async fn page(db: &Connection, table: Table, after: Cell) -> Result<Vec<Row>, Failure> {
    let after: Value = match (after, kinds(table)[0]) {
        (Cell::Number(number), _) => Box::new(number),
        (Cell::Text(name), _) => Box::new(text::kept(&name).into_owned()),
        (Cell::None | Cell::Bytes(_), Kind::Text) => Box::new(String::new()),
        (Cell::None | Cell::Bytes(_), _) => Box::new(i64::MIN),
    };
    let mut all = vec![after, Box::new(PAGE_ROWS_MAX as i64)];
    if table == Table::Journal {
        all.push(Box::new(PAGE_BYTES_MAX as i64));
    }
    let rows = db.query_within(LONG_WAIT, select(table), &all).await?;
    let kinds = kinds(table);
    let read = rows.iter().map(|row| read_row(row, &kinds));
    read.collect::<Result<_, _>>().map_err(|bad| db.damaged(&bad))
}

fn read_row(row: &SqlRow, kinds: &[Kind]) -> Result<Row, BadValue> {
    let cell = |(at, kind): (usize, &Kind)| {
        Ok(match kind {
            Kind::Number => get::<Option<i64>>(row, at)?.map(Cell::Number),
            Kind::Text => get::<Option<String>>(row, at)?.map(|kept| Cell::Text(text::read(kept))),
            Kind::Words => get::<Option<Vec<String>>>(row, at)?.map(|words| {
                let words: Vec<String> = words.into_iter().map(text::read).collect();
                Cell::Text(to_json(&words))
            }),
            Kind::Bytes => get::<Option<Vec<u8>>>(row, at)?.map(Cell::Bytes),
        }
        .unwrap_or(Cell::None))
    };
    kinds.iter().enumerate().map(cell).collect()
}

async fn integrity(db: &Connection) -> Result<Vec<String>, Failure> {
    let strays = [
        ("bodies of no task", "task_body b WHERE NOT EXISTS (SELECT 1 FROM task WHERE n = b.n)"),
        ("leases of no task", "lease l WHERE NOT EXISTS (SELECT 1 FROM task WHERE n = l.n)"),
    ];
    let mut found = Vec::new();
    for (what, condition) in strays {
        let sql = format!("SELECT COUNT(*) FROM {condition}");
        let rows = db.query_within(LONG_WAIT, &sql, &[]).await?;
        match rows.first().map_or(0, |row| row.get::<_, i64>(0)) {
            0 => {}
            count => found.push(format!("{count} {what}")),
        }
    }
    Ok(found)
}

/// Fills a schema.
pub struct PostgresImporter {
    line: Line,
    mark: Option<Mark>,
}

impl PostgresImporter {
    /// Opens the schema, making it when there is none. Nothing is in it yet, or a half. Blocks until the
    /// server has answered.
    pub fn open(url: &PostgresUrl) -> Result<Self, StoreError> {
        Ok(Self { line: Line::open(url, Expected::HalfCopied)?, mark: None })
    }

    /// All or nothing, and only while no other copy has taken over. An answer to the commit that is lost
    /// leaves open whether it was made; whoever goes on sees.
    async fn change(&self, change: Vec<(String, Vec<Value>)>) -> Result<(), CopyError> {
        let mark = self.mark.clone();
        let done = self.line.run(move |db| async move {
            let done = change_now(&db, mark, change).await;
            if !matches!(done, Ok(true)) {
                // What cannot be rolled back is rolled back by the end of the connection.
                let _ = db.batch("ROLLBACK").await;
            }
            done
        });
        if done.await? { Ok(()) } else { Err(CopyError::TakenOver(self.place())) }
    }
}

/// Whether the mark was still ours.
async fn change_now(
    db: &Connection,
    mark: Option<Mark>,
    change: Vec<(String, Vec<Value>)>,
) -> Result<bool, Failure> {
    db.batch("BEGIN").await?;
    if read_mark(db).await? != mark {
        return Ok(false);
    }
    for (sql, values) in change {
        db.query_within(LONG_WAIT, &sql, &values).await?;
    }
    db.batch("COMMIT").await?;
    Ok(true)
}

/// The mark of a copy under way, held until the transaction ends.
async fn read_mark(db: &Connection) -> Result<Option<Mark>, Failure> {
    let sql = "SELECT body FROM kept WHERE name = $1 FOR UPDATE";
    let row = db.query_opt(sql, &values![MARK.to_owned()]).await?;
    mark_of(db, row)
}

fn mark_of(db: &Connection, row: Option<SqlRow>) -> Result<Option<Mark>, Failure> {
    let mark = row.map(|row| from_json(get(&row, 0)?, "kept.body")).transpose();
    mark.map_err(|bad| db.damaged(&bad))
}

/// From where a store is copied that is marked as half copied.
pub(super) async fn half_copied_from(db: &Connection) -> Result<String, Failure> {
    let sql = "SELECT body FROM kept WHERE name = $1";
    let mark = mark_of(db, db.query_opt(sql, &values![MARK.to_owned()]).await?)?;
    Ok(mark.map_or_else(|| "another store".to_owned(), |mark| mark.from))
}

/// How a copy began.
enum Beginning {
    NotEmpty(String),
    Refused(CopyError),
    Marked { mark: Mark, goes_on: bool },
}

async fn begin(db: &Connection, place: &str, from: &str) -> Result<Beginning, Failure> {
    // Whoever writes to it now waits, and is refused then.
    db.batch("BEGIN; SELECT 1 FROM meta WHERE one FOR UPDATE").await?;
    let before = read_mark(db).await?;
    let goes_on = before.is_some();
    if !goes_on && let Some(what) = content(db).await? {
        return Ok(Beginning::NotEmpty(what));
    }
    let mark = match Mark::next(before, place, from) {
        Ok(mark) => mark,
        Err(refused) => return Ok(Beginning::Refused(refused)),
    };
    let keep = "INSERT INTO kept (name, body) VALUES ($1, $2)
                ON CONFLICT (name) DO UPDATE SET body = excluded.body";
    db.query(keep, &values![MARK.to_owned(), to_json(&mark)]).await?;
    db.batch(&format!("{}; COMMIT", open::mark_half_copied())).await?;
    Ok(Beginning::Marked { mark, goes_on })
}

/// The first thing that is in it.
async fn content(db: &Connection) -> Result<Option<String>, Failure> {
    for table in Table::ALL {
        let sql = format!("SELECT COUNT(*) FROM {table}");
        let row = db.query_opt(&sql, &[]).await?;
        let count: i64 = row.map_or(0, |row| row.get(0));
        if count > 0 {
            return Ok(Some(format!("{count} rows in {table}")));
        }
    }
    Ok(None)
}

#[async_trait]
impl Importer for PostgresImporter {
    fn place(&self) -> String {
        self.line.place.to_string()
    }

    async fn begin(&mut self, from: &str) -> Result<bool, CopyError> {
        let (place, from) = (self.place(), from.to_owned());
        let begun = self.line.run(move |db| async move {
            let begun = begin(&db, &place, &from).await;
            if !matches!(begun, Ok(Beginning::Marked { .. })) {
                let _ = db.batch("ROLLBACK").await;
            }
            begun
        });
        match begun.await? {
            Beginning::NotEmpty(what) => Err(CopyError::NotEmpty { place: self.place(), what }),
            Beginning::Refused(refused) => Err(refused),
            Beginning::Marked { mark, goes_on } => {
                self.mark = Some(mark);
                Ok(goes_on)
            }
        }
    }

    async fn newest_key(&mut self, table: Table) -> Result<Cell, CopyError> {
        let key = table.columns()[0];
        let sql = format!("SELECT MAX({key}) FROM {table}{}", but_the_mark(table));
        let found = self.line.run(move |db| async move {
            let rows = db.query_within(LONG_WAIT, &sql, &[]).await?;
            let cell = rows.first().map(|row| read_row(row, &kinds(table)[..1])).transpose();
            let mut cell = cell.map_err(|bad| db.damaged(&bad))?.unwrap_or_default();
            Ok(cell.pop().unwrap_or(Cell::None))
        });
        Ok(found.await?)
    }

    async fn write(&mut self, table: Table, rows: Vec<Row>) -> Result<(), CopyError> {
        let columns = columns(table, rows)
            .map_err(|bad| StoreError::Damaged { place: self.place(), what: bad.to_string() })?;
        self.change(vec![(insert(table), columns)]).await
    }

    async fn clear(&mut self, table: Table) -> Result<(), CopyError> {
        let mut tables = vec![format!("{table}{}", but_the_mark(table))];
        if table == Table::Task {
            tables.extend(["task_body", "lease"].map(str::to_owned));
        }
        let delete = |name: String| (format!("DELETE FROM {name}"), Vec::new());
        self.change(tables.into_iter().map(delete).collect()).await
    }

    async fn read_back(&mut self) -> Result<Box<dyn Exporter>, CopyError> {
        let line = Line::open(&self.line.url, Expected::HalfCopied)?;
        Ok(Box::new(PostgresExporter::begin(line)?))
    }

    async fn finish(&mut self) -> Result<(), CopyError> {
        let numbered = [Table::Task, Table::Agent, Table::Attempt, Table::Session, Table::Journal];
        let mut change: Vec<_> = numbered.map(|table| (next_number(table), Vec::new())).into();
        change.push(("DELETE FROM kept WHERE name = $1".to_owned(), values![MARK.to_owned()]));
        change.push((open::mark_whole(), Vec::new()));
        self.change(change).await?;
        self.mark = None;
        // What its housekeeping knows of the tables is from the time they were empty.
        let tables = Table::ALL.map(Table::name).join(", ");
        let analyze = format!("ANALYZE {tables}, task_body, lease");
        Ok(self.line.run(move |db| async move { db.batch(&analyze).await }).await?)
    }
}

fn but_the_mark(table: Table) -> &'static str {
    match table {
        Table::Kept => " WHERE name <> 'store copy'",
        _ => "",
    }
}

/// The next number that is given out comes after all that were copied.
fn next_number(table: Table) -> String {
    let key = table.columns()[0];
    format!(
        "SELECT setval(pg_get_serial_sequence('{table}', '{key}'), COALESCE(MAX({key}), 0) + 1, false)
         FROM {table}"
    )
}

/// The values of `insert`: a list for each column.
fn columns(table: Table, rows: Vec<Row>) -> Result<Vec<Value>, BadValue> {
    let kinds = kinds(table);
    let mut columns: Vec<Vec<Cell>> =
        kinds.iter().map(|_| Vec::with_capacity(rows.len())).collect();
    for row in rows {
        for (column, cell) in columns.iter_mut().zip(row) {
            column.push(cell);
        }
    }
    let names = table.columns().iter();
    let all = names.zip(kinds).zip(columns);
    all.map(|((name, kind), cells)| value(name, kind, cells)).collect()
}

fn value(name: &str, kind: Kind, cells: Vec<Cell>) -> Result<Value, BadValue> {
    let other = |cell: &Cell| bad_value(name, format!("{cell:?}"));
    Ok(match kind {
        Kind::Number => Box::new(list(cells, |cell| cell.number().ok_or_else(|| other(&cell)))?),
        Kind::Text => Box::new(list(cells, |cell| match cell {
            Cell::Text(plain) => Ok(text::kept(&plain).into_owned()),
            cell => Err(other(&cell)),
        })?),
        Kind::Words => Box::new(list(cells, |cell| {
            let words: Vec<String> = from_json(cell.text().ok_or_else(|| other(&cell))?, name)?;
            let kept: Vec<_> = words.iter().map(|word| text::kept(word)).collect();
            Ok(to_json(&kept))
        })?),
        Kind::Bytes => Box::new(list(cells, |cell| match cell {
            Cell::Bytes(bytes) => Ok(bytes),
            cell => Err(other(&cell)),
        })?),
    })
}

fn list<T>(
    cells: Vec<Cell>,
    read: impl Fn(Cell) -> Result<T, BadValue>,
) -> Result<Vec<Option<T>>, BadValue> {
    let some = |cell| if cell == Cell::None { Ok(None) } else { read(cell).map(Some) };
    cells.into_iter().map(some).collect()
}

/// `u` has the rows, with the columns of the shared form.
fn insert(table: Table) -> String {
    let lists = kinds(table).into_iter().enumerate().map(|(at, kind)| {
        let list = match kind {
            Kind::Number => "bigint",
            Kind::Text | Kind::Words => "text",
            Kind::Bytes => "bytea",
        };
        format!("${}::{list}[]", at + 1)
    });
    let (lists, names) = (lists.collect::<Vec<_>>().join(", "), table.columns().join(", "));
    let into = match table {
        Table::Task => INSERT_TASK,
        Table::Agent => INSERT_AGENT,
        Table::Attempt => INSERT_ATTEMPT,
        Table::Session => INSERT_SESSION,
        Table::Node => INSERT_NODE,
        Table::Kept => "INSERT INTO kept (name, body) SELECT name, body FROM u",
        Table::Journal => INSERT_JOURNAL,
    };
    format!("WITH u AS MATERIALIZED (SELECT * FROM unnest({lists}) AS u ({names})) {into}")
}

/// When a lease runs out of which so much is left.
macro_rules! until {
    () => {
        "(extract(epoch FROM clock_timestamp()) * 1000)::bigint + lease_left"
    };
}

/// A task is three rows; one whose body is gone has no third of itself here either.
const INSERT_TASK: &str = concat!(
    ", body AS (
         INSERT INTO task_body (n, key, folder, spec, context, door)
         SELECT n, key, folder, spec, context, door FROM u WHERE spec IS NOT NULL),
     held AS (
         INSERT INTO lease (n, since, holder, attempt)
         SELECT n, held_since, holder, holder_attempt FROM u WHERE holder IS NOT NULL)
     INSERT INTO task (n, id, status, agent, reason, fence, held, lease_ttl, lease_until, seq,
         steps_done, steps_open, steps_from, starts, retries, max_retries, priority, created_at,
         updated_at, not_before, expires_at, recoveries, progress_at, cost, turns, given_up, needs)
     SELECT n, id, status::smallint, agent, reason, fence, held = 1, lease_ttl, ",
    until!(),
    ", seq, steps_done, steps_open, steps_from, starts, retries, max_retries, priority::integer,
         created_at, updated_at, not_before, expires_at, recoveries, progress_at, cost, turns,
         given_up = 1, CASE WHEN needs IS NOT NULL
             THEN ARRAY(SELECT json_array_elements_text(needs::json)) END
     FROM u"
);

const INSERT_AGENT: &str = concat!(
    "INSERT INTO agent (n, name, state, fence, held, lease_ttl, lease_until, seq, updated_at, body)
     SELECT n, name, state::smallint, fence, held = 1, lease_ttl, ",
    until!(),
    ", seq, updated_at, body FROM u"
);

const INSERT_ATTEMPT: &str = "
    INSERT INTO attempt (n, agent, number, tag, begun_at, cause, body)
    SELECT n, agent, number, tag, begun_at, cause::smallint, body FROM u";

const INSERT_SESSION: &str = concat!(
    "INSERT INTO session (n, key, session_id, state, generation, finished, deaths, seq, since,
         also_at, suspended_by, owner, lease_ttl, lease_until, reason, reason_given, context,
         seen_at, created_at, updated_at)
     SELECT n, key, session_id, state::smallint, generation, finished, deaths, seq, since, also_at,
         suspended_by::smallint, owner, lease_ttl, ",
    until!(),
    ", reason, reason_given = 1, context, seen_at, created_at, updated_at FROM u"
);

const INSERT_NODE: &str = concat!(
    "INSERT INTO node (name, epoch, draining, joined_at, body, lease_until)
     SELECT name, epoch, draining = 1, joined_at, body, COALESCE(",
    until!(),
    ", 0) FROM u"
);

const INSERT_JOURNAL: &str = "
    INSERT INTO journal (id, at, kind, task, agent, fence, name, occurrence, rule, tries, fingerprint,
        exit_code, detail, body)
    SELECT id, at, kind::smallint, task, agent, fence, name, occurrence, rule::smallint, tries,
        fingerprint, exit_code::integer, detail, body
    FROM u";

/// Raises every number that a writer may still show to at least this one, so that nobody who worked
/// with a later state of the store is taken for a writer of this one. The holders stay.
pub fn raise_numbers(
    url: &PostgresUrl,
    least: u64,
    told: &serde_json::Value,
) -> Result<(), StoreError> {
    let line = Line::open(url, Expected::There)?;
    let (db, least, told) = (Arc::clone(&line.db), least.cast_signed(), to_json(told));
    let raise = async move {
        let mut script = String::from("BEGIN;");
        for (table, column) in
            [("task", "fence"), ("agent", "fence"), ("session", "generation"), ("node", "epoch")]
        {
            script += &format!("UPDATE {table} SET {column} = GREATEST({column} + 1, {least});");
        }
        db.batch(&script).await?;
        let kind = i16::from(EventKind::Recovered.code());
        let tell = "INSERT INTO journal (id, at, kind, detail)
                    SELECT GREATEST(COALESCE(MAX(id), 0) + 1, $1), $1, $2, $3 FROM journal";
        db.query(tell, &values![least, kind, told]).await?;
        db.query(&next_number(Table::Journal), &[]).await?;
        db.batch("COMMIT").await
    };
    match line.background.run_blocking(LONG_WAIT, raise) {
        Some(answer) => answer.map_err(|failure| failure.into_store_error(&line.place)),
        None => {
            let (place, why) = (line.place.to_string(), "no answer".to_owned());
            Err(StoreError::Unreachable { place, why })
        }
    }
}
