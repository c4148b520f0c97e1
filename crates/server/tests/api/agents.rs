//! Agents over HTTP.

use relight_core::agent::change::AgentChange;
use relight_core::decide::Guard;
use relight_core::ids::AgentName;
use relight_runtime::os::clock;
use relight_runtime::supervise::control::Request;
use relight_store::AgentCommit;
use serde_json::json;

use crate::ground::{Ground, block_on};

/// A ground with the agent `writer`, which reports by itself.
fn with_writer() -> Ground {
    let ground = Ground::new();
    let made = ground.post(
        "/api/agents",
        &json!({"name": "writer", "skills": ["rust"]}),
    );
    assert_eq!(made.status, 201, "{made:?}");
    ground
}

/// A ground with agents that somebody supervises.
fn with_supervised(names: &[&str]) -> Ground {
    let ground = Ground::new();
    for name in names {
        let changes = vec![AgentChange::Created(Box::default())];
        let (agent, guard) = (AgentName::new(*name).unwrap(), Guard::default());
        let commit = AgentCommit {
            agent,
            guard,
            at: clock::now(),
            changes,
        };
        block_on(ground.engine.store().commit_agent(commit)).unwrap();
    }
    ground
}

#[test]
fn an_agent_is_registered_shown_and_removed() {
    let ground = with_writer();
    let again = ground.post(
        "/api/agents",
        &json!({"name": "writer", "skills": ["rust"]}),
    );
    assert_eq!(again.status, 200);
    let other = ground.post("/api/agents", &json!({"name": "writer", "skills": ["go"]}));
    assert_eq!((other.status, other.code().as_str()), (409, "conflict"));
    let shown = ground.get("/api/agents/writer").ok();
    assert_eq!(shown["state"], "created");
    assert_eq!(
        (&shown["self_reporting"], &shown["supervisor"]),
        (&json!(true), &json!(null))
    );
    assert_eq!(shown["skills"], json!(["rust"]));
    let list = ground.get("/api/agents?state=created").ok();
    assert_eq!(list["items"][0], shown);
    assert_eq!(
        ground.get("/api/agents?state=running").ok()["items"],
        json!([])
    );
    assert_eq!(ground.get("/api/agents?state=odd").status, 422);
    assert_eq!(
        ground
            .call("DELETE", "/api/agents/writer", &json!({}))
            .status,
        204
    );
    assert_eq!(ground.get("/api/agents/writer").status, 404);
}

