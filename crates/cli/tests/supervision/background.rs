//! `relight up -d`: the daemon in the background, the port that it chooses, and `ps --watch`.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt as _;

use serde_json::Value;

use crate::ground::{Ground, is_alive, until};
use crate::relight::Ran;

const AGENT: &str = "[[agent]]\nname = \"a\"\ncommand = [\"./agent\"]\n";

fn ground() -> Ground {
    let ground = Ground::with_agent("echo $$ >>births; echo hello; exec sleep 600");
    ground.config(AGENT);
    ground
}

fn parsed(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

#[test]
fn up_in_the_background_returns_once_it_serves_and_down_ends_it() {
    let ground = ground();
    let started = ground.call(&["up", "-d", "--json"]);
    assert_eq!(started.code, 0, "{started:?}");
    let answer = parsed(&started);
    let status = ground.json(&["status"]);
    assert_eq!(status["daemon"]["pid"], answer["pid"]);
    assert_eq!(status["daemon"]["url"], answer["url"]);
    assert_eq!(status["agents"]["running"], 1);
    let log = std::fs::read_to_string(ground.home("daemon.log")).unwrap();
    assert!(log.contains("up with 1 of 1 agents"), "{log}");
    assert!(
        !log.contains("/login/"),
        "no link that logs in is in a file: {log}"
    );
    let again = ground.call(&["up", "-d"]);
    assert_eq!(again.code, 75, "{again:?}");
    let url = answer["url"].as_str().unwrap();
    let said = format!(
        "the daemon already runs (pid {}) and serves {url}",
        answer["pid"]
    );
    assert!(again.stderr.contains(&said), "{again:?}");
    let down = ground.call(&["down"]);
    assert_eq!(down.code, 0, "{down:?}");
    assert_eq!(ground.json(&["status"])["daemon"], Value::Null);
}

/// `status` and `up -d` say the same of a daemon that runs and does not answer.
fn assert_silent(ground: &Ground, pid: u32, remedy: &str) {
    let silent = format!("the daemon runs (process {pid}) but does not answer");
    let status = ground.call(&["status", "--json"]);
    assert_eq!(status.code, 1, "{status:?}");
    let said = parsed(&status);
    assert_eq!(
        (&said["daemon"]["pid"], &said["daemon"]["answers"]),
        (&pid.into(), &false.into())
    );
    let need = &said["needs_me"][0];
    assert!(
        need["text"].as_str().unwrap().starts_with(&silent),
        "{need}"
    );
    assert!(need["hint"].as_str().unwrap().contains(remedy), "{need}");
    let again = ground.call(&["up", "-d"]);
    assert_eq!(again.code, 75, "{again:?}");
    assert!(again.stderr.contains(&silent), "{again:?}");
    assert!(again.stderr.contains(remedy), "{again:?}");
    let kept = ground.call(&["down", "--keep-agents"]);
    assert_eq!(kept.code, 75, "{kept:?}");
    assert!(kept.stderr.contains(&silent), "{kept:?}");
    assert!(kept.stderr.contains(&format!("kill -9 {pid}")), "{kept:?}");
}

/// `down` ends it, and says how.
fn assert_down_ends(ground: &Ground, daemon: u32, agent: u32) {
    let down = ground.call(&["down"]);
    assert_eq!(down.code, 0, "{down:?}");
    let ended = format!(
        "the daemon (process {daemon}) did not answer, and was ended by SIGTERM; agents stopped: 1\n"
    );
    assert_eq!(down.stdout, ended);
    assert!(!is_alive(daemon) && !is_alive(agent));
    assert_eq!(ground.state("a"), "stopped");
    assert_eq!(ground.json(&["status"])["daemon"], Value::Null);
}

#[test]
fn a_daemon_whose_socket_was_removed_is_found_by_its_lock_and_ended() {
    let ground = ground();
    let daemon = ground.up(&["--no-http"]);
    let agent = ground.until_runs("a", 1);
    std::fs::remove_file(ground.home("relight.sock")).unwrap();
    assert_silent(&ground, daemon.pid(), "relight down ends it");
    assert_down_ends(&ground, daemon.pid(), agent);
}

#[test]
fn a_frozen_daemon_is_found_by_its_lock_and_ended() {
    let ground = ground();
    let daemon = ground.up(&["--no-http"]);
    let agent = ground.until_runs("a", 1);
    daemon.freeze();
    assert_silent(
        &ground,
        daemon.pid(),
        &format!("kill -CONT {}", daemon.pid()),
    );
    assert_down_ends(&ground, daemon.pid(), agent);
}

#[test]
fn a_daemon_that_was_killed_is_not_mistaken_for_the_process_with_its_number() {
    let ground = ground();
    let daemon = ground.up(&["--no-http"]);
    let pid = daemon.pid();
    let agent = ground.until_runs("a", 1);
    daemon.kill();
    // As if the number were given to another process: the agent's, which must not be signalled.
    let lock = ground.home("relight.sock.lock");
    let recorded = std::fs::read_to_string(&lock).unwrap();
    let other = recorded.replace(&format!(":{pid},"), &format!(":{agent},"));
    assert_ne!(recorded, other);
    std::fs::write(&lock, other).unwrap();
    let down = ground.call(&["down"]);
    assert_eq!(down.code, 69, "{down:?}");
    let left = "no daemon runs here, but 1 agent still runs without a supervisor (a)";
    assert!(down.stderr.contains(left), "{down:?}");
    let remedy = "relight stop a ends it; relight up -d, or its relight run, adopts it";
    assert!(down.stderr.contains(remedy), "{down:?}");
    assert!(is_alive(agent));
    assert_eq!(ground.call(&["up", "-d"]).code, 0);
    assert_eq!(ground.until_runs("a", 1), agent);
    assert_eq!(ground.call(&["down"]).code, 0);
    let down = ground.call(&["down"]);
    assert_eq!(down.code, 69, "{down:?}");
    assert!(!down.stderr.contains("still run"), "{down:?}");
}

#[test]
fn up_in_the_background_says_why_it_did_not_start() {
    let ground = ground();
    ground.config("[[agent]]\nname = \"a\"\nkommand = [\"x\"]\n");
    let ran = ground.call(&["up", "-d"]);
    assert_eq!(ran.code, 78, "{ran:?}");
    assert!(ran.stderr.contains("kommand"), "{ran:?}");
    // What only the daemon itself finds out.
    ground.config(AGENT);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ran = ground.call(&["up", "-d", "--listen", &address]);
    assert_eq!(ran.code, 69, "an address that was named is obeyed: {ran:?}");
    assert!(ran.stderr.contains(&address), "{ran:?}");
    assert!(ran.stderr.contains("daemon.log"), "{ran:?}");
}

#[test]
fn a_log_that_is_a_pipe_does_not_hang_the_start() {
    let ground = ground();
    let log = ground.home("daemon.log");
    std::fs::create_dir_all(log.parent().unwrap()).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &log, rustix::fs::Mode::RWXU).unwrap();
    let ran = ground.call(&["up", "-d"]);
    assert_eq!(ran.code, 74, "{ran:?}");
    assert!(ran.stderr.contains("daemon.log"), "{ran:?}");
}

