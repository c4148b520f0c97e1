//! The contract of every backend, in the product's own nouns.
//!
//! Three groups: records (what was committed, and committing), leases (who may write, by the
//! store's own clock), wake-ups (something was committed). `conformance` is its specification.

mod error;
mod inventory;
mod operation;
mod query;

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

use crate::refusal::OperationRefusal;

pub use self::error::StoreError;
pub use self::inventory::{Inventory, Replication, Standby};
pub use self::operation::{Operation, OperationResult, Removal, Reply};
pub use self::query::{AgentQuery, AttemptQuery, EventQuery, SessionQuery, TaskGlance, TaskQuery};

/// All changes of one decision about one task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Commit {
    /// Which task.
    pub task: TaskId,
    /// What must still be true. A commit whose first change is `Created` needs the task to be absent.
    pub guard: Guard,
    /// When it was decided, by the wall clock.
    pub at: Time,
    /// All or nothing, in this order.
    pub changes: Vec<Change>,
}

impl Commit {
    /// What is wrong with its form, which no store takes: only the first change creates, and it creates
    /// the task of the commit.
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

/// What the store answers once a commit would survive a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Committed {
    /// The task's new sequence number.
    pub seq: u64,
    /// The newest lease's number.
    pub fence: Fence,
}

/// Takes back a commit that was handed in with `commit_deferred`, if it is still time.
#[derive(Debug, Clone, Default)]
pub struct DeferredCommit(Arc<Mutex<Option<Commit>>>);

impl DeferredCommit {
    /// For a backend that keeps the commit in memory for a while.
    pub fn keep(commit: Commit) -> Self {
        Self(Arc::new(Mutex::new(Some(commit))))
    }

    /// True when the commit was not made and never will be.
    pub fn cancel(&self) -> bool {
        self.take().is_some()
    }

    /// For the backend: whether there is nothing to make any more.
    pub fn is_over(&self) -> bool {
        self.0.lock().expect("nothing panics while it is locked").is_none()
    }

    /// For the backend: what a look at the commit says; false when it was cancelled.
    pub fn looks(&self, look: impl FnOnce(&Commit) -> bool) -> bool {
        self.0.lock().expect("nothing panics while it is locked").as_ref().is_some_and(look)
    }

    /// For the backend: takes the commit to make it; none when it was cancelled.
    pub fn take(&self) -> Option<Commit> {
        self.0.lock().expect("nothing panics while it is locked").take()
    }
}

/// Why a commit did not happen. Nothing was changed.
#[derive(Debug, Clone, thiserror::Error, Serialize, Deserialize)]
pub enum CommitError {
    /// The writer's lease is no longer valid.
    #[error("fence {ours} of task {task} is no longer valid (the newest is {newest})")]
    Fenced {
        /// Which task.
        task: TaskId,
        /// What the writer showed.
        ours: Fence,
        /// The newest lease's number.
        newest: Fence,
    },
    /// Somebody committed since the task was read: read again and decide again.
    #[error("task {0} has moved on")]
    Moved(TaskId),
    /// It was to be created and is there.
    #[error("task {0} exists")]
    Exists(TaskId),
    /// It is not there.
    #[error("there is no task {0}")]
    Absent(TaskId),
    /// Another task has the idempotency key.
    #[error("the idempotency key {key} belongs to task {task}")]
    KeyTaken {
        /// The key.
        key: IdempotencyKey,
        /// Whose it is.
        task: TaskId,
    },
    /// The store itself.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// All changes of one decision about one agent.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentCommit {
    /// Which agent.
    pub agent: AgentName,
    /// What must still be true. A commit whose first change is `Created` needs the agent to be absent.
    pub guard: Guard,
    /// When it was decided, by the wall clock.
    pub at: Time,
    /// All or nothing, in this order.
    pub changes: Vec<AgentChange>,
}

