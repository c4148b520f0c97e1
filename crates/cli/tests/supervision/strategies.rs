//! What becomes of a task whose agent is killed, by each strategy.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::ground::{Ground, until};

/// A worker that finishes a first step and is killed the first time.
const WORKER: &str = "echo \"$RELIGHT_AGENT $RELIGHT_RESUMED\" >>starts\n\
    relight step run one -- sh -c 'echo one >>effects' || exit 1\n\
    [ -e killed ] || { touch killed; kill -9 $$; }\n\
    relight step run two -- sh -c 'echo two >>effects' || exit 1\n\
    relight task done";

fn config(ground: &Ground, recovery: &str) {
    ground.config(&format!(
        "[recovery]\ncooldown = \"10ms\"\n{recovery}\n[[agent]]\nname = \"w\"\n\
         command = [\"./agent\"]\ntakes = \"start\"\nconcurrency = 2\n"
    ));
}

fn killed_once(recovery: &str, flags: &[&str]) -> (Ground, crate::ground::Supervisor) {
    let ground = Ground::with_agent(WORKER);
    config(&ground, recovery);
    let daemon = ground.up(&[]);
    ground.until_agent("w-2", |agent| agent["detail"] == "idle");
    assert_eq!(
        ground.call(&[&["task", "add", "t"], flags].concat()).code,
        0
    );
    until("its strategy was asked", || recovery_of(&ground));
    (ground, daemon)
}

fn recovery_of(ground: &Ground) -> Option<Value> {
    ground
        .events("task.recovery")
        .first()
        .map(|event| event["detail"].clone())
}

fn until_status(ground: &Ground, status: &str) {
    until(&format!("it is {status}"), || {
        (ground.task_status("t") == status).then_some(())
    });
}

#[test]
fn resume_is_the_same_agent_from_the_last_finished_step() {
    for (recovery, flags) in [
        ("strategy = \"resume\"", vec![]),
        ("", vec!["--strategy", "resume"]),
    ] {
        let (ground, _daemon) = killed_once(recovery, &flags);
        until_status(&ground, "completed");
        let starts = ground.lines("starts");
        assert_eq!(starts.len(), 2);
        assert_eq!(starts[0].replace(" 0", " 1"), starts[1]);
        assert_eq!(ground.read("effects"), "one\ntwo\n");
        assert_eq!(ground.json(&["task", "show", "t"])["retries"], 0);
    }
}

/// A loop that starts its own task by its name must be able to start it again.
#[test]
fn a_task_that_its_agent_started_by_name_is_gone_on_with() {
    let ground = Ground::with_agent(&format!(
        "relight task start t || exit 1\nexport RELIGHT_TASK=t\n{WORKER}"
    ));
    ground.config(
        "[recovery]\ncooldown = \"10ms\"\n[[agent]]\nname = \"w\"\ncommand = [\"./agent\"]\n",
    );
    let _daemon = ground.up(&[]);
    until("its strategy was asked", || recovery_of(&ground));
    until_status(&ground, "completed");
    assert_eq!(ground.read("effects"), "one\ntwo\n");
    assert_eq!(ground.lines("starts").len(), 2);
    let shown = ground.json(&["task", "show", "t"]);
    assert_eq!(
        (&shown["retries"], &shown["starts"]),
        (&json!(0), &json!(2))
    );
}

/// Whoever waits for work is not offered what an agent took by its name and comes back for.
#[test]
fn a_task_started_by_name_is_not_given_to_who_waits_for_work() {
    let cases = [
        (vec![], ""),
        (vec!["--strategy", "resume"], ""),
        (vec![], "--owner-pid $$"),
    ];
    for (flags, holder) in cases {
        let ground = Ground::with_agent(&format!(
            "[ ! -e killed ] || ! relight task claim --agent c || echo c >>stolen\n\
             relight task start t {holder} || exit 1\necho $$ >>births\n\
             [ -e killed ] || sleep 300\nrelight task done t"
        ));
        ground.call(&[&["task", "add", "t"], &flags[..]].concat());
        let run = ground.run(&[]);
        let pid = ground.births(1)[0];
        let waits = ground.start(&["--json", "task", "claim", "--agent", "b", "--wait", "1h"]);
        std::fs::write(ground.work("killed"), "").unwrap();
        crate::ground::signal(pid, Signal::KILL);
        assert_eq!((run.end().code, &*ground.read("stolen")), (0, ""));
        let shown = ground.json(&["task", "show", "t"]);
        assert_eq!(
            (&shown["status"], &shown["agent"]),
            (&json!("completed"), &json!("a"))
        );
        assert_eq!(
            (&shown["pinned"], &shown["starts"]),
            (&json!(true), &json!(2))
        );
        ground.call(&["task", "add", "u"]);
        let (_, claimed) = waits.end_json();
        assert_eq!(claimed["task"], "u");
    }
}

