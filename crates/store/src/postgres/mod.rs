//! The store in one schema of a PostgreSQL database, shared by all nodes of a fleet.
//!
//! Everything that talks to the server runs on one thread of the store's own (`background`), so that
//! callers need no runtime that knows sockets. Writes of a process are gathered into batches
//! (`writer`), each one transaction in one trip or two (`batch_committer`); reads share a few connections (`pool`).
//! Leases are measured by the database's clock.

mod agents;
mod attempts;
mod background;
mod batch_committer;
mod commit_watch;
mod connection;
mod error;
mod forget;
mod group_commit;
mod hosts;
mod inventory;
mod journal;
mod lease_clock;
mod named_records;
mod nodes;
mod open;
mod operation;
mod pool;
mod queue;
mod remover;
mod rows;
mod sessions;
mod step_batch;
mod tasks;
mod text;
mod tls;
mod transfer;
mod url;
mod working_set;

use std::sync::Arc;

use async_trait::async_trait;
use relight_core::agent::{Agent, Attempt, AttemptTag};
use relight_core::claimant::Claimant;
use relight_core::event::Event;
use relight_core::ids::{AgentName, IdempotencyKey, NodeName, SessionKey, TaskId};
use relight_core::node::{ChangeToken, Epoch, Node, NodesSummary};
use relight_core::session::Session;
use relight_core::step::{Output, Step, StepKey};
use relight_core::task::Task;
use relight_core::time::{Span, Time};
use serde_json::Value;

use self::background::Background;
use self::batch_committer::BatchCommitter;
use self::commit_watch::PostgresWatch;
use self::connection::{AS_LONG_AS_IT_TAKES, Connection, PostgresServer};
use self::error::PostgresFailure;
use self::group_commit::PostgresWriter;
use self::lease_clock::PostgresLeaseClock;
use self::open::Expected;
use self::pool::Pool;
use self::remover::Remover;
pub use self::transfer::{PostgresExporter, PostgresImporter, raise_numbers};
pub use self::url::{PostgresUrl, PostgresUrlError};
use crate::commit_guards;
use crate::contract::{
    AgentQuery, AttemptQuery, Commit, DeferredCommit, EventQuery, Inventory, KeptRange, Operation,
    OperationReply, Removal, Rows, SessionQuery, Store, StoreError, TaskGlance, TaskQuery,
    UnreadableRow,
};

/// One schema of a PostgreSQL database.
#[derive(Debug)]
pub struct PostgresStore {
    server: Arc<PostgresServer>,
    clock: Arc<PostgresLeaseClock>,
    watch: Arc<PostgresWatch>,
    writer: Arc<PostgresWriter>,
    pool: Arc<Pool>,
    /// What orders the journal among all writers of this schema.
    journal_key: i64,
    background: Background,
}

impl PostgresStore {
    /// Opens the store, making its schema when there is none. Blocks until the server has answered.
    pub fn open(url: &PostgresUrl) -> Result<Self, StoreError> {
        let server = Arc::new(PostgresServer::new(url.clone())?);
        let background = Background::start(&server.place)?;
        let asked = Arc::clone(&server);
        let opening = async move { open::open(&asked, Expected::Any).await };
        let opened = background.run_blocking(AS_LONG_AS_IT_TAKES, opening);
        let opened = match opened {
            Some(Ok(opened)) => opened,
            Some(Err(failure)) => return Err(failure.into_store_error(&server.place)),
            None => return Err(server.unreachable("no answer")),
        };
        let clock = Arc::new(PostgresLeaseClock::default());
        let watch = PostgresWatch::new(Arc::clone(&server));
        let writer = PostgresWriter::new(&server.place);
        let pool = Arc::new(Pool::new(Arc::clone(&server), opened.connection));
        let (committer_server, committer_clock) = (Arc::clone(&server), Arc::clone(&clock));
        let key = opened.journal_key;
        let make_committer = move || {
            BatchCommitter::new(
                Arc::clone(&committer_server),
                Arc::clone(&committer_clock),
                key,
            )
        };
        let work = Arc::clone(&writer).work(make_committer, Arc::clone(&watch), Arc::clone(&pool));
        background.handle().spawn(work);
        Ok(Self {
            server,
            clock,
            watch,
            writer,
            pool,
            journal_key: key,
            background,
        })
    }

    /// Moves this handle's lease clock, for tests.
    pub fn advance_lease_clock(&self, span: Span) {
        self.clock.advance(span.as_ms().cast_signed());
    }

