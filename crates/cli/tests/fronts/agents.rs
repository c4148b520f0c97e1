//! Agents through the command line, HTTP and packages: one form, the same answers and the same errors.

use serde_json::{Value, json};

use crate::front::{Answer, send};
use crate::ground::{Ground, until};
use crate::package::{self, Package};

const AGENT: &str =
    "[[agent]]\nname = \"a\"\ncommand = [\"sleep\", \"600\"]\n[daemon]\nhttp = false\n";

fn daemon() -> (Ground, crate::ground::Supervisor) {
    let ground = Ground::new();
    ground.config(AGENT);
    let up = ground.up(&[]);
    let (status, bot) = send(&ground, "POST", "/api/agents", "{\"name\": \"bot\"}");
    assert_eq!(status, 201, "{bot}");
    until("a process", || {
        ground.agent("a")["pid"].is_number().then_some(())
    });
    (ground, up)
}

/// Without what time changes between two looks.
fn bare(mut agent: Value) -> Value {
    for own in ["detail", "last_sign_at", "phase"] {
        agent.as_object_mut().unwrap().remove(own);
    }
    agent
}

#[test]
fn an_agent_has_one_form_in_ps_and_the_api() {
    let (ground, _up) = daemon();
    send(
        &ground,
        "POST",
        "/api/agents/bot/heartbeat",
        "{\"status\": \"reads\"}",
    );
    ground.json(&[
        "task", "start", "t", "--agent", "bot", "--step", "s", "--lease", "1h",
    ]);
    until("a status", || {
        (ground.agent("bot")["status_text"] == "reads").then_some(())
    });
    for name in ["a", "bot"] {
        let (_, by_http) = send(&ground, "GET", &format!("/api/agents/{name}"), "");
        let by_cli = ground.agent(name);
        let fields = |agent: &Value| {
            agent
                .as_object()
                .unwrap()
                .keys()
                .cloned()
                .collect::<Vec<_>>()
        };
        assert_eq!(fields(&by_cli), fields(&by_http));
        assert_eq!(bare(by_cli), bare(by_http.clone()));
        assert_eq!(by_http["supervisor"]["kind"], "up", "{by_http}");
    }
    let bot = ground.agent("bot");
    let at = [&bot["task"], &bot["task_status"], &bot["step"]];
    assert_eq!(
        at,
        [&json!("t"), &json!("in_progress"), &json!("s")],
        "{bot}"
    );
    for name in ["a", "bot"] {
        assert_eq!(ground.call(&["stop", name]).code, 0);
        let (_, by_http) = send(&ground, "GET", &format!("/api/agents/{name}"), "");
        assert_eq!(ground.agent(name), by_http);
        assert_eq!(by_http["detail"], "stopped by a person", "{by_http}");
        assert_eq!(by_http["last_death"]["cause"], "stopped", "{by_http}");
        for (package, shown) in by_packages(&ground, "agent.show", &json!({"agent": name})) {
            assert_eq!(bare(shown.unwrap()), bare(by_http.clone()), "{package}");
        }
    }
    let (_, mut by_http) = send(&ground, "GET", "/api/agents", "");
    by_http["draining_since"] = Value::Null;
    assert_eq!(ground.json(&["ps"]), by_http);
    let (_, deaths) = send(&ground, "GET", "/api/agents/a/deaths", "");
    assert_eq!(ground.json(&["deaths", "a"]), deaths);
    for verb in ["start", "stop"] {
        assert_eq!(ground.call(&[verb, "a"]).code, 0);
    }
    let (_, first) = send(&ground, "GET", "/api/agents/a/deaths?limit=1", "");
    assert!(first["next"].is_string(), "{first}");
    assert_eq!(ground.json(&["deaths", "a", "-n", "1"]), first);
    assert_eq!(ground.json(&["deaths", "-n", "1"])["next"], first["next"]);
    assert_eq!(
        ground.json(&["deaths", "a", "-n", "2"])["next"],
        Value::Null
    );
}

#[test]
fn what_is_done_to_an_agent_answers_the_same_through_both_fronts() {
    let (ground, _up) = daemon();
    for name in ["a", "bot"] {
        send(&ground, "POST", "/api/agents/bot/heartbeat", "{}");
        for verb in ["restart", "stop", "start"] {
            let path = format!("/api/agents/{name}/{verb}");
            let ran = ground.call(&[verb, name, "--json"]);
            let by_cli: Value = serde_json::from_str(&ran.stdout).unwrap();
            let back: &[&str] = match verb {
                "restart" => &["stop", "start"],
                "stop" => &["start"],
                _ => &["stop"],
            };
            back.iter()
                .for_each(|verb| assert_eq!(ground.call(&[verb, name]).code, 0));
            let (status, by_http) = send(&ground, "POST", &path, "{}");
            assert_eq!((ran.code, status), (0, 200), "{ran:?} {by_http}");
            assert_eq!(by_cli, by_http, "{verb} {name}");
        }
    }
}

