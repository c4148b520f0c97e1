//! Hung agents are found and ended with their whole tree; quiet ones that live are not.

use rustix::process::Signal;
use serde_json::json;

use crate::ground::{Ground, is_alive};

#[test]
fn a_silent_agent_is_stopped_and_brought_back() {
    let ground =
        Ground::with_agent("echo begun; [ $RELIGHT_ATTEMPT_NUMBER = 1 ] || exit 0; sleep 60");
    let ran = ground.run(&["--silence-max", "2s", "--grace", "1s"]).end();
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(ground.causes("a"), ["hung", "completed"]);
    let lived = ground.deaths("a")[0]["lived_ms"].as_u64().unwrap();
    assert!(lived >= 2_000, "{lived} ms");
    assert!(ran.stderr.contains("no sign of life"), "{ran:?}");
}

#[test]
fn the_exit_code_of_a_hung_agent_is_never_0() {
    for (script, code) in [
        ("echo begun; exec sleep 60", 143),
        (
            "trap '' TERM; echo begun; while :; do sleep 0.05; done",
            137,
        ),
        (
            "trap 'exit 3' TERM; echo begun; while :; do sleep 0.05; done",
            3,
        ),
        (
            "trap 'exit 0' TERM; echo begun; while :; do sleep 0.05; done",
            1,
        ),
    ] {
        let ground = Ground::with_agent(script);
        let flags = ["--silence-max", "2s", "--grace", "1s", "--restart", "never"];
        let ran = ground.run(&flags).end();
        assert_eq!(
            (ran.code, ground.causes("a")),
            (code, vec!["hung".to_owned()]),
            "{script}"
        );
    }
}

#[test]
fn an_agent_that_asks_to_be_restarted_is_not_called_silent() {
    let ground = Ground::with_agent(
        "[ $RELIGHT_ATTEMPT_NUMBER = 1 ] || exit 0\n\
         python3 -c 'import os, socket\n\
         s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n\
         s.sendto(b\"WATCHDOG=trigger\", os.environ[\"NOTIFY_SOCKET\"])'\n\
         sleep 60",
    );
    let ran = ground.run(&["--grace", "1s"]).end();
    assert_eq!(
        (ran.code, ground.causes("a")),
        (0, vec!["hung".to_owned(), "completed".to_owned()])
    );
    assert!(
        ran.stderr
            .contains("a: it asked to be restarted; it is being stopped"),
        "{ran:?}"
    );
    assert!(!ran.stderr.contains("no sign of life"), "{ran:?}");
}

#[test]
fn a_quiet_agent_that_beats_is_not_hung() {
    let ground = Ground::with_agent("for i in {1..12}; do relight beat; sleep 0.5; done");
    let ran = ground
        .run(&["--silence-max", "5s", "--restart", "never"])
        .end();
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(ground.causes("a"), ["completed"]);
}

#[test]
fn an_agent_that_records_steps_is_not_hung() {
    let ground = Ground::with_agent(
        "for i in {1..12}; do relight step run s$i -- sleep 0.5; done; relight task done",
    );
    let ran = ground
        .run(&["--task", "t", "--silence-max", "5s", "--restart", "never"])
        .end();
    assert_eq!(ran.code, 0, "{ran:?}");
}

#[test]
fn an_agent_that_waits_on_purpose_is_not_hung_before_and_is_after() {
    let ground = Ground::with_agent("relight beat --waiting-until 5s; sleep 60");
    let run = ground.run(&["--silence-max", "3s", "--grace", "1s", "--restart", "never"]);
    let agent = ground.until_agent("a", |agent| agent["waiting_until"].is_string());
    assert_eq!(agent["state"], "running");
    run.end();
    assert_eq!(ground.causes("a"), ["hung"]);
    let lived = ground.deaths("a")[0]["lived_ms"].as_u64().unwrap();
    assert!(lived >= 5_000, "{lived} ms");
}

#[test]
fn a_running_step_is_a_sign_of_life_until_its_own_timeout() {
    let ground = Ground::with_agent(
        "relight step run build --timeout 60s -- sleep 7 && relight task done; exit 0",
    );
    let flags = [
        "--task",
        "t",
        "--silence-max",
        "3s",
        "--step-silence-max",
        "3s",
    ];
    let ran = ground
        .run(&[&flags[..], &["--restart", "never"]].concat())
        .end();
    assert_eq!(
        (ran.code, ground.causes("a")),
        (0, vec!["completed".to_owned()]),
        "{ran:?}"
    );
    assert_eq!(ground.task_status("t"), "completed");
}

