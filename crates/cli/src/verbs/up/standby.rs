//! The daemon as a node: which agents it takes up, stands by for and gives back.

use relight_core::agent::Agent;
use relight_core::ids::AgentName;
use relight_runtime::fleet::Fleet;
use relight_runtime::supervise::spec::AgentSpec;
use relight_runtime::supervise::supervisor::Takeover;
use relight_runtime::supervise::unnoticed_deaths;

use super::{Daemon, Phase};
use crate::exit::{Exit, Failure};
use crate::verbs::membership::{Heard, Membership};
use crate::verbs::{registered, supervision};

impl Daemon<'_> {
    /// In a fleet each agent is taken up by one node; what was this one's before is so at once.
    pub(super) async fn take_up_or_stand_by(&mut self, specs: Vec<AgentSpec>) {
        let Some(membership) = &mut self.membership else {
            return self.take_up(specs, self.begin).await;
        };
        let (name, labels) = (membership.fleet().name(), membership.fleet().labels());
        let (admitted, others): (Vec<AgentSpec>, Vec<AgentSpec>) =
            specs.into_iter().partition(|spec| spec.placement.admits(name, labels));
        let takeover = match self.supervisor.wait_for_agents(admitted) {
            Some(takeovers) => membership.listen(takeovers).await,
            None => Takeover::default(),
        };
        if !others.is_empty() {
            self.say(&format!("{} agents are placed on other nodes", others.len()));
        }
        self.apply_takeover(takeover, self.arguments.take_over).await;
    }

    /// Does what a look at all agents of the fleet came to.
    pub(super) async fn apply_takeover(&mut self, takeover: Takeover, take_over: bool) {
        self.supervisor.forget_registered(&takeover.removed);
        self.wait_for_registered(takeover.registered);
        self.take_over(takeover.ready, take_over).await;
        self.give_back(takeover.unwanted).await;
    }

    /// Agents that were registered on any node come here too, when it is this one's turn.
    pub(super) fn wait_for_registered(&mut self, agents: Vec<Agent>) {
        if !self.config.daemon.commands {
            return;
        }
        for agent in agents {
            if self.supervisor.knows(&agent.name) {
                continue;
            }
            let name = agent.name;
            match registered::spec(self.environment, &self.config, name.clone(), agent.plan) {
                Ok(spec) => drop(self.supervisor.wait_for_agents(vec![spec])),
                Err(failure) => self.say(&format!("{name} is left alone: {}", failure.message)),
            }
        }
    }

    /// What this node has and does not want any more is ended and given back: while it is this live
    /// node's, no other one takes it.
    pub(super) async fn give_back(&mut self, agents: Vec<Agent>) {
        let generic = || supervision::preset(self.environment, None);
        let specs = agents.into_iter().map(|agent| {
            let preset = supervision::preset(self.environment, Some(&agent.plan.preset));
            Some(unnoticed_deaths::spec_of(agent, preset.or_else(|_| generic()).ok()?))
        });
        let specs = specs.flatten().collect();
        for (name, error) in self.supervisor.give_back(specs).await {
            self.say(&format!("{name} cannot be given back now: {error}"));
        }
    }

    /// Takes up agents that came to this node.
    pub(super) async fn take_over(&mut self, names: Vec<AgentName>, take_over: bool) {
        for (name, error) in self.supervisor.take_over(names, self.begin, take_over).await {
            self.say(&format!("{name} is left alone for now: {error}"));
        }
    }

    pub(super) async fn hear(&mut self, heard: Heard) {
        match heard {
            Heard::Takeover(takeover) if matches!(self.phase, Phase::Serving) => {
                self.apply_takeover(takeover, false).await;
            }
            Heard::Takeover(_) => {}
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
    pub(super) fn prove_not_overtaken(&self) -> Result<(), Failure> {
        match &self.membership {
            Some(membership) if membership.is_overtaken() => {
                let text = format!("another daemon is node {} now", membership.fleet().name());
                Err(Failure::new(Exit::Fenced, text))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// A node that drains gives back what has come to rest, for others to take up.
    pub(super) async fn release_if_draining(&mut self) {
        if self.supervisor.fleet().is_some_and(Fleet::is_draining) {
            self.supervisor.release_at_rest().await;
        }
    }

    /// Hands over what this node has or stands by for and may not have any more. Answers all others.
    pub(super) fn hand_over_misplaced(&mut self, specs: Vec<AgentSpec>) -> Vec<AgentSpec> {
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
}
