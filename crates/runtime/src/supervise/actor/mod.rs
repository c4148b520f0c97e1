//! The actor of one agent: turns what happens into events, has `core::agent` decide, commits and
//! acts.
//!
//! Contains no rules. Each agent has a task of its own, so that a slow disk or a slow stop of one
//! agent does not delay others.

mod acquire;
mod brief;
mod death;
mod launch;
mod lease_guard;
mod ledger;
mod live_attempt;
mod open_work;
mod transcript;
mod tree;
mod unrecorded;
mod usage;
mod work;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use relight_core::agent::brief::DirtyFiles;
use relight_core::agent::change::AgentChange;
use relight_core::agent::decide::{
    AgentDecision, AgentDecisionInput, AgentEffect, AgentEvent, decide, decide_held,
};
use relight_core::agent::overspent::decide_overspent;
use relight_core::agent::{
    Agent, AgentState, AgentStateKind, Attempt, Pause, StopReason, Stopper, Takes,
};
use relight_core::ids::{NodeName, TaskId};
use relight_core::lease::Fence;
use relight_core::status::TaskStatus;
use relight_core::task::Task;
use relight_core::time::Time;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

pub(super) use self::acquire::acquire;
pub use self::acquire::{AcquireError, AcquireMode};
use self::brief::{OpenBrief, changes};
use self::launch::Postponed;
use self::ledger::Ledger;
use self::live_attempt::LiveAttempt;
use self::tree::{LOOK_EVERY, Tree, TreeEvent};
use super::context::{NodeRight, SupervisorContext};
use super::folder::AgentFolder;
use super::heartbeats::BeatSlot;
use super::notices::What;
use super::notify::{NotifySign, NotifySocket};
use super::oom::Oom;
use super::program::NotStarted;
use super::shim::client;
use super::spec::AgentSpec;
use crate::fleet::Deadline;
use crate::hooks::ToolCall;
use crate::os::{clock, process, random};
use crate::presets::Rung;

/// Messages to an actor.
#[derive(Debug)]
pub(super) enum Mail {
    /// Start. Answered once an attempt runs, or it is clear that none will.
    Start(oneshot::Sender<StateChangeResult>),
    /// Stop the attempt and start a new one.
    Restart(oneshot::Sender<StateChangeResult>),
    /// Stop and stay stopped. Answered when no process is left.
    Stop(Stopper, oneshot::Sender<StateChangeResult>),
    /// Kill what is being stopped, without waiting for the grace period.
    KillNow,
    /// Leave the agent running and end; the next supervisor adopts it.
    Leave(oneshot::Sender<()>),
    /// Release the agent and end if it is at rest and no process is left. Answers whether it did.
    Release(oneshot::Sender<bool>),
    /// Its log has grown.
    Grew,
    /// Use this plan from the next attempt on.
    Replan(Box<AgentSpec>),
    /// Resume: it is its turn, or a drain ended.
    Wake,
    /// Work on this task of the queue.
    Work(TaskId),
    /// The budget of the store is spent.
    Overspent,
}

/// Result of a start, restart or stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateChangeResult {
    /// The state before.
    pub previous: AgentStateKind,
    /// The state now.
    pub state: AgentStateKind,
    /// The task whose attempt was ended by this.
    pub task_cancelled: Option<TaskId>,
    /// Why the wanted state was not reached.
    pub problem: Option<String>,
    /// The command to type next.
    pub hint: Option<String>,
    /// Its task has ended: a retry does not help.
    pub has_ended: bool,
}

/// The live view of a supervised agent.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentSnapshot {
    /// The agent's record.
    pub agent: Agent,
    /// Time of the last sign of life, by the wall clock.
    pub last_sign: Option<Time>,
    /// It declared that it waits until then.
    pub waiting_until: Option<Time>,
    /// It waits for work in a Relight command.
    pub waits_for_work: bool,
    /// `starting`, `working` or `waiting`; none without a live attempt.
    pub phase: Option<&'static str>,
    /// Its last `STATUS=` text.
    pub status: Option<String>,
    /// Nothing happens without a new message.
    pub at_rest: bool,
    /// The last attempt that ended.
    pub last_attempt: Option<Attempt>,
}

