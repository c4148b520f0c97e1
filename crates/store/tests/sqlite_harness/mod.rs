//! A SQLite file under test.

use std::sync::Arc;

use async_trait::async_trait;
use relight_core::time::Span;
use relight_store::Store;
use relight_store::sqlite::{SqliteStore, Use};
use relight_testkit::conformance::{Handles, Harness};

/// One file in a folder of its own; its handles' clocks are moved together.
pub(crate) struct SqliteHarness {
    folder: tempfile::TempDir,
    usage: Use,
    handles: Handles<SqliteStore>,
}

impl SqliteHarness {
    pub(crate) fn new(usage: Use) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        Self {
            folder,
            usage,
            handles: Handles::new(SqliteStore::advance_lease_clock),
        }
    }
}

#[async_trait]
impl Harness for SqliteHarness {
    async fn open(&self) -> Arc<dyn Store> {
        let path = self.folder.path().join("relight.db");
        self.handles
            .add(SqliteStore::open(&path, self.usage).expect("the store opens"))
    }

    async fn advance(&self, span: Span) {
        self.handles.advance(span);
    }
}
