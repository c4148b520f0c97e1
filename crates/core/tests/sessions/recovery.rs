//! What recovery makes of sessions after a crash.

use insta::assert_snapshot;
use relight_core::lease::HolderLife;
use relight_core::session::{
    DEATHS_MAX, Policy, Rules, Session, SessionEvent, SessionState, SessionStateKind, Suspender,
    recover,
};
use relight_core::time::Span;

use crate::given::*;

fn pending_rules() -> Rules {
    Rules {
        policy: Policy::ResumePending,
        ..Rules::default()
    }
}

fn kind(session: &Session) -> SessionStateKind {
    session.state.kind()
}

#[test]
fn exactly_the_sessions_in_flight_whose_owner_is_dead_are_cut_off() {
    let alive = recover(&active(), HolderLife::Alive, &Rules::default(), later(60));
    assert_eq!(alive, None, "another gateway's live turn");
    assert_eq!(
        kind(&recovered(&active(), &Rules::default(), 60)),
        SessionStateKind::Suspended
    );
    let unowned = session(SessionState::Active {
        since: noon(),
        owner: None,
    });
    assert_eq!(
        kind(&recovered(&unowned, &Rules::default(), 60)),
        SessionStateKind::Suspended
    );
    for other in [idle(), pending(), suspended(Suspender::Person), expired()] {
        assert_eq!(
            recover(&other, HolderLife::Gone, &Rules::default(), later(60)),
            None
        );
    }
}

#[test]
fn the_policy_says_what_becomes_of_them() {
    let waits = recovered(&active(), &pending_rules(), 60);
    let fresh_until = Some(later(60 + 3_600));
    assert_eq!(
        waits.state,
        SessionState::ResumePending {
            discovered_at: later(60),
            fresh_until
        }
    );
    let stops = recovered(&active(), &Rules::default(), 60).state;
    assert_eq!(
        stops,
        SessionState::Suspended {
            since: later(60),
            by: Suspender::Policy
        }
    );
}

#[test]
fn a_given_reason_is_kept_over_the_generic_one() {
    let generic = recovered(&active(), &Rules::default(), 60)
        .reason
        .expect("a reason")
        .text;
    assert_snapshot!(generic, @"its owner, process 1, is gone with a turn in flight");
    let given = because(active(), "restart for an update");
    let kept = recovered(&given, &Rules::default(), 60).reason;
    assert_eq!(kept, given.reason);
}

#[test]
fn three_deaths_in_a_row_suspend_whatever_the_policy() {
    let mut session = active();
    let mut states = Vec::new();
    for death in 1..=DEATHS_MAX {
        session = recovered(&session, &pending_rules(), 60);
        states.push(format!("{} ({})", kind(&session), session.deaths_in_a_row));
        if death < DEATHS_MAX {
            session = after(&session, HolderLife::Gone, begin(death + 1));
        }
    }
    assert_snapshot!(states.join(", "), @"resume_pending (1), resume_pending (2), suspended (3)");
    assert_snapshot!(session.reason.expect("a reason").text, @"3 owners in a row died in a turn of it");
}

#[test]
fn a_finished_turn_between_begins_a_new_row_and_time_does_not() {
    let mut session = recovered(&active(), &pending_rules(), 60);
    session = recovered(
        &after(&session, HolderLife::Gone, begin(2)),
        &pending_rules(),
        70_000,
    );
    assert_eq!(session.deaths_in_a_row, 2, "a day later it is the same row");
    session = after(&session, HolderLife::Gone, begin(3));
    session = after(&session, HolderLife::Alive, end(4));
    session = recovered(
        &after(&session, HolderLife::Gone, begin(4)),
        &pending_rules(),
        60,
    );
    assert_eq!(
        (kind(&session), session.deaths_in_a_row),
        (SessionStateKind::ResumePending, 1)
    );
}

#[test]
fn a_begin_upon_a_dead_owners_turn_counts_that_death_too() {
    let mut session = active();
    for pid in 2..=3 {
        session = after(&session, HolderLife::Gone, begin(pid));
    }
    assert_eq!(session.deaths_in_a_row, 2);
    assert_eq!(
        kind(&recovered(&session, &pending_rules(), 60)),
        SessionStateKind::Suspended
    );
}

#[test]
fn freshness_counts_from_discovery_and_zero_is_no_limit() {
    // The turn began a day before it was found: only the finding counts.
    let found = recovered(&active(), &pending_rules(), 86_400);
    assert_eq!(recovered(&found, &pending_rules(), 86_400 + 3_599), found);
    assert_eq!(
        kind(&recovered(&found, &pending_rules(), 86_400 + 3_600)),
        SessionStateKind::Expired
    );
    let unlimited = Rules {
        freshness: Span::ZERO,
        ..pending_rules()
    };
    let found = recovered(&active(), &unlimited, 60);
    assert_eq!(
        kind(&recovered(&found, &pending_rules(), 1 << 30)),
        SessionStateKind::ResumePending
    );
}

#[test]
fn an_expired_one_is_called_so_before_anybody_swept() {
    assert_eq!(
        pending().state_at(later(3_599)),
        SessionStateKind::ResumePending
    );
    assert_eq!(pending().state_at(later(3_600)), SessionStateKind::Expired);
}

fn seen() -> Session {
    let touch = SessionEvent::Touch {
        session_id: id("conversation-1"),
        at: noon(),
        by: gateway(1),
    };
    act(None, HolderLife::Gone, touch)
        .expect("it is not refused")
        .expect("a change")
        .next
}

#[test]
fn never_marked_sessions_are_found_by_the_window_alone() {
    let found = recovered(&seen(), &Rules::default(), 120);
    assert_eq!(
        (kind(&found), found.deaths_in_a_row),
        (SessionStateKind::Suspended, 0)
    );
    assert_snapshot!(found.reason.expect("a reason").text, @"it was active 2m before, and its turns are not marked");
    assert_eq!(recovered(&seen(), &Rules::default(), 121), seen());
    let off = Rules {
        window: Span::ZERO,
        ..Rules::default()
    };
    assert_eq!(recovered(&seen(), &off, 1), seen());
}

#[test]
fn the_window_is_not_asked_where_something_better_is_known() {
    let marked = after(
        &after(&seen(), HolderLife::Gone, begin(1)),
        HolderLife::Alive,
        end(1),
    );
    let touch = SessionEvent::Touch {
        session_id: id("conversation-1"),
        at: later(60),
        by: gateway(1),
    };
    let touched = after(&marked, HolderLife::Gone, touch);
    assert_eq!(
        recovered(&touched, &Rules::default(), 61),
        touched,
        "its mark says: finished"
    );
    let settled = after(&seen(), HolderLife::Gone, SessionEvent::Settle);
    assert_eq!(
        recovered(&settled, &Rules::default(), 61),
        settled,
        "a clean shutdown"
    );
}
