//! `relight run --task`: the lease, the steps, and what the agent's own verbs may do.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::ground::{Ground, until};
use crate::relight::finish;

#[test]
fn steps_go_on_after_sigkill_and_none_is_repeated() {
    let ground = Ground::with_agent(
        "for step in one two three; do\n\
         relight step run $step -- sh -c \"echo $step >>effects\" || exit 1\n\
         [ $step$RELIGHT_ATTEMPT_NUMBER = two1 ] && kill -9 $$\n\
         done\n\
         relight task done",
    );
    let ran = ground.run(&["--task", "t"]).end();
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(ground.read("effects"), "one\ntwo\nthree\n");
    assert_eq!(ground.task_status("t"), "completed");
    assert_eq!(ground.causes("a"), ["signal", "completed"]);
    let first = &ground.deaths("a")[0];
    assert_eq!(first["post_mortem"]["done_steps"], json!(["one", "two"]));
    assert_eq!(
        (&first["made_progress"], &first["signal"]),
        (&json!(true), &json!(9))
    );
}

#[test]
fn a_step_to_be_done_once_is_not_repeated_when_its_agent_is_killed_meanwhile() {
    for (rule, ends) in [
        ("--repeat once", "exec sleep 60"),
        ("--verify true", "sleep 60; exit 1"),
    ] {
        let ground = Ground::with_agent(&format!(
            "relight step run pay {rule} -- sh -c \"echo paid >>effects; {ends}\"\n\
             echo $? >>codes; relight task done"
        ));
        let run = ground.run(&["--task", "t", "--max-attempts", "2"]);
        let pid = ground.until_runs("a", 1);
        ground.until_lines("effects", 1);
        crate::ground::signal(pid, Signal::KILL);
        run.end();
        assert_eq!(ground.read("effects"), "paid\n", "{rule}");
    }
}

#[test]
fn the_attempt_holds_the_task_for_as_long_as_it_lives() {
    let ground = Ground::with_agent("sleep 60");
    let run = ground.run(&["--task", "t"]);
    ground.until_runs("a", 1);
    let task = ground.json(&["task", "show", "t"]);
    assert_eq!(
        (&task["status"], &task["strategy"]),
        (&json!("in_progress"), &json!("resume"))
    );
    assert!(task["holder"].to_string().contains("a.1."), "{task}");
    assert_eq!(ground.call(&["task", "start", "t"]).code, 75);
    run.signal(Signal::TERM);
    assert_eq!(run.end().code, 143);
    assert_eq!(ground.task_status("t"), "interrupted");
    assert_eq!(ground.call(&["task", "start", "t"]).code, 0);
}

#[test]
fn the_step_of_a_live_attempt_is_refused_to_a_stranger() {
    let ground = Ground::with_agent(
        "unset RELIGHT_FENCE; relight step begin pay --repeat once && echo $$ >>births; sleep 300",
    );
    let run = ground.run(&["--task", "t"]);
    ground.births(1);
    for verb in ["begin", "end"] {
        let ran = ground.call(&["step", verb, "pay", "--task", "t"]);
        assert!(
            ran.code == 75 && ran.stderr.contains("held by"),
            "{verb}: {ran:?}"
        );
    }
    assert_eq!(ground.task_status("t"), "in_progress");
    run.signal(Signal::TERM);
    run.end();
}

#[test]
fn exit_0_without_finishing_the_task_is_no_success() {
    let ground = Ground::with_agent("exit 0");
    let flags = ["--json", "--task", "t", "--max-attempts", "1"];
    let (code, answer) = ground.run(&flags).end_json();
    assert_eq!((code, &answer["whose"]), (1, &json!("relight")));
    assert_eq!(
        (&answer["attempts"], &answer["state"]),
        (&json!(2), &json!("terminated"))
    );
    let deaths = ground.deaths("a");
    assert_eq!(
        (&deaths[0]["cause"], &deaths[0]["unfinished_task"]),
        (&json!("failed"), &json!("t"))
    );
    assert_eq!(ground.task_status("t"), "suspended");
}

#[test]
fn exit_0_finishes_the_task_where_that_is_wanted() {
    let ground = Ground::with_agent("exit 0");
    assert_eq!(
        ground.run(&["--task", "t", "--exit-completes"]).end().code,
        0
    );
    assert_eq!(ground.task_status("t"), "completed");
    assert_eq!(ground.causes("a"), ["completed"]);
}

