//! `relight task` from outside.

use crate::cases;

use cases::{Place, kill};
use serde_json::json;

#[test]
fn a_new_task_is_created_with_all_that_was_given() {
    let place = Place::new();
    let call = place
        .relight("--json task add t --step fetch --step write --strategy resume --max-retries 3")
        .args([
            "--title",
            "A title",
            "--payload",
            r#"{"n": [1, 2]}"#,
            "--key",
            "k 1",
        ])
        .args(["--ttl", "2h", "--set", "branch=fix=42", "--set", "stage="]);
    let answer = call.run().with_code(0).json();
    assert_eq!(answer["outcome"], "created");
    assert_eq!(answer["title"], "A title");
    let task = place.json("task show t");
    assert_eq!(task["status"], "created");
    assert_eq!(task["title"], "A title");
    assert_eq!(task["payload"], json!({"n": [1, 2]}));
    assert_eq!(task["steps_declared"], json!(["fetch", "write"]));
    assert_eq!(task["context"], json!({"branch": "fix=42", "stage": ""}));
    assert_eq!(
        (&task["strategy"], &task["max_retries"]),
        (&json!("resume"), &json!(3))
    );
    assert_eq!((&task["key"], &task["fence"]), (&json!("k 1"), &json!(0)));
    assert!(task["expires_at"].as_str().unwrap().ends_with('Z'));
}

#[test]
fn a_task_with_an_agent_is_assigned() {
    let place = Place::new();
    assert_eq!(
        place.json("task add t --agent writer")["status"],
        "assigned"
    );
}

#[test]
fn values_that_cannot_be_are_wrong_usage() {
    let place = Place::new();
    for words in [
        "task add",
        "task add t --payload {",
        "task add t --strategy hope",
        "task add t --max-retries -1",
        "task add t --ttl soon",
        "task add t --set novalue",
        "task add t --step -x",
        "task add t --agent a..b",
        "task defer t",
        "task defer t --until someday",
        "task fail t",
        "task block t",
        "task claim",
        "task set t",
        "task list --status lost",
        "task start t --lease 10",
        "task start t --owner-pid 4294967295",
        "task start t --export --json",
    ] {
        place.fails(words, 2);
    }
    assert_eq!(place.json("task list")["items"], json!([]));
}

#[test]
fn ids_that_could_leave_a_folder_are_wrong_usage() {
    let place = Place::new();
    let long = "x".repeat(10_000);
    for id in [
        "..",
        "a/../b",
        "/etc/x",
        "a b",
        "a\nb",
        "a\u{1b}b",
        "ä",
        "",
        long.as_str(),
    ] {
        place.relight("task add").arg(id).run().with_code(2);
    }
    place.relight("task add -- -x").run().with_code(2);
    place.ok("task add a:b@c.d_e/f-1");
}

#[test]
fn the_same_id_again_is_a_no_op_when_nothing_differs() {
    let place = Place::new();
    place.ok("task add t --title a --step s --agent w");
    let again = place.json("task add t --title a --step s --agent w");
    assert_eq!(again["outcome"], "unchanged");
    assert_eq!(again["seq"], 1);
}

#[test]
fn the_same_id_with_something_else_is_refused_by_name() {
    let place = Place::new();
    place.ok("task add t --title a");
    place
        .fails("task add t --title b", 1)
        .says(&["task t", "title", "relight task show t"]);
    assert_eq!(place.json("task show t")["title"], "a");
}

#[test]
fn the_same_id_with_another_lifetime_is_refused() {
    let place = Place::new();
    place.ok("task add t --ttl 1h");
    place.fails("task add t --ttl 2d", 1).says(&["ttl"]);
}

#[test]
fn a_key_of_another_task_answers_with_that_task() {
    let place = Place::new();
    place.ok("task add first --key k");
    let answer = place.json("task add second --key k");
    assert_eq!(
        (&answer["outcome"], &answer["id"]),
        (&json!("key_taken"), &json!("first"))
    );
    place.fails("task show second", 1).says(&["second"]);
}

#[test]
fn starting_with_a_key_of_another_task_goes_on_with_that_task() {
    let place = Place::new();
    place.ok("task add first --key k");
    assert_eq!(place.json("task start second --key k")["task"], "first");
}

#[test]
fn start_adds_an_absent_task_and_takes_the_lease() {
    let place = Place::new();
    let answer = place.json("task start t --step a --step b");
    assert_eq!(answer["task"], "t");
    assert_eq!(
        (&answer["fence"], &answer["resumed"]),
        (&json!(1), &json!(false))
    );
    assert_eq!(
        (&answer["done_steps"], &answer["in_doubt"]),
        (&json!([]), &json!([]))
    );
    assert_eq!(answer["next_step"], "a");
    assert_eq!(place.status("t"), "in_progress");
}

#[test]
fn a_second_start_names_the_holder_and_its_age() {
    let place = Place::new();
    place.ok("task start t --lease 1h");
    let answer = place.fails("task start t", 75);
    assert!(answer.stdout.is_empty());
    let age = answer.stderr.split(" for ").nth(1).unwrap();
    assert!(
        age.starts_with(|c: char| c.is_ascii_digit()),
        "{}",
        answer.stderr
    );
    answer.says(&["task t", "tester", "relight task release t --force"]);
}

#[test]
fn errors_are_json_on_standard_error_when_json_is_wanted() {
    let place = Place::new();
    place.ok("task start t");
    let answer = place.fails("--json task start t", 75);
    assert!(answer.stdout.is_empty());
    let error = answer.error();
    assert_eq!(
        (&error["code"], &error["exit"], &error["status"]),
        (&json!("held"), &json!(75), &json!(409))
    );
    assert!(
        answer.error()["hint"]
            .as_str()
            .unwrap()
            .contains("task release t --force")
    );
}

