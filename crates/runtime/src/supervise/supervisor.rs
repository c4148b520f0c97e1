//! Supervises many agents: acquires each one, forwards requests to it and stops it.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use relight_core::agent::{AgentPlan, REGISTERED, Stopper};
use relight_core::event::EventKind;
use relight_core::ids::AgentName;
use relight_core::recovery::TaskPolicy;
use relight_core::store_budget::{Overspent, StoreBudget};
use relight_core::time::Span;
use relight_store::StoreError;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::task::{AbortHandle, JoinHandle, JoinSet};
use tokio::time::Instant;

use super::actor::{self, Mail};
pub use super::actor::{
    AcquireError, AcquireMode, AgentSnapshot, StateChangeResult, SupervisionLost,
};
use super::cgroup::{CgroupSetting, Cgroups};
use super::context::SupervisorContext;
use super::event_subscription::EventSubscription;
use super::folder::AgentFolder;
use super::heartbeats::{BeatSlot, Beats};
use super::log::Growth;
use super::notices::{Notice, Notices};
use super::remote_command_executor;
use super::reporters::Reporters;
use super::roster::Roster;
use super::shim::client;
use super::spec::AgentSpec;
use super::store_budget::BudgetWatch;
use super::store_changes::StoreChanges;
use super::sweeper::Sweeper;
pub use super::takeover::Takeover;
use super::takeover::{self, WaitingAgents};
use super::task_assigner::Router;
use crate::boxed::boxed;
use crate::engine::Engine;
use crate::fleet::Fleet;
use crate::os::word::Word;
use crate::os::{clock, limits, process};
use crate::recovery::{Recoverer, SWEEP_MIN, Strategies};

/// Limit of concurrent background git calls.
const GIT_PLACES: usize = 2;

/// Pause before an agent that could not be acquired is tried again.
const REFUSED_PAUSE: Duration = Duration::from_millis(500);

/// Pause between two attempts to give back an unwanted agent.
const GIVE_BACK_PAUSE: Duration = Duration::from_secs(5);

/// How tasks of the queue are assigned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueSettings {
    /// How often tasks with a dead holder are searched for, where no event reports the death.
    pub sweep: Span,
    /// Recovered tasks and agents started per second; unlimited when zero.
    pub resume_rate: u32,
    /// Recovered tasks running at the same time; unlimited when zero.
    pub resume_at_once: u32,
    /// What all agents of the store may use together.
    pub budget: StoreBudget,
}

impl QueueSettings {
    pub(super) fn sweep_every(&self) -> Duration {
        self.sweep.max(SWEEP_MIN).as_duration()
    }
}

/// Settings of a supervisor.
#[derive(Debug, Clone, Default)]
pub struct SupervisorSettings {
    /// What happens to tasks whose holder died.
    pub strategies: Strategies,
    /// Limits of tasks.
    pub policy: TaskPolicy,
    /// The folder that the store is in.
    pub home: PathBuf,
    /// The program started as a shim; this program when none.
    pub program: Option<PathBuf>,
    /// Environment variables by which agents find the store.
    pub places: Vec<(Word, Word)>,
    /// Which cgroup to use.
    pub cgroups: CgroupSetting,
    /// The fleet; none on a single machine.
    pub fleet: Option<Fleet>,
    /// How long an agent is held without a commit, by the store's clock; for as long as this process lives
    /// when none. For a machine that is no node of the fleet: nobody else can see that it is gone.
    pub hold: Option<Span>,
}

/// Delivers the agents that this node has to take over or give back.
pub type Takeovers = mpsc::UnboundedReceiver<Takeover>;

/// Supervises a set of agents.
#[derive(Debug)]
pub struct Supervisor {
    context: Arc<SupervisorContext>,
    agents: BTreeMap<AgentName, Handle>,
    beats: Beats,
    retiring: Retiring,
    /// The same agents, for the queue router and the sweeper.
    roster: Roster,
    changes: Option<StoreChanges>,
    /// Current queue settings.
    queue: Option<watch::Sender<QueueSettings>>,
    /// Background tasks of this supervisor.
    background_tasks: Vec<AbortHandle>,
    /// All agents of this node in a fleet, including those that other nodes run now.
    standby: BTreeMap<AgentName, AgentSpec>,
    /// The takeover watcher runs.
    watches_takeovers: bool,
    /// When each unwanted agent was last given back. Limits how often that is tried for an agent
    /// whose processes do not end.
    given_back: BTreeMap<AgentName, Instant>,
}

#[derive(Debug, Default)]
struct Retiring {
    tasks: JoinSet<()>,
    mail: Vec<(AgentName, mpsc::UnboundedSender<Mail>)>,
}

