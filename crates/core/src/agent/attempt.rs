//! One life of an agent's process, and the tag by which all of its tree is known.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::death::{PostMortem, RecordedDeath};
use crate::ids::{AgentName, NodeName};
use crate::lease::ProcessIdentity;
use crate::time::Time;

/// What `RELIGHT_ATTEMPT` holds: unique for all time, and readable: `writer.7.9f3c2a1b8d4e`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AttemptTag(String);

impl AttemptTag {
    /// The tag of an attempt; `chance` makes it unique beyond this store.
    pub fn new(agent: &AgentName, number: u32, chance: u64) -> Self {
        Self(format!("{agent}.{number}.{:012x}", chance & 0xffff_ffff_ffff))
    }

    /// A tag that came from the environment or a record.
    pub fn from_text(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The agent in it; none when it is not one of ours.
    pub fn agent(&self) -> Option<&str> {
        self.0.rsplitn(3, '.').nth(2)
    }

    /// The number in it; none when it is not one of ours.
    pub fn number(&self) -> Option<u32> {
        self.0.rsplit('.').nth(1)?.parse().ok()
    }
}

impl fmt::Display for AttemptTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An attempt as the store keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// Of which agent.
    pub agent: AgentName,
    /// Which one, from 1.
    pub number: u32,
    /// Its tag.
    pub tag: AttemptTag,
    /// When it was begun, before its process was started.
    pub begun_at: Time,
    /// Its leader; none until it was started.
    pub process: Option<ProcessIdentity>,
    /// The shim that holds it.
    pub shim: Option<ProcessIdentity>,
    /// Where its output begins: the log file's number and the offset in it.
    pub log: Option<(u64, u64)>,
    /// How it ended; none while it lives.
    pub ended: Option<RecordedDeath>,
    /// What was found at its death.
    pub post_mortem: Option<PostMortem>,
}

impl Attempt {
    /// The node of a fleet that it ran on; none where there is only one machine, or before it was
    /// started.
    pub fn node(&self) -> Option<&NodeName> {
        let process = self.shim.as_ref().or(self.process.as_ref())?;
        process.node.as_ref()
    }
}
