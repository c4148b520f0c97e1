//! The signals by which a supervisor is told to end.

use std::io;
use std::pin::pin;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::timeout;

/// How long interrupted work may still take.
const INTERRUPTED_MAX: Duration = Duration::from_secs(2);

/// Listens to SIGTERM, SIGINT and SIGHUP.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignalRequest {
    /// End; with the signal's number.
    End(i32),
    /// SIGHUP: read the configuration again, or end where there is none.
    HangUp,
}

impl Signals {
    /// Needs a Tokio runtime.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// The next signal. Nothing is lost when it is dropped.
    pub async fn next(&mut self) -> SignalRequest {
        tokio::select! {
            _ = self.terminate.recv() => SignalRequest::End(15),
            _ = self.interrupt.recv() => SignalRequest::End(2),
            _ = self.hang_up.recv() => SignalRequest::HangUp,
        }
    }

    /// Does work that may wait without end. A signal to end gives it a moment; then it is dropped, and
    /// there is no result. Also returns the signal.
    pub async fn interrupt<T>(
        &mut self,
        work: impl Future<Output = T>,
    ) -> (Option<T>, Option<i32>) {
        let mut work = pin!(work);
        let signal = tokio::select! {
            biased;
            done = &mut work => return (Some(done), None),
            _ = self.terminate.recv() => 15,
            _ = self.interrupt.recv() => 2,
        };
        (timeout(INTERRUPTED_MAX, work).await.ok(), Some(signal))
    }
}