#[test]
fn verbs_inside_the_agent_use_the_attempts_lease() {
    let ground = Ground::with_agent(
        "relight task set stage=here && relight step begin s && relight step end s &&\n\
         relight task show --json | grep -c '\"in_progress\"' >inside && relight task done",
    );
    let ran = ground.run(&["--task", "t", "--restart", "never"]).end();
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(ground.read("inside"), "1\n");
    let task = ground.json(&["task", "show", "t"]);
    assert_eq!(
        (&task["context"]["stage"], &task["fence"]),
        (&json!("here"), &json!(1))
    );
}

#[test]
fn a_late_write_of_a_dead_attempt_is_refused() {
    let ground = Ground::with_agent(
        "echo $RELIGHT_FENCE >>fences; [ $RELIGHT_ATTEMPT_NUMBER = 1 ] && kill -9 $$; sleep 60",
    );
    let _run = ground.run(&["--task", "t"]);
    ground.until_runs("a", 2);
    let fences = ground.until_lines("fences", 2);
    let mut late = ground.stage.command(&["step", "begin", "late"]);
    late.env("RELIGHT_TASK", "t")
        .env("RELIGHT_FENCE", &fences[0]);
    assert_eq!(finish(late.spawn().unwrap()).code, 77);
    let mut current = ground.stage.command(&["step", "begin", "current"]);
    current
        .env("RELIGHT_TASK", "t")
        .env("RELIGHT_FENCE", &fences[1]);
    assert_eq!(finish(current.spawn().unwrap()).code, 0);
    let steps = ground.json(&["step", "list", "--task", "t"]);
    let steps = steps["items"].as_array().unwrap();
    let names: Vec<&Value> = steps.iter().map(|step| &step["name"]).collect();
    assert_eq!(names, ["current"]);
}

#[test]
fn exit_75_defers_the_task_suspends_the_agent_and_charges_nothing() {
    let ground =
        Ground::with_agent("[ $RELIGHT_ATTEMPT_NUMBER = 1 ] && exit 75; relight task done");
    let run = ground.run(&["--task", "t", "--defer", "5s", "--max-attempts", "0"]);
    let agent = ground.until_state("a", "suspended");
    assert!(agent["again_at"].is_string(), "{agent}");
    until("the task is deferred", || {
        (ground.task_status("t") == "deferred").then_some(())
    });
    let ran = run.end();
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(ground.task_status("t"), "completed");
    assert_eq!(ground.agent("a")["restarts_total"], 0);
}

#[test]
fn a_task_that_somebody_else_holds_is_exit_75_and_nothing_is_started() {
    let ground = Ground::with_agent("echo $$ >>births");
    assert_eq!(ground.call(&["task", "start", "t"]).code, 0);
    let ran = ground.run(&["--task", "t"]).end();
    assert_eq!(ran.code, 75, "{ran:?}");
    assert!(ran.stderr.contains("task t has been held by"), "{ran:?}");
    assert_eq!(ground.read("births"), "");
}

#[test]
fn a_run_whose_task_was_taken_meanwhile_is_exit_75_and_charged_nothing() {
    let ground = Ground::with_agent("echo $$ >>births; exec sleep 1000");
    let run = ground.run(&["--task", "t", "--cooldown", "10ms"]);
    let first = ground.births(1)[0];
    for words in [
        &["task", "release", "t", "--force"][..],
        &["task", "start", "t", "--lease", "1h"],
    ] {
        let ran = ground.call(words);
        assert_eq!(ran.code, 0, "{ran:?}");
    }
    crate::ground::signal(first, Signal::KILL);
    let ran = run.end();
    assert_eq!(ran.code, 75, "{ran:?}");
    assert!(ran.stderr.contains("task t has been held by"), "{ran:?}");
    assert!(!ran.stderr.contains("126"), "{ran:?}");
    assert_eq!(ground.births(1).len(), 1);
    let agent = ground.agent("a");
    assert_eq!(
        (&agent["state"], ground.events("alert").len()),
        (&json!("stopped"), 0),
        "{agent}"
    );
    assert!(!ground.causes("a").contains(&"failed".to_owned()));
    assert_eq!(ground.task_status("t"), "in_progress");
}

