//! The daemon over HTTP, as programs and browsers use it.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::ground::{Ground, ONLY_ONE, signal, until};

/// A request to the daemon's socket, in the shell of an agent.
const CURL: &str = "post() { curl -sS --unix-socket $RELIGHT_HOME/relight.sock http://localhost/api/$1 \
    -H 'Content-Type: application/json' -d \"$2\" \"${@:3}\"; }\n";

/// One agent that lives until it is told to end.
fn with_daemon(more: &str) -> (Ground, crate::ground::Supervisor) {
    let ground = Ground::with_agent(&format!("{ONLY_ONE}exec sleep 1000"));
    ground.config(&format!(
        "[daemon]\nlisten = \"127.0.0.1:0\"\n{more}\n[[agent]]\nname = \"writer\"\ncommand = [\"./agent\"]\n\
         cooldown = \"50ms\"\n"
    ));
    let daemon = ground.up(&[]);
    ground.births(1);
    (ground, daemon)
}

/// Where the daemon listens, by the link that it gives.
pub(crate) fn address(ground: &Ground) -> String {
    let link = ground.json(&["dashboard", "--print"])["url"]
        .as_str()
        .unwrap()
        .to_owned();
    link.strip_prefix("http://")
        .unwrap()
        .split('/')
        .next()
        .unwrap()
        .to_owned()
}

fn send(address: &str, method: &str, path: &str, token: &str, body: &str) -> (u16, Value) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(120)))
        .unwrap();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head[9..12].parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or_default())
}

#[test]
fn a_daemon_whose_store_was_replaced_is_not_healthy_and_says_why() {
    let (ground, daemon) = with_daemon("");
    let token = ground.call(&["token", "show"]).stdout.trim().to_owned();
    let address = address(&ground);
    let get = |path: &str| send(&address, "GET", path, &token, "");
    assert_eq!(get("/api/health").0, 200);
    std::fs::rename(ground.home("relight.db"), ground.home("away.db")).unwrap();
    let (status, health) = get("/api/health");
    assert_eq!((status, &health["status"]), (503, &json!("store_gone")));
    assert!(
        health["reason"]
            .as_str()
            .unwrap()
            .contains("removed or replaced"),
        "{health}"
    );
    let (status, refused) = get("/api/tasks");
    assert_eq!(status, 503);
    assert!(
        refused["error"]["message"]
            .as_str()
            .unwrap()
            .contains("removed or replaced")
    );
    assert!(
        refused["error"]["hint"]
            .as_str()
            .unwrap()
            .contains("move the files back")
    );
    std::fs::rename(ground.home("away.db"), ground.home("relight.db")).unwrap();
    assert_eq!(get("/api/health").0, 200);
    assert_eq!(ground.call(&["down"]).code, 0);
    daemon.end();
}

#[test]
fn an_agent_is_seen_killed_brought_back_and_restarted_over_http() {
    let (ground, daemon) = with_daemon("");
    let token = ground.call(&["token", "show"]).stdout.trim().to_owned();
    let address = address(&ground);
    let get = |path: &str| send(&address, "GET", path, &token, "").1;
    let shown = get("/api/agents/writer");
    assert_eq!(
        (&shown["state"], &shown["supervisor"]["alive"]),
        (&json!("running"), &json!(true))
    );
    let first = ground.births(1)[0];
    assert_eq!(shown["pid"], json!(first));
    signal(first, Signal::KILL);
    let second = ground.births(2)[1];
    until("the new attempt is shown", || {
        (get("/api/agents/writer")["pid"] == second).then_some(())
    });
    let deaths = get("/api/agents/writer/deaths");
    assert_eq!(
        (&deaths["items"][0]["cause"], &deaths["items"][0]["signal"]),
        (&json!("signal"), &json!(9))
    );
    let (status, changed) = send(&address, "POST", "/api/agents/writer/restart", &token, "");
    assert_eq!(
        (status, &changed["previous_state"], &changed["state"]),
        (200, &json!("running"), &json!("running"))
    );
    assert_eq!(ground.births(3).len(), 3);
    let beat = send(
        &address,
        "POST",
        "/api/agents/writer/heartbeat",
        &token,
        "{\"status\":\"thinks\"}",
    );
    assert_eq!(beat.0, 200);
    until("the status is shown", || {
        (get("/api/agents/writer")["status_text"] == "thinks").then_some(())
    });
    let stats = get("/api/stats");
    assert_eq!(
        (
            &stats["agents"]["running"],
            &stats["time_to_recover_ms"]["count"]
        ),
        (&json!(1), &json!(1))
    );
    assert_eq!(
        send(&address, "POST", "/api/agents/writer/stop", &token, "").1["state"],
        "stopped"
    );
    assert_eq!(send(&address, "GET", "/api/agents", "wrong", "").0, 401);
    assert_eq!(ground.call(&["down"]).code, 0);
    assert_eq!(daemon.end().code, 0);
    assert_eq!(ground.read("complaints"), "");
}

