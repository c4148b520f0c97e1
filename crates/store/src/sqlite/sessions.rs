//! Sessions as rows.

use std::sync::LazyLock;

use relight_core::ids::SessionKey;
use relight_core::session::{Session, SessionStateKind};
use rusqlite::types::Value as SqlValue;
use rusqlite::{Connection, OptionalExtension, Result, Row, params, params_from_iter};

use super::lease_clock::LeaseNow;
use super::rows::{self, columns, update_sql};
use super::tasks::readable;
use crate::apply::SessionEntry;
use crate::contract::SessionQuery;
use crate::record::{read_session, session_row};
use crate::transfer::Table;

static SELECT: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {} FROM session", columns(Table::Session)));

fn read(row: &Row<'_>) -> Result<Session> {
    rows::read(row, read_session)
}

pub(super) fn by_key(db: &Connection, key: &SessionKey, now: LeaseNow) -> Result<Option<Session>> {
    let mut select = db.prepare_cached(&format!("{} WHERE key = ?3", *SELECT))?;
    select.query_row(params![now.ms, now.boot, key.as_str()], read).optional()
}

pub(super) fn list(db: &Connection, query: &SessionQuery, now: LeaseNow) -> Result<Vec<Session>> {
    let (sql, values) = list_sql(query, now);
    let mut select = db.prepare_cached(&sql)?;
    readable(select.query_map(params_from_iter(values), read)?)
}

pub(super) fn list_sql(query: &SessionQuery, now: LeaseNow) -> (String, Vec<SqlValue>) {
    let mut sql = format!("{} WHERE 1", *SELECT);
    let mut values: Vec<SqlValue> = vec![now.ms.into(), now.boot.into()];
    if !query.states.is_empty() {
        let codes: Vec<String> = query.states.iter().map(|s| s.code().to_string()).collect();
        sql += &format!(" AND state IN ({})", codes.join(","));
    }
    if !query.states.is_empty() && !query.states.contains(&SessionStateKind::Idle) {
        // The very words of the index, for SQLite proves nothing by arithmetic.
        sql += " AND state > 1";
    }
    if query.seen {
        sql += " AND seen_at IS NOT NULL";
    }
    if let Some(after) = &query.after {
        sql += " AND key > ?";
        values.push(after.as_str().to_owned().into());
    }
    sql += " ORDER BY key";
    if let Some(limit) = query.limit {
        sql += &format!(" LIMIT {}", limit.min(i64::MAX as usize));
    }
    (sql, values)
}

/// The sessions that cannot be read, with the reason.
pub(super) fn unreadable(db: &Connection, now: LeaseNow) -> Result<Vec<String>> {
    let sql = format!("{} ORDER BY key", *SELECT);
    rows::unreadable(db, &sql, now, ("session", 1), read_session)
}

pub(super) fn count_by_state(db: &Connection) -> Result<Vec<(SessionStateKind, u64)>> {
    let mut select = db.prepare("SELECT state, COUNT(*) FROM session GROUP BY state")?;
    let rows = select.query_map([], |row| {
        rows::read(row, |row| {
            Ok((row.code("session.state", SessionStateKind::from_code)?, row.unsigned("n")?))
        })
    })?;
    rows.collect()
}

/// What the writer compares.
pub(super) fn for_write(
    db: &Connection,
    key: &SessionKey,
    now: LeaseNow,
) -> Result<Option<SessionEntry>> {
    let sql = "SELECT seq, lease_until, lease_boot FROM session WHERE key = ?1";
    let read = |row: &Row<'_>| {
        let (until_ms, boot): (Option<i64>, Option<i64>) = (row.get(1)?, row.get(2)?);
        let lease_until = until_ms.filter(|_| boot == Some(now.boot));
        Ok(SessionEntry {
            seq: row.get::<_, i64>(0)?.cast_unsigned(),
            lease_until,
            is_there: true,
            next: None,
        })
    };
    db.prepare_cached(sql)?.query_row([key.as_str()], read).optional()
}

/// Removes those that nobody wrote since they were read, and that have no turn in flight.
pub(super) fn forget(db: &Connection, sessions: &[(SessionKey, u64)]) -> Result<u64> {
    let mut delete =
        db.prepare_cached("DELETE FROM session WHERE key = ?1 AND seq = ?2 AND state <> ?3")?;
    let active = SessionStateKind::Active.code();
    let mut count = 0;
    for (key, seq) in sessions {
        count += delete.execute(params![key.as_str(), seq.cast_signed(), active])? as u64;
    }
    Ok(count)
}

/// A new one, or one that changed.
pub(super) fn write(db: &Connection, entry: &SessionEntry, now: LeaseNow) -> Result<()> {
    static UPDATE: LazyLock<String> =
        LazyLock::new(|| update_sql(Table::Session, |name| !["n", "key"].contains(&name), 1));
    let Some(session) = &entry.next else { return Ok(()) };
    let row = session_row(session, entry.lease_until);
    match entry.is_there {
        true => rows::run(db, &UPDATE, &row, now.boot),
        false => rows::insert(db, Table::Session, row, now),
    }
}
