//! Agents that stop their own shim (`kill -STOP $PPID`) are still ended, adopted and brought back.

use relight_runtime::os::process;
use rustix::process::Signal;

use crate::ground::{Ground, is_alive, signal, until};

/// Stops its shim, says so, and stays.
const FREEZES: &str = "kill -STOP $PPID; echo $$ >>births; sleep 300";

/// Stops its shim again and again, from a process that ignores SIGTERM.
const KEEPS_FREEZING: &str = "trap '' TERM; shim=$PPID\n\
    (while kill -STOP $shim; do sleep 0.001; done 2>/dev/null) &\n\
    echo $$ >>births; while :; do sleep 1; done";

#[test]
fn stop_continues_a_stopped_shim_and_names_it() {
    let ground = Ground::with_agent(FREEZES);
    let run = ground.run(&["--grace", "300ms"]);
    ground.births(1);
    let shim = ground.shim("a");
    assert_eq!(ground.call(&["stop", "a"]).code, 0);
    let ran = run.end();
    assert!(
        ran.stderr
            .contains(&format!("its shim (pid {shim}) was stopped")),
        "{ran:?}"
    );
    assert_eq!(ground.causes("a"), ["stopped"]);
    ground.assert_nothing_is_left();
}

#[test]
fn an_agent_that_stops_its_shim_again_and_again_is_stopped_too() {
    let ground = Ground::with_agent(KEEPS_FREEZING);
    let run = ground.run(&["--grace", "300ms"]);
    ground.births(1);
    assert_eq!(ground.call(&["stop", "a"]).code, 0);
    run.end();
    assert_eq!(ground.causes("a"), ["stopped"]);
    ground.assert_nothing_is_left();
}

#[test]
fn a_timeout_and_a_hang_end_an_attempt_whose_shim_is_stopped() {
    for (flag, cause) in [("--timeout", "timeout"), ("--silence-max", "hung")] {
        let ground = Ground::with_agent(
            "[ $RELIGHT_ATTEMPT_NUMBER = 1 ] || exit 0; kill -STOP $PPID; sleep 300",
        );
        let ran = ground
            .run(&[flag, "3s", "--grace", "300ms", "--cooldown", "10ms"])
            .end();
        assert_eq!(ran.code, 0, "{ran:?}");
        assert_eq!(ground.causes("a"), [cause, "completed"]);
        ground.assert_nothing_is_left();
    }
}

#[test]
fn restart_ends_an_attempt_whose_shim_is_stopped() {
    let ground = Ground::with_agent(FREEZES);
    let run = ground.run(&["--grace", "300ms"]);
    let first = ground.births(1)[0];
    assert_eq!(ground.call(&["restart", "a"]).code, 0);
    ground.births(2);
    assert!(!is_alive(first));
    assert_eq!(ground.call(&["stop", "a"]).code, 0);
    run.end();
    ground.assert_nothing_is_left();
}

#[test]
fn the_death_of_an_agent_that_stopped_its_shim_is_noticed() {
    let ground =
        Ground::with_agent("[ $RELIGHT_ATTEMPT_NUMBER = 1 ] || exit 0; kill -STOP $PPID; exit 7");
    let ran = ground.run(&["--cooldown", "10ms"]).end();
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(ground.deaths("a")[0]["code"], 7);
    ground.assert_nothing_is_left();
}

#[test]
fn down_ends_an_agent_whose_shim_is_stopped() {
    let ground = Ground::with_agent(FREEZES);
    ground.config("[[agent]]\nname = \"a\"\ncommand = [\"./agent\"]\ngrace = \"300ms\"\n");
    let daemon = ground.up(&[]);
    ground.births(1);
    assert_eq!(ground.call(&["down"]).code, 0);
    daemon.end();
    ground.assert_nothing_is_left();
}

#[test]
fn the_next_supervisor_adopts_an_agent_whose_shim_is_stopped_and_doctor_names_the_shim() {
    let ground = Ground::with_agent("echo $$ >>births; sleep 300");
    let run = ground.run(&["--grace", "300ms"]);
    let pid = ground.until_runs("a", 1);
    let shim = ground.shim("a");
    signal(shim, Signal::STOP);
    until("it is stopped", || {
        (process::stat(shim)?.state == 'T').then_some(())
    });
    let doctor = ground.call(&["doctor"]);
    let named = format!("the shim of a (pid {shim}) is stopped (SIGSTOP)");
    assert!(doctor.stdout.contains(&named), "{doctor:?}");
    run.kill();
    let run = ground.run(&["--grace", "300ms"]);
    run.until_said("lives and is adopted");
    assert!(!run.said().contains("without its shim"), "{}", run.said());
    assert_eq!((ground.until_runs("a", 1), ground.shim("a")), (pid, shim));
    signal(shim, Signal::STOP);
    run.kill();
    // Without a supervisor, the command takes it up itself.
    assert_eq!(ground.call(&["stop", "a"]).code, 0);
    assert!(!is_alive(pid));
    ground.assert_nothing_is_left();
}
