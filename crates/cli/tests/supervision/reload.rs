//! The configuration of `relight up`: read again by SIGHUP, and refused when it is wrong.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::ground::{Ground, Supervisor, is_alive, until};
use crate::relight::Ran;

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

#[test]
fn the_verb_says_what_was_added_changed_and_removed() {
    let ground = ground();
    ground.config(&(entry("a", "1") + &entry("b", "1")));
    let none = ground.call(&["reload"]);
    assert_eq!(none.code, 69, "{none:?}");
    let _daemon = ground.up(&[]);
    ground.until_runs("a", 1);
    ground.config(&(entry("b", "2") + &entry("c", "1")));
    for (words, code) in [(vec!["start", "c"], 1), (vec!["up", "-d"], 75)] {
        let ran = ground.call(&words);
        assert_eq!(ran.code, code, "{ran:?}");
        assert!(ran.stderr.contains("relight reload"), "{ran:?}");
    }
    let reloaded = ground.json(&["reload"]);
    assert_eq!(
        reloaded,
        json!({"agents": 2, "added": ["c"], "changed": ["b"], "removed": ["a"]})
    );
    ground.until_runs("c", 1);
    assert_eq!(
        ground.call(&["reload"]).stdout,
        "the configuration was read again: no agent was added, changed or removed\n"
    );
    ground.config("[[agent]]\nname = \"b\"\ncomand = [\"./agent\"]\n");
    let wrong = ground.call(&["reload"]);
    assert_eq!(wrong.code, 78, "{wrong:?}");
    assert!(wrong.stderr.contains("relight.toml:3:1"), "{wrong:?}");
    assert_eq!(ground.state("c"), "running");
}

/// With a cooldown that no test waits for.
fn without_program(command: &str) -> String {
    format!(
        "[recovery]\ncooldown = \"20m\"\n\
         [[agent]]\nname = \"a\"\ncommand = [\"{command}\"]\n"
    )
}

fn says_what_is_missing(ground: &Ground, up: &Ran) {
    let missing = "there is no program ./none";
    assert_eq!(up.code, 0, "{up:?}");
    assert!(up.stderr.contains(missing), "{up:?}");
    let waits = |agent: &Value| agent["state"] == "crashed" && !agent["again_at"].is_null();
    let agent = ground.until_agent("a", waits);
    let detail = agent["detail"].as_str().unwrap();
    let then = format!(": {missing}; correct that, then relight start a");
    assert!(detail.ends_with(&then), "{detail}");
    let status = ground.json(&["status"]);
    let need = &status["needs_me"][0];
    assert_eq!(
        (&need["kind"], &need["hint"]),
        (
            &json!("not_started"),
            &json!("correct that, then relight start a")
        ),
        "{status:#}"
    );
}

#[test]
fn an_agent_whose_program_is_missing_is_told_of_and_starts_at_once_when_that_is_corrected() {
    let ground = ground();
    ground.config(&without_program("./none"));
    says_what_is_missing(&ground, &ground.call(&["up", "-d"]));
    ground.config(&without_program("./agent"));
    assert_eq!(ground.json(&["reload"])["changed"], json!(["a"]));
    ground.until_runs("a", 3);
    assert_eq!(ground.agent("a")["recoveries_in_a_row"], 0);
    assert_eq!(ground.call(&["down"]).code, 0);
}

#[test]
fn the_next_daemon_starts_an_agent_at_once_whose_missing_program_was_corrected() {
    let ground = ground();
    ground.config(&without_program("./none"));
    says_what_is_missing(&ground, &ground.call(&["up", "-d"]));
    assert_eq!(ground.call(&["down"]).code, 0);
    assert_eq!(ground.call(&["up", "-d"]).code, 0);
    assert_eq!(ground.state("a"), "crashed", "the same command waits");
    assert_eq!(ground.call(&["down"]).code, 0);
    ground.config(&without_program("./agent"));
    assert_eq!(ground.call(&["up", "-d"]).code, 0);
    ground.until_runs("a", 3);
    assert_eq!(ground.call(&["down"]).code, 0);
}

#[test]
fn all_agents_are_stopped_started_and_restarted() {
    let ground = ground();
    ground.config(&(entry("a", "1") + &entry("b", "1")));
    assert_eq!(ground.call(&["start", "--all"]).code, 69);
    let daemon = ground.up(&[]);
    ground.until_runs("a", 1);
    ground.until_runs("b", 1);
    for (verb, state) in [
        ("stop", "stopped"),
        ("start", "running"),
        ("restart", "running"),
    ] {
        let ran = ground.call(&[verb, "--all"]);
        assert_eq!(ran.code, 0, "{ran:?}");
        let lines: Vec<&str> = ran.stdout.lines().collect();
        assert!(
            lines[0].starts_with("a: ") && lines[1].starts_with("b: "),
            "{ran:?}"
        );
        assert_eq!([ground.state("a"), ground.state("b")], [state; 2]);
    }
    assert_eq!(ground.call(&["stop", "--all", "a"]).code, 2);
    assert_eq!(ground.call(&["down"]).code, 0);
    daemon.end();
    // Needs no daemon, and the next one keeps them so.
    assert_eq!(ground.call(&["stop", "--all"]).code, 0);
    let _daemon = ground.up(&[]);
    assert_eq!([ground.state("a"), ground.state("b")], ["stopped"; 2]);
}

#[test]
fn an_agent_is_forgotten_once_nothing_of_it_runs_and_no_daemon_wants_it() {
    let ground = ground();
    assert_eq!(ground.call(&["run", "--", "true"]).code, 0);
    assert!(ground.home("agents/true").exists());
    let forgotten = ground.call(&["forget", "true"]);
    assert_eq!(
        (forgotten.code, &*forgotten.stdout),
        (0, "true is removed\n")
    );
    assert_eq!(ground.agents(), [] as [Value; 0]);
    assert!(!ground.home("agents/true").exists());
    assert_eq!(ground.call(&["forget", "true"]).code, 1);
    ground.config(&(entry("a", "1") + &entry("b", "1")));
    let daemon = ground.up(&[]);
    let pid = ground.until_runs("a", 1);
    assert_eq!(ground.call(&["stop", "a"]).code, 0);
    let wanted = ground.call(&["forget", "a"]);
    assert_eq!(wanted.code, 75, "{wanted:?}");
    assert!(
        wanted.stderr.contains("take it out of relight.toml"),
        "{wanted:?}"
    );
    ground.config(&entry("b", "1"));
    assert_eq!(ground.json(&["reload"])["removed"], json!(["a"]));
    ground.until_agent("a", |agent| agent["supervisor"].is_null());
    assert_eq!(ground.json(&["forget", "a"]), json!({"agent": "a"}));
    assert!(!is_alive(pid) && ground.agents().len() == 1);
    // One that runs without a supervisor lives.
    ground.until_runs("b", 1);
    daemon.signal(Signal::KILL);
    ground.until_agent("b", |agent| agent["truth"] == "orphaned");
    let lives = ground.call(&["forget", "b"]);
    assert_eq!(lives.code, 75, "{lives:?}");
    assert!(lives.stderr.contains("relight stop b first"), "{lives:?}");
    assert_eq!(ground.call(&["stop", "b"]).code, 0);
    assert_eq!(ground.call(&["forget", "b"]).code, 0);
    assert_eq!(
        ground.call(&["ps"]).stdout,
        "no agents; relight run -- CMD makes the first\n"
    );
}
