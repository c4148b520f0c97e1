//! The commands that speak with a supervisor, or read what its agents wrote, from outside.

use crate::agent_store;
use crate::relight;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::Path;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Duration;

use agent_store::{Told, alive, dead};
use relight::{Ran, Stage, finish};
use relight_core::agent::{AgentState, Stopper};
use relight_core::ids::AgentName;
use relight_runtime::supervise::folder::AgentFolder;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// The folder of the agent `writer`.
fn folder(stage: &Stage) -> AgentFolder {
    let name = AgentName::new("writer").unwrap();
    let folder = AgentFolder::of(&stage.folder.path().join("home"), &name);
    folder.create().unwrap();
    folder
}

/// A supervisor that hears one request and answers so.
fn answering(path: &Path, answer: &Value) -> JoinHandle<Value> {
    let listener = UnixListener::bind(path).unwrap();
    let answer = answer.to_string();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut line = String::new();
        BufReader::new(stream.try_clone().unwrap())
            .read_line(&mut line)
            .unwrap();
        writeln!(stream, "{answer}").unwrap();
        serde_json::from_str(&line).unwrap()
    })
}

/// A daemon that answers what it is, then hears one request and answers so; gives that request's line and
/// body.
fn daemon(stage: &Stage, status: &str, answer: &Value) -> JoinHandle<(String, Value)> {
    let listener = UnixListener::bind(stage.folder.path().join("home/relight.sock")).unwrap();
    let (status, answer) = (status.to_owned(), answer.to_string());
    std::thread::spawn(move || {
        loop {
            let (mut stream, _) = listener.accept().unwrap();
            let mut from = BufReader::new(stream.try_clone().unwrap());
            let mut lines = Vec::new();
            let mut length = 0;
            loop {
                let mut line = String::new();
                from.read_line(&mut line).unwrap();
                if let Some(value) = line.strip_prefix("Content-Length: ") {
                    length = value.trim().parse().unwrap();
                }
                if line.trim().is_empty() {
                    break;
                }
                lines.push(line.trim().to_owned());
            }
            let mut body = vec![0; length];
            from.read_exact(&mut body).unwrap();
            let line = lines.remove(0);
            let is_look = line.starts_with("GET /api/status");
            let (status, answer) = match is_look {
                true => ("200 OK", r#"{"pid":1}"#),
                false => (&*status, &*answer),
            };
            let length = answer.len();
            write!(
                stream,
                "HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{answer}"
            )
            .unwrap();
            if !is_look {
                return (line, serde_json::from_slice(&body).unwrap_or_default());
            }
        }
    })
}

fn changed(from: &str, to: &str) -> Value {
    json!({"agent": "writer", "previous_state": from, "state": to, "task_cancelled": null})
}

#[test]
fn a_stop_is_asked_of_the_run_that_supervises_the_agent() {
    let stage = Stage::new();
    let told = Told::of(&stage, "writer");
    told.held_by(alive()).runs(1, alive(), (1, 0));
    let socket = folder(&stage).path().join("supervisor.sock");
    let heard = answering(&socket, &json!({"ok": changed("running", "stopped")}));
    let ran = stage.run(&["stop", "writer"]);
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (0, "writer: running → stopped\n"),
        "{ran:?}"
    );
    assert_eq!(
        heard.join().unwrap(),
        json!({"verb": "stop", "agent": "writer"})
    );
}

#[test]
fn a_restart_is_asked_of_the_daemon_and_answers_the_state_before() {
    let stage = Stage::new();
    let told = Told::of(&stage, "writer");
    told.held_by(alive());
    let heard = daemon(&stage, "200 OK", &changed("terminated", "running"));
    let ran = stage.run(&["restart", "writer", "--json"]);
    let answer: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(
        (ran.code, answer["previous_state"].as_str()),
        (0, Some("terminated")),
        "{ran:?}"
    );
    assert_eq!(
        heard.join().unwrap().0,
        "POST /api/agents/writer/restart HTTP/1.1"
    );
}

#[test]
fn what_is_not_possible_now_is_exit_75_with_the_supervisors_words() {
    let stage = Stage::new();
    Told::of(&stage, "writer").held_by(alive());
    let error = json!({"error": {"code": "conflict", "exit": 75, "status": 409,
        "message": "it is ending", "hint": "wait"}});
    let heard = daemon(&stage, "409 Conflict", &error);
    let ran = stage.run(&["start", "writer"]);
    assert_eq!(
        (ran.code, ran.stderr.as_str()),
        (75, "relight: it is ending\n  try: wait\n")
    );
    assert_eq!(heard.join().unwrap().1, json!({"keep_running": true}));
}

