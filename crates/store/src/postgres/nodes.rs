//! Nodes as rows, and those of a batch in memory.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use relight_core::event::EventKind;
use relight_core::ids::NodeName;
use relight_core::node::{Epoch, NewNode, Node, NodesGlance};
use relight_core::time::Time;
use tokio_postgres::Row;

use super::connection::{Connection, Value, get, values};
use super::error::{BadValue, Failure};
use super::journal::Entry;
use super::lease_clock::{NOW_MS, left, until};
use super::open;
use super::tasks::{from_json, readable, unsigned};
use crate::bodies::to_json;
use crate::check;
use crate::contract::Joined;
use crate::node_told::{self, NodeTold};

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

/// A node, and when its lease runs out.
#[derive(Debug, Clone)]
pub(super) struct NodeRow {
    node: Node,
    lease_until: i64,
}

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

/// The nodes of a batch.
#[derive(Debug, Default)]
pub(super) struct Nodes(BTreeMap<NodeName, NodeEntry>);

#[derive(Debug, Default)]
struct NodeEntry {
    /// None when it is not there, or not any more.
    row: Option<NodeRow>,
    was_there: bool,
    is_changed: bool,
}

impl NodeEntry {
    /// As somebody would read it at this moment.
    fn read(&self, now_ms: i64) -> Option<Node> {
        let row = self.row.as_ref()?;
        Some(Node { left: left(Some(row.lease_until), now_ms), ..row.node.clone() })
    }

    fn live(&mut self, epoch: Epoch, now_ms: i64) -> Option<&mut NodeRow> {
        let is_it = |row: &&mut NodeRow| row.node.epoch == epoch && row.lease_until > now_ms;
        let found = self.row.as_mut().filter(is_it)?;
        self.is_changed = true;
        Some(found)
    }
}

impl Nodes {
    /// Takes in a node as it was read.
    pub(super) fn know(&mut self, row: NodeRow) {
        let name = row.node.new.name.clone();
        self.0.insert(name, NodeEntry { row: Some(row), was_there: true, is_changed: false });
    }

    pub(super) fn join(
        &mut self,
        new: &NewNode,
        last: Option<Epoch>,
        at: Time,
        now_ms: i64,
        journal: &mut Vec<Entry>,
    ) -> Joined {
        let entry = self.0.entry(new.name.clone()).or_default();
        let before = entry.read(now_ms);
        let epoch = match check::joins(before.as_ref(), new, last) {
            Ok(epoch) => epoch,
            Err(refused) => return refused,
        };
        let draining = before.is_some_and(|node| node.draining);
        let lease_until = until(Some(new.ttl), now_ms).unwrap_or(now_ms);
        let node = Node { new: new.clone(), epoch, draining, joined_at: at, left: new.ttl };
        entry.row = Some(NodeRow { node, lease_until });
        entry.is_changed = true;
        tell(journal, &new.name, NodeTold::Joined(epoch), at);
        Joined::As(epoch)
    }

    pub(super) fn leave(
        &mut self,
        name: &NodeName,
        epoch: Epoch,
        at: Time,
        now_ms: i64,
        journal: &mut Vec<Entry>,
    ) -> bool {
        let row = self.0.get_mut(name).and_then(|entry| entry.live(epoch, now_ms));
        let Some(row) = row else { return false };
        row.lease_until = 0;
        tell(journal, name, NodeTold::Left, at);
        true
    }

    pub(super) fn drain(
        &mut self,
        name: &NodeName,
        draining: bool,
        at: Time,
        journal: &mut Vec<Entry>,
    ) -> bool {
        let Some(entry) = self.0.get_mut(name) else { return false };
        let Some(row) = entry.row.as_mut() else { return false };
        row.node.draining = draining;
        entry.is_changed = true;
        tell(journal, name, NodeTold::Draining(draining), at);
        true
    }

    pub(super) fn forget(
        &mut self,
        name: &NodeName,
        at: Time,
        now_ms: i64,
        journal: &mut Vec<Entry>,
    ) -> bool {
        let Some(entry) = self.0.get_mut(name) else { return false };
        if entry.read(now_ms).is_none_or(|node| node.is_live()) {
            return false;
        }
        (entry.row, entry.is_changed) = (None, true);
        tell(journal, name, NodeTold::Forgotten, at);
        true
    }

    /// What is to be written: new ones, changed ones, and the names of those that are gone.
    pub(super) fn written(self) -> (NodeColumns, NodeColumns, Vec<String>) {
        let (mut new, mut changed) = (NodeColumns::default(), NodeColumns::default());
        let mut gone = Vec::new();
        for (name, entry) in self.0.into_iter().filter(|(_, entry)| entry.is_changed) {
            match (&entry.row, entry.was_there) {
                (Some(row), true) => changed.push(row),
                (Some(row), false) => new.push(row),
                (None, true) => gone.push(name.as_str().to_owned()),
                (None, false) => {}
            }
        }
        (new, changed, gone)
    }
}

fn tell(journal: &mut Vec<Entry>, name: &NodeName, told: NodeTold, at: Time) {
    journal.push(Entry::of_nothing(at, EventKind::Node, &node_told::detail(name, told)));
}

/// Nodes as columns.
#[derive(Debug, Default)]
pub(super) struct NodeColumns {
    name: Vec<String>,
    epoch: Vec<i64>,
    lease_until: Vec<i64>,
    joined_at: Vec<i64>,
    draining: Vec<bool>,
    body: Vec<String>,
}

impl NodeColumns {
    fn push(&mut self, row: &NodeRow) {
        self.name.push(row.node.new.name.as_str().to_owned());
        self.epoch.push(row.node.epoch.0.cast_signed());
        self.lease_until.push(row.lease_until);
        self.joined_at.push(row.node.joined_at.as_ms());
        self.draining.push(row.node.draining);
        self.body.push(to_json(&row.node.new));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.name.is_empty()
    }

    pub(super) fn into_values(self) -> Vec<Value> {
        values![self.name, self.epoch, self.lease_until, self.joined_at, self.draining, self.body]
    }
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
