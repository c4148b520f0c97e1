//! `relight step` from outside.

use crate::cases;

use std::fs;

use cases::{Place, kill};
use rustix::process::Signal;
use serde_json::json;

/// A place with a started task `t`.
fn at_work() -> Place {
    let place = Place::new();
    place.ok("task start t --lease 1h");
    place
}

/// The words of `step run` for a shell script.
fn shell(place: &Place, words: &str, script: &str) -> cases::Call {
    place
        .relight(&format!("step run {words} --task t -- sh -c"))
        .arg(script)
}

#[test]
fn output_passes_through_byte_for_byte_and_replays_the_same() {
    let place = at_work();
    let script = r"echo >> ran; printf '\000\377\376 a\r\n\tno newline'; printf 'to stderr' >&2";
    let first = place
        .relight("step run s --task t -- bash -c")
        .arg(script)
        .run()
        .with_code(0);
    let again = place
        .relight("step run s --task t -- bash -c")
        .arg(script)
        .run()
        .with_code(0);
    assert_eq!(first.stdout, b"\x00\xff\xfe a\r\n\tno newline");
    assert_eq!(first.stderr, "to stderr");
    assert_eq!(again.stdout, first.stdout);
    assert_eq!(again.stderr, "");
    assert_eq!(place.runs(), 1);
}

#[test]
fn a_finished_step_counts_as_progress_of_the_task() {
    let place = Place::new();
    place.ok("task start t --step a --step b");
    place.ok("step run a --task t -- true");
    let show = place.json("task show t");
    assert_eq!(
        (&show["done_steps"], &show["next_step"]),
        (&json!(["a"]), &json!("b"))
    );
}

#[test]
fn the_commands_own_code_passes_through_and_the_step_may_run_again() {
    let place = at_work();
    shell(&place, "s", "echo >> ran; exit 3").run().with_code(3);
    assert_eq!(
        place.json("step list --task t")["items"][0]["state"],
        "failed"
    );
    shell(&place, "s", "echo >> ran").run().with_code(0);
    assert_eq!(place.runs(), 2);
    assert_eq!(place.json("step list --task t")["items"][0]["tries"], 2);
}

#[test]
fn a_command_killed_by_a_signal_is_128_and_its_number() {
    let place = at_work();
    shell(&place, "s", "kill -9 $$").run().with_code(137);
    shell(&place, "s", "kill -15 $$").run().with_code(143);
}

#[test]
fn a_command_that_was_cut_off_leaves_its_step_in_doubt() {
    for (script, code) in [("kill -9 $$", 137), ("sh -c 'kill -15 $$'; exit $?", 143)] {
        let place = at_work();
        let script = format!("echo >> ran; {script}");
        let first = shell(&place, "s --repeat once", &script)
            .run()
            .with_code(code);
        first.says(&["was cut off", "in doubt", "step resolve"]);
        let step = place.json("step list --task t")["items"][0].clone();
        assert_eq!(
            (&step["state"], &step["tries"]),
            (&json!("begun"), &json!(1))
        );
        shell(&place, "s --repeat once", "echo >> ran")
            .run()
            .with_code(75);
        assert_eq!((place.runs(), place.status("t").as_str()), (1, "blocked"));
    }
}

#[test]
fn a_command_that_was_cut_off_is_asked_about_where_its_rule_says_so() {
    let place = at_work();
    let run = |script: &str| {
        let call = place
            .relight("step run s --task t")
            .args(VERIFY)
            .arg("true");
        call.args(["--", "sh", "-c", script]).run()
    };
    run("echo >> ran; kill -9 $$")
        .with_code(137)
        .says(&["--verify is asked first"]);
    run("echo >> ran").with_code(0).says(&["had happened"]);
    assert_eq!(place.runs(), 1);
}

#[test]
fn a_command_that_was_cut_off_runs_again_with_the_same_key_where_it_may() {
    for rule in ["--repeat keyed", "--repeat repeatable"] {
        let place = at_work();
        let words = format!("s {rule}");
        let script = "echo $RELIGHT_IDEMPOTENCY_KEY >> ran";
        shell(&place, &words, &format!("{script}; kill -9 $$"))
            .run()
            .with_code(137);
        shell(&place, &words, script).run().with_code(0);
        let keys = fs::read_to_string(place.work("ran")).unwrap();
        let keys: Vec<&str> = keys.lines().collect();
        assert_eq!((keys.len(), keys[0]), (2, keys[1]), "{rule}");
    }
}

#[test]
fn a_step_is_running_while_somebody_is_at_it_and_in_doubt_afterwards() {
    let place = at_work();
    let mut running = shell(&place, "s", "echo $$; exec sleep 50").spawn();
    let command = running.line();
    let looks = ["task show t", "step list --task t", "step show s --task t"];
    for words in looks {
        let text = place.ok(words).text();
        assert!(
            text.contains("running") && !text.contains("doubt"),
            "{text}"
        );
    }
    let open = |words: &str| place.json(words)["in_doubt"].clone();
    assert_eq!(open("task show t"), json!([]));
    assert_eq!(place.json("task show t")["steps_in_doubt"], 0);
    assert_eq!(open("step list --task t"), json!([]));
    running.kill();
    cases::kill(command.parse().unwrap());
    place.ok("task release t --force");
    for words in looks {
        let text = place.ok(words).text();
        assert!(
            text.contains("in doubt") && !text.contains("running"),
            "{text}"
        );
    }
    assert_eq!(open("task show t"), json!(["s"]));
}