#[test]
fn pages_follow_each_other() {
    let ground = Ground::new();
    for at in 0..5 {
        ground.post("/api/agents", &json!({"name": format!("a{at}")}));
    }
    let mut seen = Vec::new();
    let mut after = String::new();
    loop {
        let page = ground.get(&format!("/api/agents?limit=2{after}")).ok();
        seen.extend(
            page["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|agent| agent["name"].clone()),
        );
        let Some(next) = page["next"].as_str() else {
            break;
        };
        after = format!("&after={next}");
    }
    assert_eq!(seen, ["a0", "a1", "a2", "a3", "a4"]);
    for bad in ["0", "1001", "-1", "x"] {
        assert_eq!(
            ground.get(&format!("/api/agents?limit={bad}")).status,
            422,
            "{bad}"
        );
    }
}

#[test]
fn start_and_restart_cancel_what_runs_and_answer_the_state_before() {
    let ground = with_supervised(&["writer", "other"]);
    for verb in ["restart", "start", "stop"] {
        let answer = ground
            .post(&format!("/api/agents/writer/{verb}"), &json!({}))
            .ok();
        assert_eq!(answer["previous_state"], "running");
        assert!(answer.get("task_cancelled").is_some());
    }
    let kept = ground.post("/api/agents/writer/start", &json!({"keep_running": true}));
    assert_eq!(kept.status, 200);
    let agent = AgentName::new("writer").unwrap();
    let expected = [
        Request::Restart {
            agent: agent.clone(),
        },
        Request::Restart {
            agent: agent.clone(),
        },
        Request::Stop {
            agent: agent.clone(),
        },
        Request::Start { agent },
    ];
    assert_eq!(*ground.asked.lock().unwrap(), expected);
    assert_eq!(
        ground.post("/api/agents/nobody/restart", &json!({})).status,
        404
    );
    let elsewhere = ground.post("/api/agents/other/restart", &json!({}));
    assert_eq!(
        (elsewhere.status, elsewhere.code().as_str()),
        (409, "not_supervised")
    );
}

#[test]
fn a_heartbeat_is_heard_and_shown_without_a_write() {
    let ground = with_writer();
    let newest = || ground.get("/api/events?newest=true&limit=1").ok()["items"][0]["id"].clone();
    let beat = |body| ground.post("/api/agents/writer/heartbeat", &body).status;
    // The first one begins its life, which is written.
    assert_eq!(beat(json!({})), 200);
    let before = newest();
    assert_eq!(beat(json!({})), 200);
    assert_eq!(
        beat(json!({"status": "reads \u{1b}[31m<b>", "waiting_until": "10m"})),
        200
    );
    assert_eq!(beat(json!({"waiting_until": "soon"})), 422);
    assert_eq!(beat(json!({"unknown": 1})), 422);
    let shown = ground.get("/api/agents/writer").ok();
    assert_eq!(
        (&shown["phase"], &shown["status_text"]),
        (&json!("waiting"), &json!("reads <b>"))
    );
    assert!(shown["last_sign_at"].is_string() && shown["waiting_until"].is_string());
    assert_eq!(newest(), before);
    assert_eq!(
        ground
            .post("/api/agents/nobody/heartbeat", &json!({}))
            .status,
        404
    );
}

#[test]
fn an_agent_without_a_past_has_empty_lists() {
    let ground = with_writer();
    assert_eq!(
        ground.get("/api/agents/writer/deaths").ok(),
        json!({"items": [], "next": null})
    );
    assert_eq!(
        ground.get("/api/attempts?agent=writer").ok()["items"],
        json!([])
    );
    let logs = ground.get("/api/agents/writer/logs?lines=10").ok();
    let empty = json!({"agent": "writer", "lines": [], "times": [], "truncated": false, "node": null, "note": null});
    assert_eq!(logs, empty);
    assert_eq!(ground.get("/api/agents/writer/logs?lines=0").status, 422);
    assert_eq!(ground.get("/api/agents/nobody/logs").status, 404);
}

#[test]
fn the_configuration_in_effect_is_told_in_the_words_of_its_file() {
    let ground = with_writer();
    let config = ground.get("/api/agents/writer/config").ok();
    assert_eq!(
        (
            &config["restart"],
            &config["max_attempts"],
            &config["timeout"]
        ),
        (&json!("on-failure"), &json!(3), &json!("0s"))
    );
    for (key, value) in [
        ("restarts_max", json!(200)),
        ("restarts_window", json!("1d")),
        ("spend_max", json!("0")),
        ("tokens_max", json!(0)),
        ("step_silence_max", json!("1h")),
    ] {
        assert_eq!(config[key], value, "{key}");
    }
    assert_eq!(config["cooldown_max"], json!(null), "it is no key");
    assert_eq!(ground.get("/api/agents/nobody/config").status, 404);
}

#[test]
fn logs_are_without_secrets_and_without_what_a_terminal_obeys() {
    let ground = with_writer();
    let folder = ground.home.path().join("agents/writer/log");
    std::fs::create_dir_all(&folder).unwrap();
    let lines = "one\n\u{1b}]0;title\u{7}two\u{1b}[31m\npassword=hunter2-and-more\n<script>\n";
    std::fs::write(folder.join("000001.log"), lines).unwrap();
    let logs = ground.get("/api/agents/writer/logs?lines=3").ok();
    assert_eq!(logs["truncated"], true);
    let lines = logs["lines"].as_array().unwrap();
    assert_eq!((lines.len(), &lines[0]), (3, &json!("two")));
    assert!(
        lines[1]
            .as_str()
            .unwrap()
            .starts_with("password=[redacted:"),
        "{logs}"
    );
}

#[test]
fn each_line_of_a_log_has_the_time_of_the_first_mark_behind_it() {
    let ground = with_writer();
    let folder = ground.home.path().join("agents/writer/log");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("000001.log"), "one\ntwo\nthree").unwrap();
    let mark = |offset: u64, at_ms: i64| [offset.to_le_bytes(), at_ms.to_le_bytes()].concat();
    let marks = [mark(4, 1_000), mark(13, 61_000)].concat();
    std::fs::write(folder.join("000001.times"), marks).unwrap();
    let logs = ground.get("/api/agents/writer/logs?lines=2").ok();
    let late = "1970-01-01T00:01:01Z";
    assert_eq!(
        (&logs["lines"], &logs["times"]),
        (&json!(["two", "three"]), &json!([late, late]))
    );
    let logs = ground.get("/api/agents/writer/logs").ok();
    assert_eq!(logs["times"], json!(["1970-01-01T00:00:01Z", late, late]));
}
