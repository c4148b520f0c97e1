//! The contract that every backend implements.
//!
//! Three groups: records (reading and committing), leases (who may write, by the store's own clock)
//! and wake-ups (something was committed). `relight_testkit::conformance` is its executable
//! specification.

mod error;
mod inventory;
mod operation;
mod query;
mod refusal;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use relight_core::agent::change::AgentChange;
use relight_core::agent::{Agent, Attempt, AttemptTag};
use relight_core::change::Change;
use relight_core::claimant::Claimant;
use relight_core::decide::Guard;
use relight_core::event::{Event, EventKind};
use relight_core::ids::{AgentName, IdempotencyKey, NodeName, SessionKey, TaskId};
use relight_core::lease::Fence;
use relight_core::node::{ChangeToken, Epoch, NewNode, Node, NodesSummary, name_number};
use relight_core::session::{Session, SessionChange};
use relight_core::step::{Output, Step, StepKey};
use relight_core::task::Task;
use relight_core::time::Time;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::error::StoreError;
pub use self::inventory::{Inventory, Replication, Standby};
pub use self::operation::{Operation, OperationReply, OperationResult, Removal};
pub use self::query::{
    AgentQuery, AttemptQuery, EventQuery, KeptRange, Rows, SessionQuery, TaskGlance, TaskQuery,
    UnreadableRow,
};
pub use self::refusal::OperationRefusal;

/// All changes of one decision about one task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Commit {
    /// The task.
    pub task: TaskId,
    /// Conditions checked by the commit. If the first change is `Created`, the task must not exist.
    pub guard: Guard,
    /// Time of the decision, by the wall clock.
    pub at: Time,
    /// Applied in this order, all or none.
    pub changes: Vec<Change>,
}

impl Commit {
    /// Why the commit is malformed, if it is: only the first change may create, and only the task
    /// of this commit.
    pub fn misshape(&self) -> Option<&'static str> {
        let creates = |change: &Change| matches!(change, Change::Created(_));
        if self.changes.iter().skip(1).any(creates) {
            return Some("a task is created first");
        }
        match self.changes.first() {
            Some(Change::Created(new)) if new.id != self.task => Some("a commit is about one task"),
            _ => None,
        }
    }
}

/// Result of a commit. Returned once the commit survives a power failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Committed {
    /// The task's new sequence number.
    pub seq: u64,
    /// The fence of the newest lease.
    pub fence: Fence,
}

/// A commit passed to `commit_deferred`, which can be cancelled until it is written.
#[derive(Debug, Clone, Default)]
pub struct DeferredCommit(Arc<Mutex<Option<Commit>>>);

impl DeferredCommit {
    /// For backends that buffer the commit in memory.
    pub fn keep(commit: Commit) -> Self {
        Self(Arc::new(Mutex::new(Some(commit))))
    }

    /// Cancels the commit. True if it was not written and never will be.
    pub fn cancel(&self) -> bool {
        self.take().is_some()
    }

    /// For backends: whether it was written or cancelled.
    pub fn is_over(&self) -> bool {
        self.0
            .lock()
            .expect("nothing panics while it is locked")
            .is_none()
    }

    /// For backends: applies `look` to the commit; false when it was cancelled.
    pub fn looks(&self, look: impl FnOnce(&Commit) -> bool) -> bool {
        self.0
            .lock()
            .expect("nothing panics while it is locked")
            .as_ref()
            .is_some_and(look)
    }

    /// For backends: takes the commit to write it; none when it was cancelled.
    pub fn take(&self) -> Option<Commit> {
        self.0
            .lock()
            .expect("nothing panics while it is locked")
            .take()
    }
}

