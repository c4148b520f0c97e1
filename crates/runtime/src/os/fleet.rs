//! The node that this process belongs to.

use std::sync::OnceLock;

use relight_core::ids::NodeName;

use super::environment;

/// The variable that tells processes their node.
pub const VARIABLE: &str = "RELIGHT_NODE";

/// A fact of this process, read once.
static NODE: OnceLock<Option<NodeName>> = OnceLock::new();

/// Sets the node of this process, overriding the environment. Must be called before the first use;
/// false when that was too late.
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
