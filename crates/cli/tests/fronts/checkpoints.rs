//! The checkpoint verbs through every front that serves them: one journal, the same answers and errors.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::client::{Client, Speaks};
use crate::front::{Answer, Front, settle_hint};
use crate::package::Package;
use crate::refusals::without_field;

/// What all answer when a workflow is saved.
const SAVED: [&str; 4] = ["workflow", "outcome", "status", "step"];

/// What all answer when a workflow is resumed.
const RESUMED: [&str; 13] = [
    "task",
    "status",
    "title",
    "agent",
    "fence",
    "resumed",
    "handed_over",
    "done_steps",
    "in_doubt",
    "next_step",
    "context",
    "payload",
    "notes",
];

fn start(workflow: &str) -> (&'static str, Value) {
    let fields = json!({"workflow": workflow, "agent": "ops", "step": "one",
        "remaining": ["two", "three"], "idempotency": format!("key-{workflow}"), "notes": "begun"});
    ("checkpoint.start", fields)
}

fn update(mut fields: Value) -> (&'static str, Value) {
    fields["workflow"] = json!("w");
    ("checkpoint.update", fields)
}

fn resume(fields: Value) -> (&'static str, Value) {
    ("checkpoint.resume", fields)
}

#[test]
fn a_resume_by_name_takes_what_the_command_line_takes() {
    for mut front in Front::of_the_table() {
        call(&mut front, &start("w")).unwrap();
        let ground = front.ground();
        let blocked = ground.call(&["task", "block", "w", "--reason", "x"]);
        assert_eq!(blocked.code, 0, "{blocked:?}");
        let name = front.name();
        let mut refused = |mut fields: Value| {
            fields["workflow"] = json!("w");
            call(&mut front, &resume(fields)).expect_err("it is refused")
        };
        assert_eq!(refused(json!({}))["code"], "waits_for_person", "{name}");
        for (field, value) in [("steal_lock", json!("yes")), ("force", json!(1))] {
            let error = refused(json!({field: value}));
            let message = error["message"].as_str().unwrap();
            assert!(
                message.starts_with(&format!("{field}: invalid type: ")),
                "{name} {error}"
            );
            assert!(
                message.ends_with("expected true or false"),
                "{name} {error}"
            );
        }
        let unknown = refused(json!({"xyz": 1}));
        let known = "known are agent, dir, fence, force, lease, owner_pid, steal_lock, workflow";
        assert_eq!(unknown["hint"], known, "{name}");
        let forced = json!({"workflow": "w", "force": true});
        let resumed = call(&mut front, &resume(forced)).unwrap();
        assert_eq!(resumed["status"], "in_progress", "{name}");
    }
}

/// Where the files of workflows are.
fn checkpoints(front: &Front) -> PathBuf {
    match front {
        Front::McpHttp(ground, _) => ground.home("checkpoints"),
        front => front.ground().work("memory/checkpoints"),
    }
}

fn call(front: &mut Front, (operation, fields): &(&str, Value)) -> Answer {
    front.call(operation, fields).expect("it is served")
}

/// Plays a story through all; what all answered to its last call.
fn last(story: &[(&str, Value)], fronts: &mut [Front]) -> Answer {
    let (call_last, before) = story.split_last().unwrap();
    let answers = fronts.iter_mut().filter_map(|front| {
        for one in before {
            call(front, one).unwrap_or_else(|error| panic!("{} {one:?}: {error}", front.name()));
        }
        // Over HTTP no folder is told.
        let is_near = front.name() != "mcp_http";
        let folder = checkpoints(front).display().to_string();
        let is_saved = [
            "checkpoint.start",
            "checkpoint.update",
            "checkpoint.complete",
        ];
        let fields = if is_saved.contains(&call_last.0) {
            &SAVED[..]
        } else {
            &RESUMED[..]
        };
        let left_open =
            |answer: &Value| answer["left_open"].as_array().cloned().unwrap_or_default();
        let is_for_models = front.is_for_models();
        let name = front.name();
        // None for a number that a language cannot hold.
        let answer = match front.call(call_last.0, &call_last.1)? {
            Ok(answer) => {
                let mut picked: Value = fields
                    .iter()
                    .map(|field| ((*field).to_owned(), answer[field].clone()))
                    .collect();
                picked["left_open"] = json!(left_open(&answer));
                Ok(picked)
            }
            Err(mut error) => {
                let mut message = error["message"].as_str().unwrap().to_owned();
                if is_near {
                    message = message.replace(&format!("{folder}/"), "");
                    message = message.replace(&folder, "checkpoints");
                }
                error["message"] = json!(without_field(&message, &call_last.1));
                // Who holds it, and for how long, is the front's own.
                if error["code"] == "held" {
                    error["message"] = Value::Null;
                }
                Err(error)
            }
        };
        Some((name, is_for_models, answer))
    });
    let mut answers: Vec<(&str, bool, Answer)> = answers.collect();
    let (_, _, cli) = answers.remove(0);
    for (name, is_for_models, mut answer) in answers {
        if let (Err(person), Err(model), true) = (&cli, &mut answer, is_for_models) {
            settle_hint(person, model);
        }
        assert_eq!(cli, answer, "{name} {call_last:?}");
    }
    cli
}

