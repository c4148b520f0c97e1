//! The one writer: queued operations share one transaction.
//!
//! While one batch is under way others queue; all that wait then go together. Nobody is answered
//! before the commit is durable. Steps, which are most of what is written, may have two batches under
//! way, of different tasks: while the server is at one of them, callers make ready what goes with the
//! other.

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
use crate::contract::{Commit, DeferredCommit, Operation, Reply, StoreError};

/// Most operations in one transaction: bounds how long the first of them waits.
const BATCH_MAX: usize = 512;
/// Most bytes of outputs in one transaction, roughly: they arrive within the time for an answer also
/// on a slow link, and a sync for each costs little beside them.
const BATCH_BYTES_MAX: usize = 4 << 20;
/// How long an operation that nobody waits for may stay in memory.
const SOON: Duration = Duration::from_millis(2);
/// How long those who came together the last time are waited for.
const GATHER: Duration = Duration::from_micros(300);
/// Batches of steps that are under way at most.
const UNDER_WAY_MAX: usize = 2;
/// So many steps go as two batches rather than one.
const STEPS_TO_SPLIT: usize = 32;
/// So many go beside a batch that is under way; fewer wait for it and share the next sync.
const STEPS_BESIDE_MIN: usize = 16;

#[derive(Debug)]
enum BatchJob {
    /// Somebody waits for the answer.
    Awaited(Operation, oneshot::Sender<Reply>),
    /// Nobody does, and it may be cancelled.
    Deferred(DeferredCommit),
}

#[derive(Debug, Default)]
struct PostgresWriteQueue {
    jobs: VecDeque<BatchJob>,
    /// How many of them somebody waits for.
    awaited: usize,
    /// When the first job that nobody waits for must be written.
    due: Option<Instant>,
    closing: bool,
}

/// Hands operations to the one transaction at a time.
#[derive(Debug)]
pub(super) struct PostgresWriter {
    place: String,
    queue: Mutex<PostgresWriteQueue>,
    /// Rung by each that hands something in.
    bell: Notify,
    /// Rung once when it has ended.
    ended: Notify,
}

/// What goes next.
#[derive(Debug, Default)]
struct WriteBatch {
    operations: Vec<Operation>,
    replies: Vec<Option<oneshot::Sender<Reply>>>,
    /// Whose steps they are; none when there is anything else among them.
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
    pub(super) async fn run(&self, operation: Operation) -> Reply {
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

    /// Writes what is left, and takes no more.
    pub(super) async fn close(self: Arc<Self>) {
        self.queue().closing = true;
        self.bell.notify_one();
        self.ended.notified().await;
    }

    /// Until it is closed: waits, takes all that waits, commits, answers. A batch that panics costs
    /// its callers their answer and the committer its connection, and no more.
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

    /// None when it is closed and nothing is left. Nothing is taken when this is dropped half way.
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
                // What may not go yet is looked at when a batch has ended.
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

    /// Those who were answered together come again together: the first of them must not go ahead alone
    /// and make the others wait for a commit of its own.
    async fn gather(&self, crowd: usize) {
        let until = Instant::now() + GATHER;
        let is_whole = || self.queue().awaited >= crowd || Instant::now() >= until;
        while crowd > 1 && !is_whole() {
            // Timers are too coarse for so short a while.
            tokio::task::yield_now().await;
        }
    }

    fn queue(&self) -> MutexGuard<'_, PostgresWriteQueue> {
        self.queue.lock().expect("nothing panics while the queue is locked")
    }

    fn stopped(&self) -> StoreError {
        let why = "its writer has stopped".to_owned();
        StoreError::Unreachable { place: self.place.clone(), why }
    }
}

impl PostgresWriteQueue {
    /// Whether anything can be sent beside what is under way.
    fn front_may_go(&self, under_way: &UnderWay) -> bool {
        match self.jobs.iter().find(|job| !job.is_cancelled()) {
            Some(_) if under_way.is_empty() => true,
            Some(job) => self.awaited >= STEPS_BESIDE_MIN && job.is_step_beside(under_way),
            None => under_way.is_empty(),
        }
    }

    /// All that can go together from the front of the queue.
    fn take(&mut self, under_way: &UnderWay) -> WriteBatch {
        let mut batch = WriteBatch { steps_of: Some(HashSet::new()), ..WriteBatch::default() };
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
        if !self.jobs.iter().any(|job| matches!(job, BatchJob::Deferred(_))) {
            self.due = None;
        }
        batch
    }

    /// Of many steps one half, so that callers and server are at work at the same time.
    fn most(&self, under_way: &UnderWay) -> usize {
        let is_alone = under_way.is_empty();
        let all_steps = || self.jobs.iter().all(|job| job.is_cancelled() || job.is_step());
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

    /// A record of steps of a task of which nothing is under way.
    fn is_step_beside(&self, under_way: &UnderWay) -> bool {
        match self {
            Self::Awaited(Operation::Commit(commit), _) => under_way.has_place_for(commit),
            Self::Awaited(..) => false,
            Self::Deferred(deferred) => deferred.looks(|commit| under_way.has_place_for(commit)),
        }
    }
}

impl WriteBatch {
    fn push(&mut self, operation: Operation, reply: Option<oneshot::Sender<Reply>>) {
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

/// Batches at the server, each with its committer, which comes back with how many waited for it.
type RunningBatches = JoinSet<(BatchCommitter, usize)>;
/// How one ended.
type EndedBatch = Result<(Id, (BatchCommitter, usize)), JoinError>;

/// What is known of the batches that were sent and not answered.
#[derive(Debug, Default)]
struct UnderWay {
    /// Whose steps each of them has; none when it suffers no other beside it.
    tasks: Vec<(Id, Option<HashSet<TaskId>>)>,
    /// Those that nobody sits at.
    desks: Vec<BatchCommitter>,
    /// Completes when the newest has answered its callers.
    newest: Option<oneshot::Receiver<()>>,
}

impl UnderWay {
    fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Whether these are steps of a task of which nothing is under way.
    fn has_place_for(&self, commit: &Commit) -> bool {
        let is_free = |(_, tasks): &(Id, Option<HashSet<TaskId>>)| {
            tasks.as_ref().is_some_and(|tasks| !tasks.contains(&commit.task))
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
        let WriteBatch { operations, replies, steps_of } = batch;
        let sent = running.spawn(commit(committer, operations, replies, before, has_answered));
        self.tasks.push((sent.id(), steps_of));
    }

    /// How many waited for it.
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

/// Answers in the order in which batches were sent: whoever is answered may rely on all that was
/// handed in before.
async fn commit(
    mut committer: BatchCommitter,
    operations: Vec<Operation>,
    replies: Vec<Option<oneshot::Sender<Reply>>>,
    before: Option<oneshot::Receiver<()>>,
    has_answered: oneshot::Sender<()>,
) -> (BatchCommitter, usize) {
    let crowd = replies.iter().flatten().count();
    let answers = committer.commit(&operations).await;
    if let Some(before) = before {
        // One that panicked answers nobody.
        let _ = before.await;
    }
    for (reply, answer) in replies.into_iter().zip(answers) {
        if let Some(reply) = reply {
            // Whoever stopped waiting does not want to know.
            let _ = reply.send(answer);
        }
    }
    drop(has_answered);
    (committer, crowd)
}
