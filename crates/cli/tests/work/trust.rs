//! A configuration that lies in the working folder counts only as far as its reader approved it.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use rustix::fs::{CWD, Mode, mkfifoat};

use crate::cases::Place;
use crate::given::{config, lose};

/// Some other user of the machine.
const STRANGER: u32 = 54_321;

/// A configuration whose command leaves a mark when it is run.
fn plant_exec(place: &Place) {
    let file = place.work("decide");
    fs::write(&file, "#!/bin/sh\ntouch \"$0.ran\"\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    config(
        place,
        "[recovery]\nstrategy = \"exec\"\nexec = [\"./decide\"]\n",
    );
}

fn give_away(path: &Path) -> bool {
    let given = std::os::unix::fs::chown(path, Some(STRANGER), Some(STRANGER));
    if given.is_err() {
        eprintln!("SKIPPED: only root can give a file to another user");
    }
    given.is_ok()
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_command_that_nobody_approved_is_not_run() {
    let place = Place::new();
    lose(&place, "t");
    plant_exec(&place);
    for verb in [
        "task claim --agent a",
        "task fail t --reason r",
        "recover",
        "run -- true",
    ] {
        place
            .fails(verb, 78)
            .says(&["[recovery] exec", "relight trust"]);
    }
    assert!(!place.work("decide.ran").exists());
    let approved = place.ok("trust");
    assert!(approved.text().contains("./decide"), "{}", approved.text());
    place.ok("recover");
    assert!(place.work("decide.ran").exists());
}

#[test]
fn what_only_reads_settings_needs_no_approval() {
    let place = Place::new();
    place.ok("task add t");
    plant_exec(&place);
    place.ok("task list");
    assert_eq!(
        place.ok("task show t --json").json()["strategy_in_effect"],
        "exec"
    );
    place.ok("drain --wait 1s");
    place.ok("recover --dry-run");
    place.ok("task add u --strategy exec");
}

#[test]
fn a_store_that_nobody_approved_is_refused_and_no_other_is_taken() {
    let place = Place::new();
    config(&place, "[store]\nurl = \"sqlite:kept.db\"\n");
    place
        .fails("task add t", 78)
        .says(&["[store] url", "relight trust", "--config"]);
    assert!(!place.work("kept.db").exists() && !place.home("relight.db").exists());
    // Who names a store, or the file, needs nothing of it.
    place.ok("--store sqlite:named.db task add t");
    place
        .relight("task add t")
        .env("RELIGHT_CONFIG", "relight.toml")
        .run()
        .with_code(0);
    assert!(place.work("kept.db").exists());
    place.ok("trust");
    place.ok("task show t");
    config(&place, "[store]\nurl = \"sqlite:other/relight.db\"\n");
    place
        .fails("task show t", 78)
        .says(&["changed since it was approved"]);
}

#[test]
fn alerts_go_nowhere_that_nobody_approved() {
    let place = Place::new();
    config(&place, "[alert]\ncommand = [\"touch\", \"ran\"]\n");
    for verb in ["alerts test", "alerts send", "run -- true"] {
        place.fails(verb, 78).says(&["[alert] command"]);
    }
    assert!(!place.work("ran").exists());
    place.ok("alerts test --config relight.toml");
    assert!(place.work("ran").exists());
}

#[test]
fn the_daemon_approves_what_it_runs() {
    let place = Place::new();
    config(&place, "[store]\nurl = \"sqlite:kept.db\"\n");
    let mut daemon = place.relight("up --no-http").spawn();
    daemon.until("it listens", || place.work("relight.sock").exists());
    place.ok("task add t");
    place.ok("down");
    daemon.end().with_code(0);
    place.ok("task show t");
}

#[test]
fn an_approval_is_for_one_folder() {
    let place = Place::new();
    config(&place, "[store]\nurl = \"sqlite:kept.db\"\n");
    place.ok("trust");
    let other = place.path("other");
    fs::create_dir(&other).unwrap();
    symlink(place.work("relight.toml"), other.join("relight.toml")).unwrap();
    // The same text would lead to a file of that folder.
    place
        .relight("task list")
        .inside(&other)
        .run()
        .with_code(78);
    let linked = place.path("linked");
    symlink(place.path("work"), &linked).unwrap();
    place
        .relight("task list")
        .inside(&linked)
        .run()
        .with_code(0);
}

#[test]
fn approvals_are_listed_and_taken_back() {
    let place = Place::new();
    config(&place, "[store]\nurl = \"sqlite:kept.db\"\n");
    let approved = place.ok("trust --json").json();
    assert_eq!(approved["keys"][0], "[store] url");
    let listed = place.ok("trust --list --json").json();
    let path = place.work("relight.toml").canonicalize().unwrap();
    assert_eq!(listed["items"][0]["path"], path.to_str().unwrap());
    assert_eq!(listed["items"][0]["now"], "approved");
    config(&place, "");
    assert_eq!(
        place.ok("trust --list --json").json()["items"][0]["now"],
        "changed"
    );
    place.ok("trust --remove .");
    assert_eq!(
        place.ok("trust --list --json").json()["items"]
            .as_array()
            .unwrap()
            .len(),
        0
    );
    place.fails("trust --remove relight.toml", 1);
    place.fails("trust nowhere", 78).says(&["nowhere"]);
}

#[test]
fn a_file_that_others_can_write_does_not_count() {
    let place = Place::new();
    let file = place.work("relight.toml");
    config(&place, "[store]\nurl = \"sqlite:kept.db\"\n");
    place.ok("trust");
    set_mode(&file, 0o666);
    for verb in ["task list", "up --no-http", "task claim --agent a", "trust"] {
        place
            .fails(verb, 78)
            .says(&["everybody can write it", "chmod go-w"]);
    }
    set_mode(&file, 0o644);
    if !give_away(&file) {
        return;
    }
    for verb in ["task list", "up --no-http", "task claim --agent a", "trust"] {
        place.fails(verb, 78).says(&["another user", "--config"]);
    }
    place
        .relight("task list")
        .env("RELIGHT_CONFIG", "relight.toml")
        .run()
        .with_code(0);
}

#[test]
fn a_link_of_a_stranger_does_not_count() {
    let place = Place::new();
    fs::write(
        place.path("mine.toml"),
        "[store]\nurl = \"sqlite:kept.db\"\n",
    )
    .unwrap();
    symlink(place.path("mine.toml"), place.work("relight.toml")).unwrap();
    place.ok("trust");
    place.ok("task list");
    let link = place.work("relight.toml");
    if std::os::unix::fs::lchown(&link, Some(STRANGER), Some(STRANGER)).is_err() {
        eprintln!("SKIPPED: only root can give a link to another user");
        return;
    }
    place.fails("task list", 78).says(&["another user"]);
}

#[test]
fn a_configuration_that_is_a_pipe_or_a_device_is_not_waited_for() {
    for is_pipe in [true, false] {
        let place = Place::new();
        let file = place.work("relight.toml");
        match is_pipe {
            true => mkfifoat(CWD, &file, Mode::from_raw_mode(0o600)).unwrap(),
            false => symlink("/dev/zero", &file).unwrap(),
        }
        let said = "not a regular file";
        place.ok("task list").says(&[said]);
        place.fails("up --no-http", 78).says(&[said]);
        place
            .fails("task claim --agent a --config relight.toml", 78)
            .says(&[said]);
        place.fails("trust", 78).says(&[said]);
    }
}

#[test]
fn a_home_that_others_can_write_is_refused() {
    let place = Place::new();
    place.ok("task add t");
    let home = place.path("home");
    set_mode(&home, 0o777);
    for verb in ["task list", "token show", "run -- true", "trust --list"] {
        place
            .fails(verb, 78)
            .says(&["everybody can write it", "chmod 700"]);
    }
    set_mode(&home, 0o700);
    place.ok("task list");
    if std::os::unix::fs::chown(&home, None, Some(STRANGER)).is_ok() {
        set_mode(&home, 0o770);
        place
            .fails("task list", 78)
            .says(&["a group of users can write it", "chmod 700"]);
    }
    if give_away(&home) {
        place
            .fails("task list", 78)
            .says(&["another user", "chown"]);
    }
}

/// The socket, the token and the agents' folders are beside the store.
#[test]
fn a_folder_of_the_store_that_others_can_write_is_refused() {
    let place = Place::new();
    let folder = place.path("project");
    std::fs::create_dir(&folder).unwrap();
    set_mode(&folder, 0o755);
    let store = format!("--store sqlite:{}", folder.join("relight.db").display());
    place.ok(&format!("{store} task add t"));
    set_mode(&folder, 0o777);
    for verb in ["task list", "token show", "run -- true", "task add other"] {
        place
            .fails(&format!("{store} {verb}"), 78)
            .says(&["everybody can write it", "chmod go-w"]);
    }
}

#[test]
fn a_key_of_the_home_that_is_no_file_of_ours_is_refused_and_not_waited_for() {
    for name in ["redact.key", "token", "tokens.json", "tokens.lock"] {
        for is_pipe in [true, false] {
            let place = Place::new();
            place.ok("task add t");
            let file = place.home(name);
            // Not every one is there already.
            let _ = fs::remove_file(&file);
            match is_pipe {
                true => mkfifoat(CWD, &file, Mode::from_raw_mode(0o600)).unwrap(),
                false => symlink("/dev/zero", &file).unwrap(),
            }
            let call = match name {
                "redact.key" => place.relight("task add u"),
                "token" => place.relight("token show"),
                "tokens.json" => place.relight("token list"),
                _ => place.relight("token new --read-only"),
            };
            let told = call.run().with_code(74).stderr;
            assert!(told.contains(name), "{told}");
        }
    }
}

/// What a terminal would obey: a title, a colour by one character, a turn of the writing direction.
const HOSTILE: &str = "x\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}\u{2066}\u{7f}y";

#[track_caller]
fn assert_harmless(shown: &str) {
    let is_harmful = |c: char| relight_core::ids::is_obeyed(c) && c != '\n';
    assert!(!shown.contains(is_harmful), "{shown:?}");
}

#[test]
fn what_a_terminal_obeys_is_in_no_usage_error() {
    let place = Place::new();
    for words in ["", "task", "task show", "task add t --priority", "ps a"] {
        let refused = place.relight(words).arg(HOSTILE).run().with_code(2);
        assert_harmless(&refused.stderr);
        assert!(
            refused.stderr.contains("\\u{202e}"),
            "it is shown: {:?}",
            refused.stderr
        );
    }
}

#[test]
fn what_a_terminal_obeys_is_escaped_in_json() {
    let place = Place::new();
    place
        .relight("task add t --title")
        .arg(HOSTILE)
        .run()
        .with_code(0);
    for words in ["task show t --json", "task list --json", "events --json"] {
        assert_harmless(&place.ok(words).text());
    }
    assert_eq!(place.ok("task show t --json").json()["title"], HOSTILE);
    let refused = place
        .relight("--json task show")
        .arg("nosuch")
        .run()
        .with_code(1);
    assert_harmless(&refused.stderr);
}
