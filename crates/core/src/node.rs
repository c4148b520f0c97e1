//! Nodes: machines of a fleet, their leases and the placement of agents.
//!
//! A node has one lease for everything it holds. It is measured by the store's clock and cannot be
//! renewed after it expired: others may then take what the node held, and the node must join again.

use std::cmp::Reverse;
use std::fmt;
use std::ops::Add;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ids::{AgentName, IdError, NodeName};
use crate::lease::ProcessIdentity;
use crate::time::{Span, Time};

/// How often a node has joined under its name; grows each time, for a process that was it before also
/// when it was removed meanwhile.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Epoch(pub u64);

/// Description of a node that joins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewNode {
    /// Its name.
    pub name: NodeName,
    /// The installation; another one cannot use the name while the lease is valid.
    pub instance: String,
    /// Labels that agents can require.
    pub labels: Vec<String>,
    /// The address of its API; none when it is only reachable from its own machine.
    pub address: Option<String>,
    /// Version of its program.
    pub version: String,
    /// Length of its lease after each renewal.
    pub ttl: Span,
    /// The process that renews the lease; none in older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessIdentity>,
}

impl NewNode {
    /// Whether its daemon claims to run on this boot. A cloned machine has the same name and
    /// installation.
    pub fn is_of_boot(&self, boot: &str) -> bool {
        self.process
            .as_ref()
            .is_none_or(|daemon| daemon.boot == boot)
    }

    /// Whether both claim to be the same installation on the same boot.
    fn is_same_place(&self, other: &Self) -> bool {
        let boots = self.process.as_ref().zip(other.process.as_ref());
        let is_same_boot = boots.is_none_or(|(one, other)| one.boot == other.boot);
        self.instance == other.instance && is_same_boot
    }
}

/// A node's record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Its description.
    #[serde(flatten)]
    pub new: NewNode,
    /// How often it has joined.
    pub epoch: Epoch,
    /// A drain is in effect: it finishes what runs and takes nothing new.
    pub draining: bool,
    /// When it last joined.
    pub joined_at: Time,
    /// Time left of its lease; zero when it expired or the node left.
    pub left: Span,
}

/// State of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeState {
    /// Its lease is valid.
    Live,
    /// Its lease is valid, and it takes nothing new.
    Draining,
    /// Its lease expired, or it left.
    Gone,
}

impl NodeState {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Live, Self::Draining, Self::Gone];

    /// Its name in JSON and output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Draining => "draining",
            Self::Gone => "gone",
        }
    }
}

impl Node {
    /// Whether its lease is valid.
    pub fn is_live(&self) -> bool {
        self.left > Span::ZERO
    }

    /// Its state.
    pub fn state(&self) -> NodeState {
        match (self.is_live(), self.draining) {
            (false, _) => NodeState::Gone,
            (true, true) => NodeState::Draining,
            (true, false) => NodeState::Live,
        }
    }

    /// Whether `other` must wait for this lease to expire: it is another installation, or a copy of
    /// this one on another machine, which cannot see what runs here. A rebooted machine cannot be
    /// told from such a copy and waits too.
    pub fn keeps_out(&self, other: &NewNode) -> bool {
        self.is_live() && !self.new.is_same_place(other)
    }

    /// Whether another daemon of the same installation joined after this one, which lost its lease.
    /// Without this check two daemons would take the name from each other for ever.
    pub fn overtook(&self, other: &NewNode) -> bool {
        let is_said = self.new.process.is_some() && other.process.is_some();
        is_said && self.new.is_same_place(other) && self.new.process != other.process
    }
}

/// Summary of all nodes, to see whether they changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodesSummary {
    /// Changes when a node joins, leaves, drains or expires. Renewals do not change it.
    pub mark: ChangeToken,
    /// Time until the first valid lease expires, unless it is renewed.
    pub first_end: Option<Span>,
}

/// A value that changes with its source; only comparable within one store.
pub type ChangeToken = [i64; 5];

impl NodesSummary {
    /// Summary of no nodes.
    pub const EMPTY: Self = Self {
        mark: [0; 5],
        first_end: None,
    };