#[test]
fn a_running_step_with_a_timeout_of_0s_is_not_past_its_timeout() {
    let ground = Ground::with_agent(
        "relight step run build --timeout 0s -- sleep 6 && relight task done; exit 0",
    );
    let flags = ["--task", "t", "--silence-max", "3s", "--restart", "never"];
    let ran = ground.run(&flags).end();
    assert_eq!(
        (ran.code, ground.causes("a")),
        (0, vec!["completed".to_owned()]),
        "{ran:?}"
    );
}

#[test]
fn a_running_step_of_a_task_that_nobody_holds_is_a_sign_of_life_until_its_own_timeout() {
    let begun = "relight checkpoint start --workflow t --agent ag --step x --idempotency k";
    let released = "relight task start t; relight task release t";
    for first in ["relight task add t", begun, released] {
        let ground = Ground::with_agent(&format!(
            "unset RELIGHT_TASK RELIGHT_FENCE; {first}\n\
             relight step run x --task t --timeout 60s -- sleep 5"
        ));
        let flags = ["--silence-max", "2s", "--grace", "1s", "--restart", "never"];
        let ran = ground.run(&flags).end();
        assert_eq!(ground.causes("a"), ["completed"], "{first}: {ran:?}");
    }
}

#[test]
fn a_step_that_another_agent_runs_excuses_nobody_else() {
    let ground = Ground::with_agent("echo begun; exec sleep 60");
    ground.call(&["task", "add", "t"]);
    let runs = ["bash", "-c", "echo >ran; exec sleep 60"];
    let step = ["step", "run", "x", "--task", "t", "--timeout", "60s", "--"];
    let step = ground.start(&[&step[..], &runs].concat());
    ground.until_lines("ran", 1);
    let flags = ["--silence-max", "2s", "--grace", "1s", "--restart", "never"];
    let ran = ground.run(&flags).end();
    assert_eq!(ground.causes("a"), ["hung"], "{ran:?}");
    step.kill();
}

#[test]
fn a_step_without_a_timeout_may_rest_for_as_long_as_its_limit_says() {
    let ground = Ground::with_agent("relight step run build -- sleep 60");
    let flags = [
        "--task",
        "t",
        "--silence-max",
        "3s",
        "--grace",
        "1s",
        "--restart",
        "never",
    ];
    let ran = ground
        .run(&[&flags[..], &["--step-silence-max", "6s"]].concat())
        .end();
    assert_eq!(ground.causes("a"), ["hung"], "{ran:?}");
    let lived = ground.deaths("a")[0]["lived_ms"].as_u64().unwrap();
    assert!(lived >= 6_000, "{lived} ms");
}

#[test]
fn a_step_without_a_timeout_that_works_is_not_hung() {
    let works = "end=$((SECONDS + 8)); while ((SECONDS < end)); do :; done";
    let ground = Ground::with_agent(&format!(
        "relight step run build -- bash -c '{works}' && relight task done; exit 0"
    ));
    let flags = [
        "--task",
        "t",
        "--silence-max",
        "3s",
        "--step-silence-max",
        "3s",
    ];
    let ran = ground
        .run(&[&flags[..], &["--restart", "never"]].concat())
        .end();
    assert_eq!(
        (ran.code, ground.causes("a")),
        (0, vec!["completed".to_owned()]),
        "{ran:?}"
    );
}

#[test]
fn a_begun_step_is_open_work_whoever_runs_it() {
    let ground = Ground::with_agent(
        "relight step begin think; sleep 7; relight step end think; relight task done; exit 0",
    );
    let flags = ["--task", "t", "--silence-max", "3s", "--restart", "never"];
    let ran = ground.run(&flags).end();
    assert_eq!(
        (ran.code, ground.causes("a")),
        (0, vec!["completed".to_owned()]),
        "{ran:?}"
    );
}

