//! The store in one SQLite file: WAL, `synchronous=FULL`, one writer with group commit, separate
//! readers.
//!
//! Many processes may use one file concurrently. The file is only opened through SQLite: closing
//! any other handle on it would drop the process's locks.

mod agents;
mod apply;
mod attempts;
mod commit_watch;
mod error;
mod file_system;
mod group_commit;
mod inventory;
mod journal;
mod lease_clock;
mod named_records;
mod nodes;
mod open;
#[cfg(test)]
mod query_plans;
mod queue;
mod refusal;
mod replaced_file;
mod rows;
pub mod salvage;
mod sessions;
// The system's own door; `portable` chooses that of other systems on Linux too, to test it.
#[cfg_attr(all(target_os = "linux", not(feature = "portable")), path = "linux.rs")]
#[cfg_attr(
    not(all(target_os = "linux", not(feature = "portable"))),
    path = "portable.rs"
)]
mod system;
mod tasks;
mod transfer;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use relight_core::agent::{Agent, Attempt, AttemptTag};
use relight_core::claimant::Claimant;
use relight_core::event::Event;
use relight_core::ids::{AgentName, IdempotencyKey, SessionKey, TaskId};
use relight_core::node::Node;
use relight_core::session::Session;
use relight_core::step::{Output, Step, StepKey};
use relight_core::task::Task;
use relight_core::time::{Span, Time};
use rusqlite::Connection;
use serde_json::Value;

use self::error::store_error;
use self::group_commit::SqliteWriter;
use self::lease_clock::SqliteLeaseClock;
pub use self::open::Use;
use self::replaced_file::StoreFiles;
pub use self::transfer::{SqliteExporter, SqliteImporter, raise_numbers};
use crate::commit_guards;
use crate::contract::{
    AgentQuery, AttemptQuery, Commit, DeferredCommit, EventQuery, Inventory, KeptRange, Operation,
    OperationReply, Rows, SessionQuery, Store, StoreError, TaskGlance, TaskQuery, UnreadableRow,
};

/// Idle reading connections that are kept.
const READERS_KEPT_MAX: usize = 4;

/// One SQLite file.
#[derive(Debug)]
pub struct SqliteStore {
    path: PathBuf,
    place: Arc<StoreFiles>,
    usage: Use,
    clock: Arc<SqliteLeaseClock>,
    watch: Arc<commit_watch::SqliteWatch>,
    /// Closed before the writer's, which knows how the log is to be left.
    readers: Mutex<Vec<Connection>>,
    writer: SqliteWriter,
}

impl SqliteStore {
    /// Opens the file, creating it when there is none.
    pub fn open(path: &Path, usage: Use) -> Result<Self, StoreError> {
        let connection = open::open(path, usage)?;
        let clock = Arc::new(SqliteLeaseClock::start());
        let watch = commit_watch::SqliteWatch::new(path);
        let place = Arc::new(StoreFiles::of_open(path)?);
        let writer = SqliteWriter::new(path, usage, connection, &place, &clock, &watch);
        let (path, readers) = (path.to_owned(), Mutex::default());
        Ok(Self {
            path,
            place,
            usage,
            clock,
            watch,
            readers,
            writer,
        })
    }

    /// Moves this handle's lease clock, for tests.
    pub fn advance_lease_clock(&self, span: Span) {
        self.clock.advance(span.as_ms().cast_signed());
    }

    /// A short-lived process reads through its one connection unless that is at work; others read
    /// beside the writer.
    fn read<T>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.place.check()?;
        if self.usage == Use::Short && self.writer.is_idle() {
            return self.writer.read(read);
        }
        let idle = self
            .readers
            .lock()
            .expect("nothing panics while it is locked")
            .pop();
        let reader = match idle {
            Some(reader) => reader,
            None => open::open_reader(&self.path)?,
        };
        let result = read(&reader).map_err(|e| store_error(&self.path, e));
        let mut readers = self
            .readers
            .lock()
            .expect("nothing panics while it is locked");
        if result.is_ok() && readers.len() < READERS_KEPT_MAX {
            readers.push(reader);
        }
        result
    }
}

#[async_trait]
impl Store for SqliteStore {
    fn check_files(&self) -> Result<(), StoreError> {
        self.place.check_all()
    }

    async fn write(&self, operation: Operation) -> OperationReply {
        commit_guards::assert_operation(&operation);
        match &operation {
            Operation::CommitAgent(_) => self.writer.run_on_writer_thread(operation).await,
            // Many of them take a while, which whoever hands them in can use.
            Operation::CommitSessions(changes, _) if changes.len() > 1 => {
                self.writer.run_on_writer_thread(operation).await
            }
            _ => self.writer.run(operation).await,
        }
    }

    fn commit_deferred(&self, commit: Commit) -> DeferredCommit {
        let deferred = DeferredCommit::keep(commit);
        self.writer.run_deferred(deferred.clone());
        deferred
    }