    /// Summary of these nodes.
    pub fn of(nodes: &[Node]) -> Self {
        nodes
            .iter()
            .fold(Self::EMPTY, |glance, node| glance.with(node, node.left))
    }

    /// Adds a node with this time left.
    #[must_use]
    pub fn with(self, node: &Node, left: Span) -> Self {
        let named = |is_counted: bool| match is_counted {
            true => name_number(node.new.name.as_str()),
            false => 0,
        };
        let is_live = left > Span::ZERO;
        let (epoch, joined_at) = (node.epoch.0.cast_signed(), node.joined_at.as_ms());
        let more = [1, epoch, joined_at, named(node.draining), named(!is_live)];
        let mut mark = self.mark;
        mark.iter_mut()
            .zip(more)
            .for_each(|(sum, more)| *sum = sum.wrapping_add(more));
        let ends = [self.first_end, is_live.then_some(left)];
        Self {
            mark,
            first_end: ends.into_iter().flatten().min(),
        }
    }
}

/// FNV-1a hash of a name.
pub fn name_number(name: &str) -> i64 {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    name.as_bytes()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, mix)
        .cast_signed()
}

/// The node that should take a free agent. All nodes compute the same answer without communication,
/// agents are spread evenly, and few move when a node joins or leaves.
pub fn preferred<'a>(
    agent: &AgentName,
    placement: &Placement,
    nodes: &'a [Node],
) -> Option<&'a NodeName> {
    let may = nodes.iter().filter(|node| may_take(placement, node));
    may.max_by_key(|node| weight(agent, &node.new.name))
        .map(|node| &node.new.name)
}

/// All nodes that may take it, in order of preference.
pub fn ranking<'a>(
    agent: &AgentName,
    placement: &Placement,
    nodes: &'a [Node],
) -> Vec<&'a NodeName> {
    let may = nodes
        .iter()
        .filter(|node| may_take(placement, node))
        .map(|node| &node.new.name);
    let mut ranked: Vec<&NodeName> = may.collect();
    ranked.sort_by_cached_key(|name| Reverse(weight(agent, name)));
    ranked
}

fn may_take(placement: &Placement, node: &Node) -> bool {
    node.is_live() && !node.draining && placement.admits(&node.new.name, &node.new.labels)
}

fn weight(agent: &AgentName, node: &NodeName) -> [u8; 32] {
    let mut hash = blake3::Hasher::new();
    hash.update(agent.as_str().as_bytes())
        .update(b"\0")
        .update(node.as_str().as_bytes());
    *hash.finalize().as_bytes()
}

/// Wait per node with a higher preference, because that node may not know the agent. Staggered, so
/// that a thousand nodes do not all ask for the same agent.
const COURTESY: Duration = Duration::from_millis(400);
/// Wait after joining before free agents are taken, so that all nodes of a starting fleet get their
/// share.
pub const SETTLE: Duration = Duration::from_millis(500);
/// The same after a lost lease. After a long outage of the store all nodes lose theirs; the first
/// one back would see all others gone and take everything.
pub const SETTLE_ANEW: Duration = Duration::from_secs(2);

/// Limit of higher-ranked nodes that are waited for.
const OTHERS_MAX: u32 = 150;

/// Who holds an agent, as a node sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentHeldBy {
    /// Nobody, or a node whose lease expired.
    Nobody,
    /// This node, now or before a restart.
    Us,
    /// Another live node.
    Another,
}

/// Whether and when a node may take an agent over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TakeoverTurn {
    /// Not at all: a live node has it, or this node drains or does not match the placement.
    Nobodys,
    /// It is already this node's, from before a restart.
    OursAlready,
    /// It is free, and this node is the first choice.
    Ours,
    /// It is free, and this many nodes have a higher preference.
    Anothers(u32),
}

