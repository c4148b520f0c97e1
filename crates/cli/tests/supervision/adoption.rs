//! The supervisor's own death: agents live on, are adopted, and never doubled.

use relight_core::time::Time;
use rustix::process::Signal;
use serde_json::json;

use crate::ground::{Ground, ONLY_ONE, is_alive, signal, until};

/// Counts until somebody says that it is enough.
fn counts() -> String {
    format!(
        "{ONLY_ONE}i=0; until [ -e enough ]; do echo $((++i)); sleep 0.01; done; echo $i >counted"
    )
}

/// Lives until it is killed; a later attempt succeeds.
fn lives_once() -> String {
    format!("{ONLY_ONE}[ $RELIGHT_ATTEMPT_NUMBER = 1 ] || exit 0\nsleep 300")
}

#[test]
fn time_to_recover_counts_from_the_death_and_not_from_its_discovery() {
    let ground = Ground::with_agent("while :; do sleep 0.05; done");
    ground.config("[[agent]]\nname = \"a\"\ncommand = [\"./agent\"]\n");
    let daemon = ground.up(&[]);
    let pid = ground.until_runs("a", 1);
    daemon.kill();
    crate::ground::signal(pid, Signal::KILL);
    let died = crate::ground::now();
    crate::ground::until("a while", || {
        (died.elapsed() > std::time::Duration::from_secs(2)).then_some(())
    });
    let daemon = ground.up(&[]);
    ground.until_runs("a", 2);
    daemon.until_said("attempt 2 started");
    let said = daemon.said();
    let back = said
        .lines()
        .find(|line| line.contains("attempt 2 started"))
        .unwrap();
    assert!(
        back.contains("back after") && !back.contains("ms"),
        "{said}"
    );
    let event = &ground.events("attempt.died")[0];
    let at = |text: &serde_json::Value| -> Time { text.as_str().unwrap().parse().unwrap() };
    let late = at(&event["at"]).since(at(&event["detail"]["down_since"]));
    assert!(late.as_ms() >= 1_500, "{event:#}");
}

#[test]
fn a_verb_that_waits_is_known_to_the_next_supervisor() {
    let ground = Ground::with_agent("relight task claim --agent a --wait 1h");
    ground.config("[[agent]]\nname = \"a\"\ncommand = [\"./agent\"]\nsilence_max = \"3s\"\n");
    let daemon = ground.up(&[]);
    ground.until_agent("a", |agent| agent["waiting_until"].is_string());
    let pid = ground.until_runs("a", 1);
    daemon.kill();
    let daemon = ground.up(&[]);
    daemon.until_said("lives and is adopted");
    let begun = crate::ground::now();
    crate::ground::until("longer than its silence", || {
        (begun.elapsed() > std::time::Duration::from_secs(6)).then_some(())
    });
    assert_eq!(ground.until_runs("a", 1), pid);
}

#[test]
fn the_agent_lives_on_and_is_adopted_with_its_output_gap_free() {
    let ground = Ground::with_agent(&counts());
    let run = ground.run(&[]);
    let pid = ground.until_runs("a", 1);
    until("output", || {
        (ground.log("a").lines().count() > 5).then_some(())
    });
    run.kill();
    let before = ground.log("a").lines().count();
    until("output without a supervisor", || {
        (ground.log("a").lines().count() > before + 5).then_some(())
    });
    assert_eq!(ground.agent("a")["truth"], "orphaned");
    let run = ground.run(&[]);
    run.until_said("lives and is adopted");
    assert_eq!(ground.until_runs("a", 1), pid);
    std::fs::write(ground.work("enough"), "").unwrap();
    assert_eq!(run.end().code, 0);
    let log = ground.log("a");
    let expected: Vec<String> = (1..=log.lines().count()).map(|n| n.to_string()).collect();
    assert_eq!(log.lines().collect::<Vec<_>>(), expected);
    assert_eq!(ground.read("counted").trim(), expected.last().unwrap());
    ground.assert_never_doubled();
    assert_eq!(ground.causes("a"), ["completed"]);
}

