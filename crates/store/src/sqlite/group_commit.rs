//! The single writer: queued operations share one transaction and one sync.
//!
//! A lone caller commits on its own thread, unless it asks not to (`run_on_writer_thread`) or
//! several callers came together the last time. While one commits, others queue. A thread then
//! commits all queued operations in one transaction, each in its own savepoint where it needs one,
//! so that a failing operation does not affect the others. Callers are answered after the commit is
//! durable.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode};
use tokio::sync::oneshot;

use super::error::store_error;
use super::lease_clock::SqliteLeaseClock;
use super::open::{self, Use};
use super::refusal::ApplyError;
use super::replaced_file::StoreFiles;
use super::{apply, commit_watch, journal};
use crate::contract::{DeferredCommit, Operation, OperationReply, StoreError};

/// Maximum operations in one transaction; bounds the wait of the first one.
const BATCH_MAX: usize = 512;
/// How long a deferred commit may stay in memory.
const SOON: Duration = Duration::from_millis(2);

#[derive(Debug)]
enum WriterJob {
    /// A caller waits for the answer.
    Awaited(Operation, oneshot::Sender<OperationReply>),
    /// A deferred commit, which may be cancelled.
    Deferred(DeferredCommit),
}

impl WriterJob {
    /// None when it was cancelled.
    fn open(self) -> Option<(Operation, Option<oneshot::Sender<OperationReply>>)> {
        match self {
            Self::Awaited(operation, reply) => Some((operation, Some(reply))),
            Self::Deferred(deferred) => deferred
                .take()
                .map(|commit| (Operation::Commit(commit), None)),
        }
    }
}

enum HandedIn {
    Answered(OperationReply),
    Queued(oneshot::Receiver<OperationReply>),
}

#[derive(Debug, Default)]
struct SqliteWriteQueue {
    jobs: VecDeque<WriterJob>,
    /// Jobs with a waiting caller.
    awaited: usize,
    /// A commit is running.
    leading: bool,
    /// Several callers waited for the last commit and are likely to come together again. The first
    /// of them must not commit alone and make the others wait for a sync of its own.
    is_crowded: bool,
    /// When the first deferred commit must be on disk.
    due: Option<Instant>,
    /// The thread already sleeps until `due`.
    timed: bool,
    closing: bool,
}

/// The connection and the newest durable row.
#[derive(Debug)]
struct WriterConnection {
    /// None after an I/O error, because the handle cannot be trusted.
    connection: Option<Connection>,
    /// The newest journal row acknowledged through this connection.
    acknowledged: u64,
}

#[derive(Debug)]
struct WriterShared {
    path: PathBuf,
    /// The path in errors.
    name: Arc<str>,
    place: Arc<StoreFiles>,
    usage: Use,
    clock: Arc<SqliteLeaseClock>,
    watch: Arc<commit_watch::SqliteWatch>,
    queue: Mutex<SqliteWriteQueue>,
    wake: Condvar,
    slot: Mutex<WriterConnection>,
}

