//! Statements for the shared columns in SQLite, and how values are bound and read.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::LazyLock;

use relight_core::node::NewNode;
use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, Result, Row as SqlRow, params_from_iter};

use super::error::bad_row;
use super::lease_clock::LeaseNow;
use crate::contract::UnreadableRow;
use crate::record::{BadValue, Cells, HOT, RowReader, Statement};
use crate::record::{Cell, Column, LEASE_LEFT, Row, Table};

impl Cells for SqlRow<'_> {
    fn width(&self) -> usize {
        self.as_ref().column_count()
    }

    fn number(&self, at: usize) -> std::result::Result<Option<i64>, String> {
        match self.get_ref(at).map_err(|error| error.to_string())? {
            ValueRef::Null => Ok(None),
            ValueRef::Integer(number) => Ok(Some(number)),
            other => Err(format!("{:?}", other.data_type())),
        }
    }

    fn text(&self, at: usize) -> std::result::Result<Option<Cow<'_, str>>, String> {
        let value = self.get_ref(at).map_err(|error| error.to_string())?;
        let text = value.as_str_or_null().map_err(|error| error.to_string())?;
        Ok(text.map(Cow::Borrowed))
    }

    fn bytes(&self, at: usize) -> std::result::Result<Vec<u8>, String> {
        self.get(at).map_err(|error| error.to_string())
    }
}

