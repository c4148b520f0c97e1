//! The agents of one supervisor, shared by its queue router, sweeper and remote commands.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use relight_core::agent::{Agent, AgentState, AttemptTag, Pause};
use relight_core::claimant::Claimant;
use relight_core::ids::{AgentName, TaskId};
use relight_core::store_budget::Overspent;
use tokio::sync::{mpsc, watch};

use super::actor::{AgentSnapshot, Mail};

#[derive(Debug, Clone, Default)]
pub(super) struct Roster {
    members: Arc<Mutex<BTreeMap<AgentName, RosterEntry>>>,
    /// Agents that were sent a remote command while they were not here. Locked after `members`.
    missed: Arc<Mutex<BTreeSet<AgentName>>>,
}

#[derive(Debug)]
struct RosterEntry {
    mail: mpsc::UnboundedSender<Mail>,
    view: watch::Receiver<AgentSnapshot>,
    /// A message was sent whose effect its view does not show yet.
    is_told: bool,
}

/// State of the attempt that a lease names, as this supervisor knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AttemptIs {
    /// It is the current attempt.
    Current,
    /// Its agent is supervised here, and the attempt has ended.
    Over,
    /// Its agent is not supervised here.
    Elsewhere,
}

impl Roster {
    fn members(&self) -> MutexGuard<'_, BTreeMap<AgentName, RosterEntry>> {
        self.members
            .lock()
            .expect("nothing panics while it is locked")
    }

    fn missed(&self) -> MutexGuard<'_, BTreeSet<AgentName>> {
        self.missed
            .lock()
            .expect("nothing panics while it is locked")
    }

    /// Returns whether a remote command for it arrived before it was added.
    pub(super) fn add(
        &self,
        name: AgentName,
        mail: mpsc::UnboundedSender<Mail>,
        view: watch::Receiver<AgentSnapshot>,
    ) -> bool {
        let mut members = self.members();
        let was_missed = self.missed().remove(&name);
        members.insert(
            name,
            RosterEntry {
                mail,
                view,
                is_told: false,
            },
        );
        was_missed
    }

    pub(super) fn remove(&self, name: &AgentName) {
        self.members().remove(name);
    }

    pub(super) fn has(&self, name: &AgentName) -> bool {
        self.members().contains_key(name)
    }

    /// A remote command for it has arrived. Returns false when it is not here; the command is then
    /// handled when it is added, because its lease is taken some time before.
    pub(super) fn note_command(&self, name: &AgentName) -> bool {
        let members = self.members();
        let is_here = members.contains_key(name);
        if !is_here {
            self.missed().insert(name.clone());
        }
        is_here
    }

    /// Agents at rest that match.
    fn at_rest(&self, is_so: impl Fn(&Agent) -> bool) -> Vec<Agent> {
        let mut found = Vec::new();
        for member in self.members().values_mut() {
            if let Some(agent) = member.seen().filter(|agent| is_so(agent)) {
                found.push(agent);
            }
        }
        found
    }

    /// The budget of the store is spent.
    pub(super) fn tell_overspent(&self) {
        for member in self.members().values() {
            // One that has ended needs to know nothing.
            let _ = member.mail.send(Mail::Overspent);
        }
    }

    /// Idle agents, as claimants for tasks; `overspent` while the budget of the store is spent.
    pub(super) fn idle(&self, overspent: Option<&Overspent>) -> Vec<Claimant> {
        let idle = self.at_rest(|agent| agent.is_idle() && may_begin(agent, overspent));
        idle.iter()
            .map(|agent| agent.plan.claimant(&agent.name))
            .collect()
    }

    /// Agents that wait to be resumed and may be, with their task.
    pub(super) fn waiting(
        &self,
        overspent: Option<&Overspent>,
    ) -> Vec<(AgentName, Option<TaskId>)> {
        let waits = |agent: &Agent| {
            let why = [Pause::Turn, Pause::Draining, Pause::Budget];
            matches!(agent.state, AgentState::Suspended { why: w, .. } if why.contains(&w))
                && may_begin(agent, overspent)
        };
        self.at_rest(waits)
            .into_iter()
            .map(|agent| (agent.name, agent.plan.task))
            .collect()
    }

    /// Whether the agent works on this task or is about to.
    pub(super) fn works_on(&self, name: &AgentName, task: &TaskId) -> bool {
        let members = self.members();
        let Some(member) = members.get(name) else {
            return false;
        };
        member.is_told || member.view.borrow().agent.plan.task.as_ref() == Some(task)
    }

    /// Assigns a task to an idle agent; false when it is no longer idle.
    pub(super) fn give(&self, name: &AgentName, task: TaskId) -> bool {
        self.tell(name, Agent::is_idle, Mail::Work(task))
    }

    /// Resumes the agent.
    pub(super) fn wake(&self, name: &AgentName) {
        self.tell(name, |_| true, Mail::Wake);
    }

    fn tell(&self, name: &AgentName, is_so: impl Fn(&Agent) -> bool, mail: Mail) -> bool {
        let mut members = self.members();
        let Some(member) = members.get_mut(name) else {
            return false;
        };
        if !member.seen().is_some_and(|agent| is_so(&agent)) {
            return false;
        }
        member.is_told = member.mail.send(mail).is_ok();
        member.is_told
    }

    /// Sends a request to the agent; false when it is gone.
    pub(super) fn ask(&self, name: &AgentName, mail: Mail) -> bool {
        self.members()
            .get(name)
            .is_some_and(|member| member.mail.send(mail).is_ok())
    }

    /// State of the attempt with this tag.
    pub(super) fn attempt(&self, tag: &AttemptTag) -> AttemptIs {
        let members = self.members();
        let member = members
            .iter()
            .find(|(name, _)| tag.agent() == Some(name.as_str()));
        let Some((_, member)) = member else {
            return AttemptIs::Elsewhere;
        };
        let has_ended = member.view.borrow().agent.has_ended(tag, None);
        if has_ended {
            AttemptIs::Over
        } else {
            AttemptIs::Current
        }
    }
}

