//! A session.

use std::collections::BTreeMap;

use relight_core::session;
use relight_core::session::{SessionState, Suspender};
use relight_core::time::Time;
use serde::{Deserialize, Serialize};

use super::holder::HeldBy;
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
    /// Number of the newest turn that ended regularly.
    pub(crate) finished: u64,
    /// The owner of the turn in flight.
    pub(crate) owner: Option<HeldBy>,
    pub(crate) reason: Option<String>,
    /// Owners that died in a turn since the last finished turn.
    pub(crate) deaths_in_a_row: u32,
    /// Context for resuming it.
    pub(crate) context: BTreeMap<String, String>,
    /// Start of the current state.
    #[cfg_attr(test, schema(value_type = String))]
    pub(crate) since: Time,
    /// When its turn was found to be cut off.
    #[cfg_attr(test, schema(value_type = Option<String>))]
    pub(crate) discovered_at: Option<Time>,
    /// After this time it expires; null for no limit.
    #[cfg_attr(test, schema(value_type = Option<String>))]
    pub(crate) fresh_until: Option<Time>,
    /// What suspended it: `person`, `policy` or `limit`.
    #[cfg_attr(test, schema(value_type = Option<String>))]
    pub(crate) suspended_by: Option<Suspender>,
    /// Last activity, if none of its turns was ever marked.
    #[cfg_attr(test, schema(value_type = Option<String>))]
    pub(crate) seen_at: Option<Time>,
    /// Number of its commits.
    pub(crate) seq: u64,
    #[cfg_attr(test, schema(value_type = String))]
    pub(crate) created_at: Time,
    #[cfg_attr(test, schema(value_type = String))]
    pub(crate) updated_at: Time,
}

impl Session {
    /// As it stands at this moment. To be asked after `holders::look_for`.
    pub(crate) fn at(session: session::Session, now: Time) -> Self {
        let (mut discovered, mut fresh, mut suspender) = (None, None, None);
        let since = match &session.state {
            SessionState::Active { since, .. } => *since,
            SessionState::Suspended { since, by } => {
                suspender = Some(*by);
                *since
            }
            SessionState::Expired { since, discovered_at } => {
                discovered = Some(*discovered_at);
                *since
            }
            SessionState::ResumePending { discovered_at, fresh_until } => {
                (discovered, fresh) = (Some(*discovered_at), *fresh_until);
                *discovered_at
            }
            SessionState::Idle => session.updated_at,
        };
        Self {
            state: session.state_at(now).to_string(),
            owner: session.owner().map(HeldBy::from),
            key: session.key.to_string(),
            session_id: session.session_id.to_string(),
            generation: session.generation.0,
            finished: session.finished.0,
            reason: session.reason.map(|reason| reason.text),
            deaths_in_a_row: session.deaths_in_a_row,
            context: session.context,
            since,
            discovered_at: discovered,
            fresh_until: fresh,
            suspended_by: suspender,
            seen_at: session.seen_at,
            seq: session.seq,
            created_at: session.created_at,
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
    /// The owner of the turn, such as the gateway's name. Default: the caller. A new turn of the same
    /// owner replaces its last one.
    pub(crate) owner: Option<String>,
    /// How long the mark lasts. Default: `10m`.
    pub(crate) lease: Option<String>,
    /// Context for resuming it.
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

/// The reason for the request.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Because {
    pub(crate) reason: Option<String>,
}