#[test]
fn a_step_of_the_rule_once_that_took_too_long_is_in_doubt() {
    let place = at_work();
    let slow = "echo >> ran; exec sleep 50";
    shell(&place, "s --repeat once --timeout 3s", slow)
        .run()
        .with_code(124)
        .says(&["in doubt"]);
    shell(&place, "s --repeat once", "echo >> ran")
        .run()
        .with_code(75);
    assert_eq!(place.runs(), 1);
}

#[test]
fn an_accepted_code_finishes_the_step_and_is_replayed() {
    let place = at_work();
    shell(&place, "s --accept 1,3", "echo >> ran; echo three; exit 3")
        .run()
        .with_code(3);
    let again = shell(&place, "s", "echo >> ran").run().with_code(3);
    assert_eq!((again.text().as_str(), place.runs()), ("three\n", 1));
}

#[test]
fn a_command_that_takes_too_long_is_stopped_and_gone() {
    let place = at_work();
    let mut running = shell(&place, "s --timeout 3s", "echo $$; exec sleep 50").spawn();
    let command = running.line();
    running.end().with_code(124);
    assert!(!fs::exists(format!("/proc/{command}")).unwrap());
    assert_eq!(
        place.json("step list --task t")["items"][0]["state"],
        "failed"
    );
}

#[test]
fn the_children_of_a_command_that_takes_too_long_are_gone_too() {
    let place = at_work();
    let mut running = shell(&place, "s --timeout 3s", "sleep 45 & echo $!; wait").spawn();
    let grandchild: u32 = running.line().parse().unwrap();
    let answer = running.end().with_code(124);
    // Its new parent may take a moment to notice; a zombie is gone.
    let gone = || relight_runtime::os::process::identity(grandchild).is_none();
    let seen_gone = (0..1_000_000).any(|_| {
        std::thread::yield_now();
        gone()
    });
    if !seen_gone {
        kill(grandchild);
    }
    assert!(seen_gone, "{}", answer.stderr);
}

#[test]
fn what_a_slow_command_moved_to_another_session_is_gone_before_the_timeout_is_told() {
    let place = at_work();
    // One whose parent lives, and one whose parent has ended.
    let script = "setsid sleep 45 & echo $!; echo $(setsid sleep 45 >&- 2>&- & echo $!); wait";
    let mut running = shell(&place, "s --timeout 3s", script).spawn();
    let escaped: [u32; 2] = [(), ()].map(|()| running.line().parse().unwrap());
    running.end().with_code(124);
    for pid in escaped {
        // What is dead was killed; who adopted it may not have read its end yet.
        let lives = relight_runtime::os::process::stat(pid).is_some_and(|stat| stat.is_alive());
        if lives {
            kill(pid);
        }
        assert!(!lives, "{pid}");
    }
}

#[test]
fn a_command_that_ignores_sigterm_is_killed() {
    let place = at_work();
    let script = "trap '' TERM; echo $$; while :; do sleep 1; done";
    let mut running = shell(&place, "s --timeout 3s", script).spawn();
    let command = running.line();
    running.end().with_code(124);
    assert!(!fs::exists(format!("/proc/{command}")).unwrap());
}

#[test]
fn a_timeout_is_relights_code_and_an_exit_is_the_steps() {
    let place = at_work();
    let run = |words: &str, script: &str| {
        let call = place.relight(&format!("--json step run {words} --task t -- sh -c"));
        call.arg(script).run().json()
    };
    for (rule, in_doubt) in [("keyed", false), ("repeatable", false), ("once", true)] {
        let slow = run(
            &format!("{rule} --repeat {rule} --timeout 100ms"),
            "exec sleep 50",
        );
        assert_eq!(
            (&slow["exit_code_of"], &slow["in_doubt"]),
            (&json!("relight"), &json!(in_doubt))
        );
    }
    let answer = run("s", "echo out; echo err >&2; exit 4");
    assert_eq!(
        (&answer["exit_code"], &answer["exit_code_of"]),
        (&json!(4), &json!("step"))
    );
    assert_eq!(
        (&answer["stdout"], &answer["replayed"]),
        (&json!("out\n"), &json!(false))
    );
    run("s", "echo done");
    assert_eq!(run("s", "echo other")["stdout"], "done\n");
    assert_eq!(run("s", "echo other")["replayed"], true);
}

#[test]
fn each_occurrence_is_a_step_of_its_own() {
    let place = at_work();
    for words in ["s", "s --occurrence 2", "s --occurrence 2"] {
        shell(&place, words, "echo >> ran").run().with_code(0);
    }
    assert_eq!(place.runs(), 2);
    assert_eq!(
        place.json("step list --task t")["done_steps"],
        json!(["s", "s#2"])
    );
    shell(&place, "s --occurrence 0", "true").run().with_code(2);
}

#[test]
fn the_idempotency_key_stays_over_tries_and_differs_by_occurrence_step_and_task() {
    let place = at_work();
    place.ok("task start u");
    let key = |words: &str| {
        let call = place.relight(&format!("step run {words} -- sh -c"));
        call.arg("echo $RELIGHT_IDEMPOTENCY_KEY; exit 1")
            .run()
            .with_code(1)
            .text()
    };
    let first = key("s --task t");
    assert!(first.len() > 20, "{first:?}");
    assert_eq!(first, key("s --task t"));
    for other in ["s --task t --occurrence 2", "s2 --task t", "s --task u"] {
        assert_ne!(first, key(other), "{other}");
    }
    let begun = place.json("step begin s --task t")["idempotency_key"].clone();
    assert_eq!(begun, first.trim());
}

