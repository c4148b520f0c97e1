//! Presets end to end, with fake agents that imitate the streams, ids, exits and signals of real ones.

use std::path::{Path, PathBuf};

use relight_core::time::Time;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::ground::{Ground, Supervisor, signal, until};

/// A ground with the fake of this program; it leaves what it got in `work`.
fn with_fake(program: &str) -> Ground {
    let ground = Ground::new();
    let fakes = Path::new(env!("CARGO_MANIFEST_DIR")).join("../runtime/tests/fakes");
    for name in [program, "common.sh"] {
        std::fs::copy(
            fakes.join(name),
            ground.stage.folder.path().join("bin").join(name),
        )
        .unwrap();
    }
    ground
}

/// `relight run` of the fake, which does as `FAKE` says.
fn run(ground: &Ground, preset: &str, fake: &str, flags: &[&str], words: &[&str]) -> Supervisor {
    let work = ground.work("").display().to_string();
    let words = [
        &["run", "--name", "a", "--preset", preset],
        flags,
        &["--"],
        words,
    ]
    .concat();
    ground.start_with(&words, &[("FAKE", fake), ("FAKE_OUT", &work)])
}

fn session(ground: &Ground) -> String {
    let agent = ground.until_agent("a", |agent| agent["session"].is_string());
    agent["session"].as_str().unwrap().to_owned()
}

fn argv(ground: &Ground) -> String {
    ground.lines("argv").join(" ")
}

/// Kills the first attempt; the words that the second one got.
fn resumed(ground: &Ground) -> String {
    let first = argv(ground);
    signal(ground.until_runs("a", 1), Signal::KILL);
    ground.until_runs("a", 2);
    until("other words", || {
        (argv(ground) != first && !argv(ground).is_empty()).then(|| argv(ground))
    })
}

#[test]
fn claude_code_gets_its_session_id_from_us_and_resumes_with_it() {
    let ground = with_fake("claude");
    let _run = run(
        &ground,
        "claude-code",
        "work",
        &[],
        &["claude", "-p", "Write"],
    );
    ground.until_runs("a", 1);
    let id = session(&ground);
    until("its words", || {
        argv(&ground).contains("--session-id").then_some(())
    });
    assert!(
        argv(&ground).contains(&format!("--session-id {id}")),
        "{}",
        argv(&ground)
    );
    until("its session exists", || {
        ground.work(&id).exists().then_some(())
    });
    let words = resumed(&ground);
    assert!(words.contains(&format!("--resume {id}")), "{words}");
    assert!(!words.contains("--session-id"), "{words}");
    assert_eq!(session(&ground), id);
}

#[test]
fn an_attempt_that_cannot_be_started_does_not_cost_the_session() {
    let ground = with_fake("codex");
    let flags = ["--cooldown", "1s"];
    let _run = run(
        &ground,
        "codex",
        "work",
        &flags,
        &["codex", "exec", "fix it"],
    );
    let first = ground.until_runs("a", 1);
    let (id, words) = (session(&ground), argv(&ground));
    // Nothing can be logged: the second attempt never runs.
    let logs = ground.home("agents/a/log");
    let aside = logs.with_extension("aside");
    std::fs::rename(&logs, &aside).unwrap();
    std::fs::write(&logs, "").unwrap();
    signal(first, Signal::KILL);
    ground.until_agent("a", |agent| agent["last_death"]["code"] == 126);
    std::fs::remove_file(&logs).unwrap();
    std::fs::rename(&aside, &logs).unwrap();
    let words = until("other words", || {
        (argv(&ground) != words).then(|| argv(&ground))
    });
    assert!(
        words.starts_with(&format!("exec --json resume {id} # Brief for attempt")),
        "{words}"
    );
}

