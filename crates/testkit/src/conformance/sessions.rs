//! Sessions: a change is made if its session is still the one it was decided upon.

use std::collections::BTreeMap;

use relight_core::event::EventKind;
use relight_core::ids::{SessionId, SessionKey};
use relight_core::lease::{HeldLease, Holder, HolderLife};
use relight_core::session::{
    Generation, Reason, Rules, Session, SessionChange, SessionDecisionInput, SessionEvent,
    SessionState, SessionStateKind, Suspender, decide, recover,
};
use relight_core::time::{Span, Time};

use super::Harness;
use super::given::{CLOCK_NOISE_MS_MAX, all_events, events, later, noon};
use super::given_agents::process;
use relight_store::{EventQuery, SessionQuery, Store};

const ODD: &str = "größer\n'; DROP TABLE session; --\t\u{1b}[31m🏴 \u{202e}rtl \u{10ffff}";

fn key(text: &str) -> SessionKey {
    SessionKey::new(text).expect("a valid key")
}

fn new(text: &str) -> Session {
    Session::new(
        key(text),
        SessionId::new("conversation").expect("a valid id"),
        noon(),
    )
}

/// A change that nothing tells of.
fn to(next: Session) -> SessionChange {
    SessionChange {
        next,
        told: Vec::new(),
        renews: false,
    }
}

fn held(holder: Holder, ttl: Option<Span>) -> HeldLease {
    HeldLease {
        holder,
        ttl,
        since: noon(),
        left: ttl,
    }
}

fn active(text: &str, owner: Option<HeldLease>) -> Session {
    let state = SessionState::Active {
        since: noon(),
        owner,
    };
    Session {
        generation: Generation(1),
        state,
        idle_since: None,
        ..new(text)
    }
}

fn touch(at: Time) -> SessionEvent {
    let session_id = SessionId::new("a").expect("a valid id");
    SessionEvent::Touch {
        session_id,
        at,
        by: Holder::Process(process(7)),
    }
}

fn begin(ttl: Option<Span>) -> SessionEvent {
    let owner = match ttl {
        Some(_) => Holder::Time {
            by: "somebody".to_owned(),
        },
        None => Holder::Process(process(7)),
    };
    let session_id = SessionId::new("conversation").expect("a valid id");
    SessionEvent::Begin {
        session_id,
        owner,
        ttl,
        context: BTreeMap::new(),
    }
}

async fn put(store: &dyn Store, changes: Vec<SessionChange>) -> Vec<bool> {
    store
        .commit_sessions(changes, noon())
        .await
        .expect("a store that can be written")
}

async fn done(store: &dyn Store, change: SessionChange) {
    assert_eq!(
        put(store, vec![change]).await,
        [true],
        "a change that must be made"
    );
}

/// Decides upon what the store has, and commits it.
async fn act(store: &dyn Store, text: &str, event: SessionEvent) -> Session {
    let session = find(store, text).await;
    let (key, session, life) = (&key(text), session.as_ref(), HolderLife::Alive);
    let change = decide(
        SessionDecisionInput {
            key,
            session,
            life,
            now: noon(),
        },
        event,
    );
    done(
        store,
        change
            .expect("it is allowed")
            .expect("it changes something"),
    )
    .await;
    read(store, text).await
}

/// Without the noise of a clock that goes on by itself.
async fn find(store: &dyn Store, text: &str) -> Option<Session> {
    let mut session = store
        .session(&key(text))
        .await
        .expect("a store that can be read")?;
    if let SessionState::Active {
        owner: Some(HeldLease {
            left: Some(left), ..
        }),
        ..
    } = &mut session.state
    {
        let whole = left.as_ms().div_ceil(CLOCK_NOISE_MS_MAX) * CLOCK_NOISE_MS_MAX;
        *left = Span::from_ms(whole);
    }
    Some(session)
}

async fn read(store: &dyn Store, text: &str) -> Session {
    find(store, text).await.expect("the session is there")
}

async fn left(store: &dyn Store, text: &str) -> Option<Span> {
    read(store, text)
        .await
        .owner()
        .expect("a turn is in flight")
        .left
}

async fn keys(store: &dyn Store, query: SessionQuery) -> Vec<String> {
    let found = store
        .sessions(query)
        .await
        .expect("a store that can be read");
    found
        .iter()
        .map(|session| session.key.to_string())
        .collect()
}

/// As another process would see it.
pub async fn a_session_is_seen_by_every_handle(harness: &dyn Harness) {
    let (store, other) = (harness.open().await, harness.open().await);
    let begun = act(&*store, "a", begin(None)).await;
    assert_eq!((begun.seq, begun.generation), (1, Generation(1)));
    assert_eq!(read(&*other, "a").await, begun);
    let ended = act(
        &*other,
        "a",
        SessionEvent::End {
            generation: Generation(1),
        },
    )
    .await;
    assert_eq!((ended.seq, ended.finished), (2, Generation(1)));
    assert_eq!(read(&*store, "a").await, ended);
}