/// Queues operations for the single writer.
#[derive(Debug)]
pub(super) struct SqliteWriter {
    shared: Arc<WriterShared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl SqliteWriter {
    pub(super) fn new(
        path: &Path,
        usage: Use,
        connection: Connection,
        place: &Arc<StoreFiles>,
        clock: &Arc<SqliteLeaseClock>,
        watch: &Arc<commit_watch::SqliteWatch>,
    ) -> Self {
        let slot = WriterConnection {
            connection: Some(connection),
            acknowledged: 0,
        };
        let shared = WriterShared {
            path: path.to_owned(),
            name: path.display().to_string().into(),
            place: Arc::clone(place),
            usage,
            clock: Arc::clone(clock),
            watch: Arc::clone(watch),
            queue: Mutex::default(),
            wake: Condvar::new(),
            slot: Mutex::new(slot),
        };
        Self {
            shared: Arc::new(shared),
            thread: Mutex::default(),
        }
    }

    /// Runs an operation; durable when it returns `Ok`.
    pub(super) async fn run(&self, operation: Operation) -> OperationReply {
        match self.hand_in(operation) {
            HandedIn::Answered(reply) => reply,
            HandedIn::Queued(answer) => answer
                .await
                .unwrap_or_else(|_| Err(self.shared.stopped().into())),
        }
    }

    /// Like `run`, but always on the writer thread, together with everything queued meanwhile. For
    /// callers that share one thread and must not block each other.
    pub(super) async fn run_on_writer_thread(&self, operation: Operation) -> OperationReply {
        let answer = self.hand_over(operation);
        answer
            .await
            .unwrap_or_else(|_| Err(self.shared.stopped().into()))
    }

    fn hand_over(&self, operation: Operation) -> oneshot::Receiver<OperationReply> {
        let mut queue = self.shared.queue();
        let answer = queue.push(operation);
        // The committing thread checks the queue again.
        let is_led = queue.leading;
        drop(queue);
        if !is_led {
            self.start_thread();
        }
        answer
    }

    fn hand_in(&self, operation: Operation) -> HandedIn {
        let mut queue = self.shared.queue();
        let all_fit = queue.jobs.len() < BATCH_MAX;
        let is_alone = !queue.leading && queue.awaited == 0 && !queue.is_crowded;
        if is_alone && all_fit {
            return HandedIn::Answered(self.lead(queue, operation));
        }
        let is_first = !queue.leading && queue.awaited == 0;
        let answer = queue.push(operation);
        drop(queue);
        if is_first {
            self.start_thread();
        }
        HandedIn::Queued(answer)
    }

    /// Queues a deferred commit: durable with the next operation, or soon.
    pub(super) fn run_deferred(&self, deferred: DeferredCommit) {
        let mut queue = self.shared.queue();
        queue.jobs.push_back(WriterJob::Deferred(deferred));
        if queue.due.is_none() {
            queue.due = Some(now() + SOON);
        }
        if !queue.timed && !queue.leading {
            queue.timed = true;
            drop(queue);
            self.start_thread();
        }
    }

    /// Whether nothing is queued or being committed.
    pub(super) fn is_idle(&self) -> bool {
        let queue = self.shared.queue();
        !queue.leading && queue.awaited == 0
    }

    /// Reads through the writer's connection, if a process has no other.
    pub(super) fn read<T>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let mut slot = self.shared.slot();
        let connection = self.shared.connection(&mut slot)?;
        read(connection).map_err(|e| store_error(&self.shared.path, e))
    }

    /// Commits on the caller's thread, together with deferred commits.
    fn lead(
        &self,
        mut queue: MutexGuard<'_, SqliteWriteQueue>,
        operation: Operation,
    ) -> OperationReply {
        let jobs = queue.take(BATCH_MAX - 1);
        queue.leading = true;
        drop(queue);
        let mut operations: Vec<Operation> = jobs
            .into_iter()
            .filter_map(WriterJob::open)
            .map(|(operation, _)| operation)
            .collect();
        operations.push(operation);
        let leading = Leading(&self.shared);
        let own = self
            .shared
            .batch(&operations)
            .pop()
            .expect("one answer for each operation");
        drop(leading);
        let others_wait = !self.shared.queue().jobs.is_empty();
        if others_wait {
            self.start_thread();
        }
        own
    }

    /// Wakes the writer thread, and starts it if it does not run. If no thread can be started, the
    /// caller does its work.
    fn start_thread(&self) {
        let mut thread = self
            .thread
            .lock()
            .expect("nothing panics while it is locked");
        if thread.as_ref().is_none_or(JoinHandle::is_finished) {
            let shared = Arc::clone(&self.shared);
            let named = std::thread::Builder::new().name("relight-writer".to_owned());
            *thread = named.spawn(move || shared.work()).ok();
        }
        let has_thread = thread.is_some();
        drop(thread);
        if has_thread {
            self.shared.wake.notify_one();
        } else {
            self.shared.work_now();
        }
    }
}

