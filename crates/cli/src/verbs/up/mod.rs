//! `relight up`: the daemon. All agents of `relight.toml`, until it is told to end.

mod registering;
mod reloading;
mod standby;

use std::collections::{BTreeSet, VecDeque};
use std::io::IsTerminal as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use relight_core::agent::boots::{BootVerdict, STABLE_AFTER};
use relight_core::agent::{Agent, AgentState, FOREGROUND, Pause, Takes};
use relight_core::alert::Alert;
use relight_core::ids::AgentName;
use relight_runtime::fleet::key::FleetKey;
use relight_runtime::os::clock;
use relight_runtime::recovery::operator::Filter;
use relight_runtime::supervise::boots;
use relight_runtime::supervise::control::{
    Control, ControlReply, RefusedCode, Request, ShutdownSummary, daemon_socket,
};
use relight_runtime::supervise::control_server::{ControlCall, Reception};
use relight_runtime::supervise::notices::{Notice, What};
use relight_runtime::supervise::os_word::Word;
use relight_runtime::supervise::spec::AgentSpec;
use relight_runtime::supervise::supervisor::{
    AcquireMode, AgentView, QueueSettings, StateChangeResult, Supervisor, SupervisorSettings,
};
use relight_runtime::supervise::systemd::Systemd;
use relight_runtime::supervise::unnoticed_deaths;
use relight_server::Server;
use relight_store::StoreError;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout};

use super::alerting::Alerting;
use super::membership::{self, Heard, Membership};
use super::supervision::{self, Signals, Told, cannot_use};
use super::{configured, http, recover, registered, tracing};
use crate::arguments::agent::UpArguments;
use crate::config::Config;
use crate::environment::Environment;
use crate::exit::{Exit, Failure, Outcome};
use crate::store_way::NODE_LEASE;
use crate::work::Work;
use crate::{log, output, trust};

/// Most tasks of one agent that are counted before anything is given out.
const SHOWN_TASKS_MAX: usize = 1_000;
/// How long the end waits for a collector of traces.
const LAST_SPANS: Duration = Duration::from_secs(2);
/// How soon it is noted again that the boot is stable, when it could not be.
const STABLE_AGAIN: Duration = Duration::from_secs(60);
/// How long it may take to see what was held back.
const SETTLE_MAX: Duration = Duration::from_secs(5);
/// Why others have to wait although this node leaves.
const KEEPS_LEASE: &str =
    "something of an agent is left here and may live: this node keeps its lease until it ends";

pub(crate) fn run(environment: &Environment, arguments: &UpArguments) -> Outcome {
    let config = configured::load(environment, arguments.config.as_deref())?;
    log::settle(environment, arguments.log_format, config.log.format)?;
    trust::approve_by_use(environment, &config);
    let environment = environment.with_store(config.store_url.clone()).with_agents(&config);
    let environment = environment.deciding(None);
    environment.warn_of_password_in_flag();
    supervision::runtime()?.block_on(serve(&environment, arguments, config))
}

/// The daemon while it runs.
struct Daemon<'a> {
    environment: &'a Environment,
    arguments: &'a UpArguments,
    supervisor: Supervisor,
    notices: mpsc::UnboundedReceiver<Notice>,
    /// Notices that came while agents were taken up.
    early: VecDeque<Notice>,
    reception: Reception,
    /// The API and the dashboard.
    server: Server,
    /// Nothing was resumed at the start.
    held_back: Arc<AtomicBool>,
    systemd: Systemd,
    /// What it was told to do last.
    phase: Phase,
    /// The signal by which it was told to end.
    told: Option<i32>,
    /// Tells whoever is away.
    alerting: Alerting,
    /// This machine's place in a fleet; none where it is alone.
    membership: Option<Membership>,
    /// How agents are taken up that come to this node later.
    begin: AcquireMode,
    /// Traces, where somebody collects them.
    telemetry: Option<tracing::Telemetry>,
    /// As it was read last.
    config: Config,
    /// Agents that are not in it, but lived without a supervisor; supervised until they end.
    adopted: BTreeSet<AgentName>,
}

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

enum Woken {
    Notice(Notice),
    Signal(Told),
    Call(ControlCall),
    Fleet(Heard),
    Stable,
    Watchdog,
    AllStopped,
}