#[test]
fn a_long_output_passes_through_whole_and_is_kept_as_head_tail_and_hash() {
    let place = at_work();
    let script = "printf HEAD; head -c 3000000 /dev/zero | tr '\\0' x; printf TAIL";
    let first = shell(&place, "s", script).run().with_code(0);
    assert_eq!(first.stdout.len(), 3_000_008);
    let again = shell(&place, "s", script)
        .run()
        .with_code(0)
        .says(&["3000008"]);
    assert!(again.stdout.len() < 1 << 20);
    assert!(again.stdout.starts_with(b"HEADx") && again.stdout.ends_with(b"xTAIL"));
    let call = place
        .relight("--json step run s --task t -- true")
        .run()
        .with_code(0)
        .json();
    assert_eq!(call["cut"]["bytes"], 3_000_008);
    let hash = call["cut"]["hash"]
        .as_str()
        .unwrap()
        .strip_prefix("blake3:")
        .unwrap();
    assert_eq!(hash.len(), 64);
}

#[test]
fn arguments_reach_the_command_literally() {
    let place = at_work();
    let nasty = [
        "; touch pwned",
        "$(touch pwned)",
        "a\nb",
        "-n",
        "--task",
        "",
        "*",
        "'\"\\",
    ];
    let call = place
        .relight("step run s --task t -- printf [%s]")
        .args(nasty);
    let answer = call.run().with_code(0);
    assert_eq!(
        answer.text(),
        nasty.map(|word| format!("[{word}]")).concat()
    );
    assert!(!place.work("pwned").exists());
}

#[test]
fn arguments_that_are_not_text_reach_the_command_too() {
    let place = at_work();
    let script = r#"relight step run s --task t -- printf %s "$(printf 'a\377b')""#;
    assert_eq!(place.shell(script).run().with_code(0).stdout, b"a\xffb");
}

#[test]
fn a_step_name_is_any_printable_text() {
    let place = at_work();
    let name = "send $(the) 'mail'; 2nd try é";
    let run = || {
        place
            .relight("step run")
            .arg(name)
            .args(["--task", "t", "--", "true"])
            .run()
    };
    run().with_code(0);
    assert_eq!(
        place.json("step list --task t")["done_steps"],
        json!([name])
    );
    for bad in ["", "a\nb", "\u{1b}[31m", " x", &"x".repeat(10_000)] {
        place
            .relight("step begin --task t")
            .arg(bad)
            .run()
            .with_code(2);
    }
}

#[test]
fn a_missing_command_is_a_failed_try() {
    let place = at_work();
    let answer = place
        .relight("step run s --task t -- /does/not/exist")
        .run();
    assert_ne!(answer.code, 0);
    answer.says(&["/does/not/exist"]);
    assert_eq!(
        place.json("step list --task t")["items"][0]["state"],
        "failed"
    );
    place.ok("step run s --task t -- true");
}

#[test]
fn no_command_at_all_is_wrong_usage() {
    let place = at_work();
    for words in [
        "s --task t",
        "s --task t --",
        "--task t -- true",
        "s --repeat maybe -- true",
    ] {
        place.fails(&format!("step run {words}"), 2);
    }
    place
        .fails("step run s --task t --repeat verify -- true", 2)
        .says(&["--verify"]);
    place.fails("step run s -- true", 2).says(&["RELIGHT_TASK"]);
    place
        .fails("step run s --task nobody -- true", 1)
        .says(&["there is no task nobody"]);
}

#[test]
fn standard_input_reaches_the_command() {
    let place = at_work();
    let answer = place
        .relight("step run s --task t -- cat")
        .input(b"in\0put")
        .run()
        .with_code(0);
    assert_eq!(answer.stdout, b"in\0put");
}

#[test]
fn a_step_runs_again_when_it_died_and_its_rule_is_keyed_or_repeatable() {
    for rule in ["", "--repeat keyed", "--repeat repeatable"] {
        let place = at_work();
        place.die_in_step(&format!("s --task t {rule}"));
        assert_eq!(place.json("task show t")["in_doubt"], json!(["s"]));
        shell(&place, "s", "echo >> ran").run().with_code(0);
        assert_eq!(place.runs(), 2, "{rule}");
    }
}

#[test]
fn a_shell_agent_killed_in_mid_work_goes_on_after_its_last_finished_step() {
    let place = Place::new();
    let agent = r#"eval "$(relight task start job --step a --step b --owner-pid $$ --export)"
        echo "resumed $RELIGHT_RESUMED next $RELIGHT_NEXT_STEP"
        relight step run a -- sh -c 'echo >> ran; echo made a'
        test -e again || { : > again; kill -9 $$; }
        relight step run b -- sh -c 'echo >> ran; echo made b'
        relight -q task done"#;
    let first = place.shell(agent).run().with_code(137).text();
    let second = place.shell(agent).run().with_code(0).text();
    assert_eq!(first, "resumed 0 next a\nmade a\n");
    assert_eq!(second, "resumed 1 next b\nmade a\nmade b\n");
    assert_eq!(
        (place.runs(), place.status("job").as_str()),
        (2, "completed")
    );
}

#[test]
fn the_idempotency_key_survives_a_kill() {
    let place = at_work();
    let script = "echo $RELIGHT_IDEMPOTENCY_KEY; echo $$; exec sleep 50";
    let mut running = shell(&place, "s", script).spawn();
    let (key, command) = (running.line(), running.line());
    running.kill();
    kill(command.parse().unwrap());
    let again = shell(&place, "s", "echo $RELIGHT_IDEMPOTENCY_KEY")
        .run()
        .with_code(0);
    assert_eq!(again.text().trim(), key);
}

const VERIFY: [&str; 3] = ["--repeat", "verify", "--verify"];

/// A step of the rule `verify` that died, asked about by this script.
fn verified_by(place: &Place, question: &str) -> cases::Answer {
    place.die_in_step("s --task t --repeat verify --verify false");
    let call = place
        .relight("step run s --task t")
        .args(VERIFY)
        .arg(question);
    call.args(["--", "sh", "-c", "echo >> ran; echo again"])
        .run()
}

