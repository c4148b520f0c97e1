//! Nodes in memory.

use relight_core::event::EventKind;
use relight_core::ids::NodeName;
use relight_core::node::{Epoch, NewNode, Node, NodesGlance};
use relight_core::time::{Span, Time};

use super::state::State;
use crate::check;
use crate::contract::Joined;
use crate::node_told::{self, NodeTold};

/// A node with what a store knows beside it.
#[derive(Debug)]
pub(super) struct KeptNode {
    /// Its `left` is of no meaning here; `read` fills it in.
    node: Node,
    /// When its lease runs out, by the lease clock.
    ends_ms: u64,
}

impl KeptNode {
    fn read(&self, clock_ms: u64) -> Node {
        let left = Span::from_ms(self.ends_ms.saturating_sub(clock_ms));
        Node { left, ..self.node.clone() }
    }
}

impl State {
    pub(super) fn join_node(&mut self, new: NewNode, last: Option<Epoch>, at: Time) -> Joined {
        let before = self.nodes.get(&new.name).map(|kept| kept.read(self.clock_ms));
        let epoch = match check::joins(before.as_ref(), &new, last) {
            Ok(epoch) => epoch,
            Err(refused) => return refused,
        };
        let draining = before.is_some_and(|node| node.draining);
        let ends_ms = self.clock_ms.saturating_add(new.ttl.as_ms());
        let name = new.name.clone();
        let node = Node { new, epoch, draining, joined_at: at, left: Span::ZERO };
        self.nodes.insert(name.clone(), KeptNode { node, ends_ms });
        self.tell_of_node(&name, NodeTold::Joined(epoch), at);
        Joined::As(epoch)
    }

    pub(super) fn renew_node(&mut self, name: &NodeName, epoch: Epoch) -> bool {
        let clock_ms = self.clock_ms;
        let Some(kept) = self.live_node(name, epoch) else { return false };
        kept.ends_ms = clock_ms.saturating_add(kept.node.new.ttl.as_ms());
        true
    }

    pub(super) fn leave_node(&mut self, name: &NodeName, epoch: Epoch, at: Time) -> bool {
        let Some(kept) = self.live_node(name, epoch) else { return false };
        kept.ends_ms = 0;
        self.tell_of_node(name, NodeTold::Left, at);
        true
    }

    pub(super) fn drain_node(&mut self, name: &NodeName, draining: bool, at: Time) -> bool {
        let Some(kept) = self.nodes.get_mut(name) else { return false };
        kept.node.draining = draining;
        self.tell_of_node(name, NodeTold::Draining(draining), at);
        true
    }

    pub(super) fn forget_node(&mut self, name: &NodeName, at: Time) -> bool {
        let clock_ms = self.clock_ms;
        if self.nodes.get(name).is_none_or(|kept| kept.read(clock_ms).is_live()) {
            return false;
        }
        self.nodes.remove(name);
        self.tell_of_node(name, NodeTold::Forgotten, at);
        true
    }

    pub(super) fn nodes(&self) -> Vec<Node> {
        self.nodes.values().map(|kept| kept.read(self.clock_ms)).collect()
    }

    /// Without a copy of any.
    pub(super) fn nodes_at_a_glance(&self) -> NodesGlance {
        let left = |kept: &KeptNode| Span::from_ms(kept.ends_ms.saturating_sub(self.clock_ms));
        let kept = self.nodes.values();
        kept.fold(NodesGlance::EMPTY, |glance, kept| glance.with(&kept.node, left(kept)))
    }

    fn live_node(&mut self, name: &NodeName, epoch: Epoch) -> Option<&mut KeptNode> {
        let clock_ms = self.clock_ms;
        let is_it = |kept: &&mut KeptNode| kept.node.epoch == epoch && kept.ends_ms > clock_ms;
        self.nodes.get_mut(name).filter(is_it)
    }

    fn tell_of_node(&mut self, name: &NodeName, told: NodeTold, at: Time) {
        self.tell_of_nothing(EventKind::Node, node_told::detail(name, told), at);
    }
}
