//! The configuration, read again while the daemon runs.

use relight_core::ids::AgentName;
use relight_runtime::supervise::spec::AgentSpec;
use relight_runtime::supervise::supervisor::AcquireMode;

use super::Daemon;
use crate::exit::Failure;
use crate::trust;
use crate::verbs::alerting::Alerting;
use crate::verbs::{configured, registered, tracing};
use crate::work::Work;

impl Daemon<'_> {
    /// Reads the configuration again: new agents are taken up, changed ones get their plan from the
    /// next attempt on, removed ones are stopped, and those that are placed elsewhere now handed over. A
    /// configuration that is wrong changes nothing.
    pub(super) async fn reload(&mut self) {
        let read = self.read_again().await;
        let specs = match read {
            Ok(specs) => specs,
            Err(failure) => {
                let hint = failure.hint.map(|hint| format!("; {hint}")).unwrap_or_default();
                return self.say(&format!("not reloaded: {}{hint}", failure.message));
            }
        };
        self.adopted.retain(|name| specs.iter().all(|spec| spec.name != *name));
        let gone: Vec<AgentName> = self
            .supervisor
            .names()
            .chain(self.supervisor.standing_by())
            .filter(|name| specs.iter().all(|spec| spec.name != **name))
            .filter(|name| !self.adopted.contains(*name))
            .cloned()
            .collect();
        for name in gone {
            self.say(&format!("{name} is not in the configuration any more; it is stopped"));
            drop(self.supervisor.retire(&name));
        }
        let specs = self.hand_over_misplaced(specs);
        let new = specs.into_iter().filter(|spec| !self.supervisor.replan(spec.clone())).collect();
        self.begin = AcquireMode::Wake;
        self.take_up_or_stand_by(new).await;
        self.say("the configuration was read again");
    }

    /// The agents of the configuration as it is now. Who is told, the strategies, the limits and the
    /// pace of the queue change with it; all of them, or nothing.
    pub(super) async fn read_again(&mut self) -> Result<Vec<AgentSpec>, Failure> {
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
        self.supervisor.apply_queue_settings(&configured::queue_settings(&config.queue));
        trust::approve_by_use(self.environment, &config);
        self.config = config;
        Ok(specs)
    }
}