/// Every field, also at its far end.
pub async fn every_state_of_a_session_comes_back_whole(harness: &dyn Harness) {
    let (store, other) = (harness.open().await, harness.open().await);
    let shim = process(9);
    let attempt = Holder::Attempt {
        process: None,
        attempt: ODD.to_owned(),
        shim,
    };
    let far = Time::from_ms(i64::MAX);
    let states = [
        SessionState::Idle,
        SessionState::Active {
            since: noon(),
            owner: None,
        },
        SessionState::Active {
            since: noon(),
            owner: Some(held(attempt, None)),
        },
        SessionState::ResumePending {
            discovered_at: far,
            fresh_until: None,
        },
        SessionState::ResumePending {
            discovered_at: noon(),
            fresh_until: Some(far),
        },
        SessionState::Suspended {
            since: noon(),
            by: Suspender::Person,
        },
        SessionState::Suspended {
            since: noon(),
            by: Suspender::Policy,
        },
        SessionState::Suspended {
            since: noon(),
            by: Suspender::Limit,
        },
        SessionState::Expired {
            since: far,
            discovered_at: noon(),
        },
    ];
    for (number, state) in states.into_iter().enumerate() {
        let session = Session {
            generation: Generation(i64::MAX as u64),
            finished: Generation(3),
            state,
            reason: Some(Reason {
                text: ODD.to_owned(),
                given: number % 2 == 0,
            }),
            deaths_in_a_row: u32::MAX,
            context: [
                (ODD.to_owned(), String::new()),
                ("k".to_owned(), ODD.to_owned()),
            ]
            .into(),
            seen_at: (number == 0).then_some(far),
            idle_since: (number == 0).then_some(far),
            updated_at: later(5),
            ..new(&format!("s{number}"))
        };
        done(&*store, to(session.clone())).await;
        let first = Session {
            seq: 1,
            ..session.clone()
        };
        assert_eq!(read(&*other, &format!("s{number}")).await, first);
        let again = Session {
            reason: None,
            context: BTreeMap::new(),
            ..first
        };
        done(&*other, to(again.clone())).await;
        assert_eq!(
            read(&*store, &format!("s{number}")).await,
            Session { seq: 2, ..again }
        );
    }
}

/// Whatever it is to be then.
pub async fn a_session_is_created_once(harness: &dyn Harness) {
    let store = harness.open().await;
    done(&*store, to(new("a"))).await;
    assert_eq!(put(&*store, vec![to(active("a", None))]).await, [false]);
    assert_eq!(read(&*store, "a").await, Session { seq: 1, ..new("a") });
}

/// And nothing is told of it.
pub async fn a_change_upon_an_old_read_of_a_session_is_not_made(harness: &dyn Harness) {
    let store = harness.open().await;
    let old = act(&*store, "a", begin(None)).await;
    let now = act(&*store, "a", begin(None)).await;
    let newest = store
        .newest_event()
        .await
        .expect("a store that can be read");
    let scene = SessionDecisionInput {
        key: &key("a"),
        session: Some(&old),
        life: HolderLife::Alive,
        now: noon(),
    };
    let late = decide(
        scene,
        SessionEvent::End {
            generation: old.generation,
        },
    );
    assert_eq!(
        put(&*store, vec![late.expect("allowed").expect("a change")]).await,
        [false]
    );
    for seq in [0, 1, 7] {
        assert_eq!(
            put(&*store, vec![to(Session { seq, ..now.clone() })]).await,
            [false]
        );
    }
    assert_eq!(read(&*store, "a").await, now);
    assert_eq!(
        store
            .newest_event()
            .await
            .expect("a store that can be read"),
        newest
    );
}

/// In one commit, and of two handles.
pub async fn of_two_begins_upon_one_read_one_is_made(harness: &dyn Harness) {
    let (store, other) = (harness.open().await, harness.open().await);
    let scene = SessionDecisionInput {
        key: &key("a"),
        session: None,
        life: HolderLife::Gone,
        now: noon(),
    };
    let change = || {
        decide(scene, begin(None))
            .expect("allowed")
            .expect("a change")
    };
    assert_eq!(put(&*store, vec![change(), change()]).await, [true, false]);
    assert_eq!(put(&*other, vec![change()]).await, [false]);
    assert_eq!(read(&*store, "a").await.generation, Generation(1));
}

