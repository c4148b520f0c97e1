//! One agent under supervision: turns what happens into events, has them decided, commits, and acts.
//!
//! Contains no rule: those are in `core::agent`. One task a agent, so that a slow disk or a slow
//! death of one holds up no other.

mod acquire;
mod brief;
mod death;
mod guard;
mod launch;
mod ledger;
mod live_attempt;
mod open_work;
mod tree;
mod work;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use relight_core::agent::brief::DirtyFiles;
use relight_core::agent::change::AgentChange;
use relight_core::agent::decide::{
    AgentDecision, AgentDecisionInput, AgentEffect, AgentEvent, decide, decide_held,
};
use relight_core::agent::{
    Agent, AgentState, AgentStateKind, Attempt, Pause, StopReason, Stopper, Takes,
};
use relight_core::ids::{NodeName, TaskId};
use relight_core::lease::Fence;
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
use super::notice::What;
use super::notify::{NotifySign, NotifySocket};
use super::oom::Oom;
use super::program::NotStarted;
use super::shim::client;
use super::shim::wire::{Deadline, Rung};
use super::spec::AgentSpec;
use crate::os::{clock, process, random};

/// What is wanted of an agent.
#[derive(Debug)]
pub(super) enum Mail {
    /// Run; answered once an attempt lives, or it is clear that none will.
    Start(oneshot::Sender<StateChangeResult>),
    /// End what runs, and run again.
    Restart(oneshot::Sender<StateChangeResult>),
    /// End, and stay so; answered when nothing lives any more.
    Stop(Stopper, oneshot::Sender<StateChangeResult>),
    /// End at once what is being ended with patience.
    KillNow,
    /// Let the agent live, and go: the next supervisor adopts it.
    Leave(oneshot::Sender<()>),
    /// Give the agent back and go, but only when it rests and nothing of it lives; answered whether so.
    Release(oneshot::Sender<bool>),
    /// Its log has grown.
    Grew,
    /// It is asked to be something else from its next attempt on.
    Replan(Box<AgentSpec>),
    /// What it waited for has come: its turn, or the end of a drain.
    Wake,
    /// A task of the queue was given to it.
    Work(TaskId),
}

/// What became of a wish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateChangeResult {
    /// The state before.
    pub previous: AgentStateKind,
    /// The state now.
    pub state: AgentStateKind,
    /// A task that was taken from the agent by this.
    pub task_cancelled: Option<TaskId>,
    /// What stands in the way, when it did not come to what was wanted.
    pub problem: Option<String>,
    /// What to type about that.
    pub hint: Option<String>,
    /// Its task has ended: trying again changes nothing.
    pub has_ended: bool,
}

/// What others see of an agent that is supervised here.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentView {
    /// As the store has it.
    pub agent: Agent,
    /// When the last sign of life came, by the wall clock.
    pub last_sign: Option<Time>,
    /// It waits on purpose, until then.
    pub waiting_until: Option<Time>,
    /// It waits for work in a verb of Relight.
    pub waits_for_work: bool,
    /// `starting`, `working`, `waiting`; none while nothing lives.
    pub phase: Option<&'static str>,
    /// What it said of itself by `STATUS=`.
    pub status: Option<String>,
    /// Nothing more happens by itself.
    pub at_rest: bool,
    /// The newest attempt that ended.
    pub last_attempt: Option<Attempt>,
}

/// Why supervision of an agent ended though nobody wanted it to.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SupervisionLost {
    /// Another supervisor has it now.
    #[error("agent {0} has another supervisor now")]
    Fenced(relight_core::ids::AgentName),
    /// The lease of this node has run out, or nearly.
    #[error("agent {0} is given up: the lease of this node has nearly run out")]
    Node(relight_core::ids::AgentName),
}

struct Waiter {
    wants: Wants,
    previous: AgentStateKind,
    task_cancelled: Option<TaskId>,
    answer: oneshot::Sender<StateChangeResult>,
}

#[derive(PartialEq, Eq, Clone, Copy)]
enum Wants {
    Running,
    Rest,
}

