//! Decides how a session changes by an event. Pure.
//!
//! Reading the session, checking its owner and committing are done elsewhere.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::recover::cut_off;
use super::{Generation, Reason, Rules, Session, SessionState, SessionStateKind, Suspender};
use crate::event::EventKind;
use crate::ids::{IdError, OwnerName, SessionId, SessionKey};
use crate::lease::{HeldLease, Holder, HolderLife};
use crate::limits::{self, TooLarge};
use crate::time::{Span, Time};

/// A request for a session.
#[derive(Debug, Clone, PartialEq)]
pub enum SessionEvent {
    /// A turn begins.
    Begin {
        /// The agent's own id of the conversation.
        session_id: SessionId,
        /// The owner of the turn.
        owner: Holder,
        /// How long the mark is valid after each renewal; as long as the owner lives when none.
        ttl: Option<Span>,
        /// Context for resuming it.
        context: BTreeMap<String, String>,
    },
    /// A turn ended.
    End {
        /// Which.
        generation: Generation,
    },
    /// The turn still runs.
    Renew {
        /// Which.
        generation: Generation,
    },
    /// The owner discards the turn; it counts neither as finished nor as interrupted.
    Discard {
        /// Which.
        generation: Generation,
    },
    /// Activity in a session whose turns are not marked.
    Touch {
        /// The agent's own id of the conversation.
        session_id: SessionId,
        /// When it happened.
        at: Time,
        /// The gateway that saw it.
        by: Holder,
    },
    /// A session without marks ended cleanly.
    Settle,
    /// It may continue.
    Resume,
    /// It must not continue before it is resumed.
    Suspend {
        /// Why.
        reason: Option<String>,
    },
    /// Clears a pending turn.
    Clear,
    /// A mark in a file of another gateway.
    Import {
        /// The agent's own id of the conversation.
        session_id: SessionId,
        /// When the turn was begun.
        started_at: Time,
        /// Its number there.
        generation: Option<Generation>,
        /// Its owner, if known.
        owner: Option<(Holder, Option<Span>)>,
    },
}

/// Inputs of a decision.
#[derive(Debug, Clone, Copy)]
pub struct SessionDecisionInput<'a> {
    /// The session's key.
    pub key: &'a SessionKey,
    /// The session; none when it was never seen.
    pub session: Option<&'a Session>,
    /// Whether the owner of its turn lives; gone if there is none.
    pub life: HolderLife,
    /// The current time.
    pub now: Time,
}

/// A change to commit if the session is unchanged since it was read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionChange {
    /// The new session; the store sets its `seq`.
    pub next: Session,
    /// Events to write, in this order.
    pub told: Vec<SessionTold>,
    /// Whether the mark's time restarts.
    pub renews: bool,
}

/// An event to write.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionTold {
    /// What happened.
    pub kind: EventKind,
    /// Details, including the session.
    pub detail: Value,
}

/// Why an event is refused. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionRefusal {
    /// A text over its limit.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// The owner's name is invalid.
    #[error(transparent)]
    BadOwner(#[from] IdError),
    /// It is unknown.
    #[error("there is no session {0}")]
    Unknown(SessionKey),
    /// A live owner has an open turn.
    #[error("session {key} has a turn in flight, owned by {} since {}", .held.holder, .held.since)]
    Held {
        /// Which session.
        key: SessionKey,
        /// Its owner.
        held: Box<HeldLease>,
    },
    /// The turn is not the newest, or was taken from its owner.
    #[error("session {key} is fenced: {}", why_fenced(*.ours, *.newest, *.state))]
    Fenced {
        /// Which session.
        key: SessionKey,
        /// The caller's turn.
        ours: Generation,
        /// The newest turn.
        newest: Generation,
        /// The session's state.
        state: SessionStateKind,
    },
    /// It is suspended by a person.
    #[error("session {key} was suspended{}", .reason.as_deref().map(|r| format!(": {r}")).unwrap_or_default())]
    Suspended {
        /// Which session.
        key: SessionKey,
        /// Why.
        reason: Option<String>,
    },
    /// No turn was interrupted.
    #[error("session {key} is {state} and has nothing to resume")]
    NothingToResume {
        /// Which session.
        key: SessionKey,
        /// Its state.
        state: SessionStateKind,
    },
    /// The store is newer than the file.
    #[error("session {key} is at generation {ours}, the file has {theirs}")]
    Older {
        /// Which session.
        key: SessionKey,
        /// The store's.
        ours: Generation,
        /// The file's.
        theirs: Generation,
    },
}