    async fn task(&self, id: &TaskId) -> Result<Option<Task>, StoreError> {
        self.read(|db| tasks::by_id(db, id, self.clock.now()))
    }

    async fn tasks_by_id(&self, ids: &[TaskId]) -> Result<Vec<Task>, StoreError> {
        self.read(|db| tasks::by_ids(db, ids, self.clock.now()))
    }

    async fn task_with_key(&self, key: &IdempotencyKey) -> Result<Option<Task>, StoreError> {
        self.read(|db| tasks::by_key(db, key, self.clock.now()))
    }

    async fn tasks(&self, query: TaskQuery) -> Result<Vec<Task>, StoreError> {
        self.read(|db| tasks::list(db, &query, self.clock.now()))
    }

    async fn unfinished(&self) -> Result<Vec<TaskGlance>, StoreError> {
        self.read(tasks::unfinished)
    }

    async fn step(&self, task: &TaskId, key: &StepKey) -> Result<Option<Step>, StoreError> {
        self.read(|db| journal::step(db, task, key))
    }

    async fn task_with_step(
        &self,
        id: &TaskId,
        key: &StepKey,
    ) -> Result<(Option<Task>, Option<Step>), StoreError> {
        self.read(|db| {
            // In one look at the file: taking its locks costs more than reading a row.
            let look = db.unchecked_transaction()?;
            let task = tasks::by_id(db, id, self.clock.now())?;
            let step = journal::step(db, id, key)?;
            look.finish()?;
            Ok((task, step))
        })
    }

    async fn steps(&self, task: &TaskId) -> Result<Vec<Step>, StoreError> {
        self.read(|db| journal::steps(db, task))
    }

    async fn output(&self, task: &TaskId, key: &StepKey) -> Result<Option<Output>, StoreError> {
        self.read(|db| journal::output(db, task, key))
    }

    async fn events(&self, query: EventQuery) -> Result<Vec<Event>, StoreError> {
        self.read(|db| journal::events(db, &query))
    }

    async fn agent(&self, name: &AgentName) -> Result<Option<Agent>, StoreError> {
        self.read(|db| agents::by_name(db, name, self.clock.now()))
    }

    async fn agents(&self, query: AgentQuery) -> Result<Vec<Agent>, StoreError> {
        self.read(|db| agents::list(db, &query, self.clock.now()))
    }

    async fn attempt(&self, tag: &AttemptTag) -> Result<Option<Attempt>, StoreError> {
        self.read(|db| attempts::by_tag(db, tag))
    }

    async fn attempts(&self, query: AttemptQuery) -> Result<Vec<Attempt>, StoreError> {
        self.read(|db| attempts::list(db, &query))
    }

    async fn session(&self, key: &SessionKey) -> Result<Option<Session>, StoreError> {
        self.read(|db| sessions::by_key(db, key, self.clock.now()))
    }

    async fn sessions(&self, query: SessionQuery) -> Result<Vec<Session>, StoreError> {
        self.read(|db| sessions::list(db, &query, self.clock.now()))
    }

    async fn kept(&self, name: &str) -> Result<Option<Value>, StoreError> {
        self.read(|db| named_records::read(db, name))
    }

    async fn unreadable(&self, of: Rows) -> Result<Vec<UnreadableRow>, StoreError> {
        self.read(|db| inventory::unreadable(db, &of, self.clock.now()))
    }

    async fn kept_in(&self, range: KeptRange) -> Result<Vec<(String, Value)>, StoreError> {
        self.read(|db| named_records::list(db, &range))
    }

    async fn inventory(&self, whole: bool) -> Result<Inventory, StoreError> {
        self.read(|db| inventory::take(db, &self.path, self.clock.now(), whole))
    }

    async fn claimable(
        &self,
        claimant: &Claimant,
        now: Time,
        limit: usize,
    ) -> Result<Vec<TaskId>, StoreError> {
        self.read(|db| queue::claimable(db, claimant, now, self.clock.now(), limit))
    }

    async fn next_due(&self, now: Time) -> Result<Option<Time>, StoreError> {
        self.read(|db| queue::next_due(db, now))
    }

    async fn nodes(&self) -> Result<Vec<Node>, StoreError> {
        self.read(|db| nodes::list(db, self.clock.now()))
    }

    async fn newest_event(&self) -> Result<u64, StoreError> {
        self.read(journal::newest)
    }

    async fn changed(&self, after: u64) -> Result<(), StoreError> {
        loop {
            let next = self.watch.next();
            tokio::pin!(next);
            next.as_mut().enable();
            if self.newest_event().await? > after {
                return Ok(());
            }
            next.await;
        }
    }

    fn file(&self) -> Option<PathBuf> {
        Some(self.path.clone())
    }
}
