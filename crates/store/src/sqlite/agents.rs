//! Agents as rows.

use std::sync::LazyLock;

use relight_core::agent::Agent;
use relight_core::ids::AgentName;
use rusqlite::{Connection, OptionalExtension, Result, params};

use super::lease_clock::LeaseNow;
use super::rows::{self, columns, update_sql};
use crate::apply::{AgentEntry, until};
use crate::contract::{AgentQuery, UnreadableRow};
use crate::record::Table;
use crate::record::{agent_row, list_agents, read_agent};

static SELECT: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {} FROM agent", columns(Table::Agent)));

pub(super) fn by_name(db: &Connection, name: &AgentName, now: LeaseNow) -> Result<Option<Agent>> {
    Ok(for_write(db, name, now)?.map(|entry| entry.agent))
}

pub(super) fn for_write(
    db: &Connection,
    name: &AgentName,
    now: LeaseNow,
) -> Result<Option<AgentEntry>> {
    let mut select = db.prepare_cached(&format!("{} WHERE name = ?3", *SELECT))?;
    let values = params![now.ms, now.boot, name.as_str()];
    let entry = select
        .query_row(values, |row| rows::read(row, read_agent))
        .optional()?;
    Ok(entry.map(|entry| {
        let left = entry.agent.lease.held.as_ref().and_then(|held| held.left);
        AgentEntry {
            lease_until: until(left, now.ms),
            ..entry
        }
    }))
}

pub(super) fn list(db: &Connection, query: &AgentQuery, now: LeaseNow) -> Result<Vec<Agent>> {
    rows::list(db, &list_agents(&SELECT, now.values(), query), |row| {
        Ok(read_agent(row)?.agent)
    })
}

/// The agents of a list that cannot be read.
pub(super) fn unreadable(
    db: &Connection,
    query: &AgentQuery,
    now: LeaseNow,
) -> Result<Vec<UnreadableRow>> {
    let list = list_agents(&SELECT, now.values(), query);
    rows::unreadable(db, &list, ("agent", 1), read_agent)
}

/// A new one, or one that changed.
pub(super) fn write(db: &Connection, entry: &AgentEntry, now: LeaseNow) -> Result<()> {
    static UPDATE: LazyLock<String> =
        LazyLock::new(|| update_sql(Table::Agent, |name| !["n", "name"].contains(&name), 0));
    match entry.is_new {
        true => rows::insert(db, Table::Agent, agent_row(entry), now),
        false => rows::run(db, &UPDATE, &agent_row(entry), now.boot),
    }
}

/// Removes an agent that nobody holds and that is still where the caller saw it.
pub(super) fn delete(db: &Connection, name: &AgentName, seq: u64) -> Result<Option<i64>> {
    let mut delete = db.prepare_cached(
        "DELETE FROM agent WHERE name = ?1 AND seq = ?2 AND held = 0 RETURNING n",
    )?;
    delete
        .query_row(params![name.as_str(), seq.cast_signed()], |row| row.get(0))
        .optional()
}