/// Why a commit about an agent did not happen. Nothing was changed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AgentCommitError {
    /// The supervisor's lease is no longer valid.
    #[error("fence {ours} of agent {agent} is no longer valid (the newest is {newest})")]
    Fenced {
        /// Which agent.
        agent: AgentName,
        /// What the writer showed.
        ours: Fence,
        /// The newest lease's number.
        newest: Fence,
    },
    /// Somebody committed since the agent was read: read again and decide again.
    #[error("agent {0} has moved on")]
    Moved(AgentName),
    /// It was to be created and is there.
    #[error("agent {0} exists")]
    Exists(AgentName),
    /// It is not there.
    #[error("there is no agent {0}")]
    Absent(AgentName),
    /// The store itself.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// An event of the store as a whole: of no task and no agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoreEvent {
    /// When, by the wall clock.
    pub at: Time,
    /// What.
    pub kind: EventKind,
    /// The rest, by kind.
    pub detail: Value,
}

/// What asking to join a fleet came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Joined {
    /// The node's lease is its own until it runs out.
    As(Epoch),
    /// Another installation uses the name, and its lease lasts.
    Taken(Box<Node>),
    /// Another process of this installation has joined since.
    Overtaken(Box<Node>),
}

/// The event of an agent that was removed; its detail names it as `forgotten`.
pub(crate) const AGENT_FORGOTTEN: EventKind = EventKind::AgentChanged;

/// A backend.
#[async_trait]
pub trait Store: Send + Sync + std::fmt::Debug {
    // Records

    /// Makes one operation durable, or says why not. Who uses a store calls the methods below, which say
    /// what each operation means; a backend implements this one.
    async fn write(&self, operation: Operation) -> Reply;

    /// Makes all changes durable, or none. Each commit that shows a fence also renews its lease. A
    /// change of a step that does not follow its newest record (`Change::follows`) is `Moved`.
    async fn commit(&self, commit: Commit) -> Result<Committed, CommitError> {
        let done =
            self.write(Operation::Commit(commit)).await.map_err(OperationRefusal::of_task)?;
        Ok(done.committed())
    }

    /// As `commit`, for somebody to whom another task is as good: where another writer is at the task
    /// just now, it may be answered with `Moved` instead of being waited for.
    async fn try_commit(&self, commit: Commit) -> Result<Committed, CommitError> {
        let done =
            self.write(Operation::TryCommit(commit)).await.map_err(OperationRefusal::of_task)?;
        Ok(done.committed())
    }

    /// Hands in a commit that need not be waited for: it becomes durable together with the next
    /// `commit` handed in after it, or by itself within milliseconds, in order. Its failure is not
    /// reported; only for records whose loss changes nothing (see `RepeatRule::needs_intent_first`).
    fn commit_deferred(&self, commit: Commit) -> DeferredCommit;

    /// One task.
    async fn task(&self, id: &TaskId) -> Result<Option<Task>, StoreError>;

    /// Those of these tasks that are there, in the same order; a backend may read them at once.
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

    /// Every task that is not terminal, at a glance, in the order they were added.
    async fn unfinished(&self) -> Result<Vec<TaskGlance>, StoreError>;

    /// One step as its newest record has it.
    async fn step(&self, task: &TaskId, key: &StepKey) -> Result<Option<Step>, StoreError>;

    /// A task and one of its steps; a backend may read them at once.
    async fn task_with_step(
        &self,
        id: &TaskId,
        key: &StepKey,
    ) -> Result<(Option<Task>, Option<Step>), StoreError> {
        Ok((self.task(id).await?, self.step(id, key).await?))
    }

    /// All steps of a task in the order they were first recorded, since they were last cleared.
    async fn steps(&self, task: &TaskId) -> Result<Vec<Step>, StoreError>;

    /// What the newest end of a step gave.
    async fn output(&self, task: &TaskId, key: &StepKey) -> Result<Option<Output>, StoreError>;

    /// What happened.
    async fn events(&self, query: EventQuery) -> Result<Vec<Event>, StoreError>;

    /// As `write`, for a removal.
    async fn remove(&self, removal: Removal) -> Result<OperationResult, StoreError> {
        self.write(Operation::Remove(removal)).await.map_err(OperationRefusal::of_store)
    }

    /// Removes finished or expired tasks with all that belongs to them, each only if it is still at
    /// the given sequence number; answers those removed. An event tells of each.
    async fn forget(&self, tasks: Vec<(TaskId, u64)>, at: Time) -> Result<Vec<TaskId>, StoreError> {
        Ok(self.remove(Removal::Tasks(tasks, at)).await?.removed())
    }

