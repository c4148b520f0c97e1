//! What a model is told over MCP: what it left behind, and to wait or ask where a person decides.

use serde_json::{Value, json};

use crate::client::{Client, Speaks};
use crate::front::Front;
use crate::ground::Ground;

/// The text that a client shows the model.
fn text(client: &mut Client, tool: &str) -> String {
    let answer = client.ask("tools/call", json!({"name": tool, "arguments": {}}));
    answer["content"][0]["text"].as_str().unwrap().to_owned()
}

/// A model without a name begins a task, finishes its first step and is killed.
fn left_behind(ground: &Ground, task: &str) {
    let mut client = Client::new(&ground.stage, Speaks::Alone);
    client.call("task_start", &json!({"task": task, "steps": ["fetch", "write"]}));
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
    assert!(brief.contains("fetch") && brief.contains("write"), "{brief}");
    left_behind(&ground, "u");
    let which = text(&mut client, "resume_brief");
    assert!(which.contains("- t: ") && which.contains("- u: "), "{which}");
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
    for (tool, given) in
        [("step_end", json!({"step": "pay"})), ("task_done", json!({})), ("task_start", json!({}))]
    {
        let told = client.call(tool, &given);
        assert_eq!(told["code"], "waits_for_person", "{tool}: {told}");
        assert!(told["message"].as_str().unwrap().contains("task t"), "{tool}: {told}");
        assert!(told["hint"].as_str().unwrap().contains("person"), "{tool}: {told}");
    }
}

#[test]
fn no_hint_tells_a_model_to_break_in() {
    let ground = Ground::new();
    let mut client = Client::new(&ground.stage, Speaks::Alone);
    let hint = |told: &Value, code: &str| {
        assert_eq!(told["code"], code, "{told}");
        let hint = told["hint"].as_str().unwrap().to_owned();
        assert!(!hint.contains("--force") && !hint.contains("release"), "{told}");
    };
    client.call("task_start", &json!({"task": "t", "steps": ["a"]}));
    let mut other = Client::new(&ground.stage, Speaks::Alone);
    hint(&other.call("task_start", &json!({"task": "t"})), "held");
    hint(&client.call("task_done", &json!({})), "steps_left_open");
    client.call("task_block", &json!({"reason": "the key is missing"}));
    hint(&other.call("task_start", &json!({"task": "t"})), "waits_for_person");
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
            let Some(answer) = front.call(operation, &fields) else { continue };
            let error = answer.unwrap_err();
            let message = error["message"].as_str().unwrap();
            assert!(message.ends_with("a key of the context is empty; write KEY=VALUE"), "{error}");
            told.push([&error["code"], &error["exit"], &error["status"]].map(Clone::clone));
        }
    }
    assert!(told.iter().all(|error| *error == told[0]), "{told:#?}");
}
