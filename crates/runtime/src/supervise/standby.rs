//! Agents of this node's configuration that another node has: each waits here until it is free or its
//! node is gone, and is then taken up by the node that all agree upon.
//!
//! Looks when the store changes and when a lease was seen to end; no other clock.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use relight_core::agent::Agent;
use relight_core::ids::AgentName;
use relight_core::lease::HolderLife;
use relight_core::node::{Epoch, HeldBy, Mark, Node, Placement, SETTLE, SETTLE_ANEW, Turn};
use relight_core::time::Span;
use relight_store::{AgentQuery, Store, StoreError};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep, sleep_until};

use super::tidings::Tidings;
use crate::doors::process;
use crate::fleet::{Fleet, Sight};

/// How long a store that cannot be read is left alone.
const TROUBLE_PAUSE: Duration = Duration::from_millis(500);

/// Which agents wait, and since when they could be taken up.
#[derive(Debug, Clone, Default)]
pub(super) struct Waiting {
    entries: Arc<Mutex<BTreeMap<AgentName, Entry>>>,
    /// Rung when one more waits.
    bell: Arc<Notify>,
}

#[derive(Debug, Clone)]
struct Entry {
    placement: Placement,
    free_since: Option<Instant>,
}

impl Waiting {
    fn entries(&self) -> MutexGuard<'_, BTreeMap<AgentName, Entry>> {
        self.entries.lock().expect("nothing panics while it is locked")
    }

    pub(super) fn add(&self, name: AgentName, placement: Placement) {
        self.entries().insert(name, Entry { placement, free_since: None });
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
struct Lookout {
    sight: Sight,
    /// Who had which agent, and the mark of that: read again when it is another one.
    agents: Option<(Mark, Vec<Agent>)>,
    /// Under which lease of this node it looks, and from when on that one takes what is free.
    epoch: Option<Epoch>,
    settled_at: Instant,
}

impl Lookout {
    async fn new(fleet: &Fleet, store: &dyn Store) -> Result<Self, StoreError> {
        let (sight, _) = Sight::first(store).await?;
        let epoch = fleet.standing().borrow().epoch();
        Ok(Self { sight, agents: None, epoch, settled_at: Instant::now() + SETTLE })
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
    async fn ripe(
        &mut self,
        waiting: &Waiting,
        fleet: &Fleet,
        store: &dyn Store,
    ) -> Result<(Vec<AgentName>, Option<Instant>), StoreError> {
        self.settle(fleet);
        // The agents first: what is seen of the nodes afterwards is true of what was read.
        let agents = held_now(&mut self.agents, store).await?;
        let nodes = self.sight.look(store).await?.nodes;
        let may_take = fleet.term().is_some() && !is_draining(&nodes, fleet);
        let now = Instant::now();
        let mut entries = waiting.entries();
        let (mut ripe, mut again_at): (Vec<AgentName>, Option<Instant>) = (Vec::new(), None);
        for (name, entry) in entries.iter_mut().filter(|_| may_take) {
            let at = agents.binary_search_by(|agent| agent.name.cmp(name));
            let by = held_by(at.ok().map(|at| &agents[at]), fleet);
            let turn = Turn::of(fleet.name(), name, &entry.placement, by, &nodes);
            if turn == Turn::Nobodys {
                entry.free_since = None;
                continue;
            }
            let free = *entry.free_since.get_or_insert(now);
            let Some(due) = turn.ripe_at(now, self.settled_at, free) else { continue };
            if due <= now {
                ripe.push(name.clone());
            } else {
                again_at = Some(again_at.map_or(due, |at| at.min(due)));
            }
        }
        entries.retain(|name, _| !ripe.contains(name));
        let first_end = first_end(agents).map(|left| now + left);
        let again_at = [again_at, first_end].into_iter().flatten().min();
        Ok((ripe, again_at))
    }
}

/// All agents, as far as who has them goes.
async fn held_now<'a>(
    known: &'a mut Option<(Mark, Vec<Agent>)>,
    store: &dyn Store,
) -> Result<&'a [Agent], StoreError> {
    // The mark first: what changes between the two is read with the next look.
    let mark = store.agents_mark().await?;
    let is_as_read =
        |(before, agents): &(Mark, Vec<Agent>)| *before == mark && first_end(agents).is_none();
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

fn is_draining(nodes: &[Node], fleet: &Fleet) -> bool {
    nodes.iter().any(|node| node.new.name == *fleet.name() && node.draining)
}

fn held_by(agent: Option<&Agent>, fleet: &Fleet) -> HeldBy {
    match agent.and_then(|agent| agent.lease.held.as_ref()) {
        Some(held) if held.holder.node() == Some(fleet.name()) => HeldBy::Us,
        Some(held) if process::holder_life(held) == HolderLife::Alive => HeldBy::Another,
        Some(_) | None => HeldBy::Nobody,
    }
}

/// Looks for agents to take up, and names them, for as long as it is polled. The first look is told of
/// even when it found none.
pub(super) async fn serve(
    waiting: Waiting,
    fleet: Fleet,
    store: Arc<dyn Store>,
    mut tidings: Tidings,
    ripened: mpsc::UnboundedSender<Vec<AgentName>>,
) {
    let mut nodes = fleet.nodes();
    let mut lookout = loop {
        match Lookout::new(&fleet, store.as_ref()).await {
            Ok(lookout) => break lookout,
            Err(_) => sleep(TROUBLE_PAUSE).await,
        }
    };
    let mut is_first = true;
    loop {
        let looked = lookout.ripe(&waiting, &fleet, store.as_ref()).await;
        let Ok((names, again_at)) = looked else {
            sleep(TROUBLE_PAUSE).await;
            continue;
        };
        let is_told = is_first || !names.is_empty();
        is_first = false;
        if is_told && ripened.send(names).is_err() {
            return;
        }
        tokio::select! {
            () = tidings.next() => {}
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