/// Why supervision of an agent ended unexpectedly.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SupervisionLost {
    /// Another supervisor has it now.
    #[error("agent {0} has another supervisor now")]
    Fenced(relight_core::ids::AgentName),
    /// The lease of this node has expired, or nearly.
    #[error("agent {0} is given up: the lease of this node has nearly run out")]
    Node(relight_core::ids::AgentName),
}

struct Waiter {
    wanted: WantedState,
    previous: AgentStateKind,
    /// The attempt at that time.
    attempt: u32,
    task_cancelled: Option<TaskId>,
    answer: oneshot::Sender<StateChangeResult>,
}

#[derive(PartialEq, Eq, Clone, Copy)]
enum WantedState {
    Running,
    Rest,
}

pub(super) struct Actor {
    context: Arc<SupervisorContext>,
    spec: AgentSpec,
    folder: AgentFolder,
    agent: Agent,
    fence: Fence,
    ledger: Ledger,
    tree: Tree,
    life: Option<LiveAttempt>,
    notify: Option<NotifySocket>,
    /// Deadline of the current wait in boot time, and the wall-clock time it was requested for.
    due: Option<(u64, Time)>,
    /// The last attempt that ended, for the successor's brief.
    last: Option<Attempt>,
    /// Git's HEAD when that attempt began.
    head: Option<String>,
    /// The kernel's OOM kill count when it began.
    oom: Oom,
    /// News about its session from its output: an id, or that the session is gone.
    captured_session: Option<Option<String>>,
    at_rest: bool,
    /// Why nothing may be started now.
    holds: Option<Pause>,
    /// The launch that the host had no resources for.
    postponed: Option<Postponed>,
    /// The last wait for resources, or for its task.
    room_pause: Duration,
    /// When the lease of another on its task was taken, which was told since its last attempt.
    task_held: Option<Time>,
    /// An attempt has got our standard input.
    has_passed_input: bool,
    /// Its task was begun by another agent.
    takes_over: bool,
    /// Description of the previous holder of its task.
    handed_over: Option<String>,
    /// Calls of its transcript without a result, until an attempt was told.
    open_calls: Vec<ToolCall>,
    leaving: bool,
    waiters: Vec<Waiter>,
    /// Why the newest attempt never ran, if that was since the newest waiter came.
    not_started: Option<String>,
    /// Events caused by effects, oldest first.
    events: VecDeque<AgentEvent>,
    /// The running check of the loop's condition; dropping it cancels the check.
    asked: JoinSet<Result<bool, NotStarted>>,
    /// The live attempt's brief, until git has answered.
    open_brief: Option<OpenBrief>,
    /// Heartbeats received over HTTP.
    beats: Arc<BeatSlot>,
    mail: mpsc::UnboundedReceiver<Mail>,
    /// Received while the store was being written, oldest first.
    delayed_mail: VecDeque<Mail>,
    delayed_events: VecDeque<TreeEvent>,
    view: watch::Sender<AgentSnapshot>,
    /// The node lease under which it was acquired.
    node_right: NodeRight,
    /// The node that held it before.
    agent_was_on: Option<NodeName>,
}

/// Minimum time between two rounds. Success costs no restart budget, so only this limits the rate.
const ROUND_MIN: Duration = Duration::from_millis(100);

/// Why an agent was not given back.
const KEPT: &str = "something of it lives: it is kept for as long as the lease of its node lasts";

enum ActorEvent {
    Tree(TreeEvent),
    Mail(Option<Mail>),
    Signs(Vec<NotifySign>),
    Timer,
    Asked(Result<bool, NotStarted>),
    Changes(Option<DirtyFiles>),
    Lost(SupervisionLost),
    LeaderEnded,
    Room,
}

