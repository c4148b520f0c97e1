//! `relight inflight`.

use serde_json::json;

use crate::cases::Place;
use crate::given::{holder, lose};

#[test]
fn with_nothing_to_know_it_says_so() {
    let place = Place::new();
    place.ok("task add t");
    assert_eq!(
        place.ok("inflight").text(),
        "nothing is in doubt or in flight\n"
    );
    let empty = json!({
        "in_doubt": [], "lost": [], "held": [], "running": [], "agents": [], "sessions": [],
    });
    assert_eq!(place.json("inflight"), empty);
}

#[test]
fn a_step_in_doubt_comes_first_with_what_to_type() {
    let place = Place::new();
    let owner = holder(&place);
    place.ok(&format!("task start t --owner-pid {}", owner.pid()));
    place.ok("step begin pay --task t --fence 1 --repeat once");
    let found = place.json("inflight");
    assert_eq!(
        (&found["in_doubt"], &found["held"][0]["steps"]),
        (&json!([]), &json!(["pay"]))
    );
    owner.kill();
    let found = place.json("inflight");
    let doubt = &found["in_doubt"][0];
    assert_eq!(
        (&doubt["task"], &doubt["name"], &doubt["rule"]),
        (&json!("t"), &json!("pay"), &json!("once"))
    );
    assert_eq!(found["lost"][0]["task"], "t");
    let text = place.ok("inflight").text();
    assert!(text.starts_with("in doubt"), "{text}");
    assert!(
        text.contains("relight step resolve pay --task t --happened"),
        "{text}"
    );
    place.ok("step resolve pay --task t --happened");
    assert_eq!(place.json("inflight")["in_doubt"], json!([]));
}

#[test]
fn a_step_left_by_an_earlier_holder_is_in_doubt_though_the_task_is_held() {
    let place = Place::new();
    let owner = holder(&place);
    place.ok(&format!("task start t --owner-pid {}", owner.pid()));
    place.ok("step begin pay --task t --fence 1 --repeat once");
    owner.kill();
    place.ok("task start t");
    let found = place.json("inflight");
    assert_eq!(
        (&found["in_doubt"][0]["name"], &found["held"][0]["task"]),
        (&json!("pay"), &json!("t"))
    );
}

#[test]
fn what_has_ended_is_history() {
    let place = Place::new();
    lose(&place, "t");
    place.ok("step begin s --task t");
    place.ok("task cancel t");
    assert_eq!(
        place.ok("inflight").text(),
        "nothing is in doubt or in flight\n"
    );
}

/// That it was completed all the same does not say whether the step happened.
#[test]
fn a_step_in_doubt_of_a_completed_task_is_shown_until_it_is_resolved() {
    let place = Place::new();
    let owner = holder(&place);
    place.ok(&format!(
        "task start t --step pay --owner-pid {}",
        owner.pid()
    ));
    place.ok("step begin pay --task t --fence 1 --repeat once");
    owner.kill();
    place.ok("task done t --force");
    let doubt = &place.json("inflight")["in_doubt"][0];
    assert_eq!(
        (&doubt["task"], &doubt["status"]),
        (&json!("t"), &json!("completed"))
    );
    let doctor = place.relight("doctor").run().text();
    assert!(
        doctor.contains("1 tasks have a step begun and not ended: t"),
        "{doctor}"
    );
    place.ok("step resolve pay --task t --happened");
    assert_eq!(place.json("inflight")["in_doubt"], json!([]));
    assert_eq!(place.status("t"), "completed");
}
