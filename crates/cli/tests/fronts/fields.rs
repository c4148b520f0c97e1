//! What a field of a request may hold is the same through every front.

use serde_json::{Value, json};

use crate::client::{Client, Speaks};
use crate::front::{Answer, Front, send};
use crate::ground::Ground;
use crate::refusals::refused;

fn start(task: &str) -> (&'static str, Value) {
    ("task.start", json!({"task": task, "steps": ["a"]}))
}

#[test]
fn a_filter_that_is_empty() {
    refused(&[("task.list", json!({"status": ""}))], "invalid");
    refused(&[("session.list", json!({"state": ""}))], "invalid");
    for mut front in Front::of_the_table() {
        for (operation, field) in [("agent.list", "state"), ("events", "kind")] {
            let error = front.call(operation, &json!({field: ""})).unwrap();
            let error = error.expect_err("nobody means everything by nothing");
            assert_eq!(error["code"], "invalid", "{} {error}", front.name());
        }
    }
    let front = Front::by_name();
    for query in ["agents?state=", "events?kind="] {
        let (status, answer) = send(front.ground(), "GET", &format!("/api/{query}"), "");
        assert_eq!(status, 422, "{query} {answer}");
    }
}

#[test]
fn a_number_that_is_out_of_range_is_told_by_its_field_and_its_range() {
    let most = i64::MAX;
    let too_many = most as u64 + 1;
    let cases = [
        (
            "task.add",
            "max_retries",
            json!(1_u64 << 32),
            0,
            4_294_967_295,
        ),
        (
            "task.add",
            "priority",
            json!(1_u64 << 31),
            i32::MIN,
            i32::MAX.into(),
        ),
        (
            "step.begin",
            "occurrence",
            json!(1_u64 << 32),
            1,
            4_294_967_295,
        ),
        (
            "session.begin",
            "owner_pid",
            json!(1_u64 << 32),
            0,
            4_294_967_295,
        ),
        ("step.end", "exit_code", json!(256), 0, 255),
        ("step.end", "turns", json!(too_many), 0, most),
        ("task.list", "limit", json!(-1), 1, 1_000),
        ("session.list", "limit", json!(0), 1, 1_000),
        ("events", "after", json!(too_many), 0, most),
        ("events", "before", json!(too_many), 0, most),
    ];
    for mut front in Front::all().into_iter().chain([Front::by_name()]) {
        for (operation, field, value, least, most) in &cases {
            let mut fields = match *operation {
                "task.add" => json!({"task": "t"}),
                "step.begin" | "step.end" => json!({"task": "t", "step": "s", "fence": 1}),
                "session.begin" => json!({"session": "s", "id": "s"}),
                _ => json!({}),
            };
            fields[field] = value.clone();
            // The command line has no such flag, or prints one event in a line.
            let is_not_there = *field == "exit_code" || *operation == "events";
            let is_of_cli = front.name() == "cli" && (is_not_there || *value == -1);
            if is_of_cli
                || front.name() == "library"
                || (front.is_for_models() && *field == "exit_code")
            {
                continue;
            }
            let Some(answer) = front.call(operation, &fields) else {
                continue;
            };
            let error = answer.expect_err("it is out of range");
            let range = format!("write {least} to {most}");
            let told = error["message"].as_str().unwrap();
            if front.name() == "cli" {
                assert!(told.ends_with(&range), "{operation} {error}");
            } else {
                let wanted = format!("{field} is {value}; {range}");
                assert_eq!(told, wanted, "{} {operation}", front.name());
            }
        }
    }
}