async fn serve(environment: &Environment, arguments: &UpArguments, config: Config) -> Outcome {
    let identity = membership::identity(environment, arguments, &config)?;
    let environment = &environment.deciding(identity.clone());
    let engine = environment.long_engine()?;
    log::redact_with(&engine);
    let home = environment.store_folder(&engine)?;
    let threads = http::threads()?;
    let control = threads.bind(|| bind(&home, arguments.take_over))?;
    membership::keep(environment, identity.as_ref(), &home)?;
    let membership = match identity {
        Some(identity) => Some(Membership::join(identity, &config, &engine).await?),
        None => None,
    };
    let fleet = membership.as_ref().map(|membership| membership.fleet().clone());
    let node = match &fleet {
        Some(fleet) => Some((fleet.name().clone(), FleetKey::of(engine.store().as_ref()).await?)),
        None => None,
    };
    let mut settings = SupervisorSettings { fleet, ..supervision::settings(environment, &home)? };
    if settings.fleet.is_some() {
        let lease = format!("{}ms", config.node.lease.as_ms());
        settings.places.push((Word::from(NODE_LEASE), Word::from(lease)));
    }
    let work = Work::of(&config)?;
    configured::check_strategies(&config, &work)?;
    let settings = supervision::with_work(settings, work);
    let queue = configured::queue_settings(&config.queue);
    let mut specs = configured::specs(environment, &engine, &config)?;
    specs.extend(registered::specs(environment, &engine, &config, &specs).await?);
    let alerting = Alerting::start(environment, &engine, &config, &home).await?;
    let (supervisor, notices) =
        Supervisor::new(engine.clone(), settings).map_err(|error| cannot_use(&home, &error))?;
    let telemetry = tracing::start(environment, &engine, &config)?;
    let reporters = supervisor.reporters(config.recovery.limits());
    let held_back = Arc::new(AtomicBool::new(false));
    let ground = http::Ground {
        environment,
        arguments,
        config: &config,
        home: &home,
        engine: &engine,
        supervisor: &supervisor,
        reporters: reporters.clone(),
        held_back: Arc::clone(&held_back),
        node,
    };
    let (server, reception) = http::start(ground, threads, control)?;
    let mut daemon = Daemon {
        environment,
        arguments,
        supervisor,
        notices,
        early: VecDeque::new(),
        reception,
        server,
        held_back,
        systemd: Systemd::from_environment(environment.variables()),
        phase: Phase::Serving,
        told: None,
        alerting,
        membership,
        begin: AcquireMode::Wake,
        telemetry,
        config,
        adopted: BTreeSet::new(),
    };
    // Before it says that it is up: from then on a store that is away does not end it.
    reporters.adopt().await?;
    // Before anything is started: whoever is told to end then has something to stop.
    let mut signals = Signals::new()?;
    let (begun, told) = signals.interrupt(daemon.begin(specs, &queue)).await;
    begun.transpose()?;
    if let Some(signal) = told {
        daemon.told = Some(signal);
        daemon.stop().await;
    }
    daemon.run(signals).await
}

fn bind(home: &Path, take_over: bool) -> Result<Control, Failure> {
    supervision::bind(&daemon_socket(home), take_over)?.ok_or_else(|| {
        let text = format!("a daemon already runs in {}", home.display());
        Failure::new(Exit::Busy, text).hint("relight ps shows its agents; relight down ends it")
    })
}

