//! Supervises many agents: takes each up, passes on what is wanted of it, and ends.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use relight_core::agent::{REGISTERED, Stopper};
use relight_core::event::EventKind;
use relight_core::ids::AgentName;
use relight_core::recovery::TaskPolicy;
use relight_core::time::Span;
use relight_store::StoreError;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::task::{AbortHandle, JoinHandle, JoinSet};
use tokio::time::Instant;

use super::actor::{self, Mail};
pub use super::actor::{AcquireMode, AgentView, StateChangeResult, SupervisionLost, TakeUpError};
use super::cgroup::{CgroupSetting, Cgroups};
use super::context::SupervisorContext;
use super::event_subscription::EventSubscription;
use super::folder::AgentFolder;
use super::heartbeats::{BeatSlot, Beats};
use super::log::Growth;
use super::notice::{Notice, Notices};
use super::remote_commands;
use super::reporters::Reporters;
use super::roster::Roster;
use super::router::Router;
use super::shim::client;
use super::spec::AgentSpec;
use super::store_changes::StoreChanges;
use super::sweeper::Sweeper;
pub use super::takeover::Takeover;
use super::takeover::{self, WaitingAgents};
use super::word::Word;
use crate::engine::Engine;
use crate::fleet::Fleet;
use crate::os::{limits, process};
use crate::recovery::{Recoverer, Strategies};

/// At most so many look at repositories at once while nobody waits for it.
const GIT_PLACES: usize = 2;

/// How long an agent is left alone that could not be taken up.
const REFUSED_PAUSE: Duration = Duration::from_millis(500);

/// How long between two attempts to give an agent back that nobody here wants.
const GIVE_BACK_PAUSE: Duration = Duration::from_secs(5);

/// No shorter period between two sweeps is kept.
const SWEEP_MIN: Span = Span::from_ms(100);

/// How the queue is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueSettings {
    /// How often it is looked for tasks whose holder is gone, where nothing tells of it.
    pub sweep: Span,
    /// Recovered tasks and agents that are started in a second; no limit when zero.
    pub resume_rate: u32,
    /// Recovered tasks that are worked on at a time; no limit when zero.
    pub resume_at_once: u32,
}

impl QueueSettings {
    /// The time between two sweeps.
    pub(super) fn sweep_every(&self) -> Duration {
        self.sweep.max(SWEEP_MIN).as_duration()
    }
}

/// How a supervisor is set up.
#[derive(Debug, Clone, Default)]
pub struct SupervisorSettings {
    /// What becomes of tasks whose holder died.
    pub strategies: Strategies,
    /// What tasks may use up.
    pub policy: TaskPolicy,
    /// The folder that the store is in.
    pub home: PathBuf,
    /// What is started as a shim; this very program when none.
    pub program: Option<PathBuf>,
    /// Variables by which agents find the store again.
    pub places: Vec<(Word, Word)>,
    /// Which cgroup to use.
    pub cgroups: CgroupSetting,
    /// This machine's fleet; none where it is alone.
    pub fleet: Option<Fleet>,
    /// How long an agent is held without a commit, by the store's clock; for as long as this process lives
    /// when none. For a machine that is no node of the fleet: nobody else can see that it is gone.
    pub hold: Option<Span>,
}

/// Where it comes out what this node is to take up and to give back.
pub type Outlooks = mpsc::UnboundedReceiver<Takeover>;

/// Many agents under one roof.
#[derive(Debug)]
pub struct Supervisor {
    context: Arc<SupervisorContext>,
    agents: BTreeMap<AgentName, Handle>,
    beats: Beats,
    retiring: Retiring,
    /// The same agents, for whoever serves the queue.
    roster: Roster,
    changes: Option<StoreChanges>,
    /// How the queue is served, for whoever does.
    queue: Option<watch::Sender<QueueSettings>>,
    /// Who serves the queue.
    servants: Vec<AbortHandle>,
    /// All agents of this node of a fleet, as they are taken up here when it is their turn.
    standby: BTreeMap<AgentName, AgentSpec>,
    /// Somebody looks for those whose turn has come.
    looks_for_ripe: bool,
    /// When agents that nobody here wants were given back last: one that cannot be, because something of
    /// it does not end, is tried at a pace.
    given_back: BTreeMap<AgentName, Instant>,
}

