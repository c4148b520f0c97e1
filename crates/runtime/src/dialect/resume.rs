//! `checkpoint resume`: the oldest unfinished workflow that nobody holds, or the named one.

use relight_core::claimant::Claimant;
use relight_core::decide::{Refusal, Right, StartLimits, Starter, TaskEvent};
use relight_core::ids::{AgentName, TaskId};
use relight_core::lease::{Fence, Holder};
use relight_core::status::TaskStatus;
use relight_core::task::Task;
use relight_core::time::{Span, Time};
use relight_store::TaskQuery;

use super::{Dialect, Saved, SetAside};
use crate::boxed::boxed;
use crate::engine::{ActError, Started, TaskSnapshot, WorkflowError};
use crate::os::clock;
use crate::running_step::check_start;

/// What to resume, and for whom.
#[derive(Debug, Clone)]
pub struct ResumeRequest {
    /// The workflow; the oldest unfinished one when none.
    pub workflow: Option<TaskId>,
    /// Only of this agent.
    pub agent: Option<AgentName>,
    /// Who asks, where no agent is named: a workflow of another agent is not resumed for it.
    pub caller: Option<AgentName>,
    /// The fence of a lease that is continued, where the caller has one.
    pub fence: Option<Fence>,
    /// Take it from a live holder.
    pub steal: bool,
    /// Whose life the lease follows.
    pub holder: Holder,
    /// How long each write renews it for.
    pub ttl: Option<Span>,
    /// What keeps a workflow from being resumed.
    pub limits: StartLimits,
}

/// A workflow under a lease.
#[derive(Debug)]
pub struct Resumed {
    /// The lease, and how far the workflow is.
    pub started: Started,
    /// Its file.
    pub saved: Saved,
}

impl Dialect {
    /// Takes the lease of a workflow and says how far it is. Tells of files that are damaged or not
    /// used in `reports`, whatever comes of it.
    #[boxed]
    pub async fn resume(
        &self,
        request: &ResumeRequest,
        reports: &mut Vec<SetAside>,
    ) -> Result<Resumed, ActError> {
        match self.mend_all().await {
            // What the store knows can be resumed without its folder.
            Err(ActError::Workflow(WorkflowError::Io { place, reason })) => {
                let reason = format!("cannot be read: {reason}");
                reports.push(SetAside {
                    file: place,
                    reason,
                    is_damaged: true,
                    now_at: None,
                });
            }
            other => reports.extend(other?),
        }
        let started = match &request.workflow {
            Some(id) => self.resume_named(id, request).await,
            None => self.resume_oldest(request).await,
        };
        let started = started.map_err(|error| match error {
            ActError::Refused(Refusal::Held {
                task,
                agent,
                held,
                now,
            }) => WorkflowError::Held {
                task,
                agent,
                held,
                now,
            }
            .into(),
            other => other,
        })?;
        let saved = self.save(&started.view.task.id).await?;
        let started = Started {
            view: saved.view.clone(),
            ..started
        };
        Ok(Resumed { started, saved })
    }

    async fn resume_named(
        &self,
        id: &TaskId,
        request: &ResumeRequest,
    ) -> Result<Started, ActError> {
        let task = self.engine.store().task(id).await?;
        let Some(task) = task else {
            return Err(self.unknown(id).into());
        };
        let fence = request.fence.filter(|fence| task.lease.admits(*fence));
        if fence.is_none()
            && let Some(why) = over(&task, clock::now())
        {
            return Err(WorkflowError::Over { task: task.id, why }.into());
        }
        // Its file may be in another folder than the one that was looked through.
        if let Some(seen) = self.reconcile(id).await? {
            self.save_over(id, Some(&seen)).await?;
        }
        let Some(fence) = fence else {
            return self.take(id, request).await;
        };
        let (holder, limits) = (request.holder.clone(), request.limits.clone());
        self.engine
            .take(id, Right::Fence(fence), holder, request.ttl, false, limits)
            .await
    }

    /// Whoever is faster gets it; the next one then. One that somebody holds is told before one that
    /// waits.
    async fn resume_oldest(&self, request: &ResumeRequest) -> Result<Started, ActError> {
        let now = clock::now();
        let statuses = TaskStatus::ALL
            .into_iter()
            .filter(|status| !status.is_terminal());
        let query = TaskQuery {
            statuses: statuses.collect(),
            agent: request.agent.clone(),
            checkpoint_folder: Some(self.folder_text()),
            ..TaskQuery::default()
        };
        let mut tasks = self.engine.store().tasks(query).await?;
        tasks.retain(|task| over(task, now).is_none());
        tasks.sort_by_key(|task| task.created_at);
        let (mut held, mut waiting) = (None, Vec::new());
        for task in tasks {
            if let Some(why) = waits_for(&task, &request.limits, now) {
                waiting.push((Box::new(task), why));
                continue;
            }
            if self.starter(&task, request).await? != task.agent {
                continue;
            }
            match self.take(&task.id, request).await {
                // Another one may be resumed all the same: one that the caller holds already, perhaps.
                Err(
                    error @ (ActError::Draining { .. }
                    | ActError::Refused(Refusal::Held { .. } | Refusal::StepRunning { .. })),
                ) => {
                    held.get_or_insert(error);
                }
                Err(ActError::Workflow(WorkflowError::Waits { task, why, .. })) => {
                    waiting.push((task, why));
                }
                other => return other,
            }
        }
        let others = waiting.len().saturating_sub(1);
        let first = waiting.into_iter().next();
        let waits = first.map(|(task, why)| WorkflowError::Waits { task, why, others }.into());
        let nothing = || {
            WorkflowError::Nothing {
                folder: self.folder_text(),
            }
            .into()
        };
        Err(held.or(waits).unwrap_or_else(nothing))
    }

