//! `relight run`: exit codes, recoveries and their limits, and what reaches the agent.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use relight_core::time::{Span, Time};
use rustix::process::Signal;
use serde_json::json;

use crate::ground::{Ground, is_alive, signal, until};
use crate::relight::finish;

/// The exit code of a run that ends by itself, and whose it is.
fn ends(script: &str, flags: &[&str]) -> (i32, String) {
    let ground = Ground::with_agent(script);
    let (code, answer) = ground.run(&[&["--json"], flags].concat()).end_json();
    assert_eq!(answer["code"], code);
    (code, answer["whose"].as_str().unwrap().to_owned())
}

#[test]
fn an_agent_that_defers_its_task_and_exits_is_resumed_for_it() {
    let ground = Ground::with_agent(
        "echo $$ >>births\n[ $RELIGHT_ATTEMPT_NUMBER = 2 ] && exec relight task done\n\
         relight task defer --until 1s",
    );
    let run = ground.run(&["--task", "t"]);
    assert_eq!(run.end().code, 0);
    assert_eq!(ground.task_status("t"), "completed");
    assert_eq!(ground.causes("a"), ["deferred", "completed"]);
}

#[test]
fn the_remedy_for_an_ended_run_is_the_command_that_works() {
    let ground = Ground::with_agent("[ -e mended ] && exit 0; exit 3");
    let flags = ["--max-attempts", "0", "--task", "t"];
    let ran = ground.run(&flags).end();
    let remedy = "relight run --name a --max-attempts 0 --task t -- ./agent";
    assert!(ran.stderr.contains(remedy), "{ran:?}");
    let started = ground.call(&["start", "a"]);
    assert_eq!(started.code, 69, "{started:?}");
    assert!(started.stderr.contains(remedy), "{started:?}");
    let shown = ground.call(&["ps"]);
    assert!(shown.stdout.contains(remedy), "{shown:?}");
    std::fs::write(ground.work("mended"), "").unwrap();
    let words: Vec<&str> = remedy.split(' ').skip(1).collect();
    let ran = ground
        .start(&[&words[..3], &["--exit-completes"], &words[3..]].concat())
        .end();
    assert_eq!(ran.code, 0, "{ran:?}");
}

#[test]
fn the_remedy_has_every_flag_and_the_folder_and_can_be_pasted_anywhere() {
    let ground = Ground::with_agent("printf '%s\\n' \"$@\" >>\"$RELIGHT_AGENT\"; [ -e mended ]");
    std::fs::create_dir(ground.work("my folder")).unwrap();
    let until = "test -e '../mended'";
    let flags = [
        "--max-attempts",
        "0",
        "--loop",
        "--until",
        until,
        "--folder",
        "my folder",
    ];
    let words = [
        &["run", "--name", "a"],
        &flags[..],
        &["--", "../agent", "it's", ""],
    ]
    .concat();
    assert_eq!(ground.start(&words).end().code, 1);
    std::fs::write(ground.work("my folder/mended"), "").unwrap();
    std::fs::write(ground.work("mended"), "").unwrap();
    let hint = ground.events("alert")[0]["detail"]["hint"]
        .as_str()
        .unwrap()
        .to_owned();
    let (_, remedy) = hint.split_once(", then ").unwrap();
    let here = std::fs::canonicalize(ground.work("")).unwrap();
    let ran = ground.shell(remedy);
    assert_eq!(ran.code, 0, "{remedy}: {ran:?}");
    assert_eq!(ground.read("my folder/a"), "it's\n\nit's\n\n");
    let typed = format!(
        "cd {} && relight run --name a --max-attempts 0 --loop",
        here.display()
    );
    assert!(remedy.starts_with(&typed), "{remedy}");
}

