//! The end of an attempt: collects the facts, releases its tasks and prepares its successor's
//! brief.

use std::sync::Arc;
use std::time::Duration;

use relight_core::agent::change::AgentChange;
use relight_core::agent::death::{HowEnded, ReportedEnd};
use relight_core::agent::decide::{AgentEvent, later};
use relight_core::agent::{AgentState, Attempt, AttemptTag, Cause, Death, StopReason};
use relight_core::decide::{Right, TaskEvent, some_of};
use relight_core::ids::{AgentName, StepName};
use relight_core::lease::ProcessIdentity;
use relight_core::progress::left_open;
use relight_core::recovery::HolderDeath;
use relight_core::status::TaskStatus;
use relight_core::task::Task;
use relight_core::time::{Span, Time};

use super::tree::{Orphan, Tree, TreeEvent};
use super::{Actor, SupervisionLost, lease_guard};
use crate::engine::ActError;
use crate::os::{clock, process, threads};
use crate::recovery::Recoverer;
use crate::supervise::log::{AgentLog, LogPosition};
use crate::supervise::notices::{Notices, What};
use crate::supervise::oom::MemoryKill;
use crate::supervise::post_mortem::{self, LOG_END_BYTES};
use crate::supervise::shim::record;
use crate::supervise::shim::wire::{ExitRecord, ShimReport};

/// Maximum number of pids in a note.
const PIDS_MAX: usize = 10;
/// Note of an attempt that its shim stopped.
const LEASE_ENDED: &str = "the lease of its node ran out, and its shim ended it";

/// What this supervisor saw of a death, besides the exit record.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SeenOfDeath {
    /// The attempt gave no output.
    pub(super) wrote_nothing: bool,
    /// It died together with its supervisor.
    pub(super) unwatched: bool,
    /// It was lost with its node.
    pub(super) node_lost: bool,
    /// Its last sign of life, if it was stopped for its silence.
    pub(super) silent_since: Option<Time>,
}

impl Actor {
    pub(super) async fn tree_says(&mut self, event: TreeEvent) -> Result<(), SupervisionLost> {
        match event {
            TreeEvent::Says(ShimReport::Started { tag, process }) => {
                self.started(&tag, process).await
            }
            TreeEvent::Says(ShimReport::Ended(record)) => self.ended(record).await,
            TreeEvent::Says(ShimReport::Status { .. }) => Ok(()),
            TreeEvent::Says(ShimReport::Refused { .. }) => {
                Err(SupervisionLost::Fenced(self.spec.name.clone()))
            }
            TreeEvent::ShimContinued(shim) => {
                let pid = shim.pid;
                let text = format!("its shim (pid {pid}) was stopped (SIGSTOP), and is continued");
                self.tell(What::Trouble(text));
                Ok(())
            }
            TreeEvent::ShimGone => self.shim_gone(false).await,
            TreeEvent::ShimKilled(shim) => {
                let pid = shim.pid;
                let text =
                    format!("its shim (pid {pid}) did not answer, and is killed with its tree");
                self.tell(What::Trouble(text));
                self.shim_gone(true).await
            }
            TreeEvent::LeaderGone(how) => self.leader_gone(how).await,
        }
    }

    async fn started(
        &mut self,
        tag: &AttemptTag,
        process: ProcessIdentity,
    ) -> Result<(), SupervisionLost> {
        let Some(life) = self.life.as_mut().filter(|life| life.tag == *tag) else {
            return Ok(());
        };
        life.started(process.clone());
        self.room_pause = Duration::ZERO;
        self.task_held = None;
        let (number, log) = (life.number, Some((life.log.number, life.log.offset)));
        let shim = self.tree.shim().cloned();
        self.look_for_changes();
        let resumed = self.is_resumed();
        let last = self.last.as_ref().filter(|last| last.number + 1 == number);
        let died = last
            .and_then(|last| last.ended.as_ref())
            .filter(|ended| ended.is_unwanted());
        let down = died.map(|ended| clock::now().since(ended.down_since()));
        self.tell(What::Started {
            number,
            resumed,
            process: process.clone(),
            down,
        });
        self.commit_deferred(vec![AgentChange::Spawned {
            number,
            process,
            shim,
            log,
        }]);
        Ok(())
    }

