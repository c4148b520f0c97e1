//! Lines by hand, in both generations of the protocol.

use std::io::Write as _;

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use crate::client::{Client, Speaks};
use crate::relight::{Stage, finish};

const GENERATIONS: [Speaks; 5] = [
    Speaks::Handshake("2024-11-05"),
    Speaks::Handshake("2025-03-26"),
    Speaks::Handshake("2025-06-18"),
    Speaks::Handshake("2025-11-25"),
    Speaks::Alone,
];

#[test]
fn a_killed_server_leaves_a_step_in_doubt_and_the_next_one_goes_on() {
    for speaks in GENERATIONS {
        let stage = Stage::new();
        let mut client = Client::new(&stage, speaks);
        let started = client.call("task_start", &json!({"task": "t", "steps": ["a", "b"]}));
        assert_eq!(
            (&started["fence"], &started["next_step"]),
            (&json!(1), &json!("a"))
        );
        assert_eq!(
            client.call("step_begin", &json!({"step": "a"}))["advice"],
            "go"
        );
        assert_eq!(
            client.call("step_end", &json!({"step": "a"}))["outcome"],
            "done"
        );
        let begun = client.call("step_begin", &json!({"step": "b"}));
        client.kill();

        let mut client = Client::new(&stage, speaks);
        let found = client.call("inflight", &json!({}));
        assert_eq!(found["counts"]["lost"], 1, "{found}");
        let again = client.call("task_start", &json!({"task": "t"}));
        assert_eq!(
            (&again["fence"], &again["resumed"]),
            (&json!(2), &json!(true))
        );
        assert_eq!(
            (&again["in_doubt"], &again["done_steps"]),
            (&json!(["b"]), &json!(["a"]))
        );
        let advice = client.call("step_begin", &json!({"step": "b"}));
        assert_eq!(advice["advice"], "again");
        assert_eq!(advice["idempotency_key"], begun["idempotency_key"]);
        client.call("step_end", &json!({"step": "b"}));
        assert_eq!(client.call("task_done", &json!({}))["status"], "completed");
        assert_eq!(client.end().code, 0);
    }
}

#[test]
fn what_is_under_way_at_the_end_of_the_input_is_finished_and_nothing_is_cancelled() {
    let stage = Stage::new();
    let mut client = Client::new(&stage, Speaks::Handshake("2025-06-18"));
    // No answer is waited for: they come in this order all the same.
    let calls = [
        ("task_start", json!({"task": "t"})),
        ("step_begin", json!({"step": "a"})),
        ("step_end", json!({"step": "a"})),
        ("step_begin", json!({"step": "b", "rule": "once"})),
    ];
    for (tool, arguments) in calls {
        client.send("tools/call", json!({"name": tool, "arguments": arguments}));
    }
    let pid = client.pid().as_raw_nonzero();
    client.close();
    let answers = client.rest();
    assert_eq!(answers.len(), 4, "{answers:?}");
    assert!(
        answers
            .iter()
            .all(|answer| answer["result"]["isError"] == false),
        "{answers:?}"
    );
    let ran = client.finish();
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    let shown = stage.run(&["task", "show", "t", "--json"]).stdout;
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["status"], "in_progress");
    assert_eq!(
        shown["holder"]["pid"],
        pid.get(),
        "it was held by that very process"
    );
    let inflight = stage.run(&["inflight"]).stdout;
    assert!(
        inflight.contains("in doubt") && inflight.contains("holder gone"),
        "{inflight}"
    );
}

#[test]
fn a_signal_ends_it_in_order_before_and_after_the_first_word() {
    let stage = Stage::new();
    for signal in [Signal::TERM, Signal::INT] {
        let mut client = Client::new(&stage, Speaks::Handshake("2025-11-25"));
        client.call("task_start", &json!({"task": "t"}));
        kill_process(client.pid(), signal).unwrap();
        assert_eq!(client.finish().code, 0);
    }
    let silent = Client::new(&stage, Speaks::Alone);
    assert_eq!(
        silent.end().code,
        0,
        "a client that says nothing is not a failure"
    );
}

#[test]
fn two_servers_do_not_get_one_task_and_a_lost_one_is_refused() {
    let stage = Stage::new();
    let speaks = Speaks::Alone;
    let (mut one, mut two) = (Client::new(&stage, speaks), Client::new(&stage, speaks));
    one.call("task_start", &json!({"task": "t"}));
    assert_eq!(
        two.call("task_start", &json!({"task": "t"}))["code"],
        "held"
    );
    assert_eq!(
        two.call("task_done", &json!({"task": "t"}))["code"],
        "not_held"
    );
    assert_eq!(stage.run(&["task", "release", "t", "--force"]).code, 0);
    assert_eq!(two.call("task_start", &json!({"task": "t"}))["fence"], 3);
    let late = one.call("step_begin", &json!({"step": "a"}));
    assert_eq!(late["code"], "fenced");
    assert!(late["hint"].as_str().unwrap().contains("stop"), "{late}");
    let blocked = two.call("task_block", &json!({"reason": "needs a key"}));
    assert_eq!(blocked["status"], "blocked");
}

