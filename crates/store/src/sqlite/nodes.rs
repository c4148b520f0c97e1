//! Nodes as rows.

use relight_core::ids::NodeName;
use relight_core::node::{Epoch, Node};
use relight_core::time::Time;
use rusqlite::{Connection, OptionalExtension, Result, Row, params};

use super::lease_clock::LeaseNow;
use super::tasks::{from_json, left, readable, to_json, unsigned};
use crate::apply::{NodeRow, Nodes};

const SELECT: &str = "SELECT epoch, draining, joined_at, lease_until, lease_boot, body FROM node";

pub(super) fn list(db: &Connection, now: LeaseNow) -> Result<Vec<Node>> {
    let mut select = db.prepare_cached(&format!("{SELECT} ORDER BY name"))?;
    readable(select.query_map([], |row| read(row, now))?)
}

pub(super) fn for_write(
    db: &Connection,
    name: &NodeName,
    now: LeaseNow,
) -> Result<Option<NodeRow>> {
    let mut select = db.prepare_cached(&format!("{SELECT} WHERE name = ?1"))?;
    let node = select.query_row([name.as_str()], |row| read(row, now)).optional()?;
    Ok(node.map(|node| {
        let lease_until = now.ms.saturating_add_unsigned(node.left.as_ms());
        NodeRow { node, lease_until }
    }))
}

pub(super) fn write(db: &Connection, nodes: &Nodes, now: LeaseNow) -> Result<()> {
    let (new, changed, gone) = nodes.written();
    for row in new.into_iter().chain(changed) {
        let mut write = db.prepare_cached(
            "INSERT OR REPLACE INTO node (name, epoch, lease_ttl, lease_until, lease_boot, draining,
                                          joined_at, body)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?;
        let node = &row.node;
        write.execute(params![
            node.new.name.as_str(),
            node.epoch.0.cast_signed(),
            node.new.ttl.as_ms().cast_signed(),
            row.lease_until,
            now.boot,
            node.draining,
            node.joined_at.as_ms(),
            to_json(&node.new),
        ])?;
    }
    for name in gone {
        db.prepare_cached("DELETE FROM node WHERE name = ?1")?.execute([name.as_str()])?;
    }
    Ok(())
}

fn read(row: &Row<'_>, now: LeaseNow) -> Result<Node> {
    Ok(Node {
        new: from_json(row.get_ref(5)?.as_str()?, "node.body")?,
        epoch: Epoch(unsigned(row, 0)?),
        draining: row.get(1)?,
        joined_at: Time::from_ms(row.get(2)?),
        left: left(row.get(3)?, row.get(4)?, now),
    })
}