/// Nobody but a person gives away what belongs to an agent, and who gets it is told.
#[test]
fn a_task_of_a_terminated_agents_plan_waits_for_a_person() {
    let ground = Ground::with_agent("relight step run build -- false; exit 1");
    ground.script(
        "worker",
        "echo $RELIGHT_TASK >>taken; cat \"$RELIGHT_BRIEF_FILE\" >brief\n\
         relight step run build -- true && relight task done",
    );
    ground.config(
        "[recovery]\ncooldown = \"10ms\"\nmax_attempts = 1\n\
         [[agent]]\nname = \"a\"\ncommand = [\"./agent\"]\ntask = \"t\"\n\
         [[agent]]\nname = \"w\"\ncommand = [\"./worker\"]\ntakes = \"start\"\n",
    );
    ground.call(&["task", "add", "t"]);
    let _daemon = ground.up(&[]);
    ground.until_state("a", "terminated");
    until_status(&ground, "suspended");
    ground.call(&["task", "add", "u"]);
    until("u is done", || {
        (ground.task_status("u") == "completed").then_some(())
    });
    assert_eq!(
        (ground.lines("taken"), &*ground.task_status("t")),
        (vec!["u".into()], "suspended")
    );
    assert_eq!(ground.call(&["task", "retry", "t", "--agent", "w"]).code, 0);
    until_status(&ground, "completed");
    let brief = ground.read("brief");
    assert!(
        brief.contains("handed over from a by a person; failed: build"),
        "{brief}"
    );
}

/// What was set aside because its agent was terminated goes on with it.
#[test]
fn a_terminated_agent_that_is_started_has_its_task_again() {
    let ground = Ground::with_agent("[ -e good ] && exec relight task done; exit 1");
    ground.config(
        "[recovery]\ncooldown = \"10ms\"\nmax_attempts = 1\n\
         [[agent]]\nname = \"a\"\ncommand = [\"./agent\"]\ntask = \"t\"\n",
    );
    let _daemon = ground.up(&[]);
    ground.until_state("a", "terminated");
    until_status(&ground, "suspended");
    std::fs::write(ground.work("good"), "").unwrap();
    assert_eq!(ground.call(&["start", "a"]).code, 0);
    until_status(&ground, "completed");
}

#[test]
fn fail_and_reassign_goes_to_the_other_agent_with_what_is_done() {
    let (ground, _daemon) = killed_once("", &[]);
    until_status(&ground, "completed");
    assert_eq!(ground.lines("starts"), ["w-1 0", "w-2 1"]);
    assert_eq!(ground.read("effects"), "one\ntwo\n");
}

#[test]
fn suspend_waits_for_a_person_and_frees_the_agent() {
    let (ground, _daemon) = killed_once("strategy = \"suspend\"", &[]);
    until_status(&ground, "suspended");
    ground.until_agent("w-1", |agent| agent["detail"] == "idle");
    assert_eq!(ground.events("alert")[0]["detail"]["alert"], "suspended");
    assert_eq!(ground.call(&["task", "retry", "t"]).code, 0);
    until_status(&ground, "completed");
    assert_eq!(ground.read("effects"), "one\ntwo\n");
}

const EXEC: &str = "strategy = \"exec\"\nexec = [\"./decide\"]";

#[test]
fn exec_is_asked_with_the_case_and_its_answer_is_done() {
    let ground = Ground::with_agent(WORKER);
    ground.script(
        "decide",
        "cat >case; echo '{\"decision\": \"suspend\", \"reason\": \"it is night\"}'",
    );
    config(&ground, EXEC);
    let _daemon = ground.up(&[]);
    ground.call(&["task", "add", "t", "--title", "a title"]);
    until_status(&ground, "suspended");
    let case: Value = serde_json::from_str(&ground.read("case")).unwrap();
    assert_eq!(
        (
            &case["task"]["id"],
            &case["death"]["cause"],
            &case["context"]["steps_done"]
        ),
        (&json!("t"), &json!("signal"), &json!(1))
    );
    let told = recovery_of(&ground).unwrap();
    assert_eq!(
        (&told["strategy"], &told["reason"]),
        (&json!("exec"), &json!("it is night"))
    );
    assert_eq!(told["trouble"], json!(null));
}

#[test]
fn exec_that_talks_nonsense_or_fails_or_hangs_falls_back_and_is_recorded() {
    for (script, trouble) in [
        ("echo maybe", "gave no decision"),
        ("exit 3", "exit status: 3"),
        ("sleep 300", "did not answer within"),
    ] {
        let ground = Ground::with_agent(WORKER);
        ground.script("decide", script);
        config(&ground, &format!("{EXEC}\nexec_timeout = \"5s\""));
        let _daemon = ground.up(&[]);
        ground.call(&["task", "add", "t"]);
        until_status(&ground, "completed");
        let told = recovery_of(&ground).unwrap();
        assert!(
            told["trouble"].as_str().unwrap().contains(trouble),
            "{told}"
        );
        assert_eq!(
            (&told["outcome"], &told["cause"]),
            (&json!("reassign"), &json!("signal"))
        );
        assert_eq!(ground.read("effects"), "one\ntwo\n");
    }
}