#[test]
fn an_agent_that_finishes_a_task_in_each_attempt_makes_progress() {
    let ground = Ground::with_agent(
        "n=$RELIGHT_ATTEMPT_NUMBER; relight task add t$n; relight task start t$n || exit 9\n\
         relight task done t$n || exit 9; [ $n = 6 ] && exit 0; kill -9 $$",
    );
    let ran = ground
        .run(&["--max-attempts", "2", "--cooldown", "10m"])
        .end();
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(ground.causes("a").len(), 6);
    assert!(
        ground.deaths("a")[..5]
            .iter()
            .all(|death| death["made_progress"] == true)
    );
}

#[test]
fn work_that_a_process_of_the_attempt_or_nobody_held_is_progress_too() {
    let by_process = "relight task add t$n; relight task start t$n --owner-pid $$ || exit 9\n\
         relight task done t$n || exit 9";
    let a_step = "eval \"$(relight task start t --owner-pid $$ --export)\" || exit 9\n\
         relight step run s$n -- true || exit 9";
    let workflows = "relight checkpoint start --workflow w$n --agent a --step s --idempotency k$n\n\
         relight checkpoint complete --workflow w$n || exit 9";
    let one_workflow = "[ $n != 1 ] || relight checkpoint start --workflow w --agent a --step s1 --idempotency k\n\
         relight checkpoint update --workflow w --complete s$n --step s$((n + 1)) || exit 9";
    for work in [by_process, a_step, workflows, one_workflow] {
        let script = format!(
            "n=$RELIGHT_ATTEMPT_NUMBER\n{work}; [ $n = 4 ] && {{ relight task done; exit 0; }}; kill -9 $$"
        );
        let ground = Ground::with_agent(&script);
        let ran = ground
            .run(&["--max-attempts", "1", "--cooldown", "10m"])
            .end();
        let deaths = ground.deaths("a");
        assert_eq!(deaths.len(), 4, "{work}: {ran:?}");
        assert!(
            deaths[..3]
                .iter()
                .all(|death| death["made_progress"] == true),
            "{work}"
        );
    }
}

#[test]
fn what_a_process_of_the_attempt_held_ends_with_that_process_and_with_the_attempt() {
    let ground = Ground::with_agent(
        "[ $RELIGHT_ATTEMPT_NUMBER = 1 ] || exec sleep 1000\n\
         bash -c 'relight task start t --owner-pid $$; kill -9 $$'\n\
         relight task show t --json >held; relight task start t --owner-pid $$ --json >again\n\
         kill -9 $$",
    );
    let run = ground.run(&[]);
    ground.until_runs("a", 2);
    let shown =
        |name: &str| -> serde_json::Value { serde_json::from_str(&ground.read(name)).unwrap() };
    let holder = &shown("held")["holder"];
    assert_eq!(
        (&holder["kind"], &holder["alive"]),
        (&"attempt".into(), &false.into())
    );
    assert_eq!(
        shown("again")["fence"],
        2,
        "its own attempt takes it from the dead process"
    );
    let task = ground.json(&["task", "show", "t"]);
    assert_eq!(
        (&task["status"], &task["holder"]),
        (&"interrupted".into(), &serde_json::Value::Null)
    );
    run.signal(rustix::process::Signal::TERM);
    run.end();
}

#[test]
fn what_an_attempt_held_for_a_process_elsewhere_ends_with_the_attempt() {
    let ground = Ground::with_agent(
        "[ $RELIGHT_ATTEMPT_NUMBER = 1 ] || exec sleep 1000\n\
         relight task start d --owner-pid $OUTSIDE; relight task done d; echo $? >done\n\
         relight task start t --owner-pid $OUTSIDE; relight session begin k --id i --owner-pid $OUTSIDE\n\
         kill -9 $$",
    );
    let outside = ground.start(&["events", "--follow"]);
    let words = ["run", "--name", "a", "--", "./agent"];
    let run = ground.start_with(&words, &[("OUTSIDE", &outside.pid().to_string())]);
    ground.until_runs("a", 2);
    assert_eq!(ground.lines("done"), ["0"], "the attempt is the holder");
    assert_eq!(
        ground.json(&["task", "show", "t"])["holder"],
        serde_json::Value::Null
    );
    let recovered = ground.json(&["session", "recover"]);
    assert_eq!(recovered["items"][0]["key"], "k", "{recovered}");
    run.signal(rustix::process::Signal::TERM);
    run.end();
    outside.kill();
}