impl Actor {
    /// Runs until the agent is left or released, or another supervisor has it.
    pub(super) async fn run(mut self) -> Result<(), SupervisionLost> {
        // What was adopted has to end too.
        if self.is_stopped_by_budget() {
            self.events.push_back(AgentEvent::Overspent);
        }
        let ended = self.supervise().await;
        // Before the result is visible: the view then shows that supervision ended.
        self.mail.close();
        match ended {
            Ok(()) => {}
            Err(SupervisionLost::Fenced(_)) if self.context.still_has(self.node_right) => {
                self.tell(What::Lost);
            }
            Err(SupervisionLost::Fenced(_) | SupervisionLost::Node(_)) => self.tell(What::NodeLost),
        }
        ended
    }

    async fn supervise(&mut self) -> Result<(), SupervisionLost> {
        loop {
            self.keep_captured().await?;
            self.note_usage().await?;
            while let Some(event) = self.events.pop_front() {
                self.happen(event).await?;
            }
            self.show();
            self.answer_waiters().await?;
            if self.leaving {
                return Ok(());
            }
            match self.next().await {
                ActorEvent::Tree(event) => self.tree_says(event).await?,
                ActorEvent::Mail(Some(mail)) => self.open(mail).await?,
                ActorEvent::Mail(None) => return Ok(()),
                ActorEvent::Signs(signs) => self.hear(signs),
                ActorEvent::Timer => self.look_at_the_clock().await,
                ActorEvent::Lost(lost) => return Err(lost),
                ActorEvent::Asked(answer) => self.answered(answer),
                ActorEvent::Changes(dirty) => self.complete_brief(dirty),
                ActorEvent::Room => {
                    self.prove_term()?;
                    self.launch_postponed().await?;
                }
                // Its shim reports this too, unless the shim was stopped.
                ActorEvent::LeaderEnded => self.tree.expect_end(launch::LEFTOVER_GRACE, LOOK_EVERY),
            }
        }
    }

    async fn next(&mut self) -> ActorEvent {
        if let Some(event) = self.delayed_events.pop_front() {
            return ActorEvent::Tree(event);
        }
        if let Some(mail) = self.delayed_mail.pop_front() {
            return ActorEvent::Mail(Some(mail));
        }
        let look = self.life.as_ref().and_then(LiveAttempt::next_look);
        let due = self.due.map(|(at_ms, _)| at_ms);
        tokio::select! {
            event = self.tree.next() => ActorEvent::Tree(event),
            mail = self.mail.recv() => ActorEvent::Mail(mail),
            signs = hear(self.notify.as_ref()) => ActorEvent::Signs(signs),
            signs = self.beats.heard() => ActorEvent::Signs(signs),
            () = wait_for(look) => ActorEvent::Timer,
            () = wait_for(self.postponed.as_ref().map(|one| one.at)) => ActorEvent::Room,
            () = wait_until_due(due) => ActorEvent::Timer,
            answer = asked(&mut self.asked) => ActorEvent::Asked(answer),
            dirty = changes(self.open_brief.as_mut()) => ActorEvent::Changes(dirty),
            lost = self.ledger.lost() => ActorEvent::Lost(lost),
            () = leader_ended(self.life.as_mut()) => ActorEvent::LeaderEnded,
        }
    }

    async fn open(&mut self, mail: Mail) -> Result<(), SupervisionLost> {
        match mail {
            Mail::Start(answer) | Mail::Restart(answer) if !self.spec.can_start() => {
                let _ = answer.send(self.refused_start());
            }
            Mail::Start(answer) => {
                self.retry_failed_task().await;
                self.holds = None;
                self.await_state(WantedState::Running, answer);
                self.at_rest = false;
                self.events.push_back(AgentEvent::Start);
            }
            Mail::Restart(answer) => {
                self.retry_failed_task().await;
                if let Some(refused) = self.refused_restart().await {
                    let _ = answer.send(refused);
                    return Ok(());
                }
                self.holds = None;
                self.await_state(WantedState::Running, answer);
                self.at_rest = false;
                self.events.push_back(match self.agent.state {
                    // The later request wins; what is being stopped is started after its end.
                    AgentState::Running {
                        ending: Some(StopReason::Stop | StopReason::Budget),
                        ..
                    } => AgentEvent::Start,
                    AgentState::Running { .. } => AgentEvent::End(StopReason::Restart),
                    _ => AgentEvent::Start,
                });
            }
            Mail::Stop(by, answer) => {
                self.await_state(WantedState::Rest, answer);
                self.events.push_back(AgentEvent::Stop(by));
            }
            Mail::KillNow => self.kill_now().await,
            Mail::Leave(done) => {
                self.give_back().await?;
                self.leaving = true;
                let _ = done.send(());
            }
            Mail::Release(answer) => {
                let _ = answer.send(self.release().await?);
            }
            Mail::Grew => self.output_grew(),
            Mail::Replan(spec) => self.replan(*spec).await?,
            Mail::Wake => self.woken(),
            Mail::Work(task) => self.given(task).await?,
            Mail::Overspent => self.events.push_back(AgentEvent::Overspent),
        }
        Ok(())
    }

