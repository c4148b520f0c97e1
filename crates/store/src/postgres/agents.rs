//! Agents as rows.

use std::sync::LazyLock;

use relight_core::agent::{Agent, AgentStateKind};
use relight_core::ids::AgentName;
use relight_core::node::Mark;
use tokio_postgres::Row;

use super::connection::{Connection, LONG_WAIT, values};
use super::error::Failure;
use super::rows::{self, Lease, columns, insert_sql, update_sql};
use super::tasks::readable;
use crate::contract::AgentQuery;
use crate::record::{BadValue, Reader, read_agent, state_code, state_from_code};
use crate::transfer::Table;

static SELECT: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {} FROM agent", columns(Table::Agent, Lease::Left)));

fn read(row: &Row) -> Result<Agent, BadValue> {
    Ok(rows::read(row, read_agent)?.agent)
}

pub(super) async fn by_name(
    db: &Connection,
    name: &AgentName,
    ahead_ms: i64,
) -> Result<Option<Agent>, Failure> {
    static SQL: LazyLock<String> = LazyLock::new(|| format!("{} WHERE name = $2", *SELECT));
    let row = db.query_opt(&SQL, &values![ahead_ms, name.as_str().to_owned()]).await?;
    row.as_ref().map(read).transpose().map_err(|bad| db.damaged(&bad))
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
    let states: Vec<i16> = query.states.iter().map(|state| state_code(*state).into()).collect();
    let after = query.after.as_ref().map(|after| after.as_str().to_owned());
    let limit = query.limit.map(|limit| i64::try_from(limit).unwrap_or(i64::MAX));
    let rows = db.query(&SQL, &values![ahead_ms, states, after, limit]).await?;
    readable(rows.iter().map(read))
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
    let count =
        |row: &mut Reader<'_>| Ok((row.code("agent.state", state_from_code)?, row.unsigned("n")?));
    readable(rows.iter().map(|row| rows::read(row, count)))
}

/// These agents, held until the transaction ends.
pub(super) static LOCK: LazyLock<String> = LazyLock::new(|| {
    let columns = columns(Table::Agent, Lease::Until);
    format!(
        "SELECT a.* FROM unnest($1::text[]) AS w (wanted) CROSS JOIN LATERAL
             (SELECT {columns} FROM agent WHERE agent.name = w.wanted FOR UPDATE) AS a"
    )
});

/// Numbers of agents to be.
pub(super) const NUMBERS: &str =
    "SELECT nextval('agent_n_seq') FROM generate_series(1, $1::bigint)";

pub(super) static INSERT: LazyLock<String> =
    LazyLock::new(|| insert_sql("agent", Table::Agent.columns()));

pub(super) static UPDATE: LazyLock<String> =
    LazyLock::new(|| update_sql("agent", Table::Agent.columns(), "n", &["name"]));