#[test]
fn the_agents_exit_code_is_passed_through_and_json_says_whose_it_is() {
    let never = ["--restart", "never"];
    assert_eq!(ends("exit 0", &[]), (0, "agent".to_owned()));
    assert_eq!(ends("exit 3", &never), (3, "agent".to_owned()));
    assert_eq!(ends("kill -9 $$", &never), (137, "agent".to_owned()));
    assert_eq!(ends("kill -TERM $$", &never), (143, "agent".to_owned()));
    let limited = [
        "--restart",
        "never",
        "--timeout",
        "200ms",
        "--grace",
        "200ms",
    ];
    assert_eq!(ends("sleep 60", &limited), (124, "relight".to_owned()));
}

#[test]
fn the_first_recovery_is_at_once_and_the_second_waits_for_the_cooldown() {
    let ground = Ground::with_agent("exit 1");
    let run = ground.run(&["--cooldown", "400ms", "--max-attempts", "2"]);
    assert_eq!(run.end().code, 1);
    let states = ground.events("agent.state");
    let states: Vec<&str> = states
        .iter()
        .map(|event| event["detail"]["to"].as_str().unwrap())
        .collect();
    assert_eq!(
        states,
        ["running", "running", "crashed", "running", "terminated"]
    );
    let at = |kind: &str, number: usize| -> Time {
        serde_json::from_value(ground.events(kind)[number]["at"].clone()).unwrap()
    };
    // A fifth less by chance at most.
    let waited = at("attempt.begun", 2).since(at("attempt.died", 1));
    assert!(waited >= Span::from_ms(320), "{waited}");
}

#[test]
fn too_many_deaths_without_progress_terminate_it_and_somebody_is_told() {
    let ground = Ground::with_agent("echo $$ >>births; exit 4");
    let ran = ground
        .run(&["--cooldown", "10ms", "--max-attempts", "3"])
        .end();
    assert_eq!((ran.code, ground.births(4).len()), (4, 4));
    assert!(
        ran.stderr.contains("ALERT agent a is terminated"),
        "{ran:?}"
    );
    let why = "recovered 3 times in a row without progress";
    let next = "relight deaths a, then relight run --name a --cooldown 10ms --max-attempts 3";
    assert_eq!(
        ground.agent("a")["detail"],
        format!("terminated: {why}; {next} -- ./agent")
    );
    let told = &ground.events("alert")[0]["detail"];
    assert_eq!(
        (&told["alert"], &told["subject"]),
        (&json!("terminated"), &json!("agent/a"))
    );
    assert_eq!(told["more"], json!({"why": why}));
}

#[test]
fn counts_survive_the_supervisors_sigkill() {
    let ground = Ground::with_agent("echo $$ >>births; exit 1");
    let flags = ["--cooldown", "6s", "--max-attempts", "2"];
    let run = ground.run(&flags);
    ground.until_state("a", "crashed");
    run.kill();
    let left = ground.agent("a");
    assert_eq!(
        (&left["recoveries_in_a_row"], &left["truth"]),
        (&json!(2), &json!("forgotten"))
    );
    assert_eq!(ground.run(&flags).end().code, 1);
    assert_eq!(
        (ground.state("a"), ground.births(3).len()),
        ("terminated".to_owned(), 3)
    );
}

