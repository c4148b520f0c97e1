//! The daemon as a node: which agents it takes up, stands by for and gives back.

use relight_core::agent::Agent;
use relight_core::ids::{AgentName, NodeName};

use super::membership::{FleetNews, Membership};
use super::{Daemon, Host, Phase};
use crate::fleet::Fleet;
use crate::supervise::spec::AgentSpec;
use crate::supervise::supervisor::Takeover;
use crate::supervise::unnoticed_deaths;

impl<H: Host> Daemon<H> {
    /// In a fleet each agent is taken up by one node; what was this one's before is so at once.
    pub(super) async fn take_up_or_stand_by(&mut self, specs: Vec<AgentSpec>) {
        let Some(membership) = &mut self.membership else {
            return self.take_up(specs, self.begin).await;
        };
        let (name, labels) = (membership.fleet().name(), membership.fleet().labels());
        let (admitted, others): (Vec<AgentSpec>, Vec<AgentSpec>) = specs
            .into_iter()
            .partition(|spec| spec.placement.admits(name, labels));
        let takeover = match self.supervisor.wait_for_agents(admitted) {
            Some(takeovers) => membership.listen(takeovers).await,
            None => Takeover::default(),
        };
        if !others.is_empty() {
            self.host.say(&format!(
                "{} agents are placed on other nodes",
                others.len()
            ));
        }
        self.apply_takeover(takeover, self.settings.take_over).await;
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
        if !self.host.allows_commands() {
            return;
        }
        for agent in agents {
            if self.supervisor.knows(&agent.name) {
                continue;
            }
            let name = agent.name;
            match self.host.registered_spec(name.clone(), agent.plan) {
                Ok(spec) => drop(self.supervisor.wait_for_agents(vec![spec])),
                Err(error) => self
                    .host
                    .say(&format!("{name} is left alone: {}", error.message)),
            }
        }
    }

    /// What this node has and does not want any more is ended and given back: while it is this live
    /// node's, no other one takes it.
    pub(super) async fn give_back(&mut self, agents: Vec<Agent>) {
        let spec = |agent: Agent| {
            let preset = self.host.preset(&agent.plan.preset);
            unnoticed_deaths::spec_of(agent, preset)
        };
        let specs = agents.into_iter().map(spec).collect();
        for (name, error) in self.supervisor.give_back(specs).await {
            self.host
                .say(&format!("{name} cannot be given back now: {error}"));
        }
    }

    /// Takes up agents that came to this node.
    pub(super) async fn take_over(&mut self, names: Vec<AgentName>, take_over: bool) {
        for (name, error) in self
            .supervisor
            .take_over(names, self.begin, take_over)
            .await
        {
            self.host
                .say(&format!("{name} is left alone for now: {error}"));
        }
    }

    pub(super) async fn hear(&mut self, news: FleetNews) {
        match news {
            FleetNews::Takeover(takeover) if matches!(self.phase, Phase::Serving) => {
                self.apply_takeover(takeover, false).await;
            }
            FleetNews::Takeover(_) => {}
            FleetNews::Standing => {
                if self.membership.as_mut().is_some_and(Membership::has_lost) {
                    self.host
                        .say("the lease of this node ran out; its agents are given up");
                    self.supervisor.abandon();
                }
            }
            FleetNews::Nodes => self.release_if_draining().await,
        }
    }

    /// The name of this node, if another daemon is it now: two would take its lease from each other for
    /// ever.
    pub(super) fn overtaken(&self) -> Option<NodeName> {
        let membership = self
            .membership
            .as_ref()
            .filter(|membership| membership.is_overtaken());
        membership.map(|membership| membership.fleet().name().clone())
    }

    /// A node that drains gives back what has come to rest, for others to take up.
    pub(super) async fn release_if_draining(&mut self) {
        if self.supervisor.fleet().is_some_and(Fleet::is_draining) {
            self.supervisor.release_at_rest().await;
        }
    }

    /// Hands over what this node has or stands by for and may not have any more. Answers all others.
    pub(super) fn hand_over_misplaced(&mut self, specs: Vec<AgentSpec>) -> Vec<AgentSpec> {
        let Some(fleet) = self.supervisor.fleet().cloned() else {
            return specs;
        };
        let is_misplaced = |spec: &AgentSpec| {
            let may_run = spec.placement.admits(fleet.name(), fleet.labels());
            !may_run && self.supervisor.knows(&spec.name)
        };
        let (misplaced, others): (Vec<AgentSpec>, Vec<AgentSpec>) =
            specs.into_iter().partition(is_misplaced);
        for AgentSpec { name, .. } in misplaced {
            self.host.say(&format!(
                "{name} is placed on other nodes now; it is handed over"
            ));
            drop(self.supervisor.retire(&name));
        }
        others
    }
}
