//! Nodes as rows.

use std::sync::LazyLock;

use relight_core::ids::NodeName;
use relight_core::node::{Epoch, Node, NodesSummary};
use tokio_postgres::Row;

use super::connection::{Connection, values};
use super::error::PostgresFailure;
use super::lease_clock::NOW_MS;
use super::open;
use super::rows::{self, LeaseColumn, columns, insert_sql, update_sql};
use crate::apply::{NodeRow, left};
use crate::record::Table;
use crate::record::{BadValue, read_node};

static SELECT: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {} FROM node",
        columns(Table::Node, LeaseColumn::Left)
    )
});

pub(super) async fn list(db: &Connection, ahead_ms: i64) -> Result<Vec<Node>, PostgresFailure> {
    static SQL: LazyLock<String> = LazyLock::new(|| format!("{} ORDER BY name", *SELECT));
    let rows = db.query(&SQL, &values![ahead_ms]).await?;
    Ok(rows::readable(&rows, read_node))
}

/// The sums of `NodesSummary::of`, made where the rows are: one row goes over the wire, not all.
pub(super) async fn glance(
    db: &Connection,
    ahead_ms: i64,
) -> Result<NodesSummary, PostgresFailure> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        format!(
            "SELECT count(*), sum(epoch)::bigint, sum(joined_at)::bigint,
                    (sum(hashtextextended(name, 0) >> 20) FILTER (WHERE draining))::bigint,
                    (sum(hashtextextended(name, 0) >> 20) FILTER (WHERE lease_until <= now_ms))::bigint,
                    min(lease_until) FILTER (WHERE lease_until > now_ms), min(now_ms)
             FROM node, (SELECT {NOW_MS} AS now_ms OFFSET 0) AS clock"
        )
    });
    let row = db.query_opt(&SQL, &values![ahead_ms]).await?;
    let row = row.expect("sums without groups are one row");
    let sum = |at| row.get::<_, Option<i64>>(at).unwrap_or_default();
    let (first_end, now_ms) = (row.get::<_, Option<i64>>(5), sum(6));
    let mark = [sum(0), sum(1), sum(2), sum(3), sum(4)];
    Ok(NodesSummary {
        mark,
        first_end: first_end.map(|end_ms| left(Some(end_ms), now_ms)),
    })
}

/// Renews a lease in one round trip and one row: the most frequent write of a fleet. It bypasses the
/// writer, so it never waits behind a batch; it notifies no subscriber and may be repeated if its answer
/// was lost. A node whose version is now too old for the schema is refused.
pub(super) async fn renew(
    db: &Connection,
    name: &NodeName,
    epoch: Epoch,
    ahead_ms: i64,
) -> Result<bool, PostgresFailure> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        format!(
            "UPDATE node SET lease_until = {NOW_MS} + (body::json ->> 'ttl')::bigint
             WHERE name = $2 AND epoch = $3 AND lease_until > {NOW_MS}
               AND (SELECT min_compatible FROM meta WHERE one) <= $4 RETURNING 1"
        )
    });
    let known = i32::try_from(open::schema_known()).unwrap_or(i32::MAX);
    let values = values![
        ahead_ms,
        name.as_str().to_owned(),
        epoch.0.cast_signed(),
        known
    ];
    Ok(db.query_opt(&SQL, &values).await?.is_some())
}

/// These nodes, held until the transaction ends.
pub(super) static LOCK: LazyLock<String> = LazyLock::new(|| {
    let columns = columns(Table::Node, LeaseColumn::Until);
    format!(
        "SELECT n.* FROM unnest($1::text[]) AS w (wanted) CROSS JOIN LATERAL
             (SELECT {columns} FROM node WHERE node.name = w.wanted FOR UPDATE) AS n"
    )
});

/// One of them.
pub(super) fn read_locked(row: &Row) -> Result<NodeRow, BadValue> {
    let node = rows::read(row, read_node)?;
    Ok(NodeRow {
        lease_until: node.left.as_ms().cast_signed(),
        node,
    })
}

pub(super) static INSERT: LazyLock<String> =
    LazyLock::new(|| insert_sql("node", Table::Node.columns()));

pub(super) static UPDATE: LazyLock<String> =
    LazyLock::new(|| update_sql("node", Table::Node.columns(), "name", &[]));

pub(super) const DELETE: &str = "DELETE FROM node WHERE name = ANY($1)";
