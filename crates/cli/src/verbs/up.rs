//! `relight up`: the daemon. All agents of `relight.toml`, until it is told to end.

use std::collections::BTreeSet;
use std::io::IsTerminal as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use relight::doors::clock;
use relight::fleet::Fleet;
use relight::fleet::key::FleetKey;
use relight::supervise::boots;
use relight::supervise::control::{
    Control, Ending, NewAgent, Refused, RefusedCode, Registered, Reply, Request, daemon_socket,
};
use relight::supervise::notice::{Notice, What};
use relight::supervise::reception::{Call, Reception};
use relight::supervise::recover;
use relight::supervise::spec::AgentSpec;
use relight::supervise::supervisor::{
    AgentView, Answer, Begin, Outlook, QueueSettings, Settings, Supervisor,
};
use relight::supervise::systemd::Systemd;
use relight::supervise::word::Word;
use relight::telemetry::Telemetry;
use relight_core::agent::boots::{STABLE_AFTER, Verdict};
use relight_core::agent::change::AgentChange;
use relight_core::agent::{Agent, AgentState, Pause, Takes};
use relight_core::alert::Alert;
use relight_core::decide::Guard;
use relight_core::ids::AgentName;
use relight_server::Server;
use relight_store::{AgentCommit, AgentCommitError};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout};

use super::alerting::Alerting;
use super::membership::{self, Heard, Membership};
use super::supervision::{self, Signals, Told, cannot_use};
use super::{configured, http, registered, tracing};
use crate::arguments::agent::UpArguments;
use crate::config::Config;
use crate::environment::Environment;
use crate::exit::{Exit, Failure, Outcome};
use crate::store_way::NODE_LEASE;
use crate::work::Work;
use crate::{log, output};

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
    begin: Begin,
    /// Traces, where somebody collects them.
    telemetry: Option<Telemetry>,
    /// As it was read last.
    config: Config,
}

enum Phase {
    /// Agents are supervised.
    Serving,
    /// Agents are being stopped; those whose end is still awaited.
    Stopping(Vec<oneshot::Receiver<Answer>>),
    /// Agents live on without us.
    Leaving,
}

