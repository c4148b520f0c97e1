//! The mapping of records to rows, for SQLite, PostgreSQL and transfers.
//!
//! Each record is written to and read from cells in the order of `Table::columns`. To add a field to a task,
//! add its column there, read and write it in `task`, and add a migration for each database.

mod agent;
mod journal;
mod list;
mod node;
mod session;
mod table;
mod task;

use std::borrow::Cow;
use std::fmt::Display;
use std::str::FromStr;

use relight_core::lease::{HeldLease, Holder};
use relight_core::time::{Span, Time};
use serde::de::DeserializeOwned;

pub(crate) use self::agent::{
    agent_row, attempt_row, read_agent, read_attempt, state_code, state_from_code,
};
pub(crate) use self::journal::{
    entry_row, newest_of_each, read_event, read_output, read_step, step_state,
};
pub(crate) use self::list::{
    Statement, TaskConditions, list_agents, list_attempts, list_events, list_kept, list_sessions,
    list_tasks, read_kept,
};
pub(crate) use self::node::{node_row, read_node};
pub(crate) use self::session::{read_session, session_row};
pub use self::table::{Cell, Row, Table};
pub(crate) use self::table::{Column, ColumnKind, LEASE_LEFT, PAGE_BYTES_MAX, PAGE_ROWS_MAX};
pub(crate) use self::task::{
    BODY, COUNTS, HOT, LEASE, REASON, UNFINISHED, body_row, counts_row, hot_row, lease_row,
    read_glance, read_task, task_row,
};

/// A value that no version of Relight writes.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadValue {
    #[error("{0} holds {1}, which this version never wrote")]
    Unknown(String, String),
    #[error("{0} cannot be read: {1}")]
    Unreadable(String, serde_json::Error),
}

pub(crate) fn bad_value(column: &str, value: impl Display) -> BadValue {
    BadValue::Unknown(column.to_owned(), value.to_string())
}

pub(crate) fn from_json<T: DeserializeOwned>(text: &str, column: &str) -> Result<T, BadValue> {
    serde_json::from_str(text).map_err(|error| BadValue::Unreadable(column.to_owned(), error))
}

pub(crate) fn parse<T: FromStr>(text: &str, column: &str) -> Result<T, BadValue> {
    text.parse().map_err(|_| bad_value(column, text))
}

/// A row of a database. Errors say what was found instead.
pub(crate) trait Cells {
    /// The number of columns; columns after them were not selected and read as null.
    fn width(&self) -> usize;
    fn number(&self, at: usize) -> Result<Option<i64>, String>;
    fn text(&self, at: usize) -> Result<Option<Cow<'_, str>>, String>;
    fn bytes(&self, at: usize) -> Result<Vec<u8>, String>;
}

impl Cells for Row {
    fn width(&self) -> usize {
        self.len()
    }

    fn number(&self, at: usize) -> Result<Option<i64>, String> {
        match &self[at] {
            Cell::None => Ok(None),
            Cell::Number(number) => Ok(Some(*number)),
            other => Err(format!("{other:?}")),
        }
    }

    fn text(&self, at: usize) -> Result<Option<Cow<'_, str>>, String> {
        match &self[at] {
            Cell::None => Ok(None),
            Cell::Text(text) => Ok(Some(Cow::Borrowed(text))),
            other => Err(format!("{other:?}")),
        }
    }

    fn bytes(&self, at: usize) -> Result<Vec<u8>, String> {
        match &self[at] {
            Cell::Bytes(bytes) => Ok(bytes.clone()),
            other => Err(format!("{other:?}")),
        }
    }
}

type Read<T> = Result<T, BadValue>;

/// Reads a row column by column; the names are used in errors.
pub(crate) struct RowReader<'r> {
    row: &'r dyn Cells,
    at: usize,
}

impl<'r> RowReader<'r> {
    pub(crate) fn new(row: &'r dyn Cells) -> Self {
        Self { row, at: 0 }
    }

    fn next(&mut self) -> Option<usize> {
        self.at += 1;
        Some(self.at - 1).filter(|at| *at < self.row.width())
    }

    pub(crate) fn some_number(&mut self, column: &str) -> Read<Option<i64>> {
        let Some(at) = self.next() else {
            return Ok(None);
        };
        self.row
            .number(at)
            .map_err(|found| bad_value(column, found))
    }

