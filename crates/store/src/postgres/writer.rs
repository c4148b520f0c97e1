//! The one writer: queued operations share one transaction.
//!
//! While one batch is under way others queue; all that wait then go together. Nobody is answered
//! before the commit is durable.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::desk::Desk;
use super::operation::{Operation, Removal, Reply};
use super::pool::Pool;
use super::watch::Watch;
use crate::contract::{Recall, StoreError};

/// Most operations in one transaction: bounds how long the first of them waits.
const BATCH_MAX: usize = 512;
/// Most bytes of outputs in one transaction, roughly.
const BATCH_BYTES_MAX: usize = 32 << 20;
/// How long an operation that nobody waits for may stay in memory.
const SOON: Duration = Duration::from_millis(2);
/// How long those who came together the last time are waited for.
const GATHER: Duration = Duration::from_micros(300);

#[derive(Debug)]
enum Job {
    /// Somebody waits for the answer.
    Awaited(Operation, oneshot::Sender<Reply>),
    /// Nobody does, and it may be recalled.
    Soon(Recall),
    /// Goes by itself.
    Removal(Removal, oneshot::Sender<Reply>),
}

#[derive(Debug, Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// How many of them somebody waits for.
    awaited: usize,
    /// When the first job that nobody waits for must be written.
    due: Option<Instant>,
    closing: bool,
}

/// Hands operations to the one transaction at a time.
#[derive(Debug)]
pub(super) struct Writer {
    place: String,
    queue: Mutex<Queue>,
    /// Rung by each that hands something in.
    bell: Notify,
    /// Rung once when it has ended.
    ended: Notify,
}

/// What goes next.
enum Next {
    Batch(Vec<Operation>, Vec<Option<oneshot::Sender<Reply>>>),
    Removal(Removal, oneshot::Sender<Reply>),
}

impl Writer {
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
        self.hand_in(|reply| Job::Awaited(operation, reply)).await
    }

    /// Done when it returns `Ok`.
    pub(super) async fn remove(&self, removal: Removal) -> Reply {
        self.hand_in(|reply| Job::Removal(removal, reply)).await
    }

    async fn hand_in(&self, job: impl FnOnce(oneshot::Sender<Reply>) -> Job) -> Reply {
        let (reply, answer) = oneshot::channel();
        {
            let mut queue = self.queue();
            if queue.closing {
                return Err(self.stopped().into());
            }
            queue.jobs.push_back(job(reply));
            queue.awaited += 1;
        }
        self.bell.notify_one();
        answer.await.unwrap_or_else(|_| Err(self.stopped().into()))
    }

    /// Durable with the next one, or soon.
    pub(super) fn run_soon(&self, recall: Recall) {
        let mut queue = self.queue();
        queue.jobs.push_back(Job::Soon(recall));
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
    /// its callers their answer and the desk its connection, and no more.
    pub(super) async fn work(
        self: Arc<Self>,
        make_desk: impl Fn() -> Desk,
        watch: Arc<Watch>,
        pool: Arc<Pool>,
    ) {
        let mut desk = make_desk();
        let mut crowd = 0;
        while let Some(next) = self.next(crowd).await {
            let served = match next {
                Next::Batch(operations, replies) => {
                    crowd = replies.iter().flatten().count();
                    tokio::spawn(batch(desk, operations, replies)).await
                }
                Next::Removal(removal, reply) => tokio::spawn(remove(desk, removal, reply)).await,
            };
            desk = served.unwrap_or_else(|_| make_desk());
            watch.tell(&pool);
        }
        self.ended.notify_one();
    }

    /// None when it is closed and nothing is left.
    async fn next(&self, crowd: usize) -> Option<Next> {
        loop {
            let wait = {
                let queue = self.queue();
                let is_due = queue.due.is_some_and(|due| due <= Instant::now());
                if queue.awaited > 0 || is_due || (queue.closing && !queue.jobs.is_empty()) {
                    break;
                }
                if queue.closing {
                    return None;
                }
                queue.due
            };
            match wait {
                Some(due) => drop(tokio::time::timeout_at(due, self.bell.notified()).await),
                None => self.bell.notified().await,
            }
        }
        self.gather(crowd).await;
        Some(self.queue().take())
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

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().expect("nothing panics while the queue is locked")
    }

    fn stopped(&self) -> StoreError {
        let why = "its writer has stopped".to_owned();
        StoreError::Unreachable { place: self.place.clone(), why }
    }
}

impl Queue {
    /// All that can go together from the front of the queue, or the one removal that is there.
    fn take(&mut self) -> Next {
        if let Some(Job::Removal(..)) = self.jobs.front()
            && let Some(Job::Removal(removal, reply)) = self.jobs.pop_front()
        {
            self.awaited -= 1;
            return Next::Removal(removal, reply);
        }
        let (mut operations, mut replies, mut bytes) = (Vec::new(), Vec::new(), 0);
        while operations.len() < BATCH_MAX && bytes < BATCH_BYTES_MAX {
            let (operation, reply) = match self.jobs.front() {
                None | Some(Job::Removal(..)) => break,
                Some(Job::Awaited(..) | Job::Soon(_)) => match self.jobs.pop_front() {
                    Some(Job::Awaited(operation, reply)) => {
                        self.awaited -= 1;
                        (operation, Some(reply))
                    }
                    Some(Job::Soon(recall)) => match recall.take() {
                        Some(commit) => (Operation::Commit(commit), None),
                        None => continue,
                    },
                    Some(Job::Removal(..)) | None => break,
                },
            };
            bytes += operation.weight();
            operations.push(operation);
            replies.push(reply);
        }
        if !self.jobs.iter().any(|job| matches!(job, Job::Soon(_))) {
            self.due = None;
        }
        Next::Batch(operations, replies)
    }
}

async fn batch(
    mut desk: Desk,
    operations: Vec<Operation>,
    replies: Vec<Option<oneshot::Sender<Reply>>>,
) -> Desk {
    if operations.is_empty() {
        return desk;
    }
    let answers = desk.commit(&operations).await;
    for (reply, answer) in replies.into_iter().zip(answers) {
        if let Some(reply) = reply {
            // Whoever stopped waiting does not want to know.
            let _ = reply.send(answer);
        }
    }
    desk
}

async fn remove(mut desk: Desk, removal: Removal, reply: oneshot::Sender<Reply>) -> Desk {
    let answer = desk.remove(&removal).await;
    // Whoever stopped waiting does not want to know.
    let _ = reply.send(answer);
    desk
}
