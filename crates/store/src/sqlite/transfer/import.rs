//! A file filled page by page.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Result as SqlResult, Row as SqlRow};

use super::export::{SqliteExporter, place, read_row};
use crate::bodies::to_json;
use crate::contract::StoreError;
use crate::record::{Cell, LEASE_LEFT, Row, Table};
use crate::sqlite::error::store_error;
use crate::sqlite::lease_clock::SqliteLeaseClock;
use crate::sqlite::open;
use crate::sqlite::{rows, salvage};
use crate::transfer::{CopyError, CopyMark, Exporter, Importer, MARK};

/// Fills a file.
#[derive(Debug)]
pub struct SqliteImporter {
    path: PathBuf,
    db: Connection,
    clock: SqliteLeaseClock,
    mark: Option<CopyMark>,
}

impl SqliteImporter {
    /// Opens the file, creating it when there is none. Nothing is in it yet, or a half.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let db = open::open_half_copied(path)?;
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        Ok(Self {
            path,
            db,
            clock: SqliteLeaseClock::start(),
            mark: None,
        })
    }

    /// All or nothing, and only while no other copy has taken over.
    fn change(&self, change: impl FnOnce(&Connection) -> SqlResult<()>) -> Result<(), CopyError> {
        let run = || {
            self.db.execute_batch("BEGIN IMMEDIATE")?;
            if read_mark(&self.db)? != self.mark {
                return Ok(false);
            }
            change(&self.db)?;
            self.db.execute_batch("COMMIT")?;
            Ok(true)
        };
        match run() {
            Ok(true) => Ok(()),
            Ok(false) => {
                self.give_up();
                Err(CopyError::TakenOver(self.place()))
            }
            Err(error) => {
                self.give_up();
                Err(store_error(&self.path, error).into())
            }
        }
    }

    fn give_up(&self) {
        // What cannot be rolled back is rolled back by the end of the connection.
        let _ = self.db.execute_batch("ROLLBACK");
    }

    fn begin_now(&self, from: &str) -> Result<(CopyMark, bool), CopyError> {
        let failed = |error| CopyError::from(store_error(&self.path, error));
        self.db.execute_batch("BEGIN IMMEDIATE").map_err(failed)?;
        let before = read_mark(&self.db).map_err(failed)?;
        let goes_on = before.is_some();
        if !goes_on && let Some(what) = content(&self.db).map_err(failed)? {
            return Err(CopyError::NotEmpty {
                place: self.place(),
                what,
            });
        }
        let mark = CopyMark::next(before, &self.place(), from)?;
        let write = || {
            let sql = "INSERT OR REPLACE INTO kept (name, body) VALUES (?1, ?2)";
            self.db.execute(sql, [MARK, &to_json(&mark)])?;
            open::mark_half_copied(&self.db)?;
            self.db.execute_batch("COMMIT")
        };
        write().map_err(failed)?;
        Ok((mark, goes_on))
    }
}

#[async_trait]
impl Importer for SqliteImporter {
    fn place(&self) -> String {
        place(&self.path)
    }

    async fn begin(&mut self, from: &str) -> Result<bool, CopyError> {
        match self.begin_now(from) {
            Ok((mark, goes_on)) => {
                self.mark = Some(mark);
                Ok(goes_on)
            }
            Err(error) => {
                self.give_up();
                Err(error)
            }
        }
    }

    async fn newest_key(&mut self, table: Table) -> Result<Cell, CopyError> {
        let key = table.columns()[0].0;
        let sql = format!("SELECT MAX({key}) FROM {table}{}", but_the_mark(table));
        let read =
            |row: &SqlRow<'_>| Ok(read_row(row, 1)?.pop().expect("one column was asked for"));
        let found = self.db.query_row(&sql, [], read);
        Ok(found.map_err(|error| store_error(&self.path, error))?)
    }

    async fn write(&mut self, table: Table, page: Vec<Row>) -> Result<(), CopyError> {
        let now = self.clock.now();
        let lease = table
            .columns()
            .iter()
            .position(|(name, _)| *name == LEASE_LEFT);
        let insert = |db: &Connection, mut row: Row| {
            if let Some(Cell::Number(left)) = lease.map(|at| &mut row[at]) {
                *left = left.saturating_add(now.ms);
            }
            rows::insert(db, table, row, now)
        };
        self.change(|db| page.into_iter().try_for_each(|row| insert(db, row)))
            .map_err(CopyError::of_a_row)
    }

    async fn clear(&mut self, table: Table) -> Result<(), CopyError> {
        let more: &[&str] = match table {
            Table::Task => &["task_body", "lease"],
            Table::Journal => &["output"],
            _ => &[],
        };
        self.change(|db| {
            db.execute(&format!("DELETE FROM {table}{}", but_the_mark(table)), [])?;
            more.iter()
                .try_for_each(|name| db.execute(&format!("DELETE FROM {name}"), []).map(|_| ()))
        })
    }

    async fn read_back(&mut self) -> Result<Box<dyn Exporter>, CopyError> {
        let db = open::open_half_copied(&self.path)?;
        Ok(Box::new(SqliteExporter::begin(&self.path, db)?))
    }

    async fn finish(&mut self) -> Result<(), CopyError> {
        self.change(|db| {
            db.execute("DELETE FROM kept WHERE name = ?1", [MARK])?;
            open::mark_whole(db)
        })?;
        self.mark = None;
        // So that the file alone is the whole store, as somebody expects who made it to keep it.
        let fold = "PRAGMA wal_checkpoint(TRUNCATE)";
        let folded = self.db.query_row(fold, [], |_| Ok(()));
        Ok(folded.map_err(|error| store_error(&self.path, error))?)
    }
}

fn but_the_mark(table: Table) -> &'static str {
    match table {
        Table::Kept => " WHERE name != 'store copy'",
        _ => "",
    }
}

fn read_mark(db: &Connection) -> SqlResult<Option<CopyMark>> {
    let read = |row: &SqlRow<'_>| rows::read(row, |row| row.json("kept.body"));
    db.query_row("SELECT body FROM kept WHERE name = ?1", [MARK], read)
        .optional()
}

/// From where a store is copied that is marked as half copied.
pub(in crate::sqlite) fn half_copied_from(db: &Connection) -> String {
    let mark = read_mark(db).ok().flatten();
    mark.map_or_else(|| "another store".to_owned(), |mark| mark.from)
}

/// The first thing that is in it.
fn content(db: &Connection) -> SqlResult<Option<String>> {
    for (table, key, _) in salvage::TABLES.iter().chain(&[("node", "name", 6)]) {
        let sql = format!("SELECT COUNT({key}) FROM {table}");
        let count: i64 = db.query_row(&sql, [], |row| row.get(0))?;
        if count > 0 {
            return Ok(Some(format!("{count} rows in {table}")));
        }
    }
    Ok(None)
}