#[test]
fn an_agent_waits_while_another_holds_its_task() {
    let ground = Ground::with_agent(
        "echo $$ >>births; until [ -e go ]; do sleep 0.1; done; relight task done",
    );
    let agent =
        |name| format!("[[agent]]\nname = \"{name}\"\ncommand = [\"./agent\"]\ntask = \"t\"\n");
    ground.config(&(agent("a") + &agent("b")));
    let daemon = ground.up(&[]);
    daemon.until_said("it waits: task t has been held by");
    std::fs::write(ground.work("go"), "").unwrap();
    for name in ["a", "b"] {
        ground.until_state(name, "stopped");
        assert!(!ground.causes(name).contains(&"failed".to_owned()));
    }
    assert_eq!(ground.task_status("t"), "completed");
    assert_eq!(
        (ground.births(1).len(), ground.events("alert").len()),
        (1, 0)
    );
    assert_eq!(ground.call(&["down"]).code, 0);
    daemon.end();
}

#[test]
fn a_stop_does_not_interrupt_a_task_that_is_completed() {
    let ground = Ground::with_agent("relight task done; echo $$ >>births; exec sleep 1000");
    let run = ground.run(&["--task", "t"]);
    ground.births(1);
    assert_eq!(ground.task_status("t"), "completed");
    let stopped = ground.call(&["stop", "a"]);
    assert_eq!(stopped.code, 0, "{stopped:?}");
    assert!(!stopped.stdout.contains("interrupted"), "{stopped:?}");
    run.end();
}

#[test]
fn a_task_that_is_done_already_is_not_done_again() {
    let ground = Ground::with_agent("echo $$ >>births");
    ground.call(&["task", "start", "t"]);
    ground.call(&["task", "done", "t"]);
    let (code, answer) = ground.run(&["--json", "--task", "t"]).end_json();
    assert_eq!(
        (code, &answer["state"], &answer["whose"]),
        (0, &json!("stopped"), &json!("relight"))
    );
    assert_eq!(
        (ground.read("births").as_str(), ground.events("alert").len()),
        ("", 0)
    );
}

#[test]
fn an_agent_whose_work_is_over_is_not_brought_back() {
    // An agent that fails its own task has the one retry itself; then an alert is sent.
    for (verb, status, state, births, alerts) in [
        ("done", "completed", "stopped", 1, 0),
        ("cancel", "cancelled", "stopped", 1, 0),
        ("fail --reason r", "failed", "crashed", 2, 1),
        ("block --reason r", "blocked", "suspended", 1, 1),
        ("review", "in_review", "stopped", 1, 0),
    ] {
        let ground = Ground::with_agent(&format!(
            "echo $$ >>births; relight task {verb}; kill -9 $$"
        ));
        assert_eq!(ground.call(&["task", "add", "t"]).code, 0);
        assert_eq!(ground.run(&["--task", "t"]).end().code, 137);
        assert_eq!(
            (ground.task_status("t").as_str(), ground.state("a").as_str()),
            (status, state)
        );
        assert_eq!(
            (ground.births(1).len(), ground.events("alert").len()),
            (births, alerts)
        );
    }
}

#[test]
fn a_task_that_waits_for_a_person_is_left_as_it_is_until_it_is_resolved() {
    let ground = Ground::with_agent("echo $$ >>births; relight task done");
    ground.call(&["task", "start", "t"]);
    ground.call(&["task", "block", "t", "--reason", "r"]);
    for _ in 0..2 {
        let ran = ground.run(&["--task", "t"]).end();
        assert_eq!(ran.code, 75, "{ran:?}");
        assert!(
            ran.stderr.contains("a: it waits: its task t is blocked"),
            "{ran:?}"
        );
    }
    let agent = ground.agent("a");
    assert_eq!(
        (&agent["state"], &agent["attempt"]),
        (&json!("suspended"), &json!(0))
    );
    assert_eq!(
        agent["detail"],
        "suspended: its task t is blocked; relight task show t, then relight task retry t, then \
         relight run --name a --task t -- ./agent"
    );
    assert_eq!(
        (
            ground.task_status("t").as_str(),
            ground.read("births").as_str()
        ),
        ("blocked", "")
    );
    assert_eq!(ground.call(&["task", "retry", "t"]).code, 0);
    assert_eq!(ground.run(&["--task", "t"]).end().code, 0);
    assert_eq!(
        (ground.task_status("t"), ground.births(1).len()),
        ("completed".to_owned(), 1)
    );
}