    async fn read<T, F>(
        &self,
        read: impl Fn(Arc<Connection>) -> F + Send + Sync + 'static,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, PostgresFailure>> + Send,
    {
        let pool = Arc::clone(&self.pool);
        self.ask(async move { pool.read(read).await }).await
    }

    /// The same for what keeps a lease.
    async fn read_for_lease<T, F>(
        &self,
        read: impl Fn(Arc<Connection>) -> F + Send + Sync + 'static,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, PostgresFailure>> + Send,
    {
        let pool = Arc::clone(&self.pool);
        self.ask(async move { pool.read_for_lease(read).await })
            .await
    }

    async fn ask<T: Send + 'static>(
        &self,
        asking: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let answer = self.background.run(asking).await;
        answer.unwrap_or_else(|| Err(self.server.unreachable("its thread has stopped")))
    }

    async fn removed(&self, removal: Removal) -> OperationReply {
        let mut remover = Remover::new(Arc::clone(&self.server), self.journal_key);
        let (watch, pool) = (Arc::clone(&self.watch), Arc::clone(&self.pool));
        let removing = async move {
            let answer = remover.remove(&removal).await;
            watch.tell(&pool);
            answer
        };
        let answer = self.background.run(removing).await;
        let stopped = || Err(self.server.unreachable("its thread has stopped").into());
        answer.unwrap_or_else(stopped)
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        let writer = Arc::clone(&self.writer);
        self.background.end(writer.close());
    }
}

/// A read on whatever connection is free: what it needs is cloned for each try.
macro_rules! read {
    ($self:ident, |$db:ident $(, $name:ident)*| $body:expr) => {{
        $(let $name = $name.clone();)*
        $self
            .read(move |$db| {
                $(let $name = $name.clone();)*
                async move { $body.await }
            })
            .await
    }};
}

#[async_trait]
impl Store for PostgresStore {
    async fn write(&self, operation: Operation) -> OperationReply {
        commit_guards::assert_operation(&operation);
        match operation {
            Operation::Remove(removal) => self.removed(removal).await,
            operation => self.writer.run(operation).await,
        }
    }

    fn commit_deferred(&self, commit: Commit) -> DeferredCommit {
        commit_guards::assert_shape(&commit);
        let deferred = DeferredCommit::keep(commit);
        self.writer.run_deferred(deferred.clone());
        deferred
    }

    async fn task(&self, id: &TaskId) -> Result<Option<Task>, StoreError> {
        let ahead = self.clock.ahead_ms();
        read!(self, |db, id| tasks::by_id(&db, &id, ahead))
    }

    async fn tasks_by_id(&self, ids: &[TaskId]) -> Result<Vec<Task>, StoreError> {
        let (ahead, ids) = (self.clock.ahead_ms(), ids.to_vec());
        read!(self, |db, ids| tasks::by_ids(&db, &ids, ahead))
    }

    async fn task_with_key(&self, key: &IdempotencyKey) -> Result<Option<Task>, StoreError> {
        let ahead = self.clock.ahead_ms();
        read!(self, |db, key| tasks::by_key(&db, &key, ahead))
    }

    async fn tasks(&self, query: TaskQuery) -> Result<Vec<Task>, StoreError> {
        let ahead = self.clock.ahead_ms();
        read!(self, |db, query| tasks::list(&db, &query, ahead))
    }

    async fn unfinished(&self) -> Result<Vec<TaskGlance>, StoreError> {
        read!(self, |db| tasks::unfinished(&db))
    }

    async fn step(&self, task: &TaskId, key: &StepKey) -> Result<Option<Step>, StoreError> {
        read!(self, |db, task, key| journal::step(&db, &task, &key))
    }

    async fn task_with_step(
        &self,
        id: &TaskId,
        key: &StepKey,
    ) -> Result<(Option<Task>, Option<Step>), StoreError> {
        let ahead = self.clock.ahead_ms();
        // Asked one after the other and answered in one trip.
        read!(self, |db, id, key| async move {
            let both = tokio::join!(tasks::by_id(&db, &id, ahead), journal::step(&db, &id, &key));
            Ok((both.0?, both.1?))
        })
    }

    async fn steps(&self, task: &TaskId) -> Result<Vec<Step>, StoreError> {
        read!(self, |db, task| journal::steps(&db, &task))
    }