#[test]
fn a_port_that_is_taken_is_replaced_by_a_free_one_which_is_kept() {
    let (ground, url, _taken) = until("a daemon beside a taken port", || {
        // Whoever has the usual port, this test or another daemon: it is not free.
        let taken = TcpListener::bind("127.0.0.1:7717");
        let ground = ground();
        let url = parsed(&ground.call(&["up", "-d", "--json"]))["url"].clone();
        let url = url.as_str().unwrap().to_owned();
        let is_usual = url.ends_with(":7717");
        assert!(taken.is_err() || !is_usual, "{url}");
        // Another daemon has left it meanwhile.
        if is_usual {
            ground.call(&["down"]);
            return None;
        }
        Some((ground, url, taken))
    });
    assert_eq!(ground.call(&["down"]).code, 0);
    assert!(ground.home("http-port").exists());
    let mut folders = vec![ground.home("")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let (path, found) = entry.map(|it| (it.path(), it.metadata().unwrap())).unwrap();
            assert_eq!(
                found.mode() & 0o077,
                0,
                "others may read {}",
                path.display()
            );
            folders.extend(found.is_dir().then_some(path));
        }
    }
    let again = ground.call(&["up", "-d", "--json"]);
    assert_eq!(parsed(&again)["url"], url.as_str(), "{again:?}");
    let link = ground.call(&["dashboard", "--print"]);
    assert!(
        link.stdout.starts_with(&format!("{url}/login/")),
        "{link:?}"
    );
    assert_eq!(ground.call(&["down"]).code, 0);
}

#[test]
fn a_watcher_is_told_of_each_change_and_ends_with_its_reader() {
    let ground = ground();
    let mut watch = ground
        .stage
        .command(&["ps", "--watch", "--json"])
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    assert_eq!(next()["items"], serde_json::json!([]));
    assert_eq!(
        ground.call(&["task", "start", "t", "--lease", "5m"]).code,
        0
    );
    assert_eq!(
        ground
            .call(&["task", "block", "t", "--reason", "why?"])
            .code,
        0
    );
    // Both changes may come in one line, and others between.
    let needs = std::iter::repeat_with(&mut next).find(|it| it["needs_me_total"] == 1);
    assert_eq!(needs.unwrap()["needs_me"][0]["subject"], "task/t");
    drop(lines);
    let ended = crate::relight::finish(watch);
    assert_eq!(ended.code, 0, "{ended:?}");
    let ran = ground.call(&["ps", "--watch"]);
    assert_eq!(
        ran.code, 2,
        "without a terminal there is nothing to draw on: {ran:?}"
    );
}
