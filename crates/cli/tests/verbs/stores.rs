//! `relight store`: whole stores are copied, verified, backed up and brought back.

use crate::relight;
use crate::server;

use std::path::{Path, PathBuf};

use relight::{Ran, Stage};
use serde_json::Value;
use server::{Cluster, unique};

/// One task with a finished step and one that is begun, and one that nobody has.
fn filled() -> Stage {
    let stage = Stage::new();
    good(&stage, &["task", "start", "t", "--lease", "1h"]);
    good(
        &stage,
        &["step", "run", "build", "--task", "t", "--", "echo", "built"],
    );
    good(&stage, &["step", "begin", "publish", "--task", "t"]);
    good(
        &stage,
        &["task", "add", "u", "--title", "later", "--key", "k"],
    );
    good(&stage, &["session", "begin", "chat", "--id", "s1"]);
    stage
}

fn good(stage: &Stage, arguments: &[&str]) -> Ran {
    let ran = stage.run(arguments);
    assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.stderr);
    ran
}

fn home(stage: &Stage) -> String {
    format!(
        "sqlite:{}",
        stage.folder.path().join("home/relight.db").display()
    )
}

fn file(stage: &Stage) -> PathBuf {
    stage.folder.path().join("work/copy.db")
}

fn hash(stage: &Stage, url: &str) -> String {
    let ran = good(stage, &["store", "verify", url, "--json"]);
    let answer: Value = serde_json::from_str(&ran.stdout).unwrap();
    answer["hash"].as_str().unwrap().to_owned()
}

#[test]
fn a_copy_is_the_same_store_and_work_goes_on_in_it() {
    let stage = filled();
    let ran = good(
        &stage,
        &["store", "copy", &home(&stage), "sqlite:copy.db", "--json"],
    );
    let answer: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(
        (&answer["written_meanwhile"], &answer["went_on"]),
        (&0.into(), &false.into())
    );
    assert_eq!(answer["held"]["tasks"], 1);
    assert!(
        ran.stderr.contains("first stop what runs"),
        "{}",
        ran.stderr
    );
    assert!(file(&stage).exists() && !stage.folder.path().join("work/copy.db-wal").exists());
    assert_eq!(hash(&stage, &home(&stage)), hash(&stage, "sqlite:copy.db"));
    assert_eq!(answer["hash"], hash(&stage, "sqlite:copy.db"));
    let copy = ["--store", "sqlite:copy.db"];
    let step = ["step", "run", "build", "--task", "t", "--", "false"];
    let replayed = stage.run(&[&copy[..], &step].concat());
    assert_eq!((replayed.code, replayed.stdout.as_str()), (0, "built\n"));
    let taken = stage.run(&[&copy[..], &["task", "start", "t"]].concat());
    assert_eq!(taken.code, 75, "its lease lasts: {}", taken.stderr);
}

