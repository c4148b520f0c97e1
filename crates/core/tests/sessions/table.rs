//! The table: what each event makes of each state.

use std::fmt::Write as _;

use insta::assert_snapshot;
use relight_core::lease::{Holder, HolderLife};
use relight_core::session::{
    Generation, Session, SessionChange, SessionEvent, SessionRefusal, Suspender,
};
use relight_core::time::Span;

use crate::given::*;

const STATES: [&str; 9] = [
    "unknown",
    "idle",
    "active",
    "active, owner gone",
    "resume_pending",
    "suspended by policy",
    "suspended by limit",
    "suspended by person",
    "expired",
];

fn in_state(name: &str) -> (Option<Session>, HolderLife) {
    let session = match name {
        "unknown" => None,
        "idle" => Some(idle()),
        "active" => return (Some(active()), HolderLife::Alive),
        "active, owner gone" => Some(active()),
        "resume_pending" => Some(pending()),
        "suspended by policy" => Some(suspended(Suspender::Policy)),
        "suspended by limit" => Some(suspended(Suspender::Limit)),
        "suspended by person" => Some(suspended(Suspender::Person)),
        _ => Some(expired()),
    };
    (session, HolderLife::Gone)
}

/// What one event makes of every state, a line each.
fn row(event: &SessionEvent) -> String {
    let mut text = String::new();
    for name in STATES {
        let (session, life) = in_state(name);
        let _ = writeln!(
            text,
            "{name:<20} {}",
            in_words(act(session.as_ref(), life, event.clone()))
        );
    }
    text
}

fn in_words(answer: Result<Option<SessionChange>, SessionRefusal>) -> String {
    match answer {
        Ok(None) => "nothing to do".to_owned(),
        Ok(Some(change)) => {
            let next = change.next;
            let told: Vec<_> = change.told.iter().map(|told| told.kind.as_str()).collect();
            format!(
                "{} at {} of {} ({} deaths) {}",
                next.state.kind(),
                next.finished,
                next.generation,
                next.deaths_in_a_row,
                told.join(", ")
            )
        }
        Err(refusal) => format!("refused: {refusal}"),
    }
}

