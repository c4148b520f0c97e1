//! The store in memory: the reference that other backends are compared with.
//!
//! A working set with everything loaded. Lists are scans, and the lease clock moves only by `advance`.
//! Nothing is durable: everything is gone with the last handle.

mod state;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use relight_core::agent::{Agent, Attempt, AttemptTag};
use relight_core::claimant::Claimant;
use relight_core::event::Event;
use relight_core::ids::{AgentName, IdempotencyKey, SessionKey, TaskId};
use relight_core::node::{Node, NodesSummary};
use relight_core::session::Session;
use relight_core::step::{Output, Step, StepKey};
use relight_core::task::Task;
use relight_core::time::{Span, Time};
use serde_json::Value;
use tokio::sync::watch;

use crate::commit_guards;
use crate::contract::{
    AgentQuery, AttemptQuery, Commit, DeferredCommit, EventQuery, Inventory, KeptRange, Operation,
    OperationReply, SessionQuery, Store, StoreError, TaskGlance, TaskQuery,
};
use state::MemoryState;

/// Everything in this process's memory. A clone is a second handle onto the same store.
#[derive(Debug, Clone, Default)]
pub struct MemoryStore {
    state: Arc<Mutex<MemoryState>>,
    newest_event: watch::Sender<u64>,
}

impl MemoryStore {
    /// An empty store whose lease clock stands still.
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves the lease clock.
    pub fn advance(&self, span: Span) {
        self.state().advance(span);
    }

    /// Sets the lease clock back, as a failover to a server does whose clock is behind.
    pub fn set_back(&self, span: Span) {
        self.state().set_back(span);
    }

    fn state(&self) -> MutexGuard<'_, MemoryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_now(&self, operation: &Operation) -> OperationReply {
        commit_guards::assert_operation(operation);
        let mut state = self.state();
        let reply = state.write(operation);
        self.newest_event.send_replace(state.newest_event());
        reply
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn write(&self, operation: Operation) -> OperationReply {
        self.write_now(&operation)
    }

    fn commit_deferred(&self, commit: Commit) -> DeferredCommit {
        // The contract: a failure is not reported.
        let _ = self.write_now(&Operation::Commit(commit));
        DeferredCommit::default()
    }

    async fn task(&self, id: &TaskId) -> Result<Option<Task>, StoreError> {
        Ok(self.state().task(id))
    }

    async fn task_with_key(&self, key: &IdempotencyKey) -> Result<Option<Task>, StoreError> {
        Ok(self.state().task_with_key(key))
    }

    async fn tasks(&self, query: TaskQuery) -> Result<Vec<Task>, StoreError> {
        Ok(self.state().tasks(&query))
    }

    async fn unfinished(&self) -> Result<Vec<TaskGlance>, StoreError> {
        Ok(self.state().unfinished())
    }

    async fn step(&self, task: &TaskId, key: &StepKey) -> Result<Option<Step>, StoreError> {
        Ok(self.state().step(task, key))
    }

    async fn steps(&self, task: &TaskId) -> Result<Vec<Step>, StoreError> {
        Ok(self.state().steps(task))
    }

    async fn output(&self, task: &TaskId, key: &StepKey) -> Result<Option<Output>, StoreError> {
        Ok(self.state().output(task, key))
    }

    async fn events(&self, query: EventQuery) -> Result<Vec<Event>, StoreError> {
        Ok(self.state().events(&query))
    }

    async fn agent(&self, name: &AgentName) -> Result<Option<Agent>, StoreError> {
        Ok(self.state().agent(name))
    }

    async fn agents(&self, query: AgentQuery) -> Result<Vec<Agent>, StoreError> {
        Ok(self.state().agents(&query))
    }

    async fn attempt(&self, tag: &AttemptTag) -> Result<Option<Attempt>, StoreError> {
        Ok(self.state().attempt(tag))
    }

    async fn attempts(&self, query: AttemptQuery) -> Result<Vec<Attempt>, StoreError> {
        Ok(self.state().attempts(&query))
    }

    async fn session(&self, key: &SessionKey) -> Result<Option<Session>, StoreError> {
        Ok(self.state().session(key))
    }

    async fn sessions(&self, query: SessionQuery) -> Result<Vec<Session>, StoreError> {
        Ok(self.state().sessions(&query))
    }

    async fn kept(&self, name: &str) -> Result<Option<Value>, StoreError> {
        Ok(self.state().kept(name))
    }

    async fn kept_in(&self, range: KeptRange) -> Result<Vec<(String, Value)>, StoreError> {
        Ok(self.state().kept_in(&range))
    }

    async fn inventory(&self, _whole: bool) -> Result<Inventory, StoreError> {
        Ok(self.state().inventory())
    }

    async fn claimable(
        &self,
        claimant: &Claimant,
        now: Time,
        limit: usize,
    ) -> Result<Vec<TaskId>, StoreError> {
        Ok(self.state().claimable(claimant, now, limit))
    }

    async fn next_due(&self, now: Time) -> Result<Option<Time>, StoreError> {
        Ok(self.state().next_due(now))
    }

    async fn nodes(&self) -> Result<Vec<Node>, StoreError> {
        Ok(self.state().nodes())
    }

    async fn nodes_summary(&self) -> Result<NodesSummary, StoreError> {
        Ok(self.state().nodes_summary())
    }

    async fn newest_event(&self) -> Result<u64, StoreError> {
        Ok(self.state().newest_event())
    }

    async fn changed(&self, after: u64) -> Result<(), StoreError> {
        let waited = self
            .newest_event
            .subscribe()
            .wait_for(|newest| *newest > after)
            .await
            .is_ok();
        assert!(waited, "the sender lives as long as this handle");
        Ok(())
    }
}
