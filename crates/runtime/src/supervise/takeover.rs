//! Agents of this node's configuration that another node has: each waits here until it is free or its
//! node is gone, and is then taken up by the node that all agree upon.
//!
//! Names too what this node has, says the store, and nobody here wants: as long as it is not given back
//! every other node leaves it alone. And agents that were registered over HTTP, on whichever node: the
//! store is their configuration, so all stand by for them.
//!
//! Looks when the store changes and when a lease was seen to end; no other clock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use relight_core::agent::Agent;
use relight_core::ids::AgentName;
use relight_core::lease::{Holder, HolderLife};
use relight_core::node::{ChangeToken, Epoch, HeldBy, Node, Placement, SETTLE, SETTLE_ANEW, Turn};
use relight_core::time::Span;
use relight_store::{AgentQuery, Store, StoreError};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep, sleep_until};

use super::roster::Roster;
use super::spec::AgentSpec;
use super::store_changes::StoreChanges;
use crate::fleet::{Fleet, NodeCache};
use crate::os::process;

/// How long a store that cannot be read is left alone.
const TROUBLE_PAUSE: Duration = Duration::from_millis(500);
/// How soon it is looked again at what nobody here wants: it may just be on its way out.
const UNWANTED_PAUSE: Duration = Duration::from_millis(500);

/// What a look at all agents came to, for this node.
#[derive(Debug, Default)]
pub struct Takeover {
    /// Stood by, and are this node's to take up now.
    pub ready: Vec<AgentName>,
    /// This node has them, says the store, and nobody here stands by for them.
    pub unwanted: Vec<Agent>,
    /// Have been registered since the look before, on whichever node.
    pub registered: Vec<Agent>,
    /// Are registered no longer.
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

/// Which agents wait, and since when they could be taken up.
#[derive(Debug, Clone, Default)]
pub(super) struct WaitingAgents {
    entries: Arc<Mutex<BTreeMap<AgentName, WaitingAgent>>>,
    /// Rung when one more waits.
    bell: Arc<Notify>,
}

#[derive(Debug, Clone)]
struct WaitingAgent {
    placement: Placement,
    /// The store is its configuration: it is taken up only while that has it.
    is_registered: bool,
    /// It is left alone until then.
    rests_until: Instant,
    free_since: Option<Instant>,
}

impl WaitingAgent {
    /// Whether there is still somebody who wants it.
    fn is_wanted(&self, agent: Option<&Agent>) -> bool {
        !self.is_registered || agent.is_some_and(|agent| agent.plan.is_registered())
    }
}

impl WaitingAgents {
    fn entries(&self) -> MutexGuard<'_, BTreeMap<AgentName, WaitingAgent>> {
        self.entries.lock().expect("nothing panics while it is locked")
    }