#[test]
fn an_adopted_agent_is_still_judged_by_its_silence() {
    let ground = Ground::with_agent(&lives_once());
    let run = ground.run(&["--silence-max", "10m"]);
    ground.until_runs("a", 1);
    run.kill();
    let ran = ground.run(&["--silence-max", "2s", "--grace", "1s"]).end();
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(ground.causes("a"), ["hung", "completed"]);
    ground.assert_never_doubled();
}

#[test]
fn declared_waiting_outlives_the_supervisor_that_heard_it() {
    let ground = Ground::with_agent(
        "relight beat --waiting-until 10m; while echo tick >>ticks; do sleep 0.05; done",
    );
    let flags = ["--silence-max", "2s", "--grace", "1s", "--restart", "never"];
    let run = ground.run(&flags);
    let before = ground.until_agent("a", |agent| agent["waiting_until"].is_string());
    run.kill();
    let run = ground.run(&flags);
    let after = ground.until_agent("a", |agent| agent["waiting_until"].is_string());
    assert_eq!(after["waiting_until"], before["waiting_until"]);
    ground.until_lines("ticks", ground.lines("ticks").len() + 60);
    assert_eq!(ground.state("a"), "running");
    // Judged by its silence again as soon as it says that it waits no more.
    assert_eq!(ground.call(&["beat", "a"]).code, 0);
    run.end();
    assert_eq!(ground.causes("a"), ["hung"]);
}

#[test]
fn the_real_exit_of_one_that_died_meanwhile_is_in_its_deaths() {
    let ground = Ground::with_agent(&format!(
        "{ONLY_ONE}[ $RELIGHT_ATTEMPT_NUMBER = 1 ] || exit 0\nuntil [ -e enough ]; do sleep 0.01; done; exit 5"
    ));
    let run = ground.run(&[]);
    let pid = ground.until_runs("a", 1);
    run.kill();
    std::fs::write(ground.work("enough"), "").unwrap();
    until("the agent is gone", || (!is_alive(pid)).then_some(()));
    assert_eq!(ground.run(&[]).end().code, 0);
    let first = &ground.deaths("a")[0];
    assert_eq!(
        (&first["cause"], &first["code"]),
        (&json!("failed"), &json!(5))
    );
    ground.assert_never_doubled();
}

#[test]
fn the_shims_death_is_survived() {
    let ground = Ground::with_agent(&lives_once());
    let run = ground.run(&[]);
    let pid = ground.until_runs("a", 1);
    signal(ground.shim("a"), Signal::KILL);
    run.until_said("without its shim");
    assert!(is_alive(pid));
    signal(pid, Signal::KILL);
    assert_eq!(run.end().code, 0);
    assert_eq!(ground.births(2)[0], pid);
    assert_eq!(ground.deaths("a").len(), 2);
    ground.assert_never_doubled();
}

#[test]
fn an_agent_without_its_shim_can_be_stopped() {
    let ground = Ground::with_agent(&format!("{ONLY_ONE}sleep 300"));
    let run = ground.run(&[]);
    let pid = ground.until_runs("a", 1);
    signal(ground.shim("a"), Signal::KILL);
    run.until_said("without its shim");
    assert_eq!(ground.call(&["stop", "a"]).code, 0);
    assert!(!is_alive(pid));
    run.end();
    ground.assert_nothing_is_left();
}

#[test]
fn without_supervisor_and_shim_the_agent_is_adopted_all_the_same() {
    let ground = Ground::with_agent(&lives_once());
    let run = ground.run(&[]);
    let pid = ground.until_runs("a", 1);
    let shim = ground.shim("a");
    run.kill();
    signal(shim, Signal::KILL);
    let run = ground.run(&[]);
    run.until_said("lives and is adopted");
    assert_eq!(ground.until_runs("a", 1), pid);
    signal(pid, Signal::KILL);
    assert_eq!(run.end().code, 0);
    ground.assert_never_doubled();
}