#[test]
fn exec_that_defers_lets_the_agent_do_something_else_meanwhile() {
    let ground = Ground::with_agent(
        &WORKER.replace("[ -e killed ]", "[ $RELIGHT_TASK = u ] || [ -e killed ]"),
    );
    ground.script(
        "decide",
        "echo '{\"decision\": \"defer\", \"until\": \"1h\"}'",
    );
    config(&ground, EXEC);
    let _daemon = ground.up(&[]);
    ground.call(&["task", "add", "t"]);
    until_status(&ground, "deferred");
    ground.until_agent("w-1", |agent| agent["detail"] == "idle");
    ground.call(&["task", "add", "u"]);
    until("u is done", || {
        (ground.task_status("u") == "completed").then_some(())
    });
    assert_eq!(ground.task_status("t"), "deferred");
}

#[test]
fn a_strategy_that_cannot_be_asked_is_refused_at_the_start() {
    let ground = Ground::with_agent(WORKER);
    config(&ground, "strategy = \"exec\"");
    assert_eq!(ground.call(&["up"]).code, 78);
    config(&ground, "strategy = \"pray\"");
    assert_eq!(ground.call(&["up"]).code, 78);
    ground.config("[[agent]]\nname = \"a\"\ncommand = [\"./agent\"]\nstrategy = \"exec\"\n");
    assert_eq!(ground.call(&["up"]).code, 78);
}

#[test]
fn a_slow_strategy_of_a_task_that_it_took_by_itself_does_not_hold_up_the_agent() {
    let ground = Ground::with_agent(
        "echo $$ >>births\n\
         [ -e killed ] || { relight task start t --strategy exec; touch killed; kill -9 $$; }\n\
         sleep 300",
    );
    ground.script(
        "decide",
        "while [ ! -e go ]; do read -t 0.05 <> <(:); done; echo nonsense",
    );
    ground.config(
        "[recovery]\nexec = [\"./decide\"]\nexec_timeout = \"60s\"\n[[agent]]\nname = \"a\"\n\
         command = [\"./agent\"]\ncooldown = \"10ms\"\n",
    );
    let _daemon = ground.up(&[]);
    ground.births(2);
    assert_eq!(ground.task_status("t"), "in_progress");
    std::fs::write(ground.work("go"), "").unwrap();
    until_status(&ground, "failed");
}

#[test]
fn a_task_of_run_is_resumed_by_the_agents_budget_and_waits_when_that_is_used_up() {
    let ground = Ground::with_agent("echo $$ >>births; kill -9 $$");
    let flags = ["--task", "t", "--cooldown", "10ms", "--max-attempts", "5"];
    let ran = ground.run(&flags).end();
    assert_eq!((ran.code, ground.births(6).len()), (137, 6));
    assert_eq!(ground.state("a"), "terminated");
    assert!(
        ground
            .events("task.recovery")
            .iter()
            .all(|it| it["detail"]["strategy"] == "resume")
    );
    assert_eq!(ground.json(&["task", "show", "t"])["retries"], 0);
    // Its agent does not come back, and the task is given to nobody else but by a person.
    assert_eq!(ground.task_status("t"), "suspended");
    assert_eq!(
        ground.json(&["task", "show", "t"])["reason"],
        "its agent a will not be restarted"
    );
    assert_eq!(ground.call(&["task", "claim", "--agent", "b"]).code, 1);
    assert_eq!(ground.call(&["task", "retry", "t", "--agent", "b"]).code, 0);
}

#[test]
fn a_deliberate_stop_is_no_failure() {
    let ground = Ground::with_agent("echo $$ >>births; sleep 300");
    config(&ground, "strategy = \"suspend\"");
    let daemon = ground.up(&[]);
    ground.call(&["task", "add", "t"]);
    ground.births(1);
    daemon.signal(Signal::TERM);
    daemon.end();
    assert_eq!(ground.task_status("t"), "interrupted");
    assert_eq!(ground.events("task.recovery").len(), 0);
    let _daemon = ground.up(&[]);
    ground.births(2);
    assert_eq!(ground.task_status("t"), "in_progress");
}

/// An agent cannot take another agent's task by naming it.
#[test]
fn a_supervised_agent_is_refused_the_task_of_another() {
    let ground = Ground::with_agent("relight task start p 2>said; echo $? >code");
    ground.call(&["task", "add", "p", "--agent", "other"]);
    assert_eq!(ground.run(&[]).end().code, 0);
    assert_eq!(ground.read("code"), "1\n");
    assert!(
        ground
            .read("said")
            .contains("belongs to agent other, not to a"),
        "{}",
        ground.read("said")
    );
    let shown = ground.json(&["task", "show", "p"]);
    assert_eq!(
        (&shown["agent"], &shown["starts"]),
        (&json!("other"), &json!(0))
    );
}
