//! Each noun as JSON: the one form that every front shows.
//!
//! Holders are judged here: call `holders::look_for` for them first.

use relight_core::agent::Attempt;
use relight_core::event::Event;
use serde::Serialize;
use serde_json::Value;

use crate::wire;

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
