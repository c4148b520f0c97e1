//! In place of `declared_wait` where there is no supervision: nobody is told of a wait.

use relight_core::ids::AgentName;
use relight_core::time::Span;

use crate::engine::Engine;

pub use self::UndeclaredWait as DeclaredWait;

/// Says nothing.
#[derive(Debug)]
pub struct UndeclaredWait;

impl UndeclaredWait {
    /// Begins to wait.
    pub async fn begin(_most: Option<Span>, _engine: &Engine, _agent: Option<&AgentName>) -> Self {
        Self
    }
}
