//! Statements for the shared columns in PostgreSQL. Many rows are sent as one array for each column.

use std::borrow::Cow;

use tokio_postgres::Row as SqlRow;
use tokio_postgres::types::{FromSql, Type};

use super::connection::{Connection, LONG_WAIT, Value};
use super::error::PostgresFailure;
use super::lease_clock::NOW_MS;
use super::text;
use crate::bodies::to_json;
use crate::contract::UnreadableRow;
use crate::record::{BadValue, Cells, RowReader, Statement, bad_value, from_json};
use crate::record::{Cell, Column, ColumnKind, LEASE_LEFT, Row, Table};
use relight_core::error_code::with_causes;

impl Cells for SqlRow {
    fn width(&self) -> usize {
        self.len()
    }

    fn number(&self, at: usize) -> Result<Option<i64>, String> {
        match *self.columns()[at].type_() {
            Type::INT8 => value(self, at),
            Type::INT4 => Ok(value::<Option<i32>>(self, at)?.map(i64::from)),
            Type::INT2 => Ok(value::<Option<i16>>(self, at)?.map(i64::from)),
            Type::BOOL => Ok(value::<Option<bool>>(self, at)?.map(i64::from)),
            _ => match value::<Option<&str>>(self, at)? {
                Some(text) => Err(text.to_owned()),
                None => Ok(None),
            },
        }
    }

    fn text(&self, at: usize) -> Result<Option<Cow<'_, str>>, String> {
        if *self.columns()[at].type_() != Type::TEXT_ARRAY {
            return Ok(value::<Option<&str>>(self, at)?.map(text::read_kept));
        }
        let words = value::<Option<Vec<String>>>(self, at)?;
        let read = |words: Vec<String>| words.into_iter().map(text::read).collect::<Vec<_>>();
        Ok(words.map(|words| to_json(&read(words)).into()))
    }

    fn bytes(&self, at: usize) -> Result<Vec<u8>, String> {
        value(self, at)
    }
}

fn value<'r, T: FromSql<'r>>(row: &'r SqlRow, at: usize) -> Result<T, String> {
    row.try_get(at).map_err(|error| with_causes(&error))
}

