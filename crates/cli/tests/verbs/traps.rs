//! `relight trap bash`, with a real bash.

use crate::relight;

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};

use relight::Stage;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const TAKE: &str = "set -euo pipefail\n\
    eval \"$(\"$RELIGHT\" task start t --owner-pid $$ --export)\"\n";
const TRAP: &str = "eval \"$(\"$RELIGHT\" trap bash)\"\n";
/// Bash runs a trap once the command in the foreground has ended, so these are short; a minute at most.
const WAIT: &str = "echo ready; for i in {1..600}; do sleep 0.1; done\n";

#[expect(
    clippy::disallowed_methods,
    reason = "the door of the product is not tested by itself"
)]
fn bash(stage: &Stage, script: &str) -> Child {
    let mut command = Command::new("bash");
    command
        .args(["-c", script])
        .current_dir(stage.folder.path().join("work"))
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("RELIGHT", env!("CARGO_BIN_EXE_relight"))
        .env("RELIGHT_HOME", stage.folder.path().join("home"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit());
    command.spawn().unwrap()
}

/// Runs the script to its end, with the signal once it is ready; answers its exit code (128+n for a
/// signal) and what it printed.
fn end(stage: &Stage, script: &str, signal: Option<Signal>) -> (i32, String) {
    let mut child = bash(stage, script);
    let mut printed = String::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        match (line.as_str(), signal) {
            ("ready", Some(signal)) => kill_process(Pid::from_child(&child), signal).unwrap(),
            _ => printed += &(line + "\n"),
        }
    }
    let status = child.wait().unwrap();
    (
        status
            .code()
            .unwrap_or_else(|| 128 + status.signal().unwrap()),
        printed,
    )
}

