//! What an agent is told: its environment, the state file and the brief.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use serde_json::{Value, json};

use crate::ground::Ground;

/// What an attempt had in its environment.
fn variable(ground: &Ground, attempt: u32, name: &str) -> Option<String> {
    let all = ground.lines(&format!("env.{attempt}"));
    all.iter()
        .find_map(|line| Some(line.strip_prefix(name)?.strip_prefix('=')?.to_owned()))
}

const RECORDS: &str = "n=$RELIGHT_ATTEMPT_NUMBER; env >env.$n; cp $RELIGHT_STATE_FILE state.$n\n\
    [ -z \"$RELIGHT_BRIEF_FILE\" ] || cp \"$RELIGHT_BRIEF_FILE\" brief.$n\n";

#[test]
fn the_first_attempt_is_told_that_it_is_the_first_and_nothing_of_an_outer_agent() {
    let ground = Ground::with_agent(RECORDS);
    let outer = [
        ("RELIGHT_TASK", "outer"),
        ("RELIGHT_FENCE", "9"),
        ("RELIGHT_ATTEMPT", "outer.7.abc"),
        ("RELIGHT_DEATH_CAUSE", "hung"),
        ("RELIGHT_BRIEF_FILE", "/outer"),
        ("RELIGHT_TOKEN", "s"),
        ("RELIGHT_ITERATION", "4"),
        ("RELIGHT_NEXT_STEP", "outer"),
        ("NOTIFY_SOCKET", "/outer"),
        ("MINE", "kept"),
    ];
    let run = ground.start_with(&["run", "--name", "a", "--", "./agent"], &outer);
    assert_eq!(run.end().code, 0);
    assert!(
        !ground.read("env.1").contains("outer"),
        "{}",
        ground.read("env.1")
    );
    let told = |name| variable(&ground, 1, name);
    assert_eq!(told("RELIGHT_RESUMED").as_deref(), Some("0"));
    assert_eq!(told("RELIGHT_ATTEMPT_NUMBER").as_deref(), Some("1"));
    assert_eq!(told("MINE").as_deref(), Some("kept"));
    assert!(told("RELIGHT_ATTEMPT").unwrap().starts_with("a.1."));
    for name in [
        "RELIGHT_TASK",
        "RELIGHT_FENCE",
        "RELIGHT_DEATH_CAUSE",
        "RELIGHT_BRIEF_FILE",
        "RELIGHT_TOKEN",
    ] {
        assert_eq!(told(name), None, "{name}");
    }
}

#[test]
fn every_variable_that_an_agent_gets_is_in_the_reference() {
    let ground = Ground::with_agent(&format!("{RECORDS}[ $n = 1 ] && exit 1; relight task done"));
    let flags = ["--task", "t", "--loop", "--max-iterations", "1"];
    assert_eq!(ground.run(&flags).end().code, 0);
    let page = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/reference/environment.md"
    );
    let page = std::fs::read_to_string(page).unwrap();
    let (_, agents) = page.split_once("## Set for agents").unwrap();
    let (agents, _) = agents.split_once("\n## ").unwrap();
    let env = ground.lines("env.2");
    let names = env
        .iter()
        .filter_map(|line| line.split_once('='))
        .map(|(name, _)| name);
    let ours: Vec<&str> = names
        .filter(|name| name.starts_with("RELIGHT_") || *name == "NOTIFY_SOCKET")
        .collect();
    assert!(ours.len() >= 12, "{ours:?}");
    for name in ours {
        assert!(agents.contains(&format!("`{name}`")), "{name}");
    }
}

#[test]
fn a_short_list_is_passed_on_where_that_is_wanted() {
    let ground = Ground::with_agent(RECORDS);
    let words = ["run", "--name", "a", "--env-clean", "--", "./agent"];
    let run = ground.start_with(
        &words,
        &[("MINE", "x"), ("LANG", "C"), ("XDG_DATA_HOME", "/d")],
    );
    assert_eq!(run.end().code, 0);
    assert_eq!(variable(&ground, 1, "MINE"), None);
    assert_eq!(variable(&ground, 1, "LANG").as_deref(), Some("C"));
    assert_eq!(variable(&ground, 1, "XDG_DATA_HOME").as_deref(), Some("/d"));
}