#[test]
fn a_number_of_a_query_is_told_by_its_field_and_its_range() {
    let front = Front::by_name();
    let most = i64::MAX;
    for (path, told) in [
        ("tasks?limit=-1", "limit is -1; write 1 to 1000".to_owned()),
        ("tasks?limit=0", "limit is 0; write 1 to 1000".to_owned()),
        ("tasks?limit=x", "limit is x; write 1 to 1000".to_owned()),
        (
            "tasks/t/steps/s?occurrence=0",
            "occurrence is 0; write 1 to 4294967295".to_owned(),
        ),
        (
            "events?after=9223372036854775808",
            format!("after is 9223372036854775808; write 0 to {most}"),
        ),
        ("stats?hours=169", "hours is 169; write 1 to 168".to_owned()),
        (
            "agents/a/logs?lines=5001",
            "lines is 5001; write 1 to 5000".to_owned(),
        ),
    ] {
        let (status, answer) = send(front.ground(), "GET", &format!("/api/{path}"), "");
        assert_eq!(status, 422, "{path} {answer}");
        assert_eq!(answer["error"]["message"], told, "{path}");
    }
}

#[test]
fn a_duration_a_time_or_a_cost_is_told_by_its_field() {
    let long = "99999999999999999999s";
    let dear = "99999999999999999999";
    let cases = [
        (
            "session.recover",
            json!({"window": "1h30m"}),
            "window",
            "is not a duration",
        ),
        (
            "session.recover",
            json!({"window": long}),
            "window",
            "is too long",
        ),
        (
            "task.add",
            json!({"task": "t", "ttl": "soon"}),
            "ttl",
            "is not a duration",
        ),
        (
            "task.defer",
            json!({"task": "t", "until": "soon"}),
            "until",
            "is neither a time nor a duration",
        ),
        (
            "task.defer",
            json!({"task": "t", "until": long}),
            "until",
            "is too long",
        ),
        (
            "task.spend",
            json!({"task": "t", "cost": "1e3"}),
            "cost",
            "is not a cost",
        ),
        (
            "task.spend",
            json!({"task": "t", "cost": dear}),
            "cost",
            "is too large",
        ),
    ];
    for mut front in Front::all().into_iter().chain([Front::by_name()]) {
        for (operation, fields, field, told) in &cases {
            let Some(Err(error)) = front.call(operation, fields) else {
                continue;
            };
            let message = error["message"].as_str().unwrap();
            let starts = match front.name() {
                "cli" => {
                    message.starts_with("invalid value ")
                        && message.contains(&format!("--{field} "))
                }
                "library" => true,
                _ => message.starts_with(&format!("{field}: \"")),
            };
            assert!(
                starts && message.contains(told),
                "{} {operation}: {message}",
                front.name()
            );
        }
    }
}

#[test]
fn a_duration_or_a_time_of_a_route_is_told_by_its_field() {
    let front = Front::by_name();
    let agents = "/api/agents";
    for (method, path, body, told) in [
        (
            "POST",
            agents,
            json!({"name": "b", "silence_max": "soon"}),
            "silence_max: \"soon\"",
        ),
        (
            "POST",
            "/api/agents/b/heartbeat",
            json!({"waiting_until": "soon"}),
            "waiting_until: \"soon\"",
        ),
        (
            "GET",
            "/api/attempts?since=soon",
            Value::Null,
            "since: \"soon\"",
        ),
    ] {
        let (status, answer) = send(front.ground(), method, path, &body.to_string());
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(
            status == 422 && message.starts_with(told),
            "{path} {answer}"
        );
    }
}

#[test]
fn a_payload_that_is_null_is_none() {
    for mut front in Front::all() {
        let add = json!({"task": "t", "payload": null});
        let Some(added) = front.call("task.add", &add) else {
            continue;
        };
        assert_eq!(added.unwrap()["payload"], Value::Null);
        let again = ["task", "add", "t", "--payload", "null"];
        assert_eq!(
            front.ground().json(&again)["outcome"],
            "unchanged",
            "{}",
            front.name()
        );
        let other = front.ground().call(&["task", "add", "t", "--payload", "1"]);
        assert_eq!(other.code, 1, "{}: {other:?}", front.name());
    }
}

