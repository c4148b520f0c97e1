//! Assigns tasks of the queue to idle agents and resumes agents that wait.
//!
//! Woken by changes of the store, by agents coming to rest and by due times. Changes of the store
//! are only followed while an agent is idle. The rules are in `core::claimant` and `core::decide`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use relight_core::change::Change;
use relight_core::claimant::Claimant;
use relight_core::decide::{Right, TaskEvent};
use relight_core::ids::{AgentName, TaskId};
use relight_core::resume_rate::RateLimiter;
use relight_core::status::TaskStatus;
use relight_core::task::Task;
use relight_core::time::Span;
use relight_store::StoreError;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::context::SupervisorContext;
use super::notices::What;
use super::roster::Roster;
use super::store_changes::StoreChanges;
use super::supervisor::QueueSettings;
use crate::drain;
use crate::engine::{ActError, Acted};
use crate::os::clock;

/// Candidate tasks examined per agent.
const CANDIDATES_MAX: usize = 64;
/// Pause after the store could not be read.
const TROUBLE_PAUSE: Duration = Duration::from_secs(5);

pub(super) struct Router {
    context: Arc<SupervisorContext>,
    roster: Roster,
    changes: StoreChanges,
    pace: RateLimiter,
    /// Contains the limit of recovered tasks that run at the same time.
    settings: watch::Receiver<QueueSettings>,
    /// Recovered tasks that were assigned, by agent.
    recovered: BTreeMap<AgentName, TaskId>,
}

/// Time of the next check.
#[derive(Debug, Default)]
struct NextCheck(Option<Instant>);

impl NextCheck {
    fn within(&mut self, wait: Span) {
        let at = Instant::now() + wait.as_duration();
        self.0 = Some(self.0.map_or(at, |known| known.min(at)));
    }
}

/// Which agents may get a failed task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Round {
    /// Agents other than the one it failed with.
    ToOthers,
    /// Any agent.
    ToAnybody,
}

impl Router {
    pub(super) fn new(
        context: Arc<SupervisorContext>,
        roster: Roster,
        changes: StoreChanges,
        mut settings: watch::Receiver<QueueSettings>,
    ) -> Self {
        let rate = settings.borrow_and_update().resume_rate;
        Self {
            context,
            roster,
            changes,
            pace: RateLimiter::new(rate, clock::monotonic_ms()),
            settings,
            recovered: BTreeMap::new(),
        }
    }

    /// Routes for as long as it is polled.
    pub(super) async fn serve(mut self) {
        let bell = Arc::clone(&self.context.bell);
        loop {
            let mut next = NextCheck::default();
            if self.look(&mut next).await.is_err() {
                next = NextCheck(Some(Instant::now() + TROUBLE_PAUSE));
            }
            let overspent = self.context.budget.overspent();
            let somebody_waits = !self.roster.idle(overspent.as_ref()).is_empty();
            tokio::select! {
                () = bell.notified() => {}
                () = self.changes.next(), if somebody_waits => {}
                () = at(next.0) => {}
                // The sender is dropped when the supervisor ends, which also ends this loop.
                Ok(()) = self.settings.changed() => {
                    let rate = self.settings.borrow_and_update().resume_rate;
                    self.pace = RateLimiter::new(rate, clock::monotonic_ms());
                }
            }
        }
    }

