//! A schema filled page by page.

use async_trait::async_trait;
use tokio_postgres::Row as SqlRow;

use super::export::{PostgresExporter, read_row};
use super::kinds::{Kind, kinds};
use super::line::Line;
use crate::bodies::to_json;
use crate::contract::StoreError;
use crate::postgres::connection::{Connection, LONG_WAIT, Value, get, values};
use crate::postgres::error::{BadValue, Failure, bad_value};
use crate::postgres::open::{self, Expected};
use crate::postgres::tasks::from_json;
use crate::postgres::text;
use crate::postgres::url::PostgresUrl;
use crate::transfer::{Cell, CopyError, Exporter, Importer, MARK, Mark, Row, Table};

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

    /// Asked when the last commit failed, perhaps only in its answer. By a new connection, for the old
    /// one may be gone. Where that cannot be had, whoever goes on sees.
    async fn is_finished(&self) -> bool {
        let Ok(line) = Line::open(&self.line.url, Expected::HalfCopied) else { return false };
        line.run(|db| async move { is_whole(&db).await }).await.unwrap_or(false)
    }
}

/// Whether the mark is gone, once whoever held it has ended.
async fn is_whole(db: &Connection) -> Result<bool, Failure> {
    db.batch("BEGIN").await?;
    Ok(read_mark(db).await?.is_none())
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
pub(in crate::postgres) async fn half_copied_from(db: &Connection) -> Result<String, Failure> {
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
    // Whoever has begun to write is waited for, and seen. Whoever writes now waits, and is refused then.
    let wait = open::WAIT_FOR_WRITERS;
    db.batch(&format!("BEGIN; {wait}; SELECT 1 FROM meta WHERE one FOR UPDATE")).await?;
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
        let columns =
            columns(table, rows).map_err(|bad| CopyError::Unkept { why: bad.to_string() })?;
        self.change(vec![(insert(table), columns)]).await.map_err(CopyError::of_a_row)
    }

    async fn clear(&mut self, table: Table) -> Result<(), CopyError> {
        // At once, however many rows there are; nobody else looks at them.
        let sql = match table {
            Table::Task => "TRUNCATE task, task_body, lease".to_owned(),
            Table::Kept => format!("DELETE FROM kept{}", but_the_mark(table)),
            _ => format!("TRUNCATE {table}"),
        };
        self.change(vec![(sql, Vec::new())]).await
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
        if let Err(error) = self.change(change).await
            && !self.is_finished().await
        {
            return Err(error);
        }
        self.mark = None;
        // What its housekeeping knows of the tables is from the time they were empty. It comes to know
        // better by itself as well.
        let tables = Table::ALL.map(Table::name).join(", ");
        let analyze = format!("ANALYZE {tables}, task_body, lease");
        let _ = self.line.run(move |db| async move { db.batch(&analyze).await }).await;
        Ok(())
    }
}

fn but_the_mark(table: Table) -> &'static str {
    match table {
        Table::Kept => " WHERE name <> 'store copy'",
        _ => "",
    }
}

/// The next number that is given out comes after all that were copied.
pub(super) fn next_number(table: Table) -> String {
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
         updated_at, not_before, expires_at, recoveries, progress_at, cost, turns, given_up, pinned,
         needs)
     SELECT n, id, status::smallint, agent, reason, fence, held = 1, lease_ttl, ",
    until!(),
    ", seq, steps_done, steps_open, steps_from, starts, retries, max_retries, priority::integer,
         created_at, updated_at, not_before, expires_at, recoveries, progress_at, cost, turns,
         given_up = 1, pinned = 1, CASE WHEN needs IS NOT NULL
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