#[test]
fn codex_says_its_id_and_it_is_on_disk_before_the_agent_is_killed() {
    let ground = with_fake("codex");
    let _run = run(&ground, "codex", "work", &[], &["codex", "exec", "fix it"]);
    ground.until_runs("a", 1);
    let id = "0199a213-81c0-7800-8aa1-bbab2a035a53";
    assert_eq!(session(&ground), id);
    let words = resumed(&ground);
    assert!(
        words.starts_with(&format!("exec --json resume {id} ")),
        "{words}"
    );
}

#[test]
fn codex_that_exits_0_without_success_has_failed() {
    let ground = with_fake("codex");
    let flags = ["--json", "--restart", "never"];
    let run_ = |fake| run(&ground, "codex", fake, &flags, &["codex", "exec", "fix it"]).end_json();
    let (code, answer) = run_("cut");
    assert_eq!(
        (code, &answer["cause"], &answer["whose"]),
        (1, &json!("failed"), &json!("relight"))
    );
    let note = &ground.deaths("a")[0]["note"];
    assert_eq!(note, "its output never said that it succeeded");
    let (_, answer) = run_("fail");
    assert_eq!(answer["cause"], "failed");
    let (_, answer) = run_("odd");
    assert_eq!(answer["cause"], "completed");
}

#[test]
fn a_limit_that_the_stream_tells_suspends_until_then_and_charges_nothing() {
    let ground = with_fake("codex");
    let run = run(
        &ground,
        "codex",
        "limit",
        &["--defer", "1s"],
        &["codex", "exec", "fix it"],
    );
    let agent = ground.until_state("a", "suspended");
    assert_eq!(agent["restarts_total"], 0);
    // In an hour and a half, as it said, and not after --defer.
    let at = |field: &str| agent[field].as_str().unwrap().parse::<Time>().unwrap();
    let wait = at("again_at").since(at("since")).as_ms();
    assert!((5_300_000..=5_400_000).contains(&wait), "{wait} ms");
    // In the words of its program.
    for text in [&agent["detail"], &agent["last_death"]["note"]] {
        assert!(
            text.as_str().is_some_and(|text| text.contains("limit")),
            "{agent}"
        );
    }
    run.signal(Signal::TERM);
    assert_eq!(run.end().code, 143);
}

/// Tokens sent and written, and cost, of an agent or a task.
fn used(of: &Value) -> (u64, u64, String) {
    let tokens = |field: &str| of[field].as_u64().unwrap();
    let cost = of["cost"].as_str().unwrap().to_owned();
    (tokens("input_tokens"), tokens("output_tokens"), cost)
}

#[test]
fn what_the_stream_tells_of_usage_is_counted_once_for_agent_and_task() {
    let ground = with_fake("claude");
    let flags = ["--task", "t", "--exit-completes"];
    let words = ["claude", "-p", "Write"];
    let start = || run(&ground, "claude-code", "spend", &flags, &words);
    let first = start();
    let both = (2_220, 14, "0".to_owned());
    ground.until_agent("a", |agent| used(agent) == both);
    // The next supervisor reads the same output from its beginning.
    first.kill();
    let second = start();
    second.until_said("adopted");
    let attempt = ground.until_runs("a", 1);
    assert_eq!(used(&ground.agent("a")), both);
    signal(attempt, Signal::KILL);
    assert_eq!(second.end().code, 0);
    let all = (3_330, 23, "0.25".to_owned());
    assert_eq!(used(&ground.agent("a")), all);
    let task = ground.json(&["task", "show", "t"]);
    assert_eq!(used(&task), all);
    assert_eq!(
        (&task["turns"], &task["status"]),
        (&json!(1), &json!("completed"))
    );
    let shown = ground.call(&["task", "show", "t"]).stdout;
    assert!(shown.contains("3330 in, 23 out"), "{shown}");
}

