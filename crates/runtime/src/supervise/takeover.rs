//! Decides which agents this node takes over from other nodes.
//!
//! Each configured agent that another node supervises waits here until it is free or its node is
//! gone. All nodes compute the same order, so exactly one of them takes it. Agents registered over
//! HTTP have their configuration in the store, so every node waits for them. Also lists agents that
//! the store assigns to this node but that its configuration does not contain: they must be given
//! back, because no other node takes them until then.
//!
//! Checks when the store changes and when a lease is seen to expire. It does not poll.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use relight_core::agent::Agent;
use relight_core::ids::AgentName;
use relight_core::lease::Holder;
use relight_core::node::{
    AgentHeldBy, ChangeToken, Epoch, Node, Placement, SETTLE, SETTLE_ANEW, TakeoverTurn,
};
use relight_core::time::Span;
use relight_store::{AgentQuery, Store, StoreError};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep, sleep_until};

use super::roster::Roster;
use super::spec::AgentSpec;
use super::store_changes::StoreChanges;
use crate::fleet::{Fleet, NodeCache};
use crate::holders::Holders;
use crate::os::process;

/// Pause after the store could not be read.
const TROUBLE_PAUSE: Duration = Duration::from_millis(500);
/// Pause before unwanted agents are checked again: they may already be stopping.
const UNWANTED_PAUSE: Duration = Duration::from_millis(500);

/// What this node has to do after a check of all agents.
#[derive(Debug, Default)]
pub struct Takeover {
    /// Waiting agents that this node takes over now.
    pub ready: Vec<AgentName>,
    /// Agents that the store assigns to this node and that it does not want.
    pub unwanted: Vec<Agent>,
    /// Agents registered since the last check, on any node.
    pub registered: Vec<Agent>,
    /// Agents that are no longer registered.
    pub removed: Vec<AgentName>,
}

impl Takeover {
    fn is_empty(&self) -> bool {
        self.ready.is_empty()
            && self.unwanted.is_empty()
            && self.registered.is_empty()
            && self.removed.is_empty()
    }
}

/// The agents that wait to be taken over.
#[derive(Debug, Clone, Default)]
pub(super) struct WaitingAgents {
    entries: Arc<Mutex<BTreeMap<AgentName, WaitingAgent>>>,
    /// Notified when an agent is added.
    bell: Arc<Notify>,
}

#[derive(Debug, Clone)]
struct WaitingAgent {
    placement: Placement,
    /// Its configuration is in the store; it is taken over only while the store has it.
    is_registered: bool,
    /// Not taken over before.
    rests_until: Instant,
    free_since: Option<Instant>,
}

impl WaitingAgent {
    /// Whether it is still configured somewhere.
    fn is_wanted(&self, agent: Option<&Agent>) -> bool {
        !self.is_registered || agent.is_some_and(|agent| agent.plan.is_registered())
    }
}

impl WaitingAgents {
    fn entries(&self) -> MutexGuard<'_, BTreeMap<AgentName, WaitingAgent>> {
        self.entries
            .lock()
            .expect("nothing panics while it is locked")
    }

    /// Adds the agent. It is not taken over before `pause` has passed.
    pub(super) fn add(&self, spec: &AgentSpec, pause: Duration) {
        let (placement, is_registered) = (spec.placement.clone(), spec.plan.is_registered());
        let rests_until = Instant::now() + pause;
        let entry = WaitingAgent {
            placement,
            is_registered,
            rests_until,
            free_since: None,
        };
        self.entries().insert(spec.name.clone(), entry);
        self.bell.notify_one();
    }

    pub(super) fn remove(&self, name: &AgentName) {
        self.entries().remove(name);
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.entries().keys().any(|known| known.as_str() == name)
    }
}

/// State kept between two checks.
struct TakeoverWatcher {
    cache: NodeCache,
    /// The agents with the change token of that read; read again when the token changes.
    agents: Option<(ChangeToken, Vec<Agent>)>,
    /// The agents registered over HTTP.
    registered: BTreeSet<AgentName>,
    /// The node's current lease, and when the settling time after joining ends.
    epoch: Option<Epoch>,
    settled_at: Instant,
}

impl TakeoverWatcher {
    async fn new(fleet: &Fleet, holders: &Holders) -> Result<Self, StoreError> {
        let (cache, _) = NodeCache::first(holders).await?;
        let epoch = fleet.standing().borrow().epoch();
        let settled_at = Instant::now() + SETTLE;
        Ok(Self {
            cache,
            agents: None,
            registered: BTreeSet::new(),
            epoch,
            settled_at,
        })
    }

    /// Restarts the settling time when this node has joined again, so that other nodes can return
    /// too.
    fn settle(&mut self, fleet: &Fleet) {
        let epoch = fleet.standing().borrow().epoch();
        if epoch.is_some() && epoch != self.epoch {
            (self.epoch, self.settled_at) = (epoch, Instant::now() + SETTLE_ANEW);
        }
    }