/// Why a commit was refused. Nothing was changed.
#[derive(Debug, Clone, thiserror::Error, Serialize, Deserialize)]
pub enum CommitError {
    /// The writer's lease is no longer valid.
    #[error("fence {ours} of task {task} is no longer valid (the newest is {newest})")]
    Fenced {
        /// The task.
        task: TaskId,
        /// The writer's fence.
        ours: Fence,
        /// The fence of the newest lease.
        newest: Fence,
    },
    /// The task changed since it was read: read and decide again.
    #[error("task {0} has moved on")]
    Moved(TaskId),
    /// It already exists.
    #[error("task {0} exists")]
    Exists(TaskId),
    /// It does not exist.
    #[error("there is no task {0}")]
    Absent(TaskId),
    /// The idempotency key belongs to another task.
    #[error("the idempotency key {key} belongs to task {task}")]
    KeyTaken {
        /// The key.
        key: IdempotencyKey,
        /// Its task.
        task: TaskId,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// All changes of one decision about one agent.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentCommit {
    /// The agent.
    pub agent: AgentName,
    /// Conditions checked by the commit. If the first change is `Created`, the agent must not
    /// exist.
    pub guard: Guard,
    /// Time of the decision, by the wall clock.
    pub at: Time,
    /// Applied in this order, all or none.
    pub changes: Vec<AgentChange>,
}

/// Why a commit about an agent was refused. Nothing was changed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AgentCommitError {
    /// The supervisor's lease is no longer valid.
    #[error("fence {ours} of agent {agent} is no longer valid (the newest is {newest})")]
    Fenced {
        /// The agent.
        agent: AgentName,
        /// The writer's fence.
        ours: Fence,
        /// The fence of the newest lease.
        newest: Fence,
    },
    /// The agent changed since it was read: read and decide again.
    #[error("agent {0} has moved on")]
    Moved(AgentName),
    /// It already exists.
    #[error("agent {0} exists")]
    Exists(AgentName),
    /// It does not exist.
    #[error("there is no agent {0}")]
    Absent(AgentName),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// An event without a task or agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoreEvent {
    /// Time, by the wall clock.
    pub at: Time,
    /// Kind of event.
    pub kind: EventKind,
    /// Details, depending on the kind.
    pub detail: Value,
}

/// Result of joining a fleet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Joined {
    /// Joined; the lease is valid until it expires.
    As(Epoch),
    /// Another installation has a valid lease under this name.
    Taken(Box<Node>),
    /// Another process of this installation has joined meanwhile.
    Overtaken(Box<Node>),
}

/// Event of a removed agent; its detail names the agent as `forgotten`.
pub(crate) const AGENT_FORGOTTEN: EventKind = EventKind::AgentChanged;

/// A storage backend.
#[async_trait]
pub trait Store: Send + Sync + std::fmt::Debug {
    /// Fails if the files of the store were removed or replaced since it was opened. Reads nothing.
    fn check_files(&self) -> Result<(), StoreError> {
        Ok(())
    }

    // Records

    /// Makes one operation durable or refuses it. Backends implement this; callers use the methods
    /// below, which document each operation.
    async fn write(&self, operation: Operation) -> OperationReply;

    /// Makes all changes durable, or none. A commit with a fence also renews its lease. A step
    /// change that does not follow the step's newest record (`Change::follows`) is refused as
    /// `Moved`.
    async fn commit(&self, commit: Commit) -> Result<Committed, CommitError> {
        let done = self
            .write(Operation::Commit(commit))
            .await
            .map_err(OperationRefusal::of_task)?;
        Ok(done.committed())
    }

    /// Like `commit`, for callers that can take another task instead: if another writer has the
    /// task locked, it may return `Moved` instead of waiting.
    async fn try_commit(&self, commit: Commit) -> Result<Committed, CommitError> {
        let done = self
            .write(Operation::TryCommit(commit))
            .await
            .map_err(OperationRefusal::of_task)?;
        Ok(done.committed())
    }

    /// Queues a commit without waiting. It becomes durable with the next `commit`, or by itself
    /// within milliseconds, in order. Failures are not reported, so use it only for records whose
    /// loss changes nothing (see `RepeatRule::needs_intent_first`).
    fn commit_deferred(&self, commit: Commit) -> DeferredCommit;