#[test]
fn an_agent_that_spends_without_progress_is_stopped_and_waits_for_a_person() {
    let ground = with_fake("claude");
    let flags = ["--json", "--tokens-max", "3000"];
    let words = ["claude", "-p", "Write"];
    let start = || run(&ground, "claude-code", "costly", &flags, &words);
    let (code, answer) = start().end_json();
    assert_eq!(
        (code, &answer["state"], &answer["whose"]),
        (1, &json!("suspended"), &json!("relight"))
    );
    assert_eq!(answer["attempts"], 1, "it is not tried again");
    let note = ground.deaths("a")[0]["note"].as_str().unwrap().to_owned();
    assert!(
        note.contains("tokens without progress (tokens_max is 3000)"),
        "{note}"
    );
    let alerts = ground.events("alert");
    assert!(
        alerts
            .iter()
            .any(|alert| alert.to_string().contains("without progress")),
        "{alerts:?}"
    );
    let shown = ground.call(&["ps"]).stdout;
    assert!(shown.contains("without progress"), "{shown}");
    let status = ground.call(&["status"]);
    for words in [
        "tokens without progress (tokens_max is 3000)",
        "lets it spend as much again",
    ] {
        assert!(status.stdout.contains(words), "{words}: {status:?}");
    }
    // A person starts it, and it may spend as much again.
    let (_, answer) = start().end_json();
    assert_eq!(answer["attempts"], 2);
    let spent = used(&ground.agent("a")).0;
    assert!(spent >= 5_000, "{spent}");
}

#[test]
fn a_refused_key_that_the_program_tries_again_and_again_ends_it() {
    let ground = with_fake("claude");
    let words = ["claude", "-p", "Write"];
    let run = run(&ground, "claude-code", "retries", &["--json"], &words);
    let (code, answer) = run.end_json();
    assert_eq!((code, &answer["state"]), (1, &json!("suspended")));
    assert_eq!(ground.deaths("a")[0]["note"], "401: authentication_failed");
    assert_eq!(ground.read("signal"), "TERM\n");
}

#[test]
fn codex_is_stopped_by_int_first() {
    let ground = with_fake("codex");
    let run = run(&ground, "codex", "work", &[], &["codex", "exec", "fix it"]);
    ground.until_runs("a", 1);
    session(&ground);
    assert_eq!(ground.call(&["stop", "a"]).code, 0);
    run.end();
    assert_eq!(ground.read("signal"), "INT\n");
    assert_eq!(ground.state("a"), "stopped");
}

#[test]
fn claude_code_is_stopped_by_term() {
    let ground = with_fake("claude");
    let run = run(
        &ground,
        "claude-code",
        "work",
        &[],
        &["claude", "-p", "Write"],
    );
    ground.until_runs("a", 1);
    let id = session(&ground);
    until("it works", || ground.log("a").contains(&id).then_some(()));
    assert_eq!(ground.call(&["stop", "a"]).code, 0);
    run.end();
    assert_eq!(ground.read("signal"), "TERM\n");
}

/// Leaves a transcript in the user's home, as the program would.
fn leave_transcript(ground: &Ground, name: &str, content: &str) -> PathBuf {
    let path = ground.stage.folder.path().join("user").join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, content).unwrap();
    path
}

