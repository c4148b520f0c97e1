//! `relight check` and `relight prune` from outside.

use crate::cases;

use std::fs;

use cases::Place;
use relight_core::checkpoint::hash::content_hash;
use serde_json::{Value, json};

fn start(place: &Place, workflow: &str, more: &str) {
    let words = format!("--workflow {workflow} --agent ops --step s --idempotency k-{workflow}");
    place.ok(&format!("checkpoint start {words} {more}"));
}

/// The ids that `check` alerts about.
fn alerts(place: &Place, words: &str) -> Vec<String> {
    let report = place.relight(&format!("--json check {words}")).run().json();
    let id = |alert: &Value| alert["id"].as_str().unwrap_or_default().to_owned();
    report["alerts"]
        .as_array()
        .expect("a list")
        .iter()
        .map(id)
        .collect()
}

#[test]
fn nothing_at_all_is_ok_and_makes_nothing() {
    let place = Place::new();
    let answer = place.ok("check");
    assert_eq!(answer.text(), "OK\n");
    assert!(!place.path("home").exists());
    assert_eq!(
        place.json("check"),
        json!({"ok": true, "alerts": [], "checked": 0})
    );
}

#[test]
fn unfinished_work_is_stale_past_the_threshold_only() {
    let place = Place::new();
    place.ok("task start t --agent me");
    assert_eq!(place.ok("check --stale 1h").text(), "OK\n");
    assert_eq!(place.ok("check").text(), "OK\n");
    let answer = place.fails("check --stale 0s", 1);
    let text = answer.text();
    assert!(
        text.starts_with("ALERT stale t status=in_progress agent=me age="),
        "{text}"
    );
    assert_eq!(text.lines().count(), 1);
}

/// Each list names what it leaves out: on standard error, and to programs in the list itself.
fn assert_lists_say_what_they_leave_out(place: &Place) {
    let lists = ["task list", "session list", "ps"];
    let told = lists.map(|list| {
        let ran = place.ok(list);
        let unreadable = place.json(list)["unreadable"].clone();
        let rows = unreadable.as_array().map_or(0, Vec::len);
        if rows > 0 {
            let row = unreadable[0].as_str().unwrap().to_owned();
            ran.says(&[&row, "it is left out"]);
        }
        rows
    });
    assert_eq!(told.iter().sum::<usize>(), 1, "{told:?}");
}

/// A list that is read page by page does not end at a row that cannot be read.
#[test]
fn a_row_that_cannot_be_read_does_not_end_a_list() {
    let place = Place::new();
    let ids = ["a", "b", "c", "d"];
    ids.iter()
        .for_each(|id| drop(place.ok(&format!("task add {id}"))));
    let db = rusqlite::Connection::open(place.home("relight.db")).unwrap();
    let harm = "UPDATE task SET status = 77 WHERE id IN ('a', 'b', 'd')";
    assert_eq!(db.execute(harm, []).unwrap(), 3);
    drop(db);
    let (mut seen, mut unreadable, mut after) = (Vec::new(), Vec::new(), String::new());
    for _ in 0..ids.len() {
        let page = place.json(&format!("task list --limit 1{after}"));
        let items = page["items"].as_array().unwrap();
        seen.extend(items.iter().map(|item| item["id"].clone()));
        unreadable.extend(page["unreadable"].as_array().into_iter().flatten().cloned());
        match page["next"].as_str() {
            Some(next) => after = format!(" --after {next}"),
            None => break,
        }
    }
    assert_eq!(seen, ["c"]);
    for id in ["a", "b", "d"] {
        let start = format!("task {id} cannot be read");
        let is_told = |row: &Value| row.as_str().unwrap().starts_with(&start);
        assert!(unreadable.iter().any(is_told), "{id} in {unreadable:?}");
    }
}

