//! Sessions, owners and moments to decide upon.

use std::collections::BTreeMap;

use relight_core::ids::{SessionId, SessionKey};
use relight_core::lease::{HeldLease, Holder, HolderLife, ProcessIdentity};
use relight_core::session::{
    Generation, Reason, Rules, Session, SessionChange, SessionDecisionInput, SessionEvent,
    SessionRefusal, SessionState, Suspender, decide, recover,
};
use relight_core::time::{Span, Time};

pub(crate) fn noon() -> Time {
    Time::from_ms(1_777_636_800_000)
}

pub(crate) fn later(secs: u64) -> Time {
    noon().plus(Span::from_secs(secs))
}

pub(crate) fn key() -> SessionKey {
    SessionKey::new("telegram:dm:42").expect("a valid key")
}

pub(crate) fn id(text: &str) -> SessionId {
    SessionId::new(text).expect("a valid id")
}

pub(crate) fn gateway(pid: u32) -> Holder {
    let boot = "boot".to_owned();
    Holder::Process(ProcessIdentity {
        pid,
        start: u64::from(pid),
        boot,
        node: None,
    })
}

pub(crate) fn held(holder: Holder) -> HeldLease {
    HeldLease {
        holder,
        ttl: None,
        since: noon(),
        left: None,
    }
}

/// A session after two turns, the second of which is in this state.
pub(crate) fn session(state: SessionState) -> Session {
    Session {
        generation: Generation(2),
        finished: Generation(1),
        state,
        context: [("model".to_owned(), "opus".to_owned())].into(),
        seq: 4,
        ..Session::new(key(), id("conversation-1"), noon())
    }
}

pub(crate) fn idle() -> Session {
    Session {
        finished: Generation(2),
        ..session(SessionState::Idle)
    }
}

/// Gateway 1 runs its second turn.
pub(crate) fn active() -> Session {
    session(SessionState::Active {
        since: noon(),
        owner: Some(held(gateway(1))),
    })
}

pub(crate) fn pending() -> Session {
    let fresh_until = Some(later(3_600));
    session(SessionState::ResumePending {
        discovered_at: noon(),
        fresh_until,
    })
}

pub(crate) fn suspended(by: Suspender) -> Session {
    session(SessionState::Suspended { since: noon(), by })
}

pub(crate) fn expired() -> Session {
    session(SessionState::Expired {
        since: noon(),
        discovered_at: noon(),
    })
}

pub(crate) fn because(session: Session, text: &str) -> Session {
    Session {
        reason: Some(Reason {
            text: text.to_owned(),
            given: true,
        }),
        ..session
    }
}

pub(crate) fn begin(pid: u32) -> SessionEvent {
    SessionEvent::Begin {
        session_id: id("conversation-1"),
        owner: gateway(pid),
        ttl: None,
        context: BTreeMap::new(),
    }
}

pub(crate) fn end(generation: u64) -> SessionEvent {
    SessionEvent::End {
        generation: Generation(generation),
    }
}

pub(crate) fn act(
    session: Option<&Session>,
    life: HolderLife,
    event: SessionEvent,
) -> Result<Option<SessionChange>, SessionRefusal> {
    decide(
        SessionDecisionInput {
            key: &key(),
            session,
            life,
            now: later(60),
        },
        event,
    )
}

/// The session that follows; the same when nothing does.
pub(crate) fn after(session: &Session, life: HolderLife, event: SessionEvent) -> Session {
    let change = act(Some(session), life, event).expect("it is not refused");
    change.map_or_else(|| session.clone(), |change| change.next)
}

/// What recovery makes of it after this long; the same when it leaves it alone.
pub(crate) fn recovered(session: &Session, rules: &Rules, secs: u64) -> Session {
    let change = recover(session, HolderLife::Gone, rules, later(secs));
    change.map_or_else(|| session.clone(), |change| change.next)
}
