//! `relight up`: the daemon of this machine. Builds it from `relight.toml` and the flags, and shows what
//! it reports; what it does is `runtime::daemon`.

use std::io::IsTerminal as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use relight_core::agent::AgentPlan;
use relight_core::error_code::ErrorCode;
use relight_core::ids::AgentName;
use relight_runtime::daemon::{Configuration, Daemon, DaemonEnd, DaemonSettings, Host};
use relight_runtime::engine::Engine;
use relight_runtime::fleet::key::FleetKey;
use relight_runtime::os::signals::Signals;
use relight_runtime::os::word::Word;
use relight_runtime::presets::Preset;
use relight_runtime::recovery::operator::Filter;
use relight_runtime::state_location::NODE_LEASE;
use relight_runtime::supervise::control::{
    AgentRegistration, Control, ControlReply, Refused, daemon_socket,
};
use relight_runtime::supervise::daemon_client::DaemonState;
use relight_runtime::supervise::notices::Notice;
use relight_runtime::supervise::spec::AgentSpec;
use relight_runtime::supervise::supervisor::{Supervisor, SupervisorSettings};
use relight_runtime::supervise::systemd::Systemd;
use relight_server::Server;
use tokio::sync::oneshot;

use super::alerting::Alerting;
use super::supervision::{self, cannot_use, cannot_wait};
use super::{configured, detached, http, membership, overview, recover, registered, tracing};
use crate::arguments::agent::UpArguments;
use crate::block_on_with;
use crate::config::Config;
use crate::environment::Environment;
use crate::exit::{Exit, Failure, Outcome};
use crate::work::Work;
use crate::{log, output};

/// How long the end waits for a collector of traces.
const LAST_SPANS: Duration = Duration::from_secs(2);

pub(crate) fn run(environment: &Environment, arguments: &UpArguments) -> Outcome {
    if arguments.is_detached {
        detached::leave_terminal();
    }
    let config = configured::load(environment, arguments.config.as_deref())?;
    log::settle(
        environment.get(log::VARIABLE),
        arguments.log_format,
        config.log.format,
    )?;
    environment.approve_by_use(&config);
    let environment = environment
        .with_store(config.store_url.clone())
        .with_agents(&config);
    let environment = environment.deciding(None);
    if arguments.detach && !arguments.is_detached {
        return detached::start(&environment);
    }
    environment.warn_of_password_in_flag();
    block_on_with(
        &supervision::runtime()?,
        serve(&environment, arguments, config),
    )
}

/// What the daemon gets of this program.
struct UpHost<'a> {
    environment: &'a Environment,
    arguments: &'a UpArguments,
    /// The API and the dashboard.
    server: Server,
    alerting: Alerting,
    /// Traces, where somebody collects them.
    telemetry: Option<tracing::Telemetry>,
    /// As it was read last.
    config: Config,
}

async fn serve(environment: &Environment, arguments: &UpArguments, config: Config) -> Outcome {
    let identity = membership::identity(environment, arguments, &config)?;
    let environment = &environment.deciding(identity.clone());
    let engine = environment.long_engine()?;
    log::redact_with(&engine);
    let home = environment.store_folder(&engine)?;
    let threads = http::threads()?;
    let control = threads.bind(|| bind(environment, &home, arguments.take_over))?;
    membership::keep(environment, identity.as_ref(), &home)?;
    let membership = match identity {
        Some(identity) => Some(membership::join(identity, &config, &engine).await?),
        None => None,
    };
    let fleet = membership
        .as_ref()
        .map(|membership| membership.fleet().clone());
    let node = match &fleet {
        Some(fleet) => Some((
            fleet.name().clone(),
            FleetKey::of(engine.store().as_ref()).await?,
        )),
        None => None,
    };
    let mut settings = SupervisorSettings {
        fleet,
        ..supervision::settings(environment, &home)?
    };
    if settings.fleet.is_some() {
        let lease = format!("{}ms", config.node.lease.as_ms());
        settings
            .places
            .push((Word::from(NODE_LEASE), Word::from(lease)));
    }
    let work = Work::of(&config)?;
    configured::check_strategies(&config, &work)?;
    let settings = supervision::with_work(settings, work);
    let queue = configured::queue_settings(&config.queue);
    let mut specs = configured::specs(environment, &engine, &config)?;
    specs.extend(registered::specs(environment, &engine, &config, &specs).await?);
    let alerting = Alerting::start(environment, &engine, &config, &home).await?;
    let (mut supervisor, notices) =
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
    let host = UpHost {
        environment,
        arguments,
        server,
        alerting,
        telemetry,
        config,
    };
    let settings = DaemonSettings {
        take_over: arguments.take_over,
        paused: arguments.paused,
        resume_anyway: arguments.resume_anyway,
        systemd: Systemd::from_environment(environment.variables()),
        held_back,
    };
    supervisor.watch_taken_tasks(reporters.clone());
    let daemon = Daemon::new(host, (supervisor, notices), reception, membership, settings);
    // Before it says that it is up: from then on a store that is away does not end it.
    reporters.adopt().await?;
    // Before anything is started: whoever is told to end then has something to stop.
    let signals = Signals::new().map_err(|error| cannot_wait(&error))?;
    let (host, ended) = daemon.run(signals, specs, &queue).await;
    let ended = ended?;
    host.server.stop().await;
    match ended {
        DaemonEnd::Told(signal) => {
            host.alerting.finish().await;
            if let Some(telemetry) = host.telemetry {
                telemetry.finish(LAST_SPANS).await;
            }
            Ok(signal.map_or(0, supervision::code_of_signal))
        }
        DaemonEnd::StoreReplaced(error) => Err(supervision::agents_live_on(&error)),
        DaemonEnd::Unrecorded(error) => Err(supervision::stopped_unrecorded(&error)),
        DaemonEnd::AgentsTaken => Err(Failure::new(
            Exit::Fenced,
            "another daemon has all agents now",
        )),
        DaemonEnd::NodeTaken(name) => Err(Failure::new(
            Exit::Fenced,
            format!("another daemon is node {name} now"),
        )),
    }
}