fn why_fenced(ours: Generation, newest: Generation, state: SessionStateKind) -> String {
    if ours == newest {
        return format!("its turn {ours} was taken away, and it is {state} now");
    }
    format!("turn {ours} is not the newest, which is {newest}")
}

/// Decides about an event; none when nothing changes.
pub fn decide(
    input: SessionDecisionInput<'_>,
    event: SessionEvent,
) -> Result<Option<SessionChange>, SessionRefusal> {
    check_limits(&event)?;
    check_owner(&event)?;
    match event {
        SessionEvent::Begin {
            session_id,
            owner,
            ttl,
            context,
        } => begin(input, session_id, owner, ttl, context).map(Some),
        SessionEvent::Import {
            session_id,
            started_at,
            generation,
            owner,
        } => import(input, session_id, started_at, generation, owner),
        SessionEvent::Touch { session_id, at, by } => Ok(Some(touch(input, session_id, at, by))),
        SessionEvent::End { generation } => end(input, known(input)?, generation),
        SessionEvent::Renew { generation } => {
            let mut next = turn(known(input)?, generation)?.clone();
            if let SessionState::Active {
                owner: Some(held), ..
            } = &mut next.state
            {
                held.left = held.ttl;
            }
            Ok(Some(SessionChange {
                next,
                told: Vec::new(),
                renews: true,
            }))
        }
        SessionEvent::Discard { generation } => {
            let session = turn(known(input)?, generation)?;
            let mut change = ended(input, session, json!({"discarded": true}));
            change.next.finished = session.finished;
            Ok(Some(change))
        }
        SessionEvent::Settle => Ok(settle(input, known(input)?)),
        SessionEvent::Resume => resume(input, known(input)?).map(Some),
        SessionEvent::Suspend { reason } => Ok(Some(suspend(input, known(input)?, reason))),
        SessionEvent::Clear => Ok(Some(clear(input, known(input)?))),
    }
}

/// An owner without a process is identified by its name, so the name is checked.
fn check_owner(event: &SessionEvent) -> Result<(), IdError> {
    let owner = match event {
        SessionEvent::Begin { owner, .. } | SessionEvent::Touch { by: owner, .. } => Some(owner),
        SessionEvent::Import { owner, .. } => owner.as_ref().map(|(owner, _)| owner),
        _ => None,
    };
    match owner {
        Some(Holder::Time { by }) => OwnerName::new(by.as_str()).map(drop),
        _ => Ok(()),
    }
}

/// Whether two holders are the same gateway. Callers without a process or attempt of their own
/// cannot be told apart if they have the same user.
pub fn is_same_owner(a: &Holder, b: &Holder) -> bool {
    match (a, b) {
        (Holder::Time { by: a }, Holder::Time { by: b }) => a == b,
        (Holder::Time { .. }, _) | (_, Holder::Time { .. }) => false,
        // A process is the same gateway whether or not the attempt that it belongs to is named.
        (a, b) => match (a.process(), b.process()) {
            (None, None) => a.attempt() == b.attempt(),
            (a, b) => a == b,
        },
    }
}

fn known(input: SessionDecisionInput<'_>) -> Result<&Session, SessionRefusal> {
    input
        .session
        .ok_or_else(|| SessionRefusal::Unknown(input.key.clone()))
}

/// The session, if this turn is open.
fn turn(session: &Session, generation: Generation) -> Result<&Session, SessionRefusal> {
    let is_active = session.state.kind() == SessionStateKind::Active;
    if is_active && session.generation == generation {
        Ok(session)
    } else {
        Err(fenced(session, generation))
    }
}

fn fenced(session: &Session, ours: Generation) -> SessionRefusal {
    let (key, newest, state) = (
        session.key.clone(),
        session.generation,
        session.state.kind(),
    );
    SessionRefusal::Fenced {
        key,
        ours,
        newest,
        state,
    }
}