    /// One task.
    async fn task(&self, id: &TaskId) -> Result<Option<Task>, StoreError>;

    /// The existing ones of these tasks, in the same order. Backends may read them together.
    async fn tasks_by_id(&self, ids: &[TaskId]) -> Result<Vec<Task>, StoreError> {
        let mut found = Vec::with_capacity(ids.len());
        for id in ids {
            found.extend(self.task(id).await?);
        }
        Ok(found)
    }

    /// The task that has this idempotency key.
    async fn task_with_key(&self, key: &IdempotencyKey) -> Result<Option<Task>, StoreError>;

    /// Tasks in the order they were added.
    async fn tasks(&self, query: TaskQuery) -> Result<Vec<Task>, StoreError>;

    /// A summary of every task that is not terminal, in the order they were added.
    async fn unfinished(&self) -> Result<Vec<TaskGlance>, StoreError>;

    /// The newest record of one step.
    async fn step(&self, task: &TaskId, key: &StepKey) -> Result<Option<Step>, StoreError>;

    /// A task and one of its steps. Backends may read them together.
    async fn task_with_step(
        &self,
        id: &TaskId,
        key: &StepKey,
    ) -> Result<(Option<Task>, Option<Step>), StoreError> {
        Ok((self.task(id).await?, self.step(id, key).await?))
    }

    /// All steps of a task since they were last cleared, in the order they were first recorded.
    async fn steps(&self, task: &TaskId) -> Result<Vec<Step>, StoreError>;

    /// The output of the newest end of a step.
    async fn output(&self, task: &TaskId, key: &StepKey) -> Result<Option<Output>, StoreError>;

    /// Events of the journal.
    async fn events(&self, query: EventQuery) -> Result<Vec<Event>, StoreError>;

    /// Executes a removal.
    async fn remove(&self, removal: Removal) -> Result<OperationResult, StoreError> {
        self.write(Operation::Remove(removal))
            .await
            .map_err(OperationRefusal::of_store)
    }

    /// Removes finished or expired tasks with all their records, each only if it is still at the
    /// given sequence number. Returns those removed. Writes an event for each.
    async fn forget(&self, tasks: Vec<(TaskId, u64)>, at: Time) -> Result<Vec<TaskId>, StoreError> {
        Ok(self.remove(Removal::Tasks(tasks, at)).await?.removed())
    }

    /// Removes older events that are not step records. Returns how many.
    async fn forget_events(&self, before: Time) -> Result<u64, StoreError> {
        Ok(self.remove(Removal::Events(before)).await?.count())
    }

    /// Makes all changes of an agent durable, or none. Does not block the calling thread on the
    /// disk; commits of many agents are batched. A commit with a fence also renews its lease;
    /// without changes it only checks the guard.
    async fn commit_agent(&self, commit: AgentCommit) -> Result<Committed, AgentCommitError> {
        let done = self
            .write(Operation::CommitAgent(commit))
            .await
            .map_err(OperationRefusal::of_agent)?;
        Ok(done.committed())
    }

    /// One agent.
    async fn agent(&self, name: &AgentName) -> Result<Option<Agent>, StoreError>;

    /// Agents in the order of their names.
    async fn agents(&self, query: AgentQuery) -> Result<Vec<Agent>, StoreError>;

    /// The attempt with this tag.
    async fn attempt(&self, tag: &AttemptTag) -> Result<Option<Attempt>, StoreError>;

    /// Attempts, newest first by begin.
    async fn attempts(&self, query: AttemptQuery) -> Result<Vec<Attempt>, StoreError>;

    /// Removes ended attempts begun before this, except the newest of each agent. Returns how many.
    async fn forget_attempts(&self, before: Time) -> Result<u64, StoreError> {
        Ok(self.remove(Removal::Attempts(before)).await?.count())
    }

