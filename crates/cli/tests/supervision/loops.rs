//! `relight run --loop`: rounds that are counted over restarts.

use relight_core::time::{Span, Time};
use serde_json::json;

use crate::ground::Ground;

#[test]
fn a_loop_ends_after_its_last_round() {
    let ground = Ground::with_agent("echo $RELIGHT_ITERATION $RELIGHT_RESUMED >>rounds");
    let (code, answer) = ground
        .run(&["--json", "--loop", "--max-iterations", "3"])
        .end_json();
    assert_eq!((code, &answer["iterations"]), (0, &json!(3)));
    assert_eq!(ground.lines("rounds"), ["1 0", "2 0", "3 0"]);
    assert_eq!(ground.state("a"), "stopped");
}

#[test]
fn a_loop_ends_when_its_condition_holds() {
    let ground = Ground::with_agent("echo $RELIGHT_ITERATION >>rounds");
    ground.script("enough", "[ $(wc -l <rounds) -ge \"$1\" ]");
    let ran = ground
        .run(&["--loop", "--until", "./enough 2", "--max-iterations", "9"])
        .end();
    assert_eq!((ran.code, ground.lines("rounds").len()), (0, 2));
}

#[test]
fn rounds_are_counted_over_crashes_and_over_the_supervisors_death() {
    let ground = Ground::with_agent(
        "echo $RELIGHT_ITERATION $RELIGHT_ATTEMPT_NUMBER >>rounds\n\
         [ $RELIGHT_ATTEMPT_NUMBER = 2 ] && kill -9 $$\n\
         [ $RELIGHT_ATTEMPT_NUMBER = 4 ] && { echo >held; sleep 300; }\n\
         exit 0",
    );
    let flags = ["--json", "--loop", "--max-iterations", "4"];
    let run = ground.run(&flags);
    ground.until_lines("held", 1);
    let pid = ground.until_runs("a", 4);
    run.kill();
    assert_eq!(ground.agent("a")["iteration"], 2);
    crate::ground::signal(pid, rustix::process::Signal::KILL);
    let (code, answer) = ground.run(&flags).end_json();
    assert_eq!((code, &answer["iterations"]), (0, &json!(4)));
    assert_eq!(
        ground.lines("rounds"),
        ["1 1", "2 2", "2 3", "3 4", "3 5", "4 6"]
    );
}

#[test]
fn a_loop_that_a_person_starts_anew_counts_anew() {
    let ground = Ground::with_agent("echo x >>rounds");
    let flags = ["--loop", "--max-iterations", "2"];
    assert_eq!(ground.run(&flags).end().code, 0);
    assert_eq!(ground.run(&flags).end().code, 0);
    assert_eq!(ground.lines("rounds").len(), 4);
}

#[test]
fn a_condition_needs_a_loop() {
    let ground = Ground::with_agent("true");
    assert_eq!(ground.run(&["--until", "true"]).end().code, 2);
    assert_eq!(
        ground.run(&["--loop", "--max-iterations", "0"]).end().code,
        2
    );
}

#[test]
fn a_loop_that_was_ended_with_its_supervisor_goes_on_where_it_was() {
    let ground = Ground::with_agent(
        "echo $RELIGHT_ITERATION >>rounds; [ $RELIGHT_ITERATION = 2 ] && [ ! -e held ] && { echo >held; sleep 300; }; exit 0",
    );
    let flags = ["--loop", "--max-iterations", "3"];
    let run = ground.run(&flags);
    ground.until_lines("held", 1);
    ground.until_runs("a", 2);
    run.signal(rustix::process::Signal::TERM);
    assert_eq!(run.end().code, 143);
    assert_eq!(ground.run(&flags).end().code, 0);
    assert_eq!(ground.lines("rounds"), ["1", "2", "2", "3"]);
}

#[test]
fn a_loop_whose_rounds_fail_again_and_again_ends() {
    let ground = Ground::with_agent("exit 7");
    let ran = ground
        .run(&["--loop", "--max-attempts", "1", "--cooldown", "10ms"])
        .end();
    assert_eq!((ran.code, ground.state("a").as_str()), (7, "terminated"));
}

#[test]
fn a_condition_that_cannot_be_asked_is_refused_at_the_start() {
    let ground = Ground::with_agent("echo x >>rounds");
    let ran = ground.run(&["--loop", "--until", "./none --quiet"]).end();
    assert_eq!(
        (ran.code, ground.read("rounds").as_str()),
        (2, ""),
        "{ran:?}"
    );
    assert!(ran.stderr.contains("there is no program ./none"), "{ran:?}");
}

#[test]
fn a_loop_ends_when_its_condition_cannot_be_asked_any_more() {
    let ground =
        Ground::with_agent("echo x >>rounds; [ $RELIGHT_ITERATION = 2 ] && rm enough; true");
    ground.script("enough", "false");
    let ran = ground.run(&["--loop", "--until", "./enough"]).end();
    assert_eq!((ran.code, ground.lines("rounds").len()), (1, 2), "{ran:?}");
    assert!(
        ran.stderr.contains("its condition cannot be asked"),
        "{ran:?}"
    );
    assert_eq!(ground.state("a"), "crashed");
}

#[test]
fn a_loop_whose_condition_never_holds_is_a_no_after_its_last_round() {
    let ground = Ground::with_agent("true");
    let ran = ground
        .run(&["--loop", "--until", "false", "--max-iterations", "2"])
        .end();
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stderr.contains("round 2 is done"), "{ran:?}");
    assert!(
        ran.stderr
            .contains("--until did not hold after the last round, 2"),
        "{ran:?}"
    );
    assert!(!ran.stderr.contains("started"), "{ran:?}");
}

#[test]
fn rounds_that_end_at_once_are_paced() {
    let ground = Ground::with_agent("true");
    assert_eq!(
        ground.run(&["--loop", "--max-iterations", "5"]).end().code,
        0
    );
    let begun: Vec<Time> = ground
        .events("attempt.begun")
        .into_iter()
        .map(|event| serde_json::from_value(event["at"].clone()).unwrap())
        .collect();
    assert!(begun[4].since(begun[0]) >= Span::from_ms(350), "{begun:?}");
}
