//! Sessions in memory: the meaning of a commit, and the reads.

use relight_core::ids::SessionKey;
use relight_core::session::{Session, SessionChange, SessionState, SessionStateKind};
use relight_core::time::{Span, Time};

use super::state::State;
use crate::contract::SessionQuery;

/// A session with what a store knows beside it.
#[derive(Debug)]
pub(super) struct KeptSession {
    /// The `left` of its owner is of no meaning here; `read` fills it in.
    session: Session,
    /// When its lease runs out, by the lease clock.
    lease_ends_ms: Option<u64>,
}

impl State {
    pub(super) fn commit_sessions(&mut self, changes: Vec<SessionChange>, at: Time) -> Vec<bool> {
        changes.into_iter().map(|change| self.commit_session(change, at)).collect()
    }

    fn commit_session(&mut self, change: SessionChange, at: Time) -> bool {
        let kept = self.sessions.get(&change.next.key);
        let is_as_read = kept.map_or(0, |kept| kept.session.seq) == change.next.seq;
        if !is_as_read {
            return false;
        }
        let ends_before = kept.and_then(|kept| kept.lease_ends_ms);
        let ttl = change.next.owner().and_then(|held| held.ttl);
        let is_new = kept.is_none();
        let lease_ends_ms = match change.renews || is_new {
            true => ttl.map(|ttl| self.clock_ms.saturating_add(ttl.as_ms())),
            false => ends_before,
        };
        let mut session = change.next;
        session.seq += 1;
        self.sessions.insert(session.key.clone(), KeptSession { session, lease_ends_ms });
        for told in change.told {
            self.tell_of_nothing(told.kind, told.detail, at);
        }
        true
    }

    pub(super) fn session(&self, key: &SessionKey) -> Option<Session> {
        self.sessions.get(key).map(|kept| kept.read(self.clock_ms))
    }

    pub(super) fn forget_sessions(&mut self, sessions: &[(SessionKey, u64)]) -> u64 {
        let before = self.sessions.len();
        for (key, seq) in sessions {
            let goes = |kept: &KeptSession| {
                let is_active = kept.session.state.kind() == SessionStateKind::Active;
                kept.session.seq == *seq && !is_active
            };
            if self.sessions.get(key).is_some_and(goes) {
                self.sessions.remove(key);
            }
        }
        (before - self.sessions.len()) as u64
    }

    pub(super) fn sessions(&self, query: &SessionQuery) -> Vec<Session> {
        let wanted = |kept: &&KeptSession| {
            let session = &kept.session;
            query.after.as_ref().is_none_or(|after| session.key > *after)
                && (query.states.is_empty() || query.states.contains(&session.state.kind()))
                && (!query.seen || session.seen_at.is_some())
        };
        let found = self.sessions.values().filter(wanted).take(query.limit.unwrap_or(usize::MAX));
        found.map(|kept| kept.read(self.clock_ms)).collect()
    }

    pub(super) fn sessions_by_state(&self) -> Vec<(SessionStateKind, u64)> {
        let count = |state| {
            let sessions = self.sessions.values();
            sessions.filter(|kept| kept.session.state.kind() == state).count() as u64
        };
        let all = SessionStateKind::ALL.map(|state| (state, count(state)));
        all.into_iter().filter(|(_, count)| *count > 0).collect()
    }
}

impl KeptSession {
    fn read(&self, clock_ms: u64) -> Session {
        let mut session = self.session.clone();
        if let SessionState::Active { owner: Some(held), .. } = &mut session.state {
            let ends = held.ttl.and(self.lease_ends_ms);
            held.left = ends.map(|ends| Span::from_ms(ends.saturating_sub(clock_ms)));
        }
        session
    }
}