/// Reads a record from a row.
pub(super) fn read<T>(
    row: &SqlRow,
    read: impl Fn(&mut RowReader<'_>) -> Result<T, BadValue>,
) -> Result<T, BadValue> {
    read(&mut RowReader::new(row))
}

/// Skips unreadable rows, so that one of them does not hide the others; `doctor` reports them.
pub(super) fn readable<T>(
    rows: &[SqlRow],
    read_one: impl Fn(&mut RowReader<'_>) -> Result<T, BadValue>,
) -> Vec<T> {
    rows.iter()
        .filter_map(|row| read(row, &read_one).ok())
        .collect()
}

/// The record of the row that is found, if any.
pub(super) async fn one<T>(
    db: &Connection,
    sql: &str,
    values: &[Value],
    read_one: impl Fn(&mut RowReader<'_>) -> Result<T, BadValue>,
) -> Result<Option<T>, PostgresFailure> {
    let row = db.query_opt(sql, values).await?;
    row.map(|row| read(&row, read_one))
        .transpose()
        .map_err(|bad| db.damaged(&bad))
}

/// The readable records of a list query.
pub(super) async fn list<T>(
    db: &Connection,
    list: Statement,
    read_one: impl Fn(&mut RowReader<'_>) -> Result<T, BadValue>,
) -> Result<Vec<T>, PostgresFailure> {
    Ok(readable(&listed(db, list).await?, read_one))
}

async fn listed(db: &Connection, list: Statement) -> Result<Vec<SqlRow>, PostgresFailure> {
    let kind = |cell: &Cell| {
        if cell.text().is_some() {
            ColumnKind::Text
        } else {
            ColumnKind::Number
        }
    };
    let values: Vec<Value> = list
        .values
        .into_iter()
        .map(|cell| scalar(kind(&cell), cell))
        .collect();
    db.query(&list.sql.replace('?', "$"), &values).await
}

/// The number of rows by code.
pub(super) async fn count_by<T>(
    db: &Connection,
    table: Table,
    column: &str,
    of: impl Fn(u8) -> Option<T>,
) -> Result<Vec<(T, u64)>, PostgresFailure> {
    let sql = format!("SELECT {column}, COUNT(*) FROM {table} GROUP BY {column} ORDER BY {column}");
    let rows = db.query_within(LONG_WAIT, &sql, &[]).await?;
    Ok(readable(&rows, |row| {
        Ok((row.code(column, &of)?, row.unsigned("count")?))
    }))
}

/// The unreadable rows of a list query; `name` is the column to call them by.
pub(super) async fn unreadable<T>(
    db: &Connection,
    list: Statement,
    named: (&str, usize),
    read_one: impl Fn(&mut RowReader<'_>) -> Result<T, BadValue>,
) -> Result<Vec<UnreadableRow>, PostgresFailure> {
    Ok(unreadable_of(&listed(db, list).await?, named, read_one))
}

/// The unreadable ones of these rows.
pub(super) fn unreadable_of<T>(
    rows: &[SqlRow],
    (what, name): (&str, usize),
    read_one: impl Fn(&mut RowReader<'_>) -> Result<T, BadValue>,
) -> Vec<UnreadableRow> {
    let bad = |row: &SqlRow| {
        let error = read(row, &read_one).err()?;
        Some(UnreadableRow {
            what: what.to_owned(),
            name: row.get(name),
            reason: error.to_string(),
        })
    };
    rows.iter().filter_map(bad).collect()
}

/// What `lease_left` is selected as.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum LeaseColumn {
    /// The time left by the database's clock, which `$1` moves.
    Left,
    /// The end of the lease.
    Until,
}

/// The select list up to the last wanted column; null for unwanted columns before it.
pub(super) fn some_columns(
    table: Table,
    lease: LeaseColumn,
    is_wanted: impl Fn(usize) -> bool,
) -> String {
    let columns = table.columns();
    let count = (0..columns.len())
        .rfind(|at| is_wanted(*at))
        .map_or(0, |last| last + 1);
    let all = columns[..count]
        .iter()
        .enumerate()
        .map(|(at, column)| match is_wanted(at) {
            true => expression(table, column, lease),
            false => format!("NULL AS {}", column.0),
        });
    all.collect::<Vec<_>>().join(", ")
}

pub(super) fn columns(table: Table, lease: LeaseColumn) -> String {
    some_columns(table, lease, |_| true)
}

/// The expression for a shared column.
fn expression(table: Table, (column, _): &Column, lease: LeaseColumn) -> String {
    let end = |from: &str| match lease {
        LeaseColumn::Until => format!("{from}lease_until"),
        LeaseColumn::Left if table == Table::Node => format!("GREATEST(0, lease_until - {NOW_MS})"),
        LeaseColumn::Left => format!(
            "CASE WHEN {from}lease_ttl IS NOT NULL
             THEN GREATEST(0, {from}lease_until - {NOW_MS}) END"
        ),
    };
    match (table, *column) {
        (Table::Task, LEASE_LEFT) => end("t."),
        (_, LEASE_LEFT) => end(""),
        (Table::Task, "key" | "folder" | "spec" | "context" | "door") => format!("b.{column}"),
        (Table::Task, "holder") => "l.holder".to_owned(),
        (Table::Task, "held_since") => "l.since".to_owned(),
        (Table::Task, "holder_attempt") => "l.attempt".to_owned(),
        (Table::Task, column) => format!("t.{column}"),
        (Table::Attempt, column) => format!("a.{column}"),
        (_, column) => column.to_owned(),
    }
}

/// The column's name in its table.
fn own_name(column: &Column) -> &'static str {
    if column.0 == LEASE_LEFT {
        "lease_until"
    } else {
        column.0
    }
}

pub(super) fn names(columns: &[Column]) -> String {
    columns.iter().map(own_name).collect::<Vec<_>>().join(", ")
}

/// The rows as table `u`, from one array for each column (`$first` and following), with their `place`.
pub(super) fn unnest(columns: &[Column], first: usize) -> String {
    let list = |(at, (_, kind)): (usize, &Column)| {
        let kind = match kind {
            ColumnKind::Number => "bigint",
            ColumnKind::Flag => "boolean",
            ColumnKind::Text | ColumnKind::Words => "text",
            ColumnKind::Bytes => "bytea",
        };
        format!("${}::{kind}[]", first + at)
    };
    let lists = columns
        .iter()
        .enumerate()
        .map(list)
        .collect::<Vec<_>>()
        .join(", ");
    format!(
        "unnest({lists}) WITH ORDINALITY AS u ({}, place)",
        names(columns)
    )
}

/// Inserts the rows in their order.
pub(super) fn insert_sql(into: &str, columns: &[Column]) -> String {
    let (names, unnest) = (names(columns), unnest(columns, 1));
    format!("INSERT INTO {into} ({names}) SELECT {names} FROM {unnest} ORDER BY place")
}

/// Updates the rows with the same key, except the columns in `but`.
pub(super) fn update_sql(into: &str, columns: &[Column], key: &str, but: &[&str]) -> String {
    let set = columns
        .iter()
        .map(own_name)
        .filter(|name| *name != key && !but.contains(name));
    let set: Vec<String> = set.map(|name| format!("{name} = u.{name}")).collect();
    let (set, unnest) = (set.join(", "), unnest(columns, 1));
    format!("UPDATE {into} t SET {set} FROM {unnest} WHERE t.{key} = u.{key}")
}

/// The parameters of these statements: one array for each column.
pub(super) fn lists(columns: &[Column], rows: Vec<Row>) -> Result<Vec<Value>, BadValue> {
    let mut cells: Vec<Vec<Cell>> = columns
        .iter()
        .map(|_| Vec::with_capacity(rows.len()))
        .collect();
    for row in rows {
        for (list, cell) in cells.iter_mut().zip(row) {
            list.push(cell);
        }
    }
    columns
        .iter()
        .zip(cells)
        .map(|(column, cells)| one_list(column, cells))
        .collect()
}

/// The same for rows that were made from records.
pub(super) fn lists_of(columns: &[Column], rows: Vec<Row>) -> Vec<Value> {
    lists(columns, rows).expect("a record's cells are of their columns' kinds")
}

fn one_list((name, kind): &Column, cells: Vec<Cell>) -> Result<Value, BadValue> {
    let other = |cell: &Cell| bad_value(name, format!("{cell:?}"));
    let number = |cell: Cell| cell.number().ok_or_else(|| other(&cell));
    Ok(match kind {
        ColumnKind::Number => Box::new(some(cells, number)?),
        ColumnKind::Flag => Box::new(some(cells, |cell| Ok(number(cell)? != 0))?),
        ColumnKind::Text => Box::new(some(cells, |cell| match cell {
            Cell::Text(plain) => Ok(text::into_kept(plain)),
            cell => Err(other(&cell)),
        })?),
        ColumnKind::Words => Box::new(some(cells, |cell| {
            let words: Vec<String> = from_json(cell.text().ok_or_else(|| other(&cell))?, name)?;
            let kept: Vec<_> = words.iter().map(|word| text::kept(word)).collect();
            Ok(to_json(&kept))
        })?),
        ColumnKind::Bytes => Box::new(some(cells, |cell| match cell {
            Cell::Bytes(bytes) => Ok(bytes),
            cell => Err(other(&cell)),
        })?),
    })
}

/// A single value of a column.
pub(super) fn scalar(kind: ColumnKind, cell: Cell) -> Value {
    match (kind, cell) {
        (ColumnKind::Text | ColumnKind::Words, Cell::Text(plain)) => {
            Box::new(Some(text::into_kept(plain)))
        }
        (ColumnKind::Text | ColumnKind::Words, _) => Box::new(None::<String>),
        (ColumnKind::Bytes, Cell::Bytes(bytes)) => Box::new(Some(bytes)),
        (ColumnKind::Bytes, _) => Box::new(None::<Vec<u8>>),
        (ColumnKind::Number | ColumnKind::Flag, cell) => Box::new(cell.number()),
    }
}

fn some<T>(
    cells: Vec<Cell>,
    read: impl Fn(Cell) -> Result<T, BadValue>,
) -> Result<Vec<Option<T>>, BadValue> {
    let some = |cell| {
        if cell == Cell::None {
            Ok(None)
        } else {
            read(cell).map(Some)
        }
    };
    cells.into_iter().map(some).collect()
}