#[test]
fn the_task_and_the_fence_of_the_environment_go_without_saying() {
    let stage = Stage::new();
    assert_eq!(stage.run(&["task", "start", "t", "--lease", "1h"]).code, 0);
    let variables = [
        ("RELIGHT_TASK", "t"),
        ("RELIGHT_FENCE", "1"),
        ("RELIGHT_AGENT", "writer"),
    ];
    let mut client = Client::with(&stage, Speaks::Alone, &variables);
    assert_eq!(
        client.call("step_begin", &json!({"step": "a"}))["advice"],
        "go"
    );
    assert_eq!(
        client.call("task_start", &json!({}))["fence"],
        1,
        "the lease is continued"
    );
    assert_eq!(
        client.call("heartbeat", &json!({"status": "thinks"}))["heard"],
        false
    );
    assert_eq!(client.call("task_done", &json!({}))["status"], "completed");
}

#[test]
fn in_a_supervised_agent_the_attempt_holds_the_task_and_is_heard() {
    let stage = Stage::new();
    let work = stage.folder.path().join("work");
    let info = json!({"name": "t", "version": "1"});
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info});
    let lines = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call",
            "params": {"name": "task_start", "arguments": {"task": "t"}}}),
        json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call",
            "params": {"name": "heartbeat", "arguments": {"status": "thinks"}}}),
    ];
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    std::fs::write(work.join("lines"), text).unwrap();
    let relight = env!("CARGO_BIN_EXE_relight");
    let agent = format!(
        "{relight} mcp <lines >answers; {relight} task show t --json >shown; {relight} task done t"
    );
    let words = [
        "run",
        "--name",
        "a",
        "--restart",
        "never",
        "--",
        "sh",
        "-c",
        &agent,
    ];
    let ran = stage.run(&words);
    assert_eq!(ran.code, 0, "{ran:?}");
    let read = |name: &str| std::fs::read_to_string(work.join(name)).unwrap();
    assert!(
        read("answers").contains("\"heard\":true"),
        "{}",
        read("answers")
    );
    let shown: serde_json::Value = serde_json::from_str(&read("shown")).unwrap();
    let (holder, agent) = (&shown["holder"], &shown["agent"]);
    assert_eq!(
        (&holder["kind"], &holder["alive"]),
        (&json!("attempt"), &json!(true))
    );
    assert_eq!(agent, "a", "its name comes from the environment");
}

#[test]
fn a_task_that_has_ended_and_a_method_that_is_not_there_are_named() {
    let stage = Stage::new();
    let mut client = Client::new(&stage, Speaks::Handshake("2025-06-18"));
    let unnamed = client.call("task_done", &json!({}));
    assert_eq!(unnamed["message"], "no task is named", "{unnamed}");
    client.call("task_start", &json!({"task": "t"}));
    client.call("task_done", &json!({}));
    for (tool, arguments) in [
        ("task_done", json!({})),
        ("step_begin", json!({"step": "s"})),
    ] {
        let refused = client.call(tool, &arguments);
        assert_eq!(refused["code"], "ended", "{tool}: {refused}");
        let message = refused["message"].as_str().unwrap();
        assert!(message.contains("task t is completed"), "{tool}: {refused}");
    }
    let id = client.send("nosuch/method", json!({}));
    let answer = client.next();
    assert_eq!(answer["id"], id);
    assert_eq!(
        answer["error"],
        json!({"code": -32601, "message": "there is no method nosuch/method"})
    );
    for params in [json!({"name": "task_show", "arguments": []}), Value::Null] {
        let id = client.send("tools/call", params);
        let answer = client.next();
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (&json!(id), &json!(-32602)),
            "{answer}"
        );
    }
}

#[test]
fn workflows_are_saved_with_their_file_and_resumed() {
    let stage = Stage::new();
    let mut client = Client::new(&stage, Speaks::Handshake("2025-06-18"));
    let begin = json!({"workflow": "w", "agent": "a", "step": "one", "remaining": ["two"]});
    assert_eq!(client.call("checkpoint_save", &begin)["outcome"], "started");
    let next = json!({"workflow": "w", "complete": ["one"], "step": "two", "notes": "half way"});
    assert_eq!(client.call("checkpoint_save", &next)["step"], "two");
    let mistyped = json!({"workflow": "ww", "agent": "a", "complete": ["two"]});
    assert_eq!(
        client.call("checkpoint_save", &mistyped)["code"],
        "not_found"
    );
    client.kill();
    let file = stage.folder.path().join("work/memory/checkpoints/w.json");
    assert!(file.is_file());
    let mut client = Client::new(&stage, Speaks::Alone);
    let resumed = client.call("checkpoint_resume", &json!({}));
    assert_eq!(
        (&resumed["task"], &resumed["notes"]),
        (&json!("w"), &json!("half way"))
    );
    assert_eq!(
        (&resumed["done_steps"], &resumed["next_step"]),
        (&json!(["one"]), &json!("two"))
    );
    let done = json!({"workflow": "w", "complete": ["two"], "status": "done"});
    assert_eq!(client.call("checkpoint_save", &done)["status"], "done");
    assert_eq!(
        client.call("checkpoint_resume", &json!({}))["code"],
        "nothing"
    );
}