    /// Removes the agents to take over now from the waiting list. Also returns the time of the next
    /// check, if time alone can change the result.
    async fn look(
        &mut self,
        waiting: &WaitingAgents,
        roster: &Roster,
        fleet: &Fleet,
        holders: &Holders,
    ) -> Result<(Takeover, Option<Instant>), StoreError> {
        self.settle(fleet);
        // Read agents before nodes, so that the node states are at least as new as the agents.
        let agents = held_now(&mut self.agents, holders.store().as_ref()).await?;
        let nodes = self.cache.look(holders).await?.nodes;
        let (registered, removed) = news(&mut self.registered, agents);
        if fleet.term().is_none() {
            return Ok((
                Takeover {
                    registered,
                    removed,
                    ..Takeover::default()
                },
                None,
            ));
        }
        let now = Instant::now();
        let unwanted = unwanted(agents, waiting, roster, (fleet, holders));
        let look_again = (!unwanted.is_empty()).then(|| now + UNWANTED_PAUSE);
        let (ready, next_due) = ready(
            agents,
            waiting,
            (fleet, holders),
            &nodes,
            (now, self.settled_at),
        );
        let first_end = first_end(agents).map(|left| now + left);
        let again_at = [look_again, next_due, first_end]
            .into_iter()
            .flatten()
            .min();
        Ok((
            Takeover {
                ready,
                unwanted,
                registered,
                removed,
            },
            again_at,
        ))
    }
}

/// Removes the agents that are due from the waiting list. Also returns when the next one is due.
fn ready(
    agents: &[Agent],
    waiting: &WaitingAgents,
    (fleet, holders): (&Fleet, &Holders),
    nodes: &[Node],
    (now, settled_at): (Instant, Instant),
) -> (Vec<AgentName>, Option<Instant>) {
    let mut entries = waiting.entries();
    let (mut ready, mut again_at): (Vec<AgentName>, Option<Instant>) = (Vec::new(), None);
    for (name, entry) in entries.iter_mut() {
        let at = agents.binary_search_by(|agent| agent.name.cmp(name));
        let agent = at.ok().map(|at| &agents[at]);
        let turn = match entry.is_wanted(agent) {
            true => TakeoverTurn::of(
                fleet.name(),
                name,
                &entry.placement,
                held_by(agent, fleet, holders),
                nodes,
            ),
            false => TakeoverTurn::Nobodys,
        };
        if turn == TakeoverTurn::Nobodys {
            entry.free_since = None;
            continue;
        }
        let free = *entry.free_since.get_or_insert(now);
        let Some(due) = turn.due_at(now, settled_at, free) else {
            continue;
        };
        let due = due.max(entry.rests_until);
        if due <= now {
            ready.push(name.clone());
        } else {
            again_at = Some(again_at.map_or(due, |at| at.min(due)));
        }
    }
    entries.retain(|name, _| !ready.contains(name));
    (ready, again_at)
}

/// Agents that this node holds but neither supervises nor waits for. Includes agents that are just
/// being acquired or released.
fn unwanted(
    agents: &[Agent],
    waiting: &WaitingAgents,
    roster: &Roster,
    (fleet, holders): (&Fleet, &Holders),
) -> Vec<Agent> {
    let entries = waiting.entries();
    let is_known = |agent: &Agent| entries.contains_key(&agent.name) || roster.has(&agent.name);
    let is_unwanted = |agent: &&Agent| is_held_here(agent, fleet, holders) && !is_known(agent);
    agents.iter().filter(is_unwanted).cloned().collect()
}

/// Whether the agent is held by this process, or by a process of this node that has died.
pub(super) fn is_held_here(agent: &Agent, fleet: &Fleet, holders: &Holders) -> bool {
    let Some(held) = &agent.lease.held else {
        return false;
    };
    let is_here = held.holder.node() == Some(fleet.name()) && !agent.plan.reports_itself();
    let is_ours = || held.holder == Holder::Process(process::me().clone());
    is_here && (is_ours() || !holders.is_alive(held))
}

/// Agents registered since the last call, and those no longer registered.
fn news(known: &mut BTreeSet<AgentName>, agents: &[Agent]) -> (Vec<Agent>, Vec<AgentName>) {
    let is_new = |agent: &&Agent| agent.plan.is_registered() && !known.contains(&agent.name);
    let registered: Vec<Agent> = agents.iter().filter(is_new).cloned().collect();
    let now: BTreeSet<AgentName> = agents
        .iter()
        .filter(|agent| agent.plan.is_registered())
        .map(|agent| agent.name.clone())
        .collect();
    let removed = known.difference(&now).cloned().collect();
    *known = now;
    (registered, removed)
}

/// All agents; read again only when an agent changed hands.
async fn held_now<'a>(
    known: &'a mut Option<(ChangeToken, Vec<Agent>)>,
    store: &dyn Store,
) -> Result<&'a [Agent], StoreError> {
    // Read the token first: a change in between is then seen by the next check.
    let mark = store.agents_mark().await?;
    let is_as_read = |(before, agents): &(ChangeToken, Vec<Agent>)| {
        *before == mark && first_end(agents).is_none()
    };
    let agents = match known.take().filter(is_as_read) {
        Some((_, agents)) => agents,
        None => store.agents(AgentQuery::default()).await?,
    };
    Ok(&known.insert((mark, agents)).1)
}