/// The supervision of one agent.
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
    /// When what it waits for is due, in boot time, and the moment that was asked for.
    due: Option<(u64, Time)>,
    /// The newest attempt that ended, for its successor.
    last: Option<Attempt>,
    /// Git's HEAD when that attempt began.
    head: Option<String>,
    /// What the kernel had killed for memory when it began.
    oom: Oom,
    /// The attempt that is being buried gave no output.
    wrote_nothing: bool,
    /// The attempt that is being buried died together with its supervisor.
    died_unwatched: bool,
    /// The last sign of life of the attempt that is being buried, where it was ended for its silence.
    silent_since: Option<Time>,
    /// The attempt that is being buried was lost with its node.
    node_lost: bool,
    /// What was just read in its output about its session: an id, or that it is gone.
    captured_session: Option<Option<String>>,
    at_rest: bool,
    /// Why nothing is to be started now.
    holds: Option<Pause>,
    /// What the host had no room for.
    postponed: Option<Postponed>,
    /// How long it waited for room the last time.
    room_pause: Duration,
    /// An attempt was given our standard input.
    has_passed_input: bool,
    /// The queue gave it a task that somebody else has begun.
    takes_over: bool,
    /// From whom its task was handed over, in words.
    handed_over: Option<String>,
    leaving: bool,
    waiters: Vec<Waiter>,
    /// Events that effects have led to, oldest first.
    events: VecDeque<AgentEvent>,
    /// The loop's condition while it is asked; one that is dropped is asked no longer.
    asked: JoinSet<Result<bool, NotStarted>>,
    /// The live attempt's brief while it lacks what only git can tell.
    open_brief: Option<OpenBrief>,
    /// Signs of life that came over HTTP.
    beats: Arc<BeatSlot>,
    mail: mpsc::UnboundedReceiver<Mail>,
    view: watch::Sender<AgentView>,
    /// Under which lease of the node it was taken up.
    node_right: NodeRight,
    /// The node that had it before it was taken up.
    agent_was_on: Option<NodeName>,
}

/// Rounds begin at least so far apart: success is charged to no budget, so only its pace bounds it.
const ROUND_MIN: Duration = Duration::from_millis(100);

/// Why an agent was not given back.
const KEPT: &str = "something of it lives: it is kept for as long as the lease of its node lasts";