    /// Assigns what is available.
    async fn look(&mut self, next: &mut NextCheck) -> Result<(), StoreError> {
        let store = Arc::clone(self.context.engine.store());
        let overspent = self.context.budget.overspent();
        let idle = self.roster.idle(overspent.as_ref());
        let waiting = self.roster.waiting(overspent.as_ref());
        if idle.is_empty() && waiting.is_empty() {
            return Ok(());
        }
        // Read the drain flag itself, not the cached value.
        if drain::now(store.as_ref()).await?.is_some() {
            return Ok(());
        }
        self.recovered
            .retain(|agent, task| self.roster.works_on(agent, task));
        for (agent, task) in waiting {
            if !self.may_resume(task.is_some(), next) {
                break;
            }
            self.roster.wake(&agent);
            self.recovered.extend(task.map(|task| (agent, task)));
        }
        let mut left = idle;
        for round in [Round::ToOthers, Round::ToAnybody] {
            let mut still = Vec::new();
            for claimant in left {
                if !self.find_work(&claimant, round, next).await? {
                    still.push(claimant);
                }
            }
            left = still;
        }
        if !left.is_empty()
            && let now = clock::now()
            && let Some(due) = store.next_due(now).await?
        {
            next.within(due.since(now).max(Span::from_ms(1)));
        }
        Ok(())
    }

    /// Returns whether a task was assigned.
    async fn find_work(
        &mut self,
        claimant: &Claimant,
        round: Round,
        next: &mut NextCheck,
    ) -> Result<bool, StoreError> {
        let store = Arc::clone(self.context.engine.store());
        for id in store
            .claimable(claimant, clock::now(), CANDIDATES_MAX)
            .await?
        {
            let Some(task) = store.task(&id).await? else {
                continue;
            };
            let failed_with_it =
                task.status == TaskStatus::Failed && task.agent.as_ref() == Some(&claimant.agent);
            if round == Round::ToOthers && failed_with_it {
                continue;
            }
            let is_recovered = task.was_started();
            if is_recovered && !self.may_resume_soon(next) {
                continue;
            }
            if self.give(claimant, &id).await? {
                if is_recovered {
                    // Cannot fail: it was checked just before, and only this task uses the limiter.
                    let _ = self.pace.take(clock::monotonic_ms());
                    self.recovered.insert(claimant.agent.clone(), id);
                }
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// False when the task was parked or taken by someone else.
    async fn give(&self, claimant: &Claimant, id: &TaskId) -> Result<bool, StoreError> {
        let policy = self.context.recoverer.policy();
        let assign = TaskEvent::Assign {
            claimant: claimant.clone(),
            policy,
        };
        let acted = match self.context.engine.act(id, Right::Unfenced, assign).await {
            Ok(acted) => acted,
            Err(ActError::Store(error)) => return Err(error),
            Err(ActError::Refused(_) | ActError::NoSuchTask(_)) => return Ok(false),
            Err(error) => {
                let text = format!("task {id} cannot be given to it: {error}");
                self.context
                    .notices
                    .tell(&claimant.agent, What::Trouble(text));
                return Ok(false);
            }
        };
        if !is_given(acted) {
            return Ok(false);
        }
        if !self.roster.give(&claimant.agent, id.clone()) {
            self.context.give_back(id, &claimant.agent).await;
            return Ok(false);
        }
        Ok(true)
    }

    /// Consumes one unit of the resume rate.
    fn may_resume(&mut self, is_task: bool, next: &mut NextCheck) -> bool {
        if is_task && self.is_full() {
            return false;
        }
        match self.pace.take(clock::monotonic_ms()) {
            Ok(()) => true,
            Err(wait) => {
                next.within(wait);
                false
            }
        }
    }

    /// Whether the resume rate allows one more task.
    fn may_resume_soon(&self, next: &mut NextCheck) -> bool {
        if self.is_full() {
            return false;
        }
        let taken = self.pace.clone().take(clock::monotonic_ms());
        taken.map_err(|wait| next.within(wait)).is_ok()
    }

    fn is_full(&self) -> bool {
        let at_once_max = self.settings.borrow().resume_at_once as usize;
        at_once_max > 0 && self.recovered.len() >= at_once_max
    }
}

/// Whether the task is now assigned; otherwise it was parked.
fn is_given(acted: Acted) -> bool {
    let mut task: Task = acted.before;
    let now = clock::now();
    acted
        .decision
        .changes
        .iter()
        .for_each(|change: &Change| change.apply(&mut task, now));
    task.status == TaskStatus::Assigned
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
