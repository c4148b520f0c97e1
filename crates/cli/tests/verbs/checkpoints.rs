//! `relight checkpoint` from outside.

use crate::cases;

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use cases::{Place, at_once};
use relight_core::checkpoint::hash::content_hash;
use serde_json::{Value, json};

/// A place with the workflow `w` at its first of three steps.
fn with_workflow() -> Place {
    let place = Place::new();
    start(&place, "w");
    place
}

fn start(place: &Place, workflow: &str) {
    place.ok(&format!(
        "checkpoint start --workflow {workflow} --agent ops --step one --remaining two three \
         --idempotency key-{workflow}"
    ));
}

fn document(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).expect("the file is there")).expect("it is JSON")
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path)
        .expect("it is there")
        .permissions()
        .mode()
        & 0o7777
}

/// The file with some members changed and the hash made to fit again.
fn resealed(path: &Path, change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut document = document(path);
    change(&mut document);
    let members = document.as_object_mut().expect("an object");
    let hash = content_hash(members);
    members.insert("checkpointHash".to_owned(), json!(hash));
    serde_json::to_vec_pretty(members).expect("it is JSON")
}

/// What is done to a file.
type Harm = fn(&Path);

/// Every way a file goes bad, with what is done to it.
const DAMAGE: [(&str, Harm); 9] = [
    ("torn", |path| {
        let bytes = fs::read(path).expect("the file is there");
        fs::write(path, &bytes[..bytes.len() / 2]).expect("it can be written");
    }),
    ("empty", |path| {
        fs::write(path, "").expect("it can be written");
    }),
    ("zero-filled", |path| {
        fs::write(path, [0; 4096]).expect("it can be written");
    }),
    ("wrong hash", |path| {
        let text = fs::read_to_string(path).expect("the file is there");
        fs::write(path, text.replace("\"ops\"", "\"eve\"")).expect("it can be written");
    }),
    ("wrong schema", |path| {
        let bytes = resealed(path, |document| document["schemaVersion"] = json!("0.9"));
        fs::write(path, bytes).expect("it can be written");
    }),
    ("newer schema", |path| {
        let bytes = resealed(path, |document| document["schemaVersion"] = json!("2.0"));
        fs::write(path, bytes).expect("it can be written");
    }),
    ("of another workflow", |path| {
        let bytes = resealed(path, |document| document["workflowId"] = json!("elsewhere"));
        fs::write(path, bytes).expect("it can be written");
    }),
    ("a folder", |path| {
        fs::remove_file(path).expect("the file is there");
        fs::create_dir(path).expect("a folder can be made");
    }),
    ("a link", |path| {
        let aside = path.with_extension("moved");
        fs::rename(path, &aside).expect("the file is there");
        symlink(&aside, path).expect("a link can be made");
    }),
];

