//! The configuration of `relight up`: read again by SIGHUP, and refused when it is wrong.

use rustix::process::Signal;

use crate::ground::{Ground, Supervisor, is_alive, until};

fn entry(name: &str, word: &str) -> String {
    format!("[[agent]]\nname = \"{name}\"\ncommand = [\"./agent\", \"{word}\"]\ngrace = \"2s\"\n")
}

fn ground() -> Ground {
    Ground::with_agent("echo $RELIGHT_AGENT $1 >>births; exec sleep 300")
}

fn reload(daemon: &Supervisor, says: &str) {
    let before = daemon.said().matches(says).count();
    daemon.signal(Signal::HUP);
    until(says, || {
        (daemon.said().matches(says).count() > before).then_some(())
    });
}

const READ: &str = "the configuration was read again";

#[test]
fn new_agents_are_taken_up_and_removed_ones_are_stopped() {
    let ground = ground();
    ground.config(&(entry("a", "1") + &entry("b", "1")));
    let daemon = ground.up(&[]);
    let (a, b) = (ground.until_runs("a", 1), ground.until_runs("b", 1));
    ground.config(&(entry("b", "1") + &entry("c", "1")));
    reload(&daemon, READ);
    ground.until_runs("c", 1);
    ground.until_state("a", "stopped");
    assert!(!is_alive(a));
    assert_eq!(ground.until_runs("b", 1), b);
    ground.config(&(entry("a", "1") + &entry("b", "1")));
    reload(&daemon, READ);
    ground.until_runs("a", 2);
}

#[test]
fn a_changed_agent_is_another_from_its_next_attempt_on() {
    let ground = ground();
    ground.config(&entry("a", "old"));
    let daemon = ground.up(&[]);
    let pid = ground.until_runs("a", 1);
    ground.until_lines("births", 1);
    ground.config(&entry("a", "new"));
    reload(&daemon, READ);
    assert_eq!(ground.until_runs("a", 1), pid);
    assert_eq!(ground.call(&["restart", "a"]).code, 0);
    assert_eq!(ground.until_lines("births", 2), ["a old", "a new"]);
}

#[test]
fn a_wrong_configuration_changes_nothing() {
    let ground = ground();
    ground.config(&entry("a", "1"));
    let daemon = ground.up(&[]);
    let pid = ground.until_runs("a", 1);
    ground.config("[[agent]]\nname = \"b\"\ncomand = [\"./agent\"]\n");
    reload(&daemon, "not reloaded");
    assert_eq!(ground.until_runs("a", 1), pid);
    assert_eq!(ground.agents().len(), 1);
}

#[test]
fn an_agent_that_is_switched_off_is_not_started() {
    let ground = ground();
    ground.config(&(entry("a", "1") + "enabled = false\n" + &entry("b", "1")));
    let daemon = ground.up(&[]);
    ground.until_runs("b", 1);
    assert_eq!(ground.agents().len(), 1);
    ground.config(&(entry("a", "1") + &entry("b", "1") + "enabled = false\n"));
    reload(&daemon, READ);
    ground.until_runs("a", 1);
    assert_eq!(ground.state("b"), "stopped");
}

#[test]
fn what_is_wrong_is_told_with_line_column_and_the_nearest_key() {
    let ground = ground();
    ground.config("[[agent]]\nname = \"a\"\n  comand = [\"./agent\"]\n");
    let ran = ground.call(&["up"]);
    assert_eq!(ran.code, 78);
    for part in ["relight.toml:3:3", "comand", "command"] {
        assert!(ran.stderr.contains(part), "{part:?} is not in {ran:?}");
    }
    ground.config("[recovery]\ncooldown = \"soon\"\n");
    let ran = ground.call(&["up"]);
    assert_eq!(ran.code, 78);
    assert!(ran.stderr.contains("relight.toml:2:12"), "{ran:?}");
    ground.config(&(entry("a", "1") + &entry("a", "2")));
    assert_eq!(ground.call(&["up"]).code, 78);
}

#[test]
fn without_a_configuration_it_says_what_to_type() {
    let ground = ground();
    let ran = ground.call(&["up"]);
    assert_eq!(ran.code, 78);
    assert!(ran.stderr.contains("--config"), "{ran:?}");
    assert_eq!(ground.call(&["up", "--config", "none.toml"]).code, 78);
}

#[test]
fn the_task_that_a_changed_configuration_names_belongs_to_the_agent_from_its_next_attempt_on() {
    let ground = ground();
    assert_eq!(ground.call(&["task", "add", "t1"]).code, 0);
    assert_eq!(ground.call(&["task", "add", "t2"]).code, 0);
    ground.config(&(entry("a", "1") + "task = \"t1\"\n"));
    let daemon = ground.up(&[]);
    ground.until_runs("a", 1);
    ground.config(&(entry("a", "1") + "task = \"t2\"\n"));
    reload(&daemon, READ);
    assert_eq!(ground.call(&["restart", "a"]).code, 0);
    ground.until_runs("a", 2);
    let shown = ground.json(&["task", "show", "t2"]);
    assert_eq!(
        (&shown["agent"], &shown["pinned"]),
        (&"a".into(), &true.into()),
        "{shown:#}"
    );
    assert_eq!(ground.call(&["down"]).code, 0);
    daemon.end();
    ground.config(&(entry("a", "1") + "task = \"t3\"\n"));
    assert_eq!(ground.call(&["task", "add", "t3"]).code, 0);
    let _daemon = ground.up(&[]);
    ground.until_runs("a", 3);
    let shown = ground.json(&["task", "show", "t3"]);
    assert_eq!(
        (&shown["agent"], &shown["pinned"]),
        (&"a".into(), &true.into()),
        "{shown:#}"
    );
}

/// `relight start` asks the daemon, which knows nothing of it.
#[test]
fn the_remedy_for_an_agent_that_was_removed_from_the_configuration_works() {
    let ground = Ground::with_agent("[ -e good ]");
    ground
        .config("[recovery]\nmax_attempts = 0\n[[agent]]\nname = \"a\"\ncommand = [\"./agent\"]\n");
    let daemon = ground.up(&[]);
    ground.until_state("a", "terminated");
    ground.config("");
    reload(&daemon, READ);
    ground.until_agent("a", |agent| agent["supervisor"].is_null());
    let detail = ground.agent("a")["detail"].as_str().unwrap().to_owned();
    let remedy = detail
        .split("then ")
        .nth(1)
        .expect("it says what to type")
        .to_owned();
    std::fs::write(ground.work("good"), "").unwrap();
    let ran = ground.shell(&remedy);
    assert_eq!(ran.code, 0, "{detail}: {ran:?}");
    assert_eq!(ground.state("a"), "stopped");
}
