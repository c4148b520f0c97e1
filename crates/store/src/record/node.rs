//! A node as a row.

use relight_core::node::{Epoch, Node};
use relight_core::time::Span;

use super::Row;
use super::{BadValue, RowReader};
use crate::apply::NodeRow;
use crate::bodies::to_json;

pub(crate) fn read_node(row: &mut RowReader<'_>) -> Result<Node, BadValue> {
    row.text("node.name")?;
    let epoch = Epoch(row.unsigned("node.epoch")?);
    let draining = row.flag("node.draining")?;
    let joined_at = row.time("node.joined_at")?;
    let new = row.json("node.body")?;
    let left = row.some_span("node.lease_left")?.unwrap_or(Span::ZERO);
    Ok(Node {
        new,
        epoch,
        draining,
        joined_at,
        left,
    })
}

/// `lease_left` holds the end of the lease.
pub(crate) fn node_row(row: &NodeRow) -> Row {
    let node = &row.node;
    vec![
        node.new.name.as_str().into(),
        node.epoch.0.into(),
        node.draining.into(),
        node.joined_at.into(),
        to_json(&node.new).into(),
        row.lease_until.into(),
    ]
}