/// Status and reason of the task.
fn task(stage: &Stage) -> (String, Option<String>) {
    let ran = stage.run(&["task", "show", "t", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let task: Value = serde_json::from_str(&ran.stdout).unwrap();
    let text = |name: &str| task[name].as_str().map(str::to_owned);
    (text("status").unwrap(), text("reason"))
}

fn interrupted(reason: &str) -> (String, Option<String>) {
    ("interrupted".to_owned(), Some(reason.to_owned()))
}

#[test]
fn a_signal_is_recorded_and_the_shell_dies_of_it_as_ever() {
    for (signal, name, code) in [
        (Signal::TERM, "TERM", 143),
        (Signal::INT, "INT", 130),
        (Signal::HUP, "HUP", 129),
    ] {
        let stage = Stage::new();
        let (ended, _) = end(&stage, &[TAKE, TRAP, WAIT].concat(), Some(signal));
        assert_eq!(ended, code);
        assert_eq!(task(&stage), interrupted(&format!("signal {name}")));
    }
}

#[test]
fn a_task_of_the_queue_returns_to_it_unless_its_strategy_keeps_it() {
    let claim = "set -euo pipefail\n\
        eval \"$(\"$RELIGHT\" task claim --agent one --owner-pid $$ --export)\"\n";
    for (strategy, other) in [("fail-and-reassign", 0), ("resume", 1)] {
        let stage = Stage::new();
        let added = stage.run(&["task", "add", "t", "--strategy", strategy]);
        assert_eq!(added.code, 0, "{}", added.stderr);
        let (ended, _) = end(&stage, &[claim, TRAP, WAIT].concat(), Some(Signal::TERM));
        assert_eq!(ended, 143);
        assert_eq!(task(&stage), interrupted("signal TERM"));
        let claimed = stage.run(&["task", "claim", "--agent", "other"]);
        assert_eq!(claimed.code, other, "{strategy}: {}", claimed.stderr);
    }
}

#[test]
fn an_exit_before_the_end_is_recorded_with_its_code() {
    let stage = Stage::new();
    assert_eq!(end(&stage, &[TAKE, TRAP, "exit 7"].concat(), None).0, 7);
    assert_eq!(task(&stage), interrupted("exit 7"));
    let stage = Stage::new();
    let script = [TAKE, TRAP, "false; echo not reached"].concat();
    assert_eq!(end(&stage, &script, None), (1, String::new()));
    assert_eq!(task(&stage), interrupted("exit 1"));
    let stage = Stage::new();
    assert_eq!(end(&stage, &[TAKE, TRAP, "true"].concat(), None).0, 0);
    assert_eq!(task(&stage), interrupted("exit 0 before the task was done"));
}

#[test]
fn what_was_finished_stays_so() {
    let stage = Stage::new();
    let script = [TAKE, TRAP, "\"$RELIGHT\" -q task done\n", WAIT].concat();
    assert_eq!(end(&stage, &script, Some(Signal::TERM)).0, 143);
    assert_eq!(task(&stage), ("completed".to_owned(), None));
    let stage = Stage::new();
    let script = [TAKE, TRAP, "\"$RELIGHT\" -q task block --reason why\n"].concat();
    assert_eq!(end(&stage, &script, None).0, 0);
    assert_eq!(task(&stage), ("blocked".to_owned(), Some("why".to_owned())));
}

#[test]
fn your_own_traps_run_and_see_the_code_that_it_was() {
    let stage = Stage::new();
    let yours = r#"trap 'echo "yours: $?"; echo "it'\''s $0"' EXIT
"#;
    let (code, printed) = end(&stage, &[TAKE, yours, TRAP, "exit 7"].concat(), None);
    assert_eq!((code, printed.as_str()), (7, "yours: 7\nit's bash\n"));
    assert_eq!(task(&stage), interrupted("exit 7"));
    let stage = Stage::new();
    let yours = "trap 'echo told; exit 9' TERM; trap 'echo ended' EXIT\n";
    let (code, printed) = end(
        &stage,
        &[TAKE, yours, TRAP, WAIT].concat(),
        Some(Signal::TERM),
    );
    assert_eq!((code, printed.as_str()), (9, "told\nended\n"));
    assert_eq!(task(&stage), interrupted("signal TERM"));
}

#[test]
fn a_loop_that_goes_on_after_a_signal_keeps_its_task() {
    let stage = Stage::new();
    let yours = "go=1; trap 'go=0' TERM\n";
    let rest = "echo ready; while [ $go = 1 ]; do sleep 0.1; done\n\
                \"$RELIGHT\" -q step run last -- true; \"$RELIGHT\" -q task done\n";
    let script = [TAKE, yours, TRAP, rest].concat();
    assert_eq!(end(&stage, &script, Some(Signal::TERM)).0, 0);
    assert_eq!(task(&stage).0, "completed");
}

#[test]
fn a_signal_that_is_ignored_stays_ignored() {
    let stage = Stage::new();
    let rest = "kill -TERM $$; echo lives; exit 4\n";
    let script = [TAKE, "trap '' TERM\n", TRAP, rest].concat();
    assert_eq!(end(&stage, &script, None), (4, "lives\n".to_owned()));
    assert_eq!(task(&stage), interrupted("exit 4"));
}

#[test]
fn a_relight_that_fails_changes_nothing_for_the_loop() {
    let stage = Stage::new();
    let broken = "export RELIGHT_STORE=postgres://nowhere\n";
    let (code, printed) = end(&stage, &[TAKE, TRAP, broken, "exit 7"].concat(), None);
    assert_eq!((code, printed.as_str()), (7, ""));
    assert_eq!(task(&stage).0, "in_progress");
}

#[test]
fn without_a_task_or_under_a_supervisor_nothing_is_recorded() {
    let stage = Stage::new();
    assert_eq!(
        end(
            &stage,
            &["set -euo pipefail\n", TRAP, "exit 7"].concat(),
            None
        )
        .0,
        7
    );
    assert!(!stage.folder.path().join("home").exists());
    let supervised = "export RELIGHT_ATTEMPT=writer.1.00000000000a\n";
    assert_eq!(
        end(&stage, &[TAKE, TRAP, supervised, "exit 7"].concat(), None).0,
        7
    );
    assert_eq!(task(&stage).0, "in_progress");
}

#[test]
fn a_task_that_somebody_else_took_is_theirs() {
    let stage = Stage::new();
    let lost = "\"$RELIGHT\" -q task release --force\n\
                env -u RELIGHT_FENCE \"$RELIGHT\" -q task start t --lease 5m\n";
    assert_eq!(
        end(&stage, &[TAKE, TRAP, lost, "exit 7"].concat(), None).0,
        7
    );
    assert_eq!(task(&stage).0, "in_progress");
}
