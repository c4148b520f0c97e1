//! What becomes of a task by each event: a table that a person can check by eye, and what holds
//! for every sequence of events.

mod given;
mod properties;
mod table;

use relight_core::decide::{Right, decide_in_turn};
use relight_core::lease::HolderLife;
use relight_core::status::TaskStatus;
use relight_core::step::StepState;

use given::{begin, noon, replace, step, task};

#[test]
fn a_replaced_task_begins_its_steps_anew_in_the_same_turn() {
    let task = task(TaskStatus::InProgress);
    let scene = given::scene(&task, None, HolderLife::Alive, Right::Unfenced);
    let finished = [step(StepState::Done)];
    let decision = decide_in_turn(&scene, &finished, vec![replace(), begin()]);
    let last = decision.map(|decision| decision.changes.last().cloned());
    let begun = last.unwrap().and_then(|change| change.step_record(noon(), None));
    assert_eq!(begun.map(|step| (step.state, step.tries)), Some((StepState::Begun, 1)));
}
