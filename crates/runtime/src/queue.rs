//! Claiming tasks of the queue. All front ends use this.
//!
//! Tasks of dead holders are recovered on the way, so that a queue without a daemon does not get
//! stuck.

mod dispatcher;

use std::sync::Arc;

use relight_core::decide::who_holds;
use relight_core::error_code::ErrorCode;
use relight_core::ids::AgentName;
use relight_core::lease::{HeldLease, Holder};
use relight_core::time::Span;
use relight_store::StoreError;
use tokio::time::Instant;

use self::dispatcher::{ClaimDispatcher, Offer};
use crate::boxed::boxed;
use crate::declared_wait::DeclaredWait;
use crate::engine::{ActError, Started};
use crate::holders::HolderWatch;
use crate::os::clock;
use crate::recovery::{Recoverer, SWEEP, SWEEP_MIN, TaskSweep};
use crate::redact_input;

/// Maximum number of lost races before a claim returns nothing.
const ROUNDS_MAX: usize = 1_000;
/// Maximum number of locked tasks that are skipped; the next one is waited for, to learn whether it
/// is free.
const PASSED_OVER_MAX: usize = 8;

/// The queue of a store. Clones share their state.
#[derive(Debug, Clone)]
pub struct Queue {
    recoverer: Recoverer,
    dispatcher: Arc<ClaimDispatcher>,
    sweep: Span,
}

/// Result of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claimed {
    /// A task, under a lease.
    Task(Box<Started>),
    /// There is none.
    Nothing,
    /// A drain is in effect.
    Draining,
    /// The agent holds its maximum number of tasks.
    Full {
        /// How many.
        held: u32,
    },
}

impl Claimed {
    /// The task that was taken, if there is one; why the agent gets none now is an error.
    pub fn started(self, agent: &AgentName) -> Result<Option<Box<Started>>, ActError> {
        match self {
            Self::Task(started) => Ok(Some(started)),
            Self::Nothing => Ok(None),
            Self::Draining => Err(ActError::NothingBegun),
            Self::Full { held } => Err(ActError::Full {
                agent: agent.clone(),
                held,
            }),
        }
    }
}

impl Queue {
    /// The queue with these strategies and limits.
    pub fn new(recoverer: Recoverer) -> Self {
        Self {
            recoverer,
            dispatcher: Arc::default(),
            sweep: SWEEP,
        }
    }

    /// How often waiting claims search for dead holders that no event reports.
    #[must_use]
    pub fn with_sweep(mut self, sweep: Span) -> Self {
        self.sweep = sweep.max(SWEEP_MIN);
        self
    }

    /// The strategies and limits.
    pub fn recoverer(&self) -> &Recoverer {
        &self.recoverer
    }

    /// Recovers tasks of dead holders. Claims do not do it meanwhile.
    #[boxed]
    pub async fn recover(&self) -> Result<TaskSweep, StoreError> {
        self.dispatcher.sweep_all(&self.recoverer).await
    }

    /// Takes the best task there is for an agent: by priority, then by age, of those that the store
    /// had when this was called. Skills come on top of what the store knows of the agent; so does
    /// its concurrency, which several processes of one name may overstep by what they claim at the
    /// same moment. Must be called inside a Tokio runtime.
    #[boxed]
    pub async fn claim(
        &self,
        agent: &AgentName,
        skills: &[String],
        holder: &Holder,
        ttl: Option<Span>,
    ) -> Result<Claimed, ActError> {
        let engine = self.recoverer.engine();
        redact_input::check_name(engine.redactor(), "agent name", agent.as_str())?;
        engine.check_skills(skills)?;
        for round in 0..ROUNDS_MAX {
            let (mut reserved, claimant) =
                match self.dispatcher.ask(&self.recoverer, agent, skills).await? {
                    Offer::Task(reserved, claimant) => (reserved, claimant),
                    Offer::Nothing => return Ok(Claimed::Nothing),
                    Offer::Draining => return Ok(Claimed::Draining),
                    Offer::Full { held } => return Ok(Claimed::Full { held }),
                    Offer::MayNotWork(why) => {
                        return Err(ActError::MayNotWork {
                            agent: agent.clone(),
                            why,
                        });
                    }
                };
            let policy = self.recoverer.policy();
            let (known, id) = (reserved.take_task(), reserved.id());
            let claimed = match known {
                Some(task) if round < PASSED_OVER_MAX => {
                    engine
                        .claim_if_free(task, &claimant, holder, ttl, &policy)
                        .await?
                }
                known => {
                    engine
                        .claim_one(known, id, &claimant, holder, ttl, &policy)
                        .await?
                }
            };
            self.dispatcher.note(claimed.is_some());
            if let Some(started) = claimed {
                return Ok(Claimed::Task(Box::new(started)));
            }
        }
        Ok(Claimed::Nothing)
    }

    /// Like `claim`, and waits up to `wait` for a task. Ends when the holder does: nobody would work on
    /// what is claimed for it.
    pub async fn claim_within(
        &self,
        wait: Span,
        agent: &AgentName,
        skills: &[String],
        holder: &Holder,
        ttl: Option<Span>,
    ) -> Result<Claimed, ActError> {
        let store = self.recoverer.engine().store();
        let deadline = Instant::now() + wait.as_duration();
        let mut declared = None;
        loop {
            let newest = store.newest_event().await?;
            let holder_watch = self.watch_claimant(holder).await?;
            let claimed = self.claim(agent, skills, holder, ttl).await?;
            let left = deadline.saturating_duration_since(Instant::now());
            if matches!(claimed, Claimed::Task(_)) || left.is_zero() {
                return Ok(claimed);
            }
            if declared.is_none() {
                let engine = self.recoverer.engine();
                declared = Some(DeclaredWait::begin(Some(wait), engine, Some(agent)).await);
            }
            tokio::select! {
                changed = self.changed(newest) => changed?,
                () = holder_watch.ended() => {}
                () = tokio::time::sleep(left) => {}
            }
        }
    }

    /// What reports the end of whoever claims; an error when that has happened.
    async fn watch_claimant(&self, holder: &Holder) -> Result<HolderWatch, ActError> {
        let holders = self.recoverer.engine().holders();
        let held = HeldLease {
            holder: holder.clone(),
            ttl: None,
            since: clock::now(),
            left: None,
        };
        holders.look_for([&held]).await?;
        if !holders.is_alive(&held) {
            let message = format!(
                "{} has ended; nothing is claimed for it",
                who_holds(&held, None)
            );
            return Err(ActError::Invalid {
                code: ErrorCode::CONFLICT,
                message,
                hint: None,
            });
        }
        let mut watch = HolderWatch::default();
        holders.watch(&held, &mut watch);
        Ok(watch)
    }

    /// Waits until there may be work for a claim that found none: the store has changed after this event, or
    /// a task is due. Meanwhile dead holders are found: a dead process at once, leases by time and nodes
    /// by a timer, and what no event reports by a sweep now and then. What is found is a change of the store.
    pub(crate) async fn changed(&self, after: u64) -> Result<(), StoreError> {
        let store = self.recoverer.engine().store();
        let now = clock::now();
        let due = store.next_due(now).await?;
        let is_due = async {
            match due {
                Some(at) => tokio::time::sleep(at.since(now).as_duration()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = store.changed(after) => changed,
            () = is_due => Ok(()),
            () = self.dispatcher.keep_swept(&self.recoverer, self.sweep) => Ok(()),
        }
    }
}
