//! What becomes of tasks, said once more in as few words as possible. Calls nothing of the code.

/// How tasks are limited in the walk; `Real` gives the same limits to the code.
pub(crate) const MAX_ATTEMPTS: u32 = 2;
pub(crate) const COOLDOWN_MS: u64 = 1_000;
pub(crate) const COOLDOWN_MS_MAX: u64 = 3_000;
pub(crate) const STARTS_MAX: u32 = 6;
pub(crate) const COST_MAX: u64 = 9;
pub(crate) const NO_PROGRESS_MS_MAX: u64 = 120_000;

/// Where a task stands, as far as the walk goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    Created,
    Assigned,
    InProgress,
    Deferred,
    Interrupted,
    Suspended,
    Failed,
    Completed,
    Cancelled,
}

/// What a strategy answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Resume,
    Reassign { keep_progress: bool },
    Suspend,
    Defer { ms: u64 },
    GiveUp,
}

/// A task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) status: Word,
    pub(crate) agent: Option<u32>,
    /// Which process, and which of its lives.
    pub(crate) holder: Option<(u32, u64)>,
    pub(crate) fence: u64,
    pub(crate) starts: u32,
    pub(crate) retries: u32,
    pub(crate) max_retries: u32,
    /// Retries that a person took beyond the limit.
    pub(crate) forced: u32,
    pub(crate) recoveries: u32,
    pub(crate) steps: u64,
    pub(crate) progress_at: Option<u64>,
    pub(crate) cost: u64,
    pub(crate) given_up: bool,
    /// Its holder gave it back, and nobody assigned it since.
    pub(crate) released: bool,
    pub(crate) not_before: Option<u64>,
}

#[derive(Debug, Clone)]
pub(crate) struct Model {
    pub(crate) tasks: Vec<Seen>,
    now: u64,
    /// The present life of each process.
    lives: [u64; 3],
}

impl Model {
    pub(crate) fn new(max_retries: &[u32]) -> Self {
        let task = |max_retries: &u32| Seen {
            status: Word::Created,
            agent: None,
            holder: None,
            fence: 0,
            starts: 0,
            retries: 0,
            max_retries: *max_retries,
            forced: 0,
            recoveries: 0,
            steps: 0,
            progress_at: None,
            cost: 0,
            given_up: false,
            released: false,
            not_before: None,
        };
        Self {
            tasks: max_retries.iter().map(task).collect(),
            now: 0,
            lives: [0; 3],
        }
    }

    pub(crate) fn claim(&mut self, task: usize, agent: u32, holder: u32) -> bool {
        let (now, life) = (self.now, self.lives[holder as usize]);
        let is_exhausted = self.is_exhausted(task);
        let task = &mut self.tasks[task];
        let is_its_own = task.agent.is_none_or(|own| own == agent);
        let is_offered = match task.status {
            Word::Created | Word::Deferred => true,
            Word::Assigned | Word::Interrupted => is_its_own,
            Word::Failed => task.retries < task.max_retries && !task.given_up,
            _ => false,
        };
        if !is_offered || task.not_before.is_some_and(|at| at > now) {
            return false;
        }
        match task.status {
            Word::Deferred | Word::Interrupted if is_exhausted => {
                task.status = Word::Suspended;
                return true;
            }
            Word::Assigned if task.released && is_exhausted => {
                (task.status, task.released) = (Word::Suspended, false);
                return true;
            }
            Word::Failed if is_exhausted => {
                task.given_up = true;
                return true;
            }
            Word::Failed => task.retries += 1,
            _ => {}
        }
        (task.status, task.released) = (Word::InProgress, false);
        task.agent = Some(agent);
        task.holder = Some((holder, life));
        task.fence += 1;
        task.starts += 1;
        task.not_before = None;
        true
    }

    pub(crate) fn step(&mut self, task: usize, fence: u64) -> bool {
        let now = self.now;
        let Some(task) = self.held(task, fence) else {
            return false;
        };
        task.steps += 1;
        task.recoveries = 0;
        task.progress_at = Some(now);
        true
    }

    pub(crate) fn spend(&mut self, task: usize, fence: u64, cost: u64) -> bool {
        let Some(task) = self.held(task, fence) else {
            return false;
        };
        task.cost += cost;
        true
    }

    pub(crate) fn done(&mut self, task: usize, fence: u64) -> bool {
        let Some(task) = self.held(task, fence) else {
            return false;
        };
        (task.status, task.holder) = (Word::Completed, None);
        true
    }

    pub(crate) fn fail(&mut self, task: usize, fence: u64, answer: Answer) -> bool {
        let is_held = self.held(task, fence).is_some();
        if is_held {
            self.recover(task, answer);
        }
        is_held
    }

    pub(crate) fn die(&mut self, holder: u32) -> bool {
        self.lives[holder as usize] += 1;
        true
    }