#[test]
fn an_attempt_whose_start_was_not_recorded_is_adopted_without_its_shim() {
    let ground = Ground::with_agent(&format!(
        "{ONLY_ONE}[ $RELIGHT_ATTEMPT_NUMBER = 3 ] && exit 0\nsleep 300"
    ));
    let run = ground.run(&["--cooldown", "10ms"]);
    let first = ground.until_runs("a", 1);
    let shim = ground.shim("a");
    // Nothing is recorded while somebody else writes; a restart does not wait for that.
    let store = rusqlite::Connection::open(ground.home("relight.db")).unwrap();
    store.execute_batch("BEGIN IMMEDIATE").unwrap();
    signal(first, Signal::KILL);
    let second = ground.births(2)[1];
    run.kill();
    signal(shim, Signal::KILL);
    store.execute_batch("ROLLBACK").unwrap();
    let run = ground.run(&["--cooldown", "10ms"]);
    run.until_said("lives and is adopted");
    assert_eq!(ground.until_runs("a", 2), second);
    assert_eq!(ground.deaths("a").len(), 1);
    signal(second, Signal::KILL);
    assert_eq!(run.end().code, 0);
    ground.assert_never_doubled();
}

#[test]
fn when_everything_was_killed_the_cause_is_lost_and_it_goes_on() {
    let ground = Ground::with_agent(&lives_once());
    let run = ground.run(&[]);
    let pid = ground.until_runs("a", 1);
    let shim = ground.shim("a");
    run.kill();
    signal(shim, Signal::KILL);
    signal(pid, Signal::KILL);
    until("the agent is gone", || (!is_alive(pid)).then_some(()));
    let ran = ground.run(&[]).end();
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(ground.causes("a"), ["lost", "completed"]);
    ground.assert_never_doubled();
}

#[test]
fn what_a_dead_tree_left_behind_goes_before_the_next_attempt() {
    let ground = Ground::with_agent(&format!(
        "{ONLY_ONE}[ $RELIGHT_ATTEMPT_NUMBER = 1 ] || exit 0\n\
         setsid sleep 300 & echo $! >grandchild; sleep 300"
    ));
    let run = ground.run(&[]);
    let pid = ground.until_runs("a", 1);
    let grandchild: u32 = ground.until_lines("grandchild", 1)[0].parse().unwrap();
    let shim = ground.shim("a");
    run.kill();
    signal(shim, Signal::KILL);
    signal(pid, Signal::KILL);
    let ran = ground.run(&[]).end();
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(!is_alive(grandchild));
    // The grandchild holds the agent's own lock: a second copy beside it would have complained.
    ground.assert_never_doubled();
}

#[test]
fn a_task_goes_on_after_everything_was_killed() {
    let ground = Ground::with_agent(
        "relight step run one -- sh -c 'echo one >>effects'\n\
         [ $RELIGHT_ATTEMPT_NUMBER = 1 ] && { echo >ready; sleep 300; }\n\
         relight step run two -- sh -c 'echo two >>effects'; relight task done",
    );
    let run = ground.run(&["--task", "t"]);
    let pid = ground.until_runs("a", 1);
    ground.until_lines("ready", 1);
    let shim = ground.shim("a");
    run.kill();
    signal(shim, Signal::KILL);
    signal(pid, Signal::KILL);
    let ran = ground.run(&["--task", "t"]).end();
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(ground.read("effects"), "one\ntwo\n");
    assert_eq!(ground.task_status("t"), "completed");
}

#[test]
fn a_supervisor_that_is_frozen_past_its_end_does_nothing_when_it_wakes() {
    let ground = Ground::with_agent(&format!("{ONLY_ONE}sleep 300"));
    let frozen = ground.run(&[]);
    let pid = ground.until_runs("a", 1);
    frozen.freeze();
    assert_eq!(ground.run(&[]).end().code, 75);
    let second = ground.run(&["--take-over"]);
    second.until_said("lives and is adopted");
    frozen.signal(Signal::CONT);
    frozen.signal(Signal::TERM);
    frozen.end();
    assert!(is_alive(pid));
    assert_eq!(ground.until_runs("a", 1), pid);
    ground.assert_never_doubled();
}