#[test]
fn the_file_has_the_fields_of_the_dialect() {
    let place = Place::new();
    let call = place.relight("checkpoint start --workflow w --agent ops --step one --ttl-days 3");
    let call = call.args([
        "--remaining",
        "two",
        "three",
        "--idempotency",
        "k",
        "--handoff",
        "qa",
    ]);
    call.args(["--notes", "mind the gap"]).run().with_code(0);
    let file = document(&place.checkpoint("w"));
    insta::assert_snapshot!(serde_json::to_string(&json!({
        "schemaVersion": file["schemaVersion"], "workflowId": file["workflowId"],
        "agentId": file["agentId"], "status": file["status"], "currentStep": file["currentStep"],
        "completedSteps": file["completedSteps"], "remainingSteps": file["remainingSteps"],
        "handoffTo": file["handoffTo"], "notes": file["notes"],
        "idempotencyKey": file["idempotencyKey"],
    })).unwrap(), @r#"{"schemaVersion":"1.0","workflowId":"w","agentId":"ops","status":"in_progress","currentStep":"one","completedSteps":[],"remainingSteps":["two","three"],"handoffTo":"qa","notes":"mind the gap","idempotencyKey":"k"}"#);
    for field in ["updatedAt", "expiresAt"] {
        assert!(file[field].as_str().unwrap().ends_with('Z'), "{field}");
    }
    assert_eq!(
        file["checkpointHash"],
        content_hash(file.as_object().unwrap())
    );
}

#[test]
fn files_and_folders_are_private() {
    let place = with_workflow();
    assert_eq!(mode(&place.checkpoint("w")), 0o600);
    assert_eq!(mode(&place.work("memory/checkpoints")), 0o700);
    assert_eq!(mode(&place.path("home")), 0o700);
    for name in [
        "relight.db",
        "relight.db-wal",
        "relight.db-shm",
        "redact.key",
    ] {
        assert_eq!(mode(&place.home(name)), 0o600, "{name}");
    }
}

#[test]
fn a_home_that_was_made_open_to_all_does_not_stay_so_for_its_files() {
    let place = Place::new();
    fs::create_dir(place.path("home")).unwrap();
    fs::set_permissions(place.path("home"), fs::Permissions::from_mode(0o755)).unwrap();
    place
        .shell("umask 0; relight task add t")
        .run()
        .with_code(0);
    for name in [
        "relight.db",
        "relight.db-wal",
        "relight.db-shm",
        "redact.key",
    ] {
        assert_eq!(mode(&place.home(name)), 0o600, "{name}");
    }
}

#[test]
fn remaining_steps_may_be_words_or_a_comma_list() {
    let place = Place::new();
    place.ok("checkpoint start --workflow w --agent a --step s --idempotency k --remaining x,y z");
    assert_eq!(
        document(&place.checkpoint("w"))["remainingSteps"],
        json!(["x", "y", "z"])
    );
}

#[test]
fn the_folder_is_chosen_by_flag_then_environment() {
    let place = Place::new();
    let start = "checkpoint start --agent a --step s";
    let call = place.relight(&format!("{start} --workflow e --idempotency 1"));
    call.env("RELIGHT_CHECKPOINT_DIR", "by-env")
        .run()
        .with_code(0);
    let call = place.relight(&format!(
        "{start} --workflow f --idempotency 2 --dir by-flag"
    ));
    call.env("RELIGHT_CHECKPOINT_DIR", "by-env")
        .run()
        .with_code(0);
    assert!(place.work("by-env/e.json").exists() && place.work("by-flag/f.json").exists());
    assert!(!place.work("memory").exists());
}

#[test]
fn characters_of_an_id_that_no_file_name_has_are_percent_encoded() {
    let place = Place::new();
    start(&place, "org/repo:7@x");
    assert!(place.checkpoint("org%2Frepo%3A7%40x").exists());
    assert_eq!(
        place.json("checkpoint resume --workflow org/repo:7@x")["workflow"],
        "org/repo:7@x"
    );
}

#[test]
fn flags_that_are_missing_or_wrong_are_wrong_usage() {
    let place = Place::new();
    for words in [
        "start --workflow w --agent a --step s",
        "start --workflow w --agent a --idempotency k",
        "start --workflow w --step s --idempotency k",
        "start --agent a --step s --idempotency k",
        "start --workflow w --agent a --step s --idempotency k --ttl-days -1",
        "start --workflow w --agent a --step s --idempotency k --ttl-days x",
        "update",
        "update --workflow w --status completed",
        "complete",
        "show",
        "import",
        "resume --lease soon",
    ] {
        place.fails(&format!("checkpoint {words}"), 2);
    }
    assert!(!place.work("memory").exists());
}

#[test]
fn ids_that_could_leave_the_folder_are_refused_and_nothing_is_written() {
    let place = Place::new();
    let long = "x".repeat(10_000);
    let bad = [
        "..",
        "../x",
        "a/../../b",
        "/etc/x",
        "a\nb",
        "a\u{7}b",
        "a\u{1b}[2Jb",
        "",
        &long,
    ];
    for id in bad {
        let call = place.relight("checkpoint start --agent a --step s --idempotency k");
        call.args(["--workflow", id]).run().with_code(2);
        place
            .relight("checkpoint resume")
            .args(["--workflow", id])
            .run()
            .with_code(2);
        place
            .relight("checkpoint show")
            .args(["--workflow", id])
            .run()
            .with_code(2);
    }
    assert_eq!(place.picture("work").len(), 0);
}

#[test]
fn a_workflow_and_its_agent_may_have_any_name_without_control_characters() {
    let place = Place::new();
    let long = "é".repeat(256);
    let names = [
        "Déploiement du soir",
        "!room:server.org +1",
        "部屋 🚀",
        "it's $(id)",
        "a..b",
        &long,
    ];
    for (at, name) in names.into_iter().enumerate() {
        let checkpoint = |words: &str| {
            let call = place.relight(&format!("--json checkpoint {words}"));
            call.args(["--workflow", name]).run()
        };
        let start =
            format!("--json checkpoint start --step one --remaining two --idempotency k{at}");
        let start = place
            .relight(&start)
            .args(["--workflow", name, "--agent", name]);
        start.run().with_code(0);
        checkpoint("update --complete one").with_code(0);
        let resumed = checkpoint("resume").with_code(0).json();
        assert_eq!(
            (&resumed["workflowId"], &resumed["agentId"]),
            (&json!(name), &json!(name))
        );
        assert_eq!(resumed["completedSteps"], json!(["one"]), "{name}");
        let held = checkpoint("resume").with_code(75).error();
        let remedy = held["hint"]
            .as_str()
            .unwrap()
            .trim_end_matches(" takes it over");
        place.shell(remedy).run().with_code(0);
        let task = place
            .relight("--json task show")
            .arg(name)
            .run()
            .with_code(0)
            .json();
        assert_eq!(task["done_steps"], json!(["one"]), "{name}");
        let of_agent = place
            .relight("--json task list --agent")
            .arg(name)
            .run()
            .with_code(0)
            .json();
        assert_eq!(of_agent["items"].as_array().unwrap().len(), 1, "{name}");
        place.ok("checkpoint verify");
    }
    fs::remove_dir_all(place.path("home")).unwrap();
    place.ok("checkpoint resume");
    assert_eq!(
        place.json("checkpoint list")["items"]
            .as_array()
            .unwrap()
            .len(),
        names.len()
    );
    for id in ["a b", "é", "+1"] {
        place.relight("task add").arg(id).run().with_code(2);
        place.relight("task start").arg(id).run().with_code(2);
        place
            .relight("task add t --agent")
            .arg(id)
            .run()
            .with_code(2);
        place
            .relight("run --task")
            .arg(id)
            .args(["--", "true"])
            .run()
            .with_code(2);
    }
}

#[test]
fn update_moves_on_and_complete_ends() {
    let place = with_workflow();
    place.ok("checkpoint update --workflow w --complete one --step two --notes half");
    let file = document(&place.checkpoint("w"));
    assert_eq!(
        (&file["completedSteps"], &file["currentStep"]),
        (&json!(["one"]), &json!("two"))
    );
    assert_eq!(
        (&file["remainingSteps"], &file["notes"]),
        (&json!(["three"]), &json!("half"))
    );
    let done = place.json("checkpoint complete --workflow w");
    assert_eq!(done["checkpoint"]["status"], "done");
    assert_eq!(document(&place.checkpoint("w"))["status"], "done");
    assert_eq!(place.status("w"), "completed");
}

#[test]
fn update_knows_the_four_statuses_of_the_dialect() {
    let place = Place::new();
    for (word, status) in [
        ("blocked", "blocked"),
        ("failed", "failed"),
        ("done", "completed"),
        ("in_progress", "in_progress"),
    ] {
        start(&place, word);
        place.ok(&format!(
            "checkpoint update --workflow {word} --status {word}"
        ));
        assert_eq!(document(&place.checkpoint(word))["status"], word);
        assert_eq!(place.status(word), status);
    }
}

#[test]
fn update_of_what_is_not_there_or_is_done_is_a_no() {
    let place = with_workflow();
    place
        .fails("checkpoint update --workflow x --step s", 1)
        .says(&["no workflow x"]);
    place.ok("checkpoint complete --workflow w");
    place
        .fails("checkpoint update --workflow w --step s", 1)
        .says(&["completed", "has ended"]);
    place
        .fails("checkpoint update --workflow w --status blocked", 1)
        .says(&["completed", "blocked"]);
}

#[test]
fn completing_twice_is_once() {
    let place = with_workflow();
    place.ok("checkpoint complete --workflow w");
    place.ok("checkpoint complete --workflow w");
    assert_eq!(place.status("w"), "completed");
}

#[test]
fn resume_works_at_once_after_a_crash_and_says_what_is_next() {
    let place = with_workflow();
    place.ok("checkpoint update --workflow w --complete one --step two");
    let answer = place.ok("checkpoint resume").json();
    assert_eq!(
        (&answer["workflow"], &answer["fence"]),
        (&json!("w"), &json!(1))
    );
    assert_eq!(
        (&answer["done_steps"], &answer["in_doubt"]),
        (&json!(["one"]), &json!(["two"]))
    );
    assert_eq!(answer["next_step"], "two");
}

#[test]
fn resume_goes_on_after_the_last_finished_step() {
    let place = with_workflow();
    place.ok("checkpoint update --workflow w --complete one");
    let answer = place.ok("checkpoint resume").json();
    assert_eq!(
        (&answer["next_step"], &answer["in_doubt"]),
        (&json!("two"), &json!([]))
    );
}

#[test]
fn resume_of_nothing_is_a_no() {
    let place = Place::new();
    let answer = place
        .fails("checkpoint resume", 1)
        .says(&["nothing to resume"]);
    assert_eq!(answer.text(), "NO_CHECKPOINT\n");
    let answer = place
        .fails("checkpoint resume --workflow w", 1)
        .says(&["no workflow w"]);
    assert!(answer.stdout.is_empty());
    assert!(place.fails("--json checkpoint resume", 1).stdout.is_empty());
}

#[test]
fn resume_answers_in_the_names_of_the_original_script_too() {
    let place = with_workflow();
    place.ok("checkpoint update --workflow w --complete one --step two --notes half");
    let answer = place.ok("checkpoint resume").json();
    let file = document(&place.checkpoint("w"));
    for (name, member) in file.as_object().unwrap() {
        assert_eq!(answer[name], *member, "{name}");
    }
    assert_eq!(
        (&answer["workflow"], &answer["next_step"]),
        (&json!("w"), &json!("two"))
    );
    assert_eq!(place.fails("checkpoint resume", 75).text(), "");
}

#[test]
fn list_has_the_columns_of_the_original_script() {
    let place = with_workflow();
    start(&place, "done");
    place.ok("checkpoint complete --workflow done");
    fs::write(place.checkpoint("torn"), "{").unwrap();
    fs::write(place.checkpoint("CHECKPOINT_SCHEMA"), "{}").unwrap();
    let time = |id: &str| place.json(&format!("task show {id}"))["updated_at"].clone();
    let lines = [
        format!("done\tdone\t-\t{}\n", time("done").as_str().unwrap()),
        format!("w\tin_progress\tone\t{}\n", time("w").as_str().unwrap()),
        "torn.json\tINVALID\n".to_owned(),
    ];
    assert_eq!(place.ok("checkpoint list").text(), lines.concat());
    assert_eq!(Place::new().ok("checkpoint list").text(), "");
}

#[test]
fn resume_takes_the_oldest_then_the_next() {
    let place = Place::new();
    ["first", "second"].iter().for_each(|id| start(&place, id));
    assert_eq!(place.json("checkpoint resume")["workflow"], "first");
    assert_eq!(place.json("checkpoint resume")["workflow"], "second");
    place.fails("checkpoint resume", 75);
}

#[test]
fn resume_can_be_for_one_agent() {
    let place = with_workflow();
    place.ok("checkpoint start --workflow v --agent other --step s --idempotency k");
    assert_eq!(
        place.json("checkpoint resume --agent other")["workflow"],
        "v"
    );
    place.fails("checkpoint resume --agent nobody", 1);
}

#[test]
fn finished_expired_and_waiting_workflows_are_not_resumed_by_themselves() {
    let place = Place::new();
    for id in ["done", "blocked", "failed"] {
        start(&place, id);
        place.ok(&format!("checkpoint update --workflow {id} --status {id}"));
    }
    place
        .fails("checkpoint resume", 75)
        .says(&["blocked", "(1 more wait)"]);
    place
        .fails("checkpoint resume --workflow done", 1)
        .says(&["done"]);
    assert_eq!(
        place.json("checkpoint resume --workflow blocked --force")["workflow"],
        "blocked"
    );
    assert_eq!(
        place.json("checkpoint resume --workflow failed")["workflow"],
        "failed"
    );
}

#[test]
fn two_resumes_at_once_have_one_winner() {
    let place = with_workflow();
    for _ in 0..5 {
        let resume = place.relight("checkpoint resume --workflow w --lease 1h");
        let mut answers = at_once([resume.clone(), resume]);
        answers.sort_by_key(|answer| answer.code);
        let codes: Vec<i32> = answers.iter().map(|answer| answer.code).collect();
        assert_eq!(codes, [0, 75]);
        let loser = answers.pop().unwrap();
        assert!(loser.stdout.is_empty());
        loser.says(&["held by agent ops (tester", " for ", "--steal-lock"]);
        place.ok("task release w --force");
    }
}

#[test]
fn a_stolen_lock_fences_the_old_holder() {
    let place = with_workflow();
    let old = place.json("checkpoint resume --workflow w")["fence"]
        .as_u64()
        .unwrap();
    let new = place.json("checkpoint resume --workflow w --steal-lock")["fence"]
        .as_u64()
        .unwrap();
    assert!(new > old);
    let before = fs::read(place.checkpoint("w")).unwrap();
    place.fails(
        &format!("checkpoint update --workflow w --complete one --fence {old}"),
        77,
    );
    let late = place.relight("checkpoint complete --workflow w");
    late.env("RELIGHT_FENCE", &old.to_string())
        .run()
        .with_code(77);
    assert_eq!(fs::read(place.checkpoint("w")).unwrap(), before);
    place.ok(&format!(
        "checkpoint update --workflow w --complete one --fence {new}"
    ));
}

#[test]
fn the_lease_goes_when_its_holder_dies() {
    let place = with_workflow();
    let mut owner = place.shell("echo up; exec sleep 50").spawn();
    owner.line();
    let resume = format!("checkpoint resume --workflow w --owner-pid {}", owner.pid());
    place.ok(&resume);
    place
        .fails("checkpoint resume --workflow w", 75)
        .says(&[&format!("process {}", owner.pid())]);
    owner.kill();
    place.ok("checkpoint resume --workflow w");
}

/// Each time its own agent goes on with it, and no stranger, until its budget ends.
#[test]
fn a_workflow_is_resumed_after_every_crash_until_its_budget_ends() {
    let place = with_workflow();
    for crash in 0..4 {
        let mut owner = place.shell("echo up; exec sleep 50").spawn();
        owner.line();
        let resume = format!("checkpoint resume --agent ops --owner-pid {}", owner.pid());
        assert_eq!(place.json(&resume)["task"], "w");
        owner.kill();
        place.ok("recover");
        place.fails("task claim --agent stranger", 1);
        let expected = if crash < 3 {
            "interrupted"
        } else {
            "suspended"
        };
        assert_eq!(
            place.json("task show w")["status"],
            expected,
            "crash {crash}"
        );
    }
    let reason = place.json("task show w")["reason"].to_string();
    assert!(
        reason.contains("(recovered 3 times in a row without progress)"),
        "{reason}"
    );
    let alert = place.ok("--json events --kind alert").text();
    assert!(alert.contains("3 times in a row"), "{alert}");
    place
        .fails("checkpoint resume --agent ops", 75)
        .says(&["w", "suspended"]);
}

#[test]
fn the_lease_goes_at_complete() {
    let place = with_workflow();
    place.ok("checkpoint resume --workflow w --lease 1h");
    place.ok("checkpoint complete --workflow w --fence 1");
    assert_eq!(place.json("task show w")["holder"], Value::Null);
}

#[test]
fn a_write_without_a_fence_is_taken() {
    let place = with_workflow();
    place.ok("checkpoint resume --workflow w --lease 1h");
    place.ok("checkpoint update --workflow w --complete one");
    assert_eq!(place.json("task show w")["done_steps"], json!(["one"]));
}

#[test]
fn the_same_start_twice_is_one_start() {
    let place = with_workflow();
    place.ok("checkpoint update --workflow w --complete one");
    start(&place, "w");
    assert_eq!(place.json("task show w")["done_steps"], json!(["one"]));
}

#[test]
fn a_completed_key_is_not_started_again() {
    let place = with_workflow();
    place.ok("checkpoint complete --workflow w");
    let before = place.picture("work");
    let again = "checkpoint start --workflow w --agent ops --step one --idempotency key-w";
    assert_eq!(place.json(again)["outcome"], "completed");
    assert!(place.ok(again).text().contains("completed"));
    assert_eq!(place.picture("work"), before);
}

#[test]
fn a_completed_key_stays_so_after_the_id_was_used_again() {
    let place = with_workflow();
    place.ok("checkpoint complete --workflow w");
    place.ok("checkpoint start --workflow w --agent ops --step one --idempotency other");
    place.ok("checkpoint complete --workflow w");
    let again = "checkpoint start --workflow w --agent ops --step one --idempotency key-w";
    assert_eq!(place.json(again)["outcome"], "completed");
}

#[test]
fn the_key_of_another_workflow_starts_nothing() {
    let place = with_workflow();
    let other = "checkpoint start --workflow x --agent ops --step one --idempotency key-w";
    let answer = place.json(other);
    assert_eq!(
        (&answer["outcome"], &answer["workflow"]),
        (&json!("key_taken"), &json!("w"))
    );
    assert!(!place.checkpoint("x").exists());
}

#[test]
fn another_key_for_an_unfinished_workflow_is_refused() {
    let place = with_workflow();
    let other = "checkpoint start --workflow w --agent ops --step one --idempotency other";
    place
        .fails(other, 1)
        .says(&["unfinished", "checkpoint resume --workflow w", "--force"]);
}

#[test]
fn start_by_force_clears_the_steps_and_raises_the_fence() {
    let place = with_workflow();
    place.ok("checkpoint resume --workflow w");
    place.ok("checkpoint update --workflow w --complete one --fence 1");
    place.ok("checkpoint start --workflow w --agent ops --step a --idempotency other --force");
    let file = document(&place.checkpoint("w"));
    assert_eq!(
        (&file["completedSteps"], &file["currentStep"]),
        (&json!([]), &json!("a"))
    );
    place.fails("checkpoint update --workflow w --complete a --fence 1", 77);
    place.ok("checkpoint resume --workflow w");
}

#[test]
fn a_workflow_that_never_expires_has_no_date() {
    let place = Place::new();
    place.ok("checkpoint start --workflow w --agent a --step s --idempotency k --ttl-days 0");
    assert_eq!(document(&place.checkpoint("w"))["expiresAt"], Value::Null);
    place.ok("checkpoint resume");
}

/// A file of a workflow that expired long ago, in a place whose store does not know it.
fn with_expired_file() -> Place {
    let (there, here) = (with_workflow(), Place::new());
    fs::create_dir_all(here.work("memory/checkpoints")).expect("a folder can be made");
    let bytes = resealed(&there.checkpoint("w"), |document| {
        document["expiresAt"] = json!("2020-01-01T00:00:00Z");
    });
    fs::write(here.checkpoint("w"), bytes).expect("it can be written");
    here
}

#[test]
fn an_expired_workflow_is_not_resumed() {
    let place = with_expired_file();
    place.fails("checkpoint resume", 1);
    place
        .fails("checkpoint resume --workflow w", 1)
        .says(&["expired"]);
}

#[test]
fn a_good_file_that_the_store_does_not_know_is_taken_in_by_resume() {
    let place = with_workflow();
    place.ok("checkpoint update --workflow w --complete one --step two");
    fs::remove_dir_all(place.path("home")).unwrap();
    let answer = place.ok("checkpoint resume").json();
    assert_eq!(
        (&answer["workflow"], &answer["next_step"]),
        (&json!("w"), &json!("two"))
    );
    assert_eq!(answer["done_steps"], json!(["one"]));
}

#[test]
fn import_brings_a_workflow_to_another_home() {
    let (there, here) = (with_workflow(), Place::new());
    there.ok("checkpoint update --workflow w --complete one --notes hello");
    let import = || {
        here.relight("--json checkpoint import")
            .arg(there.checkpoint("w").to_str().unwrap())
    };
    import().run().with_code(0);
    assert_eq!(here.json("task show w")["done_steps"], json!(["one"]));
    assert_eq!(document(&here.checkpoint("w"))["notes"], "hello");
    here.ok("checkpoint resume --workflow w");
}

#[test]
fn import_of_an_older_state_needs_force() {
    let place = with_workflow();
    fs::copy(place.checkpoint("w"), place.work("old.json")).unwrap();
    place.ok("checkpoint update --workflow w --complete one");
    place
        .fails("checkpoint import old.json", 1)
        .says(&["newer", "--force"]);
    assert_eq!(place.json("task show w")["done_steps"], json!(["one"]));
    place.ok("checkpoint import old.json --force");
    assert_eq!(place.json("task show w")["done_steps"], json!([]));
}

#[test]
fn import_of_the_same_state_changes_nothing() {
    let place = with_workflow();
    fs::copy(place.checkpoint("w"), place.work("same.json")).unwrap();
    assert_eq!(place.json("checkpoint import same.json")["outcome"], "same");
    assert_eq!(place.json("task show w")["seq"], 1);
}

#[test]
fn import_of_a_newer_state_is_taken() {
    let (there, here) = (with_workflow(), Place::new());
    let file = there.checkpoint("w");
    let import = format!("checkpoint import {}", file.display());
    here.ok(&import);
    there.ok("checkpoint update --workflow w --complete one");
    here.ok(&import);
    assert_eq!(here.json("task show w")["done_steps"], json!(["one"]));
}

#[test]
fn import_of_a_missing_file_names_it() {
    Place::new()
        .fails("checkpoint import missing.json", 1)
        .says(&["there is no file missing.json"]);
}

#[test]
fn verify_only_reports_a_damaged_file() {
    for (kind, damage) in DAMAGE
        .into_iter()
        .filter(|(kind, _)| *kind != "of another workflow")
    {
        let place = with_workflow();
        let file = place.checkpoint("w");
        damage(&file);
        let before = place.picture("work");
        for words in ["verify", "verify --dir memory/checkpoints"] {
            let answer = place
                .relight(&format!("--json checkpoint {words}"))
                .run()
                .with_code(65);
            assert_eq!(answer.json()["damaged"], 1, "{kind}");
            assert!(
                !answer.json()["items"][0]["reason"]
                    .as_str()
                    .unwrap()
                    .is_empty()
            );
        }
        place
            .relight("checkpoint verify")
            .arg(file.to_str().unwrap())
            .run()
            .with_code(65);
        assert_eq!(place.picture("work"), before, "{kind}");
    }
}

#[test]
fn verify_tells_a_file_whose_name_does_not_fit() {
    let place = with_workflow();
    fs::rename(place.checkpoint("w"), place.checkpoint("x")).unwrap();
    assert_eq!(
        place.json("checkpoint list")["damaged"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    place.fails("checkpoint verify", 65);
}

#[test]
fn import_of_a_damaged_file_is_65_and_touches_nothing() {
    for (kind, damage) in &DAMAGE[..6] {
        let (there, here) = (with_workflow(), Place::new());
        let file = there.checkpoint("w");
        damage(&file);
        let before = there.picture("work");
        let answer = here
            .relight("checkpoint import")
            .arg(file.to_str().unwrap())
            .run();
        answer.with_code(65).says(&[file.to_str().unwrap()]);
        assert_eq!(there.picture("work"), before, "{kind}");
        assert_eq!(here.json("task list")["items"], json!([]), "{kind}");
    }
}

#[test]
fn verify_of_good_files_says_so() {
    let place = with_workflow();
    let answer = place.json("checkpoint verify");
    assert_eq!(
        (&answer["damaged"], &answer["items"][0]["ok"]),
        (&json!(0), &json!(true))
    );
    let missing = place.fails("checkpoint verify missing.json", 1);
    assert_eq!(
        missing.text(),
        "MISSING  missing.json: there is no such file\n"
    );
    assert!(
        Place::new()
            .ok("checkpoint verify")
            .text()
            .contains("no checkpoint files")
    );
}

/// What the original script writes: the document with some members changed, the time, and the bare
/// hash.
fn by_the_script(path: &Path, change: impl FnOnce(&mut Value)) {
    let bytes = resealed(path, |document| {
        document["updatedAt"] = json!(relight_runtime::os::clock::now().to_string());
        change(document);
    });
    let text = String::from_utf8(bytes).expect("it is text");
    fs::write(path, text.replace("sha256:", "")).expect("it can be written");
}

#[test]
fn files_of_the_original_script_are_good_whatever_letters_they_hold() {
    let bytes = include_bytes!("../../../core/tests/checkpoint_script_vector.json");
    let place = Place::new();
    fs::create_dir_all(place.work("memory/checkpoints")).unwrap();
    fs::write(place.checkpoint("d\u{e9}ploiement"), bytes).unwrap();
    place.ok("checkpoint verify");
    let answer = place.ok("checkpoint resume").json();
    assert_eq!(answer["workflowId"], "d\u{e9}ploiement");
    assert_eq!(answer["completedSteps"], json!(["gr\u{f6}\u{df}e"]));
    assert!(!place.checkpoint("d\u{e9}ploiement").exists());
    assert!(place.checkpoint("d%C3%A9ploiement").exists());
}

#[test]
fn what_the_original_script_finished_is_neither_listed_as_open_nor_stale() {
    // The check only reads.
    for (verb, status) in [
        ("check --stale 0s", "in_progress"),
        ("checkpoint list", "completed"),
    ] {
        let place = with_workflow();
        let read = |place: &Place| std::fs::read(place.checkpoint("w")).unwrap();
        by_the_script(&place.checkpoint("w"), |document| {
            document["completedSteps"] = json!(["one", "two", "three"]);
            document["remainingSteps"] = json!([]);
            document["status"] = json!("done");
        });
        let (file, events) = (read(&place), place.ok("events -n 1000").text());
        let answer = place.ok(verb).text();
        assert!(
            answer == "OK\n" || answer.starts_with("w\tdone\t"),
            "{verb}: {answer}"
        );
        assert_eq!(place.status("w"), status);
        let is_as_before = read(&place) == file && place.ok("events -n 1000").text() == events;
        assert_eq!(is_as_before, status == "in_progress", "{verb}");
    }
}

#[test]
fn what_the_original_script_wrote_over_a_file_is_taken_in() {
    for verb in [
        "resume",
        "update --workflow w",
        "start --workflow w --agent ops --step one \
         --idempotency key-w",
    ] {
        let place = with_workflow();
        by_the_script(&place.checkpoint("w"), |document| {
            document["completedSteps"] = json!(["one"]);
            document["currentStep"] = json!("two");
            document["notes"] = json!("half way");
        });
        place.ok("checkpoint verify");
        place.ok(&format!("checkpoint {verb}"));
        let file = document(&place.checkpoint("w"));
        assert_eq!(file["completedSteps"], json!(["one"]), "{verb}");
        assert_eq!(
            (&file["currentStep"], &file["notes"]),
            (&json!("two"), &json!("half way"))
        );
        assert_eq!(
            place.json("task show w")["done_steps"],
            json!(["one"]),
            "{verb}"
        );
        assert!(
            !place.work("memory/checkpoints/quarantine").exists(),
            "{verb}"
        );
    }
}

#[test]
fn a_workflow_that_the_original_script_completed_is_done() {
    let place = with_workflow();
    by_the_script(&place.checkpoint("w"), |document| {
        document["status"] = json!("done");
    });
    assert_eq!(
        place.fails("checkpoint resume", 1).text(),
        "NO_CHECKPOINT\n"
    );
    assert_eq!(place.status("w"), "completed");
}

#[test]
fn what_the_original_script_wrote_is_never_lost_under_a_later_write() {
    let place = with_workflow();
    by_the_script(&place.checkpoint("w"), |document| {
        document["completedSteps"] = json!(["one"]);
        document["status"] = json!("blocked");
    });
    place.ok("task set w k=v");
    let shown = place.json("task show w");
    assert_eq!(
        (&shown["done_steps"], &shown["status"]),
        (&json!(["one"]), &json!("blocked"))
    );
    assert!(!place.work("memory/checkpoints/quarantine").exists());
}

#[test]
fn a_quarantine_that_is_a_link_is_named_and_not_followed() {
    let place = with_workflow();
    fs::create_dir(place.path("elsewhere")).unwrap();
    symlink(
        place.path("elsewhere"),
        place.work("memory/checkpoints/quarantine"),
    )
    .unwrap();
    fs::write(place.checkpoint("w"), "").unwrap();
    let told = place.fails("checkpoint resume", 73).stderr;
    assert!(told.contains("quarantine: it is a symbolic link"), "{told}");
    assert_eq!(fs::read_dir(place.path("elsewhere")).unwrap().count(), 0);
}

#[test]
fn a_workflow_that_is_held_says_by_which_agent_whatever_its_name() {
    let place = Place::new();
    place.ok("checkpoint start --workflow w --agent test --step one --idempotency k");
    place
        .relight("checkpoint resume")
        .without("USER")
        .run()
        .with_code(0);
    let told = place
        .relight("checkpoint resume")
        .without("USER")
        .run()
        .with_code(75)
        .stderr;
    assert!(
        told.contains("held by agent test (") && !told.contains("user 0"),
        "{told}"
    );
    place.ok("checkpoint resume --steal-lock");
    place
        .fails("checkpoint resume", 75)
        .says(&["held by agent test (tester"]);
}

/// `relight` with another home in the same workspace.
fn at_other_home(place: &Place, words: &str) -> cases::Answer {
    let home = place.path("other-home").display().to_string();
    place.relight(words).env("RELIGHT_HOME", &home).run()
}

#[test]
fn what_another_home_finished_is_taken_in_although_it_counts_its_commits_anew() {
    for verb in [
        "checkpoint resume",
        "checkpoint update --workflow w --notes x",
        "task set w k=v",
    ] {
        let place = with_workflow();
        for note in ["a", "b", "c", "d"] {
            place.ok(&format!("checkpoint update --workflow w --notes {note}"));
        }
        at_other_home(&place, "checkpoint resume").with_code(0);
        at_other_home(&place, "task set w branch=main").with_code(0);
        at_other_home(
            &place,
            "checkpoint update --workflow w --complete one --complete two",
        )
        .with_code(0);
        place.relight(verb).run().with_code(0);
        let shown = place.json("task show w");
        assert_eq!(shown["done_steps"], json!(["one", "two"]), "{verb}");
        assert_eq!(shown["context"]["branch"], "main", "{verb}");
        at_other_home(&place, "checkpoint complete --workflow w").with_code(0);
        place.relight(verb).run().with_code(1);
        assert_eq!(place.status("w"), "completed", "{verb}");
        assert!(
            !place.work("memory/checkpoints/quarantine").exists(),
            "{verb}"
        );
    }
}

#[test]
fn a_later_file_in_our_own_form_is_taken_in_whatever_its_count_says() {
    let place = with_workflow();
    let file = place.checkpoint("w");
    let bytes = resealed(&file, |document| {
        document["updatedAt"] = json!(relight_runtime::os::clock::now().to_string());
        document["completedSteps"] = json!(["one"]);
        document["currentStep"] = json!("two");
        document["notes"] = json!("by another tool");
    });
    fs::write(&file, bytes).unwrap();
    place.ok("checkpoint resume");
    let shown = document(&file);
    assert_eq!(shown["completedSteps"], json!(["one"]));
    assert_eq!(shown["notes"], "by another tool");
}

#[test]
fn an_older_file_with_steps_that_the_store_does_not_have_is_set_aside_and_told_of() {
    let place = with_workflow();
    let file = place.checkpoint("w");
    let before = fs::read(&file).unwrap();
    place.ok("checkpoint update --workflow w --notes later");
    fs::write(&file, before).unwrap();
    let bytes = resealed(&file, |document| {
        document["completedSteps"] = json!(["one"]);
    });
    fs::write(&file, bytes).unwrap();
    let told = place.ok("checkpoint resume").stderr;
    assert!(told.contains("set aside"), "{told}");
    assert_eq!(place.json("task show w")["done_steps"], json!([]));
    assert!(place.work("memory/checkpoints/quarantine").exists());
}

#[test]
fn a_start_by_force_under_the_same_key_sets_nothing_aside() {
    let place = with_workflow();
    place.ok("checkpoint update --workflow w --complete one");
    place.ok("checkpoint start --workflow w --agent ops --step one --idempotency key-w --force");
    assert_eq!(
        document(&place.checkpoint("w"))["completedSteps"],
        json!([])
    );
    assert!(!place.work("memory/checkpoints/quarantine").exists());
}

/// The file as the script leaves it: `one` is done, and it is at `two`.
fn moved_on_by_the_script(place: &Place) {
    by_the_script(&place.checkpoint("w"), |document| {
        document["completedSteps"] = json!(["one"]);
        document["currentStep"] = json!("two");
        document["remainingSteps"] = json!(["three"]);
    });
}

#[test]
fn a_verb_has_the_last_word_over_what_the_original_script_wrote_before() {
    for (verb, status, in_file) in [
        ("block w --reason look", "blocked", "blocked"),
        ("fail w --reason broken", "interrupted", "in_progress"),
        ("defer w --until 1h", "deferred", "in_progress"),
        ("review w", "in_review", "in_progress"),
        ("set w k=v", "in_progress", "in_progress"),
    ] {
        let place = with_workflow();
        moved_on_by_the_script(&place);
        place.ok(&format!("task {verb}"));
        let shown = place.json("task show w");
        assert_eq!(shown["status"], status, "{verb}");
        assert_eq!(shown["done_steps"], json!(["one"]), "{verb}");
        assert_eq!(shown["in_doubt"], json!(["two"]), "{verb}");
        let file = document(&place.checkpoint("w"));
        assert_eq!(
            (&file["status"], &file["currentStep"]),
            (&json!(in_file), &json!("two"))
        );
        assert!(
            !place.work("memory/checkpoints/quarantine").exists(),
            "{verb}"
        );
        // What the script wrote is not taken in a second time.
        place.ok("checkpoint list");
        assert_eq!(place.status("w"), status, "{verb}");
    }
}

#[test]
fn a_step_after_the_original_script_keeps_the_scripts_own_step_in_doubt() {
    let place = with_workflow();
    moved_on_by_the_script(&place);
    place.ok("step run three --task w -- true");
    let shown = place.json("task show w");
    assert_eq!(shown["done_steps"], json!(["one", "three"]));
    assert_eq!(shown["in_doubt"], json!(["two"]));
}

#[test]
fn a_verb_on_what_the_original_script_completed_is_refused() {
    let place = with_workflow();
    by_the_script(&place.checkpoint("w"), |document| {
        document["status"] = json!("done");
    });
    place
        .fails("task block w --reason look", 1)
        .says(&["completed", "blocked"]);
    assert_eq!(place.status("w"), "completed");
}

#[test]
fn a_file_with_whole_seconds_is_not_older_than_the_second_it_was_written_in() {
    let place = with_workflow();
    let changed = place.json("task show w")["updated_at"]
        .as_str()
        .unwrap()
        .to_owned();
    let second = changed.split(['.', 'Z']).next().unwrap();
    by_the_script(&place.checkpoint("w"), |document| {
        document["updatedAt"] = json!(format!("{second}Z"));
        document["completedSteps"] = json!(["one"]);
        document["currentStep"] = json!("two");
    });
    place.ok("task set w k=v");
    assert_eq!(place.json("task show w")["in_doubt"], json!(["two"]));
}

#[test]
fn a_file_that_cannot_be_taken_in_is_told_of_once() {
    let place = with_workflow();
    place.ok("task block w --reason look");
    by_the_script(&place.checkpoint("w"), |document| {
        document["status"] = json!("in_progress");
        document["completedSteps"] = json!(["one"]);
    });
    let told = place.fails("checkpoint resume", 75).stderr;
    assert_eq!(
        told.matches("w.json").count() - told.matches("quarantine/w.json").count(),
        1
    );
    assert!(
        told.contains("waits for a person") && told.contains("set aside"),
        "{told}"
    );
    assert!(!told.contains("left in place"), "{told}");
}

#[test]
fn a_start_over_a_file_that_the_store_does_not_know_takes_it_in() {
    let place = with_workflow();
    place.ok("checkpoint update --workflow w --complete one --step two");
    by_the_script(&place.checkpoint("w"), |_| {});
    fs::remove_dir_all(place.path("home")).unwrap();
    let other = "checkpoint start --workflow w --agent ops --step one --idempotency other";
    place.fails(other, 1).says(&["unfinished"]);
    let same = "checkpoint start --workflow w --agent ops --step one --idempotency key-w";
    assert_eq!(place.json(same)["done_steps"], json!(["one"]));
}

#[test]
fn an_error_beside_a_damaged_file_is_one_line_of_json() {
    let place = with_workflow();
    place.ok("checkpoint complete --workflow w");
    fs::write(place.work("memory/checkpoints/bad.json"), "{").unwrap();
    for (words, code) in [("", "nothing"), (" --workflow nosuch", "not_found")] {
        let refused = place.fails(&format!("--json checkpoint resume{words}"), 1);
        assert_eq!(refused.error()["code"], code);
    }
    let damaged = &place.json("checkpoint list")["damaged"][0]["file"];
    assert!(damaged.as_str().unwrap().ends_with("/bad.json"));
    let refused = place.fails("checkpoint resume", 1);
    assert_eq!(refused.text(), "NO_CHECKPOINT\n");
    refused.says(&["bad.json", "nothing to resume"]);
}

#[test]
fn pipes_and_devices_are_refused_and_never_waited_for() {
    let place = with_workflow();
    place.shell("mkfifo pipe.json").run().with_code(0);
    for words in ["checkpoint import pipe.json", "checkpoint import /dev/zero"] {
        place.fails(words, 65).says(&["not a regular file"]);
    }
    place.fails("checkpoint verify pipe.json", 65);
    place
        .fails("session import pipe.json", 74)
        .says(&["not a file"]);
    place
        .fails("session export pipe.json", 74)
        .says(&["not a file"]);
    place
        .shell("rm -r memory/checkpoints; mkfifo memory/checkpoints")
        .run()
        .with_code(0);
    place.fails("checkpoint update --workflow w --complete one", 73);
}

#[test]
fn a_folder_that_is_a_link_out_of_the_workspace_is_used_only_when_asked_for() {
    for link in ["memory", "memory/checkpoints"] {
        let place = Place::new();
        fs::create_dir_all(place.path("elsewhere/checkpoints")).unwrap();
        fs::create_dir_all(place.work(link).parent().unwrap()).unwrap();
        symlink(place.path("elsewhere"), place.work(link)).unwrap();
        let start = "checkpoint start --workflow w --agent a --step s --idempotency k";
        place.fails(start, 78).says(&["link", "--dir"]);
        place.fails("checkpoint resume", 78);
        assert_eq!(place.picture("elsewhere").len(), 0, "{link}");
        place.ok(&format!("{start} --dir memory/checkpoints"));
        assert_eq!(place.picture("elsewhere").len(), 1, "{link}");
        place.ok("checkpoint resume --dir memory/checkpoints");
    }
    let place = Place::new();
    fs::create_dir_all(place.work("kept/checkpoints")).unwrap();
    symlink("kept", place.work("memory")).unwrap();
    start(&place, "inside");
}

#[test]
fn a_folder_that_becomes_a_link_later_is_not_written_through() {
    let place = with_workflow();
    fs::create_dir(place.path("elsewhere")).unwrap();
    fs::remove_dir_all(place.work("memory/checkpoints")).unwrap();
    symlink(place.path("elsewhere"), place.work("memory/checkpoints")).unwrap();
    place.ok("step run one --task w -- true");
    place.fails("task set w k=v", 73);
    assert_eq!(place.picture("elsewhere").len(), 0);
}

/// The one file in quarantine and its reason.
fn set_aside(place: &Place) -> (String, String) {
    let folder = place.work("memory/checkpoints/quarantine");
    let mut names: Vec<String> = fs::read_dir(folder)
        .expect("something was set aside")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .into_string()
                .expect("text")
        })
        .collect();
    names.sort();
    assert_eq!(names.len(), 2, "{names:?}");
    let reason = place.work("memory/checkpoints/quarantine").join(&names[1]);
    (
        names[0].clone(),
        fs::read_to_string(reason).expect("the reason is there"),
    )
}

#[test]
fn resume_sets_a_damaged_file_aside_and_writes_it_anew() {
    for (kind, damage) in DAMAGE {
        let place = with_workflow();
        damage(&place.checkpoint("w"));
        let answer = place
            .ok("checkpoint resume --workflow w")
            .says(&["w.json", "damaged"]);
        assert_eq!(answer.json()["next_step"], "one", "{kind}");
        let (name, reason) = set_aside(&place);
        assert!(
            name.starts_with("w.json.") && reason.len() > 5,
            "{kind}: {name} {reason}"
        );
        place.ok("checkpoint verify");
    }
}

#[test]
fn update_sets_a_damaged_file_aside_and_writes_it_anew() {
    for (kind, damage) in DAMAGE {
        let place = with_workflow();
        damage(&place.checkpoint("w"));
        place
            .ok("checkpoint update --workflow w --complete one")
            .says(&["damaged"]);
        assert!(set_aside(&place).0.starts_with("w.json."), "{kind}");
        assert_eq!(
            document(&place.checkpoint("w"))["completedSteps"],
            json!(["one"]),
            "{kind}"
        );
    }
}

#[test]
fn a_damaged_file_that_nothing_else_knows_is_65_by_name_and_the_others_resume() {
    for (kind, damage) in DAMAGE {
        let place = with_workflow();
        fs::remove_dir_all(place.path("home")).unwrap();
        damage(&place.checkpoint("w"));
        place
            .fails("checkpoint resume --workflow w", 65)
            .says(&["w.json"]);
        start(&place, "good");
        let answer = place.ok("checkpoint resume").says(&["w.json"]);
        assert_eq!(answer.json()["workflow"], "good", "{kind}");
        assert!(
            fs::symlink_metadata(place.checkpoint("w")).is_ok(),
            "{kind}: left in place"
        );
    }
}

#[test]
fn one_damaged_file_does_not_keep_another_workflow_from_resuming() {
    for (kind, damage) in DAMAGE {
        let place = with_workflow();
        start(&place, "good");
        damage(&place.checkpoint("w"));
        assert_eq!(
            place.json("checkpoint resume --workflow good")["workflow"],
            "good",
            "{kind}"
        );
    }
}

#[test]
fn list_shows_damaged_files_and_what_was_set_aside() {
    for (kind, damage) in DAMAGE {
        let place = with_workflow();
        damage(&place.checkpoint("w"));
        let list = place.json("checkpoint list");
        assert!(
            list["damaged"][0]["file"]
                .as_str()
                .unwrap()
                .ends_with("w.json"),
            "{kind}"
        );
        assert_eq!(list["items"][0]["damaged"], true, "{kind}");
        let shown = place.ok("checkpoint list").says(&["damaged: "]);
        assert!(shown.text().contains("w.json\tINVALID\n"), "{kind}");
        place.ok("checkpoint update --workflow w --notes x");
        assert_eq!(
            place.json("checkpoint list")["quarantined"]
                .as_array()
                .unwrap()
                .len(),
            1
        );
    }
}

#[test]
fn check_exits_65_for_a_damaged_file() {
    for (kind, damage) in DAMAGE {
        let place = with_workflow();
        damage(&place.checkpoint("w"));
        let answer = place.fails("check --stale 1h", 65);
        assert!(
            answer.text().contains("ALERT damaged"),
            "{kind}: {}",
            answer.text()
        );
    }
}

#[test]
fn a_file_that_may_not_be_read_is_set_aside_like_a_damaged_one() {
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: giving a file to somebody else needs root");
        return;
    }
    let place = Place::new();
    fs::set_permissions(place.path(""), fs::Permissions::from_mode(0o777)).unwrap();
    fs::set_permissions(place.path("work"), fs::Permissions::from_mode(0o777)).unwrap();
    let start = "checkpoint start --workflow w --agent a --step s --idempotency k";
    place.relight(start).by_nobody().run().with_code(0);
    std::os::unix::fs::chown(place.checkpoint("w"), Some(0), Some(0)).unwrap();
    place
        .relight("checkpoint verify")
        .by_nobody()
        .run()
        .with_code(65);
    place
        .relight("check --stale 1h")
        .by_nobody()
        .run()
        .with_code(65);
    place
        .relight("checkpoint resume")
        .by_nobody()
        .run()
        .with_code(0)
        .says(&["w.json"]);
    place
        .relight("checkpoint verify")
        .by_nobody()
        .run()
        .with_code(0);
}

