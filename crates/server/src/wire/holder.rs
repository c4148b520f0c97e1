//! Who works on something.

use relight::os::process;
use relight_core::lease::{HeldLease, Holder, HolderLife};
use relight_core::time::{Span, Time};
use serde::Serialize;

/// The holder of a task, or the owner of a session's turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct HeldBy {
    /// `process`, `attempt` or `time`.
    pub(crate) kind: &'static str,
    /// For people.
    pub(crate) text: String,
    /// Of a process.
    pub(crate) pid: Option<u32>,
    /// Of an attempt of an agent.
    pub(crate) attempt: Option<String>,
    /// Who took a lease that only the clock ends.
    pub(crate) by: Option<String>,
    #[cfg_attr(test, schema(value_type = String))]
    pub(crate) since: Time,
    pub(crate) alive: bool,
    /// The rest of the lease; null if it has no time limit.
    pub(crate) left_ms: Option<u64>,
}

impl From<&HeldLease> for HeldBy {
    fn from(held: &HeldLease) -> Self {
        let (kind, pid, attempt, by) = match &held.holder {
            Holder::Process(process) => ("process", Some(process.pid), None, None),
            Holder::Attempt { attempt, .. } => ("attempt", None, Some(attempt.clone()), None),
            Holder::Time { by } => ("time", None, None, Some(by.clone())),
        };
        Self {
            kind,
            text: held.holder.to_string(),
            pid,
            attempt,
            by,
            since: held.since,
            alive: process::holder_life(held) == HolderLife::Alive,
            left_ms: held.left.map(Span::as_ms),
        }
    }
}
