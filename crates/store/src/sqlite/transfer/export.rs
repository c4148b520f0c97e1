//! A file read whole, in one transaction.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Result as SqlResult, Row as SqlRow, params_from_iter};

use crate::contract::StoreError;
use crate::record::bad_value;
use crate::record::{Cell, ColumnKind, PAGE_BYTES_MAX, PAGE_ROWS_MAX, Row, Table};
use crate::sqlite::error::{bad_row, store_error};
use crate::sqlite::lease_clock::SqliteLeaseClock;
use crate::sqlite::open::{self, Use};
use crate::sqlite::rows::columns;
use crate::transfer::Exporter;

/// Most damaged pages that are told of.
const DAMAGE_MAX: usize = 20;

/// Reads a file as it was when this was made.
#[derive(Debug)]
pub struct SqliteExporter {
    path: PathBuf,
    db: Connection,
    clock: SqliteLeaseClock,
    newest_event: i64,
}

impl SqliteExporter {
    /// Begins to read a file that must be there.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        if !path.exists() {
            let (place, why) = (
                path.display().to_string(),
                "there is no such file".to_owned(),
            );
            return Err(StoreError::Unreachable { place, why });
        }
        open::refuse_older(path)?;
        // The last one to close leaves a file alone, as it found a backup.
        Self::begin(path, open::open(path, Use::Long)?)
    }

    pub(super) fn begin(path: &Path, db: Connection) -> Result<Self, StoreError> {
        let newest = || {
            // The first read fixes what all later ones see.
            db.execute_batch("BEGIN DEFERRED")?;
            db.query_row("SELECT COALESCE(MAX(id), 0) FROM journal", [], |row| {
                row.get(0)
            })
        };
        let newest_event = newest().map_err(|error| store_error(path, error))?;
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        Ok(Self {
            path,
            db,
            clock: SqliteLeaseClock::start(),
            newest_event,
        })
    }

    fn read<T>(&self, read: impl FnOnce(&Connection) -> SqlResult<T>) -> Result<T, StoreError> {
        read(&self.db).map_err(|error| store_error(&self.path, error))
    }
}

#[async_trait]
impl Exporter for SqliteExporter {
    fn place(&self) -> String {
        place(&self.path)
    }

    async fn count(&mut self, table: Table) -> Result<u64, StoreError> {
        let sql = format!("SELECT COUNT(*) FROM {table}");
        let count: i64 = self.read(|db| db.query_row(&sql, [], |row| row.get(0)))?;
        Ok(count.cast_unsigned())
    }

    async fn page(&mut self, table: Table, after: &Cell) -> Result<Vec<Row>, StoreError> {
        let now = self.clock.now();
        let values = [
            Cell::Number(now.ms),
            Cell::Number(now.boot),
            key_value(table, after),
        ];
        self.read(|db| page(db, table, &values))
    }

    async fn integrity(&mut self) -> Result<Vec<String>, StoreError> {
        self.read(integrity)
    }

    /// Nobody ends a look at a file.
    async fn touch(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn written_since(&mut self) -> Result<u64, StoreError> {
        let newest = self.newest_event;
        let count = self.read(|db| {
            db.execute_batch("COMMIT")?;
            let sql = "SELECT COUNT(*) FROM journal WHERE id > ?1";
            db.query_row(sql, [newest], |row| row.get::<_, i64>(0))
        })?;
        Ok(count.cast_unsigned())
    }
}

/// The same file has the same name, by whatever way it was named.
pub(super) fn place(path: &Path) -> String {
    let found = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    format!("sqlite:{}", found.display())
}

fn key_value(table: Table, after: &Cell) -> Cell {
    match (after, table.columns()[0].1) {
        (Cell::None | Cell::Bytes(_), ColumnKind::Text) => Cell::Text(String::new()),
        (Cell::None | Cell::Bytes(_), _) => Cell::Number(i64::MIN),
        (key, _) => key.clone(),
    }
}

/// In the order of `Table::columns`; `?3` is the last key that was read.
fn select(table: Table) -> String {
    let (from, key) = match table {
        Table::Task => {
            let from = "task t LEFT JOIN task_body b ON b.n = t.n LEFT JOIN lease l ON l.n = t.n";
            (from, "t.n")
        }
        Table::Attempt => ("attempt a", "a.n"),
        Table::Journal => ("journal j LEFT JOIN output o ON o.id = j.output", "j.id"),
        other => (other.name(), other.columns()[0].0),
    };
    let but = if table == Table::Kept {
        " AND name != 'store copy'"
    } else {
        ""
    };
    let columns = columns(table);
    format!("SELECT {columns} FROM {from} WHERE {key} > ?3{but} ORDER BY {key}")
}

fn page(db: &Connection, table: Table, values: &[Cell; 3]) -> SqlResult<Vec<Row>> {
    let mut statement = db.prepare_cached(&select(table))?;
    let mut rows = statement.query(params_from_iter(values))?;
    let (mut found, mut bytes) = (Vec::new(), 0);
    while found.len() < PAGE_ROWS_MAX && bytes < PAGE_BYTES_MAX {
        let Some(row) = rows.next()? else { break };
        let row = read_row(row, table.columns().len())?;
        bytes += row.iter().map(Cell::size).sum::<usize>();
        found.push(row);
    }
    Ok(found)
}

pub(super) fn read_row(row: &SqlRow<'_>, columns: usize) -> SqlResult<Row> {
    let cell = |at| {
        Ok(match row.get_ref(at)? {
            ValueRef::Null => Cell::None,
            ValueRef::Integer(number) => Cell::Number(number),
            // What is no text is told of with its row, and does not hide the others.
            ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => Cell::Text(text.to_owned()),
                Err(_) => Cell::Bytes(bytes.to_vec()),
            },
            ValueRef::Blob(bytes) => Cell::Bytes(bytes.to_vec()),
            ValueRef::Real(number) => {
                return Err(bad_row(bad_value("a number", number)));
            }
        })
    };
    (0..columns).map(cell).collect()
}

/// Pages and indexes, and rows that belong to nothing.
fn integrity(db: &Connection) -> SqlResult<Vec<String>> {
    let mut select = db.prepare(&format!("PRAGMA integrity_check({DAMAGE_MAX})"))?;
    let rows = select.query_map([], |row| row.get::<_, String>(0))?;
    let mut found: Vec<String> = rows.collect::<SqlResult<_>>()?;
    found.retain(|line| line != "ok");
    let strays = [
        (
            "bodies of no task",
            "task_body WHERE n NOT IN (SELECT n FROM task)",
        ),
        (
            "leases of no task",
            "lease WHERE n NOT IN (SELECT n FROM task)",
        ),
        (
            "outputs of no step",
            "output WHERE id NOT IN (SELECT output FROM journal WHERE output IS NOT NULL)",
        ),
        (
            "steps whose output is gone",
            "journal WHERE output IS NOT NULL
              AND output NOT IN (SELECT id FROM output)",
        ),
    ];
    for (what, condition) in strays {
        let sql = format!("SELECT COUNT(*) FROM {condition}");
        let count: i64 = db.query_row(&sql, [], |row| row.get(0))?;
        if count > 0 {
            found.push(format!("{count} {what}"));
        }
    }
    Ok(found)
}
