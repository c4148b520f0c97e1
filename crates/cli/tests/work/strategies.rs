//! `relight task fail`, and what strategies make of failures and deaths.

use serde_json::json;

use crate::cases::Place;
use crate::given::{config, decider, decisions, lose};

/// Starts a task and lets it fail; what became of it.
fn fail(place: &Place, task: &str) -> serde_json::Value {
    place.ok(&format!("task claim --agent a-{task}"));
    place.json(&format!("task fail {task} --reason boom"))["recovery"].clone()
}

#[test]
fn a_task_that_fails_may_be_taken_again_while_retries_are_left() {
    let place = Place::new();
    place.ok("task add t");
    place.ok("task claim --agent a");
    let said = place.ok("task fail t --reason boom").text();
    assert_eq!(
        said,
        "task t failed; may be taken again at once (retries: 0 of 1 used)\n"
    );
    let shown = place.ok("task show t").text();
    assert!(shown.contains("0 of 1 used\n"), "the same count: {shown}");
    place.ok("task claim --agent b");
    let said = place.ok("task fail t --reason again").text();
    assert!(
        said.starts_with("task t failed; no retry is left"),
        "{said}"
    );
    place.fails("task claim --agent c", 1);
    let task = place.json("task show t");
    assert_eq!(
        (&task["status"], &task["retries"]),
        (&json!("failed"), &json!(1))
    );
    assert_eq!(task["reason"], "again (no retry is left)");
}

#[test]
fn without_retries_it_stays_failed_the_first_time() {
    let place = Place::new();
    place.ok("task add t --max-retries 0");
    let recovered = fail(&place, "t");
    assert_eq!(recovered["outcome"], "retries_used_up");
    place.fails("task claim --agent b", 1);
    place
        .fails("task retry t", 1)
        .says(&["no retry left: 0 of 0", "--force"]);
    place.ok("task retry t --force --agent b");
    assert_eq!(place.json("task claim --agent b")["task"], "t");
}

#[test]
fn the_answer_tells_strategy_decision_and_what_came_of_it() {
    let place = Place::new();
    place.ok("task add t --strategy resume");
    let recovered = fail(&place, "t");
    assert_eq!(
        recovered,
        json!({
            "task": "t", "agent": "a-t", "strategy": "resume", "decision": "resume", "outcome": "resume",
            "status": "interrupted", "not_before": null, "reason": "boom", "trouble": null,
        })
    );
    place.fails("task claim --agent b", 1);
    assert_eq!(place.json("task claim --agent a-t")["task"], "t");
}

#[test]
fn a_suspended_task_waits_for_a_person() {
    let place = Place::new();
    config(&place, "[recovery]\nstrategy = \"suspend\"\n");
    place.ok("task add t");
    assert_eq!(fail(&place, "t")["status"], "suspended");
    place.fails("task claim --agent b", 1);
    place.ok("task retry t");
    assert_eq!(place.status("t"), "assigned");
}

#[test]
fn a_command_of_the_users_decides() {
    let place = Place::new();
    decider(
        &place,
        r#"cat >case; echo '{"decision": "give_up", "reason": "hopeless"}'"#,
    );
    place.ok("task add t --strategy exec");
    let recovered = fail(&place, "t");
    assert_eq!(
        (&recovered["decision"], &recovered["trouble"]),
        (&json!("give_up"), &json!(null))
    );
    let case = std::fs::read_to_string(place.work("case")).unwrap();
    let case: serde_json::Value = serde_json::from_str(&case).unwrap();
    assert_eq!(
        (&case["task"]["id"], &case["death"]["reason"]),
        (&json!("t"), &json!("boom"))
    );
    place.fails("task claim --agent b", 1);
    place.fails("task retry t", 1).says(&["given up"]);
}

