//! Agents that report by themselves: heartbeats and a stop mean the same through every front.

use serde_json::{Value, json};

use crate::client::{Client, Speaks};
use crate::front::{Front, post_tool, post_tool_as, send, settle_hint};
use crate::ground::{Ground, until};

/// A daemon to which `bot` reports.
fn daemon_with_bot() -> (Ground, crate::ground::Supervisor) {
    daemon_with(&json!({"name": "bot"}), "")
}

fn daemon_with(bot: &Value, config: &str) -> (Ground, crate::ground::Supervisor) {
    let ground = Ground::new();
    ground.config(&format!("{config}\n[daemon]\nhttp = false\n"));
    let up = ground.up(&[]);
    let (status, answer) = send(&ground, "POST", "/api/agents", &bot.to_string());
    assert_eq!(status, 201, "{answer}");
    (ground, up)
}

/// Its only attempt lives.
fn assert_never_silent(ground: &Ground) {
    let (_, deaths) = send(ground, "GET", "/api/agents/bot/deaths", "");
    assert_eq!(deaths["items"], json!([]));
    let (_, bot) = send(ground, "GET", "/api/agents/bot", "");
    assert_eq!(
        (&bot["state"], &bot["attempt"]),
        (&json!("running"), &json!(1)),
        "{bot}"
    );
}

fn beat(ground: &Ground, fields: &Value) -> Value {
    let (status, answer) = send(
        ground,
        "POST",
        "/api/agents/bot/heartbeat",
        &fields.to_string(),
    );
    assert_eq!(status, 200, "{answer}");
    answer
}

#[test]
fn a_beat_through_either_front_renews_a_short_lease_and_says_the_same() {
    let (ground, _up) = daemon_with_bot();
    ground.json(&["task", "start", "t", "--agent", "bot", "--lease", "10s"]);
    let beats = || {
        let by_cli = ground.json(&["beat", "bot", "--task", "t"]);
        let by_http = beat(&ground, &json!({"task": "t"}));
        for told in [&by_cli, &by_http] {
            assert_eq!(told["action"], "continue", "{told}");
            assert_eq!(told["tasks"][0]["task"], "t", "{told}");
        }
        let fields = |told: &Value| {
            told.as_object()
                .unwrap()
                .keys()
                .cloned()
                .collect::<Vec<_>>()
        };
        assert_eq!(fields(&by_cli), fields(&by_http));
        by_http["tasks"][0]["lease_ends_at"].clone()
    };
    let first_end = beats();
    until("a renewed lease", || (beats() != first_end).then_some(()));
    assert_eq!(ground.json(&["task", "show", "t"])["holder"]["alive"], true);
}

#[test]
fn a_running_step_of_an_agent_that_reports_by_itself_is_a_sign_of_life() {
    let (ground, _up) = daemon_with(&json!({"name": "bot", "silence_max": "2s"}), "");
    beat(&ground, &json!({}));
    let fence = ground.json(&["task", "start", "t", "--agent", "bot"])["fence"].to_string();
    let with = ["--task", "t", "--fence", &fence];
    let step = ["step", "run", "build", "--timeout", "60s"];
    let ran = ground.call(&[&step[..], &with, &["--", "sleep", "6"]].concat());
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_never_silent(&ground);
    let done = ground.call(&[&["task", "done", "t"][..], &with[2..]].concat());
    assert_eq!(done.code, 0, "{done:?}");
}

#[test]
fn an_agent_that_starts_work_by_the_command_line_is_watched_before_its_first_beat() {
    let (ground, _up) = daemon_with(&json!({"name": "bot", "silence_max": "1s"}), "");
    let lease = ["task", "start", "t", "--agent", "bot", "--lease", "1h"];
    assert_eq!(ground.call(&lease).code, 0);
    ground.until_agent("bot", |agent| agent["state"] == "crashed");
    assert_eq!(ground.causes("bot"), ["hung"]);
    assert_ne!(ground.task_status("t"), "in_progress");
}

#[test]
fn a_claim_that_waits_is_a_sign_of_life_of_an_agent_that_reports_by_itself() {
    let (ground, _up) = daemon_with(&json!({"name": "bot", "silence_max": "2s"}), "");
    beat(&ground, &json!({}));
    let claimed = ground.call(&["task", "claim", "--agent", "bot", "--wait", "6s"]);
    assert_eq!(claimed.code, 1, "{claimed:?}");
    assert_never_silent(&ground);
}