enum Happening {
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
    /// Runs until the agent is left, nobody wants it any more, or another supervisor has it.
    pub(super) async fn run(mut self) -> Result<(), SupervisionLost> {
        let ended = self.supervise().await;
        // Before anybody hears of it: whoever looks then sees that it is over.
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
            while let Some(event) = self.events.pop_front() {
                self.happen(event).await?;
            }
            self.show();
            self.answer_waiters().await?;
            if self.leaving {
                return Ok(());
            }
            match self.next().await {
                Happening::Tree(event) => self.tree_says(event).await?,
                Happening::Mail(Some(mail)) => self.open(mail).await?,
                Happening::Mail(None) => return Ok(()),
                Happening::Signs(signs) => self.hear(signs),
                Happening::Timer => self.look_at_the_clock().await,
                Happening::Lost(lost) => return Err(lost),
                Happening::Asked(answer) => self.answered(answer),
                Happening::Changes(dirty) => self.complete_brief(dirty),
                Happening::Room => {
                    self.prove_term()?;
                    self.launch_postponed().await?;
                }
                // Its shim says so as well, unless somebody stopped it.
                Happening::LeaderEnded => self.tree.expect_end(launch::LEFTOVER_GRACE, LOOK_EVERY),
            }
        }
    }

    async fn next(&mut self) -> Happening {
        let look = self.life.as_ref().and_then(LiveAttempt::next_look);
        let due = self.due.map(|(at_ms, _)| at_ms);
        tokio::select! {
            event = self.tree.next() => Happening::Tree(event),
            mail = self.mail.recv() => Happening::Mail(mail),
            signs = hear(self.notify.as_ref()) => Happening::Signs(signs),
            signs = self.beats.heard() => Happening::Signs(signs),
            () = wait_for(look) => Happening::Timer,
            () = wait_for(self.postponed.as_ref().map(|one| one.at)) => Happening::Room,
            () = wait_until_due(due) => Happening::Timer,
            answer = asked(&mut self.asked) => Happening::Asked(answer),
            dirty = changes(self.open_brief.as_mut()) => Happening::Changes(dirty),
            lost = self.ledger.lost() => Happening::Lost(lost),
            () = leader_ended(self.life.as_mut()) => Happening::LeaderEnded,
        }
    }

    async fn open(&mut self, mail: Mail) -> Result<(), SupervisionLost> {
        match mail {
            Mail::Start(answer) => {
                self.take_up_failed_task().await;
                self.holds = None;
                self.await_state(Wants::Running, answer);
                self.at_rest = false;
                self.events.push_back(AgentEvent::Start);
            }
            Mail::Restart(answer) => {
                self.take_up_failed_task().await;
                self.holds = None;
                self.await_state(Wants::Running, answer);
                self.at_rest = false;
                self.events.push_back(match self.agent.state {
                    // The later wish counts; what is being stopped is started after its end.
                    AgentState::Running { ending: Some(StopReason::Stop), .. } => AgentEvent::Start,
                    AgentState::Running { .. } => AgentEvent::End(StopReason::Restart),
                    _ => AgentEvent::Start,
                });
            }
            Mail::Stop(by, answer) => {
                self.await_state(Wants::Rest, answer);
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
        }
        Ok(())
    }

    fn await_state(&mut self, wants: Wants, answer: oneshot::Sender<StateChangeResult>) {
        let previous = self.agent.state.kind();
        let task = self.spec.plan.task.clone();
        let task_cancelled = task.filter(|_| previous == AgentStateKind::Running);
        self.waiters.push(Waiter { wants, previous, task_cancelled, answer });
    }

    /// Answers those whose wish has come true, or cannot.
    async fn answer_waiters(&mut self) -> Result<(), SupervisionLost> {
        if self.waiters.is_empty() {
            return Ok(());
        }
        self.ledger.settle().await?;
        let runs = matches!(self.agent.state, AgentState::Running { ending: None, .. })
            && self.life.as_ref().is_some_and(LiveAttempt::has_started);
        let rests = self.at_rest;
        // It is started as soon as there is work for it.
        let is_idle = rests && self.agent.is_idle();
        let task = if rests && !runs { self.own_task().await } else { None };
        let name = &self.spec.name;
        let (why, hint) = match &task {
            Some(task) if task.status.waits_for_person() => {
                (format!(": its task {} is {}", task.id, task.status), task.command_to_resume())
            }
            Some(Task { id, status, .. }) if status.is_terminal() => (
                format!(": its task {id} is {status}"),
                "new work needs a new task; name that one as the agent's".to_owned(),
            ),
            _ => (String::new(), format!("relight deaths {name} says why")),
        };
        for waiter in std::mem::take(&mut self.waiters) {
            let met = match waiter.wants {
                Wants::Running => runs || is_idle,
                Wants::Rest => rests,
            };
            let failed = match waiter.wants {
                Wants::Running => rests && !runs && !is_idle,
                // A later wish overtook this one.
                Wants::Rest => runs && !rests,
            };
            if !met && !failed {
                self.waiters.push(waiter);
                continue;
            }
            let verb =
                if waiter.wants == Wants::Running { "did not start" } else { "was started again" };
            let problem = failed.then(|| format!("agent {name} {verb}{why}"));
            let _ = waiter.answer.send(StateChangeResult {
                previous: waiter.previous,
                state: self.agent.state.kind(),
                task_cancelled: waiter.task_cancelled,
                hint: problem.is_some().then(|| hint.clone()),
                has_ended: task.as_ref().is_some_and(|task| task.status.is_terminal()),
                problem,
            });
        }
        Ok(())
    }

    /// Decides, commits, acts. An attempt whose tag was allocated ahead is started first: the commit
    /// that allocated it explains it already, and a restart need not wait for the disk.
    async fn happen(&mut self, event: AgentEvent) -> Result<(), SupervisionLost> {
        let mut moment = self.moment().await;
        if event == AgentEvent::Due
            && let Some((_, at)) = self.due.take()
        {
            // Waited for by a clock that does not jump.
            moment.now = moment.now.max(at);
        }
        let AgentDecision { changes, effects } = self.decide_by_mark(event, moment).await;
        let ahead = effects.iter().any(|e| matches!(e, AgentEffect::Spawn { at_once: true, .. }));
        // Only right after a death: whatever waited has time to wait for the disk as well, and the next
        // supervisor looks for an unrecorded successor of a live attempt alone.
        let is_restart = matches!(self.agent.state, AgentState::Running { .. });
        let ahead = ahead && is_restart && self.spec.plan.task.is_none() && self.tree.is_ready();
        if ahead {
            // What allocated the tag must be on disk; it is, unless it died within moments.
            self.ledger.settle().await?;
            self.act_on_spawns(&effects, &changes).await?;
            self.commit_deferred(changes);
        } else {
            self.commit_deferred(changes);
            self.ledger.settle().await?;
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
            // The one after it is known already, and its cgroup is made ready too.
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
                let deferred =
                    matches!(self.agent.state, AgentState::Suspended { why: Pause::Deferred, .. });
                // Said when it died, perhaps, and not again when it is taken up.
                if !is_known {
                    self.tell(What::Waiting { until: at, deferred });
                }
            }
            AgentEffect::AskUntil => self.ask_until(),
            // The courier tells whoever is away, from the journal.
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
                    && self.waits_with_task()
                    && let (Some(task), Some(status)) =
                        (self.spec.plan.task.clone(), self.task_status().await)
                {
                    self.tell(What::TaskWaits { task, status });
                }
                self.tell(What::AtRest);
                self.show();
                self.context.bell.notify_one();
            }
        }
        Ok(())
    }

    /// Durable when it returns.
    async fn commit(&mut self, changes: Vec<AgentChange>) -> Result<(), SupervisionLost> {
        self.commit_deferred(changes);
        self.ledger.settle().await
    }

    /// Durable soon, and before whatever is committed after it.
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

    /// Keeps what a successor is told, and tells the watchers.
    fn remember_end(&mut self, changes: &[AgentChange]) {
        for change in changes {
            let AgentChange::Ended { number, ended, .. } = change else { continue };
            if self.last.as_ref().is_some_and(|last| last.number == *number && last.ended.is_some())
            {
                continue;
            }
            let begun = self.last.take().filter(|last| last.number == *number);
            self.last = change.apply_to_attempt(&self.spec.name, begun, ended.death.at);
            self.tell(What::Died { number: *number, ended: (**ended).clone() });
        }
    }

    /// Goes, and gives the lease back. Where others would start the agent at once, not while anything of
    /// it lives: then it stays this machine's until its node's lease ends.
    async fn give_back(&mut self) -> Result<(), SupervisionLost> {
        if self.context.is_one_of_many() && self.is_anything_left().await {
            self.tree.leave();
            self.tell(What::Trouble(KEPT.to_owned()));
            return Ok(());
        }
        self.tree.leave();
        self.commit(vec![AgentChange::LeaseEnded]).await
    }

    /// Gives back what rests. One that was told to begin something meanwhile has begun it by now, and
    /// stays.
    async fn release(&mut self) -> Result<bool, SupervisionLost> {
        if !self.at_rest || self.is_anything_left().await {
            return Ok(false);
        }
        self.commit(vec![AgentChange::LeaseEnded]).await?;
        self.leaving = true;
        Ok(true)
    }

    /// Whether a process of the agent lives here, as far as the kernel tells by its lock.
    async fn is_anything_left(&mut self) -> bool {
        if self.life.is_some() {
            return true;
        }
        self.tree.dismiss().await;
        client::is_lock_held(&self.folder)
    }

    /// What the queue gave it stays its own.
    async fn replan(&mut self, mut spec: AgentSpec) -> Result<(), SupervisionLost> {
        if spec.plan.takes == Takes::Start {
            spec.plan.task.clone_from(&self.spec.plan.task);
        }
        let changed = spec.plan != self.spec.plan;
        self.spec = spec;
        if changed {
            let plan = Box::new(self.spec.plan.clone());
            self.commit(vec![AgentChange::Planned(plan)]).await?;
        }
        Ok(())
    }

    /// The loop's condition, asked outside of this task: it may take its time.
    fn ask_until(&mut self) {
        self.tell(What::Round { done: self.agent.iteration });
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
        // What has come to rest meanwhile asks again when it is woken.
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
        let view = AgentView {
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
        if ending == StopReason::Hung || ending == StopReason::Timeout {
            let has_asked = self.life.as_ref().is_some_and(|life| life.asked_for_restart);
            self.tell(match ending {
                StopReason::Hung if has_asked => What::AskedForRestart,
                StopReason::Hung => What::Hung { silent_ms: self.silent_ms() },
                _ => What::TimedOut,
            });
        }
        if !self.give_up_postponed().await {
            self.tree.stop(ladder).await;
        }
    }

    /// What is being ended is ended now.
    async fn kill_now(&mut self) {
        if matches!(self.agent.state, AgentState::Running { ending: Some(_), .. }) {
            self.tree.stop(Vec::new()).await;
        }
    }

    fn ladder(&self) -> Vec<Rung> {
        let grace = self.spec.plan.grace;
        self.spec.ladder.clone().unwrap_or_else(|| self.spec.preset.ladder(grace))
    }
}

