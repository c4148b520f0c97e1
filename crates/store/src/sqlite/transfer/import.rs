//! A file filled page by page.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use rusqlite::types::Value;
use rusqlite::{
    Connection, OptionalExtension, Result as SqlResult, Row as SqlRow, params_from_iter,
};

use super::export::{SqliteExporter, place, read_row};
use crate::bodies::to_json;
use crate::contract::StoreError;
use crate::sqlite::error::store_error;
use crate::sqlite::lease_clock::LeaseClock;
use crate::sqlite::open;
use crate::sqlite::{journal, salvage};
use crate::transfer::{Cell, CopyError, Exporter, Importer, MARK, Mark, Row, Table};

/// Fills a file.
#[derive(Debug)]
pub struct SqliteImporter {
    path: PathBuf,
    db: Connection,
    clock: LeaseClock,
    mark: Option<Mark>,
}

impl SqliteImporter {
    /// Opens the file, creating it when there is none. Nothing is in it yet, or a half.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let db = open::open_half_copied(path)?;
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        Ok(Self { path, db, clock: LeaseClock::start(), mark: None })
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

    fn begin_now(&self, from: &str) -> Result<(Mark, bool), CopyError> {
        let failed = |error| CopyError::from(store_error(&self.path, error));
        self.db.execute_batch("BEGIN IMMEDIATE").map_err(failed)?;
        let before = read_mark(&self.db).map_err(failed)?;
        let goes_on = before.is_some();
        if !goes_on && let Some(what) = content(&self.db).map_err(failed)? {
            return Err(CopyError::NotEmpty { place: self.place(), what });
        }
        let mark = Mark::next(before, &self.place(), from)?;
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
        let key = table.columns()[0];
        let sql = format!("SELECT MAX({key}) FROM {table}{}", but_the_mark(table));
        let read =
            |row: &SqlRow<'_>| Ok(read_row(row, 1)?.pop().expect("one column was asked for"));
        let found = self.db.query_row(&sql, [], read);
        Ok(found.map_err(|error| store_error(&self.path, error))?)
    }

