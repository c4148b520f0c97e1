//! Each noun as JSON: the one form that every front shows.
//!
//! Holders are judged here: call `holders::look_for` for them first.

use relight_core::agent::Attempt;
use relight_core::event::Event;
use relight_core::session::{Generation, Session};
use relight_runtime::os::clock;
use relight_runtime::sessions::{Acted, Decided};
use serde::Serialize;
use serde_json::Value;

use crate::wire;

/// A session.
pub fn session(session: &Session) -> Value {
    json(&wire::session::Session::at(session.clone(), clock::now()))
}

/// A session after it was changed.
pub fn changed_session(acted: &Acted) -> Value {
    json(&wire::session::ChangedSession::from(acted))
}

/// A turn of a session that was begun.
pub fn begun_turn(acted: &Acted) -> Value {
    json(&wire::session::BegunTurn::from(acted))
}

/// A turn of a session that has ended.
pub fn ended_turn(acted: &Acted, generation: Generation) -> Value {
    json(&wire::session::EndedTurn::new(acted, generation))
}

/// A session about which recovery decided something.
pub fn decided_session(decided: &Decided) -> Value {
    json(&wire::session::DecidedSession::from(decided.clone()))
}

/// The end of an attempt; none of one that lives.
pub fn death(attempt: &Attempt) -> Option<Value> {
    wire::death::Death::of(attempt.clone()).map(|death| json(&death))
}

/// An event of the journal.
pub fn event(event: &Event) -> Value {
    json(&wire::event::Event::from(event.clone()))
}

fn json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).expect("wire types have string keys")
}
