//! Agents that are started with tasks of the queue.

use std::collections::{BTreeMap, BTreeSet};

use rustix::process::Signal;
use serde_json::json;

use crate::ground::{Ground, signal, until};

/// A worker that says what it was started with, leaves a trace for each task, and finishes it.
const WORKER: &str = "echo \"$RELIGHT_AGENT $RELIGHT_TASK $RELIGHT_RESUMED\" >>starts\n\
    [ -x before ] && ./before\n\
    relight step run work -- sh -c 'echo $RELIGHT_TASK >>effects' || exit 1\n\
    relight task done";

/// A ground whose `work/agent` is that worker; `before` runs ahead of its step.
fn ground(before: &str) -> Ground {
    let ground = Ground::with_agent(WORKER);
    if !before.is_empty() {
        ground.script("before", before);
    }
    ground
}

/// An entry of an agent that is started with tasks.
fn entry(name: &str, more: &str) -> String {
    format!(
        "[[agent]]\nname = \"{name}\"\ncommand = [\"./agent\"]\ntakes = \"start\"\n\
         cooldown = \"10ms\"\n{more}\n"
    )
}

fn add(ground: &Ground, id: &str, flags: &[&str]) {
    let ran = ground.call(&[&["task", "add", id], flags].concat());
    assert_eq!(ran.code, 0, "{ran:?}");
}

fn until_status(ground: &Ground, task: &str, status: &str) {
    until(&format!("{task} is {status}"), || {
        (ground.task_status(task) == status).then_some(())
    });
}

fn statuses(ground: &Ground) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for task in ground.json(&["task", "list"])["items"].as_array().unwrap() {
        *counts
            .entry(task["status"].as_str().unwrap().to_owned())
            .or_default() += 1;
    }
    counts
}

fn until_all_completed(ground: &Ground, count: usize) {
    let all = BTreeMap::from([("completed".to_owned(), count)]);
    until("all are completed", || {
        (statuses(ground) == all).then_some(())
    });
}

/// Agent and task of each start, in order.
fn starts(ground: &Ground) -> Vec<(String, String)> {
    let pair = |line: String| {
        let mut words = line.split(' ').map(str::to_owned);
        (words.next().unwrap(), words.next().unwrap())
    };
    ground.lines("starts").into_iter().map(pair).collect()
}

fn assert_each_once(ground: &Ground, count: usize) {
    let effects = ground.lines("effects");
    let different: BTreeSet<&String> = effects.iter().collect();
    assert_eq!(
        (effects.len(), different.len()),
        (count, count),
        "{effects:?}"
    );
}

/// A step that was cut off between its effect and its end is in doubt, and `keyed` ones run again: no
/// effect is seen more often than its step was begun, and none is missing.
fn assert_each_as_often_as_begun(ground: &Ground, count: usize) {
    let effects = ground.lines("effects");
    let different: BTreeSet<&String> = effects.iter().collect();
    assert_eq!(different.len(), count, "{effects:?}");
    for task in different {
        let seen = effects.iter().filter(|effect| *effect == task).count() as u64;
        let steps = ground.json(&["step", "list", "--task", task]);
        let tries = steps["items"][0]["tries"].as_u64().unwrap();
        assert!(
            seen <= tries,
            "{task}: seen {seen} times, begun {tries} times"
        );
    }
}

#[test]
fn a_queue_is_worked_by_started_agents_that_can_do_each_task() {
    let ground = ground("");
    let skilled = |name: &str, skills: &str| entry(name, &format!("skills = {skills}"));
    ground.config(
        &(skilled("a", "[\"rust\"]")
            + &skilled("b", "[\"docs\"]")
            + &skilled("c", "[\"docs\", \"rust\"]")),
    );
    let skill = |number: usize| {
        if number.is_multiple_of(2) {
            "rust"
        } else {
            "docs"
        }
    };
    for number in 0..10 {
        add(&ground, &format!("t{number}"), &["--skill", skill(number)]);
    }
    let _daemon = ground.up(&[]);
    for number in 10..20 {
        add(&ground, &format!("t{number}"), &["--skill", skill(number)]);
    }
    until_all_completed(&ground, 20);
    assert_each_once(&ground, 20);
    for (agent, task) in starts(&ground) {
        let number: usize = task[1..].parse().unwrap();
        assert!(
            agent == "c" || (agent == "a") == (skill(number) == "rust"),
            "{agent} {task}"
        );
    }
}

