//! The code under the same walk: `decide`, and its changes applied as a store applies them.

use relight_core::agent::Cause;
use relight_core::claimant::Claimant;
use relight_core::decide::{Right, TaskDecisionInput, TaskEvent, decide, decide_in_turn};
use relight_core::ids::{AgentName, StepName, TaskId};
use relight_core::lease::{Fence, Holder, HolderLife, ProcessIdentity};
use relight_core::recovery::{Decision, HolderDeath, RecoveryContext, RecoveryPlan, TaskPolicy};
use relight_core::status::TaskStatus;
use relight_core::step::{RepeatRule, StepKey, StepOutcome};
use relight_core::task::{NewTask, Task, Usage};
use relight_core::time::{Span, Time};

use super::model::{
    Answer, COOLDOWN_MS, COOLDOWN_MS_MAX, COST_MAX, MAX_ATTEMPTS, NO_PROGRESS_MS_MAX, STARTS_MAX,
    Seen, Word,
};

/// When the walk begins.
const BEGIN_MS: i64 = 1_700_000_000_000;

#[derive(Debug, Clone)]
pub(crate) struct Real {
    tasks: Vec<Task>,
    forced: Vec<u32>,
    now: Time,
    lives: [u64; 3],
    steps: u32,
}

fn policy() -> TaskPolicy {
    TaskPolicy {
        max_attempts: MAX_ATTEMPTS,
        cooldown: Span::from_ms(COOLDOWN_MS),
        cooldown_max: Span::from_ms(COOLDOWN_MS_MAX),
        attempts_total_max: STARTS_MAX,
        no_progress_max: Some(Span::from_ms(NO_PROGRESS_MS_MAX)),
        cost_micros_max: Some(COST_MAX),
    }
}

fn agent(number: u32) -> AgentName {
    AgentName::new(format!("agent-{number}")).expect("a valid name")
}

impl Real {
    pub(crate) fn new(max_retries: &[u32]) -> Self {
        let now = Time::from_ms(BEGIN_MS);
        let task = |(number, max_retries): (usize, &u32)| {
            let mut new = NewTask::bare(TaskId::new(format!("t{number}")).expect("a valid id"));
            new.spec.max_retries = Some(*max_retries);
            relight_core::change::Change::first(&new, now)
        };
        let tasks: Vec<Task> = max_retries.iter().enumerate().map(task).collect();
        Self {
            forced: vec![0; tasks.len()],
            tasks,
            now,
            lives: [0; 3],
            steps: 0,
        }
    }

    pub(crate) fn claim(&mut self, task: usize, name: u32, holder: u32) -> bool {
        let (pid, start) = (holder + 10, self.lives[holder as usize]);
        let holder = Holder::Process(ProcessIdentity {
            pid,
            start,
            boot: "boot".to_owned(),
            node: None,
        });
        let claimant = Claimant::new(agent(name));
        let claim = TaskEvent::Claim {
            claimant,
            holder,
            ttl: None,
            policy: policy(),
        };
        self.act(task, Right::Unfenced, claim)
    }

    pub(crate) fn step(&mut self, task: usize, fence: u64) -> bool {
        self.steps += 1;
        let key = StepKey::first(StepName::new(format!("s{}", self.steps)).expect("a valid name"));
        let rule = RepeatRule::Keyed;
        let begin = TaskEvent::StepBegin {
            key: key.clone(),
            rule,
            fingerprint: None,
        };
        let end = TaskEvent::StepEnd {
            key,
            outcome: StepOutcome::Done,
            output: None,
        };
        let right = Right::Fence(Fence(fence));
        let (scene, mut changed) = (self.scene(task, right), self.tasks[task].clone());
        let Ok(decision) = decide_in_turn(&scene, &[], vec![begin, end]) else {
            return false;
        };
        decision
            .changes
            .iter()
            .for_each(|change| change.apply(&mut changed, self.now));
        self.tasks[task] = changed;
        true
    }

    pub(crate) fn spend(&mut self, task: usize, fence: u64, cost: u64) -> bool {
        let spend = TaskEvent::Spend(Usage {
            cost_micros: cost,
            turns: 1,
            ..Usage::default()
        });
        self.act(task, Right::Fence(Fence(fence)), spend)
    }

    pub(crate) fn done(&mut self, task: usize, fence: u64) -> bool {
        self.act(
            task,
            Right::Fence(Fence(fence)),
            TaskEvent::Done { force: false },
        )
    }

    pub(crate) fn fail(&mut self, task: usize, fence: u64, answer: Answer) -> bool {
        let death = HolderDeath::failed(&self.tasks[task], "no".to_owned(), self.now);
        self.recover(task, Right::Fence(Fence(fence)), death, answer)
    }

    pub(crate) fn die(&mut self, holder: u32) {
        self.lives[holder as usize] += 1;
    }

    pub(crate) fn sweep(&mut self, answer: Answer) {
        for task in 0..self.tasks.len() {
            let held = self.tasks[task].lease.held.is_some();
            if held && self.life(task) == HolderLife::Gone {
                let death = HolderDeath::vanished(&self.tasks[task], self.now);
                let fence = self.tasks[task].lease.fence;
                assert!(
                    self.recover(task, Right::Fence(fence), death, answer),
                    "a sweep is taken"
                );
            }
        }
    }

