//! Takes leases: of tasks that are started by their name, and of tasks from the queue.

use relight_core::agent::AttemptTag;
use relight_core::claimant::Claimant;
use relight_core::decide::{Right, StartLimits, Starter, TaskEvent, decide};
use relight_core::ids::{AgentName, TaskId};
use relight_core::lease::Holder;
use relight_core::progress::progress;
use relight_core::recovery::TaskPolicy;
use relight_core::task::{NewTask, Task};
use relight_core::time::Span;
use relight_store::{Commit, CommitError};

use super::{
    ActError, Acted, Added, Engine, NewStart, ROUNDS_MAX, Started, TaskSnapshot, act_error,
};
use crate::boxed::boxed;
use crate::handover;
use crate::os::{attempts, clock};
use crate::redact_input;

/// How many tasks of the queue are tried before `claim` reads it again.
const CLAIM_BATCH: usize = 16;

impl Engine {
    /// Takes the lease of a task, adding it first when it is absent.
    #[boxed]
    pub async fn start(
        &self,
        new: NewTask,
        right: Right,
        holder: Holder,
        ttl: Option<Span>,
        limits: StartLimits,
    ) -> Result<Started, ActError> {
        let starter = self.starter(new.agent.clone(), &holder).await?;
        let start = TaskEvent::Start {
            holder,
            ttl,
            steal: false,
            starter,
            limits,
        };
        match self.start_new(new, start.clone()).await? {
            NewStart::Started(started) => Ok(*started),
            NewStart::There(task) => self.take_for(&task.id, right, start).await,
        }
    }

    /// Adds a task and takes its lease in the same commit, so that nobody can claim it in between. One that is
    /// already there is not touched.
    pub(crate) async fn start_new(
        &self,
        new: NewTask,
        start: TaskEvent,
    ) -> Result<NewStart, ActError> {
        match self.add_and(new, true, vec![start]).await? {
            (Added::Created(task), fence) => Ok(NewStart::Started(Box::new(Started {
                view: self.view(&task.id).await?,
                fence,
                resumed: false,
                handed_over: None,
            }))),
            (Added::Same(task) | Added::Ended(task) | Added::KeyTaken(task), _) => {
                Ok(NewStart::There(Box::new(task)))
            }
        }
    }

    /// Takes the lease of a task that is there, by its name: where an attempt of an agent does, the task
    /// must be its own or nobody's, and belongs to that agent from then on.
    #[boxed]
    pub async fn take(
        &self,
        id: &TaskId,
        right: Right,
        holder: Holder,
        ttl: Option<Span>,
        steal: bool,
        limits: StartLimits,
    ) -> Result<Started, ActError> {
        let starter = self.starter(None, &holder).await?;
        self.take_for(
            id,
            right,
            TaskEvent::Start {
                holder,
                ttl,
                steal,
                starter,
                limits,
            },
        )
        .await
    }

    /// Takes the lease of a task that the agent whose attempt this is was given: by the queue, or by a
    /// person who planned it for that agent.
    pub async fn take_given(
        &self,
        id: &TaskId,
        holder: Holder,
        steal: bool,
        planned: Option<AgentName>,
    ) -> Result<Started, ActError> {
        let (starter, limits) = (planned.map(Starter::Planned), StartLimits::OwnBudget);
        let start = TaskEvent::Start {
            holder,
            ttl: None,
            steal,
            starter,
            limits,
        };
        self.take_for(id, Right::Unfenced, start).await
    }

    /// Takes the lease of a task that is there.
    pub(crate) async fn take_for(
        &self,
        id: &TaskId,
        right: Right,
        start: TaskEvent,
    ) -> Result<Started, ActError> {
        let acted = self.act(id, right, start).await?;
        let (fence, resumed) = (acted.fence, acted.before.was_started());
        let is_new_lease = acted.takes_lease();
        let is_by_time = acted
            .before
            .lease
            .held
            .as_ref()
            .is_some_and(|held| held.ttl.is_some());
        if acted.decision.changes.is_empty() && is_by_time {
            self.store.renew(id, fence).await.map_err(act_error)?;
        }
        let reason = acted.before.reason.clone();
        let view = self.view(id).await?;
        let handed_over = match resumed && is_new_lease {
            true => handover::of(self.store.as_ref(), &view.task, &view.steps, reason).await?,
            false => None,
        };
        Ok(Started {
            view,
            fence,
            resumed,
            handed_over,
        })
    }

