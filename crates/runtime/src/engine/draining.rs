//! Starts of tasks while the store is draining (`crate::drain`): work that is held continues, new work is
//! refused or deferred.

use relight_core::decide::{Right, StartLimits, TaskEvent};
use relight_core::ids::TaskId;
use relight_core::lease::Holder;
use relight_core::status::TaskStatus;
use relight_core::task::{NewTask, Task};
use relight_core::time::Span;
use relight_store::StoreError;

use super::{ActError, Engine, Started, TaskSnapshot};
use crate::drain;

/// The reason of a task that was deferred because of a drain.
const DEFERRED_REASON: &str = "it came while draining";

impl Engine {
    /// Starts a task. While draining, a task that the holder does not hold already is added and
    /// deferred, and the error says so.
    pub async fn start_unless_draining(
        &self,
        new: NewTask,
        right: Right,
        holder: Holder,
        ttl: Option<Span>,
        limits: StartLimits,
    ) -> Result<Started, ActError> {
        self.defer_new_while_draining(&new, right, &holder).await?;
        self.start(new, right, holder, ttl, limits).await
    }

    /// While draining, adds and defers a task that the holder does not hold already; the error says so.
    pub(crate) async fn defer_new_while_draining(
        &self,
        new: &NewTask,
        right: Right,
        holder: &Holder,
    ) -> Result<(), ActError> {
        if drain::now(self.store.as_ref()).await?.is_none()
            || self.continues(&new.id, right, holder).await?
        {
            return Ok(());
        }
        let id = self.add_to_start(new.clone()).await?.task().id.clone();
        self.defer_while_draining(&id).await
    }

    /// Whether this holder, or a writer that shows this fence, has the task already.
    pub(crate) async fn continues(
        &self,
        id: &TaskId,
        right: Right,
        holder: &Holder,
    ) -> Result<bool, StoreError> {
        let Some(task) = self.store.task(id).await? else {
            return Ok(false);
        };
        let life = self.holder_life(&task, right).await?;
        Ok(task.lease.is_continued_by(holder, right.fence(), life))
    }

    /// Refuses to begin work on a task while draining.
    pub(crate) async fn refuse_while_draining(&self, task: &Task) -> Result<(), ActError> {
        match drain::now(self.store.as_ref()).await? {
            Some(_) => Err(ActError::Draining {
                task: task.id.clone(),
                status: Some(task.status),
            }),
            None => Ok(()),
        }
    }

    /// Defers a task that is not started now, and returns the error that says so. A task that already
    /// waits for something else keeps its status; `start` refuses one that has ended or failed.
    async fn defer_while_draining(&self, id: &TaskId) -> Result<(), ActError> {
        let plan = |view: &TaskSnapshot| {
            let is_new = matches!(view.task.status, TaskStatus::Created | TaskStatus::Assigned);
            let is_free = view.task.lease.held.is_none();
            let reason = Some(DEFERRED_REASON.to_owned());
            let event = TaskEvent::Move {
                to: TaskStatus::Deferred,
                reason,
            };
            Ok::<_, ActError>((is_new && is_free).then_some(event).into_iter().collect())
        };
        self.act_in_turn(id, Right::Unfenced, plan).await?;
        let task = self.task(id).await?;
        match task.status.is_terminal() || task.status == TaskStatus::Failed {
            true => Ok(()),
            false => Err(ActError::Draining {
                task: task.id,
                status: Some(task.status),
            }),
        }
    }
}