    /// The answer for an agent that only its own command can start.
    fn refused_start(&self) -> StateChangeResult {
        let (name, state) = (&self.spec.name, self.agent.state.kind());
        let start = self.agent.command_to_start(None);
        StateChangeResult {
            previous: state,
            state,
            task_cancelled: None,
            problem: Some(format!(
                "agent {name} is not in relight.toml, so it is not started here"
            )),
            hint: Some(format!("relight stop {name} stops it; then: {start}")),
            has_ended: false,
        }
    }

    /// The answer where the next attempt would not begin for the task of the live one, which goes on then.
    async fn refused_restart(&self) -> Option<StateChangeResult> {
        let runs = matches!(self.agent.state, AgentState::Running { ending: None, .. });
        // One that is started with tasks waits for the next one.
        if !runs || self.is_started_with_tasks() {
            return None;
        }
        let task = self.own_task().await?;
        let (why, hint) = self.kept_from_start_by(&task)?;
        let state = self.agent.state.kind();
        Some(StateChangeResult {
            previous: state,
            state,
            task_cancelled: None,
            problem: Some(format!("agent {} is not restarted: {why}", self.spec.name)),
            hint: Some(hint),
            has_ended: task.status.is_terminal(),
        })
    }

    /// Why no attempt begins for this task, and what to do about it; none when one may.
    fn kept_from_start_by(&self, task: &Task) -> Option<(String, String)> {
        let Task { id, status, .. } = task;
        let hint = match status {
            status if status.waits_for_person() => self.command_after(task),
            status if status.is_terminal() => {
                "new work needs a new task; name that one as the agent's".to_owned()
            }
            _ => return None,
        };
        Some((format!("its task {id} is {status}"), hint))
    }

    fn await_state(&mut self, wanted: WantedState, answer: oneshot::Sender<StateChangeResult>) {
        let previous = self.agent.state.kind();
        self.not_started = None;
        let task = self.spec.plan.task.clone();
        let task_cancelled = task.filter(|_| previous == AgentStateKind::Running);
        self.waiters.push(Waiter {
            wanted,
            previous,
            attempt: self.agent.attempt_number,
            task_cancelled,
            answer,
        });
    }

    /// Answers requests that are fulfilled or cannot be.
    async fn answer_waiters(&mut self) -> Result<(), SupervisionLost> {
        if self.waiters.is_empty() {
            return Ok(());
        }
        self.settle().await?;
        let runs = matches!(self.agent.state, AgentState::Running { ending: None, .. })
            && self.life.as_ref().is_some_and(LiveAttempt::has_started);
        let rests = self.at_rest;
        // It starts as soon as there is work.
        let is_idle = rests && self.agent.is_idle();
        let task = if rests && !runs {
            self.own_task().await
        } else {
            None
        };
        let name = &self.spec.name;
        let kept = task.as_ref().and_then(|task| self.kept_from_start_by(task));
        let not_started = self.not_started.take();
        let has_not_started = not_started.is_some();
        let again = || format!("correct that; relight ps {name} shows when it is tried again");
        let (why, hint) = match kept.or_else(|| not_started.map(|why| (why, again()))) {
            Some((why, hint)) => (format!(": {why}"), hint),
            None => (String::new(), format!("relight deaths {name} says why")),
        };
        for waiter in std::mem::take(&mut self.waiters) {
            let met = match waiter.wanted {
                WantedState::Running => runs || is_idle,
                WantedState::Rest => rests,
            };
            let failed = match waiter.wanted {
                WantedState::Running => (rests || has_not_started) && !runs && !is_idle,
                // A later request replaced this one.
                WantedState::Rest => runs && !rests,
            };
            if !met && !failed {
                self.waiters.push(waiter);
                continue;
            }
            let verb = if waiter.wanted == WantedState::Running {
                "did not start"
            } else {
                "was started again"
            };
            let problem = failed.then(|| format!("agent {name} {verb}{why}"));
            // The attempt of before goes on: nothing was interrupted.
            let goes_on = runs && waiter.attempt == self.agent.attempt_number;
            let is_in = |is: fn(TaskStatus) -> bool| task.as_ref().is_some_and(|it| is(it.status));
            let has_ended = is_in(TaskStatus::is_terminal);
            let is_over = has_ended || is_in(TaskStatus::is_paused);
            let _ = waiter.answer.send(StateChangeResult {
                previous: waiter.previous,
                state: self.agent.state.kind(),
                task_cancelled: waiter.task_cancelled.filter(|_| !goes_on && !is_over),
                hint: problem.is_some().then(|| hint.clone()),
                has_ended,
                problem,
            });
        }
        Ok(())
    }

