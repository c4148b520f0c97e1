//! `relight doctor`, from outside, on whole and on damaged stores.

use crate::relight;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::OnceLock;

use relight::{Ran, Stage};
use relight_store::sqlite::{SqliteStore, Use};
use serde_json::Value;

const PAGE: usize = 4_096;

/// A store of many pages, all in its file and none in its log; made once.
fn whole_store() -> &'static [u8] {
    static STORE: OnceLock<Vec<u8>> = OnceLock::new();
    STORE.get_or_init(|| {
        let stage = Stage::new();
        let payload = format!("\"{}\"", "words ".repeat(500));
        for number in 0..60 {
            let id = format!("task-{number}");
            assert_eq!(
                stage.run(&["task", "add", &id, "--payload", &payload]).code,
                0
            );
        }
        // A long-lived user of the store empties the log when it ends.
        drop(SqliteStore::open(&store(&stage), Use::Long).unwrap());
        fs::read(store(&stage)).unwrap()
    })
}

fn store(stage: &Stage) -> PathBuf {
    stage.folder.path().join("home/relight.db")
}

/// A home whose store has this content.
fn with_store(content: &[u8]) -> Stage {
    let stage = Stage::new();
    let home = stage.folder.path().join("home");
    fs::create_dir(&home).unwrap();
    fs::set_permissions(&home, fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(store(&stage), content).unwrap();
    fs::set_permissions(store(&stage), fs::Permissions::from_mode(0o600)).unwrap();
    stage
}

/// The store with every fourth page in its middle overwritten.
fn with_bad_pages() -> Vec<u8> {
    let mut content = whole_store().to_vec();
    let pages = content.len() / PAGE;
    assert!(pages > 30, "{pages} pages are too few to damage some");
    for page in (pages / 3..pages * 2 / 3).step_by(4) {
        content[page * PAGE..(page + 1) * PAGE].fill(0xa5);
    }
    content
}

fn level(ran: &Ran, topic: &str) -> String {
    let answer: Value = serde_json::from_str(&ran.stdout).unwrap();
    let findings = answer["findings"].as_array().unwrap();
    let found = findings.iter().find(|finding| finding["topic"] == topic);
    found.map_or_else(
        || "none".to_owned(),
        |finding| finding["level"].as_str().unwrap().to_owned(),
    )
}

#[test]
fn an_empty_folder_is_fine_and_stays_empty() {
    let stage = Stage::new();
    let ran = stage.run(&["doctor"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains("ok       store") && ran.stdout.contains("not there yet"));
    assert!(!stage.folder.path().join("home").exists());
}

#[test]
fn a_whole_store_is_described() {
    let stage = with_store(whole_store());
    let ran = stage.run(&["doctor", "--whole", "--json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    for topic in [
        "home",
        "files",
        "store",
        "durability",
        "tasks",
        "damage",
        "in doubt",
        "backend",
    ] {
        assert_eq!(level(&ran, topic), "ok", "{topic}: {}", ran.stdout);
    }
    assert!(ran.stdout.contains("60 created"), "{}", ran.stdout);
}

#[test]
fn rights_that_are_too_wide_are_warnings() {
    let stage = with_store(whole_store());
    let home = stage.folder.path().join("home");
    fs::set_permissions(&home, fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(store(&stage), fs::Permissions::from_mode(0o644)).unwrap();
    let ran = stage.run(&["doctor", "--json"]);
    assert_eq!(ran.code, 0);
    assert_eq!(level(&ran, "home"), "warning");
    assert_eq!(level(&ran, "files"), "warning");
    assert!(ran.stdout.contains("chmod 700"), "{}", ran.stdout);
}

#[test]
fn a_step_without_a_live_holder_is_in_doubt() {
    let stage = Stage::new();
    assert_eq!(stage.run(&["task", "start", "t", "--lease", "1ms"]).code, 0);
    assert_eq!(
        stage
            .run(&["step", "begin", "pay", "--task", "t", "--repeat", "once"])
            .code,
        0
    );
    stage.run(&["task", "release", "t", "--force"]);
    let ran = stage.run(&["doctor", "--json"]);
    assert_eq!(level(&ran, "in doubt"), "warning", "{}", ran.stdout);
    assert!(ran.stdout.contains("relight inflight"));
}

#[test]
fn the_block_of_agents_md_is_looked_at() {
    let stage = Stage::new();
    fs::write(stage.folder.path().join("work/AGENTS.md"), "# Ours\n").unwrap();
    assert_eq!(
        level(&stage.run(&["doctor", "--json"]), "agents-md"),
        "warning"
    );
    stage.run(&["setup", "agents-md"]);
    assert_eq!(level(&stage.run(&["doctor", "--json"]), "agents-md"), "ok");
}

#[test]
fn damage_is_told_and_the_report_goes_on() {
    let whole = whole_store();
    let cases: [(&str, Vec<u8>); 5] = [
        ("bad pages", with_bad_pages()),
        ("cut off", whole[..whole.len() / 2].to_vec()),
        (
            "cut off within a page",
            whole[..whole.len() / 2 + 100].to_vec(),
        ),
        (
            "garbage",
            b"this is not a database, and never was one\n".repeat(500),
        ),
        ("empty", Vec::new()),
    ];
    for (name, content) in cases {
        let stage = with_store(&content);
        let ran = stage.run(&["doctor", "--whole", "--json"]);
        assert_eq!(ran.code, 65, "{name}: {ran:?}");
        assert_eq!(level(&ran, "agents-md"), "ok", "{name}: the rest is there");
        assert_eq!(
            fs::read(store(&stage)).unwrap(),
            content,
            "{name}: untouched"
        );
    }
}

#[test]
fn a_folder_in_the_stores_place_is_bad_configuration() {
    let stage = Stage::new();
    fs::create_dir_all(store(&stage)).unwrap();
    let ran = stage.run(&["doctor", "--json"]);
    assert_eq!(ran.code, 78, "{ran:?}");
    assert_eq!(level(&ran, "store"), "problem");
    assert_eq!(level(&ran, "agents-md"), "ok");
}

#[test]
fn a_log_without_its_file_is_damage() {
    let stage = with_store(b"x");
    fs::rename(
        store(&stage),
        stage.folder.path().join("home/relight.db-wal"),
    )
    .unwrap();
    let ran = stage.run(&["doctor", "--json"]);
    assert_eq!(ran.code, 65, "{ran:?}");
    assert!(!store(&stage).exists());
}

#[test]
fn a_file_without_its_log_is_as_old_as_the_file() {
    let stage = Stage::new();
    assert_eq!(stage.run(&["task", "add", "t"]).code, 0);
    fs::remove_file(stage.folder.path().join("home/relight.db-wal")).unwrap();
    let ran = stage.run(&["doctor", "--whole", "--json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
}

#[test]
fn what_can_be_read_is_salvaged_into_a_store_that_works() {
    let damaged = with_bad_pages();
    let stage = with_store(&damaged);
    let ran = stage.run(&["doctor", "--salvage", "rescued.db", "--json"]);
    assert_eq!(ran.code, 65, "something was lost: {ran:?}");
    let answer: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(answer["salvage"]["complete"], false);
    let copied: u64 = answer["salvage"]["tables"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| t["copied"].as_u64().unwrap())
        .sum();
    assert!(copied > 60, "{answer}");
    assert_eq!(
        fs::read(store(&stage)).unwrap(),
        damaged,
        "the damaged file is as it was"
    );

    let listed = stage.run(&["--store", "sqlite:rescued.db", "task", "list", "--json"]);
    assert_eq!(listed.code, 0, "{listed:?}");
    let tasks: Value = serde_json::from_str(&listed.stdout).unwrap();
    assert!(!tasks["items"].as_array().unwrap().is_empty());
    assert_eq!(
        stage
            .run(&["--store", "sqlite:rescued.db", "doctor", "--whole"])
            .code,
        0
    );
    assert_eq!(
        stage
            .run(&["--store", "sqlite:rescued.db", "task", "start", "new"])
            .code,
        0
    );
}

#[test]
fn a_whole_store_is_salvaged_whole_beside_itself() {
    let stage = with_store(whole_store());
    let ran = stage.run(&["doctor", "--salvage"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let home = fs::read_dir(stage.folder.path().join("home")).unwrap();
    let names: Vec<String> = home
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(
        names
            .iter()
            .any(|name| name.starts_with("relight.db.salvaged-20")),
        "{names:?}"
    );
}

#[test]
fn a_hopeless_store_leaves_nothing_behind() {
    for content in [b"garbage ".repeat(2_000), Vec::new()] {
        let stage = with_store(&content);
        let ran = stage.run(&["doctor", "--salvage", "rescued.db"]);
        assert_eq!(ran.code, 65, "{ran:?}");
        assert!(ran.stderr.contains("nothing could be read"), "{ran:?}");
        assert!(
            ran.stdout.contains("agents-md"),
            "the report is there all the same"
        );
        assert_eq!(
            fs::read_dir(stage.folder.path().join("work"))
                .unwrap()
                .count(),
            0
        );
    }
}

#[test]
fn salvaging_never_writes_over_anything() {
    let stage = with_store(whole_store());
    let file = stage.folder.path().join("work/rescued.db");
    fs::write(&file, "mine").unwrap();
    assert_eq!(stage.run(&["doctor", "--salvage", "rescued.db"]).code, 2);
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    let none = Stage::new();
    assert_eq!(none.run(&["doctor", "--salvage"]).code, 1);
    assert_eq!(
        none.run(&["--store", "memory:", "doctor", "--salvage"])
            .code,
        2
    );
}

#[test]
fn a_home_that_is_no_folder_is_a_problem() {
    let stage = Stage::new();
    fs::write(stage.folder.path().join("home"), "").unwrap();
    let elsewhere = stage.run(&["--store", "sqlite:other.db", "doctor", "--json"]);
    assert_eq!(
        (elsewhere.code, level(&elsewhere, "home").as_str()),
        (1, "problem")
    );
    assert_eq!(stage.run(&["doctor"]).code, 74);
}

#[test]
fn a_store_that_cannot_be_named_is_a_configuration_error() {
    let stage = Stage::new();
    let ran = stage.run(&["--store", "mysql:x", "doctor", "--json"]);
    assert_eq!(ran.code, 78, "{ran:?}");
    assert_eq!(level(&ran, "version"), "ok");
}

#[test]
fn the_kernel_and_the_configuration_are_looked_at() {
    let stage = Stage::new();
    let ran = stage.run(&["doctor", "--json"]);
    for topic in [
        "boot",
        "pidfd",
        "subreaper",
        "cgroup",
        "inotify",
        "daemon",
        "config",
        "presets",
    ] {
        assert_eq!(level(&ran, topic), "ok", "{topic}: {}", ran.stdout);
    }
    fs::write(
        stage.folder.path().join("work/relight.toml"),
        "[recovery]\nmax_atempts = 1\n",
    )
    .unwrap();
    let ran = stage.run(&["doctor", "--json"]);
    assert_eq!(
        (ran.code, level(&ran, "config").as_str()),
        (1, "problem"),
        "{}",
        ran.stdout
    );
}

#[test]
fn what_waits_is_told_with_what_to_type() {
    let stage = Stage::new();
    assert_eq!(stage.run(&["task", "start", "t", "--lease", "1ms"]).code, 0);
    let ran = stage.run(&["doctor", "--json"]);
    assert_eq!(level(&ran, "recover"), "warning", "{}", ran.stdout);
    assert!(ran.stdout.contains("relight recover --dry-run"));
    assert_eq!(stage.run(&["recover"]).code, 0);
    let ran = stage.run(&["doctor", "--json"]);
    assert_eq!(level(&ran, "recover"), "ok", "{}", ran.stdout);
}

#[test]
fn a_token_that_others_can_read_is_a_problem() {
    let stage = Stage::new();
    assert_eq!(stage.run(&["token", "show"]).code, 0);
    let token = stage.folder.path().join("home/token");
    assert_eq!(level(&stage.run(&["doctor", "--json"]), "token"), "ok");
    fs::set_permissions(&token, fs::Permissions::from_mode(0o644)).unwrap();
    let ran = stage.run(&["doctor", "--json"]);
    assert_eq!(
        (ran.code, level(&ran, "token").as_str()),
        (1, "problem"),
        "{}",
        ran.stdout
    );
}
