//! Agents as rows.

use std::sync::LazyLock;

use relight_core::agent::Agent;
use relight_core::ids::AgentName;
use relight_core::node::ChangeToken;

use super::connection::{Connection, values};
use super::error::PostgresFailure;
use super::rows::{self, LeaseColumn, columns, insert_sql, update_sql};
use crate::contract::{AgentQuery, UnreadableRow};
use crate::record::Table;
use crate::record::{list_agents, read_agent};

static SELECT: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {} FROM agent",
        columns(Table::Agent, LeaseColumn::Left)
    )
});

pub(super) async fn by_name(
    db: &Connection,
    name: &AgentName,
    ahead_ms: i64,
) -> Result<Option<Agent>, PostgresFailure> {
    static SQL: LazyLock<String> = LazyLock::new(|| format!("{} WHERE name = $2", *SELECT));
    let values = values![ahead_ms, name.as_str().to_owned()];
    Ok(rows::one(db, &SQL, &values, read_agent)
        .await?
        .map(|entry| entry.agent))
}

pub(super) async fn list(
    db: &Connection,
    query: &AgentQuery,
    ahead_ms: i64,
) -> Result<Vec<Agent>, PostgresFailure> {
    let list = list_agents(&SELECT, vec![ahead_ms.into()], query);
    rows::list(db, list, |row| Ok(read_agent(row)?.agent)).await
}

/// The sums of `Store::agents_mark`, computed by the database.
pub(super) async fn mark(db: &Connection) -> Result<ChangeToken, PostgresFailure> {
    let sql = "SELECT count(*), sum(fence)::bigint, max(n),
                      (sum(hashtextextended(name, 0) >> 20) FILTER (WHERE NOT held))::bigint
               FROM agent";
    let row = db
        .query_opt(sql, &[])
        .await?
        .expect("sums without groups are one row");
    let sum = |at| row.get::<_, Option<i64>>(at).unwrap_or_default();
    Ok([sum(0), sum(1), sum(2), sum(3), 0])
}

/// The agents of a list that cannot be read.
pub(super) async fn unreadable(
    db: &Connection,
    query: &AgentQuery,
) -> Result<Vec<UnreadableRow>, PostgresFailure> {
    let list = list_agents(&SELECT, vec![0.into()], query);
    rows::unreadable(db, list, ("agent", 1), read_agent).await
}

/// Locks these agents until the transaction ends.
pub(super) static LOCK: LazyLock<String> = LazyLock::new(|| {
    let columns = columns(Table::Agent, LeaseColumn::Until);
    format!(
        "SELECT a.* FROM unnest($1::text[]) AS w (wanted) CROSS JOIN LATERAL
             (SELECT {columns} FROM agent WHERE agent.name = w.wanted FOR UPDATE) AS a"
    )
});

/// Reserves numbers for new agents.
pub(super) const NUMBERS: &str =
    "SELECT nextval('agent_n_seq') FROM generate_series(1, $1::bigint)";

pub(super) static INSERT: LazyLock<String> =
    LazyLock::new(|| insert_sql("agent", Table::Agent.columns()));

pub(super) static UPDATE: LazyLock<String> =
    LazyLock::new(|| update_sql("agent", Table::Agent.columns(), "n", &["name"]));