    /// Decides, commits and acts. An attempt whose tag was allocated ahead is started before the
    /// commit: the commit that allocated the tag explains it, so that a restart does not wait for
    /// the disk.
    async fn happen(&mut self, event: AgentEvent) -> Result<(), SupervisionLost> {
        let mut decision_input = self.decision_input().await;
        if event == AgentEvent::Due
            && let Some((_, at)) = self.due.take()
        {
            // Use a clock that does not jump.
            decision_input.now = decision_input.now.max(at);
        }
        let AgentDecision { changes, effects } = self.decide_by_mark(event, decision_input).await;
        let ahead = effects
            .iter()
            .any(|e| matches!(e, AgentEffect::Spawn { at_once: true, .. }));
        // Only right after a death. Anything that waited can also wait for the disk, and the next
        // supervisor looks for an unrecorded successor only of a live attempt.
        let is_restart = matches!(self.agent.state, AgentState::Running { .. });
        let ahead = ahead && is_restart && self.spec.plan.task.is_none() && self.tree.is_ready();
        if ahead {
            // The allocation of the tag must be on disk. It is, unless the attempt died within
            // moments.
            self.settle().await?;
            self.act_on_spawns(&effects, &changes).await?;
            self.commit_deferred(changes);
        } else {
            self.commit_deferred(changes);
            self.settle().await?;
        }
        for effect in effects {
            match effect {
                AgentEffect::Spawn { .. } if ahead => {}
                effect => self.act(effect).await?,
            }
        }
        Ok(())
    }

    async fn act_on_spawns(
        &mut self,
        effects: &[AgentEffect],
        changes: &[AgentChange],
    ) -> Result<(), SupervisionLost> {
        self.remember_end(changes);
        for change in changes {
            // The tag of the next attempt is known, so its cgroup is prepared too.
            if let AgentChange::Reserved(tag) = change {
                self.agent.next_attempt = Some(tag.clone());
            }
        }
        for effect in effects {
            if let AgentEffect::Spawn { .. } = effect {
                self.act(effect.clone()).await?;
            }
        }
        Ok(())
    }

