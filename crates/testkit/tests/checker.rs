//! The checker has teeth: each lie in a ledger is found, and a true one passes.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use relight_testkit::checker;
use relight_testkit::driver::{COMPLETED, library};
use relight_testkit::world::ledger::{Entry, Ledger};
use relight_testkit::world::plan;
use relight_testkit::world::product::Product;
use relight_testkit::world::stage::Stage;
use serde_json::json;

/// A task completed through the library.
fn completed() -> (tempfile::TempDir, Stage) {
    let folder = tempfile::tempdir().unwrap();
    let none = std::path::PathBuf::from("none");
    let product = Product {
        relight: none.clone(),
        driver: none,
    };
    let stage = Stage::in_folder(&product, folder.path(), "T").unwrap();
    assert_eq!(library::run(&stage).unwrap(), COMPLETED);
    (folder, stage)
}

/// What the checker says of this ledger, with the task as it is shown when all went well.
fn found(stage: &Stage) -> String {
    let entries = stage.ledger.entries("T").unwrap();
    let steps = plan::step_names().map(|name| json!({"name": name, "state": "done"}));
    let steps: Vec<_> = steps.collect();
    let task = json!({"status": "completed", "fence": 1, "steps": steps});
    let mut found = checker::check_told(&entries, &task);
    found.extend(checker::check_recorded(stage, &entries).unwrap());
    found
        .iter()
        .map(|violation| format!("{violation}\n"))
        .collect()
}

/// The same store with another ledger.
fn retold(stage: &Stage, tell: impl Fn(&mut Vec<Entry>)) -> Stage {
    let mut entries = stage.ledger.entries("T").unwrap();
    tell(&mut entries);
    let ledger = Ledger::at(stage.home.join("retold"));
    entries
        .iter()
        .for_each(|entry| ledger.append("T", entry).unwrap());
    Stage {
        ledger,
        ..stage.clone()
    }
}

fn effect(step: &str, key: &str) -> Entry {
    Entry::Effect {
        step: step.into(),
        key: key.into(),
        token: "another".into(),
    }
}

#[test]
fn a_true_ledger_passes() {
    let (_folder, stage) = completed();
    assert_eq!(found(&stage), "");
}

#[test]
fn an_acknowledged_output_that_was_not_recorded_is_found() {
    let (_folder, stage) = completed();
    let lie = retold(&stage, |entries| {
        for entry in entries {
            if let Entry::Ack { step, output } = entry
                && step == "s05"
            {
                output.push('x');
            }
        }
    });
    assert!(
        found(&lie).starts_with("Lost: s05 gave "),
        "{}",
        found(&lie)
    );
}

#[test]
fn an_acknowledged_step_that_is_not_there_is_found() {
    let (_folder, stage) = completed();
    let ack = Entry::Ack {
        step: "s21".into(),
        output: String::new(),
    };
    let lie = retold(&stage, |entries| entries.push(ack.clone()));
    assert_eq!(found(&lie), "Lost: s21 was acknowledged and is None\n");
}

#[test]
fn an_effect_after_its_acknowledgement_is_found() {
    let (_folder, stage) = completed();
    let lie = retold(&stage, |entries| {
        let key = entries.iter().find_map(|entry| match entry {
            Entry::Effect { step, key, .. } if step == "s04" => Some(key.clone()),
            _ => None,
        });
        entries.push(effect("s04", &key.unwrap()));
    });
    assert_eq!(
        found(&lie),
        "Repeated: s04 acted after its end was acknowledged\n"
    );
}

#[test]
fn another_idempotency_key_is_found() {
    let (_folder, stage) = completed();
    let lie = retold(&stage, |entries| {
        entries.insert(1, effect("s04", "another"));
    });
    assert_eq!(found(&lie), "Rule: s04 got another key\n");
}

#[test]
fn a_step_that_may_act_once_and_acted_twice_is_found() {
    let (_folder, stage) = completed();
    let lie = retold(&stage, |entries| {
        let first = entries
            .iter()
            .position(|e| matches!(e, Entry::Effect { step, .. } if step == "s03"));
        entries.insert(first.unwrap(), entries[first.unwrap()].clone());
    });
    assert_eq!(found(&lie), "Rule: s03 acted twice\n");
}

#[test]
fn a_fence_given_twice_is_found() {
    let (_folder, stage) = completed();
    let lie = retold(&stage, |entries| entries.insert(1, entries[0].clone()));
    assert_eq!(found(&lie), "Fence: fence 1 was given after 1\n");
}
