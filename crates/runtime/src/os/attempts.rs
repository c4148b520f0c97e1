//! The attempt of an agent that a process belongs to.

use std::sync::LazyLock;

use relight_core::agent::AttemptTag;

use super::environment;

/// The variable that marks all processes of an attempt.
pub const VARIABLE: &str = "RELIGHT_ATTEMPT";

/// The attempt that this process belongs to.
pub fn own() -> Option<&'static AttemptTag> {
    // A fact of this process, read once.
    static OWN: LazyLock<Option<AttemptTag>> = LazyLock::new(|| {
        let variables = environment::variables();
        let own = environment::texts(&variables).find(|(name, _)| *name == VARIABLE);
        own.map(|(_, tag)| AttemptTag::from_text(tag))
    });
    OWN.as_ref()
}
