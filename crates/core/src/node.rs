//! A machine of a fleet: its name, its lease, and what may be placed on it.
//!
//! One lease for all that a node holds. It is measured by the store's clock and cannot be renewed once
//! it ran out: from then on others may take what the node held, and the node must join anew.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ids::{IdError, NodeName};
use crate::time::{Span, Time};

/// How often a node has joined under its name; grows each time.
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

impl Node {
    /// Whether its lease lasts.
    pub fn is_live(&self) -> bool {
        self.left > Span::ZERO
    }

    /// Whether somebody who wants the name must wait for this one's lease to run out.
    pub fn keeps_out(&self, other: &NewNode) -> bool {
        self.is_live() && self.new.instance != other.instance
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