#[test]
fn null_is_a_field_that_was_not_given() {
    let front = Front::by_name();
    let post = |path: &str, body: Value| send(front.ground(), "POST", path, &body.to_string());
    for (path, body, wanted) in [
        ("/api/agents", json!({"name": "bot", "skills": null}), 201),
        ("/api/recover", json!({"dry_run": null}), 200),
        ("/api/sessions/recover", json!({"dry_run": null}), 200),
        (
            "/api/sessions/s/begin",
            json!({"id": "s", "set": null}),
            200,
        ),
        (
            "/api/tasks",
            json!({"id": "t", "payload": null, "steps": null}),
            201,
        ),
        ("/api/tasks", json!({"id": null}), 422),
    ] {
        let (status, answer) = post(path, body);
        assert_eq!(status, wanted, "{path} {answer}");
    }
    let (status, answer) = post("/api/agents/bot/start", json!({"keep_running": null}));
    assert_ne!(status, 422, "{answer}");
}

/// A name that somebody gave by mistake is not printed, kept in logs or sent back.
#[test]
fn a_secret_that_was_given_as_a_name_is_not_told() {
    let secret = concat!("ghp", "_aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY2zA4");
    for mut front in Front::all().into_iter().chain([Front::by_name()]) {
        for (operation, fields) in [
            ("task.show", json!({"task": secret})),
            ("task.done", json!({"task": secret, "fence": 1})),
            ("session.show", json!({"session": secret})),
        ] {
            let Some(answer) = front.call(operation, &fields) else {
                continue;
            };
            let error = answer.expect_err("there is none");
            let (name, text) = (front.name(), error.to_string());
            assert_eq!(error["code"], "not_found", "{name} {text}");
            // A handle of the library is no text for people yet.
            assert!(name == "library" || !text.contains(secret), "{name} {text}");
        }
    }
}

#[test]
fn a_strategy_that_there_is_not() {
    let add = json!({"task": "t", "strategy": "nosuch"});
    refused(&[("task.add", add)], "invalid");
}

#[test]
fn a_touch_that_says_too_little_or_too_much() {
    refused(&[("session.touch", json!({"session": "s"}))], "invalid");
    let both = json!({"session": "s", "id": "x", "generation": 1});
    refused(&[("session.touch", both)], "invalid");
}

#[test]
fn nothing_that_is_set() {
    refused(
        &[start("t"), ("task.set", json!({"task": "t", "set": {}}))],
        "invalid",
    );
}

#[test]
fn marks_that_are_null_are_damaged() {
    refused(&[("session.import", json!({"marks": null}))], "damaged");
}

#[test]
fn a_request_that_cannot_be_is_told_before_its_task_is_looked_for() {
    let block = json!({"task": "nosuch", "reason": ""});
    refused(&[("task.block", block)], "invalid");
    let skip = json!({"task": "nosuch", "step": "s", "reason": ""});
    refused(&[("step.skip", skip)], "invalid");
    let ground = Ground::new();
    let mut client = Client::new(&ground.stage, Speaks::Alone);
    let told = client.call("task_done", &json!({"task": "nosuch", "force": "yes"}));
    assert_eq!(told["code"], "invalid", "{told}");
    let told = client.call("task_done", &json!({"task": 5}));
    let wanted = "task: invalid type: integer `5`, expected a string";
    assert_eq!(told["message"], wanted);
}

#[test]
fn a_step_that_is_declared_twice_is_one() {
    for mut front in Front::all() {
        let declared = json!({"task": "t", "steps": ["a", "b", "a"]});
        for _ in 0..2 {
            let Some(answer) = front.call("task.start", &declared) else {
                continue;
            };
            drop(answer);
        }
        let shown = front.ground().json(&["task", "show", "t"]);
        assert_eq!(
            shown["steps_declared"],
            json!(["a", "b"]),
            "{}",
            front.name()
        );
    }
}

fn all(front: &mut Front, story: &[(&str, Value)]) -> Vec<Option<Answer>> {
    let calls = story
        .iter()
        .map(|(operation, fields)| front.call(operation, fields));
    calls.collect()
}