impl Daemon<'_> {
    /// Takes every agent up, or holds them back after a boot loop.
    async fn begin(&mut self, specs: Vec<AgentSpec>, queue: &QueueSettings) -> Result<(), Failure> {
        let count = specs.len();
        self.supervisor.watch_drain().await?;
        let store = self.supervisor.engine().store().as_ref();
        let boot = self.supervisor.boot_id();
        let forgive = self.arguments.resume_anyway;
        let verdict = boots::at_start(store, boot, count > 0, forgive).await?;
        if let BootVerdict::HoldBack { boots } = verdict {
            output::alert(&format!("ALERT {}", Alert::boot_loop(boots).line()));
        }
        let holds_back = self.arguments.paused || verdict != BootVerdict::Resume;
        self.held_back.store(holds_back, Ordering::Relaxed);
        let is_paced = queue.resume_rate > 0 || queue.resume_at_once > 0;
        let begin = match (holds_back, is_paced) {
            (true, _) => AcquireMode::HoldBack,
            (false, true) => AcquireMode::Turn,
            (false, false) => AcquireMode::Wake,
        };
        self.begin = begin;
        if count > 100 {
            self.say(&format!("taking up {count} agents"));
        }
        let left_behind = self.left_behind(&specs).await?;
        self.take_up_or_stand_by(specs).await;
        let running = self.supervisor.names().count();
        self.adopt(left_behind).await;
        self.supervisor.serve_queue(queue);
        self.say(&match &self.membership {
            None => format!("up with {running} of {count} agents; relight ps shows them"),
            Some(membership) => format!(
                "node {} is up with {running} of {count} agents; relight node list shows the fleet",
                membership.fleet().name()
            ),
        });
        self.tell_where();
        if holds_back {
            self.say_what_is_held_back().await?;
        }
        if self.supervisor.is_draining() {
            self.say("draining: nothing is begun; relight drain --cancel ends that");
        }
        // Without systemd there is nobody to tell.
        let _ = self.systemd.ready();
        Ok(())
    }

    /// A person at a terminal gets a link that logs in; a log file gets none.
    fn tell_where(&self) {
        if rustix::process::geteuid().is_root() {
            self.say("running as root: agents without a `user` of their own run as root too");
        }
        let Some(url) = self.server.url() else { return };
        if !std::io::stderr().is_terminal() {
            return self.say(&format!("serving {url}; relight dashboard opens it"));
        }
        if let Some(link) = self.server.login_link() {
            self.say(&format!("dashboard: {link} (once, within a minute; then relight dashboard)"));
        }
    }

    /// What would be done, were it not held back.
    async fn say_what_is_held_back(&self) -> Result<(), Failure> {
        let mut views: Vec<AgentView> = Vec::new();
        for name in self.supervisor.names().filter(|name| !self.adopted.contains(*name)) {
            let Some(mut view) = self.supervisor.follow(name) else { continue };
            // One whose supervision ended meanwhile is shown as it was.
            let settled = timeout(SETTLE_MAX, view.wait_for(has_settled)).await;
            views.extend(settled.ok().and_then(Result::ok).map(|view| view.clone()));
        }
        let held = views.iter().filter(|view| is_held_back(view));
        let mut held: Vec<&Agent> = held.map(|view| &view.agent).collect();
        let store = self.supervisor.engine().store();
        let mut tasks = BTreeSet::new();
        for agent in held.iter().filter(|agent| agent.plan.takes == Takes::Start) {
            let claimant = agent.plan.claimant(&agent.name);
            tasks.extend(store.claimable(&claimant, clock::now(), SHOWN_TASKS_MAX).await?);
        }
        held.retain(|agent| agent.plan.takes == Takes::Claim || agent.plan.task.is_some());
        let names: Vec<&str> = held.iter().map(|agent| agent.name.as_str()).collect();
        let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        self.say(&format!(
            "held back: agents that would be started: {names}; tasks that would be given out: {}; \
             relight start NAME begins one",
            tasks.len()
        ));
        Ok(())
    }

    async fn take_up(&mut self, specs: Vec<AgentSpec>, begin: AcquireMode) {
        for spec in specs.iter().filter(|spec| spec.can_start()) {
            self.warn(spec);
        }
        let (environment, early) = (self.environment, &mut self.early);
        let hear = |notice: Notice| match notice.what {
            What::Trouble(_) => supervision::say(environment, &notice),
            _ => early.push_back(notice),
        };
        let taking = self.supervisor.acquire_all(specs, begin, self.arguments.take_over);
        let refused = supervision::telling(&mut self.notices, hear, taking).await;
        for (name, error) in refused {
            self.say(&format!("{name} is left alone: {error}"));
        }
    }

    /// Agents that nobody supervises and the configuration does not name, usually of a `relight run` that
    /// was killed. In a fleet another node may hold them.
    async fn left_behind(&self, wanted: &[AgentSpec]) -> Result<Vec<AgentSpec>, Failure> {
        if self.membership.is_some() {
            return Ok(Vec::new());
        }
        let generic = supervision::preset(self.environment, None)?;
        let preset = |name: &str| {
            supervision::preset(self.environment, Some(name)).unwrap_or_else(|_| generic.clone())
        };
        Ok(unnoticed_deaths::left_behind(self.supervisor.engine(), wanted, preset).await?)
    }

    /// Supervises them until they end, and records the end of those that are dead.
    async fn adopt(&mut self, left_behind: Vec<AgentSpec>) {
        self.adopted.extend(left_behind.iter().map(|spec| spec.name.clone()));
        self.take_up(left_behind, AcquireMode::HoldBack).await;
    }

    /// Gives an adopted agent back that has ended: its own command may start it again.
    fn release_adopted(&mut self, name: &AgentName) {
        if !self.adopted.remove(name) {
            return;
        }
        let view = self.supervisor.view(name);
        if let Some(AgentView { agent, .. }) = view.filter(is_held_back) {
            let remedy = match agent.plan.labels.contains_key(FOREGROUND) {
                true => agent.command_to_start(None),
                false => "add it there to start it again".to_owned(),
            };
            self.say(&format!(
                "{name} is not in relight.toml, so it is not started again; {remedy}"
            ));
        }
        drop(self.supervisor.retire(name));
    }

    /// What cannot be started now may be there later: it is tried within its limits.
    fn warn(&self, spec: &AgentSpec) {
        let (name, folder) = (&spec.name, &spec.plan.folder);
        let checked = supervision::check_program(&spec.command, &spec.environment, folder);
        if let Err(failure) = checked {
            self.say(&format!("{name} cannot be started just now: {}", failure.message));
        }
    }

    async fn run(mut self, mut signals: Signals) -> Outcome {
        let mut stable_at = Some(Instant::now() + STABLE_AFTER.as_duration());
        let alive_every = self.systemd.alive_interval();
        let mut watchdog = alive_every.map(|every| Instant::now() + every);
        loop {
            match self.woken(&mut signals, stable_at, watchdog).await {
                Woken::Notice(notice) => {
                    supervision::say(self.environment, &notice);
                    let is_lost = matches!(notice.what, What::Lost | What::NodeLost);
                    if matches!(notice.what, What::Trouble(_)) && self.is_ending() {
                        self.leave_if_store_is_replaced().await;
                    }
                    if notice.what == What::AtRest {
                        self.release_adopted(&notice.agent);
                        self.release_if_draining().await;
                    }
                    if is_lost && self.has_lost_everything() && self.membership.is_none() {
                        return Err(Failure::new(
                            Exit::Fenced,
                            "another daemon has all agents now",
                        ));
                    }
                }
                Woken::Signal(Told::HangUp) if self.is_ending() => {}
                Woken::Signal(Told::HangUp) => self.reload().await,
                Woken::Signal(Told::End(signal)) => {
                    self.told.get_or_insert(signal);
                    self.stop().await;
                }
                Woken::Call(call) => self.answer(call).await,
                Woken::Fleet(heard) => {
                    self.hear(heard).await;
                    self.prove_not_overtaken()?;
                }
                Woken::Watchdog => {
                    let _ = self.systemd.alive();
                    watchdog = alive_every.map(|every| Instant::now() + every);
                }
                Woken::Stable => {
                    let store = self.supervisor.engine().store().as_ref();
                    let noted = boots::stable(store, self.supervisor.boot_id()).await;
                    // A store that is away just now is no reason to end.
                    stable_at = noted.err().map(|_| Instant::now() + STABLE_AGAIN);
                }
                Woken::AllStopped => break,
            }
        }
        self.end().await
    }

    async fn woken(
        &mut self,
        signals: &mut Signals,
        stable_at: Option<Instant>,
        watchdog: Option<Instant>,
    ) -> Woken {
        if let Some(notice) = self.early.pop_front() {
            return Woken::Notice(notice);
        }
        tokio::select! {
            biased;
            Some(notice) = self.notices.recv() => Woken::Notice(notice),
            signal = signals.next() => Woken::Signal(signal),
            call = self.reception.next() => Woken::Call(call),
            heard = heard(self.membership.as_mut()) => Woken::Fleet(heard),
            () = all_stopped(&mut self.phase) => Woken::AllStopped,
            () = at(stable_at) => Woken::Stable,
            () = at(watchdog) => Woken::Watchdog,
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
                let _ = self.systemd.stopping();
                self.say("stopping all agents; once more to kill_now");
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
        if let Some(error) = supervision::replaced_store(&self.supervisor).await {
            self.phase = Phase::Failing(error);
        }
    }

    /// What whoever asked for the end is told.
    fn ending(&self, agents: u32) -> ControlReply {
        let problem = match &self.phase {
            Phase::Failing(error) => Some(supervision::agents_live_on(error).message),
            Phase::Serving | Phase::Stopping(_) | Phase::Leaving => None,
        };
        ControlReply::ok(&ShutdownSummary { pid: std::process::id(), agents, problem })
    }

    fn is_ending(&self) -> bool {
        !matches!(self.phase, Phase::Serving)
    }

    async fn answer(&mut self, call: ControlCall) {
        let Some(call) = supervision::answer(&self.supervisor, call, self.is_ending()) else {
            return;
        };
        let agents = u32::try_from(self.supervisor.names().count()).unwrap_or(u32::MAX);
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
            Request::Reload => {
                self.reload().await;
                ControlReply::ok(&serde_json::json!({"agents": self.supervisor.names().count()}))
            }
            Request::Recover { dry_run } => return self.recover(dry_run, call.reply),
            _ => ControlReply::error(RefusedCode::Refused, "this is not known here", None),
        };
        let _ = call.reply.send(reply);
    }

    /// What is supervised here is recovered as it dies: this is for all else in the store. Meanwhile the
    /// daemon goes on.
    fn recover(&self, dry_run: bool, reply: oneshot::Sender<ControlReply>) {
        let (environment, engine) = (self.environment.clone(), self.supervisor.engine().clone());
        let work = Work::of(&self.config);
        tokio::spawn(async move {
            let report = async {
                let work = work?;
                if dry_run {
                    let recoverer = work.recoverer(engine);
                    return recover::foresee(&recoverer, &work.sessions, &Filter::default()).await;
                }
                recover::recover(&environment, &engine, work).await
            };
            let _ = reply.send(match report.await {
                Ok(report) => ControlReply::ok(&report.to_json()),
                Err(failure) => {
                    ControlReply::error(RefusedCode::Internal, failure.message, failure.hint)
                }
            });
        });
    }

    async fn end(mut self) -> Outcome {
        while let Ok(notice) = self.notices.try_recv() {
            supervision::say(self.environment, &notice);
        }
        let boot = self.supervisor.boot_id().to_owned();
        let engine = self.supervisor.engine().clone();
        // From here on nobody is there to answer: whoever asks is told so.
        drop(self.reception);
        if let Phase::Failing(error) = &self.phase {
            self.supervisor.abandon();
            self.server.stop().await;
            return Err(supervision::agents_live_on(error));
        }
        // In a fleet whoever lives on is this node's until its lease ends.
        let lives_on = matches!(self.phase, Phase::Leaving);
        match self.membership {
            Some(_) if lives_on => self.supervisor.abandon(),
            Some(membership) => {
                self.supervisor.leave().await;
                // What cannot be seen may live.
                let living = self.supervisor.living().unwrap_or(usize::MAX);
                if living == 0 {
                    membership.leave(&engine).await?;
                } else {
                    output::note(self.environment, KEEPS_LEASE);
                }
            }
            None => self.supervisor.leave().await,
        }
        self.server.stop().await;
        boots::clean_end(engine.store().as_ref(), &boot).await?;
        self.alerting.finish().await;
        if let Some(telemetry) = self.telemetry.take() {
            telemetry.finish(LAST_SPANS).await;
        }
        Ok(self.told.map_or(0, supervision::code_of_signal))
    }

    fn say(&self, text: &str) {
        output::note(self.environment, text);
    }
}

fn is_held_back(view: &AgentView) -> bool {
    matches!(view.agent.state, AgentState::Suspended { why: Pause::HeldBack, .. })
}

/// Whether it is clear what became of an agent that was taken up.
fn has_settled(view: &AgentView) -> bool {
    view.at_rest || view.phase.is_some()
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

async fn heard(membership: Option<&mut Membership>) -> Heard {
    match membership {
        Some(membership) => membership.heard().await,
        None => std::future::pending().await,
    }
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
