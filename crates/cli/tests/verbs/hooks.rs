//! `relight hook`: what the hooks of an agent's program record, and what they never do.

use crate::relight;

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use relight::{Ran, Stage};
use serde_json::{Value, json};

const SESSION: &str = "0b7c1f9e-1111-4222-8333-444455556666";

fn own_task() -> String {
    format!("claude/{SESSION}")
}

fn work(stage: &Stage) -> PathBuf {
    fs::canonicalize(stage.folder.path().join("work")).unwrap()
}

/// Calls the hook as Claude Code does, in the process of this test.
fn hook(stage: &Stage, event: &str, fields: &Value) -> Ran {
    hook_with(stage, event, fields, &[])
}

fn hook_with(stage: &Stage, event: &str, fields: &Value, variables: &[(&str, &str)]) -> Ran {
    let mut whole = json!({"session_id": SESSION, "cwd": work(stage)});
    whole
        .as_object_mut()
        .unwrap()
        .extend(fields.as_object().unwrap().clone());
    let mut command = stage.command(&["hook", event, "--for", "claude"]);
    command.envs(variables.iter().copied());
    let ran = feed(command, whole.to_string().as_bytes());
    assert_eq!(
        (ran.code, &*ran.stderr),
        (0, ""),
        "a hook never fails: {event} {fields}"
    );
    let log = stage.folder.path().join("home/hooks.log");
    assert_eq!(
        fs::read_to_string(log).unwrap_or_default(),
        "",
        "{event} {fields}"
    );
    ran
}

fn feed(mut command: Command, input: &[u8]) -> Ran {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // One that does not read to the end has decided already.
    let _ = child.stdin.take().unwrap().write_all(input);
    relight::finish(child)
}

fn call(tool: &str, id: &str, input: &Value) -> Value {
    json!({"tool_name": tool, "tool_use_id": id, "tool_input": input, "tool_response": {}})
}

fn steps(stage: &Stage, task: &str) -> Vec<(String, String)> {
    let ran = stage.run(&["step", "list", "--task", task, "--json"]);
    let listed: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{ran:?}"));
    let text = |step: &Value, key: &str| step[key].as_str().unwrap().to_owned();
    let items = listed["items"]
        .as_array()
        .or(listed["steps"].as_array())
        .unwrap()
        .clone();
    items
        .iter()
        .map(|step| (text(step, "name"), text(step, "state")))
        .collect()
}

