//! A session.

use std::collections::BTreeMap;

use relight_core::session;
use relight_core::session::{Generation, SessionState, Suspender};
use relight_core::time::Time;
use relight_runtime::operations::fields;
use relight_runtime::operations::view::HeldBy;
use relight_runtime::sessions::{Acted, Decided};
use serde::{Deserialize, Serialize};

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
        let since = session.since();
        match &session.state {
            SessionState::Suspended { by, .. } => suspender = Some(*by),
            SessionState::Expired { discovered_at, .. } => discovered = Some(*discovered_at),
            SessionState::ResumePending { discovered_at, fresh_until } => {
                (discovered, fresh) = (Some(*discovered_at), *fresh_until);
            }
            SessionState::Active { .. } | SessionState::Idle => {}
        }
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

/// A session after it was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct ChangedSession {
    #[serde(flatten)]
    pub(crate) session: Session,
    /// What it was before.
    pub(crate) previous_state: Option<String>,
}

impl From<&Acted> for ChangedSession {
    fn from(acted: &Acted) -> Self {
        let session = Session::at(acted.after.clone(), acted.after.updated_at);
        Self { session, previous_state: acted.previous_state().map(|state| state.to_string()) }
    }
}

/// A turn that was begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct BegunTurn {
    pub(crate) key: String,
    /// The turn's number: its end names it.
    pub(crate) generation: u64,
    pub(crate) session_id: String,
    /// The turn before did not end.
    pub(crate) resumed: bool,
    /// What the session was before; none when it is new.
    pub(crate) previous_state: Option<String>,
    pub(crate) reason: Option<String>,
    /// How many owners died in a turn of it since one was finished.
    pub(crate) deaths_in_a_row: u32,
    /// What whoever resumes it needs.
    pub(crate) context: BTreeMap<String, String>,
}

impl From<&Acted> for BegunTurn {
    fn from(acted: &Acted) -> Self {
        let session = &acted.after;
        Self {
            key: session.key.to_string(),
            generation: session.generation.0,
            session_id: session.session_id.to_string(),
            resumed: acted.was_cut_off(),
            previous_state: acted.previous_state().map(|state| state.to_string()),
            reason: session.reason.as_ref().map(|reason| reason.text.clone()),
            deaths_in_a_row: session.deaths_in_a_row,
            context: session.context.clone(),
        }
    }
}

/// A turn that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct EndedTurn {
    pub(crate) key: String,
    pub(crate) generation: u64,
    pub(crate) state: String,
    /// It had ended before.
    pub(crate) ended_before: bool,
}

impl EndedTurn {
    pub(crate) fn new(acted: &Acted, generation: Generation) -> Self {
        Self {
            key: acted.after.key.to_string(),
            generation: generation.0,
            state: acted.after.state.kind().to_string(),
            ended_before: !acted.changed,
        }
    }
}

/// A session about which recovery decided something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct DecidedSession {
    pub(crate) key: String,
    pub(crate) session_id: String,
    /// Number of its newest turn.
    pub(crate) generation: u64,
    /// The state it was in.
    pub(crate) from: String,
    /// The state it is in now.
    pub(crate) state: String,
    pub(crate) reason: Option<String>,
    /// How many owners died in a turn of it since one was finished.
    pub(crate) deaths_in_a_row: u32,
    /// What whoever resumes it needs.
    pub(crate) context: BTreeMap<String, String>,
}

impl From<Decided> for DecidedSession {
    fn from(decided: Decided) -> Self {
        Self {
            key: decided.key.to_string(),
            session_id: decided.session_id.to_string(),
            generation: decided.generation.0,
            from: decided.from.to_string(),
            state: decided.state.to_string(),
            reason: decided.reason,
            deaths_in_a_row: decided.deaths_in_a_row,
            context: decided.context,
        }
    }
}

/// What recovery decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct RecoveredSessions {
    pub(crate) dry_run: bool,
    /// `suspend` or `resume_pending`.
    pub(crate) policy: String,
    pub(crate) items: Vec<DecidedSession>,
    /// Always null: the answer has all of them.
    pub(crate) next: Option<String>,
}

/// The marks that a clean shutdown discarded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct Discarded {
    /// Keys of sessions.
    pub(crate) discarded: Vec<String>,
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
    /// The process that runs the turn: the mark lasts for as long as it lives. Over the socket only.
    pub(crate) owner_pid: Option<u32>,
    /// How long the mark lasts. Default: `10m`. Not with `owner_pid`.
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
    #[serde(deserialize_with = "fields::number")]
    pub(crate) generation: u64,
}

/// Activity in a session whose turns are not marked.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct TouchSession {
    /// The agent's own id of the conversation.
    pub(crate) id: String,
}

/// The reason for the request.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Because {
    pub(crate) reason: Option<String>,
}

/// Whose marks a clean shutdown discards.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct ShutdownOwner {
    /// As it was given when the turns began; whoever asks when none.
    pub(crate) owner: Option<String>,
    /// A process of this machine, also when it is gone already. Over the socket only.
    pub(crate) owner_pid: Option<u32>,
}

/// How sessions are recovered; what the configuration says where a field is left out.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct RecoverSessions {
    /// `suspend` or `resume_pending`.
    pub(crate) policy: Option<String>,
    /// How recently a session that was never marked must have been active; `0s` finds none.
    pub(crate) window: Option<String>,
    /// How long a `resume_pending` one may wait to be taken up; `0s` for ever.
    pub(crate) freshness: Option<String>,
    /// Only say what would be decided.
    #[serde(default)]
    pub(crate) dry_run: bool,
}