#[test]
fn a_torn_transcript_is_repaired_before_the_resume_and_its_open_call_is_in_the_brief() {
    let ground = with_fake("claude");
    let _run = run(
        &ground,
        "claude-code",
        "work",
        &[],
        &["claude", "-p", "Write"],
    );
    ground.until_runs("a", 1);
    let id = session(&ground);
    until("its session exists", || {
        ground.work(&id).exists().then_some(())
    });
    let record = |uuid: &str, kind: &str, content: Value| {
        let message = json!({"role": kind, "content": content});
        json!({"type": kind, "uuid": uuid, "parentUuid": null, "isSidechain": false,
               "sessionId": id, "message": message})
        .to_string()
            + "\n"
    };
    let command = json!({"command": "git push --token ghp_0123456789abcdefghijABCDEFGHIJ012345"});
    let call = json!([{"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": command}]);
    let sound = record("u1", "user", json!("Write")) + &record("u2", "assistant", call);
    let name = format!(".claude/projects/-work/{id}.jsonl");
    let path = leave_transcript(&ground, &name, &format!("{sound}{{\"type\":\"us"));
    let words = resumed(&ground);
    assert!(words.contains(&format!("--resume {id}")), "{words}");
    assert!(words.contains("`git push --token "), "{words}");
    assert!(
        words.contains("(Bash) was begun and its outcome is unknown"),
        "{words}"
    );
    assert!(
        words.contains("check `git ls-remote` first") && !words.contains("ghp_0123"),
        "{words}"
    );
    let repaired = std::fs::read_to_string(&path).unwrap();
    let added = repaired
        .strip_prefix(&sound)
        .expect("whole records are kept");
    let answer: Value = serde_json::from_str(added).unwrap();
    assert_eq!(answer["message"]["content"][0]["tool_use_id"], "toolu_1");
    let note = ground.events("agent.session").pop().unwrap()["detail"].clone();
    assert_eq!(note["findings"][0]["kind"], "open_call", "{note}");
    let kept = std::fs::read_to_string(note["kept"].as_str().unwrap()).unwrap();
    assert!(kept.ends_with("{\"type\":\"us"), "{kept}");
}

#[test]
fn a_transcript_beyond_repair_begins_a_new_session_with_prompt_and_brief() {
    let ground = with_fake("codex");
    let _run = run(&ground, "codex", "work", &[], &["codex", "exec", "fix it"]);
    ground.until_runs("a", 1);
    let id = session(&ground);
    let name = format!(".codex/sessions/2026/01/02/rollout-2026-01-02T03-04-05-{id}.jsonl");
    leave_transcript(&ground, &name, "{\"timestamp\":\"2026");
    let words = resumed(&ground);
    assert!(words.starts_with("exec --json fix it  # Brief"), "{words}");
}

#[test]
fn a_transcript_that_cannot_be_repaired_now_stops_no_restart() {
    let ground = with_fake("codex");
    let run = run(&ground, "codex", "work", &[], &["codex", "exec", "fix it"]);
    ground.until_runs("a", 1);
    let id = session(&ground);
    let name = format!(".codex/sessions/2026/01/02/rollout-2026-01-02T03-04-05-{id}.jsonl");
    let header =
        "{\"timestamp\":\"2026-01-02T03:04:05Z\",\"type\":\"session_meta\",\"payload\":{}}\n";
    let path = leave_transcript(&ground, &name, &format!("{header}{{\"half"));
    let open = std::fs::File::open(&path).unwrap();
    let words = resumed(&ground);
    assert!(
        words.starts_with(&format!("exec --json resume {id} ")),
        "{words}"
    );
    run.signal(Signal::TERM);
    let ran = run.end();
    assert!(
        ran.stderr.contains("its transcript cannot be repaired"),
        "{}",
        ran.stderr
    );
    drop(open);
}

#[test]
fn claude_code_that_lost_its_session_begins_a_new_one() {
    let ground = with_fake("claude");
    // With the usual cooldown: an attempt that only finds its session gone costs nothing.
    let _run = run(
        &ground,
        "claude-code",
        "work",
        &[],
        &["claude", "-p", "Write"],
    );
    ground.until_runs("a", 1);
    let id = session(&ground);
    until("its session exists", || {
        ground.work(&id).exists().then_some(())
    });
    std::fs::remove_file(ground.work(&id)).unwrap();
    signal(ground.until_runs("a", 1), Signal::KILL);
    ground.until_runs("a", 3);
    until("a new session", || (session(&ground) != id).then_some(()));
    assert_eq!(
        ground.agent("a")["restarts_total"],
        1,
        "only the kill is charged"
    );
    until("its prompt and the brief", || {
        argv(&ground).contains("Write  # Brief").then_some(())
    });
}

