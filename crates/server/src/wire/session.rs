//! A session.

use std::collections::BTreeMap;

use relight_core::session;
use relight_core::session::SessionState;
use relight_core::time::Time;
use serde::{Deserialize, Serialize};

use super::number;

/// One conversation, with the turn that is in flight or was cut off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct Session {
    pub(crate) key: String,
    /// `idle`, `active`, `resume_pending`, `suspended` or `expired`.
    pub(crate) state: String,
    pub(crate) session_id: String,
    /// Number of the newest turn.
    pub(crate) generation: u64,
    /// Who runs the turn in flight.
    pub(crate) owner: Option<String>,
    pub(crate) reason: Option<String>,
    #[cfg_attr(test, schema(value_type = String))]
    pub(crate) since: Time,
    #[cfg_attr(test, schema(value_type = String))]
    pub(crate) updated_at: Time,
}

impl Session {
    /// As it stands at this moment.
    pub(crate) fn at(session: session::Session, now: Time) -> Self {
        let since = match session.state {
            SessionState::Active { since, .. }
            | SessionState::Suspended { since, .. }
            | SessionState::Expired { since, .. } => since,
            SessionState::ResumePending { discovered_at, .. } => discovered_at,
            SessionState::Idle => session.updated_at,
        };
        Self {
            state: session.state_at(now).to_string(),
            owner: session.owner().map(|held| held.holder.to_string()),
            key: session.key.to_string(),
            session_id: session.session_id.to_string(),
            generation: session.generation.0,
            reason: session.reason.map(|reason| reason.text),
            since,
            updated_at: session.updated_at,
        }
    }
}

/// A turn that is about to run.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct BeginTurn {
    /// The agent's own id of the conversation.
    pub(crate) id: String,
    /// Who runs the turn, such as the gateway's name; whoever asks when none. One owner's new turn takes
    /// the place of its last.
    pub(crate) owner: Option<String>,
    /// How long the mark lasts; `10m` when none.
    pub(crate) lease: Option<String>,
    /// What whoever resumes it needs.
    #[serde(default)]
    pub(crate) set: BTreeMap<String, String>,
}

/// The number of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Turn {
    #[serde(deserialize_with = "number::whole")]
    pub(crate) generation: u64,
}

/// Why something is done.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Because {
    pub(crate) reason: Option<String>,
}
