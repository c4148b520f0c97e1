//! What a person wants while something else is under way, and what stands in the way of it.

use std::process::Stdio;

use rustix::process::Signal;

use crate::ground::{Ground, ONLY_ONE, is_alive, signal};

#[test]
fn a_restart_while_it_is_being_stopped_brings_it_back() {
    let ground = Ground::with_agent(&format!(
        "trap '' TERM\n{ONLY_ONE}sleep 300 & wait; sleep 300"
    ));
    let _run = ground.run(&["--grace", "5s"]);
    ground.until_runs("a", 1);
    let stop = ground.start(&["stop", "a"]);
    ground.until_agent("a", |agent| {
        agent["detail"].as_str().unwrap().contains("stop")
    });
    let ran = ground.call(&["restart", "a"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    ground.until_runs("a", 2);
    stop.kill();
    ground.assert_never_doubled();
}

#[test]
fn a_leader_without_its_shim_and_its_environment_is_stopped_all_the_same() {
    let ground = Ground::with_agent(&format!("{ONLY_ONE}exec env -i sleep 300"));
    let run = ground.run(&["--grace", "1s"]);
    ground.until_runs("a", 1);
    signal(ground.shim("a"), Signal::KILL);
    run.until_said("without its shim");
    run.signal(Signal::TERM);
    assert_eq!(run.end().code, 143);
    assert_eq!(ground.state("a"), "stopped");
    ground.assert_nothing_is_left();
}

#[test]
fn a_shim_that_dies_between_two_attempts_costs_none() {
    let ground = Ground::with_agent(&format!(
        "{ONLY_ONE}[ $RELIGHT_ATTEMPT_NUMBER = 3 ] || exit 1"
    ));
    let run = ground.run(&["--cooldown", "5s"]);
    ground.until_state("a", "crashed");
    signal(ground.shim("a"), Signal::KILL);
    assert_eq!(run.end().code, 0);
    assert_eq!(ground.causes("a"), ["failed", "failed", "completed"]);
}

#[test]
fn a_loop_whose_condition_takes_its_time_ends_at_once_when_it_is_told_to() {
    let ground = Ground::with_agent(ONLY_ONE);
    ground.script("is_done", "echo $$ >>asked; sleep 300");
    let run = ground.run(&["--loop", "--until", "./is_done"]);
    ground.until_lines("asked", 1);
    run.signal(Signal::TERM);
    assert_eq!(run.end().code, 143);
    ground.assert_nothing_is_left();
}

#[test]
fn a_daemon_goes_on_serving_while_a_deaf_agent_is_retired() {
    let ground = Ground::new();
    ground.script(
        "deaf",
        "trap '' TERM\necho $$ >>births\nwhile :; do sleep 300; done",
    );
    ground.script("other", "sleep 300");
    let other = "[[agent]]\nname = \"other\"\ncommand = [\"./other\"]\n";
    let deaf = "[[agent]]\nname = \"deaf\"\ncommand = [\"./deaf\"]\ngrace = \"1h\"\n";
    ground.config(&format!("{other}{deaf}"));
    let daemon = ground.up(&[]);
    let pid = ground.births(1)[0];
    ground.config(other);
    daemon.signal(Signal::HUP);
    daemon.until_said("the configuration was read again");
    let ran = ground.call(&["restart", "other"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(is_alive(pid), "its grace is long");
    daemon.signal(Signal::TERM);
    daemon.until_said("stopping all agents");
    signal(pid, Signal::KILL);
    assert_eq!(daemon.end().code, 143);
    ground.assert_nothing_is_left();
}

#[test]
fn output_that_nobody_reads_holds_up_no_recovery() {
    let ground = Ground::with_agent(
        "[ $RELIGHT_ATTEMPT_NUMBER = 1 ] || exec sleep 300\nhead -c 1000000 /dev/zero; exit 1",
    );
    let mut command = ground
        .stage
        .command(&["run", "--name", "a", "--", "./agent"]);
    let mut run = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    ground.until_runs("a", 2);
    run.kill().unwrap();
    run.wait().unwrap();
}
