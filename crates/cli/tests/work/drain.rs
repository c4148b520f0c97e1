//! `relight drain`.

use serde_json::json;

use crate::cases::Place;
use crate::given::holder;

#[test]
fn work_that_comes_while_draining_is_deferred_not_failed() {
    let place = Place::new();
    place.ok("task add waits --agent a");
    place.ok("drain");
    place
        .fails("task start t --step s", 75)
        .says(&["draining", "task t is deferred"]);
    place
        .fails("task start waits", 75)
        .says(&["task waits is deferred"]);
    place
        .fails("task claim --agent a", 75)
        .says(&["draining", "relight drain --cancel"]);
    assert_eq!(
        (place.status("t"), place.status("waits")),
        ("deferred".into(), "deferred".into())
    );
    place.ok("drain --cancel");
    assert_eq!(place.json("task start t --step s")["next_step"], "s");
    assert_eq!(place.json("task claim --agent a")["task"], "waits");
}

#[test]
fn whoever_holds_a_task_goes_on_and_finishes_it() {
    let place = Place::new();
    let holder = holder(&place);
    let start = format!("task start t --owner-pid {}", holder.pid());
    place.ok(&start);
    place.ok("task start u");
    place.ok("drain");
    place.ok(&start);
    place.ok("task start u --fence 1");
    place.ok("step run s --task u --fence 1 -- true");
    place.ok("task done u --fence 1");
    holder.kill();
}

#[test]
fn what_is_over_is_refused_as_ever() {
    let place = Place::new();
    place.ok("task start t");
    place.ok("task done t");
    place.ok("drain");
    place.fails("task start t", 1).says(&["completed"]);
}

#[test]
fn it_says_what_still_runs_and_waits_for_it() {
    let place = Place::new();
    place.ok("task start t");
    let answer = place.json("drain");
    assert_eq!(
        (&answer["draining"], &answer["running"][0]["task"]),
        (&json!(true), &json!("t"))
    );
    assert!(place.ok("drain").text().contains("1 tasks still run: t"));
    place.fails("drain --wait 50ms", 1);
    let waiting = place.relight("--json drain --wait 1h").spawn();
    place.ok("task done t");
    assert_eq!(waiting.end().with_code(0).json()["running"], json!([]));
}

#[test]
fn it_waits_for_a_step_of_a_task_that_nobody_holds() {
    let place = Place::new();
    place.ok("task add t");
    let script = "echo runs; until test -e go; do sleep 0.02; done";
    let mut step = place
        .relight("step run long --task t -- sh -c")
        .arg(script)
        .spawn();
    assert_eq!(step.line(), "runs");
    let found = place.json("inflight");
    assert_eq!(
        (&found["running"][0]["name"], &found["held"]),
        (&json!("long"), &json!([]))
    );
    assert!(
        place
            .ok("inflight")
            .text()
            .contains("task t (in_progress) · step long")
    );
    let text = place.fails("drain --wait 50ms", 1).text();
    assert!(text.contains("1 steps still run: long of task t"), "{text}");
    let waiting = place.relight("--json drain --wait 1h").spawn();
    std::fs::write(place.work("go"), "").unwrap();
    step.end().with_code(0);
    assert_eq!(waiting.end().with_code(0).json()["steps"], json!([]));
}

#[test]
fn it_is_shown_where_people_look() {
    let place = Place::new();
    assert_eq!(place.json("ps")["draining_since"], json!(null));
    place.ok("drain");
    assert!(place.json("ps")["draining_since"].is_string());
    assert!(place.ok("ps").text().contains("draining since"));
    assert!(
        place
            .relight("doctor")
            .run()
            .text()
            .contains("relight drain --cancel")
    );
    assert_eq!(
        place.json("drain --cancel"),
        json!({"draining": false, "was_draining": true})
    );
    assert_eq!(place.ok("drain --cancel").text(), "nothing was draining\n");
}

#[test]
fn steps_and_workflows_that_nobody_holds_are_not_begun() {
    let place = Place::new();
    place.ok("task add t");
    place.ok("step run before --task t -- true");
    place.ok("checkpoint start --workflow w --agent ops --step one --idempotency k");
    place.ok("drain");
    for begins in [
        "step run s --task t -- touch ran",
        "step begin s --task t",
        "checkpoint resume",
        "checkpoint resume --workflow w",
        "checkpoint start --workflow x --agent ops --step one --idempotency l",
    ] {
        place
            .fails(begins, 75)
            .says(&["draining", "relight drain --cancel"]);
    }
    assert!(!place.work("ran").exists());
    assert_eq!(
        place.fails("--json step begin s --task t", 75).error()["code"],
        "draining"
    );
    place.fails("task show x", 1);
    // What is recorded is replayed, and what is under way is finished.
    place.ok("step run before --task t -- false");
    place.ok("checkpoint update --workflow w --complete one --step two");
    place.ok("drain --cancel");
    place.ok("step run s --task t -- touch ran");
    place.ok("checkpoint resume --workflow w");
}
