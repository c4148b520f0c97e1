//! `POST /mcp`: the tools, as a client calls them over HTTP.

use serde_json::{Value, json};

use crate::ground::{Answer, Ground};

const ACCEPT: &str = "application/json, text/event-stream";

/// One JSON-RPC request of the generation that shakes hands.
fn rpc(ground: &Ground, token: &str, method: &str, params: &Value) -> Answer {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let asking = ground
        .ask("POST", "/mcp")
        .token(token)
        .header("Accept", ACCEPT);
    asking
        .header("MCP-Protocol-Version", "2025-06-18")
        .json(&body)
        .send()
}

/// What a tool answers, and whether that is an error.
fn tool(ground: &Ground, token: &str, name: &str, arguments: &Value) -> (bool, Value) {
    let params = json!({"name": name, "arguments": arguments});
    let answer = rpc(ground, token, "tools/call", &params).ok();
    let result = &answer["result"];
    assert!(result["content"][0]["text"].is_string(), "{answer}");
    (
        result["isError"] == true,
        result["structuredContent"].clone(),
    )
}

fn call(ground: &Ground, name: &str, arguments: &Value) -> (bool, Value) {
    tool(ground, &ground.token, name, arguments)
}

#[test]
fn a_task_goes_from_start_to_end_with_its_fence() {
    let ground = Ground::new();
    let (_, started) = call(
        &ground,
        "task_start",
        &json!({"task": "t", "agent": "writer"}),
    );
    assert_eq!(
        (&started["fence"], &started["resumed"]),
        (&json!(1), &json!(false))
    );
    let with = |more: Value| {
        let mut all = json!({"task": "t", "fence": 1});
        all.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        all
    };
    let (_, begun) = call(&ground, "step_begin", &with(json!({"step": "send"})));
    assert_eq!(begun["advice"], "go");
    let end = with(json!({"step": "send", "output": "sent", "cost": "0.25"}));
    assert_eq!(call(&ground, "step_end", &end).1["outcome"], "done");
    assert!(
        !call(&ground, "step_end", &end).0,
        "said twice, it counts once"
    );
    let (_, again) = call(&ground, "step_begin", &with(json!({"step": "send"})));
    assert_eq!(
        (&again["advice"], &again["output"]),
        (&json!("finished"), &json!("sent"))
    );
    assert_eq!(
        call(&ground, "task_done", &with(json!({}))).1["status"],
        "completed"
    );
    let task = ground.get("/api/tasks/t").ok();
    assert_eq!(
        (&task["status"], &task["cost"]),
        (&json!("completed"), &json!("0.25"))
    );
}

#[test]
fn refusals_are_results_that_say_what_to_do() {
    let ground = Ground::new();
    call(&ground, "task_start", &json!({"task": "t", "agent": "a"}));
    let code = |name: &str, arguments: Value| {
        let (is_error, data) = call(&ground, name, &arguments);
        assert!(
            is_error && data["error"]["message"].is_string(),
            "{name} {data}"
        );
        assert!(
            data["error"]["exit"].is_u64() && data["error"]["status"].is_u64(),
            "{data}"
        );
        data["error"]["code"].as_str().unwrap().to_owned()
    };
    assert_eq!(
        code("task_start", json!({"task": "t", "agent": "a"})),
        "held"
    );
    assert_eq!(
        code("task_start", json!({"task": "t", "agent": "b"})),
        "conflict"
    );
    assert_eq!(code("task_done", json!({"task": "t"})), "not_held");
    assert_eq!(
        code("task_done", json!({"task": "t", "fence": 9})),
        "fenced"
    );
    assert_eq!(
        code("task_done", json!({"task": "nobody", "fence": 1})),
        "not_found"
    );
    assert_eq!(code("task_start", json!({"task": "../x"})), "invalid");
    assert_eq!(
        code("task_start", json!({"task": "u", "lease": "0s"})),
        "invalid"
    );
    assert_eq!(code("task_start", json!({"tusk": "t"})), "invalid");
    assert_eq!(
        code(
            "step_begin",
            json!({"task": "t", "fence": 1, "step": "s", "rule": "x"})
        ),
        "invalid"
    );
    assert_eq!(
        code("step_end", json!({"task": "t", "fence": 1, "step": "s"})),
        "conflict"
    );
    assert_eq!(code("heartbeat", json!({"agent": "nobody"})), "not_found");
    assert_eq!(code("checkpoint_resume", json!({})), "nothing");
    assert_eq!(
        code("checkpoint_save", json!({"workflow": "w", "step": "s"})),
        "invalid"
    );
    let unknown = rpc(
        &ground,
        &ground.token,
        "tools/call",
        &json!({"name": "rm", "arguments": {}}),
    );
    assert_eq!(unknown.ok()["error"]["code"], -32602);
}

