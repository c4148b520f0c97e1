//! Relayed wherever agents may, direct where only daemons do: so the whole suite runs over the relay.

use std::path::PathBuf;

use async_trait::async_trait;
use relight_core::agent::{Agent, Attempt, AttemptTag};
use relight_core::claimant::Claimant;
use relight_core::event::Event;
use relight_core::ids::{AgentName, IdempotencyKey, NodeName, SessionKey, TaskId};
use relight_core::lease::Fence;
use relight_core::node::{Epoch, NewNode, Node};
use relight_core::session::{Session, SessionChange};
use relight_core::step::{Output, Step, StepKey};
use relight_core::task::Task;
use relight_core::time::Time;
use relight_server::RelayedStore;
use relight_store::{
    AgentCommit, AgentCommitError, AgentQuery, AttemptQuery, Commit, CommitError, Committed,
    EventQuery, Inventory, Joined, MemoryStore, Recall, SessionQuery, Store, StoreError,
    TaskGlance, TaskQuery, Told,
};
use serde_json::Value;

/// One store, reached in both ways.
#[derive(Debug)]
pub(super) struct Whole {
    pub(super) relayed: RelayedStore,
    /// For what only daemons do.
    pub(super) direct: MemoryStore,
}

#[async_trait]
impl Store for Whole {
    async fn commit(&self, commit: Commit) -> Result<Committed, CommitError> {
        self.relayed.commit(commit).await
    }

    fn commit_soon(&self, commit: Commit) -> Recall {
        self.relayed.commit_soon(commit)
    }

    async fn task(&self, id: &TaskId) -> Result<Option<Task>, StoreError> {
        self.relayed.task(id).await
    }

    async fn tasks_by_id(&self, ids: &[TaskId]) -> Result<Vec<Task>, StoreError> {
        self.relayed.tasks_by_id(ids).await
    }

    async fn task_with_key(&self, key: &IdempotencyKey) -> Result<Option<Task>, StoreError> {
        self.relayed.task_with_key(key).await
    }

    async fn tasks(&self, query: TaskQuery) -> Result<Vec<Task>, StoreError> {
        self.relayed.tasks(query).await
    }

    async fn unfinished(&self) -> Result<Vec<TaskGlance>, StoreError> {
        self.relayed.unfinished().await
    }

    async fn step(&self, task: &TaskId, key: &StepKey) -> Result<Option<Step>, StoreError> {
        self.relayed.step(task, key).await
    }

    async fn task_with_step(
        &self,
        id: &TaskId,
        key: &StepKey,
    ) -> Result<(Option<Task>, Option<Step>), StoreError> {
        self.relayed.task_with_step(id, key).await
    }

    async fn steps(&self, task: &TaskId) -> Result<Vec<Step>, StoreError> {
        self.relayed.steps(task).await
    }

    async fn output(&self, task: &TaskId, key: &StepKey) -> Result<Option<Output>, StoreError> {
        self.relayed.output(task, key).await
    }

    async fn events(&self, query: EventQuery) -> Result<Vec<Event>, StoreError> {
        self.relayed.events(query).await
    }

    async fn forget(&self, tasks: Vec<(TaskId, u64)>, at: Time) -> Result<Vec<TaskId>, StoreError> {
        self.direct.forget(tasks, at).await
    }

    async fn forget_events(&self, before: Time) -> Result<u64, StoreError> {
        self.direct.forget_events(before).await
    }

    async fn commit_agent(&self, commit: AgentCommit) -> Result<Committed, AgentCommitError> {
        self.direct.commit_agent(commit).await
    }

    async fn agent(&self, name: &AgentName) -> Result<Option<Agent>, StoreError> {
        self.relayed.agent(name).await
    }

    async fn agents(&self, query: AgentQuery) -> Result<Vec<Agent>, StoreError> {
        self.relayed.agents(query).await
    }

