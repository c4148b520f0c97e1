//! Agents that report by themselves: they live by what they say.

use std::time::Duration;

use relight_runtime::supervise::control::Request;
use serde_json::{Value, json};

use crate::ground::{Ground, now};

/// A ground where `bot` reports, and may be silent for so long.
fn with_bot(silence_max: &str) -> Ground {
    let ground = Ground::new();
    let body = json!({"name": "bot", "silence_max": silence_max});
    assert_eq!(ground.post("/api/agents", &body).status, 201);
    ground
}

fn beat(ground: &Ground) -> u16 {
    ground.post("/api/agents/bot/heartbeat", &json!({})).status
}

fn shown(ground: &Ground) -> Value {
    ground.get("/api/agents/bot").ok()
}

#[test]
fn the_first_report_makes_it_run() {
    let ground = with_bot("10m");
    assert_eq!(shown(&ground)["state"], "created");
    assert_eq!(beat(&ground), 200);
    let bot = shown(&ground);
    assert_eq!(
        (&bot["state"], &bot["attempt"]),
        (&json!("running"), &json!(1))
    );
    assert_eq!(
        bot["supervisor"]["alive"], true,
        "the daemon that hears it holds it"
    );
    beat(&ground);
    assert_eq!(shown(&ground)["attempt"], 1);
}

#[test]
fn taking_work_is_a_report() {
    let ground = with_bot("10m");
    ground.post("/api/tasks", &json!({"id": "t"})).ok();
    ground
        .post("/api/tasks/claim", &json!({"agent": "bot"}))
        .ok();
    let bot = shown(&ground);
    assert_eq!(
        (&bot["state"], &bot["task"]),
        (&json!("running"), &json!("t"))
    );
    let ground = with_bot("10m");
    ground
        .post("/api/tasks/t/start", &json!({"agent": "bot"}))
        .ok();
    assert_eq!(shown(&ground)["state"], "running");
}

#[test]
fn silence_ends_it_and_its_task_goes_by_its_strategy() {
    let ground = with_bot("1s");
    let mut watch = ground.watch("agent.state,task.recovery,alert");
    let started = ground
        .post("/api/tasks/t/start", &json!({"agent": "bot"}))
        .ok();
    let fence = started["fence"].clone();
    watch.until("\"to\":\"crashed\"");
    watch.until("task.recovery");
    let bot = shown(&ground);
    assert_eq!(
        (&bot["state"], &bot["supervisor"]),
        (&json!("crashed"), &json!(null))
    );
    assert_eq!(bot["last_death"]["cause"], "hung");
    assert_eq!(ground.get("/api/tasks/t").ok()["status"], "interrupted");
    let alerts = ground.get("/api/events?kind=alert").ok();
    assert_eq!(alerts["items"][0]["detail"]["alert"], "silent");
    let late = ground.post("/api/tasks/t/done", &json!({"fence": fence}));
    assert_eq!((late.status, late.code().as_str()), (409, "fenced"));
    // It is back by what it says, with no other help.
    assert_eq!(beat(&ground), 200);
    let bot = shown(&ground);
    assert_eq!(
        (&bot["state"], &bot["attempt"]),
        (&json!("running"), &json!(2))
    );
    let deaths = ground.get("/api/agents/bot/deaths").ok();
    assert!(
        deaths["items"][0]["note"]
            .as_str()
            .unwrap()
            .starts_with("no report for"),
        "{deaths}"
    );
}

#[test]
fn whoever_waits_for_work_or_said_so_is_not_silent() {
    let ground = with_bot("1s");
    let mut watch = ground.watch("agent.state");
    let waits = json!({"waiting_until": "10m"});
    assert_eq!(ground.post("/api/agents/bot/heartbeat", &waits).status, 200);
    watch.until("running");
    // Longer than it may be silent.
    let claim = json!({"agent": "bot", "wait": "2500ms"});
    assert_eq!(ground.post("/api/tasks/claim", &claim).status, 204);
    assert_eq!(shown(&ground)["state"], "running");
}

#[test]
fn a_person_restarts_and_stops_what_is_known_of_it() {
    let ground = with_bot("10m");
    ground
        .post("/api/tasks/t/start", &json!({"agent": "bot"}))
        .ok();
    let restarted = ground.post("/api/agents/bot/restart", &json!({})).ok();
    let expected = json!({
        "agent": "bot", "previous_state": "running", "state": "running",
        "task_interrupted": "t", "task_cancelled": "t",
    });
    assert_eq!(restarted, expected);
    assert_eq!(ground.get("/api/tasks/t").ok()["status"], "interrupted");
    assert_eq!(shown(&ground)["attempt"], 2);
    let stopped = ground.post("/api/agents/bot/stop", &json!({})).ok();
    assert_eq!(stopped["state"], "stopped");
    let told = ground.post("/api/agents/bot/heartbeat", &json!({})).ok();
    assert_eq!(
        (&told["state"], &told["action"]),
        (&json!("stopped"), &json!("stop"))
    );
    assert_eq!(
        ground
            .post("/api/tasks/claim", &json!({"agent": "bot"}))
            .status,
        409
    );
    let started = ground
        .post("/api/agents/bot/start", &json!({"keep_running": true}))
        .ok();
    assert_eq!(
        (&started["previous_state"], &started["state"]),
        (&json!("stopped"), &json!("running"))
    );
    assert!(
        ground.asked.lock().unwrap().is_empty(),
        "no supervisor has it"
    );
    assert_eq!(
        ground.call("DELETE", "/api/agents/bot", &json!({})).status,
        204
    );
    assert_eq!(beat(&ground), 404);
}

