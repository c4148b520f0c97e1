//! Sessions as rows.

use std::sync::LazyLock;

use relight_core::ids::SessionKey;
use relight_core::session::{Session, SessionStateKind};
use tokio_postgres::Row;

use super::connection::{Connection, LONG_WAIT, Value, values};
use super::error::Failure;
use super::rows::{self, Lease, columns, insert_sql, update_sql};
use super::tasks::readable;
use crate::contract::SessionQuery;
use crate::record::{BadValue, Reader, read_session};
use crate::transfer::{Column, Table};

static SELECT: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {} FROM session", columns(Table::Session, Lease::Left)));

fn read(row: &Row) -> Result<Session, BadValue> {
    rows::read(row, read_session)
}

pub(super) async fn by_key(
    db: &Connection,
    key: &SessionKey,
    ahead_ms: i64,
) -> Result<Option<Session>, Failure> {
    static SQL: LazyLock<String> = LazyLock::new(|| format!("{} WHERE key = $2", *SELECT));
    let row = db.query_opt(&SQL, &values![ahead_ms, key.as_str().to_owned()]).await?;
    row.as_ref().map(read).transpose().map_err(|bad| db.damaged(&bad))
}

pub(super) async fn list(
    db: &Connection,
    query: &SessionQuery,
    ahead_ms: i64,
) -> Result<Vec<Session>, Failure> {
    let mut sql = format!("{} WHERE true", *SELECT);
    let mut all = values![ahead_ms];
    let mut also = |condition: &str, value: Option<Value>| {
        all.extend(value);
        sql += &condition.replace('?', &format!("${}", all.len()));
    };
    if !query.states.is_empty() {
        let codes: Vec<i16> = query.states.iter().map(|state| state.code().into()).collect();
        also(" AND state = ANY(?)", Some(Box::new(codes)));
        if !query.states.contains(&SessionStateKind::Idle) {
            // The very words of the index.
            also(" AND state > 1", None);
        }
    }
    if query.seen {
        also(" AND seen_at IS NOT NULL", None);
    }
    if let Some(after) = &query.after {
        also(" AND key > ?", Some(Box::new(after.as_str().to_owned())));
    }
    also(" ORDER BY key", None);
    if let Some(limit) = query.limit {
        also(" LIMIT ?", Some(Box::new(i64::try_from(limit).unwrap_or(i64::MAX))));
    }
    readable(db.query(&sql, &all).await?.iter().map(read))
}

/// The sessions that cannot be read, with the reason.
pub(super) async fn unreadable(db: &Connection) -> Result<Vec<String>, Failure> {
    let sql = format!("{} ORDER BY key", *SELECT);
    let rows = db.query_within(LONG_WAIT, &sql, &values![0_i64]).await?;
    let bad = |row: &Row| {
        let error = read(row).err()?;
        Some(format!("session {} cannot be read: {error}", row.get::<_, String>(1)))
    };
    Ok(rows.iter().filter_map(bad).collect())
}

pub(super) async fn count_by_state(
    db: &Connection,
) -> Result<Vec<(SessionStateKind, u64)>, Failure> {
    let sql = "SELECT state, COUNT(*) FROM session GROUP BY state ORDER BY state";
    let rows = db.query_within(LONG_WAIT, sql, &[]).await?;
    let count = |row: &mut Reader<'_>| {
        Ok((row.code("session.state", SessionStateKind::from_code)?, row.unsigned("n")?))
    };
    readable(rows.iter().map(|row| rows::read(row, count)))
}

/// What a writer compares, held until the transaction ends.
pub(super) const LOCK: &str = "
    SELECT s.* FROM unnest($1::text[]) AS w (wanted)
    CROSS JOIN LATERAL (SELECT key, seq, lease_until FROM session WHERE session.key = w.wanted
                        FOR UPDATE) AS s";

/// All but its number, which the database gives.
pub(super) fn written() -> &'static [Column] {
    &Table::Session.columns()[1..]
}

pub(super) static INSERT: LazyLock<String> = LazyLock::new(|| insert_sql("session", written()));

pub(super) static UPDATE: LazyLock<String> =
    LazyLock::new(|| update_sql("session", written(), "key", &["created_at"]));