    pub(crate) fn number(&mut self, column: &str) -> Read<i64> {
        self.some_number(column)?
            .ok_or_else(|| bad_value(column, "nothing"))
    }

    pub(crate) fn unsigned(&mut self, column: &str) -> Read<u64> {
        Ok(self.number(column)?.cast_unsigned())
    }

    /// A number of a smaller type than the database's.
    pub(crate) fn small<T: TryFrom<i64>>(&mut self, column: &str) -> Read<T> {
        let wide = self.number(column)?;
        T::try_from(wide).map_err(|_| bad_value(column, wide))
    }

    pub(crate) fn some_small<T: TryFrom<i64>>(&mut self, column: &str) -> Read<Option<T>> {
        let Some(wide) = self.some_number(column)? else {
            return Ok(None);
        };
        T::try_from(wide)
            .map(Some)
            .map_err(|_| bad_value(column, wide))
    }

    pub(crate) fn flag(&mut self, column: &str) -> Read<bool> {
        Ok(self.number(column)? != 0)
    }

    pub(crate) fn code<T>(&mut self, column: &str, of: impl Fn(u8) -> Option<T>) -> Read<T> {
        let code = self.number(column)?;
        u8::try_from(code)
            .ok()
            .and_then(of)
            .ok_or_else(|| bad_value(column, code))
    }

    pub(crate) fn time(&mut self, column: &str) -> Read<Time> {
        Ok(Time::from_ms(self.number(column)?))
    }

    pub(crate) fn some_time(&mut self, column: &str) -> Read<Option<Time>> {
        Ok(self.some_number(column)?.map(Time::from_ms))
    }

    pub(crate) fn some_span(&mut self, column: &str) -> Read<Option<Span>> {
        Ok(self
            .some_number(column)?
            .map(|ms| Span::from_ms(ms.max(0).cast_unsigned())))
    }

    pub(crate) fn some_text(&mut self, column: &str) -> Read<Option<Cow<'r, str>>> {
        let Some(at) = self.next() else {
            return Ok(None);
        };
        self.row.text(at).map_err(|found| bad_value(column, found))
    }

    pub(crate) fn text(&mut self, column: &str) -> Read<Cow<'r, str>> {
        self.some_text(column)?
            .ok_or_else(|| bad_value(column, "nothing"))
    }

    pub(crate) fn parse<T: FromStr>(&mut self, column: &str) -> Read<T> {
        parse(&self.text(column)?, column)
    }

    pub(crate) fn some_parse<T: FromStr>(&mut self, column: &str) -> Read<Option<T>> {
        self.some_text(column)?
            .map(|text| parse(&text, column))
            .transpose()
    }

    pub(crate) fn json<T: DeserializeOwned>(&mut self, column: &str) -> Read<T> {
        from_json(&self.text(column)?, column)
    }

    pub(crate) fn some_json<T: DeserializeOwned>(&mut self, column: &str) -> Read<Option<T>> {
        self.some_text(column)?
            .map(|text| from_json(&text, column))
            .transpose()
    }

    pub(crate) fn bytes(&mut self, column: &str) -> Read<Vec<u8>> {
        let at = self.next().ok_or_else(|| bad_value(column, "nothing"))?;
        self.row.bytes(at).map_err(|found| bad_value(column, found))
    }
}

/// A timed lease without an end has expired.
fn held(holder: Holder, since: Time, ttl: Option<Span>, left: Option<Span>) -> HeldLease {
    HeldLease {
        holder,
        ttl,
        since,
        left: ttl.map(|_| left.unwrap_or(Span::ZERO)),
    }
}

/// Numbers as cells.
macro_rules! cells {
    ($($number:ty),*) => {
        $(impl From<$number> for Cell {
            fn from(number: $number) -> Self {
                Self::Number(number.into())
            }
        })*
    };
}

cells!(i64, i32, u32, u8, bool);

impl From<u64> for Cell {
    fn from(number: u64) -> Self {
        Self::Number(number.cast_signed())
    }
}

impl From<Time> for Cell {
    fn from(time: Time) -> Self {
        Self::Number(time.as_ms())
    }
}

impl From<Span> for Cell {
    fn from(span: Span) -> Self {
        span.as_ms().into()
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::None, Into::into)
    }
}