#[test]
fn verify_0_says_that_it_happened_and_nothing_runs() {
    let place = at_work();
    verified_by(&place, "exit 0").with_code(0);
    assert_eq!(place.runs(), 1);
    assert_eq!(place.json("task show t")["done_steps"], json!(["s"]));
}

#[test]
fn verify_1_says_that_it_did_not_and_it_runs() {
    let place = at_work();
    assert_eq!(verified_by(&place, "exit 1").with_code(0).text(), "again\n");
    assert_eq!(place.runs(), 2);
}

#[test]
fn verify_2_cannot_tell_and_blocks_the_task() {
    let place = at_work();
    verified_by(&place, "exit 2")
        .with_code(75)
        .says(&["in doubt", "step resolve"]);
    assert_eq!(place.runs(), 1);
    assert_eq!(place.status("t"), "blocked");
}

#[test]
fn verify_that_died_by_a_signal_cannot_tell_either() {
    let place = at_work();
    verified_by(&place, "kill -9 $$").with_code(75);
    assert_eq!((place.runs(), place.status("t").as_str()), (1, "blocked"));
}

#[test]
fn the_question_of_verify_knows_task_and_key() {
    let place = at_work();
    verified_by(
        &place,
        r#"test "$RELIGHT_TASK" = t && test -n "$RELIGHT_IDEMPOTENCY_KEY""#,
    )
    .with_code(0);
    assert_eq!(place.runs(), 1);
}

#[test]
fn once_is_never_repeated_by_itself_and_blocks_the_task() {
    let place = at_work();
    place.die_in_step("s --task t --repeat once");
    let again = shell(&place, "s --repeat once", "echo >> ran")
        .run()
        .with_code(75);
    again.says(&[
        "in doubt",
        "relight step resolve",
        "--task t",
        "--happened",
        "--did-not",
    ]);
    assert_eq!((place.runs(), place.status("t").as_str()), (1, "blocked"));
    shell(&place, "s --repeat once", "echo >> ran")
        .run()
        .with_code(75);
    assert_eq!(place.runs(), 1);
}

#[test]
fn once_that_is_being_run_is_left_to_its_runner() {
    let place = at_work();
    let script = "echo up; until test -e go; do sleep 0.02; done";
    let mut running = shell(&place, "s --repeat once --fence 1", script).spawn();
    running.line();
    shell(&place, "s --repeat once", "echo >> ran")
        .run()
        .with_code(75);
    fs::write(place.work("go"), "").unwrap();
    running.end().with_code(0);
    assert_eq!(place.json("task show t")["done_steps"], json!(["s"]));
}

#[test]
fn once_that_happened_is_finished() {
    let place = at_work();
    place.die_in_step("s --task t --repeat once");
    shell(&place, "s", "true").run().with_code(75);
    place.ok("step resolve s --task t --happened");
    place.ok("task start t");
    shell(&place, "s", "echo >> ran").run().with_code(0);
    assert_eq!(place.runs(), 1);
}

#[test]
fn once_that_did_not_happen_runs_again() {
    let place = at_work();
    place.die_in_step("s --task t --repeat once");
    shell(&place, "s", "true").run().with_code(75);
    place.ok("step resolve s --task t --did-not");
    place.ok("task start t");
    shell(&place, "s", "echo >> ran").run().with_code(0);
    assert_eq!(place.runs(), 2);
}

#[test]
fn once_that_is_ended_after_all_lets_its_task_go_on() {
    for (outcome, steps) in [("", json!(["s"])), (" --failed", json!([]))] {
        let place = at_work();
        place.die_in_step("s --task t --repeat once");
        shell(&place, "s", "true").run().with_code(75);
        assert_eq!(place.status("t"), "blocked");
        place.ok(&format!("step end s --task t{outcome}"));
        assert_eq!(place.status("t"), "assigned");
        assert_eq!(place.json("task show t")["done_steps"], steps);
    }
    // One that was blocked for another reason stays so.
    let place = at_work();
    place.ok("step begin s --task t --repeat once");
    place.ok("task block t --reason look");
    place.ok("step end s --task t");
    assert_eq!(place.status("t"), "blocked");
}

#[test]
fn once_that_failed_in_the_open_is_not_in_doubt() {
    let place = at_work();
    shell(&place, "s --repeat once", "echo >> ran; exit 1")
        .run()
        .with_code(1);
    shell(&place, "s --repeat once", "echo >> ran")
        .run()
        .with_code(0);
    assert_eq!(place.runs(), 2);
}

#[test]
fn the_rule_recorded_at_the_begin_holds() {
    let place = at_work();
    place.die_in_step("s --task t --repeat once");
    shell(&place, "s --repeat repeatable", "echo >> ran")
        .run()
        .with_code(75);
    assert_eq!(place.runs(), 1);
}

#[test]
fn a_looser_rule_recorded_at_the_begin_holds_too() {
    let place = at_work();
    place.die_in_step("s --task t --repeat repeatable");
    let again = shell(&place, "s --repeat once", "echo >> ran")
        .run()
        .with_code(0);
    again.says(&["repeatable"]);
    assert_eq!(place.runs(), 2);
}

#[test]
fn resolve_raises_the_fence() {
    let place = at_work();
    place.die_in_step("s --task t --fence 1");
    place.ok("step resolve s --task t --happened");
    place.fails("step begin x --task t --fence 1", 77);
}

#[test]
fn resolve_needs_something_in_doubt_and_one_answer() {
    let place = at_work();
    place
        .fails("step resolve s --task t --happened", 1)
        .says(&["not in doubt"]);
    place.fails("step resolve s --task t", 2);
    place.fails("step resolve s --task t --happened --did-not", 2);
}

