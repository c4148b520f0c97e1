//! The daemon: supervises the agents of a configuration until it is told to end.
//!
//! One inbox: notices of agents, signals, calls of clients, news of the fleet and timers. What the
//! program around it provides, and where it reports to, is its [`Host`].

mod agents;
mod fleet;
mod host;
mod membership;
mod registration;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use relight_core::agent::boots::{BootVerdict, STABLE_AFTER};
use relight_core::agent::{Agent, AgentState, Pause, Takes};
use relight_core::alert::Alert;
use relight_core::error_code::ErrorCode;
use relight_core::ids::{AgentName, NodeName};
use relight_store::StoreError;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, timeout};

pub use self::host::{Configuration, Host};
use self::membership::FleetNews;
pub use self::membership::Membership;
use crate::os::clock;
use crate::os::signals::{SignalRequest, Signals};
use crate::supervise::boots;
use crate::supervise::control::{ControlReply, Request, ShutdownSummary};
use crate::supervise::control_server::{ControlCall, Reception};
use crate::supervise::notices::{Notice, What};
use crate::supervise::spec::AgentSpec;
use crate::supervise::supervisor::{
    AcquireMode, AgentSnapshot, QueueSettings, StateChangeResult, Supervisor,
};
use crate::supervise::systemd::Systemd;

/// Most tasks of one agent that are counted before anything is given out.
const SHOWN_TASKS_MAX: usize = 1_000;
/// How soon it is noted again that the boot is stable, when it could not be.
const STABLE_AGAIN: Duration = Duration::from_secs(60);
/// How long it may take to see what was held back.
const SETTLE_MAX: Duration = Duration::from_secs(5);
/// Why others have to wait although this node leaves.
const KEEPS_LEASE: &str =
    "something of an agent is left here and may live: this node keeps its lease until it ends";

/// How a daemon begins.
#[derive(Debug)]
pub struct DaemonSettings {
    /// Takes agents from a supervisor that no longer responds.
    pub take_over: bool,
    /// Starts nothing before a person does.
    pub paused: bool,
    /// Resumes work although the machine went down soon after, again and again.
    pub resume_anyway: bool,
    /// The service manager.
    pub systemd: Systemd,
    /// Whether nothing was resumed at the start, for those who show it.
    pub held_back: Arc<AtomicBool>,
}

/// How a daemon ended.
#[derive(Debug)]
pub enum DaemonEnd {
    /// As it was told, by this signal or by a call.
    Told(Option<i32>),
    /// Another daemon has all its agents.
    AgentsTaken,
    /// Another daemon is this node.
    NodeTaken(NodeName),
    /// The store's files are gone; its agents live on.
    StoreReplaced(StoreError),
    /// All agents were stopped, but the store cannot be written, for this reason.
    Unrecorded(String),
}

/// The daemon while it runs.
#[derive(Debug)]
pub struct Daemon<H> {
    host: H,
    supervisor: Supervisor,
    notices: mpsc::UnboundedReceiver<Notice>,
    /// Notices that came while agents were taken up.
    early: VecDeque<Notice>,
    reception: Reception,
    settings: DaemonSettings,
    /// What it was told to do last.
    phase: Phase,
    /// The signal by which it was told to end.
    told: Option<i32>,
    /// This machine's place in a fleet; none on a single machine.
    membership: Option<Membership>,
    /// How agents are taken up that come to this node later.
    begin: AcquireMode,
    /// Agents that are not in the configuration, but lived without a supervisor; supervised until they
    /// end.
    adopted: BTreeSet<AgentName>,
    /// Agents of the configuration, as they were read last.
    specs: Vec<AgentSpec>,
    /// Agents that cannot be started, and why.
    warnings: Vec<String>,
    /// Why the end of an agent cannot be recorded, while this daemon ends.
    unrecorded: Option<String>,
    /// Set while the store's files are away.
    files_gone: Option<watch::Receiver<Option<String>>>,
}

#[derive(Debug)]
enum Phase {
    /// Agents are supervised.
    Serving,
    /// Agents are being stopped; those whose end is still awaited.
    Stopping(Vec<oneshot::Receiver<StateChangeResult>>),
    /// Agents live on without us.
    Leaving,
    /// The same, because the store's files are gone: nothing can be recorded.
    Failing(StoreError),
}

enum Inbox {
    Notice(Notice),
    Signal(SignalRequest),
    Call(ControlCall),
    Fleet(FleetNews),
    Files(Option<String>),
    Stable,
    Watchdog,
    AllStopped,
}

