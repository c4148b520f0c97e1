//! A SQLite file under test.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use relight_core::time::Span;
use relight_store::Store;
use relight_store::conformance::Harness;
use relight_store::sqlite::{SqliteStore, Use};

/// One file in a folder of its own; its handles' clocks are moved together.
pub(crate) struct SqliteHarness {
    folder: tempfile::TempDir,
    usage: Use,
    handles: Mutex<(Span, Vec<Arc<SqliteStore>>)>,
}

impl SqliteHarness {
    pub(crate) fn new(usage: Use) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        Self { folder, usage, handles: Mutex::new((Span::ZERO, Vec::new())) }
    }
}

#[async_trait]
impl Harness for SqliteHarness {
    async fn open(&self) -> Arc<dyn Store> {
        let path = self.folder.path().join("relight.db");
        let store = Arc::new(SqliteStore::open(&path, self.usage).expect("the store opens"));
        let mut handles = self.handles.lock().expect("no panic while locked");
        store.advance_lease_clock(handles.0);
        handles.1.push(Arc::clone(&store));
        store
    }

    async fn advance(&self, span: Span) {
        let mut handles = self.handles.lock().expect("no panic while locked");
        handles.0 = Span::from_ms(handles.0.as_ms() + span.as_ms());
        for store in &handles.1 {
            store.advance_lease_clock(span);
        }
    }
}