    async fn act(&mut self, effect: AgentEffect) -> Result<(), SupervisionLost> {
        match effect {
            AgentEffect::Spawn { number, tag, .. } => {
                self.prove_term()?;
                self.launch(number, tag).await?;
            }
            AgentEffect::StopTree(ending) => self.stop_tree(ending).await,
            AgentEffect::WaitUntil(at) => {
                let is_known = self.due.is_some_and(|(_, known)| known == at);
                let wait_ms = at.since(clock::now()).as_ms();
                self.due = Some((clock::boot_ms().saturating_add(wait_ms), at));
                let deferred = matches!(
                    self.agent.state,
                    AgentState::Suspended {
                        why: Pause::Deferred,
                        ..
                    }
                );
                // May have been reported at its death; do not repeat it when it is acquired.
                if !is_known {
                    self.tell(What::Waiting {
                        until: at,
                        deferred,
                    });
                }
            }
            AgentEffect::AskUntil => self.ask_until(),
            // Alerts are delivered from the journal.
            AgentEffect::Alert(text) => self.tell(What::Alert(text)),
            AgentEffect::AtRest => {
                let is_news = !std::mem::replace(&mut self.at_rest, true);
                self.due = None;
                self.asked = JoinSet::new();
                self.tree.dismiss().await;
                self.clear_cgroups().await;
                if is_news && matches!(self.agent.state, AgentState::Terminated { .. }) {
                    self.leave_tasks().await;
                }
                if is_news
                    && matches!(
                        self.agent.state,
                        AgentState::Suspended {
                            why: Pause::Task,
                            ..
                        }
                    )
                    && let Some(task) = self.own_task().await
                {
                    let command = self.command_after(&task);
                    self.tell(What::TaskWaits {
                        task: task.id,
                        status: task.status,
                        command,
                    });
                }
                self.tell(What::AtRest);
                self.show();
                self.context.bell.notify_one();
            }
        }
        Ok(())
    }

    /// Commits; durable on return.
    async fn commit(&mut self, changes: Vec<AgentChange>) -> Result<(), SupervisionLost> {
        self.commit_deferred(changes);
        self.settle().await
    }

    /// Commits without waiting. Durable before any later commit.
    fn commit_deferred(&mut self, changes: Vec<AgentChange>) {
        if changes.is_empty() {
            return;
        }
        self.remember_end(&changes);
        let at = clock::now();
        for change in &changes {
            change.apply(&mut self.agent, at);
            if let AgentChange::Given(task) = change {
                self.spec.plan.task.clone_from(task);
            }
        }
        self.ledger.hand_in(changes, at);
    }

    /// Keeps the end of an attempt for its successor's brief and sends a notice.
    fn remember_end(&mut self, changes: &[AgentChange]) {
        for change in changes {
            let AgentChange::Ended { number, ended, .. } = change else {
                continue;
            };
            if self
                .last
                .as_ref()
                .is_some_and(|last| last.number == *number && last.ended.is_some())
            {
                continue;
            }
            // After an attempt that never ran, the one before it is what is resumed.
            if self
                .last
                .as_ref()
                .is_some_and(|last| last.number == *number)
            {
                let begun = self.last.take();
                self.last = change.apply_to_attempt(&self.spec.name, begun, ended.death.at);
            }
            self.tell(What::Died {
                number: *number,
                ended: (**ended).clone(),
            });
        }
    }

    /// Releases the lease. Where another supervisor would start the agent at once, the lease is
    /// kept while any process is left; it then ends with the node's lease.
    async fn give_back(&mut self) -> Result<(), SupervisionLost> {
        if self.context.is_one_of_many() && self.is_anything_left().await {
            self.tree.leave();
            self.tell(What::Trouble(KEPT.to_owned()));
            return Ok(());
        }
        self.tree.leave();
        self.commit(vec![AgentChange::LeaseEnded]).await
    }

    /// Releases the lease if at rest. An agent that was told to start something has started it by
    /// now and stays.
    async fn release(&mut self) -> Result<bool, SupervisionLost> {
        if !self.at_rest || self.is_anything_left().await {
            return Ok(false);
        }
        self.commit(vec![AgentChange::LeaseEnded]).await?;
        self.leaving = true;
        Ok(true)
    }

    /// Whether a process of the agent is left on this machine, judged by its lock.
    async fn is_anything_left(&mut self) -> bool {
        if self.life.is_some() {
            return true;
        }
        self.tree.dismiss().await;
        client::is_lock_held(&self.folder)
    }

    /// Replaces the plan. A task assigned by the queue is kept.
    async fn replan(&mut self, mut spec: AgentSpec) -> Result<(), SupervisionLost> {
        if spec.plan.takes == Takes::Start {
            spec.plan.task.clone_from(&self.spec.plan.task);
        }
        if spec.can_start() && !self.spec.can_start() {
            self.holds = None;
        }
        let differs = spec.differs_from(&self.spec);
        let changed = spec.plan != self.spec.plan;
        self.spec = spec;
        if changed {
            let plan = Box::new(self.spec.plan.clone());
            self.commit(vec![AgentChange::Planned(plan)]).await?;
        }
        if differs {
            self.end_cooldown().await?;
        }
        Ok(())
    }

