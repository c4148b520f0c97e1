//! Attempts as rows.

use std::sync::LazyLock;

use relight_core::agent::{Attempt, AttemptTag};
use tokio_postgres::Row;

use super::connection::{Connection, values};
use super::error::PostgresFailure;
use super::rows::{self, LeaseColumn, columns, insert_sql};
use super::text;
use crate::contract::{AttemptQuery, UnreadableRow};
use crate::record::{BadValue, Statement, list_attempts, read_attempt};
use crate::record::{Column, Table};

static SELECT: LazyLock<String> = LazyLock::new(|| {
    let columns = columns(Table::Attempt, LeaseColumn::Left);
    format!("SELECT g.name, {columns} FROM attempt a JOIN agent g ON g.n = a.agent")
});

pub(super) fn read(row: &Row) -> Result<Attempt, BadValue> {
    rows::read(row, read_attempt)
}

pub(super) async fn by_tag(
    db: &Connection,
    tag: &AttemptTag,
) -> Result<Option<Attempt>, PostgresFailure> {
    let sql = format!("{} WHERE a.tag = $1", *SELECT);
    rows::one(db, &sql, &values![kept_tag(tag)], read_attempt).await
}

pub(super) async fn list(
    db: &Connection,
    query: &AttemptQuery,
) -> Result<Vec<Attempt>, PostgresFailure> {
    rows::list(db, list_attempts(&SELECT, query), read_attempt).await
}

/// The attempts that cannot be read.
pub(super) async fn unreadable(db: &Connection) -> Result<Vec<UnreadableRow>, PostgresFailure> {
    let all = Statement {
        sql: format!("{} ORDER BY a.n", *SELECT),
        values: Vec::new(),
    };
    rows::unreadable(db, all, ("attempt", 4), read_attempt).await
}

/// The attempts of these numbers, and those with these tags, of any agent.
pub(super) static CONCERNED: LazyLock<String> = LazyLock::new(|| {
    let columns = columns(Table::Attempt, LeaseColumn::Left);
    format!(
        "SELECT g.name, {columns} FROM unnest($1::text[], $2::bigint[]) AS w (name, number)
         JOIN agent g ON g.name = w.name JOIN attempt a ON a.agent = g.n AND a.number = w.number
         UNION {} WHERE a.tag = ANY($3)",
        *SELECT
    )
});

pub(super) fn kept_tag(tag: &AttemptTag) -> String {
    text::kept(tag.as_str()).into_owned()
}

/// All columns except the number, which the database assigns.
pub(super) fn written() -> &'static [Column] {
    &Table::Attempt.columns()[1..]
}

/// Inserts new attempts in the order they were begun; an existing number keeps its row.
pub(super) static WRITE: LazyLock<String> = LazyLock::new(|| {
    let insert = insert_sql("attempt", written());
    format!(
        "{insert} ON CONFLICT (agent, number) DO UPDATE
         SET tag = excluded.tag, begun_at = excluded.begun_at, cause = excluded.cause,
             body = excluded.body"
    )
});