#[test]
fn a_finished_step_resets_the_row_but_not_the_total() {
    let ground = Ground::with_agent("relight step run s$RELIGHT_ATTEMPT_NUMBER -- true; exit 1");
    let flags = [
        "--task",
        "t",
        "--max-attempts",
        "1",
        "--restarts-max",
        "3",
        "--cooldown",
        "60s",
    ];
    let (code, answer) = ground.run(&[&["--json"], &flags[..]].concat()).end_json();
    assert_eq!((code, &answer["attempts"]), (1, &json!(4)));
    assert_eq!(
        ground.agent("a")["detail"],
        "terminated: restarted 3 times within 1d; relight deaths a, then relight run --name a --json \
         --task t --max-attempts 1 --restarts-max 3 --cooldown 60s -- ./agent"
    );
}

#[test]
fn a_stable_life_resets_the_row_but_not_the_total() {
    let ground = Ground::with_agent("sleep 0.1; exit 1");
    let flags = [
        "--stable-after",
        "50ms",
        "--max-attempts",
        "1",
        "--restarts-max",
        "2",
    ];
    let (_, answer) = ground
        .run(&[&["--json", "--cooldown", "60s"], &flags[..]].concat())
        .end_json();
    assert_eq!(
        (&answer["attempts"], &answer["state"]),
        (&json!(3), &json!("terminated"))
    );
}

#[test]
fn what_is_never_restarted_stays_crashed_until_a_person_runs_it_again() {
    let ground = Ground::with_agent("echo $$ >>births; exit 1");
    assert_eq!(ground.run(&["--restart", "never"]).end().code, 1);
    assert_eq!(
        (ground.state("a").as_str(), ground.births(1).len()),
        ("crashed", 1)
    );
    assert_eq!(ground.run(&["--restart", "never"]).end().code, 1);
    assert_eq!(ground.births(2).len(), 2);
}

#[test]
fn what_always_runs_rests_after_a_success_and_is_never_charged_for_it() {
    let ground = Ground::with_agent("echo $$ >>births");
    let run = ground.run(&[
        "--restart",
        "always",
        "--cooldown",
        "1s",
        "--max-attempts",
        "1",
    ]);
    ground.births(4);
    let agent = ground.until_state("a", "suspended");
    assert!(
        agent["detail"]
            .as_str()
            .unwrap()
            .contains("it succeeded, and rests"),
        "{agent}"
    );
    assert_eq!(
        (&agent["recoveries_in_a_row"], &agent["restarts_total"]),
        (&json!(0), &json!(0))
    );
    run.signal(Signal::TERM);
    assert_eq!(run.end().code, 143);
}

#[test]
fn a_second_run_of_the_same_name_is_exit_75_and_names_the_owner() {
    let ground = Ground::with_agent("sleep 60");
    let run = ground.run(&[]);
    ground.until_runs("a", 1);
    let second = ground.run(&[]);
    let owner = run.pid().to_string();
    let ran = second.end();
    assert_eq!(ran.code, 75);
    assert!(ran.stderr.contains(&owner), "{ran:?}");
    assert_eq!(ground.agent("a")["attempt"], 1);
}

#[test]
fn a_stop_names_a_frozen_supervisor_at_once() {
    let ground = Ground::with_agent("echo $$ >>births; exec sleep 1000");
    let run = ground.run(&[]);
    ground.births(1);
    run.freeze();
    let refused = ground.call(&["stop", "a"]);
    assert_eq!(refused.code, 75, "{refused:?}");
    let pid = run.pid();
    for said in [
        format!("(pid {pid}) was stopped (SIGSTOP)"),
        format!("kill -CONT {pid}"),
        "--take-over".to_owned(),
    ] {
        assert!(refused.stderr.contains(&said), "{said}: {refused:?}");
    }
    run.signal(Signal::CONT);
    assert_eq!(ground.call(&["stop", "a"]).code, 0);
    run.end();
}

#[test]
fn the_name_is_the_programs_unless_one_is_given() {
    let ground = Ground::new();
    ground.script("my agent!.sh", "true");
    assert_eq!(ground.call(&["run", "--", "./my agent!.sh"]).code, 0);
    assert_eq!(ground.state("my_agent_.sh"), "stopped");
    assert_eq!(
        ground.call(&["run", "--name", "../x", "--", "true"]).code,
        2
    );
}