fn begin(
    input: SessionDecisionInput<'_>,
    session_id: SessionId,
    owner: Holder,
    ttl: Option<Span>,
    context: BTreeMap<String, String>,
) -> Result<SessionChange, SessionRefusal> {
    let mut told = Vec::new();
    let (mut next, from) = match input.session {
        None => (
            Session::new(input.key.clone(), session_id.clone(), input.now),
            None,
        ),
        Some(session) => {
            let next = free(input, session, Some(&owner), &mut told)?;
            (next, Some(session.state_at(input.now)))
        }
    };
    if let SessionState::Suspended {
        by: Suspender::Person,
        ..
    } = next.state
    {
        let reason = next.reason.map(|reason| reason.text);
        return Err(SessionRefusal::Suspended {
            key: next.key,
            reason,
        });
    }
    next.session_id = session_id;
    next.context.extend(context);
    next.generation = next.generation.next();
    (next.seen_at, next.seen_by) = (None, None);
    next.updated_at = input.now;
    let held = HeldLease {
        holder: owner,
        ttl,
        since: input.now,
        left: ttl,
    };
    told.push(begun(&next, from, &held.holder));
    next.state = SessionState::Active {
        since: input.now,
        owner: Some(held),
    };
    next.idle_since = None;
    Ok(SessionChange {
        next,
        told,
        renews: true,
    })
}

fn begun(next: &Session, from: Option<SessionStateKind>, owner: &Holder) -> SessionTold {
    let detail = json!({
        "session": next.key, "generation": next.generation, "from": from,
        "owner": owner.to_string(),
    });
    SessionTold {
        kind: EventKind::SessionBegun,
        detail,
    }
}

/// The session without an open turn; a turn whose owner died is interrupted first.
fn free(
    input: SessionDecisionInput<'_>,
    session: &Session,
    for_owner: Option<&Holder>,
    told: &mut Vec<SessionTold>,
) -> Result<Session, SessionRefusal> {
    if session.state.kind() != SessionStateKind::Active {
        return Ok(session.clone());
    }
    let is_own = |held: &HeldLease| for_owner.is_some_and(|own| is_same_owner(&held.holder, own));
    match session.owner() {
        // A newer turn of the same gateway replaces the older one.
        Some(held) if is_own(held) => Ok(session.clone()),
        Some(held) if input.life == HolderLife::Alive => Err(SessionRefusal::Held {
            key: session.key.clone(),
            held: Box::new(held.clone()),
        }),
        Some(_) | None => {
            let change = cut_off(session, &Rules::default(), input.now);
            told.extend(change.told);
            Ok(change.next)
        }
    }
}

fn end(
    input: SessionDecisionInput<'_>,
    session: &Session,
    generation: Generation,
) -> Result<Option<SessionChange>, SessionRefusal> {
    let ended_before = session.finished == generation && session.generation == generation;
    if ended_before {
        return Ok(None);
    }
    let mut change = ended(input, turn(session, generation)?, json!({}));
    change.next.deaths_in_a_row = 0;
    change.next.reason = None;
    Ok(Some(change))
}

fn ended(input: SessionDecisionInput<'_>, session: &Session, mut detail: Value) -> SessionChange {
    detail["session"] = json!(session.key);
    detail["generation"] = json!(session.generation);
    let next = Session {
        state: SessionState::Idle,
        idle_since: Some(input.now),
        finished: session.generation,
        updated_at: input.now,
        ..session.clone()
    };
    let told = vec![SessionTold {
        kind: EventKind::SessionEnded,
        detail,
    }];
    SessionChange {
        next,
        told,
        renews: false,
    }
}

fn touch(
    input: SessionDecisionInput<'_>,
    session_id: SessionId,
    at: Time,
    by: Holder,
) -> SessionChange {
    let new = || Session::new(input.key.clone(), session_id.clone(), input.now);
    let mut next = input.session.cloned().unwrap_or_else(new);
    // Marks are more reliable than times.
    if next.generation == Generation::default() && next.state == SessionState::Idle {
        (next.seen_at, next.seen_by) = (Some(at), Some(by));
        next.session_id = session_id;
    }
    next.updated_at = input.now;
    SessionChange {
        next,
        told: Vec::new(),
        renews: false,
    }
}

fn settle(input: SessionDecisionInput<'_>, session: &Session) -> Option<SessionChange> {
    session.seen_at?;
    let next = Session {
        seen_at: None,
        seen_by: None,
        updated_at: input.now,
        ..session.clone()
    };
    Some(SessionChange {
        next,
        told: Vec::new(),
        renews: false,
    })
}

fn resume(
    input: SessionDecisionInput<'_>,
    session: &Session,
) -> Result<SessionChange, SessionRefusal> {
    let mut told = Vec::new();
    let mut next = free(input, session, None, &mut told)?;
    match next.state {
        SessionState::Idle => {
            let (key, state) = (next.key, SessionStateKind::Idle);
            return Err(SessionRefusal::NothingToResume { key, state });
        }
        // A person has looked at it: the death count is reset.
        SessionState::Suspended { .. } => next.deaths_in_a_row = 0,
        SessionState::Active { .. }
        | SessionState::ResumePending { .. }
        | SessionState::Expired { .. } => {}
    }
    // What cut off a turn is told to the next one.
    if !next.is_cut_off() {
        next.reason = None;
    }
    let mut change = moved(next, SessionState::Idle, input.now);
    told.append(&mut change.told);
    Ok(SessionChange { told, ..change })
}

