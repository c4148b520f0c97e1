//! Each noun as JSON: the one form that every front shows.
//!
//! Holders are judged here: call `holders::look_for` for them first.

use relight::engine::{self, TaskView};
use relight::os::clock;
use relight::sessions::{Acted, Decided};
use relight_core::agent::Attempt;
use relight_core::event::Event;
use relight_core::ids::TaskId;
use relight_core::session::{Generation, Session};
use relight_core::step::Step;
use relight_core::task::Task;
use serde::Serialize;
use serde_json::Value;

use crate::wire;

/// A task without its steps.
pub fn task(task: &Task) -> Value {
    json(&wire::task::Task::from(task.clone()))
}

/// A task of a list, with how many of its declared steps are finished or skipped.
pub fn listed_task(task: &Task, declared_done: Option<usize>) -> Value {
    json(&wire::task::Task::listed(task.clone(), declared_done))
}

/// A task with its steps and the strategy of tasks that have none of their own, where it is known.
pub fn whole_task(view: &TaskView, strategy: Option<&str>) -> Value {
    json(&wire::task::WholeTask::new(view.clone(), strategy))
}

/// A task whose lease was just taken.
pub fn started(started: &engine::Started) -> Value {
    json(&wire::task::Started::from(started.clone()))
}

/// A step of a task.
pub fn step(task: &TaskId, step: &Step) -> Value {
    json(&wire::step::Step::new(task, step))
}

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