#[test]
fn without_a_supervisor_the_code_is_69_and_the_hint_says_what_to_type() {
    let stage = Stage::new();
    Told::of(&stage, "writer")
        .held_by(dead())
        .runs(1, alive(), (1, 0));
    let ran = stage.run(&["restart", "writer"]);
    assert_eq!(ran.code, 69);
    assert!(
        ran.stderr.contains("relight stop writer ends it"),
        "{ran:?}"
    );
    Told::of(&stage, "other");
    let ran = stage.run(&["start", "other"]);
    assert_eq!(ran.code, 69);
    assert!(ran.stderr.contains("relight up"), "{ran:?}");
    assert_eq!(stage.run(&["down"]).code, 69);
    assert_eq!(stage.run(&["stop", "unknown"]).code, 1);
    assert_eq!(stage.run(&["stop"]).code, 2);
}

#[test]
fn a_daemon_that_does_not_have_the_agent_is_nobody_to_it() {
    let stage = Stage::new();
    Told::of(&stage, "writer");
    let error = json!({"error": {"code": "not_supervised", "message": "no", "hint": null}});
    let heard = daemon(&stage, "409 Conflict", &error);
    assert_eq!(stage.run(&["start", "writer"]).code, 69);
    heard.join().unwrap();
}

#[test]
fn what_is_stopped_already_stays_so_without_anybody() {
    let stage = Stage::new();
    Told::of(&stage, "writer").is(AgentState::Stopped {
        by: Stopper::Person,
    });
    assert_eq!(
        stage.run(&["stop", "writer"]).stdout,
        "writer: stopped → stopped\n"
    );
}

#[test]
fn one_agent_that_fails_does_not_keep_the_others_from_it() {
    let stage = Stage::new();
    Told::of(&stage, "writer").is(AgentState::Stopped {
        by: Stopper::Person,
    });
    let ran = stage.run(&["stop", "unknown", "writer"]);
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (1, "writer: stopped → stopped\n")
    );
}

#[test]
fn down_waits_for_the_daemons_end() {
    let stage = Stage::new();
    Told::of(&stage, "writer");
    let mut gone = stage.command(&["--version"]).spawn().unwrap();
    let pid = gone.id();
    gone.wait().unwrap();
    let heard = daemon(&stage, "200 OK", &json!({"pid": pid, "agents": 1}));
    let ran = stage.run(&["down", "--keep-agents"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let asked = (
        "POST /api/down HTTP/1.1".to_owned(),
        json!({"keep_agents": true}),
    );
    assert_eq!(heard.join().unwrap(), asked);
}

#[test]
fn ps_shows_what_only_the_supervisor_knows() {
    let stage = Stage::new();
    let told = Told::of(&stage, "writer");
    told.held_by(alive()).runs(1, alive(), (1, 0));
    let signs = json!({
        "agent": "writer", "last_sign_at": "2126-05-01T12:00:00Z",
        "waiting_until": "9000-01-01T00:00:00Z", "status": "asks a person",
    });
    let socket = folder(&stage).path().join("supervisor.sock");
    let heard = answering(
        &socket,
        &json!({"ok": {"pid": std::process::id(), "agents": [signs]}}),
    );
    let ran = stage.run(&["ps", "writer", "--json"]);
    let answer: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(answer["items"][0]["status_text"], "asks a person");
    assert_eq!(answer["items"][0]["supervisor"]["kind"], "run");
    assert!(
        answer["items"][0]["detail"]
            .as_str()
            .unwrap()
            .contains(" · waiting, "),
        "{answer}"
    );
    heard.join().unwrap();
}

/// What a listener there hears of a beat.
fn beat(stage: &Stage, path: &Path, arguments: &[&str], variable: Option<&Path>) -> (Ran, String) {
    let socket = UnixDatagram::bind(path).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(120)))
        .unwrap();
    let mut command = stage.command(&[&["beat"], arguments].concat());
    if let Some(variable) = variable {
        command.env("NOTIFY_SOCKET", variable);
    }
    let ran = finish(command.spawn().unwrap());
    let mut datagram = [0; 4096];
    let count = socket.recv(&mut datagram).unwrap();
    (ran, String::from_utf8(datagram[..count].to_vec()).unwrap())
}