impl TakeoverTurn {
    /// Computes the turn of this node.
    pub fn of(
        own: &NodeName,
        agent: &AgentName,
        placement: &Placement,
        held_by: AgentHeldBy,
        nodes: &[Node],
    ) -> Self {
        match held_by {
            AgentHeldBy::Us => Self::OursAlready,
            AgentHeldBy::Another => Self::Nobodys,
            AgentHeldBy::Nobody => {
                let place = ranking(agent, placement, nodes)
                    .iter()
                    .position(|name| *name == own);
                place.map_or(Self::Nobodys, Self::after)
            }
        }
    }

    /// The turn for a free agent with this many higher-ranked nodes.
    pub fn after(others: usize) -> Self {
        match u32::try_from(others).unwrap_or(u32::MAX) {
            0 => Self::Ours,
            others => Self::Anothers(others),
        }
    }

    /// When the node may take it, given the end of its settling time and since when the agent is
    /// free; none while it is held.
    pub fn due_at<T: Add<Duration, Output = T> + Ord>(
        self,
        now: T,
        settled: T,
        free: T,
    ) -> Option<T> {
        match self {
            Self::Nobodys => None,
            Self::OursAlready => Some(now),
            Self::Ours => Some(settled),
            Self::Anothers(others) => {
                Some(settled.max(free) + COURTESY.saturating_mul(others.min(OTHERS_MAX)))
            }
        }
    }
}

/// Where an agent may run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Placement {
    /// Anywhere.
    #[default]
    Any,
    /// Only this node.
    Node(NodeName),
    /// Nodes with this label.
    Label(String),
}

impl Placement {
    /// Whether a node with this name and labels matches.
    pub fn admits(&self, name: &NodeName, labels: &[String]) -> bool {
        match self {
            Self::Any => true,
            Self::Node(wanted) => wanted == name,
            Self::Label(wanted) => labels.contains(wanted),
        }
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("any"),
            Self::Node(name) => write!(f, "{name}"),
            Self::Label(label) => write!(f, "label:{label}"),
        }
    }
}

impl FromStr for Placement {
    type Err = IdError;

    /// `any`, `label:gpu`, or the name of a node.
    fn from_str(text: &str) -> Result<Self, IdError> {
        match (text, text.strip_prefix("label:")) {
            ("any", _) => Ok(Self::Any),
            (_, Some(label)) => Ok(Self::Label(NodeName::new(label)?.into())),
            (name, None) => Ok(Self::Node(NodeName::new(name)?)),
        }
    }
}

impl Serialize for Placement {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Placement {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, left_ms: u64) -> Node {
        let new = NewNode {
            name: NodeName::new(name).unwrap(),
            instance: name.to_owned(),
            labels: vec![format!("only-{name}")],
            address: None,
            version: "1".to_owned(),
            ttl: Span::from_secs(8),
            process: None,
        };
        let left = Span::from_ms(left_ms);
        Node {
            new,
            epoch: Epoch(1),
            draining: false,
            joined_at: Time::from_ms(0),
            left,
        }
    }

    fn places(nodes: &[Node]) -> Vec<Option<&NodeName>> {
        let agent = |n| AgentName::new(format!("agent-{n}")).unwrap();
        (0..300)
            .map(|n| preferred(&agent(n), &Placement::Any, nodes))
            .collect()
    }

    #[test]
    fn agents_are_spread_and_few_move_when_a_node_goes() {
        let three = [node("a", 1), node("b", 1), node("c", 1)];
        let before = places(&three);
        for one in &three {
            let share = before
                .iter()
                .filter(|place| **place == Some(&one.new.name))
                .count();
            assert!(
                (70..130).contains(&share),
                "{share} of 300 on {}",
                one.new.name
            );
        }
        let two = [node("a", 1), node("b", 1), node("c", 0)];
        for (before, after) in before.into_iter().zip(places(&two)) {
            let stays = before == after;
            assert_eq!(
                stays,
                before != Some(&three[2].new.name),
                "{before:?} {after:?}"
            );
        }
    }