    /// Removes events older than this that are not the records of a task's steps; answers how many.
    async fn forget_events(&self, before: Time) -> Result<u64, StoreError> {
        Ok(self.remove(Removal::Events(before)).await?.count())
    }

    /// Makes all changes of an agent durable, or none. Never waits on the caller's thread for the
    /// disk: many agents of one supervisor commit together. Each commit that shows a fence also
    /// renews its lease; without changes it only compares.
    async fn commit_agent(&self, commit: AgentCommit) -> Result<Committed, AgentCommitError> {
        let done =
            self.write(Operation::CommitAgent(commit)).await.map_err(OperationRefusal::of_agent)?;
        Ok(done.committed())
    }

    /// One agent.
    async fn agent(&self, name: &AgentName) -> Result<Option<Agent>, StoreError>;

    /// Agents in the order of their names.
    async fn agents(&self, query: AgentQuery) -> Result<Vec<Agent>, StoreError>;

    /// The attempt with this tag.
    async fn attempt(&self, tag: &AttemptTag) -> Result<Option<Attempt>, StoreError>;

    /// Attempts, newest first, by the order in which they were begun.
    async fn attempts(&self, query: AttemptQuery) -> Result<Vec<Attempt>, StoreError>;

    /// Removes ended attempts begun before this, but the newest of each agent; answers how many.
    async fn forget_attempts(&self, before: Time) -> Result<u64, StoreError> {
        Ok(self.remove(Removal::Attempts(before)).await?.count())
    }

    /// Removes an agent that nobody holds, with its attempts and events, if it is still at this
    /// sequence number. An event tells of it.
    async fn forget_agent(&self, name: &AgentName, seq: u64, at: Time) -> Result<bool, StoreError> {
        Ok(self.remove(Removal::Agent(name.clone(), seq, at)).await?.changed())
    }

    /// Makes these changes durable together, each only if its session is still at the sequence number
    /// it was decided upon (0: absent); says which were made. Each that renews counts its lease's
    /// time from now.
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

    /// Removes sessions without a turn in flight, each only if it is still at the given sequence number;
    /// answers how many.
    async fn forget_sessions(&self, sessions: Vec<(SessionKey, u64)>) -> Result<u64, StoreError> {
        Ok(self.remove(Removal::Sessions(sessions)).await?.count())
    }

    /// One session.
    async fn session(&self, key: &SessionKey) -> Result<Option<Session>, StoreError>;

    /// Sessions in the order of their keys.
    async fn sessions(&self, query: SessionQuery) -> Result<Vec<Session>, StoreError>;

    /// A small record of the whole store, such as the machine's boots; none when it was never kept.
    async fn kept(&self, name: &str) -> Result<Option<Value>, StoreError>;

    /// Keeps a small record, if it is still what was read; false when it is not.
    async fn keep(
        &self,
        name: &str,
        before: Option<Value>,
        now: Value,
    ) -> Result<bool, StoreError> {
        self.keep_and_tell(name, before, now, Vec::new()).await
    }

    /// The same, with events that tell of it: all or nothing. Answers whether it was done.
    async fn keep_and_tell(
        &self,
        name: &str,
        before: Option<Value>,
        now: Value,
        told: Vec<StoreEvent>,
    ) -> Result<bool, StoreError> {
        let name = name.to_owned();
        let done = self
            .write(Operation::Keep { name, before, now, told })
            .await
            .map_err(OperationRefusal::of_store)?;
        Ok(done.changed())
    }

    /// Counts, settings and, when `whole`, a check of every page.
    async fn inventory(&self, whole: bool) -> Result<Inventory, StoreError>;

    // Leases, by the store's own clock

    /// Renews a lease without counting as progress.
    async fn renew(&self, task: &TaskId, fence: Fence) -> Result<(), CommitError> {
        let renewal = Operation::Renew(task.clone(), fence);
        self.write(renewal).await.map(drop).map_err(OperationRefusal::of_task)
    }