#[test]
fn begin_says_go_then_again_then_finished() {
    let place = at_work();
    assert_eq!(place.json("step begin s --task t")["advice"], "go");
    assert_eq!(place.json("step begin s --task t")["advice"], "again");
    place.ok("step end s --task t");
    let finished = place.fails("--json step begin s --task t", 1).json();
    assert_eq!(finished["advice"], "finished");
}

#[test]
fn begin_of_a_once_step_in_doubt_is_75_and_blocks() {
    let place = at_work();
    place.ok("step begin s --task t --repeat once");
    place
        .fails("step begin s --task t", 75)
        .says(&["step resolve"]);
    assert_eq!(place.status("t"), "blocked");
}

#[test]
fn end_keeps_the_output_that_a_later_run_replays() {
    let place = at_work();
    fs::write(place.work("out.bin"), b"made \x00\xff").unwrap();
    place.ok("step begin s --task t");
    place.ok("step end s --task t --output out.bin");
    assert_eq!(
        shell(&place, "s", "echo >> ran").run().with_code(0).stdout,
        b"made \x00\xff"
    );
    place.ok("step begin p --task t");
    place
        .relight("step end p --task t --output -")
        .input(b"piped")
        .run()
        .with_code(0);
    assert_eq!(
        shell(&place, "p", "echo >> ran").run().with_code(0).stdout,
        b"piped"
    );
    assert_eq!(place.runs(), 0);
}

#[test]
fn end_of_what_was_not_begun_is_refused() {
    let place = at_work();
    place
        .fails("step end s --task t", 1)
        .says(&["was not begun", "relight step begin"]);
    place.ok("step begin s --task t");
    place
        .fails("step end s --task t --output missing.txt", 2)
        .says(&["missing.txt"]);
    place.ok("step end s --task t --failed");
    assert_eq!(place.json("step begin s --task t")["advice"], "go");
    place.ok("step end s --task t");
    place.ok("step end s --task t");
    place.fails("step end s --task t --failed", 1);
}

#[test]
fn steps_of_a_finished_task_are_refused_and_its_finished_ones_still_replay() {
    let place = at_work();
    shell(&place, "s", "echo kept").run().with_code(0);
    place.ok("task done t");
    place.fails("step begin x --task t", 1).says(&["completed"]);
    assert_eq!(
        shell(&place, "s", "echo >> ran").run().with_code(0).text(),
        "kept\n"
    );
}

/// The command of a step may complete its task: the step ends all the same, with the command's own code.
#[test]
fn a_step_in_which_its_task_is_completed_has_its_end() {
    let place = at_work();
    for (task, words, code) in [
        ("t", "", 0),
        ("t7", "--accept 7", 7),
        ("failed", "", 3),
        ("costly", "--cost 1.5", 0),
    ] {
        for fence in ["", "--fence 1"] {
            let task = format!("{task}{}", fence.len());
            match fence {
                "" => place.ok(&format!("task add {task}")),
                _ => place.ok(&format!("task start {task}")),
            };
            let words = format!("step run last --task {task} {fence} {words} --");
            let script = format!("echo said; relight task done {task} >&2; exit {code}");
            let run = place.relight(&words).args(["sh", "-c", &script]).run();
            let ran = run.with_code(code);
            assert_eq!(ran.text(), "said\n", "{words}");
            assert!(!ran.stderr.contains("doubt"), "{}", ran.stderr);
            let shown = place.json(&format!("task show {task}"));
            let step = place.json(&format!("step show last --task {task}"));
            let state = if code == 3 { "failed" } else { "done" };
            assert_eq!(
                (&shown["status"], &step["state"]),
                (&json!("completed"), &json!(state))
            );
            if words.contains("--cost") {
                assert_eq!(shown["cost"], "1.5");
            }
        }
    }
}

/// Whoever took the task over after it was completed is not written over, and nobody ends what a person cancelled.
#[test]
fn a_step_of_a_task_that_was_taken_away_meanwhile_has_no_end() {
    let place = at_work();
    place.ok("task start own");
    let cancelled = "relight task cancel own";
    let words = "step run last --task own --fence 1 --";
    place
        .relight(words)
        .args(["sh", "-c", cancelled])
        .run()
        .with_code(77);
}

#[test]
fn a_holder_that_lost_its_lease_while_a_step_ran_records_nothing() {
    let place = at_work();
    let mut running = shell(
        &place,
        "s --fence 1",
        "echo up; until test -e go; do sleep 0.02; done",
    )
    .spawn();
    running.line();
    place.ok("task release t --force");
    fs::write(place.work("go"), "").unwrap();
    let late = running.end();
    assert_eq!(late.code, 77, "{}", late.stderr);
    assert_eq!(place.json("step list --task t")["done_steps"], json!([]));
}

#[test]
fn sigterm_reaches_the_command() {
    let place = at_work();
    let script = "trap 'echo told; exit 9' TERM; echo up; while :; do sleep 0.05; done";
    let mut running = shell(&place, "s", script).spawn();
    running.line();
    running.signal(Signal::TERM);
    let ended = running
        .end()
        .with_code(143)
        .says(&["told to end by signal 15", "in doubt"]);
    assert_eq!(ended.text(), "told\n");
    assert_eq!(place.json("task show t")["in_doubt"], json!(["s"]));
}

#[test]
fn a_command_that_succeeds_although_it_was_told_to_end_is_finished() {
    let place = at_work();
    let script = "trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done";
    let mut running = shell(&place, "s --repeat once", script).spawn();
    running.line();
    running.signal(Signal::TERM);
    running.end().with_code(0);
    assert_eq!(place.json("task show t")["done_steps"], json!(["s"]));
}