#[test]
fn an_adopted_agent_keeps_its_task_until_it_ends() {
    let ground = Ground::with_agent(
        "echo \"$RELIGHT_ATTEMPT_NUMBER ${RELIGHT_TASK-none}\" >>tasks\n\
         [ $RELIGHT_ATTEMPT_NUMBER = 1 ] && sleep 300\n\
         [ -z \"$RELIGHT_TASK\" ] || relight task done",
    );
    let run = ground.run(&["--task", "t"]);
    let pid = ground.until_runs("a", 1);
    ground.until_lines("tasks", 1);
    run.kill();
    let run = ground.run(&[]);
    run.until_said("adopted");
    signal(pid, Signal::KILL);
    assert_eq!(run.end().code, 0);
    assert_eq!(ground.lines("tasks"), ["1 t", "2 t"]);
    assert_eq!(ground.task_status("t"), "completed");
    assert_eq!(ground.run(&[]).end().code, 0);
    assert_eq!(ground.lines("tasks")[2], "3 none", "it had ended");
}

/// The daemon was killed, and its agent removed from the configuration.
fn removed_agent(script: &str) -> (Ground, u32) {
    let ground = Ground::with_agent(script);
    ground.config("[[agent]]\nname = \"a\"\ncommand = [\"./agent\"]\ngrace = \"1s\"\n");
    let daemon = ground.up(&[]);
    let pid = ground.until_runs("a", 1);
    daemon.kill();
    ground.config("");
    (ground, pid)
}

#[test]
fn the_daemon_adopts_an_agent_that_was_removed_until_it_ends_and_starts_it_never() {
    let script = format!("{ONLY_ONE}until [ -e enough ]; do sleep 0.05; done; exit 3");
    let (ground, pid) = removed_agent(&script);
    let daemon = ground.up(&[]);
    daemon.until_said("attempt 1 lives and is adopted");
    assert_eq!(ground.until_runs("a", 1), pid);
    assert_eq!(ground.agent("a")["truth"], "as_recorded");
    let refused = ground.call(&["restart", "a"]);
    assert_eq!(refused.code, 75, "{refused:?}");
    assert!(is_alive(pid));
    // The configuration read again stops nothing that it never had.
    signal(daemon.pid(), Signal::HUP);
    daemon.until_said("the configuration was read again");
    assert_eq!(ground.until_runs("a", 1), pid);
    std::fs::write(ground.work("enough"), "").unwrap();
    daemon.until_said("so it is not started again");
    ground.until_agent("a", |agent| agent["truth"] == "forgotten");
    assert_eq!(ground.causes("a"), ["failed"]);
    assert_eq!(ground.births(1).len(), 1);
}

#[test]
fn the_daemon_stops_what_it_adopted_and_records_what_died_unnoticed() {
    let (ground, pid) = removed_agent(&lives_once());
    let daemon = ground.up(&[]);
    daemon.until_said("attempt 1 lives and is adopted");
    assert_eq!(ground.call(&["stop", "a"]).code, 0);
    assert!(!is_alive(pid));
    assert_eq!(ground.causes("a"), ["stopped"]);
    drop(daemon);
    let (ground, pid) = removed_agent(&lives_once());
    signal(pid, Signal::KILL);
    let _daemon = ground.up(&[]);
    ground.until_agent("a", |agent| agent["state"] == "suspended");
    assert_eq!(ground.causes("a"), ["signal"]);
}

#[test]
fn a_run_adopts_its_agent_beside_a_daemon() {
    let ground = Ground::with_agent(&lives_once());
    ground.config("");
    let run = ground.run(&[]);
    let pid = ground.until_runs("a", 1);
    run.kill();
    let _daemon = ground.up(&[]);
    let run = ground.run(&[]);
    run.until_said("lives and is adopted");
    assert_eq!(ground.until_runs("a", 1), pid);
    ground.assert_never_doubled();
}