#[test]
fn a_stopped_agent_gets_no_work_through_any_front() {
    let mut told: Vec<(&str, Value)> = Vec::new();
    for mut front in Front::all() {
        // The agent is registered with a daemon, and stopped; then the front itself is used.
        let (ground, up) = (
            front.ground(),
            matches!(front, Front::Http(..) | Front::McpHttp(..)),
        );
        let daemon = (!up).then(|| {
            ground.config("[daemon]\nhttp = false\n");
            ground.up(&[])
        });
        let (status, _) = send(ground, "POST", "/api/agents", "{\"name\": \"bot\"}");
        assert_eq!(status, 201, "{}", front.name());
        assert_eq!(beat(ground, &json!({}))["action"], "continue");
        assert_eq!(ground.call(&["stop", "bot"]).code, 0);
        let stopped = ground.call(&["beat", "bot", "--json"]);
        assert_eq!(stopped.code, 77, "{stopped:?}");
        assert!(stopped.stdout.contains("\"stop\""), "{stopped:?}");
        drop(daemon);
        for (operation, fields) in [
            ("task.start", json!({"task": "t", "agent": "bot"})),
            ("task.claim", json!({"agent": "bot"})),
        ] {
            let Some(answer) = front.call(operation, &fields) else {
                continue;
            };
            let mut error = answer.unwrap_err();
            if front.is_for_models() {
                settle_hint(&told[0].1, &mut error);
            }
            assert!(
                error["message"]
                    .as_str()
                    .unwrap()
                    .contains("a person stopped it"),
                "{error}"
            );
            if front.name() != "library" {
                told.push((front.name(), error));
            }
        }
    }
    for pair in told.windows(2) {
        assert_eq!(pair[0].1, pair[1].1, "{} and {}", pair[0].0, pair[1].0);
    }
}

#[test]
fn events_and_deaths_have_one_form() {
    let (ground, _up) = daemon_with_bot();
    beat(&ground, &json!({}));
    ground.json(&["task", "start", "t", "--agent", "bot"]);
    ground.json(&["step", "begin", "a", "--task", "t", "--fence", "1"]);
    assert_eq!(ground.call(&["restart", "bot"]).code, 0);
    let said = ground.call(&["events", "--json", "--all"]).stdout;
    let by_cli: Vec<Value> = said
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let (_, by_http) = send(&ground, "GET", "/api/events?limit=1000", "");
    let by_http = by_http["items"].as_array().unwrap();
    assert_eq!(by_cli, by_http[..by_cli.len()]);
    assert!(
        by_cli.iter().any(|event| event["step"] == "a"),
        "{by_cli:#?}"
    );
    let (_, deaths) = send(&ground, "GET", "/api/agents/bot/deaths", "");
    assert_eq!(ground.json(&["deaths", "bot"]), deaths);
    assert_eq!(deaths["items"][0]["attempt"], 1);
}

#[test]
fn a_heartbeat_over_mcp_renews_leases_and_is_answered() {
    let (ground, _up) = daemon_with_bot();
    let mut client = Client::with(&ground.stage, Speaks::Alone, &[("RELIGHT_AGENT", "bot")]);
    ground.json(&["task", "start", "t", "--agent", "bot", "--lease", "10s"]);
    let told = client.call("heartbeat", &json!({"status": "thinks"}));
    assert_eq!(
        (&told["heard"], &told["action"]),
        (&json!(true), &json!("continue")),
        "{told}"
    );
    assert_eq!(told["tasks"][0]["task"], "t", "{told}");
    let pid = std::process::id().to_string();
    ground.json(&["task", "start", "p", "--agent", "bot", "--owner-pid", &pid]);
    until("what a process of it holds", || {
        let told = client.call("heartbeat", &json!({}));
        (told["tasks"].as_array()?.len() == 2).then_some(())
    });
    until("its status", || {
        let (_, bot) = send(&ground, "GET", "/api/agents/bot", "");
        (bot["state"] == "running" && bot["status_text"] == "thinks").then_some(())
    });
    assert_eq!(ground.call(&["stop", "bot"]).code, 0);
    let told = client.call("heartbeat", &json!({}));
    assert_eq!(told["action"], "stop", "{told}");
}