#[test]
fn the_fence_continues_ones_own_lease() {
    let place = Place::new();
    place.ok("task start t --lease 1h");
    let again = place.json("task start t --fence 1");
    assert_eq!(
        (&again["fence"], &again["resumed"]),
        (&json!(1), &json!(true))
    );
}

#[test]
fn the_task_of_a_killed_owner_is_taken_over_at_once() {
    let place = Place::new();
    let mut owner = place.shell("echo up; exec sleep 50").spawn();
    owner.line();
    let start = format!("task start t --step a --owner-pid {}", owner.pid());
    assert_eq!(place.json(&start)["resumed"], false);
    place
        .fails("task start t", 75)
        .says(&[&format!("process {}", owner.pid())]);
    owner.kill();
    let taken = place.json("task start t");
    assert_eq!(
        (&taken["resumed"], &taken["fence"]),
        (&json!(true), &json!(2))
    );
}

#[test]
fn the_same_owner_continues_its_lease() {
    let place = Place::new();
    let start = format!("task start t --owner-pid {}", std::process::id());
    assert_eq!(place.json(&start)["fence"], 1);
    assert_eq!(place.json(&start)["fence"], 1);
}

#[test]
fn a_frozen_holders_late_write_is_refused_after_somebody_took_over() {
    let place = Place::new();
    place.ok("task start t --lease 1s");
    let taken = (0..5_000).find(|_| place.relight("task start t --lease 1h").run().code == 0);
    assert!(taken.is_some(), "the lease never ran out");
    let before = place.json("task show t");
    for late in [
        "task set t a=b",
        "task done t",
        "task fail t --reason r",
        "task block t --reason r",
        "task review t",
        "task defer t --until 1h",
        "task release t",
        "step begin s --task t",
        "step end s --task t",
        "step run s --task t",
    ] {
        let call = place.relight(late).args(["--fence", "1"]);
        let call = if late.starts_with("step run") {
            call.args(["--", "true"])
        } else {
            call
        };
        call.run().with_code(77).says(&["task t", "fence 1"]);
    }
    assert_eq!(place.json("task show t")["seq"], before["seq"]);
}

#[test]
fn a_lease_that_ran_out_and_nobody_took_is_still_good() {
    let place = Place::new();
    place.ok("task start t --lease 1ms");
    place.ok("task set t a=b --fence 1");
}

#[test]
fn every_write_renews_a_time_lease() {
    let place = Place::new();
    place.ok("task start t --lease 1h");
    let left = || {
        place.json("task show t")["holder"]["left_ms"]
            .as_u64()
            .unwrap()
    };
    let aged = (0..5_000)
        .map(|_| left())
        .find(|left| *left < 3_600_000 - 2_000)
        .unwrap();
    place.ok("task set t a=b --fence 1");
    assert!(left() > aged);
}