#[test]
fn the_end_of_a_step_is_said_twice() {
    for failed in [false, true] {
        let step = json!({"task": "t", "step": "s", "occurrence": 2, "fence": 1});
        let mut end = step.clone();
        end["failed"] = json!(failed);
        let story = [
            start("t"),
            ("step.begin", step),
            ("step.end", end.clone()),
            ("step.end", end),
        ];
        for mut front in Front::all() {
            if front.name() == "library" {
                continue;
            }
            let mut told = all(&mut front, &story);
            let again = told.pop().flatten().unwrap();
            let first = told.pop().flatten().unwrap();
            assert_eq!(again, first, "{} {failed}", front.name());
            assert!(again.is_ok(), "{} {failed}: {again:?}", front.name());
            let ends = front.journal();
            let ends = ends
                .iter()
                .filter(|event| event.contains("\"outcome\"") || event.starts_with("step."));
            assert_eq!(ends.count(), 2, "{} {failed}", front.name());
        }
    }
}

#[test]
fn hints_name_the_occurrence_of_a_step() {
    let step = json!({"task": "t", "step": "v", "occurrence": 2, "fence": 1});
    let mut skip = step.clone();
    skip["reason"] = json!("x");
    for mut front in Front::all() {
        if front.is_for_models() || front.name() == "library" {
            continue;
        }
        let story = [
            start("t"),
            ("step.end", step.clone()),
            ("step.begin", step.clone()),
            ("step.skip", skip.clone()),
        ];
        let told = all(&mut front, &story);
        let hint = |call: usize| {
            let error = told[call].clone().unwrap().unwrap_err();
            error["hint"].as_str().unwrap().to_owned()
        };
        assert_eq!(
            hint(1),
            "relight step begin v --occurrence 2 --task t first"
        );
        let wanted = "relight step end v --occurrence 2 --task t, or \
                      relight step resolve v --occurrence 2 --task t --happened (or --did-not)";
        assert_eq!(hint(3), wanted, "{}", front.name());
    }
}

#[test]
fn work_on_a_task_that_has_ended_says_only_that() {
    let done = ("task.done", json!({"task": "t", "fence": 1, "force": true}));
    for late in [
        ("task.set", json!({"task": "t", "set": {"k": "v"}})),
        ("task.spend", json!({"task": "t", "turns": 1})),
        (
            "step.skip",
            json!({"task": "t", "step": "a", "reason": "x"}),
        ),
        ("step.end", json!({"task": "t", "step": "a"})),
    ] {
        for mut front in Front::all() {
            let told = all(&mut front, &[start("t"), done.clone(), late.clone()]);
            let Some(Some(answer)) = told.last() else {
                continue;
            };
            let error = answer.clone().unwrap_err();
            let told = &error["message"];
            assert_eq!(
                told,
                "task t is completed: it has ended",
                "{} {}",
                front.name(),
                late.0
            );
        }
        refused(&[start("t"), done.clone(), late], "ended");
    }
}

#[test]
fn a_retry_beyond_the_limit() {
    let story = [
        ("task.start", json!({"task": "t", "max_retries": 0})),
        ("task.fail", json!({"task": "t", "fence": 1, "reason": "x"})),
    ];
    for mut front in Front::all() {
        let mut told = all(&mut front, &story);
        told.push(front.call("task.retry", &json!({"task": "t"})));
        let Some(Some(answer)) = told.last() else {
            continue;
        };
        let error = answer.clone().unwrap_err();
        let told = (&error["code"], &error["message"]);
        let message = json!("task t has no retry left: 0 of 0 are used");
        if front.name() != "library" {
            assert_eq!(told, (&json!("used_up"), &message), "{}", front.name());
        }
    }
}

#[test]
fn a_session_that_was_resumed_has_no_reason_left() {
    for mut front in Front::all() {
        let named = json!({"session": "s"});
        let mut suspend = named.clone();
        suspend["reason"] = json!("waits for Ann");
        let mut begin = named.clone();
        begin["id"] = json!("c");
        let mut end = named.clone();
        end["generation"] = json!(1);
        let story = [
            ("session.begin", begin),
            ("session.end", end),
            ("session.suspend", suspend),
            ("session.resume", named),
        ];
        let told = all(&mut front, &story);
        let Some(Some(Ok(resumed))) = told.last() else {
            continue;
        };
        assert_eq!(resumed["reason"], Value::Null, "{}", front.name());
    }
}
