//! A machine of a fleet: its name, its lease, and what may be placed on it.
//!
//! One lease for all that a node holds. It is measured by the store's clock and cannot be renewed once
//! it ran out: from then on others may take what the node held, and the node must join anew.

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

/// What a node says of itself when it joins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewNode {
    /// By which everybody knows it.
    pub name: NodeName,
    /// Which installation: another one may not use the name while this one's lease lasts.
    pub instance: String,
    /// What agents can ask for.
    pub labels: Vec<String>,
    /// Where its API answers; none when it answers nobody but its own machine.
    pub address: Option<String>,
    /// Of the program it runs.
    pub version: String,
    /// How long each renewal makes its lease last.
    pub ttl: Span,
    /// Which process keeps the lease; none of versions that did not say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessIdentity>,
}

impl NewNode {
    /// Whether its daemon runs on this boot of a machine, as far as it says. A cloned machine has the same
    /// name and the same installation.
    pub fn is_of_boot(&self, boot: &str) -> bool {
        self.process.as_ref().is_none_or(|daemon| daemon.boot == boot)
    }

    /// Whether both are of one installation on one boot of one machine, as far as they say.
    fn is_same_place(&self, other: &Self) -> bool {
        let boots = self.process.as_ref().zip(other.process.as_ref());
        let is_same_boot = boots.is_none_or(|(one, other)| one.boot == other.boot);
        self.instance == other.instance && is_same_boot
    }
}

/// A node as the store knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// What it said of itself.
    #[serde(flatten)]
    pub new: NewNode,
    /// How often it has joined.
    pub epoch: Epoch,
    /// It finishes what runs and takes nothing new.
    pub draining: bool,
    /// When it last joined.
    pub joined_at: Time,
    /// What is left of its lease; zero once it ran out or the node left.
    pub left: Span,
}

/// Whether a node may be counted on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeState {
    /// Its lease lasts.
    Live,
    /// Its lease lasts, and it takes nothing new.
    Draining,
    /// Its lease ran out, or it left.
    Gone,
}

impl NodeState {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Live, Self::Draining, Self::Gone];

    /// The word used everywhere.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Draining => "draining",
            Self::Gone => "gone",
        }
    }
}

impl Node {
    /// Whether its lease lasts.
    pub fn is_live(&self) -> bool {
        self.left > Span::ZERO
    }

    /// Whether it may be counted on.
    pub fn state(&self) -> NodeState {
        match (self.is_live(), self.draining) {
            (false, _) => NodeState::Gone,
            (true, true) => NodeState::Draining,
            (true, false) => NodeState::Live,
        }
    }

    /// Whether somebody who wants the name must wait for this one's lease to run out: another
    /// installation, or a copy of this one on another machine, which cannot see what lives here. A
    /// machine that was booted anew cannot be told from such a copy, and waits as well.
    pub fn keeps_out(&self, other: &NewNode) -> bool {
        self.is_live() && !self.new.is_same_place(other)
    }

    /// Whether another daemon of the same installation joined since this one did, which has lost its
    /// lease and wants it back: two that both did would take it from each other for ever.
    pub fn overtook(&self, other: &NewNode) -> bool {
        let is_said = self.new.process.is_some() && other.process.is_some();
        is_said && self.new.is_same_place(other) && self.new.process != other.process
    }
}

/// All nodes at a glance: enough to know whether it is worth reading them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodesSummary {
    /// Another one whenever a node came, went, joined anew, began to drain or let its lease run out.
    /// Renewals do not change it.
    pub mark: ChangeToken,
    /// How long until the first lease runs out that lasts now, unless it is renewed.
    pub first_end: Option<Span>,
}

/// Numbers that differ when what they were made of does; of one store alone.
pub type ChangeToken = [i64; 5];

impl NodesSummary {
    /// Of no nodes.
    pub const EMPTY: Self = Self { mark: [0; 5], first_end: None };

    /// Of nodes that were read anyway.
    pub fn of(nodes: &[Node]) -> Self {
        nodes.iter().fold(Self::EMPTY, |glance, node| glance.with(node, node.left))
    }