#[test]
fn a_command_may_put_it_off() {
    let place = Place::new();
    decider(&place, r#"echo '{"decision": "defer", "until": "1h"}'"#);
    place.ok("task add t --strategy exec");
    assert_eq!(fail(&place, "t")["status"], "deferred");
    place.fails("task claim --agent b", 1);
}

#[test]
fn a_command_that_is_of_no_use_never_hides_the_first_error() {
    for (script, trouble) in [
        ("exit 3", "ended with"),
        ("exec sleep 300", "did not answer within"),
        ("echo nonsense", "gave no decision"),
        (r#"echo '{"decision": "pray"}'"#, "\"pray\" is not one of"),
        (r#"echo '{"decision": "defer"}'"#, "defer needs `until`"),
    ] {
        let place = Place::new();
        decider(&place, script);
        place.ok("task add t --strategy exec");
        place.ok("task claim --agent a");
        let answer = place
            .ok("--json task fail t --reason boom")
            .says(&[trouble])
            .json();
        let recovery = &answer["recovery"];
        assert_eq!(
            (&answer["status"], &answer["reason"]),
            (&json!("failed"), &json!("boom"))
        );
        assert!(
            recovery["trouble"].as_str().unwrap().contains(trouble),
            "{recovery}"
        );
        let decided = &decisions(&place, "t")[0];
        assert_eq!(
            (&decided["strategy"], &decided["decision"]),
            (&json!("exec"), &json!("reassign"))
        );
        assert_eq!(decided["error"], "boom");
        assert!(
            decided["trouble"].as_str().unwrap().contains(trouble),
            "{decided}"
        );
        assert_eq!(place.json("task claim --agent b")["task"], "t", "{script}");
    }
}

#[test]
fn a_strategy_whose_command_is_gone_falls_back() {
    let place = Place::new();
    decider(&place, "exit 0");
    place.ok("task add t --strategy exec");
    config(&place, "");
    let recovered = fail(&place, "t");
    assert_eq!(recovered["status"], "failed");
    assert!(
        recovered["trouble"]
            .as_str()
            .unwrap()
            .contains("there is no strategy \"exec\"")
    );
}

#[test]
fn the_recorded_context_has_counts_cost_and_times_and_nothing_that_was_said() {
    let place = Place::new();
    place.ok("task add t --title Diary --set note=secret-thoughts --payload {\"say\":\"hello\"}");
    place.ok("task claim --agent a");
    place
        .relight("step run one --task t --cost 0.25 --turns 3 -- echo")
        .arg("hello")
        .run();
    place.ok("task fail t --reason boom");
    let decided = decisions(&place, "t").remove(0);
    let context = decided["context"].as_object().unwrap();
    assert_eq!(
        (&context["steps_done"], &context["attempts"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(
        (&context["cost_micros"], &context["turns"]),
        (&json!(250_000), &json!(3))
    );
    assert!(context["held_ms"].is_u64() && context["created_at"].is_string());
    let text = decided.to_string();
    for said in ["hello", "secret-thoughts", "Diary"] {
        assert!(!text.contains(said), "{text}");
    }
}

#[test]
fn a_killed_processs_task_is_recovered_by_recover() {
    let place = Place::new();
    lose(&place, "t");
    let answer = place.json("recover");
    assert_eq!(answer["findings"][0]["task"], "t");
    assert_eq!(answer["recovered"][0]["outcome"], "resume");
    assert_eq!(place.status("t"), "interrupted");
    assert_eq!(place.json("recover")["findings"], json!([]));
}

#[test]
fn a_task_that_was_started_too_often_is_parked_while_others_go_on() {
    let place = Place::new();
    config(&place, "[queue]\nattempts_max = 1\n");
    place.ok("task add poison --priority 9");
    place.ok("task add good");
    place.ok("task claim --agent a");
    let said = place.ok("task fail poison --reason boom").text();
    assert!(
        said.contains("suspended and waits for a person: boom (parked: started 1 times"),
        "{said}"
    );
    assert_eq!(place.json("task claim --agent a")["task"], "good");
}
