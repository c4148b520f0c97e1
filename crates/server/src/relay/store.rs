//! A store that is asked through the daemon of the node.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use relight_core::agent::{Agent, Attempt, AttemptTag};
use relight_core::claimant::Claimant;
use relight_core::event::Event;
use relight_core::ids::{AgentName, IdempotencyKey, SessionKey, TaskId};
use relight_core::node::Node;
use relight_core::session::{Session, SessionChange};
use relight_core::step::{Output, Step, StepKey};
use relight_core::task::Task;
use relight_core::time::Time;
use relight_store::{
    AgentQuery, AttemptQuery, Commit, CommitError, Committed, DeferredCommit, EventQuery,
    Inventory, KeptRange, Operation, OperationReply, OperationResult, Removal, Rows, SessionQuery,
    Store, StoreError, StoreEvent, TaskGlance, TaskQuery, UnreadableRow,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::call::{Maybe, Read, RelayCall, Write};
use super::deferred::Soon;
use super::read_back;
use super::relay_client::{RelayClient, RelayReply};
use super::thread::Thread;

/// How long a commit that nobody waits for waits for one to go with.
const SOON: Duration = Duration::from_millis(2);
/// How long the end of a store waits for what is still to be written.
const END_MAX: Duration = Duration::from_secs(5);

/// The store of a node, asked through its daemon's socket. What only daemons do is refused.
///
/// A daemon that is away is waited for, some seconds. A write whose answer was lost is never reported
/// as refused when it was made.
#[derive(Debug)]
pub struct RelayedStore {
    asker: Arc<RelayClient>,
    soon: Arc<Soon>,
    thread: Thread,
}

impl RelayedStore {
    /// The store behind this socket. Nobody is asked yet.
    pub fn open(socket: &Path) -> Result<Self, StoreError> {
        Self::with(RelayClient::new(socket))
    }

    /// The same, for whoever waits no longer than this for a daemon that is away.
    pub fn open_with_patience(socket: &Path, away_max: Duration) -> Result<Self, StoreError> {
        let mut asker = RelayClient::new(socket);
        asker.set_patience(away_max);
        Self::with(asker)
    }

    fn with(asker: RelayClient) -> Result<Self, StoreError> {
        let asker = Arc::new(asker);
        let thread = Thread::start().map_err(|error| asker.unreachable(error.to_string()))?;
        Ok(Self {
            asker,
            soon: Arc::default(),
            thread,
        })
    }

    async fn ask<T>(&self, call: RelayCall) -> Result<RelayReply<T>, StoreError>
    where
        T: DeserializeOwned + Send + 'static,
    {
        let asker = Arc::clone(&self.asker);
        let asked = self.thread.run(async move { asker.ask(call).await }).await;
        asked.unwrap_or_else(|| Err(self.asker.unreachable("its thread has stopped")))
    }

    async fn read<T>(&self, read: Read) -> Result<T, StoreError>
    where
        T: DeserializeOwned + Send + 'static,
    {
        self.ask::<Result<T, StoreError>>(RelayCall::Read(read))
            .await?
            .answer
    }

    async fn send<T>(&self, write: Write) -> Result<RelayReply<T>, StoreError>
    where
        T: DeserializeOwned + Send + 'static,
    {
        self.ask(self.asker.new_write(write)).await
    }

    fn not_for_agents(&self, what: &str) -> StoreError {
        let why = format!(
            "through a node's daemon nobody can {what}; outside of agents, name the store by --store, \
             RELIGHT_STORE or [store] in relight.toml"
        );
        StoreError::Unsuitable {
            place: self.asker.place(),
            why,
        }
    }

    async fn commit_now(&self, commit: Commit) -> Result<Committed, CommitError> {
        let mut turn = self.soon.turn().await;
        let soon = std::mem::take(&mut turn.before);
        let write = Write::Commit {
            soon,
            commit: commit.clone(),
        };
        let reply = self.send::<Result<Committed, CommitError>>(write).await?;
        match reply.answer {
            Err(error) if reply.in_doubt => match read_back::committed(self, &commit).await? {
                Some(committed) => Ok(committed),
                None => Err(error),
            },
            answer => answer,
        }
    }

    async fn commit_sessions_now(
        &self,
        changes: Vec<SessionChange>,
        at: Time,
    ) -> Result<Vec<bool>, StoreError> {
        let write = Write::CommitSessions(changes.clone(), at);
        let reply = self.send::<Result<Vec<bool>, StoreError>>(write).await?;
        let mut made = reply.answer?;
        if reply.in_doubt {
            for (made, change) in made.iter_mut().zip(&changes) {
                *made = *made || read_back::is_made(self, change).await?;
            }
        }
        Ok(made)
    }

    async fn keep_now(
        &self,
        name: String,
        before: Option<Value>,
        now: Value,
        told: Vec<StoreEvent>,
    ) -> Result<bool, StoreError> {
        let (wanted, before) = (now.clone(), Maybe(before));
        let write = Write::Keep {
            name: name.clone(),
            before,
            now,
            told,
        };
        let reply = self.send::<Result<bool, StoreError>>(write).await?;
        let is_kept = reply.answer?;
        Ok(is_kept || (reply.in_doubt && self.kept(&name).await? == Some(wanted)))
    }
}

/// Sends what waits, unless a commit has taken it along meanwhile.
async fn send_soon(asker: &RelayClient, soon: &Soon) {
    let mut turn = soon.turn().await;
    let commits = std::mem::take(&mut turn.before);
    if !commits.is_empty() {
        // Its failure is not reported: nobody may depend on it.
        let _: Result<RelayReply<()>, _> =
            asker.ask(asker.new_write(Write::CommitSoon(commits))).await;
    }
}

impl Drop for RelayedStore {
    fn drop(&mut self) {
        if self.soon.is_empty() {
            return;
        }
        let (asker, soon) = (Arc::clone(&self.asker), Arc::clone(&self.soon));
        self.thread
            .finish(END_MAX, async move { send_soon(&asker, &soon).await });
    }
}

#[async_trait]
impl Store for RelayedStore {
    async fn write(&self, operation: Operation) -> OperationReply {
        let refused = match operation {
            Operation::Commit(commit) | Operation::TryCommit(commit) => {
                return Ok(OperationResult::Committed(self.commit_now(commit).await?));
            }
            Operation::Renew(task, fence) => {
                let renewal = Write::Renew(task, fence);
                self.send::<Result<(), CommitError>>(renewal)
                    .await?
                    .answer?;
                return Ok(OperationResult::Renewed);
            }
            Operation::CommitSessions(changes, at) => {
                return Ok(OperationResult::Sessions(
                    self.commit_sessions_now(changes, at).await?,
                ));
            }
            Operation::Keep {
                name,
                before,
                now,
                told,
            } => {
                return Ok(OperationResult::Changed(
                    self.keep_now(name, before, now, told).await?,
                ));
            }
            Operation::CommitAgent(_) => "supervise",
            Operation::JoinNode(..) | Operation::RenewNode(..) | Operation::LeaveNode(..) => {
                "be nodes"
            }
            Operation::DrainNode(..) => "drain nodes",
            Operation::ForgetNode(..) => "remove nodes",
            Operation::Remove(Removal::Kept(range)) => {
                let write = Write::ForgetKept(range);
                let reply = self.send::<Result<u64, StoreError>>(write).await?;
                return Ok(OperationResult::Count(reply.answer?));
            }
            Operation::Remove(Removal::Agent(..)) => "remove agents",
            Operation::Remove(_) => "remove what is old",
        };
        Err(self.not_for_agents(refused).into())
    }

    fn commit_deferred(&self, commit: Commit) -> DeferredCommit {
        let deferred = DeferredCommit::keep(commit);
        if self.soon.hand_in(deferred.clone()) {
            let (asker, soon) = (Arc::clone(&self.asker), Arc::clone(&self.soon));
            self.thread.spawn(async move {
                tokio::time::sleep(SOON).await;
                send_soon(&asker, &soon).await;
            });
        }
        deferred
    }

    async fn task(&self, id: &TaskId) -> Result<Option<Task>, StoreError> {
        self.read(Read::Task(id.clone())).await
    }

    async fn tasks_by_id(&self, ids: &[TaskId]) -> Result<Vec<Task>, StoreError> {
        self.read(Read::TasksById(ids.to_vec())).await
    }

    async fn task_with_key(&self, key: &IdempotencyKey) -> Result<Option<Task>, StoreError> {
        self.read(Read::TaskWithKey(key.clone())).await
    }

    async fn tasks(&self, query: TaskQuery) -> Result<Vec<Task>, StoreError> {
        self.read(Read::Tasks(query)).await
    }

    async fn unfinished(&self) -> Result<Vec<TaskGlance>, StoreError> {
        self.read(Read::Unfinished).await
    }

    async fn step(&self, task: &TaskId, key: &StepKey) -> Result<Option<Step>, StoreError> {
        self.read(Read::Step(task.clone(), key.clone())).await
    }

    async fn task_with_step(
        &self,
        id: &TaskId,
        key: &StepKey,
    ) -> Result<(Option<Task>, Option<Step>), StoreError> {
        self.read(Read::TaskWithStep(id.clone(), key.clone())).await
    }

    async fn steps(&self, task: &TaskId) -> Result<Vec<Step>, StoreError> {
        self.read(Read::Steps(task.clone())).await
    }

    async fn output(&self, task: &TaskId, key: &StepKey) -> Result<Option<Output>, StoreError> {
        self.read(Read::Output(task.clone(), key.clone())).await
    }

    async fn events(&self, query: EventQuery) -> Result<Vec<Event>, StoreError> {
        self.read(Read::Events(query)).await
    }

    async fn agent(&self, name: &AgentName) -> Result<Option<Agent>, StoreError> {
        self.read(Read::Agent(name.clone())).await
    }

    async fn agents(&self, query: AgentQuery) -> Result<Vec<Agent>, StoreError> {
        self.read(Read::Agents(query)).await
    }

    async fn attempt(&self, tag: &AttemptTag) -> Result<Option<Attempt>, StoreError> {
        self.read(Read::Attempt(tag.clone())).await
    }

    async fn attempts(&self, query: AttemptQuery) -> Result<Vec<Attempt>, StoreError> {
        self.read(Read::Attempts(query)).await
    }

    async fn session(&self, key: &SessionKey) -> Result<Option<Session>, StoreError> {
        self.read(Read::Session(key.clone())).await
    }

    async fn sessions(&self, query: SessionQuery) -> Result<Vec<Session>, StoreError> {
        self.read(Read::Sessions(query)).await
    }

    async fn kept(&self, name: &str) -> Result<Option<Value>, StoreError> {
        let Maybe(kept) = self.read(Read::Kept(name.to_owned())).await?;
        Ok(kept)
    }

    async fn unreadable(&self, of: Rows) -> Result<Vec<UnreadableRow>, StoreError> {
        self.read(Read::Unreadable(of)).await
    }

    async fn kept_in(&self, range: KeptRange) -> Result<Vec<(String, Value)>, StoreError> {
        self.read(Read::KeptIn(range)).await
    }

    async fn inventory(&self, whole: bool) -> Result<Inventory, StoreError> {
        self.read(Read::Inventory { whole }).await
    }

    async fn claimable(
        &self,
        claimant: &Claimant,
        now: Time,
        limit: usize,
    ) -> Result<Vec<TaskId>, StoreError> {
        self.read(Read::Claimable {
            claimant: claimant.clone(),
            now,
            limit,
        })
        .await
    }

    async fn next_due(&self, now: Time) -> Result<Option<Time>, StoreError> {
        self.read(Read::NextDue(now)).await
    }

    async fn nodes(&self) -> Result<Vec<Node>, StoreError> {
        self.read(Read::Nodes).await
    }

    async fn newest_event(&self) -> Result<u64, StoreError> {
        self.read(Read::NewestEvent).await
    }

    fn is_shared(&self) -> bool {
        true
    }

    async fn changed(&self, after: u64) -> Result<(), StoreError> {
        self.ask::<Result<(), StoreError>>(RelayCall::Changed(after))
            .await?
            .answer
    }
}
