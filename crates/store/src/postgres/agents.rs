//! Agents as rows: what statements compare in columns, the rest as JSON.

use std::sync::LazyLock;

use relight_core::agent::{Agent, AgentStateKind};
use relight_core::ids::AgentName;
use relight_core::lease::{Fence, Held, Lease};
use relight_core::node::Mark;
use relight_core::time::{Span, Time};
use tokio_postgres::Row;

use super::connection::{Connection, LONG_WAIT, Value, get, values};
use super::error::{BadValue, Failure, bad_value};
use super::lease_clock::NOW_MS;
use super::tasks::{from_json, parse, readable, unsigned};
use crate::apply::{AgentEntry, left};
use crate::bodies::{AgentBody, to_json};
use crate::contract::AgentQuery;

static SELECT: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT n, name, fence, held, lease_ttl, lease_until, seq, updated_at, body, {NOW_MS}
         FROM agent"
    )
});

pub(super) async fn by_name(
    db: &Connection,
    name: &AgentName,
    ahead_ms: i64,
) -> Result<Option<Agent>, Failure> {
    static SQL: LazyLock<String> = LazyLock::new(|| format!("{} WHERE name = $2", *SELECT));
    let row = db.query_opt(&SQL, &values![ahead_ms, name.as_str().to_owned()]).await?;
    let row = row.as_ref().map(read).transpose().map_err(|bad| db.damaged(&bad))?;
    Ok(row.map(|row| row.agent))
}

pub(super) async fn list(
    db: &Connection,
    query: &AgentQuery,
    ahead_ms: i64,
) -> Result<Vec<Agent>, Failure> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        format!(
            "{} WHERE (cardinality($2::smallint[]) = 0 OR state = ANY($2))
               AND ($3::text IS NULL OR name > $3) ORDER BY name LIMIT $4",
            *SELECT
        )
    });
    let states: Vec<i16> = query.states.iter().map(|state| state_code(*state)).collect();
    let after = query.after.as_ref().map(|after| after.as_str().to_owned());
    let limit = query.limit.map(|limit| i64::try_from(limit).unwrap_or(i64::MAX));
    let rows = db.query(&SQL, &values![ahead_ms, states, after, limit]).await?;
    readable(rows.iter().map(|row| Ok(read(row)?.agent)))
}

/// The sums of `Store::agents_mark`, made where the rows are.
pub(super) async fn mark(db: &Connection) -> Result<Mark, Failure> {
    let sql = "SELECT count(*), sum(fence)::bigint, max(n),
                      (sum(hashtextextended(name, 0) >> 20) FILTER (WHERE NOT held))::bigint
               FROM agent";
    let row = db.query_opt(sql, &[]).await?.expect("sums without groups are one row");
    let sum = |at| row.get::<_, Option<i64>>(at).unwrap_or_default();
    Ok([sum(0), sum(1), sum(2), sum(3), 0])
}

/// The agents that cannot be read, with the reason.
pub(super) async fn unreadable(db: &Connection) -> Result<Vec<String>, Failure> {
    let sql = format!("{} ORDER BY name", *SELECT);
    let rows = db.query_within(LONG_WAIT, &sql, &values![0_i64]).await?;
    let bad = |row: &Row| {
        let error = read(row).err()?;
        Some(format!("agent {} cannot be read: {error}", row.get::<_, String>(1)))
    };
    Ok(rows.iter().filter_map(bad).collect())
}

pub(super) async fn count_by_state(db: &Connection) -> Result<Vec<(AgentStateKind, u64)>, Failure> {
    let sql = "SELECT state, COUNT(*) FROM agent GROUP BY state ORDER BY state";
    let rows = db.query(sql, &[]).await?;
    readable(rows.iter().map(|row| Ok((state_from_code(get(row, 0)?)?, unsigned(row, 1)?))))
}

/// These agents, held until the transaction ends.
pub(super) static LOCK: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT a.* FROM unnest($2::text[]) AS w (wanted)
         CROSS JOIN LATERAL ({} WHERE agent.name = w.wanted FOR UPDATE) AS a",
        *SELECT
    )
});