#[test]
fn a_token_is_made_revoked_and_rotated_while_the_daemon_runs() {
    let (ground, _daemon) = with_daemon("");
    let address = address(&ground);
    let made = ground.json(&["token", "new", "--read-only", "--name", "grafana"]);
    let token = made["token"].as_str().unwrap();
    let status = |method: &str, path: &str, token: &str| send(&address, method, path, token, "").0;
    assert_eq!(status("GET", "/metrics", token), 200);
    assert_eq!(status("POST", "/api/agents/writer/restart", token), 403);
    assert_eq!(
        ground.json(&["token", "list"])["items"][0]["name"],
        "grafana"
    );
    assert_eq!(
        ground
            .call(&["token", "revoke", made["id"].as_str().unwrap()])
            .code,
        0
    );
    assert_eq!(status("GET", "/metrics", token), 401);
    let first = ground.call(&["token", "show"]).stdout.trim().to_owned();
    assert_eq!(status("GET", "/api/me", &first), 200);
    let second = ground.call(&["token", "rotate"]).stdout.trim().to_owned();
    assert_eq!(
        (
            status("GET", "/api/me", &first),
            status("GET", "/api/me", &second)
        ),
        (401, 200)
    );
    assert_eq!(ground.call(&["token", "revoke", "nobody"]).code, 1);
    assert_eq!(ground.call(&["token", "new"]).code, 2);
}

#[test]
fn what_other_machines_can_reach_is_not_served_without_tls_and_a_flag() {
    let ground = Ground::new();
    ground.config("");
    for (words, missing) in [
        (vec!["up", "--listen", "0.0.0.0:0"], "--allow-remote"),
        (vec!["up", "--listen", "0.0.0.0:0", "--allow-remote"], "TLS"),
    ] {
        let ran = ground.call(&words);
        assert_eq!(ran.code, 78, "{ran:?}");
        assert!(ran.stderr.contains(missing), "{ran:?}");
    }
    assert_eq!(ground.call(&["up", "--listen", "nowhere"]).code, 2);
    assert_eq!(ground.call(&["dashboard"]).code, 69);
}

