//! Handles onto one store under test whose clocks are moved together.

use std::sync::{Arc, Mutex};

use relight_core::time::Span;

use relight_store::Store;

/// All handles that were opened, and how far their clocks are ahead.
pub struct Handles<S> {
    move_clock: fn(&S, Span),
    opened: Mutex<(Span, Vec<Arc<S>>)>,
}

impl<S: Store + 'static> Handles<S> {
    /// None yet; `move_clock` moves the clock of one.
    pub fn new(move_clock: fn(&S, Span)) -> Self {
        Self {
            move_clock,
            opened: Mutex::new((Span::ZERO, Vec::new())),
        }
    }

    /// One more: its clock is as far ahead as the others'.
    pub fn add(&self, store: S) -> Arc<dyn Store> {
        let store = Arc::new(store);
        let mut opened = self.opened.lock().expect("no panic while locked");
        (self.move_clock)(&store, opened.0);
        opened.1.push(Arc::clone(&store));
        store
    }

    /// Moves the clocks of all, and of those to come.
    pub fn advance(&self, span: Span) {
        let mut opened = self.opened.lock().expect("no panic while locked");
        opened.0 = Span::from_ms(opened.0.as_ms() + span.as_ms());
        for store in &opened.1 {
            (self.move_clock)(store, span);
        }
    }
}

impl<S> std::fmt::Debug for Handles<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handles").finish_non_exhaustive()
    }
}
