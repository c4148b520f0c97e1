//! How the rest of the product reaches what is below the library. The crate `relight` does not show it.

use relight_core::lease::Holder;

use super::process_claims::{OwnHolder, StoreIdentity};
use super::relight::Relight;
use crate::engine::Engine;
use crate::queue::Queue;
use crate::recovery::Recoverer;

/// The engine below a handle of the library.
pub trait EngineAccess: Sized {
    /// Uses an engine, strategies and limits that are there.
    fn with_recoverer(recoverer: Recoverer) -> Self;

    /// As part of this attempt of a supervised agent: what is taken is held by the attempt and ends with
    /// it, and what the attempt holds already is continued.
    #[must_use]
    fn in_attempt(self, attempt: Holder) -> Self;

    /// The strategies and limits that tasks are recovered by.
    fn recoverer(&self) -> &Recoverer;

    /// The store, behind redaction.
    fn engine(&self) -> &Engine {
        self.recoverer().engine()
    }
}

impl EngineAccess for Relight {
    fn with_recoverer(recoverer: Recoverer) -> Self {
        let place = StoreIdentity::of(recoverer.engine());
        Self {
            queue: Queue::new(recoverer),
            place,
            own: OwnHolder::default(),
        }
    }

    fn in_attempt(mut self, attempt: Holder) -> Self {
        self.own.attempt = Some(attempt);
        self
    }

    fn recoverer(&self) -> &Recoverer {
        self.queue.recoverer()
    }
}