    /// Handles the shim's report that all processes of an attempt are gone.
    pub(super) async fn ended(&mut self, record: ExitRecord) -> Result<(), SupervisionLost> {
        let Some(mut life) = self.life.take() else {
            return Ok(());
        };
        if life.tag != record.tag {
            self.life = Some(life);
            return Ok(());
        }
        lease_guard::dismiss(life.guard.take());
        if record.exhausted && self.ending().is_none() {
            let why = record.note.unwrap_or_default();
            self.postpone(life.number, life.tag, &why);
            return Ok(());
        }
        // A remaining watch fires once more and is ignored.
        let _ = self.context.growth.forget(&self.spec.name);
        let session = match &mut life.stream {
            Some(stream) => stream.read_all().await,
            None => None,
        };
        self.captured(session);
        let mut attempt = life.as_attempt(&self.spec.name);
        attempt.process = attempt.process.or_else(|| record.process.clone());
        self.keep_captured().await?;
        if let Some(stream) = &life.stream {
            let (totals, last) = (stream.used(), life.charged.task());
            self.charge(&attempt, totals, last, false).await?;
        }
        let preset = &self.spec.preset;
        let should_resume = self.should_resume_session();
        let stream = life.stream.as_ref();
        let ending = self.ending();
        let said =
            stream.and_then(|stream| stream.ended(preset, record.how, should_resume, ending));
        let was_silent = self.ending() == Some(StopReason::Hung);
        let seen = SeenOfDeath {
            wrote_nothing: life.wrote_nothing(),
            silent_since: was_silent.then(|| life.last_sign()),
            ..SeenOfDeath::default()
        };
        self.head = life.head;
        self.oom = life.oom;
        if record.survivors > 0 {
            // They hold the lock, and nothing starts before it is free. This shim already has it.
            self.tree.dismiss().await;
        }
        self.record_death(attempt, record, said, seen).await
    }

    /// Collects the facts of a death, releases its tasks and decides what follows.
    pub(super) async fn record_death(
        &mut self,
        attempt: Attempt,
        record: ExitRecord,
        said: Option<ReportedEnd>,
        seen: SeenOfDeath,
    ) -> Result<(), SupervisionLost> {
        let event = self.facts_of(&attempt, &record, said, seen).await;
        if attempt.process.is_none() && self.ending().is_none() {
            self.not_started.clone_from(&record.note);
        }
        self.last = Some(attempt);
        self.happen(event).await
    }

    /// Collects the facts of a death and releases its tasks.
    pub(super) async fn facts_of(
        &self,
        attempt: &Attempt,
        record: &ExitRecord,
        said: Option<ReportedEnd>,
        seen: SeenOfDeath,
    ) -> AgentEvent {
        let begins = attempt.log.map(LogPosition::from).unwrap_or_default();
        let log_end = if seen.wrote_nothing {
            Vec::new()
        } else {
            AgentLog::of(&self.folder)
                .last_bytes(LOG_END_BYTES, begins)
                .unwrap_or_default()
        };
        let engine = &self.context.engine;
        let found = post_mortem::take(engine, &log_end, attempt, Some(record)).await;
        let mut found = found.unwrap_or_else(|error| {
            self.tell(What::Trouble(error.to_string()));
            post_mortem::DeathFindings::nothing()
        });
        // A stable attempt counts as progress anyway.
        let is_stable = self.spec.plan.policy.is_stable(record.lived);
        if !found.made_progress && !is_stable {
            let finished = post_mortem::has_finished_work(engine, attempt).await;
            found.made_progress = finished.unwrap_or(false);
        }
        // Regardless of how it reacted to the signal: it was lost with its node.
        let (how, lease) = match record.lease_ended {
            true => (HowEnded::Unknown, Some(LEASE_ENDED.to_owned())),
            false => (record.how, None),
        };
        let pid = record.process.as_ref().map(|process| process.pid);
        let (is_oom, oom) = match self.oom.look(how, record.oom, pid, record.lived) {
            MemoryKill::No => (false, None),
            MemoryKill::Likely(note) => (false, Some(note)),
            MemoryKill::Proved(note) => (true, Some(note)),
        };
        let said = said.or_else(|| self.spec.preset.said_by_exit(record.how));
        let said = match (said, record.how) {
            (None, HowEnded::Code(0)) => self.deferral_of_task().await,
            (said, _) => said,
        };
        let clean = |why: String| engine.redactor().text(&why).into_owned();
        let said = said.map(|said| said.map_why(clean));
        let denied = match &said {
            Some(ReportedEnd::SessionGone) => {
                Some("its session does not exist; the next attempt begins a new one".to_owned())
            }
            said => said.as_ref().and_then(ReportedEnd::why).map(str::to_owned),
        };
        // Its reaction to the signal says nothing.
        let is_spent = self.ending() == Some(StopReason::Incurable)
            && !matches!(said, Some(ReportedEnd::Incurable(_)));
        let denied = match self.ending() {
            Some(StopReason::Budget) => Some(self.why_overspent()),
            _ if is_spent => Some(self.why_incurable()),
            _ => denied,
        };
        let unfinished_task = match found.unfinished_task {
            None if found.held.is_empty() => self.interrupted_task().await,
            unfinished => unfinished,
        };
        let may_complete = self.spec.plan.exit_completes && record.how == HowEnded::Code(0);
        let steps = if may_complete {
            self.steps_left_open(&found.held).await
        } else {
            Vec::new()
        };
        let completes = may_complete && steps.is_empty();
        let steps = (!steps.is_empty())
            .then(|| format!("declared steps are not finished: {}", some_of(&steps)));
        let death = Death {
            at: record.at,
            last_sign: seen.silent_since,
            lived: record.lived,
            how,
            oom: is_oom,
            unfinished_task: if completes { None } else { unfinished_task },
            made_progress: found.made_progress,
            node_lost: record.lease_ended || seen.node_lost,
            said,
            note: match (record.note.clone(), lease.or(oom).or(denied).or(steps)) {
                (Some(note), Some(more)) => Some(format!("{note}; {more}")),
                (note, more) => note.or(more),
            },
        };
        self.release_tasks(&found.held, &death, completes, seen.unwatched)
            .await;
        let post_mortem = Box::new(found.post_mortem);
        let task = self.task_status().await;
        AgentEvent::Died {
            death: Box::new(death),
            post_mortem,
            task,
        }
    }

