//! Agents of this node's configuration that another node has: each waits here until it is free or its
//! node is gone, and is then taken up by the node that all agree upon.
//!
//! Looks when one of them was taken, given back or removed, and when a node's lease was seen to end; no
//! other clock, and no other change of the store.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use relight_core::agent::Agent;
use relight_core::event::{Event, EventKind};
use relight_core::ids::AgentName;
use relight_core::lease::HolderLife;
use relight_core::node::{Node, Placement, preferred};
use relight_store::{AgentQuery, Store, StoreError};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep, sleep_until};

use super::hearing::Hearing;
use crate::doors::process;
use crate::fleet::{self, Fleet};

/// How long an agent is left to the node that should take it. That one may not know it.
const COURTESY: Duration = Duration::from_millis(400);
/// How long a store that cannot be read is left alone.
const TROUBLE_PAUSE: Duration = Duration::from_millis(500);

/// How long free agents are left alone after this node has joined: the nodes of a fleet that begins come
/// one after the other, and each is to have its share.
const SETTLE: Duration = Duration::from_millis(500);
/// The shortest time between two looks, so that a thousand agents that change hands cost a few.
const LOOK_PAUSE: Duration = Duration::from_millis(50);

/// What may tell that an agent is free.
pub(super) const KINDS: [EventKind; 3] =
    [EventKind::AgentTaken, EventKind::AgentLeft, EventKind::AgentChanged];

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

/// To whom an agent belongs now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Belongs {
    /// A live node has it.
    Elsewhere,
    /// We had it, in an earlier life.
    ToUsAlready,
    /// It is free, and we are to take it.
    ToUs,
    /// It is free, and another node is to take it.
    ToAnother,
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

    /// Whether one of these events is of an agent that waits, and could have made it free.
    fn is_told_of(&self, events: &[Event]) -> bool {
        let entries = self.entries();
        events.iter().any(|event| match (&event.agent, event.kind) {
            (Some(agent), EventKind::AgentTaken | EventKind::AgentLeft) => {
                entries.contains_key(agent)
            }
            // One that was removed, which its event has no agent to name by.
            (None, _) => true,
            (Some(_), _) => false,
        })
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.entries().keys().any(|known| known.as_str() == name)
    }
}

/// Takes out those that are to be taken up here now. Answers too when to look again, where time alone
/// brings that.
async fn ripe(
    waiting: &Waiting,
    fleet: &Fleet,
    store: &dyn Store,
    settled_at: Instant,
) -> Result<(Vec<AgentName>, Option<Instant>), StoreError> {
    // The agents first: what is seen of the nodes afterwards is true of what was read.
    let agents = store.agents(AgentQuery::default()).await?;
    let nodes = fleet::look(store).await?;
    let may_take = fleet.term().is_some() && !is_draining(&nodes, fleet);
    let now = Instant::now();
    let mut entries = waiting.entries();
    let (mut ripe, mut again_at): (Vec<AgentName>, Option<Instant>) = (Vec::new(), None);
    for (name, entry) in entries.iter_mut().filter(|_| may_take) {
        let agent = agents.iter().find(|agent| agent.name == *name);
        let due = match belongs(name, agent, &entry.placement, &nodes, fleet) {
            Belongs::Elsewhere => {
                entry.free_since = None;
                continue;
            }
            Belongs::ToUsAlready => now,
            Belongs::ToUs => settled_at,
            Belongs::ToAnother => settled_at.max(*entry.free_since.get_or_insert(now)) + COURTESY,
        };
        if due <= now {
            ripe.push(name.clone());
        } else {
            again_at = Some(again_at.map_or(due, |at| at.min(due)));
        }
    }
    entries.retain(|name, _| !ripe.contains(name));
    Ok((ripe, again_at))
}

fn is_draining(nodes: &[Node], fleet: &Fleet) -> bool {
    nodes.iter().any(|node| node.new.name == *fleet.name() && node.draining)
}

fn belongs(
    name: &AgentName,
    agent: Option<&Agent>,
    placement: &Placement,
    nodes: &[Node],
    fleet: &Fleet,
) -> Belongs {
    let held = agent.and_then(|agent| agent.lease.held.as_ref());
    if let Some(held) = held {
        if held.holder.node() == Some(fleet.name()) {
            return Belongs::ToUsAlready;
        }
        if process::holder_life(held) == HolderLife::Alive {
            return Belongs::Elsewhere;
        }
    }
    if preferred(name, placement, nodes) == Some(fleet.name()) {
        Belongs::ToUs
    } else {
        Belongs::ToAnother
    }
}

/// Looks for agents to take up, and names them, for as long as it is polled. The first look is told of
/// even when it found none.
pub(super) async fn serve(
    waiting: Waiting,
    fleet: Fleet,
    store: Arc<dyn Store>,
    mut hearing: Hearing,
    ripened: mpsc::UnboundedSender<Vec<AgentName>>,
) {
    let mut nodes = fleet.nodes();
    let settled_at = Instant::now() + SETTLE;
    let mut is_first = true;
    loop {
        let looked = ripe(&waiting, &fleet, store.as_ref(), settled_at).await;
        let Ok((names, again_at)) = looked else {
            sleep(TROUBLE_PAUSE).await;
            continue;
        };
        let is_told = is_first || !names.is_empty();
        is_first = false;
        if is_told && ripened.send(names).is_err() {
            return;
        }
        sleep(LOOK_PAUSE).await;
        tokio::select! {
            () = told_of(&waiting, &mut hearing) => {}
            changed = nodes.changed() => if changed.is_err() { return },
            () = waiting.bell.notified() => {}
            () = at(again_at) => {}
        }
    }
}

async fn told_of(waiting: &Waiting, hearing: &mut Hearing) {
    loop {
        let events = hearing.next().await;
        if waiting.is_told_of(&events) {
            return;
        }
    }
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