impl Drop for SqliteWriter {
    fn drop(&mut self) {
        self.shared.queue().closing = true;
        self.shared.wake.notify_one();
        let thread = self.thread.lock().ok().and_then(|mut thread| thread.take());
        if let Some(thread) = thread {
            // Callers notice a panic there by their missing answers.
            let _ = thread.join();
        }
        let jobs = self.shared.queue().take(usize::MAX);
        let is_short = self.shared.usage == Use::Short;
        let left = jobs
            .into_iter()
            .filter_map(WriterJob::open)
            .map(|(operation, _)| operation);
        self.shared.batch(&left.collect::<Vec<_>>());
        if let (true, Some(connection)) = (is_short, &mut self.shared.slot().connection) {
            open::shorten_log(&self.shared.path, connection);
        }
    }
}

/// Marks a running commit. Also reset by a panic, so that later commits are not blocked.
struct Leading<'s>(&'s WriterShared);

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        self.0.queue().leading = false;
    }
}

impl SqliteWriteQueue {
    fn push(&mut self, operation: Operation) -> oneshot::Receiver<OperationReply> {
        let (reply, answer) = oneshot::channel();
        self.jobs.push_back(WriterJob::Awaited(operation, reply));
        self.awaited += 1;
        answer
    }

    fn take(&mut self, most: usize) -> Vec<WriterJob> {
        let count = most.min(self.jobs.len());
        let jobs: Vec<WriterJob> = self.jobs.drain(..count).collect();
        self.awaited -= jobs
            .iter()
            .filter(|job| matches!(job, WriterJob::Awaited(..)))
            .count();
        if self.jobs.is_empty() {
            self.due = None;
        }
        jobs
    }
}