    /// Declared steps of the plan's task that are not finished, so that its exit does not complete
    /// it.
    async fn steps_left_open(&self, held: &[Task]) -> Vec<StepName> {
        let its_own = held
            .iter()
            .find(|task| self.spec.plan.task.as_ref() == Some(&task.id));
        let Some(task) = its_own.filter(|task| !task.spec.steps.is_empty()) else {
            return Vec::new();
        };
        match self.context.engine.store().steps(&task.id).await {
            Ok(steps) => left_open(&task.spec.steps, &steps)
                .into_iter()
                .cloned()
                .collect(),
            // Completing the task checks again.
            Err(_) => Vec::new(),
        }
    }

    /// Releases the attempt's tasks. A deliberate stop or a deferral is not a failure; other tasks
    /// go to their strategy.
    async fn release_tasks(&self, held: &[Task], death: &Death, completes: bool, unwatched: bool) {
        let cause = death.cause(self.ending());
        for task in held {
            let is_its_own = self.spec.plan.task.as_ref() == Some(&task.id);
            let ended = match cause {
                _ if completes && is_its_own => {
                    self.end_hold(task, TaskEvent::Done { force: false }, unwatched)
                        .await
                }
                Cause::Deferred => {
                    let until = later(death, clock::now(), &self.agent);
                    let reason = Some("its agent said: later".to_owned());
                    self.end_hold(task, TaskEvent::Defer { until, reason }, unwatched)
                        .await
                }
                Cause::Stopped => {
                    let event = TaskEvent::Interrupt {
                        reason: self.why_interrupted(cause),
                        agent_keeps_it: true,
                    };
                    self.end_hold(task, event, unwatched).await
                }
                Cause::Completed
                | Cause::Failed
                | Cause::Signal
                | Cause::Oom
                | Cause::Hung
                | Cause::Timeout
                | Cause::Lost => self.recover(task, cause, is_its_own, unwatched).await,
            };
            if let Err(error) = ended {
                self.tell(What::Trouble(format!("task {}: {error}", task.id)));
            }
        }
    }

    async fn end_hold(
        &self,
        task: &Task,
        event: TaskEvent,
        unwatched: bool,
    ) -> Result<(), ActError> {
        if unwatched {
            return self
                .context
                .recoverer
                .interrupt_unwatched(task, event)
                .await;
        }
        let right = Right::Fence(task.lease.fence);
        self.context
            .engine
            .act(&task.id, right, event)
            .await
            .map(drop)
    }

