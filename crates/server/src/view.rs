//! Each noun as JSON: the one form that every front shows.

use relight_core::event::Event;
use serde::Serialize;
use serde_json::Value;

use crate::wire;

/// An event of the journal.
pub fn event(event: &Event) -> Value {
    json(&wire::event::EventView::from(event.clone()))
}

fn json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).expect("wire types have string keys")
}
