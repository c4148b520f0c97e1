//! Every command means the store that the daemon of this machine uses, however that one was named.

use std::fs;

use serde_json::Value;

use crate::fleet::{Fleet, Meet};
use crate::ground::Ground;
use crate::relight::{Ran, finish};
use crate::server::Cluster;

/// Commands with these variables beside the usual ones.
fn call(ground: &Ground, words: &[&str], variables: &[(&str, &str)]) -> Ran {
    let mut command = ground.stage.command(words);
    finish(command.envs(variables.iter().copied()).spawn().unwrap())
}

/// The ids of all tasks that a command sees.
fn tasks(ran: &Ran) -> Vec<String> {
    let answer: Value =
        serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    let ids = answer["items"].as_array().unwrap().iter();
    ids.map(|task| task["id"].as_str().unwrap().to_owned())
        .collect()
}

const LIST: [&str; 3] = ["task", "list", "--json"];

#[test]
fn without_a_word_the_store_is_in_the_home() {
    let ground = Ground::new();
    assert_eq!(ground.call(&["task", "add", "t"]).code, 0);
    assert!(ground.home("relight.db").exists());
    assert_eq!(tasks(&ground.call(&LIST)), ["t"]);
}

#[test]
fn every_command_means_the_store_that_the_configuration_names() {
    let ground = Ground::new();
    ground.config("[store]\nurl = \"sqlite:kept.db\"\n");
    let daemon = ground.up(&["--no-http"]);
    assert_eq!(ground.call(&["task", "add", "t"]).code, 0);
    let health = ground.call(&["down"]);
    assert_eq!(
        health.code, 0,
        "the daemon is found beside its store: {health:?}"
    );
    daemon.end();
    assert_eq!(tasks(&ground.call(&LIST)), ["t"]);
    assert!(ground.work("kept.db").exists() && !ground.home("relight.db").exists());
    // Who names one means that one.
    let named = call(&ground, &LIST, &[("RELIGHT_STORE", "sqlite:other.db")]);
    assert_eq!(tasks(&named), [""; 0]);
}

#[test]
fn a_path_in_the_users_configuration_counts_from_its_folder() {
    let ground = Ground::new();
    let folder = ground.stage.folder.path().join("user/.config/relight");
    fs::create_dir_all(&folder).unwrap();
    fs::write(
        folder.join("relight.toml"),
        "[store]\nurl = \"sqlite:mine.db\"\n",
    )
    .unwrap();
    assert_eq!(ground.call(&["task", "add", "t"]).code, 0);
    let daemon = ground.up(&["--no-http"]);
    assert_eq!(tasks(&ground.call(&LIST)), ["t"]);
    assert!(folder.join("mine.db").exists() && folder.join("relight.sock").exists());
    assert!(!ground.work("mine.db").exists());
    drop(daemon);
}