    /// Has it wait, and be left alone for so long at least.
    pub(super) fn add(&self, spec: &AgentSpec, pause: Duration) {
        let (placement, is_registered) = (spec.placement.clone(), spec.plan.is_registered());
        let rests_until = Instant::now() + pause;
        let entry = WaitingAgent { placement, is_registered, rests_until, free_since: None };
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

/// What one who looks for agents remembers between two looks.
struct TakeoverWatcher {
    cache: NodeCache,
    /// Who had which agent, and the mark of that: read again when it is another one.
    agents: Option<(ChangeToken, Vec<Agent>)>,
    /// Those of them that were registered over HTTP.
    registered: BTreeSet<AgentName>,
    /// Under which lease of this node it looks, and from when on that one takes what is free.
    epoch: Option<Epoch>,
    settled_at: Instant,
}

impl TakeoverWatcher {
    async fn new(fleet: &Fleet, store: &dyn Store) -> Result<Self, StoreError> {
        let (cache, _) = NodeCache::first(store).await?;
        let epoch = fleet.standing().borrow().epoch();
        let settled_at = Instant::now() + SETTLE;
        Ok(Self { cache, agents: None, registered: BTreeSet::new(), epoch, settled_at })
    }

    /// Gives the others time to come back too, where this node has joined anew.
    fn settle(&mut self, fleet: &Fleet) {
        let epoch = fleet.standing().borrow().epoch();
        if epoch.is_some() && epoch != self.epoch {
            (self.epoch, self.settled_at) = (epoch, Instant::now() + SETTLE_ANEW);
        }
    }

    /// Takes out those that are to be taken up here now. Answers too when to look again, where time
    /// alone brings that.
    async fn look(
        &mut self,
        waiting: &WaitingAgents,
        roster: &Roster,
        fleet: &Fleet,
        store: &dyn Store,
    ) -> Result<(Takeover, Option<Instant>), StoreError> {
        self.settle(fleet);
        // The agents first: what is seen of the nodes afterwards is true of what was read.
        let agents = held_now(&mut self.agents, store).await?;
        let nodes = self.cache.look(store).await?.nodes;
        let (registered, removed) = news(&mut self.registered, agents);
        if fleet.term().is_none() {
            return Ok((Takeover { registered, removed, ..Takeover::default() }, None));
        }
        let now = Instant::now();
        let unwanted = unwanted(agents, waiting, roster, fleet);
        let look_again = (!unwanted.is_empty()).then(|| now + UNWANTED_PAUSE);
        let (ready, ripens) = ready(agents, waiting, fleet, &nodes, (now, self.settled_at));
        let first_end = first_end(agents).map(|left| now + left);
        let again_at = [look_again, ripens, first_end].into_iter().flatten().min();
        Ok((Takeover { ready, unwanted, registered, removed }, again_at))
    }
}

/// Takes out those whose turn has come, and says when that of the next does.
fn ready(
    agents: &[Agent],
    waiting: &WaitingAgents,
    fleet: &Fleet,
    nodes: &[Node],
    (now, settled_at): (Instant, Instant),
) -> (Vec<AgentName>, Option<Instant>) {
    let mut entries = waiting.entries();
    let (mut ready, mut again_at): (Vec<AgentName>, Option<Instant>) = (Vec::new(), None);
    for (name, entry) in entries.iter_mut() {
        let at = agents.binary_search_by(|agent| agent.name.cmp(name));
        let agent = at.ok().map(|at| &agents[at]);
        let turn = match entry.is_wanted(agent) {
            true => Turn::of(fleet.name(), name, &entry.placement, held_by(agent, fleet), nodes),
            false => Turn::Nobodys,
        };
        if turn == Turn::Nobodys {
            entry.free_since = None;
            continue;
        }
        let free = *entry.free_since.get_or_insert(now);
        let Some(due) = turn.ripe_at(now, settled_at, free) else { continue };
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

/// What this node has that neither is supervised here nor waits here. One that is just being taken up or
/// given back is among them too.
fn unwanted(
    agents: &[Agent],
    waiting: &WaitingAgents,
    roster: &Roster,
    fleet: &Fleet,
) -> Vec<Agent> {
    let entries = waiting.entries();
    let is_known = |agent: &Agent| entries.contains_key(&agent.name) || roster.has(&agent.name);
    let is_forsaken = |agent: &&Agent| is_held_here(agent, fleet) && !is_known(agent);
    agents.iter().filter(is_forsaken).cloned().collect()
}

/// Whether a process of this node has it that is gone, or this very one.
pub(super) fn is_held_here(agent: &Agent, fleet: &Fleet) -> bool {
    let Some(held) = &agent.lease.held else { return false };
    let is_here = held.holder.node() == Some(fleet.name()) && !agent.plan.reports_itself();
    let is_ours = || held.holder == Holder::Process(process::me().clone());
    is_here && (is_ours() || process::holder_life(held) == HolderLife::Gone)
}

/// Those that have been registered since, and those that are so no longer.
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

/// All agents, as far as who has them goes.
async fn held_now<'a>(
    known: &'a mut Option<(ChangeToken, Vec<Agent>)>,
    store: &dyn Store,
) -> Result<&'a [Agent], StoreError> {
    // The mark first: what changes between the two is read with the next look.
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

/// How long until the first hold ends that a clock ends: no event tells of that.
fn first_end(agents: &[Agent]) -> Option<Duration> {
    let holds = agents.iter().filter_map(|agent| agent.lease.held.as_ref()?.left);
    holds.filter(|left| left.as_ms() > 0).min().map(Span::as_duration)
}

fn held_by(agent: Option<&Agent>, fleet: &Fleet) -> HeldBy {
    match agent.and_then(|agent| agent.lease.held.as_ref()) {
        Some(held) if held.holder.node() == Some(fleet.name()) => HeldBy::Us,
        Some(held) if process::holder_life(held) == HolderLife::Alive => HeldBy::Another,
        Some(_) | None => HeldBy::Nobody,
    }
}

/// Looks for agents to take up or to give back, and names them, for as long as it is polled. The first
/// look is told of even when it found none.
pub(super) async fn serve(
    waiting: WaitingAgents,
    fleet: Fleet,
    store: Arc<dyn Store>,
    mut changes: StoreChanges,
    roster: Roster,
    tell: mpsc::UnboundedSender<Takeover>,
) {
    let mut nodes = fleet.nodes();
    let mut lookout = loop {
        match TakeoverWatcher::new(&fleet, store.as_ref()).await {
            Ok(lookout) => break lookout,
            Err(_) => sleep(TROUBLE_PAUSE).await,
        }
    };
    let mut is_first = true;
    loop {
        let looked = lookout.look(&waiting, &roster, &fleet, store.as_ref()).await;
        let Ok((outlook, again_at)) = looked else {
            sleep(TROUBLE_PAUSE).await;
            continue;
        };
        let is_told = is_first || !outlook.is_empty();
        is_first = false;
        if is_told && tell.send(outlook).is_err() {
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
    use crate::supervise::recover::spec_of;

    fn agent(is_registered: bool) -> Agent {
        let mut plan = AgentPlan::default();
        if is_registered {
            plan.labels.insert(relight_core::agent::REGISTERED.to_owned(), "true".to_owned());
        }
        AgentChange::first(&AgentName::new("x").unwrap(), &plan, Time::from_ms(0))
    }

    fn spec(agent: Agent) -> AgentSpec {
        spec_of(agent, Preset::by_name("generic", None).unwrap())
    }

    /// A fleet of one node, which is settled.
    async fn alone() -> (Fleet, Arc<[Node]>) {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let new = NewNode {
            name: NodeName::new("a").unwrap(),
            instance: "a".to_owned(),
            labels: Vec::new(),
            address: None,
            version: "1".to_owned(),
            ttl: Span::from_secs(8),
            process: None,
        };
        let (fleet, _) = fleet::join(store, new, Span::from_secs(2)).await.unwrap();
        let nodes = fleet.nodes().borrow().clone();
        (fleet, nodes)
    }

    #[tokio::test]
    async fn one_that_could_not_be_taken_up_is_left_alone_for_a_while() {
        let ((fleet, nodes), now) = (alone().await, Instant::now());
        let waiting = WaitingAgents::default();
        waiting.add(&spec(agent(false)), Duration::from_secs(60));
        let (none, again_at) = ready(&[], &waiting, &fleet, &nodes, (now, now));
        assert!(none.is_empty() && again_at.is_some_and(|at| at > now), "{none:?} {again_at:?}");
        let later = now + Duration::from_secs(61);
        assert_eq!(ready(&[], &waiting, &fleet, &nodes, (later, now)).0.len(), 1);
    }

    #[tokio::test]
    async fn one_that_was_registered_is_not_taken_up_once_it_was_removed() {
        let ((fleet, nodes), now) = (alone().await, Instant::now());
        let waiting = WaitingAgents::default();
        waiting.add(&spec(agent(true)), Duration::ZERO);
        let later = now + Duration::from_secs(1);
        let ripens =
            |agents: &[Agent]| ready(agents, &waiting, &fleet, &nodes, (later, now)).0.len();
        assert_eq!([ripens(&[]), ripens(&[agent(false)])], [0, 0]);
        assert_eq!(ripens(&[agent(true)]), 1);
    }
}
