//! The thread on which everything happens that talks to the server: callers may be on any executor,
//! or on none that knows sockets.

use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::contract::StoreError;

/// How long the end of a store waits for what is still to be written.
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
        let cannot = |why: String| StoreError::Unreachable { place: place.to_owned(), why };
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
        Ok(Self { handle, end: Some(end), thread: Some(thread) })
    }

    pub(super) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// The future's answer, from whatever executor; none when it panicked or the thread is gone.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        self.handle.spawn(future).await.ok()
    }

    /// The same for a caller that has no executor, who waits no longer than this.
    pub(super) fn run_blocking<T: Send + 'static>(
        &self,
        wait: Duration,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let (answer, answered) = mpsc::sync_channel(1);
        self.handle.spawn(async move {
            // Whoever stopped waiting does not want to know.
            let _ = answer.send(future.await);
        });
        answered.recv_timeout(wait).ok()
    }

    /// Ends the thread, after this future or a while.
    pub(super) fn end(&mut self, last: impl Future<Output = ()> + Send + 'static) {
        let Some(end) = self.end.take() else { return };
        self.run_blocking(END_WAIT, last);
        drop(end);
        if let Some(thread) = self.thread.take() {
            // A panic there was told by its callers' missing answers.
            let _ = thread.join();
        }
    }
}
