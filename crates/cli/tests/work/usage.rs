//! Cost and turns, as holders report them.

use serde_json::json;

use crate::cases::Place;
use crate::given::config;

#[test]
fn steps_and_tasks_report_what_they_used() {
    let place = Place::new();
    place.ok("task start t");
    place.ok("step run a --task t --cost 0.5 --turns 2 -- true");
    place.ok("step begin b --task t");
    place.ok("step end b --task t --failed --cost 0.000001");
    let said = place.ok("task spend t --cost 1 --turns 5").text();
    assert_eq!(said, "task t has cost 1.500001 in 7 turns\n");
    let task = place.json("task show t");
    assert_eq!(
        (&task["cost"], &task["turns"]),
        (&json!("1.500001"), &json!(7))
    );
    assert!(place.ok("task show t").text().contains("1.500001"));
}

#[test]
fn a_finished_step_is_not_paid_twice() {
    let place = Place::new();
    place.ok("task start t");
    for _ in 0..2 {
        place.ok("step run a --task t --cost 1 -- true");
        place.ok("step end a --task t --cost 1");
    }
    assert_eq!(place.json("task show t")["cost"], "1");
}

#[test]
fn values_that_cannot_be_are_wrong_usage() {
    let place = Place::new();
    place.ok("task start t");
    for words in [
        "task spend t",
        "task spend t --cost -1",
        "task spend t --cost 0.0000001",
        "task spend t --turns many",
        "step end a --task t --cost x",
    ] {
        place.fails(words, 2);
    }
}

#[test]
fn over_its_budget_the_holder_may_finish_and_only_the_next_recovery_parks() {
    let place = Place::new();
    config(&place, "[queue]\ncost_max = \"1\"\n");
    for task in ["finished", "failed"] {
        place.ok(&format!("task add {task} --agent {task}"));
        place.ok(&format!("task claim --agent {task}"));
        place.ok(&format!("step run a --task {task} --cost 2 -- true"));
        assert_eq!(place.status(task), "in_progress");
    }
    place.ok("task done finished");
    let recovered = place.json("task fail failed --reason boom")["recovery"].clone();
    assert_eq!(
        (&recovered["outcome"], &recovered["status"]),
        (&json!("parked"), &json!("suspended"))
    );
    assert_eq!(recovered["reason"], "boom (parked: it has cost 2)");
}