    async fn write(&mut self, table: Table, rows: Vec<Row>) -> Result<(), CopyError> {
        let now = self.clock.now();
        let clock = [Value::Integer(now.ms), Value::Integer(now.boot)];
        self.change(|db| rows.into_iter().try_for_each(|row| insert(db, table, row, &clock)))
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

fn read_mark(db: &Connection) -> SqlResult<Option<Mark>> {
    let read =
        |row: &SqlRow<'_>| crate::sqlite::tasks::from_json(row.get_ref(0)?.as_str()?, "kept.body");
    db.query_row("SELECT body FROM kept WHERE name = ?1", [MARK], read).optional()
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

fn insert(db: &Connection, table: Table, row: Row, clock: &[Value; 2]) -> SqlResult<()> {
    let mut values: Vec<Value> = row.into_iter().map(value).collect();
    match table {
        Table::Task => insert_task(db, values, clock),
        Table::Journal => {
            let body = values.pop().expect("the body is the last column");
            let (inline, apart) = journal::keep_apart(db, body)?;
            values.extend([inline, apart]);
            run(db, INSERT_JOURNAL, values)
        }
        Table::Node => {
            let ttl_ms = ttl_ms(&values[Table::Node.place("body")]);
            values.extend(clock.iter().cloned());
            values.push(Value::Integer(ttl_ms));
            run(db, INSERT_NODE, values)
        }
        Table::Agent => run(db, INSERT_AGENT, with_clock(values, clock)),
        Table::Session => run(db, INSERT_SESSION, with_clock(values, clock)),
        Table::Attempt => run(db, INSERT_ATTEMPT, values),
        Table::Kept => run(db, "INSERT INTO kept (name, body) VALUES (?1, ?2)", values),
    }
}

/// How long a node's lease is; of one whose body cannot be read, nothing.
fn ttl_ms(body: &Value) -> i64 {
    let Value::Text(body) = body else { return 0 };
    let node: SqlResult<relight_core::node::NewNode> =
        crate::sqlite::tasks::from_json(body, "node.body");
    node.map_or(0, |node| node.ttl.as_ms().cast_signed())
}

fn with_clock(mut values: Vec<Value>, clock: &[Value; 2]) -> Vec<Value> {
    values.extend(clock.iter().cloned());
    values
}

/// A task is three rows; one whose body is gone has no third of itself here either.
fn insert_task(db: &Connection, values: Vec<Value>, clock: &[Value; 2]) -> SqlResult<()> {
    let at = |column| values[Table::Task.place(column)].clone();
    let n = at("n");
    if at("spec") != Value::Null {
        let columns = ["reason", "key", "folder", "spec", "context", "door"].map(at);
        let sql = "INSERT INTO task_body (n, reason, key, folder, spec, context, door)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        run(db, sql, [n.clone()].into_iter().chain(columns).collect())?;
    }
    if at("holder") != Value::Null {
        let columns = ["holder", "held_since", "holder_attempt"].map(at);
        let sql = "INSERT INTO lease (n, holder, since, attempt) VALUES (?1, ?2, ?3, ?4)";
        run(db, sql, [n].into_iter().chain(columns).collect())?;
    }
    run(db, INSERT_TASK, with_clock(values, clock))
}

fn value(cell: Cell) -> Value {
    match cell {
        Cell::None => Value::Null,
        Cell::Number(number) => Value::Integer(number),
        Cell::Text(text) => Value::Text(text),
        Cell::Bytes(bytes) => Value::Blob(bytes),
    }
}

/// Some statements need only some of the values.
fn run(db: &Connection, sql: &str, values: Vec<Value>) -> SqlResult<()> {
    let mut insert = db.prepare_cached(sql)?;
    let count = insert.parameter_count();
    insert.execute(params_from_iter(values.into_iter().take(count)))?;
    Ok(())
}

// The values are those of `Table::columns` in their order, then the clock and the boot.

const INSERT_TASK: &str = "
    INSERT INTO task (n, id, status, agent, fence, held, lease_ttl, lease_until, lease_boot, seq,
        steps_done, steps_open, steps_from, starts, retries, max_retries, priority, created_at,
        updated_at, not_before, expires_at, recoveries, progress_at, cost, turns, given_up, pinned,
        needs)
    VALUES (?1, ?2, ?3, ?4, ?6, ?7, ?8, ?37 + ?9, iif(?9 IS NULL, NULL, ?38), ?13, ?14, ?15, ?16,
        ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31)";

const INSERT_AGENT: &str = "
    INSERT INTO agent (n, name, state, fence, held, lease_ttl, lease_until, lease_boot, seq,
        updated_at, body)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?11 + ?7, iif(?7 IS NULL, NULL, ?12), ?8, ?9, ?10)";

const INSERT_ATTEMPT: &str = "
    INSERT INTO attempt (n, agent, number, tag, begun_at, cause, body)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";

const INSERT_SESSION: &str = "
    INSERT INTO session (n, key, session_id, state, generation, finished, deaths, seq, since,
        also_at, suspended_by, owner, lease_ttl, lease_until, lease_boot, reason, reason_given,
        context, seen_at, created_at, updated_at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?21 + ?14,
        iif(?14 IS NULL, NULL, ?22), ?15, ?16, ?17, ?18, ?19, ?20)";

const INSERT_NODE: &str = "
    INSERT INTO node (name, epoch, draining, joined_at, body, lease_until, lease_boot, lease_ttl)
    VALUES (?1, ?2, ?3, ?4, ?5, ?7 + COALESCE(?6, 0), ?8, ?9)";

const INSERT_JOURNAL: &str = "
    INSERT INTO journal (id, at, kind, task, agent, fence, name, occurrence, rule, tries,
        fingerprint, exit_code, detail, body, output)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)";
