//! `relight events`, from outside.

use crate::relight;

use std::io::{BufRead, BufReader};
use std::process::Child;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use relight::{Stage, finish};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A task with one finished step: six events or so.
fn with_a_task() -> Stage {
    let stage = Stage::new();
    assert_eq!(
        stage
            .run(&["task", "start", "report-7", "--title", "Weekly"])
            .code,
        0
    );
    let ran = stage.run(&[
        "step", "run", "fetch", "--task", "report-7", "--", "echo", "hi",
    ]);
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (0, "hi\n"),
        "{}",
        ran.stderr
    );
    stage
}

fn json_lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The lines of a command that goes on, each waited for with a bound.
struct Following {
    child: Child,
    lines: Receiver<String>,
}

fn follow(stage: &Stage, arguments: &[&str]) -> Following {
    let mut child = stage.command(arguments).spawn().unwrap();
    let out = child.stdout.take().unwrap();
    let (tell, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(out).lines() {
            // Whoever no longer listens closes the pipe.
            if tell.send(line.unwrap()).is_err() {
                return;
            }
        }
    });
    Following { child, lines }
}

impl Following {
    fn next(&self) -> String {
        self.lines
            .recv_timeout(Duration::from_secs(180))
            .expect("a line comes")
    }
}

#[test]
fn nothing_yet_says_what_to_type() {
    let stage = Stage::new();
    let ran = stage.run(&["events"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ""));
    assert!(ran.stderr.contains("relight task start"), "{ran:?}");
    let ran = stage.run(&["events", "--json", "--task", "other"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ""));
}

#[test]
fn lines_hold_time_number_kind_task_step_and_detail() {
    let stage = with_a_task();
    let ran = stage.run(&["events", "--kind", "step.done"]);
    let words: Vec<&str> = ran.stdout.split_whitespace().collect();
    assert_eq!(
        words[2..],
        ["step.done", "report-7", "fetch", "exit_code=0"]
    );
    assert!(words[0].ends_with('Z'));
}

#[test]
fn all_newest_after_task_and_kind_choose() {
    let stage = with_a_task();
    let all = json_lines(&stage.run(&["events", "--all", "--json"]).stdout);
    let ids: Vec<u64> = all
        .iter()
        .map(|event| event["id"].as_u64().unwrap())
        .collect();
    assert!(ids.is_sorted() && ids.len() >= 4, "{ids:?}");
    let newest = json_lines(&stage.run(&["events", "-n", "2", "--json"]).stdout);
    assert_eq!(newest, all[all.len() - 2..]);
    assert_eq!(stage.run(&["events", "-n", "0", "--json"]).stdout, "");
    let after = ids[1].to_string();
    let later = json_lines(&stage.run(&["events", "--after", &after, "--json"]).stdout);
    assert_eq!(later, all[2..]);
    assert_eq!(
        json_lines(&stage.run(&["events", "-n", "5000", "--json"]).stdout),
        all
    );
    let ran = stage.run(&[
        "events",
        "--task",
        "report-7",
        "--kind",
        "step.begun",
        "--json",
    ]);
    assert!(
        json_lines(&ran.stdout)
            .iter()
            .all(|event| event["kind"] == "step.begun")
    );
}

#[test]
fn following_shows_what_other_processes_do_and_ends_on_a_signal() {
    let stage = with_a_task();
    for signal in [Signal::TERM, Signal::INT] {
        let following = follow(&stage, &["events", "-f", "--json", "-n", "1"]);
        following.next();
        let note = format!("stage={}", signal.as_raw());
        assert_eq!(stage.run(&["task", "set", "report-7", &note]).code, 0);
        let event: Value = serde_json::from_str(&following.next()).unwrap();
        assert_eq!(event["kind"], "task.context");
        kill_process(Pid::from_child(&following.child), signal).unwrap();
        assert_eq!(finish(following.child).code, 0);
    }
}

#[test]
fn following_is_not_kept_busy_by_events_that_were_not_asked_for() {
    let stage = with_a_task();
    let kind = ["events", "-f", "--json", "--kind", "step.done"];
    let following = follow(&stage, &kind);
    following.next();
    assert_eq!(stage.run(&["task", "set", "report-7", "a=b"]).code, 0);
    assert_eq!(
        stage
            .run(&["step", "run", "write", "--task", "report-7", "--", "true"])
            .code,
        0
    );
    let event: Value = serde_json::from_str(&following.next()).unwrap();
    assert_eq!(event["step"], "write");
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", following.child.id())).unwrap();
    let ticks: u64 = stat
        .split(' ')
        .skip(13)
        .take(2)
        .map(|field| field.parse::<u64>().unwrap())
        .sum();
    assert!(
        ticks < 100,
        "a second of processor time for two events: {ticks} ticks"
    );
    kill_process(Pid::from_child(&following.child), Signal::TERM).unwrap();
    assert_eq!(finish(following.child).code, 0);
}

#[test]
fn a_closed_pipe_ends_it_at_once_and_quietly() {
    let stage = with_a_task();
    let mut child = stage.command(&["events", "-f"]).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    drop(out);
    let ran = finish(child);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
}

#[test]
fn wrong_usage_is_told() {
    let stage = Stage::new();
    for arguments in [
        &["events", "--kind", "step.lost"][..],
        &["events", "--after", "-1"],
        &["events", "--after", "18446744073709551615"],
        &["events", "--all", "-n", "3"],
        &["events", "--task", "../x"],
    ] {
        let ran = stage.run(arguments);
        assert_eq!(ran.code, 2, "{arguments:?} {ran:?}");
    }
}