    /// Passes a task to its strategy. Waits for the answer only if the agent continues with this
    /// task, so that others do not delay its restart.
    async fn recover(
        &self,
        task: &Task,
        cause: Cause,
        is_its_own: bool,
        unwatched: bool,
    ) -> Result<(), ActError> {
        let reason = self.why_interrupted(cause);
        let death = HolderDeath {
            agent: Some(self.spec.name.clone()),
            ..HolderDeath::of(task, cause, reason, clock::now())
        };
        let (recoverer, strategy) = self.recoverer_for(task);
        let strategies = recoverer.strategies();
        let name = strategy.as_deref().unwrap_or(strategies.name_for(task));
        let answers_at_once = strategies.is_own(name);
        let lost = LostTask {
            task: task.clone(),
            death,
            strategy,
            unwatched,
        };
        if is_its_own || answers_at_once {
            return lost
                .recover(&recoverer, &self.context.notices, &self.spec.name)
                .await;
        }
        let context = Arc::clone(&self.context);
        let agent = self.spec.name.clone();
        context.asks(&lost.task.id, true);
        tokio::spawn(async move {
            let recovered = lost.recover(&recoverer, &context.notices, &agent).await;
            context.asks(&lost.task.id, false);
            if let Err(error) = recovered {
                let text = format!("task {}: {error}", lost.task.id);
                context.notices.tell(&agent, What::Trouble(text));
            }
        });
        Ok(())
    }

    /// Recovers a task of this agent by its strategy and within its limits.
    pub(super) fn recoverer_for(&self, task: &Task) -> (Recoverer, Option<String>) {
        let (plan, strategy) = (&self.spec.plan, self.spec.strategy.as_deref());
        self.context.recoverer.for_agent(plan, strategy, task)
    }

    /// The plan's task, if it must be resumed although nobody holds it: it was released at this
    /// death by a supervisor that died before it recorded the death.
    /// An agent that deferred its own task, and has exited, is to be resumed for it. One that is started with
    /// tasks gets it again from the queue.
    async fn deferral_of_task(&self) -> Option<ReportedEnd> {
        let task = self
            .own_task()
            .await
            .filter(|_| !self.is_started_with_tasks())?;
        let is_deferred = task.status == TaskStatus::Deferred;
        is_deferred.then_some(ReportedEnd::Later(task.not_before))
    }

    async fn interrupted_task(&self) -> Option<String> {
        let id = self.spec.plan.task.as_ref()?;
        (self.task_status().await? == TaskStatus::Interrupted).then(|| id.to_string())
    }

    fn why_interrupted(&self, cause: Cause) -> String {
        format!(
            "attempt {} of {}: {cause}",
            self.agent.attempt_number, self.spec.name
        )
    }

    pub(super) fn ending(&self) -> Option<StopReason> {
        match self.agent.state {
            AgentState::Running { ending, .. } => ending,
            _ => None,
        }
    }

    /// Handles a killed shim. Its attempt may still run; then only the kernel reports its end. With
    /// `is_overdue` the shim was killed because it did not stop the attempt, which then gets no
    /// more time.
    async fn shim_gone(&mut self, is_overdue: bool) -> Result<(), SupervisionLost> {
        let shim = self.tree.shim().cloned();
        self.tree = Tree::None;
        // It may run under another supervisor; then nothing may be touched.
        self.prove_right().await?;
        let Some(life) = &mut self.life else {
            return Ok(());
        };
        let Some(watch) = life.watch.take() else {
            return self
                .lost("its shim was killed while it was being started")
                .await;
        };
        if process::is_alive(watch.process()) {
            let (tag, number) = (life.tag.clone(), life.number);
            if let Some(process) = life.process.clone() {
                self.tell(What::Adopted {
                    number,
                    process,
                    without_shim: true,
                });
            }
            self.tree = Tree::Orphan(Orphan { watch, tag });
            // In a fleet every attempt needs a shim that enforces the deadline. If the shim is
            // dead, its processes are already being stopped, even if the store is unreachable.
            let is_in_fleet = self.context.fleet.is_some();
            let is_dead = shim.is_none_or(|shim| !process::is_alive(&shim));
            if (self.ending().is_some() || is_in_fleet) && !(is_in_fleet && is_dead) {
                let ladder = if is_overdue {
                    Vec::new()
                } else {
                    self.ladder_in_time()
                };
                self.tree.stop(ladder).await;
            }
            return Ok(());
        }
        let how = watch.exit().unwrap_or(HowEnded::Unknown);
        self.leader_gone(how).await
    }