    pub(crate) fn sweep(&mut self, answer: Answer) -> bool {
        for task in 0..self.tasks.len() {
            let holder = self.tasks[task].holder;
            if holder.is_some_and(|(holder, life)| self.lives[holder as usize] != life) {
                self.recover(task, answer);
            }
        }
        true
    }

    pub(crate) fn agent_gone(&mut self, task: usize, answer: Answer) -> bool {
        let waits = self.tasks[task].status == Word::Interrupted;
        if waits {
            self.recover(task, answer);
        }
        waits
    }

    pub(crate) fn wait(&mut self, ms: u64) -> bool {
        self.now += ms;
        true
    }

    pub(crate) fn cancel(&mut self, task: usize) -> bool {
        let task = &mut self.tasks[task];
        if matches!(task.status, Word::Completed | Word::Cancelled) {
            return false;
        }
        (task.status, task.holder, task.released) = (Word::Cancelled, None, false);
        task.fence += 1;
        true
    }

    pub(crate) fn retry(&mut self, task: usize, agent: Option<u32>, force: bool) -> bool {
        let lives = &self.lives;
        let task = &mut self.tasks[task];
        let is_at_work = task
            .holder
            .is_some_and(|(holder, life)| lives[holder as usize] == life);
        if is_at_work && !force {
            return false;
        }
        // An assigned task can only be handed on, unless its holder released it.
        let stays = task.status == Word::Assigned && agent.is_none() && !task.released;
        if stays || matches!(task.status, Word::Completed | Word::Cancelled) {
            return false;
        }
        if task.status == Word::Failed {
            let is_left = task.retries < task.max_retries && !task.given_up;
            if !is_left && !force {
                return false;
            }
            task.retries += 1;
            task.forced += u32::from(task.retries > task.max_retries);
        }
        (task.status, task.holder, task.released) = (Word::Assigned, None, false);
        (task.recoveries, task.given_up, task.not_before) = (0, false, None);
        task.agent = agent.or(task.agent);
        task.fence += 1;
        true
    }

    pub(crate) fn release(&mut self, task: usize) -> bool {
        let task = &mut self.tasks[task];
        if task.status != Word::InProgress {
            return false;
        }
        (task.status, task.holder, task.released) = (Word::Assigned, None, true);
        // Nothing here is pinned: anybody may take it.
        task.agent = None;
        task.fence += 1;
        true
    }

    /// Whoever has the newest lease may write, and nobody else; dead or alive, its fence tells.
    fn held(&mut self, task: usize, fence: u64) -> Option<&mut Seen> {
        let task = &mut self.tasks[task];
        (task.holder.is_some() && task.fence == fence).then_some(task)
    }

    fn is_exhausted(&self, task: usize) -> bool {
        let task = &self.tasks[task];
        let stuck_since = task.progress_at.unwrap_or(0);
        let is_stuck = task.recoveries > 0 && self.now - stuck_since >= NO_PROGRESS_MS_MAX;
        task.starts >= STARTS_MAX || task.cost >= COST_MAX || is_stuck
    }

    fn recover(&mut self, task: usize, answer: Answer) {
        let now = self.now;
        let is_exhausted = self.is_exhausted(task);
        let task = &mut self.tasks[task];
        task.holder = None;
        let waited = task.status == Word::Interrupted;
        let again_at = match task.recoveries {
            0 => None,
            others => Some(now + (COOLDOWN_MS << (others - 1)).min(COOLDOWN_MS_MAX)),
        };
        let goes_on = !matches!(answer, Answer::Suspend | Answer::GiveUp);
        if answer == Answer::Suspend || (goes_on && is_exhausted) {
            task.status = Word::Suspended;
            return;
        }
        let tried_enough = answer == Answer::Resume && task.recoveries >= MAX_ATTEMPTS;
        let answer = if tried_enough {
            Answer::Reassign {
                keep_progress: true,
            }
        } else {
            answer
        };
        match answer {
            Answer::Suspend => unreachable!("that one waits for a person"),
            Answer::GiveUp => (task.status, task.given_up) = (Word::Failed, true),
            Answer::Reassign { .. } if task.retries >= task.max_retries => {
                task.status = Word::Failed;
            }
            Answer::Reassign { keep_progress } => {
                task.status = Word::Failed;
                task.recoveries += 1;
                task.not_before = again_at;
                if !keep_progress {
                    task.steps = 0;
                }
            }
            Answer::Resume => {
                task.status = Word::Interrupted;
                task.recoveries += 1;
                task.not_before = again_at;
            }
            Answer::Defer { ms } => {
                // One that waits already only waits for something else.
                task.status = if waited {
                    Word::Interrupted
                } else {
                    Word::Deferred
                };
                task.recoveries += 1;
                task.not_before = Some(now + ms);
            }
        }
    }
}
