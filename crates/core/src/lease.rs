//! Leases: who may write to a task, and the fence that proves it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::{AttemptTag, NodeName};
use crate::time::{Span, Time};

/// The fence of a lease. The larger one wins; compared in the same statement as each write.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Fence(pub u64);

impl Fence {
    /// The next fence.
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The length of a time-limited lease when none is given. Whoever works on a task without a lease
/// counts as alive for as long after the last write.
pub const LEASE_DEFAULT: Span = Span::from_secs(10 * 60);
/// The longest time-limited lease.
pub const LEASE_MAX: Span = Span::from_secs(365 * 24 * 60 * 60);

/// The length of a lease is zero or too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a lease lasts longer than 0s and at most {LEASE_MAX}")]
pub struct BadLength;

/// Checks the length of a lease.
pub fn of_length(length: Span) -> Result<Span, BadLength> {
    if length == Span::ZERO || length > LEASE_MAX {
        Err(BadLength)
    } else {
        Ok(length)
    }
}

/// A process, identified by machine, boot, pid and start time, because pids are reused.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// The process number.
    pub pid: u32,
    /// When it started, in the kernel's ticks since boot.
    pub start: u64,
    /// The boot id.
    pub boot: String,
    /// The node; none outside of a fleet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeName>,
}

impl fmt::Display for ProcessIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.node {
            Some(node) => write!(f, "process {} on node {node}", self.pid),
            None => write!(f, "process {}", self.pid),
        }
    }
}

/// The holder of a lease.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Holder {
    /// A process; the lease ends when it dies.
    Process(ProcessIdentity),
    /// An attempt of an agent; the lease ends when it ends.
    Attempt {
        /// The attempt's tag.
        attempt: String,
        /// The shim that it runs under; one shim serves all attempts of an agent.
        shim: ProcessIdentity,
        /// A process of the attempt whose death ends the lease earlier.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        process: Option<ProcessIdentity>,
    },
    /// A time limit; every write of the holder renews it.
    Time {
        /// Description of the holder.
        by: String,
    },
}

impl Holder {
    /// A client of the API, whose life cannot be seen.
    pub fn over_http(who: impl fmt::Display) -> Self {
        Self::Time {
            by: format!("{who} over HTTP"),
        }
    }

    /// The holder's node; none outside of a fleet.
    pub fn node(&self) -> Option<&NodeName> {
        match self {
            Self::Process(process) | Self::Attempt { shim: process, .. } => process.node.as_ref(),
            Self::Time { .. } => None,
        }
    }

    /// The tag of the attempt that the lease ends with.
    pub fn attempt(&self) -> Option<&str> {
        match self {
            Self::Attempt { attempt, .. } => Some(attempt),
            Self::Process(_) | Self::Time { .. } => None,
        }
    }

    /// The process that the lease ends with, unless it is the whole attempt.
    pub fn process(&self) -> Option<&ProcessIdentity> {
        match self {
            Self::Process(process) => Some(process),
            Self::Attempt { process, .. } => process.as_ref(),
            Self::Time { .. } => None,
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process(process) => process.fmt(f),
            Self::Attempt {
                attempt,
                shim,
                process,
            } => {
                let tag = AttemptTag::from_text(attempt);
                match (tag.agent(), tag.number()) {
                    (Some(agent), Some(number)) => write!(f, "agent {agent} (attempt {number}")?,
                    _ => write!(f, "an agent (attempt {attempt}")?,
                }
                if let Some(process) = process {
                    write!(f, ", process {}", process.pid)?;
                }
                match &shim.node {
                    Some(node) => write!(f, " on node {node})"),
                    None => f.write_str(")"),
                }
            }
            Self::Time { by } => write!(f, "{by}"),
        }
    }
}

/// A held lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldLease {
    /// The holder.
    pub holder: Holder,
    /// How long each write renews it for; none when only the holder's death ends it.
    #[serde(with = "span_ms")]
    pub ttl: Option<Span>,
    /// When it was taken.
    pub since: Time,
    /// Time left by the store's clock; none without a time limit.
    #[serde(with = "span_ms")]
    pub left: Option<Span>,
}

/// A lease: free or held, and the newest fence.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Lease {
    /// The fence of the newest lease ever granted.
    pub fence: Fence,
    /// None when it is free.
    pub held: Option<HeldLease>,
}

impl Lease {
    /// Whether a writer with this fence may write. An expired lease that nobody else took is still
    /// valid.
    pub fn admits(&self, fence: Fence) -> bool {
        self.held.is_some() && self.fence == fence
    }

    /// Whether this holder, or a writer with this fence, already has the lease and continues it.
    /// The lease of a dead process or attempt cannot be continued; an expired one can, until
    /// someone else takes it.
    pub fn is_continued_by(&self, holder: &Holder, shown: Option<Fence>, life: HolderLife) -> bool {
        let Some(held) = &self.held else { return false };
        let is_by_time = |holder: &Holder| matches!(holder, Holder::Time { .. });
        let lasts = life == HolderLife::Alive || (is_by_time(&held.holder) && is_by_time(holder));
        let same_life = match (&held.holder, holder) {
            (Holder::Process(theirs), Holder::Process(ours)) => theirs == ours,
            (Holder::Attempt { .. }, Holder::Attempt { .. }) => {
                held.holder.attempt() == holder.attempt()
                    && held.holder.process() == holder.process()
            }
            _ => false,
        };
        same_life || (lasts && shown == Some(self.fence))
    }
}

/// Whether a holder lives. Determined by the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HolderLife {
    /// Alive, or its lease has not expired.
    Alive,
    /// Dead, or its lease has expired.
    Gone,
}

mod span_ms {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::time::Span;

    #[expect(clippy::ref_option, reason = "serde's signature")]
    pub(super) fn serialize<S: Serializer>(span: &Option<Span>, to: S) -> Result<S::Ok, S::Error> {
        span.map(Span::as_ms).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Span>, D::Error> {
        Ok(Option::<u64>::deserialize(from)?.map(Span::from_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(node: Option<&str>) -> ProcessIdentity {
        let node = node.map(|name| NodeName::new(name).unwrap());
        ProcessIdentity {
            pid: 12,
            start: 7,
            boot: "boot".to_owned(),
            node,
        }
    }

    #[test]
    fn a_holder_of_a_fleet_says_where_it_is() {
        let attempt = |node| {
            Holder::Attempt {
                attempt: "a.b.1.0f".to_owned(),
                shim: process(node),
                process: None,
            }
            .to_string()
        };
        assert_eq!(
            Holder::Process(process(Some("b"))).to_string(),
            "process 12 on node b"
        );
        assert_eq!(Holder::Process(process(None)).to_string(), "process 12");
        assert_eq!(attempt(Some("b")), "agent a.b (attempt 1 on node b)");
        assert_eq!(attempt(None), "agent a.b (attempt 1)");
    }

    #[test]
    fn what_was_written_without_a_node_is_read_and_written_as_it_was() {
        let text = r#"{"pid":12,"start":7,"boot":"boot"}"#;
        let read: ProcessIdentity = serde_json::from_str(text).unwrap();
        assert_eq!(read, process(None));
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
        assert_ne!(read, process(Some("b")));
    }
}
