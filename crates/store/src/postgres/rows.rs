//! Rows of the shared form in PostgreSQL: the columns of each table, many rows as one value for each
//! column, and values as they are read.

use std::borrow::Cow;

use tokio_postgres::Row as SqlRow;
use tokio_postgres::types::Type;

use super::connection::{Value, get};
use super::lease_clock::NOW_MS;
use super::text;
use crate::bodies::to_json;
use crate::record::{BadValue, Cells, Reader, bad_value, from_json};
use crate::transfer::{Cell, Column, Kind, LEASE_LEFT, Row, Table};

impl Cells for SqlRow {
    fn number(&self, at: usize) -> Result<Option<i64>, String> {
        let number = match *self.columns()[at].type_() {
            Type::INT8 => get(self, at),
            Type::INT4 => get::<Option<i32>>(self, at).map(|number| number.map(i64::from)),
            Type::INT2 => get::<Option<i16>>(self, at).map(|number| number.map(i64::from)),
            Type::BOOL => get::<Option<bool>>(self, at).map(|flag| flag.map(i64::from)),
            _ => match get::<Option<&str>>(self, at) {
                Ok(Some(text)) => return Err(text.to_owned()),
                other => other.map(|_| None),
            },
        };
        number.map_err(|bad| bad.value)
    }

    fn text(&self, at: usize) -> Result<Option<Cow<'_, str>>, String> {
        let text = match *self.columns()[at].type_() {
            Type::TEXT_ARRAY => get::<Option<Vec<String>>>(self, at).map(|words| {
                let read = |words: Vec<String>| -> Vec<String> {
                    words.into_iter().map(text::read).collect()
                };
                words.map(|words| to_json(&read(words)).into())
            }),
            _ => get::<Option<&str>>(self, at).map(|kept| kept.map(text::read_kept)),
        };
        text.map_err(|bad| bad.value)
    }

    fn bytes(&self, at: usize) -> Result<Vec<u8>, String> {
        get(self, at).map_err(|bad| bad.value)
    }
}

/// A record out of a row.
pub(super) fn read<T>(
    row: &SqlRow,
    read: impl Fn(&mut Reader<'_>) -> Result<T, BadValue>,
) -> Result<T, BadValue> {
    read(&mut Reader::new(row))
}

/// What is said of a lease's end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Lease {
    /// What is left of it by the database's clock, which `$1` moves.
    Left,
    /// When it ends.
    Until,
}

/// What is selected of a table, in the order of its columns; null for those that are not wanted.
pub(super) fn some_columns(
    table: Table,
    lease: Lease,
    is_wanted: impl Fn(usize) -> bool,
) -> String {
    let columns = table.columns().iter().enumerate();
    let all = columns.map(|(at, column)| match is_wanted(at) {
        true => expression(table, column, lease),
        false => format!("NULL AS {}", column.0),
    });
    all.collect::<Vec<_>>().join(", ")
}

pub(super) fn columns(table: Table, lease: Lease) -> String {
    some_columns(table, lease, |_| true)
}

/// Where a column of the shared form is kept.
fn expression(table: Table, (column, _): &Column, lease: Lease) -> String {
    let end = |from: &str| match lease {
        Lease::Until => format!("{from}lease_until"),
        Lease::Left if table == Table::Node => format!("GREATEST(0, lease_until - {NOW_MS})"),
        Lease::Left => format!(
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

/// A column's own name.
fn own_name(column: &Column) -> &'static str {
    if column.0 == LEASE_LEFT { "lease_until" } else { column.0 }
}

pub(super) fn names(columns: &[Column]) -> String {
    columns.iter().map(own_name).collect::<Vec<_>>().join(", ")
}

/// A list for each column, `u` with their names and the `place` of each row. The first list is `$first`.
pub(super) fn unnest(columns: &[Column], first: usize) -> String {
    let list = |(at, (_, kind)): (usize, &Column)| {
        let kind = match kind {
            Kind::Number => "bigint",
            Kind::Flag => "boolean",
            Kind::Text | Kind::Words => "text",
            Kind::Bytes => "bytea",
        };
        format!("${}::{kind}[]", first + at)
    };
    let lists = columns.iter().enumerate().map(list).collect::<Vec<_>>().join(", ");
    format!("unnest({lists}) WITH ORDINALITY AS u ({}, place)", names(columns))
}

/// Inserts rows in their order.
pub(super) fn insert_sql(into: &str, columns: &[Column]) -> String {
    let (names, unnest) = (names(columns), unnest(columns, 1));
    format!("INSERT INTO {into} ({names}) SELECT {names} FROM {unnest} ORDER BY place")
}

/// Writes the rows of the same key; columns of these names stay.
pub(super) fn update_sql(into: &str, columns: &[Column], key: &str, but: &[&str]) -> String {
    let set = columns.iter().map(own_name).filter(|name| *name != key && !but.contains(name));
    let set: Vec<String> = set.map(|name| format!("{name} = u.{name}")).collect();
    let (set, unnest) = (set.join(", "), unnest(columns, 1));
    format!("UPDATE {into} t SET {set} FROM {unnest} WHERE t.{key} = u.{key}")
}

/// The values of these statements: a list for each column.
pub(super) fn lists(columns: &[Column], rows: Vec<Row>) -> Result<Vec<Value>, BadValue> {
    let mut cells: Vec<Vec<Cell>> =
        columns.iter().map(|_| Vec::with_capacity(rows.len())).collect();
    for row in rows {
        for (list, cell) in cells.iter_mut().zip(row) {
            list.push(cell);
        }
    }
    columns.iter().zip(cells).map(|(column, cells)| list(column, cells)).collect()
}

/// The same of rows that records became.
pub(super) fn lists_of(columns: &[Column], rows: Vec<Row>) -> Vec<Value> {
    lists(columns, rows).expect("a record's cells are of their columns' kinds")
}

fn list((name, kind): &Column, cells: Vec<Cell>) -> Result<Value, BadValue> {
    let other = |cell: &Cell| bad_value(name, format!("{cell:?}"));
    let number = |cell: Cell| cell.number().ok_or_else(|| other(&cell));
    Ok(match kind {
        Kind::Number => Box::new(some(cells, number)?),
        Kind::Flag => Box::new(some(cells, |cell| Ok(number(cell)? != 0))?),
        Kind::Text => Box::new(some(cells, |cell| match cell {
            Cell::Text(plain) => Ok(text::into_kept(plain)),
            cell => Err(other(&cell)),
        })?),
        Kind::Words => Box::new(some(cells, |cell| {
            let words: Vec<String> = from_json(cell.text().ok_or_else(|| other(&cell))?, name)?;
            let kept: Vec<_> = words.iter().map(|word| text::kept(word)).collect();
            Ok(to_json(&kept))
        })?),
        Kind::Bytes => Box::new(some(cells, |cell| match cell {
            Cell::Bytes(bytes) => Ok(bytes),
            cell => Err(other(&cell)),
        })?),
    })
}

fn some<T>(
    cells: Vec<Cell>,
    read: impl Fn(Cell) -> Result<T, BadValue>,
) -> Result<Vec<Option<T>>, BadValue> {
    let some = |cell| if cell == Cell::None { Ok(None) } else { read(cell).map(Some) };
    cells.into_iter().map(some).collect()
}
