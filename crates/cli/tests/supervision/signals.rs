//! SIGTERM and SIGINT to a supervisor: agents are told, have their grace, and a second one hurries.

use rustix::process::Signal;
use serde_json::json;

use crate::ground::{Ground, Supervisor};

/// Says that it was told, and ends in order.
const POLITE: &str =
    "trap 'echo told >told; exit 0' TERM; echo >ready; while :; do sleep 0.02; done";
/// Says that it was told, and goes on.
const DEAF: &str = "trap 'echo told >told' TERM; echo >ready; while :; do sleep 0.02; done";

fn ready(ground: &Ground, flags: &[&str]) -> Supervisor {
    let run = ground.run(flags);
    ground.until_runs("a", 1);
    ground.until_lines("ready", 1);
    run
}

#[test]
fn run_tells_its_agent_and_the_exit_code_says_which_signal_came() {
    for (sent, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        let ground = Ground::with_agent(POLITE);
        let run = ready(&ground, &["--json", "--task", "t"]);
        run.signal(sent);
        let (ended, answer) = run.end_json();
        assert_eq!((ended, &answer["whose"]), (code, &json!("relight")));
        assert_eq!(ground.read("told"), "told\n");
        assert_eq!(ground.agent("a")["detail"], "stopped with its supervisor");
        assert_eq!(ground.task_status("t"), "interrupted");
        assert_eq!(ground.causes("a"), ["stopped"]);
        ground.assert_nothing_is_left();
    }
}

#[test]
fn an_agent_that_was_stopped_with_its_supervisor_goes_on_with_the_next() {
    let ground = Ground::with_agent(
        "echo $RELIGHT_RESUMED >>resumed; [ -e done ] || { echo >done; sleep 300; }",
    );
    let run = ground.run(&[]);
    ground.until_runs("a", 1);
    ground.until_lines("done", 1);
    run.signal(Signal::TERM);
    assert_eq!(run.end().code, 143);
    assert_eq!(ground.run(&[]).end().code, 0);
    assert_eq!(ground.lines("resumed"), ["0", "1"]);
    assert_eq!(ground.agent("a")["restarts_total"], 0);
}

#[test]
fn a_second_signal_hurries() {
    let ground = Ground::with_agent(DEAF);
    let run = ready(&ground, &["--grace", "10m"]);
    run.signal(Signal::TERM);
    ground.until_lines("told", 1);
    run.signal(Signal::TERM);
    assert_eq!(run.end().code, 143);
    assert_eq!(ground.deaths("a")[0]["signal"], 9);
    ground.assert_nothing_is_left();
}

#[test]
fn a_signal_while_it_waits_for_the_cooldown_ends_at_once_and_forgets_nothing() {
    let ground = Ground::with_agent("exit 1");
    let run = ground.run(&["--cooldown", "10m"]);
    ground.until_state("a", "crashed");
    run.signal(Signal::INT);
    assert_eq!(run.end().code, 130);
    assert_eq!(ground.agent("a")["recoveries_in_a_row"], 2);
}

#[test]
fn sigkill_in_the_middle_of_an_end_loses_nothing() {
    let ground = Ground::with_agent(DEAF);
    let run = ready(&ground, &["--grace", "10m", "--task", "t"]);
    run.signal(Signal::TERM);
    ground.until_lines("told", 1);
    run.kill();
    let run = ground.run(&["--grace", "100ms", "--task", "t"]);
    ground.until_runs("a", 2);
    assert_eq!(ground.causes("a"), ["stopped"]);
    run.signal(Signal::TERM);
    assert_eq!(run.end().code, 143);
    assert_eq!(ground.task_status("t"), "interrupted");
}

#[test]
fn up_tells_all_its_agents_and_says_which_signal_came() {
    for (sent, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let ground = Ground::with_agent(
            "trap 'echo told >>told; exit 0' TERM; echo >>ready; while :; do sleep 0.02; done",
        );
        let entry = |name: &str| {
            format!("[[agent]]\nname = \"{name}\"\ncommand = [\"./agent\"]\ntask = \"t-{name}\"\n")
        };
        ground.config(&["a", "b", "c"].map(entry).concat());
        let daemon = ground.up(&[]);
        ground.until_lines("ready", 3);
        daemon.signal(sent);
        assert_eq!(daemon.end().code, code);
        assert_eq!(ground.lines("told").len(), 3);
        for name in ["a", "b", "c"] {
            assert_eq!(ground.agent(name)["detail"], "stopped with its supervisor");
            assert_eq!(ground.task_status(&format!("t-{name}")), "interrupted");
        }
        ground.assert_nothing_is_left();
    }
}

#[test]
fn a_second_signal_hurries_up_too() {
    let ground = Ground::with_agent(DEAF);
    ground.config("[[agent]]\nname = \"a\"\ncommand = [\"./agent\"]\ngrace = \"10m\"\n");
    let daemon = ground.up(&[]);
    ground.until_lines("ready", 1);
    daemon.signal(Signal::TERM);
    ground.until_lines("told", 1);
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.end().code, 143);
    ground.assert_nothing_is_left();
}

#[test]
fn a_wait_that_was_ended_with_its_supervisor_says_what_goes_on() {
    let ground = Ground::with_agent("exit 1");
    let run = ground.run(&[]);
    ground.until_state("a", "crashed");
    run.signal(Signal::TERM);
    assert_eq!(run.end().code, 143);
    assert_eq!(
        ground.agent("a")["detail"],
        "stopped with its supervisor after a crash; \
         to continue: relight run --name a -- ./agent"
    );
}

#[test]
fn to_stop_again_while_the_supervisor_ends_is_no_failure() {
    let ground = Ground::with_agent("sleep 300");
    for attempt in 1..=5 {
        let run = ground.run(&[]);
        ground.until_runs("a", attempt);
        assert_eq!(ground.call(&["stop", "a"]).code, 0);
        let again = ground.call(&["stop", "a"]);
        assert_eq!(
            (again.code, again.stdout.as_str()),
            (0, "a: stopped → stopped\n"),
            "{again:?}"
        );
        run.end();
    }
}
