//! Taking work from the queue: what every claim goes through, whoever asks.
//!
//! Tasks whose holder died are given to their strategy on the way, so that a queue without a daemon
//! is never stuck behind a dead worker.

use relight_core::claimant::Claimant;
use relight_core::ids::AgentName;
use relight_core::lease::Holder;
use relight_core::status::TaskStatus;
use relight_core::time::Span;
use relight_store::{StoreError, TaskQuery};

use tokio::time::Instant;

use crate::doors::clock;
use crate::drain;
use crate::engine::{ActError, Engine, Started};
use crate::recovery::{Recoverer, lost, sweep};

/// The queue of a store.
#[derive(Debug, Clone)]
pub struct Queue {
    recoverer: Recoverer,
}

/// What asking for work came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claimed {
    /// A task, under a lease.
    Task(Box<Started>),
    /// There is none.
    Nothing,
    /// Nothing is begun now.
    Draining,
    /// It works on as many as it may.
    Full {
        /// How many.
        held: u32,
    },
}

impl Queue {
    /// The queue with these strategies and limits.
    pub fn new(recoverer: Recoverer) -> Self {
        Self { recoverer }
    }

    fn engine(&self) -> &Engine {
        self.recoverer.engine()
    }

    /// An agent as the store knows it, with what it says of itself.
    pub async fn claimant(
        &self,
        agent: &AgentName,
        skills: &[String],
    ) -> Result<(Claimant, Option<u32>), StoreError> {
        let known = self.engine().store().agent(agent).await?;
        let mut claimant = Claimant::new(agent.clone());
        let mut concurrency = None;
        if let Some(known) = known {
            claimant = known.plan.claimant(agent);
            concurrency = known.plan.concurrency;
        }
        claimant.skills.extend(skills.iter().cloned());
        Ok((claimant, concurrency))
    }

    /// Takes the best task there is for an agent.
    pub async fn claim(
        &self,
        agent: &AgentName,
        skills: &[String],
        holder: &Holder,
        ttl: Option<Span>,
    ) -> Result<Claimed, ActError> {
        if drain::now(self.engine().store().as_ref()).await?.is_some() {
            return Ok(Claimed::Draining);
        }
        let (claimant, concurrency) = self.claimant(agent, skills).await?;
        if let Some(max) = concurrency {
            let held = self.held_by(agent).await?;
            if held >= max {
                return Ok(Claimed::Full { held });
            }
        }
        let policy = self.recoverer.policy();
        if let Some(started) = self.engine().claim(&claimant, holder, ttl, policy).await? {
            return Ok(Claimed::Task(Box::new(started)));
        }
        let found = lost(self.engine()).await?;
        if found.is_empty() {
            return Ok(Claimed::Nothing);
        }
        // One that cannot be recovered is in nobody's way; `recover` tells of it.
        sweep(&self.recoverer, found).await;
        let started = self.engine().claim(&claimant, holder, ttl, policy).await?;
        Ok(started.map_or(Claimed::Nothing, |started| Claimed::Task(Box::new(started))))
    }

    /// As `claim`, and waits for a task for up to `wait`: until the store changes, until a task is due,
    /// and no longer than `sweep` at a time, for nobody tells of holders that die.
    pub async fn claim_within(
        &self,
        wait: Span,
        sweep: Span,
        agent: &AgentName,
        skills: &[String],
        holder: &Holder,
        ttl: Option<Span>,
    ) -> Result<Claimed, ActError> {
        let store = self.engine().store();
        let deadline = Instant::now() + wait.as_duration();
        loop {
            let newest = store.newest_event().await?;
            let claimed = self.claim(agent, skills, holder, ttl).await?;
            let left = deadline.saturating_duration_since(Instant::now());
            if matches!(claimed, Claimed::Task(_)) || left.is_zero() {
                return Ok(claimed);
            }
            let pause = self.until_due(sweep).await?.as_duration().min(left);
            if let Ok(changed) = tokio::time::timeout(pause, store.changed(newest)).await {
                changed?;
            }
        }
    }

    /// How long nothing becomes due by time alone; at most `sweep`.
    async fn until_due(&self, sweep: Span) -> Result<Span, StoreError> {
        let now = clock::now();
        let due = self.engine().store().next_due(now).await?;
        Ok(due.map_or(sweep, |at| at.since(now).min(sweep)))
    }

    async fn held_by(&self, agent: &AgentName) -> Result<u32, StoreError> {
        let statuses = vec![TaskStatus::InProgress];
        let agent = Some(agent.clone());
        let query = TaskQuery { statuses, agent, ..TaskQuery::default() };
        let tasks = self.engine().store().tasks(query).await?;
        let held = tasks.iter().filter(|task| task.lease.held.is_some()).count();
        Ok(u32::try_from(held).unwrap_or(u32::MAX))
    }
}