/// Time until the first lease with a time limit expires. No event announces that.
fn first_end(agents: &[Agent]) -> Option<Duration> {
    let holds = agents
        .iter()
        .filter_map(|agent| agent.lease.held.as_ref()?.left);
    holds
        .filter(|left| left.as_ms() > 0)
        .min()
        .map(Span::as_duration)
}

fn held_by(agent: Option<&Agent>, fleet: &Fleet, holders: &Holders) -> AgentHeldBy {
    match agent.and_then(|agent| agent.lease.held.as_ref()) {
        Some(held) if held.holder.node() == Some(fleet.name()) => AgentHeldBy::Us,
        Some(held) if holders.is_alive(held) => AgentHeldBy::Another,
        Some(_) | None => AgentHeldBy::Nobody,
    }
}

/// Watches for agents to take over or to give back and sends them. The first check is always sent,
/// even if it is empty.
pub(super) async fn serve(
    waiting: WaitingAgents,
    fleet: Fleet,
    holders: Arc<Holders>,
    mut changes: StoreChanges,
    roster: Roster,
    tell: mpsc::UnboundedSender<Takeover>,
) {
    let mut nodes = fleet.nodes();
    let mut watcher = loop {
        match TakeoverWatcher::new(&fleet, &holders).await {
            Ok(watcher) => break watcher,
            Err(_) => sleep(TROUBLE_PAUSE).await,
        }
    };
    let mut is_first = true;
    loop {
        let looked = watcher.look(&waiting, &roster, &fleet, &holders).await;
        let Ok((takeover, again_at)) = looked else {
            sleep(TROUBLE_PAUSE).await;
            continue;
        };
        let is_told = is_first || !takeover.is_empty();
        is_first = false;
        if is_told && tell.send(takeover).is_err() {
            return;
        }
        tokio::select! {
            () = changes.next() => {}
            changed = nodes.changed() => if changed.is_err() { return },
            () = waiting.bell.notified() => {}
            () = at(again_at) => {}
        }
    }
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use relight_core::agent::AgentPlan;
    use relight_core::agent::change::AgentChange;
    use relight_core::ids::NodeName;
    use relight_core::node::NewNode;
    use relight_core::time::{Span, Time};
    use relight_store::MemoryStore;

    use super::*;
    use crate::fleet;
    use crate::presets::Preset;
    use crate::supervise::unnoticed_deaths::spec_of;

    fn agent(is_registered: bool) -> Agent {
        let mut plan = AgentPlan::default();
        if is_registered {
            plan.labels.insert(
                relight_core::agent::REGISTERED.to_owned(),
                "true".to_owned(),
            );
        }
        AgentChange::first(&AgentName::new("x").unwrap(), &plan, Time::from_ms(0))
    }

    fn spec(agent: Agent) -> AgentSpec {
        spec_of(agent, Preset::by_name("generic", None).unwrap())
    }

    /// A fleet of one node, which is settled.
    async fn alone() -> (Fleet, Arc<Holders>, Arc<[Node]>) {
        let holders = Arc::new(Holders::new(Arc::new(MemoryStore::new())));
        let new = NewNode {
            name: NodeName::new("a").unwrap(),
            instance: "a".to_owned(),
            labels: Vec::new(),
            address: None,
            version: "1".to_owned(),
            ttl: Span::from_secs(8),
            process: None,
        };
        let (fleet, _) = fleet::join(Arc::clone(&holders), new, Span::from_secs(2))
            .await
            .unwrap();
        let nodes = fleet.nodes().borrow().clone();
        (fleet, holders, nodes)
    }

    #[tokio::test]
    async fn one_that_could_not_be_taken_up_is_left_alone_for_a_while() {
        let ((fleet, holders, nodes), now) = (alone().await, Instant::now());
        let waiting = WaitingAgents::default();
        waiting.add(&spec(agent(false)), Duration::from_secs(60));
        let (none, again_at) = ready(&[], &waiting, (&fleet, &holders), &nodes, (now, now));
        assert!(
            none.is_empty() && again_at.is_some_and(|at| at > now),
            "{none:?} {again_at:?}"
        );
        let later = now + Duration::from_secs(61);
        assert_eq!(
            ready(&[], &waiting, (&fleet, &holders), &nodes, (later, now))
                .0
                .len(),
            1
        );
    }

    #[tokio::test]
    async fn one_that_was_registered_is_not_taken_up_once_it_was_removed() {
        let ((fleet, holders, nodes), now) = (alone().await, Instant::now());
        let waiting = WaitingAgents::default();
        waiting.add(&spec(agent(true)), Duration::ZERO);
        let later = now + Duration::from_secs(1);
        let next_due = |agents: &[Agent]| {
            ready(agents, &waiting, (&fleet, &holders), &nodes, (later, now))
                .0
                .len()
        };
        assert_eq!([next_due(&[]), next_due(&[agent(false)])], [0, 0]);
        assert_eq!(next_due(&[agent(true)]), 1);
    }
}