fn may_begin(agent: &Agent, overspent: Option<&Overspent>) -> bool {
    overspent.is_none_or(|overspent| !agent.is_stopped_by(overspent))
}

impl RosterEntry {
    /// The agent, if it is at rest and its view reflects the last message.
    fn seen(&mut self) -> Option<Agent> {
        if self.is_told && !self.view.has_changed().unwrap_or(false) {
            return None;
        }
        self.is_told = false;
        let view = self.view.borrow_and_update();
        view.at_rest.then(|| view.agent.clone())
    }
}

#[cfg(test)]
mod tests {
    use relight_core::agent::AgentPlan;
    use relight_core::agent::change::AgentChange;
    use relight_core::time::Time;

    use super::*;

    fn name(text: &str) -> AgentName {
        AgentName::new(text).unwrap()
    }

    fn added(roster: &Roster, agent: &str) -> bool {
        let agent = AgentChange::first(&name(agent), &AgentPlan::default(), Time::from_ms(0));
        let view = AgentSnapshot {
            agent: agent.clone(),
            last_sign: None,
            waiting_until: None,
            waits_for_work: false,
            phase: None,
            status: None,
            at_rest: false,
            last_attempt: None,
        };
        roster.add(
            agent.name,
            mpsc::unbounded_channel().0,
            watch::channel(view).1,
        )
    }

    #[test]
    fn what_was_wanted_while_an_agent_was_taken_up_is_told_when_it_is_there() {
        let roster = Roster::default();
        assert!(
            !roster.note_command(&name("a")),
            "its lease is taken, and it is not here yet"
        );
        assert!(added(&roster, "a") && roster.note_command(&name("a")));
        assert!(!added(&roster, "b"), "nobody wanted anything of it");
        roster.remove(&name("a"));
        assert!(!added(&roster, "a"), "it was told once");
    }
}