impl<H: Host> Daemon<H> {
    /// A daemon that has begun nothing yet.
    pub fn new(
        host: H,
        (supervisor, notices): (Supervisor, mpsc::UnboundedReceiver<Notice>),
        reception: Reception,
        membership: Option<Membership>,
        settings: DaemonSettings,
    ) -> Self {
        Self {
            host,
            supervisor,
            notices,
            early: VecDeque::new(),
            reception,
            settings,
            phase: Phase::Serving,
            told: None,
            membership,
            begin: AcquireMode::Wake,
            adopted: BTreeSet::new(),
            specs: Vec::new(),
            warnings: Vec::new(),
            unrecorded: None,
            files_gone: None,
        }
    }

    /// Takes up the agents and supervises them until the end. Gives the host back.
    pub async fn run(
        mut self,
        mut signals: Signals,
        specs: Vec<AgentSpec>,
        queue: &QueueSettings,
    ) -> (H, Result<DaemonEnd, StoreError>) {
        let (begun, told) = signals.interrupt(self.begin(specs, queue)).await;
        if let Some(Err(error)) = begun {
            return (self.host, Err(error));
        }
        if let Some(signal) = told {
            self.told = Some(signal);
            self.stop().await;
        }
        match self.serve(signals).await {
            Some(ended) => (self.host, Ok(ended)),
            None => self.end().await,
        }
    }

    /// Takes every agent up, or holds them back after a boot loop.
    async fn begin(
        &mut self,
        specs: Vec<AgentSpec>,
        queue: &QueueSettings,
    ) -> Result<(), StoreError> {
        let count = specs.len();
        self.supervisor.watch_drain().await?;
        self.supervisor.watch_budget(queue.budget).await?;
        let store = self.supervisor.engine().store().as_ref();
        let boot = self.supervisor.boot_id();
        let forgive = self.settings.resume_anyway;
        let verdict = boots::at_start(store, boot, count > 0, forgive).await?;
        if let BootVerdict::HoldBack { boots } = verdict {
            self.host.alert(&Alert::boot_loop(boots).line());
        }
        let holds_back = self.settings.paused || verdict != BootVerdict::Resume;
        self.settings.held_back.store(holds_back, Ordering::Relaxed);
        let is_paced = queue.resume_rate > 0 || queue.resume_at_once > 0;
        let begin = match (holds_back, is_paced) {
            (true, _) => AcquireMode::HoldBack,
            (false, true) => AcquireMode::Turn,
            (false, false) => AcquireMode::Wake,
        };
        self.begin = begin;
        if count > 100 {
            self.host.say(&format!("taking up {count} agents"));
        }
        let left_behind = self.left_behind(&specs).await?;
        self.specs.clone_from(&specs);
        self.take_up_or_stand_by(specs).await;
        let running = self.supervisor.names().count();
        self.adopt(left_behind).await;
        self.supervisor.serve_queue(queue);
        self.files_gone = Some(self.supervisor.store_files_gone());
        self.host.say(&match &self.membership {
            None => format!("up with {running} of {count} agents; relight ps shows them"),
            Some(membership) => format!(
                "node {} is up with {running} of {count} agents; relight node list shows the fleet",
                membership.fleet().name()
            ),
        });
        self.host.is_up(&self.warnings);
        if holds_back {
            self.say_what_is_held_back().await?;
        }
        if self.supervisor.is_draining() {
            self.host
                .say("draining: nothing is begun; relight drain --cancel ends that");
        }
        // Without systemd there is nobody to tell.
        let _ = self.settings.systemd.ready();
        Ok(())
    }

    /// What would be done, were it not held back.
    async fn say_what_is_held_back(&self) -> Result<(), StoreError> {
        let mut views: Vec<AgentSnapshot> = Vec::new();
        for name in self
            .supervisor
            .names()
            .filter(|name| !self.adopted.contains(*name))
        {
            let Some(mut view) = self.supervisor.follow(name) else {
                continue;
            };
            // One whose supervision ended meanwhile is shown as it was.
            let has_settled = |view: &AgentSnapshot| view.at_rest || view.phase.is_some();
            let settled = timeout(SETTLE_MAX, view.wait_for(has_settled)).await;
            views.extend(settled.ok().and_then(Result::ok).map(|view| view.clone()));
        }
        let held = views.iter().filter(|view| is_held_back(view));
        let mut held: Vec<&Agent> = held.map(|view| &view.agent).collect();
        let store = self.supervisor.engine().store();
        let mut tasks = BTreeSet::new();
        for agent in held.iter().filter(|agent| agent.plan.takes == Takes::Start) {
            let claimant = agent.plan.claimant(&agent.name);
            tasks.extend(
                store
                    .claimable(&claimant, clock::now(), SHOWN_TASKS_MAX)
                    .await?,
            );
        }
        held.retain(|agent| agent.plan.takes == Takes::Claim || agent.plan.task.is_some());
        let names: Vec<&str> = held.iter().map(|agent| agent.name.as_str()).collect();
        let names = if names.is_empty() {
            "none".to_owned()
        } else {
            names.join(", ")
        };
        self.host.say(&format!(
            "held back: agents that would be started: {names}; tasks that would be given out: {}; \
             relight start NAME begins one",
            tasks.len()
        ));
        Ok(())
    }