#[test]
fn a_link_planted_in_the_folder_is_not_followed() {
    let place = Place::new();
    let secret = place.path("outside.json");
    fs::write(&secret, "precious").unwrap();
    fs::create_dir_all(place.work("memory/checkpoints")).unwrap();
    symlink(&secret, place.checkpoint("w")).unwrap();
    start(&place, "w");
    place.ok("checkpoint update --workflow w --complete one");
    assert_eq!(fs::read(&secret).unwrap(), b"precious");
    assert!(
        fs::symlink_metadata(place.checkpoint("w"))
            .unwrap()
            .is_file()
    );
}

#[test]
fn a_file_copy_that_cannot_be_written_is_73_and_the_store_has_it() {
    let place = with_workflow();
    let folder = place.work("memory/checkpoints");
    fs::remove_dir_all(&folder).unwrap();
    fs::write(&folder, "in the way").unwrap();
    let update = "checkpoint update --workflow w --complete one";
    place
        .fails(update, 73)
        .says(&["saved in the store", "memory/checkpoints/w.json"]);
    assert_eq!(place.json("task show w")["done_steps"], json!(["one"]));
    fs::remove_file(&folder).unwrap();
    place.ok("checkpoint update --workflow w --step two");
    assert_eq!(
        document(&place.checkpoint("w"))["completedSteps"],
        json!(["one"])
    );
}