    /// Tasks that the claimant may take now (`Claimant::may_take`), best first; held ones are left
    /// out.
    async fn claimable(
        &self,
        claimant: &Claimant,
        now: Time,
        limit: usize,
    ) -> Result<Vec<TaskId>, StoreError>;

    /// When the next task of the queue comes to its `not_before`; none when time alone brings none.
    async fn next_due(&self, now: Time) -> Result<Option<Time>, StoreError>;

    /// Gives a node its lease, with its whole time from now. The installation that had the name last
    /// has it at once, on the same boot of its machine; another one when the lease ran out. A process that was this node before says under
    /// which lease: it is refused when another process of its installation has joined since. An event
    /// tells of it.
    async fn join_node(
        &self,
        node: NewNode,
        last: Option<Epoch>,
        at: Time,
    ) -> Result<Joined, StoreError> {
        let join = Operation::JoinNode(Box::new(node), last, at);
        Ok(self.write(join).await.map_err(OperationRefusal::of_store)?.joined())
    }

    /// Gives the lease its whole time again; false when it ran out or the node joined anew.
    async fn renew_node(&self, name: &NodeName, epoch: Epoch) -> Result<bool, StoreError> {
        let renewal = Operation::RenewNode(name.clone(), epoch);
        Ok(self.write(renewal).await.map_err(OperationRefusal::of_store)?.changed())
    }

    /// Ends the lease at once; false when it was not this one. An event tells of it.
    async fn leave_node(
        &self,
        name: &NodeName,
        epoch: Epoch,
        at: Time,
    ) -> Result<bool, StoreError> {
        let leave = Operation::LeaveNode(name.clone(), epoch, at);
        Ok(self.write(leave).await.map_err(OperationRefusal::of_store)?.changed())
    }

    /// Has a node finish what runs and take nothing new, or go on; false when there is none. An event
    /// tells of it.
    async fn drain_node(
        &self,
        name: &NodeName,
        draining: bool,
        at: Time,
    ) -> Result<bool, StoreError> {
        let drain = Operation::DrainNode(name.clone(), draining, at);
        Ok(self.write(drain).await.map_err(OperationRefusal::of_store)?.changed())
    }

    /// Removes a node whose lease ran out; false when it lasts or there is none. An event tells of it.
    async fn forget_node(&self, name: &NodeName, at: Time) -> Result<bool, StoreError> {
        let forget = Operation::ForgetNode(name.clone(), at);
        Ok(self.write(forget).await.map_err(OperationRefusal::of_store)?.changed())
    }

    /// All nodes in the order of their names.
    async fn nodes(&self) -> Result<Vec<Node>, StoreError>;

    /// Whether it is worth reading them. Every node asks with each renewal: a backend that many share
    /// answers without sending all of them.
    async fn nodes_summary(&self) -> Result<NodesSummary, StoreError> {
        Ok(NodesSummary::of(&self.nodes().await?))
    }

    /// Another one whenever an agent came, went, was taken or given back: who has which agent is worth
    /// reading again only then.
    async fn agents_mark(&self) -> Result<ChangeToken, StoreError> {
        let agents = self.agents(AgentQuery::default()).await?;
        let mut mark = [0_i64; 5];
        for agent in &agents {
            let number = name_number(agent.name.as_str());
            let free = if agent.lease.held.is_none() { number } else { 0 };
            for (sum, more) in
                mark.iter_mut().zip([1, agent.lease.fence.0.cast_signed(), number, free, 0])
            {
                *sum = sum.wrapping_add(more);
            }
        }
        Ok(mark)
    }

    // Wake-ups

    /// The newest event's id; 0 when there is none.
    async fn newest_event(&self) -> Result<u64, StoreError>;

    /// Returns when an event after this one may be there, from whatever process it came. May also
    /// return early. Tells within milliseconds once the commit can be seen; where the system does not
    /// tell, within half a minute.
    async fn changed(&self, after: u64) -> Result<(), StoreError>;

    /// The wall clock of the machine that the store is on, where that has one of its own.
    async fn clock(&self) -> Result<Option<Time>, StoreError> {
        Ok(None)
    }

    /// The file that holds everything, where there is one.
    fn file(&self) -> Option<PathBuf> {
        None
    }
}
