//! Open steps of an agent's tasks, and steps of any task that its processes run: while one is run, the
//! agent's silence is excused.
//!
//! Read only when silence is about to be judged. The rule is in `core::agent::silence`.

use std::collections::HashMap;
use std::path::Path;

use relight_core::agent::AttemptTag;
use relight_core::agent::silence::OpenWork;
use relight_core::lease::Fence;
use relight_core::step::Step;
use relight_core::task::Task;
use relight_core::time::Time;
use relight_store::{Store, StoreError};

use crate::os::clock;
use crate::os::process::{self, TreeUsage};
use crate::running_step::{Runner, RunningStep};

/// CPU and I/O use of running steps by their idempotency keys, and when it last changed.
#[derive(Debug, Default)]
pub(super) struct OpenSteps(HashMap<String, (TreeUsage, u64)>);

impl OpenSteps {
    /// The open steps of these tasks, and those that the attempt runs of other tasks.
    pub(super) async fn look(
        &mut self,
        store: &dyn Store,
        home: &Path,
        attempt: Option<&AttemptTag>,
        held: &[Task],
    ) -> Result<Vec<OpenWork>, StoreError> {
        let known = std::mem::take(self);
        let its_own = attempt.map_or_else(Vec::new, |tag| RunningStep::of_attempt(home, tag));
        let mut work: Vec<OpenWork> = its_own
            .into_iter()
            .filter_map(|(key, runner)| self.run(key, runner, &known))
            .collect();
        for task in held.iter().filter(|task| task.steps_open > 0) {
            let steps = store.steps(&task.id).await?;
            for step in steps.iter().filter(|step| step.is_open()) {
                work.extend(self.open(home, task, step, &known));
            }
        }
        Ok(work)
    }

    /// The step as open work; none when its runner is gone or it was begun by an earlier holder.
    fn open(&mut self, home: &Path, task: &Task, step: &Step, known: &Self) -> Option<OpenWork> {
        let is_ours = step.fence == task.lease.fence || step.fence == Fence::default();
        // An unreadable lock says nothing.
        match RunningStep::runner(home, &task.id, &step.key).unwrap_or(Runner::None) {
            Runner::None => is_ours.then(|| OpenWork {
                deadline_ms: None,
                active_ms: monotonic_of(step.at),
            }),
            runner => self.run(step.key.idempotency_key(&task.id), runner, known),
        }
    }

    /// A step that is being run as open work.
    fn run(&mut self, key: String, runner: Runner, known: &Self) -> Option<OpenWork> {
        let Runner::Runs {
            pid,
            deadline_ms,
            since,
        } = runner
        else {
            return None;
        };
        let Some(usage) = pid.and_then(process::tree_usage) else {
            return Some(OpenWork {
                deadline_ms,
                active_ms: monotonic_of(since),
            });
        };
        let unchanged = known.0.get(&key).filter(|(before, _)| *before == usage);
        let active_ms = unchanged.map_or_else(clock::monotonic_ms, |(_, at_ms)| *at_ms);
        self.0.insert(key, (usage, active_ms));
        Some(OpenWork {
            deadline_ms,
            active_ms,
        })
    }
}

/// Converts a wall-clock time to the monotonic clock.
pub(super) fn monotonic_of(at: Time) -> u64 {
    let (now, now_ms) = (clock::now(), clock::monotonic_ms());
    match at > now {
        true => now_ms.saturating_add(at.since(now).as_ms()),
        false => now_ms.saturating_sub(now.since(at).as_ms()),
    }
}
