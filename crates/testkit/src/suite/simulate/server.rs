//! The simulated store: the product's own one in memory, with a clock and a pace that are played.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use relight_core::agent::change::AgentChange;
use relight_core::decide::Guard;
use relight_core::ids::{AgentName, NodeName};
use relight_core::lease::{Holder, ProcessIdentity};
use relight_core::node::{ChangeToken, Epoch, NewNode, Node, NodesSummary, Placement, ranking};
use relight_core::time::{Span, Time};
use relight_store::{AgentCommit, AgentQuery, Joined, MemoryStore, Store};

use super::machine::Moment;

/// Every node at the moment of one mark, shared by all who saw it.
pub(super) struct View {
    pub(super) nodes: Vec<Node>,
    /// Those whose lease has run out.
    pub(super) gone: Vec<usize>,
    machines: usize,
    /// Each node's place in the ranking of each agent; all come to the same one, so it is worked out once.
    places: RefCell<BTreeMap<usize, Vec<u32>>>,
}

/// A free agent as it was read: who had it, and at which sequence number.
#[derive(Debug, Clone, Copy)]
pub(super) struct Free {
    pub(super) agent: usize,
    pub(super) held_by: Option<usize>,
    pub(super) seq: u64,
}

/// What a simulated store does for whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Join,
    Renew,
    Glance,
    Nodes,
    Look,
    Take,
}

impl Kind {
    pub(super) const ALL: [Self; 6] = [
        Self::Join,
        Self::Renew,
        Self::Glance,
        Self::Nodes,
        Self::Look,
        Self::Take,
    ];

    /// How long the server works for one. Rounded up from what one core of PostgreSQL takes.
    fn cost(self) -> Duration {
        Duration::from_micros(match self {
            Self::Join | Self::Take => 400,
            Self::Renew | Self::Glance | Self::Look => 250,
            Self::Nodes => 1_500,
        })
    }
}

/// The store.
pub(super) struct Server {
    store: MemoryStore,
    /// What its clock shows, as far as it was moved.
    clock_ms: u64,
    /// By how much its clock is ahead of true time.
    pub(super) ahead_ms: i64,
    pub(super) is_up: bool,
    /// Each of its processors is busy until then.
    busy: Vec<Moment>,
    pub(super) counts: BTreeMap<Kind, u64>,
    pub(super) queue_longest: Duration,
    agents: Vec<AgentName>,
    /// Who has each agent, and its sequence number, as the store in memory has it.
    pub(super) held: Vec<(Option<usize>, u64)>,
    /// Those that nobody has had yet.
    unheld: BTreeSet<usize>,
    /// What each node has.
    pub(super) of_node: Vec<BTreeMap<usize, u64>>,
    views: BTreeMap<ChangeToken, Rc<View>>,
}

/// How many of a server's processors work for the fleet.
const PROCESSORS: usize = 2;
/// Where a store's clock begins: it can be set back.
const CLOCK_BEGINS_MS: u64 = 1_000_000;

impl Server {
    pub(super) fn new(nodes: usize, agents: usize) -> anyhow::Result<Self> {
        let store = MemoryStore::new();
        store.advance(Span::from_ms(CLOCK_BEGINS_MS));
        let names: Result<Vec<_>, _> = (0..agents)
            .map(|number| AgentName::new(format!("a{number:06}")))
            .collect();
        let mut server = Self {
            store,
            clock_ms: 0,
            ahead_ms: 0,
            is_up: true,
            busy: vec![0; PROCESSORS],
            counts: Kind::ALL.map(|kind| (kind, 0)).into(),
            queue_longest: Duration::ZERO,
            agents: names?,
            held: vec![(None, 0); agents],
            unheld: (0..agents).collect(),
            of_node: vec![BTreeMap::new(); nodes],
            views: BTreeMap::new(),
        };
        for agent in 0..agents {
            let change = AgentChange::Created(Box::default());
            server.commit_agent(
                agent,
                Guard {
                    fence: None,
                    seq: None,
                },
                change,
            );
        }
        Ok(server)
    }

    pub(super) fn agent(&self, agent: usize) -> &AgentName {
        &self.agents[agent]
    }

    /// The moment at which something that arrives now is done, after what is before it.
    pub(super) fn done_at(&mut self, kind: Kind, now: Moment) -> Moment {
        *self.counts.entry(kind).or_default() += 1;
        let first = self
            .busy
            .iter_mut()
            .min()
            .expect("a server has a processor");
        let begun = (*first).max(now);
        *first = begun + kind.cost().as_micros() as u64;
        self.queue_longest = self.queue_longest.max(Duration::from_micros(begun - now));
        *first
    }

    /// Has its clock show what it should.
    pub(super) fn set_clock(&mut self, now: Moment) {
        let wanted = (now / 1_000).saturating_add_signed(self.ahead_ms);
        match wanted.checked_sub(self.clock_ms) {
            Some(forward) => self.store.advance(Span::from_ms(forward)),
            None => self.store.set_back(Span::from_ms(self.clock_ms - wanted)),
        }
        self.clock_ms = wanted;
    }