#[test]
fn an_error_that_no_retry_can_cure_suspends_at_once_and_keeps_its_reason() {
    let ground = with_fake("claude");
    let ran = run(
        &ground,
        "claude-code",
        "refused",
        &[],
        &["claude", "-p", "W"],
    )
    .end();
    assert_eq!((ran.code, ground.state("a")), (1, "suspended".to_owned()));
    let deaths = ground.deaths("a");
    assert_eq!(
        (deaths.len(), &deaths[0]["note"]),
        (1, &json!("401: incorrect API key"))
    );
    assert!(
        ran.stderr.contains("ALERT") && ran.stderr.contains("401: incorrect API key"),
        "{}",
        ran.stderr
    );
    // Whoever runs it again has fixed it.
    let ran = run(&ground, "claude-code", "odd", &[], &["claude", "-p", "W"]).end();
    assert_eq!((ground.state("a"), ran.code), ("stopped".to_owned(), 3));
}

#[test]
fn an_agent_that_is_killed_after_it_said_success_has_succeeded() {
    let ground = with_fake("claude");
    let run = run(&ground, "claude-code", "late", &[], &["claude", "-p", "W"]);
    let pid = ground.until_runs("a", 1);
    until("its result", || {
        ground.log("a").contains("\"done\"").then_some(())
    });
    signal(pid, Signal::KILL);
    assert_eq!(run.end().code, 0);
    assert_eq!(ground.causes("a"), ["signal"]);
}

#[test]
fn kimi_without_an_id_begins_anew_with_prompt_and_brief() {
    let ground = with_fake("kimi");
    let _run = run(&ground, "kimi", "work", &[], &["kimi", "-p", "Write"]);
    until("its words", || {
        argv(&ground).contains("Write").then_some(())
    });
    let words = resumed(&ground);
    assert!(words.contains("Write  # Brief"), "{words}");
    assert!(!words.contains("--continue"), "{words}");
}

#[test]
fn claude_code_whose_exit_code_lies_is_judged_by_its_result() {
    let ground = with_fake("claude");
    let flags = ["--json", "--restart", "never"];
    let ends = |fake| {
        run(&ground, "claude-code", fake, &flags, &["claude", "-p", "W"])
            .end_json()
            .1
    };
    assert_eq!(ends("odd")["cause"], "completed");
    assert_eq!(ends("fail")["cause"], "failed");
}

#[test]
fn a_preset_of_the_users_own_is_found() {
    let ground =
        Ground::with_agent("echo \"$*\" >>argv; [ $RELIGHT_RESUMED = 0 ] && exit 1; exit 0");
    let folder = ground
        .stage
        .folder
        .path()
        .join("user/.config/relight/presets");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(
        folder.join("mine.toml"),
        "about = \"mine\"\nlaunch = [\"--new\"]\nresume = [\"--again\"]\nplace = \"program\"\n",
    )
    .unwrap();
    assert_eq!(ground.run(&["--preset", "mine"]).end().code, 0);
    assert_eq!(ground.lines("argv"), ["--new", "--again"]);
    assert_eq!(ground.run(&["--preset", "nobodys"]).end().code, 78);
}

#[test]
fn any_program_runs_under_the_generic_preset_as_it_is() {
    let ground = with_fake("generic");
    let ran = run(
        &ground,
        "generic",
        "fail",
        &["--restart", "never"],
        &["generic", "--x", "y z"],
    )
    .end();
    assert_eq!(ran.code, 1);
    assert_eq!(ground.lines("argv"), ["--x", "y z"]);
}

#[test]
fn a_result_without_the_end_of_its_line_is_read() {
    let ground = Ground::with_agent(
        "printf '{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false}'; exit 3",
    );
    ground
        .run(&["--preset", "claude-code", "--restart", "never"])
        .end();
    assert_eq!(ground.causes("a"), ["completed"]);
}
