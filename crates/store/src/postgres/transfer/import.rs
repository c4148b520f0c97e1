//! Fills a schema page by page.

use async_trait::async_trait;
use tokio_postgres::Row as SqlRow;

use super::export::{PostgresExporter, read_row};
use super::line::TransferConnection;
use crate::bodies::to_json;
use crate::contract::StoreError;
use crate::postgres::connection::{Connection, LONG_WAIT, Value, get, values};
use crate::postgres::error::PostgresFailure;
use crate::postgres::open::{self, Expected};
use crate::postgres::rows::{lists, names, unnest};
use crate::postgres::tasks;
use crate::postgres::url::PostgresUrl;
use crate::record::from_json;
use crate::record::{Cell, LEASE_LEFT, Row, Table};
use crate::transfer::{CopyError, CopyMark, Exporter, Importer, MARK};

/// Fills a schema.
pub struct PostgresImporter {
    line: TransferConnection,
    mark: Option<CopyMark>,
}

impl PostgresImporter {
    /// Opens the schema, which is empty or half copied; creates it if missing. Blocks until the server has
    /// answered.
    pub fn open(url: &PostgresUrl) -> Result<Self, StoreError> {
        Ok(Self {
            line: TransferConnection::open(url, Expected::HalfCopied)?,
            mark: None,
        })
    }

    /// All or nothing, and only while no other copy has taken over. If the answer to the commit is lost,
    /// its outcome is unknown; the next run finds out.
    async fn change(&self, change: Vec<(String, Vec<Value>)>) -> Result<(), CopyError> {
        let mark = self.mark.clone();
        let done = self.line.run(move |db| async move {
            let done = change_now(&db, mark, change).await;
            if !matches!(done, Ok(true)) {
                // If that fails, the end of the connection rolls back.
                let _ = db.batch("ROLLBACK").await;
            }
            done
        });
        if done.await? {
            Ok(())
        } else {
            Err(CopyError::TakenOver(self.place()))
        }
    }

    /// For a last commit that failed, or whose answer was lost. Uses a new connection, because the old one
    /// may be gone. If there is none, the next run finds out.
    async fn is_finished(&self) -> bool {
        let Ok(line) = TransferConnection::open(&self.line.url, Expected::HalfCopied) else {
            return false;
        };
        line.run(|db| async move { is_whole(&db).await })
            .await
            .unwrap_or(false)
    }
}

/// Whether the mark is gone, after waiting for its lock.
async fn is_whole(db: &Connection) -> Result<bool, PostgresFailure> {
    db.batch("BEGIN").await?;
    Ok(read_mark(db).await?.is_none())
}