#[test]
fn start_whose_file_copy_cannot_be_written_is_73_and_the_store_has_it() {
    let place = Place::new();
    fs::write(place.work("memory"), "in the way").unwrap();
    let start = "checkpoint start --workflow w --agent a --step s --idempotency k";
    place.fails(start, 73).says(&["saved in the store"]);
    assert_eq!(place.status("w"), "in_progress");
}

#[test]
fn resume_whose_file_copy_cannot_be_written_is_73_and_tells_the_fence() {
    let place = with_workflow();
    let folder = place.work("memory/checkpoints");
    fs::remove_dir_all(&folder).unwrap();
    fs::write(&folder, "in the way").unwrap();
    let answer = place.fails("checkpoint resume --workflow w", 73);
    assert_eq!(answer.json()["fence"], 1);
}

#[test]
fn a_workflow_is_a_task() {
    let place = with_workflow();
    assert_eq!(place.json("task show w")["agent"], "ops");
    place.ok("step run extra --task w -- true");
    place.ok("task cancel w");
    place
        .fails("checkpoint resume --workflow w", 1)
        .says(&["cancelled"]);
}

#[test]
fn show_prints_the_document() {
    let place = with_workflow();
    let shown = place.ok("checkpoint show --workflow w").json();
    assert_eq!(
        (&shown["workflowId"], &shown["currentStep"]),
        (&json!("w"), &json!("one"))
    );
    place
        .fails("checkpoint show --workflow x", 1)
        .says(&["no workflow x"]);
}