#[test]
fn without_http_there_is_the_socket_alone() {
    let ground = Ground::with_agent("exec sleep 1000");
    ground.config("[[agent]]\nname = \"writer\"\ncommand = [\"./agent\"]\n");
    let _daemon = ground.up(&["--no-http"]);
    ground.until_agent("writer", |agent| agent["state"] == "running");
    let ran = ground.call(&["dashboard", "--print"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert_eq!(ground.call(&["restart", "writer"]).code, 0);
}

#[test]
fn agents_inherit_no_secret_of_the_daemon() {
    let ground = Ground::with_agent("env >environment; exec sleep 1000");
    ground.config("[daemon]\nlisten = \"127.0.0.1:0\"\n[[agent]]\nname = \"writer\"\ncommand = [\"./agent\"]\nenv_inherit = true\n");
    let _daemon = ground.up(&[]);
    ground.until_lines("environment", 1);
    let token = ground.call(&["token", "show"]).stdout.trim().to_owned();
    assert!(!ground.read("environment").contains(&token));
    let descriptors = ground.agent("writer")["pid"].as_u64().unwrap();
    for entry in std::fs::read_dir(format!("/proc/{descriptors}/fd"))
        .unwrap()
        .flatten()
    {
        let target = std::fs::read_link(entry.path()).unwrap_or_default();
        let target = target.to_string_lossy().into_owned();
        assert!(
            !target.contains("token") && !target.contains("relight.sock"),
            "{target}"
        );
    }
}

/// An agent that reports itself is no process of the daemon's: it goes on without it.
#[test]
fn down_says_nothing_of_agents_that_report_themselves() {
    let (ground, daemon) = with_daemon("");
    let reported = ground.shell(&format!(
        "{CURL}post agents '{{\"name\": \"self\"}}' -f && post agents/self/heartbeat '{{}}' -f"
    ));
    assert_eq!(reported.code, 0, "{reported:?}");
    ground.until_state("self", "running");
    let down = ground.call(&["down"]);
    assert_eq!((down.code, down.stderr.as_str()), (0, ""), "{down:?}");
    daemon.end();
}

#[test]
fn texts_of_requests_are_texts_and_never_commands() {
    let (ground, _daemon) = with_daemon("[alert]\ngroup = \"50ms\"\ncommand = [\"./alerted\"]\n");
    ground.script(
        "alerted",
        "cat >>alerts; echo >>alerts; printf '%s\\n' \"$@\" >>arguments",
    );
    let token = ground.call(&["token", "show"]).stdout.trim().to_owned();
    let address = address(&ground);
    let post = |path: &str, body: &Value| send(&address, "POST", path, &token, &body.to_string()).0;
    let hostile = "; touch pwned; $(touch pwned) `touch pwned`\n-rf | touch pwned";
    let task = json!({"id": "t", "max_retries": 0, "title": hostile, "payload": {"x": hostile}, "set": {"branch": hostile}});
    assert_eq!(post("/api/tasks", &task), 201);
    assert_eq!(post("/api/tasks/t/start", &json!({})), 200);
    assert_eq!(
        post("/api/agents/writer/heartbeat", &json!({"status": hostile})),
        200
    );
    assert_eq!(post("/api/tasks/t/fail", &json!({"reason": hostile})), 200);
    ground.until_lines("alerts", 1);
    assert_eq!(post("/api/agents/writer/restart", &json!({})), 200);
    ground.births(2);
    assert!(!ground.work("pwned").exists());
    assert!(
        !ground.read("arguments").contains("touch"),
        "{}",
        ground.read("arguments")
    );
    let shown = send(&address, "GET", "/api/tasks/t", &token, "").1;
    assert_eq!(
        (&shown["title"], &shown["payload"]["x"]),
        (&json!(hostile), &json!(hostile))
    );
}

#[test]
fn nothing_is_registered_with_a_daemon_that_ends() {
    let ground = Ground::with_agent(&format!(
        "trap '' TERM\n{ONLY_ONE}while :; do sleep 0.02; done"
    ));
    ground.config(
        "[daemon]\nlisten = \"127.0.0.1:0\"\ncommands = true\n\
         [[agent]]\nname = \"deaf\"\ncommand = [\"./agent\"]\ngrace = \"1m\"\n",
    );
    let daemon = ground.up(&[]);
    ground.births(1);
    let token = ground.call(&["token", "show"]).stdout.trim().to_owned();
    let address = address(&ground);
    daemon.signal(Signal::TERM);
    daemon.until_said("stopping all agents");
    let late = json!({"name": "late", "command": ["./agent"]}).to_string();
    let (status, answer) = send(&address, "POST", "/api/agents", &token, &late);
    assert_eq!(status, 409, "{answer}");
    assert_eq!(answer["error"]["message"], "the supervisor is ending");
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.end().code, 143);
    ground.assert_nothing_is_left();
}

#[test]
fn as_root_it_says_so() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: needs root");
        return;
    }
    let (ground, daemon) = with_daemon("");
    daemon.until_said("running as root");
    let doctor = ground.call(&["doctor"]);
    assert!(doctor.stdout.contains("runs as root"), "{doctor:?}");
}

