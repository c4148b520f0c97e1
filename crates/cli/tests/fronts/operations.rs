//! Operations that have no route and no tool of their own: records, marks of other gateways, and
//! `POST /api/operations/{name}` over the network.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use crate::front::{Answer, Front};
use crate::ground::Ground;

/// What every front answers to each call of a story; those that do not serve it are left out.
fn same_answers(fronts: Vec<Front>, story: &[(&str, Value)]) -> Vec<Answer> {
    let mut told: Vec<(&str, Vec<Answer>)> = Vec::new();
    for mut front in fronts {
        let answers = story.iter().map(|(operation, fields)| {
            let answer = front.call(operation, fields);
            answer.unwrap_or_else(|| panic!("{} serves {operation}", front.name()))
        });
        let mut answers: Vec<Answer> = answers.collect();
        // The command line names its flag there.
        let refused = answers
            .iter_mut()
            .filter_map(|answer| answer.as_mut().err());
        for error in refused.filter(|error| error["hint"].as_str().is_some_and(names_owner)) {
            error["hint"] = Value::Null;
        }
        told.push((front.name(), answers));
    }
    for pair in told.windows(2) {
        assert_eq!(pair[0].1, pair[1].1, "{} and {}", pair[0].0, pair[1].0);
    }
    told.swap_remove(0).1
}

fn names_owner(hint: &str) -> bool {
    hint.contains("owner_pid") || hint.contains("--owner-pid")
}

#[test]
fn records_are_kept_compared_listed_and_removed() {
    let put = |value: Value, more: Value| {
        let mut fields = json!({"record": "a/1", "value": value});
        let more = more.as_object().unwrap().clone();
        fields.as_object_mut().unwrap().extend(more);
        ("record.put", fields)
    };
    let token = concat!("ghp", "_aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY2zA4");
    let answers = same_answers(
        Front::of_the_table(),
        &[
            put(json!({"n": 1}), json!({"new": true})),
            put(json!({"n": 2}), json!({"new": true})),
            put(json!({"n": 2}), json!({"expected": {"n": 1}})),
            ("record.get", json!({"record": "a/1"})),
            ("record.put", json!({"record": "a/2", "value": [true]})),
            ("record.list", json!({"under": "a/", "limit": 1})),
            ("record.remove", json!({"under": "a/"})),
            ("record.get", json!({"record": "a/1"})),
            ("record.put", json!({"record": "", "value": 1})),
            ("record.remove", json!({})),
            ("record.put", json!({"record": token, "value": 1})),
            ("record.put", json!({"record": "s", "value": token})),
            (
                "record.put",
                json!({"record": "s", "value": 2, "expected": token}),
            ),
        ],
    );
    // What was replaced by a mark is compared as it was written.
    assert_eq!(answers[12].as_ref().unwrap()["written"], true);
    let ok = |call: usize| answers[call].as_ref().unwrap();
    assert_eq!(ok(0)["written"], true);
    assert_eq!(ok(1)["written"], false);
    assert_eq!(ok(3)["value"], json!({"n": 2}));
    assert_eq!(
        (&ok(5)["items"][0]["record"], &ok(5)["next"]),
        (&json!("a/1"), &json!("a/1"))
    );
    assert_eq!(ok(6)["removed"], 2);
    assert_eq!(ok(7)["value"], Value::Null);
    for call in [8, 9, 10] {
        assert_eq!(answers[call].as_ref().unwrap_err()["code"], "invalid");
    }
}

