//! `relight recover`: says of everything whose holder is gone what it really is, and starts nothing.

use rustix::process::Signal;
use serde_json::json;

use crate::ground::{Ground, is_alive, signal, until};

#[test]
fn with_nothing_amiss_it_says_so() {
    let ground = Ground::with_agent("sleep 300");
    assert_eq!(ground.call(&["recover"]).stdout, "nothing to recover\n");
    let _run = ground.run(&[]);
    ground.until_runs("a", 1);
    assert_eq!(ground.json(&["recover"])["findings"], json!([]));
}

#[test]
fn a_death_that_nobody_noticed_is_found_then_recorded_and_nothing_is_started() {
    let ground =
        Ground::with_agent("echo $$ >>births; until [ -e enough ]; do sleep 0.01; done; exit 6");
    let run = ground.run(&["--task", "t"]);
    let pid = ground.until_runs("a", 1);
    run.kill();
    std::fs::write(ground.work("enough"), "").unwrap();
    until("the agent is gone", || (!is_alive(pid)).then_some(()));
    let found = ground.json(&["recover", "--dry-run"]);
    let agent = json!({"kind": "agent", "agent": "a", "lives": false});
    assert_eq!(
        (&found["dry_run"], &found["findings"][0]),
        (&json!(true), &agent)
    );
    assert_eq!(found["findings"][1]["task"], "t");
    assert_eq!(ground.agent("a")["truth"], "died_unnoticed");
    assert_eq!(ground.json(&["recover"])["findings"][0], agent);
    let death = &ground.deaths("a")[0];
    assert_eq!(
        (&death["cause"], &death["code"]),
        (&json!("failed"), &json!(6))
    );
    assert_eq!(ground.task_status("t"), "interrupted");
    assert_eq!(ground.births(1).len(), 1);
    assert_eq!(ground.json(&["recover"])["findings"], json!([]));
    assert_ne!(ground.agent("a")["truth"], "died_unnoticed");
}

#[test]
fn what_lives_is_left_alone_and_can_still_be_adopted() {
    let ground = Ground::with_agent("echo $$ >>births; sleep 300");
    let run = ground.run(&["--task", "t"]);
    let pid = ground.until_runs("a", 1);
    run.kill();
    let found = ground.json(&["recover"]);
    assert_eq!(
        found["findings"],
        json!([{"kind": "agent", "agent": "a", "lives": true}])
    );
    assert!(is_alive(pid));
    assert_eq!(ground.task_status("t"), "in_progress");
    let run = ground.run(&["--task", "t"]);
    run.until_said("lives and is adopted");
    assert_eq!(ground.until_runs("a", 1), pid);
}

#[test]
fn a_lost_agent_is_recorded_as_lost_and_its_leftovers_go() {
    let ground = Ground::with_agent("setsid sleep 300 & echo $! >child; sleep 300");
    let run = ground.run(&[]);
    let pid = ground.until_runs("a", 1);
    let child: u32 = ground.until_lines("child", 1)[0].parse().unwrap();
    let shim = ground.shim("a");
    run.kill();
    signal(shim, Signal::KILL);
    signal(pid, Signal::KILL);
    until("both are gone", || {
        (!is_alive(shim) && !is_alive(pid)).then_some(())
    });
    assert_eq!(ground.call(&["recover"]).code, 0);
    assert_eq!(ground.causes("a"), ["lost"]);
    assert!(!is_alive(child));
}

#[test]
fn a_task_whose_holder_is_gone_is_given_to_its_strategy() {
    let ground = Ground::new();
    let mut holder = ground.stage.command(&["--version"]).spawn().unwrap();
    let pid = holder.id().to_string();
    // Not waited for yet: a dead process whose pid cannot be another's.
    assert_eq!(
        ground
            .call(&[
                "task",
                "start",
                "t",
                "--owner-pid",
                &std::process::id().to_string()
            ])
            .code,
        0
    );
    assert_eq!(ground.json(&["recover"])["findings"], json!([]));
    holder.wait().unwrap();
    let mut owner = ground.start(&["events", "-f"]);
    let ran = ground.call(&[
        "task",
        "start",
        "u",
        "--owner-pid",
        &owner.pid().to_string(),
    ]);
    assert_eq!(ran.code, 0, "{pid}: {ran:?}");
    assert!(owner.is_alive());
    owner.kill();
    let recovered = ground.json(&["recover"]);
    assert_eq!(recovered["findings"][0]["task"], "u");
    assert_eq!(recovered["recovered"][0]["strategy"], "fail-and-reassign");
    assert_eq!(
        ground.task_status("u"),
        "interrupted",
        "it has no agent, and was not claimed"
    );
    assert_eq!(ground.task_status("t"), "in_progress");
}

#[test]
fn a_stop_does_not_say_that_a_blocked_task_is_interrupted() {
    let ground = Ground::with_agent("relight task block --reason 'no key'; sleep 300");
    let run = ground.run(&["--task", "t"]);
    ground.until_agent("a", |_| ground.task_status("t") == "blocked");
    let ran = ground.call(&["stop", "a"]);
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (0, "a: running → stopped\n")
    );
    assert_eq!(ground.task_status("t"), "blocked");
    drop(run);
}

#[test]
fn an_orphan_is_stopped_without_a_supervisor() {
    let ground =
        Ground::with_agent("trap 'echo >asked; exit 0' TERM; echo >armed; sleep 300 & wait");
    let run = ground.run(&["--task", "t"]);
    let pid = ground.until_runs("a", 1);
    ground.until_lines("armed", 1);
    run.kill();
    let ran = ground.call(&["stop", "a"]);
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (0, "a: running → stopped (its task t is interrupted)\n")
    );
    assert!(!is_alive(pid));
    assert_eq!(ground.lines("asked").len(), 1);
    assert_eq!(ground.agent("a")["detail"], "stopped by a person");
    assert_eq!(ground.causes("a"), ["stopped"]);
    ground.assert_nothing_is_left();
}

#[test]
fn an_orphan_without_its_shim_is_stopped_too() {
    let ground = Ground::with_agent("sleep 300");
    let run = ground.run(&[]);
    let pid = ground.until_runs("a", 1);
    let shim = ground.shim("a");
    run.kill();
    signal(shim, Signal::KILL);
    until("the shim is gone", || (!is_alive(shim)).then_some(()));
    assert_eq!(ground.call(&["stop", "a"]).code, 0);
    assert!(!is_alive(pid));
    assert_eq!(ground.agent("a")["detail"], "stopped by a person");
}

#[test]
fn an_orphan_that_is_not_in_the_configuration_is_stopped_beside_the_daemon() {
    let ground = Ground::with_agent("sleep 300");
    let run = ground.run(&[]);
    let pid = ground.until_runs("a", 1);
    run.kill();
    ground.config("[[agent]]\nname = \"b\"\ncommand = [\"./agent\"]\n");
    let _up = ground.up(&[]);
    let ran = ground.call(&["stop", "a"]);
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (0, "a: running → stopped\n"),
        "{ran:?}"
    );
    assert!(!is_alive(pid));
    assert_eq!(ground.state("b"), "running");
}

#[test]
fn what_waits_for_nobody_is_stopped_for_good() {
    let ground = Ground::with_agent("exit 1");
    let run = ground.run(&[]);
    ground.until_state("a", "crashed");
    run.kill();
    let ran = ground.call(&["stop", "a"]);
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (0, "a: crashed → stopped\n"),
        "{ran:?}"
    );
    assert_eq!(ground.agent("a")["detail"], "stopped by a person");
}