/// Lists leave such rows out, so that one does not hide the others.
#[test]
fn rows_that_cannot_be_read_are_damage() {
    for harm in [
        "UPDATE task SET status = 77 WHERE id = 'b'",
        "UPDATE task_body SET spec = '{' WHERE n = (SELECT n FROM task WHERE id = 'b')",
        "UPDATE session SET state = 77",
        "DELETE FROM task_body WHERE n = (SELECT n FROM task WHERE id = 'b')",
    ] {
        let place = Place::new();
        ["a", "b"]
            .iter()
            .for_each(|id| drop(place.ok(&format!("task add {id}"))));
        place.ok("session begin s --id c");
        let db = rusqlite::Connection::open(place.home("relight.db")).unwrap();
        assert_eq!(db.execute(harm, []).unwrap(), 1, "{harm}");
        drop(db);
        assert_lists_say_what_they_leave_out(&place);
        let text = place.fails("check", 65).text();
        assert!(
            text.contains("ALERT damaged") && text.contains("cannot be read"),
            "{text}"
        );
        place
            .ok("recover")
            .says(&["cannot be read", "relight doctor"]);
    }
}

#[test]
fn the_alert_is_json_when_that_is_wanted() {
    let place = Place::new();
    place.ok("task start t --agent me");
    let answer = place.fails("--json check --stale 0s", 1).json();
    let alert = &answer["alerts"][0];
    assert_eq!(
        (&answer["ok"], &answer["checked"]),
        (&json!(false), &json!(1))
    );
    assert_eq!(
        (&alert["kind"], &alert["id"]),
        (&json!("stale"), &json!("t"))
    );
    assert_eq!(
        (&alert["status"], &alert["agent"]),
        (&json!("in_progress"), &json!("me"))
    );
    assert!(alert["age_ms"].is_u64());
}

#[test]
fn finished_expired_and_deferred_work_is_no_alert() {
    let place = Place::new();
    for id in ["done", "later", "due", "cancelled", "open"] {
        place.ok(&format!("task start {id}"));
    }
    place.ok("task add expired --ttl 1ms");
    place.ok("task done done");
    place.ok("task cancel cancelled");
    place.ok("task defer later --until 1h");
    place.ok("task defer due --until 1ms");
    let mut found = alerts(&place, "--stale 0s");
    found.sort();
    assert_eq!(found, ["due", "open"]);
}

#[test]
fn a_workflow_and_its_file_are_one_alert() {
    let place = Place::new();
    start(&place, "w", "");
    assert_eq!(alerts(&place, "--stale 0s"), ["w"]);
    place.ok("checkpoint complete --workflow w");
    assert_eq!(place.ok("check --stale 0s").text(), "OK\n");
}

#[test]
fn files_of_other_roots_are_checked_too() {
    let (place, other) = (Place::new(), Place::new());
    start(&other, "w", "");
    let root = other.path("work");
    assert_eq!(alerts(&place, "--stale 0s"), [""; 0]);
    assert_eq!(
        alerts(&place, &format!("--stale 0s --root {}", root.display())),
        ["w"]
    );
    let folder = root.join("memory/checkpoints");
    assert_eq!(
        alerts(&place, &format!("--stale 0s --root {}", folder.display())),
        ["w"]
    );
    fs::write(other.checkpoint("torn"), "{").unwrap();
    let check = format!("check --stale 1h --root {}", root.display());
    let text = place.fails(&check, 65).text();
    assert!(
        text.contains("ALERT damaged") && text.contains("torn.json"),
        "{text}"
    );
}

#[test]
fn expired_and_finished_files_that_the_store_does_not_know_are_no_alerts() {
    let (place, other) = (Place::new(), Place::new());
    start(&other, "expired", "");
    let file = other.checkpoint("expired");
    let mut document: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    document["expiresAt"] = json!("2020-01-01T00:00:00Z");
    document["checkpointHash"] = json!(content_hash(document.as_object().unwrap()));
    fs::write(&file, document.to_string()).unwrap();
    start(&other, "done", "");
    other.ok("checkpoint complete --workflow done");
    let root = other.path("work");
    let answer = place.json(&format!("check --stale 0s --root {}", root.display()));
    assert_eq!(answer, json!({"ok": true, "alerts": [], "checked": 2}));
}

