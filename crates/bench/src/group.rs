//! Group commit at its barest: all that waits goes down in one batch with one sync.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use anyhow::Context as _;
use tokio::sync::oneshot;

use crate::load::Worker;

/// Somewhere bodies become durable, some at a time.
pub(crate) trait Sink: Send + 'static {
    /// All of `bodies` or none; on return they are on the disk.
    fn commit(&mut self, bodies: &[Arc<str>]) -> anyhow::Result<()>;
}

/// A worker that owns its sink: one commit a write, no hand-over.
pub(crate) struct Single<S: Sink>(pub(crate) S, pub(crate) Arc<str>);

impl<S: Sink> Worker for Single<S> {
    async fn write(&mut self) -> anyhow::Result<()> {
        self.0.commit(std::slice::from_ref(&self.1))
    }
}

/// A worker that hands its writes to a group.
pub(crate) struct Grouped(pub(crate) Arc<Group>, pub(crate) Arc<str>);

impl Worker for Grouped {
    async fn write(&mut self) -> anyhow::Result<()> {
        self.0.commit(self.1.clone()).await
    }
}

struct Waiting {
    body: Arc<str>,
    done: oneshot::Sender<()>,
}

/// A queue in front of one writing thread, which ends with the group.
pub(crate) struct Group {
    queue: Option<SyncSender<Waiting>>,
    writer: Option<JoinHandle<()>>,
}

impl Group {
    /// For at most `workers_max` workers, each with one write in the queue at a time.
    pub(crate) fn start(sink: impl Sink, workers_max: usize) -> Arc<Group> {
        let (queue, waiting) = sync_channel(workers_max);
        let writer = thread::spawn(move || write_batches(sink, &waiting, workers_max));
        Arc::new(Group {
            queue: Some(queue),
            writer: Some(writer),
        })
    }

    async fn commit(&self, body: Arc<str>) -> anyhow::Result<()> {
        let (done, acknowledged) = oneshot::channel();
        let queue = self.queue.as_ref().context("the group has ended")?;
        queue
            .send(Waiting { body, done })
            .ok()
            .context("the writer died")?;
        acknowledged.await.context("the writer died")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(writer) = self.writer.take() {
            // A panic of the writer was printed, and every waiter was told.
            let _ = writer.join();
        }
    }
}

fn write_batches(mut sink: impl Sink, waiting: &Receiver<Waiting>, batch_max: usize) {
    let mut bodies = Vec::with_capacity(batch_max);
    let mut acknowledge = Vec::with_capacity(batch_max);
    while let Ok(first) = waiting.recv() {
        for one in std::iter::once(first)
            .chain(waiting.try_iter())
            .take(batch_max)
        {
            bodies.push(one.body);
            acknowledge.push(one.done);
        }
        sink.commit(&bodies)
            .expect("the floor's batch reaches the disk");
        bodies.clear();
        for done in acknowledge.drain(..) {
            // A worker that no longer waits has its write all the same.
            let _ = done.send(());
        }
    }
}
