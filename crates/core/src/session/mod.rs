//! A session: one conversation of an agent or gateway, with turns that can be cut off.
//!
//! A turn is marked before it runs and the mark is cleared when it ends, so that after any crash the
//! marks say exactly which turns were in flight. What becomes of them is decided in `decide` and
//! `recover`; this file only says what a session is.

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
use crate::lease::HeldLease;
use crate::time::Time;

/// The number of a turn. The larger wins; an end clears only its own.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Generation(pub u64);

impl Generation {
    /// The number of the turn after this one.
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A conversation as the store knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// By which the gateway knows it.
    pub key: SessionKey,
    /// The agent's own id of it.
    pub session_id: SessionId,
    /// Number of the newest turn that was ever begun.
    pub generation: Generation,
    /// Number of the newest turn that ended by itself.
    pub finished: Generation,
    /// Where it stands.
    pub state: SessionState,
    /// Why it stands there. Stays until a turn is finished.
    pub reason: Option<Reason>,
    /// How many owners died in a turn of it since one was finished.
    pub deaths_in_a_row: u32,
    /// What whoever resumes it needs.
    pub context: BTreeMap<String, String>,
    /// When it was last seen, while none of its turns was ever marked: all that is known then.
    pub seen_at: Option<Time>,
    /// How many commits it has had; every writer compares it.
    pub seq: u64,
    /// When it was first seen.
    pub created_at: Time,
    /// When something last happened to it.
    pub updated_at: Time,
}

/// Where a session stands, with what belongs to that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SessionState {
    /// Nothing is in flight and nothing is owed.
    Idle,
    /// A turn is in flight.
    Active {
        /// Since when.
        since: Time,
        /// Who runs it; nobody knows when the mark came from a file.
        owner: Option<HeldLease>,
    },
    /// A turn was cut off and is to be taken up.
    ResumePending {
        /// When that was found out.
        discovered_at: Time,
        /// Not to be taken up by itself after; no limit when none.
        fresh_until: Option<Time>,
    },
    /// It waits for somebody.
    Suspended {
        /// Since when.
        since: Time,
        /// Who or what suspended it.
        by: Suspender,
    },
    /// It was to be taken up and nobody did in time.
    Expired {
        /// Since when.
        since: Time,
        /// When its turn was found to be cut off.
        discovered_at: Time,
    },
}

/// The states by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionStateKind {
    /// Nothing is in flight and nothing is owed.
    Idle,
    /// A turn is in flight.
    Active,
    /// A turn was cut off and is to be taken up.
    ResumePending,
    /// It waits for somebody.
    Suspended,
    /// It was to be taken up and nobody did in time.
    Expired,
}

impl SessionStateKind {
    /// All of them; the order gives the numbers and is never changed.
    pub const ALL: [Self; 5] =
        [Self::Idle, Self::Active, Self::ResumePending, Self::Suspended, Self::Expired];

    /// The word used everywhere.
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
        Self::ALL.iter().position(|kind| *kind == self).map_or(0, |at| at as u8 + 1)
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

/// A word that is no state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no state of a session; write idle, active, resume_pending, suspended or expired")]
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
    /// Somebody who said so: no turn begins before it is resumed.
    Person,
    /// The policy for turns that were cut off.
    Policy,
    /// Too many deaths of its owner in a row.
    Limit,
}

impl Suspender {
    /// All of them; the order gives the numbers and is never changed.
    pub const ALL: [Self; 3] = [Self::Person, Self::Policy, Self::Limit];

    /// A small number for stores; never reused.
    pub fn code(self) -> u8 {
        Self::ALL.iter().position(|by| *by == self).map_or(0, |at| at as u8 + 1)
    }

    /// The one with this number.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code).checked_sub(1)?).copied()
    }
}

/// Why a session stands where it does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// In words.
    pub text: String,
    /// Somebody gave it; else recovery found it, and a later finding may take its place.
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
    /// A session of which nothing but its names is known.
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
            seq: 0,
            created_at: now,
            updated_at: now,
        }
    }

    /// Who runs the turn in flight, as far as that is known.
    pub fn owner(&self) -> Option<&HeldLease> {
        match &self.state {
            SessionState::Active { owner, .. } => owner.as_ref(),
            SessionState::Idle
            | SessionState::ResumePending { .. }
            | SessionState::Suspended { .. }
            | SessionState::Expired { .. } => None,
        }
    }

    /// Where it really stands at this moment: nobody may have looked since its time ran out.
    pub fn state_at(&self, now: Time) -> SessionStateKind {
        match self.state {
            SessionState::ResumePending { fresh_until: Some(until), .. } if until <= now => {
                SessionStateKind::Expired
            }
            _ => self.state.kind(),
        }
    }
}
