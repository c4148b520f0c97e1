//! The store in memory passes the suite.

use std::sync::Arc;

use async_trait::async_trait;
use relight_core::time::Span;
use relight_store::conformance::Harness;
use relight_store::{MemoryStore, Store};

struct InMemory(MemoryStore);

#[async_trait]
impl Harness for InMemory {
    async fn open(&self) -> Arc<dyn Store> {
        Arc::new(self.0.clone())
    }

    async fn advance(&self, span: Span) {
        self.0.advance(span);
    }
}

fn in_memory() -> InMemory {
    InMemory(MemoryStore::new())
}

relight_store::conformance_suite!(in_memory);
