//! Agents as rows: what statements compare in columns, the rest as JSON.

use relight_core::agent::{Agent, AgentStateKind};
use relight_core::ids::AgentName;
use relight_core::lease::{Fence, Held, Lease};
use relight_core::time::{Span, Time};
use rusqlite::types::Value as SqlValue;
use rusqlite::{Connection, OptionalExtension, Result, Row, params, params_from_iter};

use super::error::bad_value;
use super::lease_clock::LeaseNow;
use super::tasks::{from_json, left, parse, readable, to_json, unsigned};
use crate::apply::{AgentEntry, until};
use crate::bodies::AgentBody;
use crate::contract::AgentQuery;

const SELECT: &str = "
    SELECT n, name, fence, held, lease_ttl, lease_until, lease_boot, seq, updated_at, body
    FROM agent";

pub(super) fn by_name(db: &Connection, name: &AgentName, now: LeaseNow) -> Result<Option<Agent>> {
    Ok(for_write(db, name, now)?.map(|entry| entry.agent))
}

pub(super) fn for_write(
    db: &Connection,
    name: &AgentName,
    now: LeaseNow,
) -> Result<Option<AgentEntry>> {
    let mut select = db.prepare_cached(&format!("{SELECT} WHERE name = ?1"))?;
    select.query_row([name.as_str()], |row| read(row, now)).optional()
}

pub(super) fn list(db: &Connection, query: &AgentQuery, now: LeaseNow) -> Result<Vec<Agent>> {
    let mut sql = format!("{SELECT} WHERE 1");
    let mut values: Vec<SqlValue> = Vec::new();
    if !query.states.is_empty() {
        let codes: Vec<String> =
            query.states.iter().map(|state| state_code(*state).to_string()).collect();
        sql += &format!(" AND state IN ({})", codes.join(","));
    }
    if let Some(after) = &query.after {
        sql += " AND name > ?";
        values.push(after.as_str().to_owned().into());
    }
    sql += " ORDER BY name";
    if let Some(limit) = query.limit {
        sql += &format!(" LIMIT {}", limit.min(i64::MAX as usize));
    }
    let mut select = db.prepare_cached(&sql)?;
    readable(select.query_map(params_from_iter(values), |row| Ok(read(row, now)?.agent))?)
}

/// The agents that cannot be read, with the reason.
pub(super) fn unreadable(db: &Connection, now: LeaseNow) -> Result<Vec<String>> {
    let mut select = db.prepare(&format!("{SELECT} ORDER BY name"))?;
    let mut rows = select.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        if let Err(error) = read(row, now) {
            let name = row.get::<_, String>(1)?;
            found.push(format!("agent {name} cannot be read: {error}"));
        }
    }
    Ok(found)
}

pub(super) fn count_by_state(db: &Connection) -> Result<Vec<(AgentStateKind, u64)>> {
    let mut select = db.prepare("SELECT state, COUNT(*) FROM agent GROUP BY state")?;
    let rows = select.query_map([], |row| {
        let state = state_from_code(row.get(0)?)?;
        Ok((state, unsigned(row, 1)?))
    })?;
    rows.collect()
}

/// A new one, or one that changed.
pub(super) fn write(db: &Connection, entry: &AgentEntry, now: LeaseNow) -> Result<()> {
    let agent = &entry.agent;
    let held = agent.lease.held.as_ref();
    let mut write = db.prepare_cached(match entry.is_new {
        true => {
            "INSERT INTO agent (n, name, state, fence, held, lease_ttl, lease_until, lease_boot, seq,
                                updated_at, body)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)"
        }
        false => {
            "UPDATE agent SET name = ?2, state = ?3, fence = ?4, held = ?5, lease_ttl = ?6,
                    lease_until = ?7, lease_boot = ?8, seq = ?9, updated_at = ?10, body = ?11
             WHERE n = ?1"
        }
    })?;
    write.execute(params![
        entry.n,
        agent.name.as_str(),
        state_code(agent.state.kind()),
        agent.lease.fence.0.cast_signed(),
        held.is_some(),
        held.and_then(|held| held.ttl).map(|ttl| ttl.as_ms().cast_signed()),
        entry.lease_until,
        entry.lease_until.map(|_| now.boot),
        agent.seq.cast_signed(),
        agent.updated_at.as_ms(),
        to_json(&AgentBody::of(agent)),
    ])?;
    Ok(())
}

/// Removes an agent that nobody holds and that is still where the caller saw it.
pub(super) fn delete(db: &Connection, name: &AgentName, seq: u64) -> Result<Option<i64>> {
    let mut delete = db.prepare_cached(
        "DELETE FROM agent WHERE name = ?1 AND seq = ?2 AND held = 0 RETURNING n",
    )?;
    delete.query_row(params![name.as_str(), seq.cast_signed()], |row| row.get(0)).optional()
}

fn read(row: &Row<'_>, now: LeaseNow) -> Result<AgentEntry> {
    let mut body: AgentBody = from_json(row.get_ref(9)?.as_str()?, "agent.body")?;
    let ttl = row.get::<_, Option<i64>>(4)?.map(|ms| Span::from_ms(ms.cast_unsigned()));
    let held = match (row.get(3)?, body.holder.take(), body.held_since) {
        (true, Some(holder), Some(since)) => {
            let left = match ttl {
                Some(_) => Some(left(row.get(5)?, row.get(6)?, now)),
                None => None,
            };
            Some(Held { holder, ttl, since, left })
        }
        (true, ..) => return Err(bad_value("agent.body", "a lease that nobody holds")),
        (false, ..) => None,
    };
    let lease = Lease { fence: Fence(unsigned(row, 2)?), held };
    let name = parse(row.get_ref(1)?.as_str()?, "agent.name")?;
    let agent = body.into_agent(name, lease, unsigned(row, 7)?, Time::from_ms(row.get(8)?));
    let left = agent.lease.held.as_ref().and_then(|held| held.left);
    let lease_until = until(left, now.ms);
    Ok(AgentEntry { n: row.get(0)?, agent, lease_until, is_new: false, is_changed: false })
}

/// Its place in the list of all, from 1.
fn state_code(state: AgentStateKind) -> i64 {
    let place = AgentStateKind::ALL.iter().position(|other| *other == state);
    place.expect("the list has all states") as i64 + 1
}

fn state_from_code(code: i64) -> Result<AgentStateKind> {
    let place = usize::try_from(code - 1).ok();
    let state = place.and_then(|place| AgentStateKind::ALL.get(place));
    state.copied().ok_or_else(|| bad_value("agent.state", code))
}