#[test]
fn the_name_of_an_interpreters_agent_is_its_scripts() {
    let ground = Ground::new();
    ground.script("b.sh", "true");
    assert_eq!(ground.call(&["run", "--", "bash", "b.sh"]).code, 0);
    assert_eq!(ground.state("b.sh"), "stopped");
    assert_eq!(ground.call(&["run", "--", "bash", "-c", "exit 0"]).code, 0);
    assert_eq!(ground.state("bash"), "stopped");
}

#[test]
fn another_command_neither_adopts_nor_ends_what_lives_under_its_name() {
    let ground = Ground::with_agent("sleep 300");
    ground.script("other", "echo x >>other-ran");
    let other = ["run", "--name", "a", "--", "./other"];
    let run = ground.run(&[]);
    let pid = ground.until_runs("a", 1);
    let is_refused = || {
        let ran = ground.call(&other);
        assert_eq!(ran.code, 75, "{ran:?}");
        assert!(
            ran.stderr.contains("under the name a: ./agent, in "),
            "{ran:?}"
        );
        assert!(ran.stderr.contains("--name NAME") && ran.stderr.contains("relight stop a"));
        assert!(is_alive(pid));
    };
    is_refused();
    run.kill();
    is_refused();
    assert_eq!(ground.read("other-ran"), "");
}

#[test]
fn another_command_begins_anew_once_nothing_lives_under_its_name() {
    let ground = Ground::with_agent("sleep 300");
    ground.script(
        "other",
        "echo $RELIGHT_RESUMED $RELIGHT_ATTEMPT_NUMBER >>other-ran",
    );
    let run = ground.run(&[]);
    let pid = ground.until_runs("a", 1);
    run.kill();
    signal(pid, Signal::KILL);
    until("the agent is gone", || (!is_alive(pid)).then_some(()));
    let ran = ground.call(&["run", "--name", "a", "--", "./other"]);
    assert_eq!(
        (ran.code, ground.read("other-ran").as_str()),
        (0, "0 2\n"),
        "{ran:?}"
    );
    assert_eq!(ground.causes("a"), ["signal", "completed"]);
    assert_eq!(ground.agent("a")["recoveries_in_a_row"], 0);
}

#[test]
fn what_completed_while_nobody_watched_is_told() {
    let ground = Ground::with_agent("until [ -e enough ]; do sleep 0.01; done");
    let run = ground.run(&[]);
    let pid = ground.until_runs("a", 1);
    run.kill();
    std::fs::write(ground.work("enough"), "").unwrap();
    until("the agent is gone", || (!is_alive(pid)).then_some(()));
    let ran = ground.run(&[]).end();
    assert_eq!(ran.code, 0);
    assert!(
        ran.stderr
            .contains("attempt 1 had completed while nobody watched"),
        "{ran:?}"
    );
    assert_eq!(ground.deaths("a").len(), 1);
}

#[test]
fn what_cannot_be_started_is_told_at_once_as_a_shell_tells_it() {
    let ground = Ground::new();
    std::fs::write(ground.work("text"), "").unwrap();
    for (program, code) in [("./none", 127), ("no-such-program", 127), ("./text", 126)] {
        let ran = ground.call(&["run", "--name", "a", "--", program]);
        assert_eq!(ran.code, code, "{ran:?}");
        assert!(ran.stderr.contains(program), "{ran:?}");
    }
    assert_eq!(ground.agents(), [json!(null); 0]);
}

#[test]
fn a_program_that_goes_away_is_tried_within_its_limits_and_told() {
    let ground = Ground::with_agent("rm agent; exit 1");
    let ran = ground
        .run(&["--cooldown", "10ms", "--max-attempts", "1"])
        .end();
    assert_eq!(ran.code, 127, "{ran:?}");
    assert!(ran.stderr.contains("./agent"), "{ran:?}");
    assert_eq!(ground.state("a"), "terminated");
}