    /// Until all agents are stopped or left; another end at once.
    async fn serve(&mut self, mut signals: Signals) -> Option<DaemonEnd> {
        let mut stable_at = Some(Instant::now() + STABLE_AFTER.as_duration());
        let alive_every = self.settings.systemd.alive_interval();
        let mut watchdog = alive_every.map(|every| Instant::now() + every);
        loop {
            match self.next(&mut signals, stable_at, watchdog).await {
                Inbox::Notice(notice) => {
                    self.host.notice(&notice);
                    if let What::StoppedUnrecorded(error) = &notice.what {
                        self.unrecorded = self.is_ending().then(|| error.clone());
                    }
                    let is_lost = matches!(notice.what, What::Lost | What::NodeLost);
                    if matches!(notice.what, What::Trouble(_)) && self.is_ending() {
                        self.leave_if_store_is_replaced().await;
                    }
                    if notice.what == What::AtRest {
                        self.release_adopted(&notice.agent);
                        self.release_if_draining().await;
                    }
                    if is_lost && self.has_lost_everything() && self.membership.is_none() {
                        return Some(DaemonEnd::AgentsTaken);
                    }
                }
                Inbox::Signal(SignalRequest::HangUp) if self.is_ending() => {}
                Inbox::Signal(SignalRequest::HangUp) => {
                    // What is wrong was said.
                    let _ = self.reload().await;
                }
                Inbox::Signal(SignalRequest::End(signal)) => {
                    self.told.get_or_insert(signal);
                    self.stop().await;
                }
                Inbox::Call(call) => self.answer(call).await,
                Inbox::Fleet(news) => {
                    self.hear(news).await;
                    if let Some(name) = self.overtaken() {
                        return Some(DaemonEnd::NodeTaken(name));
                    }
                }
                Inbox::Files(Some(error)) => self.host.say(&format!(
                    "{error}; nothing is saved until they are back, and the agents keep running"
                )),
                Inbox::Files(None) => self.host.say("the files of the store are back"),
                Inbox::Watchdog => {
                    let _ = self.settings.systemd.alive();
                    watchdog = alive_every.map(|every| Instant::now() + every);
                }
                Inbox::Stable => {
                    let store = self.supervisor.engine().store().as_ref();
                    let noted = boots::stable(store, self.supervisor.boot_id()).await;
                    // A store that is away just now is no reason to end.
                    stable_at = noted.err().map(|_| Instant::now() + STABLE_AGAIN);
                }
                Inbox::AllStopped => return None,
            }
        }
    }

    async fn next(
        &mut self,
        signals: &mut Signals,
        stable_at: Option<Instant>,
        watchdog: Option<Instant>,
    ) -> Inbox {
        if let Some(notice) = self.early.pop_front() {
            return Inbox::Notice(notice);
        }
        tokio::select! {
            biased;
            Some(notice) = self.notices.recv() => Inbox::Notice(notice),
            signal = signals.next() => Inbox::Signal(signal),
            call = self.reception.next() => Inbox::Call(call),
            news = news(self.membership.as_mut()) => Inbox::Fleet(news),
            gone = files_changed(self.files_gone.as_mut()) => Inbox::Files(gone),
            () = all_stopped(&mut self.phase) => Inbox::AllStopped,
            () = at(stable_at) => Inbox::Stable,
            () = at(watchdog) => Inbox::Watchdog,
            () = self.supervisor.pass_on_growth() => unreachable!("it never ends"),
        }
    }

    fn has_lost_everything(&mut self) -> bool {
        self.supervisor.lost();
        self.supervisor.names().next().is_none()
    }

    /// The first time all agents are told to end, with their grace; from then on they are hurried.
    async fn stop(&mut self) {
        self.leave_if_store_is_replaced().await;
        match self.phase {
            Phase::Serving => {
                let _ = self.settings.systemd.stopping();
                self.host
                    .say("stopping all agents; a second signal kills them");
                self.phase = Phase::Stopping(match self.membership {
                    Some(_) => self.supervisor.hand_over(),
                    None => self.supervisor.shut_down(),
                });
            }
            Phase::Stopping(_) => self.supervisor.kill_now(),
            Phase::Leaving | Phase::Failing(_) => {}
        }
    }

    async fn leave_if_store_is_replaced(&mut self) {
        let store = self.supervisor.engine().store().as_ref();
        if let Some(error) = boots::replaced_store(store).await {
            self.phase = Phase::Failing(error);
        }
    }