    async fn take(&self, id: &TaskId, request: &ResumeRequest) -> Result<Started, ActError> {
        let (engine, right) = (&self.engine, Right::Unfenced);
        if !request.steal {
            check_start(engine, id, None).await?;
        }
        if !engine.continues(id, right, &request.holder).await? {
            engine
                .refuse_while_draining(&engine.task(id).await?)
                .await?;
        }
        let starter = self.starter(&engine.task(id).await?, request).await?;
        let plan = |view: &TaskSnapshot| {
            let mut events = Vec::new();
            let is_for_person = match view.task.status {
                TaskStatus::InReview => true,
                TaskStatus::Failed => !view.task.has_retry_left(),
                _ => false,
            };
            if is_for_person && request.limits != StartLimits::Forced {
                return Err(Refusal::waits_for_person(&view.task).into());
            }
            if view.task.status == TaskStatus::Failed {
                // As one that was given out by hand it would be started without a look at its budget.
                if let Some(refusal) = request.limits.refusal(&view.task, clock::now()) {
                    return Err(ActError::from(refusal));
                }
                let force = request.limits == StartLimits::Forced;
                events.push(TaskEvent::Retry { agent: None, force });
            }
            events.push(TaskEvent::Start {
                holder: request.holder.clone(),
                ttl: request.ttl,
                steal: request.steal,
                starter: starter.clone().map(Claimant::new).map(Starter::Itself),
                limits: request.limits.clone(),
            });
            events.extend(self.first_door(&view.task));
            Ok(events)
        };
        let acted = match self.engine.act_in_turn(id, Right::Dialect, plan).await {
            Err(ActError::Refused(
                why @ (Refusal::WaitsForPerson { .. } | Refusal::UsedUp { .. }),
            )) => {
                let task = Box::new(self.engine.task(id).await?);
                return Err(WorkflowError::Waits {
                    task,
                    why,
                    others: 0,
                }
                .into());
            }
            acted => acted?,
        };
        let view = self.view(id).await?;
        Ok(Started {
            fence: acted.fence,
            resumed: true,
            handed_over: None,
            view,
        })
    }

    /// For whom a workflow is resumed: the agent that was named, else its own. Names of the dialect need not
    /// be agents of the store; where its own is one, another agent of the store asks for itself.
    async fn starter(
        &self,
        task: &Task,
        request: &ResumeRequest,
    ) -> Result<Option<AgentName>, ActError> {
        let own = task.agent.as_ref();
        Ok(match (&request.agent, own, &request.caller) {
            (Some(named), ..) => Some(named.clone()),
            (None, Some(own), Some(caller))
                if own != caller && self.engine.store().agent(own).await?.is_some() =>
            {
                Some(caller.clone())
            }
            (None, own, _) => own.cloned(),
        })
    }

    /// Neither the store nor a good file knows it; a damaged one may be its last trace.
    fn unknown(&self, id: &TaskId) -> WorkflowError {
        let read = self.folder.read(id.as_str());
        read.err()
            .map_or_else(|| WorkflowError::NotFound(id.clone()), WorkflowError::from)
    }
}

/// What keeps an unfinished workflow from being resumed where nobody named it. The pause between two
/// recoveries does not: it is for the queue, and here the agent itself asks.
fn waits_for(task: &Task, limits: &StartLimits, now: Time) -> Option<Refusal> {
    match task.status {
        TaskStatus::InReview | TaskStatus::Failed => Some(Refusal::waits_for_person(task)),
        TaskStatus::Deferred if task.not_before.is_some_and(|at| at > now) => {
            task.not_before.map(|at| Refusal::NotBefore {
                task: task.id.clone(),
                at,
            })
        }
        _ => limits.refusal(task, now),
    }
}

fn over(task: &Task, now: Time) -> Option<&'static str> {
    match task.status {
        TaskStatus::Completed => Some("done"),
        TaskStatus::Cancelled => Some("cancelled"),
        _ => task.is_expired(now).then_some("expired"),
    }
}