#[test]
fn a_terminal_is_not_given_where_there_is_none() {
    let ground = Ground::with_agent("true");
    let ran = ground.run(&["--tty"]).end();
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("--tty needs a terminal"), "{ran:?}");
}

#[test]
fn arguments_arrive_literally() {
    let ground = Ground::with_agent("printf '%s\\0' \"$@\" >argv");
    let words: [&[u8]; 8] = [
        b"; touch pwned",
        b"$(touch pwned)",
        b"`touch pwned`",
        b"two\nlines",
        b"-x",
        b"--",
        b"",
        b"\xff\xfe\x80",
    ];
    let mut command = ground.stage.command(&["run", "--", "./agent"]);
    command.args(words.iter().map(|word| OsStr::from_bytes(word)));
    assert_eq!(finish(command.spawn().unwrap()).code, 0);
    let arrived = std::fs::read(ground.work("argv")).unwrap();
    let arrived: Vec<&[u8]> = arrived
        .strip_suffix(&[0])
        .unwrap()
        .split(|byte| *byte == 0)
        .collect();
    assert_eq!(arrived, words);
    assert!(!ground.work("pwned").exists());
}

#[test]
fn standard_input_is_closed_and_nothing_of_the_supervisors_is_open() {
    let ground = Ground::with_agent(
        "read -r line; echo $? >read; for fd in /proc/$$/fd/*; do readlink $fd; done >open",
    );
    assert_eq!(ground.run(&[]).end().code, 0);
    assert_eq!(ground.read("read"), "1\n");
    let home = ground.home("").display().to_string();
    let mut open = ground.lines("open");
    open.retain(|file| !file.ends_with("/agent") && !file.ends_with("work/open"));
    open.iter_mut()
        .for_each(|file| *file = file.replace(&home, ""));
    open.sort();
    open.dedup();
    assert_eq!(
        open,
        ["/dev/null", "agents/a/lock", "agents/a/log/000001.log"]
    );
}

#[test]
fn output_is_shown_and_kept_and_errors_are_among_it() {
    let ground = Ground::with_agent("echo out; echo err >&2; exit 2");
    let ran = ground.run(&["--restart", "never"]).end();
    assert_eq!(ran.stdout, "out\nerr\n");
    assert_eq!(ground.log("a"), "out\nerr\n");
    let deaths = ground.deaths("a");
    assert_eq!(deaths[0]["post_mortem"]["output"], json!(["out", "err"]));
}

#[test]
fn a_failure_while_output_streams_is_a_failure() {
    let ground = Ground::with_agent("yes | head -n 20000; exit 9");
    let ran = ground.run(&["--restart", "never"]).end();
    assert_eq!((ran.code, ran.stdout.len()), (9, 40_000));
    assert_eq!(ground.causes("a"), ["failed"]);
}

#[test]
fn the_logs_and_folders_are_the_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let ground = Ground::with_agent("echo x; echo y >>\"$RELIGHT_STATE_FILE.mine\"");
    assert_eq!(ground.run(&[]).end().code, 0);
    let mode = |name: &str| {
        std::fs::metadata(ground.home(name))
            .unwrap()
            .permissions()
            .mode()
            & 0o777
    };
    assert_eq!(mode("agents/a"), 0o700);
    for file in [
        "agents/a/log/000001.log",
        "agents/a/active_state.json",
        "agents/a/lock",
    ] {
        assert_eq!(mode(file), 0o600, "{file}");
    }
}

/// What a command shows on a terminal, which `script` gives it.
#[expect(
    clippy::disallowed_methods,
    reason = "the door of the product is not tested by itself"
)]
fn on_a_terminal(ground: &Ground, words: &str) -> String {
    let mut script = std::process::Command::new("script");
    script
        .args(["-qec", &format!("relight {words}"), "/dev/null"])
        .current_dir(ground.work(""))
        .env_clear()
        .env(
            "PATH",
            format!("{}:/usr/bin:/bin", ground.work("../bin").display()),
        )
        .env("RELIGHT_HOME", ground.home(""))
        .env("TERM", "xterm")
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    finish(script.spawn().unwrap()).stdout
}

