//! Taking tasks from the queue as handles of this process.

use std::time::Duration;

use relight_core::ids::AgentName;
use relight_core::lease::LEASE_MAX;
use relight_core::time::Span;

use super::process_claims::{OwnHolder, ProcessClaims, StoreIdentity};
use super::task::RunningTask;
use crate::declared_wait::DeclaredWait;
use crate::engine::ActError;
use crate::queue::Queue;

/// The tasks that wait for somebody to take them.
///
/// The best there is comes first: by priority, then by age. Claimers side by side each get the best
/// that was left when they were served; two that run at the same time may be served in any order. No
/// task is given twice, whatever processes claim, and one whose claimer is killed is found again.
#[derive(Debug, Clone)]
pub struct TaskQueue {
    queue: Queue,
    place: StoreIdentity,
    own: OwnHolder,
    ttl: Option<Span>,
}

impl TaskQueue {
    pub(super) fn new(queue: Queue, place: StoreIdentity, own: OwnHolder) -> Self {
        Self {
            queue,
            place,
            own,
            ttl: None,
        }
    }

    /// Holds tasks by leases of this length that are renewed in the background; see
    /// [`TaskBuilder::lease`](super::TaskBuilder::lease).
    #[must_use]
    pub fn lease(mut self, ttl: Span) -> Self {
        self.ttl = Some(ttl.min(LEASE_MAX));
        self
    }

    /// Takes the best task there is for an agent with these skills; none when there is none. While the
    /// store is draining, or when the agent already holds its maximum number of tasks, that is the error.
    ///
    /// Dropped half way, a task that was taken all the same is given up again. Must be called inside
    /// a Tokio runtime.
    pub async fn claim(
        &self,
        agent: &str,
        skills: &[String],
    ) -> Result<Option<RunningTask>, ActError> {
        self.claim_for(&AgentName::new(agent)?, skills).await
    }

    /// As `claim`, waiting until there is one; none when there was none for so long.
    pub async fn claim_wait(
        &self,
        agent: &str,
        skills: &[String],
        wait: Duration,
    ) -> Result<Option<RunningTask>, ActError> {
        let agent = AgentName::new(agent)?;
        match tokio::time::timeout(wait, self.next(&agent, skills)).await {
            Ok(task) => task.map(Some),
            Err(_) => Ok(None),
        }
    }

    /// The next task, however long it takes.
    pub(super) async fn next(
        &self,
        agent: &AgentName,
        skills: &[String],
    ) -> Result<RunningTask, ActError> {
        let store = self.queue.recoverer().engine().store();
        let mut declared = None;
        loop {
            let newest = store.newest_event().await?;
            if let Some(task) = self.claim_now(agent, skills).await? {
                return Ok(task);
            }
            if declared.is_none() {
                let engine = self.queue.recoverer().engine();
                declared = Some(DeclaredWait::begin(None, engine, Some(agent)).await);
            }
            self.queue.changed(newest).await?;
        }
    }

    /// As `claim_for`; none also while draining or when the agent already holds its maximum number of tasks, for both
    /// end by themselves.
    pub(super) async fn claim_now(
        &self,
        agent: &AgentName,
        skills: &[String],
    ) -> Result<Option<RunningTask>, ActError> {
        match self.claim_for(agent, skills).await {
            Err(ActError::NothingBegun | ActError::Full { .. }) => Ok(None),
            claimed => claimed,
        }
    }

    async fn claim_for(
        &self,
        agent: &AgentName,
        skills: &[String],
    ) -> Result<Option<RunningTask>, ActError> {
        let holders = self.queue.recoverer().engine().holders();
        let (holder, ttl) = self.own.lease(self.ttl, holders).await?;
        let (queue, place) = (self.queue.clone(), self.place.clone());
        let (agent, skills) = (agent.clone(), skills.to_vec());
        // On its own: a claim that is committed while its caller goes away must not be held for ever
        // by a process that knows nothing of it.
        let claim = tokio::spawn(async move {
            let claimed = queue.claim(&agent, &skills, &holder, ttl).await?;
            Ok(claimed.started(&agent)?.map(|started| {
                let own = ProcessClaims::join(&place, &started.view.task.id);
                RunningTask::new(queue.recoverer().clone(), *started, ttl, own)
            }))
        });
        // A runtime that shuts down ends its tasks and whoever waits for them.
        claim.await.unwrap_or(Ok(None))
    }
}
