//! Attempts as rows.

use std::sync::LazyLock;

use relight_core::agent::{Attempt, AttemptTag};
use tokio_postgres::Row;

use super::connection::{Connection, LONG_WAIT, values};
use super::error::Failure;
use super::rows::{self, Lease, columns, insert_sql};
use super::tasks::readable;
use super::text;
use crate::contract::AttemptQuery;
use crate::record::{BadValue, read_attempt};
use crate::transfer::{Column, Table};

static SELECT: LazyLock<String> = LazyLock::new(|| {
    let columns = columns(Table::Attempt, Lease::Left);
    format!("SELECT g.name, {columns} FROM attempt a JOIN agent g ON g.n = a.agent")
});

pub(super) fn read(row: &Row) -> Result<Attempt, BadValue> {
    rows::read(row, read_attempt)
}

pub(super) async fn by_tag(db: &Connection, tag: &AttemptTag) -> Result<Option<Attempt>, Failure> {
    let sql = format!("{} WHERE a.tag = $1", *SELECT);
    let row = db.query_opt(&sql, &values![kept_tag(tag)]).await?;
    row.as_ref().map(read).transpose().map_err(|bad| db.damaged(&bad))
}

pub(super) async fn list(db: &Connection, query: &AttemptQuery) -> Result<Vec<Attempt>, Failure> {
    let mut sql = format!("{} WHERE true", *SELECT);
    let mut all = values![i64::try_from(query.limit).unwrap_or(i64::MAX)];
    if let Some(agent) = &query.agent {
        sql += " AND a.agent = (SELECT n FROM agent WHERE name = $2)";
        all.push(Box::new(agent.as_str().to_owned()));
    }
    if query.ended {
        sql += " AND a.cause IS NOT NULL";
    }
    // Both orders are the same for one agent, and each has its index.
    let order = if query.agent.is_some() { "a.number" } else { "a.n" };
    if let Some(before) = &query.before {
        all.push(Box::new(kept_tag(before)));
        let tag = all.len();
        sql += &format!(" AND {order} < (SELECT {order} FROM attempt a WHERE a.tag = ${tag})");
    }
    sql += &format!(" ORDER BY {order} DESC LIMIT $1");
    readable(db.query(&sql, &all).await?.iter().map(read))
}

/// The attempts that cannot be read, with the reason.
pub(super) async fn unreadable(db: &Connection) -> Result<Vec<String>, Failure> {
    let rows = db.query_within(LONG_WAIT, &format!("{} ORDER BY a.n", *SELECT), &[]).await?;
    let bad = |row: &Row| {
        let error = read(row).err()?;
        Some(format!("attempt {} cannot be read: {error}", row.get::<_, String>(4)))
    };
    Ok(rows.iter().filter_map(bad).collect())
}

/// The attempts of these numbers, and those with these tags, whosever they are.
pub(super) static CONCERNED: LazyLock<String> = LazyLock::new(|| {
    let columns = columns(Table::Attempt, Lease::Left);
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

/// All but its number, which the database gives.
pub(super) fn written() -> &'static [Column] {
    &Table::Attempt.columns()[1..]
}

/// New ones in the order they were begun; one of the same number keeps its place.
pub(super) static WRITE: LazyLock<String> = LazyLock::new(|| {
    let insert = insert_sql("attempt", written());
    format!(
        "{insert} ON CONFLICT (agent, number) DO UPDATE
         SET tag = excluded.tag, begun_at = excluded.begun_at, cause = excluded.cause,
             body = excluded.body"
    )
});