#[test]
fn on_a_terminal_colours_are_all_that_is_obeyed() {
    let written = "a\x1b[31mred\x1b[0m\x1b[2J\x1b]0;title\x07b";
    let ground = Ground::with_agent(
        "printf 'a\\033[31mred\\033[0m\\033[2J'; sleep 0.1; printf '\\033]0;ti'; printf 'tle\\007b'",
    );
    let shown = on_a_terminal(&ground, "run -q --name a -- ./agent");
    assert_eq!(shown, "a\x1b[31mred\x1b[0mb");
    assert_eq!(on_a_terminal(&ground, "logs a"), shown);
    assert_eq!(
        on_a_terminal(&ground, "run -q --raw --name a -- ./agent"),
        written
    );
    assert_eq!(ground.run(&[]).end().stdout, written);
}

#[test]
fn what_is_piped_in_goes_to_the_first_attempt_and_is_not_replayed() {
    let ground = Ground::with_agent(
        "n=$RELIGHT_ATTEMPT_NUMBER; cat >input.$n; [ $n = 1 ] && exit 1; exit 0",
    );
    std::fs::write(ground.work("given"), "hello\n").unwrap();
    ground.script(
        "piped",
        "cat given | relight run --name a --cooldown 0s -- ./agent 2>said",
    );
    ground.script(
        "redirected",
        "relight run --name b --restart never -- cat <given >out",
    );
    let shell = |name: &str| shell(&ground, name);
    assert!(shell("piped").success(), "{}", ground.read("said"));
    assert_eq!(
        (ground.read("input.1"), ground.read("input.2")),
        ("hello\n".into(), String::new())
    );
    let said = ground.read("said");
    assert_eq!(
        said.matches("standard input is only for the first attempt")
            .count(),
        1,
        "{said}"
    );
    assert!(shell("redirected").success());
    assert_eq!(ground.read("out"), "hello\n");
}

fn shell(ground: &Ground, name: &str) -> std::process::ExitStatus {
    let mut command = relight_runtime::os::process::command("sh", &[format!("./{name}")]);
    let folder = std::path::Path::new(env!("CARGO_BIN_EXE_relight"))
        .parent()
        .unwrap();
    let path = format!("{}:/usr/bin:/bin", folder.display());
    command
        .env_clear()
        .env("PATH", path)
        .env("RELIGHT_HOME", ground.home(""));
    command
        .env("HOME", ground.work(""))
        .current_dir(ground.work(""))
        .status()
        .unwrap()
}

#[test]
fn what_is_piped_in_while_an_attempt_is_adopted_is_said_to_be_lost() {
    let ground = Ground::with_agent(
        "n=$RELIGHT_ATTEMPT_NUMBER; [ $n = 1 ] || { cat >input.$n; exit 0; }\n\
         while [ ! -e enough ]; do sleep 0.05; done; exit 1",
    );
    let run = ground.run(&[]);
    ground.until_runs("a", 1);
    run.kill();
    let second = "echo second | relight run --name a --cooldown 0s -- ./agent 2>said";
    ground.script(
        "second",
        &format!("(until grep -q adopted said; do sleep 0.05; done; touch enough) & {second}"),
    );
    std::fs::write(ground.work("said"), "").unwrap();
    assert!(
        shell(&ground, "second").success(),
        "{}",
        ground.read("said")
    );
    let said = ground.read("said");
    assert!(said.contains("standard input is not passed on"), "{said}");
    assert_eq!(ground.read("input.2"), "");
}

#[test]
fn a_timeout_of_0s_is_no_limit() {
    let ground = Ground::with_agent("sleep 0.3; echo done");
    let ran = ground.run(&["--timeout", "0s", "--restart", "never"]).end();
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "done\n"));
}