#[test]
fn a_resumed_attempt_is_told_of_the_death_and_of_its_task() {
    let ground = Ground::with_agent(&format!(
        "{RECORDS}[ $n = 1 ] && kill -9 $$; relight task done"
    ));
    assert_eq!(ground.run(&["--task", "t"]).end().code, 0);
    let told = |name| variable(&ground, 2, name).unwrap_or_default();
    assert_eq!(told("RELIGHT_RESUMED"), "1");
    assert_eq!(told("RELIGHT_ATTEMPT_NUMBER"), "2");
    assert_eq!(told("RELIGHT_DEATH_CAUSE"), "signal");
    assert_eq!(told("RELIGHT_TASK"), "t");
    assert!(told("RELIGHT_ATTEMPT").starts_with("a.2."));
    let first = variable(&ground, 1, "RELIGHT_FENCE").unwrap();
    assert!(told("RELIGHT_FENCE").parse::<u64>().unwrap() > first.parse().unwrap());
    assert_eq!(variable(&ground, 1, "RELIGHT_TASK").as_deref(), Some("t"));
}

#[test]
fn the_state_file_is_filled_from_the_tasks_context() {
    let script = format!("{RECORDS}[ $n = 1 ] && kill -9 $$; relight task done");
    let ground = Ground::with_agent(&script);
    let set = [
        "issue=42",
        "workspace=/srv/w",
        "branch=fix-42",
        "stage=review",
        "memory_refs=m1,m2",
    ];
    let flags: Vec<&str> = set.iter().flat_map(|pair| ["--set", *pair]).collect();
    assert_eq!(
        ground
            .call(&[&["task", "add", "t"], &flags[..]].concat())
            .code,
        0
    );
    let ran = ground.run(&["--task", "t"]).end();
    assert_eq!(ran.code, 0, "{ran:?}");
    let state: Value = serde_json::from_str(&ground.read("state.2")).unwrap();
    let mut fields: Vec<&String> = state.as_object().unwrap().keys().collect();
    fields.sort();
    assert_eq!(
        fields,
        [
            "agent",
            "attempt",
            "branch_name",
            "issue_number",
            "memory_refs",
            "progress_stage",
            "reason",
            "session_id",
            "task_id",
            "updated_at",
            "workspace_path",
        ]
    );
    assert_eq!(
        (&state["task_id"], &state["agent"]),
        (&json!("t"), &json!("a"))
    );
    assert_eq!(state["issue_number"].to_string().trim_matches('"'), "42");
    assert_eq!(state["workspace_path"], "/srv/w");
    assert_eq!(state["branch_name"], "fix-42");
    assert_eq!(state["progress_stage"], "review");
    assert!(state["memory_refs"].to_string().contains("m1"), "{state}");
    assert!(
        state["attempt"].as_str().unwrap().starts_with("a.2."),
        "{state}"
    );
    assert!(
        state["reason"].as_str().unwrap().contains("signal"),
        "{state}"
    );
}

#[test]
fn the_brief_tells_the_truth_about_steps_and_death() {
    let ground = Ground::with_agent(&format!(
        "{RECORDS}echo 'the last words'\n\
         [ $n = 1 ] || {{ relight task done --force; exit; }}\n\
         relight step run build -- true; relight step begin push; kill -9 $$"
    ));
    assert_eq!(
        ground
            .call(&[
                "task", "add", "t", "--step", "build", "--step", "push", "--step", "announce"
            ])
            .code,
        0
    );
    assert_eq!(ground.run(&["--task", "t"]).end().code, 0);
    assert!(!ground.work("brief.1").exists());
    let brief = ground.read("brief.2");
    for part in [
        "Brief for attempt 2 of agent a",
        "killed by signal 9",
        "\"build\"",
        "in doubt: 1: \"push\"",
        "the last words",
    ] {
        assert!(brief.contains(part), "{part:?} is not in\n{brief}");
    }
    assert!(brief.lines().count() <= 60, "{brief}");
}

#[test]
fn resume_args_replace_what_a_resumed_attempt_gets() {
    let ground =
        Ground::with_agent("echo \"$*\" >>argv; [ $RELIGHT_RESUMED = 0 ] && exit 1; exit 0");
    let words = [
        "run",
        "--name",
        "a",
        "--resume-args",
        "--go-on 'two words'",
        "--",
        "./agent",
        "first",
    ];
    assert_eq!(ground.call(&words).code, 0);
    assert_eq!(ground.lines("argv"), ["first", "first --go-on two words"]);
}