#[test]
fn list_is_of_this_folder_unless_all_are_wanted() {
    let place = with_workflow();
    place.ok("checkpoint start --workflow v --agent a --step s --idempotency k --dir other");
    assert_eq!(
        place.json("checkpoint list")["items"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    assert_eq!(
        place.json("checkpoint list --all")["items"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    assert_eq!(
        place.json("checkpoint list --dir other")["items"][0]["workflow"],
        "v"
    );
}

#[test]
fn a_half_written_draft_is_in_nobodys_way() {
    let place = with_workflow();
    fs::write(place.work("memory/checkpoints/.w.json.tmp"), "{\"half").unwrap();
    place.ok("checkpoint verify");
    place.ok("checkpoint resume");
}

#[test]
fn a_workflow_completed_with_steps_left_says_and_records_them() {
    let place = with_workflow();
    let done = place.ok("--json checkpoint complete --workflow w");
    assert!(
        done.stderr.contains("steps left open: two, three"),
        "{}",
        done.stderr
    );
    assert_eq!(done.json()["left_open"], json!(["two", "three"]));
    let shown = place.json("task show w");
    assert_eq!(
        (&shown["status"], &shown["reason"]),
        (&json!("completed"), &json!("steps left open: two, three"))
    );
    start(&place, "v");
    place.ok("checkpoint update --workflow v --complete one --complete two --complete three");
    let done = place.ok("--json checkpoint complete --workflow v");
    assert_eq!(
        (done.stderr.as_str(), &done.json()["left_open"]),
        ("", &json!([]))
    );
}

#[test]
fn a_workflow_that_waits_for_a_person_is_resumed_by_force_alone() {
    let place = with_workflow();
    place.ok("checkpoint update --workflow w --status blocked --notes why");
    for words in ["checkpoint resume --workflow w", "checkpoint resume"] {
        let told = place.fails(words, 75);
        assert_eq!(told.text(), "", "{words}");
        told.says(&[
            "blocked and waits for a person: why",
            "task retry w",
            "--workflow w --force",
        ]);
    }
    let error: Value =
        serde_json::from_str(&place.fails("--json checkpoint resume", 75).stderr).unwrap();
    assert_eq!(error["error"]["code"], "waits_for_person");
    assert_eq!(place.status("w"), "blocked");
    place.ok("checkpoint resume --workflow w --force");
    assert_eq!(place.status("w"), "in_progress");
}

#[test]
fn a_workflow_keeps_to_the_attempts_that_it_may_use() {
    let place = with_workflow();
    fs::write(place.work("relight.toml"), "[queue]\nattempts_max = 2\n").unwrap();
    let resume = |words: &str| {
        place
            .shell(&format!("relight checkpoint resume --owner-pid $$ {words}"))
            .run()
    };
    resume("").with_code(0);
    resume("--workflow w").with_code(0);
    resume("").with_code(75).says(&["used up", "--force"]);
    resume("--workflow w")
        .with_code(75)
        .says(&["used up", "--force"]);
    resume("--workflow w --force").with_code(0);
}

#[test]
fn a_workflow_that_waits_is_75_until_it_is_let_go_on() {
    for (verb, status) in [
        ("review w", "in_review"),
        ("defer w --until 1h", "not to be started before"),
        ("block w --reason look", "blocked"),
    ] {
        let place = with_workflow();
        place.ok(&format!("task {verb}"));
        assert_eq!(
            place.fails("checkpoint resume", 75).says(&[status]).text(),
            "",
            "{verb}"
        );
        place.ok("checkpoint resume --workflow w --force");
    }
    let place = with_workflow();
    place.ok("task review w");
    place
        .fails("checkpoint resume --workflow w", 75)
        .says(&["in_review"]);
}

#[test]
fn the_example_agent_does_not_start_over_what_waits_for_a_person() {
    let place = Place::new();
    let agent = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../examples/checkpoint-agent.sh"
    );
    place
        .shell(&format!("CRASH_AT=migrate bash {agent}"))
        .run()
        .with_code(137);
    place.ok("task block deploy-42 --reason look");
    let answer = place.shell(&format!("bash {agent}")).run().with_code(75);
    assert!(!answer.text().contains("performing"), "{}", answer.text());
    place.ok("task retry deploy-42");
    let answer = place.shell(&format!("bash {agent}")).run().with_code(0);
    assert!(
        !answer.text().contains("performing backup"),
        "{}",
        answer.text()
    );
    assert_eq!(place.status("deploy-42"), "completed");
}

#[test]
fn a_failed_workflow_is_not_revived_by_an_update() {
    let place = with_workflow();
    place.ok("checkpoint update --workflow w --status failed");
    for words in [
        "update --step two",
        "update --status in_progress",
        "complete",
    ] {
        let (verb, rest) = words.split_once(' ').unwrap_or((words, ""));
        let told = place.fails(&format!("checkpoint {verb} --workflow w {rest}"), 1);
        told.says(&["w is failed", "relight task retry w"]);
        assert_eq!(place.status("w"), "failed", "{words}");
    }
    place.ok("task retry w");
    place.ok("checkpoint update --workflow w --step two");
    assert_eq!(place.status("w"), "in_progress");
}

#[test]
fn a_workflow_that_failed_for_good_is_resumed_by_force_alone() {
    let place = with_workflow();
    place.ok("task fail w --reason one");
    place.ok("checkpoint resume --workflow w");
    place.ok("task fail w --reason two");
    assert_eq!(place.status("w"), "failed");
    place
        .fails("checkpoint resume --workflow w", 75)
        .says(&["failed", "two", "--force"]);
    place
        .fails("checkpoint resume", 75)
        .says(&["failed", "--force"]);
    place.ok("checkpoint resume --workflow w --force");
}

#[test]
fn a_start_over_what_has_ended_says_so_or_is_refused() {
    let place = with_workflow();
    place.ok("checkpoint complete --workflow w");
    let other = "checkpoint start --workflow w --agent ops --step a --idempotency other";
    let answer = place
        .ok(other)
        .says(&["new run", "completed", "relight events --task w"]);
    assert!(answer.text().contains("started anew"), "{}", answer.text());
    let forced = place.json(&format!("{other}-2 --force"));
    assert_eq!(
        (&forced["outcome"], &forced["replaced"]),
        (&json!("started"), &json!("in_progress"))
    );
    place.ok("task cancel w");
    let same = format!("{other}-2");
    place.fails(&same, 1).says(&["cancelled", "--force"]);
    assert_eq!(place.status("w"), "cancelled");
    place
        .ok(&format!("{same} --force"))
        .says(&["new run", "cancelled"]);
    place.ok("task start t");
    place.ok("task done t");
    let over_task = "checkpoint start --workflow t --agent ops --step a --idempotency k";
    place
        .fails(over_task, 1)
        .says(&["completed", "nothing was started", "--force"]);
    assert_eq!(place.status("t"), "completed");
    place
        .ok(&format!("{over_task} --force"))
        .says(&["new run", "completed"]);
}

#[test]
fn a_suspended_workflow_is_not_woken_by_an_update() {
    let place = with_workflow();
    place.ok("task start v --strategy suspend");
    place.ok("task fail v --reason why");
    place
        .fails("checkpoint update --workflow v --step next", 1)
        .says(&["waits for a person"]);
    place.fails("checkpoint update --workflow v --status in_progress", 1);
    assert_eq!(place.status("v"), "suspended");
}

#[test]
fn the_dialect_neither_wakes_nor_completes_what_waits_for_a_person() {
    let place = with_workflow();
    place.ok("task block w --reason look");
    place.ok("task start b --step a");
    place.ok("task block b --reason look");
    place.ok("task start s --step a --strategy suspend");
    place.ok("task fail s --reason why");
    for (id, status) in [("w", "blocked"), ("b", "blocked"), ("s", "suspended")] {
        for words in [
            "update --step a",
            "update --complete a",
            "update --status in_progress",
            "update --status done",
            "update --status failed",
            "complete",
        ] {
            let (verb, rest) = words.split_once(' ').unwrap_or((words, ""));
            place
                .fails(&format!("checkpoint {verb} --workflow {id} {rest}"), 1)
                .says(&["waits for a person", &format!("relight task retry {id}")]);
            assert_eq!(place.status(id), status, "after checkpoint {words} of {id}");
        }
    }
    place.fails("checkpoint update --workflow s --status blocked", 1);
    assert_eq!(place.status("s"), "suspended");
    place.ok("task retry w");
    place.ok("checkpoint complete --workflow w");
}

#[test]
fn a_start_over_an_unfinished_task_that_is_no_workflow_says_what_it_is() {
    let place = Place::new();
    place.ok("task start s --strategy suspend");
    place.ok("task fail s --reason why");
    let start = "checkpoint start --workflow s --agent a --step one --idempotency k";
    place
        .fails(start, 1)
        .says(&["workflow s is unfinished (blocked) in the store\n"]);
}

#[test]
fn a_workflow_that_the_dialect_blocked_is_continued_by_the_dialect() {
    for how in [
        "--status in_progress",
        "--step two",
        "--complete one --notes on",
    ] {
        let place = with_workflow();
        place.ok("checkpoint update --workflow w --status blocked --notes why");
        place
            .fails("checkpoint complete --workflow w", 1)
            .says(&["waits for a person"]);
        place.ok(&format!("checkpoint update --workflow w {how}"));
        assert_eq!(place.status("w"), "in_progress", "{how}");
        // The word of the dialect counts no more: this block is a person's.
        place.ok("task block w --reason look");
        place.fails(&format!("checkpoint update --workflow w {how}"), 1);
        assert_eq!(place.status("w"), "blocked", "{how}");
    }
}

#[test]
fn a_workflow_is_resumed_by_its_own_agent_alone() {
    let place = with_workflow();
    let refused = place.fails("checkpoint resume --workflow w --agent other", 1);
    refused.says(&[
        "belongs to agent ops, not to other",
        "relight task retry w --agent other",
    ]);
    place.ok("task retry w --agent other");
    place.ok("checkpoint resume --workflow w --agent other --lease 1h");
    let held = place.fails("checkpoint resume --workflow w", 75);
    held.says(&["held by agent other (a lease of 1h)"]);
}

#[test]
fn the_dialect_does_not_touch_a_task_of_a_live_holder_that_is_no_workflow() {
    let place = Place::new();
    let holder = place.shell("sleep 1000").spawn();
    place.ok(&format!("task start t --owner-pid {}", holder.pid()));
    place.ok("step begin pay --task t --repeat once --fence 1");
    place.fails("checkpoint complete --workflow t", 75);
    place.fails("checkpoint update --workflow t --complete pay", 75);
    let shown = place.json("task show t");
    assert_eq!(
        (&shown["status"], &shown["steps"][0]["state"]),
        (&json!("in_progress"), &json!("begun"))
    );
    holder.kill();
}

/// `resume` of a failed workflow is one of its retries, as `task retry` is.
#[test]
fn a_failed_workflow_is_resumed_as_often_as_its_retries_allow() {
    let place = with_workflow();
    let max = place.json("task show w")["max_retries"].as_u64().unwrap();
    for retry in 0..=max {
        let fence = place.json("checkpoint resume --workflow w --lease 1h")["fence"].clone();
        assert_eq!(place.json("task show w")["retries"], retry);
        place.ok(&format!(
            "checkpoint update --workflow w --status failed --fence {fence}"
        ));
    }
    place
        .fails("checkpoint resume --workflow w --lease 1h", 75)
        .says(&["w", "failed"]);
}

/// Only the holder died: what its step does is not in doubt, and its end is waited for.
#[test]
fn a_workflow_whose_step_an_orphan_still_runs_is_not_resumed() {
    let place = with_workflow();
    let mut owner = place.shell("echo up; exec sleep 50").spawn();
    owner.line();
    place.ok(&format!(
        "checkpoint resume --workflow w --owner-pid {}",
        owner.pid()
    ));
    let step = place
        .relight("step run long --task w --fence 1 -- sh -c")
        .arg("echo $$; exec sleep 50");
    let mut running = step.spawn();
    let command = running.line().parse().unwrap();
    owner.kill();
    place
        .fails("checkpoint resume --workflow w", 75)
        .says(&["step long"]);
    place.fails("checkpoint resume", 75).says(&["step long"]);
    running.kill();
    place.fails("checkpoint resume", 75).says(&["step long"]);
    cases::kill(command);
    place.ok("checkpoint resume --workflow w");
}

#[test]
fn a_start_by_the_verb_of_tasks_writes_the_file_too() {
    let place = with_workflow();
    let file = place.checkpoint("w");
    fs::remove_file(&file).unwrap();
    place.ok("task start w --lease 1h");
    let written = document(&file);
    assert_eq!(
        (&written["workflowId"], &written["status"]),
        (&json!("w"), &json!("in_progress"))
    );
}

/// `start` holds nothing: whose a workflow is decides, where its agent is one that Relight knows.
#[test]
fn a_workflow_of_another_agent_is_not_resumed_for_the_caller() {
    let place = Place::new();
    for agent in ["alpha", "beta"] {
        place.ok(&format!("run --name {agent} --restart never -- true"));
        place.ok(&format!(
            "checkpoint start --workflow w-{agent} --agent {agent} --step one --idempotency {agent}"
        ));
    }
    let by = |agent: &str, verb: &str| place.relight(verb).env("RELIGHT_AGENT", agent).run();
    by("beta", "checkpoint resume --workflow w-alpha")
        .with_code(1)
        .says(&["belongs to agent alpha"]);
    let resumed = by("beta", "checkpoint resume");
    assert!(resumed.text().contains("w-beta"), "{}", resumed.stderr);
    place.ok("checkpoint start --workflow w-ops --agent ops --step one --idempotency ops");
    let resumed = by("beta", "checkpoint resume");
    assert!(
        resumed.text().contains("w-ops"),
        "a name that is no agent's is a label: {}",
        resumed.stderr
    );
    let resumed = by("alpha", "checkpoint resume");
    assert!(resumed.text().contains("w-alpha"), "{}", resumed.stderr);
}
