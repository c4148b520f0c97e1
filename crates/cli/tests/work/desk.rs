//! `relight recover` as the operator's desk.

use relight_core::time::Span;
use relight_runtime::os::clock;
use serde_json::{Value, json};

use crate::cases::Place;
use crate::given::{config, holder, lose};

/// A task that failed for good after one finished step.
fn failed(place: &Place, task: &str) {
    place.ok(&format!(
        "task add {task} --agent a --max-retries 0 --step one --step two"
    ));
    place.ok(&format!("task start {task}"));
    place.ok(&format!("step run one --task {task} -- true"));
    place.ok(&format!("task fail {task} --reason boom"));
}

fn of_task(list: &Value, task: &str) -> Value {
    let items = list["waiting"].as_array().unwrap();
    items
        .iter()
        .find(|item| item["task"] == task)
        .unwrap()
        .clone()
}

#[test]
fn the_list_says_why_how_far_and_what_becomes_of_it() {
    let place = Place::new();
    failed(&place, "over");
    place.ok("task start stuck");
    place.ok("task block stuck --reason needs-a-look");
    place.ok("task start later");
    place.ok("task defer later --until 1h");
    lose(&place, "gone");
    let list = place.json("recover --dry-run");
    let over = of_task(&list, "over");
    assert_eq!(
        (&over["status"], &over["then"]),
        (&json!("failed"), &json!("waits"))
    );
    assert_eq!(
        (&over["last_step"], &over["next_step"]),
        (&json!("one"), &json!("two"))
    );
    assert_eq!(over["strategy"], "fail-and-reassign");
    assert_eq!(of_task(&list, "stuck")["reason"], "needs-a-look");
    assert_eq!(of_task(&list, "later")["then"], "taken");
    let gone = of_task(&list, "gone");
    assert_eq!(
        (&gone["then"], &gone["foreseen"]["status"]),
        (&json!("recovered"), &json!("interrupted"))
    );
    assert_eq!(place.status("gone"), "in_progress");
    let text = place.ok("recover --dry-run").text();
    for said in [
        "task over is failed: boom",
        "last step one · next step two",
        "task gone is in_progress, and its holder is gone",
    ] {
        assert!(text.contains(said), "{said:?} is not in {text}");
    }
    let blocked = place.json("recover --dry-run --status blocked");
    assert_eq!(blocked["waiting"].as_array().unwrap().len(), 1);
}

#[test]
fn a_pinned_task_that_waits_is_told_as_its_agents() {
    let place = Place::new();
    place.ok("task start pin --agent own");
    place.ok("task defer pin --until 0s");
    let list = place.json("recover --dry-run");
    assert_eq!(of_task(&list, "pin")["then"], "resumed", "{list}");
    let text = place.ok("recover --dry-run").text();
    let told = "waits in the queue for own, now: relight task start pin --agent own";
    assert!(text.contains(told), "{text}");
}

#[test]
fn a_person_resumes_restarts_abandons_and_hands_over() {
    let place = Place::new();
    for task in ["resumed", "restarted", "abandoned", "handed"] {
        failed(&place, task);
    }
    let told = "task resumed may continue with a; it waits in the queue; to continue it: \
                relight task start resumed --agent a\n";
    assert_eq!(place.ok("recover resumed --resume").text(), told);
    place.ok("recover restarted --restart");
    place.ok("recover abandoned --abandon --reason no-longer-needed");
    place.ok("recover handed --hand-over b");
    let resumed = place.json("task show resumed");
    assert_eq!(
        (&resumed["status"], &resumed["done_steps"]),
        (&json!("assigned"), &json!(["one"]))
    );
    let restarted = place.json("task show restarted");
    assert_eq!(
        (&restarted["done_steps"], &restarted["next_step"]),
        (&json!([]), &json!("one"))
    );
    let done = place
        .ok("--json events --all --task restarted --kind step.done")
        .text();
    assert_eq!(done.lines().count(), 1, "history keeps it");
    let abandoned = place.json("task show abandoned");
    assert_eq!(
        (&abandoned["status"], &abandoned["reason"]),
        (&json!("cancelled"), &json!("no-longer-needed"))
    );
    assert_eq!(place.json("task claim --agent b")["task"], "handed");
    assert_eq!(place.json("task claim --agent a")["task"], "resumed");
}