#[test]
fn a_configuration_that_cannot_be_read_is_told_of_and_stops_nobody() {
    let ground = Ground::new();
    for (task, text) in [
        ("t", "[store\nurl = \"sqlite:kept.db\"\n"),
        ("u", "[store]\nurl = 3\n"),
    ] {
        ground.config(text);
        let ran = ground.call(&["task", "add", task]);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert_eq!(ran.stderr.matches("relight.toml").count(), 1, "{ran:?}");
        assert!(ground.home("relight.db").exists());
    }
    // One that was read and names no store that there is would lead everybody astray.
    ground.config("[store]\nurl = \"mysql://kept\"\n");
    assert_eq!(ground.call(&["task", "add", "t"]).code, 78);
    // Other mistakes are the daemon's business.
    ground.config("[stores]\nurl = 3\n[[agent]]\nnonsense = true\n");
    let ran = ground.call(&["task", "show", "t"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{ran:?}");
}

/// A fleet on PostgreSQL whose node was told the store by its environment.
fn fleet() -> Option<Fleet> {
    Some(Fleet::new(Meet::in_a_schema_of(Cluster::shared()?), ""))
}

#[test]
fn in_the_home_of_a_node_commands_ask_its_daemon() {
    let Some(fleet) = fleet() else { return };
    let daemon = fleet.up("n");
    let home = fleet.variables("n")[0].1.clone();
    let untold = |words: &[&str]| call(&fleet.ground, words, &[("RELIGHT_HOME", &home)]);
    let added = untold(&["task", "add", "t"]);
    assert_eq!(added.code, 0, "{added:?}");
    assert_eq!(
        tasks(&fleet.call("n", &LIST)),
        ["t"],
        "it is in the fleet's store"
    );
    let listed = untold(&["node", "list"]);
    assert!(
        listed.code == 0 && listed.stdout.contains("live"),
        "{listed:?}"
    );
    let refused = untold(&["node", "drain", "n"]);
    assert_eq!(refused.code, 78, "{refused:?}");
    assert!(refused.stderr.contains("--store"), "{refused:?}");
    let verified = untold(&["store", "verify"]);
    assert_eq!(verified.code, 69, "{verified:?}");
    assert!(verified.stderr.contains("--store"), "{verified:?}");
    // Its store is out of reach by then, and how its agents ended cannot be read.
    let down = untold(&["down"]);
    assert_eq!(down.code, 0, "{down:?}");
    daemon.end();
    let alone = untold(&["task", "add", "u"]);
    assert_eq!(alone.code, 69, "{alone:?}");
    for way in ["--store", "RELIGHT_STORE", "relight.toml", "relight up"] {
        assert!(alone.stderr.contains(way), "{way} in {alone:?}");
    }
    assert!(!std::path::Path::new(&home).join("relight.db").exists());
}

#[test]
fn in_the_home_of_a_node_on_a_file_commands_need_no_daemon() {
    let fleet = Fleet::new(Meet::InOneFile, "");
    let daemon = fleet.up("n");
    let home = fleet.variables("n")[0].1.clone();
    daemon.kill();
    let added = call(
        &fleet.ground,
        &["task", "add", "t"],
        &[("RELIGHT_HOME", &home)],
    );
    assert_eq!(added.code, 0, "{added:?}");
    assert_eq!(tasks(&fleet.call("n", &LIST)), ["t"]);
}

#[test]
fn a_daemon_that_is_alone_in_a_home_that_was_a_node_is_none() {
    let fleet = Fleet::new(Meet::InOneFile, "");
    let home = fleet.variables("n")[0].1.clone();
    let node = std::path::Path::new(&home).join("node.json");
    let daemon = fleet.up("n");
    assert!(node.exists());
    assert_eq!(fleet.call("n", &["down"]).code, 0);
    daemon.end();
    fleet.ground.config("");
    let daemon = fleet
        .ground
        .start_with(&["up", "--no-http"], &[("RELIGHT_HOME", &home)]);
    daemon.until_said("up with ");
    assert!(!node.exists());
    let own = std::path::Path::new(&home).join("relight.db");
    assert!(
        own.exists(),
        "it decides by itself, and nothing names a store"
    );
}

#[test]
fn a_second_daemon_does_not_rename_a_live_node() {
    let fleet = Fleet::new(Meet::InOneFile, "");
    let _daemon = fleet.up("n");
    let file = std::path::PathBuf::from(&fleet.variables("n")[0].1).join("node.json");
    let before = fs::read_to_string(&file).unwrap();
    let second = fleet.call("n", &["up", "--no-http", "--node", "m"]);
    assert_eq!(second.code, 75, "{second:?}");
    assert_eq!(fs::read_to_string(&file).unwrap(), before);
    fleet.ground.config("");
    let home = fleet.variables("n")[0].1.clone();
    let alone = call(
        &fleet.ground,
        &["up", "--no-http"],
        &[("RELIGHT_HOME", &home)],
    );
    assert_eq!(alone.code, 75, "{alone:?}");
    assert_eq!(fs::read_to_string(&file).unwrap(), before);
}

#[test]
fn a_daemon_warns_of_a_password_that_everybody_can_read() {
    let ground = Ground::new();
    ground.config("");
    let url = "postgres://ann:s3cret@127.0.0.1:1/work?connect_timeout=1";
    let ran = ground.call(&["up", "--no-http", "--store", url]);
    assert_eq!(ran.code, 69, "{ran:?}");
    assert_eq!(ran.stderr.matches("PGPASSWORD").count(), 1, "{ran:?}");
    assert!(!ran.stderr.contains("s3cret"), "{ran:?}");
}
