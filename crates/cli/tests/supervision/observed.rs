//! What a daemon tells of itself, and agents that come to it over HTTP.

use relight_core::time::Span;
use relight_server::client;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::ground::{Ground, is_alive, signal, until};

const PATIENCE: Span = Span::from_secs(120);

/// One request over the daemon's socket: status and body.
fn send(ground: &Ground, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let socket = ground.home("relight.sock");
    let answered = client::send(&socket, method, path, Some(body), PATIENCE).unwrap();
    (answered.status, answered.body)
}

#[test]
fn every_line_of_a_json_log_is_an_object() {
    let ground = Ground::with_agent("echo $$ >>births; exec sleep 300");
    ground.config("[[agent]]\nname = \"a\"\ncommand = [\"./agent\"]\ncooldown = \"10ms\"\n");
    let daemon = ground.up(&["--log-format", "json"]);
    signal(ground.births(1)[0], Signal::KILL);
    ground.births(2);
    daemon.until_said("\"event\":\"attempt.died\"");
    ground.config("[[agent]]\nname = 7\n");
    daemon.signal(Signal::HUP);
    daemon.until_said("not reloaded");
    assert_eq!(ground.call(&["down"]).code, 0);
    let said = daemon.end().stderr;
    let lines: Vec<Value> = said
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}")))
        .collect();
    let died = lines
        .iter()
        .find(|line| line["event"] == "attempt.died")
        .unwrap();
    assert_eq!(
        (&died["level"], &died["agent"]),
        (&json!("warn"), &json!("a"))
    );
    assert!(
        died["message"].as_str().unwrap().contains("signal 9"),
        "{died}"
    );
    assert!(
        lines
            .iter()
            .all(|line| line["time"].is_string() && line["level"].is_string())
    );
}

#[test]
fn the_format_of_logs_is_a_word_of_the_environment_too() {
    let ground = Ground::with_agent("exit 3");
    let flags = ["run", "--restart", "never", "--", "./agent"];
    let ran = ground
        .start_with(&flags, &[("RELIGHT_LOG_FORMAT", "json")])
        .end();
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(
        ran.stderr.lines().all(|line| line.starts_with('{')),
        "{ran:?}"
    );
    let ran = ground
        .start_with(&flags, &[("RELIGHT_LOG_FORMAT", "xml")])
        .end();
    assert_eq!(ran.code, 2, "{ran:?}");
}

#[test]
fn an_agent_that_was_registered_with_its_command_outlives_every_daemon() {
    let ground = Ground::with_agent("echo $$ >>births; exec sleep 300");
    ground.config("[daemon]\ncommands = true\n[recovery]\ncooldown = \"10ms\"\n");
    let daemon = ground.up(&[]);
    let command = ground.work("agent");
    let body = json!({"name": "r", "command": [command], "silence_max": "0s"});
    assert_eq!(send(&ground, "POST", "/api/agents", &body).0, 201);
    assert_eq!(send(&ground, "POST", "/api/agents", &body).0, 200);
    let other = json!({"name": "r", "command": ["sleep", "1"]});
    assert_eq!(send(&ground, "POST", "/api/agents", &other).0, 409);
    let absent = json!({"name": "s", "command": ["/no/such/program"]});
    assert_eq!(send(&ground, "POST", "/api/agents", &absent).0, 422);
    let first = ground.births(1)[0];
    signal(first, Signal::KILL);
    let second = ground.births(2)[1];
    ground.until_runs("r", 2);
    daemon.kill();
    signal(second, Signal::KILL);
    let daemon = ground.up(&[]);
    let third = ground.births(3)[2];
    // A reload does not take it for one that was removed from the file.
    daemon.signal(Signal::HUP);
    daemon.until_said("the configuration was read again");
    assert!(is_alive(third));
    assert_eq!(send(&ground, "DELETE", "/api/agents/r", &json!({})).0, 204);
    assert!(!is_alive(third));
    assert_eq!(send(&ground, "GET", "/api/agents/r", &json!({})).0, 404);
}

