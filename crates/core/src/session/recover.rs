//! Recovery of sessions after a crash of their gateway.
//!
//! Counts deaths in a row, not within a time window: three without a finished turn are a loop,
//! however far apart.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use super::decide::moved;
use super::{Reason, Session, SessionChange, SessionState, Suspender};
use crate::lease::HolderLife;
use crate::time::{Span, Time};

/// Number of deaths in a row that suspend a session, regardless of the policy.
pub const DEATHS_MAX: u32 = 3;

/// What happens to a session with an interrupted turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// It waits for somebody.
    #[default]
    Suspend,
    /// The gateway resumes it.
    ResumePending,
}

impl Policy {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Suspend, Self::ResumePending];

    /// The word used everywhere.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Suspend => "suspend",
            Self::ResumePending => "resume_pending",
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Not a policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a policy; write suspend or resume_pending")]
pub struct UnknownPolicy(String);

impl FromStr for Policy {
    type Err = UnknownPolicy;
    fn from_str(text: &str) -> Result<Self, UnknownPolicy> {
        let found = Self::ALL.into_iter().find(|policy| policy.as_str() == text);
        found.ok_or_else(|| UnknownPolicy(text.to_owned()))
    }
}

/// Rules for the recovery of sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// What happens to a session with an interrupted turn.
    pub policy: Policy,
    /// How long it may wait to be resumed after detection; no limit when zero.
    pub freshness: Span,
    /// Maximum age of sessions that were never marked; zero finds none.
    pub window: Span,
}

impl Rules {
    /// These, where the caller says nothing else.
    pub fn with(
        self,
        policy: Option<Policy>,
        freshness: Option<Span>,
        window: Option<Span>,
    ) -> Self {
        Self {
            policy: policy.unwrap_or(self.policy),
            freshness: freshness.unwrap_or(self.freshness),
            window: window.unwrap_or(self.window),
        }
    }
}

impl Default for Rules {
    fn default() -> Self {
        let (freshness, window) = (Span::from_secs(3_600), Span::from_secs(120));
        Self {
            policy: Policy::default(),
            freshness,
            window,
        }
    }
}

/// The recovery of one session; none when there is nothing to do. `life` is the state of its turn's
/// owner.
pub fn recover(
    session: &Session,
    life: HolderLife,
    rules: &Rules,
    now: Time,
) -> Option<SessionChange> {
    match &session.state {
        SessionState::Active { owner, .. } => {
            let is_alive = owner.is_some() && life == HolderLife::Alive;
            (!is_alive).then(|| cut_off(session, rules, now))
        }
        SessionState::ResumePending {
            discovered_at,
            fresh_until,
        } => {
            let is_over = fresh_until.is_some_and(|until| until <= now);
            let discovered_at = *discovered_at;
            let expired = SessionState::Expired {
                since: now,
                discovered_at,
            };
            (is_over && rules.freshness > Span::ZERO).then(|| moved(session.clone(), expired, now))
        }
        SessionState::Idle => {
            let age = now.since(session.seen_at?);
            let is_recent = rules.window > Span::ZERO && age <= rules.window;
            is_recent.then(|| seen_recently(session, age, rules, now))
        }
        SessionState::Suspended { .. } | SessionState::Expired { .. } => None,
    }
}

/// Handles an open turn that lost its owner.
pub(super) fn cut_off(session: &Session, rules: &Rules, now: Time) -> SessionChange {
    let deaths = session.deaths_in_a_row.saturating_add(1);
    let found = match session.owner() {
        Some(held) => format!("its owner, {}, is gone with a turn in flight", held.holder),
        None => "a turn was in flight, says an imported file".to_owned(),
    };
    let session = Session {
        deaths_in_a_row: deaths,
        ..session.clone()
    };
    if deaths < DEATHS_MAX {
        let session = with_reason(session, found);
        return moved(session, by_policy(rules, now), now);
    }
    let session = with_reason(
        session,
        format!("{deaths} owners in a row died in a turn of it"),
    );
    moved(
        session,
        SessionState::Suspended {
            since: now,
            by: Suspender::Limit,
        },
        now,
    )
}

/// Handles a session that was only seen recently. A turn may have been open; no death is counted.
fn seen_recently(session: &Session, age: Span, rules: &Rules, now: Time) -> SessionChange {
    let found = format!("it was active {age} before, and its turns are not marked");
    let session = with_reason(
        Session {
            seen_at: None,
            seen_by: None,
            ..session.clone()
        },
        found,
    );
    moved(session, by_policy(rules, now), now)
}

fn by_policy(rules: &Rules, now: Time) -> SessionState {
    match rules.policy {
        Policy::Suspend => SessionState::Suspended {
            since: now,
            by: Suspender::Policy,
        },
        Policy::ResumePending => {
            let is_limited = rules.freshness > Span::ZERO;
            let fresh_until = is_limited.then(|| now.plus(rules.freshness));
            SessionState::ResumePending {
                discovered_at: now,
                fresh_until,
            }
        }
    }
}

/// A given reason takes precedence over a found one.
fn with_reason(mut session: Session, found: String) -> Session {
    let keeps = session.reason.as_ref().is_some_and(|reason| reason.given);
    if !keeps {
        session.reason = Some(Reason {
            text: found,
            given: false,
        });
    }
    session
}