    #[test]
    fn only_live_nodes_that_are_admitted_and_do_not_drain_are_preferred() {
        let agent = AgentName::new("writer").unwrap();
        let nodes = [
            node("a", 1),
            Node {
                draining: true,
                ..node("b", 1)
            },
            node("c", 0),
        ];
        let place = |text: &str| {
            let placement: Placement = text.parse().unwrap();
            preferred(&agent, &placement, &nodes).map(ToString::to_string)
        };
        let a = Some("a".to_owned());
        assert_eq!(
            [place("any"), place("a"), place("label:only-a")],
            [a.clone(), a.clone(), a]
        );
        assert_eq!(
            [place("b"), place("c"), place("label:only-c")],
            [None, None, None]
        );
    }

    #[test]
    fn a_free_agent_is_taken_by_the_preferred_node_and_later_by_the_next() {
        let agent = AgentName::new("writer").unwrap();
        let nodes = [node("a", 1), node("b", 1), node("c", 1), node("d", 0)];
        let names = ranking(&agent, &Placement::Any, &nodes);
        assert_eq!(
            preferred(&agent, &Placement::Any, &nodes),
            names.first().copied()
        );
        let due_at = |own: &NodeName, held_by| {
            let turn = TakeoverTurn::of(own, &agent, &Placement::Any, held_by, &nodes);
            let [now, settled, free] = [9_000, 500, 2_000].map(Duration::from_millis);
            turn.due_at(now, settled, free).map(|at| at.as_millis())
        };
        let [first, second, third] = names[..] else {
            panic!("three of them live: {names:?}")
        };
        assert_eq!(due_at(first, AgentHeldBy::Nobody), Some(500));
        assert_eq!(due_at(second, AgentHeldBy::Nobody), Some(2_400));
        assert_eq!(
            due_at(third, AgentHeldBy::Nobody),
            Some(2_800),
            "one after the other"
        );
        assert_eq!(due_at(second, AgentHeldBy::Us), Some(9_000));
        assert_eq!(
            [
                due_at(first, AgentHeldBy::Another),
                due_at(second, AgentHeldBy::Another)
            ],
            [None, None]
        );
    }

    #[test]
    fn a_node_that_may_not_take_an_agent_leaves_it_alone_however_long_it_is_free() {
        let agent = AgentName::new("writer").unwrap();
        let nodes = [
            Node {
                draining: true,
                ..node("a", 1)
            },
            node("b", 0),
            node("c", 1),
        ];
        let turn = |own: &str, placement: &str, held_by| {
            let own = NodeName::new(own).unwrap();
            TakeoverTurn::of(&own, &agent, &placement.parse().unwrap(), held_by, &nodes)
        };
        assert_eq!(
            turn("a", "any", AgentHeldBy::Nobody),
            TakeoverTurn::Nobodys,
            "it drains"
        );
        assert_eq!(
            turn("c", "b", AgentHeldBy::Nobody),
            TakeoverTurn::Nobodys,
            "it is another's, if that is gone too"
        );
        assert_eq!(turn("c", "any", AgentHeldBy::Nobody), TakeoverTurn::Ours);
        assert_eq!(
            turn("a", "any", AgentHeldBy::Us),
            TakeoverTurn::OursAlready,
            "what it has it looks after"
        );
    }

    #[test]
    fn a_node_is_of_the_boot_that_its_daemon_says_and_of_any_when_it_says_none() {
        let mut new = node("a", 1).new;
        assert!(new.is_of_boot("this"));
        let boot = "this".to_owned();
        new.process = Some(ProcessIdentity {
            pid: 1,
            start: 1,
            boot,
            node: None,
        });
        assert_eq!(
            [new.is_of_boot("this"), new.is_of_boot("another")],
            [true, false]
        );
    }

    #[test]
    fn a_placement_admits_by_name_or_label() {
        let (name, labels) = (NodeName::new("b").unwrap(), ["gpu".to_owned()]);
        for (text, admits) in [
            ("any", true),
            ("b", true),
            ("a", false),
            ("label:gpu", true),
            ("label:ssd", false),
        ] {
            let placement: Placement = text.parse().unwrap();
            assert_eq!(placement.admits(&name, &labels), admits, "{text}");
            assert_eq!(placement.to_string(), text);
        }
        assert!("label:".parse::<Placement>().is_err() && "a b".parse::<Placement>().is_err());
    }
}
