//! Commits batches as transactions, and resolves commits whose answer was lost.
//!
//! A batch of steps takes one trip (`steps`). Any other takes two: one reads and holds everything that
//! it concerns, the other writes and commits. Each also writes its number into the writer's own row
//! (`commit_mark`), which is held until the transaction ends, however it ends. A writer that
//! lost the answer to a commit waits for that row on a new connection and reads it: the number is
//! there, or the same statement skips it and it never will be. A transaction that does not end (its commit
//! waits for a standby) is never sent again; the row keeps the writer's later batches behind it.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::connection::{Connection, PostgresServer, Script, values};
use super::error::PostgresFailure;
use super::lease_clock::PostgresLeaseClock;
use super::open;
use super::operation;
use super::step_batch::{self, StepBatch};
use super::working_set::{self, Load};
use crate::apply::Concern;
use crate::contract::OperationRefusal;
use crate::contract::{Operation, OperationReply, StoreError};

/// Pauses between connection attempts; the last one repeats.
const PAUSES_MS: [u64; 6] = [1, 10, 50, 100, 250, 500];
/// Tries of a conflicting batch as a whole.
const TRIES_TOGETHER_MAX: u32 = 4;
/// Tries of a conflicting operation.
pub(super) const TRIES_MAX: u32 = 40;

/// Time limit of a batch executed one by one, as a multiple of the normal limit.
const ONE_BY_ONE_SHARE: u32 = 2;

/// Bytes that arrive before a transaction counts as idle, even on a slow link.
const LITTLE_BYTES_MAX: usize = 64 << 10;

/// One writer's connection and mark.
#[derive(Debug)]
pub(super) struct BatchCommitter {
    server: Arc<PostgresServer>,
    clock: Arc<PostgresLeaseClock>,
    connection: Option<Connection>,
    mark: Option<WriterMark>,
    /// Key of the advisory lock that orders the journal.
    journal_key: i64,
}

/// The writer's own row, and the number of its newest batch.
#[derive(Debug, Clone)]
struct WriterMark {
    writer: String,
    number: i64,
}

/// How a transaction failed.
#[derive(Debug)]
enum Undone {
    /// It was not committed.
    Never(PostgresFailure),
    /// The commit was sent, but its result is unknown.
    Unknown(SentStatement, String),
}

/// What was sent, to determine the answers.
#[derive(Debug)]
enum SentStatement {
    Batch(Vec<OperationReply>),
    /// Steps; the answers are read from their tasks.
    Steps,
}

/// The result of a commit without an answer.
#[derive(Debug)]
enum ReadBack {
    /// It was committed; these are the answers.
    Made(Vec<OperationReply>),
    /// It was not committed and never will be.
    NeverMade,
    /// Unknown; it must not be sent again.
    Open(StoreError),
}

impl From<PostgresFailure> for Undone {
    fn from(failure: PostgresFailure) -> Self {
        Self::Never(failure)
    }
}

const MARK: &str = "
    UPDATE commit_mark SET number = $2, at = (extract(epoch FROM clock_timestamp()) * 1000)::bigint
    WHERE writer = $1 RETURNING (SELECT min_compatible FROM meta WHERE one)";

/// The newest batch's number if it was committed, otherwise a larger one: a late arrival is then
/// refused. Idempotent.
const READ_MARK: &str = "
    UPDATE commit_mark SET number = CASE WHEN number = $2 THEN $2 ELSE $2 + 1 END
    WHERE writer = $1 RETURNING number";

/// A transaction counts as idle while a long message arrives, so large messages get more time.
const NOT_IDLE: &str = "SELECT set_config('idle_in_transaction_session_timeout', $1, true)";

impl BatchCommitter {
    pub(super) fn new(
        server: Arc<PostgresServer>,
        clock: Arc<PostgresLeaseClock>,
        journal_key: i64,
    ) -> Self {
        Self {
            server,
            clock,
            connection: None,
            mark: None,
            journal_key,
        }
    }

    /// Commits all operations in one transaction, unless one makes the others fail. Nothing with an
    /// unknown outcome is repeated.
    pub(super) async fn commit(&mut self, operations: &[Operation]) -> Vec<OperationReply> {
        let until = Instant::now() + self.patience();
        match self.together(operations, TRIES_TOGETHER_MAX, until).await {
            Ok(replies) => replies,
            Err(error) if operations.len() == 1 || is_of_the_store(&error) => operations
                .iter()
                .map(|_| Err(error.clone().into()))
                .collect(),
            Err(_) => self.one_by_one(operations).await,
        }
    }