enum Woken {
    Notice(Notice),
    Signal(Told),
    Call(Call),
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
    let mut settings = Settings { fleet, ..supervision::settings(environment, &home)? };
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
    let reporters = supervisor.reporters();
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
        reception,
        server,
        held_back,
        systemd: Systemd::from_environment(environment.variables()),
        phase: Phase::Serving,
        told: None,
        alerting,
        membership,
        begin: Begin::Wake,
        telemetry,
        config,
    };
    // Before anything is started: whoever is told to end then has something to stop.
    let signals = Signals::new()?;
    daemon.begin(specs, &queue).await?;
    reporters.adopt().await?;
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
        self.supervisor.mind_drain().await?;
        let store = self.supervisor.engine().store().as_ref();
        let boot = self.supervisor.boot_id();
        let forgive = self.arguments.resume_anyway;
        let verdict = boots::at_start(store, boot, count > 0, forgive).await?;
        if let Verdict::HoldBack { boots } = verdict {
            output::alert(&format!("ALERT {}", Alert::boot_loop(boots).line()));
        }
        let holds_back = self.arguments.paused || verdict != Verdict::Resume;
        self.held_back.store(holds_back, Ordering::Relaxed);
        let is_paced = queue.resume_rate > 0 || queue.resume_at_once > 0;
        let begin = match (holds_back, is_paced) {
            (true, _) => Begin::HoldBack,
            (false, true) => Begin::Turn,
            (false, false) => Begin::Wake,
        };
        self.begin = begin;
        if count > 100 {
            self.say(&format!("taking up {count} agents"));
        }
        self.take_up_or_stand_by(specs).await;
        let running = self.supervisor.names().count();
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
        for name in self.supervisor.names() {
            let Some(mut view) = self.supervisor.follow(name) else { continue };
            // One whose supervision ended meanwhile is shown as it was.
            let settled = timeout(SETTLE_MAX, view.wait_for(has_settled)).await;
            views.extend(settled.ok().and_then(Result::ok).map(|view| view.clone()));
        }
        let is_held = |view: &&AgentView| {
            matches!(view.agent.state, AgentState::Suspended { why: Pause::HeldBack, .. })
        };
        let mut held: Vec<&Agent> = views.iter().filter(is_held).map(|view| &view.agent).collect();
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

    async fn take_up(&mut self, specs: Vec<AgentSpec>, begin: Begin) {
        for spec in &specs {
            self.warn(spec);
        }
        let refused = self.supervisor.take_up_all(specs, begin, self.arguments.take_over).await;
        for (name, error) in refused {
            self.say(&format!("{name} is left alone: {error}"));
        }
    }

    /// In a fleet each agent is taken up by one node; what was this one's before is so at once.
    async fn take_up_or_stand_by(&mut self, specs: Vec<AgentSpec>) {
        let Some(membership) = &mut self.membership else {
            return self.take_up(specs, self.begin).await;
        };
        let (name, labels) = (membership.fleet().name(), membership.fleet().labels());
        let (admitted, others): (Vec<AgentSpec>, Vec<AgentSpec>) =
            specs.into_iter().partition(|spec| spec.placement.admits(name, labels));
        let outlook = match self.supervisor.stand_by(admitted) {
            Some(outlooks) => membership.listen(outlooks).await,
            None => Outlook::default(),
        };
        if !others.is_empty() {
            self.say(&format!("{} agents are placed on other nodes", others.len()));
        }
        self.look_out(outlook, self.arguments.take_over).await;
    }

    /// Does what a look at all agents of the fleet came to.
    async fn look_out(&mut self, outlook: Outlook, take_over: bool) {
        self.supervisor.forget_registered(&outlook.removed);
        self.stand_by_for_registered(outlook.registered);
        self.fill(outlook.ripe, take_over).await;
        self.give_back(outlook.forsaken).await;
    }

    /// Agents that were registered on any node come here too, when it is this one's turn.
    fn stand_by_for_registered(&mut self, agents: Vec<Agent>) {
        if !self.config.daemon.commands {
            return;
        }
        for agent in agents {
            if self.supervisor.knows(&agent.name) {
                continue;
            }
            let name = agent.name;
            match registered::spec(self.environment, &self.config, name.clone(), agent.plan) {
                Ok(spec) => drop(self.supervisor.stand_by(vec![spec])),
                Err(failure) => self.say(&format!("{name} is left alone: {}", failure.message)),
            }
        }
    }

    /// What this node has and does not want any more is ended and given back: while it is this live
    /// node's, no other one takes it.
    async fn give_back(&mut self, agents: Vec<Agent>) {
        let generic = || supervision::preset(self.environment, None);
        let specs = agents.into_iter().map(|agent| {
            let preset = supervision::preset(self.environment, Some(&agent.plan.preset));
            Some(recover::spec_of(agent, preset.or_else(|_| generic()).ok()?))
        });
        let specs = specs.flatten().collect();
        for (name, error) in self.supervisor.give_back(specs).await {
            self.say(&format!("{name} cannot be given back now: {error}"));
        }
    }

    /// Takes up agents that came to this node.
    async fn fill(&mut self, names: Vec<AgentName>, take_over: bool) {
        for (name, error) in self.supervisor.fill(names, self.begin, take_over).await {
            self.say(&format!("{name} is left alone for now: {error}"));
        }
    }

    async fn hear(&mut self, heard: Heard) {
        match heard {
            Heard::Outlook(outlook) if matches!(self.phase, Phase::Serving) => {
                self.look_out(outlook, false).await;
            }
            Heard::Outlook(_) => {}
            Heard::Standing => {
                if self.membership.as_mut().is_some_and(Membership::has_lost) {
                    self.say("the lease of this node ran out; its agents are given up");
                    self.supervisor.abandon();
                }
            }
            Heard::Nodes => self.release_if_draining().await,
        }
    }

    /// Two daemons of one node would take its lease from each other for ever.
    fn prove_not_overtaken(&self) -> Result<(), Failure> {
        match &self.membership {
            Some(membership) if membership.is_overtaken() => {
                let text = format!("another daemon is node {} now", membership.fleet().name());
                Err(Failure::new(Exit::Fenced, text))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// A node that drains gives back what has come to rest, for others to take up.
    async fn release_if_draining(&mut self) {
        if self.supervisor.fleet().is_some_and(Fleet::is_draining) {
            self.supervisor.release_at_rest().await;
        }
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
                    if notice.what == What::AtRest {
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
                    self.stop();
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
    fn stop(&mut self) {
        match self.phase {
            Phase::Serving => {
                let _ = self.systemd.stopping();
                self.say("stopping all agents; once more to hurry");
                self.phase = Phase::Stopping(match self.membership {
                    Some(_) => self.supervisor.hand_over(),
                    None => self.supervisor.shut_down(),
                });
            }
            Phase::Stopping(_) => self.supervisor.hurry(),
            Phase::Leaving => {}
        }
    }

    fn is_ending(&self) -> bool {
        !matches!(self.phase, Phase::Serving)
    }

    async fn answer(&mut self, call: Call) {
        let Some(call) = supervision::answer(&self.supervisor, call, self.is_ending()) else {
            return;
        };
        let agents = u32::try_from(self.supervisor.names().count()).unwrap_or(u32::MAX);
        let reply = match call.request {
            Request::Down { keep_agents: true } => {
                self.phase = Phase::Leaving;
                Reply::ok(&Ending { pid: std::process::id(), agents })
            }
            Request::Down { keep_agents: false } => {
                self.stop();
                Reply::ok(&Ending { pid: std::process::id(), agents })
            }
            Request::Register(new) => match self.register(*new).await {
                Ok(registered) => Reply::ok(&registered),
                Err(refused) => Reply::Error(refused),
            },
            Request::Unregister { agent } => return self.unregister(&agent, call.reply),
            Request::Reload => {
                self.reload().await;
                Reply::ok(&serde_json::json!({"agents": self.supervisor.names().count()}))
            }
            // Everything that is supervised here is recovered as it dies.
            Request::Recover { .. } => Reply::ok(&serde_json::json!({"recovered": []})),
            _ => Reply::error(RefusedCode::Refused, "this is not known here", None),
        };
        let _ = call.reply.send(reply);
    }

    /// Reads the configuration again: new agents are taken up, changed ones get their plan from the
    /// next attempt on, removed ones are stopped, and those that are placed elsewhere now handed over. A
    /// configuration that is wrong changes nothing.
    async fn reload(&mut self) {
        let read = self.read_again().await;
        let specs = match read {
            Ok(specs) => specs,
            Err(failure) => {
                let hint = failure.hint.map(|hint| format!("; {hint}")).unwrap_or_default();
                return self.say(&format!("not reloaded: {}{hint}", failure.message));
            }
        };
        let gone: Vec<AgentName> = self
            .supervisor
            .names()
            .chain(self.supervisor.standing_by())
            .filter(|name| specs.iter().all(|spec| spec.name != **name))
            .cloned()
            .collect();
        for name in gone {
            self.say(&format!("{name} is not in the configuration any more; it is stopped"));
            drop(self.supervisor.retire(&name));
        }
        let specs = self.hand_over_misplaced(specs);
        let new = specs.into_iter().filter(|spec| !self.supervisor.replan(spec.clone())).collect();
        self.begin = Begin::Wake;
        self.take_up_or_stand_by(new).await;
        self.say("the configuration was read again");
    }

    /// Hands over what this node has or stands by for and may not have any more. Answers all others.
    fn hand_over_misplaced(&mut self, specs: Vec<AgentSpec>) -> Vec<AgentSpec> {
        let Some(fleet) = self.supervisor.fleet().cloned() else { return specs };
        let is_misplaced = |spec: &AgentSpec| {
            let may_run = spec.placement.admits(fleet.name(), fleet.labels());
            !may_run && self.supervisor.knows(&spec.name)
        };
        let (misplaced, others): (Vec<AgentSpec>, Vec<AgentSpec>) =
            specs.into_iter().partition(is_misplaced);
        for AgentSpec { name, .. } in misplaced {
            self.say(&format!("{name} is placed on other nodes now; it is handed over"));
            drop(self.supervisor.retire(&name));
        }
        others
    }

    /// The agents of the configuration as it is now. Who is told, the strategies, the limits and the
    /// pace of the queue change with it; all of them, or nothing.
    async fn read_again(&mut self) -> Result<Vec<AgentSpec>, Failure> {
        let engine = self.supervisor.engine();
        let config = configured::load(self.environment, self.arguments.config.as_deref())?;
        let work = Work::of(&config)?;
        configured::check_strategies(&config, &work)?;
        let mut specs = configured::specs(self.environment, engine, &config)?;
        specs.extend(registered::specs(self.environment, engine, &config, &specs).await?);
        let home = self.environment.store_folder(engine)?;
        let alerting = Alerting::start(self.environment, engine, &config, &home).await?;
        let telemetry = tracing::start(self.environment, engine, &config)?;
        // What the earlier ones are just sending they have claimed.
        self.alerting = alerting;
        self.telemetry = telemetry;
        self.supervisor.recoverer().replace_rules(work.strategies, work.policy);
        self.supervisor.serve_queue_so(&configured::queue_settings(&config.queue));
        self.config = config;
        Ok(specs)
    }

    /// Supervises an agent that somebody registered, from now on. The same one again changes nothing.
    async fn register(&mut self, new: NewAgent) -> Result<Registered, Refused> {
        let refused = |code, message: String, hint: Option<String>| Refused { code, message, hint };
        let name = new.name.clone();
        let engine = self.supervisor.engine().clone();
        let plan = registered::plan(&self.config, new);
        let known = engine.store().agent(&name).await;
        let known =
            known.map_err(|error| refused(RefusedCode::Internal, error.to_string(), None))?;
        let is_same = known.as_ref().is_some_and(|known| known.plan == plan);
        if known.is_some() && !is_same {
            let text = format!("there is an agent {name} already");
            let hint = Some("take another name, or DELETE it first".to_owned());
            return Err(refused(RefusedCode::Conflict, text, hint));
        }
        if is_same && self.supervisor.view(&name).is_some() {
            return Ok(Registered { created: false });
        }
        let spec = registered::spec(self.environment, &self.config, name.clone(), plan)
            .map_err(|failure| refused(RefusedCode::Refused, failure.message, failure.hint))?;
        supervision::check_program(&spec.command, &spec.environment, &spec.plan.folder)
            .map_err(|failure| refused(RefusedCode::Refused, failure.message, failure.hint))?;
        let taken = match &self.membership {
            Some(_) => self.create(spec, known.is_some()).await.map_err(|e| e.to_string()),
            None => {
                let taken = self.supervisor.take_up(spec, Begin::Wake, false).await;
                taken.map_err(|error| error.to_string())
            }
        };
        taken.map_err(|why| refused(RefusedCode::Conflict, why, None))?;
        self.say(&format!("{name} was registered and is supervised from now on"));
        Ok(Registered { created: known.is_none() })
    }

    /// Makes an agent known to the whole fleet: the node whose turn it is takes it up.
    async fn create(&mut self, spec: AgentSpec, is_known: bool) -> Result<(), AgentCommitError> {
        if !is_known {
            let changes = vec![AgentChange::Created(Box::new(spec.plan.clone()))];
            let guard = Guard { fence: None, seq: None };
            let commit = AgentCommit { agent: spec.name.clone(), guard, at: clock::now(), changes };
            self.supervisor.engine().store().commit_agent(commit).await?;
        }
        if !self.supervisor.knows(&spec.name) {
            drop(self.supervisor.stand_by(vec![spec]));
        }
        Ok(())
    }

    /// Stops it and gives it back; whoever asked hears once that is done.
    fn unregister(&mut self, name: &AgentName, reply: oneshot::Sender<Reply>) {
        let retired = match self.membership {
            Some(_) => self.supervisor.unregister(name),
            None => self.supervisor.retire(name),
        };
        if retired.is_some() {
            self.say(&format!("{name} is not registered any more; it is stopped"));
        }
        tokio::spawn(async move {
            if let Some(retired) = retired {
                // Dropped when the supervisor ends, which gives it back too.
                let _ = retired.await;
            }
            let _ = reply.send(Reply::ok(&serde_json::json!({})));
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

/// Whether it is clear what became of an agent that was taken up.
fn has_settled(view: &AgentView) -> bool {
    view.at_rest || view.phase.is_some()
}

/// Returns once nothing is awaited any more; never while agents are supervised.
async fn all_stopped(phase: &mut Phase) {
    match phase {
        Phase::Serving => std::future::pending().await,
        Phase::Leaving => {}
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
