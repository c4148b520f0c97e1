//! What a model is told over MCP: what it left behind, and to wait or ask where a person decides.

use serde_json::{Value, json};

use crate::client::{Client, Speaks};
use crate::front::{Front, post_tool, send};
use crate::ground::Ground;

/// The text that a client shows the model.
fn text(client: &mut Client, tool: &str) -> String {
    let answer = client.ask("tools/call", json!({"name": tool, "arguments": {}}));
    answer["content"][0]["text"].as_str().unwrap().to_owned()
}

/// A model without a name begins a task, finishes its first step and is killed.
fn left_behind(ground: &Ground, task: &str) {
    let mut client = Client::new(&ground.stage, Speaks::Alone);
    client.call(
        "task_start",
        &json!({"task": task, "steps": ["fetch", "write"]}),
    );
    client.call("step_begin", &json!({"step": "fetch"}));
    client.call("step_end", &json!({"step": "fetch"}));
    client.end();
}

#[test]
fn a_model_without_a_name_finds_what_it_left_behind() {
    let ground = Ground::new();
    let mut client = Client::new(&ground.stage, Speaks::Alone);
    assert!(text(&mut client, "resume_brief").contains("begin at the beginning"));
    left_behind(&ground, "t");
    let brief = text(&mut client, "resume_brief");
    assert!(
        brief.contains("fetch") && brief.contains("write"),
        "{brief}"
    );
    left_behind(&ground, "u");
    let which = text(&mut client, "resume_brief");
    assert!(
        which.contains("- t: ") && which.contains("- u: "),
        "{which}"
    );
    client.call("task_start", &json!({"task": "t"}));
    let mut other = Client::new(&ground.stage, Speaks::Alone);
    let which = text(&mut other, "resume_brief");
    assert!(which.contains("- t: in_progress, held"), "{which}");
}

#[test]
fn a_task_that_waits_for_a_person_stays_the_models_task() {
    let ground = Ground::new();
    let mut client = Client::new(&ground.stage, Speaks::Alone);
    client.call("task_start", &json!({"task": "t"}));
    let pay = json!({"step": "pay", "rule": "once"});
    client.call("step_begin", &pay);
    assert_eq!(client.call("step_begin", &pay)["advice"], "wait");
    for (tool, given) in [
        ("step_end", json!({"step": "pay"})),
        ("task_done", json!({})),
        ("task_start", json!({})),
    ] {
        let told = client.call(tool, &given);
        assert_eq!(told["code"], "waits_for_person", "{tool}: {told}");
        assert!(
            told["message"].as_str().unwrap().contains("task t"),
            "{tool}: {told}"
        );
        assert!(
            told["hint"].as_str().unwrap().contains("person"),
            "{tool}: {told}"
        );
    }
}

#[test]
fn no_hint_tells_a_model_to_break_in() {
    let ground = Ground::new();
    let mut client = Client::new(&ground.stage, Speaks::Alone);
    let hint = |told: &Value, code: &str| {
        assert_eq!(told["code"], code, "{told}");
        let hint = told["hint"].as_str().unwrap().to_owned();
        assert!(
            !hint.contains("--force") && !hint.contains("release"),
            "{told}"
        );
    };
    client.call("task_start", &json!({"task": "t", "steps": ["a"]}));
    let mut other = Client::new(&ground.stage, Speaks::Alone);
    hint(&other.call("task_start", &json!({"task": "t"})), "held");
    hint(&client.call("task_done", &json!({})), "steps_left_open");
    client.call("task_block", &json!({"reason": "the key is missing"}));
    hint(
        &other.call("task_start", &json!({"task": "t"})),
        "waits_for_person",
    );
}

/// What both transports of MCP answer: one error.
fn both(ground: &Ground, client: &mut Client, tool: &str, given: &Value) -> Value {
    let told = client.call(tool, given);
    assert_eq!(told, post_tool(ground, tool, given), "{tool} {given}");
    told
}

fn daemon() -> (Ground, crate::ground::Supervisor, Client) {
    let ground = Ground::new();
    ground.config("[daemon]\nhttp = false\n");
    let up = ground.up(&[]);
    let client = Client::new(&ground.stage, Speaks::Alone);
    (ground, up, client)
}