/// Whether the mark was still ours.
async fn change_now(
    db: &Connection,
    mark: Option<CopyMark>,
    change: Vec<(String, Vec<Value>)>,
) -> Result<bool, PostgresFailure> {
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

/// Locks the mark of an unfinished copy until the transaction ends.
async fn read_mark(db: &Connection) -> Result<Option<CopyMark>, PostgresFailure> {
    let sql = "SELECT body FROM kept WHERE name = $1 FOR UPDATE";
    let row = db.query_opt(sql, &values![MARK.to_owned()]).await?;
    mark_of(db, row)
}

fn mark_of(db: &Connection, row: Option<SqlRow>) -> Result<Option<CopyMark>, PostgresFailure> {
    let mark = row
        .map(|row| from_json(get(&row, 0)?, "kept.body"))
        .transpose();
    mark.map_err(|bad| db.damaged(&bad))
}

/// The source of an unfinished copy.
pub(in crate::postgres) async fn half_copied_from(
    db: &Connection,
) -> Result<String, PostgresFailure> {
    let sql = "SELECT body FROM kept WHERE name = $1";
    let mark = mark_of(db, db.query_opt(sql, &values![MARK.to_owned()]).await?)?;
    Ok(mark.map_or_else(|| "another store".to_owned(), |mark| mark.from))
}

/// How a copy began.
enum ImportStart {
    NotEmpty(String),
    Refused(CopyError),
    Marked { mark: CopyMark, goes_on: bool },
}

async fn begin(db: &Connection, place: &str, from: &str) -> Result<ImportStart, PostgresFailure> {
    // Waits for running writers, whose rows are seen. Later writers wait and are then refused.
    let wait = open::WAIT_FOR_WRITERS;
    db.batch(&format!(
        "BEGIN; {wait}; SELECT 1 FROM meta WHERE one FOR UPDATE"
    ))
    .await?;
    let before = read_mark(db).await?;
    let goes_on = before.is_some();
    if !goes_on && let Some(what) = content(db).await? {
        return Ok(ImportStart::NotEmpty(what));
    }
    let mark = match CopyMark::next(before, place, from) {
        Ok(mark) => mark,
        Err(refused) => return Ok(ImportStart::Refused(refused)),
    };
    let keep = "INSERT INTO kept (name, body) VALUES ($1, $2)
                ON CONFLICT (name) DO UPDATE SET body = excluded.body";
    db.query(keep, &values![MARK.to_owned(), to_json(&mark)])
        .await?;
    db.batch(&format!("{}; COMMIT", open::mark_half_copied()))
        .await?;
    Ok(ImportStart::Marked { mark, goes_on })
}

/// The first table with content.
async fn content(db: &Connection) -> Result<Option<String>, PostgresFailure> {
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
            if !matches!(begun, Ok(ImportStart::Marked { .. })) {
                let _ = db.batch("ROLLBACK").await;
            }
            begun
        });
        match begun.await? {
            ImportStart::NotEmpty(what) => Err(CopyError::NotEmpty {
                place: self.place(),
                what,
            }),
            ImportStart::Refused(refused) => Err(refused),
            ImportStart::Marked { mark, goes_on } => {
                self.mark = Some(mark);
                Ok(goes_on)
            }
        }
    }

    async fn newest_key(&mut self, table: Table) -> Result<Cell, CopyError> {
        let key = table.columns()[0].0;
        let sql = format!("SELECT MAX({key}) FROM {table}{}", but_the_mark(table));
        let found = self.line.run(move |db| async move {
            let rows = db.query_within(LONG_WAIT, &sql, &[]).await?;
            let cell = rows
                .first()
                .map(|row| read_row(row, &table.columns()[..1]))
                .transpose();
            let mut cell = cell.map_err(|bad| db.damaged(&bad))?.unwrap_or_default();
            Ok(cell.pop().unwrap_or(Cell::None))
        });
        Ok(found.await?)
    }

    async fn write(&mut self, table: Table, rows: Vec<Row>) -> Result<(), CopyError> {
        let columns = lists(table.columns(), rows).map_err(|bad| CopyError::Unkept {
            why: bad.to_string(),
        })?;
        self.change(vec![(insert(table), columns)])
            .await
            .map_err(CopyError::of_a_row)
    }

    async fn clear(&mut self, table: Table) -> Result<(), CopyError> {
        // Fast for any number of rows; nothing else reads them.
        let sql = match table {
            Table::Task => "TRUNCATE task, task_body, lease".to_owned(),
            Table::Kept => format!("DELETE FROM kept{}", but_the_mark(table)),
            _ => format!("TRUNCATE {table}"),
        };
        self.change(vec![(sql, Vec::new())]).await
    }

    async fn read_back(&mut self) -> Result<Box<dyn Exporter>, CopyError> {
        let line = TransferConnection::open(&self.line.url, Expected::HalfCopied)?;
        Ok(Box::new(PostgresExporter::begin(line)?))
    }

    async fn finish(&mut self) -> Result<(), CopyError> {
        let numbered = [
            Table::Task,
            Table::Agent,
            Table::Attempt,
            Table::Session,
            Table::Journal,
        ];
        let mut change: Vec<_> = numbered
            .map(|table| (next_number(table), Vec::new()))
            .into();
        change.push((
            "DELETE FROM kept WHERE name = $1".to_owned(),
            values![MARK.to_owned()],
        ));
        change.push((open::mark_whole(), Vec::new()));
        if let Err(error) = self.change(change).await
            && !self.is_finished().await
        {
            return Err(error);
        }
        self.mark = None;
        // The statistics are from empty tables. Without this, autovacuum would update them later.
        let tables = Table::ALL.map(Table::name).join(", ");
        let analyze = format!("ANALYZE {tables}, task_body, lease");
        let _ = self
            .line
            .run(move |db| async move { db.batch(&analyze).await })
            .await;
        Ok(())
    }
}

fn but_the_mark(table: Table) -> &'static str {
    match table {
        Table::Kept => " WHERE name <> 'store copy'",
        _ => "",
    }
}

/// Sets the sequence behind the copied numbers.
pub(super) fn next_number(table: Table) -> String {
    let key = table.columns()[0].0;
    format!(
        "SELECT setval(pg_get_serial_sequence('{table}', '{key}'), COALESCE(MAX({key}), 0) + 1, false)
         FROM {table}"
    )
}

/// Converts the time left of leases to their end.
fn insert(table: Table) -> String {
    let until = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint + u.lease_until";
    if table == Table::Task {
        return tasks::insert_sql(until);
    }
    let columns = table.columns();
    let values = columns.iter().map(|(name, _)| match (table, *name) {
        (Table::Node, LEASE_LEFT) => format!("COALESCE({until}, 0)"),
        (_, LEASE_LEFT) => until.to_owned(),
        (_, name) => format!("u.{name}"),
    });
    let (values, names) = (values.collect::<Vec<_>>().join(", "), names(columns));
    format!(
        "INSERT INTO {table} ({names}) SELECT {values} FROM {}",
        unnest(columns, 1)
    )
}