    /// Starts the check of the loop's condition in a task of its own, because it may take long.
    fn ask_until(&mut self) {
        self.tell(What::Round {
            done: self.agent.iteration,
        });
        let ended = self.last.as_ref().and_then(|last| last.ended.as_ref());
        let lived = ended.map_or(ROUND_MIN, |ended| ended.death.lived.as_duration());
        let rest = ROUND_MIN.saturating_sub(lived);
        let until = self.spec.until.clone();
        let environment = self.environment_of_until();
        let folder = self.spec.plan.folder.clone();
        self.asked = JoinSet::new();
        self.asked.spawn(async move {
            tokio::time::sleep(rest).await;
            match until {
                Some(until) => launch::holds(until, environment, folder).await,
                None => Ok(false),
            }
        });
    }

    fn answered(&mut self, answer: Result<bool, NotStarted>) {
        // An agent that came to rest meanwhile checks again when it is woken.
        if self.at_rest {
            return;
        }
        match answer {
            Ok(finished) => {
                if self.spec.until.is_some() {
                    self.tell(What::Asked { holds: finished });
                }
                self.events.push_back(AgentEvent::RoundOver { finished });
            }
            Err(error) => {
                let text = format!("the loop ends, for its condition cannot be asked: {error}");
                self.tell(What::Trouble(text));
                self.events.push_back(AgentEvent::CannotAsk);
            }
        }
    }

    fn tell(&self, what: What) {
        self.context.notices.tell(&self.spec.name, what);
    }

    fn show(&self) {
        let life = self.life.as_ref();
        let view = AgentSnapshot {
            agent: self.agent.clone(),
            last_sign: life.map(LiveAttempt::last_sign),
            waiting_until: life.and_then(|life| life.waits.last()),
            waits_for_work: life.is_some_and(LiveAttempt::waits_for_work),
            phase: life.map(LiveAttempt::phase),
            status: life.and_then(|life| life.status.clone()),
            at_rest: self.at_rest,
            last_attempt: self.last.clone(),
        };
        self.view.send_if_modified(|shown| {
            let changed = *shown != view;
            *shown = view;
            changed
        });
    }

    async fn stop_tree(&mut self, ending: StopReason) {
        let ladder = self.ladder();
        if matches!(
            ending,
            StopReason::Hung | StopReason::Timeout | StopReason::Incurable | StopReason::Budget
        ) {
            let has_asked = self
                .life
                .as_ref()
                .is_some_and(|life| life.asked_for_restart);
            self.tell(match ending {
                StopReason::Hung if has_asked => What::AskedForRestart,
                StopReason::Hung => What::Hung {
                    silent_ms: self.silent_ms(),
                },
                StopReason::Incurable => What::Incurable(self.why_incurable()),
                StopReason::Budget => What::Incurable(self.why_overspent()),
                _ => What::TimedOut,
            });
        }
        if !self.give_up_postponed().await {
            self.tree.stop(ladder).await;
        }
    }

    /// Kills what is being stopped.
    async fn kill_now(&mut self) {
        if matches!(
            self.agent.state,
            AgentState::Running {
                ending: Some(_),
                ..
            }
        ) {
            self.tree.stop(Vec::new()).await;
        }
    }

    fn ladder(&self) -> Vec<Rung> {
        let grace = self.spec.plan.grace;
        self.spec
            .ladder
            .clone()
            .unwrap_or_else(|| self.spec.preset.ladder(grace))
    }
}

/// Resolves once, when the leader of the live attempt has ended.
async fn leader_ended(life: Option<&mut LiveAttempt>) {
    let Some(life) = life.filter(|life| !life.has_leader_ended) else {
        return std::future::pending().await;
    };
    let has_ended = match (&life.watch, &life.process) {
        (Some(watch), _) => watch.gone().await.is_ok(),
        // It died before it could be watched.
        (None, Some(process)) => !process::is_alive(process),
        (None, None) => false,
    };
    match has_ended {
        true => life.has_leader_ended = true,
        // If it cannot be watched, its shim reports the end.
        false => std::future::pending().await,
    }
}