#[test]
fn a_step_whose_output_nobody_reads_is_recorded_all_the_same() {
    let place = at_work();
    let script = "echo up; sleep 0.1; head -c 300000 /dev/zero; echo >> ran";
    let mut running = shell(&place, "s", script).spawn();
    running.line();
    running.close_output();
    running.end().with_code(0);
    assert_eq!(place.json("task show t")["done_steps"], json!(["s"]));
}

#[test]
fn list_shows_each_step_with_its_state() {
    let place = Place::new();
    place.ok("task start t --step a --step b --step c");
    shell(&place, "a", "true").run().with_code(0);
    place.ok("step begin b --task t --repeat once");
    let list = place.json("step list --task t");
    assert_eq!(
        (&list["items"][0]["state"], &list["items"][1]["state"]),
        (&json!("done"), &json!("begun"))
    );
    assert_eq!(list["items"][1]["rule"], "once");
    assert_eq!(
        (&list["in_doubt"], &list["next_step"]),
        (&json!([]), &json!("b"))
    );
    let text = place.ok("step list --task t").text();
    for word in ["running", "to do", "done"] {
        assert!(text.contains(word), "{text}");
    }
}

#[test]
fn a_skipped_step_is_closed_not_run_and_stands_in_the_journal() {
    let place = Place::new();
    place.ok("task start t --step a --step b");
    place.fails("step skip a --task t", 2).says(&["--reason"]);
    place
        .fails("step skip c --task t --reason no", 1)
        .says(&["no step c"]);
    place.ok("step skip a --task t --reason not-needed");
    place.ok("step skip a --task t --reason not-needed");
    assert_eq!(
        place.json("step end a --task t")["outcome"],
        "skipped",
        "it stays so"
    );
    shell(&place, "a", "echo >> ran").run().with_code(0);
    assert_eq!(place.runs(), 0);
    let shown = place.json("task show t");
    assert_eq!(
        (&shown["skipped_steps"], &shown["next_step"]),
        (&json!(["a"]), &json!("b"))
    );
    assert_eq!(shown["steps"][0]["state"], "skipped");
    let events = place
        .ok("--json events --task t --kind step.skipped")
        .text();
    assert_eq!(events.lines().count(), 1, "{events}");
    assert!(events.contains("not-needed"), "{events}");
}

#[test]
fn a_step_in_doubt_is_not_skipped() {
    let place = Place::new();
    place.ok("task start t --step pay");
    place.ok("step begin pay --task t --repeat once");
    place
        .fails("step skip pay --task t --reason no", 1)
        .says(&["begun and not ended", "resolve"]);
    place.ok("step end pay --task t --failed");
    place.ok("step skip pay --task t --reason no");
    place.fails("step end pay --task t --failed", 1);
}

#[test]
fn a_step_is_skipped_under_the_fence_of_the_holder() {
    let place = Place::new();
    place.ok("task start t --step a");
    place.fails("step skip a --task t --fence 9 --reason no", 77);
    place.ok("step skip a --task t --fence 1 --reason no");
}

#[test]
fn a_step_timeout_of_0s_is_no_limit() {
    let place = at_work();
    shell(&place, "s --timeout 0s", "sleep 0.3")
        .run()
        .with_code(0);
}

#[test]
fn a_step_that_was_stopped_for_its_timeout_says_so_and_it_is_recorded() {
    let place = at_work();
    let text = "step s took longer than --timeout 100ms and was stopped";
    shell(&place, "s --timeout 100ms", "exec sleep 50")
        .run()
        .with_code(124)
        .says(&[text]);
    assert!(!place.files_with(text.as_bytes()).is_empty());
    let json = place
        .relight("--json step run s --timeout 100ms --task t -- sleep 50")
        .run();
    assert_eq!(json.json()["timed_out"], true);
    let once = shell(&place, "o --repeat once --timeout 100ms", "exec sleep 50").run();
    once.with_code(124)
        .says(&["it took longer than --timeout", "in doubt"]);
}

/// A task that a live process holds, with a step that it has begun.
fn held_by_a_process(place: &Place) -> cases::Running {
    let mut owner = place.shell("echo up; exec sleep 300").spawn();
    owner.line();
    place.ok(&format!(
        "task start t --step pay --step mail --owner-pid {}",
        owner.pid()
    ));
    place.ok("step begin pay --task t --fence 1 --repeat once");
    owner
}

#[test]
fn the_work_of_a_live_process_is_refused_to_a_stranger() {
    let place = Place::new();
    let owner = held_by_a_process(&place);
    let before = place.json("task show t");
    for words in [
        "step begin pay --task t",
        "step end pay --task t",
        "step run pay --task t -- touch ran",
        "step begin mail --task t",
        "step run mail --task t -- touch ran",
        "step skip mail --task t --reason no",
        "task done t --force",
        "task fail t --reason r",
        "task block t --reason r",
        "task defer t --until 1h",
        "task review t",
    ] {
        let refused = place.fails(words, 75);
        refused.says(&["held by process", "relight task release t --force"]);
    }
    assert_eq!(place.json("task show t"), before);
    assert!(!place.work("ran").exists());
    place.ok("step end pay --task t --fence 1");
    owner.kill();
    place.ok("step run mail --task t -- touch ran");
}

#[test]
fn a_child_of_the_holder_needs_no_fence() {
    let place = Place::new();
    let script = r"relight -q task start t --step a --owner-pid $$
        (relight -q step begin a --task t; bash -c 'relight -q step end a --task t; :')
        relight -q task done t; exit $?";
    place.shell(script).run().with_code(0);
    assert_eq!(place.status("t"), "completed");
}