#[test]
fn what_was_given_to_an_agent_can_be_handed_on() {
    let place = Place::new();
    place.ok("task add t --agent a");
    place.ok("recover t --hand-over b");
    place.ok("task retry t --agent c");
    assert_eq!(place.json("task claim --agent c")["task"], "t");
}

#[test]
fn a_task_that_somebody_works_on_is_left_alone_and_the_others_are_done() {
    let place = Place::new();
    let holder = holder(&place);
    place.ok(&format!("task start held --owner-pid {}", holder.pid()));
    failed(&place, "t");
    let ran = place.fails("--json recover held nobody t --resume", 1);
    let tasks = &ran.json()["tasks"];
    assert_eq!(
        (&tasks[0]["error"]["code"], &tasks[1]["error"]["code"]),
        (&json!("held"), &json!("not_found"))
    );
    assert_eq!(
        (&tasks[2]["error"], &tasks[2]["status"]),
        (&json!(null), &json!("assigned"))
    );
    assert_eq!(place.status("held"), "in_progress");
    holder.kill();
    place.ok("recover held --resume");
    assert_eq!(place.status("held"), "assigned");
}

#[test]
fn all_that_waits_goes_on_at_a_pace() {
    let place = Place::new();
    config(&place, "[queue]\nresume_rate = 20\n");
    for n in 0..5 {
        failed(&place, &format!("t{n}"));
    }
    place.ok("task start other");
    place.ok("task block other --reason r");
    let dry = place.json("recover --all --status failed --resume --dry-run");
    assert_eq!(
        (&dry["action"], dry["tasks"].as_array().unwrap().len()),
        (&json!("resume"), 5)
    );
    assert_eq!(place.status("t0"), "failed");
    let started = clock::now();
    place.ok("recover --all --status failed --resume");
    let took = clock::now().since(started);
    assert!(took >= Span::from_ms(200), "four pauses of 50 ms");
    for n in 0..5 {
        assert_eq!(place.status(&format!("t{n}")), "assigned");
    }
    assert_eq!(place.status("other"), "blocked");
    assert_eq!(
        place
            .ok("recover --all --status failed --abandon --rate 0")
            .text(),
        "no task waits\n"
    );
}

#[test]
fn half_a_wish_is_wrong_usage() {
    let place = Place::new();
    for words in [
        "recover t",
        "recover --all",
        "recover --resume",
        "recover t --all --resume",
        "recover t --resume --abandon",
        "recover t --resume --reason r",
        "recover t --resume --rate fast",
    ] {
        place.fails(words, 2);
    }
}

#[test]
fn sessions_whose_gateway_died_are_recovered_too() {
    let place = Place::new();
    let gateway = holder(&place);
    place.ok(&format!(
        "session begin cut --id s-1 --owner-pid {}",
        gateway.pid()
    ));
    place.ok(&format!(
        "session begin live --id s-2 --owner-pid {}",
        std::process::id()
    ));
    gateway.kill();
    let list = place.json("recover --dry-run");
    assert_eq!(list["sessions"][0]["key"], "cut");
    assert_eq!(list["sessions"].as_array().unwrap().len(), 1);
    assert!(
        place
            .ok("recover")
            .text()
            .contains("session cut is suspended")
    );
    assert_eq!(place.json("session show live")["state"], "active");
    assert_eq!(place.ok("recover").text().trim(), "nothing to recover");
}

/// Nobody is there who would take it: what is printed does.
#[test]
fn work_that_nobody_would_take_waits_in_the_queue_and_says_what_to_type() {
    let place = Place::new();
    lose(&place, "t");
    let told = "task t is interrupted; it waits in the queue; to continue it: \
                relight task start t";
    assert_eq!(place.ok("recover").text().trim_end(), told);
    let listed = place.ok("recover --dry-run").text();
    assert!(
        listed.contains("waits in the queue for whoever takes it, now: relight task"),
        "{listed}"
    );
    assert_eq!(place.json("task start t")["resumed"], true);
}

/// Its agent is the one that had it last; anybody may take it.
#[test]
fn claimed_work_whose_agent_died_waits_for_whoever_takes_it() {
    let place = Place::new();
    place.ok("task add t");
    let worker = holder(&place);
    place.ok(&format!(
        "task claim --agent writer --owner-pid {}",
        worker.pid()
    ));
    worker.kill();
    place.ok("recover");
    let listed = place.ok("recover --dry-run").text();
    assert!(
        listed.contains("waits in the queue for whoever takes it, now"),
        "{listed}"
    );
    place.ok("task claim --agent other");
}
