//! What the journal tells of a node; the same in every backend.

use relight_core::ids::NodeName;
use relight_core::node::Epoch;
use serde_json::{Value, json};

/// What happened to a node.
#[derive(Debug, Clone, Copy)]
pub(crate) enum NodeTold {
    Joined(Epoch),
    Left,
    Draining(bool),
    Forgotten,
}

/// The detail of its event.
pub(crate) fn detail(name: &NodeName, told: NodeTold) -> Value {
    match told {
        NodeTold::Joined(epoch) => json!({"node": name, "what": "joined", "epoch": epoch}),
        NodeTold::Left => json!({"node": name, "what": "left"}),
        NodeTold::Draining(true) => json!({"node": name, "what": "draining"}),
        NodeTold::Draining(false) => json!({"node": name, "what": "resumed"}),
        NodeTold::Forgotten => json!({"node": name, "what": "removed"}),
    }
}