#[test]
fn a_step_begun_under_a_timed_lease_is_left_to_who_shows_the_fence() {
    let place = at_work();
    place.ok("step begin s --task t --fence 1 --repeat once");
    for words in [
        "step begin s --task t",
        "step end s --task t",
        "step run s --task t -- true",
    ] {
        place.fails(words, 75).says(&["held by"]);
    }
    assert_eq!(place.status("t"), "in_progress");
    place.ok("step end s --task t --fence 1");
}

#[test]
fn a_step_in_doubt_is_asked_about_only_by_who_may_work_on_it() {
    let place = Place::new();
    let mut owner = place.shell("echo up; exec sleep 300").spawn();
    owner.line();
    place.ok(&format!("task start t --owner-pid {}", owner.pid()));
    place.ok("step begin s --task t --fence 1 --repeat verify");
    let call = place
        .relight("step run s --task t")
        .args(VERIFY)
        .arg("touch asked; exit 0");
    call.args(["--", "true"])
        .run()
        .with_code(75)
        .says(&["held by"]);
    assert!(!place.work("asked").exists());
    owner.kill();
}

#[test]
fn the_command_of_a_step_gets_the_fence_of_its_task() {
    let place = at_work();
    let told = |words: &str| {
        let call = place.relight(&format!("step run {words} --task t -- sh -c"));
        let call = call.env("RELIGHT_TASK", "other").env("RELIGHT_FENCE", "7");
        call.arg("echo \"$RELIGHT_TASK ${RELIGHT_FENCE-none}\"")
            .run()
            .with_code(0)
            .text()
    };
    assert_eq!(told("a --fence 1"), "t 1\n");
    assert_eq!(told("b"), "t none\n");
}

#[test]
fn a_pipe_or_device_as_output_is_refused_and_not_waited_for() {
    let place = Place::new();
    place.ok("task start t");
    place.ok("step begin s --task t --fence 1");
    place.shell("mkfifo pipe").run().with_code(0);
    for output in ["pipe", "/dev/zero"] {
        let words = format!("step end s --task t --fence 1 --output {output}");
        place
            .fails(&words, 2)
            .says(&["not a regular file", "--output -"]);
    }
    place
        .relight("step end s --task t --fence 1 --output -")
        .input(b"made")
        .run()
        .with_code(0);
}

/// The step `long` of task `t` runs until the file `go` is there; its holder was killed.
fn orphan_runs_long(place: &Place) {
    place.ok("task add t");
    let script = "eval \"$(relight task claim --agent w1 --owner-pid $$ --export)\"\n\
        relight step run long -- sh -c 'echo begun; until [ -e go ]; do sleep 0.05; done'\n";
    let mut first = place.shell(script).spawn();
    assert_eq!(first.line(), "begun");
    cases::kill(first.pid());
}

#[test]
fn a_step_that_an_orphan_runs_is_not_given_to_anybody_else() {
    let place = Place::new();
    orphan_runs_long(&place);
    place
        .fails("task claim --agent w2", 1)
        .says(&["there is no task"]);
    place.fails("step begin long --task t", 75).says(&["long"]);
    place
        .fails("step begin long --task t --fence 1", 75)
        .says(&["long"]);
    assert_eq!(place.json("recover --dry-run")["findings"], json!([]));
    place.ok("recover");
    assert_eq!(place.status("t"), "in_progress");
    std::fs::write(place.work("go"), "").unwrap();
    let wait = "for _ in $(seq 2000); do relight step list --task t | grep -q done && exit 0\n\
        sleep 0.05; done; exit 1";
    place.shell(wait).run().with_code(0);
    place.ok("task claim --agent w2");
    let again = place.ok("step run long --task t -- touch again").text();
    assert_eq!(again, "begun\n");
    assert!(!place.work("again").exists(), "it ran twice");
}

/// A lease by time runs out when whoever renewed it was killed; the command of its step may still run.
#[test]
fn a_step_whose_runner_was_killed_is_not_given_away_with_its_time_lease() {
    let place = Place::new();
    place.ok("task start t --agent w1 --lease 1s");
    let mut runner = place
        .shell(
            "exec relight step run long --task t --fence 1 -- \\
             sh -c 'echo begun; until [ -e go ]; do sleep 0.05; done'",
        )
        .spawn();
    assert_eq!(runner.line(), "begun");
    cases::kill(runner.pid());
    let is_over = "for _ in $(seq 2000); do relight task show t --json | grep -q '\"alive\": false' && exit 0\n\
        sleep 0.05; done; exit 1";
    place.shell(is_over).run().with_code(0);
    place.ok("recover");
    assert_eq!(place.status("t"), "in_progress", "its command runs");
    place.fails("task start t --agent w1", 75).says(&["long"]);
    std::fs::write(place.work("go"), "").unwrap();
    let taken = "for _ in $(seq 2000); do relight recover >&2; \\
        relight task show t --json | grep -q '\"status\": \"interrupted\"' && exit 0; sleep 0.05; done; exit 1";
    place.shell(taken).run().with_code(0);
}

#[test]
fn a_step_that_still_runs_is_not_run_again_under_a_newer_lease() {
    let place = Place::new();
    orphan_runs_long(&place);
    place.ok("task fail t --reason x");
    let fence = place.json("task claim --agent w2")["fence"].clone();
    let again = format!("step run long --task t --fence {fence} -- touch again");
    place.fails(&again, 75).says(&["is still being run"]);
    place.fails(&format!("step begin long --task t --fence {fence}"), 75);
    place.fails("step resolve long --task t --did-not", 75);
    std::fs::write(place.work("go"), "").unwrap();
    let over =
        format!("for _ in $(seq 2000); do relight {again} && exit 0; sleep 0.05; done; exit 1");
    place.shell(&over).run().with_code(0);
    assert!(
        place.work("again").exists(),
        "its end was refused, so its rule lets it run again"
    );
}