/// The work folder is a repository with one new file, and git answers only once `go` is there.
const SLOW_GIT: &str = "cd \"$GIT_WORK_TREE\"\n\
    until [ -e go ] || [ $((n += 1)) -gt 500 ]; do sleep 0.02; done\n\
    printf '?? new-file\\0'; echo >>answered";

fn in_a_repository(script: &str) -> Ground {
    let ground = Ground::with_agent(script);
    std::fs::create_dir_all(ground.work(".git/refs/heads")).unwrap();
    std::fs::write(ground.work(".git/HEAD"), "ref: refs/heads/fix-42\n").unwrap();
    ground.script("../bin/git", SLOW_GIT);
    ground
}

const WAITS_FOR_THE_REST: &str = "until grep -q new-file $RELIGHT_BRIEF_FILE; do sleep 0.02; done\n\
    cp $RELIGHT_BRIEF_FILE whole.$n\n";

#[test]
fn a_restart_does_not_wait_for_git_and_its_brief_is_completed() {
    let script = format!("{RECORDS}[ $n = 1 ] && kill -9 $$\ntouch go\n{WAITS_FOR_THE_REST}");
    let ground = in_a_repository(&script);
    assert_eq!(ground.run(&["--cooldown", "0s"]).end().code, 0);
    let (first, whole) = (ground.read("brief.2"), ground.read("whole.2"));
    assert!(
        first.contains("branch \"fix-42\"") && first.contains("`git status` tells"),
        "{first}"
    );
    assert!(
        whole.contains("- 1 changed or new: \"new-file\""),
        "{whole}"
    );
    assert_eq!(whole.lines().next(), first.lines().next());
}

#[test]
fn the_brief_of_an_attempt_is_not_completed_with_that_of_the_one_before() {
    let script = format!(
        "{RECORDS}[ $n -lt 3 ] && kill -9 $$\n\
         touch go\n{WAITS_FOR_THE_REST}\
         until [ $(wc -l <answered) = 2 ]; do sleep 0.02; done; cp $RELIGHT_BRIEF_FILE last"
    );
    let ground = in_a_repository(&script);
    assert_eq!(ground.run(&["--cooldown", "0s"]).end().code, 0);
    for brief in ["brief.3", "whole.3", "last"] {
        assert!(
            ground
                .read(brief)
                .starts_with("# Brief for attempt 3 of agent a\n"),
            "{brief}"
        );
    }
}

#[test]
fn a_brief_that_is_passed_as_text_is_whole() {
    let ground = in_a_repository("touch go; echo \"$2\" >told; [ $RELIGHT_RESUMED = 1 ]");
    assert_eq!(
        ground.run(&["--resume-args", "--go-on {brief}"]).end().code,
        0
    );
    assert!(
        ground
            .read("told")
            .contains("- 1 changed or new: \"new-file\""),
        "{}",
        ground.read("told")
    );
}

#[test]
fn the_state_and_the_brief_name_a_task_that_the_agent_chose_by_itself() {
    let ground = Ground::with_agent(&format!(
        "{RECORDS}[ $n = 1 ] || exit 0\n\
         relight task start chosen --step fetch --step write --step send --set branch=b\n\
         relight step run fetch --task chosen -- true; kill -9 $$"
    ));
    let ran = ground.run(&[]).end();
    assert_eq!(ran.code, 0, "{ran:?}");
    let state: Value = serde_json::from_str(&ground.read("state.2")).unwrap();
    assert_eq!(
        (&state["task_id"], &state["branch_name"]),
        (&json!("chosen"), &json!("b"))
    );
    let brief = ground.read("brief.2");
    for line in ["- next: \"write\"", "- after that still to do: 1: \"send\""] {
        assert!(brief.contains(line), "{brief}");
    }
}

