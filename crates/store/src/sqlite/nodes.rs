//! Nodes as rows.

use std::sync::LazyLock;

use relight_core::ids::NodeName;
use relight_core::node::Node;
use rusqlite::{Connection, OptionalExtension, Result, params};

use super::lease_clock::LeaseNow;
use super::rows::{self, columns};
use crate::apply::{NodeRow, Nodes};
use crate::record::Table;
use crate::record::{node_row, read_node};

static SELECT: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {} FROM node", columns(Table::Node)));

pub(super) fn list(db: &Connection, now: LeaseNow) -> Result<Vec<Node>> {
    let mut select = db.prepare_cached(&format!("{} ORDER BY name", *SELECT))?;
    rows::readable(select.query_map([now.ms, now.boot], |row| rows::read(row, read_node))?)
}

pub(super) fn for_write(
    db: &Connection,
    name: &NodeName,
    now: LeaseNow,
) -> Result<Option<NodeRow>> {
    let mut select = db.prepare_cached(&format!("{} WHERE name = ?3", *SELECT))?;
    let values = params![now.ms, now.boot, name.as_str()];
    let node = select
        .query_row(values, |row| rows::read(row, read_node))
        .optional()?;
    Ok(node.map(|node| {
        let lease_until = now.ms.saturating_add_unsigned(node.left.as_ms());
        NodeRow { node, lease_until }
    }))
}

pub(super) fn write(db: &Connection, nodes: &Nodes, now: LeaseNow) -> Result<()> {
    let (new, changed, gone) = nodes.written();
    for row in new.into_iter().chain(changed) {
        rows::insert(db, Table::Node, node_row(row), now)?;
    }
    for name in gone {
        db.prepare_cached("DELETE FROM node WHERE name = ?1")?
            .execute([name.as_str()])?;
    }
    Ok(())
}
