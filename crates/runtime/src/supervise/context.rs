//! What all agents of one supervisor share.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use relight_core::decide::{Right, TaskEvent};
use relight_core::ids::{AgentName, TaskId};
use relight_core::lease::{Holder, ProcessIdentity};
use relight_core::node::Epoch;
use relight_core::status::TaskStatus;
use relight_core::time::Span;
use relight_store::StoreError;
use tokio::sync::{Notify, Semaphore, watch};

use super::cgroup::Cgroups;
use super::log::Growth;
use super::notice::{Notices, What};
use super::takeover::WaitingAgents;
use super::word::Word;
use crate::drain;
use crate::engine::{ActError, Engine, TaskView};
use crate::fleet::Fleet;
use crate::os::fleet as door;
use crate::recovery::Recoverer;

/// Under which lease of this node something was taken up; outside of a fleet there is none. A node that
/// lost its lease and joined anew has no right to go on with what it had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NodeRight(Option<Option<Epoch>>);

impl NodeRight {
    /// The lease; none outside of a fleet, and where it was lost already.
    pub(super) fn epoch(self) -> Option<Epoch> {
        self.0.flatten()
    }
}

/// What all agents of one supervisor share.
#[derive(Debug)]
pub(super) struct SupervisorContext {
    /// The store, with the funnel in front of it.
    pub(super) engine: Engine,
    /// The folder that the store is in.
    pub(super) home: PathBuf,
    /// What is started as a shim: this very program.
    pub(super) program: PathBuf,
    /// This process.
    pub(super) owner: ProcessIdentity,
    /// Who hears what happens.
    pub(super) notices: Notices,
    /// Tells which log has grown.
    pub(super) growth: Growth<AgentName>,
    /// Where a cgroup was delegated to us.
    pub(super) cgroups: Option<Cgroups>,
    /// How many files this process could have open before it asked for more; agents get that.
    pub(super) nofile: Option<u64>,
    /// Room for so many who ask git something that nobody waits for.
    pub(super) git_places: Arc<Semaphore>,
    /// Gives tasks to their strategy.
    pub(super) recoverer: Recoverer,
    /// Whether nothing is to be begun: a drain lasts, as far as this process knows.
    pub(super) draining: watch::Sender<bool>,
    /// Rung when an agent has come to rest: it may be given work, or its turn. Also when a drain begins or
    /// ends.
    pub(super) bell: Arc<Notify>,
    /// Tasks whose strategy is being asked beside their agent.
    pub(super) asking: Mutex<BTreeSet<TaskId>>,
    /// Where agents find the store again.
    pub(super) places: Vec<(Word, Word)>,
    /// This machine's fleet; none where it is alone.
    pub(super) fleet: Option<Fleet>,
    /// How long an agent is held without a commit; for as long as this process lives when none.
    pub(super) hold: Option<Span>,
    /// Agents that are taken up here once their node is gone.
    pub(super) standby: WaitingAgents,
}

impl SupervisorContext {
    /// Who holds what is supervised here: this process, or whoever a clock ends.
    pub(super) fn holder(&self) -> Holder {
        match self.hold {
            None => Holder::Process(self.owner.clone()),
            Some(_) => {
                let ProcessIdentity { pid, boot, .. } = &self.owner;
                Holder::Time { by: format!("a command, process {pid} of boot {boot}") }
            }
        }
    }

    /// Whether others than this machine take up what nobody holds.
    pub(super) fn is_one_of_many(&self) -> bool {
        self.fleet.is_some() || self.owner.node.is_some() || door::shares_store()
    }

    pub(super) fn is_draining(&self) -> bool {
        *self.draining.borrow() || self.fleet.as_ref().is_some_and(Fleet::is_draining)
    }

    /// Reads the mark of a drain; whether nothing is to be begun.
    pub(super) async fn read_drain(&self) -> Result<bool, StoreError> {
        let marked = drain::now(self.engine.store().as_ref()).await?.is_some();
        if self.draining.send_if_modified(|known| std::mem::replace(known, marked) != marked) {
            self.bell.notify_one();
        }
        Ok(self.is_draining())
    }

    /// The right of this node to act, as it is now; none of it is needed where there is no fleet.
    pub(super) fn node_right(&self) -> NodeRight {
        NodeRight(self.fleet.as_ref().map(|fleet| fleet.standing().borrow().epoch()))
    }

    /// Whether anything may be begun by a right that was had before: not when the node's lease has nearly
    /// run out, by a clock that goes on while this process is frozen, and not under a later lease.
    pub(super) fn still_has(&self, right: NodeRight) -> bool {
        let (Some(fleet), NodeRight(Some(epoch))) = (&self.fleet, right) else { return true };
        epoch.is_some_and(|epoch| fleet.term_of(epoch).is_some())
    }

    /// Notes whether the strategy of a task is being asked beside its agent.
    pub(super) fn asks(&self, task: &TaskId, begins: bool) {
        let mut asking = self.asking.lock().expect("nothing panics while it is locked");
        if begins {
            asking.insert(task.clone());
        } else {
            asking.remove(task);
        }
    }

    pub(super) fn is_asked_about(&self, task: &TaskId) -> bool {
        self.asking.lock().expect("nothing panics while it is locked").contains(task)
    }

    /// Puts a task back into the queue that was given to an agent who cannot take it now.
    pub(super) async fn give_back(&self, task: &TaskId, agent: &AgentName) {
        let plan = |view: &TaskView| {
            let task = &view.task;
            let is_its_own = task.agent.as_ref() == Some(agent) && task.lease.held.is_none();
            let waits = is_its_own && task.status == TaskStatus::Assigned;
            let back = TaskEvent::Move { to: TaskStatus::Created, reason: None };
            Ok::<_, ActError>(waits.then_some(back).into_iter().collect())
        };
        if let Err(error) = self.engine.act_in_turn(task, Right::Unfenced, plan).await {
            self.notices.tell(agent, What::Trouble(format!("task {task}: {error}")));
        }
    }
}