#[test]
fn a_beat_inside_an_agent_goes_to_its_notify_socket_and_opens_no_store() {
    let stage = Stage::new();
    let path = stage.folder.path().join("notify.sock");
    let flags = [
        "--status",
        "reading\nfiles",
        "--waiting-until",
        "2126-05-01T12:00:00Z",
    ];
    let (ran, heard) = beat(&stage, &path, &flags, Some(&path));
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{ran:?}");
    insta::assert_snapshot!(heard, @r"
    WATCHDOG=1
    X_RELIGHT_WAITING_UNTIL=2126-05-01T12:00:00Z
    STATUS=reading files
    ");
    assert!(!stage.folder.path().join("home").exists());
}

#[test]
fn a_beat_by_name_goes_to_that_agents_socket() {
    let stage = Stage::new();
    let folder = folder(&stage);
    let (ran, heard) = beat(&stage, &folder.notify_socket(), &["writer"], None);
    assert_eq!((ran.code, heard.as_str()), (0, "WATCHDOG=1"));
}

#[test]
fn a_beat_for_an_agent_that_is_not_there_is_a_no() {
    let ran = Stage::new().run(&["beat", "nosuch"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("there is no agent nosuch"), "{ran:?}");
}

#[test]
fn a_beat_that_nobody_hears_is_75_and_one_for_nobody_is_2() {
    let stage = Stage::new();
    Told::of(&stage, "writer");
    let ran = stage.run(&["beat", "writer"]);
    assert_eq!(ran.code, 75);
    assert!(ran.stderr.contains("nobody listens"), "{ran:?}");
    let ran = stage.run(&["beat"]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("NOTIFY_SOCKET"), "{ran:?}");
}

/// An agent with output of three attempts in two files.
fn with_output() -> Stage {
    let stage = Stage::new();
    let told = Told::of(&stage, "writer");
    let logs = folder(&stage).logs();
    std::fs::write(logs.join("000001.log"), "one\ntwo\nthree\nfour\n").unwrap();
    std::fs::write(logs.join("000002.log"), "five\n\u{1b}[31msix").unwrap();
    told.runs(1, dead(), (1, 0))
        .dies(1, "")
        .runs(2, dead(), (1, 4))
        .dies(2, "");
    told.runs(3, alive(), (2, 0));
    stage
}

#[test]
fn logs_are_the_last_lines_or_all_or_those_of_an_attempt() {
    let stage = with_output();
    let logs = |flags: &[&str]| {
        let ran = stage.run(&[&["logs", "writer"], flags].concat());
        assert_eq!(ran.code, 0, "{ran:?}");
        ran.stdout
    };
    let all = "one\ntwo\nthree\nfour\nfive\n\u{1b}[31msix";
    assert_eq!(logs(&[]), all);
    assert_eq!(logs(&["--all"]), all);
    assert_eq!(logs(&["-n", "3"]), "four\nfive\n\u{1b}[31msix");
    assert_eq!(logs(&["--attempt", "1"]), "one\n");
    assert_eq!(logs(&["--attempt", "2"]), "two\nthree\nfour\n");
    assert_eq!(logs(&["--attempt", "2", "-n", "2"]), "three\nfour\n");
    assert_eq!(logs(&["--attempt", "3", "-n", "1"]), "\u{1b}[31msix");
    let line: serde_json::Value = serde_json::from_str(&logs(&["--json", "-n", "1"])).unwrap();
    assert_eq!(
        (&line["agent"], &line["line"]),
        (&"writer".into(), &"\u{1b}[31msix".into())
    );
    assert!(line["at"].is_string(), "{line}");
    assert_eq!(logs(&["--grep", "^(one|five)$"]), "one\nfive\n");
    assert_eq!(logs(&["--grep", "e$", "--attempt", "2"]), "three\n");
    assert_eq!(logs(&["--since", "1h", "-n", "2"]), "five\n\u{1b}[31msix\n");
    assert_eq!(logs(&["--since", "2100-01-01T00:00:00Z"]), "");
    assert_eq!(stage.run(&["logs", "writer", "--grep", "("]).code, 2);
}

/// Put together at run time, so that no scanner finds it here.
fn private_key() -> String {
    let (dashes, kind) = ("-".repeat(5), format!("{} KEY", "PRIVATE"));
    let body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n".repeat(20);
    format!("{dashes}BEGIN {kind}{dashes}\n{body}{dashes}END {kind}{dashes}\n")
}

#[test]
fn logs_show_no_secret_in_any_form_and_from_anywhere() {
    let stage = with_output();
    let token = format!("ghp_{}", "aZ3kQ9mVnB7sTx1Yp5Ld".repeat(2)[..36].to_owned());
    let log = folder(&stage).logs().join("000002.log");
    let text = format!(
        "see {token}\n{}password=hunter2-and-more\nthe end\n",
        private_key()
    );
    std::fs::write(&log, &text).unwrap();
    for flags in [
        &["--all"][..],
        &[],
        &["-n", "9"],
        &["--attempt", "3"],
        &["--json"],
        &["--raw"],
    ] {
        let shown = stage.run(&[&["logs", "writer"], flags].concat()).stdout;
        assert!(
            shown.contains("the end") && shown.contains("[redacted:pem:"),
            "{shown}"
        );
        for secret in [&token, "MIIE", "hunter2"] {
            assert!(!shown.contains(secret), "{flags:?} {shown}");
        }
    }
    assert_eq!(
        std::fs::read_to_string(log).unwrap(),
        text,
        "the file is the agent's"
    );
}

#[test]
fn logs_of_nobody_are_a_no() {
    let stage = with_output();
    assert_eq!(stage.run(&["logs", "nobody"]).code, 1);
    assert_eq!(stage.run(&["logs", "writer", "--attempt", "9"]).code, 1);
    Told::of(&stage, "quiet");
    let ran = stage.run(&["logs", "quiet"]);
    assert_eq!(ran.code, 0);
    assert!(ran.stderr.contains("has written nothing"), "{ran:?}");
}

#[test]
fn logs_are_followed_over_restarts() {
    let stage = with_output();
    let mut child = stage
        .command(&["logs", "writer", "-f", "-n", "1"])
        .spawn()
        .unwrap();
    let out = child.stdout.take().unwrap();
    let (tell, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(out).lines() {
            if tell.send(line.unwrap()).is_err() {
                return;
            }
        }
    });
    let next = || {
        lines
            .recv_timeout(Duration::from_secs(180))
            .expect("a line comes")
    };
    let logs = folder(&stage).logs();
    let mut file = std::fs::File::options()
        .append(true)
        .open(logs.join("000002.log"))
        .unwrap();
    file.write_all(b" and a half\n").unwrap();
    assert_eq!(next(), "\u{1b}[31msix and a half");
    std::fs::write(logs.join("000003.log"), "seven\n").unwrap();
    assert_eq!(next(), "seven");
    let mut file = std::fs::File::options()
        .append(true)
        .open(logs.join("000003.log"))
        .unwrap();
    for piece in private_key()
        .split_inclusive('\n')
        .chain(["password=", "hunter2-and-more\n"])
    {
        file.write_all(piece.as_bytes()).unwrap();
    }
    assert!(next().starts_with("[redacted:pem:"));
    assert!(next().starts_with("password=[redacted:assignment:"));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(finish(child).code, 0);
}

#[test]
fn a_followed_line_that_does_not_end_is_shown_by_words() {
    let stage = with_output();
    let log = folder(&stage).logs().join("000002.log");
    std::fs::write(&log, "ready\n").unwrap();
    let mut child = stage
        .command(&["logs", "writer", "-f", "-n", "1"])
        .spawn()
        .unwrap();
    let mut out = child.stdout.take().unwrap();
    let (tell, pieces) = channel();
    std::thread::spawn(move || {
        let mut piece = [0; 1_000];
        while let Ok(count @ 1..) = out.read(&mut piece) {
            let _ = tell.send(String::from_utf8_lossy(&piece[..count]).into_owned());
        }
    });
    let next = || {
        pieces
            .recv_timeout(Duration::from_secs(180))
            .expect("a piece comes")
    };
    assert_eq!(next(), "ready\n");
    let mut file = std::fs::File::options().append(true).open(log).unwrap();
    file.write_all(b"Enter the password: hunt").unwrap();
    assert_eq!(next(), "Enter the password: ");
    file.write_all(b"er2-and-more\n").unwrap();
    assert!(next().starts_with("[redacted:assignment:"));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(finish(child).code, 0);
}

#[test]
fn presets_are_listed_shown_and_tested() {
    let stage = Stage::new();
    let listed = stage.run(&["presets", "list"]).stdout;
    assert!(
        listed.lines().any(|line| line.starts_with("claude-code  ")),
        "{listed}"
    );
    let shown = stage.run(&["presets", "show", "codex"]).stdout;
    assert!(shown.contains("[session]"), "{shown}");
    let words = ["presets", "test", "codex", "--", "codex", "exec", "fix it"];
    insta::assert_snapshot!(stage.run(&words).stdout, @r"
    first              codex exec --json 'fix it'
    resumed            codex exec --json resume 00000000-0000-4000-8000-000000000000 '(the brief)'
    without a session  codex exec --json 'fix it\n\n(the brief)'
    stopped by         INT, 5s, then TERM, 10s, then KILL
    signs of life      output, beat, steps
    ");
    assert_eq!(stage.run(&["presets", "test", "generic"]).code, 0);
}

#[test]
fn a_preset_that_is_not_known_or_not_valid_says_where_to_look() {
    let stage = Stage::new();
    let ran = stage.run(&["presets", "show", "claude-cod"]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.stderr.contains("try: relight presets show claude-code"),
        "{ran:?}"
    );
    let folder = stage.folder.path().join("user/.config/relight/presets");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("mine.toml"), "about = 1").unwrap();
    assert_eq!(stage.run(&["presets", "test", "mine"]).code, 78);
    let listed = stage.run(&["presets", "list"]).stdout;
    assert!(listed.contains("mine         not valid: "), "{listed}");
}
