//! A remedy that is printed works when it is typed.

use crate::cases::{Place, commands_in};

/// Types the commands one after the other; each must end well.
#[track_caller]
fn play(place: &Place, commands: &[String]) {
    assert!(!commands.is_empty(), "no command was printed");
    for command in commands {
        place.shell(command).run().with_code(0);
    }
}

fn failed_for_good(place: &Place, id: &str) {
    place.ok(&format!("task add {id} --max-retries 0"));
    place.ok(&format!("task start {id}"));
    place.ok(&format!("task fail {id} --reason boom"));
}

#[test]
fn a_task_without_retries_is_started_after_the_printed_retry() {
    for json in ["", "--json "] {
        let place = Place::new();
        failed_for_good(&place, "t");
        let refused = place.fails(&format!("{json}task start t"), 1);
        play(&place, &refused.remedies());
        place.ok("task start t");
    }
}

#[test]
fn a_task_with_a_retry_is_started_after_the_printed_retry() {
    let place = Place::new();
    place.ok("task start t");
    place.ok("task fail t --reason boom");
    play(&place, &place.fails("task start t", 1).remedies());
    place.ok("task start t");
}

#[test]
fn a_released_task_over_its_limit_is_started_after_the_printed_retry() {
    let place = Place::new();
    std::fs::write(place.work("relight.toml"), "[queue]\nattempts_max = 1\n").unwrap();
    place.ok("task start t");
    place.ok("task release t --fence 1");
    let refused = place.fails("task start t", 1);
    // Show, retry, start by force.
    play(&place, &refused.remedies());
    assert_eq!(place.status("t"), "in_progress");
}

#[test]
fn run_refuses_a_failed_task_of_others_each_time_and_prints_what_helps() {
    let place = Place::new();
    failed_for_good(&place, "t");
    let run = "run --name r --task t --exit-completes -- true";
    let first = place.fails(run, 1);
    let second = place.fails(run, 1);
    assert_eq!(first.stderr, second.stderr);
    play(&place, &second.remedies());
    place.ok(run);
    assert_eq!(place.status("t"), "completed");
}

#[test]
fn run_of_a_blocked_task_prints_what_lets_it_continue() {
    let place = Place::new();
    place.ok("task start t");
    place.ok("task block t --reason why");
    let waits = place.fails("run --name r --task t --exit-completes -- true", 75);
    play(&place, &waits.remedies());
    assert_eq!(place.status("t"), "completed");
}

#[test]
fn run_of_a_task_in_review_prints_what_ends_the_review() {
    let place = Place::new();
    place.ok("task start t");
    place.ok("task review t");
    let waits = place.fails("run --name r --task t -- true", 75);
    play(&place, &waits.remedies());
    assert_eq!(place.status("t"), "completed");
}

#[test]
fn recover_prints_a_command_for_the_workflow_of_an_agent_with_any_name() {
    let place = Place::new();
    let words = "--agent 'b\u{f6}t one' --workflow 'my flow'";
    let start = format!("relight checkpoint start {words} --step a --idempotency k");
    place.shell(&start).run().with_code(0);
    let resume = format!("relight checkpoint resume {words} --steal-lock --owner-pid $$");
    place.shell(&resume).run().with_code(0);
    let text = place.ok("recover").text();
    let commands = commands_in(text.split_once("to continue it: ").expect("what to type").1);
    play(&place, &commands);
    assert!(place.ok("task list").text().contains("in_progress"));
}

#[test]
fn a_step_in_doubt_is_resolved_by_the_printed_command() {
    let place = Place::new();
    place.ok("task start t");
    place.die_in_step("pay --task t --repeat once");
    let refused = place
        .relight("step run pay --task t --repeat once -- true")
        .run();
    play(&place, &refused.remedies());
    place.ok("task start t");
    place.ok("step run pay --task t --repeat once -- false");
}

#[test]
fn a_failed_task_with_a_step_in_doubt_is_retried_after_the_printed_resolution() {
    let place = Place::new();
    place.ok("task add t --max-retries 0");
    place.ok("task start t");
    place.die_in_step("pay --task t --repeat once");
    place.ok("task fail t --reason boom");
    let resolve = "relight step resolve pay --task t --happened";
    for words in ["status --json", "status"] {
        let status = place.fails(words, 1).text();
        let hint = format!("{resolve} (or --did-not), then relight task retry t --force");
        assert!(status.contains(&hint), "{status}");
    }
    for words in ["task show t", "step list --task t", "recover --dry-run"] {
        let text = place.ok(words).text();
        assert!(text.contains(resolve), "{words}: {text}");
    }
    for words in [
        "task retry t --force",
        "recover t --resume",
        "recover t --resume --dry-run",
    ] {
        let refused = place.fails(words, 1);
        assert!(
            refused.stderr.contains("must be resolved first"),
            "{}",
            refused.stderr
        );
        assert_eq!(place.status("t"), "failed");
    }
    play(&place, &place.fails("task retry t --force", 1).remedies());
    place.ok("task retry t --force");
    place.ok("task start t");
    place.ok("step run pay --task t --repeat once -- false");
}