    pub(super) fn join(&self, name: &NodeName, ttl: Span) -> Option<Epoch> {
        let node = NewNode {
            name: name.clone(),
            instance: name.to_string(),
            labels: Vec::new(),
            address: None,
            version: "1".to_owned(),
            ttl,
            process: None,
        };
        match at_once(self.store.join_node(node, None, self.wall())) {
            Ok(Joined::As(epoch)) => Some(epoch),
            Ok(Joined::Taken(_) | Joined::Overtaken(_)) | Err(_) => None,
        }
    }

    pub(super) fn renew(&self, name: &NodeName, epoch: Epoch) -> bool {
        at_once(self.store.renew_node(name, epoch)).unwrap_or(false)
    }

    pub(super) fn glance(&self) -> NodesSummary {
        at_once(self.store.nodes_summary()).expect("memory can be read")
    }

    /// All nodes as of this mark, which is the present one.
    pub(super) fn view(&mut self, mark: ChangeToken) -> Rc<View> {
        if let Some(view) = self.views.get(&mark) {
            return Rc::clone(view);
        }
        let nodes = at_once(self.store.nodes()).expect("memory can be read");
        let gone = nodes
            .iter()
            .filter(|node| !node.is_live())
            .map(|node| number(&node.new.name));
        let gone = gone.collect();
        let machines = self.of_node.len();
        let view = View {
            gone,
            nodes,
            machines,
            places: RefCell::default(),
        };
        // Nobody comes back to an old mark for long.
        self.views.retain(|_, view| Rc::strong_count(view) > 1);
        let view = Rc::new(view);
        self.views.insert(mark, Rc::clone(&view));
        view
    }

    /// Agents that nobody has whose lease lasts, and those of the node that asks.
    pub(super) fn free(&self, view: &View, asker: usize) -> Vec<Free> {
        let of = |node: usize| {
            let held = self.of_node[node].iter();
            held.map(move |(agent, seq)| Free {
                agent: *agent,
                held_by: Some(node),
                seq: *seq,
            })
        };
        let gone = view
            .gone
            .iter()
            .filter(|node| **node != asker)
            .flat_map(|node| of(*node));
        let nobodys = self.unheld.iter().map(|agent| {
            let seq = self.held[*agent].1;
            Free {
                agent: *agent,
                held_by: None,
                seq,
            }
        });
        gone.chain(nobodys).chain(of(asker)).collect()
    }

    /// Takes an agent for a node if it is still at this sequence number.
    pub(super) fn take(&mut self, agent: usize, seq: u64, node: usize, name: &NodeName) -> bool {
        let process = ProcessIdentity {
            pid: 1,
            start: 1,
            boot: name.to_string(),
            node: Some(name.clone()),
        };
        let change = AgentChange::LeaseTaken {
            holder: Holder::Process(process),
            ttl: None,
        };
        if !self.commit_agent(
            agent,
            Guard {
                fence: None,
                seq: Some(seq),
            },
            change,
        ) {
            return false;
        }
        if let Some(before) = self.held[agent].0.replace(node) {
            self.of_node[before].remove(&agent);
        }
        self.unheld.remove(&agent);
        self.of_node[node].insert(agent, self.held[agent].1);
        true
    }

    fn commit_agent(&mut self, agent: usize, guard: Guard, change: AgentChange) -> bool {
        let commit = AgentCommit {
            agent: self.agents[agent].clone(),
            guard,
            at: self.wall(),
            changes: vec![change],
        };
        let made = at_once(self.store.commit_agent(commit));
        if let Ok(made) = &made {
            self.held[agent].1 = made.seq;
        }
        made.is_ok()
    }

    /// Whether what was kept here beside it is what the store has.
    pub(super) fn is_as_kept(&self) -> bool {
        let agents = at_once(self.store.agents(AgentQuery::default())).expect("memory can be read");
        agents.iter().zip(&self.held).all(|(agent, (holder, seq))| {
            let held = agent
                .lease
                .held
                .as_ref()
                .and_then(|held| held.holder.node());
            held.map(number) == *holder && agent.seq == *seq
        })
    }

    fn wall(&self) -> Time {
        Time::from_ms(self.clock_ms.cast_signed())
    }
}

impl View {
    /// How many nodes should rather take an agent than this one.
    pub(super) fn before(&self, agent: usize, name: &AgentName, node: usize) -> usize {
        let mut places = self.places.borrow_mut();
        let places = places.entry(agent).or_insert_with(|| {
            let ranked = ranking(name, &Placement::Any, &self.nodes);
            let mut places = vec![u32::MAX; self.machines];
            for (place, name) in ranked.into_iter().enumerate() {
                places[number(name)] = place as u32;
            }
            places
        });
        places[node] as usize
    }
}

fn number(name: &NodeName) -> usize {
    name.as_str()[1..]
        .parse()
        .expect("the simulation's own name")
}

/// The store in memory never waits.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => unreachable!("the store in memory never waits"),
    }
}