#[test]
fn the_brief_is_a_resource_and_no_other_is_there() {
    let stage = Stage::new();
    let mut client = Client::new(&stage, Speaks::Handshake("2025-06-18"));
    let listed = client.ask("resources/list", json!({}));
    assert_eq!(listed["resources"][0]["uri"], "relight://brief");
    let read = |client: &mut Client, uri: &str| client.ask("resources/read", json!({"uri": uri}));
    let text = read(&mut client, "relight://brief");
    assert_eq!(
        text["contents"][0]["text"],
        "Nothing was interrupted: begin at the beginning.\n"
    );
    client.call("task_start", &json!({"task": "t", "steps": ["a", "b"]}));
    client.call("step_begin", &json!({"step": "a"}));
    let text = read(&mut client, "relight://brief")["contents"][0]["text"].clone();
    let own = "Step \"a\" was begun under the current lease: if you are in it, end it; else check";
    assert!(text.as_str().unwrap().contains(own), "{text}");
    assert_eq!(
        read(&mut client, "relight://brief/t")["contents"][0]["text"],
        text
    );
    for uri in [
        "relight://brief/none",
        "file:///etc/passwd",
        "relight://briefs",
    ] {
        assert_eq!(read(&mut client, uri)["error"]["code"], -32002, "{uri}");
    }
    client.kill();
    let mut next = Client::new(&stage, Speaks::Handshake("2025-06-18"));
    let text = read(&mut next, "relight://brief/t")["contents"][0]["text"].clone();
    assert!(
        text.as_str()
            .unwrap()
            .contains("Step \"a\" may or may not have happened"),
        "{text}"
    );
}

#[test]
fn whoever_speaks_something_else_is_told_on_standard_error() {
    let stage = Stage::new();
    let mut client = Client::new(&stage, Speaks::Alone);
    client.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    let ran = client.end();
    assert_eq!(ran.code, 65, "{ran:?}");
    assert!(
        ran.stderr.contains("does not speak MCP") && !ran.stderr.contains("Some("),
        "{ran:?}"
    );
    let mut client = Client::new(&stage, Speaks::Handshake("2025-06-18"));
    let unknown = client.ask("tools/call", json!({"name": "rm", "arguments": {}}));
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    assert_eq!(
        client.call("task_start", &json!({"tusk": "t"}))["code"],
        "invalid"
    );
    assert_eq!(
        client.call("task_start", &json!({}))["code"],
        "invalid",
        "there is no default yet"
    );
}

#[test]
fn a_store_that_cannot_be_opened_is_told_on_standard_error() {
    let stage = Stage::new();
    let ran = stage.run(&["mcp", "--store", "nonsense:x"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (78, ""), "{ran:?}");
    assert!(ran.stderr.contains("nonsense"), "{ran:?}");
}

/// Everything that a server says to these lines of its input.
fn answers_to(lines: &[&str]) -> String {
    let stage = Stage::new();
    let mut child = stage
        .command(&["mcp"])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let info = r#"{"name":"t","version":"1"}"#;
    let hello = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"protocolVersion":"2025-06-18","capabilities":{{}},"clientInfo":{info}}}}}"#
    );
    let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let said = [&[hello.as_str(), ready], lines].concat().join("\n") + "\n";
    child
        .stdin
        .take()
        .unwrap()
        .write_all(said.as_bytes())
        .unwrap();
    let ran = finish(child);
    assert_eq!(ran.code, 0, "{ran:?}");
    ran.stdout
}

#[test]
fn what_is_no_message_is_answered_and_the_next_one_is_read() {
    let twice = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"task_start","arguments":{"task":"a","task":"b"}}}"#;
    let ping = r#"{"jsonrpc":"2.0","id":8,"method":"ping"}"#;
    let said = answers_to(&["garbage", "{\"a\":", "", "[1]", twice, ping]);
    let answers: Vec<serde_json::Value> = said
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let codes: Vec<i64> = answers
        .iter()
        .filter_map(|answer| answer["error"]["code"].as_i64())
        .collect();
    assert_eq!(codes, [-32700, -32700, -32600, -32600], "{said}");
    let refused = answers.iter().find(|answer| answer["id"] == 7).unwrap();
    assert!(
        refused["error"]["message"]
            .as_str()
            .unwrap()
            .contains("twice"),
        "{refused}"
    );
    assert!(
        answers
            .iter()
            .any(|answer| answer["id"] == 8 && answer["result"].is_object())
    );
}

#[test]
fn no_character_that_a_terminal_obeys_is_written_as_it_is() {
    let call = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"rm\u202e\u009b\u007f","arguments":{}}}"#;
    let said = answers_to(&[call]);
    assert!(said.contains("\\u202e"), "{said}");
    assert!(!said.contains(['\u{202e}', '\u{9b}', '\u{7f}']), "{said:?}");
}