#[test]
fn what_cannot_be_copied_is_told() {
    let stage = filled();
    let home = home(&stage);
    let told = |arguments: &[&str], code: i32, text: &str| {
        let ran = stage.run(arguments);
        assert_eq!(ran.code, code, "{arguments:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(text), "{arguments:?}: {}", ran.stderr);
    };
    told(
        &["store", "copy", &home, &home],
        2,
        "cannot be copied into itself",
    );
    told(
        &["store", "copy", "sqlite:none.db", "sqlite:copy.db"],
        69,
        "no such file",
    );
    assert!(!file(&stage).exists(), "nothing was made");
    told(&["store", "copy", &home, "memory:"], 2, "keeps nothing");
    told(&["store", "copy", &home, "redis://x"], 2, "not a store");
    told(&["store", "verify", "sqlite:none.db"], 69, "no such file");
    good(&stage, &["store", "copy", &home, "sqlite:copy.db"]);
    good(&stage, &["store", "copy", &home, "sqlite:copy.db"]);
    good(
        &stage,
        &["--store", "sqlite:copy.db", "task", "add", "only-there"],
    );
    told(
        &["store", "copy", &home, "sqlite:copy.db"],
        1,
        "is not empty",
    );
}

#[test]
fn a_half_copied_store_is_refused_until_the_copy_is_complete() {
    let stage = filled();
    let (home, copy) = (home(&stage), "sqlite:copy.db");
    good(&stage, &["--store", copy, "task", "list"]);
    let db = rusqlite::Connection::open(file(&stage)).unwrap();
    let mark = format!("{{\"from\":\"{home}\",\"run\":3}}");
    db.execute(
        "INSERT INTO kept (name, body) VALUES ('store copy', ?1)",
        [mark],
    )
    .unwrap();
    db.pragma_update(None, "application_id", 0x524c_4843)
        .unwrap();
    drop(db);
    for command in [
        &["task", "list"][..],
        &["doctor"],
        &["store", "verify"],
        &["store", "restored"],
    ] {
        let ran = stage.run(&[&["--store", copy][..], command].concat());
        assert_eq!(ran.code, 75, "{command:?}: {}", ran.stderr);
        assert!(
            format!("{}{}", ran.stdout, ran.stderr).contains("half copied"),
            "{command:?}"
        );
    }
    good(&stage, &["--store", "sqlite:other.db", "task", "add", "x"]);
    let other = stage.run(&["store", "copy", "sqlite:other.db", copy]);
    assert_eq!(other.code, 75, "{}", other.stderr);
    let ran = good(&stage, &["store", "copy", &home, copy, "--json"]);
    let answer: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(answer["went_on"], true);
    assert_eq!(hash(&stage, &home), hash(&stage, copy));
}

#[test]
fn a_copy_that_is_killed_is_gone_on_with() {
    let stage = filled();
    let db = rusqlite::Connection::open(stage.folder.path().join("home/relight.db")).unwrap();
    db.execute_batch(
        "WITH RECURSIVE more (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM more WHERE n < 40000)
         INSERT INTO journal (at, kind, detail) SELECT n, 38, '{}' FROM more",
    )
    .unwrap();
    drop(db);
    let (home, copy) = (home(&stage), "sqlite:copy.db");
    let mut copying = stage
        .command(&["store", "copy", &home, copy])
        .spawn()
        .unwrap();
    while !is_begun(&file(&stage)) && copying.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
    copying.kill().unwrap();
    if copying.wait().unwrap().success() {
        eprintln!("SKIPPED: the copy was done before it could be killed");
        return;
    }
    let refused = stage.run(&["--store", copy, "task", "list"]);
    assert_eq!(refused.code, 75, "{}", refused.stderr);
    let ran = good(&stage, &["store", "copy", &home, copy, "--json"]);
    let answer: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(answer["went_on"], true);
    assert_eq!(hash(&stage, &home), hash(&stage, copy));
}

/// Whether the first rows are written.
fn is_begun(copy: &Path) -> bool {
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    let Ok(db) = rusqlite::Connection::open_with_flags(copy, flags) else {
        return false;
    };
    let count = db.query_row("SELECT COUNT(*) FROM task", [], |row| row.get::<_, i64>(0));
    count.is_ok_and(|count| count > 0)
}

#[test]
fn a_damaged_store_is_told_of_and_copied_as_it_is() {
    let stage = filled();
    let db = rusqlite::Connection::open(stage.folder.path().join("home/relight.db")).unwrap();
    db.execute_batch("UPDATE task SET steps_done = 9 WHERE id = 't'")
        .unwrap();
    drop(db);
    let ran = stage.run(&["store", "verify"]);
    assert_eq!(ran.code, 65, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("damaged: task t: it says 9 steps done"),
        "{}",
        ran.stderr
    );
    let ran = stage.run(&["store", "copy", &home(&stage), "sqlite:copy.db", "--json"]);
    let answer: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((ran.code, &answer["damage"]["count"]), (65, &1.into()));
}

#[test]
fn a_backup_by_vacuum_into_is_the_same_store() {
    let stage = filled();
    let db = rusqlite::Connection::open(stage.folder.path().join("home/relight.db")).unwrap();
    db.execute("VACUUM INTO ?1", [file(&stage).to_str().unwrap()])
        .unwrap();
    drop(db);
    assert_eq!(hash(&stage, &home(&stage)), hash(&stage, "sqlite:copy.db"));
}

/// Somebody takes the task over after the backup, and lives on while the backup is brought back.
#[test]
fn a_restored_store_refuses_whoever_worked_with_the_later_one() {
    let stage = filled();
    good(&stage, &["store", "copy", &home(&stage), "sqlite:copy.db"]);
    good(&stage, &["task", "release", "t", "--force"]);
    let later = good(&stage, &["task", "start", "t", "--json"]);
    let later: Value = serde_json::from_str(&later.stdout).unwrap();
    let fence = later["fence"].to_string();

    let copy = ["--store", "sqlite:copy.db"];
    good(&stage, &["store", "restored", "sqlite:copy.db"]);
    good(
        &stage,
        &[&copy[..], &["task", "release", "t", "--force"]].concat(),
    );
    good(&stage, &[&copy[..], &["task", "start", "t"]].concat());
    let end = ["step", "end", "publish", "--task", "t", "--fence", &fence];
    let late = stage.run(&[&copy[..], &end].concat());
    assert_eq!(late.code, 77, "{}", late.stderr);
    good(&stage, &["store", "verify", "sqlite:copy.db"]);
}

#[test]
fn a_store_moves_up_to_postgres_and_comes_back_from_a_dump() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let stage = filled();
    let schema = unique(&format!("c{}_", std::process::id()));
    let url = cluster.url(&format!("?schema={schema}&sslmode=disable"));
    good(&stage, &["store", "copy", &home(&stage), &url]);
    let whole = hash(&stage, &home(&stage));
    assert_eq!(hash(&stage, &url), whole);
    good(&stage, &["--store", &url, "step", "list", "--task", "t"]);

    let dump = stage.folder.path().join("relight.dump");
    let plain = cluster.url("");
    let mut take = cluster.command("pg_dump");
    take.args(["-Fc", "-n", &schema, "-f"])
        .arg(&dump)
        .arg(&plain);
    assert!(take.status().unwrap().success());
    good(&stage, &["--store", &url, "task", "add", "after-the-dump"]);
    cluster.sql(&format!("DROP SCHEMA {schema} CASCADE"));
    let mut bring = cluster.command("pg_restore");
    assert!(
        bring
            .args(["-d", &plain])
            .arg(&dump)
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(hash(&stage, &url), whole);
    good(&stage, &["store", "restored", &url]);
    good(&stage, &["--store", &url, "task", "add", "goes-on"]);
    good(&stage, &["store", "verify", &url]);
}

#[test]
fn amounts_beyond_what_a_column_holds_stay_at_its_largest() {
    let stage = Stage::new();
    good(&stage, &["task", "add", "t"]);
    for _ in 0..3 {
        let turns = i64::MAX.to_string();
        let words = [
            "task",
            "spend",
            "t",
            "--turns",
            &turns,
            "--cost",
            "9223372036854",
        ];
        good(&stage, &words);
    }
    hash(&stage, &home(&stage));
    let shown = good(&stage, &["task", "show", "t", "--json"]);
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(shown["turns"], i64::MAX);
}