#[test]
fn the_folder_of_the_environment_is_checked_too() {
    let place = Place::new();
    start(&place, "w", "--dir elsewhere");
    fs::write(place.work("elsewhere/w.json"), "{").unwrap();
    place
        .relight("check")
        .env("RELIGHT_CHECKPOINT_DIR", "elsewhere")
        .run()
        .with_code(65);
}

#[test]
fn a_root_that_is_no_folder_is_wrong_usage() {
    Place::new()
        .fails("check --root nowhere", 2)
        .says(&["nowhere"]);
    Place::new().fails("check --stale often", 2);
}

#[test]
fn damage_counts_more_than_staleness() {
    let place = Place::new();
    start(&place, "w", "");
    fs::write(place.checkpoint("torn"), "").unwrap();
    let answer = place.fails("check --stale 0s", 65);
    assert_eq!(answer.text().lines().count(), 2);
}

#[test]
fn the_log_grows_by_what_is_printed() {
    let place = Place::new();
    place.ok("task start t");
    place.ok("check --log check.log");
    place.fails("check --stale 0s --log check.log", 1);
    let log = fs::read_to_string(place.work("check.log")).unwrap();
    let lines: Vec<&str> = log.lines().collect();
    assert!(lines[0].ends_with("Z OK"), "{log}");
    assert!(lines[1].contains("Z ALERT stale t "), "{log}");
    assert_eq!(lines.len(), 2);
    place
        .fails("check --log nowhere/check.log", 2)
        .says(&["nowhere/check.log"]);
}

#[test]
fn a_held_task_is_stale_too_when_nobody_touches_it() {
    let place = Place::new();
    place.ok(&format!("task start t --owner-pid {}", std::process::id()));
    assert_eq!(alerts(&place, "--stale 0s"), ["t"]);
}

#[test]
fn control_characters_of_a_file_name_do_not_reach_the_terminal() {
    let place = Place::new();
    fs::create_dir_all(place.work("memory/checkpoints")).unwrap();
    fs::write(place.checkpoint("a\u{1b}[31m\nALERT fake"), "{").unwrap();
    let text = place.fails("check", 65).text();
    assert!(!text.contains('\u{1b}'), "{text}");
}

#[test]
fn a_file_name_cannot_forge_a_line() {
    let place = Place::new();
    fs::create_dir_all(place.work("memory/checkpoints")).unwrap();
    fs::write(place.checkpoint("a\nALERT fake"), "{").unwrap();
    assert_eq!(place.fails("check", 65).text().lines().count(), 1);
}

/// A place where `done`, `gone` and `expired` may go and `open` stays.
fn to_prune() -> Place {
    let place = Place::new();
    for id in ["done", "open", "gone"] {
        start(&place, id, "");
    }
    place.ok("task add expired --ttl 1ms");
    place.ok("checkpoint complete --workflow done");
    place.ok("task cancel gone");
    place
}