#[test]
fn a_begin_marks_a_turn_unless_a_live_owner_has_one_or_somebody_suspended_it() {
    assert_snapshot!(row(&begin(2)), @"
    unknown              active at 0 of 1 (0 deaths) session.begun
    idle                 active at 2 of 3 (0 deaths) session.begun
    active               refused: session telegram:dm:42 has a turn in flight, owned by process 1 since 2026-05-01T12:00:00Z
    active, owner gone   active at 1 of 3 (1 deaths) session.state, session.begun
    resume_pending       active at 1 of 3 (0 deaths) session.begun
    suspended by policy  active at 1 of 3 (0 deaths) session.begun
    suspended by limit   active at 1 of 3 (0 deaths) session.begun
    suspended by person  refused: session telegram:dm:42 was suspended
    expired              active at 1 of 3 (0 deaths) session.begun
    ");
}

#[test]
fn an_end_clears_its_own_turn_alone() {
    assert_snapshot!(row(&end(2)), @"
    unknown              refused: there is no session telegram:dm:42
    idle                 nothing to do
    active               idle at 2 of 2 (0 deaths) session.ended
    active, owner gone   idle at 2 of 2 (0 deaths) session.ended
    resume_pending       refused: session telegram:dm:42 is fenced: its turn 2 was taken away, and it is resume_pending now
    suspended by policy  refused: session telegram:dm:42 is fenced: its turn 2 was taken away, and it is suspended now
    suspended by limit   refused: session telegram:dm:42 is fenced: its turn 2 was taken away, and it is suspended now
    suspended by person  refused: session telegram:dm:42 is fenced: its turn 2 was taken away, and it is suspended now
    expired              refused: session telegram:dm:42 is fenced: its turn 2 was taken away, and it is expired now
    ");
}

#[test]
fn a_stale_end_clears_nothing() {
    assert_snapshot!(row(&end(1)), @"
    unknown              refused: there is no session telegram:dm:42
    idle                 refused: session telegram:dm:42 is fenced: turn 1 is not the newest, which is 2
    active               refused: session telegram:dm:42 is fenced: turn 1 is not the newest, which is 2
    active, owner gone   refused: session telegram:dm:42 is fenced: turn 1 is not the newest, which is 2
    resume_pending       refused: session telegram:dm:42 is fenced: turn 1 is not the newest, which is 2
    suspended by policy  refused: session telegram:dm:42 is fenced: turn 1 is not the newest, which is 2
    suspended by limit   refused: session telegram:dm:42 is fenced: turn 1 is not the newest, which is 2
    suspended by person  refused: session telegram:dm:42 is fenced: turn 1 is not the newest, which is 2
    expired              refused: session telegram:dm:42 is fenced: turn 1 is not the newest, which is 2
    ");
}

#[test]
fn a_resumed_session_may_go_on() {
    assert_snapshot!(row(&SessionEvent::Resume), @"
    unknown              refused: there is no session telegram:dm:42
    idle                 refused: session telegram:dm:42 is idle and has nothing to resume
    active               refused: session telegram:dm:42 has a turn in flight, owned by process 1 since 2026-05-01T12:00:00Z
    active, owner gone   idle at 1 of 2 (0 deaths) session.state, session.state
    resume_pending       idle at 1 of 2 (0 deaths) session.state
    suspended by policy  idle at 1 of 2 (0 deaths) session.state
    suspended by limit   idle at 1 of 2 (0 deaths) session.state
    suspended by person  idle at 1 of 2 (0 deaths) session.state
    expired              idle at 1 of 2 (0 deaths) session.state
    ");
}

#[test]
fn anything_known_can_be_suspended() {
    assert_snapshot!(row(&SessionEvent::Suspend { reason: None }), @"
    unknown              refused: there is no session telegram:dm:42
    idle                 suspended at 2 of 2 (0 deaths) session.state
    active               suspended at 1 of 2 (0 deaths) session.state
    active, owner gone   suspended at 1 of 2 (0 deaths) session.state
    resume_pending       suspended at 1 of 2 (0 deaths) session.state
    suspended by policy  suspended at 1 of 2 (0 deaths) session.state
    suspended by limit   suspended at 1 of 2 (0 deaths) session.state
    suspended by person  suspended at 1 of 2 (0 deaths) session.state
    expired              suspended at 1 of 2 (0 deaths) session.state
    ");
}

#[test]
fn clearing_forgets_what_was_owed() {
    assert_snapshot!(row(&SessionEvent::Clear), @"
    unknown              refused: there is no session telegram:dm:42
    idle                 idle at 2 of 2 (0 deaths) session.state
    active               idle at 1 of 2 (0 deaths) session.state
    active, owner gone   idle at 1 of 2 (0 deaths) session.state
    resume_pending       idle at 1 of 2 (0 deaths) session.state
    suspended by policy  idle at 1 of 2 (0 deaths) session.state
    suspended by limit   idle at 1 of 2 (0 deaths) session.state
    suspended by person  idle at 1 of 2 (0 deaths) session.state
    expired              idle at 1 of 2 (0 deaths) session.state
    ");
}

#[test]
fn an_owner_may_discard_its_turn() {
    assert_snapshot!(row(&SessionEvent::Discard { generation: Generation(2) }), @"
    unknown              refused: there is no session telegram:dm:42
    idle                 refused: session telegram:dm:42 is fenced: its turn 2 was taken away, and it is idle now
    active               idle at 1 of 2 (0 deaths) session.ended
    active, owner gone   idle at 1 of 2 (0 deaths) session.ended
    resume_pending       refused: session telegram:dm:42 is fenced: its turn 2 was taken away, and it is resume_pending now
    suspended by policy  refused: session telegram:dm:42 is fenced: its turn 2 was taken away, and it is suspended now
    suspended by limit   refused: session telegram:dm:42 is fenced: its turn 2 was taken away, and it is suspended now
    suspended by person  refused: session telegram:dm:42 is fenced: its turn 2 was taken away, and it is suspended now
    expired              refused: session telegram:dm:42 is fenced: its turn 2 was taken away, and it is expired now
    ");
}

#[test]
fn a_newer_turn_of_the_same_gateway_takes_the_place_of_the_older() {
    let newer = after(&active(), HolderLife::Alive, begin(1));
    assert_eq!(newer.generation, Generation(3));
    let stale = act(Some(&newer), HolderLife::Alive, end(2));
    assert_snapshot!(in_words(stale), @"refused: session telegram:dm:42 is fenced: turn 2 is not the newest, which is 3");
    assert_eq!(
        after(&newer, HolderLife::Alive, end(3)).finished,
        Generation(3)
    );
}

#[test]
fn callers_of_one_user_without_a_process_are_one_owner() {
    let by = |user: &str| SessionEvent::Begin {
        session_id: id("conversation-1"),
        owner: Holder::Time {
            by: user.to_owned(),
        },
        ttl: Some(Span::from_secs(600)),
        context: Default::default(),
    };
    let first = after(&idle(), HolderLife::Gone, by("ann"));
    assert_eq!(
        after(&first, HolderLife::Alive, by("ann")).generation,
        Generation(4)
    );
    let other = act(Some(&first), HolderLife::Alive, by("ben"));
    assert!(
        matches!(other, Err(SessionRefusal::Held { .. })),
        "{other:?}"
    );
}

#[test]
fn another_conversation_under_the_same_key_keeps_the_context() {
    let set = |session_id: &str, pair: (&str, &str)| SessionEvent::Begin {
        session_id: id(session_id),
        owner: gateway(2),
        ttl: None,
        context: [(pair.0.to_owned(), pair.1.to_owned())].into(),
    };
    let same = after(
        &idle(),
        HolderLife::Gone,
        set("conversation-1", ("topic", "tea")),
    );
    assert_eq!(same.context.len(), 2);
    let another = after(
        &idle(),
        HolderLife::Gone,
        set("conversation-2", ("topic", "tea")),
    );
    assert_eq!(another.context, same.context);
}

#[test]
fn deaths_are_forgiven_by_a_finished_turn_and_by_whoever_resumes_a_suspended_one() {
    let twice = |session: Session| Session {
        deaths_in_a_row: 2,
        ..session
    };
    assert_eq!(
        after(&twice(active()), HolderLife::Alive, end(2)).deaths_in_a_row,
        0
    );
    let limit = twice(suspended(Suspender::Limit));
    assert_eq!(
        after(&limit, HolderLife::Gone, SessionEvent::Resume).deaths_in_a_row,
        0
    );
    // A gateway takes up what is pending by itself; that proves nothing.
    assert_eq!(
        after(&twice(pending()), HolderLife::Gone, SessionEvent::Resume).deaths_in_a_row,
        2
    );
    assert_eq!(
        after(&twice(pending()), HolderLife::Gone, begin(2)).deaths_in_a_row,
        2
    );
}

#[test]
fn a_reason_stays_until_a_turn_is_finished() {
    let given = because(pending(), "the model was overloaded");
    let begun = after(&given, HolderLife::Gone, begin(2));
    assert_eq!(begun.reason, given.reason);
    assert_eq!(after(&begun, HolderLife::Alive, end(3)).reason, None);
}

#[test]
fn a_late_end_does_not_count_once_the_turn_was_taken_away() {
    for taken in [SessionEvent::Suspend { reason: None }, SessionEvent::Clear] {
        let session = after(&active(), HolderLife::Alive, taken);
        let late = act(Some(&session), HolderLife::Gone, end(2));
        assert!(
            matches!(late, Err(SessionRefusal::Fenced { .. })),
            "{late:?}"
        );
    }
}
