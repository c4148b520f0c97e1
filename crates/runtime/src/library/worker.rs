//! Works through the queue: one task after the other, some at once, whatever becomes of each.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use relight_core::ids::{AgentName, TaskId};
use relight_core::time::Span;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::boundary::{End, EndError, Ended};
use super::queue::TaskQueue;
use super::task::RunningTask;
use crate::boxed::BoxFuture;
use crate::engine::ActError;

type Stop = BoxFuture<'static, ()>;
type OnEnd = dyn Fn(&TaskId, &Result<Ended, EndError>) + Send + Sync;

/// Somebody who works through the queue.
pub struct Worker {
    queue: TaskQueue,
    agent: AgentName,
    skills: Vec<String>,
    at_once: usize,
    until_empty: bool,
    until: Option<Stop>,
    on_end: Option<Arc<OnEnd>>,
}

/// How many tasks ended how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Worked {
    /// Finished.
    pub done: u64,
    /// Waiting for a person.
    pub blocked: u64,
    /// Put off.
    pub deferred: u64,
    /// Failed or panicked, and given to their strategy.
    pub failed: u64,
    /// Taken over by somebody else.
    pub lost: u64,
    /// Ended in a way that could not be recorded.
    pub unrecorded: u64,
}

impl Worker {
    pub(super) fn new(queue: TaskQueue, agent: AgentName) -> Self {
        let (skills, at_once, until_empty) = (Vec::new(), 1, false);
        Self {
            queue,
            agent,
            skills,
            at_once,
            until_empty,
            until: None,
            on_end: None,
        }
    }

    /// What it can do beside what the store knows of the agent.
    #[must_use]
    pub fn skills(mut self, skills: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.skills.extend(skills.into_iter().map(Into::into));
        self
    }

    /// How many tasks it works on at a time; one otherwise.
    #[must_use]
    pub fn at_once(mut self, tasks: usize) -> Self {
        self.at_once = tasks.max(1);
        self
    }

    /// Holds tasks by leases of this length; see [`TaskQueue::lease`].
    #[must_use]
    pub fn lease(mut self, ttl: Span) -> Self {
        self.queue = self.queue.lease(ttl);
        self
    }

    /// Ends when there is nothing to take, instead of waiting for more.
    #[must_use]
    pub fn until_empty(mut self) -> Self {
        self.until_empty = true;
        self
    }

    /// Takes nothing more once this completes, and ends when what it works on has ended.
    #[must_use]
    pub fn until(mut self, stop: impl Future<Output = ()> + Send + 'static) -> Self {
        self.until = Some(Box::pin(stop));
        self
    }

    /// Is told how each task ended, for logs and metrics.
    #[must_use]
    pub fn on_end(
        mut self,
        told: impl Fn(&TaskId, &Result<Ended, EndError>) + Send + Sync + 'static,
    ) -> Self {
        self.on_end = Some(Arc::new(told));
        self
    }

    /// Works. Each task ends by how its work ends (see [`RunningTask::run`]); neither an error nor a
    /// panic stops the others. Returns when it was told to, or when the store cannot be used.
    ///
    /// Dropped half way, the tasks that it works on are interrupted.
    pub async fn run<T, E, F, Fut>(self, work: F) -> Result<Worked, ActError>
    where
        F: Fn(Arc<RunningTask>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        T: Into<End> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>> + Send + 'static,
    {
        let (tell_stop, stopped) = watch::channel(false);
        let work = Arc::new(work);
        let mut slots = JoinSet::new();
        for _ in 0..self.at_once {
            let slot = Slot {
                queue: self.queue.clone(),
                agent: self.agent.clone(),
                skills: self.skills.clone(),
                until_empty: self.until_empty,
                on_end: self.on_end.clone(),
                stopped: stopped.clone(),
            };
            slots.spawn(slot.work(Arc::clone(&work)));
        }
        let mut stop = self
            .until
            .unwrap_or_else(|| Box::pin(std::future::pending()));
        let (mut all, mut first_error) = (Worked::default(), None);
        loop {
            let ended = tokio::select! {
                ended = slots.join_next() => ended,
                () = &mut stop, if !*tell_stop.borrow() => {
                    tell_stop.send_replace(true);
                    continue;
                }
            };
            match ended {
                None => return first_error.map_or(Ok(all), Err),
                Some(Ok((worked, result))) => {
                    all.add(worked);
                    if let Err(error) = result {
                        first_error.get_or_insert(error);
                        tell_stop.send_replace(true);
                    }
                }
                // Only what a program does in `on_end` can panic here; it is its own to see.
                Some(Err(error)) if error.is_panic() => {
                    std::panic::resume_unwind(error.into_panic())
                }
                Some(Err(_)) => {}
            }
        }
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("agent", &self.agent)
            .field("at_once", &self.at_once)
            .finish_non_exhaustive()
    }
}

impl Worked {
    fn add(&mut self, other: Self) {
        self.done += other.done;
        self.blocked += other.blocked;
        self.deferred += other.deferred;
        self.failed += other.failed;
        self.lost += other.lost;
        self.unrecorded += other.unrecorded;
    }

    fn count(&mut self, ended: &Result<Ended, EndError>) {
        let count = match ended {
            Ok(Ended::Done) => &mut self.done,
            Ok(Ended::Blocked) => &mut self.blocked,
            Ok(Ended::Deferred) => &mut self.deferred,
            Ok(Ended::Failed { .. }) => &mut self.failed,
            Ok(Ended::Lost(_)) => &mut self.lost,
            Err(_) => &mut self.unrecorded,
        };
        *count += 1;
    }
}

/// One of the tasks at a time.
struct Slot {
    queue: TaskQueue,
    agent: AgentName,
    skills: Vec<String>,
    until_empty: bool,
    on_end: Option<Arc<OnEnd>>,
    stopped: watch::Receiver<bool>,
}

impl Slot {
    async fn work<T, E, F, Fut>(mut self, work: Arc<F>) -> (Worked, Result<(), ActError>)
    where
        F: Fn(Arc<RunningTask>) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        T: Into<End>,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let mut worked = Worked::default();
        loop {
            let task = match self.next().await {
                Ok(Some(task)) => task,
                Ok(None) => return (worked, Ok(())),
                Err(error) => return (worked, Err(error)),
            };
            let id = task.id().clone();
            let ended = task.run(|task| work(task)).await;
            worked.count(&ended);
            if let Some(told) = &self.on_end {
                told(&id, &ended);
            }
        }
    }

    async fn next(&mut self) -> Result<Option<RunningTask>, ActError> {
        if *self.stopped.borrow() {
            return Ok(None);
        }
        if self.until_empty {
            return self.queue.claim_now(&self.agent, &self.skills).await;
        }
        tokio::select! {
            biased;
            // The sender outlives every slot.
            _ = self.stopped.wait_for(|stopped| *stopped) => Ok(None),
            task = self.queue.next(&self.agent, &self.skills) => task.map(Some),
        }
    }
}