    /// Commits operations one by one, because an invalid value is the fault of one of them, and two
    /// that swap a name must be sequential. A lock held by others delays the rest only by seconds.
    async fn one_by_one(&mut self, operations: &[Operation]) -> Vec<OperationReply> {
        let until = Instant::now() + ONE_BY_ONE_SHARE * self.patience();
        let mut of_all: Option<StoreError> = None;
        let mut replies = Vec::with_capacity(operations.len());
        for operation in operations {
            if let Some(error) = &of_all {
                replies.push(Err(error.clone().into()));
                continue;
            }
            let until_own = until.min(Instant::now() + self.patience() / 2);
            let one = std::slice::from_ref(operation);
            replies.push(match self.together(one, TRIES_MAX, until_own).await {
                Ok(mut reply) => reply.pop().expect("one answer for each operation"),
                Err(error) => {
                    of_all = is_of_the_store(&error).then(|| error.clone());
                    Err(OperationRefusal::from(error))
                }
            });
            if of_all.is_none() && Instant::now() >= until {
                of_all = Some(PostgresFailure::Again.into_store_error(&self.server.place));
            }
        }
        replies
    }

    /// Retries conflicts and lost connections until the deadline.
    async fn together(
        &mut self,
        operations: &[Operation],
        tries_max: u32,
        until: Instant,
    ) -> Result<Vec<OperationReply>, StoreError> {
        let (mut tries, mut losses) = (0, 0);
        let tries_max = if operations.len() == 1 {
            TRIES_MAX
        } else {
            tries_max
        };
        loop {
            let failure = match self.transaction(operations).await {
                Ok(replies) => return Ok(replies),
                Err(Undone::Never(failure)) => failure,
                Err(Undone::Unknown(sent, why)) => match self.read_back(sent, operations).await {
                    ReadBack::Made(replies) => return Ok(replies),
                    ReadBack::NeverMade => PostgresFailure::Lost(why),
                    ReadBack::Open(error) => return Err(error),
                },
            };
            match failure {
                PostgresFailure::Again if tries < tries_max && Instant::now() < until => {
                    pause(tries).await;
                    tries += 1;
                }
                // A silent server used up the time; another one may have replaced it.
                PostgresFailure::Lost(_) if losses == 0 || Instant::now() < until => {
                    self.connection = None;
                    pause(losses).await;
                    losses += 1;
                }
                failure => return Err(failure.into_store_error(&self.server.place)),
            }
        }
    }

    async fn transaction(
        &mut self,
        operations: &[Operation],
    ) -> Result<Vec<OperationReply>, Undone> {
        if let Some(steps) = StepBatch::of(operations)
            && let Some(replies) = self.append_steps(steps).await?
        {
            return Ok(replies);
        }
        self.two_trips(operations).await
    }

    /// None when the working set is needed; nothing was changed.
    async fn append_steps(
        &mut self,
        mut steps: StepBatch<'_>,
    ) -> Result<Option<Vec<OperationReply>>, Undone> {
        let mark = self.next_mark().await?;
        let (ahead_ms, journal_key) = (self.clock.ahead_ms(), self.journal_key);
        let schema = open::schema_known().cast_signed();
        let mut values = values![mark.writer, mark.number, schema, ahead_ms, journal_key];
        let (sql, more) = steps.statement();
        values.extend(more);
        let db = self.connection.as_ref().expect("there is a mark on it");
        match db.query_opt(sql, &values).await {
            Ok(row) => {
                let row = row.expect("a function gives a row");
                Ok(Some(steps.replies(&row).map_err(|bad| db.damaged(&bad))?))
            }
            Err(PostgresFailure::Lost(why)) => Err(Undone::Unknown(SentStatement::Steps, why)),
            Err(PostgresFailure::Again | PostgresFailure::Refused(_)) => Ok(None),
        }
    }

    async fn two_trips(&mut self, operations: &[Operation]) -> Result<Vec<OperationReply>, Undone> {
        let (ahead_ms, journal_key) = (self.clock.ahead_ms(), self.journal_key);
        let mark = self.next_mark().await?;
        let db = self.connection.as_ref().expect("there is a mark on it");
        let mut script = Script::default();
        script.add("BEGIN", Vec::new());
        let place = script.add(MARK, values![mark.writer, mark.number]);
        if operations.iter().map(operation::weight).sum::<usize>() > LITTLE_BYTES_MAX {
            script.add(NOT_IDLE, values![self.patience().as_millis().to_string()]);
        }
        let concern = Concern::of(operations);
        let (answers, mut set) = match Load(&concern).read(db, script, ahead_ms).await {
            Ok(read) => read,
            Err(failure) => return Err(self.rolled_back(failure).await.into()),
        };
        let Some(marked) = answers[place].first() else {
            // The row was removed because the writer was considered gone.
            self.mark = None;
            return Err(self.rolled_back(PostgresFailure::Again).await.into());
        };
        if let Err(newer) = open::check_compatible(&self.server.place, marked.get(0)) {
            return Err(self.rolled_back(newer.into()).await.into());
        }
        let mut entries = Vec::new();
        let replies: Vec<OperationReply> = operations
            .iter()
            .map(|operation| set.perform(operation, &mut entries))
            .collect();
        let mut script = working_set::write(&set, &entries, journal_key);
        let has_changes = !script.is_empty();
        script.add(if has_changes { "COMMIT" } else { "ROLLBACK" }, Vec::new());
        let db = self.connection.as_ref().expect("it was there before");
        match db.run(script).await {
            Ok(_) => Ok(replies),
            Err(PostgresFailure::Lost(why)) if has_changes => {
                Err(Undone::Unknown(SentStatement::Batch(replies), why))
            }
            Err(failure) => Err(self.rolled_back(failure).await.into()),
        }
    }

