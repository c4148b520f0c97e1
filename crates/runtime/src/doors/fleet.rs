//! Which node of a fleet this process belongs to, and what is known of the leases of others.
//!
//! A process of another machine cannot be looked at. It counts as gone once its node's lease was *seen*
//! to have run out: a lease that ran out is never renewed, so what was seen stays true until the node
//! joins anew. Before that, and where nothing was seen, it counts as alive.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{OnceLock, PoisonError, RwLock};

use relight_core::ids::NodeName;
use relight_core::lease::ProcessIdentity;
use relight_core::node::Node;

use super::environment;

/// By which processes that a node starts know where they belong.
pub const VARIABLE: &str = "RELIGHT_NODE";

static NODE: OnceLock<Option<NodeName>> = OnceLock::new();
static SEEN: RwLock<Option<BTreeMap<NodeName, bool>>> = RwLock::new(None);
static SHARED: AtomicBool = AtomicBool::new(false);

/// Where a process is, seen from here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place<'a> {
    /// On this machine: it can be looked at.
    Here,
    /// On another node, whose lease tells.
    Node(&'a NodeName),
    /// On another machine that is no node: nobody tells.
    Elsewhere,
}

/// This process belongs to that node, whatever its environment says. To be called before anything asks;
/// false when that came too late.
pub fn belong_to(name: &NodeName) -> bool {
    NODE.get_or_init(|| Some(name.clone())).as_ref() == Some(name)
}

/// The node that this process belongs to; none where there is no fleet.
pub fn node() -> Option<&'static NodeName> {
    let look = || {
        let variables = environment::variables();
        let own = environment::texts(&variables).find(|(name, _)| *name == VARIABLE);
        own.and_then(|(_, value)| NodeName::new(value).ok())
    };
    NODE.get_or_init(look).as_ref()
}

/// The store is one that other machines use too: what is of another boot may be of another machine.
pub fn share_store() {
    SHARED.store(true, Ordering::Relaxed);
}

/// Whether this process has opened a store that other machines use too.
pub fn is_store_shared() -> bool {
    SHARED.load(Ordering::Relaxed)
}

/// Takes in what the store says of all nodes.
pub fn learn(nodes: &[Node]) {
    let lives = nodes.iter().map(|node| (node.new.name.clone(), node.is_live())).collect();
    *SEEN.write().unwrap_or_else(PoisonError::into_inner) = Some(lives);
}

/// Whether the lease of a node was seen to have run out, or the node to have been removed after that.
pub fn is_gone(name: &NodeName) -> bool {
    let seen = SEEN.read().unwrap_or_else(PoisonError::into_inner);
    seen.as_ref().is_some_and(|seen| !seen.get(name).copied().unwrap_or(false))
}

/// Where a process is, seen from this boot of this machine.
pub fn place_of<'a>(process: &'a ProcessIdentity, boot: &str) -> Place<'a> {
    place(process, node(), boot, is_store_shared())
}

fn place<'a>(
    process: &'a ProcessIdentity,
    own: Option<&NodeName>,
    boot: &str,
    is_shared: bool,
) -> Place<'a> {
    match &process.node {
        Some(node) if Some(node) != own => Place::Node(node),
        None if is_shared && process.boot != boot => Place::Elsewhere,
        Some(_) | None => Place::Here,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> NodeName {
        NodeName::new(text).unwrap()
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
        assert_eq!(seen(Some(&b), "now", Some(&a), false), format!("{:?}", Place::Node(&b)));
        assert_eq!(seen(Some(&b), "now", None, true), format!("{:?}", Place::Node(&b)));
        assert_eq!(seen(None, "now", Some(&a), true), "Here");
        assert_eq!(seen(None, "before", Some(&a), true), "Elsewhere");
        assert_eq!(seen(None, "before", None, false), "Here");
    }
}