#[test]
fn a_heartbeat_over_either_mcp_tells_of_a_cancelled_task_and_of_every_restart() {
    let (ground, _up) = daemon_with_bot();
    let mut client = Client::new(&ground.stage, Speaks::Alone);
    let mut both = |given: Value| {
        let told = client.call("heartbeat", &given);
        assert_eq!(told, post_tool(&ground, "heartbeat", &given), "{given}");
        let mut by_http = given;
        by_http.as_object_mut().unwrap().remove("agent");
        let mut by_http = beat(&ground, &by_http);
        by_http["heard"] = json!(true);
        assert_eq!(told, by_http);
        told["action"].as_str().unwrap().to_owned()
    };
    beat(&ground, &json!({}));
    post_tool(&ground, "task_start", &json!({"task": "t", "agent": "bot"}));
    ground.json(&["task", "cancel", "t"]);
    assert_eq!(both(json!({"agent": "bot", "task": "t"})), "cancel");
    assert_eq!(ground.call(&["restart", "bot"]).code, 0);
    beat(&ground, &json!({}));
    for _ in 0..2 {
        assert_eq!(both(json!({"agent": "bot", "attempt": 1})), "restart");
    }
    assert_eq!(both(json!({"agent": "bot", "attempt": 2})), "continue");
    assert_eq!(both(json!({"agent": "bot", "attempt": 99})), "restart");
}

#[test]
fn a_supervised_agents_heartbeat_has_one_form() {
    let ground = Ground::new();
    let agent = "[[agent]]\nname = \"a\"\ncommand = [\"sleep\", \"600\"]\n";
    ground.config(&format!("{agent}[daemon]\nhttp = false\n"));
    let _up = ground.up(&[]);
    until("a process", || {
        ground.agent("a")["pid"].is_number().then_some(())
    });
    let mut client = Client::new(&ground.stage, Speaks::Alone);
    let mut all = |given: &Value| {
        let by_stdio = client.call("heartbeat", given);
        let by_http = post_tool(&ground, "heartbeat", given);
        let fields = |told: &Value| {
            told.as_object()
                .unwrap()
                .keys()
                .cloned()
                .collect::<Vec<_>>()
        };
        assert_eq!(fields(&by_stdio), fields(&by_http));
        for field in ["agent", "state", "attempt", "action", "why", "draining"] {
            assert_eq!(by_stdio[field], by_http[field], "{field}");
        }
        by_stdio
    };
    ground.json(&["task", "start", "t", "--agent", "a", "--lease", "1h"]);
    assert_eq!(
        all(&json!({"agent": "a", "task": "t"}))["tasks"][0]["task"],
        "t"
    );
    ground.json(&["task", "cancel", "t"]);
    assert_eq!(ground.call(&["drain"]).code, 0);
    let told = all(&json!({"agent": "a", "task": "t"}));
    assert_eq!(
        (&told["action"], &told["draining"]),
        (&json!("cancel"), &json!(true)),
        "{told}"
    );
    assert_eq!(ground.call(&["stop", "a"]).code, 0);
    assert_eq!(all(&json!({"agent": "a"}))["action"], "stop");
}

#[test]
fn a_name_that_nobody_registered_is_refused_where_it_is_an_argument() {
    let (ground, _up) = daemon_with_bot();
    let mut client = Client::with(&ground.stage, Speaks::Alone, &[("RELIGHT_AGENT", "nosuch")]);
    let unheard = client.call("heartbeat", &json!({}));
    assert_eq!(unheard, json!({"action": "continue", "heard": false}));
    assert_eq!(
        unheard,
        post_tool_as(&ground, "nosuch", "heartbeat", &json!({}))
    );
    let named = json!({"agent": "other"});
    let refused = client.call("heartbeat", &named);
    assert_eq!(refused["code"], "not_found", "{refused}");
    assert_eq!(
        refused,
        post_tool_as(&ground, "nosuch", "heartbeat", &named)
    );
}

