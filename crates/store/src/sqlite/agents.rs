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
use crate::bodies::AgentBody;
use crate::contract::AgentQuery;

/// An agent and its row's number.
#[derive(Debug)]
pub(super) struct AgentRow {
    pub(super) n: i64,
    pub(super) agent: Agent,
}

const SELECT: &str = "
    SELECT n, name, fence, held, lease_ttl, lease_until, lease_boot, seq, updated_at, body
    FROM agent";

pub(super) fn by_name(
    db: &Connection,
    name: &AgentName,
    now: LeaseNow,
) -> Result<Option<AgentRow>> {
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

pub(super) fn insert(db: &Connection, agent: &Agent) -> Result<i64> {
    let mut insert = db.prepare_cached(
        "INSERT INTO agent (name, state, fence, held, seq, updated_at, body)
         VALUES (?1, ?2, 0, 0, 0, ?3, ?4)",
    )?;
    insert.insert(params![
        agent.name.as_str(),
        state_code(agent.state.kind()),
        agent.updated_at.as_ms(),
        body(agent),
    ])
}

/// Writes the row, if nobody else did since it was read.
pub(super) fn write(db: &Connection, n: i64, seq_before: u64, agent: &Agent) -> Result<bool> {
    let mut update = db.prepare_cached(
        "UPDATE agent SET state = ?3, fence = ?4, held = ?5, lease_ttl = ?6, seq = ?7,
                updated_at = ?8, body = ?9
         WHERE n = ?1 AND seq = ?2",
    )?;
    let held = agent.lease.held.as_ref();
    let changed = update.execute(params![
        n,
        seq_before.cast_signed(),
        state_code(agent.state.kind()),
        agent.lease.fence.0.cast_signed(),
        held.is_some(),
        held.and_then(|held| held.ttl).map(|ttl| ttl.as_ms().cast_signed()),
        agent.seq.cast_signed(),
        agent.updated_at.as_ms(),
        body(agent),
    ])?;
    Ok(changed == 1)
}

/// Counts the lease's time from now.
pub(super) fn set_lease_time(db: &Connection, n: i64, now: LeaseNow) -> Result<()> {
    let mut update = db.prepare_cached(
        "UPDATE agent SET lease_until = ?2 + lease_ttl, lease_boot = ?3 WHERE n = ?1",
    )?;
    update.execute([n, now.ms, now.boot])?;
    Ok(())
}

/// Removes an agent that nobody holds and that is still where the caller saw it.
pub(super) fn delete(db: &Connection, name: &AgentName, seq: u64) -> Result<Option<i64>> {
    let mut delete = db.prepare_cached(
        "DELETE FROM agent WHERE name = ?1 AND seq = ?2 AND held = 0 RETURNING n",
    )?;
    delete.query_row(params![name.as_str(), seq.cast_signed()], |row| row.get(0)).optional()
}

fn body(agent: &Agent) -> String {
    to_json(&AgentBody::of(agent))
}

fn read(row: &Row<'_>, now: LeaseNow) -> Result<AgentRow> {
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
    Ok(AgentRow { n: row.get(0)?, agent })
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
