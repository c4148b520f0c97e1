//! Group commit: queued operations share one transaction.
//!
//! Operations queue while a batch is being committed, and are then committed together. No caller gets an
//! answer before the commit is durable. Batches of steps, which are most writes, may overlap if their
//! tasks differ: while the server commits one, callers prepare the next.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use relight_core::ids::TaskId;
use tokio::sync::{Notify, oneshot};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;

use super::batch_committer::BatchCommitter;
use super::commit_watch::PostgresWatch;
use super::operation;
use super::pool::Pool;
use crate::apply::is_of_steps;
use crate::contract::{Commit, DeferredCommit, Operation, OperationReply, StoreError};

/// Maximum operations per transaction: bounds how long the first one waits.
const BATCH_MAX: usize = 512;
/// Approximate maximum bytes of outputs per transaction: they arrive within the response limit even on
/// a slow link, and the additional syncs cost little in comparison.
const BATCH_BYTES_MAX: usize = 4 << 20;
/// How long a deferred operation may stay in memory.
const SOON: Duration = Duration::from_millis(2);
/// How long to wait for the callers of the last batch.
const GATHER: Duration = Duration::from_micros(300);
/// Maximum number of concurrent batches of steps.
const UNDER_WAY_MAX: usize = 2;
/// From this many steps on, a batch is split in two.
const STEPS_TO_SPLIT: usize = 32;
/// From this many steps on, a batch overlaps the running one; fewer wait and share the next sync.
const STEPS_BESIDE_MIN: usize = 16;

#[derive(Debug)]
enum BatchJob {
    /// A caller waits for the answer.
    Awaited(Operation, oneshot::Sender<OperationReply>),
    /// Deferred: no caller waits, and it can be cancelled.
    Deferred(DeferredCommit),
}

#[derive(Debug, Default)]
struct PostgresWriteQueue {
    jobs: VecDeque<BatchJob>,
    /// How many have a waiting caller.
    awaited: usize,
    /// When the first deferred job must be written.
    due: Option<Instant>,
    closing: bool,
}

/// Queues operations for the next transaction.
#[derive(Debug)]
pub(super) struct PostgresWriter {
    place: String,
    queue: Mutex<PostgresWriteQueue>,
    /// Notified when an operation is queued.
    bell: Notify,
    /// Notified once when it has ended.
    ended: Notify,
}

/// The next batch.
#[derive(Debug, Default)]
struct WriteBatch {
    operations: Vec<Operation>,
    replies: Vec<Option<oneshot::Sender<OperationReply>>>,
    /// The tasks of the steps; none if there are other operations.
    steps_of: Option<HashSet<TaskId>>,
}

impl PostgresWriter {
    pub(super) fn new(place: &str) -> Arc<Self> {
        Arc::new(Self {
            place: place.to_owned(),
            queue: Mutex::default(),
            bell: Notify::new(),
            ended: Notify::new(),
        })
    }

    /// Durable when it returns `Ok`.
    pub(super) async fn run(&self, operation: Operation) -> OperationReply {
        let (reply, answer) = oneshot::channel();
        {
            let mut queue = self.queue();
            if queue.closing {
                return Err(self.stopped().into());
            }
            queue.jobs.push_back(BatchJob::Awaited(operation, reply));
            queue.awaited += 1;
        }
        self.bell.notify_one();
        answer.await.unwrap_or_else(|_| Err(self.stopped().into()))
    }

    /// Durable with the next one, or soon.
    pub(super) fn run_deferred(&self, deferred: DeferredCommit) {
        let mut queue = self.queue();
        queue.jobs.push_back(BatchJob::Deferred(deferred));
        if queue.due.is_none() {
            queue.due = Some(Instant::now() + SOON);
            drop(queue);
            self.bell.notify_one();
        }
    }

    /// Writes what is queued and accepts no more.
    pub(super) async fn close(self: Arc<Self>) {
        self.queue().closing = true;
        self.bell.notify_one();
        self.ended.notified().await;
    }

