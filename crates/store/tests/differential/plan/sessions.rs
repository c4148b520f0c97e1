//! The part of the plan that is about sessions.

use relight_core::ids::{SessionId, SessionKey};
use relight_core::lease::HolderLife;
use relight_core::session::{
    Generation, Policy, Rules, Session, SessionChange, SessionDecisionInput, SessionEvent,
    SessionStateKind, decide, recover,
};
use relight_store::SessionQuery;

use super::Plan;
use crate::pair::{Pair, TICK};

const SESSIONS: u64 = 5;

impl Plan {
    /// One operation about sessions.
    pub(super) async fn converse(&mut self, pair: &mut Pair<'_>) {
        match self.dice.below(10) {
            0..6 => self.session_decided(pair).await,
            6 => self.sessions_recovered(pair).await,
            7 => self.session_raw(pair).await,
            _ => self.look_at_sessions(pair).await,
        }
    }

    /// What the table makes of a random event.
    async fn session_decided(&mut self, pair: &mut Pair<'_>) {
        let key = self.session_key();
        let session = pair.session(&key).await;
        let event = self.session_event(session.as_ref());
        let life = if self.dice.chance(50) {
            HolderLife::Alive
        } else {
            HolderLife::Gone
        };
        let scene = SessionDecisionInput {
            key: &key,
            session: session.as_ref(),
            life,
            now: self.now,
        };
        if let Ok(Some(change)) = decide(scene, event) {
            pair.commit_sessions(vec![change], self.now).await;
        }
    }

    /// All that there are, as a gateway does that starts.
    async fn sessions_recovered(&mut self, pair: &mut Pair<'_>) {
        let policy = *self.dice.pick(&Policy::ALL);
        let rules = Rules {
            policy,
            freshness: TICK,
            window: TICK,
        };
        let all = pair.sessions(SessionQuery::default()).await;
        let found = all
            .iter()
            .filter_map(|s| recover(s, HolderLife::Gone, &rules, self.now));
        pair.commit_sessions(found.collect(), self.now).await;
    }

    /// Something that nobody decided, upon a read that may be old.
    async fn session_raw(&mut self, pair: &mut Pair<'_>) {
        let key = self.session_key();
        let found = pair.session(&key).await;
        let mut next = found.unwrap_or_else(|| Session::new(key, conversation(1), self.now));
        next.seq += self.dice.below(2);
        next.deaths_in_a_row = self.dice.below(9) as u32;
        next.context.insert(self.text(), self.text());
        let renews = self.dice.chance(50);
        pair.commit_sessions(
            vec![SessionChange {
                next,
                told: Vec::new(),
                renews,
            }],
            self.now,
        )
        .await;
    }

    async fn look_at_sessions(&mut self, pair: &mut Pair<'_>) {
        let key = self.session_key();
        pair.session(&key).await;
        let after = self.dice.chance(30).then(|| self.session_key());
        let limit = self.dice.maybe(|dice| dice.below(4) as usize);
        let count = self.dice.below(3);
        let states = (0..count)
            .map(|_| *self.dice.pick(&SessionStateKind::ALL))
            .collect();
        let seen = self.dice.chance(30);
        pair.sessions(SessionQuery {
            states,
            seen,
            after,
            limit,
        })
        .await;
    }

    fn session_event(&mut self, session: Option<&Session>) -> SessionEvent {
        let newest = session.map_or(0, |session| session.generation.0);
        let generation = Generation(newest.saturating_sub(self.dice.below(2)));
        let session_id = conversation(self.dice.below(2));
        match self.dice.below(12) {
            0..4 => {
                let (owner, ttl) = self.holder();
                let context = (0..self.dice.below(3))
                    .map(|_| (self.text(), self.text()))
                    .collect();
                SessionEvent::Begin {
                    session_id,
                    owner,
                    ttl,
                    context,
                }
            }
            4..7 => SessionEvent::End { generation },
            7 => {
                let (at, (by, _)) = (self.around_now(), self.holder());
                SessionEvent::Touch { session_id, at, by }
            }
            8 => SessionEvent::Resume,
            9 => SessionEvent::Suspend {
                reason: self.dice.chance(50).then(|| self.text()),
            },
            10 => SessionEvent::Renew { generation },
            _ => {
                let owner = self.dice.chance(50).then(|| self.holder());
                let generation = self.dice.chance(50).then_some(generation.next());
                let started_at = self.around_now();
                SessionEvent::Import {
                    session_id,
                    started_at,
                    generation,
                    owner,
                }
            }
        }
    }

    fn session_key(&mut self) -> SessionKey {
        SessionKey::new(format!("s{}", self.dice.below(SESSIONS))).expect("a valid key")
    }
}

fn conversation(number: u64) -> SessionId {
    SessionId::new(format!("conversation-{number}")).expect("a valid id")
}