/// A process that stands for the program whose hooks are called, and dies with its turn open.
#[expect(clippy::disallowed_methods, reason = "a program of the test's own")]
fn killed_in(stage: &Stage, events: &[(&str, Value)]) {
    let folder = work(stage);
    let mut script = String::new();
    for (number, (event, fields)) in events.iter().enumerate() {
        let mut whole = json!({"session_id": SESSION, "cwd": folder});
        whole
            .as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        let file = folder.join(format!("event-{number}.json"));
        fs::write(&file, whole.to_string()).unwrap();
        let program = stage
            .command(&[])
            .get_program()
            .to_string_lossy()
            .into_owned();
        script += &format!(
            "'{program}' hook {event} --for claude < '{}';",
            file.display()
        );
    }
    // A shell would be taken for one between the program and its hook.
    let python = format!(
        "import os; os.system('''{}''')",
        script.replace('\\', "\\\\")
    );
    let mut command = stage.command(&[]);
    let variables: Vec<_> = command
        .get_envs()
        .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
        .collect();
    command = Command::new("python3");
    command
        .args(["-c", &python])
        .envs(variables)
        .current_dir(&folder)
        .stdin(Stdio::null());
    let mut child = command.spawn().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_call_of_a_program_that_is_stopped_in_it_stays_in_doubt() {
    let stage = Stage::new();
    let call = call("Bash", "c1", &json!({"command": "git push"}));
    killed_in(
        &stage,
        &[
            ("prompt", json!({"prompt": "push"})),
            ("before-tool", call),
            ("session-end", json!({"reason": "other"})),
        ],
    );
    assert_eq!(
        steps(&stage, &own_task()),
        [("Bash: git push [c1]".to_owned(), "begun".to_owned())]
    );
    let told = hook(&stage, "session-start", &json!({"source": "resume"})).stdout;
    assert!(
        told.contains("was begun and its outcome is unknown"),
        "{told}"
    );
}

#[test]
fn the_brief_of_a_supervisor_is_not_kept_as_what_the_user_wrote() {
    let stage = Stage::new();
    let prompt = || {
        let task: Value =
            serde_json::from_str(&stage.run(&["task", "show", &own_task(), "--json"]).stdout)
                .unwrap();
        task["context"]["prompt"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    hook(&stage, "prompt", &json!({"prompt": "write the report"}));
    for brief in [
        "# Brief for attempt 2 of agent a\nAttempt 1 ended",
        "\"# Brief for attempt 2 of a\"",
    ] {
        hook(&stage, "prompt", &json!({"prompt": brief}));
        assert_eq!(prompt(), "write the report");
    }
    let both = "write the page\n\n# Brief for attempt 3 of agent a";
    hook(&stage, "prompt", &json!({"prompt": both}));
    assert_eq!(prompt(), "write the page");
}

#[test]
fn a_prompt_in_parts_is_kept() {
    let stage = Stage::new();
    let parts = json!([{"type": "text", "text": "write"}, {"type": "text", "text": "it"}]);
    hook(&stage, "prompt", &json!({"prompt": parts}));
    let ran = stage.run(&["task", "show", &own_task(), "--json"]);
    assert!(ran.stdout.contains("\"prompt\": \"write it\""), "{ran:?}");
}

/// Readers differ in which of the two they take: the event is ignored, and the program continues.
#[test]
fn an_event_with_a_name_that_stands_there_twice_is_not_recorded() {
    let stage = Stage::new();
    assert_eq!(stage.run(&["task", "add", "another"]).code, 0);
    let twice = format!(
        "{{\"session_id\": \"{SESSION}\", \"tool_name\": \"Read\", \"tool_name\": \"Bash\", \
         \"tool_input\": {{\"command\": \"ls\"}}}}"
    );
    let ran = feed(
        stage.command(&["hook", "before-tool", "--for", "claude"]),
        twice.as_bytes(),
    );
    assert_eq!(ran.code, 0, "{ran:?}");
    let log = fs::read_to_string(stage.folder.path().join("home/hooks.log")).unwrap();
    assert!(log.contains("\"tool_name\" twice"), "{log}");
    let listed = stage.run(&["task", "list", "--json"]).stdout;
    assert!(!listed.contains(SESSION), "{listed}");
}

/// What is redacted in the name of a call depends on the environment; which call it is does not.
#[test]
fn a_call_ends_where_another_environment_knows_its_arguments_as_a_secret() {
    let stage = Stage::new();
    let secret = [("ACCESS_TOKEN", "customer-4711-x")];
    let input = json!({"command": "mail customer-4711-x"});
    for mut call in [call("Bash", "c1", &input), call("Bash", "", &input)] {
        if call["tool_use_id"] == "" {
            call.as_object_mut().unwrap().remove("tool_use_id");
        }
        hook_with(&stage, "before-tool", &call, &secret);
        hook(&stage, "after-tool", &call);
    }
    let states: Vec<String> = steps(&stage, &own_task())
        .into_iter()
        .map(|(_, state)| state)
        .collect();
    assert_eq!(states, ["done", "done"]);
}

#[test]
fn calls_of_a_conversation_are_steps_of_its_own_task() {
    let stage = Stage::new();
    hook(&stage, "prompt", &json!({"prompt": "build it"}));
    let (test, read) = (
        json!({"command": "make test"}),
        json!({"file_path": "/etc/hosts"}),
    );
    hook(&stage, "before-tool", &call("Bash", "t1", &test));
    hook(&stage, "before-tool", &call("Bash", "t1", &test));
    assert_eq!(
        steps(&stage, &own_task()),
        [("Bash: make test [t1]".into(), "begun".into())]
    );
    hook(&stage, "after-tool", &call("Bash", "t1", &test));
    hook(&stage, "after-tool", &call("Bash", "t1", &test));
    hook(&stage, "before-tool", &call("Read", "t2", &read));
    hook(&stage, "after-tool", &call("Read", "t2", &read));
    let failed = json!({"tool_name": "Bash", "tool_use_id": "t3", "tool_input": test,
        "error": "exit code 2"});
    hook(&stage, "after-tool", &failed);
    let names: Vec<(String, String)> = steps(&stage, &own_task());
    let expected = [
        ("Bash: make test [t1]", "done"),
        ("Read: /etc/hosts [t2]", "done"),
        ("Bash: make test [t3]", "failed"),
    ];
    assert_eq!(
        names,
        expected.map(|(name, state)| (name.to_owned(), state.to_owned()))
    );
    hook(&stage, "before-tool", &call("Bash", "t4", &test));
    hook(&stage, "stop", &json!({}));
    let shown = stage.run(&["task", "show", &own_task()]).stdout;
    assert!(shown.contains("completed"), "{shown}");
    assert!(
        stage.run(&["inflight"]).stdout.contains("nothing"),
        "the conversation knows its end"
    );
}

/// Each prompt starts the task over; what the conversation has cost stays.
#[test]
fn the_usage_of_a_conversation_adds_up_over_its_turns() {
    let stage = Stage::new();
    for (turns, cost) in [(1, "0.25"), (2, "0.5"), (3, "0.75")] {
        hook(&stage, "prompt", &json!({"prompt": "and the next"}));
        hook(&stage, "stop", &json!({"cost_usd": 0.25}));
        let shown = stage.run(&["task", "show", &own_task(), "--json"]).stdout;
        let task: Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(
            (&task["turns"], &task["cost"]),
            (&json!(turns), &json!(cost)),
            "{shown}"
        );
    }
}

#[test]
fn the_next_conversation_in_the_folder_is_told_what_is_in_doubt() {
    let stage = Stage::new();
    let written = work(&stage).join("written.txt");
    let left = work(&stage).join("left.txt");
    let secret = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";
    let file = |path: &PathBuf| json!({"file_path": path, "content": "new\n"});
    let push = json!({"command": format!("git push https://u:{secret}@example.com/r main")});
    killed_in(
        &stage,
        &[
            (
                "prompt",
                json!({"prompt": format!("ship it with {secret}")}),
            ),
            (
                "after-tool",
                call("Bash", "t0", &json!({"command": "make"})),
            ),
            ("before-tool", call("Write", "t1", &file(&written))),
            ("before-tool", call("Write", "t2", &file(&left))),
            ("before-tool", call("Bash", "t3", &push)),
        ],
    );
    fs::write(&written, "new\n").unwrap();
    let inflight = stage.run(&["inflight"]).stdout;
    assert!(
        inflight.contains("git push") && !inflight.contains(secret),
        "{inflight}"
    );
    let start = json!({"session_id": "another", "source": "startup",
        "hook_event_name": "SessionStart"});
    let told: Value = serde_json::from_str(&hook(&stage, "session-start", &start).stdout).unwrap();
    let text = told["hookSpecificOutput"]["additionalContext"]
        .as_str()
        .unwrap();
    assert_eq!(told["hookSpecificOutput"]["hookEventName"], "SessionStart");
    for part in [
        "2 calls finished; `git push",
        "(Bash) was begun and its outcome is unknown: check `git ls-remote` first",
        "written.txt` (Write) was begun and has happened",
        "left.txt` (Write) was begun and has not happened",
        "ship it with",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(!text.contains(secret));
    let tasks: Value =
        serde_json::from_str(&stage.run(&["task", "list", "--json"]).stdout).unwrap();
    let cut_off = tasks["items"][0]["id"].as_str().unwrap();
    let shown = stage.run(&["task", "show", cut_off, "--json"]).stdout;
    assert!(!shown.contains("told_to"), "{shown}");
    let of = |session: &str, fields: Value| {
        let mut fields = fields;
        fields["session_id"] = json!(session);
        fields
    };
    let start = |session| of(session, json!({"source": "startup"}));
    let told = hook(&stage, "session-start", &start("third")).stdout;
    assert!(
        told.contains("git ls-remote"),
        "the one before it did nothing: {told}"
    );
    hook(&stage, "prompt", &of("third", json!({"prompt": "go on"})));
    hook(&stage, "stop", &of("third", json!({})));
    assert_eq!(
        hook(&stage, "session-start", &start("fourth")).stdout,
        "",
        "the third knows"
    );
    let inflight = stage.run(&["inflight"]).stdout;
    assert!(
        inflight.contains("git push") && !inflight.contains("written.txt"),
        "{inflight}"
    );
    let resumed = json!({"source": "resume"});
    assert!(
        hook(&stage, "session-start", &resumed)
            .stdout
            .contains("git ls-remote")
    );
}

/// Codex and others name the file inside of the patch.
#[test]
fn a_patch_of_one_file_is_settled_by_the_hash_of_that_file() {
    let stage = Stage::new();
    fs::write(work(&stage).join("left.txt"), "old\n").unwrap();
    fs::write(work(&stage).join("changed.txt"), "old\n").unwrap();
    let patch = |files: &[&str]| {
        let hunk = |file: &&str| format!("*** Update File: {file}\n@@\n-old\n+new\n");
        let hunks: String = files.iter().map(hunk).collect();
        format!("*** Begin Patch\n{hunks}*** End Patch\n")
    };
    let changed = work(&stage).join("changed.txt");
    let begun = |id: &str, input: &Value| ("before-tool", call("apply_patch", id, input));
    killed_in(
        &stage,
        &[
            ("prompt", json!({"prompt": "patch it"})),
            begun("t1", &json!({"command": patch(&["left.txt"])})),
            begun("t2", &json!({"input": patch(&[changed.to_str().unwrap()])})),
            begun("t3", &json!({"patch": patch(&["left.txt", "left.txt"])})),
            begun("t4", &json!({"patch": patch(&["left.txt", "other.txt"])})),
        ],
    );
    fs::write(&changed, "new\n").unwrap();
    hook(&stage, "session-start", &json!({"source": "resume"}));
    let states: Vec<String> = steps(&stage, &own_task())
        .into_iter()
        .map(|(_, s)| s)
        .collect();
    assert_eq!(states, ["failed", "done", "failed", "begun"]);
    assert_eq!(
        steps(&stage, &own_task())[0].0,
        "apply_patch: left.txt [t1]"
    );
}

/// A call in doubt that must not be repeated blocks neither the task nor further calls.
#[test]
fn hooks_observe_and_do_not_gate() {
    let stage = Stage::new();
    let push = json!({"command": "git push"});
    killed_in(&stage, &[("before-tool", call("Bash", "t1", &push))]);
    hook(&stage, "prompt", &json!({"prompt": "go on"}));
    hook(&stage, "before-tool", &call("Bash", "t1", &push));
    hook(&stage, "before-tool", &call("Bash", "t2", &push));
    hook(&stage, "after-tool", &call("Bash", "t2", &push));
    let task: Value =
        serde_json::from_str(&stage.run(&["task", "show", &own_task(), "--json"]).stdout).unwrap();
    assert_eq!(task["status"], "in_progress");
    assert_eq!(steps(&stage, &own_task())[1].1, "done");
}

#[test]
fn calls_belong_to_the_task_that_the_agent_was_given() {
    let stage = Stage::new();
    let started = stage.run(&["task", "start", "given", "--json"]);
    let started: Value = serde_json::from_str(&started.stdout).unwrap();
    let fence = started["fence"].to_string();
    let variables = [("RELIGHT_TASK", "given"), ("RELIGHT_FENCE", &*fence)];
    let done = json!({"command": "relight task done"});
    hook_with(
        &stage,
        "before-tool",
        &call("Bash", "t1", &done),
        &variables,
    );
    assert_eq!(steps(&stage, "given").len(), 1);
    assert_eq!(
        stage
            .run(&["task", "done", "given", "--fence", &fence])
            .code,
        0
    );
    // The call that finished the task ends after it; what follows is the conversation's own.
    hook_with(&stage, "after-tool", &call("Bash", "t1", &done), &variables);
    assert_eq!(steps(&stage, "given")[0].1, "done");
    hook_with(
        &stage,
        "before-tool",
        &call("Bash", "t2", &done),
        &variables,
    );
    assert_eq!(
        (
            steps(&stage, "given").len(),
            steps(&stage, &own_task()).len()
        ),
        (1, 1)
    );
}

/// Calls without an id are told apart by their number.
#[test]
fn the_same_arguments_without_an_id_are_another_call_each_time() {
    let stage = Stage::new();
    let test = json!({"tool_name": "Shell", "tool_input": {"command": "make"}});
    for _ in 0..5 {
        hook(&stage, "before-tool", &test);
        hook(&stage, "after-tool", &test);
    }
    hook(&stage, "before-tool", &test);
    let states: Vec<String> = steps(&stage, &own_task())
        .into_iter()
        .map(|(_, s)| s)
        .collect();
    assert_eq!(states, ["done", "done", "done", "done", "done", "begun"]);
}

/// Some programs leave the arguments out when they report the end of a call.
#[test]
fn an_end_without_arguments_ends_the_call_that_was_begun() {
    let stage = Stage::new();
    let test = json!({"command": "make test"});
    let states = || -> Vec<String> {
        let steps = steps(&stage, &own_task()).into_iter();
        steps.map(|(_, state)| state).collect()
    };
    // By its id, whatever else is open.
    hook(&stage, "before-tool", &call("Bash", "t1", &test));
    hook(&stage, "before-tool", &call("Bash", "t2", &test));
    let end = json!({"tool_name": "Bash", "tool_use_id": "t1"});
    hook(&stage, "after-tool", &end);
    assert_eq!(states(), ["done", "begun"]);
    let end = json!({"tool_name": "Bash", "tool_use_id": "t2", "error": "exit code 2"});
    hook(&stage, "after-tool", &end);
    assert_eq!(states(), ["done", "failed"]);
    // Without an id it is the only open one of its tool.
    let begun = |tool: &str, command: &str| {
        let input = json!({"command": command});
        hook(
            &stage,
            "before-tool",
            &json!({"tool_name": tool, "tool_input": input}),
        );
    };
    let end = json!({"tool_name": "Shell"});
    begun("Shell", "make");
    begun("Deploy", "now");
    hook(&stage, "after-tool", &end);
    assert_eq!(states(), ["done", "failed", "done", "begun"]);
    // Of two nobody can tell which one has ended: both stay in doubt.
    begun("Shell", "make one");
    begun("Shell", "make two");
    hook(&stage, "after-tool", &end);
    assert_eq!(states()[3..6], ["begun", "begun", "begun"]);
}

/// Half of a mark would be taken for a secret, and marked again.
#[test]
fn the_name_of_a_call_is_not_shortened_inside_a_mark() {
    let stage = Stage::new();
    let secret = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";
    let mut ids = Vec::new();
    for before in (40..90).step_by(2) {
        for key in ["", "token=", "--password ", "https://u:"] {
            let command = format!("{} {key}{secret} tail", "x".repeat(before));
            let id = format!("t{before}-{}", key.len());
            hook(
                &stage,
                "before-tool",
                &call("Bash", &id, &json!({"command": command})),
            );
            ids.push(id);
        }
    }
    let names = steps(&stage, &own_task()).into_iter().map(|(name, _)| name);
    let names: Vec<String> = names.collect();
    assert_eq!(names.len(), ids.len());
    let mark = mark_in(&names[0]);
    for name in &names {
        let without = name.replace(&mark, "");
        assert!(!without.contains("redac"), "{name}");
        assert!(!without.contains("ghp_"), "{name}");
    }
    // As they are shown they can be typed.
    for name in names.iter().step_by(7) {
        let shown = stage.run(&["step", "show", name, "--task", &own_task()]);
        assert_eq!(shown.code, 0, "{name}: {shown:?}");
    }
}

fn mark_in(name: &str) -> String {
    let mark = &name[name.find("[redacted:").unwrap()..];
    mark[..=mark.find(']').unwrap()].to_owned()
}

/// Two hooks that begin together do not take the same number: one of the calls would be lost.
#[test]
fn the_same_arguments_without_an_id_at_the_same_time_are_as_many_calls() {
    let test = json!({"tool_name": "Shell", "tool_input": {"command": "./pay.sh 5"}});
    let at_once = |stage: &Stage, variables: &[(&str, &str)]| {
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| hook_with(stage, "before-tool", &test, variables));
            }
        });
    };
    let begun = |stage: &Stage, task: &str| {
        let steps = steps(stage, task);
        steps.iter().filter(|(_, state)| state == "begun").count()
    };
    let stage = Stage::new();
    at_once(&stage, &[]);
    assert_eq!(begun(&stage, &own_task()), 8, "the first of a conversation");
    hook(&stage, "stop", &json!({}));
    hook(&stage, "prompt", &json!({"prompt": "pay"}));
    at_once(&stage, &[]);
    assert_eq!(begun(&stage, &own_task()), 8, "in a turn");

    let started = stage.run(&["task", "start", "rent", "--json"]);
    let started: Value = serde_json::from_str(&started.stdout).unwrap();
    let fence = started["fence"].to_string();
    at_once(
        &stage,
        &[("RELIGHT_TASK", "rent"), ("RELIGHT_FENCE", &fence)],
    );
    assert_eq!(begun(&stage, "rent"), 8, "in the task that was given");
}