    /// Removes an agent without a holder, with its attempts and events, if it is still at this
    /// sequence number. Writes an event.
    async fn forget_agent(&self, name: &AgentName, seq: u64, at: Time) -> Result<bool, StoreError> {
        Ok(self
            .remove(Removal::Agent(name.clone(), seq, at))
            .await?
            .changed())
    }

    /// Commits these changes together, each only if its session is still at the sequence number it
    /// was decided on (0: absent). Returns which were made. A change that renews restarts the
    /// lease's time.
    async fn commit_sessions(
        &self,
        changes: Vec<SessionChange>,
        at: Time,
    ) -> Result<Vec<bool>, StoreError> {
        let done = self
            .write(Operation::CommitSessions(changes, at))
            .await
            .map_err(OperationRefusal::of_store)?;
        Ok(done.sessions())
    }

    /// Removes sessions without an open turn, each only if it is still at the given sequence
    /// number. Returns how many.
    async fn forget_sessions(&self, sessions: Vec<(SessionKey, u64)>) -> Result<u64, StoreError> {
        Ok(self.remove(Removal::Sessions(sessions)).await?.count())
    }

    /// One session.
    async fn session(&self, key: &SessionKey) -> Result<Option<Session>, StoreError>;

    /// Sessions in the order of their keys.
    async fn sessions(&self, query: SessionQuery) -> Result<Vec<Session>, StoreError>;

    /// A small named record of the store, such as the machine's boot history; none if never
    /// written.
    async fn kept(&self, name: &str) -> Result<Option<Value>, StoreError>;

    /// Replaces a small record if it is unchanged since it was read; false otherwise.
    async fn keep(
        &self,
        name: &str,
        before: Option<Value>,
        now: Value,
    ) -> Result<bool, StoreError> {
        self.keep_and_tell(name, before, now, Vec::new()).await
    }

    /// Like `keep`, and writes these events in the same transaction. Returns whether it was done.
    async fn keep_and_tell(
        &self,
        name: &str,
        before: Option<Value>,
        now: Value,
        told: Vec<StoreEvent>,
    ) -> Result<bool, StoreError> {
        let name = name.to_owned();
        let done = self
            .write(Operation::Keep {
                name,
                before,
                now,
                told,
            })
            .await
            .map_err(OperationRefusal::of_store)?;
        Ok(done.changed())
    }

    /// The rows among these that cannot be read, which lists leave out.
    async fn unreadable(&self, _of: Rows) -> Result<Vec<UnreadableRow>, StoreError> {
        Ok(Vec::new())
    }

    /// Small records in the order of their names.
    async fn kept_in(&self, range: KeptRange) -> Result<Vec<(String, Value)>, StoreError>;

    /// Removes the small records of a range. Returns how many.
    async fn forget_kept(&self, range: KeptRange) -> Result<u64, StoreError> {
        Ok(self.remove(Removal::Kept(range)).await?.count())
    }

    /// Counts and settings; with `whole`, also checks every page.
    async fn inventory(&self, whole: bool) -> Result<Inventory, StoreError>;

    // Leases, by the store's own clock

    /// Renews a lease. Does not count as progress.
    async fn renew(&self, task: &TaskId, fence: Fence) -> Result<(), CommitError> {
        let renewal = Operation::Renew(task.clone(), fence);
        self.write(renewal)
            .await
            .map(drop)
            .map_err(OperationRefusal::of_task)
    }

    /// Tasks that the claimant may take now (`Claimant::may_take`), best first. Held ones are left
    /// out.
    async fn claimable(
        &self,
        claimant: &Claimant,
        now: Time,
        limit: usize,
    ) -> Result<Vec<TaskId>, StoreError>;

    /// The earliest future `not_before` in the queue; none if there is none.
    async fn next_due(&self, now: Time) -> Result<Option<Time>, StoreError>;