    async fn output(&self, task: &TaskId, key: &StepKey) -> Result<Option<Output>, StoreError> {
        read!(self, |db, task, key| journal::output(&db, &task, &key))
    }

    async fn events(&self, query: EventQuery) -> Result<Vec<Event>, StoreError> {
        read!(self, |db, query| journal::events(&db, &query))
    }

    async fn agent(&self, name: &AgentName) -> Result<Option<Agent>, StoreError> {
        let ahead = self.clock.ahead_ms();
        read!(self, |db, name| agents::by_name(&db, &name, ahead))
    }

    async fn agents(&self, query: AgentQuery) -> Result<Vec<Agent>, StoreError> {
        let ahead = self.clock.ahead_ms();
        read!(self, |db, query| agents::list(&db, &query, ahead))
    }

    async fn attempt(&self, tag: &AttemptTag) -> Result<Option<Attempt>, StoreError> {
        read!(self, |db, tag| attempts::by_tag(&db, &tag))
    }

    async fn attempts(&self, query: AttemptQuery) -> Result<Vec<Attempt>, StoreError> {
        read!(self, |db, query| attempts::list(&db, &query))
    }

    async fn session(&self, key: &SessionKey) -> Result<Option<Session>, StoreError> {
        let ahead = self.clock.ahead_ms();
        read!(self, |db, key| sessions::by_key(&db, &key, ahead))
    }

    async fn sessions(&self, query: SessionQuery) -> Result<Vec<Session>, StoreError> {
        let ahead = self.clock.ahead_ms();
        read!(self, |db, query| sessions::list(&db, &query, ahead))
    }

    async fn kept(&self, name: &str) -> Result<Option<Value>, StoreError> {
        let name = name.to_owned();
        read!(self, |db, name| named_records::read(&db, &name))
    }

    async fn unreadable(&self, of: Rows) -> Result<Vec<UnreadableRow>, StoreError> {
        read!(self, |db, of| inventory::unreadable(&db, &of))
    }

    async fn kept_in(&self, range: KeptRange) -> Result<Vec<(String, Value)>, StoreError> {
        read!(self, |db, range| named_records::list(&db, &range))
    }

    async fn inventory(&self, whole: bool) -> Result<Inventory, StoreError> {
        let schema = self.server.url.schema.clone();
        read!(self, |db, schema| inventory::take(&db, &schema, whole))
    }

    async fn claimable(
        &self,
        claimant: &Claimant,
        now: Time,
        limit: usize,
    ) -> Result<Vec<TaskId>, StoreError> {
        let ahead = self.clock.ahead_ms();
        read!(self, |db, claimant| queue::claimable(
            &db, &claimant, now, ahead, limit
        ))
    }

    async fn next_due(&self, now: Time) -> Result<Option<Time>, StoreError> {
        read!(self, |db| queue::next_due(&db, now))
    }

    async fn renew_node(&self, name: &NodeName, epoch: Epoch) -> Result<bool, StoreError> {
        let ahead = self.clock.ahead_ms();
        let name = name.clone();
        let renew = move |db: Arc<Connection>| {
            let name = name.clone();
            async move { nodes::renew(&db, &name, epoch, ahead).await }
        };
        self.read_for_lease(renew).await
    }

    async fn nodes(&self) -> Result<Vec<Node>, StoreError> {
        let ahead = self.clock.ahead_ms();
        read!(self, |db| nodes::list(&db, ahead))
    }

    async fn nodes_summary(&self) -> Result<NodesSummary, StoreError> {
        let ahead = self.clock.ahead_ms();
        self.read_for_lease(move |db| async move { nodes::glance(&db, ahead).await })
            .await
    }

    async fn agents_mark(&self) -> Result<ChangeToken, StoreError> {
        read!(self, |db| agents::mark(&db))
    }

    async fn newest_event(&self) -> Result<u64, StoreError> {
        read!(self, |db| journal::newest(&db))
    }

    async fn changed(&self, after: u64) -> Result<(), StoreError> {
        loop {
            let next = self.watch.next(self.background.handle());
            tokio::pin!(next);
            next.as_mut().enable();
            if self.newest_event().await? > after {
                return Ok(());
            }
            next.await;
        }
    }

    fn is_shared(&self) -> bool {
        true
    }

    async fn clock(&self) -> Result<Option<Time>, StoreError> {
        read!(self, |db| lease_clock::wall(&db))
    }
}