#[test]
fn many_calls_at_once_are_all_kept() {
    let stage = Stage::new();
    hook(&stage, "prompt", &json!({"prompt": "all"}));
    std::thread::scope(|scope| {
        for number in 0..12 {
            let stage = &stage;
            scope.spawn(move || {
                let (id, input) = (format!("t{number}"), json!({"command": "sleep 1"}));
                hook(stage, "before-tool", &call("Bash", &id, &input));
                hook(stage, "after-tool", &call("Bash", &id, &input));
            });
        }
    });
    let all = steps(&stage, &own_task());
    assert_eq!(
        (
            all.len(),
            all.iter().filter(|(_, state)| state == "done").count()
        ),
        (12, 12)
    );
}

#[test]
fn what_cannot_be_recorded_is_only_logged() {
    let stage = Stage::new();
    for (words, input) in [
        (["hook", "before-tool", "--for", "claude"], "{"),
        (
            ["hook", "before-tool", "--for", "claude"],
            "{\"tool_name\": \"Bash\"}",
        ),
        (["hook", "before-tool", "--for", "claude"], ""),
        (["hook", "no-such-event", "--for", "claude"], "{}"),
        (["hook", "before-tool", "--for", "nobody"], "{}"),
        (["hook", "before-tool", "--no-such-flag", "claude"], "{}"),
    ] {
        let ran = feed(stage.command(&words), input.as_bytes());
        assert_eq!((ran.code, &*ran.stdout), (0, ""), "{words:?} {input}");
    }
    let fields = json!({"session_id": SESSION, "tool_name": "Bash", "tool_input": {}});
    let mut command = stage.command(&["hook", "before-tool", "--for", "claude"]);
    command.env("RELIGHT_STORE", "sqlite:/proc/none/relight.db");
    let ran = feed(command, fields.to_string().as_bytes());
    assert_eq!((ran.code, &*ran.stdout, &*ran.stderr), (0, "", ""));
}

