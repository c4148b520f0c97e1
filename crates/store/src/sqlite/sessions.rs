//! Sessions as rows.

use std::sync::LazyLock;

use relight_core::ids::SessionKey;
use relight_core::session::{Session, SessionStateKind};
use rusqlite::{Connection, OptionalExtension, Result, Row, params};

use super::lease_clock::LeaseNow;
use super::rows::{self, columns, update_sql};
use crate::apply::SessionEntry;
use crate::contract::{SessionQuery, UnreadableRow};
use crate::record::Table;
use crate::record::{Statement, list_sessions, read_session, session_row};

static SELECT: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {} FROM session", columns(Table::Session)));

pub(super) fn by_key(db: &Connection, key: &SessionKey, now: LeaseNow) -> Result<Option<Session>> {
    let mut select = db.prepare_cached(&format!("{} WHERE key = ?3", *SELECT))?;
    let values = params![now.ms, now.boot, key.as_str()];
    select
        .query_row(values, |row| rows::read(row, read_session))
        .optional()
}

pub(super) fn list(db: &Connection, query: &SessionQuery, now: LeaseNow) -> Result<Vec<Session>> {
    rows::list(db, &list_sql(query, now), read_session)
}

pub(super) fn list_sql(query: &SessionQuery, now: LeaseNow) -> Statement {
    list_sessions(&SELECT, now.values(), query)
}

/// The sessions of a list that cannot be read.
pub(super) fn unreadable(
    db: &Connection,
    query: &SessionQuery,
    now: LeaseNow,
) -> Result<Vec<UnreadableRow>> {
    rows::unreadable(db, &list_sql(query, now), ("session", 1), read_session)
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
    db.prepare_cached(sql)?
        .query_row([key.as_str()], read)
        .optional()
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
    let Some(session) = &entry.next else {
        return Ok(());
    };
    let row = session_row(session, entry.lease_until);
    match entry.is_there {
        true => rows::run(db, &UPDATE, &row, now.boot),
        false => rows::insert(db, Table::Session, row, now),
    }
}