#[test]
fn the_task_that_a_process_of_the_attempt_took_is_in_the_state_and_the_brief() {
    let ground = Ground::with_agent(&format!(
        "{RECORDS}[ $n = 1 ] || exit 0\n\
         relight task start t --owner-pid $$ --set branch=b; kill -9 $$"
    ));
    assert_eq!(ground.run(&[]).end().code, 0);
    let state: Value = serde_json::from_str(&ground.read("state.2")).unwrap();
    assert_eq!(
        (&state["task_id"], &state["branch_name"]),
        (&json!("t"), &json!("b"))
    );
    assert!(
        ground.read("brief.2").contains("## Task"),
        "{}",
        ground.read("brief.2")
    );
    assert_eq!(ground.deaths("a")[0]["post_mortem"]["task"], "t");
}

const STARTS: &str = "relight checkpoint start --workflow w --agent a --step one --remaining two \
     --idempotency k\n";

#[test]
fn a_workflow_that_the_attempt_resumes_is_in_its_state_at_once() {
    let ground = Ground::with_agent(&format!(
        "{STARTS}relight checkpoint resume --agent a; cp $RELIGHT_STATE_FILE state.held\n\
         relight checkpoint complete --workflow w"
    ));
    assert_eq!(ground.run(&[]).end().code, 0);
    let state: Value = serde_json::from_str(&ground.read("state.held")).unwrap();
    assert_eq!(state["task_id"], "w");
}

#[test]
fn the_workflow_that_an_attempt_left_is_in_the_state_and_the_brief_until_it_is_finished() {
    let ground = Ground::with_agent(&format!(
        "{RECORDS}case $n in\n\
         1) {STARTS} relight checkpoint update --workflow w --complete one --step two;;\n\
         3) relight checkpoint complete --workflow w;;\n\
         4) exit 0;; esac; kill -9 $$"
    ));
    assert_eq!(ground.run(&["--cooldown", "10ms"]).end().code, 0);
    let state = |attempt: u32| -> Value {
        let state = ground.read(&format!("state.{attempt}"));
        serde_json::from_str::<Value>(&state).unwrap()["task_id"].clone()
    };
    assert_eq!(
        [1, 2, 3, 4].map(state),
        [json!(null), json!("w"), json!("w"), json!(null)]
    );
    for brief in ["brief.2", "brief.3"].map(|name| ground.read(name)) {
        assert!(
            brief.contains("in doubt: \"two\"") || brief.contains("next: \"two\""),
            "{brief}"
        );
    }
    let left = ground
        .deaths("a")
        .into_iter()
        .map(|death| death["post_mortem"]["task"].clone());
    let left: Vec<Value> = left.collect();
    assert_eq!(left[..3], [json!("w"), json!("w"), json!(null)]);
}

/// The home is closed to it (0700), and so would be the files in it.
#[test]
fn an_agent_with_a_user_of_its_own_reads_its_brief_and_its_state() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: needs root");
        return;
    }
    let ground = Ground::with_agent(
        "id -un; echo \"at $RELIGHT_STATE_FILE\"; cat \"$RELIGHT_STATE_FILE\"\n\
         [ $RELIGHT_RESUMED = 1 ] || kill -9 $$\n\
         cat \"$RELIGHT_BRIEF_FILE\"; echo the end; exec sleep 1000",
    );
    for path in [
        ground.stage.folder.path().to_owned(),
        ground.work(""),
        ground.work("agent"),
    ] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    ground.config("[[agent]]\nname = \"a\"\ncommand = [\"./agent\"]\nuser = \"nobody\"\n");
    let _daemon = ground.up(&["--no-http"]);
    let said = crate::ground::until("it has read both", || {
        let said = ground.call(&["logs", "a"]).stdout;
        said.contains("the end").then_some(said)
    });
    assert!(said.contains("nobody"), "{said}");
    for part in ["\"attempt\": \"a.2.", "# brief for attempt 2 of agent a"] {
        assert!(said.to_lowercase().contains(part), "{part} in {said}");
    }
    let state = said
        .lines()
        .find_map(|line| line.strip_prefix("at "))
        .unwrap();
    let copies = Path::new(state).parent().unwrap();
    let (folder, file) = (
        copies.metadata().unwrap(),
        std::fs::metadata(state).unwrap(),
    );
    assert_eq!((folder.uid(), folder.mode() & 0o777), (0, 0o711));
    assert_eq!(file.mode() & 0o777, 0o400, "nobody else reads it");
    assert_ne!(file.uid(), 0);
    std::fs::remove_dir_all(copies).unwrap();
}