#[test]
fn an_agent_is_idle_until_there_is_work_for_it_and_again_after() {
    let ground = ground("");
    ground.config(&entry("a", "skills = [\"rust\"]"));
    let _daemon = ground.up(&[]);
    let idle = |agent: &serde_json::Value| agent["detail"] == "idle";
    ground.until_agent("a", idle);
    add(&ground, "other", &["--skill", "docs"]);
    add(&ground, "t", &["--skill", "rust"]);
    until_status(&ground, "t", "completed");
    let agent = ground.until_agent("a", idle);
    assert_eq!(
        (&agent["task"], &agent["attempt"]),
        (&json!(null), &json!(1))
    );
    assert_eq!(
        (ground.task_status("other").as_str(), starts(&ground).len()),
        ("created", 1)
    );
}

#[test]
fn a_pool_is_as_many_agents_as_it_works_on_at_a_time() {
    let ground = ground("while [ ! -e go ]; do read -t 0.05 <> <(:); done");
    ground.config(&entry("w", "concurrency = 3"));
    let _daemon = ground.up(&[]);
    for task in ["one", "two", "three", "four"] {
        add(&ground, task, &[]);
    }
    ground.until_lines("starts", 3);
    let names: Vec<String> = ground
        .agents()
        .iter()
        .map(|agent| agent["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(names, ["w-1", "w-2", "w-3"]);
    assert_eq!(ground.task_status("four"), "created");
    std::fs::write(ground.work("go"), "").unwrap();
    until_all_completed(&ground, 4);
    assert_each_once(&ground, 4);
}

#[test]
fn a_task_for_an_agent_or_a_pool_goes_to_it_and_larger_priorities_first() {
    let ground = ground("");
    add(&ground, "later", &["--agent", "a"]);
    add(&ground, "first", &["--agent", "a", "--priority", "5"]);
    add(&ground, "any", &["--agent", "w"]);
    ground.config(&(entry("a", "") + &entry("w", "concurrency = 2")));
    let _daemon = ground.up(&[]);
    until_all_completed(&ground, 3);
    let of_a: Vec<String> = starts(&ground)
        .into_iter()
        .filter_map(|(agent, task)| (agent == "a").then_some(task))
        .collect();
    assert_eq!(of_a, ["first", "later"]);
}

#[test]
fn a_task_whose_agent_is_killed_goes_to_another_one() {
    let ground = ground("[ -e killed ] || { touch killed; kill -9 $PPID; }");
    ground.config(&entry("w", "concurrency = 2"));
    let _daemon = ground.up(&[]);
    ground.until_agent("w-2", |agent| agent["detail"] == "idle");
    add(&ground, "t", &["--set", "branch=fix"]);
    until_status(&ground, "t", "completed");
    let starts = ground.lines("starts");
    assert_eq!(starts, ["w-1 t 0", "w-2 t 1"]);
    assert_each_once(&ground, 1);
    assert_eq!(ground.json(&["task", "show", "t"])["retries"], 1);
    let told = &ground.events("task.recovery")[0]["detail"];
    assert_eq!(
        (&told["strategy"], &told["outcome"], &told["cause"]),
        (
            &json!("fail-and-reassign"),
            &json!("reassign"),
            &json!("signal")
        )
    );
    assert_eq!(ground.causes("w-1"), ["signal"]);
}

#[test]
fn a_task_that_failed_as_often_as_it_may_stays_failed_and_somebody_is_told() {
    for (flags, lives) in [(vec![], 2), (vec!["--max-retries", "0"], 1)] {
        let ground = ground("[ $RELIGHT_TASK = bad ] && kill -9 $PPID");
        ground.config(&entry("w", "concurrency = 2"));
        let _daemon = ground.up(&[]);
        add(&ground, "bad", &flags);
        until("it is given up", || {
            (!ground.events("alert").is_empty()).then_some(())
        });
        until_status(&ground, "bad", "failed");
        add(&ground, "good", &[]);
        until_status(&ground, "good", "completed");
        let of_bad = starts(&ground)
            .iter()
            .filter(|(_, task)| task == "bad")
            .count();
        assert_eq!(
            (of_bad, ground.task_status("bad").as_str()),
            (lives, "failed")
        );
        assert_eq!(ground.events("alert")[0]["detail"]["alert"], "given_up");
    }
}

#[test]
fn kill_9_at_random_loses_no_task_and_repeats_no_step() {
    let ground = ground("read -t 0.05 <> <(:)");
    ground.config(&entry(
        "w",
        "concurrency = 3\nmax_attempts = 1000\nstrategy = \"resume\"",
    ));
    let _daemon = ground.up(&[]);
    for number in 0..20 {
        add(&ground, &format!("t{number}"), &[]);
    }
    for kills in 0..8 {
        let victim = format!("w-{}", kills % 3 + 1);
        let running = ground.agents().into_iter().find(|agent| {
            agent["name"] == victim.as_str() && agent["pid"].is_u64() && agent["state"] == "running"
        });
        if let Some(agent) = running {
            let pid = u32::try_from(agent["pid"].as_u64().unwrap()).unwrap();
            // It may have ended meanwhile.
            let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
    }
    until_all_completed(&ground, 20);
    assert_each_as_often_as_begun(&ground, 20);
}

#[test]
fn an_agent_that_can_do_nothing_does_not_eat_the_queue() {
    let ground = Ground::with_agent("exit 1");
    ground.config(&entry("a", "").replace("10ms", "60s"));
    for number in 0..10 {
        add(&ground, &format!("t{number}"), &[]);
    }
    let _daemon = ground.up(&[]);
    ground.until_state("a", "crashed");
    let untouched = statuses(&ground)["created"];
    assert!(untouched >= 8, "{:?}", statuses(&ground));
}

#[test]
fn work_of_a_terminated_agent_goes_to_another_one() {
    let ground = ground("[ $RELIGHT_AGENT = a ] && kill -9 $PPID; true");
    ground.config(
        &("[queue]\nsweep = \"100ms\"\n[recovery]\ncooldown = \"10ms\"\n".to_owned()
            + &entry("a", "max_attempts = 1\nstrategy = \"resume\"")),
    );
    add(&ground, "t", &["--agent", "a"]);
    let daemon = ground.up(&[]);
    ground.until_state("a", "terminated");
    until_status(&ground, "t", "failed");
    daemon.signal(Signal::TERM);
    daemon.end();
    ground.config(&(entry("a", "") + &entry("b", "")));
    let _daemon = ground.up(&[]);
    until_status(&ground, "t", "completed");
    assert_eq!(starts(&ground).last().unwrap().0, "b");
    assert_eq!(ground.state("a"), "terminated");
}

#[test]
fn work_of_agents_that_are_not_in_the_configuration_any_more_goes_to_others() {
    let ground = ground("[ -e go ] || sleep 300");
    ground.config(&entry("w", "concurrency = 2"));
    add(&ground, "one", &[]);
    add(&ground, "two", &[]);
    let daemon = ground.up(&[]);
    ground.until_lines("starts", 2);
    daemon.signal(Signal::TERM);
    daemon.end();
    assert_eq!(
        statuses(&ground),
        BTreeMap::from([("interrupted".to_owned(), 2)])
    );
    std::fs::write(ground.work("go"), "").unwrap();
    ground.config(&("[queue]\nsweep = \"100ms\"\n".to_owned() + &entry("w", "")));
    let _daemon = ground.up(&[]);
    until_all_completed(&ground, 2);
    assert_each_once(&ground, 2);
    assert!(starts(&ground)[2..].iter().all(|(agent, _)| agent == "w"));
}

#[test]
fn an_agent_that_was_stopped_gets_no_work_until_it_is_started() {
    let ground = ground("");
    ground.config(&entry("a", ""));
    let daemon = ground.up(&[]);
    assert_eq!(ground.call(&["stop", "a"]).code, 0);
    add(&ground, "t", &[]);
    daemon.signal(Signal::HUP);
    daemon.until_said("the configuration was read again");
    assert_eq!(
        (ground.state("a").as_str(), ground.task_status("t").as_str()),
        ("stopped", "created")
    );
    let ran = ground.call(&["start", "a"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    until_status(&ground, "t", "completed");
}

#[test]
fn work_that_its_agent_was_stopped_at_waits_for_it() {
    let ground = ground("[ -e stopped ] || { echo >stopped; sleep 300; }");
    ground.config(&entry("w", "concurrency = 2"));
    let _daemon = ground.up(&[]);
    add(&ground, "t", &[]);
    ground.until_lines("stopped", 1);
    let (agent, _) = starts(&ground).remove(0);
    assert_eq!(ground.call(&["stop", &agent]).code, 0);
    assert_eq!(ground.task_status("t"), "interrupted");
    assert_eq!(ground.call(&["start", &agent]).code, 0);
    until_status(&ground, "t", "completed");
    assert_eq!(starts(&ground)[1], (agent, "t".to_owned()));
    assert_eq!(ground.json(&["task", "show", "t"])["retries"], 0);
}

#[test]
fn a_task_that_another_took_meanwhile_is_left_to_it_and_charged_to_nobody() {
    let ground = Ground::with_agent("echo $$ >>births; exec sleep 1000");
    ground.config(&entry("a", ""));
    let daemon = ground.up(&[]);
    add(&ground, "t", &["--agent", "a"]);
    let first = ground.births(1)[0];
    for words in [
        &["task", "release", "t", "--force"][..],
        &["task", "start", "t", "--agent", "a", "--lease", "1h"],
    ] {
        let ran = ground.call(words);
        assert_eq!(ran.code, 0, "{ran:?}");
    }
    let held = ground.json(&["task", "show", "t"]);
    signal(first, Signal::KILL);
    ground.until_agent("a", |agent| agent["idle"] == json!(true));
    let now = ground.json(&["task", "show", "t"]);
    assert_eq!(
        (&now["status"], &now["fence"], &now["retries"]),
        (&json!("in_progress"), &held["fence"], &held["retries"])
    );
    assert!(!ground.causes("a").contains(&"failed".to_owned()));
    assert_eq!(ground.events("alert").len(), 0);
    drop(daemon);
}

#[test]
fn exit_75_defers_the_task_and_rests_the_agent_and_both_go_on_by_themselves() {
    let ground = Ground::with_agent(&format!(
        "[ -e later ] || {{ touch later; exit 75; }}\n{WORKER}"
    ));
    ground.config(&entry("a", "defer = \"5s\"\nmax_attempts = 0"));
    let _daemon = ground.up(&[]);
    add(&ground, "t", &[]);
    ground.until_state("a", "suspended");
    assert_eq!(ground.task_status("t"), "deferred");
    until_status(&ground, "t", "completed");
    assert_eq!(ground.agent("a")["restarts_total"], 0);
}

#[test]
fn exit_0_finishes_the_task_it_was_started_with_where_that_is_wanted() {
    for (completes, status) in [("true", "completed"), ("false", "failed")] {
        let ground = Ground::with_agent("exit 0");
        ground.config(&entry("a", &format!("exit_completes = {completes}")));
        let _daemon = ground.up(&[]);
        add(&ground, "t", &["--max-retries", "0"]);
        until_status(&ground, "t", status);
    }
}

#[test]
fn an_agent_that_lets_go_of_its_task_is_idle_again() {
    for (verb, status) in [
        ("block --reason r", "blocked"),
        ("review", "in_review"),
        ("defer --until 1h", "deferred"),
        ("cancel", "cancelled"),
    ] {
        let ground = Ground::with_agent(&format!("relight task {verb}"));
        ground.config(&entry("a", ""));
        let _daemon = ground.up(&[]);
        add(&ground, "t", &[]);
        until_status(&ground, "t", status);
        let agent = ground.until_agent("a", |agent| agent["detail"] == "idle");
        assert_eq!(agent["attempt"], 1, "{verb}");
    }
}

#[test]
fn a_killed_daemons_work_is_adopted_and_nothing_is_done_twice() {
    let ground = ground("while [ ! -e go ]; do read -t 0.05 <> <(:); done");
    ground.config(&entry("w", "concurrency = 3"));
    for number in 0..6 {
        add(&ground, &format!("t{number}"), &[]);
    }
    let daemon = ground.up(&[]);
    ground.until_lines("starts", 3);
    let pids: Vec<u32> = (1..=3)
        .map(|n| ground.until_runs(&format!("w-{n}"), 1))
        .collect();
    daemon.kill();
    let _daemon = ground.up(&[]);
    let adopted: Vec<u32> = (1..=3)
        .map(|n| ground.until_runs(&format!("w-{n}"), 1))
        .collect();
    assert_eq!(adopted, pids);
    std::fs::write(ground.work("go"), "").unwrap();
    until_all_completed(&ground, 6);
    assert_each_once(&ground, 6);
    assert_eq!(starts(&ground).len(), 6);
}

#[test]
fn work_of_agents_that_died_with_the_daemon_is_recovered_by_the_next() {
    let ground = ground("[ -e go ] || sleep 300");
    ground.config(&entry("w", "concurrency = 2"));
    add(&ground, "reassigned", &[]);
    add(&ground, "resumed", &["--strategy", "resume"]);
    let daemon = ground.up(&[]);
    ground.until_lines("starts", 2);
    let before: BTreeMap<String, String> = starts(&ground)
        .into_iter()
        .map(|(agent, task)| (task, agent))
        .collect();
    let pids: Vec<u32> = (1..=2)
        .map(|n| ground.until_runs(&format!("w-{n}"), 1))
        .collect();
    daemon.kill();
    std::fs::write(ground.work("go"), "").unwrap();
    pids.into_iter().for_each(|pid| signal(pid, Signal::KILL));
    let _daemon = ground.up(&[]);
    until_all_completed(&ground, 2);
    assert_each_once(&ground, 2);
    let again = starts(&ground)
        .into_iter()
        .skip(2)
        .find(|(_, task)| task == "resumed")
        .unwrap();
    assert_eq!(again.0, before["resumed"]);
}

#[test]
fn a_task_whose_process_was_killed_is_found_and_given_to_an_agent() {
    let ground = ground("");
    ground.config(&("[queue]\nsweep = \"100ms\"\n".to_owned() + &entry("a", "")));
    let _daemon = ground.up(&[]);
    let owner = ground.start(&["events", "-f"]);
    let ran = ground.call(&[
        "task",
        "start",
        "t",
        "--owner-pid",
        &owner.pid().to_string(),
    ]);
    assert_eq!(ran.code, 0, "{ran:?}");
    owner.kill();
    until_status(&ground, "t", "completed");
    assert_eq!(ground.lines("starts"), ["a t 1"]);
}

#[test]
fn a_pool_that_would_have_anothers_name_is_refused() {
    let ground = ground("");
    ground.config(&(entry("w", "concurrency = 2") + &entry("w-1", "")));
    let ran = ground.call(&["up"]);
    assert_eq!(ran.code, 78, "{ran:?}");
    ground.config(&entry("a", "task = \"t\""));
    assert_eq!(ground.call(&["up"]).code, 78);
}

#[test]
fn paused_nothing_is_given_out_and_it_says_what_would_be() {
    let ground = ground("");
    ground.config(&(entry("a", "") + &entry("b", "skills = [\"rust\"]")));
    add(&ground, "one", &[]);
    add(&ground, "two", &["--skill", "rust"]);
    let daemon = ground.up(&["--paused"]);
    daemon.until_said("tasks that would be given out: 2");
    assert_eq!(ground.state("a"), "suspended");
    assert_eq!(ground.call(&["start", "b"]).code, 0);
    until_all_completed(&ground, 2);
    assert!(starts(&ground).iter().all(|(agent, _)| agent == "b"));
}

#[test]
fn recovered_work_comes_back_at_its_pace_and_new_work_is_not_held_up() {
    let ground = Ground::with_agent(&format!(
        "echo $RELIGHT_TASK $(date +%s%3N) >>times\n{WORKER}"
    ));
    ground.script("before", "[ -e go ] || sleep 300");
    let queue = "[queue]\nresume_rate = 1\n";
    ground.config(&(queue.to_owned() + &entry("w", "concurrency = 4")));
    for number in 0..4 {
        add(&ground, &format!("t{number}"), &[]);
    }
    let daemon = ground.up(&[]);
    ground.until_lines("starts", 4);
    let pids: Vec<u32> = (1..=4)
        .map(|n| ground.until_runs(&format!("w-{n}"), 1))
        .collect();
    daemon.kill();
    std::fs::write(ground.work("go"), "").unwrap();
    pids.into_iter().for_each(|pid| signal(pid, Signal::KILL));
    add(&ground, "new", &["--priority=-1"]);
    let _daemon = ground.up(&[]);
    until_all_completed(&ground, 5);
    let times: Vec<(String, u64)> = ground
        .lines("times")
        .into_iter()
        .skip(4)
        .map(|line| {
            let (task, at) = line.split_once(' ').unwrap();
            (task.to_owned(), at.parse().unwrap())
        })
        .collect();
    let resumed: Vec<u64> = times
        .iter()
        .filter(|(task, _)| task != "new")
        .map(|(_, at)| *at)
        .collect();
    let took_ms = resumed.last().unwrap() - resumed[0];
    assert!(resumed.len() == 4 && took_ms >= 1_500, "{times:?}");
    let new = times.iter().find(|(task, _)| task == "new").unwrap().1;
    assert!(new < *resumed.last().unwrap(), "{times:?}");
}

#[test]
fn only_so_much_recovered_work_is_done_at_once() {
    let ground = ground(
        "[ -e go ] || sleep 300; exec 9>>one.lock; flock -n 9 || echo $RELIGHT_TASK >>complaints\n\
         read -t 0.1 <> <(:)",
    );
    ground.config(&("[queue]\nresume_at_once = 1\n".to_owned() + &entry("w", "concurrency = 3")));
    for number in 0..3 {
        add(&ground, &format!("t{number}"), &[]);
    }
    let daemon = ground.up(&[]);
    ground.until_lines("starts", 3);
    let pids: Vec<u32> = (1..=3)
        .map(|n| ground.until_runs(&format!("w-{n}"), 1))
        .collect();
    daemon.kill();
    std::fs::write(ground.work("go"), "").unwrap();
    pids.into_iter().for_each(|pid| signal(pid, Signal::KILL));
    let _daemon = ground.up(&[]);
    until_all_completed(&ground, 3);
    ground.assert_never_doubled();
}

#[test]
fn the_daemon_says_that_a_task_is_given_up() {
    let ground = Ground::with_agent("echo $RELIGHT_TASK >>starts; exit 3");
    ground.config(&entry("reader", "max_attempts = 50"));
    add(&ground, "once", &[]);
    add(&ground, "more", &["--max-retries", "2"]);
    let daemon = ground.up(&[]);
    daemon.until_said("ALERT task once is given up");
    daemon.until_said("ALERT task more is given up");
    let starts = ground.lines("starts");
    let count = |id: &str| starts.iter().filter(|start| *start == id).count();
    assert_eq!((count("once"), count("more")), (2, 3));
}

#[test]
fn a_paused_daemon_counts_what_is_free_after_the_dead_are_recorded() {
    let ground = Ground::with_agent("echo $$ >>births; exec sleep 300");
    ground.config(&entry("reader", ""));
    add(&ground, "one", &[]);
    add(&ground, "two", &[]);
    let daemon = ground.up(&[]);
    let pid = ground.until_runs("reader", 1);
    let shim = ground.shim("reader");
    daemon.kill();
    signal(shim, Signal::KILL);
    signal(pid, Signal::KILL);
    let daemon = ground.up(&["--paused"]);
    daemon.until_said("tasks that would be given out: 2");
    assert_eq!(ground.births(1).len(), 1);
    assert_eq!(ground.json(&["task", "show", "two"])["agent"], json!(null));
}

#[test]
fn whoever_takes_over_a_task_is_told_how_the_agent_before_it_ended() {
    let ground = Ground::with_agent(
        "cat \"$RELIGHT_BRIEF_FILE\" >>\"briefs-$RELIGHT_AGENT\" 2>/dev/null\n\
         echo \"$RELIGHT_AGENT works on $RELIGHT_TASK\"\n\
         case \"$RELIGHT_AGENT $RELIGHT_TASK\" in\n\
         'r-1 t') relight task fail --reason 'no access'; exit 3;;\n\
         esac\nrelight task done",
    );
    ground.config(&(entry("r-1", "") + &entry("r-2", "")));
    let _daemon = ground.up(&[]);
    add(&ground, "other", &["--agent", "r-2"]);
    until_status(&ground, "other", "completed");
    add(&ground, "t", &["--agent", "r-1", "--max-retries", "0"]);
    until_status(&ground, "t", "failed");
    ground.until_agent("r-1", |agent| agent["state"] != "running");
    let ran = ground.call(&["task", "retry", "t", "--agent", "r-2", "--force"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    until_status(&ground, "t", "completed");
    let brief = ground.read("briefs-r-2");
    for words in [
        "Attempt 1 of agent r-1 ended at",
        "(exit 3)",
        "no access",
        "| r-1 works on t",
        "`relight logs r-1`",
    ] {
        assert!(brief.contains(words), "{words}: {brief}");
    }
    assert!(!brief.contains("works on other"), "{brief}");
    add(&ground, "late", &["--agent", "r-2"]);
    until_status(&ground, "late", "completed");
    let socket = ground.home("relight.sock");
    let get = format!(
        "curl -sS --unix-socket {} http://localhost/api/tasks/t/brief",
        socket.display()
    );
    let told = ground.shell(&get).stdout;
    assert!(told.contains("| r-2 works on t"), "{told}");
    assert!(!told.contains("works on late"), "{told}");
}