async fn hear(socket: Option<&NotifySocket>) -> Vec<NotifySign> {
    match socket {
        // An unreadable socket delivers nothing.
        Some(socket) => match socket.recv().await {
            Ok(signs) => signs,
            Err(_) => std::future::pending().await,
        },
        None => std::future::pending().await,
    }
}

async fn wait_for(timer: Option<Instant>) {
    match timer {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Time in which the host slept counts.
async fn wait_until_due(due: Option<u64>) {
    match due {
        Some(at_ms) => clock::until_boot_ms(at_ms).await,
        None => std::future::pending().await,
    }
}

async fn asked(question: &mut JoinSet<Result<bool, NotStarted>>) -> Result<bool, NotStarted> {
    match question.join_next().await {
        // An aborted check counts as not fulfilled.
        Some(answer) => answer.unwrap_or(Ok(false)),
        None => std::future::pending().await,
    }
}

impl Actor {
    /// Fails when the node's lease has nearly expired, by a clock that also runs while this process
    /// is frozen.
    fn prove_term(&self) -> Result<(), SupervisionLost> {
        match self.context.still_has(self.node_right) {
            true => Ok(()),
            false => Err(SupervisionLost::Node(self.spec.name.clone())),
        }
    }

    /// Until when an attempt may run without renewal; unlimited outside of a fleet. Fails under
    /// another lease.
    fn deadline(&self) -> Result<Option<Deadline>, SupervisionLost> {
        let Some(fleet) = &self.context.fleet else {
            return Ok(None);
        };
        self.prove_term()?;
        let term = fleet
            .term()
            .ok_or_else(|| SupervisionLost::Node(self.spec.name.clone()))?;
        Ok(Some(term.deadline(self.ladder())))
    }

    /// The commands that let its task and then the agent continue.
    fn command_after(&self, task: &Task) -> String {
        let start = self.agent.command_to_start(None);
        match task.status {
            // Once it is done there is nothing to start.
            TaskStatus::InReview => task.command_to_resume(),
            status if status.waits_for_person() => {
                format!("{}, then {start}", task.command_to_resume())
            }
            _ => start,
        }
    }

    /// Decides with the current drain flag and what is spent by now, not what was known of them,
    /// where an attempt would begin. A drain waits only for attempts that already run.
    async fn decide_by_mark(
        &self,
        event: AgentEvent,
        decision_input: AgentDecisionInput,
    ) -> AgentDecision {
        let draining = self.context.is_draining();
        let is_spent = self.context.budget.overspent().is_some();
        let decision = self.decide(event.clone(), decision_input);
        let begins = decision
            .effects
            .iter()
            .any(|e| matches!(e, AgentEffect::Spawn { .. }));
        if !begins {
            return decision;
        }
        let drains = !draining && self.context.read_drain().await.unwrap_or(false);
        let overspent = self.context.read_budget().await.unwrap_or_default();
        match drains || overspent.is_some() != is_spent {
            true => self.decide(event, decision_input),
            false => decision,
        }
    }

    fn decide(&self, event: AgentEvent, decision_input: AgentDecisionInput) -> AgentDecision {
        let draining = self.context.is_draining().then_some(Pause::Draining);
        let overspent = self.context.budget.overspent();
        if let Some(overspent) = overspent
            && (self.holds.is_none() || event == AgentEvent::Overspent)
        {
            return decide_overspent(&self.agent, event, decision_input, &overspent);
        }
        match self.holds.or(draining) {
            Some(why) => decide_held(&self.agent, event, decision_input, why),
            None => decide(&self.agent, event, decision_input),
        }
    }

    async fn decision_input(&self) -> AgentDecisionInput {
        let chance = random::number();
        let jitter = random::fraction();
        AgentDecisionInput {
            now: clock::now(),
            jitter,
            chance,
            task: self.task_status().await,
        }
    }
}