    async fn attempt(&self, tag: &AttemptTag) -> Result<Option<Attempt>, StoreError> {
        self.relayed.attempt(tag).await
    }

    async fn attempts(&self, query: AttemptQuery) -> Result<Vec<Attempt>, StoreError> {
        self.relayed.attempts(query).await
    }

    async fn forget_attempts(&self, before: Time) -> Result<u64, StoreError> {
        self.direct.forget_attempts(before).await
    }

    async fn forget_agent(&self, name: &AgentName, seq: u64, at: Time) -> Result<bool, StoreError> {
        self.direct.forget_agent(name, seq, at).await
    }

    async fn commit_sessions(
        &self,
        changes: Vec<SessionChange>,
        at: Time,
    ) -> Result<Vec<bool>, StoreError> {
        self.relayed.commit_sessions(changes, at).await
    }

    async fn forget_sessions(&self, sessions: Vec<(SessionKey, u64)>) -> Result<u64, StoreError> {
        self.direct.forget_sessions(sessions).await
    }

    async fn session(&self, key: &SessionKey) -> Result<Option<Session>, StoreError> {
        self.relayed.session(key).await
    }

    async fn sessions(&self, query: SessionQuery) -> Result<Vec<Session>, StoreError> {
        self.relayed.sessions(query).await
    }

    async fn kept(&self, name: &str) -> Result<Option<Value>, StoreError> {
        self.relayed.kept(name).await
    }

    async fn keep(
        &self,
        name: &str,
        before: Option<Value>,
        now: Value,
    ) -> Result<bool, StoreError> {
        self.direct.keep(name, before, now).await
    }

    async fn keep_and_tell(
        &self,
        name: &str,
        before: Option<Value>,
        now: Value,
        told: Vec<Told>,
    ) -> Result<bool, StoreError> {
        self.direct.keep_and_tell(name, before, now, told).await
    }

    async fn inventory(&self, whole: bool) -> Result<Inventory, StoreError> {
        self.relayed.inventory(whole).await
    }

    async fn renew(&self, task: &TaskId, fence: Fence) -> Result<(), CommitError> {
        self.relayed.renew(task, fence).await
    }

    async fn claimable(
        &self,
        claimant: &Claimant,
        now: Time,
        limit: usize,
    ) -> Result<Vec<TaskId>, StoreError> {
        self.relayed.claimable(claimant, now, limit).await
    }

    async fn next_due(&self, now: Time) -> Result<Option<Time>, StoreError> {
        self.relayed.next_due(now).await
    }

    async fn join_node(
        &self,
        node: NewNode,
        last: Option<Epoch>,
        at: Time,
    ) -> Result<Joined, StoreError> {
        self.direct.join_node(node, last, at).await
    }

    async fn renew_node(&self, name: &NodeName, epoch: Epoch) -> Result<bool, StoreError> {
        self.direct.renew_node(name, epoch).await
    }

    async fn leave_node(
        &self,
        name: &NodeName,
        epoch: Epoch,
        at: Time,
    ) -> Result<bool, StoreError> {
        self.direct.leave_node(name, epoch, at).await
    }

    async fn drain_node(
        &self,
        name: &NodeName,
        draining: bool,
        at: Time,
    ) -> Result<bool, StoreError> {
        self.direct.drain_node(name, draining, at).await
    }

    async fn forget_node(&self, name: &NodeName, at: Time) -> Result<bool, StoreError> {
        self.direct.forget_node(name, at).await
    }

    async fn nodes(&self) -> Result<Vec<Node>, StoreError> {
        self.relayed.nodes().await
    }

    async fn newest_event(&self) -> Result<u64, StoreError> {
        self.relayed.newest_event().await
    }

    async fn changed(&self, after: u64) -> Result<(), StoreError> {
        self.relayed.changed(after).await
    }

    fn file(&self) -> Option<PathBuf> {
        self.relayed.file()
    }
}