#[test]
fn an_agent_that_beats_keeps_its_short_lease() {
    let ground = with_bot("10m");
    let start = json!({"agent": "bot", "lease": "6s"});
    let started = ground.post("/api/tasks/t/start", &start).ok();
    let beat = || {
        let told = ground
            .post("/api/agents/bot/heartbeat", &json!({"task": "t"}))
            .ok();
        assert_eq!(
            (&told["action"], &told["tasks"][0]["task"]),
            (&json!("continue"), &json!("t"))
        );
        told["tasks"][0]["lease_ends_at"].clone()
    };
    let (first_end, begun) = (beat(), now());
    while beat() == first_end {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "it is never renewed"
        );
    }
    assert_eq!(ground.get("/api/tasks/t").ok()["holder"]["alive"], true);
    let done = ground.post("/api/tasks/t/done", &json!({"fence": started["fence"]}));
    assert_eq!(done.status, 200, "{}", done.text);
}

#[test]
fn to_start_again_with_the_fence_renews_the_lease() {
    let ground = Ground::new();
    let fence = ground
        .post("/api/tasks/t/start", &json!({"lease": "1h"}))
        .ok()["fence"]
        .clone();
    let left = |ground: &Ground| ground.get("/api/tasks/t").ok()["holder"]["left_ms"].as_u64();
    let begun = now();
    while left(&ground) == Some(3_600_000) || left(&ground) > Some(3_599_900) {
        assert!(begun.elapsed() < Duration::from_secs(60));
    }
    let before = left(&ground);
    ground
        .post(
            "/api/tasks/t/start",
            &json!({"lease": "1h", "fence": fence}),
        )
        .ok();
    assert!(left(&ground) > before, "{before:?}");
}

#[test]
fn an_agent_learns_from_its_beat_that_it_was_restarted_or_lost_its_task() {
    let ground = with_bot("10m");
    let beat = |body: Value| {
        let told = ground.post("/api/agents/bot/heartbeat", &body).ok();
        told["action"].as_str().unwrap().to_owned()
    };
    ground
        .post("/api/tasks/t/start", &json!({"agent": "bot"}))
        .ok();
    assert_eq!(beat(json!({"attempt": 1, "task": "t"})), "continue");
    ground.post("/api/agents/bot/restart", &json!({})).ok();
    assert_eq!(beat(json!({"attempt": 1})), "restart");
    assert_eq!(
        beat(json!({"attempt": 1})),
        "restart",
        "as often as it asks"
    );
    assert_eq!(beat(json!({"attempt": 2, "task": "t"})), "cancel");
    ground.post("/api/agents/bot/restart", &json!({})).ok();
    assert_eq!(
        (beat(json!({})), beat(json!({}))),
        ("restart".to_owned(), "continue".to_owned())
    );
    ground
        .post("/api/tasks/u/start", &json!({"agent": "bot"}))
        .ok();
    assert_eq!(beat(json!({"task": "u"})), "continue");
    ground.post("/api/tasks/u/cancel", &json!({})).ok();
    let begun = now();
    while beat(json!({"task": "u"})) != "cancel" {
        assert!(begun.elapsed() < Duration::from_secs(60));
    }
}

#[test]
fn a_command_is_for_whoever_allows_it() {
    let body = json!({"name": "w", "command": ["sleep", "5"], "restart": "always"});
    let refused = Ground::new().post("/api/agents", &body);
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (403, "forbidden")
    );
    assert!(
        refused.text.contains("[daemon] commands = true"),
        "{}",
        refused.text
    );
    let ground = Ground::with_commands();
    for bad in [
        json!({"name": "w", "command": []}),
        json!({"name": "w", "command": ["x"], "restart": "sometimes"}),
        json!({"name": "w", "command": ["x"], "folder": "relative"}),
        json!({"name": "w", "command": ["sh", "-c", "password=hunter2-and-more x"]}),
        json!({"name": "w", "folder": "/"}),
    ] {
        assert_eq!(ground.post("/api/agents", &bad).status, 422, "{bad}");
    }
    assert!(ground.asked.lock().unwrap().is_empty());
    // The supervisor of this ground takes it up without writing it.
    assert_eq!(ground.post("/api/agents", &body).status, 404);
    let asked = ground.asked.lock().unwrap();
    let [Request::Register(new)] = asked.as_slice() else {
        panic!("{asked:?}")
    };
    assert_eq!(new.command, ["sleep", "5"]);
}