    /// Takes the next task of the queue for an agent; none when there is none. Tasks that have used
    /// up what they may are parked on the way.
    #[boxed]
    pub async fn claim(
        &self,
        claimant: &Claimant,
        holder: &Holder,
        ttl: Option<Span>,
        policy: &TaskPolicy,
    ) -> Result<Option<Started>, ActError> {
        redact_input::check_name(&self.redactor, "agent name", claimant.agent.as_str())?;
        self.check_skills(&claimant.skills)?;
        for _ in 0..ROUNDS_MAX {
            let candidates = self
                .store
                .claimable(claimant, clock::now(), CLAIM_BATCH)
                .await?;
            if candidates.is_empty() {
                return Ok(None);
            }
            for id in candidates {
                let started = self
                    .claim_one(None, &id, claimant, holder, ttl, policy)
                    .await?;
                if started.is_some() {
                    return Ok(started);
                }
            }
        }
        Ok(None)
    }

    /// Takes this task of the queue, as the caller knows it; none when somebody else was faster, or
    /// when it was parked because it has used up what it may.
    pub async fn claim_one(
        &self,
        known: Option<Task>,
        id: &TaskId,
        claimant: &Claimant,
        holder: &Holder,
        ttl: Option<Span>,
        policy: &TaskPolicy,
    ) -> Result<Option<Started>, ActError> {
        let (claimant, policy) = (claimant.clone(), policy.clone());
        let event = TaskEvent::Claim {
            claimant,
            holder: holder.clone(),
            ttl,
            policy,
        };
        match self.act_upon(known, id, Right::Unfenced, event).await {
            Ok(acted) if acted.takes_lease() => Ok(Some(self.started(acted).await?)),
            Ok(_) | Err(ActError::Refused(_) | ActError::NoSuchTask(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// As `claim_one`, without waiting: none also when somebody is at the task just now.
    pub async fn claim_if_free(
        &self,
        known: Task,
        claimant: &Claimant,
        holder: &Holder,
        ttl: Option<Span>,
        policy: &TaskPolicy,
    ) -> Result<Option<Started>, ActError> {
        let (claimant, policy) = (claimant.clone(), policy.clone());
        let mut event = TaskEvent::Claim {
            claimant,
            holder: holder.clone(),
            ttl,
            policy,
        };
        self.check_event(&event)?;
        redact_input::clean_event(&self.redactor, &mut event);
        let scene = self.scene(&known, None, Right::Unfenced).await?;
        let Ok(decision) = decide(&scene, event) else {
            return Ok(None);
        };
        let (task, guard, at) = (known.id.clone(), decision.guard, scene.now);
        let commit = Commit {
            task,
            guard,
            at,
            changes: decision.changes.clone(),
        };
        let fence = match self.store.try_commit(commit).await {
            Ok(committed) => committed.fence,
            Err(CommitError::Moved(_) | CommitError::Absent(_)) => return Ok(None),
            Err(error) => return Err(act_error(error)),
        };
        let acted = Acted {
            before: known,
            decision,
            fence,
            at,
        };
        Ok(if acted.takes_lease() {
            Some(self.started(acted).await?)
        } else {
            None
        })
    }

    /// A lease that was just taken, with what the commit itself tells.
    async fn started(&self, acted: Acted) -> Result<Started, ActError> {
        let resumed = acted.before.was_started();
        // Nobody but who added it has written to it: there are no steps to read.
        let is_new = acted.before.seq <= 1;
        let (fence, reason) = (acted.fence, acted.before.reason.clone());
        let task = acted.after();
        let steps = if is_new {
            Vec::new()
        } else {
            self.store.steps(&task.id).await?
        };
        let progress = progress(&task.spec.steps, &steps);
        let view = TaskSnapshot {
            task,
            steps,
            progress,
        };
        let handed_over = match resumed {
            true => handover::of(self.store.as_ref(), &view.task, &view.steps, reason).await?,
            false => None,
        };
        Ok(Started {
            view,
            fence,
            resumed,
            handed_over,
        })
    }

    /// The agent that takes a task by its name: the one that was named, else the one whose attempt the
    /// holder is, else the one that this process works for: in an attempt only where this store knows it.
    pub(crate) async fn starter(
        &self,
        named: Option<AgentName>,
        holder: &Holder,
    ) -> Result<Option<Starter>, ActError> {
        let agent = match (named, holder) {
            (Some(named), _) => Some(named),
            (None, Holder::Attempt { attempt, .. }) => {
                agent_of(&AttemptTag::from_text(attempt.as_str()))
            }
            (None, Holder::Process(_) | Holder::Time { .. }) => match attempts::own() {
                Some(own) if self.store.attempt(own).await?.is_some() => agent_of(own),
                Some(_) => None,
                None => self.caller.clone(),
            },
        };
        let Some(agent) = agent else { return Ok(None) };
        let known = self.store.agent(&agent).await?;
        let claimant = match known {
            Some(known) => match known.refuses_work(clock::now()) {
                Some(why) => return Err(ActError::MayNotWork { agent, why }),
                None => known.plan.claimant(&agent),
            },
            None => Claimant::new(agent),
        };
        Ok(Some(Starter::Itself(claimant)))
    }
}

fn agent_of(tag: &AttemptTag) -> Option<AgentName> {
    tag.agent().and_then(|agent| AgentName::new(agent).ok())
}