/// Whoever works without a lease is known to be gone when neither its `step run` nor the command lives.
#[test]
fn a_step_run_without_a_lease_that_was_killed_does_not_keep_its_task_running() {
    let place = Place::new();
    place.ok("task add t");
    let mut runner = place
        .shell("exec relight step run a --task t -- sh -c 'echo $$; exec sleep 600'")
        .spawn();
    let command: u32 = runner.line().parse().unwrap();
    assert_eq!(
        place.ok("recover").text().trim(),
        "nothing to recover",
        "it runs"
    );
    place.fails("task claim --agent w", 1);
    cases::kill(runner.pid());
    assert_eq!(
        place.ok("recover").text().trim(),
        "nothing to recover",
        "its command runs"
    );
    cases::kill(command);
    let found = place.json("recover --dry-run")["waiting"].clone();
    assert_eq!(
        (&found[0]["task"], &found[0]["status"]),
        (&json!("t"), &json!("in_progress"))
    );
    assert_eq!(place.json("task claim --agent w")["in_doubt"], json!(["a"]));
}

/// It was cut off before; who begins it again is not the one who was killed.
#[test]
fn a_step_that_is_begun_again_without_a_lease_is_not_taken_for_the_killed_one() {
    let place = Place::new();
    place.ok("task add t");
    let mut runner = place
        .shell("exec relight step run a --task t -- sh -c 'echo $$; exec sleep 600'")
        .spawn();
    let command: u32 = runner.line().parse().unwrap();
    cases::kill(runner.pid());
    cases::kill(command);
    place.ok("step begin a --task t");
    assert_eq!(place.ok("recover").text().trim(), "nothing to recover");
    place.ok("step end a --task t");
}

/// Nothing is wrong with the program: it can be run later, and it is known that it was not.
#[test]
fn a_host_without_free_descriptors_is_75_and_the_step_is_run_later() {
    let place = Place::new();
    place.ok("task start t --lease 1h");
    let mut refused = Vec::new();
    for files in 6..40 {
        let script =
            format!("ulimit -n {files}; exec relight step run s{files} --task t --fence 1 -- true");
        let answer = place.shell(&script).run();
        assert_ne!(answer.code, 126, "{files}: {}", answer.stderr);
        if answer.stderr.contains("cannot start true") {
            assert_eq!(answer.code, 75, "{files}: {}", answer.stderr);
            refused.push(files);
        }
    }
    assert!(
        !refused.is_empty(),
        "no limit let it begin the step and not start the program"
    );
    for files in refused {
        place.ok(&format!(
            "step run s{files} --task t --fence 1 --repeat once -- true"
        ));
    }
    assert_eq!(place.json("inflight")["in_doubt"], json!([]));
}

#[test]
fn a_terminal_gets_nothing_of_a_record_that_it_would_obey() {
    let place = Place::new();
    if !std::path::Path::new("/usr/bin/script").exists() {
        eprintln!("SKIPPED: there is no script(1) to make a terminal with");
        return;
    }
    place
        .relight("task start t --set")
        .arg("note=a\u{1b}]0;owned\u{7}b")
        .run()
        .with_code(0);
    let printf = ["printf", "x\\033]0;owned\\007y\\n"];
    place
        .relight("step run s --task t --")
        .args(printf)
        .run()
        .with_code(0);
    let replayed = place
        .relight("step run s --task t --")
        .args(printf)
        .run()
        .with_code(0);
    assert_eq!(
        replayed.stdout, b"x\x1b]0;owned\x07y\n",
        "a replay into a pipe is exact"
    );
    place.ok("task release t --force");
    for words in ["step run s --task t -- printf", "task start t --export"] {
        let shown = place
            .shell(&format!("script -qec 'relight {words}' /dev/null"))
            .run();
        assert!(!shown.stdout.contains(&0x07), "{words}: {}", shown.text());
        assert!(
            !String::from_utf8_lossy(&shown.stdout).contains("\u{1b}]"),
            "{words}"
        );
    }
    place.ok("task release t --force");
    let bash = "eval \"$(relight task start t --export)\"; printf %s \"$RELIGHT_CONTEXT_NOTE\"";
    assert_eq!(place.shell(bash).run().stdout, b"a\x1b]0;owned\x07b");
}

#[test]
fn a_step_is_shown_with_its_output_and_how_long_it_took() {
    let place = at_work();
    shell(&place, "build", "echo made; echo careful >&2; exit 3")
        .run()
        .with_code(3);
    shell(&place, "build", "echo made again").run().with_code(0);
    let shown = place.json("step show build --task t");
    assert_eq!(
        (&shown["state"], &shown["tries"]),
        (&json!("done"), &json!(2))
    );
    assert_eq!(shown["output"], "made again\n");
    let text = place.ok("step show build --task t").text();
    assert!(
        text.contains("took") && text.contains("exit code  0"),
        "{text}"
    );
    assert_eq!(
        place.ok("step output build --task t").text(),
        "made again\n"
    );
    let listed = place.ok("step list --task t").text();
    let took = listed
        .lines()
        .nth(1)
        .unwrap()
        .split_whitespace()
        .nth(4)
        .unwrap();
    assert!(took.ends_with('s'), "{listed}");
    place.ok("step begin open --task t");
    place
        .relight("step output open --task t")
        .run()
        .with_code(1);
    place
        .relight("step show nosuch --task t")
        .run()
        .with_code(1);
}