#[test]
fn an_agent_that_reports_is_shown_and_stopped_with_and_without_a_daemon() {
    let ground = Ground::new();
    ground.config("");
    let daemon = ground.up(&[]);
    send(
        &ground,
        "POST",
        "/api/agents",
        &json!({"name": "bot", "silence_max": "10m"}),
    );
    let beat = || {
        send(
            &ground,
            "POST",
            "/api/agents/bot/heartbeat",
            &json!({"status": "reads"}),
        )
        .0
    };
    assert_eq!(beat(), 200);
    let bot = ground.until_state("bot", "running");
    assert_eq!(bot["truth"], "as_recorded");
    let restarted = ground.json(&["restart", "bot"]);
    assert_eq!(
        (&restarted["previous_state"], &restarted["state"]),
        (&json!("running"), &json!("running"))
    );
    daemon.kill();
    assert_eq!(ground.agent("bot")["truth"], "unheard");
    assert_eq!(ground.call(&["start", "bot"]).code, 69);
    // The next daemon goes on listening, and a stop is a stop without any.
    let daemon = ground.up(&[]);
    until("it is listened to", || {
        (ground.agent("bot")["truth"] == "as_recorded").then_some(())
    });
    daemon.kill();
    assert_eq!(ground.json(&["stop", "bot"])["state"], "stopped");
    let _daemon = ground.up(&[]);
    let told = send(&ground, "POST", "/api/agents/bot/heartbeat", &json!({})).1;
    assert_eq!(
        (&told["state"], &told["action"]),
        (&json!("stopped"), &json!("stop"))
    );
}

#[test]
fn a_reload_takes_strategies_limits_and_the_queue() {
    let ground = Ground::with_agent("echo $$ >>births; exec sleep 300");
    let entry = "[[agent]]\nname = \"a\"\ncommand = [\"./agent\"]\n";
    ground.config(&format!("[queue]\nsweep = \"1h\"\n{entry}"));
    let daemon = ground.up(&[]);
    ground.births(1);
    // A bad file changes nothing, whatever else is in it.
    ground.config(&format!(
        "[recovery]\nstrategy = \"exec\"\n[queue]\nsweep = \"100ms\"\n{entry}"
    ));
    daemon.signal(Signal::HUP);
    daemon.until_said("not reloaded");
    let lost = |id: &str| {
        let ran = ground.call(&["task", "start", id, "--lease", "1ms"]);
        assert_eq!(ran.code, 0, "{ran:?}");
    };
    ground.config(&format!(
        "[recovery]\nstrategy = \"suspend\"\n[queue]\nsweep = \"100ms\"\n{entry}"
    ));
    daemon.signal(Signal::HUP);
    daemon.until_said("the configuration was read again");
    lost("t");
    until("it is suspended", || {
        (ground.task_status("t") == "suspended").then_some(())
    });
}

#[test]
fn a_pools_name_stands_for_all_its_members() {
    let ground = Ground::with_agent("exec sleep 300");
    ground.config(
        "[[agent]]\nname = \"w\"\ncommand = [\"./agent\"]\ntakes = \"start\"\nconcurrency = 3\n",
    );
    let _daemon = ground.up(&[]);
    let ran = ground.call(&["stop", "w"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    for name in ["w-1", "w-2", "w-3"] {
        assert_eq!(ground.state(name), "stopped");
        assert!(ran.stdout.contains(name), "{ran:?}");
    }
    assert_eq!(ground.call(&["start", "w"]).code, 0);
    assert_eq!(ground.call(&["stop", "nobody"]).code, 1);
}

#[test]
fn a_secret_in_an_agents_env_is_known_by_its_value() {
    let ground = Ground::with_agent("echo \"it is $DEPLOY_TOKEN\"; exit 3");
    ground.config(
        "[[agent]]\nname = \"a\"\ncommand = [\"./agent\"]\nrestart = \"never\"\n\
         env = { DEPLOY_TOKEN = \"plain-looking-words-1\" }\n",
    );
    let _daemon = ground.up(&[]);
    ground.until_state("a", "crashed");
    let deaths = ground.json(&["deaths", "a"]).to_string();
    assert!(!deaths.contains("plain-looking-words-1"), "{deaths}");
    assert!(deaths.contains("it is [redacted:"), "{deaths}");
}
