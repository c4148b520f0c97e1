//! `relight drain`: what runs is finished, nothing is begun, and that outlives the daemon.

use rustix::process::Signal;

use crate::ground::{Ground, is_alive, signal, until};

const AGENTS: &str = "[[agent]]\nname = \"w\"\ncommand = [\"./agent\"]\ntakes = \"start\"\n\
    [[agent]]\nname = \"a\"\ncommand = [\"./other\"]\ncooldown = \"10ms\"\n";

/// An agent that works on a task for as long as it is let, and one that just runs.
fn ground() -> Ground {
    let ground = Ground::with_agent(
        "echo $RELIGHT_TASK >>starts; while [ ! -e go ]; do read -t 0.05 <> <(:); done\n\
         relight task done",
    );
    ground.script("other", "echo $$ >>births; exec sleep 300");
    ground.config(AGENTS);
    ground
}

fn until_status(ground: &Ground, task: &str, status: &str) {
    until(&format!("{task} is {status}"), || {
        (ground.task_status(task) == status).then_some(())
    });
}

#[test]
fn what_runs_is_finished_and_nothing_is_begun_until_it_is_cancelled() {
    let ground = ground();
    let _daemon = ground.up(&[]);
    ground.call(&["task", "add", "one"]);
    ground.until_lines("starts", 1);
    assert_eq!(ground.call(&["drain"]).code, 0);
    ground.call(&["task", "add", "two"]);
    std::fs::write(ground.work("go"), "").unwrap();
    until_status(&ground, "one", "completed");
    ground.until_agent("w", |agent| agent["detail"] == "idle");
    signal(ground.births(1)[0], Signal::KILL);
    let agent = ground.until_state("a", "suspended");
    assert!(
        agent["detail"].as_str().unwrap().contains("draining"),
        "{agent}"
    );
    assert_eq!(ground.task_status("two"), "created");
    assert_eq!(ground.call(&["drain", "--cancel"]).code, 0);
    until_status(&ground, "two", "completed");
    ground.until_runs("a", 2);
    assert_eq!(ground.lines("starts"), ["one", "two"]);
}

#[test]
fn drain_waits_for_agents_that_run_and_not_for_those_that_wait_for_work() {
    let ground = Ground::new();
    ground.script(
        "works",
        "trap 'exit 0' TERM; while [ ! -e end ]; do sleep 0.05; done",
    );
    ground.script("waits", "relight task claim --agent w --wait 1h");
    ground.config(
        "[[agent]]\nname = \"busy\"\ncommand = [\"./works\"]\n\
         [[agent]]\nname = \"w\"\ncommand = [\"./waits\"]\n",
    );
    let _daemon = ground.up(&[]);
    ground.until_runs("busy", 1);
    ground.until_agent("w", |agent| agent["waiting_until"].is_string());
    let ran = ground.call(&["drain", "--wait", "300ms"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(
        ran.stdout
            .contains("1 agents still run: busy (relight stop busy"),
        "{ran:?}"
    );
    std::fs::write(ground.work("end"), "").unwrap();
    let ran = ground.call(&["drain", "--wait", "20s"]);
    assert_eq!(ran.code, 0, "{ran:?}");
}

#[test]
fn a_drain_outlives_the_daemon_and_what_lives_is_adopted() {
    let ground = ground();
    let daemon = ground.up(&[]);
    ground.call(&["task", "add", "one"]);
    ground.until_lines("starts", 1);
    let (working, other) = (ground.until_runs("w", 1), ground.until_runs("a", 1));
    assert_eq!(ground.call(&["drain"]).code, 0);
    daemon.kill();
    signal(other, Signal::KILL);
    ground.call(&["task", "add", "two"]);
    let daemon = ground.up(&[]);
    daemon.until_said("draining");
    assert!(is_alive(working));
    assert_eq!(ground.until_runs("w", 1), working);
    assert_eq!(ground.until_state("a", "suspended")["attempt"], 1);
    std::fs::write(ground.work("go"), "").unwrap();
    until_status(&ground, "one", "completed");
    assert_eq!(ground.task_status("two"), "created");
    assert_eq!(ground.call(&["drain", "--cancel"]).code, 0);
    until_status(&ground, "two", "completed");
    ground.until_runs("a", 2);
}

#[test]
fn a_person_may_start_one_all_the_same() {
    let ground = ground();
    assert_eq!(ground.call(&["drain"]).code, 0);
    let _daemon = ground.up(&[]);
    ground.until_state("a", "suspended");
    assert_eq!(ground.call(&["start", "a"]).code, 0);
    ground.until_runs("a", 1);
}

#[test]
fn a_run_does_not_start_its_agent_again_until_the_drain_is_cancelled() {
    let ground = Ground::with_agent("echo $$ >>births; exec sleep 300");
    let mut run = ground.run(&["--cooldown", "10ms"]);
    let first = ground.until_runs("a", 1);
    assert_eq!(ground.call(&["drain"]).code, 0);
    signal(first, Signal::KILL);
    let agent = ground.until_state("a", "suspended");
    assert!(
        agent["detail"].as_str().unwrap().contains("draining"),
        "{agent}"
    );
    run.until_said("relight drain --cancel");
    let ran = ground.call(&["drain", "--wait", "1m"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(run.is_alive());
    assert_eq!(ground.births(1).len(), 1);
    assert_eq!(ground.call(&["drain", "--cancel"]).code, 0);
    ground.until_runs("a", 2);
    run.signal(Signal::TERM);
    assert_eq!(run.end().code, 143);
}

#[test]
fn an_agent_of_run_in_its_cooldown_stays_down_while_draining() {
    let ground = Ground::with_agent("echo $$ >>births; [ -e mended ] && exec sleep 300; exit 1");
    let run = ground.run(&["--cooldown", "2s", "--max-attempts", "9"]);
    ground.until_state("a", "crashed");
    let ran = ground.call(&["drain", "--wait", "1m"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    ground.until_state("a", "suspended");
    assert_eq!(ground.births(2).len(), 2);
    std::fs::write(ground.work("mended"), "").unwrap();
    assert_eq!(ground.call(&["drain", "--cancel"]).code, 0);
    ground.until_runs("a", 3);
    // Whoever ends it while it waits for the end of a drain is obeyed.
    assert_eq!(ground.call(&["drain"]).code, 0);
    signal(ground.births(3)[2], Signal::KILL);
    ground.until_state("a", "suspended");
    run.signal(Signal::TERM);
    assert_eq!(run.end().code, 143);
}

#[test]
fn a_run_begun_while_draining_starts_nothing() {
    let ground = Ground::with_agent("echo $$ >>births");
    assert_eq!(ground.call(&["drain"]).code, 0);
    let ran = ground.run(&[]).end();
    assert_eq!(ran.code, 75, "{ran:?}");
    assert!(ran.stderr.contains("relight drain --cancel"), "{ran:?}");
    assert!(ground.agents().is_empty());
    assert_eq!(ground.call(&["drain", "--cancel"]).code, 0);
    assert_eq!(ground.run(&[]).end().code, 0);
    assert_eq!(ground.births(1).len(), 1);
}

#[test]
fn a_run_that_finds_its_agent_alive_adopts_it_while_draining() {
    let ground = Ground::with_agent("echo $$ >>births; exec sleep 300");
    let run = ground.run(&[]);
    let pid = ground.until_runs("a", 1);
    assert_eq!(ground.call(&["drain"]).code, 0);
    run.kill();
    let run = ground.run(&[]);
    run.until_said("lives and is adopted");
    assert!(is_alive(pid));
    run.signal(Signal::TERM);
    assert_eq!(run.end().code, 143);
}