/// Agents that are being stopped and given back.
#[derive(Debug, Default)]
struct Retiring {
    tasks: JoinSet<()>,
    mail: Vec<(AgentName, mpsc::UnboundedSender<Mail>)>,
}

impl Retiring {
    fn has(&self, name: &AgentName) -> bool {
        self.mail.iter().any(|(known, mail)| known == name && !mail.is_closed())
    }
}

/// One agent under supervision.
#[derive(Debug)]
pub struct Handle {
    mail: mpsc::UnboundedSender<Mail>,
    view: watch::Receiver<AgentView>,
    task: JoinHandle<Result<(), SupervisionLost>>,
}

impl Supervisor {
    /// With nothing to supervise yet, and the end where its notices come out.
    pub fn new(
        engine: Engine,
        settings: SupervisorSettings,
    ) -> io::Result<(Self, mpsc::UnboundedReceiver<Notice>)> {
        let (notices, heard) = Notices::channel();
        let owner = process::know_me()?.clone();
        let nofile = limits::raise_open_files();
        let cgroups = Cgroups::find(&settings.cgroups, &settings.home);
        let recoverer = Recoverer::new(engine.clone(), settings.strategies, settings.policy);
        let context = Arc::new(SupervisorContext {
            recoverer,
            draining: watch::Sender::new(false),
            bell: Arc::default(),
            asking: Mutex::default(),
            engine,
            home: settings.home,
            program: settings.program.unwrap_or_else(|| PathBuf::from("/proc/self/exe")),
            owner,
            notices,
            growth: Growth::new()?,
            cgroups,
            nofile,
            git_places: Arc::new(Semaphore::new(GIT_PLACES)),
            places: settings.places,
            fleet: settings.fleet,
            hold: settings.hold,
            standby: WaitingAgents::default(),
        });
        let supervisor = Self {
            context,
            agents: BTreeMap::new(),
            beats: Beats::default(),
            retiring: Retiring::default(),
            roster: Roster::default(),
            changes: None,
            queue: None,
            servants: Vec::new(),
            standby: BTreeMap::new(),
            looks_for_ripe: false,
            given_back: BTreeMap::new(),
        };
        Ok((supervisor, heard))
    }

    /// Obeys the mark of a drain from now on. To be called before anything is taken up.
    pub async fn watch_drain(&mut self) -> Result<(), StoreError> {
        self.context.read_drain().await?;
        let mut changes = self.changes();
        let context = Arc::clone(&self.context);
        self.serve(async move {
            loop {
                changes.next().await;
                // A store that is away just now is read at the next change.
                let _ = context.read_drain().await;
            }
        });
        Ok(())
    }

    /// Lets those that a drain paused continue as soon as it is over. Only for a supervisor that does not
    /// serve the queue: whoever does wakes them at its pace.
    pub fn resume_after_drain(&mut self) {
        let (context, roster) = (Arc::clone(&self.context), self.roster.clone());
        self.serve(async move {
            loop {
                context.bell.notified().await;
                if !context.is_draining() {
                    roster.waiting().iter().for_each(|(name, _)| roster.wake(name));
                }
            }
        });
    }

    /// Whether nothing is begun: a drain lasts.
    pub fn is_draining(&self) -> bool {
        self.context.is_draining()
    }

    /// Gives out tasks of the queue, and recovers those whose holder is gone, from now on. To be called
    /// once everything is taken up: what lives is adopted first.
    pub fn serve_queue(&mut self, settings: &QueueSettings) {
        let (context, roster) = (Arc::clone(&self.context), self.roster.clone());
        let changes = self.changes();
        let (queue, settings) = watch::channel(settings.clone());
        self.queue = Some(queue);
        let router = Router::new(context, roster, changes.clone(), settings.clone());
        self.serve(router.serve());
        let (context, roster) = (Arc::clone(&self.context), self.roster.clone());
        self.serve(Sweeper { context, roster, changes, settings }.serve());
    }