#[test]
fn an_agent_whose_step_is_in_doubt_waits_and_is_started_once_that_is_resolved() {
    let ground = Ground::with_agent(
        "echo $$ >>births\n\
         relight step run pay --repeat once -- sh -c 'kill -9 $PPID' || exit 1\n\
         relight task done",
    );
    ground.config(
        "[[agent]]\nname = \"a\"\ncommand = [\"./agent\"]\ntask = \"t\"\ncooldown = \"10ms\"\n",
    );
    let _daemon = ground.up(&[]);
    ground.until_state("a", "suspended");
    assert_eq!(
        (
            ground.task_status("t").as_str(),
            ground.events("alert").len()
        ),
        ("blocked", 1)
    );
    let births = ground.lines("births").len();
    let ran = ground.call(&["start", "a"]);
    assert_ne!(ran.code, 0, "{ran:?}");
    assert!(ran.stderr.contains("its task t is blocked"), "{ran:?}");
    assert!(
        ran.stderr.contains("relight step resolve STEP --task t"),
        "{ran:?}"
    );
    assert_eq!(
        (
            ground.task_status("t").as_str(),
            ground.births(births).len()
        ),
        ("blocked", births)
    );
    assert_eq!(
        ground
            .call(&["step", "resolve", "pay", "--task", "t", "--happened"])
            .code,
        0
    );
    assert_eq!(ground.call(&["start", "a"]).code, 0);
    until("the task is done", || {
        (ground.task_status("t") == "completed").then_some(())
    });
}

#[test]
fn a_restart_is_not_charged_to_the_tasks_retries() {
    let ground =
        Ground::with_agent("[ $RELIGHT_ATTEMPT_NUMBER -lt 4 ] && exit 1; relight task done");
    let ran = ground
        .run(&["--task", "t", "--cooldown", "10ms", "--max-attempts", "3"])
        .end();
    assert_eq!(ran.code, 0, "{ran:?}");
    let task = ground.json(&["task", "show", "t"]);
    assert_eq!(
        (&task["retries"], &task["status"]),
        (&json!(0), &json!("completed"))
    );
}

#[test]
fn an_exit_does_not_complete_a_task_with_declared_steps_open() {
    let ground = Ground::with_agent(
        "echo $$ >>births; [ $RELIGHT_ATTEMPT_NUMBER = 1 ] || relight step run build -- true",
    );
    assert_eq!(
        ground.call(&["task", "add", "t", "--step", "build"]).code,
        0
    );
    let ran = ground.run(&["--task", "t", "--exit-completes"]).end();
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(
        ran.stderr
            .contains("declared steps are not finished: build"),
        "{ran:?}"
    );
    assert_eq!(
        (ground.task_status("t").as_str(), ground.births(2).len()),
        ("completed", 2)
    );
}

#[test]
fn a_run_of_a_task_that_is_over_says_so_and_runs_nothing() {
    let ground = Ground::with_agent("echo $$ >>births");
    for (task, end) in [("c", "cancel"), ("d", "done")] {
        assert_eq!(ground.call(&["task", "add", task]).code, 0);
        assert_eq!(
            ground.call(&["task", "start", task, "--lease", "1h"]).code,
            0
        );
        assert_eq!(ground.call(&["task", end, task]).code, 0);
    }
    for (task, status, code) in [("c", "cancelled", 75), ("d", "completed", 0)] {
        let ran = ground.call(&["run", "--name", task, "--task", task, "--", "./agent"]);
        assert_eq!(ran.code, code, "{ran:?}");
        assert!(
            ran.stderr.contains(&format!("task {task} is {status}: ")),
            "{ran:?}"
        );
        let words = [
            "--json", "run", "--name", task, "--task", task, "--", "./agent",
        ];
        let (found, answer) = ground.start(&words).end_json();
        assert_eq!(
            (found, &answer["code"]),
            (code, &serde_json::json!(code)),
            "{answer:#}"
        );
        assert_eq!(
            (&answer["attempts"], ground.deaths(task).len()),
            (&json!(0), 0)
        );
    }
    assert!(ground.lines("births").is_empty());
}