/// Both fronts reach the same actor.
#[test]
fn an_attempt_that_goes_on_is_told_as_not_interrupted_and_is_not_ended_by_a_refusal() {
    let ground = Ground::new();
    ground.config(&AGENT.replace("[daemon]", "task = \"t\"\n[daemon]"));
    let _up = ground.up(&[]);
    until("a process", || {
        ground.agent("a")["pid"].is_number().then_some(())
    });
    let pid = ground.agent("a")["pid"].clone();
    let path = "/api/agents/a/start";
    let (status, by_http) = send(&ground, "POST", path, "{\"keep_running\": true}");
    let by_cli = ground.json(&["start", "a"]);
    assert_eq!((status, &by_cli), (200, &by_http));
    let told = (&by_cli["task_interrupted"], &by_cli["task_cancelled"]);
    assert_eq!(told, (&Value::Null, &Value::Null), "{by_cli}");
    let text = ground.call(&["start", "a"]).stdout;
    assert_eq!(text, "a: running → running\n");
    let restarted = ground.json(&["restart", "a"]);
    assert_eq!(restarted["task_cancelled"], "t", "{restarted}");
    let second = ground.agent("a");
    assert_ne!(second["pid"], pid);
    let fence = ground.json(&["task", "show", "t"])["fence"].to_string();
    for (verb, word) in [("block", "blocked"), ("cancel", "cancelled")] {
        let ended = match verb {
            "block" => ground.call(&["task", verb, "t", "--reason", "x", "--fence", &fence]),
            _ => ground.call(&["task", verb, "t"]),
        };
        assert_eq!(ended.code, 0, "{ended:?}");
        let ran = ground.call(&["restart", "a", "--json"]);
        let by_cli: Value = serde_json::from_str(&ran.stderr).unwrap();
        let (status, by_http) = send(&ground, "POST", "/api/agents/a/restart", "{}");
        assert_eq!(status, 409, "{by_http}");
        let message = format!("agent a is not restarted: its task t is {word}");
        assert_eq!(by_http["error"]["message"], message, "{by_http}");
        assert_eq!(by_cli["error"]["message"], message, "{by_cli}");
        let now = ground.agent("a");
        let shown = (&now["state"], &now["pid"], &now["attempt"]);
        assert_eq!(
            shown,
            (&json!("running"), &second["pid"], &second["attempt"]),
            "{word}"
        );
    }
}

#[test]
fn an_agent_that_is_not_there_is_refused_with_one_error() {
    let (ground, _up) = daemon();
    for (words, method, path) in [
        (["ps", "nosuch"], "GET", "/api/agents/nosuch"),
        (["deaths", "nosuch"], "GET", "/api/agents/nosuch/deaths"),
        (["logs", "nosuch"], "GET", "/api/agents/nosuch/logs"),
        (["start", "nosuch"], "POST", "/api/agents/nosuch/start"),
        (["stop", "nosuch"], "POST", "/api/agents/nosuch/stop"),
        (["restart", "nosuch"], "POST", "/api/agents/nosuch/restart"),
        (["beat", "nosuch"], "POST", "/api/agents/nosuch/heartbeat"),
    ] {
        let ran = ground.call(&[words[0], words[1], "--json"]);
        let by_cli: Value =
            serde_json::from_str(&ran.stderr).unwrap_or_else(|e| panic!("{e} {ran:?}"));
        let body = if method == "GET" { "" } else { "{}" };
        let (status, by_http) = send(&ground, method, path, body);
        assert_eq!(by_cli, by_http, "{words:?}");
        let error = &by_http["error"];
        assert_eq!((ran.code, status), (1, 404), "{error}");
        assert_eq!(error["code"], "not_found");
        if words[0] == "ps" {
            let refused = by_packages(&ground, "agent.show", &json!({"agent": "nosuch"}));
            for (name, answer) in refused {
                assert_eq!(answer.unwrap_err(), *error, "{name}");
            }
        }
    }
}

/// What the client of packages, and the packages that are installed, answer in the same home.
fn by_packages(ground: &Ground, operation: &str, fields: &Value) -> Vec<(&'static str, Answer)> {
    let client = package::open(ground, None);
    let mut answers = vec![("sdk", package::call(&client, operation, fields))];
    for name in Package::NAMES {
        if let Some(mut package) = Package::start(name, ground, None) {
            answers.push((name, package.call(operation, fields)));
        }
    }
    answers
}
