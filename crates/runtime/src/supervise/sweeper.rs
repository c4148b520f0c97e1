//! Finds tasks whose holder died and passes them to their recovery strategy.
//!
//! Deaths of this supervisor's own agents are reported to it. No event reports the death of other
//! processes, the expiry of time-limited leases or agents of other supervisors. It therefore checks
//! periodically while such leases exist, and after changes of the store.

use std::sync::Arc;

use relight_core::agent::{AgentState, AttemptTag, Takes};
use relight_core::ids::AgentName;
use relight_core::node::Node;
use relight_core::task::Task;
use relight_store::StoreError;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::context::SupervisorContext;
use super::notices::What;
use super::roster::{AttemptIs, Roster};
use super::store_changes::StoreChanges;
use super::supervisor::QueueSettings;
use crate::fleet::Fleet;
use crate::recovery::{self, OrphanedTask, Recovered};

/// Maximum number of tasks recovered per sweep.
const SWEPT_MAX: usize = 1_000;

pub(super) struct Sweeper {
    pub(super) context: Arc<SupervisorContext>,
    pub(super) roster: Roster,
    pub(super) changes: StoreChanges,
    /// `sweep` is the minimum time between two checks, and the maximum while there is something to
    /// watch.
    pub(super) settings: watch::Receiver<QueueSettings>,
}

/// Result of one sweep.
struct SweepResult {
    lost: Vec<OrphanedTask>,
    /// There are leases whose end no event reports.
    has_to_look_again: bool,
}

impl Sweeper {
    /// Sweeps for as long as it is polled.
    pub(super) async fn serve(mut self) {
        let mut nodes = self.context.fleet.as_ref().map(Fleet::nodes);
        loop {
            let every = self.settings.borrow_and_update().sweep_every();
            let again_at = Instant::now() + every;
            let found = self.look().await;
            let watches = found.as_ref().map_or(true, |look| look.has_to_look_again);
            if let Ok(look) = found {
                self.recover(look.lost).await;
            }
            // Sweep at once when a node is gone.
            tokio::select! {
                () = self.rest(watches, again_at) => {}
                () = changed(nodes.as_mut()) => {}
            }
        }
    }

    async fn rest(&mut self, watches: bool, again_at: Instant) {
        if !watches {
            self.changes.next().await;
        }
        tokio::select! {
            () = sleep_until(again_at) => {}
            // The sender is dropped when the supervisor ends, which also ends this loop.
            Ok(()) = self.settings.changed() => {}
        }
    }

    async fn look(&self) -> Result<SweepResult, StoreError> {
        let engine = &self.context.engine;
        let mut look = SweepResult {
            lost: Vec::new(),
            has_to_look_again: false,
        };
        for task in recovery::held(engine).await? {
            if look.lost.len() >= SWEPT_MAX {
                look.has_to_look_again = true;
                break;
            }
            if self.is_lost(&task, &mut look.has_to_look_again) {
                look.lost.push(OrphanedTask::Holder(task));
            }
        }
        let (left, others_until) = recovery::left_without_lease(engine).await?;
        look.lost.extend(left);
        look.has_to_look_again |= others_until.is_some();
        for task in recovery::interrupted(engine).await? {
            let Some(agent) = task.agent.clone() else {
                continue;
            };
            if self.is_gone(&agent).await? {
                look.lost.push(OrphanedTask::Agent(task, agent));
            }
        }
        Ok(look)
    }

    /// Whether an agent will not come back by itself: it is terminated, or it took tasks from the
    /// queue and is no longer supervised because it was removed from the configuration.
    async fn is_gone(&self, name: &AgentName) -> Result<bool, StoreError> {
        let Some(agent) = self.context.engine.store().agent(name).await? else {
            return Ok(false);
        };
        let is_terminated = matches!(agent.state, AgentState::Terminated { .. });
        let holders = self.context.engine.holders();
        let is_supervised = self.roster.has(name) || holders.is_held(&agent.lease);
        Ok(is_terminated || (agent.plan.takes == Takes::Start && !is_supervised))
    }

    /// Whether the holder is gone. Leases of live attempts of this supervisor are handled by their
    /// actor.
    fn is_lost(&self, task: &Task, has_to_look_again: &mut bool) -> bool {
        let (holders, Some(held)) = (self.context.engine.holders(), &task.lease.held) else {
            return false;
        };
        let tag = AttemptTag::of_holder(&held.holder);
        // The supervisor that acquires its agent passes the task to that agent's strategy.
        if let Some(agent) = tag.as_ref().and_then(AttemptTag::agent)
            && self.context.standby.has(agent)
        {
            *has_to_look_again = true;
            return false;
        }
        match tag.map_or(AttemptIs::Elsewhere, |tag| self.roster.attempt(&tag)) {
            AttemptIs::Current => {
                let ends_earlier = held.ttl.is_some() || held.holder.process().is_some();
                let is_over = ends_earlier && !holders.is_alive(held);
                *has_to_look_again |= ends_earlier && !is_over;
                is_over
            }
            AttemptIs::Over => !self.context.is_asked_about(&task.id),
            AttemptIs::Elsewhere => {
                let is_lost = !holders.is_alive(held);
                *has_to_look_again |= !is_lost;
                is_lost
            }
        }
    }

    async fn recover(&self, lost: Vec<OrphanedTask>) {
        for recovered in recovery::sweep(&self.context.recoverer, lost).await {
            match recovered {
                Ok(recovered) => self.tell(recovered),
                Err((task, error)) => {
                    if let Some(agent) = &task.agent {
                        let text = format!("task {}: {error}", task.id);
                        self.context.notices.tell(agent, What::Trouble(text));
                    }
                }
            }
        }
    }

    /// Recovered tasks without an agent are only in the journal.
    fn tell(&self, recovered: Recovered) {
        if let Some(agent) = recovered.agent.clone() {
            self.context.notices.tell_recovered(&agent, recovered);
        }
    }
}

/// Resolves when a node joins or leaves; never outside of a fleet.
async fn changed(nodes: Option<&mut watch::Receiver<Arc<[Node]>>>) {
    match nodes {
        Some(nodes) => {
            if nodes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
        None => std::future::pending().await,
    }
}
