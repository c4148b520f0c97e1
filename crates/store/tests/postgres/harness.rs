//! A PostgreSQL schema under test.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use relight_core::time::Span;
use relight_store::postgres::{PostgresStore, PostgresUrl};
use relight_store::{MemoryStore, Store};
use relight_testkit::conformance::{Handles, Harness};

use crate::server::{Cluster, unique};

/// One schema of the shared server; its handles' clocks are moved together.
pub(crate) struct PostgresHarness {
    pub(crate) url: PostgresUrl,
    handles: Handles<PostgresStore>,
}

impl PostgresHarness {
    /// None, loudly, without the package.
    pub(crate) fn new() -> Option<Self> {
        let cluster = Cluster::shared()?;
        let schema = unique(&format!("t{}_", std::process::id()));
        let url = cluster.url(&format!("?schema={schema}&sslmode=disable"));
        let url: PostgresUrl = url.parse().expect("the test's own address");
        // A busy machine may leave a transaction idle for seconds.
        let url = url.with_patience(Duration::from_secs(120));
        Some(Self {
            url,
            handles: Handles::new(PostgresStore::advance_lease_clock),
        })
    }
}

/// A schema, or memory where there is no PostgreSQL.
pub(crate) enum Ground {
    Postgres(Box<PostgresHarness>),
    Missing(MemoryStore),
}

impl Ground {
    pub(crate) fn new() -> Self {
        match PostgresHarness::new() {
            Some(harness) => Self::Postgres(Box::new(harness)),
            None => Self::Missing(MemoryStore::new()),
        }
    }
}

#[async_trait]
impl Harness for Ground {
    async fn open(&self) -> Arc<dyn Store> {
        match self {
            Self::Postgres(harness) => harness.open().await,
            Self::Missing(memory) => Harness::open(memory).await,
        }
    }

    async fn advance(&self, span: Span) {
        match self {
            Self::Postgres(harness) => harness.advance(span).await,
            Self::Missing(memory) => Harness::advance(memory, span).await,
        }
    }
}

#[async_trait]
impl Harness for PostgresHarness {
    async fn open(&self) -> Arc<dyn Store> {
        self.handles
            .add(PostgresStore::open(&self.url).expect("the store opens"))
    }

    async fn advance(&self, span: Span) {
        self.handles.advance(span);
    }
}