    /// What whoever asked for the end is told.
    fn ending(&self, agents: u32) -> ControlReply {
        let problem = match &self.phase {
            Phase::Failing(error) => Some(agents_live_on(error)),
            Phase::Serving | Phase::Stopping(_) | Phase::Leaving => None,
        };
        ControlReply::ok(&ShutdownSummary {
            pid: std::process::id(),
            agents,
            problem,
        })
    }

    fn is_ending(&self) -> bool {
        !matches!(self.phase, Phase::Serving)
    }

    async fn answer(&mut self, call: ControlCall) {
        let Some(call) = self.supervisor.answer(call, self.is_ending()) else {
            return;
        };
        let running = self.supervisor.status().agents.len();
        let agents = u32::try_from(running).unwrap_or(u32::MAX);
        let reply = match call.request {
            Request::Down { keep_agents: true } => {
                self.phase = Phase::Leaving;
                self.leave_if_store_is_replaced().await;
                self.ending(agents)
            }
            Request::Down { keep_agents: false } => {
                self.stop().await;
                self.ending(agents)
            }
            Request::Register(new) => match self.register(*new).await {
                Ok(registered) => ControlReply::ok(&registered),
                Err(refused) => ControlReply::Error(refused),
            },
            Request::Unregister { agent } => return self.unregister(&agent, call.reply),
            Request::Reload => match self.reload().await {
                Ok(reloaded) => ControlReply::ok(&reloaded),
                Err(refused) => ControlReply::Error(refused),
            },
            // What is supervised here is recovered as it dies: this is for all else in the store.
            Request::Recover { dry_run } => {
                let engine = self.supervisor.engine().clone();
                return self.host.recover(engine, dry_run, call.reply);
            }
            _ => ControlReply::error(ErrorCode::BAD_REQUEST, "this is not known here", None),
        };
        let _ = call.reply.send(reply);
    }

    async fn end(mut self) -> (H, Result<DaemonEnd, StoreError>) {
        let mut unrecorded = self.unrecorded.take();
        while let Ok(notice) = self.notices.try_recv() {
            self.host.notice(&notice);
            if let What::StoppedUnrecorded(error) = notice.what {
                unrecorded = Some(error);
            }
        }
        // From here on nobody is there to answer: whoever asks is told so.
        drop(self.reception);
        if let Phase::Failing(error) = self.phase {
            self.supervisor.abandon();
            return (self.host, Ok(DaemonEnd::StoreReplaced(error)));
        }
        if let Some(error) = unrecorded {
            self.supervisor.abandon();
            return (self.host, Ok(DaemonEnd::Unrecorded(error)));
        }
        let engine = self.supervisor.engine().clone();
        let lives_on = matches!(self.phase, Phase::Leaving);
        let left = match self.membership {
            // In a fleet whoever lives on is this node's until its lease ends.
            Some(_) if lives_on => {
                self.supervisor.abandon();
                Ok(())
            }
            membership => {
                self.supervisor.leave().await;
                match membership {
                    // What cannot be seen may live.
                    Some(_) if self.supervisor.living().unwrap_or(usize::MAX) > 0 => {
                        self.host.say(KEEPS_LEASE);
                        Ok(())
                    }
                    Some(membership) => membership.leave(&engine).await,
                    None => Ok(()),
                }
            }
        };
        let ended = match left {
            Ok(()) => boots::clean_end(engine.store().as_ref(), self.supervisor.boot_id()).await,
            error => error,
        };
        (self.host, ended.map(|()| DaemonEnd::Told(self.told)))
    }
}

/// What a supervisor says that ends without its agents.
pub fn agents_live_on(error: &StoreError) -> String {
    format!("{error}; nothing can be recorded, so the agents are left running")
}

fn is_held_back(view: &AgentSnapshot) -> bool {
    matches!(
        view.agent.state,
        AgentState::Suspended {
            why: Pause::HeldBack,
            ..
        }
    )
}

/// Returns once nothing is awaited any more; never while agents are supervised.
async fn all_stopped(phase: &mut Phase) {
    match phase {
        Phase::Serving => std::future::pending().await,
        Phase::Leaving | Phase::Failing(_) => {}
        Phase::Stopping(awaited) => {
            while let Some(answer) = awaited.last_mut() {
                // An agent whose supervision ended is awaited no longer.
                let _ = answer.await;
                awaited.pop();
            }
        }
    }
}

async fn news(membership: Option<&mut Membership>) -> FleetNews {
    match membership {
        Some(membership) => membership.news().await,
        None => std::future::pending().await,
    }
}

async fn files_changed(gone: Option<&mut watch::Receiver<Option<String>>>) -> Option<String> {
    let Some(gone) = gone else {
        return std::future::pending().await;
    };
    match gone.changed().await {
        Ok(()) => gone.borrow_and_update().clone(),
        Err(_) => std::future::pending().await,
    }
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
