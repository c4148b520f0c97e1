//! Attempts: one run of an agent's process.

use serde::{Deserialize, Serialize};

use super::death::{HowEnded, PostMortem, RecordedDeath};
pub use crate::ids::AttemptTag;
use crate::ids::{AgentName, NodeName};
use crate::lease::{Holder, ProcessIdentity};
use crate::time::Time;

impl AttemptTag {
    /// The tag of the attempt that a lease ends with.
    pub fn of_holder(holder: &Holder) -> Option<Self> {
        holder.attempt().map(Self::from_text)
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

    /// Why its command could not be started.
    pub fn why_not_started(&self) -> Option<&str> {
        let death = &self.ended.as_ref()?.death;
        let is_told = matches!(death.how, HowEnded::Code(126 | 127)) && self.process.is_none();
        death.note.as_deref().filter(|_| is_told)
    }
}
