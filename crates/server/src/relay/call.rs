//! What can be asked over the wire. What is no agent's business cannot be said here at all: agents and
//! their attempts, and nodes, are written by daemons alone, and nobody removes what others have done.

use relight_core::agent::AttemptTag;
use relight_core::claimant::Claimant;
use relight_core::ids::{AgentName, IdempotencyKey, SessionKey, TaskId};
use relight_core::lease::Fence;
use relight_core::session::SessionChange;
use relight_core::step::StepKey;
use relight_core::time::Time;
use relight_store::{
    AgentQuery, AttemptQuery, Commit, EventQuery, KeptRange, Rows, SessionQuery, StoreEvent,
    TaskQuery,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Where it is asked, on the socket alone.
pub(crate) const PATH: &str = "/relay";
/// The form of what is said here. One more whenever an older daemon would misunderstand.
pub(super) const VERSION: u32 = 1;
/// The largest question. A step's output is kept up to 1 MiB, and as JSON it may be six times as long;
/// several ends may go together.
pub(crate) const BYTES_MAX: usize = 64 << 20;

/// A question.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RelayRequest<C> {
    /// The asker's [`VERSION`].
    pub(super) version: u32,
    /// What is asked.
    pub(super) call: C,
}

/// What an asker of any version says.
#[derive(Debug, Deserialize)]
pub(super) struct AskedBy {
    /// The asker's [`VERSION`].
    #[serde(default)]
    pub(super) version: u32,
}

/// An answer.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RelayResponse<T> {
    /// The write was asked for before, and this is what it came to then.
    pub(super) again: bool,
    /// What the store said.
    pub(super) answer: T,
}

/// What is asked.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RelayCall {
    /// To look at something.
    Read(Read),
    /// To change something: done once for one id, however often it is asked for.
    Write {
        /// Which of all writes.
        id: String,
        /// What.
        write: Write,
    },
    /// To be told when there is an event after this one, or after a while.
    Changed(u64),
}

/// A look at the store; each is the method of the same name.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Read {
    Task(TaskId),
    TasksById(Vec<TaskId>),
    TaskWithKey(IdempotencyKey),
    Tasks(TaskQuery),
    Unfinished,
    Step(TaskId, StepKey),
    TaskWithStep(TaskId, StepKey),
    Steps(TaskId),
    Output(TaskId, StepKey),
    Events(EventQuery),
    Agent(AgentName),
    Agents(AgentQuery),
    Attempt(AttemptTag),
    Attempts(AttemptQuery),
    Session(SessionKey),
    Sessions(SessionQuery),
    Kept(String),
    Unreadable(Rows),
    KeptIn(KeptRange),
    Inventory {
        whole: bool,
    },
    Claimable {
        claimant: Claimant,
        now: Time,
        limit: usize,
    },
    NextDue(Time),
    Nodes,
    NewestEvent,
}

/// A change of the store; each is the method of the same name.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Write {
    /// `soon` was handed in before it, and nobody waits for that.
    Commit {
        soon: Vec<Commit>,
        commit: Commit,
    },
    /// What was handed in, when no commit followed.
    CommitSoon(Vec<Commit>),
    Renew(TaskId, Fence),
    CommitSessions(Vec<SessionChange>, Time),
    Keep {
        name: String,
        before: Maybe,
        now: Value,
        told: Vec<StoreEvent>,
    },
    ForgetKept(KeptRange),
}

/// A value that may not be there: as a list, because JSON cannot tell nothing from `null`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "Vec<Value>", into = "Vec<Value>")]
pub(super) struct Maybe(pub(super) Option<Value>);

impl From<Vec<Value>> for Maybe {
    fn from(list: Vec<Value>) -> Self {
        Self(list.into_iter().next())
    }
}

impl From<Maybe> for Vec<Value> {
    fn from(maybe: Maybe) -> Self {
        maybe.0.into_iter().collect()
    }
}
