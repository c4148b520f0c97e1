//! A session's state as columns: the same in every backend that speaks SQL.

use relight_core::session::SessionState;
use relight_core::time::Time;

use crate::bodies::to_json;

/// The columns of a state, beside its number.
#[derive(Default)]
pub(crate) struct StateColumns {
    pub(crate) since: Option<i64>,
    pub(crate) also_at: Option<i64>,
    pub(crate) suspended_by: Option<u8>,
    pub(crate) owner: Option<String>,
    pub(crate) ttl: Option<i64>,
}

impl StateColumns {
    pub(crate) fn of(state: &SessionState) -> Self {
        let at = |time: Time| Some(time.as_ms());
        match state {
            SessionState::Idle => Self::default(),
            SessionState::Active { since, owner } => Self {
                since: at(*since),
                owner: owner.as_ref().map(|held| to_json(&held.holder)),
                ttl: owner.as_ref().and_then(|held| held.ttl).map(|ttl| ttl.as_ms().cast_signed()),
                ..Self::default()
            },
            SessionState::ResumePending { discovered_at, fresh_until } => Self {
                since: at(*discovered_at),
                also_at: fresh_until.and_then(at),
                ..Self::default()
            },
            SessionState::Suspended { since, by } => {
                Self { since: at(*since), suspended_by: Some(by.code()), ..Self::default() }
            }
            SessionState::Expired { since, discovered_at } => {
                Self { since: at(*since), also_at: at(*discovered_at), ..Self::default() }
            }
        }
    }
}