    /// Rolls back a failed transaction, if the connection is still open.
    async fn rolled_back(&mut self, failure: PostgresFailure) -> PostgresFailure {
        let Some(db) = &self.connection else {
            return failure;
        };
        let is_lost = matches!(failure, PostgresFailure::Lost(_));
        if is_lost || db.is_lost() || db.brief("ROLLBACK").await.is_err() {
            self.connection = None;
        }
        failure
    }

    async fn next_mark(&mut self) -> Result<WriterMark, PostgresFailure> {
        self.connect().await?;
        if self.mark.is_none() {
            let db = self.connection.as_ref().expect("it was connected just now");
            let sql = "INSERT INTO commit_mark DEFAULT VALUES RETURNING writer";
            let row = db
                .query_opt(sql, &[])
                .await?
                .expect("an insert gives its row");
            self.mark = Some(WriterMark {
                writer: row.get(0),
                number: 0,
            });
        }
        let mark = self.mark.as_mut().expect("it was made just now");
        mark.number += 1;
        Ok(mark.clone())
    }

    /// How long to wait for a lost server or a conflict before callers get an error.
    fn patience(&self) -> Duration {
        self.server.url.patience
    }

    async fn connect(&mut self) -> Result<(), PostgresFailure> {
        if self.connection.as_ref().is_none_or(Connection::is_lost) {
            self.connection = None;
            self.connection = Some(self.server.connect(None).await?);
        }
        Ok(())
    }

    /// Determines the result of the newest batch by its number, after its transaction has ended.
    /// That may take long while a commit waits for a standby or a disk; callers then get an error
    /// with an unknown outcome.
    async fn read_back(&mut self, mut sent: SentStatement, operations: &[Operation]) -> ReadBack {
        self.connection = None;
        let until = Instant::now() + self.patience();
        let mut tries = 0;
        loop {
            let failure = match self.read_mark(&mut sent, operations).await {
                Ok(Some(replies)) => return ReadBack::Made(replies),
                Ok(None) => return ReadBack::NeverMade,
                Err(failure) => failure,
            };
            if matches!(failure, PostgresFailure::Refused(_)) || Instant::now() >= until {
                let why = match failure {
                    PostgresFailure::Lost(why) => why,
                    PostgresFailure::Again => "its transaction has not ended".to_owned(),
                    PostgresFailure::Refused(error) => error.to_string(),
                };
                let why = format!("a commit was not answered and may have been made ({why})");
                return ReadBack::Open(self.server.unreachable(why));
            }
            if matches!(failure, PostgresFailure::Lost(_)) {
                self.connection = None;
            }
            pause(tries).await;
            tries += 1;
        }
    }

    async fn read_mark(
        &mut self,
        sent: &mut SentStatement,
        operations: &[Operation],
    ) -> Result<Option<Vec<OperationReply>>, PostgresFailure> {
        self.connect().await?;
        let db = self.connection.as_ref().expect("it was connected just now");
        let mark = self.mark.as_mut().expect("a commit was sent under it");
        let row = db
            .query_opt(READ_MARK, &values![mark.writer.clone(), mark.number])
            .await?;
        if row.is_none_or(|row| row.get::<_, i64>(0) != mark.number) {
            mark.number += 1;
            return Ok(None);
        }
        match sent {
            SentStatement::Batch(replies) => Ok(Some(std::mem::take(replies))),
            SentStatement::Steps => {
                let steps = StepBatch::of(operations).expect("they were steps when they were sent");
                let row = db
                    .query_opt(step_batch::SEQS, &values![steps.task_ids()])
                    .await?;
                let row = row.expect("an aggregate gives a row");
                steps
                    .replies(&row)
                    .map(Some)
                    .map_err(|bad| db.damaged(&bad))
            }
        }
    }
}

/// Whether every operation would get the same answer.
fn is_of_the_store(error: &StoreError) -> bool {
    match error {
        StoreError::Io { .. }
        | StoreError::Newer { .. }
        | StoreError::HalfCopied { .. }
        | StoreError::Replaced { .. }
        | StoreError::Unreachable { .. } => true,
        StoreError::Damaged { .. } | StoreError::Busy { .. } | StoreError::Unsuitable { .. } => {
            false
        }
    }
}

/// Before the next try.
pub(super) async fn pause(tries: u32) {
    let ms = PAUSES_MS
        .get(tries as usize)
        .or(PAUSES_MS.last())
        .copied()
        .unwrap_or(1);
    tokio::time::sleep(Duration::from_millis(ms)).await;
}
