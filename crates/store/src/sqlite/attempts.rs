//! Attempts as rows.

use std::sync::LazyLock;

use relight_core::agent::{Attempt, AttemptTag};
use relight_core::time::Time;
use rusqlite::{Connection, OptionalExtension, Result, Row, params};

use super::lease_clock::LeaseNow;
use super::rows::{self, columns};
use crate::contract::{AttemptQuery, UnreadableRow};
use crate::record::Table;
use crate::record::{Statement, attempt_row, list_attempts, read_attempt};

static SELECT: LazyLock<String> = LazyLock::new(|| {
    let columns = columns(Table::Attempt);
    format!("SELECT g.name, {columns} FROM attempt a JOIN agent g ON g.n = a.agent")
});

fn read(row: &Row<'_>) -> Result<Attempt> {
    rows::read(row, read_attempt)
}

pub(super) fn by_tag(db: &Connection, tag: &AttemptTag) -> Result<Option<Attempt>> {
    let mut select = db.prepare_cached(&format!("{} WHERE a.tag = ?1", *SELECT))?;
    select.query_row([tag.as_str()], read).optional()
}

pub(super) fn by_number(db: &Connection, agent: i64, number: u32) -> Result<Option<Attempt>> {
    let mut select =
        db.prepare_cached(&format!("{} WHERE a.agent = ?1 AND a.number = ?2", *SELECT))?;
    select.query_row(params![agent, number], read).optional()
}

pub(super) fn list(db: &Connection, query: &AttemptQuery) -> Result<Vec<Attempt>> {
    rows::list(db, &list_sql(query), read_attempt)
}

pub(super) fn list_sql(query: &AttemptQuery) -> Statement {
    list_attempts(&SELECT, query)
}

/// The attempts that cannot be read.
pub(super) fn unreadable(db: &Connection) -> Result<Vec<UnreadableRow>> {
    let all = Statement {
        sql: format!("{} ORDER BY a.n", *SELECT),
        values: Vec::new(),
    };
    rows::unreadable(db, &all, ("attempt", 4), read_attempt)
}

pub(super) fn write(db: &Connection, agent: i64, attempt: &Attempt, now: LeaseNow) -> Result<()> {
    rows::insert(db, Table::Attempt, attempt_row(agent, attempt), now)
}

/// Removes ended ones begun before this, but the newest of each agent.
pub(super) fn forget(db: &Connection, before: Time) -> Result<u64> {
    let mut delete = db.prepare_cached(
        "DELETE FROM attempt WHERE cause IS NOT NULL AND begun_at < ?1 AND number <
             (SELECT MAX(number) FROM attempt newest WHERE newest.agent = attempt.agent)",
    )?;
    Ok(delete.execute([before.as_ms()])? as u64)
}
