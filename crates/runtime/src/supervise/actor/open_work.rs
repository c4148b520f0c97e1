//! Open work that excuses an attempt's silence: running steps, tool calls and blocking Relight
//! commands.
//!
//! Read only when silence is about to be judged. The rule is in `core::agent::silence`.

use relight_core::agent::silence::OpenWork;
use relight_core::lease::{Fence, Holder};
use relight_core::step::Step;
use relight_core::task::Task;
use relight_core::time::Time;
use relight_store::{StoreError, TaskQuery};

use super::Actor;
use super::live_attempt::StepUsage;
use crate::os::{clock, process};
use crate::running_step::{Runner, RunningStep};
use crate::supervise::follow_output::AttemptStream;

/// Maximum number of tasks examined per attempt.
const TASKS_MAX: usize = 100;

impl Actor {
    /// Tasks held by the attempt, or by its agent over HTTP.
    async fn held_tasks(&self) -> Result<Vec<Task>, StoreError> {
        let Some(life) = &self.life else { return Ok(Vec::new()) };
        let (store, limit) = (self.context.engine.store(), Some(TASKS_MAX));
        let of_attempt =
            TaskQuery { held_by: Some(life.tag.clone()), limit, ..TaskQuery::default() };
        let agent = Some(self.spec.name.clone());
        let of_agent = TaskQuery { agent, held: true, limit, ..TaskQuery::default() };
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
        let held = self.held_tasks().await?;
        let moved_at = held.iter().map(|task| task.updated_at).max();
        let mut work = Vec::new();
        let known = self.life.as_mut().map(|life| std::mem::take(&mut life.step_usage));
        let known = known.unwrap_or_default();
        for task in held.iter().filter(|task| task.steps_open > 0) {
            let steps = self.context.engine.store().steps(&task.id).await?;
            for step in steps.iter().filter(|step| step.is_open()) {
                work.extend(self.running_step(task, step, &known));
            }
        }
        let Some(life) = &mut self.life else { return Ok((None, None)) };
        let of_stream = life.stream.iter().flat_map(AttemptStream::open_work);
        work.extend(of_stream.map(|(since, deadline)| OpenWork {
            deadline_ms: deadline.map(monotonic_of),
            active_ms: monotonic_of(since),
        }));
        let of_work = work.into_iter().map(|work| work.explains_until_ms(limit)).max();
        // A command that died since the last check waited until about then.
        let died = life.waits.forget_gone().then(clock::monotonic_ms);
        Ok((moved_at, of_work.max(died).max(life.waits.verbs_until().map(monotonic_of))))
    }

    /// The step as open work; none when its runner is gone or it was begun by an earlier holder.
    fn running_step(&mut self, task: &Task, step: &Step, known: &StepUsage) -> Option<OpenWork> {
        let is_ours = step.fence == task.lease.fence || step.fence == Fence::default();
        let runner = RunningStep::runner(&self.context.home, &task.id, &step.key);
        // An unreadable lock says nothing.
        match runner.unwrap_or(Runner::None) {
            Runner::Gone => None,
            Runner::None => {
                is_ours.then(|| OpenWork { deadline_ms: None, active_ms: monotonic_of(step.at) })
            }
            Runner::Runs { pid, deadline_ms, since } => {
                let Some(usage) = pid.and_then(process::tree_usage) else {
                    return Some(OpenWork { deadline_ms, active_ms: monotonic_of(since) });
                };
                let key = (task.id.clone(), step.key.clone());
                let unchanged = known.get(&key).filter(|(before, _)| *before == usage);
                let active_ms = unchanged.map_or_else(clock::monotonic_ms, |(_, at_ms)| *at_ms);
                self.life.as_mut()?.step_usage.insert(key, (usage, active_ms));
                Some(OpenWork { deadline_ms, active_ms })
            }
        }
    }
}

/// Converts a wall-clock time to the monotonic clock.
fn monotonic_of(at: Time) -> u64 {
    let (now, now_ms) = (clock::now(), clock::monotonic_ms());
    match at > now {
        true => now_ms.saturating_add(at.since(now).as_ms()),
        false => now_ms.saturating_sub(now.since(at).as_ms()),
    }
}