/// Nobody has to sweep for it.
#[test]
fn the_task_of_an_agent_that_relight_run_terminated_is_suspended_at_once() {
    let ground =
        Ground::with_agent("echo $$ >>births; [ -e good ] && exec relight task done; exit 1");
    let flags = ["--task", "t", "--max-attempts", "1", "--cooldown", "10ms"];
    let ran = ground.run(&flags).end();
    assert_ne!(ran.code, 0, "{ran:?}");
    assert_eq!(
        (ground.state("a").as_str(), ground.task_status("t").as_str()),
        ("terminated", "suspended")
    );
    let alerts = ground.events("alert");
    let of_task = |alert: &&serde_json::Value| alert["detail"]["alert"] == "suspended";
    assert_eq!(alerts.iter().filter(of_task).count(), 1, "{alerts:#?}");
    std::fs::write(ground.work("good"), "").unwrap();
    let ran = ground.run(&flags).end();
    assert_eq!(
        (ran.code, ground.task_status("t").as_str()),
        (0, "completed"),
        "{ran:?}"
    );
}

#[test]
fn a_lease_by_time_that_an_attempt_took_ends_with_the_attempt() {
    let ground = Ground::with_agent(
        "relight task start t --lease 1h >/dev/null; echo $? >>codes\n\
         [ $RELIGHT_ATTEMPT_NUMBER = 1 ] && kill -9 $$; relight task done t",
    );
    let ran = ground.run(&["--cooldown", "10ms"]).end();
    assert_eq!(
        (ran.code, ground.lines("codes")),
        (0, vec!["0".into(), "0".into()]),
        "{ran:?}"
    );
    assert_eq!(ground.task_status("t"), "completed");
}

#[test]
fn an_agent_whose_task_is_over_is_not_started_and_counts_nothing() {
    let ground = Ground::with_agent("echo $$ >>births; relight task done");
    ground.config("[[agent]]\nname = \"a\"\ncommand = [\"./agent\"]\ntask = \"t\"\n");
    assert_eq!(ground.call(&["task", "add", "t"]).code, 0);
    let daemon = ground.up(&[]);
    until("it is done", || {
        (ground.task_status("t") == "completed").then_some(())
    });
    ground.until_state("a", "stopped");
    for verb in ["start", "restart"] {
        let ran = ground.call(&[verb, "a"]);
        assert_eq!(ran.code, 1, "{ran:?}");
        assert!(ran.stderr.contains("its task t is completed"), "{ran:?}");
        assert!(ran.stderr.contains("new work needs a new task"), "{ran:?}");
    }
    let agent = ground.agent("a");
    assert_eq!(
        (&agent["state"], &agent["attempt"]),
        (&json!("stopped"), &json!(1))
    );
    assert_eq!((ground.deaths("a").len(), ground.births(1).len()), (1, 1));
    assert_eq!(ground.call(&["down"]).code, 0);
    daemon.end();
}

#[test]
fn start_retries_the_task_that_a_terminated_agent_had_chosen() {
    let ground = Ground::with_agent(
        "eval \"$(relight task start t --export)\" || exit 9; [ -e ok ] || kill -9 $$\n\
         relight task done && exec sleep 1000",
    );
    ground.config(
        "[[agent]]\nname = \"a\"\ncommand = [\"./agent\"]\nmax_attempts = 1\ncooldown = \"50ms\"\n",
    );
    let _daemon = ground.up(&[]);
    ground.until_state("a", "terminated");
    crate::ground::until("its task is parked", || {
        (ground.task_status("t") == "suspended").then_some(())
    });
    std::fs::write(ground.work("ok"), "").unwrap();
    assert_eq!(ground.call(&["start", "a"]).code, 0);
    crate::ground::until("it is done", || {
        (ground.task_status("t") == "completed").then_some(())
    });
}

#[test]
fn the_step_that_runs_is_shown_not_one_of_an_earlier_attempt_that_is_in_doubt() {
    let ground = Ground::with_agent(
        "if [ \"$RELIGHT_RESUMED\" = 1 ]; then\n  relight step run final-wait -- sleep 300\nelse\n\
         relight step begin slow-1 --repeat once; kill -9 $$\nfi",
    );
    let supervisor = ground.run(&["--task", "t"]);
    let agent = ground.until_agent("a", |agent| agent["step"] == "final-wait");
    assert_eq!(
        (&agent["attempt"], &agent["task"]),
        (&2.into(), &"t".into())
    );
    let found = ground.json(&["inflight"]);
    assert_eq!(found["in_doubt"][0]["name"], "slow-1");
    supervisor.signal(Signal::TERM);
    supervisor.end();
}