    pub(crate) fn agent_gone(&mut self, task: usize, answer: Answer) -> bool {
        if self.tasks[task].status != TaskStatus::Interrupted {
            return false;
        }
        let reason = "its agent is terminated".to_owned();
        let death = HolderDeath::of(&self.tasks[task], Cause::Lost, reason, self.now);
        self.recover(
            task,
            Right::Unfenced,
            HolderDeath {
                agent_gone: true,
                ..death
            },
            answer,
        )
    }

    pub(crate) fn wait(&mut self, ms: u64) {
        self.now = self.now.plus(Span::from_ms(ms));
    }

    pub(crate) fn cancel(&mut self, task: usize) -> bool {
        self.act(task, Right::Unfenced, TaskEvent::Cancel { reason: None })
    }

    pub(crate) fn retry(&mut self, task: usize, name: Option<u32>, force: bool) -> bool {
        let before = self.tasks[task].retries;
        let taken = self.act(
            task,
            Right::Unfenced,
            TaskEvent::Retry {
                agent: name.map(agent),
                force,
            },
        );
        let after = self.tasks[task].retries;
        self.forced[task] += u32::from(after > before && after > self.tasks[task].max_retries());
        taken
    }

    pub(crate) fn release(&mut self, task: usize) -> bool {
        self.act(task, Right::Unfenced, TaskEvent::Release { force: true })
    }

    /// As the model sees them.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        let since = |at: Time| (at.as_ms() - BEGIN_MS).cast_unsigned();
        let seen = |(task, forced): (&Task, &u32)| Seen {
            status: word(task.status),
            agent: task
                .agent
                .as_ref()
                .map(|name| name.as_str()[6..].parse().expect("its number")),
            holder: task.lease.held.as_ref().map(|held| match &held.holder {
                Holder::Process(process) => (process.pid - 10, process.start),
                other => panic!("nobody in this walk is {other}"),
            }),
            fence: task.lease.fence.0,
            starts: task.starts,
            retries: task.retries,
            max_retries: task.max_retries(),
            forced: *forced,
            recoveries: task.tally.recoveries,
            steps: task.steps_done,
            progress_at: task.tally.progress_at.map(since),
            cost: task.tally.cost_micros,
            given_up: task.tally.given_up,
            released: task.status == TaskStatus::Assigned && task.reason.is_some(),
            not_before: task.not_before.map(since),
        };
        self.tasks.iter().zip(&self.forced).map(seen).collect()
    }

    fn recover(&mut self, task: usize, right: Right, death: HolderDeath, answer: Answer) -> bool {
        let context = RecoveryContext::of(&self.tasks[task], &death, &policy(), false);
        let decision = match answer {
            Answer::Resume => Decision::Resume,
            Answer::Reassign { keep_progress } => Decision::Reassign { keep_progress },
            Answer::Suspend => Decision::Suspend,
            Answer::Defer { ms } => Decision::Defer {
                until: self.now.plus(Span::from_ms(ms)),
            },
            Answer::GiveUp => Decision::GiveUp,
        };
        let recovery = RecoveryPlan {
            death,
            strategy: "walk".to_owned(),
            decision,
            reason: None,
            trouble: None,
            context,
            policy: policy(),
            // Right in the middle: no wait is moved.
            jitter: 0.5,
        };
        self.act(task, right, TaskEvent::Recover(Box::new(recovery)))
    }

    fn act(&mut self, task: usize, right: Right, event: TaskEvent) -> bool {
        let (scene, mut changed) = (self.scene(task, right), self.tasks[task].clone());
        let Ok(decision) = decide(&scene, event) else {
            return false;
        };
        decision
            .changes
            .iter()
            .for_each(|change| change.apply(&mut changed, self.now));
        self.tasks[task] = changed;
        true
    }

    fn scene(&self, task: usize, right: Right) -> TaskDecisionInput<'_> {
        let life = self.life(task);
        TaskDecisionInput {
            task: &self.tasks[task],
            step: None,
            steps: &[],
            life,
            right,
            caller: None,
            now: self.now,
        }
    }

    fn life(&self, task: usize) -> HolderLife {
        match self.tasks[task]
            .lease
            .held
            .as_ref()
            .map(|held| &held.holder)
        {
            Some(Holder::Process(process))
                if self.lives[(process.pid - 10) as usize] == process.start =>
            {
                HolderLife::Alive
            }
            _ => HolderLife::Gone,
        }
    }
}

fn word(status: TaskStatus) -> Word {
    match status {
        TaskStatus::Created => Word::Created,
        TaskStatus::Assigned => Word::Assigned,
        TaskStatus::InProgress => Word::InProgress,
        TaskStatus::Deferred => Word::Deferred,
        TaskStatus::Interrupted => Word::Interrupted,
        TaskStatus::Suspended => Word::Suspended,
        TaskStatus::Failed => Word::Failed,
        TaskStatus::Completed => Word::Completed,
        TaskStatus::Cancelled => Word::Cancelled,
        TaskStatus::InReview | TaskStatus::Blocked => panic!("nothing in this walk leads there"),
    }
}