/// Numbers of agents to be.
pub(super) const NUMBERS: &str =
    "SELECT nextval('agent_n_seq') FROM generate_series(1, $1::bigint)";

pub(super) fn read(row: &Row) -> Result<AgentEntry, BadValue> {
    let mut body: AgentBody = from_json(get(row, 8)?, "agent.body")?;
    let ttl = get::<Option<i64>>(row, 4)?.map(|ms| Span::from_ms(ms.cast_unsigned()));
    let (lease_until, now_ms) = (get(row, 5)?, get(row, 9)?);
    let held = match (get(row, 3)?, body.holder.take(), body.held_since) {
        (true, Some(holder), Some(since)) => {
            Some(Held { holder, ttl, since, left: ttl.map(|_| left(lease_until, now_ms)) })
        }
        (true, ..) => return Err(bad_value("agent.body", "a lease that nobody holds")),
        (false, ..) => None,
    };
    let lease = Lease { fence: Fence(unsigned(row, 2)?), held };
    let name = parse(get(row, 1)?, "agent.name")?;
    let agent = body.into_agent(name, lease, unsigned(row, 6)?, Time::from_ms(get(row, 7)?));
    Ok(AgentEntry { n: get(row, 0)?, agent, lease_until, is_new: false, is_changed: false })
}

/// Agents as columns.
#[derive(Debug, Default)]
pub(super) struct AgentColumns {
    n: Vec<i64>,
    name: Vec<String>,
    state: Vec<i16>,
    fence: Vec<i64>,
    held: Vec<bool>,
    lease_ttl: Vec<Option<i64>>,
    lease_until: Vec<Option<i64>>,
    seq: Vec<i64>,
    updated_at: Vec<i64>,
    body: Vec<String>,
}

impl AgentColumns {
    pub(super) fn push(&mut self, row: &AgentEntry) {
        let agent = &row.agent;
        let held = agent.lease.held.as_ref();
        self.n.push(row.n);
        self.name.push(agent.name.as_str().to_owned());
        self.state.push(state_code(agent.state.kind()));
        self.fence.push(agent.lease.fence.0.cast_signed());
        self.held.push(held.is_some());
        self.lease_ttl.push(held.and_then(|held| held.ttl).map(|ttl| ttl.as_ms().cast_signed()));
        self.lease_until.push(row.lease_until);
        self.seq.push(agent.seq.cast_signed());
        self.updated_at.push(agent.updated_at.as_ms());
        self.body.push(to_json(&AgentBody::of(agent)));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.n.is_empty()
    }

    pub(super) fn into_values(self) -> Vec<Value> {
        values![
            self.n,
            self.name,
            self.state,
            self.fence,
            self.held,
            self.lease_ttl,
            self.lease_until,
            self.seq,
            self.updated_at,
            self.body,
        ]
    }
}

pub(super) const INSERT: &str = "
    INSERT INTO agent (n, name, state, fence, held, lease_ttl, lease_until, seq, updated_at, body)
    SELECT * FROM unnest($1::bigint[], $2::text[], $3::smallint[], $4::bigint[], $5::boolean[],
                         $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::text[])";

pub(super) const UPDATE: &str = "
    UPDATE agent a SET state = u.state, fence = u.fence, held = u.held, lease_ttl = u.lease_ttl,
        lease_until = u.lease_until, seq = u.seq, updated_at = u.updated_at, body = u.body
    FROM unnest($1::bigint[], $2::text[], $3::smallint[], $4::bigint[], $5::boolean[],
                $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::text[])
        AS u (n, name, state, fence, held, lease_ttl, lease_until, seq, updated_at, body)
    WHERE a.n = u.n";

/// Its place in the list of all, from 1.
fn state_code(state: AgentStateKind) -> i16 {
    let place = AgentStateKind::ALL.iter().position(|other| *other == state);
    place.expect("the list has all states") as i16 + 1
}

fn state_from_code(code: i16) -> Result<AgentStateKind, BadValue> {
    let place = usize::try_from(code - 1).ok();
    let state = place.and_then(|place| AgentStateKind::ALL.get(place));
    state.copied().ok_or_else(|| bad_value("agent.state", code))
}
