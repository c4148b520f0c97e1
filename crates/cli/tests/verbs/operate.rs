//! What an operator types first: `init`, `status`, `explain`, help.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::cases::{Answer, Place};
use crate::relight::{Ran, Stage};

fn parsed(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

fn install(stage: &Stage, program: &str) {
    let path = stage.folder.path().join("bin").join(program);
    std::fs::write(&path, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn config(stage: &Stage) -> String {
    std::fs::read_to_string(stage.folder.path().join("work/relight.toml")).unwrap()
}

#[test]
fn init_writes_a_configuration_for_the_agent_program_that_is_installed() {
    let stage = Stage::new();
    install(&stage, "codex");
    let made = stage.run(&["init", "--yes", "--prompt", "Say \"hi\"", "--json"]);
    assert_eq!(made.code, 0, "{made:?}");
    assert_eq!(parsed(&made)["installed"], json!(["codex"]));
    let text = config(&stage);
    assert!(text.contains("preset  = \"codex\""), "{text}");
    assert!(
        text.contains("an agent of relight up gets no key"),
        "{text}"
    );
    assert!(text.lines().count() <= 16, "{text}");
    let checked = stage.run(&["recover", "--dry-run"]);
    assert_eq!(checked.code, 0, "it is a valid configuration: {checked:?}");
    assert!(
        text.contains(r#"'Say "hi"'"#) || text.contains(r#""Say \"hi\"""#),
        "{text}"
    );
}

#[test]
fn init_without_an_agent_program_has_an_example_and_never_overwrites() {
    let stage = Stage::new();
    let made = stage.run(&["init"]);
    assert_eq!(made.code, 0, "{made:?}");
    assert!(
        made.stdout.contains("no agent program was found"),
        "{made:?}"
    );
    let text = config(&stage);
    assert!(text.contains("name    = \"example\""), "{text}");
    let again = stage.run(&["init", "--yes"]);
    assert_eq!(again.code, 1, "{again:?}");
    assert_eq!(config(&stage), text);
}

#[test]
fn init_asks_nothing_without_a_terminal_and_says_which_flags_answer() {
    let stage = Stage::new();
    install(&stage, "claude");
    install(&stage, "codex");
    let ran = stage.run(&["init"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains("--yes"), "{ran:?}");
    assert!(!stage.folder.path().join("work/relight.toml").exists());
    let ran = stage.run(&["init", "--agent", "vim", "--yes"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains("claude, codex"), "{ran:?}");
    let ran = stage.run(&["init", "--agent", "codex", "--prompt", "x"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(config(&stage).contains("[\"codex\", \"exec\", \"x\"]"));
}

#[test]
fn a_key_in_the_environment_is_passed_on_to_the_agent() {
    let stage = Stage::new();
    install(&stage, "codex");
    let mut command = stage.command(&["init", "--yes"]);
    let ran = crate::relight::finish(command.env("OPENAI_API_KEY", "x").spawn().unwrap());
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(
        config(&stage).contains("\nenv_pass = [\"OPENAI_API_KEY\"]"),
        "{}",
        config(&stage)
    );
}

#[test]
fn status_exits_1_when_somebody_is_needed_and_says_what_to_type() {
    let stage = Stage::new();
    let ran = stage.run(&["status"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let init = "relight init writes a relight.toml, then relight up -d starts it";
    let daemon = format!("daemon    not running; {init}\n");
    assert!(ran.stdout.contains(&daemon), "{ran:?}");
    let none = stage.run(&["dashboard", "--print"]);
    assert!(none.stderr.contains(init), "{none:?}");
    assert!(ran.stdout.contains("needs me  nothing"), "{ran:?}");
    stage.run(&["task", "start", "t", "--lease", "5m"]);
    stage.run(&["task", "block", "t", "--reason", "which colour?"]);
    let ran = stage.run(&["status"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stdout.contains("which colour?"), "{ran:?}");
    assert!(ran.stdout.contains("relight task retry t"), "{ran:?}");
    let answer = parsed(&stage.run(&["status", "--json"]));
    assert_eq!(answer["needs_me"][0]["subject"], "task/t");
    assert_eq!(answer["needs_me_total"], 1);
    assert_eq!(answer["daemon"], json!(null));
    assert_eq!(answer["tasks"], json!({"blocked": 1}));
    assert_eq!(stage.run(&["status", "-q"]).stdout, "");
}

#[test]
fn words_are_explained_with_what_to_do() {
    let stage = Stage::new();
    let ran = stage.run(&["explain", "77"]);
    insta::assert_snapshot!(ran.stdout, @r"
    exit code 77
      means: fenced: the caller's lease is no longer valid
      do:    stop working on it: another holder has it
    ");
    let answer = parsed(&stage.run(&["explain", "draining", "--json"]));
    assert_eq!(answer["items"][0]["exit"], 75);
    let ran = stage.run(&["explain", "attempt.dead"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stderr.contains("attempt.died"), "{ran:?}");
    let words = stage.run(&["explain", "died", "unnoticed"]);
    assert!(
        words.stdout.starts_with("truth of an agent died_unnoticed"),
        "{words:?}"
    );
    assert!(
        stage
            .run(&["explain", "cost"])
            .stdout
            .starts_with("term cost")
    );
    let all = stage.run(&["explain"]).stdout;
    for word in [
        "exit code\n",
        "cause of death\n",
        "  boot_loop",
        "  task.recovery",
        "  127",
    ] {
        assert!(all.contains(word), "{word}: {all}");
    }
}

#[test]
fn the_exit_codes_of_every_failure_are_explained() {
    let stage = Stage::new();
    for words in [&["task", "show", "nosuch"][..], &["nosuch"], &["down"]] {
        let ran = stage.run(words);
        let explained = stage.run(&["explain", &ran.code.to_string()]);
        assert_eq!(explained.code, 0, "{words:?} {ran:?}");
    }
}

#[test]
fn the_overview_of_commands_is_in_groups() {
    let stage = Stage::new();
    let help = stage.run(&["--help"]).stdout;
    assert!(help.contains("Start here:\n  init "), "{help}");
    assert!(stage.run(&["help"]).stdout == help && stage.run(&["-h"]).stdout == help);
    assert!(help.lines().count() < 85, "{help}");
    let ran = stage.run(&["logs", "--help"]);
    assert_eq!(ran.code, 0);
    assert!(
        ran.stdout.find("Examples:") < ran.stdout.find("Options:"),
        "{ran:?}"
    );
}

/// Runs a command on a terminal of 80 columns, which `script` makes, and types these lines.
fn on_a_terminal(place: &Place, words: &str, typed: &str) -> Option<Answer> {
    if !std::path::Path::new("/usr/bin/script").exists() {
        eprintln!("SKIPPED: there is no script(1) to make a terminal with");
        return None;
    }
    let line = format!(
        "PATH=$PWD/bin:$PATH script -qec 'stty cols 80 rows 24; relight {words}' /dev/null"
    );
    let call = place.shell(&line).env("TERM", "xterm").env("NO_COLOR", "1");
    Some(call.input(typed.as_bytes()).run())
}

#[test]
fn init_asks_two_questions_on_a_terminal_and_writes_the_answers() {
    let place = Place::new();
    std::fs::create_dir(place.work("bin")).unwrap();
    for program in ["claude", "codex"] {
        let path = place.work("bin").join(program);
        std::fs::write(&path, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let Some(asked) = on_a_terminal(&place, "init", "vim\ncodex\nWrite the docs\n") else {
        return;
    };
    let asked = asked.with_code(0).text();
    assert!(
        asked.contains("\"vim\" is not one of claude, codex"),
        "{asked}"
    );
    let questions = [
        "Which agent? claude, codex [claude] ",
        "What should codex do? [",
    ];
    for question in questions {
        assert!(asked.contains(question), "{asked}");
    }
    let text = std::fs::read_to_string(place.work("relight.toml")).unwrap();
    assert!(
        text.contains("command = [\"codex\", \"exec\", \"Write the docs\"]"),
        "{text}"
    );
}

#[test]
fn ps_fits_80_columns_however_long_the_names_are() {
    let place = Place::new();
    let long = |name: &str| format!("{name}-{}", "long-name-".repeat(9));
    for name in ["first", "second"] {
        let (name, task) = (long(name), long("task"));
        place.ok(&format!(
            "run -q --name {name} --task {task} --exit-completes -- true"
        ));
    }
    let Some(shown) = on_a_terminal(&place, "ps", "") else {
        return;
    };
    let shown = shown.with_code(0).text();
    let lines: Vec<&str> = shown.lines().map(str::trim_end).collect();
    assert!(lines.len() >= 3 && shown.contains("first-long-"), "{shown}");
    let widest = lines.iter().map(|line| line.chars().count()).max();
    assert!(widest <= Some(80), "{shown}");
}

#[test]
fn typos_and_the_words_of_similar_tools_lead_to_the_command() {
    let stage = Stage::new();
    for (words, hint) in [
        ("list", "relight ps lists agents, relight task list tasks"),
        ("kill", "relight stop NAME"),
        ("top", "relight ps --watch"),
        ("stauts", "did you mean status or start?"),
        ("logs --tail 3", "relight logs -n COUNT"),
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        let ran = stage.run(&words);
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.stderr.contains(hint), "{ran:?}");
    }
    stage.run(&["run", "--name", "example", "--", "true"]);
    let ran = stage.run(&["logs", "exampel"]);
    assert!(ran.stderr.contains("did you mean example?"), "{ran:?}");
    let ran = stage.run(&["run", "--", "ls -l"]);
    assert!(
        ran.stderr.contains("one word; remove the quotes"),
        "{ran:?}"
    );
}

#[test]
fn each_meaning_of_a_word_says_what_it_is_about() {
    let stage = Stage::new();
    let explained = stage.run(&["explain", "in_doubt"]).stdout;
    for part in ["ended or resolved", "forbids to repeat"] {
        assert!(explained.contains(part), "{explained}");
    }
    for word in ["holder", "preset", "pool", "skill"] {
        assert_eq!(stage.run(&["explain", word]).code, 0, "{word}");
    }
}