impl Retiring {
    fn has(&self, name: &AgentName) -> bool {
        self.mail
            .iter()
            .any(|(known, mail)| known == name && !mail.is_closed())
    }
}

/// One supervised agent.
#[derive(Debug)]
pub struct Handle {
    mail: mpsc::UnboundedSender<Mail>,
    view: watch::Receiver<AgentSnapshot>,
    task: JoinHandle<Result<(), SupervisionLost>>,
}

/// Waits until the budget is no longer spent.
async fn until(overspent: Option<&Overspent>) {
    match overspent {
        Some(overspent) => {
            let left_ms = overspent.until.since(clock::now()).as_ms();
            clock::until_boot_ms(clock::boot_ms().saturating_add(left_ms)).await;
        }
        None => std::future::pending().await,
    }
}

impl Supervisor {
    /// A supervisor without agents, and the receiver of its notices.
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
            budget: BudgetWatch::default(),
            bell: Arc::default(),
            asking: Mutex::default(),
            engine,
            home: settings.home,
            program: settings
                .program
                .unwrap_or_else(|| PathBuf::from("/proc/self/exe")),
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
            background_tasks: Vec::new(),
            standby: BTreeMap::new(),
            watches_takeovers: false,
            given_back: BTreeMap::new(),
        };
        Ok((supervisor, heard))
    }

    /// Follows the store's drain flag from now on. Call it before the first agent is acquired.
    #[boxed]
    pub async fn watch_drain(&mut self) -> Result<(), StoreError> {
        self.context.read_drain().await?;
        let mut changes = self.changes();
        let context = Arc::clone(&self.context);
        self.serve(async move {
            loop {
                changes.next().await;
                // If the store is unreachable, it is read at the next change.
                let _ = context.read_drain().await;
            }
        });
        Ok(())
    }

    /// Resumes agents paused by a drain when the drain ends. Only for a supervisor that does not
    /// serve the queue; otherwise the router wakes them at its own rate.
    pub fn resume_after_drain(&mut self) {
        let (context, roster) = (Arc::clone(&self.context), self.roster.clone());
        self.serve(async move {
            loop {
                context.bell.notified().await;
                if !context.is_draining() {
                    roster
                        .waiting(None)
                        .iter()
                        .for_each(|(name, _)| roster.wake(name));
                }
            }
        });
    }

    /// Follows what the agents of the store spend from now on, and ends what runs here once the budget
    /// is spent. Call it before the first agent is acquired.
    pub async fn watch_budget(&mut self, budget: StoreBudget) -> Result<(), StoreError> {
        self.context.budget.set(budget);
        self.context.read_budget().await?;
        let mut changes = self.changes();
        let mut limits = self.context.budget.budget();
        let (context, roster) = (Arc::clone(&self.context), self.roster.clone());
        self.serve(async move {
            loop {
                let known = context.budget.overspent();
                tokio::select! {
                    () = changes.next() => {}
                    Ok(()) = limits.changed() => {}
                    () = until(known.as_ref()) => {}
                }
                // If the store is unreachable, it is read at the next change.
                let overspent = context
                    .read_budget()
                    .await
                    .unwrap_or_else(|_| known.clone());
                if overspent.is_some() && overspent != known {
                    roster.tell_overspent();
                }
            }
        });
        Ok(())
    }

    /// Whether a drain is in effect: nothing new is started.
    pub fn is_draining(&self) -> bool {
        self.context.is_draining()
    }

    /// Starts assigning tasks of the queue and recovering tasks whose holder died. Call it after
    /// all agents are acquired, so that running ones are adopted first.
    pub fn serve_queue(&mut self, settings: &QueueSettings) {
        let (context, roster) = (Arc::clone(&self.context), self.roster.clone());
        let changes = self.changes();
        let (queue, settings) = watch::channel(settings.clone());
        self.queue = Some(queue);
        let router = Router::new(context, roster, changes.clone(), settings.clone());
        self.serve(router.serve());
        let (context, roster) = (Arc::clone(&self.context), self.roster.clone());
        self.serve(
            Sweeper {
                context,
                roster,
                changes,
                settings,
            }
            .serve(),
        );
    }

    /// Applies new queue settings. Tasks already assigned are not affected.
    pub fn apply_queue_settings(&self, settings: &QueueSettings) {
        self.context.budget.set(settings.budget);
        if let Some(queue) = &self.queue {
            queue.send_if_modified(|now| {
                let differs = *now != *settings;
                now.clone_from(settings);
                differs
            });
        }
    }

    /// Receives the reports of agents that are not started by Relight. One instance serves all.
    pub fn reporters(&self, defaults: AgentPlan) -> Reporters {
        let notices = self.context.notices.clone();
        Reporters::new(
            self.context.recoverer.clone(),
            self.beats.clone(),
            notices,
            defaults,
        )
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

    /// Watches agents that report by themselves from the time they take a task, whichever way they
    /// take it. Where several daemons share a store, only reports to one of them count.
    pub fn watch_taken_tasks(&mut self, reporters: Reporters) {
        if self.context.is_one_of_many() {
            return;
        }
        let (changes, store) = (self.changes(), Arc::clone(self.context.engine.store()));
        self.serve(async move {
            let kinds = vec![EventKind::LeaseTaken];
            let mut taken = EventSubscription::begin(store, changes, kinds).await;
            loop {
                for task in taken
                    .next()
                    .await
                    .into_iter()
                    .filter_map(|event| event.task)
                {
                    // One that cannot be watched now is heard with its next report.
                    let _ = reporters.task_taken(&task).await;
                }
            }
        });
    }

    /// The error while the store's files are removed or replaced; none once they are back.
    pub fn store_files_gone(&mut self) -> watch::Receiver<Option<String>> {
        self.changes().files_gone()
    }

    fn serve(&mut self, background: impl Future<Output = ()> + Send + 'static) {
        self.background_tasks
            .push(tokio::spawn(background).abort_handle());
    }

    /// Stops assigning tasks.
    fn stop_background_tasks(&self) {
        self.background_tasks.iter().for_each(AbortHandle::abort);
    }

    /// The recoverer of tasks.
    pub fn recoverer(&self) -> &Recoverer {
        &self.context.recoverer
    }

    /// Acquires an agent and starts to supervise it.
    #[boxed]
    pub async fn acquire(
        &mut self,
        spec: AgentSpec,
        begin: AcquireMode,
        take_over: bool,
    ) -> Result<(), AcquireError> {
        match self.acquire_all(vec![spec], begin, take_over).await.pop() {
            Some((_, error)) => Err(error),
            None => Ok(()),
        }
    }

    /// Acquires many agents concurrently, so that they share disk syncs. Returns those that failed,
    /// with the reason.
    pub async fn acquire_all(
        &mut self,
        specs: Vec<AgentSpec>,
        begin: AcquireMode,
        take_over: bool,
    ) -> Vec<(AgentName, AcquireError)> {
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

    /// Registers agents to be taken over when they are due on this node. The first call returns the
    /// receiver of takeovers; later calls return none.
    pub fn wait_for_agents(&mut self, specs: Vec<AgentSpec>) -> Option<Takeovers> {
        for spec in specs {
            self.context.standby.add(&spec, Duration::ZERO);
            self.standby.insert(spec.name.clone(), spec);
        }
        let fleet = self
            .context
            .fleet
            .clone()
            .filter(|_| !self.watches_takeovers)?;
        self.watches_takeovers = true;
        let (tell, takeovers) = mpsc::unbounded_channel();
        let waiting = self.context.standby.clone();
        let changes = self.changes();
        let (context, roster) = (Arc::clone(&self.context), self.roster.clone());
        self.serve(async move {
            // Subscribe before anything is acquired, so that no later command is missed.
            let (engine, kinds) = (&context.engine, vec![EventKind::AgentWish]);
            let wished =
                EventSubscription::begin(Arc::clone(engine.store()), changes.clone(), kinds).await;
            let holders = Arc::clone(engine.holders());
            let looks = takeover::serve(waiting, fleet, holders, changes, roster.clone(), tell);
            tokio::join!(
                looks,
                remote_command_executor::serve(context, roster, wished)
            );
        });
        Some(takeovers)
    }

    /// Releases agents at rest, because this node takes nothing new; another node may take them. An
    /// agent that has got work meanwhile stays until it rests again.
    pub async fn release_at_rest(&mut self) {
        let rests = |handle: &Handle| handle.view.borrow().at_rest;
        let names: Vec<AgentName> = self
            .agents
            .iter()
            .filter(|(_, handle)| rests(handle))
            .map(|(n, _)| n.clone())
            .collect();
        for name in names {
            let Some(handle) = self.agents.get(&name) else {
                continue;
            };
            // No work is assigned to it while it decides.
            self.roster.remove(&name);
            let (answer, answered) = oneshot::channel();
            let is_asked = handle.mail.send(Mail::Release(answer)).is_ok();
            if !(is_asked && answered.await.unwrap_or(false)) {
                let (mail, view) = (handle.mail.clone(), handle.view.clone());
                self.enlist(name, mail, view);
                continue;
            }
            self.agents.remove(&name);
            self.beats.remove(&name);
            self.wait_again(&name);
        }
    }

    /// Adds it to the roster. Remote commands that arrived since its lease was taken are delivered.
    fn enlist(
        &self,
        name: AgentName,
        mail: mpsc::UnboundedSender<Mail>,
        view: watch::Receiver<AgentSnapshot>,
    ) {
        if self.roster.add(name.clone(), mail, view) {
            tokio::spawn(remote_command_executor::execute(
                Arc::clone(&self.context),
                self.roster.clone(),
                name,
            ));
        }
    }

    /// Acquires waiting agents. One that cannot be acquired, usually because another node was
    /// faster, waits again. Returns only those that failed with a store error.
    pub async fn take_over(
        &mut self,
        names: Vec<AgentName>,
        begin: AcquireMode,
        take_over: bool,
    ) -> Vec<(AgentName, AcquireError)> {
        let specs = names
            .iter()
            .filter_map(|name| self.standby.get(name).cloned())
            .collect();
        let mut refused = self.acquire_all(specs, begin, take_over).await;
        for (name, _) in &refused {
            // Not immediately: its holder may be a hanging process of this node.
            self.wait_again_after(name, REFUSED_PAUSE);
        }
        refused.retain(|(_, error)| matches!(error, AcquireError::Store(_)));
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

    /// Stops and releases unwanted agents, so that another node can take them. Skips those that are
    /// wanted after all or are already stopping. Returns those that cannot be acquired now.
    pub async fn give_back(&mut self, specs: Vec<AgentSpec>) -> Vec<(AgentName, AcquireError)> {
        let mut unwanted = Vec::new();
        self.given_back
            .retain(|_, at| at.elapsed() < GIVE_BACK_PAUSE);
        for spec in specs {
            let is_known = self.knows(&spec.name) || self.retiring.has(&spec.name);
            let was_tried = self.given_back.contains_key(&spec.name);
            if !is_known && !was_tried && self.is_held_here(&spec.name).await {
                self.given_back.insert(spec.name.clone(), Instant::now());
                unwanted.push(spec);
            }
        }
        let names: Vec<AgentName> = unwanted.iter().map(|spec| spec.name.clone()).collect();
        let refused = self
            .acquire_all(unwanted, AcquireMode::GiveBack, false)
            .await;
        for name in &names {
            drop(self.retire(name));
        }
        refused
    }

    /// Whether this node still holds the agent. If the store cannot be read, the next check asks
    /// again.
    async fn is_held_here(&self, name: &AgentName) -> bool {
        let (Some(fleet), engine) = (&self.context.fleet, &self.context.engine) else {
            return false;
        };
        let agent = engine.store().agent(name).await.ok().flatten();
        agent.is_some_and(|agent| takeover::is_held_here(&agent, fleet, engine.holders()))
    }

    /// Whether it is supervised here or waits to be taken over.
    pub fn knows(&self, name: &AgentName) -> bool {
        self.agents.contains_key(name) || self.standby.contains_key(name)
    }

    /// Stops a registered agent and releases it for good. Does nothing if it is not supervised
    /// here.
    pub fn unregister(&mut self, name: &AgentName) -> Option<oneshot::Receiver<StateChangeResult>> {
        let handle = self.agents.get(name)?;
        if let Some(mut spec) = self.standby.get(name).cloned() {
            spec.plan.labels.remove(REGISTERED);
            // Before the release: a node that sees it free also sees that it is not registered any
            // more.
            let _ = handle.mail.send(Mail::Replan(Box::new(spec)));
        }
        self.retire(name)
    }

    /// Stops waiting for agents that are no longer registered.
    pub fn forget_registered(&mut self, names: &[AgentName]) {
        for name in names {
            let is_registered = |spec: &AgentSpec| spec.plan.is_registered();
            if self.standby.get(name).is_some_and(is_registered) {
                drop(self.retire(name));
            }
        }
    }

    /// Agents that wait to be taken over.
    pub fn standing_by(&self) -> impl Iterator<Item = &AgentName> {
        self.standby
            .keys()
            .filter(|name| !self.agents.contains_key(*name))
    }

    /// Drops every agent at once, as if this process had died. Its shim stops it in time, or
    /// another supervisor adopts it.
    pub fn abandon(&mut self) {
        for (name, handle) in std::mem::take(&mut self.agents) {
            handle.task.abort();
            self.roster.remove(&name);
            self.beats.remove(&name);
            self.wait_again(&name);
        }
    }

    /// Stops every agent and releases each as soon as it has ended, so that another node takes it
    /// over.
    pub fn hand_over(&mut self) -> Vec<oneshot::Receiver<StateChangeResult>> {
        self.stop_background_tasks();
        let names: Vec<AgentName> = self.agents.keys().cloned().collect();
        names.iter().filter_map(|name| self.retire(name)).collect()
    }

    /// The fleet; none on a single machine.
    pub fn fleet(&self) -> Option<&Fleet> {
        self.context.fleet.as_ref()
    }

    /// Receives heartbeats of the agents supervised here, from any thread.
    pub fn beats(&self) -> Beats {
        self.beats.clone()
    }

    /// Names of the agents supervised here.
    pub fn names(&self) -> impl Iterator<Item = &AgentName> {
        self.agents.keys()
    }

    /// The current view of an agent.
    pub fn view(&self, name: &AgentName) -> Option<AgentSnapshot> {
        Some(self.agents.get(name)?.view.borrow().clone())
    }

    /// Subscribes to the view of an agent.
    pub fn follow(&self, name: &AgentName) -> Option<watch::Receiver<AgentSnapshot>> {
        Some(self.agents.get(name)?.view.clone())
    }

    /// Starts it on request of a person.
    pub fn start(&self, name: &AgentName) -> Option<oneshot::Receiver<StateChangeResult>> {
        self.ask(name, Mail::Start)
    }

    /// Starts a new attempt on request of a person.
    pub fn restart(&self, name: &AgentName) -> Option<oneshot::Receiver<StateChangeResult>> {
        self.ask(name, Mail::Restart)
    }

    /// Stops it on request of a person.
    pub fn stop(&self, name: &AgentName) -> Option<oneshot::Receiver<StateChangeResult>> {
        self.ask(name, |answer| Mail::Stop(Stopper::Person, answer))
    }

    /// Sets a new plan, used from the next attempt on. False when it is neither supervised nor
    /// waiting here.
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

    /// Notifies agents of growth of their logs, for as long as it is polled.
    #[boxed]
    pub async fn pass_on_growth(&self) {
        loop {
            // If the watch fails, silence is detected by polling.
            let Ok(name) = self.context.growth.next().await else {
                return std::future::pending().await;
            };
            if let Some(handle) = self.agents.get(&name) {
                let _ = handle.mail.send(Mail::Grew);
            }
        }
    }

    /// Stops every agent because this supervisor ends; the next one starts them again. Each
    /// receiver resolves when its agent is at rest.
    pub fn shut_down(&self) -> Vec<oneshot::Receiver<StateChangeResult>> {
        self.stop_background_tasks();
        let names: Vec<AgentName> = self.agents.keys().cloned().collect();
        let stop = |answer| Mail::Stop(Stopper::Shutdown, answer);
        names
            .iter()
            .filter_map(|name| self.ask(name, stop))
            .collect()
    }

    /// Kills everything that is being stopped, without waiting for the grace period.
    pub fn kill_now(&self) {
        let retiring = self.retiring.mail.iter().map(|(_, mail)| mail);
        for mail in self
            .agents
            .values()
            .map(|handle| &handle.mail)
            .chain(retiring)
        {
            let _ = mail.send(Mail::KillNow);
        }
    }

    /// Leaves every agent running, releases the leases and ends.
    #[boxed]
    pub async fn leave(&mut self) {
        self.stop_background_tasks();
        for (name, handle) in std::mem::take(&mut self.agents) {
            self.beats.remove(&name);
            handle.leave().await;
        }
        while self.retiring.tasks.join_next().await.is_some() {}
    }

    /// How many agents have live processes on this machine, under any supervisor, judged by their
    /// locks.
    pub fn living(&self) -> io::Result<usize> {
        let folders = AgentFolder::all(&self.context.home)?;
        Ok(folders
            .iter()
            .filter(|folder| client::is_lock_held(folder))
            .count())
    }

    /// Stops one agent as if this supervisor ended, and releases it. Runs in the background; only
    /// the end of this supervisor waits for it. Resolves after the release; none when it is not
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

    /// The machine's boot id.
    pub fn boot_id(&self) -> &str {
        &self.context.owner.boot
    }

    /// The engine in front of the store.
    pub fn engine(&self) -> &Engine {
        &self.context.engine
    }

    /// Removes and returns the agents that were lost to another supervisor or given up. In a fleet
    /// they wait to be taken over again.
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
    async fn leave(self) {
        let (done, is_done) = oneshot::channel();
        if self.mail.send(Mail::Leave(done)).is_ok() {
            let _ = is_done.await;
        }
        let _ = self.task.await;
    }
}
