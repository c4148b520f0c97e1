//! What was seen of the leases of other nodes.
//!
//! A process of another machine cannot be looked at. It counts as gone once its node's lease was *seen*
//! to have run out: a lease that ran out is never renewed, so what was seen stays true until the node
//! joins anew. Before that, and where nothing was seen, it counts as alive.

use std::collections::BTreeMap;

use relight_core::ids::NodeName;
use relight_core::lease::ProcessIdentity;
use relight_core::node::Node;
use relight_core::time::Time;
use tokio::time::Instant;

/// Where a process runs, relative to this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProcessLocation<'a> {
    /// On this machine; it can be checked directly.
    Here,
    /// On another node; judged by that node's lease.
    Node(&'a NodeName),
    /// On another machine outside of the fleet; unknown.
    Elsewhere,
}

/// A read of all nodes that has begun. Reads overlap, and a slow one may end after one that began
/// later. Data read before a read began is judged by that read or a later one.
#[derive(Debug)]
#[must_use]
pub(crate) struct ReadTicket(pub(super) u64);

/// Cached state of all nodes.
#[derive(Debug, Default)]
pub(super) struct NodeLives {
    /// Number of the read that produced it, by begin.
    by: u64,
    /// State of each node; none before the first read.
    lives: Option<BTreeMap<NodeName, NodeLife>>,
    /// When the leases of live nodes end unless they are renewed.
    ends: BTreeMap<NodeName, Instant>,
}

/// State of a node's lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NodeLife {
    Lives,
    /// Expired, with its last renewal if the expiry was observed.
    Gone(Option<Time>),
}

impl NodeLives {
    pub(super) fn take_in(&mut self, look: &ReadTicket, nodes: &[Node], now: Time) {
        if look.0 < self.by {
            return;
        }
        let before = self.lives.take().unwrap_or_default();
        let life = |node: &Node| match before.get(&node.new.name) {
            _ if node.is_live() => NodeLife::Lives,
            Some(NodeLife::Gone(renewed)) => NodeLife::Gone(*renewed),
            // It just expired, so the last renewal was one lease length ago.
            Some(NodeLife::Lives) => {
                let ttl_ms = i64::try_from(node.new.ttl.as_ms()).unwrap_or(i64::MAX);
                NodeLife::Gone(Some(Time::from_ms(now.as_ms().saturating_sub(ttl_ms))))
            }
            None => NodeLife::Gone(None),
        };
        let lives = nodes
            .iter()
            .map(|node| (node.new.name.clone(), life(node)))
            .collect();
        let live = nodes.iter().filter(|node| node.is_live());
        let end = |node: &Node| {
            let at = Instant::now().checked_add(node.left.as_duration())?;
            Some((node.new.name.clone(), at))
        };
        *self = Self {
            by: look.0,
            lives: Some(lives),
            ends: live.filter_map(end).collect(),
        };
    }

    pub(super) fn ends_at(&self, name: &NodeName) -> Option<Instant> {
        self.ends.get(name).copied()
    }

    pub(super) fn is_gone(&self, name: &NodeName) -> bool {
        self.lives
            .as_ref()
            .is_some_and(|lives| lives.get(name) != Some(&NodeLife::Lives))
    }

    pub(super) fn last_renewed(&self, name: &NodeName) -> Option<Time> {
        match self.lives.as_ref()?.get(name)? {
            NodeLife::Lives => None,
            NodeLife::Gone(renewed) => *renewed,
        }
    }
}

/// Where a process runs, seen from a node and a boot.
pub(super) fn place<'a>(
    process: &'a ProcessIdentity,
    own: Option<&NodeName>,
    boot: &str,
    is_shared: bool,
) -> ProcessLocation<'a> {
    match &process.node {
        Some(node) if Some(node) != own => ProcessLocation::Node(node),
        None if is_shared && process.boot != boot => ProcessLocation::Elsewhere,
        Some(_) | None => ProcessLocation::Here,
    }
}

#[cfg(test)]
mod tests {
    use relight_core::node::{Epoch, NewNode};
    use relight_core::time::{Span, Time};

    use super::*;

    fn name(text: &str) -> NodeName {
        NodeName::new(text).unwrap()
    }

    fn node(text: &str, left_ms: u64) -> Node {
        let new = NewNode {
            name: name(text),
            instance: text.to_owned(),
            labels: Vec::new(),
            address: None,
            version: "1".to_owned(),
            ttl: Span::from_secs(8),
            process: None,
        };
        let (joined_at, left) = (Time::from_ms(0), Span::from_ms(left_ms));
        Node {
            new,
            epoch: Epoch(1),
            draining: false,
            joined_at,
            left,
        }
    }

    #[test]
    fn a_slow_look_does_not_take_back_what_a_later_one_saw() {
        let mut seen = NodeLives::default();
        assert!(!seen.is_gone(&name("a")), "nothing was seen");
        let (slow, quick) = (ReadTicket(1), ReadTicket(2));
        let now = Time::from_ms(20_000);
        seen.take_in(&quick, &[node("a", 1)], now);
        seen.take_in(&slow, &[node("a", 0)], now);
        assert!(!seen.is_gone(&name("a")), "it had joined anew");
        seen.take_in(&ReadTicket(3), &[node("a", 0)], now);
        assert!(seen.is_gone(&name("a")));
    }

    #[test]
    fn the_last_renewal_is_known_of_a_lease_that_was_seen_to_end() {
        let mut seen = NodeLives::default();
        let at = |secs: i64| Time::from_ms(secs * 1_000);
        seen.take_in(&ReadTicket(1), &[node("a", 1), node("b", 0)], at(10));
        seen.take_in(&ReadTicket(2), &[node("a", 0), node("b", 0)], at(20));
        seen.take_in(&ReadTicket(3), &[node("a", 0), node("b", 0)], at(30));
        assert_eq!(seen.last_renewed(&name("a")), Some(at(12)));
        assert_eq!(seen.last_renewed(&name("b")), None, "it was gone before");
    }

    #[test]
    fn a_process_is_looked_at_on_its_own_machine_alone() {
        let (a, b) = (name("a"), name("b"));
        let process = |node: Option<&NodeName>, boot: &str| ProcessIdentity {
            pid: 1,
            start: 1,
            boot: boot.to_owned(),
            node: node.cloned(),
        };
        let seen = |node, boot, own, is_shared| {
            format!("{:?}", place(&process(node, boot), own, "now", is_shared))
        };
        assert_eq!(seen(Some(&a), "now", Some(&a), true), "Here");
        // Its boot tells on its own machine that it is dead.
        assert_eq!(seen(Some(&a), "before", Some(&a), true), "Here");
        assert_eq!(
            seen(Some(&b), "now", Some(&a), false),
            format!("{:?}", ProcessLocation::Node(&b))
        );
        assert_eq!(
            seen(Some(&b), "now", None, true),
            format!("{:?}", ProcessLocation::Node(&b))
        );
        assert_eq!(seen(None, "now", Some(&a), true), "Here");
        assert_eq!(seen(None, "before", Some(&a), true), "Elsewhere");
        assert_eq!(seen(None, "before", None, false), "Here");
    }
}