fn suspend(
    input: SessionDecisionInput<'_>,
    session: &Session,
    reason: Option<String>,
) -> SessionChange {
    let given = reason.map(|text| Reason { text, given: true });
    let taken = (session.state.kind() == SessionStateKind::Active).then(|| Reason {
        text: format!("a person suspended it in turn {}", session.generation),
        given: false,
    });
    let reason = given.or_else(|| session.reason.clone()).or(taken);
    let session = Session {
        reason,
        seen_at: None,
        seen_by: None,
        ..session.clone()
    };
    let since = match session.state {
        SessionState::Suspended { since, .. } => since,
        _ => input.now,
    };
    let state = SessionState::Suspended {
        since,
        by: Suspender::Person,
    };
    moved(session, state, input.now)
}

fn clear(input: SessionDecisionInput<'_>, session: &Session) -> SessionChange {
    let mut change = moved(session.clone(), SessionState::Idle, input.now);
    let next = &mut change.next;
    (next.deaths_in_a_row, next.reason) = (0, None);
    (next.seen_at, next.seen_by) = (None, None);
    next.context.clear();
    change
}

/// Moves to another state, with an event.
pub(super) fn moved(session: Session, to: SessionState, now: Time) -> SessionChange {
    let detail = json!({
        "session": session.key, "from": session.state.kind(), "to": to.kind(),
        "reason": session.reason.as_ref().map(|reason| &reason.text),
        "generation": session.generation, "deaths_in_a_row": session.deaths_in_a_row,
    });
    let idle_since = match (&session.state, &to) {
        (SessionState::Idle, SessionState::Idle) => session.idle_since,
        (_, SessionState::Idle) => Some(now),
        _ => None,
    };
    let next = Session {
        state: to,
        idle_since,
        updated_at: now,
        ..session
    };
    let told = vec![SessionTold {
        kind: EventKind::SessionState,
        detail,
    }];
    SessionChange {
        next,
        told,
        renews: false,
    }
}

fn import(
    input: SessionDecisionInput<'_>,
    session_id: SessionId,
    started_at: Time,
    generation: Option<Generation>,
    owner: Option<(Holder, Option<Span>)>,
) -> Result<Option<SessionChange>, SessionRefusal> {
    let mut told = Vec::new();
    let mut next = match input.session {
        None => Session::new(input.key.clone(), session_id.clone(), input.now),
        Some(session) => {
            let theirs = generation.unwrap_or_else(|| session.generation.next());
            let is_same_turn = session.generation == theirs && session.session_id == session_id;
            if is_same_turn && session.state.kind() == SessionStateKind::Active {
                return Ok(None);
            }
            if theirs <= session.generation {
                let (key, ours) = (session.key.clone(), session.generation);
                return Err(SessionRefusal::Older { key, ours, theirs });
            }
            free(
                input,
                session,
                owner.as_ref().map(|(holder, _)| holder),
                &mut told,
            )?
        }
    };
    next.session_id = session_id;
    next.generation = generation.unwrap_or_else(|| next.generation.next());
    (next.seen_at, next.seen_by) = (None, None);
    next.updated_at = input.now;
    let held = owner.map(|(holder, ttl)| HeldLease {
        holder,
        ttl,
        since: started_at,
        left: ttl,
    });
    let detail = json!({
        "session": next.key, "generation": next.generation, "imported": true,
        "owner": held.as_ref().map(|held| held.holder.to_string()),
    });
    told.push(SessionTold {
        kind: EventKind::SessionBegun,
        detail,
    });
    next.state = SessionState::Active {
        since: started_at,
        owner: held,
    };
    next.idle_since = None;
    Ok(Some(SessionChange {
        next,
        told,
        renews: true,
    }))
}

/// Checks the size of all free texts of an event.
fn check_limits(event: &SessionEvent) -> Result<(), TooLarge> {
    match event {
        SessionEvent::Begin { context, .. } => limits::check_context(context, None),
        SessionEvent::Suspend { reason } => limits::REASON.check_option(reason.as_deref()),
        _ => Ok(()),
    }
}
