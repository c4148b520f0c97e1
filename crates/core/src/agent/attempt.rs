//! Attempts: one run of an agent's process, and the tag that marks all its processes.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::death::{PostMortem, RecordedDeath};
use crate::ids::{AgentName, NodeName};
use crate::lease::{Holder, ProcessIdentity};
use crate::time::Time;

/// The value of `RELIGHT_ATTEMPT`: globally unique and readable, such as `writer.7.9f3c2a1b8d4e`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AttemptTag(String);

impl AttemptTag {
    /// Makes a tag; `chance` makes it unique across stores.
    pub fn new(agent: &AgentName, number: u32, chance: u64) -> Self {
        Self(format!("{agent}.{number}.{:012x}", chance & 0xffff_ffff_ffff))
    }

    /// A tag from the environment or a record.
    pub fn from_text(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The tag of the attempt that a lease ends with.
    pub fn of_holder(holder: &Holder) -> Option<Self> {
        holder.attempt().map(Self::from_text)
    }

    /// Whether it is an attempt of this agent.
    pub fn is_of(&self, agent: &AgentName) -> bool {
        self.agent() == Some(agent.as_str())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The agent's name in it; none when it is not a valid tag.
    pub fn agent(&self) -> Option<&str> {
        self.0.rsplitn(3, '.').nth(2)
    }

    /// The attempt's number in it; none when it is not a valid tag.
    pub fn number(&self) -> Option<u32> {
        self.0.rsplit('.').nth(1)?.parse().ok()
    }
}

impl fmt::Display for AttemptTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The record of an attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// The agent.
    pub agent: AgentName,
    /// Its number, from 1.
    pub number: u32,
    /// Its tag.
    pub tag: AttemptTag,
    /// When it was begun, before its process was started.
    pub begun_at: Time,
    /// Its main process; none until it was started.
    pub process: Option<ProcessIdentity>,
    /// The shim that holds it.
    pub shim: Option<ProcessIdentity>,
    /// Where its output begins: the log file's number and the offset in it.
    pub log: Option<(u64, u64)>,
    /// How it ended; none while it runs.
    pub ended: Option<RecordedDeath>,
    /// The post-mortem.
    pub post_mortem: Option<PostMortem>,
}

impl Attempt {
    /// The node that it ran on; none outside of a fleet or before it was started.
    pub fn node(&self) -> Option<&NodeName> {
        let process = self.shim.as_ref().or(self.process.as_ref())?;
        process.node.as_ref()
    }
}