#[test]
fn a_dry_run_only_says_what_would_go() {
    let place = to_prune();
    let before = (
        place.json("task list")["items"].clone(),
        place.picture("work"),
    );
    let answer = place.json("prune --dry-run --older-than 0s");
    assert_eq!(answer["dry_run"], true);
    let reasons = |why: &str| {
        let tasks = answer["tasks"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|task| task["why"] == why);
        tasks
            .map(|task| task["id"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (reasons("finished"), reasons("expired")),
        (
            vec!["done".into(), "gone".into()],
            vec!["expired".to_owned()]
        )
    );
    assert!(
        place
            .ok("prune --dry-run --older-than 0s")
            .text()
            .contains("would remove done")
    );
    assert_eq!(
        (
            place.json("task list")["items"].clone(),
            place.picture("work")
        ),
        before
    );
}

#[test]
fn a_dry_run_counts_what_prune_then_removes() {
    let place = to_prune();
    fs::write(place.work("memory/checkpoints/.open.json.tmp-1-0"), "{").unwrap();
    let limit = "--older-than 0s";
    place.ok("run --name a -- true");
    place.ok("run --name a -- true");
    let counts = |answer: &Value| {
        let of = ["events", "attempts", "sessions", "temporary_files"].map(|it| answer[it].clone());
        (answer["tasks"].as_array().unwrap().len(), of)
    };
    let foreseen = place.json(&format!("prune --dry-run {limit}"));
    let text = place.ok(&format!("prune --dry-run {limit}")).text();
    assert!(
        text.contains("events, 1 attempt and 1 temporary file"),
        "{text}"
    );
    let removed = place.json(&format!("prune {limit}"));
    assert_eq!(counts(&foreseen), counts(&removed));
    // Without tasks, the newest event is an old one, and stays.
    place.ok("run --name a -- true");
    let foreseen = place.json(&format!("prune --dry-run {limit}"));
    assert_eq!(
        counts(&foreseen),
        counts(&place.json(&format!("prune {limit}")))
    );
}

#[test]
fn prune_removes_tasks_and_their_files() {
    let place = to_prune();
    let answer = place.json("prune --older-than 0s");
    assert_eq!(answer["tasks"].as_array().unwrap().len(), 3);
    assert!(!place.checkpoint("done").exists() && !place.checkpoint("gone").exists());
    assert!(place.checkpoint("open").exists());
    place.fails("task show done", 1);
    assert_eq!(place.status("open"), "in_progress");
}

#[test]
fn a_task_that_came_to_the_dialect_later_is_pruned_with_its_file() {
    let place = Place::new();
    for (id, verb) in [("t", "resume"), ("u", "update")] {
        place.ok(&format!("task add {id} --step a"));
        place.ok(&format!("checkpoint {verb} --workflow {id}"));
        place.ok(&format!("task cancel {id}"));
        place.ok("prune --older-than 0s");
        assert!(!place.checkpoint(id).exists(), "{id}");
        place.fails("checkpoint resume", 1);
        place.fails(&format!("task show {id}"), 1);
    }
}

#[test]
fn prune_removes_what_dead_writers_left_beside_the_files() {
    let place = Place::new();
    start(&place, "open", "");
    let left = place.work("memory/checkpoints/.open.json.tmp-4711-0");
    fs::write(&left, "{\"half").unwrap();
    assert_eq!(place.json("prune")["temporary_files"], 1);
    assert!(!left.exists() && place.checkpoint("open").exists());
}

#[test]
fn what_finished_lately_stays() {
    let place = to_prune();
    place.ok("prune");
    assert_eq!(place.status("done"), "completed");
    place.fails("task show expired", 1);
}

#[test]
fn an_expired_task_that_somebody_holds_stays() {
    let place = Place::new();
    place.ok("task start t --ttl 1ms --lease 1h");
    place.ok("prune");
    assert_eq!(place.status("t"), "in_progress");
}

#[test]
fn nothing_to_prune_is_fine() {
    let place = Place::new();
    assert!(
        place
            .ok("prune --dry-run")
            .text()
            .contains("nothing to remove")
    );
    assert_eq!(place.json("prune")["tasks"], json!([]));
    place.fails("prune --older-than never", 2);
}

#[test]
fn a_pruned_file_that_is_gone_already_is_no_failure() {
    let place = to_prune();
    fs::remove_dir_all(place.work("memory")).unwrap();
    place.ok("prune --older-than 0s");
}

#[test]
fn a_pipe_or_device_as_its_log_is_refused_and_not_waited_for() {
    let place = Place::new();
    place.shell("mkfifo pipe").run().with_code(0);
    for log in ["pipe", "/dev/zero"] {
        place
            .fails(&format!("check --log {log}"), 74)
            .says(&["not a regular file"]);
    }
    place.ok("check --log log");
    place.ok("check --log log");
    assert_eq!(
        fs::read_to_string(place.work("log"))
            .unwrap()
            .lines()
            .count(),
        2
    );
}
