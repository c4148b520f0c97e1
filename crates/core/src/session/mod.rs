//! Sessions: conversations of an agent or gateway, with turns that can be interrupted.
//!
//! A turn is marked before it runs and unmarked when it ends, so that after a crash the marks show
//! which turns were open. `decide` and `recover` handle them.

mod decide;
mod file;
mod recover;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use decide::{
    SessionChange, SessionDecisionInput, SessionEvent, SessionRefusal, SessionTold, decide,
    is_same_owner,
};
pub use file::{FILE_BYTES_MAX, FileError, FileMark, Marks, read_marks, write_marks};
pub use recover::{DEATHS_MAX, Policy, Rules, UnknownPolicy, recover};

use crate::ids::{SessionId, SessionKey};
use crate::lease::{HeldLease, Holder};
use crate::time::Time;

/// The number of a turn. The larger one wins; an end only clears its own turn.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Generation(pub u64);

impl Generation {
    /// The next number.
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A session's record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// The gateway's key of it.
    pub key: SessionKey,
    /// The agent's own id of it.
    pub session_id: SessionId,
    /// Number of the newest turn.
    pub generation: Generation,
    /// Number of the newest finished turn.
    pub finished: Generation,
    /// Its state.
    pub state: SessionState,
    /// The reason of its state. Kept until a turn is finished.
    pub reason: Option<Reason>,
    /// Deaths of owners during turns since one was finished.
    pub deaths_in_a_row: u32,
    /// Context for resuming it.
    pub context: BTreeMap<String, String>,
    /// When it was last seen, if none of its turns was ever marked.
    pub seen_at: Option<Time>,
    /// The gateway that saw it then.
    #[serde(default)]
    pub seen_by: Option<Holder>,
    /// Number of its commits; compared by every writer.
    pub seq: u64,
    /// When it became idle, while it is.
    #[serde(default)]
    pub idle_since: Option<Time>,
    /// When it was first seen.
    pub created_at: Time,
    /// When it last changed.
    pub updated_at: Time,
}

/// State of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SessionState {
    /// No turn is open or pending.
    Idle,
    /// A turn is open.
    Active {
        /// Since when.
        since: Time,
        /// Its owner; unknown when the mark came from a file.
        owner: Option<HeldLease>,
    },
    /// A turn was interrupted and should be resumed.
    ResumePending {
        /// When that was detected.
        discovered_at: Time,
        /// Not resumed automatically after this time; no limit when none.
        fresh_until: Option<Time>,
    },
    /// It waits for a person.
    Suspended {
        /// Since when.
        since: Time,
        /// Who or what suspended it.
        by: Suspender,
    },
    /// It was not resumed in time.
    Expired {
        /// Since when.
        since: Time,
        /// When the interruption was detected.
        discovered_at: Time,
    },
}

/// The states without their data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionStateKind {
    /// No turn is open or pending.
    Idle,
    /// A turn is open.
    Active,
    /// A turn was interrupted and should be resumed.
    ResumePending,
    /// It waits for a person.
    Suspended,
    /// It was not resumed in time.
    Expired,
}

impl SessionStateKind {
    /// All values; their order defines the numbers and never changes.
    pub const ALL: [Self; 5] = [
        Self::Idle,
        Self::Active,
        Self::ResumePending,
        Self::Suspended,
        Self::Expired,
    ];

    /// Its name in JSON, SQL and output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Active => "active",
            Self::ResumePending => "resume_pending",
            Self::Suspended => "suspended",
            Self::Expired => "expired",
        }
    }

    /// A small number for stores; never reused.
    pub fn code(self) -> u8 {
        Self::ALL
            .iter()
            .position(|kind| *kind == self)
            .map_or(0, |at| at as u8 + 1)
    }

    /// The state with this number.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code).checked_sub(1)?).copied()
    }
}

impl fmt::Display for SessionStateKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Not a session state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a state of a session; write idle, active, resume_pending, suspended or expired"
)]
pub struct UnknownState(String);

impl FromStr for SessionStateKind {
    type Err = UnknownState;
    fn from_str(text: &str) -> Result<Self, UnknownState> {
        let found = Self::ALL.into_iter().find(|kind| kind.as_str() == text);
        found.ok_or_else(|| UnknownState(text.to_owned()))
    }
}

/// Who or what suspended a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Suspender {
    /// A person: no turn begins before it is resumed.
    Person,
    /// The policy for interrupted turns.
    Policy,
    /// Too many deaths of its owner in a row.
    Limit,
}

impl Suspender {
    /// All values; their order defines the numbers and never changes.
    pub const ALL: [Self; 3] = [Self::Person, Self::Policy, Self::Limit];

    /// A small number for stores; never reused.
    pub fn code(self) -> u8 {
        Self::ALL
            .iter()
            .position(|by| *by == self)
            .map_or(0, |at| at as u8 + 1)
    }

    /// The one with this number.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code).checked_sub(1)?).copied()
    }
}

/// The reason of a session's state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// In words.
    pub text: String,
    /// It was given by a caller; otherwise found by recovery, and a later finding may replace it.
    pub given: bool,
}

impl SessionState {
    /// Its name.
    pub fn kind(&self) -> SessionStateKind {
        match self {
            Self::Idle => SessionStateKind::Idle,
            Self::Active { .. } => SessionStateKind::Active,
            Self::ResumePending { .. } => SessionStateKind::ResumePending,
            Self::Suspended { .. } => SessionStateKind::Suspended,
            Self::Expired { .. } => SessionStateKind::Expired,
        }
    }
}

impl Session {
    /// A session with only its names.
    pub fn new(key: SessionKey, session_id: SessionId, now: Time) -> Self {
        Self {
            key,
            session_id,
            generation: Generation::default(),
            finished: Generation::default(),
            state: SessionState::Idle,
            reason: None,
            deaths_in_a_row: 0,
            context: BTreeMap::new(),
            seen_at: None,
            seen_by: None,
            seq: 0,
            idle_since: Some(now),
            created_at: now,
            updated_at: now,
        }
    }

    /// When its state last changed.
    pub fn since(&self) -> Time {
        match &self.state {
            SessionState::Idle => self.idle_since.unwrap_or(self.updated_at),
            SessionState::Active { since, .. }
            | SessionState::Suspended { since, .. }
            | SessionState::Expired { since, .. } => *since,
            SessionState::ResumePending { discovered_at, .. } => *discovered_at,
        }
    }

    /// The owner of the open turn, if known.
    pub fn owner(&self) -> Option<&HeldLease> {
        match &self.state {
            SessionState::Active { owner, .. } => owner.as_ref(),
            SessionState::Idle
            | SessionState::ResumePending { .. }
            | SessionState::Suspended { .. }
            | SessionState::Expired { .. } => None,
        }
    }

    /// Whether its newest turn was interrupted: it neither ended nor was discarded or cleared.
    pub fn is_cut_off(&self) -> bool {
        let is_open = self.state.kind() == SessionStateKind::Active || self.reason.is_some();
        self.finished < self.generation && is_open
    }

    /// Its state at this time, including an expiry that is not recorded yet.
    pub fn state_at(&self, now: Time) -> SessionStateKind {
        match self.state {
            SessionState::ResumePending {
                fresh_until: Some(until),
                ..
            } if until <= now => SessionStateKind::Expired,
            _ => self.state.kind(),
        }
    }
}