    /// The main process of an attempt without a shim has ended; stops what is left.
    async fn leader_gone(&mut self, how: HowEnded) -> Result<(), SupervisionLost> {
        self.tree = Tree::None;
        let Some(life) = &self.life else {
            return Ok(());
        };
        let (tag, number, lived) = (life.tag.clone(), life.number, life.lived());
        let process = life.process.clone();
        if let Some(record) = self.record_of(number, &tag) {
            return self.ended(record).await;
        }
        self.clear_leftovers().await?;
        let lived = Span::from_ms(u64::try_from(lived.as_millis()).unwrap_or(u64::MAX));
        let told = match how {
            HowEnded::Unknown => "its shim was killed too, and the kernel does not tell",
            HowEnded::Code(_) | HowEnded::Signal(_) => "its shim was killed too",
        };
        let known = self
            .context
            .engine
            .store()
            .attempt(&tag)
            .await
            .ok()
            .flatten();
        let shim = known.and_then(|attempt| attempt.shim);
        let unproved = self.what_may_be_left(process.as_ref(), shim.as_ref()).await;
        let note = Some(format!("{told}{}", unproved.unwrap_or_default()));
        self.ended(ExitRecord {
            process,
            how,
            note,
            lived,
            ..bare_record(tag, number)
        })
        .await
    }

    /// Records the death of an attempt whose end is unknown.
    async fn lost(&mut self, note: &str) -> Result<(), SupervisionLost> {
        let Some(life) = &self.life else {
            return Ok(());
        };
        let (tag, number) = (life.tag.clone(), life.number);
        self.clear_leftovers().await?;
        let unproved = self.what_may_be_left(None, None).await.unwrap_or_default();
        let record = ExitRecord {
            note: Some(format!("{note}{unproved}")),
            ..bare_record(tag, number)
        };
        self.ended(record).await
    }

    /// Handles processes that may be left of an attempt without a shim. If it has a cgroup, they
    /// are stopped there. Otherwise the note says that this cannot be proved and lists processes of
    /// its session or group. Those are not signalled, because only a number connects them to the
    /// attempt.
    pub(super) async fn what_may_be_left(
        &self,
        leader: Option<&ProcessIdentity>,
        shim: Option<&ProcessIdentity>,
    ) -> Option<String> {
        if self.context.cgroups.is_some() {
            self.clear_cgroups().await;
            return None;
        }
        let session = shim
            .filter(|shim| !process::is_alive(shim))
            .map(|shim| shim.pid);
        let group = leader.map(|leader| leader.pid);
        let look = move || process::in_session_or_group(session, group);
        let left = threads::run(look).await.unwrap_or_default();
        let mut text = "; without a cgroup its tree cannot be proved empty".to_owned();
        if !left.is_empty() {
            let pids: Vec<String> = left.iter().take(PIDS_MAX).map(u32::to_string).collect();
            text += &format!(", pids that may be left of it: {}", pids.join(", "));
        }
        Some(text)
    }

    /// The exit record that the shim wrote for an attempt.
    pub(super) fn record_of(&self, number: u32, tag: &AttemptTag) -> Option<ExitRecord> {
        record::read(&self.folder, number, tag)
    }
}

/// A task whose holder died.
struct LostTask {
    task: Task,
    death: HolderDeath,
    strategy: Option<String>,
    /// Its supervisor died too.
    unwatched: bool,
}

impl LostTask {
    async fn recover(
        &self,
        recoverer: &Recoverer,
        notices: &Notices,
        agent: &AgentName,
    ) -> Result<(), ActError> {
        let (task, death, strategy) = (&self.task, self.death.clone(), self.strategy.as_deref());
        let recovered = if self.unwatched {
            recoverer.recover_unwatched(task, death, strategy).await
        } else {
            let right = Right::Fence(task.lease.fence);
            recoverer.recover(task, right, death, strategy).await
        };
        if let Some(alert) = recovered?.alert {
            notices.tell(agent, What::Alert(alert));
        }
        Ok(())
    }
}

/// An exit record with only the end.
pub(super) fn bare_record(tag: AttemptTag, number: u32) -> ExitRecord {
    ExitRecord {
        tag,
        number,
        process: None,
        how: HowEnded::Unknown,
        note: None,
        at: clock::now(),
        lived: Span::ZERO,
        memory_max_kib: None,
        cpu_ms: None,
        oom: false,
        leftovers: 0,
        survivors: 0,
        lease_ended: false,
        exhausted: false,
    }
}
