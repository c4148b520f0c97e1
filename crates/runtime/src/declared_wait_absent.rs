//! In place of `declared_wait` where there is no supervision: nobody is told of a wait.

use relight_core::ids::AgentName;
use relight_core::time::Span;

use crate::engine::Engine;

/// Says nothing.
#[derive(Debug)]
pub struct DeclaredWait;

impl DeclaredWait {
    /// Begins to wait.
    #[expect(clippy::unused_async, reason = "the other one asks the store")]
    pub async fn begin(_most: Option<Span>, _engine: &Engine, _agent: Option<&AgentName>) -> Self {
        Self
    }
}
