//! Agents that are started for tasks of the queue.

use relight_core::agent::change::AgentChange;
use relight_core::agent::decide::AgentEvent;
use relight_core::agent::{AgentState, Cause, Pause, Takes};
use relight_core::decide::{Right, TaskEvent};
use relight_core::ids::TaskId;
use relight_core::recovery::HolderDeath;
use relight_core::status::TaskStatus;
use relight_core::task::Task;
use relight_store::AttemptQuery;

use super::{Actor, SupervisionLost};
use crate::os::clock;
use crate::recovery;
use crate::supervise::notices::What;

/// Newest attempts searched for the task that the agent took by name.
const ATTEMPTS_LOOKED_AT: usize = 8;

impl Actor {
    /// Whether it is started for tasks of the queue.
    pub(super) fn is_started_with_tasks(&self) -> bool {
        self.spec.plan.takes == Takes::Start
    }

    /// Resumes: it is its turn, or a drain ended.
    pub(super) fn woken(&mut self) {
        self.has_its_turn();
        self.at_rest = false;
        self.events.push_back(AgentEvent::Wake);
    }

    pub(super) fn has_its_turn(&mut self) {
        if self.holds == Some(Pause::Turn) {
            self.holds = None;
        }
    }

    /// Begins a task of the queue. An agent that is busy or stopped by now gives it back.
    pub(super) async fn given(&mut self, task: TaskId) -> Result<(), SupervisionLost> {
        let may_work = self.spec.can_start() && !self.is_stopped_by_budget();
        if !self.agent.is_idle() || !may_work {
            self.context.give_back(&task, &self.spec.name).await;
            return Ok(());
        }
        let was_begun = self
            .context
            .engine
            .task(&task)
            .await
            .is_ok_and(|task| task.was_started());
        let found = self
            .last
            .as_ref()
            .and_then(|last| last.post_mortem.as_ref());
        let is_the_same = found.and_then(|found| found.task.as_deref()) == Some(task.as_str());
        self.takes_over = was_begun && !is_the_same;
        if !is_the_same {
            // Work and session of the last task do not apply.
            self.last = None;
            if self.agent.session.is_some() {
                self.commit(vec![AgentChange::Session(None)]).await?;
            }
        }
        self.has_its_turn();
        self.at_rest = false;
        self.events.push_back(AgentEvent::Work(task));
        Ok(())
    }

    /// On a person's start: retries its own task that failed, or that was parked because the agent
    /// was terminated, regardless of limits.
    pub(super) async fn retry_failed_task(&self) {
        let is_terminated = matches!(self.agent.state, AgentState::Terminated { .. });
        let own = match self.own_task().await {
            None => self.chosen_task().await,
            planned => planned,
        };
        let failed = own.filter(|task| match task.status {
            TaskStatus::Failed => true,
            TaskStatus::Suspended => is_terminated && task.pinned,
            _ => false,
        });
        let Some(task) = failed.filter(|_| !self.is_started_with_tasks()) else {
            return;
        };
        let event = TaskEvent::Retry {
            agent: Some(self.spec.name.clone()),
            force: true,
        };
        if let Err(error) = self
            .context
            .engine
            .act(&task.id, Right::Unfenced, event)
            .await
        {
            self.tell(What::Trouble(format!("task {}: {error}", task.id)));
        }
    }

    /// The agent is terminated: passes its waiting tasks to their strategies now, without waiting
    /// for a sweep.
    pub(super) async fn leave_tasks(&self) {
        let recoverer = &self.context.recoverer;
        let left = match recovery::left_by(recoverer.engine(), &self.spec.name).await {
            Ok(left) => left,
            Err(error) => return self.tell(What::Trouble(error.to_string())),
        };
        for recovered in recovery::sweep(recoverer, left).await {
            match recovered {
                Ok(recovered) => self
                    .context
                    .notices
                    .tell_recovered(&self.spec.name, recovered),
                Err((task, error)) => {
                    self.tell(What::Trouble(format!("task {}: {error}", task.id)));
                }
            }
        }
    }

    /// The task that it took by name last, if it is still its own.
    async fn chosen_task(&self) -> Option<Task> {
        let store = self.context.engine.store();
        let (agent, limit) = (Some(self.spec.name.clone()), ATTEMPTS_LOOKED_AT);
        let query = AttemptQuery {
            agent,
            ended: true,
            limit,
            before: None,
        };
        let newest = store.attempts(query).await.ok()?;
        let id = newest
            .into_iter()
            .find_map(|attempt| attempt.post_mortem?.task)?;
        let id = TaskId::new(id).ok()?;
        let task = store.task(&id).await.ok()??;
        (task.pinned && task.agent.as_ref() == Some(&self.spec.name)).then_some(task)
    }

    /// The plan's task, if it is still its own; a task of the queue may have been reassigned.
    pub(super) async fn own_task(&self) -> Option<Task> {
        let id = self.spec.plan.task.as_ref()?;
        let task = self.context.engine.store().task(id).await.ok()??;
        let is_own = task.agent.as_ref() == Some(&self.spec.name);
        (is_own || !self.is_started_with_tasks()).then_some(task)
    }

    /// Status of the plan's task; none when there is none or it cannot be read.
    pub(super) async fn task_status(&self) -> Option<TaskStatus> {
        self.own_task().await.map(|task| task.status)
    }

    /// It could not be started for its task; passes the task to its strategy. Returns the task.
    pub(super) async fn lose_task(&self, reason: String) -> Option<TaskId> {
        let task = self
            .own_task()
            .await
            .filter(|task| !task.status.is_terminal())?;
        let death = HolderDeath {
            agent: Some(self.spec.name.clone()),
            ..HolderDeath::of(&task, Cause::Failed, reason, clock::now())
        };
        let right = match task.lease.held {
            Some(_) => Right::Fence(task.lease.fence),
            None => Right::Unfenced,
        };
        let (_, strategy) = self.recoverer_for(&task);
        let recoverer = &self.context.recoverer;
        let recovered = recoverer
            .recover(&task, right, death, strategy.as_deref())
            .await;
        if let Err(error) = recovered {
            self.tell(What::Trouble(format!("task {}: {error}", task.id)));
        }
        Some(task.id)
    }
}