impl ToSql for Cell {
    fn to_sql(&self) -> Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::None => ValueRef::Null,
            Self::Number(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

/// Reads a record from a row.
pub(super) fn read<T>(
    row: &SqlRow<'_>,
    read: impl Fn(&mut RowReader<'_>) -> std::result::Result<T, BadValue>,
) -> Result<T> {
    read(&mut RowReader::new(row)).map_err(bad_row)
}

/// The readable records of a list query.
pub(super) fn list<T>(
    db: &Connection,
    list: &Statement,
    read_one: impl Fn(&mut RowReader<'_>) -> std::result::Result<T, BadValue>,
) -> Result<Vec<T>> {
    let mut select = db.prepare_cached(&list.sql)?;
    readable(select.query_map(params_from_iter(&list.values), |row| read(row, &read_one))?)
}

/// Skips unreadable rows, so that one of them does not hide the others; `doctor` reports them.
pub(super) fn readable<T>(rows: impl Iterator<Item = Result<T>>) -> Result<Vec<T>> {
    rows.filter(|row| !matches!(row, Err(error) if error.sqlite_error_code().is_none()))
        .collect()
}

/// The number of rows by code.
pub(super) fn count_by<T>(
    db: &Connection,
    table: Table,
    column: &str,
    of: impl Fn(u8) -> Option<T>,
) -> Result<Vec<(T, u64)>> {
    let mut select = db.prepare(&format!(
        "SELECT {column}, COUNT(*) FROM {table} GROUP BY {column}"
    ))?;
    let count = |row: &mut RowReader<'_>| Ok((row.code(column, &of)?, row.unsigned("count")?));
    readable(select.query_map([], |row| read(row, count))?)
}

/// The unreadable rows of a list query; `name` is the column to call them by.
pub(super) fn unreadable<T>(
    db: &Connection,
    list: &Statement,
    (what, name): (&str, usize),
    read_one: impl Fn(&mut RowReader<'_>) -> std::result::Result<T, BadValue>,
) -> Result<Vec<UnreadableRow>> {
    let mut select = db.prepare_cached(&list.sql)?;
    let mut rows = select.query(params_from_iter(&list.values))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        if let Err(error) = read_one(&mut RowReader::new(row)) {
            found.push(UnreadableRow {
                what: what.to_owned(),
                name: row.get(name)?,
                reason: error.to_string(),
            });
        }
    }
    Ok(found)
}

/// The expression for a shared column; `?1` is the lease clock, `?2` the boot.
fn expression(table: Table, (column, _): &Column) -> String {
    let left = |from: &str| {
        format!(
            "CASE WHEN {from}lease_ttl IS NOT NULL THEN CASE WHEN {from}lease_boot = ?2
             THEN MAX(0, {from}lease_until - ?1) ELSE 0 END END"
        )
    };
    match (table, *column) {
        (Table::Task, LEASE_LEFT) => left("t."),
        (_, LEASE_LEFT) => left(""),
        (Table::Task, "reason" | "key" | "folder" | "spec" | "context" | "door") => {
            format!("b.{column}")
        }
        (Table::Task, "holder") => "l.holder".to_owned(),
        (Table::Task, "held_since") => "l.since".to_owned(),
        (Table::Task, "holder_attempt") => "l.attempt".to_owned(),
        (Table::Task, column) => format!("t.{column}"),
        (Table::Attempt, column) => format!("a.{column}"),
        (Table::Journal, "body") => "COALESCE(j.body, o.body)".to_owned(),
        (Table::Journal, column) => format!("j.{column}"),
        (_, column) => column.to_owned(),
    }
}

/// The select list up to the last wanted column; null for unwanted columns before it.
pub(super) fn some_columns(table: Table, is_wanted: impl Fn(usize) -> bool) -> String {
    let columns = table.columns();
    let count = (0..columns.len())
        .rfind(|at| is_wanted(*at))
        .map_or(0, |last| last + 1);
    let all = columns[..count]
        .iter()
        .enumerate()
        .map(|(at, column)| match is_wanted(at) {
            true => expression(table, column),
            false => "NULL".to_owned(),
        });
    all.collect::<Vec<_>>().join(", ")
}

pub(super) fn columns(table: Table) -> String {
    some_columns(table, |_| true)
}

/// The columns of the table itself (not of its side tables) with their parameters: `?1` is the boot, then
/// the cells of the row.
fn own_columns(table: Table) -> Vec<(&'static str, String)> {
    let columns = table.columns();
    let mut own = Vec::new();
    for (at, (name, _)) in columns.iter().enumerate() {
        let value = format!("?{}", at + 2);
        match (table, *name) {
            (_, LEASE_LEFT) => {
                own.push(("lease_boot", format!("iif({value} IS NULL, NULL, ?1)")));
                own.push(("lease_until", value));
            }
            (Table::Task, "needs") => own.push(("needs", value)),
            (Table::Task, _) if !HOT.contains(&at) => {}
            (_, name) => own.push((name, value)),
        }
    }
    match table {
        Table::Node => own.push(("lease_ttl", format!("?{}", columns.len() + 2))),
        Table::Journal => own.push(("output", format!("?{}", columns.len() + 2))),
        _ => {}
    }
    own
}

/// Inserts a row; nodes, small records and attempts replace the row with the same key.
static INSERT: LazyLock<HashMap<Table, String>> = LazyLock::new(|| {
    let sql = |table: Table| {
        let (names, values): (Vec<_>, Vec<_>) = own_columns(table).into_iter().unzip();
        let (names, values) = (names.join(", "), values.join(", "));
        let (or, then) = match table {
            Table::Node | Table::Kept => (" OR REPLACE", ""),
            // An attempt that is begun again keeps its row number.
            Table::Attempt => (
                "",
                " ON CONFLICT (agent, number) DO UPDATE SET tag = excluded.tag,
                  begun_at = excluded.begun_at, cause = excluded.cause, body = excluded.body",
            ),
            _ => ("", ""),
        };
        format!("INSERT{or} INTO {table} ({names}) VALUES ({values}){then}")
    };
    Table::ALL.map(|table| (table, sql(table))).into()
});

/// Updates the wanted columns of the table itself; `key` is the place of the key column.
pub(super) fn update_sql(table: Table, is_wanted: impl Fn(&str) -> bool, key: usize) -> String {
    let own = own_columns(table)
        .into_iter()
        .filter(|(name, _)| is_wanted(name));
    let set: Vec<String> = own
        .map(|(name, value)| format!("{name} = {value}"))
        .collect();
    let name = table.columns()[key].0;
    format!(
        "UPDATE {table} SET {} WHERE {name} = ?{}",
        set.join(", "),
        key + 2
    )
}

/// Runs a statement with the boot and as many cells as it has parameters.
pub(super) fn run(db: &Connection, sql: &str, row: &[Cell], boot: i64) -> Result<()> {
    let mut statement = db.prepare_cached(sql)?;
    let boot = Cell::Number(boot);
    let values = std::iter::once(&boot)
        .chain(row)
        .take(statement.parameter_count());
    statement.execute(params_from_iter(values))?;
    Ok(())
}

/// Inserts a row; `lease_left` holds the end of the lease.
pub(super) fn insert(db: &Connection, table: Table, mut row: Row, now: LeaseNow) -> Result<()> {
    match table {
        Table::Task => insert_parts(db, &row)?,
        Table::Journal => {
            let (inline, apart) = keep_body(db, row.pop().unwrap_or(Cell::None))?;
            row.extend([inline, apart]);
        }
        Table::Node => row.push(node_ttl(&row).into()),
        _ => {}
    }
    run(db, &INSERT[&table], &row, now.boot)
}

/// The body and the lease of a task, if it has them.
fn insert_parts(db: &Connection, row: &Row) -> Result<()> {
    let at = |column| &row[Table::Task.place(column)];
    if *at("spec") != Cell::None {
        let sql = "INSERT INTO task_body (n, reason, key, folder, spec, context, door)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        let values = ["n", "reason", "key", "folder", "spec", "context", "door"].map(at);
        db.prepare_cached(sql)?.execute(params_from_iter(values))?;
    }
    if *at("holder") != Cell::None {
        let values = ["n", "holder", "held_since", "holder_attempt"].map(at);
        write_lease(db, values)?;
    }
    Ok(())
}

/// Writes a lease: row number of the task, holder, since, attempt.
pub(super) fn write_lease(db: &Connection, values: [&Cell; 4]) -> Result<()> {
    let mut write = db.prepare_cached(
        "INSERT INTO lease (n, holder, since, attempt) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (n) DO UPDATE
         SET holder = excluded.holder, since = excluded.since, attempt = excluded.attempt",
    )?;
    write.execute(params_from_iter(values)).map(drop)
}

/// The lease time of a node; 0 if its body is unreadable.
fn node_ttl(row: &Row) -> i64 {
    let body = row[Table::Node.place("body")].text().unwrap_or_default();
    let node: serde_json::Result<NewNode> = serde_json::from_str(body);
    node.map_or(0, |node| node.ttl.as_ms().cast_signed())
}

/// Bodies up to this size are kept in the journal's row.
const BODY_BYTES_INLINE_MAX: usize = 8 << 10;

/// Writes a long body to `output`. Answers the cells of the columns `body` and `output`.
fn keep_body(db: &Connection, body: Cell) -> Result<(Cell, Cell)> {
    match body {
        Cell::Bytes(bytes) if bytes.len() > BODY_BYTES_INLINE_MAX => {
            let mut insert = db.prepare_cached("INSERT INTO output (body) VALUES (?1)")?;
            Ok((Cell::None, Cell::Number(insert.insert([bytes])?)))
        }
        body => Ok((body, Cell::None)),
    }
}