#[test]
fn marks_of_another_gateway_are_imported_and_exported() {
    let mut fronts = Front::of_the_table();
    fronts.push(Front::Cli(Ground::new()));
    let marks = json!({"theirs": {"session_id": "x", "started_at": 1_777_636_800.5, "generation": 4},
        "bad": 7});
    let answers = same_answers(
        fronts,
        &[
            ("session.import", json!({"marks": marks})),
            (
                "session.import",
                json!({"marks": {"theirs": marks["theirs"]}}),
            ),
            ("session.export", json!({})),
            ("session.import", json!({"marks": [1]})),
            (
                "session.import",
                json!({"marks": {}, "owner_pid": u32::MAX}),
            ),
        ],
    );
    let first = answers[0].as_ref().unwrap();
    assert_eq!(
        (&first["imported"], &first["damaged"][0]["key"]),
        (&json!(["theirs"]), &json!("bad"))
    );
    assert_eq!(answers[1].as_ref().unwrap()["same"], json!(["theirs"]));
    assert_eq!(answers[2].as_ref().unwrap()["theirs"], marks["theirs"]);
    let damaged = answers[3].as_ref().unwrap_err();
    assert_eq!(
        (&damaged["code"], &damaged["exit"]),
        (&json!("damaged"), &json!(65)),
        "{damaged}"
    );
    let nobody = answers[4].as_ref().unwrap_err();
    assert_eq!(nobody["code"], "invalid", "{nobody}");
}

/// What a program's hooks observe, by the command that they run or by the operation.
fn observe(front: &mut Front, event: &str, mut payload: Value, rules: &Value) {
    payload["session_id"] = json!("s1");
    payload["cwd"] = json!(front.ground().work(""));
    if let Front::Cli(ground) = front {
        let mut command = ground.stage.command(&["hook", event, "--for", "claude"]);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(payload.to_string().as_bytes()).unwrap();
        drop(input);
        let ran = crate::relight::finish(child);
        assert_eq!((ran.code, &*ran.stdout), (0, ""), "{event}: {ran:?}");
        return;
    }
    let fields = json!({"event": event, "program": "claude", "payload": payload, "rules": rules});
    let observed = front.call("hook.observe", &fields).unwrap();
    let observed = observed.unwrap_or_else(|error| panic!("{} {event}: {error}", front.name()));
    assert_eq!(observed["context"], Value::Null);
}

#[test]
fn hooks_of_a_program_record_the_same_from_outside_and_from_inside() {
    let rules = json!({"ignored": ["Grep"], "once": ["Read"]});
    let mut fronts = Front::of_the_table();
    fronts.insert(0, Front::Cli(Ground::new()));
    let mut journals = Vec::new();
    for mut front in fronts {
        let ground = front.ground();
        ground.config("[hooks]\nignored = [\"Grep\"]\nonce = [\"Read\"]\n");
        assert_eq!(ground.call(&["trust"]).code, 0);
        let call = |tool: &str| json!({"tool_name": tool, "tool_use_id": tool, "tool_input": {}});
        for (event, payload) in [
            ("session-start", json!({"source": "startup"})),
            ("prompt", json!({"prompt": "tidy up"})),
            ("before-tool", call("Read")),
            ("after-tool", call("Read")),
            ("before-tool", call("Grep")),
            ("after-tool", call("Grep")),
            ("before-tool", call("Glob")),
            ("after-tool", call("Glob")),
            ("session-start", json!({"source": "compact"})),
            ("stop", json!({})),
        ] {
            observe(&mut front, event, payload, &rules);
        }
        let folder = front.ground().work("").display().to_string();
        let journal = front.journal().into_iter();
        let journal = journal.map(|line| line.replace(folder.trim_end_matches('/'), "work"));
        journals.push((front.name(), journal.collect::<Vec<_>>()));
    }
    for pair in journals.windows(2) {
        assert_eq!(pair[0].1, pair[1].1, "{} and {}", pair[0].0, pair[1].0);
    }
    let is_step = |line: &&String| line.starts_with("step.");
    let steps: Vec<&String> = journals[0].1.iter().filter(is_step).collect();
    assert_eq!(steps.len(), 3, "{steps:#?}");
}