/// Those that moved on meanwhile are left out, and do not keep the others back.
pub async fn changes_of_many_sessions_are_made_together(harness: &dyn Harness) {
    let store = harness.open().await;
    let mut found = Vec::new();
    for number in 0..300 {
        found.push(act(&*store, &format!("s{number:03}"), begin(None)).await);
    }
    act(
        &*store,
        "s007",
        SessionEvent::End {
            generation: Generation(1),
        },
    )
    .await;
    let decided = |session: &Session| {
        recover(session, HolderLife::Gone, &Rules::default(), noon()).expect("it is cut off")
    };
    let made = put(&*store, found.iter().map(decided).collect()).await;
    assert_eq!(made.iter().filter(|made| **made).count(), 299);
    assert!(!made[7]);
    let states = vec![SessionStateKind::Suspended];
    assert_eq!(
        keys(
            &*store,
            SessionQuery {
                states,
                ..SessionQuery::default()
            }
        )
        .await
        .len(),
        299
    );
    assert_eq!(read(&*store, "s007").await.state, SessionState::Idle);
}

/// With its own kind, and the session by name.
pub async fn each_change_of_a_session_is_told(harness: &dyn Harness) {
    let store = harness.open().await;
    act(&*store, "a", begin(None)).await;
    act(
        &*store,
        "a",
        SessionEvent::End {
            generation: Generation(1),
        },
    )
    .await;
    act(
        &*store,
        "a",
        SessionEvent::Suspend {
            reason: Some(ODD.to_owned()),
        },
    )
    .await;
    act(&*store, "a", touch(noon())).await;
    let told = events(&*store, all_events()).await;
    let kinds: Vec<_> = told.iter().map(|event| event.kind).collect();
    use EventKind::{SessionBegun, SessionEnded, SessionState};
    assert_eq!(kinds, [SessionBegun, SessionEnded, SessionState]);
    assert!(
        told.iter()
            .all(|event| event.detail["session"] == "a" && event.at == noon())
    );
    assert_eq!(told[2].detail["reason"], ODD);
    let ended = EventQuery {
        kinds: vec![SessionEnded],
        ..all_events()
    };
    assert_eq!(events(&*store, ended).await.len(), 1);
}

/// Only by what says that it renews.
pub async fn the_mark_of_a_time_lease_counts_down_and_is_renewed(harness: &dyn Harness) {
    let (store, other) = (harness.open().await, harness.open().await);
    act(&*store, "a", begin(Some(Span::from_secs(1_000)))).await;
    assert_eq!(left(&*other, "a").await, Some(Span::from_secs(1_000)));
    harness.advance(Span::from_secs(700)).await;
    done(&*other, to(read(&*other, "a").await)).await;
    assert_eq!(left(&*other, "a").await, Some(Span::from_secs(300)));
    act(
        &*store,
        "a",
        SessionEvent::Renew {
            generation: Generation(1),
        },
    )
    .await;
    assert_eq!(left(&*other, "a").await, Some(Span::from_secs(1_000)));
    harness.advance(Span::from_secs(360_000)).await;
    assert_eq!(left(&*other, "a").await, Some(Span::ZERO));
    act(&*store, "a", begin(Some(Span::from_secs(3_000)))).await;
    assert_eq!(left(&*other, "a").await, Some(Span::from_secs(3_000)));
}

/// Only its death does.
pub async fn no_clock_ends_the_mark_of_a_process(harness: &dyn Harness) {
    let store = harness.open().await;
    act(&*store, "a", begin(Some(Span::from_secs(1_000)))).await;
    let session = read(&*store, "a").await;
    let state = SessionState::Active {
        since: noon(),
        owner: Some(held(Holder::Process(process(7)), None)),
    };
    done(
        &*store,
        to(Session {
            state: state.clone(),
            ..session
        }),
    )
    .await;
    harness.advance(Span::from_secs(86_400 * 365)).await;
    assert_eq!(read(&*store, "a").await.state, state);
}

/// Byte by byte, in pages.
pub async fn sessions_come_in_the_order_of_their_keys(harness: &dyn Harness) {
    let store = harness.open().await;
    let long = "é".repeat(256);
    for text in [
        "b",
        "a.b",
        "B",
        "a/b",
        "a",
        "a-b",
        "10",
        "9",
        "!room:server.org",
        "部屋 🚀",
        &long,
    ] {
        done(&*store, to(new(text))).await;
    }
    let all = [
        "!room:server.org",
        "10",
        "9",
        "B",
        "a",
        "a-b",
        "a.b",
        "a/b",
        "b",
        &long,
        "部屋 🚀",
    ];
    assert_eq!(keys(&*store, SessionQuery::default()).await, all);
    let page = SessionQuery {
        after: Some(key("B")),
        limit: Some(2),
        ..SessionQuery::default()
    };
    assert_eq!(keys(&*store, page).await, ["a", "a-b"]);
    let gone = SessionQuery {
        after: Some(key("a.a")),
        ..SessionQuery::default()
    };
    assert_eq!(keys(&*store, gone).await, all[6..], "a pager goes on");
    let after = SessionQuery {
        after: Some(key(&long)),
        ..SessionQuery::default()
    };
    assert_eq!(keys(&*store, after).await, ["部屋 🚀"]);
}

