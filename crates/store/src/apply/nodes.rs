//! The nodes of a working set.

use std::borrow::Cow;
use std::collections::BTreeMap;

use relight_core::event::EventKind;
use relight_core::ids::NodeName;
use relight_core::node::{Epoch, NewNode, Node};
use relight_core::time::Time;
use serde_json::json;

use super::{JournalEntry, left, until};
use crate::commit_guards;
use crate::contract::Joined;

/// A node and the end of its lease.
#[derive(Debug, Clone)]
pub(crate) struct NodeRow {
    /// Its `left` is not maintained here; see `lease_until`.
    pub(crate) node: Node,
    pub(crate) lease_until: i64,
}

impl NodeRow {
    /// The node as readers get it at this time.
    pub(crate) fn read(&self, now_ms: i64) -> Node {
        Node {
            left: left(Some(self.lease_until), now_ms),
            ..self.node.clone()
        }
    }
}

/// The loaded nodes.
#[derive(Debug, Default)]
pub(crate) struct Nodes(BTreeMap<NodeName, NodeEntry>);

#[derive(Debug, Default)]
struct NodeEntry {
    /// None if it does not exist or was removed.
    row: Option<NodeRow>,
    was_there: bool,
    is_changed: bool,
}

impl NodeEntry {
    fn live(&mut self, epoch: Epoch, now_ms: i64) -> Option<&mut NodeRow> {
        let is_it = |row: &&mut NodeRow| row.node.epoch == epoch && row.lease_until > now_ms;
        let found = self.row.as_mut().filter(is_it)?;
        self.is_changed = true;
        Some(found)
    }
}

impl Nodes {
    /// Adds a node that was loaded.
    pub(crate) fn know(&mut self, row: NodeRow) {
        let name = row.node.new.name.clone();
        self.0.insert(
            name,
            NodeEntry {
                row: Some(row),
                was_there: true,
                is_changed: false,
            },
        );
    }

    /// The existing nodes by name.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &NodeRow> {
        self.0.values().filter_map(|entry| entry.row.as_ref())
    }

    pub(super) fn join(
        &mut self,
        new: &NewNode,
        last: Option<Epoch>,
        at: Time,
        now_ms: i64,
        journal: &mut Vec<JournalEntry<'_>>,
    ) -> Joined {
        let entry = self.0.entry(new.name.clone()).or_default();
        let before = entry.row.as_ref().map(|row| row.read(now_ms));
        let epoch = match commit_guards::joins(before.as_ref(), new, last) {
            Ok(epoch) => epoch,
            Err(refused) => return refused,
        };
        let draining = before.is_some_and(|node| node.draining);
        let lease_until = until(Some(new.ttl), now_ms).unwrap_or(now_ms);
        let node = Node {
            new: new.clone(),
            epoch,
            draining,
            joined_at: at,
            left: new.ttl,
        };
        entry.row = Some(NodeRow { node, lease_until });
        entry.is_changed = true;
        let detail = json!({"node": new.name, "what": "joined", "epoch": epoch});
        journal.push(JournalEntry::of_nothing(
            at,
            EventKind::Node,
            Cow::Owned(detail),
        ));
        Joined::As(epoch)
    }

    pub(super) fn renew(&mut self, name: &NodeName, epoch: Epoch, now_ms: i64) -> bool {
        let row = self
            .0
            .get_mut(name)
            .and_then(|entry| entry.live(epoch, now_ms));
        let Some(row) = row else { return false };
        row.lease_until = until(Some(row.node.new.ttl), now_ms).unwrap_or(now_ms);
        true
    }

    pub(super) fn leave(
        &mut self,
        name: &NodeName,
        epoch: Epoch,
        at: Time,
        now_ms: i64,
        journal: &mut Vec<JournalEntry<'_>>,
    ) -> bool {
        let row = self
            .0
            .get_mut(name)
            .and_then(|entry| entry.live(epoch, now_ms));
        let Some(row) = row else { return false };
        row.lease_until = 0;
        tell(journal, name, "left", at);
        true
    }

    pub(super) fn drain(
        &mut self,
        name: &NodeName,
        draining: bool,
        at: Time,
        journal: &mut Vec<JournalEntry<'_>>,
    ) -> bool {
        let Some(entry) = self.0.get_mut(name) else {
            return false;
        };
        let Some(row) = entry.row.as_mut() else {
            return false;
        };
        row.node.draining = draining;
        entry.is_changed = true;
        tell(
            journal,
            name,
            if draining { "draining" } else { "resumed" },
            at,
        );
        true
    }

    pub(super) fn forget(
        &mut self,
        name: &NodeName,
        at: Time,
        now_ms: i64,
        journal: &mut Vec<JournalEntry<'_>>,
    ) -> bool {
        let Some(entry) = self.0.get_mut(name) else {
            return false;
        };
        if entry
            .row
            .as_ref()
            .is_none_or(|row| row.read(now_ms).is_live())
        {
            return false;
        }
        (entry.row, entry.is_changed) = (None, true);
        tell(journal, name, "removed", at);
        true
    }

    /// What to write: new nodes, changed nodes, and the names of removed ones.
    pub(crate) fn written(&self) -> (Vec<&NodeRow>, Vec<&NodeRow>, Vec<&NodeName>) {
        let (mut new, mut changed, mut gone) = (Vec::new(), Vec::new(), Vec::new());
        for (name, entry) in self.0.iter().filter(|(_, entry)| entry.is_changed) {
            match (&entry.row, entry.was_there) {
                (Some(row), true) => changed.push(row),
                (Some(row), false) => new.push(row),
                (None, true) => gone.push(name),
                (None, false) => {}
            }
        }
        (new, changed, gone)
    }
}

fn tell(journal: &mut Vec<JournalEntry<'_>>, name: &NodeName, what: &str, at: Time) {
    let detail = json!({"node": name, "what": what});
    journal.push(JournalEntry::of_nothing(
        at,
        EventKind::Node,
        Cow::Owned(detail),
    ));
}
