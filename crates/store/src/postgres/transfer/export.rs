//! A schema read whole, in one transaction.

use std::sync::Arc;

use async_trait::async_trait;
use tokio_postgres::Row as SqlRow;

use super::kinds::{Kind, kinds};
use super::line::Line;
use crate::bodies::to_json;
use crate::contract::StoreError;
use crate::postgres::connection::{Connection, LONG_WAIT, Value, get, values};
use crate::postgres::error::{BadValue, Failure};
use crate::postgres::open::Expected;
use crate::postgres::text;
use crate::postgres::url::PostgresUrl;
use crate::transfer::{Cell, Exporter, PAGE_BYTES_MAX, PAGE_ROWS_MAX, Row, Table};

/// Most rows of a page whose bytes are not known before it is read: a task may be a megabyte.
const WIDE_ROWS_MAX: usize = 200;

/// Reads a schema as it was when this was made.
pub struct PostgresExporter {
    line: Line,
    newest_event: i64,
}

impl PostgresExporter {
    /// Begins to read a schema that must be there. Blocks until the server has answered.
    pub fn open(url: &PostgresUrl) -> Result<Self, StoreError> {
        Self::begin(Line::open(url, Expected::Read)?)
    }

    pub(super) fn begin(line: Line) -> Result<Self, StoreError> {
        let db = Arc::clone(&line.db);
        let look = async move {
            // The first read fixes what all later ones see.
            db.batch("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
            crate::postgres::journal::newest(&db).await
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

    async fn touch(&mut self) -> Result<(), StoreError> {
        self.line.run(|db| async move { db.batch("SELECT 1").await }).await
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
                    t.turns, t.given_up::int::bigint, t.pinned::int::bigint, t.needs, b.key, b.folder, b.spec, b.context,
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

async fn page(db: &Connection, table: Table, after: Cell) -> Result<Vec<Row>, Failure> {
    let after: Value = match (after, kinds(table)[0]) {
        (Cell::Number(number), _) => Box::new(number),
        (Cell::Text(name), _) => Box::new(text::kept(&name).into_owned()),
        (Cell::None | Cell::Bytes(_), Kind::Text) => Box::new(String::new()),
        (Cell::None | Cell::Bytes(_), _) => Box::new(i64::MIN),
    };
    let rows_max = if table == Table::Journal { PAGE_ROWS_MAX } else { WIDE_ROWS_MAX };
    let mut all = vec![after, Box::new(rows_max as i64)];
    if table == Table::Journal {
        all.push(Box::new(PAGE_BYTES_MAX as i64));
    }
    let rows = db.query_within(LONG_WAIT, select(table), &all).await?;
    let kinds = kinds(table);
    let read = rows.iter().map(|row| read_row(row, &kinds));
    read.collect::<Result<_, _>>().map_err(|bad| db.damaged(&bad))
}

pub(super) fn read_row(row: &SqlRow, kinds: &[Kind]) -> Result<Row, BadValue> {
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