#[test]
fn a_beat_without_a_daemon_says_that_it_cannot_be_reached() {
    let (ground, _up) = daemon_with_bot();
    assert_eq!(ground.call(&["down"]).code, 0);
    let ran = ground.call(&["beat", "bot"]);
    assert_eq!(ran.code, 69, "{ran:?}");
    assert!(ran.stderr.contains("daemon"), "{ran:?}");
    let ran = ground.call(&["beat", "nosuch"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    let mut client = Client::with(&ground.stage, Speaks::Alone, &[("RELIGHT_AGENT", "bot")]);
    let told = client.call("heartbeat", &json!({}));
    assert_eq!(
        (&told["code"], &told["exit"]),
        (&json!("unreachable"), &json!(69)),
        "{told}"
    );
}

#[test]
fn the_cooldown_of_the_configuration_counts_for_agents_that_report_by_themselves() {
    let bot = json!({"name": "bot", "silence_max": "1s"});
    let (ground, _up) = daemon_with(&bot, "[recovery]\ncooldown = \"2s\"\n");
    let shown = || send(&ground, "GET", "/api/agents/bot", "").1;
    let waits = until("a cooldown", || {
        let bot = shown();
        // Its newest death is read beside its state, and may come a moment later.
        let is_whole = bot["again_at"].is_string() && bot["last_death"]["at"].is_string();
        if bot["state"] == "crashed" && is_whole {
            return Some(bot);
        }
        if bot["state"] != "running" {
            beat(&ground, &json!({}));
        }
        None
    });
    let at = |text: &Value| {
        text.as_str()
            .unwrap()
            .parse::<relight_core::time::Time>()
            .unwrap()
    };
    let cooldown = at(&waits["again_at"]).since(at(&waits["last_death"]["at"]));
    assert!(cooldown.as_ms() <= 5_000, "{cooldown} in {waits}");
}

#[test]
fn a_removed_agent_holds_nothing_any_more() {
    let (ground, _up) = daemon_with_bot();
    beat(&ground, &json!({}));
    ground.json(&["task", "start", "t", "--agent", "bot", "--lease", "1h"]);
    let (status, answer) = send(&ground, "DELETE", "/api/agents/bot", "");
    assert_eq!(status, 204, "{answer}");
    let task = ground.json(&["task", "show", "t"]);
    assert_eq!(
        (&task["holder"], &task["status"]),
        (&json!(null), &json!("interrupted")),
        "{task}"
    );
}

#[test]
fn a_stop_takes_what_a_process_of_the_agent_holds() {
    let (ground, _up) = daemon_with_bot();
    beat(&ground, &json!({}));
    let me = std::process::id().to_string();
    ground.json(&["task", "start", "t", "--agent", "bot", "--owner-pid", &me]);
    ground.json(&["task", "start", "nameless", "--owner-pid", &me]);
    let told = beat(&ground, &json!({"task": "nameless"}));
    assert_eq!(told["action"], "continue", "nobody else's: {told}");
    assert_eq!(ground.json(&["ps"])["items"][0]["task"], "t");
    assert_eq!(ground.json(&["stop", "bot"])["task_interrupted"], "t");
    assert_eq!(beat(&ground, &json!({}))["tasks"], json!([]));
    let late = ground.call(&["step", "begin", "s", "--task", "t", "--fence", "1"]);
    assert_eq!(late.code, 77, "{late:?}");
    ground.json(&["start", "bot"]);
    let (_, bot) = send(&ground, "GET", "/api/agents/bot", "");
    assert_eq!(bot["last_death"]["cause"], "stopped", "{bot}");
    assert_eq!(
        bot["last_death"],
        ground.json(&["ps"])["items"][0]["last_death"]
    );
}

#[test]
fn a_heartbeat_knows_what_was_claimed_and_cancelled_a_moment_ago() {
    let (ground, _up) = daemon_with_bot();
    for task in ["t", "u", "v"] {
        assert_eq!(beat(&ground, &json!({}))["tasks"], json!([]));
        ground.json(&["task", "start", task, "--agent", "bot"]);
        let told = beat(&ground, &json!({"task": task}));
        assert_eq!(
            (&told["action"], &told["tasks"][0]["task"]),
            (&json!("continue"), &json!(task))
        );
        assert_eq!(ground.call(&["task", "cancel", task]).code, 0);
        let told = beat(&ground, &json!({"task": task}));
        assert_eq!(
            (&told["action"], &told["tasks"]),
            (&json!("cancel"), &json!([])),
            "{told}"
        );
    }
}

#[test]
fn a_heartbeat_is_refused_with_one_code_through_every_front() {
    let (ground, _up) = daemon_with_bot();
    let mut client = Client::new(&ground.stage, Speaks::Alone);
    for (agent, waiting_until) in [("bot", "soon"), ("nosuch", "10m")] {
        let body = json!({"waiting_until": waiting_until});
        let path = format!("/api/agents/{agent}/heartbeat");
        let (_, by_http) = send(&ground, "POST", &path, &body.to_string());
        let given = json!({"agent": agent, "waiting_until": waiting_until});
        let mut by_tool = client.call("heartbeat", &given);
        let ran = ground.call(&["beat", agent, "--waiting-until", waiting_until, "--json"]);
        let by_command: Value = serde_json::from_str(&ran.stderr).unwrap();
        let by_command = &by_command["error"];
        for field in ["code", "exit", "status"] {
            assert_eq!(
                by_http["error"][field], by_tool[field],
                "{agent} {field}: {by_tool}"
            );
            assert_eq!(
                by_http["error"][field], by_command[field],
                "{agent} {field}: {by_command}"
            );
        }
        settle_hint(&by_http["error"], &mut by_tool);
    }
}