/// One state, several, and in pages too.
pub async fn sessions_can_be_asked_for_by_state_and_by_being_seen(harness: &dyn Harness) {
    let store = harness.open().await;
    for text in ["a", "b", "c", "d"] {
        done(&*store, to(new(text))).await;
    }
    act(&*store, "b", begin(None)).await;
    act(&*store, "d", begin(None)).await;
    act(&*store, "c", SessionEvent::Suspend { reason: None }).await;
    act(&*store, "a", touch(later(1))).await;
    let of = |states: &[SessionStateKind]| SessionQuery {
        states: states.to_vec(),
        ..SessionQuery::default()
    };
    use SessionStateKind::{Active, Expired, Idle, Suspended};
    assert_eq!(keys(&*store, of(&[Active])).await, ["b", "d"]);
    assert_eq!(
        keys(&*store, of(&[Active, Suspended])).await,
        ["b", "c", "d"]
    );
    assert_eq!(keys(&*store, of(&[Idle])).await, ["a"]);
    assert_eq!(keys(&*store, of(&[Expired])).await, [] as [&str; 0]);
    let page = SessionQuery {
        after: Some(key("b")),
        limit: Some(1),
        ..of(&[Active])
    };
    assert_eq!(keys(&*store, page).await, ["d"]);
    let seen = SessionQuery {
        seen: true,
        ..SessionQuery::default()
    };
    assert_eq!(keys(&*store, seen).await, ["a"]);
    let seen_by = Some(Holder::Process(process(7)));
    assert_eq!(
        read(&*store, "a").await.seen_by,
        seen_by,
        "for a clean shutdown"
    );
}

/// Not an error.
pub async fn a_session_that_is_not_there_is_nothing(harness: &dyn Harness) {
    let store = harness.open().await;
    assert_eq!(find(&*store, "a").await, None);
    assert_eq!(
        keys(&*store, SessionQuery::default()).await,
        [] as [&str; 0]
    );
    assert_eq!(put(&*store, Vec::new()).await, [] as [bool; 0]);
}

/// By state, and only states that are there.
pub async fn the_inventory_counts_sessions_by_state(harness: &dyn Harness) {
    let store = harness.open().await;
    for text in ["a", "b", "c"] {
        done(&*store, to(new(text))).await;
    }
    act(&*store, "b", begin(None)).await;
    let sessions = store
        .inventory(true)
        .await
        .expect("a store that can be read")
        .sessions;
    assert_eq!(
        sessions,
        [(SessionStateKind::Idle, 2), (SessionStateKind::Active, 1)]
    );
}

/// All of them are taken, and none takes another's place.
pub async fn a_thousand_sessions_begin_and_end_at_the_same_time(harness: &dyn Harness) {
    let store = harness.open().await;
    let mut turns = Vec::new();
    for number in 0..1_000 {
        let store = store.clone();
        turns.push(tokio::spawn(async move {
            let text = format!("s{number:03}");
            act(&*store, &text, begin(None)).await;
            let ends = number % 2 == 0;
            if ends {
                act(
                    &*store,
                    &text,
                    SessionEvent::End {
                        generation: Generation(1),
                    },
                )
                .await;
            }
        }));
    }
    for turn in turns {
        turn.await.expect("no panic");
    }
    let states = vec![SessionStateKind::Active];
    let in_flight = keys(
        &*store,
        SessionQuery {
            states,
            ..SessionQuery::default()
        },
    )
    .await;
    assert_eq!(in_flight.len(), 500);
    assert!(
        in_flight
            .iter()
            .all(|text| text[1..].parse::<u32>().is_ok_and(|n| n % 2 == 1))
    );
}

/// What is in flight, or was written since it was looked at, stays.
pub async fn old_sessions_are_forgotten_unless_somebody_wrote_them(harness: &dyn Harness) {
    let store = harness.open().await;
    for text in ["gone", "moved", "kept"] {
        done(&*store, to(new(text))).await;
    }
    done(&*store, to(active("live", None))).await;
    let moved = read(&*store, "moved").await;
    done(&*store, to(moved.clone())).await;
    let all = [
        ("gone", 1),
        ("moved", moved.seq),
        ("live", 1),
        ("absent", 1),
    ];
    let all = all.map(|(text, seq)| (key(text), seq)).to_vec();
    let forget = store.forget_sessions(all.clone());
    assert_eq!(forget.await.expect("a store that can be written"), 1);
    assert_eq!(find(&*store, "gone").await, None);
    for text in ["moved", "kept", "live"] {
        assert!(find(&*store, text).await.is_some(), "{text}");
    }
    // The same key again is a new session.
    done(&*store, to(new("gone"))).await;
}
