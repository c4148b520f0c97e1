//! The thread that talks to the daemon: callers may be on any executor, or on none that knows sockets.

use std::io;
use std::pin::Pin;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use relight_runtime::os::limits;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::{self, AbortHandle};

/// A thread with a runtime of its own, ended when it is dropped.
#[derive(Debug)]
pub(super) struct Thread {
    handle: Handle,
    /// Dropped to end it.
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Ends what nobody waits for any more.
struct EndWithCaller(AbortHandle);

impl Drop for EndWithCaller {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Thread {
    pub(super) fn start() -> io::Result<Self> {
        limits::check_room_for_runtime()?;
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel::<()>();
        let named = std::thread::Builder::new().name("relight-relay".to_owned());
        let thread = named.spawn(move || {
            // It completes when the sender is dropped.
            let _ = runtime.block_on(ended);
            runtime.shutdown_timeout(Duration::ZERO);
        })?;
        Ok(Self {
            handle,
            end: Some(end),
            thread: Some(thread),
        })
    }

    /// Goes on by itself, whoever waits.
    pub(super) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.spawn_boxed(Box::pin(future));
    }

    /// Boxed and without an answer: there would be a copy of the executor's task for each type.
    fn spawn_boxed(
        &self,
        future: Pin<Box<dyn Future<Output = ()> + Send>>,
    ) -> task::JoinHandle<()> {
        self.handle.spawn(future)
    }

    /// The future's answer, from whatever executor; none when it panicked. Ends with its caller.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        let task = self.spawn_boxed(Box::pin(async move {
            // The caller may have stopped waiting.
            let _ = answer.send(future.await);
        }));
        let _end = EndWithCaller(task.abort_handle());
        answered.await.ok()
    }

    /// Waits for this future on the caller's own thread, no longer than this.
    pub(super) fn finish(&self, wait: Duration, future: impl Future<Output = ()> + Send + 'static) {
        let (done, is_done) = mpsc::sync_channel(1);
        self.spawn(async move {
            future.await;
            // Whoever stopped waiting does not want to know.
            let _ = done.send(());
        });
        let _ = is_done.recv_timeout(wait);
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // A panic there was told by its callers' missing answers.
            let _ = thread.join();
        }
    }
}
