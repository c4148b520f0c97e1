//! `relight completions` and `relight man`, from outside.

use std::path::Path;
use std::process::Command;

use crate::relight;

use relight::Stage;

#[test]
fn every_shell_gets_a_script_and_an_unknown_one_is_refused() {
    let stage = Stage::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = stage.run(&["completions", shell]);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(
            ran.stdout.contains("relight") && ran.stdout.contains("checkpoint"),
            "{shell}"
        );
    }
    let fish = stage.run(&["completions", "fish"]).stdout;
    for option in ["agent", "preset", "task"] {
        let names = format!("-l {option} -x -a '(__relight_names)'");
        assert!(fish.contains(&names), "values of --{option}");
    }
    let ran = stage.run(&["completions", "tcsh"]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("possible values"), "{ran:?}");
}

#[test]
fn every_command_has_its_page() {
    let stage = Stage::new();
    std::fs::create_dir(stage.folder.path().join("work/man")).unwrap();
    let ran = stage.run(&["man", "--dir", "man/man1"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let folder = stage.folder.path().join("work/man/man1");
    for page in [
        "relight.1",
        "relight-task-start.1",
        "relight-setup-agents-md.1",
    ] {
        let text = std::fs::read_to_string(folder.join(page)).unwrap();
        assert!(
            text.contains(".SH \"EXIT STATUS\"") && text.contains(".SH EXAMPLES"),
            "{page}"
        );
    }
    assert!(folder.join("relight-task.1").exists());
    assert!(!folder.join("relight-help.1").exists());
    let one = stage.run(&["man"]);
    assert_eq!(
        one.stdout,
        std::fs::read_to_string(folder.join("relight.1")).unwrap()
    );
}

#[test]
fn a_folder_that_cannot_be_made_is_an_io_error() {
    let stage = Stage::new();
    std::fs::write(stage.folder.path().join("work/file"), "").unwrap();
    let ran = stage.run(&["man", "--dir", "file"]);
    assert_eq!(ran.code, 74);
    assert!(ran.stderr.contains("file"), "{ran:?}");
}

#[expect(
    clippy::disallowed_methods,
    reason = "a shell of the test, not of the product"
)]
/// What bash would offer after this line, which ends at the cursor.
fn offered_by_bash(stage: &Stage, line: &str) -> Vec<String> {
    let binary = Path::new(env!("CARGO_BIN_EXE_relight"));
    let _ = std::os::unix::fs::symlink(binary, stage.folder.path().join("bin/relight"));
    let script = r#"
        source <(relight completions bash)
        COMP_LINE=$1 COMP_POINT=${#1}
        read -ra COMP_WORDS <<<"$1"
        [[ $1 == *' ' ]] && COMP_WORDS+=("")
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        _relight relight "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let relight = stage.command(&[]);
    let variables = relight
        .get_envs()
        .filter_map(|(name, value)| Some((name, value?)));
    let mut bash = Command::new("bash");
    bash.args(["-c", script, "bash", line])
        .env_clear()
        .envs(variables);
    let output = bash
        .current_dir(stage.folder.path().join("work"))
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect()
}

#[test]
fn bash_completes_the_names_of_tasks_agents_and_presets() {
    let stage = Stage::new();
    for task in ["book-1", "book-2", "ship:eu"] {
        assert_eq!(stage.run(&["task", "add", task]).code, 0);
    }
    assert_eq!(
        stage.run(&["run", "--name", "writer", "--", "true"]).code,
        0
    );
    let offered = |line: &str| offered_by_bash(&stage, line);
    assert_eq!(offered("relight task show bo"), ["book-1", "book-2"]);
    assert_eq!(
        offered("relight --json step list --task book-2"),
        ["book-2"]
    );
    // Bash replaces what follows the colon only.
    assert_eq!(offered("relight task show ship:e"), ["eu"]);
    assert_eq!(offered("relight events --task=ship:"), ["eu"]);
    assert_eq!(offered("relight logs "), ["writer"]);
    assert_eq!(offered("relight stop writer wr"), ["writer"]);
    assert_eq!(offered("relight presets show cod"), ["codex"]);
    assert_eq!(offered("relight task list --status fa"), ["failed"]);
    assert_eq!(offered("relight events --kind step.d"), ["step.done"]);
    assert_eq!(offered("relight ps --state i"), ["idle"]);
    assert_eq!(offered("relight run --preset claude"), ["claude-code"]);
    let begun = "task start book-1 --lease 5m";
    assert_eq!(stage.run(&begun.split(' ').collect::<Vec<_>>()).code, 0);
    let step = ["step", "begin", "print", "--task", "book-1"];
    assert_eq!(stage.run(&step).code, 0);
    assert_eq!(offered("relight step show --task book-1 "), ["print"]);
    assert_eq!(
        stage
            .run(&["session", "begin", "telegram", "--id", "c"])
            .code,
        0
    );
    assert_eq!(offered("relight session resume tele"), ["telegram"]);
    assert_eq!(offered("relight explain orph"), ["orphaned"]);
    assert_eq!(offered("relight ps --state susp"), ["suspended"]);
    // Everything else is completed as before.
    assert_eq!(offered("relight task sho"), ["show"]);
    assert_eq!(offered("relight run -- bo"), Vec::<String>::new());
    let elsewhere = "relight --home nowhere task show bo";
    assert_eq!(offered(elsewhere), Vec::<String>::new());
    assert!(
        !stage.folder.path().join("work/nowhere").exists(),
        "a completion creates no store"
    );
}
