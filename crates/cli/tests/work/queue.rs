//! `relight task claim`.

use serde_json::json;

use crate::cases::{Place, at_once};
use crate::given::{config, decisions, holder, lose};

#[test]
fn a_task_that_asks_for_a_skill_is_given_to_who_has_it() {
    let place = Place::new();
    place.ok("task add t --skill gpu --skill rust");
    place
        .fails("task claim --agent a", 1)
        .says(&["there is no task for a"]);
    place.fails("task claim --agent a --skill gpu", 1);
    assert_eq!(
        place.json("task claim --agent a --skill rust --skill gpu")["task"],
        "t"
    );
}

#[test]
fn each_task_is_claimed_once_however_many_ask() {
    let place = Place::new();
    for task in ["t1", "t2", "t3"] {
        place.ok(&format!("task add {task}"));
    }
    let calls = (0..8).map(|n| place.relight(&format!("--json task claim --agent a{n}")));
    let answers = at_once(calls);
    let taken = answers.iter().filter(|answer| answer.code == 0);
    let mut tasks: Vec<String> = taken.map(|it| it.json()["task"].to_string()).collect();
    tasks.sort();
    assert_eq!(tasks, [r#""t1""#, r#""t2""#, r#""t3""#]);
    assert_eq!(answers.iter().filter(|answer| answer.code == 1).count(), 5);
}

#[test]
fn the_task_of_a_killed_process_is_recovered_by_the_next_claim() {
    let place = Place::new();
    lose(&place, "t");
    let claimed = place.json("task claim --agent b");
    assert_eq!(
        (&claimed["task"], &claimed["resumed"]),
        (&json!("t"), &json!(true))
    );
    let task = place.json("task show t");
    assert_eq!((&task["agent"], &task["retries"]), (&json!("b"), &json!(0)));
    assert_eq!(decisions(&place, "t")[0]["cause"], "lost");
    // What was claimed is reassigned, and that is a retry.
    place.ok("task done t");
    place.ok("task add u");
    let holder = holder(&place);
    place.ok(&format!(
        "task claim --agent a --owner-pid {}",
        holder.pid()
    ));
    holder.kill();
    assert_eq!(place.json("task claim --agent b")["task"], "u");
    assert_eq!(place.json("task show u")["retries"], 1);
}

#[test]
fn who_gets_a_task_of_another_agent_is_told_from_whom_and_what_is_in_doubt() {
    let place = Place::new();
    place.ok("task add t");
    assert_eq!(
        place.json("task claim --agent a")["handed_over"],
        json!(null)
    );
    place.ok("step begin one --task t");
    place.ok("task fail t --reason full");
    let told = json!({
        "from": "a", "by": "strategy fail-and-reassign", "reason": "full",
        "in_doubt": ["one"], "failed": [],
    });
    assert_eq!(place.json("task claim --agent b")["handed_over"], told);
    place.ok("task fail t --reason again");
    place.ok("task retry t --agent c --force");
    let text = place.ok("task claim --agent c").text();
    assert!(
        text.contains("handed over from b by a person; in doubt: one"),
        "{text}"
    );
}

#[test]
fn who_claims_a_task_that_a_dead_script_left_is_told_that_no_person_gave_it() {
    let place = Place::new();
    let script = holder(&place);
    place.ok(&format!("task start t --owner-pid {}", script.pid()));
    let of_script = format!("process {}", script.pid());
    script.kill();
    let claimed = place.json("task claim --agent b");
    assert_eq!(claimed["handed_over"]["by"], "a claim by b", "{claimed}");
    assert_eq!(claimed["handed_over"]["from"], of_script.as_str());
}

#[test]
fn a_waiting_claim_is_woken_by_a_new_task() {
    let place = Place::new();
    config(&place, "[queue]\nsweep = \"1h\"\n");
    let mut waiting = place
        .relight("--json task claim --agent a --wait 1h")
        .spawn();
    waiting.until("a store is there", || place.home("relight.db").exists());
    place.ok("task add t");
    assert_eq!(waiting.end().with_code(0).json()["task"], "t");
}

#[test]
fn a_waiting_claim_is_woken_when_a_deferred_task_is_due() {
    let place = Place::new();
    config(&place, "[queue]\nsweep = \"1h\"\n");
    place.ok("task start t");
    place.ok("task defer t --until 300ms");
    assert_eq!(place.json("task claim --agent a --wait 1h")["task"], "t");
}

#[test]
fn a_waiting_claim_finds_a_holder_that_died_meanwhile() {
    let place = Place::new();
    config(&place, "[queue]\nsweep = \"1h\"\n");
    let holder = holder(&place);
    place.ok(&format!("task start t --owner-pid {}", holder.pid()));
    let waiting = place
        .relight("--json task claim --agent b --wait 1h")
        .spawn();
    holder.kill();
    assert_eq!(waiting.end().with_code(0).json()["task"], "t");
}

#[test]
fn waiting_in_vain_ends_with_no_task() {
    let place = Place::new();
    place
        .fails("task claim --agent a --wait 50ms", 1)
        .says(&["there is no task for a"]);
}

#[test]
fn a_strategy_without_a_command_is_refused_when_the_task_is_added() {
    let place = Place::new();
    for words in ["task add t --strategy exec", "task start t --strategy exec"] {
        let said = [
            "there is no strategy",
            "exec = [\"PROGRAM\", …] in [recovery]",
        ];
        place.fails(words, 2).says(&said);
    }
    place.fails("task add t --strategy hope", 2);
    assert_eq!(place.json("task list")["items"], json!([]));
    config(&place, "[recovery]\nexec = [\"true\"]\n");
    place.ok("task add t --strategy exec");
}

#[test]
fn a_broken_configuration_stops_only_who_needs_it() {
    let place = Place::new();
    config(&place, "[recovery]\nstrategy = \"hope\"\n");
    place.ok("task add t --strategy resume");
    place
        .fails("task claim --agent a", 78)
        .says(&["strategy", "hope"]);
    place.ok("task start t");
    place.fails("task fail t --reason r", 78);
    place.fails("recover", 78);
    assert_eq!(place.status("t"), "in_progress");
    place.ok("task show t");
    place.ok("task done t");
    assert_eq!(place.json("inflight")["held"], json!([]));
}

#[test]
fn the_configuration_can_be_named() {
    let place = Place::new();
    std::fs::write(
        place.work("mine.toml"),
        "[recovery]\nstrategy = \"suspend\"\n",
    )
    .unwrap();
    for (task, flag, named) in [("t1", " --config mine.toml", ""), ("t2", "", "mine.toml")] {
        place.ok(&format!("task start {task}"));
        let fail = place.relight(&format!("--json task fail {task} --reason r{flag}"));
        let answer = fail.env("RELIGHT_CONFIG", named).run().with_code(0).json();
        assert_eq!(answer["status"], "suspended", "{task}");
    }
}

#[test]
fn an_agent_that_holds_as_many_as_it_may_gets_no_more() {
    let place = Place::new();
    config(
        &place,
        "[[agent]]\nname = \"a\"\ncommand = [\"true\"]\nconcurrency = 1\nskills = [\"x\"]\n",
    );
    let mut daemon = place.relight("up --paused").spawn();
    daemon.until("the agent is known", || {
        place.json("ps")["items"][0]["name"] == "a"
    });
    place.ok("down");
    daemon.end().with_code(0);
    place.ok("task add t1 --skill x");
    place.ok("task add t2");
    place.ok("task claim --agent a");
    place
        .fails("task claim --agent a", 75)
        .says(&["a holds 1 task already"]);
    place.ok("task done t1");
    place.ok("task claim --agent a");
}

/// Work that an agent started by its name is its own, supervised or not.
#[test]
fn the_task_that_a_killed_agent_started_by_name_waits_for_that_agent() {
    let place = Place::new();
    let first = holder(&place);
    place.ok(&format!(
        "task start t --agent w --owner-pid {}",
        first.pid()
    ));
    place.ok("step run one --task t --fence 1 -- true");
    first.kill();
    place.fails("task claim --agent stranger", 1);
    assert_eq!(decisions(&place, "t")[0]["outcome"], "resume");
    let shown = place.json("task show t");
    assert_eq!(
        (&shown["status"], &shown["agent"]),
        (&json!("interrupted"), &json!("w"))
    );
    place
        .fails("task start t --agent stranger", 1)
        .says(&["belongs to agent w"]);
    let second = holder(&place);
    let again = place.json(&format!(
        "task start t --agent w --owner-pid {}",
        second.pid()
    ));
    assert_eq!(
        (&again["resumed"], &again["handed_over"]),
        (&json!(true), &json!(null))
    );
    assert_eq!(again["done_steps"], json!(["one"]));
    second.kill();
    // It may take it from the queue as well.
    place.fails("task claim --agent stranger", 1);
    let shown = place.json("task show t");
    assert_eq!(
        (&shown["status"], &shown["pinned"]),
        (&json!("interrupted"), &json!(true))
    );
}

/// A script without a name starts its task again; it needs no `task retry` first.
#[test]
fn the_task_that_a_killed_script_started_without_a_name_is_continued_by_that_script() {
    let place = Place::new();
    config(&place, "[recovery]\nmax_attempts = 2\n");
    for death in 1..=2 {
        lose(&place, "t");
        place.ok("recover");
        assert_eq!(place.status("t"), "interrupted", "death {death}");
    }
    assert_eq!(place.json("task start t")["resumed"], true);
    place.ok("task release t --force");
    lose(&place, "t");
    place.ok("recover");
    assert_eq!(place.status("t"), "failed", "its budget has ended");
}

/// As a task whose holder died does. What an agent started by name stays its own.
#[test]
fn a_claimed_task_that_is_released_goes_to_anybody_and_a_pinned_one_to_its_agent() {
    let place = Place::new();
    place.ok("task add t");
    place.ok("task claim --agent w1 --lease 1h");
    place.ok("task release t --fence 1");
    let shown = place.json("task show t");
    let told = (&shown["status"], &shown["agent"], &shown["pinned"]);
    assert_eq!(told, (&json!("assigned"), &json!(null), &json!(false)));
    let claimed = place.json("task claim --agent w2 --lease 1h");
    let told = (&claimed["task"], &claimed["handed_over"]["from"]);
    assert_eq!(told, (&json!("t"), &json!("w1")), "{claimed}");
    place.ok("task start own --agent w1 --lease 1h");
    place.ok("task release own --fence 1");
    place.fails("task claim --agent w2", 1);
    assert_eq!(place.json("task claim --agent w1")["task"], "own");
}

/// What belongs to an agent is offered to nobody else, so the agent itself has the retries.
#[test]
fn an_agent_that_fails_its_own_task_has_the_retries_and_then_an_alert_is_sent() {
    let place = Place::new();
    place.ok("task start t --agent w --max-retries 1");
    let told = place.ok("task fail t --reason first").text();
    assert!(
        told.contains("waits in the queue; to continue it: relight task start t --agent w"),
        "{told}"
    );
    let shown = place.json("task show t");
    assert_eq!(
        (&shown["status"], &shown["retries"]),
        (&json!("interrupted"), &json!(1))
    );
    place.fails("task claim --agent stranger", 1);
    assert_eq!(place.json("task start t --agent w")["resumed"], true);
    place.ok("task fail t --reason second");
    assert_eq!(place.status("t"), "failed");
    let alerts = place.ok("--json events --all --kind alert --task t").text();
    assert_eq!(
        (alerts.lines().count(), alerts.contains("given_up")),
        (1, true),
        "{alerts}"
    );
}

#[test]
fn a_pinned_task_that_fails_while_nobody_works_on_it_sends_an_alert() {
    let place = Place::new();
    place.ok("task start t --agent w");
    place.ok("task review t");
    place.ok("task fail t --reason 'not_good'");
    assert_eq!(place.status("t"), "failed");
    let alerts = place.ok("--json events --all --kind alert --task t").text();
    assert_eq!(alerts.lines().count(), 1, "{alerts}");
}

/// The wait that `recover` names is the queue's; whoever asks by name has the task at once.
#[test]
fn what_recover_says_of_the_wait_is_what_resume_does() {
    let place = Place::new();
    config(&place, "[recovery]\ncooldown = \"1h\"\n");
    place.ok("checkpoint start --workflow w --agent ops --step a --idempotency k");
    for _ in 0..2 {
        let holder = holder(&place);
        place.ok(&format!("checkpoint resume --owner-pid {}", holder.pid()));
        holder.kill();
        let told = place.ok("recover");
        if place.json("task show w")["not_before"].is_string() {
            let text = told.text();
            assert!(text.contains("the queue offers it to ops from "), "{text}");
            assert!(
                text.contains("relight checkpoint resume --workflow w continues it"),
                "{text}"
            );
        }
    }
    assert!(place.json("task show w")["not_before"].is_string());
    place.ok("checkpoint resume");
}