#[test]
fn claim_takes_created_tasks_and_those_of_the_agent_only() {
    let place = Place::new();
    place.ok("task add theirs --agent other");
    place.ok("task add ours --agent me");
    place.ok("task add free");
    let claim = || place.relight("--json task claim --agent me").run();
    let mut taken = [claim(), claim()].map(|answer| answer.with_code(0).json()["task"].to_string());
    taken.sort();
    assert_eq!(taken, [r#""free""#, r#""ours""#]);
    let none = claim().with_code(1);
    assert!(none.stdout.is_empty());
    assert_eq!(place.json("task show free")["agent"], "me");
}

#[test]
fn claim_answers_like_start() {
    let place = Place::new();
    place.ok("task add t --step a");
    let answer = place.json("task claim --agent me");
    assert_eq!(
        (&answer["fence"], &answer["resumed"]),
        (&json!(1), &json!(false))
    );
    assert_eq!(answer["next_step"], "a");
}

#[test]
fn claim_takes_a_failed_task_again_while_retries_are_left() {
    let place = Place::new();
    place.ok("task start t");
    place.ok("task fail t --reason x");
    assert_eq!(place.json("task claim --agent me")["task"], "t");
    place.ok("task fail t --reason x");
    place.fails("task claim --agent me", 1);
}

#[test]
fn claim_passes_over_deferred_tasks_and_held_ones() {
    let place = Place::new();
    place.ok("task start held");
    place.ok("task start later");
    place.ok("task defer later --until 1h");
    place.fails("task claim --agent me", 1);
}

#[test]
fn claim_passes_over_expired_tasks() {
    let place = Place::new();
    place.ok("task add t --ttl 1ms");
    place.fails("task claim --agent me", 1);
}

#[test]
fn a_waiting_claim_wakes_when_another_process_adds_a_task() {
    let place = Place::new();
    let mut claim = place
        .relight("--json task claim --agent me --wait 50s")
        .spawn();
    claim.until("it has opened the store", || {
        place.home("redact.key").exists()
    });
    place.ok("task add t");
    assert_eq!(claim.end().with_code(0).json()["task"], "t");
}

#[test]
fn a_claim_that_waited_in_vain_says_no() {
    Place::new()
        .fails("task claim --agent me --wait 50ms", 1)
        .says(&["no task for me"]);
}

#[test]
fn context_is_kept_for_the_successor() {
    let place = Place::new();
    place.ok("task start t");
    place.ok("task set t branch=fix-42 stage=review");
    place.ok("task set t stage=");
    assert_eq!(
        place.json("task show t")["context"],
        json!({"branch": "fix-42", "stage": ""})
    );
    place.fails("task set nobody a=b", 1);
}

#[test]
fn task_and_fence_default_to_the_environment() {
    let place = Place::new();
    place.ok("task start t");
    let inside = |words: &str, fence: &str| {
        place
            .relight(words)
            .env("RELIGHT_TASK", "t")
            .env("RELIGHT_FENCE", fence)
            .run()
    };
    inside("task set a=b", "1").with_code(0);
    inside("task set a=c", "7").with_code(77);
    inside("step begin s", "1").with_code(0);
    inside("step end s", "1").with_code(0);
    inside("task done", "1").with_code(0);
    assert_eq!(place.json("task show t")["context"]["a"], "b");
    assert_eq!(place.status("t"), "completed");
    inside("task done", "one")
        .with_code(2)
        .says(&["RELIGHT_FENCE"]);
    place.fails("task done", 2).says(&["RELIGHT_TASK"]);
}

#[test]
fn the_fence_of_ones_own_task_is_not_shown_to_another() {
    let place = Place::new();
    place.ok("task start mine");
    place.ok("task add other");
    let inside = place.relight("task set other a=b");
    inside
        .env("RELIGHT_TASK", "mine")
        .env("RELIGHT_FENCE", "1")
        .run()
        .with_code(0);
}

#[test]
fn exported_lines_are_literal_in_a_real_shell() {
    let place = Place::new();
    let step = r#"it's $(touch pwned) `touch pwned` "x"; \ * & é"#;
    place
        .relight("task add t --step")
        .arg(step)
        .run()
        .with_code(0);
    let script = r#"eval "$(relight task start t --owner-pid $$ --export)"
        printf '%s|%s|%s|%s' "$RELIGHT_TASK" "$RELIGHT_FENCE" "$RELIGHT_RESUMED" "$RELIGHT_NEXT_STEP"
        sh -c 'test -n "$RELIGHT_FENCE"' && relight -q task done --force"#;
    let answer = place.shell(script).run().with_code(0);
    assert_eq!(answer.text(), format!("t|1|0|{step}"));
    assert!(!place.work("pwned").exists());
    assert_eq!(place.status("t"), "completed");
}

#[test]
fn a_continued_task_exports_that_it_is_resumed() {
    let place = Place::new();
    place.ok("task start t --step a --step b");
    place.ok("step begin a --task t");
    place.ok("step end a --task t");
    place.ok("task release t --force");
    let answer = place.ok("task start t --export").text();
    assert!(answer.contains("export RELIGHT_RESUMED='1'\n"), "{answer}");
    assert!(answer.contains("export RELIGHT_NEXT_STEP='b'"), "{answer}");
}

#[test]
fn the_step_in_doubt_is_next() {
    let place = Place::new();
    place.ok("task start t --step a --step b --lease 1ms");
    place.ok("step begin b --task t");
    let answer = place.json("task start t");
    assert_eq!(
        (&answer["in_doubt"], &answer["next_step"]),
        (&json!(["b"]), &json!("b"))
    );
}

/// Brings a task into a status by the shortest way.
fn bring(place: &Place, id: &str, status: &str) {
    let way: &[&str] = match status {
        "created" => &["add"],
        "assigned" => &["add --agent me"],
        "in_progress" => &["start"],
        "in_review" => &["start", "review"],
        "blocked" => &["start", "block --reason r"],
        "deferred" => &["start", "defer --until 1h"],
        "failed" => &["start", "fail --reason r"],
        "completed" => &["start", "done"],
        "cancelled" => &["add", "cancel"],
        _ => panic!("no verb leads to {status}"),
    };
    for verb in way {
        let (verb, rest) = verb.split_once(' ').unwrap_or((verb, ""));
        place.ok(&format!("task {verb} {id} {rest}"));
    }
    assert_eq!(place.status(id), status);
}

const REACHED: [&str; 9] = [
    "created",
    "assigned",
    "in_progress",
    "in_review",
    "blocked",
    "deferred",
    "failed",
    "completed",
    "cancelled",
];

/// Tries a verb in every status that verbs lead to; the table alone says where it works.
fn goes_by_the_table(verb: &str, to: &str) {
    let place = Place::new();
    let table = place.json("task states")["items"].clone();
    for from in REACHED {
        let id = format!("{from}-task");
        bring(&place, &id, from);
        let row = table
            .as_array()
            .into_iter()
            .flatten()
            .find(|row| row["from"] == from);
        let nexts = row
            .and_then(|row| row["to"].as_array())
            .expect("a row for each status");
        let allowed = nexts.contains(&json!(to));
        let (verb, rest) = verb.split_once(' ').unwrap_or((verb, ""));
        let answer = place.relight(&format!("task {verb} {id} {rest}")).run();
        if allowed {
            answer.with_code(0);
            assert_eq!(place.status(&id), to, "from {from}");
        } else {
            let why = match from {
                "blocked" => "waits for a person",
                _ => to,
            };
            answer.with_code(1).says(&[from, why]);
            assert_eq!(place.status(&id), from);
        }
    }
}

#[test]
fn done_goes_by_the_table() {
    goes_by_the_table("done", "completed");
}

#[test]
fn review_goes_by_the_table() {
    goes_by_the_table("review", "in_review");
}

#[test]
fn fail_goes_by_the_table() {
    goes_by_the_table("fail --reason r", "failed");
}

#[test]
fn block_goes_by_the_table() {
    goes_by_the_table("block --reason r", "blocked");
}

#[test]
fn defer_goes_by_the_table() {
    goes_by_the_table("defer --until 1h", "deferred");
}

#[test]
fn cancel_goes_by_the_table() {
    goes_by_the_table("cancel", "cancelled");
}

#[test]
fn retry_goes_by_the_table() {
    goes_by_the_table("retry --force", "assigned");
}

#[test]
fn start_of_a_finished_task_names_its_status() {
    let place = Place::new();
    for (status, told) in [
        ("completed", "it has ended"),
        ("cancelled", "it has ended"),
        ("failed", "in_progress"),
    ] {
        bring(&place, status, status);
        place
            .fails(&format!("task start {status}"), 1)
            .says(&[status, told]);
    }
}

#[test]
fn start_goes_on_with_what_waits() {
    let place = Place::new();
    for status in ["deferred", "in_review"] {
        bring(&place, status, status);
        assert_eq!(place.json(&format!("task start {status}"))["resumed"], true);
    }
}

#[test]
fn a_task_that_fails_twice_stays_failed() {
    let place = Place::new();
    bring(&place, "t", "failed");
    place.ok("task retry t --agent other");
    assert_eq!(place.json("task show t")["agent"], "other");
    place.ok("task start t");
    place.ok("task fail t --reason again");
    place.fails("task retry t", 1).says(&["1 of 1", "--force"]);
    place.ok("task retry t --force");
    assert_eq!(place.status("t"), "assigned");
}

#[test]
fn a_task_with_no_retries_is_never_retried() {
    let place = Place::new();
    place.ok("task start t --max-retries 0");
    place.ok("task fail t --reason x");
    place.fails("task retry t", 1);
    place.fails("task claim --agent me", 1);
}

#[test]
fn a_persons_verbs_fence_the_holder_off() {
    for verb in ["cancel t", "retry t --force", "release t --force"] {
        let place = Place::new();
        place.ok("task start t");
        place.ok(&format!("task {verb}"));
        place.fails("task set t a=b --fence 1", 77);
    }
}

#[test]
fn a_persons_verbs_need_no_fence_even_where_a_stale_one_is_set() {
    let place = Place::new();
    place.ok("task start t");
    let call = place.relight("task cancel t");
    call.env("RELIGHT_TASK", "t")
        .env("RELIGHT_FENCE", "99")
        .run()
        .with_code(0);
}

#[test]
fn release_gives_the_lease_back() {
    let place = Place::new();
    place.ok("task start t");
    place
        .fails("task release t", 75)
        .says(&["tester", "--force"]);
    place.ok("task release t --fence 1");
    assert_eq!(place.json("task show t")["holder"], json!(null));
    assert_eq!(place.status("t"), "assigned");
    place.ok("task start t");
}

#[test]
fn a_released_task_can_be_claimed_by_anybody() {
    let place = Place::new();
    place.ok("task start t");
    place.ok("task release t --fence 1");
    assert_eq!(place.json("task claim --agent me")["task"], "t");
}

#[test]
fn reasons_are_shown() {
    let place = Place::new();
    place.ok("task start t");
    place
        .relight("task block t --reason")
        .arg("needs a\u{1b}[31m look")
        .run()
        .with_code(0);
    assert_eq!(
        place.json("task show t")["reason"],
        "needs a\u{1b}[31m look"
    );
    let text = place.ok("task show t").text();
    assert!(text.contains("blocked: needs a\\u{1b}[31m look"), "{text}");
}

#[test]
fn a_deferred_task_says_until_when() {
    let place = Place::new();
    place.ok("task start t");
    let answer = place.json("task defer t --until 2099-01-02T03:04:05Z");
    assert_eq!(answer["not_before"], "2099-01-02T03:04:05Z");
}

#[test]
fn list_filters_by_status_and_agent() {
    let place = Place::new();
    for status in REACHED {
        bring(&place, status, status);
    }
    let ids = |words: &str| {
        let items = place.json(&format!("task list {words}"))["items"].clone();
        items
            .as_array()
            .unwrap()
            .iter()
            .map(|t| t["id"].as_str().unwrap().to_owned())
            .collect()
    };
    let all: Vec<String> = ids("");
    assert_eq!(all, REACHED);
    let two: Vec<String> = ids("--status blocked --status failed");
    assert_eq!(two, ["blocked", "failed"]);
    let mine: Vec<String> = ids("--agent me");
    assert_eq!(mine, ["assigned"]);
}

#[test]
fn a_long_list_says_where_to_go_on() {
    let place = Place::new();
    for id in ["a", "b", "c"] {
        place.ok(&format!("task add {id}"));
    }
    let first = place.json("task list --limit 2");
    assert_eq!(
        (first["items"].as_array().unwrap().len(), &first["next"]),
        (2, &json!("b"))
    );
    let rest = place.json("task list --limit 2 --after b");
    assert_eq!(
        (&rest["items"][0]["id"], &rest["next"]),
        (&json!("c"), &json!(null))
    );
}

#[test]
fn a_task_whose_holder_is_gone_is_not_called_running() {
    let place = Place::new();
    let mut owner = place.shell("echo up; exec sleep 50").spawn();
    owner.line();
    place.ok(&format!("task start t --owner-pid {}", owner.pid()));
    kill(owner.pid());
    owner.end().with_code(137);
    assert_eq!(place.json("task show t")["holder"]["alive"], false);
    assert!(place.ok("task list").text().contains("gone"));
}

#[test]
fn the_table_of_transitions_is_the_contracts() {
    let table = Place::new().json("task states");
    let row = |row: &serde_json::Value| {
        let to: Vec<&str> = row["to"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|s| s.as_str())
            .collect();
        format!("{}: {}", row["from"].as_str().unwrap(), to.join(" "))
    };
    let rows: Vec<String> = table["items"].as_array().unwrap().iter().map(row).collect();
    insta::assert_snapshot!(rows.join("\n"), @r"
    created: assigned in_progress blocked failed cancelled
    assigned: in_progress created blocked deferred interrupted suspended failed cancelled
    in_progress: in_review completed assigned blocked deferred interrupted suspended failed cancelled
    in_review: completed in_progress blocked failed cancelled
    blocked: assigned in_progress in_review failed cancelled
    deferred: assigned in_progress suspended failed cancelled
    interrupted: assigned in_progress suspended failed cancelled
    suspended: assigned in_progress suspended failed cancelled
    failed: assigned cancelled
    completed: 
    cancelled: 
    ");
}

#[test]
fn free_text_may_begin_with_a_dash() {
    let place = Place::new();
    place
        .relight("task start t --title")
        .arg("- first")
        .run()
        .with_code(0);
    place
        .relight("task fail t --reason")
        .arg("-1 is not an answer")
        .run()
        .with_code(0);
}

#[test]
fn a_title_cannot_forge_a_row() {
    let place = Place::new();
    place
        .relight("task add t --title")
        .arg("a\nu  completed")
        .run()
        .with_code(0);
    assert_eq!(place.ok("task list").text().lines().count(), 2);
}

#[test]
fn texts_over_their_limits_are_refused_and_nothing_is_written() {
    let place = Place::new();
    let long = "x".repeat(70_000);
    place
        .relight("task add t --title")
        .arg(&long)
        .run()
        .with_code(65)
        .says(&["title", "1024"]);
    place.fails("task show t", 1);
    place
        .relight("task add t --skill")
        .arg(&long)
        .run()
        .with_code(65)
        .says(&["skill"]);
    place.fails("task show t", 1);
    place.ok("task add t --agent a");
    let before = place.json("task show t");
    place
        .relight("task set t")
        .arg(&format!("{long}=v"))
        .run()
        .with_code(65)
        .says(&["key"]);
    for words in ["block", "cancel", "fail", "defer --until 1h"] {
        let refused = place
            .relight(&format!("task {words} t --reason"))
            .arg(&long)
            .run();
        refused.with_code(65).says(&["reason has 70000 bytes"]);
    }
    place
        .relight("session suspend s --reason")
        .arg(&long)
        .run()
        .with_code(65);
    place
        .relight("checkpoint start --workflow w --agent a --step s --idempotency k --remaining x --notes")
        .arg(&"x".repeat(100_000))
        .run()
        .with_code(65);
    assert_eq!(place.json("task show t"), before);
    assert_eq!(place.ok("task list").text().lines().count(), 2);
}

#[test]
fn an_unknown_task_is_a_plain_no() {
    let place = Place::new();
    for words in [
        "show x",
        "done x",
        "cancel x",
        "retry x",
        "release x",
        "set x a=b",
    ] {
        place
            .fails(&format!("task {words}"), 1)
            .says(&["there is no task x", "relight task list"]);
    }
}

#[test]
fn quiet_says_nothing_but_errors() {
    let place = Place::new();
    let answer = place.ok("-q task add t");
    assert!(answer.stdout.is_empty() && answer.stderr.is_empty());
    assert!(
        !place
            .fails("-q task add t --title other", 1)
            .stderr
            .is_empty()
    );
}

#[test]
fn a_task_is_not_done_over_open_or_failed_declared_steps() {
    let place = Place::new();
    place.ok("task start t --step build --step push --step tell");
    place.ok("step run build --task t -- true");
    place.fails("step run push --task t -- false", 1);
    let refused = place.fails("--json task done t", 1).error();
    assert_eq!(
        (&refused["code"], &refused["exit"]),
        (&json!("steps_left_open"), &json!(1))
    );
    let message = refused["message"].as_str().unwrap();
    assert!(
        message.contains("push, tell") && !message.contains("build"),
        "{message}"
    );
    assert_eq!(place.status("t"), "in_progress");
    place.ok("step run push --task t -- true");
    place
        .fails("task done t", 1)
        .says(&["tell", "relight step skip", "--force"]);
    place.ok("step skip tell --task t --reason nobody-listens");
    place.ok("task done t");
    assert_eq!(place.status("t"), "completed");
}

#[test]
fn by_force_a_task_is_done_and_what_was_left_is_recorded() {
    let place = Place::new();
    place.ok("task start t --step build --step push");
    place.ok("step begin build --task t");
    place.ok("task done t --force");
    let shown = place.json("task show t");
    assert_eq!(shown["status"], "completed");
    assert_eq!(shown["reason"], "steps left open: build, push");
}

#[test]
fn steps_that_nobody_declared_do_not_count_for_those_that_were() {
    let place = Place::new();
    place.ok("task start t --step a --step b");
    for name in ["x", "y", "a"] {
        place.ok(&format!("step run {name} --task t -- true"));
    }
    let text = place.ok("task list").text();
    assert!(text.contains(" 1/2 "), "{text}");
    let listed = place.json("task list");
    assert_eq!(listed["items"][0]["steps_declared_done"], 1);
    place.fails("task done t", 1).says(&["not finished: b"]);
    place.ok("step skip b --task t --reason no");
    let text = place.ok("task list").text();
    assert!(text.contains(" 2/2 "), "{text}");
    assert_eq!(place.json("task show t")["steps_declared_done"], 2);
}

#[test]
fn what_waits_for_a_person_is_started_by_force_alone() {
    let place = Place::new();
    place.ok("task start suspended --strategy suspend");
    place.ok("task fail suspended --reason why");
    place.ok("task start blocked");
    place.ok("task block blocked --reason why");
    for id in ["suspended", "blocked"] {
        assert_eq!(place.status(id), id);
        place.fails(&format!("task start {id}"), 1).says(&[
            &format!("is {id} and waits for a person"),
            "relight task retry",
            "--force",
        ]);
        assert_eq!(place.status(id), id);
        place.ok(&format!("task start {id} --force"));
        assert_eq!(place.status(id), "in_progress");
    }
}

#[test]
fn a_task_that_used_up_its_attempts_is_started_by_force_or_after_a_retry() {
    let place = Place::new();
    std::fs::write(place.work("relight.toml"), "[queue]\nattempts_max = 2\n").unwrap();
    let begin_and_die = |words: &str| {
        place
            .shell(&format!("relight task start t --owner-pid $$ {words}"))
            .run()
    };
    begin_and_die("").with_code(0);
    begin_and_die("").with_code(0);
    begin_and_die("")
        .with_code(1)
        .says(&["used up", "started 2 times", "--force"]);
    begin_and_die("--force").with_code(0);
    begin_and_die("").with_code(1);
    place.ok("task retry t");
    begin_and_die("").with_code(0);
}

#[test]
fn a_release_does_not_give_back_the_start_it_used() {
    let place = Place::new();
    std::fs::write(place.work("relight.toml"), "[queue]\nattempts_max = 2\n").unwrap();
    place.ok("task add queued --agent a");
    for fence in 1..=2 {
        place.ok("task start t");
        place.ok(&format!("task release t --fence {fence}"));
        place.ok("task claim --agent a");
        place.ok("task release queued --force");
    }
    let refused = place.fails("task start t", 1);
    refused.says(&["used up", "started 2 times"]);
    place.fails("task claim --agent a", 1);
    let parked = place.json("task show queued");
    assert_eq!(
        (&parked["status"], &parked["starts"]),
        (&json!("suspended"), &json!(2))
    );
    place.ok("task retry t");
    place.ok("task start t");
    assert_eq!(place.json("task show t")["starts"], 3);
}

#[test]
fn retry_leaves_work_with_its_live_holder() {
    let place = Place::new();
    place.ok("task start t --lease 1h");
    place.fails("task retry t", 75).says(&["held by"]);
    place.fails("task retry t --agent other", 75);
    assert_eq!(place.status("t"), "in_progress");
    place.ok("task set t a=b --fence 1");
    place.ok("task retry t --force --agent other");
    assert_eq!(place.status("t"), "assigned");
    place.fails("task set t a=c --fence 1", 77);
}

#[test]
fn a_lifetime_of_0s_is_none() {
    let place = Place::new();
    assert_eq!(place.json("task add t --ttl 0s")["expires_at"], json!(null));
}

#[test]
fn adding_a_task_that_has_ended_says_that_nothing_was_added() {
    let place = Place::new();
    for (id, verb) in [("completed", "done"), ("cancelled", "cancel")] {
        place.ok(&format!("task start {id}"));
        place.ok(&format!("task {verb} {id}"));
        let refused = place.fails(&format!("task add {id}"), 1);
        refused.says(&[&format!("task {id} is {id}; nothing was added"), "a new id"]);
    }
}

#[test]
fn whoever_is_refused_hears_which_agent_has_the_task() {
    let place = Place::new();
    let nobody = |words: &str| place.relight(words).without("USER");
    nobody("task add t").run().with_code(0);
    nobody("task claim --agent writer").run().with_code(0);
    nobody("task start t")
        .run()
        .with_code(75)
        .says(&["held by agent writer"]);
    let mut sleeper = place.shell("echo; exec sleep 50").spawn();
    sleeper.line();
    nobody(&format!(
        "task start u --agent painter --owner-pid {}",
        sleeper.pid()
    ))
    .run();
    let refused = nobody("task start u --agent painter").run().with_code(75);
    refused.says(&[&format!(
        "held by agent painter (process {})",
        sleeper.pid()
    )]);
    sleeper.kill();
}

#[test]
fn exported_lines_carry_the_context_and_drop_that_of_the_task_before() {
    let place = Place::new();
    let script = r#"
        eval "$(relight task start one --set 'pull-request=it'"'"'s $(touch pwned)' --set branch=b --owner-pid $$ --export)"
        printf '%s|%s|%s\n' "$RELIGHT_CONTEXT_PULL_REQUEST" "$RELIGHT_CONTEXT_BRANCH" "$RELIGHT_CONTEXT"
        eval "$(relight task start two --set branch=c --owner-pid $$ --export)"
        printf '%s|%s|%s\n' "${RELIGHT_CONTEXT_PULL_REQUEST-none}" "$RELIGHT_CONTEXT_BRANCH" "$RELIGHT_CONTEXT"
    "#;
    let text = place.shell(script).run().with_code(0).text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[0],
        r#"it's $(touch pwned)|b|{"branch":"b","pull-request":"it's $(touch pwned)"}"#
    );
    assert_eq!(lines[1], r#"none|c|{"branch":"c"}"#);
    assert!(!place.work("pwned").exists());
}

#[test]
fn a_context_that_is_too_large_for_commands_is_not_exported() {
    let place = Place::new();
    place.ok("task add t --set small=1");
    let pair = format!("large={}", "x".repeat(100_000));
    place.relight("task set t").arg(&pair).run().with_code(0);
    let script = r#"eval "$(relight task start t --owner-pid $$ --export)"
        printf '%s|%s' "$RELIGHT_CONTEXT" "${RELIGHT_CONTEXT_SMALL-none}""#;
    let answer = place
        .shell(script)
        .run()
        .with_code(0)
        .says(&["is not exported"]);
    assert_eq!(answer.text(), "|none");
}

#[test]
fn a_loop_outside_of_run_has_a_state_file_that_follows_its_task() {
    let place = Place::new();
    let script = r#"
        eval "$(relight task start t --agent writer --set issue=42 --owner-pid $$ --export)"
        cat "$RELIGHT_STATE_FILE"; relight -q task set stage=review; cat "$RELIGHT_STATE_FILE"
        relight -q task done; test ! -e "$RELIGHT_STATE_FILE""#;
    let text = place.shell(script).run().with_code(0).text();
    let states: Vec<serde_json::Value> = serde_json::Deserializer::from_str(&text)
        .into_iter()
        .collect::<Result<_, _>>()
        .unwrap();
    let [first, second] = states.as_slice() else {
        panic!("{text}")
    };
    assert_eq!(
        (&first["task_id"], &first["agent"]),
        (&json!("t"), &json!("writer"))
    );
    assert_eq!(
        (&first["issue_number"], &first["attempt"]),
        (&json!(42), &json!(null))
    );
    assert_eq!(
        (&first["progress_stage"], &second["progress_stage"]),
        (&json!(null), &json!("review"))
    );
}

#[test]
fn refusals_have_the_codes_of_the_api() {
    let place = Place::new();
    place.ok("task start b");
    place.ok("task block b --reason look");
    place.ok("task start d");
    place.ok("task done d");
    for (words, code, status) in [
        ("task start b", "waits_for_person", 409),
        ("task add d", "ended", 409),
        ("deaths nobody", "not_found", 404),
        (
            "checkpoint update --workflow none --step s",
            "not_found",
            404,
        ),
    ] {
        let error = place.fails(&format!("--json {words}"), 1).error();
        assert_eq!(
            (&error["code"], &error["status"]),
            (&json!(code), &json!(status)),
            "{words}"
        );
    }
}

/// Also while nobody holds it: otherwise another agent could complete it without being told anything.
#[test]
fn another_agent_works_on_no_pinned_task_that_nobody_holds() {
    let place = Place::new();
    let pin = "relight step run s1 -- false; kill -9 $$";
    place
        .relight("run --name pin --task book --restart never -- sh -c")
        .arg(pin)
        .run();
    let verbs = [
        "step run s1 --task book -- true",
        "step begin s2 --task book",
        "task done book",
    ];
    for verb in verbs {
        let refused = place
            .relight(verb)
            .env("RELIGHT_AGENT", "other")
            .run()
            .with_code(1);
        refused.says(&["belongs to agent pin, not to other"]);
    }
    place
        .relight(verbs[0])
        .env("RELIGHT_AGENT", "pin")
        .run()
        .with_code(0);
    place.ok(verbs[2]);
}

#[test]
fn an_agent_moves_no_work_that_waits_for_a_person() {
    let place = Place::new();
    place.ok("task add b");
    place.ok("task block b --reason look");
    for verb in ["task review b", "task fail b --reason r"] {
        for variable in ["RELIGHT_AGENT", "RELIGHT_ATTEMPT"] {
            let refused = place.relight(verb).env(variable, "bot").run();
            refused
                .with_code(1)
                .says(&["task b is blocked and waits for a person"]);
        }
    }
    assert_eq!(place.status("b"), "blocked");
    place
        .relight("task review b --force")
        .env("RELIGHT_AGENT", "bot")
        .run()
        .with_code(0);
    assert_eq!(place.status("b"), "in_review");
}

#[test]
fn an_agent_starts_what_is_its_own_or_nobodys() {
    let place = Place::new();
    place.ok("task add p --agent a");
    let refused = place.fails("task start p --agent b", 1);
    refused.says(&[
        "belongs to agent a, not to b",
        "relight task retry p --agent b",
    ]);
    let by_variable = place
        .relight("task start p")
        .env("RELIGHT_AGENT", "b")
        .run();
    by_variable
        .with_code(1)
        .says(&["belongs to agent a, not to b"]);
    place.ok("task add u");
    assert_eq!(place.json("task start u --agent w")["agent"], "w");
    let shown = place.json("task show u");
    assert_eq!(
        (&shown["agent"], &shown["pinned"]),
        (&json!("w"), &json!(true))
    );
    place.ok("task release u --force");
    assert_eq!(
        place.json("task start u --agent w")["handed_over"],
        json!(null)
    );
    place.ok("task retry p --agent b");
    assert_eq!(place.json("task start p --agent b")["agent"], "b");
}

#[test]
fn a_person_may_start_an_agents_task_and_is_told_whose_it_was() {
    let place = Place::new();
    place.ok("task start t --agent a");
    place.ok("task release t --force");
    let by_person = place.json("task start t");
    assert_eq!(
        (&by_person["agent"], &by_person["handed_over"]["from"]),
        (&json!("a"), &json!("a"))
    );
    assert_eq!(by_person["handed_over"]["by"], "a person");
    place.ok("task release t --force");
    assert_eq!(
        place.json("task start t")["handed_over"],
        json!(null),
        "it had it before"
    );
    place.ok("task release t --force");
    let back = place.json("task start t --agent a");
    assert_eq!(back["handed_over"]["by"], "a person", "{back}");
    place.ok("task release t --force");
    assert_eq!(
        place.json("task start t --agent a")["handed_over"],
        json!(null)
    );
}

/// The lease goes on for its own holder; that the named process is not it must not be overlooked.
#[test]
fn a_named_owner_is_refused_while_the_lease_of_the_shown_fence_has_another_holder() {
    let place = Place::new();
    place.ok("task start t --lease 1h");
    let mut owner = place.shell("echo up; exec sleep 300").spawn();
    owner.line();
    let named = format!("task start t --fence 1 --owner-pid {}", owner.pid());
    place
        .fails(&named, 75)
        .says(&["has been held by", "relight task release t --force"]);
    place.ok("task release t --force");
    place.ok(&named.replace(" --fence 1", ""));
    assert_eq!(place.json("task show t")["holder"]["pid"], owner.pid());
    place.ok(&named.replace("--fence 1", "--fence 3"));
    owner.kill();
}

#[test]
fn a_named_owner_takes_over_from_a_dead_one_whose_fence_was_inherited() {
    let place = Place::new();
    let spawn = || {
        let mut owner = place.shell("echo up; exec sleep 300").spawn();
        owner.line();
        owner
    };
    let (first, second) = (spawn(), spawn());
    let pid = second.pid();
    place.ok(&format!("task start t --owner-pid {}", first.pid()));
    first.kill();
    let again = place.relight(&format!("--json task start t --owner-pid {pid}"));
    let again = again
        .env("RELIGHT_TASK", "t")
        .env("RELIGHT_FENCE", "1")
        .run()
        .with_code(0)
        .json();
    assert_eq!(
        (&again["fence"], &again["resumed"]),
        (&json!(2), &json!(true))
    );
    assert_eq!(place.json("task show t")["holder"]["pid"], pid);
    place.fails("step begin s --task t --fence 1", 77);
    second.kill();
}

#[test]
fn a_skill_that_is_a_secret_or_cannot_be_shown_is_refused() {
    let place = Place::new();
    let secret = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
    for verb in ["task add t", "task start t", "task claim --agent a"] {
        let refused = place
            .relight(verb)
            .args(["--skill", &secret])
            .run()
            .with_code(2);
        assert!(
            refused
                .stderr
                .contains("the skill looks like it contains a secret"),
            "{}",
            refused.stderr
        );
        for bad in ["a\nb", "a\u{202e}b", "\u{1b}[31m", " "] {
            place
                .relight(verb)
                .args(["--skill", bad])
                .run()
                .with_code(2);
        }
    }
    let toml = format!("[[agent]]\nname = \"a\"\ncommand = [\"true\"]\nskills = [{secret:?}]\n");
    std::fs::write(place.work("relight.toml"), toml).unwrap();
    let up = place
        .relight("up --config relight.toml --no-http")
        .run()
        .with_code(78);
    up.says(&["agent a", "the skill looks like it contains a secret"]);
    assert!(
        place
            .files_with(secret.as_bytes())
            .iter()
            .all(|file| file.ends_with("relight.toml"))
    );
}

#[test]
fn a_blocked_task_sends_an_alert() {
    let place = Place::new();
    place.ok("task start t");
    place.ok("task block t --reason key-is-missing");
    let alerts = place.ok("--json events --task t --kind alert").text();
    let alert: serde_json::Value = serde_json::from_str(alerts.trim()).unwrap();
    assert_eq!(alert["detail"]["alert"], "blocked");
    assert_eq!(alert["detail"]["text"], "task t is blocked: key-is-missing");
}

/// A fence that is printed but not set in the shell would be of no use there.
#[test]
fn the_hint_for_a_lease_that_ended_sets_the_new_fence_in_the_shell() {
    let place = Place::new();
    place.ok("task start t --lease 1h");
    place.ok("task release t --fence 1");
    let hint = "eval \"$(relight task start t --export)\"";
    place.fails("task done t --fence 1", 77).says(&[hint]);
    let script = format!("RELIGHT_FENCE=1; export RELIGHT_FENCE; {hint} && relight task done");
    place.shell(&script).run().with_code(0);
    assert_eq!(place.status("t"), "completed");
}

#[test]
fn a_reason_that_must_be_given_is_not_empty() {
    let place = Place::new();
    place.ok("task start t --step s --lease 1h");
    for words in [
        "task fail t --reason",
        "task block t --reason",
        "step skip s --task t --reason",
    ] {
        for empty in ["", "  "] {
            let answer = place.relight(words).arg(empty).run().with_code(2);
            answer.says(&["a reason is needed"]);
        }
    }
    assert_eq!(place.status("t"), "in_progress");
}

#[test]
fn an_ended_id_is_not_added_again_whatever_differs() {
    let place = Place::new();
    place.ok("task add t --title old");
    place.ok("task cancel t");
    place
        .fails("task add t --title new", 1)
        .says(&["cancelled", "nothing was added"]);
}

#[test]
fn tasks_are_listed_by_what_they_say_and_the_newest_first() {
    let place = Place::new();
    for id in ["a", "b", "c"] {
        place.ok(&format!("task add {id} --title report-{id}"));
    }
    place.ok("task start c");
    place.ok("step begin pay --task c --repeat once");
    let ids = |flags: &str| {
        let listed = place.json(&format!("task list {flags}"));
        let items = listed["items"].as_array().unwrap().clone();
        let ids = items.iter().map(|item| item["id"].as_str().unwrap());
        ids.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(ids("--newest"), "c b a");
    assert_eq!(ids("--find report-b"), "b");
    assert_eq!(ids("--in-doubt"), "c");
    place
        .fails("task list --limit 1001", 2)
        .says(&["1 to 1000"]);
}