/// As it is over the API.
#[test]
fn starting_a_task_is_a_report_of_an_agent_that_reports_by_itself() {
    let ground = Ground::new();
    let bot = json!({"name": "bot", "silence_max": "10m"});
    assert_eq!(ground.post("/api/agents", &bot).status, 201);
    assert_eq!(ground.get("/api/agents/bot").ok()["state"], "created");
    let (is_error, started) = call(&ground, "task_start", &json!({"task": "t", "agent": "bot"}));
    assert!(!is_error, "{started}");
    let shown = ground.get("/api/agents/bot").ok();
    assert_eq!(
        (&shown["state"], &shown["task"]),
        (&json!("running"), &json!("t"))
    );
}

#[test]
fn a_token_that_reads_sees_and_uses_the_tools_that_read() {
    let ground = Ground::new();
    let reads = relight_server::Scope::Read;
    let (_, token) = relight_server::tokens::new(ground.home.path(), None, reads).unwrap();
    let listed = rpc(&ground, &token, "tools/list", &json!({})).ok();
    let names: Vec<&str> = listed["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["resume_brief", "inflight"]);
    assert!(!tool(&ground, &token, "inflight", &json!({})).0);
    let (is_error, refused) = tool(&ground, &token, "task_start", &json!({"task": "t"}));
    assert!(
        is_error && refused["error"]["code"] == "forbidden",
        "{refused}"
    );
    assert_eq!(ground.get("/api/tasks/t").status, 404);
}

#[test]
fn the_door_is_the_same_as_everywhere() {
    let ground = Ground::new();
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let ask = || ground.ask("POST", "/mcp").header("Accept", ACCEPT);
    assert_eq!(ask().json(&body).send().status, 401);
    assert_eq!(ask().token("wrong").json(&body).send().status, 401);
    let ours = || ask().token(&ground.token);
    assert_eq!(ours().json(&body).send().status, 200);
    assert_eq!(
        ours()
            .header("Origin", "http://evil.example")
            .json(&body)
            .send()
            .status,
        403
    );
    assert_eq!(
        ours()
            .instead("Host", "evil.example")
            .json(&body)
            .send()
            .status,
        403
    );
    assert_eq!(
        ours()
            .header("Content-Type", "text/plain")
            .body(b"{}")
            .send()
            .status,
        415
    );
    assert_eq!(
        ours().json(&json!({"no": "message"})).send().code(),
        "bad_request"
    );
    assert_eq!(
        ours()
            .header("Relight-Agent", "-x")
            .json(&body)
            .send()
            .code(),
        "invalid"
    );
    let deaf = ground
        .ask("POST", "/mcp")
        .token(&ground.token)
        .json(&body)
        .send();
    assert_eq!(
        (deaf.status, deaf.code()),
        (406, "not_acceptable".to_owned())
    );
    for method in ["GET", "DELETE"] {
        let answer = ground
            .ask(method, "/mcp")
            .token(&ground.token)
            .header("Accept", ACCEPT)
            .send();
        assert_eq!(
            (answer.status, answer.header("allow")),
            (405, Some("POST")),
            "{answer:?}"
        );
    }
    let over_socket = ground
        .ask("POST", "/mcp")
        .over_socket()
        .header("Accept", ACCEPT);
    assert_eq!(over_socket.json(&body).send().status, 200);
}

#[test]
fn the_newest_generation_needs_no_handshake() {
    let ground = Ground::new();
    let version = "2026-07-28";
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let ask = |method: &str, name: Option<&str>, params: Value| {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let mut asking = ground
            .ask("POST", "/mcp")
            .token(&ground.token)
            .header("Accept", ACCEPT);
        asking = asking
            .header("MCP-Protocol-Version", version)
            .header("Mcp-Method", method);
        if let Some(name) = name {
            asking = asking.header("Mcp-Name", name);
        }
        asking.json(&body).send().ok()["result"].clone()
    };
    let found = ask("server/discover", None, json!({"_meta": meta}));
    assert!(
        found["supportedVersions"]
            .as_array()
            .unwrap()
            .contains(&json!(version)),
        "{found}"
    );
    let arguments = json!({"task": "t"});
    let params = json!({"name": "task_start", "arguments": arguments, "_meta": meta});
    let started = ask("tools/call", Some("task_start"), params);
    assert_eq!(started["structuredContent"]["fence"], 1);
    let uri = "relight://brief/t";
    let brief = ask(
        "resources/read",
        Some(uri),
        json!({"uri": uri, "_meta": meta}),
    );
    let text = brief["contents"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("# Brief for task t\n"), "{text}");
}

#[test]
fn a_workflow_and_its_agent_may_have_any_name() {
    let ground = Ground::new();
    for name in [
        "Déploiement du soir",
        "!room:server.org +1",
        &"é".repeat(256),
    ] {
        let save = json!({"workflow": name, "step": "s", "agent": name});
        let (is_error, saved) = call(&ground, "checkpoint_save", &save);
        assert!(!is_error && saved["workflow"] == name, "{saved}");
        let (is_error, resumed) = call(
            &ground,
            "checkpoint_resume",
            &json!({"workflow": name, "agent": name}),
        );
        assert!(!is_error && resumed["task"] == name, "{resumed}");
    }
    let path = json!({"workflow": "../x", "step": "s", "agent": "a"});
    assert_eq!(
        call(&ground, "checkpoint_save", &path).1["error"]["code"],
        "invalid"
    );
}

#[test]
fn no_secret_is_told_and_no_path_comes_in() {
    let ground = Ground::new();
    let secret = "ghp_0123456789abcdefghijklmnopqrstuvwxyzAB";
    let save =
        json!({"workflow": "w", "step": "s", "agent": "a", "notes": format!("key {secret}")});
    let (is_error, saved) = call(&ground, "checkpoint_save", &save);
    assert!(!is_error, "{saved}");
    let (_, resumed) = call(&ground, "checkpoint_resume", &json!({"workflow": "w"}));
    let notes = resumed["notes"].as_str().unwrap();
    assert!(
        notes.starts_with("key ") && !notes.contains(secret),
        "{notes}"
    );
    assert!(ground.home.path().join("checkpoints/w.json").is_file());
    let fence = resumed["fence"].as_u64().unwrap();
    let again = json!({"workflow": "w", "fence": fence});
    assert_eq!(
        call(&ground, "checkpoint_resume", &again).1["fence"],
        fence,
        "it is continued"
    );
    assert_eq!(
        call(&ground, "checkpoint_resume", &json!({"workflow": "w"})).1["error"]["code"],
        "held"
    );
    let done = json!({"workflow": "w", "complete": ["s"], "status": "done", "fence": fence});
    assert_eq!(call(&ground, "checkpoint_save", &done).1["status"], "done");
    assert_eq!(
        call(&ground, "checkpoint_save", &save).1["outcome"],
        "completed"
    );
    let elsewhere = json!({"workflow": "v", "step": "s", "agent": "a", "dir": "/tmp"});
    assert_eq!(
        call(&ground, "checkpoint_save", &elsewhere).1["error"]["code"],
        "invalid"
    );
}

#[test]
fn a_task_is_done_when_its_declared_steps_are_closed() {
    let ground = Ground::new();
    call(
        &ground,
        "task_start",
        &json!({"task": "t", "agent": "a", "steps": ["build", "push"]}),
    );
    let (is_error, refused) = call(&ground, "task_done", &json!({"task": "t", "fence": 1}));
    assert!(is_error, "{refused}");
    assert_eq!(refused["error"]["code"], "steps_left_open");
    assert!(
        refused["error"]["hint"]
            .as_str()
            .unwrap()
            .contains("step_skip"),
        "{refused}"
    );
    for step in ["build", "push"] {
        let skip = json!({"task": "t", "fence": 1, "step": step, "reason": "not needed"});
        assert_eq!(call(&ground, "step_skip", &skip).1["outcome"], "skipped");
    }
    let (_, done) = call(&ground, "task_done", &json!({"task": "t", "fence": 1}));
    assert_eq!(done["status"], "completed");
}

#[test]
fn a_workflow_that_leaves_steps_open_says_so() {
    let ground = Ground::new();
    let save = |more: Value| {
        let mut all = json!({"workflow": "w", "agent": "a", "step": "one"});
        all.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        call(&ground, "checkpoint_save", &all).1
    };
    save(json!({"remaining": ["two"]}));
    let done = call(
        &ground,
        "checkpoint_save",
        &json!({"workflow": "w", "status": "done"}),
    )
    .1;
    assert_eq!(
        (&done["outcome"], &done["left_open"]),
        (&json!("done"), &json!(["two"]))
    );
}

#[test]
fn an_agent_does_not_start_what_waits_for_a_person() {
    let ground = Ground::new();
    call(&ground, "task_start", &json!({"task": "t", "agent": "a"}));
    call(
        &ground,
        "task_block",
        &json!({"task": "t", "fence": 1, "reason": "a key is missing"}),
    );
    let (is_error, refused) = call(&ground, "task_start", &json!({"task": "t", "agent": "a"}));
    assert!(is_error, "{refused}");
    assert_eq!(refused["error"]["code"], "waits_for_person");
}

#[test]
fn a_task_of_another_agent_is_refused_until_it_is_handed_over() {
    let ground = Ground::new();
    ground.post("/api/tasks", &json!({"id": "t", "agent": "a"}));
    let start = |agent: &str| call(&ground, "task_start", &json!({"task": "t", "agent": agent}));
    let (is_error, refused) = start("b");
    assert!(
        is_error && refused["error"]["code"] == "conflict",
        "{refused}"
    );
    assert_eq!(
        refused["error"]["message"],
        "task t belongs to agent a, not to b"
    );
    let by_http = ground.post("/api/tasks/t/start", &json!({"agent": "b"}));
    assert_eq!((by_http.status, by_http.code().as_str()), (409, "conflict"));
    ground
        .post("/api/tasks/t/retry", &json!({"agent": "b"}))
        .ok();
    assert!(!start("b").0);
    assert!(
        !call(
            &ground,
            "task_start",
            &json!({"task": "nobodys", "agent": "b"})
        )
        .0
    );
    ground.post("/api/tasks", &json!({"id": "u"}));
    assert!(!call(&ground, "task_start", &json!({"task": "u", "agent": "b"})).0);
    for task in ["t", "nobodys", "u"] {
        let shown = ground.get(&format!("/api/tasks/{task}")).ok();
        assert_eq!(
            (&shown["agent"], &shown["pinned"]),
            (&json!("b"), &json!(true)),
            "{task}"
        );
    }
}

#[test]
fn a_workflow_of_another_agent_is_not_resumed() {
    let ground = Ground::new();
    let save = json!({"workflow": "w", "agent": "ops", "step": "one"});
    assert!(!call(&ground, "checkpoint_save", &save).0);
    let (is_error, refused) = call(
        &ground,
        "checkpoint_resume",
        &json!({"workflow": "w", "agent": "other"}),
    );
    assert!(
        is_error && refused["error"]["code"] == "conflict",
        "{refused}"
    );
    assert!(
        !call(
            &ground,
            "checkpoint_resume",
            &json!({"workflow": "w", "agent": "ops"})
        )
        .0
    );
}