/// Returns when the leader of the live attempt has ended, once.
async fn leader_ended(life: Option<&mut LiveAttempt>) {
    let Some(life) = life.filter(|life| !life.has_leader_ended) else {
        return std::future::pending().await;
    };
    let has_ended = match (&life.watch, &life.process) {
        (Some(watch), _) => watch.gone().await.is_ok(),
        // It was dead before it could be watched.
        (None, Some(process)) => !process::is_alive(process),
        (None, None) => false,
    };
    match has_ended {
        true => life.has_leader_ended = true,
        // One that cannot be waited for is its shim's to tell of.
        false => std::future::pending().await,
    }
}

async fn hear(socket: Option<&NotifySocket>) -> Vec<NotifySign> {
    match socket {
        // A socket that cannot be read hears nothing.
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

/// A host that slept has waited as well.
async fn wait_until_due(due: Option<u64>) {
    match due {
        Some(at_ms) => clock::until_boot_ms(at_ms).await,
        None => std::future::pending().await,
    }
}

async fn asked(question: &mut JoinSet<Result<bool, NotStarted>>) -> Result<bool, NotStarted> {
    match question.join_next().await {
        // A question that broke off was not answered with yes.
        Some(answer) => answer.unwrap_or(Ok(false)),
        None => std::future::pending().await,
    }
}

impl Actor {
    /// Nothing is begun when the node's lease has nearly run out, by a clock that goes on while this
    /// process is frozen.
    fn prove_term(&self) -> Result<(), SupervisionLost> {
        match self.context.still_has(self.node_right) {
            true => Ok(()),
            false => Err(SupervisionLost::Node(self.spec.name.clone())),
        }
    }

    /// Until when what runs may live by itself; for ever outside of a fleet. Under another lease it is
    /// another supervision's to say.
    fn deadline(&self) -> Result<Option<Deadline>, SupervisionLost> {
        let Some(fleet) = &self.context.fleet else { return Ok(None) };
        self.prove_term()?;
        let term = fleet.term().ok_or_else(|| SupervisionLost::Node(self.spec.name.clone()))?;
        Ok(Some(term.deadline(self.ladder())))
    }

    fn waits_with_task(&self) -> bool {
        matches!(self.agent.state, AgentState::Suspended { why: Pause::Task, .. })
    }

    /// Decides by what the mark of a drain says now, not by what was last heard of it, where an attempt would
    /// begin: whoever drains waits for those that run and for nobody else.
    async fn decide_by_mark(&self, event: AgentEvent, moment: AgentDecisionInput) -> AgentDecision {
        let known = self.context.is_draining();
        let decision = self.decide(event.clone(), moment);
        let begins = decision.effects.iter().any(|e| matches!(e, AgentEffect::Spawn { .. }));
        match begins && !known && self.context.read_drain().await.unwrap_or(false) {
            true => self.decide(event, moment),
            false => decision,
        }
    }

    fn decide(&self, event: AgentEvent, moment: AgentDecisionInput) -> AgentDecision {
        let draining = self.context.is_draining().then_some(Pause::Draining);
        match self.holds.or(draining) {
            Some(why) => decide_held(&self.agent, event, moment, why),
            None => decide(&self.agent, event, moment),
        }
    }

    async fn moment(&self) -> AgentDecisionInput {
        let chance = u64::from_le_bytes(random::bytes());
        let jitter = f64::from(u32::from_le_bytes(random::bytes())) / f64::from(u32::MAX);
        AgentDecisionInput { now: clock::now(), jitter, chance, task: self.task_status().await }
    }
}
