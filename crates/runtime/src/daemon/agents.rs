//! Which agents the daemon supervises: those of the configuration, and those that lived without a
//! supervisor.

use std::path::Path;

use relight_core::ids::AgentName;
use relight_store::StoreError;

use super::{Configuration, Daemon, Host, is_held_back};
use crate::supervise::control::{Refused, Reloaded};
use crate::supervise::notices::{self, Notice, What};
use crate::supervise::spec::AgentSpec;
use crate::supervise::supervisor::AcquireMode;
use crate::supervise::{program, unnoticed_deaths};

impl<H: Host> Daemon<H> {
    pub(super) async fn take_up(&mut self, specs: Vec<AgentSpec>, begin: AcquireMode) {
        for spec in specs.iter().filter(|spec| spec.can_start()) {
            self.warn(spec);
        }
        let (host, early) = (&self.host, &mut self.early);
        let hear = |notice: Notice| match notice.what {
            What::Trouble(_) => host.notice(&notice),
            _ => early.push_back(notice),
        };
        let taking = self
            .supervisor
            .acquire_all(specs, begin, self.settings.take_over);
        let refused = notices::pass_on(&mut self.notices, hear, taking).await;
        for (name, error) in refused {
            self.host.say(&format!("{name} is left alone: {error}"));
        }
    }

    /// Agents that nobody supervises and the configuration does not name any more. In a fleet another node
    /// may hold them.
    pub(super) async fn left_behind(
        &self,
        wanted: &[AgentSpec],
    ) -> Result<Vec<AgentSpec>, StoreError> {
        if self.membership.is_some() {
            return Ok(Vec::new());
        }
        let preset = |name: &str| self.host.preset(name);
        unnoticed_deaths::left_behind(self.supervisor.engine(), wanted, preset).await
    }

    /// Supervises them until they end, and records the end of those that are dead.
    pub(super) async fn adopt(&mut self, left_behind: Vec<AgentSpec>) {
        self.adopted
            .extend(left_behind.iter().map(|spec| spec.name.clone()));
        self.take_up(left_behind, AcquireMode::HoldBack).await;
    }

    /// Gives an adopted agent back that has ended: its own command may start it again.
    pub(super) fn release_adopted(&mut self, name: &AgentName) {
        if !self.adopted.remove(name) {
            return;
        }
        let view = self.supervisor.view(name);
        if view.is_some_and(|view| is_held_back(&view)) {
            self.host.say(&format!(
                "{name} is not in relight.toml, so it is not started again; add it there to start it"
            ));
        }
        drop(self.supervisor.retire(name));
    }

    /// What cannot be started now may be there later: it is tried within its limits.
    fn warn(&mut self, spec: &AgentSpec) {
        let (name, folder) = (&spec.name, &spec.plan.folder);
        let checked = program::check(&spec.command, &spec.environment, Path::new(folder));
        if let Err(error) = checked {
            let warning = format!(
                "{name} cannot be started just now: {}; correct that, then relight reload or relight start {name}",
                error.note
            );
            self.host.say(&warning);
            self.warnings.push(warning);
        }
    }

    /// Reads the configuration again: new agents are taken up, changed ones get their plan from the
    /// next attempt on, removed ones are stopped, and those that are placed elsewhere now handed over. A
    /// configuration that is wrong changes nothing.
    pub(super) async fn reload(&mut self) -> Result<Reloaded, Refused> {
        let read = self.host.reload(self.supervisor.engine()).await;
        let Configuration {
            specs,
            queue,
            strategies,
            policy,
        } = match read {
            Ok(configuration) => configuration,
            Err(refused) => {
                let Refused { message, hint, .. } = &refused;
                let hint = hint.as_ref().map(|hint| format!("; {hint}"));
                self.host.say(&format!(
                    "not reloaded: {message}{}",
                    hint.unwrap_or_default()
                ));
                return Err(refused);
            }
        };
        let (mut added, mut changed) = (Vec::new(), Vec::new());
        for spec in &specs {
            let name = &spec.name;
            match self.specs.iter().find(|old| old.name == *name) {
                Some(old) if old.differs_from(spec) => changed.push(name.clone()),
                None if self.adopted.contains(name) || !self.supervisor.knows(name) => {
                    added.push(name.clone());
                }
                _ => {}
            }
        }
        self.specs.clone_from(&specs);
        self.supervisor
            .recoverer()
            .replace_rules(strategies, policy);
        self.supervisor.apply_queue_settings(&queue);
        self.adopted
            .retain(|name| specs.iter().all(|spec| spec.name != *name));
        let gone: Vec<AgentName> = self
            .supervisor
            .names()
            .chain(self.supervisor.standing_by())
            .filter(|name| specs.iter().all(|spec| spec.name != **name))
            .filter(|name| !self.adopted.contains(*name))
            .cloned()
            .collect();
        for name in &gone {
            self.host.say(&format!(
                "{name} is not in the configuration any more; it is stopped"
            ));
            drop(self.supervisor.retire(name));
        }
        let specs = self.hand_over_misplaced(specs);
        let new = specs
            .into_iter()
            .filter(|spec| !self.supervisor.replan(spec.clone()))
            .collect();
        self.begin = AcquireMode::Wake;
        self.take_up_or_stand_by(new).await;
        self.host.say("the configuration was read again");
        Ok(Reloaded {
            agents: self.supervisor.names().count(),
            added,
            changed,
            removed: gone,
        })
    }
}