    /// With one more, which has so much left of its lease.
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
        mark.iter_mut().zip(more).for_each(|(sum, more)| *sum = sum.wrapping_add(more));
        let ends = [self.first_end, is_live.then_some(left)];
        Self { mark, first_end: ends.into_iter().flatten().min() }
    }
}

/// A number for a name (FNV-1a): two of them hardly ever have the same.
pub fn name_number(name: &str) -> i64 {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    name.as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, mix).cast_signed()
}

/// Which of these nodes should take an agent that nobody has: all of them come to the same answer
/// without asking each other, agents are spread evenly, and few change when a node comes or goes.
pub fn preferred<'a>(
    agent: &AgentName,
    placement: &Placement,
    nodes: &'a [Node],
) -> Option<&'a NodeName> {
    let may = nodes.iter().filter(|node| may_take(placement, node));
    may.max_by_key(|node| weight(agent, &node.new.name)).map(|node| &node.new.name)
}

/// All who may take it, the one that should first, and then whoever should if those before do not come.
pub fn ranking<'a>(
    agent: &AgentName,
    placement: &Placement,
    nodes: &'a [Node],
) -> Vec<&'a NodeName> {
    let may = nodes.iter().filter(|node| may_take(placement, node)).map(|node| &node.new.name);
    let mut ranked: Vec<&NodeName> = may.collect();
    ranked.sort_by_cached_key(|name| Reverse(weight(agent, name)));
    ranked
}

fn may_take(placement: &Placement, node: &Node) -> bool {
    node.is_live() && !node.draining && placement.admits(&node.new.name, &node.new.labels)
}

fn weight(agent: &AgentName, node: &NodeName) -> [u8; 32] {
    let mut hash = blake3::Hasher::new();
    hash.update(agent.as_str().as_bytes()).update(b"\0").update(node.as_str().as_bytes());
    *hash.finalize().as_bytes()
}

/// How long an agent is left to each node that should rather take it: it may not know the agent. One after
/// the other, so that a thousand nodes do not all ask for what the first is about to take.
const COURTESY: Duration = Duration::from_millis(400);
/// How long free agents are left alone after a node has joined: the nodes of a fleet that begins come one
/// after the other, and each is to have its share.
pub const SETTLE: Duration = Duration::from_millis(500);
/// The same after it lost its lease and joined anew. When the store was away for long, every node did: the
/// first that is back sees all others gone, and would take everything.
pub const SETTLE_ANEW: Duration = Duration::from_secs(2);

/// However many should rather take it, nobody waits for more than these.
const OTHERS_MAX: u32 = 150;

/// Who has an agent, as far as a node can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentHeldBy {
    /// Nobody, or one whose lease was seen to have run out.
    Nobody,
    /// The node itself, now or in an earlier life.
    Us,
    /// Another one, which lives.
    Another,
}

/// Whether it is a node's turn to take an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TakeoverTurn {
    /// A live node has it, or this one may not take it: it drains, or the placement is another.
    Nobodys,
    /// It had it, in an earlier life.
    OursAlready,
    /// It is free, and ours to take.
    Ours,
    /// It is free, and so many other nodes are to take it before us.
    Anothers(u32),
}

impl TakeoverTurn {
    /// Of this node among these.
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
                let place = ranking(agent, placement, nodes).iter().position(|name| *name == own);
                place.map_or(Self::Nobodys, Self::after)
            }
        }
    }

    /// Of a free agent that so many others should rather take.
    pub fn after(others: usize) -> Self {
        match u32::try_from(others).unwrap_or(u32::MAX) {
            0 => Self::Ours,
            others => Self::Anothers(others),
        }
    }

    /// When the node may take it, which is ready to take anything from `settled` on and has seen the
    /// agent free since `free`; never while somebody has it.
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
    /// On this node alone.
    Node(NodeName),
    /// On every node that has this label.
    Label(String),
}

