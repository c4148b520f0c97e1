//! Copies what can still be read of a damaged file into a new store.
//!
//! Reads each table row by row by its key, from both ends, so that a bad page costs only its own
//! rows. The damaged file is never written to.

use std::path::Path;

use rusqlite::types::Value;
use rusqlite::{Connection, ErrorCode, OpenFlags, Result, params_from_iter};

use super::error::store_error;
use super::open::{self, Use};
use crate::contract::StoreError;

/// The tables with their keys and the schema that introduced them.
pub(super) const TABLES: [(&str, &str, u32); 9] = [
    ("task", "n", 1),
    ("task_body", "n", 1),
    ("lease", "n", 1),
    ("journal", "id", 1),
    ("output", "id", 1),
    ("agent", "n", 2),
    ("attempt", "n", 2),
    ("kept", "name", 2),
    ("session", "n", 4),
];

/// Result for one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Salvaged {
    /// Its name.
    pub table: &'static str,
    /// Rows copied.
    pub copied: u64,
    /// Errors that stopped the copy from each end; empty when all was read.
    pub errors: Vec<String>,
}

/// Copies into `to`, which must not exist.
pub fn salvage(from: &Path, to: &Path) -> std::result::Result<Vec<Salvaged>, StoreError> {
    if to.exists() {
        let why = "it exists; choose a new file".to_owned();
        return Err(StoreError::Unsuitable {
            place: to.display().to_string(),
            why,
        });
    }
    let target = open::open(to, Use::Long)?;
    let source = Connection::open_with_flags(from, OpenFlags::SQLITE_OPEN_READ_ONLY)
        .map_err(|e| store_error(from, e))?;
    // None when unreadable or unknown.
    let schema = source.pragma_query_value(None, "user_version", |row| row.get(0));
    let schema: Option<u32> = schema.ok().filter(|schema| *schema > 0);
    let mut report = Vec::new();
    for (table, key, since) in TABLES {
        if schema.is_some_and(|schema| schema < since) {
            report.push(Salvaged {
                table,
                copied: 0,
                errors: Vec::new(),
            });
            continue;
        }
        report.push(copy_table(&source, &target, table, key).map_err(|e| store_error(to, e))?);
    }
    mend(&target)
        .and_then(|()| recount(&target))
        .map_err(|e| store_error(to, e))?;
    Ok(report)
}

/// Errors of the source are collected; errors of the target abort.
fn copy_table(
    source: &Connection,
    target: &Connection,
    table: &'static str,
    key: &str,
) -> Result<Salvaged> {
    let mut errors = Vec::new();
    let mut copied = 0;
    target.execute_batch("BEGIN IMMEDIATE")?;
    for order in ["ASC", "DESC"] {
        let sql = format!("SELECT * FROM {table} NOT INDEXED ORDER BY {key} {order}");
        match copy_rows(source, target, table, &sql)? {
            (count, None) => {
                copied += count;
                break;
            }
            (count, Some(error)) => {
                copied += count;
                errors.push(error);
            }
        }
    }
    target.execute_batch("COMMIT")?;
    Ok(Salvaged {
        table,
        copied,
        errors,
    })
}

fn copy_rows(
    source: &Connection,
    target: &Connection,
    table: &str,
    sql: &str,
) -> Result<(u64, Option<String>)> {
    let mut copied = 0;
    let mut lost = None;
    let mut select = match source.prepare(sql) {
        Ok(select) => select,
        Err(error) => return Ok((0, Some(error.to_string()))),
    };
    let columns = select.column_count();
    // By name, because an older schema has fewer columns.
    let names = select.column_names().collect::<Vec<_>>().join(",");
    let marks = vec!["?"; columns].join(",");
    let mut insert = target.prepare(&format!(
        "INSERT OR IGNORE INTO {table} ({names}) VALUES ({marks})"
    ))?;
    let mut rows = select.query([])?;
    loop {
        let values = match rows.next() {
            Ok(Some(row)) => (0..columns)
                .map(|at| row.get(at))
                .collect::<Result<Vec<Value>>>(),
            Ok(None) => return Ok((copied, lost)),
            Err(error) => return Ok((copied, Some(error.to_string()))),
        };
        let values = match values {
            Ok(values) => values,
            Err(error) => return Ok((copied, Some(error.to_string()))),
        };
        match insert.execute(params_from_iter(values)) {
            Ok(count) => copied += count as u64,
            // A value of the wrong type: skip the row and continue.
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
                lost.get_or_insert(error.to_string());
            }
            Err(error) => return Err(error),
        }
    }
}

/// Recounts steps. A task that lost steps waits for a person, because they would run again.
fn recount(target: &Connection) -> Result<()> {
    target.execute_batch(
        "CREATE TEMP TABLE newest AS
             SELECT j.task AS n, j.kind AS kind, j.detail AS detail FROM journal j
             JOIN task t ON t.n = j.task
             WHERE j.name IS NOT NULL AND j.id > t.steps_from AND j.id =
                 (SELECT MAX(i.id) FROM journal i WHERE i.task = j.task AND i.name = j.name
                      AND i.occurrence = j.occurrence);
         CREATE TEMP TABLE counted AS
             SELECT t.n AS n,
                 (SELECT COUNT(*) FROM newest x WHERE x.n = t.n AND (x.kind IN (2, 41)
                      OR (x.kind = 4 AND x.detail LIKE '%true%'))) AS done,
                 (SELECT COUNT(*) FROM newest x WHERE x.n = t.n AND x.kind = 1) AS open
             FROM task t;
         UPDATE task_body SET reason = 'salvage lost records of steps'
             WHERE n IN (SELECT t.n FROM task t JOIN counted c ON c.n = t.n
                         WHERE t.status < 10 AND (c.done < t.steps_done OR c.open < t.steps_open));
         UPDATE task SET status = 8
             WHERE status < 10 AND n IN (SELECT t.n FROM task t JOIN counted c ON c.n = t.n
                                         WHERE (c.done < t.steps_done OR c.open < t.steps_open));
         UPDATE task SET steps_done = (SELECT done FROM counted c WHERE c.n = task.n),
                         steps_open = (SELECT open FROM counted c WHERE c.n = task.n);
         UPDATE task SET progress_at = updated_at WHERE progress_at IS NULL AND steps_done > 0;",
    )
}

/// Restores consistency. A task without a body keeps its id and steps; a body without a task is
/// removed, as is everything of a lost agent.
fn mend(target: &Connection) -> Result<()> {
    target.execute_batch(
        "INSERT OR IGNORE INTO task_body (n, spec, context)
             SELECT n, '{\"title\":null,\"steps\":[],\"payload\":null,\"strategy\":null,
                          \"max_retries\":null,\"key\":null,\"priority\":0}', '{}' FROM task;
         DELETE FROM task_body WHERE n NOT IN (SELECT n FROM task);
         DELETE FROM journal WHERE task IS NOT NULL AND task NOT IN (SELECT n FROM task);
         DELETE FROM journal WHERE agent IS NOT NULL AND agent NOT IN (SELECT n FROM agent);
         DELETE FROM attempt WHERE agent NOT IN (SELECT n FROM agent);
         DELETE FROM output WHERE id NOT IN
             (SELECT output FROM journal WHERE output IS NOT NULL);
         UPDATE task SET held = 0, fence = fence + 1 WHERE held = 1
             AND n NOT IN (SELECT n FROM lease);
         DELETE FROM lease WHERE n NOT IN (SELECT n FROM task WHERE held = 1);",
    )
}
