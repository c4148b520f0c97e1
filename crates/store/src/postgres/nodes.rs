//! Nodes as rows.

use std::sync::LazyLock;

use relight_core::ids::NodeName;
use relight_core::node::{Epoch, Node, NodesGlance};
use relight_core::time::Time;
use tokio_postgres::Row;

use super::connection::{Connection, Value, get, values};
use super::error::{BadValue, Failure};
use super::lease_clock::NOW_MS;
use super::open;
use super::tasks::{from_json, readable, unsigned};
use crate::apply::{NodeRow, left};
use crate::bodies::to_json;

static SELECT: LazyLock<String> = LazyLock::new(|| {
    format!("SELECT name, epoch, draining, joined_at, lease_until, body, {NOW_MS} FROM node")
});

pub(super) async fn list(db: &Connection, ahead_ms: i64) -> Result<Vec<Node>, Failure> {
    static SQL: LazyLock<String> = LazyLock::new(|| format!("{} ORDER BY name", *SELECT));
    let rows = db.query(&SQL, &values![ahead_ms]).await?;
    readable(rows.iter().map(|row| Ok(read(row)?.node)))
}

/// The sums of `NodesGlance::of`, made where the rows are: one row goes over the wire, not all.
pub(super) async fn glance(db: &Connection, ahead_ms: i64) -> Result<NodesGlance, Failure> {
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
    Ok(NodesGlance { mark, first_end: first_end.map(|end_ms| left(Some(end_ms), now_ms)) })
}

/// Gives a lease its whole time again, in one trip and one row: the most frequent write of a fleet. It goes
/// past the writer, so that it never waits behind a batch, wakes nobody, and may be repeated when its
/// answer was lost. A node whose version is too old for the schema by now is refused.
pub(super) async fn renew(
    db: &Connection,
    name: &NodeName,
    epoch: Epoch,
    ahead_ms: i64,
) -> Result<bool, Failure> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        format!(
            "UPDATE node SET lease_until = {NOW_MS} + (body::json ->> 'ttl')::bigint
             WHERE name = $2 AND epoch = $3 AND lease_until > {NOW_MS}
               AND (SELECT min_compatible FROM meta WHERE one) <= $4 RETURNING 1"
        )
    });
    let known = i32::try_from(open::schema_known()).unwrap_or(i32::MAX);
    let values = values![ahead_ms, name.as_str().to_owned(), epoch.0.cast_signed(), known];
    Ok(db.query_opt(&SQL, &values).await?.is_some())
}

/// These nodes, held until the transaction ends.
pub(super) static LOCK: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT n.* FROM unnest($2::text[]) AS w (wanted)
         CROSS JOIN LATERAL ({} WHERE node.name = w.wanted FOR UPDATE) AS n",
        *SELECT
    )
});

pub(super) fn read(row: &Row) -> Result<NodeRow, BadValue> {
    let lease_until = get(row, 4)?;
    let node = Node {
        new: from_json(get(row, 5)?, "node.body")?,
        epoch: Epoch(unsigned(row, 1)?),
        draining: get(row, 2)?,
        joined_at: Time::from_ms(get(row, 3)?),
        left: left(Some(lease_until), get(row, 6)?),
    };
    Ok(NodeRow { node, lease_until })
}

/// Nodes as columns.
pub(super) fn values_of(rows: &[&NodeRow]) -> Vec<Value> {
    let texts = |text: &dyn Fn(&Node) -> String| -> Vec<String> {
        rows.iter().map(|row| text(&row.node)).collect()
    };
    let numbers =
        |number: fn(&NodeRow) -> i64| -> Vec<i64> { rows.iter().map(|row| number(row)).collect() };
    values![
        texts(&|node| node.new.name.as_str().to_owned()),
        numbers(|row| row.node.epoch.0.cast_signed()),
        numbers(|row| row.lease_until),
        numbers(|row| row.node.joined_at.as_ms()),
        rows.iter().map(|row| row.node.draining).collect::<Vec<bool>>(),
        texts(&|node| to_json(&node.new)),
    ]
}

pub(super) const INSERT: &str = "
    INSERT INTO node (name, epoch, lease_until, joined_at, draining, body)
    SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::boolean[],
                         $6::text[])";

pub(super) const UPDATE: &str = "
    UPDATE node n SET epoch = u.epoch, lease_until = u.lease_until, joined_at = u.joined_at,
        draining = u.draining, body = u.body
    FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::boolean[], $6::text[])
        AS u (name, epoch, lease_until, joined_at, draining, body)
    WHERE n.name = u.name";

pub(super) const DELETE: &str = "DELETE FROM node WHERE name = ANY($1)";
