//! Open work that excuses an attempt's silence: running steps, tool calls and blocking Relight
//! commands.
//!
//! Read only when silence is about to be judged. The rule is in `core::agent::silence`.

use relight_core::agent::AttemptTag;
use relight_core::agent::silence::OpenWork;
use relight_core::lease::Holder;
use relight_core::task::Task;
use relight_core::time::Time;
use relight_store::{StoreError, TaskQuery};

use super::Actor;
use crate::os::clock;
use crate::supervise::follow_output::AttemptStream;
use crate::supervise::open_steps::monotonic_of;

/// Maximum number of tasks examined per attempt.
const TASKS_MAX: usize = 100;

impl Actor {
    /// Tasks held by an attempt, or by its agent over HTTP.
    pub(super) async fn held_tasks(&self, attempt: &AttemptTag) -> Result<Vec<Task>, StoreError> {
        let (store, limit) = (self.context.engine.store(), Some(TASKS_MAX));
        let of_attempt = TaskQuery {
            held_by: Some(attempt.clone()),
            limit,
            ..TaskQuery::default()
        };
        let agent = Some(self.spec.name.clone());
        let of_agent = TaskQuery {
            agent,
            held: true,
            limit,
            ..TaskQuery::default()
        };
        let mut tasks = store.tasks(of_attempt).await?;
        let by_time = |task: &Task| {
            let held = task.lease.held.as_ref();
            held.is_some_and(|held| matches!(held.holder, Holder::Time { .. }))
        };
        tasks.extend(store.tasks(of_agent).await?.into_iter().filter(by_time));
        Ok(tasks)
    }

    /// When a task of the attempt last changed, and until when open work excuses silence, by the
    /// monotonic clock.
    pub(super) async fn look_at_work(&mut self) -> Result<(Option<Time>, Option<u64>), StoreError> {
        let limit = self.spec.plan.step_silence_max;
        let held = match self.life.as_ref().map(|life| life.tag.clone()) {
            Some(tag) => self.held_tasks(&tag).await?,
            None => Vec::new(),
        };
        let moved_at = held.iter().map(|task| task.updated_at).max();
        let Some(life) = &mut self.life else {
            return Ok((None, None));
        };
        let (store, home) = (self.context.engine.store(), &self.context.home);
        let attempt = Some(&life.tag);
        let mut work = life
            .open_steps
            .look(store.as_ref(), home, attempt, &held)
            .await?;
        let of_stream = life.stream.iter().flat_map(AttemptStream::open_work);
        work.extend(of_stream.map(|(since, deadline)| OpenWork {
            deadline_ms: deadline.map(monotonic_of),
            active_ms: monotonic_of(since),
        }));
        let of_work = work
            .into_iter()
            .map(|work| work.explains_until_ms(limit))
            .max();
        // A command that died since the last check waited until about then.
        let died = life.waits.forget_gone().then(clock::monotonic_ms);
        Ok((
            moved_at,
            of_work
                .max(died)
                .max(life.waits.verbs_until().map(monotonic_of)),
        ))
    }
}