    /// Grants a node its lease, with the full time from now. The installation that last had the
    /// name gets it at once, on the same boot of its machine; another one only after the lease
    /// expired. A process that was this node before passes its last lease and is refused if another
    /// process of its installation has joined since. Writes an event.
    async fn join_node(
        &self,
        node: NewNode,
        last: Option<Epoch>,
        at: Time,
    ) -> Result<Joined, StoreError> {
        let join = Operation::JoinNode(Box::new(node), last, at);
        Ok(self
            .write(join)
            .await
            .map_err(OperationRefusal::of_store)?
            .joined())
    }

    /// Renews a node's lease; false when it expired or the node joined again.
    async fn renew_node(&self, name: &NodeName, epoch: Epoch) -> Result<bool, StoreError> {
        let renewal = Operation::RenewNode(name.clone(), epoch);
        Ok(self
            .write(renewal)
            .await
            .map_err(OperationRefusal::of_store)?
            .changed())
    }

    /// Ends a node's lease at once; false when it was another lease. Writes an event.
    async fn leave_node(
        &self,
        name: &NodeName,
        epoch: Epoch,
        at: Time,
    ) -> Result<bool, StoreError> {
        let leave = Operation::LeaveNode(name.clone(), epoch, at);
        Ok(self
            .write(leave)
            .await
            .map_err(OperationRefusal::of_store)?
            .changed())
    }

    /// Starts or ends a drain of a node: it finishes what runs and takes nothing new. False when
    /// the node does not exist. Writes an event.
    async fn drain_node(
        &self,
        name: &NodeName,
        draining: bool,
        at: Time,
    ) -> Result<bool, StoreError> {
        let drain = Operation::DrainNode(name.clone(), draining, at);
        Ok(self
            .write(drain)
            .await
            .map_err(OperationRefusal::of_store)?
            .changed())
    }

    /// Removes a node whose lease expired; false when it is valid or the node does not exist.
    /// Writes an event.
    async fn forget_node(&self, name: &NodeName, at: Time) -> Result<bool, StoreError> {
        let forget = Operation::ForgetNode(name.clone(), at);
        Ok(self
            .write(forget)
            .await
            .map_err(OperationRefusal::of_store)?
            .changed())
    }

    /// All nodes, by name.
    async fn nodes(&self) -> Result<Vec<Node>, StoreError>;

    /// A summary that shows whether nodes changed. Every node asks with each renewal, so shared
    /// backends answer without sending all nodes.
    async fn nodes_summary(&self) -> Result<NodesSummary, StoreError> {
        Ok(NodesSummary::of(&self.nodes().await?))
    }

    /// A token that changes when an agent is added, removed, acquired or released, so that agents
    /// need not be read again before.
    async fn agents_mark(&self) -> Result<ChangeToken, StoreError> {
        let agents = self.agents(AgentQuery::default()).await?;
        let mut mark = [0_i64; 5];
        for agent in &agents {
            let number = name_number(agent.name.as_str());
            let free = if agent.lease.held.is_none() {
                number
            } else {
                0
            };
            for (sum, more) in
                mark.iter_mut()
                    .zip([1, agent.lease.fence.0.cast_signed(), number, free, 0])
            {
                *sum = sum.wrapping_add(more);
            }
        }
        Ok(mark)
    }

    // Wake-ups

    /// The newest event's id; 0 when there is none.
    async fn newest_event(&self) -> Result<u64, StoreError>;

    /// Returns when an event after this one may exist, from any process. May return early. Returns
    /// within milliseconds after the commit becomes visible; within half a minute where the system
    /// sends no notification.
    async fn changed(&self, after: u64) -> Result<(), StoreError>;

    /// The wall clock of the store's machine, if it has one of its own.
    async fn clock(&self) -> Result<Option<Time>, StoreError> {
        Ok(None)
    }

    /// Whether other machines use it too, so that another boot may be another machine.
    fn is_shared(&self) -> bool {
        false
    }

    /// The database file, if there is one.
    fn file(&self) -> Option<PathBuf> {
        None
    }
}