    /// Serves the queue so from now on; what was given out stays given out.
    pub fn serve_queue_so(&self, settings: &QueueSettings) {
        if let Some(queue) = &self.queue {
            queue.send_if_modified(|now| {
                let differs = *now != *settings;
                now.clone_from(settings);
                differs
            });
        }
    }

    /// Where agents that report by themselves are heard. One is enough for all.
    pub fn reporters(&self) -> Reporters {
        let notices = self.context.notices.clone();
        Reporters::new(self.context.recoverer.clone(), self.beats.clone(), notices)
    }

    fn changes(&mut self) -> StoreChanges {
        if let Some(changes) = &self.changes {
            return changes.clone();
        }
        let (changes, bring) =
            StoreChanges::of(self.context.engine.clone(), self.context.fleet.clone());
        self.serve(bring);
        self.changes.insert(changes).clone()
    }

    fn serve(&mut self, servant: impl Future<Output = ()> + Send + 'static) {
        self.servants.push(tokio::spawn(servant).abort_handle());
    }

    /// Nothing is given out any more.
    fn dismiss_servants(&self) {
        self.servants.iter().for_each(AbortHandle::abort);
    }

    /// Gives tasks to their strategy.
    pub fn recoverer(&self) -> &Recoverer {
        &self.context.recoverer
    }

    /// Takes an agent up and supervises it from now on.
    pub async fn acquire(
        &mut self,
        spec: AgentSpec,
        begin: AcquireMode,
        take_over: bool,
    ) -> Result<(), TakeUpError> {
        match self.take_up_all(vec![spec], begin, take_over).await.pop() {
            Some((_, error)) => Err(error),
            None => Ok(()),
        }
    }

    /// Takes many up at the same time, so that they share the disk's syncs. Answers those that cannot
    /// be, each with the reason.
    pub async fn take_up_all(
        &mut self,
        specs: Vec<AgentSpec>,
        begin: AcquireMode,
        take_over: bool,
    ) -> Vec<(AgentName, TakeUpError)> {
        let mut taking = JoinSet::new();
        for spec in specs {
            let context = Arc::clone(&self.context);
            taking.spawn(async move {
                let name = spec.name.clone();
                let (mail, letters) = mpsc::unbounded_channel();
                let slot = Arc::new(BeatSlot::default());
                let heard = Arc::clone(&slot);
                let taken = actor::acquire(context, spec, begin, take_over, heard, letters).await;
                (name, taken.map(|(actor, view)| (actor, view, mail, slot)))
            });
        }
        let mut refused = Vec::new();
        while let Some(taken) = taking.join_next().await {
            match taken.expect("taking an agent up does not panic") {
                (name, Ok((actor, view, mail, slot))) => {
                    self.beats.add(name.clone(), slot, view.clone());
                    let task = tokio::spawn(actor.run());
                    self.enlist(name.clone(), mail.clone(), view.clone());
                    self.agents.insert(name, Handle { mail, view, task });
                }
                (name, Err(error)) => refused.push((name, error)),
            }
        }
        refused
    }

    /// Takes these up when they are this node's to take, and not before: another node may have them, or be
    /// the one that all agree upon. The first call answers where those are named whose turn has come.
    pub fn wait_for_agents(&mut self, specs: Vec<AgentSpec>) -> Option<Outlooks> {
        for spec in specs {
            self.context.standby.add(&spec, Duration::ZERO);
            self.standby.insert(spec.name.clone(), spec);
        }
        let fleet = self.context.fleet.clone().filter(|_| !self.looks_for_ripe)?;
        self.looks_for_ripe = true;
        let (tell, outlooks) = mpsc::unbounded_channel();
        let (waiting, store) =
            (self.context.standby.clone(), Arc::clone(self.context.engine.store()));
        let changes = self.changes();
        let (context, roster) = (Arc::clone(&self.context), self.roster.clone());
        self.serve(async move {
            // Heard from before anything is taken up: what is asked for after that is not missed.
            let kinds = vec![EventKind::AgentWish];
            let wished = EventSubscription::begin(Arc::clone(&store), changes.clone(), kinds).await;
            let looks = takeover::serve(waiting, fleet, store, changes, roster.clone(), tell);
            tokio::join!(looks, remote_commands::serve(context, roster, wished));
        });
        Some(outlooks)
    }

