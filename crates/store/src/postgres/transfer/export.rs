//! Reads a whole schema in one transaction.

use std::sync::Arc;

use async_trait::async_trait;
use tokio_postgres::Row as SqlRow;

use super::line::TransferConnection;
use crate::contract::StoreError;
use crate::postgres::connection::{Connection, LONG_WAIT, Value, get, values};
use crate::postgres::error::PostgresFailure;
use crate::postgres::open::Expected;
use crate::postgres::rows::{LeaseColumn, columns};
use crate::postgres::text;
use crate::postgres::url::PostgresUrl;
use crate::record::{BadValue, Cells, bad_value};
use crate::record::{Cell, Column, ColumnKind, PAGE_BYTES_MAX, PAGE_ROWS_MAX, Row, Table};
use crate::transfer::Exporter;

/// Maximum rows of a page whose size is unknown before it is read: a task may be a megabyte.
const WIDE_ROWS_MAX: usize = 200;

/// Reads a snapshot of a schema.
pub struct PostgresExporter {
    line: TransferConnection,
    newest_event: i64,
}

impl PostgresExporter {
    /// Begins to read an existing schema. Blocks until the server has answered.
    pub fn open(url: &PostgresUrl) -> Result<Self, StoreError> {
        Self::begin(TransferConnection::open(url, Expected::Read)?)
    }

    pub(super) fn begin(line: TransferConnection) -> Result<Self, StoreError> {
        let db = Arc::clone(&line.db);
        let look = async move {
            // The first read fixes the snapshot.
            db.batch("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                .await?;
            crate::postgres::journal::newest(&db).await
        };
        match line.background.run_blocking(LONG_WAIT, look) {
            Some(Ok(newest)) => Ok(Self {
                newest_event: newest.cast_signed(),
                line,
            }),
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
        self.line
            .run(move |db| async move { page(&db, table, after).await })
            .await
    }

    async fn integrity(&mut self) -> Result<Vec<String>, StoreError> {
        self.line
            .run(|db| async move { integrity(&db).await })
            .await
    }

    async fn touch(&mut self) -> Result<(), StoreError> {
        self.line
            .run(|db| async move { db.batch("SELECT 1").await })
            .await
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

/// In the order of `Table::columns`. `$1` moves the clock, `$2` is the last key that was read, `$3` the
/// number of rows and `$4` that of bytes.
fn select(table: Table) -> String {
    let columns = columns(table, LeaseColumn::Left);
    let (from, key) = match table {
        Table::Task => {
            let from = "task t LEFT JOIN task_body b ON b.n = t.n LEFT JOIN lease l ON l.n = t.n";
            (from, "t.n")
        }
        Table::Attempt => ("attempt a", "a.n"),
        other => (other.name(), other.columns()[0].0),
    };
    let but = match table {
        Table::Kept => "AND name <> 'store copy'",
        // The length of a body is known without reading it: a page ends before it grows too large.
        Table::Journal => {
            "AND id <= (
                 SELECT MAX(id) FROM (
                     SELECT id, SUM(COALESCE(octet_length(body), 0)) OVER
                         (ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
                     FROM (SELECT id, body FROM journal WHERE id > $2 ORDER BY id LIMIT $3) AS next
                 ) AS sized WHERE COALESCE(before, 0) < $4)"
        }
        _ => "",
    };
    // The database needs the type of each parameter, even of unused ones.
    let all = "$1::bigint IS NOT NULL AND $4::bigint > 0";
    format!("SELECT {columns} FROM {from} WHERE {all} AND {key} > $2 {but} ORDER BY {key} LIMIT $3")
}

async fn page(db: &Connection, table: Table, after: Cell) -> Result<Vec<Row>, PostgresFailure> {
    let after: Value = match (after, table.columns()[0].1) {
        (Cell::Number(number), _) => Box::new(number),
        (Cell::Text(name), _) => Box::new(text::kept(&name).into_owned()),
        (Cell::None | Cell::Bytes(_), ColumnKind::Text) => Box::new(String::new()),
        (Cell::None | Cell::Bytes(_), _) => Box::new(i64::MIN),
    };
    let rows_max = if table == Table::Journal {
        PAGE_ROWS_MAX
    } else {
        WIDE_ROWS_MAX
    };
    let mut all = values![0_i64];
    all.push(after);
    all.extend(values![rows_max as i64, PAGE_BYTES_MAX as i64]);
    let rows = db.query_within(LONG_WAIT, &select(table), &all).await?;
    let read = rows.iter().map(|row| read_row(row, table.columns()));
    read.collect::<Result<_, _>>()
        .map_err(|bad| db.damaged(&bad))
}

pub(super) fn read_row(row: &SqlRow, columns: &[Column]) -> Result<Row, BadValue> {
    let cell = |(at, (name, kind)): (usize, &Column)| {
        let cell = match kind {
            ColumnKind::Number | ColumnKind::Flag => row.number(at).map(Cell::from),
            ColumnKind::Text | ColumnKind::Words => row
                .text(at)
                .map(|text| text.map_or(Cell::None, |text| Cell::Text(text.into_owned()))),
            ColumnKind::Bytes => {
                return Ok(get::<Option<Vec<u8>>>(row, at)?.map_or(Cell::None, Cell::Bytes));
            }
        };
        cell.map_err(|found| bad_value(name, found))
    };
    columns.iter().enumerate().map(cell).collect()
}

async fn integrity(db: &Connection) -> Result<Vec<String>, PostgresFailure> {
    let strays = [
        (
            "bodies of no task",
            "task_body b WHERE NOT EXISTS (SELECT 1 FROM task WHERE n = b.n)",
        ),
        (
            "leases of no task",
            "lease l WHERE NOT EXISTS (SELECT 1 FROM task WHERE n = l.n)",
        ),
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