/// A request over TCP, with the headers between.
fn over_tcp(ground: &Ground, token: &str, name: &str, body: &Value, headers: &str) -> (u16, Value) {
    let link = ground.json(&["dashboard", "--print"])["url"].clone();
    let address = link.as_str().unwrap().strip_prefix("http://").unwrap();
    let address = address.split('/').next().unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let patience = Some(Duration::from_secs(120));
    stream.set_read_timeout(patience).unwrap();
    let body = body.to_string();
    let request = format!(
        "POST /api/operations/{name} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
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
fn a_token_reads_and_writes_no_file_that_it_names() {
    let front = Front::by_name();
    let ground = front.ground();
    let token = ground.call(&["token", "show"]).stdout.trim().to_owned();
    let post = |name: &str, body: Value| over_tcp(ground, &token, name, &body, "");
    let start = json!({"workflow": "w", "agent": "ops", "step": "one", "idempotency": "k"});
    let elsewhere = ground.work("elsewhere");
    for (name, field, value) in [
        ("checkpoint.start", "dir", json!(elsewhere)),
        ("checkpoint.import", "file", json!("/etc/passwd")),
        ("checkpoint.verify", "files", json!(["/etc/passwd"])),
    ] {
        let mut body = if name == "checkpoint.start" {
            start.clone()
        } else {
            json!({})
        };
        body[field] = value;
        let (status, told) = post(name, body);
        assert_eq!(status, 422, "{name}: {told}");
        let message = format!("{field} is only for callers of the Unix socket");
        assert_eq!(told["error"]["message"], message);
    }
    assert!(!elsewhere.exists());
    let observed = json!({"event": "stop", "program": "claude", "payload": {"session_id": "s"}});
    assert_eq!(post("hook.observe", observed).0, 422);
    let mine = json!({"marks": {}, "owner_pid": std::process::id()});
    assert_eq!(post("session.import", mine).0, 422);
    let (status, started) = post("checkpoint.start", start);
    assert_eq!(
        (status, &started["file"]),
        (200, &json!("w.json")),
        "{started}"
    );
    assert!(ground.home("checkpoints/w.json").exists());
    let listed = post("checkpoint.list", json!({})).1.to_string();
    let home = ground.home("").display().to_string();
    assert!(!listed.contains(home.trim_end_matches('/')), "{listed}");
    let (_, resumed) = post("checkpoint.resume", json!({"workflow": "w"}));
    assert_eq!(resumed["fence"], 1, "{resumed}");
    // Nobody sees the life of a caller over the network.
    let held = &ground.json(&["task", "show", "w"])["holder"];
    assert!(held["left_ms"].is_u64(), "{held}");
}

/// Each front has the same rule: `--dir`, `dir`.
#[test]
fn a_folder_or_a_file_that_is_not_there_is_the_same_mistake_by_every_front() {
    for mut front in Front::with_files() {
        // They take no paths.
        if front.is_for_models() {
            continue;
        }
        let name = front.name();
        let start = json!({"workflow": "w", "agent": "ops", "step": "one", "idempotency": "k"});
        let missing = front.ground().work("typo/a/b");
        for (operation, fields) in [
            ("checkpoint.start", &start),
            ("checkpoint.list", &json!({})),
        ] {
            let mut fields = fields.clone();
            fields["dir"] = json!(missing);
            let refused = front.call(operation, &fields).unwrap().unwrap_err();
            let parent = missing.parent().unwrap().display();
            let message = format!("there is no folder {parent} for checkpoint files");
            let told = (&refused["code"], &refused["message"]);
            let expected = (&json!("invalid"), &json!(message));
            assert_eq!(told, expected, "{name} {operation}");
        }
        assert!(!front.ground().work("typo").exists(), "{name}");
        let file = front.ground().work("typo.json");
        let given = json!({"file": file});
        let refused = front.call("checkpoint.import", &given).unwrap();
        let refused = refused.unwrap_err();
        let message = format!("there is no file {}; nothing was imported", file.display());
        let told = (&refused["code"], &refused["message"]);
        let expected = (&json!("not_found"), &json!(message));
        assert_eq!(told, expected, "{name}");
    }
}

#[test]
fn events_and_agents_asked_for_by_name_come_in_pages() {
    let story = [
        ("task.add", json!({"id": "t"})),
        ("task.add", json!({"id": "u"})),
        ("task.add", json!({"id": "v"})),
        ("events", json!({"limit": 2})),
        ("events", json!({"limit": 2, "after": 2})),
        ("events", json!({"limit": 1, "newest": true})),
        ("events", json!({"limit": 1, "before": 3})),
        ("events", json!({"limit": 0})),
        ("agent.list", json!({"limit": 0})),
        ("session.list", json!({"limit": 1_001})),
        ("task.list", json!({"limit": "x"})),
        ("task.start", json!({"task": "t", "colour": 1})),
        ("task.add", json!({"id": "w", "colour": 1})),
    ];
    for mut front in Front::of_the_table() {
        let name = front.name();
        let answers: Vec<Answer> = story
            .iter()
            .map(|(operation, fields)| front.call(operation, fields).unwrap())
            .collect();
        let page = |call: usize| {
            let answer = answers[call].as_ref().unwrap();
            let ids = answer["items"].as_array().unwrap().iter();
            let ids: Vec<u64> = ids.map(|event| event["id"].as_u64().unwrap()).collect();
            (ids, answer["next"].clone())
        };
        assert_eq!(page(3), (vec![1, 2], json!("2")), "{name}");
        assert_eq!(page(4), (vec![3], Value::Null), "{name}");
        assert_eq!(page(5), (vec![3], json!("3")), "{name}");
        assert_eq!(page(6), (vec![2], json!("2")), "{name}");
        for (call, message) in [
            (7, "limit is 0; write 1 to 1000"),
            (8, "limit is 0; write 1 to 1000"),
            (9, "limit is 1001; write 1 to 1000"),
            (
                10,
                "limit: invalid type: string \"x\", expected a whole number from 1 to 1000",
            ),
        ] {
            let refused = answers[call].as_ref().unwrap_err();
            assert_eq!(refused["message"], message, "{name}");
        }
        for (call, known) in [(11, "fence, force, "), (12, "id, ")] {
            let error = answers[call].as_ref().unwrap_err();
            assert_eq!(error["message"], "unknown field \"colour\"", "{name}");
            assert!(
                error["hint"].as_str().unwrap().contains(known),
                "{name} {error}"
            );
        }
    }
}

/// The file stays where a local caller put it.
#[test]
fn a_workflow_with_a_folder_of_its_own_is_updated_over_the_network() {
    let mut front = Front::by_name();
    // A front names it in each call.
    let elsewhere = front.ground().work("memory/checkpoints");
    let start = json!({"workflow": "w", "agent": "ops", "step": "one", "idempotency": "k"});
    let started = front.call("checkpoint.start", &start).unwrap().unwrap();
    assert_eq!(started["outcome"], "started", "{started}");
    let ground = front.ground();
    let token = ground.call(&["token", "show"]).stdout.trim().to_owned();
    let update = json!({"workflow": "w", "complete": ["one"], "step": "two"});
    let (status, updated) = over_tcp(ground, &token, "checkpoint.update", &update, "");
    let told = (status, &updated["file"], &updated["step"]);
    assert_eq!(told, (200, &json!("w.json"), &json!("two")), "{updated}");
    let file = std::fs::read_to_string(elsewhere.join("w.json")).unwrap();
    assert!(file.contains("two"), "{file}");
    // A folder that is gone is not told of, either.
    std::fs::remove_dir_all(&elsewhere).unwrap();
    std::fs::write(&elsewhere, "no folder").unwrap();
    let update = json!({"workflow": "w", "notes": "n"});
    let (status, updated) = over_tcp(ground, &token, "checkpoint.update", &update, "");
    let told = (status, &updated["file_error"]);
    let unwritten = json!("the checkpoint file could not be written");
    assert_eq!(told, (200, &unwritten), "{updated}");
    assert!(!updated.to_string().contains("memory"), "{updated}");
}

#[test]
fn a_token_that_may_only_read_calls_only_operations_that_read() {
    let front = Front::by_name();
    let ground = front.ground();
    let made = ground.json(&["token", "new", "--read-only", "--name", "grafana"]);
    let token = made["token"].as_str().unwrap();
    let post = |name: &str, body: Value| over_tcp(ground, token, name, &body, "").0;
    assert_eq!(post("record.get", json!({"record": "r"})), 200);
    assert_eq!(post("task.states", json!({})), 200);
    assert_eq!(post("inflight", json!({})), 200);
    for (name, body) in [
        ("record.put", json!({"record": "r", "value": 1})),
        ("checkpoint.complete", json!({"workflow": "w"})),
        ("recover", json!({"dry_run": true})),
        ("nosuch", json!({})),
    ] {
        assert_eq!(post(name, body), 403, "{name}");
    }
}

#[test]
fn an_operation_with_an_idempotency_key_is_done_once() {
    let front = Front::by_name();
    let ground = front.ground();
    let token = ground.call(&["token", "show"]).stdout.trim().to_owned();
    let put = json!({"record": "r", "value": 1, "new": true});
    let key = "Idempotency-Key: once\r\n";
    for _ in 0..2 {
        let (status, told) = over_tcp(ground, &token, "record.put", &put, key);
        assert_eq!((status, &told["written"]), (200, &json!(true)), "{told}");
    }
    let (_, again) = over_tcp(ground, &token, "record.put", &put, "");
    assert_eq!(again["written"], false, "{again}");
    let (status, unknown) = over_tcp(ground, &token, "record.putt", &put, "");
    assert_eq!(status, 404, "{unknown}");
    assert_eq!(unknown["error"]["hint"], "did you mean record.put?");
}

/// As on the command line and over HTTP: one name, and one word or many.
#[test]
fn filters_take_one_word_or_many() {
    for mut front in Front::of_the_table() {
        let name = front.name();
        for (operation, fields) in [
            ("task.add", json!({"task": "waits"})),
            ("task.start", json!({"task": "runs"})),
            (
                "session.begin",
                json!({"session": "s", "id": "i", "lease": "10m"}),
            ),
        ] {
            front.call(operation, &fields).unwrap().unwrap();
        }
        let mut count = |operation: &str, fields: Value| {
            let answer = front.call(operation, &fields).unwrap();
            let answer = answer.unwrap_or_else(|error| panic!("{name} {operation}: {error}"));
            answer["items"].as_array().unwrap().len()
        };
        assert_eq!(count("task.list", json!({"status": "in_progress"})), 1);
        assert_eq!(count("task.list", json!({"status": ["in_progress"]})), 1);
        assert_eq!(
            count("task.list", json!({"status": ["in_progress", "created"]})),
            2
        );
        assert_eq!(
            count("task.list", json!({"status": "in_progress,created"})),
            2
        );
        assert_eq!(count("session.list", json!({"state": "idle"})), 0);
        assert_eq!(
            count("session.list", json!({"state": ["idle", "active"]})),
            1
        );
        assert_eq!(count("session.list", json!({"state": "idle,active"})), 1);
        assert_eq!(count("events", json!({"kind": "task.created"})), 2);
        assert_eq!(count("events", json!({"kind": ["task.created"]})), 2);
        assert_eq!(count("agent.list", json!({"state": "running,stopped"})), 0);
        assert_eq!(count("agent.list", json!({"state": ["running"]})), 0);
        for (operation, fields, message) in [
            (
                "events",
                json!({"kind": "nope"}),
                "\"nope\" is no kind of event; known are ",
            ),
            (
                "agent.list",
                json!({"state": "nope"}),
                "\"nope\" is not a state of an agent; ",
            ),
            (
                "session.list",
                json!({"state": ["nope"]}),
                "\"nope\" is not a state of a session; ",
            ),
            (
                "task.list",
                json!({"status": ["nope"]}),
                "\"nope\" is not a status; known are ",
            ),
        ] {
            let error = front.call(operation, &fields).unwrap().unwrap_err();
            let told = error["message"].as_str().unwrap();
            assert!(told.starts_with(message), "{name} {operation}: {told}");
        }
    }
}

#[test]
fn a_record_has_a_value_and_a_list_has_an_end() {
    for mut front in Front::of_the_table() {
        let name = front.name();
        for (operation, fields, message) in [
            (
                "record.put",
                json!({"record": "r", "value": null}),
                "value: null is no value of a record; record.remove removes one",
            ),
            (
                "record.list",
                json!({"limit": 0}),
                "limit is 0; write 1 to 1000",
            ),
            (
                "record.list",
                json!({"limit": 1001}),
                "limit is 1001; write 1 to 1000",
            ),
        ] {
            let error = front.call(operation, &fields).unwrap().unwrap_err();
            assert_eq!(error["message"], message, "{name}");
        }
    }
}