impl WriterShared {
    fn queue(&self) -> MutexGuard<'_, SqliteWriteQueue> {
        self.queue
            .lock()
            .expect("nothing panics while the queue is locked")
    }

    fn slot(&self) -> MutexGuard<'_, WriterConnection> {
        self.slot.lock().unwrap_or_else(|poisoned| {
            // After a panic within a transaction the handle cannot be used any more.
            let mut slot = poisoned.into_inner();
            slot.connection = None;
            slot
        })
    }

    /// The loop of the writer thread: waits, commits all queued jobs, answers.
    fn work(&self) {
        loop {
            let mut queue = self.queue();
            loop {
                let due = queue.due.is_some_and(|due| due <= now());
                if !queue.leading && (queue.awaited > 0 || due) {
                    break;
                }
                if queue.closing {
                    return;
                }
                queue = self.sleep(queue);
            }
            self.take_and_answer(queue);
        }
    }

    /// Commits all queued jobs on this thread.
    fn work_now(&self) {
        loop {
            let queue = self.queue();
            if queue.leading || queue.jobs.is_empty() {
                return;
            }
            self.take_and_answer(queue);
        }
    }

    fn take_and_answer(&self, mut queue: MutexGuard<'_, SqliteWriteQueue>) {
        queue.leading = true;
        queue.is_crowded = queue.awaited > 1;
        let jobs = queue.take(BATCH_MAX);
        drop(queue);
        let leading = Leading(self);
        let (operations, replies): (Vec<_>, Vec<_>) =
            jobs.into_iter().filter_map(WriterJob::open).unzip();
        let answers = self.batch(&operations);
        drop(leading);
        for (reply, answer) in replies.into_iter().zip(answers) {
            if let Some(reply) = reply {
                // The caller may have stopped waiting.
                let _ = reply.send(answer);
            }
        }
    }

    fn sleep<'a>(
        &self,
        mut queue: MutexGuard<'a, SqliteWriteQueue>,
    ) -> MutexGuard<'a, SqliteWriteQueue> {
        let healthy = "nothing panics while the queue is locked";
        match queue.due {
            Some(due) if !queue.leading => {
                queue.timed = true;
                let left = due.saturating_duration_since(now());
                let mut queue = self.wake.wait_timeout(queue, left).expect(healthy).0;
                queue.timed = false;
                queue
            }
            _ => {
                queue.timed = false;
                self.wake.wait(queue).expect(healthy)
            }
        }
    }

    /// Runs all operations in one transaction. If it cannot be committed, none of them happened.
    fn batch(&self, operations: &[Operation]) -> Vec<OperationReply> {
        if operations.is_empty() {
            return Vec::new();
        }
        let mut slot = self.slot();
        let result = self.transaction(&mut slot, operations);
        drop(slot);
        self.watch.tell();
        match result {
            Ok(answers) => answers,
            Err(error) => operations
                .iter()
                .map(|_| Err(error.clone().into()))
                .collect(),
        }
    }

    fn transaction(
        &self,
        slot: &mut WriterConnection,
        operations: &[Operation],
    ) -> Result<Vec<OperationReply>, StoreError> {
        // Otherwise this file's log could be applied to another file.
        self.place.check()?;
        let connection = self.connection(slot)?;
        let run = || {
            connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
            let answers = self.operations(connection, operations)?;
            let newest = journal::newest(connection)?;
            connection.prepare_cached("COMMIT")?.execute([])?;
            Ok((answers, newest))
        };
        match run() {
            Ok((answers, newest)) => {
                self.place.check_all()?;
                slot.acknowledged = newest;
                Ok(answers)
            }
            Err(error) => {
                let _ = connection.execute_batch("ROLLBACK");
                let error = store_error(&self.path, error);
                if matches!(error, StoreError::Io { .. }) {
                    // After a failed sync, a later success proves nothing.
                    slot.connection = None;
                }
                Err(error)
            }
        }
    }

    fn operations(
        &self,
        db: &Connection,
        operations: &[Operation],
    ) -> rusqlite::Result<Vec<OperationReply>> {
        operations
            .iter()
            .map(|operation| self.operation(db, operation))
            .collect()
    }

    fn operation(
        &self,
        db: &Connection,
        operation: &Operation,
    ) -> rusqlite::Result<OperationReply> {
        let has_savepoint = !apply::is_plain(operation);
        let run = |sql: &str| match has_savepoint {
            true => db.prepare_cached(sql)?.execute([]).map(drop),
            false => Ok(()),
        };
        run("SAVEPOINT operation")?;
        let reply = match apply::perform(db, operation, self.clock.now(), &self.name) {
            Err(error) => match self.own_fault(error) {
                ApplyError::Sqlite(error) => return Err(error),
                ApplyError::Refused(refusal) => {
                    run("ROLLBACK TO operation")?;
                    Err(refusal)
                }
            },
            Ok(done) => Ok(done),
        };
        run("RELEASE operation")?;
        Ok(reply)
    }

    /// An unreadable row or an invalid value is an error of one operation only.
    fn own_fault(&self, error: ApplyError) -> ApplyError {
        let own = |error: &rusqlite::Error| match error.sqlite_error_code() {
            None => true,
            Some(code) => matches!(code, ErrorCode::ConstraintViolation | ErrorCode::TooBig),
        };
        match error {
            ApplyError::Sqlite(error) if own(&error) => {
                ApplyError::Refused(store_error(&self.path, error).into())
            }
            other => other,
        }
    }

    /// The connection; after an I/O error a new one, once it shows every acknowledged row.
    fn connection<'a>(&self, slot: &'a mut WriterConnection) -> Result<&'a Connection, StoreError> {
        if slot.connection.is_none() {
            let connection = open::open(&self.path, self.usage)?;
            let newest = journal::newest(&connection).map_err(|e| store_error(&self.path, e))?;
            if newest < slot.acknowledged {
                let what = format!(
                    "after an I/O error it ends at event {newest}, but {} was acknowledged",
                    slot.acknowledged
                );
                return Err(StoreError::Damaged {
                    place: self.path.display().to_string(),
                    what,
                });
            }
            self.place.reopened()?;
            slot.connection = Some(connection);
        }
        Ok(slot.connection.as_ref().expect("it was opened just now"))
    }

    fn stopped(&self) -> StoreError {
        let place = self.path.display().to_string();
        StoreError::Unreachable {
            place,
            why: "its writer has stopped".to_owned(),
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a wait inside the process, never recorded"
)]
fn now() -> Instant {
    Instant::now()
}
