//! A task that this process works on.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use relight_core::change::Change;
use relight_core::decide::{self, Guard, Refusal, Right, TaskEvent};
use relight_core::ids::{IdError, StepName, TaskId};
use relight_core::lease::Fence;
use relight_core::progress::Progress;
use relight_core::step::{Step, StepKey};
use relight_core::task::{Task, Usage};
use relight_core::time::{Span, Time};
use relight_store::{Commit, CommitError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::boundary::End;
use super::process_claims::ProcessClaims;
use super::step::{StepBuilder, StepError};
use crate::engine::{ActError, Engine, Started, act_error};
use crate::operations::{self, check_reason};
use crate::os::clock;
use crate::recovery::{Recovered, Recoverer};

/// A task under this process's lease. Steps are recorded under its fence; once somebody else has
/// the lease, every call says so.
///
/// Dropped without an end it is interrupted and returns to the queue: anybody may continue it, unless it
/// is pinned to its agent, an attempt of a supervised agent holds it, or its strategy is `resume`.
#[derive(Debug)]
pub struct RunningTask {
    pub(super) shared: Arc<TaskShared>,
    renewal: Option<JoinHandle<()>>,
    resumed: bool,
    record: Task,
    progress: Progress,
    _claim: ProcessClaims,
}

#[derive(Debug)]
pub(super) struct TaskShared {
    pub(super) engine: Engine,
    recoverer: Recoverer,
    pub(super) id: TaskId,
    pub(super) fence: Fence,
    /// Steps as the store had them when the task was started, and as this handle ended them.
    pub(super) steps: Mutex<HashMap<StepKey, Step>>,
    /// Steps whose future was dropped half way: only the store knows what became of them.
    pub(super) given_up: Mutex<HashSet<StepKey>>,
    /// How often each name was passed in this run, and is being run.
    passes: Mutex<HashMap<StepName, Passes>>,
    lost: watch::Sender<Option<Fence>>,
    ended: AtomicBool,
    /// Nothing was written by this handle yet.
    is_as_given: AtomicBool,
}

#[derive(Debug, Default, Clone, Copy)]
struct Passes {
    finished: u32,
    running: u32,
}

impl RunningTask {
    pub(super) fn new(
        recoverer: Recoverer,
        started: Started,
        ttl: Option<Span>,
        claim: ProcessClaims,
    ) -> Self {
        let steps = started
            .view
            .steps
            .into_iter()
            .map(|step| (step.key.clone(), step));
        let record = started.view.task;
        let shared = Arc::new(TaskShared {
            engine: recoverer.engine().clone(),
            recoverer,
            id: record.id.clone(),
            fence: started.fence,
            steps: Mutex::new(steps.collect()),
            given_up: Mutex::default(),
            passes: Mutex::default(),
            lost: watch::Sender::new(None),
            ended: AtomicBool::new(false),
            is_as_given: AtomicBool::new(true),
        });
        let renewal = ttl.map(|ttl| tokio::spawn(renew(Arc::clone(&shared), ttl)));
        let progress = started.view.progress;
        Self {
            shared,
            renewal,
            resumed: started.resumed,
            record,
            progress,
            _claim: claim,
        }
    }

    /// Its id.
    pub fn id(&self) -> &TaskId {
        &self.shared.id
    }

    /// The number of the lease.
    pub fn fence(&self) -> Fence {
        self.shared.fence
    }

    /// Whether somebody worked on it before.
    pub fn resumed(&self) -> bool {
        self.resumed
    }

    /// The task as it was when this handle was given it: title, payload, context, counts.
    pub fn record(&self) -> &Task {
        &self.record
    }

    /// What was asked for.
    pub fn payload(&self) -> Option<&Value> {
        self.record.spec.payload.as_ref()
    }

    /// What was done, in doubt and next when it was started.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Runs a step by the rule `keyed`, or gives its recorded value when it is finished.
    ///
    /// The same name again is the next occurrence. Give steps that run side by side names of their
    /// own.
    pub async fn step<T, E, F, Fut>(&self, name: &str, run: F) -> Result<T, StepError<E>>
    where
        T: Serialize + DeserializeOwned,
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<T, E>>,
        E: std::fmt::Display,
    {
        self.plan(name)?.run(|_| run()).await
    }

    /// A step with a rule, an input or an occurrence of its own.
    pub fn plan(&self, name: &str) -> Result<StepBuilder<'_>, IdError> {
        Ok(StepBuilder::new(self, StepName::new(name)?))
    }

    /// Adds context for a successor.
    pub async fn set(&self, key: &str, value: &str) -> Result<(), ActError> {
        self.act(TaskEvent::Set([(key.to_owned(), value.to_owned())].into()))
            .await
    }

    /// Adds to what the task has cost; past the limit of the policy nobody goes on with it by
    /// himself. Never reset.
    pub async fn spend(&self, usage: Usage) -> Result<(), ActError> {
        self.act(TaskEvent::Spend(usage)).await
    }

    /// Closes a declared step on purpose without doing it; `done` no longer asks for it.
    pub async fn skip(&self, step: &str, reason: &str) -> Result<(), ActError> {
        check_reason(reason)?;
        let key = operations::step::key(&self.shared.engine, StepName::new(step)?, None)?;
        self.act(TaskEvent::StepSkip {
            key: key.clone(),
            reason: reason.to_owned(),
        })
        .await?;
        self.shared.read_step(&key).await.map(drop)
    }

    /// It is finished. Refused while declared steps are neither finished nor skipped: the task is
    /// then interrupted, as if its handle were dropped.
    pub async fn done(self) -> Result<(), ActError> {
        self.end(TaskEvent::Done { force: false }).await
    }

    /// It is finished, and the declared steps that were left open are recorded with its end.
    pub async fn done_by_force(self) -> Result<(), ActError> {
        self.end(TaskEvent::Done { force: true }).await
    }

    /// Records that it failed; its strategy decides what happens next.
    pub async fn fail(self, reason: &str) -> Result<Recovered, ActError> {
        check_reason(reason)?;
        self.end_as_failed(reason).await
    }

    /// It cannot go on before a person acts.
    pub async fn block(self, reason: &str) -> Result<(), ActError> {
        check_reason(reason)?;
        self.end(TaskEvent::Block {
            reason: reason.to_owned(),
            is_told: false,
        })
        .await
    }

    /// It continues later.
    pub async fn defer(self, until: Time) -> Result<(), ActError> {
        self.end(TaskEvent::Defer {
            until,
            reason: None,
        })
        .await
    }

    /// Ends the work of a handle that is shared. Once it has ended, every call says so.
    pub async fn end_with(&self, end: End) -> Result<(), ActError> {
        if let End::Block { reason } = &end {
            check_reason(reason)?;
        }
        self.end(end.into()).await
    }

    /// Gives the task up: it is interrupted, and continued by whoever may continue it when its handle is
    /// dropped. On disk when it returns.
    pub async fn interrupt(&self, reason: &str) -> Result<(), ActError> {
        check_reason(reason)?;
        self.end(TaskEvent::Interrupt {
            reason: reason.to_owned(),
            agent_keeps_it: self.agent_keeps_it(),
        })
        .await
    }

    /// As `fail`, for a handle that is shared.
    pub async fn fail_with(&self, reason: &str) -> Result<Recovered, ActError> {
        check_reason(reason)?;
        self.end_as_failed(reason).await
    }

    /// Completes when somebody else has the lease: whatever is being done should be dropped.
    pub async fn lost(&self) -> Refusal {
        let mut told = self.shared.lost.subscribe();
        loop {
            if let Some(newest) = *told.borrow_and_update() {
                return self.shared.fenced(newest);
            }
            tokio::select! {
                // The sender lives as long as this handle.
                _ = told.changed() => {}
                () = self.shared.look() => {}
            }
        }
    }

    async fn act(&self, event: TaskEvent) -> Result<(), ActError> {
        let right = Right::Fence(self.shared.fence);
        // Where nothing was written since, what it was given is what the store has.
        let known = self.shared.is_as_given.swap(false, Ordering::Relaxed);
        let known = known.then(|| self.record.clone());
        let result = self
            .shared
            .engine
            .act_upon(known, &self.shared.id, right, event)
            .await;
        self.shared.note(&result);
        result.map(|_| ())
    }

    pub(super) async fn end(&self, event: TaskEvent) -> Result<(), ActError> {
        self.act(event).await?;
        self.shared.ended.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Whether this handle has ended its lease.
    pub fn is_over(&self) -> bool {
        self.shared.ended.load(Ordering::Relaxed)
    }

    pub(super) async fn end_as_failed(&self, reason: &str) -> Result<Recovered, ActError> {
        let TaskShared {
            recoverer,
            id,
            fence,
            ..
        } = &*self.shared;
        let result = recoverer.fail(id, Right::Fence(*fence), reason).await;
        self.shared.note(&result);
        let recovered = result?;
        self.shared.ended.store(true, Ordering::Relaxed);
        Ok(recovered)
    }

    fn agent_keeps_it(&self) -> bool {
        self.shared.recoverer.strategies().keep_agent(&self.record)
    }

    /// Completes when this handle was told that somebody else has the lease; looks for nothing.
    pub(super) async fn told_of_loss(&self) -> Refusal {
        let mut told = self.shared.lost.subscribe();
        let newest = told
            .wait_for(Option::is_some)
            .await
            .ok()
            .and_then(|newest| *newest);
        self.shared
            .fenced(newest.expect("the sender lives as long as this handle"))
    }
}

impl Drop for RunningTask {
    fn drop(&mut self) {
        if let Some(renewal) = &self.renewal {
            renewal.abort();
        }
        let over = self.is_over() || self.shared.lost_to().is_some();
        if over {
            return;
        }
        let reason = "its handle was dropped".to_owned();
        self.shared.engine.store().commit_deferred(Commit {
            task: self.shared.id.clone(),
            guard: Guard {
                fence: Some(self.shared.fence),
                seq: None,
            },
            at: clock::now(),
            changes: decide::interrupted(&self.record, reason, self.agent_keeps_it()),
        });
    }
}

impl TaskShared {
    /// Who else has the lease, as far as this handle was told.
    pub(super) fn lost_to(&self) -> Option<Fence> {
        *self.lost.borrow()
    }

    pub(super) fn fenced(&self, newest: Fence) -> Refusal {
        Refusal::Fenced {
            task: self.id.clone(),
            ours: self.fence,
            newest,
        }
    }

    /// Looks whether the lease is still ours, then waits for the next commit.
    async fn look(&self) {
        let store = self.engine.store();
        let newest = store.newest_event().await.unwrap_or(0);
        let theirs = match store.task(&self.id).await {
            Ok(Some(task)) if task.lease.admits(self.fence) => None,
            Ok(Some(task)) => Some(task.lease.fence),
            Ok(None) => Some(self.fence),
            // A store that cannot be read tells nothing; the next commit asks again.
            Err(_) => None,
        };
        if theirs.is_some() {
            self.lost.send_replace(theirs);
        } else if store.changed(newest).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Remembers that the lease is somebody else's.
    pub(super) fn note<T>(&self, result: &Result<T, ActError>) {
        if let Err(ActError::Refused(Refusal::Fenced { newest, .. })) = result {
            self.lost.send_replace(Some(*newest));
        }
    }

    /// What is known of a step; asked of the store where this handle gave it up half way.
    pub(super) async fn known(&self, key: &StepKey) -> Result<Option<Step>, ActError> {
        let given_up = self
            .given_up
            .lock()
            .expect("nothing panics while locked")
            .remove(key);
        if given_up {
            return self.read_step(key).await;
        }
        Ok(self
            .steps
            .lock()
            .expect("nothing panics while locked")
            .get(key)
            .cloned())
    }

    /// What the store has of a step now.
    pub(super) async fn read_step(&self, key: &StepKey) -> Result<Option<Step>, ActError> {
        let step = self.engine.store().step(&self.id, key).await?;
        let mut steps = self.steps.lock().expect("nothing panics while locked");
        match &step {
            Some(step) => steps.insert(key.clone(), step.clone()),
            None => steps.remove(key),
        };
        Ok(step)
    }

    /// Commits under this handle's fence.
    pub(super) async fn commit(&self, changes: Vec<Change>) -> Result<(), ActError> {
        let result = self.engine.store().commit(self.under_fence(changes)).await;
        let result = result.map(|_| ()).map_err(act_error);
        self.note(&result);
        result
    }

    pub(super) fn under_fence(&self, changes: Vec<Change>) -> Commit {
        self.is_as_given.store(false, Ordering::Relaxed);
        let guard = Guard {
            fence: Some(self.fence),
            seq: None,
        };
        Commit {
            task: self.id.clone(),
            guard,
            at: clock::now(),
            changes,
        }
    }

    /// The next occurrence of a name: one more than were finished or are being run.
    pub(super) fn enter(&self, name: &StepName) -> u32 {
        let mut passes = self.passes();
        let pass = passes.entry(name.clone()).or_default();
        pass.running += 1;
        pass.finished + pass.running
    }

    pub(super) fn leave(&self, name: &StepName, finished: bool) {
        if let Some(pass) = self.passes().get_mut(name) {
            pass.running -= 1;
            pass.finished += u32::from(finished);
        }
    }

    fn passes(&self) -> std::sync::MutexGuard<'_, HashMap<StepName, Passes>> {
        self.passes
            .lock()
            .expect("nothing panics while it is locked")
    }
}

/// Renews the lease three times in its length, until it is lost.
async fn renew(shared: Arc<TaskShared>, ttl: Span) {
    let pause = ttl.as_duration() / 3;
    loop {
        tokio::time::sleep(pause).await;
        let result = shared.engine.store().renew(&shared.id, shared.fence).await;
        let fenced = matches!(
            result,
            Err(CommitError::Fenced { .. } | CommitError::Absent(_))
        );
        // A store that cannot be reached now is asked again: the lease may still be good.
        shared.note(&result.map_err(act_error));
        if fenced {
            return;
        }
    }
}