#[test]
fn no_hint_tells_a_model_how_to_undo_a_persons_decision() {
    let (ground, _up, mut client) = daemon();
    send(&ground, "POST", "/api/agents", "{\"name\": \"bot\"}");
    send(&ground, "POST", "/api/agents/bot/heartbeat", "{}");
    assert_eq!(ground.call(&["stop", "bot"]).code, 0);
    ground.json(&["task", "start", "pinned", "--agent", "a", "--lease", "1h"]);
    ground.json(&["task", "release", "pinned", "--force"]);
    ground.json(&["task", "start", "t", "--lease", "1h"]);
    ground.json(&["step", "begin", "pay", "--task", "t", "--fence", "1"]);
    ground.json(&["task", "add", "gone"]);
    ground.json(&["task", "cancel", "gone"]);
    for (tool, given, code, says) in [
        (
            "task_start",
            json!({"task": "s", "agent": "bot"}),
            "conflict",
            "stop working",
        ),
        (
            "task_start",
            json!({"task": "pinned", "agent": "b"}),
            "conflict",
            "leave it",
        ),
        (
            "task_start",
            json!({"task": "gone"}),
            "ended",
            "stop working",
        ),
        (
            "step_skip",
            json!({"task": "t", "fence": 1, "step": "pay", "reason": "x"}),
            "in_doubt",
            "step_begin",
        ),
        (
            "step_end",
            json!({"task": "t", "fence": 1, "step": "x"}),
            "conflict",
            "step_begin",
        ),
        (
            "task_done",
            json!({"task": "t", "fence": 9}),
            "fenced",
            "give the fence",
        ),
    ] {
        let told = both(&ground, &mut client, tool, &given);
        let hint = told["hint"].as_str().unwrap();
        assert_eq!(told["code"], code, "{told}");
        assert!(hint.contains(says) && !hint.contains("relight "), "{told}");
    }
    ground.json(&["task", "release", "t", "--force"]);
    assert_eq!(ground.call(&["drain"]).code, 0);
    let drains = both(&ground, &mut client, "task_start", &json!({"task": "new"}));
    assert_eq!(drains["hint"], "begin nothing now; try again later");
    let late = both(
        &ground,
        &mut client,
        "task_done",
        &json!({"task": "t", "fence": 1}),
    );
    assert!(
        late["hint"]
            .as_str()
            .unwrap()
            .ends_with("stop working on it"),
        "{late}"
    );
}

#[test]
fn inflight_has_the_form_of_the_command_line() {
    let (ground, _up, mut client) = daemon();
    left_behind(&ground, "lost");
    let mut killed = Client::new(&ground.stage, Speaks::Alone);
    killed.call("task_start", &json!({"task": "doubt"}));
    killed.call("step_begin", &json!({"step": "pay", "rule": "verify"}));
    killed.kill();
    ground.json(&["task", "start", "held", "--agent", "a", "--lease", "1h"]);
    ground.json(&["session", "begin", "s", "--id", "s"]);
    let mut by_mcp = both(&ground, &mut client, "inflight", &json!({}));
    assert_eq!(by_mcp["counts"]["sessions"], 1, "{by_mcp}");
    assert_eq!(by_mcp["in_doubt"][0]["name"], "pay", "{by_mcp}");
    by_mcp.as_object_mut().unwrap().remove("counts");
    assert_eq!(by_mcp, ground.json(&["inflight"]));
}

#[test]
fn an_argument_that_the_schema_does_not_name_is_refused_by_both_transports() {
    let (ground, _up, mut client) = daemon();
    let more = json!({"task": "t", "fence": 1, "step": "a", "exit_code": 3});
    let told = both(&ground, &mut client, "step_end", &more);
    assert_eq!(told["message"], "unknown field \"exit_code\"");
    let known = "known are cost, failed, fence, occurrence, output, step, task, turns";
    assert_eq!(told["hint"], known);
    for (field, value) in [
        ("payload", json!(1)),
        ("force", json!(true)),
        ("task", json!(5)),
    ] {
        let mut given = json!({"task": "t"});
        given[field] = value;
        assert_eq!(
            client.call("task_start", &given)["code"],
            "invalid",
            "{given}"
        );
        assert_eq!(
            post_tool(&ground, "task_start", &given)["code"],
            "invalid",
            "{given}"
        );
    }
    let lease = client.call("task_start", &json!({"task": "t", "lease": "0s"}));
    assert_eq!(lease["message"], "unknown field \"lease\"");
}

#[test]
fn context_without_a_key_is_refused_everywhere() {
    let mut told = Vec::new();
    for mut front in Front::all() {
        for (operation, mut fields) in [
            ("task.add", json!({"task": "t"})),
            ("task.start", json!({"task": "t"})),
            ("task.set", json!({"task": "t"})),
            ("session.begin", json!({"session": "s", "id": "s"})),
        ] {
            if front.name() == "library" {
                continue;
            }
            fields["set"] = json!({"": "x"});
            let Some(answer) = front.call(operation, &fields) else {
                continue;
            };
            let error = answer.unwrap_err();
            let message = error["message"].as_str().unwrap();
            assert!(
                message.ends_with("a key of the context is empty; write KEY=VALUE"),
                "{error}"
            );
            told.push([&error["code"], &error["exit"], &error["status"]].map(Clone::clone));
        }
    }
    assert!(told.iter().all(|error| *error == told[0]), "{told:#?}");
}