#[test]
fn who_waits_for_work_in_a_verb_is_not_hung_and_is_shown_as_waiting() {
    let ground = Ground::with_agent("relight task claim --agent a --wait 8s; exit 0");
    let run = ground.run(&["--silence-max", "3s", "--restart", "never"]);
    ground.until_agent("a", |agent| agent["waiting_until"].is_string());
    let ran = run.end();
    assert_eq!(
        (ran.code, ground.causes("a")),
        (0, vec!["completed".to_owned()]),
        "{ran:?}"
    );
}

#[test]
fn a_wait_is_over_when_its_verb_is_killed() {
    let ground = Ground::with_agent(
        "relight task claim --agent a --wait 1h & echo $! >verb; wait; exec sleep 60",
    );
    let run = ground.run(&["--silence-max", "3s", "--grace", "1s", "--restart", "never"]);
    ground.until_agent("a", |agent| agent["waiting_until"].is_string());
    crate::ground::signal(
        ground.until_lines("verb", 1)[0].parse().unwrap(),
        Signal::KILL,
    );
    run.end();
    assert_eq!(ground.causes("a"), ["hung"]);
}

#[test]
fn an_open_tool_call_in_the_stream_is_not_silence() {
    let call = |kind: &str| {
        let item = r#"{"id":"item_1","type":"command_execution"}"#;
        format!(r#"echo '{{"type":"item.{kind}","item":{item}}}'"#)
    };
    let ground = Ground::with_agent(&format!(
        "{}; sleep 7; {}; echo '{{\"type\":\"turn.completed\"}}'",
        call("started"),
        call("completed")
    ));
    let flags = [
        "--preset",
        "codex",
        "--silence-max",
        "3s",
        "--restart",
        "never",
    ];
    let words = [
        &["run", "--name", "a"],
        &flags[..],
        &["--", "./agent", "exec", "build"],
    ]
    .concat();
    let ran = ground.start(&words).end();
    assert_eq!(
        (ran.code, ground.causes("a")),
        (0, vec!["completed".to_owned()]),
        "{ran:?}"
    );
}

#[test]
fn a_call_over_http_that_waits_for_work_is_declared_waiting() {
    let ground = Ground::with_agent(
        "python3 -c 'import json, os, socket\n\
         s = socket.socket(socket.AF_UNIX)\n\
         s.connect(os.environ[\"RELIGHT_HOME\"] + \"/relight.sock\")\n\
         body = json.dumps({\"agent\": \"a\", \"wait\": \"8s\"}).encode()\n\
         head = \"POST /api/tasks/claim HTTP/1.1\\r\\nhost: localhost\\r\\nconnection: close\\r\\n\"\n\
         head += \"content-type: application/json\\r\\ncontent-length: %d\\r\\n\\r\\n\" % len(body)\n\
         s.sendall(head.encode() + body)\n\
         open(\"answer\", \"wb\").write(s.recv(100))'",
    );
    ground.config(
        "[[agent]]\nname = \"a\"\ncommand = [\"./agent\"]\nrestart = \"never\"\n\
         silence_max = \"3s\"\ngrace = \"1s\"\n",
    );
    let _daemon = ground.up(&["--paused"]);
    assert_eq!(ground.call(&["start", "a"]).code, 0);
    ground.until_agent("a", |agent| agent["waiting_until"].is_string());
    ground.until_state("a", "stopped");
    assert_eq!(
        ground.causes("a"),
        ["completed"],
        "{}",
        ground.read("answer")
    );
    assert!(
        ground.read("answer").contains(" 204 "),
        "{}",
        ground.read("answer")
    );
}

#[test]
fn a_loud_agent_whose_main_loop_is_stuck_is_found_by_its_beat() {
    let ground = Ground::with_agent("while echo loud; do sleep 0.02; done");
    ground.config(
        "[[agent]]\nname = \"a\"\ncommand = [\"./agent\"]\nsigns = [\"beat\"]\nrestart = \"never\"\n\
         silence_max = \"400ms\"\ngrace = \"1s\"\n",
    );
    let _daemon = ground.up(&[]);
    ground.until_state("a", "crashed");
    assert_eq!(ground.causes("a"), ["hung"]);
}

#[test]
fn silence_is_not_judged_where_that_is_switched_off() {
    let ground = Ground::with_agent("sleep 0.5");
    let ran = ground
        .run(&["--silence-max", "0s", "--restart", "never"])
        .end();
    assert_eq!(
        (ran.code, ground.causes("a")),
        (0, vec!["completed".to_owned()])
    );
}

#[test]
fn a_grandchild_in_its_own_session_is_gone_before_the_next_attempt_starts() {
    let ground = Ground::with_agent(
        "if [ $RELIGHT_ATTEMPT_NUMBER = 2 ]; then\n\
         kill -0 $(cat grandchild) 2>/dev/null && echo lives >found || echo gone >found; exit 0; fi\n\
         setsid sleep 300 & echo $! >grandchild; echo ready; sleep 300",
    );
    let ran = ground.run(&["--silence-max", "2s", "--grace", "1s"]).end();
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(ground.read("found"), "gone\n");
}

#[test]
fn a_daemonized_grandchild_goes_with_a_stop() {
    let ground =
        Ground::with_agent("(setsid bash -c 'echo $$ >grandchild; exec sleep 300' &) ; sleep 300");
    let run = ground.run(&[]);
    let grandchild: u32 = ground.until_lines("grandchild", 1)[0].parse().unwrap();
    ground.until_runs("a", 1);
    assert_eq!(ground.call(&["stop", "a"]).code, 0);
    assert!(!is_alive(grandchild));
    assert_eq!(run.end().code, 143);
    ground.assert_nothing_is_left();
}

#[test]
fn a_child_that_outlives_a_crashed_leader_is_gone_before_the_next_attempt() {
    let ground = Ground::with_agent(
        "if [ $RELIGHT_ATTEMPT_NUMBER = 2 ]; then\n\
         kill -0 $(cat child) 2>/dev/null && echo lives >found || echo gone >found; exit 0; fi\n\
         sleep 300 & echo $! >child; kill -9 $$",
    );
    assert_eq!(ground.run(&[]).end().code, 0);
    assert_eq!(ground.read("found"), "gone\n");
    assert_eq!(ground.deaths("a")[0]["post_mortem"]["leftovers"], 1);
}

#[test]
fn one_that_is_deaf_to_term_goes_by_kill_after_the_grace() {
    let ground =
        Ground::with_agent("trap '' TERM; echo ready >ready; while :; do sleep 0.05; done");
    let run = ground.run(&["--grace", "300ms"]);
    ground.until_lines("ready", 1);
    ground.until_runs("a", 1);
    assert_eq!(ground.call(&["stop", "a"]).code, 0);
    assert_eq!(run.end().code, 137);
    let death = &ground.deaths("a")[0];
    assert_eq!(
        (&death["cause"], &death["signal"]),
        (&json!("stopped"), &json!(9))
    );
}

#[test]
fn a_timeout_bounds_one_attempt_and_is_recovered_from() {
    let ground = Ground::with_agent("[ $RELIGHT_ATTEMPT_NUMBER = 1 ] && sleep 60; exit 0");
    let ran = ground.run(&["--timeout", "2s", "--grace", "1s"]).end();
    assert_eq!(
        (ran.code, ground.causes("a")),
        (0, vec!["timeout".to_owned(), "completed".to_owned()])
    );
}

#[test]
fn a_stopped_agent_that_is_frozen_goes_too() {
    let ground = Ground::with_agent("echo $$ >pid; sleep 300");
    let run = ground.run(&["--grace", "300ms"]);
    let pid = ground.until_runs("a", 1);
    crate::ground::signal(pid, Signal::STOP);
    assert_eq!(ground.call(&["stop", "a"]).code, 0);
    assert!(!is_alive(pid));
    run.end();
}

#[test]
fn a_running_step_of_a_task_held_by_a_process_of_the_attempt_is_a_sign_of_life() {
    let ground = Ground::with_agent(
        "eval \"$(relight task start t --owner-pid $$ --export)\" || exit 9\n\
         relight step run s --timeout 60s -- sleep 8 || exit 8; relight task done",
    );
    let ran = ground
        .run(&["--silence-max", "2s", "--restart", "never"])
        .end();
    assert_eq!(
        (ran.code, ground.causes("a")),
        (0, vec!["completed".to_owned()]),
        "{ran:?}"
    );
}