fn one_journal(fronts: &[Front]) -> Vec<String> {
    let mut journals: Vec<_> = fronts.iter().map(Front::journal).collect();
    let cli = journals.remove(0);
    journals
        .iter()
        .for_each(|journal| assert_eq!(cli, *journal));
    cli
}

#[test]
fn a_workflow_goes_from_its_start_to_its_end() {
    let mut fronts = Front::with_files();
    let started = last(&[start("w")], &mut fronts).unwrap();
    assert_eq!(
        (&started["outcome"], &started["step"]),
        (&json!("started"), &json!("one"))
    );
    let next = update(json!({"complete": ["one"], "step": "two", "notes": "half way"}));
    let updated = last(&[next], &mut fronts).unwrap();
    assert_eq!(
        (&updated["outcome"], &updated["step"]),
        (&json!("updated"), &json!("two"))
    );
    let complete = ("checkpoint.complete", json!({"workflow": "w"}));
    let done = last(&[complete], &mut fronts).unwrap();
    assert_eq!(
        (&done["outcome"], &done["left_open"]),
        (&json!("done"), &json!(["three"]))
    );
    assert_eq!(
        last(&[start("w")], &mut fronts).unwrap()["outcome"],
        "completed"
    );
    insta::assert_snapshot!(one_journal(&fronts).join("\n"), @r#"
    task.created w - null {"title":null,"agent":"ops"}
    task.status w - null {"from":"assigned","to":"in_progress","reason":null}
    step.begun w one null {}
    step.done w one null {"exit_code":0}
    step.begun w two null {}
    task.changed w - null {"notes":"half way","handoff_to":null}
    step.done w two null {"exit_code":0}
    task.status w - null {"from":"in_progress","to":"completed","reason":"steps left open: three"}
    "#);
}

#[test]
fn the_first_save_of_a_finished_workflow_is_completed_by_its_default_key_too() {
    let mut fronts = Front::with_files();
    let first = |front: &mut Front| {
        let mut start = json!({"workflow": "w", "agent": "ops", "step": "one"});
        if !front.is_for_models() {
            start["idempotency"] = json!("w");
        }
        call(front, &("checkpoint.start", start)).unwrap()["outcome"].clone()
    };
    let complete = ("checkpoint.complete", json!({"workflow": "w"}));
    for front in &mut fronts {
        assert_eq!(first(front), "started", "{}", front.name());
        assert_eq!(first(front), "same", "{}", front.name());
        call(front, &complete).unwrap();
        assert_eq!(first(front), "completed", "{}", front.name());
    }
    last(&[start("v")], &mut fronts).unwrap();
    assert_eq!(last(&[start("v")], &mut fronts).unwrap()["outcome"], "same");
    one_journal(&fronts);
}

#[test]
fn a_workflow_that_is_blocked_gives_up_its_lease_and_sends_an_alert() {
    let mut fronts = Front::with_files();
    let block = update(json!({"status": "blocked", "notes": "the key is missing", "fence": 1}));
    let named = resume(json!({"workflow": "w"}));
    let refused = last(&[start("w"), named.clone(), block, named], &mut fronts).unwrap_err();
    assert_eq!(refused["code"], "waits_for_person", "{refused}");
    let journal = one_journal(&fronts);
    for kind in ["lease.ended", "alert"] {
        assert!(
            journal.iter().any(|line| line.starts_with(kind)),
            "{kind}: {journal:#?}"
        );
    }
    // What the dialect blocked, the dialect continues.
    let next = update(json!({"complete": ["one"], "step": "two"}));
    assert_eq!(last(&[next], &mut fronts).unwrap()["status"], "in_progress");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a process of the test's own")]
fn a_workflow_whose_holder_was_killed_is_resumed_where_it_was() {
    // The life of a holder is not seen over HTTP.
    let mut fronts = Front::with_files();
    fronts.retain(|front| matches!(front, Front::Cli(_) | Front::Mcp(..) | Front::Package(..)));
    let fronts = &mut fronts[..];
    let next = update(json!({"complete": ["one"], "step": "two"}));
    let mut owner = Command::new("sleep")
        .arg("600")
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    for front in fronts.iter_mut() {
        for one in [start("w"), next.clone()] {
            call(front, &one).unwrap();
        }
        let mut first = resume(json!({"agent": "ops"}));
        if front.name() == "cli" {
            first.1["owner_pid"] = json!(owner.id());
        }
        assert_eq!(call(front, &first).unwrap()["fence"], 1);
    }
    // Another client: its own process continues a lease.
    let Front::Mcp(ground, client) = &mut fronts[1] else {
        unreachable!()
    };
    let first = std::mem::replace(client, Client::new(&ground.stage, Speaks::Alone));
    let mut first_packages = Vec::new();
    for front in fronts.iter_mut() {
        if let Front::Package(ground, package) = front {
            let other = Package::start(package.name, ground, None).expect("it is installed");
            first_packages.push(std::mem::replace(package, Box::new(other)));
        }
    }
    let held = last(&[resume(json!({"agent": "ops"}))], fronts).unwrap_err();
    assert_eq!((&held["code"], &held["exit"]), (&json!("held"), &json!(75)));
    assert!(
        held["hint"]
            .as_str()
            .unwrap()
            .ends_with("--steal-lock takes it over"),
        "{held}"
    );
    owner.kill().unwrap();
    owner.wait().unwrap();
    first.kill();
    drop(first_packages);
    let resumed = last(&[resume(json!({"agent": "ops"}))], fronts).unwrap();
    assert_eq!(
        (&resumed["fence"], &resumed["resumed"]),
        (&json!(2), &json!(true))
    );
    assert_eq!(
        (&resumed["done_steps"], &resumed["in_doubt"]),
        (&json!(["one"]), &json!(["two"]))
    );
    let late = update(json!({"complete": ["two"], "fence": 1}));
    assert_eq!(last(&[late], fronts).unwrap_err()["code"], "fenced");
    let rest = update(json!({"complete": ["two", "three"], "status": "done", "fence": 2}));
    assert_eq!(last(&[rest], fronts).unwrap()["left_open"], json!([]));
    one_journal(fronts);
}

/// A story whose last call is refused: the code, the exit code and the HTTP status.
fn refused(story: &[(&str, Value)], code: &str, exit: u8, status: u16) -> Value {
    let mut fronts = Front::with_files();
    let error = last(story, &mut fronts).expect_err("it is refused");
    assert_eq!(
        (&error["code"], &error["exit"]),
        (&json!(code), &json!(exit)),
        "{error}"
    );
    assert_eq!(error["status"], status, "{error}");
    one_journal(&fronts);
    error
}

#[test]
fn what_is_refused_is_refused_in_the_same_words() {
    let step = update(json!({"complete": ["one"]}));
    let unknown = refused(&[step], "not_found", 1, 404);
    assert_eq!(unknown["hint"], "relight checkpoint list --all");
    let mut other = start("w");
    other.1["idempotency"] = json!("another");
    let unfinished = refused(&[start("w"), other], "conflict", 1, 409);
    assert_eq!(
        unfinished["message"],
        "workflow w is unfinished (in_progress) in checkpoints"
    );
    // Also if there is nothing to change.
    for step in ["two", "one"] {
        let stale = update(json!({"step": step, "fence": 7}));
        refused(&[start("w"), stale], "fenced", 77, 409);
    }
    refused(&[resume(json!({}))], "nothing", 1, 409);
    refused(
        &[resume(json!({"workflow": "nosuch"}))],
        "not_found",
        1,
        404,
    );
    let block = update(json!({"status": "blocked", "notes": "the key is missing"}));
    let blocked = [start("w"), block, resume(json!({"workflow": "w"}))];
    refused(&blocked, "waits_for_person", 75, 409);
    let done = ("checkpoint.complete", json!({"workflow": "w"}));
    refused(
        &[start("w"), done, resume(json!({"workflow": "w"}))],
        "ended",
        1,
        409,
    );
}

#[test]
fn a_value_that_cannot_be_is_refused_in_the_same_words() {
    for (field, value) in [
        ("workflow", json!("a\nb")),
        ("workflow", json!("")),
        ("agent", json!("a\u{7}b")),
        ("step", json!("a\nb")),
        ("idempotency", json!("")),
    ] {
        let mut bad = start("w");
        bad.1[field] = value;
        refused(&[bad], "invalid", 2, 422);
    }
    let finished = update(json!({"status": "finished"}));
    refused(&[start("w"), finished], "invalid", 2, 422);
    let fence = update(json!({"step": "two", "fence": i64::MAX as u64 + 1}));
    refused(&[start("w"), fence], "invalid", 2, 422);
}

#[test]
fn a_damaged_file_is_set_aside_where_the_store_knows_the_workflow_and_told_where_not() {
    let mut fronts = Front::with_files();
    last(&[start("w")], &mut fronts).unwrap();
    let damage = |fronts: &[Front], name: &str| {
        for front in fronts {
            std::fs::write(checkpoints(front).join(name), "torn").unwrap();
        }
    };
    damage(&fronts, "w.json");
    let updated = last(&[update(json!({"complete": ["one"]}))], &mut fronts).unwrap();
    assert_eq!(updated["outcome"], "updated");
    damage(&fronts, "lost.json");
    let lost = last(&[resume(json!({"workflow": "lost"}))], &mut fronts).unwrap_err();
    assert_eq!(
        (&lost["code"], &lost["exit"]),
        (&json!("damaged"), &json!(65)),
        "{lost}"
    );
    let journal = one_journal(&fronts);
    assert!(
        journal
            .iter()
            .any(|line| line.starts_with("checkpoint.damaged")),
        "{journal:#?}"
    );
}