fn bind(environment: &Environment, home: &Path, take_over: bool) -> Result<Control, Failure> {
    supervision::bind(&daemon_socket(home), take_over)?.ok_or_else(|| {
        if let DaemonState::Silent(process) = overview::daemon(home) {
            let (text, hint) = overview::silent(home, &process);
            return Failure::new(Exit::Busy, text).hint(hint);
        }
        let text = format!("a daemon already runs in {}", home.display());
        let project = environment.project().ok().flatten();
        let is_shared = project.is_some_and(|project| !project.is_separate());
        Failure::new(Exit::Busy, text).hint(match is_shared {
            true => {
                "relight ps shows its agents; relight project separate gives this project a home of its own"
            }
            false => {
                "relight ps shows its agents; relight reload applies a changed relight.toml; relight down ends it"
            }
        })
    })
}

impl UpHost<'_> {
    /// The configuration as it is now. Who is told and the traces change with it; all, or nothing.
    async fn read_again(&mut self, engine: &Engine) -> Result<Configuration, Failure> {
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
        let queue = configured::queue_settings(&config.queue);
        self.environment.approve_by_use(&config);
        self.config = config;
        Ok(Configuration {
            specs,
            queue,
            strategies: work.strategies,
            policy: work.policy,
        })
    }
}

impl Host for UpHost<'_> {
    fn say(&self, text: &str) {
        output::note(self.environment, text);
    }

    fn alert(&self, text: &str) {
        output::alert(&format!("ALERT {text}"));
    }

    fn notice(&self, notice: &Notice) {
        supervision::say(self.environment, notice);
    }

    /// A person at a terminal gets a link that logs in; a log file gets none.
    fn is_up(&self, warnings: &[String]) {
        if rustix::process::geteuid().is_root() {
            self.say("running as root: agents without a `user` of their own run as root too");
        }
        if self.arguments.is_detached {
            detached::report_ready(self.server.url(), warnings);
        }
        let Some(url) = self.server.url() else { return };
        if !std::io::stderr().is_terminal() {
            return self.say(&format!("serving {url}; relight dashboard opens it"));
        }
        if let Some(link) = self.server.login_link() {
            self.say(&format!(
                "dashboard: {link} (once, within a minute; then relight dashboard)"
            ));
        }
    }

    async fn reload(&mut self, engine: &Engine) -> Result<Configuration, Refused> {
        let read = self.read_again(engine).await;
        read.map_err(|Failure { message, hint, .. }| Refused {
            code: ErrorCode::CONFIG,
            message,
            hint,
        })
    }

    fn preset(&self, name: &str) -> Preset {
        supervision::preset(self.environment, Some(name)).unwrap_or_else(|_| Preset::generic())
    }

    fn allows_commands(&self) -> bool {
        self.config.daemon.commands
    }

    fn plan(&self, new: AgentRegistration) -> AgentPlan {
        registered::plan(&self.config, new)
    }

    fn registered_spec(&self, name: AgentName, plan: AgentPlan) -> Result<AgentSpec, Refused> {
        let spec = registered::spec(self.environment, &self.config, name, plan);
        spec.map_err(|Failure { message, hint, .. }| Refused {
            code: ErrorCode::INVALID,
            message,
            hint,
        })
    }

    fn recover(&self, engine: Engine, dry_run: bool, reply: oneshot::Sender<ControlReply>) {
        let environment = self.environment.clone();
        let work = Work::of(&self.config);
        tokio::spawn(async move {
            let filter = Filter::default();
            let report =
                async { recover::recover(&environment, &engine, work?, filter, dry_run).await };
            let _ = reply.send(match report.await {
                Ok(report) => ControlReply::ok(&report),
                Err(failure) => {
                    ControlReply::error(ErrorCode::INTERNAL, failure.message, failure.hint)
                }
            });
        });
    }
}