    /// Gives back what has come to rest, as this node takes nothing new: another one may. What has
    /// something to do by now stays until it comes to rest again.
    pub async fn release_at_rest(&mut self) {
        let rests = |handle: &Handle| handle.view.borrow().at_rest;
        let names: Vec<AgentName> = self
            .agents
            .iter()
            .filter(|(_, handle)| rests(handle))
            .map(|(n, _)| n.clone())
            .collect();
        for name in names {
            let Some(handle) = self.agents.get(&name) else { continue };
            // Nothing more is given to it while it decides.
            self.roster.remove(&name);
            if !handle.is_released().await {
                let (mail, view) = (handle.mail.clone(), handle.view.clone());
                self.enlist(name, mail, view);
                continue;
            }
            self.agents.remove(&name);
            self.beats.remove(&name);
            self.wait_again(&name);
        }
    }

    /// From now on it is told what others want of it, and what they wanted since its lease was taken.
    fn enlist(
        &self,
        name: AgentName,
        mail: mpsc::UnboundedSender<Mail>,
        view: watch::Receiver<AgentView>,
    ) {
        if self.roster.add(name.clone(), mail, view) {
            tokio::spawn(remote_commands::grant(
                Arc::clone(&self.context),
                self.roster.clone(),
                name,
            ));
        }
    }

    /// Takes up those that stood by. What cannot be taken up now, because another node was faster most
    /// likely, stands by again; answered are those of which that is not so.
    pub async fn fill(
        &mut self,
        names: Vec<AgentName>,
        begin: AcquireMode,
        take_over: bool,
    ) -> Vec<(AgentName, TakeUpError)> {
        let specs = names.iter().filter_map(|name| self.standby.get(name).cloned()).collect();
        let mut refused = self.take_up_all(specs, begin, take_over).await;
        for (name, _) in &refused {
            // Not at once: whoever has it may be a process of this node that does not move.
            self.wait_again_after(name, REFUSED_PAUSE);
        }
        refused.retain(|(_, error)| matches!(error, TakeUpError::Store(_)));
        refused
    }

    fn wait_again(&self, name: &AgentName) {
        self.wait_again_after(name, Duration::ZERO);
    }

    fn wait_again_after(&self, name: &AgentName, pause: Duration) {
        if let Some(spec) = self.standby.get(name) {
            self.context.standby.add(spec, pause);
        }
    }

    /// Ends what lives of agents that this node has and nobody here wants, and gives them back: another
    /// node may want them. Those that are wanted after all, or on their way out already, are left alone.
    /// Answers those that cannot be had now.
    pub async fn give_back(&mut self, specs: Vec<AgentSpec>) -> Vec<(AgentName, TakeUpError)> {
        let mut unwanted = Vec::new();
        self.given_back.retain(|_, at| at.elapsed() < GIVE_BACK_PAUSE);
        for spec in specs {
            let is_known = self.knows(&spec.name) || self.retiring.has(&spec.name);
            let was_tried = self.given_back.contains_key(&spec.name);
            if !is_known && !was_tried && self.is_held_here(&spec.name).await {
                self.given_back.insert(spec.name.clone(), Instant::now());
                unwanted.push(spec);
            }
        }
        let names: Vec<AgentName> = unwanted.iter().map(|spec| spec.name.clone()).collect();
        let refused = self.take_up_all(unwanted, AcquireMode::GiveBack, false).await;
        for name in &names {
            drop(self.retire(name));
        }
        refused
    }

    /// Whether this node still has it: since it was looked at it may have been given back. A store that
    /// cannot be read just now is asked again at the next look.
    async fn is_held_here(&self, name: &AgentName) -> bool {
        let (Some(fleet), store) = (&self.context.fleet, self.context.engine.store()) else {
            return false;
        };
        let agent = store.agent(name).await.ok().flatten();
        agent.is_some_and(|agent| takeover::is_held_here(&agent, fleet))
    }

    /// Whether it is supervised here, or stands by.
    pub fn knows(&self, name: &AgentName) -> bool {
        self.agents.contains_key(name) || self.standby.contains_key(name)
    }

