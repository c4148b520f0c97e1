//! State shared by all agents of one supervisor.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use relight_core::decide::{Right, TaskEvent};
use relight_core::ids::{AgentName, TaskId};
use relight_core::lease::{Holder, ProcessIdentity};
use relight_core::node::Epoch;
use relight_core::status::TaskStatus;
use relight_core::store_budget::Overspent;
use relight_core::time::Span;
use relight_store::StoreError;
use tokio::sync::{Notify, Semaphore, watch};

use super::cgroup::Cgroups;
use super::log::Growth;
use super::notices::{Notices, What};
use super::store_budget::BudgetWatch;
use super::takeover::WaitingAgents;
use crate::drain;
use crate::engine::{ActError, Engine, TaskSnapshot};
use crate::fleet::Fleet;
use crate::os::word::Word;
use crate::recovery::Recoverer;

/// The node lease under which something was acquired; none outside of a fleet. A node that lost its
/// lease and joined again must not continue what it had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NodeRight(Option<Option<Epoch>>);

impl NodeRight {
    /// The lease; none outside of a fleet or after it was lost.
    pub(super) fn epoch(self) -> Option<Epoch> {
        self.0.flatten()
    }
}

/// State shared by all agents of one supervisor.
#[derive(Debug)]
pub(super) struct SupervisorContext {
    /// The engine in front of the store.
    pub(super) engine: Engine,
    /// The folder that the store is in.
    pub(super) home: PathBuf,
    /// The program started as a shim.
    pub(super) program: PathBuf,
    /// This process.
    pub(super) owner: ProcessIdentity,
    pub(super) notices: Notices,
    /// Reports which log has grown.
    pub(super) growth: Growth<AgentName>,
    /// Set if a cgroup is delegated to this process.
    pub(super) cgroups: Option<Cgroups>,
    /// This process's original limit of open files; agents get it.
    pub(super) nofile: Option<u64>,
    /// Limits concurrent background git calls.
    pub(super) git_places: Arc<Semaphore>,
    pub(super) recoverer: Recoverer,
    /// Whether a drain is in effect, as far as this process knows.
    pub(super) draining: watch::Sender<bool>,
    /// The budget of the store, and whether it is spent.
    pub(super) budget: BudgetWatch,
    /// Notified when an agent comes to rest, so that it can get work or resume, when a drain begins
    /// or ends, and when the budget of the store is no longer spent.
    pub(super) bell: Arc<Notify>,
    /// Tasks whose strategy is being asked in the background.
    pub(super) asking: Mutex<BTreeSet<TaskId>>,
    /// Environment variables by which agents find the store.
    pub(super) places: Vec<(Word, Word)>,
    /// The fleet; none on a single machine.
    pub(super) fleet: Option<Fleet>,
    /// How long an agent's lease lasts without a commit; as long as this process lives when none.
    pub(super) hold: Option<Span>,
    /// Agents that this node takes over once their node is gone.
    pub(super) standby: WaitingAgents,
}

impl SupervisorContext {
    /// The holder of this supervisor's leases: this process, or a time limit.
    pub(super) fn holder(&self) -> Holder {
        match self.hold {
            None => Holder::Process(self.owner.clone()),
            Some(_) => {
                let ProcessIdentity { pid, boot, .. } = &self.owner;
                Holder::Time {
                    by: format!("a command, process {pid} of boot {boot}"),
                }
            }
        }
    }

    /// Whether other machines also acquire free agents.
    pub(super) fn is_one_of_many(&self) -> bool {
        self.fleet.is_some() || self.owner.node.is_some() || self.engine.store().is_shared()
    }

    pub(super) fn is_draining(&self) -> bool {
        *self.draining.borrow() || self.fleet.as_ref().is_some_and(Fleet::is_draining)
    }

    /// Reads the drain flag. Returns whether a drain is in effect.
    pub(super) async fn read_drain(&self) -> Result<bool, StoreError> {
        let marked = drain::now(self.engine.store().as_ref()).await?.is_some();
        if self
            .draining
            .send_if_modified(|known| std::mem::replace(known, marked) != marked)
        {
            self.bell.notify_one();
        }
        Ok(self.is_draining())
    }

    /// Reads whether the budget of the store is spent.
    pub(super) async fn read_budget(&self) -> Result<Option<Overspent>, StoreError> {
        let was_spent = self.budget.overspent().is_some();
        let overspent = self.budget.read(self.engine.store().as_ref()).await?;
        if was_spent && overspent.is_none() {
            self.bell.notify_one();
        }
        Ok(overspent)
    }

    /// The node's current lease; not needed outside of a fleet.
    pub(super) fn node_right(&self) -> NodeRight {
        NodeRight(
            self.fleet
                .as_ref()
                .map(|fleet| fleet.standing().borrow().epoch()),
        )
    }

    /// Whether something may still be started under this lease. Not when the lease has nearly
    /// expired, by a clock that also runs while this process is frozen, and not under a later
    /// lease.
    pub(super) fn still_has(&self, right: NodeRight) -> bool {
        let (Some(fleet), NodeRight(Some(epoch))) = (&self.fleet, right) else {
            return true;
        };
        epoch.is_some_and(|epoch| fleet.term_of(epoch).is_some())
    }

    /// Records whether the strategy of a task is being asked in the background.
    pub(super) fn asks(&self, task: &TaskId, begins: bool) {
        let mut asking = self
            .asking
            .lock()
            .expect("nothing panics while it is locked");
        if begins {
            asking.insert(task.clone());
        } else {
            asking.remove(task);
        }
    }

    pub(super) fn is_asked_about(&self, task: &TaskId) -> bool {
        self.asking
            .lock()
            .expect("nothing panics while it is locked")
            .contains(task)
    }

    /// Puts an assigned task back into the queue, because its agent cannot take it now.
    pub(super) async fn give_back(&self, task: &TaskId, agent: &AgentName) {
        let plan = |view: &TaskSnapshot| {
            let task = &view.task;
            let is_its_own = task.agent.as_ref() == Some(agent) && task.lease.held.is_none();
            let waits = is_its_own && task.status == TaskStatus::Assigned;
            let back = TaskEvent::Move {
                to: TaskStatus::Created,
                reason: None,
            };
            Ok::<_, ActError>(waits.then_some(back).into_iter().collect())
        };
        if let Err(error) = self.engine.act_in_turn(task, Right::Unfenced, plan).await {
            self.notices
                .tell(agent, What::Trouble(format!("task {task}: {error}")));
        }
    }
}
