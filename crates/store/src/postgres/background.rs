//! The thread that talks to the server, so that callers may use any executor or none.

use std::pin::Pin;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::contract::StoreError;

/// How long closing a store waits for pending writes.
const END_WAIT: Duration = Duration::from_secs(5);

/// A thread with a runtime of its own.
#[derive(Debug)]
pub(super) struct Background {
    handle: Handle,
    /// Dropped to end it.
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    pub(super) fn start(place: &str) -> Result<Self, StoreError> {
        let cannot = |why: String| StoreError::Unreachable {
            place: place.to_owned(),
            why,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| cannot(format!("no runtime: {error}")))?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel::<()>();
        let named = std::thread::Builder::new().name("relight-postgres".to_owned());
        let thread = named
            .spawn(move || {
                // It completes when the sender is dropped.
                let _ = runtime.block_on(ended);
                runtime.shutdown_timeout(Duration::ZERO);
            })
            .map_err(|error| cannot(format!("no thread: {error}")))?;
        Ok(Self {
            handle,
            end: Some(end),
            thread: Some(thread),
        })
    }

    pub(super) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Runs a future on the thread, from any executor; none when it panicked or the thread is gone.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        self.spawn(Box::pin(async move {
            // The caller may have stopped waiting.
            let _ = answer.send(future.await);
        }));
        answered.await.ok()
    }

    /// The same for a caller without an executor, with a time limit.
    pub(super) fn run_blocking<T: Send + 'static>(
        &self,
        wait: Duration,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let (answer, answered) = mpsc::sync_channel(1);
        self.spawn(Box::pin(async move {
            let _ = answer.send(future.await);
        }));
        answered.recv_timeout(wait).ok()
    }

    /// Boxed and without an answer: there would be a copy of the executor's task for each type.
    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.handle.spawn(future);
    }

    /// Ends the thread after this future, or after a time limit.
    pub(super) fn end(&mut self, last: impl Future<Output = ()> + Send + 'static) {
        let Some(end) = self.end.take() else { return };
        self.run_blocking(END_WAIT, last);
        drop(end);
        if let Some(thread) = self.thread.take() {
            // Callers notice a panic there by their missing answers.
            let _ = thread.join();
        }
    }
}