#[test]
fn what_a_supervised_agent_took_over_http_ends_with_its_attempt() {
    let ground = Ground::with_agent(&format!(
        "{CURL}n=$RELIGHT_ATTEMPT_NUMBER\n\
         post tasks/t/start '{{\"agent\": \"writer\"}}' >started.$n\n\
         post tasks/done$n/start '{{\"agent\": \"writer\"}}' >/dev/null\n\
         post tasks/done$n/done '{{}}' >/dev/null\n\
         [ $n = 4 ] && exec sleep 1000; kill -9 $$"
    ));
    ground.config(
        "[daemon]\nlisten = \"127.0.0.1:0\"\n[[agent]]\nname = \"writer\"\ncommand = [\"./agent\"]\n\
         max_attempts = 1\ncooldown = \"10m\"\n",
    );
    let _daemon = ground.up(&[]);
    ground.until_runs("writer", 4);
    ground.until_lines("started.4", 1);
    let started = |attempt: u32| -> Value {
        serde_json::from_str(&ground.read(&format!("started.{attempt}"))).unwrap()
    };
    let fences: Vec<Value> = (1..=4)
        .map(|attempt| started(attempt)["fence"].clone())
        .collect();
    assert_eq!(fences, [json!(1), json!(2), json!(3), json!(4)]);
    let deaths = ground.deaths("writer");
    assert!(
        deaths.iter().all(|death| death["made_progress"] == true),
        "{deaths:#?}"
    );
    assert_eq!(deaths[0]["unfinished_task"], "t");
}

/// It says nothing about itself, because the socket shows which process it is; or it says its attempt, as
/// one must that comes over TCP.
#[test]
fn a_turn_that_a_supervised_agent_began_over_http_ends_with_its_attempt() {
    let ground = Ground::with_agent(&format!(
        "{CURL}if [ $RELIGHT_ATTEMPT_NUMBER = 1 ]; then\n\
         post sessions/tg:1/begin '{{\"id\": \"c1\"}}' >/dev/null\n\
         post sessions/tg:2/begin '{{\"id\": \"c2\", \"owner\": \"gw\"}}' >/dev/null\n\
         tag=$RELIGHT_ATTEMPT; unset RELIGHT_ATTEMPT\n\
         post sessions/tg:3/begin '{{\"id\": \"c3\"}}' -H \"Relight-Attempt: $tag\" >/dev/null\n\
         echo $$ >>births; exec sleep 1000; fi\n\
         post sessions/recover '{{}}' >found; echo >>all; exec sleep 1000"
    ));
    ground.config("[[agent]]\nname = \"writer\"\ncommand = [\"./agent\"]\n");
    let _daemon = ground.up(&["--no-http"]);
    let first = ground.births(1)[0];
    for key in ["tg:1", "tg:2", "tg:3"] {
        let begun = ground.json(&["session", "show", key]);
        assert_eq!(begun["state"], "active", "{begun}");
    }
    signal(first, Signal::KILL);
    ground.until_lines("all", 1);
    let found: Value = serde_json::from_str(&ground.read("found")).unwrap();
    let keys: Vec<&Value> = found["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| &item["key"])
        .collect();
    assert_eq!(keys, ["tg:1", "tg:2", "tg:3"], "{found}");
}

#[test]
fn a_supervised_agent_does_not_complete_the_task_of_another_over_http() {
    let ground = Ground::with_agent(&format!(
        "{CURL}post tasks/t/done '{{}}' >answer; echo $$ >>births; exec sleep 1000"
    ));
    assert_eq!(
        ground
            .call(&["task", "start", "t", "--agent", "other"])
            .code,
        0
    );
    assert_eq!(ground.call(&["task", "release", "t", "--force"]).code, 0);
    ground.config("[[agent]]\nname = \"writer\"\ncommand = [\"./agent\"]\n");
    let _daemon = ground.up(&["--no-http"]);
    ground.births(1);
    let refused: Value = serde_json::from_str(&ground.read("answer")).unwrap();
    assert_eq!(
        refused["error"]["message"],
        "task t belongs to agent other, not to writer"
    );
    assert_eq!(ground.json(&["task", "show", "t"])["status"], "assigned");
}