#[test]
fn the_rules_of_tools_are_the_users() {
    let stage = Stage::new();
    let rules = "[hooks]\nrepeatable = [\"Bash\"]\nignored = [\"mcp__*\"]\n";
    fs::write(work(&stage).join("relight.toml"), rules).unwrap();
    hook(&stage, "before-tool", &call("mcp__do", "t0", &json!({})));
    let recorded = ("mcp__do [t0]".to_owned(), "begun".to_owned());
    assert_eq!(
        steps(&stage, &own_task()),
        std::slice::from_ref(&recorded),
        "not approved"
    );
    let trust = stage.command(&["trust"]).current_dir(work(&stage)).status();
    assert!(trust.unwrap().success());
    hook(
        &stage,
        "before-tool",
        &call("Bash", "t1", &json!({"command": "ls"})),
    );
    hook(
        &stage,
        "before-tool",
        &call("MCP__other__do", "t2", &json!({})),
    );
    hook(
        &stage,
        "before-tool",
        &call("Read", "t3", &json!({"file_path": "/x"})),
    );
    let read = ("Read: /x [t3]".to_owned(), "begun".to_owned());
    assert_eq!(steps(&stage, &own_task()), [recorded, read]);
}

/// Under a supervisor the calls are in the brief of the next attempt, and hooks give it to the model.
#[test]
fn a_supervised_agent_is_told_what_its_attempt_before_had_begun() {
    let stage = Stage::new();
    let program = stage
        .command(&[])
        .get_program()
        .to_string_lossy()
        .into_owned();
    let agent = format!(
        r"
import json, os, subprocess
def hook(event, **fields):
    fields = {{'session_id': '{SESSION}', 'cwd': os.getcwd(), **fields}}
    command = ['{program}', 'hook', event, '--for', 'claude']
    return subprocess.run(command, input=json.dumps(fields), text=True, stdout=-1).stdout
if os.environ['RELIGHT_RESUMED'] == '1':
    print(hook('session-start', source='resume'))
else:
    hook('before-tool', tool_name='Bash', tool_input={{'command': 'git push'}}, tool_use_id='t1')
    os.kill(os.getpid(), 9)
"
    );
    fs::write(work(&stage).join("agent.py"), agent).unwrap();
    let ran = stage.run(&["run", "--name", "a", "--", "python3", "agent.py"]);
    let told =
        "`git push` (Bash) was begun and its outcome is unknown: check `git ls-remote` first";
    assert_eq!(ran.code, 0, "a conversation is nothing to finish: {ran:?}");
    assert!(
        ran.stdout.contains("additionalContext") && ran.stdout.contains(told),
        "{ran:?}"
    );
}