    /// Stops an agent that was registered and gives it back, so that no node wants it any more. One that
    /// another node has, or nobody, is that node's and the store's to forget.
    pub fn unregister(&mut self, name: &AgentName) -> Option<oneshot::Receiver<StateChangeResult>> {
        let handle = self.agents.get(name)?;
        if let Some(mut spec) = self.standby.get(name).cloned() {
            spec.plan.labels.remove(REGISTERED);
            // Before it is given back: whoever sees it free sees that too.
            let _ = handle.mail.send(Mail::Replan(Box::new(spec)));
        }
        self.retire(name)
    }

    /// Does not stand by any more for agents that are registered no longer.
    pub fn forget_registered(&mut self, names: &[AgentName]) {
        for name in names {
            let is_registered = |spec: &AgentSpec| spec.plan.is_registered();
            if self.standby.get(name).is_some_and(is_registered) {
                drop(self.retire(name));
            }
        }
    }

    /// Those that stand by.
    pub fn standing_by(&self) -> impl Iterator<Item = &AgentName> {
        self.standby.keys().filter(|name| !self.agents.contains_key(*name))
    }

    /// Gives every agent up at once, as if this process had died: what lives of them is ended by its
    /// shim in time, or taken up again by whoever may.
    pub fn abandon(&mut self) {
        for (name, handle) in std::mem::take(&mut self.agents) {
            handle.task.abort();
            self.roster.remove(&name);
            self.beats.remove(&name);
            self.wait_again(&name);
        }
    }

    /// Stops every agent and gives each back as soon as it has ended, so that another node takes it up.
    pub fn hand_over(&mut self) -> Vec<oneshot::Receiver<StateChangeResult>> {
        self.dismiss_servants();
        let names: Vec<AgentName> = self.agents.keys().cloned().collect();
        names.iter().filter_map(|name| self.retire(name)).collect()
    }

    /// This machine's fleet; none where it is alone.
    pub fn fleet(&self) -> Option<&Fleet> {
        self.context.fleet.as_ref()
    }

    /// Where agents that are supervised here are told to live, from any thread.
    pub fn beats(&self) -> Beats {
        self.beats.clone()
    }

    /// The names of all that are supervised here.
    pub fn names(&self) -> impl Iterator<Item = &AgentName> {
        self.agents.keys()
    }

    /// What is known of an agent.
    pub fn view(&self, name: &AgentName) -> Option<AgentView> {
        Some(self.agents.get(name)?.view.borrow().clone())
    }

    /// Follows what is known of an agent.
    pub fn follow(&self, name: &AgentName) -> Option<watch::Receiver<AgentView>> {
        Some(self.agents.get(name)?.view.clone())
    }

    /// A person wants it to run.
    pub fn start(&self, name: &AgentName) -> Option<oneshot::Receiver<StateChangeResult>> {
        self.ask(name, Mail::Start)
    }

    /// A person wants a new attempt.
    pub fn restart(&self, name: &AgentName) -> Option<oneshot::Receiver<StateChangeResult>> {
        self.ask(name, Mail::Restart)
    }

    /// A person does not want it any more.
    pub fn stop(&self, name: &AgentName) -> Option<oneshot::Receiver<StateChangeResult>> {
        self.ask(name, |answer| Mail::Stop(Stopper::Person, answer))
    }

    /// Another plan from the next attempt on; false when it neither is supervised here nor stands by.
    pub fn replan(&mut self, spec: AgentSpec) -> bool {
        if let Some(standing_by) = self.standby.get_mut(&spec.name) {
            *standing_by = spec.clone();
            if !self.agents.contains_key(&spec.name) {
                self.wait_again(&spec.name);
                return true;
            }
        }
        let handle = self.agents.get(&spec.name);
        handle.is_some_and(|handle| handle.mail.send(Mail::Replan(Box::new(spec))).is_ok())
    }

    /// Passes growing logs on to their agents; for as long as it is polled.
    pub async fn pass_on_growth(&self) {
        loop {
            // A watch that cannot be read tells nothing; silence is then judged by looking.
            let Ok(name) = self.context.growth.next().await else {
                return std::future::pending().await;
            };
            if let Some(handle) = self.agents.get(&name) {
                let _ = handle.mail.send(Mail::Grew);
            }
        }
    }

