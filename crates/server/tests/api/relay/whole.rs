//! Relayed wherever agents may, direct where only daemons do: so the whole suite runs over the relay.

use async_trait::async_trait;
use relight_core::agent::{Agent, Attempt, AttemptTag};
use relight_core::claimant::Claimant;
use relight_core::event::Event;
use relight_core::ids::{AgentName, IdempotencyKey, SessionKey, TaskId};
use relight_core::node::Node;
use relight_core::session::Session;
use relight_core::step::{Output, Step, StepKey};
use relight_core::task::Task;
use relight_core::time::Time;
use relight_server::RelayedStore;
use relight_store::{
    AgentQuery, AttemptQuery, Commit, DeferredCommit, EventQuery, Inventory, KeptRange,
    MemoryStore, Operation, OperationReply, SessionQuery, Store, StoreError, TaskGlance, TaskQuery,
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
    async fn write(&self, operation: Operation) -> OperationReply {
        match operation {
            Operation::Commit(_)
            | Operation::TryCommit(_)
            | Operation::Renew(..)
            | Operation::CommitSessions(..) => self.relayed.write(operation).await,
            _ => self.direct.write(operation).await,
        }
    }

    fn commit_deferred(&self, commit: Commit) -> DeferredCommit {
        self.relayed.commit_deferred(commit)
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

    async fn session(&self, key: &SessionKey) -> Result<Option<Session>, StoreError> {
        self.relayed.session(key).await
    }

    async fn sessions(&self, query: SessionQuery) -> Result<Vec<Session>, StoreError> {
        self.relayed.sessions(query).await
    }

    async fn kept(&self, name: &str) -> Result<Option<Value>, StoreError> {
        self.relayed.kept(name).await
    }

    async fn kept_in(&self, range: KeptRange) -> Result<Vec<(String, Value)>, StoreError> {
        self.relayed.kept_in(range).await
    }

    async fn inventory(&self, whole: bool) -> Result<Inventory, StoreError> {
        self.relayed.inventory(whole).await
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

    async fn nodes(&self) -> Result<Vec<Node>, StoreError> {
        self.relayed.nodes().await
    }

    async fn newest_event(&self) -> Result<u64, StoreError> {
        self.relayed.newest_event().await
    }

    async fn changed(&self, after: u64) -> Result<(), StoreError> {
        self.relayed.changed(after).await
    }
}