impl Placement {
    /// Whether a node with this name and these labels will do.
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
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
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
        Node { new, epoch: Epoch(1), draining: false, joined_at: Time::from_ms(0), left }
    }

    fn places(nodes: &[Node]) -> Vec<Option<&NodeName>> {
        let agent = |n| AgentName::new(format!("agent-{n}")).unwrap();
        (0..300).map(|n| preferred(&agent(n), &Placement::Any, nodes)).collect()
    }

    #[test]
    fn agents_are_spread_and_few_move_when_a_node_goes() {
        let three = [node("a", 1), node("b", 1), node("c", 1)];
        let before = places(&three);
        for one in &three {
            let share = before.iter().filter(|place| **place == Some(&one.new.name)).count();
            assert!((70..130).contains(&share), "{share} of 300 on {}", one.new.name);
        }
        let two = [node("a", 1), node("b", 1), node("c", 0)];
        for (before, after) in before.into_iter().zip(places(&two)) {
            let stays = before == after;
            assert_eq!(stays, before != Some(&three[2].new.name), "{before:?} {after:?}");
        }
    }

    #[test]
    fn only_live_nodes_that_are_admitted_and_do_not_drain_are_preferred() {
        let agent = AgentName::new("writer").unwrap();
        let nodes = [node("a", 1), Node { draining: true, ..node("b", 1) }, node("c", 0)];
        let place = |text: &str| {
            let placement: Placement = text.parse().unwrap();
            preferred(&agent, &placement, &nodes).map(ToString::to_string)
        };
        let a = Some("a".to_owned());
        assert_eq!([place("any"), place("a"), place("label:only-a")], [a.clone(), a.clone(), a]);
        assert_eq!([place("b"), place("c"), place("label:only-c")], [None, None, None]);
    }

    #[test]
    fn a_free_agent_is_taken_by_the_preferred_node_and_later_by_the_next() {
        let agent = AgentName::new("writer").unwrap();
        let nodes = [node("a", 1), node("b", 1), node("c", 1), node("d", 0)];
        let names = ranking(&agent, &Placement::Any, &nodes);
        assert_eq!(preferred(&agent, &Placement::Any, &nodes), names.first().copied());
        let ripe = |own: &NodeName, held_by| {
            let turn = TakeoverTurn::of(own, &agent, &Placement::Any, held_by, &nodes);
            let [now, settled, free] = [9_000, 500, 2_000].map(Duration::from_millis);
            turn.due_at(now, settled, free).map(|at| at.as_millis())
        };
        let [first, second, third] = names[..] else { panic!("three of them live: {names:?}") };
        assert_eq!(ripe(first, AgentHeldBy::Nobody), Some(500));
        assert_eq!(ripe(second, AgentHeldBy::Nobody), Some(2_400));
        assert_eq!(ripe(third, AgentHeldBy::Nobody), Some(2_800), "one after the other");
        assert_eq!(ripe(second, AgentHeldBy::Us), Some(9_000));
        assert_eq!(
            [ripe(first, AgentHeldBy::Another), ripe(second, AgentHeldBy::Another)],
            [None, None]
        );
    }

    #[test]
    fn a_node_that_may_not_take_an_agent_leaves_it_alone_however_long_it_is_free() {
        let agent = AgentName::new("writer").unwrap();
        let nodes = [Node { draining: true, ..node("a", 1) }, node("b", 0), node("c", 1)];
        let turn = |own: &str, placement: &str, held_by| {
            let own = NodeName::new(own).unwrap();
            TakeoverTurn::of(&own, &agent, &placement.parse().unwrap(), held_by, &nodes)
        };
        assert_eq!(turn("a", "any", AgentHeldBy::Nobody), TakeoverTurn::Nobodys, "it drains");
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
        new.process = Some(ProcessIdentity { pid: 1, start: 1, boot, node: None });
        assert_eq!([new.is_of_boot("this"), new.is_of_boot("another")], [true, false]);
    }

    #[test]
    fn a_placement_admits_by_name_or_label() {
        let (name, labels) = (NodeName::new("b").unwrap(), ["gpu".to_owned()]);
        for (text, admits) in
            [("any", true), ("b", true), ("a", false), ("label:gpu", true), ("label:ssd", false)]
        {
            let placement: Placement = text.parse().unwrap();
            assert_eq!(placement.admits(&name, &labels), admits, "{text}");
            assert_eq!(placement.to_string(), text);
        }
        assert!("label:".parse::<Placement>().is_err() && "a b".parse::<Placement>().is_err());
    }
}