    /// Until it is closed: takes queued operations, commits and answers. If a batch panics, its callers
    /// get no answer and the committer loses its connection; nothing else is affected.
    pub(super) async fn work(
        self: Arc<Self>,
        make_desk: impl Fn() -> BatchCommitter,
        watch: Arc<PostgresWatch>,
        pool: Arc<Pool>,
    ) {
        let (mut running, mut under_way) = (RunningBatches::new(), UnderWay::default());
        let mut crowd = 0;
        loop {
            let next = tokio::select! {
                biased;
                Some(ended) = running.join_next_with_id() => {
                    crowd = under_way.take_back(ended);
                    watch.tell(&pool);
                    continue;
                }
                next = self.next(crowd, &under_way) => next,
            };
            match next {
                Some(batch) => under_way.send(batch, &mut running, &make_desk),
                None if running.is_empty() => break,
                None => while running.join_next().await.is_some() {},
            }
        }
        self.ended.notify_one();
    }

    /// None if it is closed and the queue is empty. Cancel safe.
    async fn next(&self, crowd: usize, under_way: &UnderWay) -> Option<WriteBatch> {
        loop {
            let wait = {
                let queue = self.queue();
                let is_due = queue.due.is_some_and(|due| due <= Instant::now());
                let has_work = queue.awaited > 0 || is_due;
                if (has_work || (queue.closing && !queue.jobs.is_empty()))
                    && queue.front_may_go(under_way)
                {
                    break;
                }
                if queue.closing && queue.jobs.is_empty() {
                    return None;
                }
                // Operations that cannot be sent yet are looked at when a batch has ended.
                queue.due.filter(|_| !has_work)
            };
            match wait {
                Some(due) => drop(tokio::time::timeout_at(due, self.bell.notified()).await),
                None => self.bell.notified().await,
            }
        }
        self.gather(crowd).await;
        Some(self.queue().take(under_way))
    }

    /// Callers that were answered together come back together: the first one must not be committed by
    /// itself and make the others wait.
    async fn gather(&self, crowd: usize) {
        let until = Instant::now() + GATHER;
        let is_whole = || self.queue().awaited >= crowd || Instant::now() >= until;
        while crowd > 1 && !is_whole() {
            // Timers are too coarse for such a short time.
            tokio::task::yield_now().await;
        }
    }

    fn queue(&self) -> MutexGuard<'_, PostgresWriteQueue> {
        self.queue
            .lock()
            .expect("nothing panics while the queue is locked")
    }

    fn stopped(&self) -> StoreError {
        let why = "its writer has stopped".to_owned();
        StoreError::Unreachable {
            place: self.place.clone(),
            why,
        }
    }
}

impl PostgresWriteQueue {
    /// Whether anything can be sent beside the running batches.
    fn front_may_go(&self, under_way: &UnderWay) -> bool {
        match self.jobs.iter().find(|job| !job.is_cancelled()) {
            Some(_) if under_way.is_empty() => true,
            Some(job) => self.awaited >= STEPS_BESIDE_MIN && job.is_step_beside(under_way),
            None => under_way.is_empty(),
        }
    }

    /// The longest batch from the front of the queue.
    fn take(&mut self, under_way: &UnderWay) -> WriteBatch {
        let mut batch = WriteBatch {
            steps_of: Some(HashSet::new()),
            ..WriteBatch::default()
        };
        let most = self.most(under_way);
        let mut bytes = 0;
        while batch.operations.len() < most && bytes < BATCH_BYTES_MAX {
            let Some(job) = self.jobs.front() else { break };
            if !under_way.is_empty() && !job.is_cancelled() && !job.is_step_beside(under_way) {
                break;
            }
            let (operation, reply) = match self.jobs.pop_front() {
                Some(BatchJob::Awaited(operation, reply)) => {
                    self.awaited -= 1;
                    (operation, Some(reply))
                }
                Some(BatchJob::Deferred(deferred)) => match deferred.take() {
                    Some(commit) => (Operation::Commit(commit), None),
                    None => continue,
                },
                None => break,
            };
            bytes += operation::weight(&operation);
            batch.push(operation, reply);
        }
        if !self
            .jobs
            .iter()
            .any(|job| matches!(job, BatchJob::Deferred(_)))
        {
            self.due = None;
        }
        batch
    }

    /// Takes half of many steps, so that callers and server work at the same time.
    fn most(&self, under_way: &UnderWay) -> usize {
        let is_alone = under_way.is_empty();
        let all_steps = || {
            self.jobs
                .iter()
                .all(|job| job.is_cancelled() || job.is_step())
        };
        match self.awaited {
            many if many >= STEPS_TO_SPLIT && is_alone && all_steps() => many.div_ceil(2),
            _ => BATCH_MAX,
        }
        .min(BATCH_MAX)
    }
}

