//! The store in memory: the oracle that other backends are compared with.
//!
//! Written to be read: what a change means is `Change::apply`, lists are scans, and the lease clock
//! moves only by `advance`. Leaves durability to others: everything is gone with the last handle.

mod agents;
mod nodes;
mod sessions;
mod state;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use relight_core::agent::{Agent, Attempt, AttemptTag};
use relight_core::claimant::Claimant;
use relight_core::event::Event;
use relight_core::ids::{AgentName, IdempotencyKey, NodeName, SessionKey, TaskId};
use relight_core::lease::Fence;
use relight_core::node::{Epoch, NewNode, Node, NodesGlance};
use relight_core::session::{Session, SessionChange};
use relight_core::step::{Output, Step, StepKey};
use relight_core::task::Task;
use relight_core::time::{Span, Time};
use serde_json::Value;
use tokio::sync::watch;

use crate::contract::{
    AgentCommit, AgentCommitError, AgentQuery, AttemptQuery, Commit, CommitError, Committed,
    EventQuery, Inventory, Joined, Recall, SessionQuery, Store, StoreError, TaskGlance, TaskQuery,
    Told,
};
use state::State;

/// Everything in this process's memory. A clone is a second handle onto the same store.
#[derive(Debug, Clone, Default)]
pub struct MemoryStore {
    state: Arc<Mutex<State>>,
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

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something that may leave events, and wakes those who wait for them.
    fn told<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state();
        let answer = act(&mut state);
        self.newest_event.send_replace(state.newest_event());
        answer
    }

    fn commit_now(&self, commit: &Commit) -> Result<Committed, CommitError> {
        let mut state = self.state();
        let committed = state.commit(commit)?;
        self.newest_event.send_replace(state.newest_event());
        Ok(committed)
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn commit(&self, commit: Commit) -> Result<Committed, CommitError> {
        self.commit_now(&commit)
    }

    fn commit_soon(&self, commit: Commit) -> Recall {
        // The contract: a failure is not reported.
        let _ = self.commit_now(&commit);
        Recall::default()
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

    async fn forget(&self, tasks: Vec<(TaskId, u64)>, at: Time) -> Result<Vec<TaskId>, StoreError> {
        Ok(self.state().forget(tasks, at))
    }

    async fn forget_events(&self, before: Time) -> Result<u64, StoreError> {
        Ok(self.state().forget_events(before))
    }

    async fn commit_agent(&self, commit: AgentCommit) -> Result<Committed, AgentCommitError> {
        let mut state = self.state();
        let committed = state.commit_agent(&commit)?;
        self.newest_event.send_replace(state.newest_event());
        Ok(committed)
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

    async fn forget_attempts(&self, before: Time) -> Result<u64, StoreError> {
        Ok(self.state().forget_attempts(before))
    }

    async fn forget_agent(&self, name: &AgentName, seq: u64, at: Time) -> Result<bool, StoreError> {
        let mut state = self.state();
        let forgotten = state.forget_agent(name, seq, at);
        self.newest_event.send_replace(state.newest_event());
        Ok(forgotten)
    }

    async fn commit_sessions(
        &self,
        changes: Vec<SessionChange>,
        at: Time,
    ) -> Result<Vec<bool>, StoreError> {
        let mut state = self.state();
        let taken = state.commit_sessions(changes, at);
        self.newest_event.send_replace(state.newest_event());
        Ok(taken)
    }

    async fn forget_sessions(&self, sessions: Vec<(SessionKey, u64)>) -> Result<u64, StoreError> {
        Ok(self.state().forget_sessions(&sessions))
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

    async fn keep(
        &self,
        name: &str,
        before: Option<Value>,
        now: Value,
    ) -> Result<bool, StoreError> {
        Ok(self.state().keep(name, before.as_ref(), now))
    }

    async fn keep_and_tell(
        &self,
        name: &str,
        before: Option<Value>,
        now: Value,
        told: Vec<Told>,
    ) -> Result<bool, StoreError> {
        let mut state = self.state();
        let is_kept = state.keep(name, before.as_ref(), now);
        for event in told.into_iter().filter(|_| is_kept) {
            state.tell_of_nothing(event.kind, event.detail, event.at);
        }
        self.newest_event.send_replace(state.newest_event());
        Ok(is_kept)
    }

    async fn inventory(&self, _whole: bool) -> Result<Inventory, StoreError> {
        Ok(self.state().inventory())
    }

    async fn renew(&self, task: &TaskId, fence: Fence) -> Result<(), CommitError> {
        self.state().renew(task, fence)
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

    async fn join_node(
        &self,
        node: NewNode,
        last: Option<Epoch>,
        at: Time,
    ) -> Result<Joined, StoreError> {
        Ok(self.told(|state| state.join_node(node, last, at)))
    }

    async fn renew_node(&self, name: &NodeName, epoch: Epoch) -> Result<bool, StoreError> {
        Ok(self.state().renew_node(name, epoch))
    }

    async fn leave_node(
        &self,
        name: &NodeName,
        epoch: Epoch,
        at: Time,
    ) -> Result<bool, StoreError> {
        Ok(self.told(|state| state.leave_node(name, epoch, at)))
    }

    async fn drain_node(
        &self,
        name: &NodeName,
        draining: bool,
        at: Time,
    ) -> Result<bool, StoreError> {
        Ok(self.told(|state| state.drain_node(name, draining, at)))
    }

    async fn forget_node(&self, name: &NodeName, at: Time) -> Result<bool, StoreError> {
        Ok(self.told(|state| state.forget_node(name, at)))
    }

    async fn nodes(&self) -> Result<Vec<Node>, StoreError> {
        Ok(self.state().nodes())
    }

    async fn nodes_at_a_glance(&self) -> Result<NodesGlance, StoreError> {
        Ok(self.state().nodes_at_a_glance())
    }

    async fn newest_event(&self) -> Result<u64, StoreError> {
        Ok(self.state().newest_event())
    }

    async fn changed(&self, after: u64) -> Result<(), StoreError> {
        let waited = self.newest_event.subscribe().wait_for(|newest| *newest > after).await.is_ok();
        assert!(waited, "the sender lives as long as this handle");
        Ok(())
    }

    fn file(&self) -> Option<PathBuf> {
        None
    }
}
