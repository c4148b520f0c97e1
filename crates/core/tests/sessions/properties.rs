//! Properties: a random walk of gateways that begin, end, die and recover.

use std::collections::BTreeMap;

use proptest::prelude::*;
use relight_core::lease::{Holder, HolderLife};
use relight_core::session::{
    Generation, Policy, Rules, Session, SessionDecisionInput, SessionEvent, SessionRefusal,
    SessionStateKind, decide, recover,
};
use relight_core::time::Span;

use crate::given::*;

/// What the world does next.
#[derive(Debug, Clone)]
enum Move {
    /// This gateway begins a turn.
    Begin(u32),
    /// A turn that was begun earlier ends, so many turns back.
    End(u64),
    /// This gateway dies; another has its place from then on.
    Die(u32),
    Recover(Policy),
    Suspend,
    Resume,
    Clear,
    Wait(u64),
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        4 => (0..3_u32).prop_map(Move::Begin),
        4 => (0..3_u64).prop_map(Move::End),
        2 => (0..3_u32).prop_map(Move::Die),
        2 => prop_oneof![Just(Policy::Suspend), Just(Policy::ResumePending)].prop_map(Move::Recover),
        1 => Just(Move::Suspend),
        1 => Just(Move::Resume),
        1 => Just(Move::Clear),
        1 => (1..8_000_u64).prop_map(Move::Wait),
    ];
    prop::collection::vec(one, 1..60)
}

/// Three gateways, the session, and what a bystander would write down.
#[derive(Default)]
struct World {
    session: Option<Session>,
    secs: u64,
    lives: [u32; 3],
    /// Turn in flight, by whom.
    in_flight: Option<(u64, u32, u32)>,
    deaths: u32,
}

impl World {
    fn holder(&self, gateway: u32) -> Holder {
        crate::given::gateway(gateway * 1_000 + self.lives[gateway as usize])
    }

    fn owner_lives(&self) -> bool {
        self.in_flight
            .is_some_and(|(_, gateway, life)| self.lives[gateway as usize] == life)
    }

    fn life(&self) -> HolderLife {
        if self.owner_lives() {
            HolderLife::Alive
        } else {
            HolderLife::Gone
        }
    }

    fn newest(&self) -> u64 {
        self.session
            .as_ref()
            .map_or(0, |session| session.generation.0)
    }

    fn act(&mut self, event: SessionEvent) -> Result<bool, SessionRefusal> {
        let (life, now) = (self.life(), later(self.secs));
        let scene = SessionDecisionInput {
            key: &key(),
            session: self.session.as_ref(),
            life,
            now,
        };
        let change = decide(scene, event)?;
        let changed = change.is_some();
        if let Some(change) = change {
            self.session = Some(change.next);
        }
        Ok(changed)
    }

    fn step(&mut self, next: &Move) {
        match next {
            Move::Begin(gateway) => self.begin(*gateway),
            Move::End(back) => self.end(*back),
            Move::Die(gateway) => self.lives[*gateway as usize] += 1,
            Move::Recover(policy) => self.recover(*policy),
            Move::Suspend => {
                let known = self.session.is_some();
                assert_eq!(
                    self.act(SessionEvent::Suspend { reason: None }).is_ok(),
                    known
                );
                self.in_flight = None;
            }
            Move::Resume => self.resume(),
            Move::Clear => {
                if self.act(SessionEvent::Clear).is_ok() {
                    (self.in_flight, self.deaths) = (None, 0);
                }
            }
            Move::Wait(secs) => self.secs += secs,
        }
        self.check();
    }

    fn begin(&mut self, gateway: u32) {
        let (owner, before) = (self.holder(gateway), self.newest());
        let session_id = id("conversation-1");
        let event = SessionEvent::Begin {
            session_id,
            owner,
            ttl: None,
            context: BTreeMap::new(),
        };
        let owners_life = self.lives[gateway as usize];
        let is_own = self
            .in_flight
            .is_some_and(|(_, g, l)| (g, l) == (gateway, owners_life));
        let is_held = self.owner_lives() && !is_own;
        let was_cut_off = self.in_flight.is_some() && !self.owner_lives();
        match self.act(event) {
            Ok(_) => {
                assert!(!is_held, "a live turn was taken");
                assert_eq!(self.newest(), before + 1);
                self.deaths += u32::from(was_cut_off);
                self.in_flight = Some((before + 1, gateway, owners_life));
            }
            Err(SessionRefusal::Held { .. }) => assert!(is_held),
            Err(SessionRefusal::Suspended { .. }) => assert_eq!(self.in_flight, None),
            Err(other) => panic!("{other}"),
        }
    }

    fn end(&mut self, back: u64) {
        let generation = self.newest().saturating_sub(back);
        let is_in_flight = self.in_flight.is_some_and(|(turn, ..)| turn == generation);
        let ended = self.act(SessionEvent::End {
            generation: Generation(generation),
        });
        assert_eq!(
            ended == Ok(true),
            is_in_flight,
            "an end clears its own turn alone"
        );
        if is_in_flight {
            (self.in_flight, self.deaths) = (None, 0);
        }
    }

    fn recover(&mut self, policy: Policy) {
        let rules = Rules {
            policy,
            freshness: Span::from_secs(3_600),
            window: Span::ZERO,
        };
        let Some(session) = &self.session else { return };
        let is_lost = self.in_flight.is_some() && !self.owner_lives();
        let change = recover(session, self.life(), &rules, later(self.secs));
        let is_found = change.is_some() && session.state.kind() == SessionStateKind::Active;
        assert_eq!(
            is_found, is_lost,
            "exactly what was in flight and lost its owner"
        );
        if let Some(change) = change {
            self.session = Some(change.next);
        }
        if is_lost {
            self.deaths += 1;
            self.in_flight = None;
            let suspended = self.state() == Some(SessionStateKind::Suspended);
            assert_eq!(suspended, policy == Policy::Suspend || self.deaths >= 3);
        }
    }

    fn resume(&mut self) {
        let was_suspended = self.state() == Some(SessionStateKind::Suspended);
        let was_cut_off = self.in_flight.is_some() && !self.owner_lives();
        if self.act(SessionEvent::Resume).is_ok() {
            self.in_flight = None;
            if was_suspended || was_cut_off {
                self.deaths = 0;
            }
        }
    }

    fn state(&self) -> Option<SessionStateKind> {
        self.session.as_ref().map(|session| session.state.kind())
    }

    /// The session says what the bystander wrote down.
    fn check(&self) {
        let Some(session) = &self.session else { return };
        let is_active = session.state.kind() == SessionStateKind::Active;
        assert_eq!(is_active, self.in_flight.is_some());
        assert_eq!(session.deaths_in_a_row, self.deaths);
        assert!(session.finished <= session.generation);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn the_marks_are_what_is_in_flight_whatever_happens(moves in moves()) {
        let mut world = World::default();
        for next in &moves {
            world.step(next);
        }
    }
}