impl BatchJob {
    fn is_cancelled(&self) -> bool {
        matches!(self, Self::Deferred(deferred) if deferred.is_over())
    }

    fn is_step(&self) -> bool {
        match self {
            Self::Awaited(operation, _) => operation::is_step(operation),
            Self::Deferred(deferred) => deferred.looks(is_of_steps),
        }
    }

    /// Whether it is a step record of a task without a running batch.
    fn is_step_beside(&self, under_way: &UnderWay) -> bool {
        match self {
            Self::Awaited(Operation::Commit(commit), _) => under_way.has_place_for(commit),
            Self::Awaited(..) => false,
            Self::Deferred(deferred) => deferred.looks(|commit| under_way.has_place_for(commit)),
        }
    }
}

impl WriteBatch {
    fn push(&mut self, operation: Operation, reply: Option<oneshot::Sender<OperationReply>>) {
        match (&mut self.steps_of, &operation) {
            (Some(tasks), Operation::Commit(commit)) if operation::is_step(&operation) => {
                tasks.insert(commit.task.clone());
            }
            (steps_of, _) => *steps_of = None,
        }
        self.operations.push(operation);
        self.replies.push(reply);
    }
}

/// Running batches, each returns its committer and how many callers waited.
type RunningBatches = JoinSet<(BatchCommitter, usize)>;
/// The result of a running batch.
type EndedBatch = Result<(Id, (BatchCommitter, usize)), JoinError>;

/// The batches that were sent and not answered.
#[derive(Debug, Default)]
struct UnderWay {
    /// The tasks of each batch; none if nothing may overlap it.
    tasks: Vec<(Id, Option<HashSet<TaskId>>)>,
    /// Unused committers.
    desks: Vec<BatchCommitter>,
    /// Resolves when the newest batch has answered its callers.
    newest: Option<oneshot::Receiver<()>>,
}

impl UnderWay {
    fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Whether these are steps of tasks without a running batch.
    fn has_place_for(&self, commit: &Commit) -> bool {
        let is_free = |(_, tasks): &(Id, Option<HashSet<TaskId>>)| {
            tasks
                .as_ref()
                .is_some_and(|tasks| !tasks.contains(&commit.task))
        };
        self.tasks.len() < UNDER_WAY_MAX && is_of_steps(commit) && self.tasks.iter().all(is_free)
    }

    fn send(
        &mut self,
        batch: WriteBatch,
        running: &mut RunningBatches,
        make_desk: &impl Fn() -> BatchCommitter,
    ) {
        if batch.operations.is_empty() {
            return;
        }
        let committer = self.desks.pop().unwrap_or_else(make_desk);
        let (has_answered, answered) = oneshot::channel();
        let before = self.newest.replace(answered);
        let WriteBatch {
            operations,
            replies,
            steps_of,
        } = batch;
        let sent = running.spawn(commit(committer, operations, replies, before, has_answered));
        self.tasks.push((sent.id(), steps_of));
    }

    /// How many callers waited for it.
    fn take_back(&mut self, ended: EndedBatch) -> usize {
        let (id, crowd) = match ended {
            Ok((id, (committer, crowd))) => {
                self.desks.push(committer);
                (id, crowd)
            }
            Err(error) => (error.id(), 0),
        };
        self.tasks.retain(|(known, _)| *known != id);
        crowd
    }
}

/// Answers in the order in which batches were sent: a caller that has its answer can rely on all earlier
/// operations.
async fn commit(
    mut committer: BatchCommitter,
    operations: Vec<Operation>,
    replies: Vec<Option<oneshot::Sender<OperationReply>>>,
    before: Option<oneshot::Receiver<()>>,
    has_answered: oneshot::Sender<()>,
) -> (BatchCommitter, usize) {
    let crowd = replies.iter().flatten().count();
    let answers = committer.commit(&operations).await;
    if let Some(before) = before {
        // A panicked batch has no answers.
        let _ = before.await;
    }
    for (reply, answer) in replies.into_iter().zip(answers) {
        if let Some(reply) = reply {
            // The caller may have stopped waiting.
            let _ = reply.send(answer);
        }
    }
    drop(has_answered);
    (committer, crowd)
}
