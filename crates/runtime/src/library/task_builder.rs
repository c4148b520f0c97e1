//! A task to be added, started or continued.

use std::collections::BTreeMap;

use relight_core::decide::{Right, StartLimits, TaskEvent};
use relight_core::ids::{AgentName, IdError, IdempotencyKey, StepName};
use relight_core::lease::{Holder, LEASE_MAX};
use relight_core::task::{NewTask, Task, TaskSpec};
use relight_core::time::Span;

use super::process_claims::{OwnHolder, ProcessClaims, StoreIdentity};
use super::task::RunningTask;
use crate::boxed::boxed;
use crate::engine::{ActError, NewStart};
use crate::os::clock;
use crate::recovery::{Recoverer, UnknownStrategy};

/// A task to be added, started or continued.
#[derive(Debug)]
pub struct TaskBuilder {
    recoverer: Recoverer,
    place: StoreIdentity,
    own: OwnHolder,
    new: NewTask,
    ttl: Option<Span>,
    lifetime: Option<Span>,
    force: bool,
}

impl TaskBuilder {
    pub(super) fn new(
        recoverer: Recoverer,
        place: StoreIdentity,
        own: OwnHolder,
        new: NewTask,
    ) -> Self {
        Self {
            recoverer,
            place,
            own,
            new,
            ttl: None,
            lifetime: None,
            force: false,
        }
    }

    /// One line for people.
    pub fn title(mut self, title: &str) -> Self {
        self.spec().title = Some(title.to_owned());
        self
    }

    /// Declares a step ahead, so that others can see what is still to do.
    pub fn declare(mut self, step: &str) -> Result<Self, IdError> {
        self.spec().steps.push(StepName::new(step)?);
        Ok(self)
    }

    /// What makes two requests the same request.
    pub fn key(mut self, key: &str) -> Result<Self, IdError> {
        self.spec().key = Some(IdempotencyKey::new(key)?);
        Ok(self)
    }

    /// Whose task it is.
    pub fn agent(mut self, agent: &str) -> Result<Self, IdError> {
        self.new.agent = Some(AgentName::new(agent)?);
        Ok(self)
    }

    /// What the task is about.
    pub fn payload(mut self, payload: serde_json::Value) -> Self {
        self.spec().payload = Some(payload);
        self
    }

    /// First context for a successor.
    pub fn context(mut self, pairs: BTreeMap<String, String>) -> Self {
        self.new.context = pairs;
        self
    }

    /// What becomes of it when its holder dies or it fails. A name that this program has not
    /// registered is refused here, not at the first death.
    pub fn strategy(mut self, name: &str) -> Result<Self, UnknownStrategy> {
        self.recoverer.strategies().check(name)?;
        self.spec().strategy = Some(name.to_owned());
        Ok(self)
    }

    /// How often it may be given to somebody again after a failure; 0 is never, the default 1.
    pub fn max_retries(mut self, max_retries: u32) -> Self {
        self.spec().max_retries = Some(max_retries);
        self
    }

    /// Larger is taken first.
    pub fn priority(mut self, priority: i32) -> Self {
        self.spec().priority = priority;
        self
    }

    /// What an agent must be able to do to take it.
    pub fn needs(mut self, skill: &str) -> Self {
        self.spec().needs.push(skill.to_owned());
        self
    }

    /// After this long it is not worth resuming.
    pub fn expires_in(mut self, span: Span) -> Self {
        self.lifetime = span.as_limit();
        self.spec().ttl_ms = self.lifetime.map(Span::as_ms);
        self
    }

    /// Holds the task by a lease of this length that is renewed in the background, instead of for
    /// as long as this process lives. On a store that other machines share it is one of 30 s unless
    /// this says otherwise, or `RELIGHT_NODE` names a node that lives.
    pub fn lease(mut self, ttl: Span) -> Self {
        self.ttl = Some(ttl.min(LEASE_MAX));
        self
    }

    /// Starts the task also when it waits for a person, or has used up what the policy allows.
    pub fn force(mut self) -> Self {
        self.force = true;
        self
    }

    /// Adds the task to the queue. The same request again changes nothing; one whose key another
    /// task has answers that task.
    #[boxed]
    pub async fn add(mut self) -> Result<Task, ActError> {
        self.new.expires_at = self.lifetime.map(|span| clock::now().plus(span));
        Ok(self.recoverer.engine().add(self.new).await?.task().clone())
    }

    /// Starts the task, or continues it where it was. While the store is draining a task that this process
    /// does not hold is added, deferred and not started (`ActError::Draining`). Must be called inside a
    /// Tokio runtime.
    #[boxed]
    pub async fn start(mut self) -> Result<RunningTask, ActError> {
        self.new.expires_at = self.lifetime.map(|span| clock::now().plus(span));
        let engine = self.recoverer.engine();
        let (holder, ttl) = self.own.lease(self.ttl, engine.holders()).await?;
        engine
            .defer_new_while_draining(&self.new, Right::Unfenced, &holder)
            .await?;
        let starter = engine.starter(self.new.agent.clone(), &holder).await?;
        let limits = match self.force {
            true => StartLimits::Forced,
            false => StartLimits::Policy(self.recoverer.policy()),
        };
        let mut claim = ProcessClaims::take(&self.place, &self.new.id)?;
        // An attempt continues its own lease: its other processes know the fence.
        let is_attempt = matches!(holder, Holder::Attempt { .. });
        let start = |steal| TaskEvent::Start {
            holder: holder.clone(),
            ttl,
            steal,
            starter: starter.clone(),
            limits: limits.clone(),
        };
        let id = self.new.id.clone();
        let started = match engine.start_new(self.new, start(false)).await? {
            NewStart::Started(started) => *started,
            NewStart::There(task) => {
                // The key may belong to another task: that one is started.
                if task.id != id {
                    claim = ProcessClaims::take(&self.place, &task.id)?;
                }
                // No handle has it, so what this process still holds belongs to a handle that is gone. A lease
                // of its own keeps what that one left behind from ending it.
                let left_over = !is_attempt
                    && task
                        .lease
                        .held
                        .as_ref()
                        .is_some_and(|held| held.holder == holder);
                let start = start(left_over);
                engine.take_for(&task.id, Right::Unfenced, start).await?
            }
        };
        Ok(RunningTask::new(self.recoverer, started, ttl, claim))
    }

    fn spec(&mut self) -> &mut TaskSpec {
        &mut self.new.spec
    }
}
