//! Stores to be copied, and whoever is cut off while copying.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use relight_core::time::Span;
use relight_store::sqlite::{SqliteExporter, SqliteImporter, SqliteStore, Use};
use relight_store::transfer::{
    Cell, Copied, CopyError, Exporter, Importer, Row, Table, Verified, copy, verify,
};
use relight_store::{AgentQuery, MemoryStore, SessionQuery, Store, StoreError, TaskQuery};
use relight_testkit::conformance::{Handles, Harness};

use crate::dice::Dice;
use crate::pair::{Pair, all_events};
use crate::plan::Plan;

/// A file in a folder of its own.
pub(crate) struct File {
    folder: tempfile::TempDir,
    handles: Handles<SqliteStore>,
}

impl File {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        Self {
            folder,
            handles: Handles::new(SqliteStore::advance_lease_clock),
        }
    }

    /// With all kinds of records in it, by the random plan of this seed.
    pub(crate) async fn filled(seed: u64, operations: u32) -> Self {
        let file = Self::new();
        fill(seed, operations, &file).await;
        file
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("relight.db")
    }

    pub(crate) fn exporter(&self) -> SqliteExporter {
        SqliteExporter::open(&self.path()).expect("the store opens")
    }

    pub(crate) fn importer(&self) -> SqliteImporter {
        SqliteImporter::open(&self.path()).expect("the store opens")
    }

    pub(crate) async fn verified(&self) -> Verified {
        verified(&mut self.exporter()).await
    }

    /// As if the first task, agent and session had been removed and made again: the same name, the
    /// same key, a new number.
    pub(crate) fn make_the_first_anew(&self) {
        self.sql(
            "CREATE TEMP TABLE first AS SELECT MIN(n) AS n, MAX(n) + 1 AS other FROM task;
             UPDATE task SET n = (SELECT other FROM first) WHERE n = (SELECT n FROM first);
             UPDATE task_body SET n = (SELECT other FROM first) WHERE n = (SELECT n FROM first);
             UPDATE lease SET n = (SELECT other FROM first) WHERE n = (SELECT n FROM first);
             UPDATE agent SET n = (SELECT MAX(n) + 1 FROM agent) WHERE n = (SELECT MIN(n) FROM agent);
             UPDATE session SET n = (SELECT MAX(n) + 1 FROM session)
             WHERE n = (SELECT MIN(n) FROM session)",
        );
    }

    /// Behind the store's back.
    pub(crate) fn sql(&self, sql: &str) {
        let db = rusqlite::Connection::open(self.path()).expect("the file opens");
        db.execute_batch(sql).expect("the test's own statement");
    }
}

/// Writes all kinds of records. A plan that removed nearly everything goes on until there is something to
/// copy: an event for each fourth operation, and a task, an agent and a session.
pub(crate) async fn fill(seed: u64, operations: u32, harness: &dyn Harness) {
    let memory = MemoryStore::new();
    let mut plan = Plan::new(Dice::new(seed));
    let mut pair = Pair::open(seed, &memory, harness).await;
    for _ in 0..operations {
        plan.step(&mut pair).await;
    }
    let store = harness.open().await;
    let mut more = 0;
    while !has_enough(store.as_ref(), operations as usize / 4).await {
        assert!(
            more < 50 * operations,
            "the plan of seed {seed} gives no store to copy"
        );
        for _ in 0..10 {
            plan.step(&mut pair).await;
        }
        more += 10;
    }
    pair.compare_everything().await;
}

async fn has_enough(store: &dyn Store, events: usize) -> bool {
    let counted = store
        .events(all_events())
        .await
        .expect("events can be read")
        .len();
    let tasks = store
        .tasks(TaskQuery::default())
        .await
        .expect("tasks can be read");
    let agents = store
        .agents(AgentQuery::default())
        .await
        .expect("agents can be read");
    let sessions = store
        .sessions(SessionQuery::default())
        .await
        .expect("sessions can be read");
    counted >= events && !tasks.is_empty() && !agents.is_empty() && !sessions.is_empty()
}

pub(crate) async fn verified(store: &mut dyn Exporter) -> Verified {
    verify(store, &mut |_| {})
        .await
        .expect("the store can be read")
}

pub(crate) async fn copied(
    from: &mut dyn Exporter,
    to: &mut dyn Importer,
) -> Result<Copied, CopyError> {
    copy(from, to, &mut |_| {}).await
}

#[async_trait]
impl Harness for File {
    async fn open(&self) -> Arc<dyn Store> {
        self.handles.add(open(&self.path()))
    }

    async fn advance(&self, span: Span) {
        self.handles.advance(span);
    }
}

pub(crate) fn open(path: &Path) -> SqliteStore {
    SqliteStore::open(path, Use::Long).expect("the store opens")
}

/// Gives few rows at a time.
pub(crate) struct InSmallPages<E> {
    pub(crate) store: E,
    pub(crate) rows_max: usize,
}

#[async_trait]
impl<E: Exporter> Exporter for InSmallPages<E> {
    fn place(&self) -> String {
        self.store.place()
    }

    async fn count(&mut self, table: Table) -> Result<u64, StoreError> {
        self.store.count(table).await
    }

    async fn page(&mut self, table: Table, after: &Cell) -> Result<Vec<Row>, StoreError> {
        let mut rows = self.store.page(table, after).await?;
        rows.truncate(self.rows_max);
        Ok(rows)
    }

    async fn integrity(&mut self) -> Result<Vec<String>, StoreError> {
        self.store.integrity().await
    }

    async fn touch(&mut self) -> Result<(), StoreError> {
        self.store.touch().await
    }

    async fn written_since(&mut self) -> Result<u64, StoreError> {
        self.store.written_since().await
    }
}

/// Is cut off after so many writes.
pub(crate) struct CutOff<I> {
    pub(crate) store: I,
    pub(crate) writes_left: usize,
}

impl<I> CutOff<I> {
    fn go_on(&mut self) -> Result<(), CopyError> {
        let why = "cut off".to_owned();
        let gone = StoreError::Unreachable {
            place: "the copy".to_owned(),
            why,
        };
        self.writes_left = self.writes_left.checked_sub(1).ok_or(gone)?;
        Ok(())
    }
}

#[async_trait]
impl<I: Importer> Importer for CutOff<I> {
    fn place(&self) -> String {
        self.store.place()
    }

    async fn begin(&mut self, from: &str) -> Result<bool, CopyError> {
        self.store.begin(from).await
    }

    async fn newest_key(&mut self, table: Table) -> Result<Cell, CopyError> {
        self.store.newest_key(table).await
    }

    async fn write(&mut self, table: Table, rows: Vec<Row>) -> Result<(), CopyError> {
        self.go_on()?;
        self.store.write(table, rows).await
    }

    async fn clear(&mut self, table: Table) -> Result<(), CopyError> {
        self.go_on()?;
        self.store.clear(table).await
    }

    async fn read_back(&mut self) -> Result<Box<dyn Exporter>, CopyError> {
        self.store.read_back().await
    }

    async fn finish(&mut self) -> Result<(), CopyError> {
        self.go_on()?;
        self.store.finish().await
    }
}