    /// Stops every agent, as the end of this supervisor; the next one starts them again. Answered one
    /// by one, as they come to rest.
    pub fn shut_down(&self) -> Vec<oneshot::Receiver<StateChangeResult>> {
        self.dismiss_servants();
        let names: Vec<AgentName> = self.agents.keys().cloned().collect();
        let stop = |answer| Mail::Stop(Stopper::Shutdown, answer);
        names.iter().filter_map(|name| self.ask(name, stop)).collect()
    }

    /// Does not wait any longer for what is being stopped.
    pub fn hurry(&self) {
        let retiring = self.retiring.mail.iter().map(|(_, mail)| mail);
        for mail in self.agents.values().map(|handle| &handle.mail).chain(retiring) {
            let _ = mail.send(Mail::KillNow);
        }
    }

    /// Lets every agent live, gives the leases back, and ends.
    pub async fn leave(&mut self) {
        self.dismiss_servants();
        for (name, handle) in std::mem::take(&mut self.agents) {
            self.beats.remove(&name);
            handle.leave().await;
        }
        while self.retiring.tasks.join_next().await.is_some() {}
    }

    /// How many agents have something that lives here, whoever supervises it: their locks tell.
    pub fn living(&self) -> io::Result<usize> {
        let folders = AgentFolder::all(&self.context.home)?;
        Ok(folders.iter().filter(|folder| client::is_lock_held(folder)).count())
    }

    /// Stops one agent as if this supervisor ended, and gives it back. That takes its grace, and only
    /// the end of this supervisor waits for it. Answered when it was given back; none when it is not
    /// supervised here.
    pub fn retire(&mut self, name: &AgentName) -> Option<oneshot::Receiver<StateChangeResult>> {
        self.standby.remove(name);
        self.context.standby.remove(name);
        let stopped = self.ask(name, |answer| Mail::Stop(Stopper::Shutdown, answer));
        self.roster.remove(name);
        let handle = self.agents.remove(name)?;
        self.beats.remove(name);
        self.retiring.mail.retain(|(_, mail)| !mail.is_closed());
        self.retiring.mail.push((name.clone(), handle.mail.clone()));
        let (given_back, answered) = oneshot::channel();
        self.retiring.tasks.spawn(async move {
            let answer = match stopped {
                Some(stopped) => stopped.await.ok(),
                None => None,
            };
            handle.leave().await;
            if let Some(answer) = answer {
                let _ = given_back.send(answer);
            }
        });
        Some(answered)
    }

    /// This boot of the machine.
    pub fn boot_id(&self) -> &str {
        &self.context.owner.boot
    }

    /// The store, with the funnel in front of it.
    pub fn engine(&self) -> &Engine {
        &self.context.engine
    }

    /// The agents that another supervisor has taken since, or that were given up. In a fleet they stand
    /// by from now on.
    pub fn lost(&mut self) -> Vec<AgentName> {
        let over = |(name, handle): (&AgentName, &Handle)| {
            (handle.mail.is_closed() || handle.task.is_finished()).then(|| name.clone())
        };
        let lost: Vec<AgentName> = self.agents.iter().filter_map(over).collect();
        for name in &lost {
            self.roster.remove(name);
            self.agents.remove(name);
            self.beats.remove(name);
            self.wait_again(name);
        }
        lost
    }

    fn ask(
        &self,
        name: &AgentName,
        mail: impl FnOnce(oneshot::Sender<StateChangeResult>) -> Mail,
    ) -> Option<oneshot::Receiver<StateChangeResult>> {
        let (answer, answered) = oneshot::channel();
        self.agents.get(name)?.mail.send(mail(answer)).ok()?;
        Some(answered)
    }
}

impl Handle {
    /// Whether it rested, and was given back. One whose supervision has just ended is for `lost` to tell.
    async fn is_released(&self) -> bool {
        let (answer, answered) = oneshot::channel();
        self.mail.send(Mail::Release(answer)).is_ok() && answered.await.unwrap_or(false)
    }

    async fn leave(self) {
        let (done, is_done) = oneshot::channel();
        if self.mail.send(Mail::Leave(done)).is_ok() {
            let _ = is_done.await;
        }
        let _ = self.task.await;
    }
}
