//! The outermost boundary of a task's work: whatever goes wrong inside is recorded by the task's
//! strategy and goes no further.

use std::any::Any;
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use relight_core::decide::{Refusal, TaskEvent};
use relight_core::error_code::with_causes;
use relight_core::time::Time;

use super::task::RunningTask;
use crate::engine::ActError;
use crate::recovery::Recovered;

/// What work that went well wants to become of its task. `()` is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// It is finished.
    Done,
    /// It cannot go on before a person acts.
    Block {
        /// Why.
        reason: String,
    },
    /// It continues later.
    Defer {
        /// When.
        until: Time,
    },
}

impl From<End> for TaskEvent {
    fn from(end: End) -> Self {
        match end {
            End::Done => Self::Done { force: false },
            End::Block { reason } => Self::Block {
                reason,
                is_told: false,
            },
            End::Defer { until } => Self::Defer {
                until,
                reason: None,
            },
        }
    }
}

impl From<()> for End {
    fn from((): ()) -> Self {
        Self::Done
    }
}

/// How work on a task ended, as the store has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// It is finished.
    Done,
    /// A person is waited for.
    Blocked,
    /// It continues later.
    Deferred,
    /// It returned an error or panicked, and its strategy was asked.
    Failed {
        /// The first error, in words; the store has it redacted.
        error: String,
        /// What its strategy made of it.
        recovered: Recovered,
    },
    /// Somebody else has the task; what was done here is dropped.
    Lost(Refusal),
}

/// The end of a task's work could not be recorded. The task is interrupted, or will be found when
/// this process ends.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the end of the work could not be recorded{}", .first.as_deref().map_or(String::new(), |first| format!(" (it failed: {first})")))]
pub struct EndError {
    /// What went wrong in the work itself, where something did.
    pub first: Option<String>,
    /// Why that could not be recorded.
    pub source: ActError,
}

impl RunningTask {
    /// Does the work and ends the task by how it ends: `Ok(())` is done, an error or a panic is
    /// failed and given to the task's strategy. Nothing of it leaves this call but its answer.
    ///
    /// Dropped half way, the task is interrupted, as if its handle were dropped.
    ///
    /// ```
    /// # tokio_test(async {
    /// use relight_runtime::{Ended, Relight};
    ///
    /// let relight = Relight::open("memory:").await?;
    /// let task = relight.task("t")?.start().await?;
    /// let ended = task.run(|_| async { Err::<(), _>("the disk is full") }).await?;
    /// let Ended::Failed { error, recovered } = ended else { panic!() };
    /// assert_eq!(error, "the disk is full");
    /// assert_eq!(recovered.decision.as_deref(), Some("reassign"));
    /// # anyhow::Ok(()) });
    /// # fn tokio_test(f: impl Future<Output = anyhow::Result<()>>) {
    /// #     tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(f).unwrap();
    /// # }
    /// ```
    pub async fn run<T, E, F, Fut>(self, work: F) -> Result<Ended, EndError>
    where
        F: FnOnce(Arc<Self>) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        T: Into<End>,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let task = Arc::new(self);
        let given = Arc::clone(&task);
        // The call itself may panic too.
        let work = Caught(Box::pin(async move { work(given).await }));
        let worked = tokio::select! {
            biased;
            worked = work => worked,
            refusal = task.told_of_loss() => return Ok(Ended::Lost(refusal)),
        };
        // A step in doubt has blocked it.
        if task.is_over() {
            return Ok(Ended::Blocked);
        }
        let error = match worked {
            Ok(Ok(end)) => return task.end_as(end.into()).await,
            Ok(Err(error)) => match with_causes(&*error.into()) {
                text if text.trim().is_empty() => {
                    "it failed with an error without a text".to_owned()
                }
                text => text,
            },
            Err(panic) => format!("panicked: {}", panic_text(&*panic)),
        };
        task.end_as_error(error).await
    }

    async fn end_as_error(&self, error: String) -> Result<Ended, EndError> {
        match self.end_as_failed(&error).await {
            Ok(recovered) => Ok(Ended::Failed { error, recovered }),
            Err(ActError::Refused(refusal @ Refusal::Fenced { .. })) => Ok(Ended::Lost(refusal)),
            Err(source) => Err(EndError {
                first: Some(error),
                source,
            }),
        }
    }

    async fn end_as(&self, end: End) -> Result<Ended, EndError> {
        let ended = match end {
            End::Done => Ended::Done,
            End::Block { .. } => Ended::Blocked,
            End::Defer { .. } => Ended::Deferred,
        };
        match self.end(end.into()).await {
            Ok(()) => Ok(ended),
            Err(ActError::Refused(refusal @ Refusal::Fenced { .. })) => Ok(Ended::Lost(refusal)),
            // The work says that it went well, but left out what was declared.
            Err(ActError::Refused(refusal @ Refusal::StepsLeftOpen { .. })) => {
                self.end_as_error(refusal.to_string()).await
            }
            Err(source) => Err(EndError {
                first: None,
                source,
            }),
        }
    }
}

/// A future whose panic is its answer; not polled again after it.
struct Caught<F>(Pin<Box<F>>);

impl<F: Future> Future for Caught<F> {
    type Output = Result<F::Output, Box<dyn Any + Send>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let poll = || self.0.as_mut().poll(context);
        match catch_unwind(AssertUnwindSafe(poll)) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("without a word")
}
